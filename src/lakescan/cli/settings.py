"""The options that every command takes (`--json`, `--storage-option`), and functions that read their values."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, get_type_hints

import typer

from lakescan.cli.arguments import pairs

TablePath = Annotated[
    str, typer.Argument(help="Table folder or URI, Iceberg metadata JSON file, or catalog.namespace.table.")
]
TableName = Annotated[str, typer.Argument(help="catalog.namespace.table, or a Delta table's folder.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Version = Annotated[int | None, typer.Option(help="A version (Delta) or snapshot id (Iceberg).")]
Timestamp = Annotated[str | None, typer.Option(help="The table as of that time, such as 2026-01-31T12:00 (UTC).")]

_Json = Annotated[bool, typer.Option("--json", help="Print JSON: one object per line.")]
_StorageOption = Annotated[
    list[str] | None,
    typer.Option("--storage-option", help="A setting of the table's storage, name=value; may be repeated."),
]
_AS_JSON: ContextVar[bool] = ContextVar("as_json", default=False)
_STORAGE: ContextVar[list[str] | None] = ContextVar("storage_options", default=None)


class Section(typer.Typer):
    """A group of commands that `lakescan --help` shows under the heading `title`."""

    def __init__(self, title: str, **more: Any) -> None:
        super().__init__(**more)
        self.title = title


def command(
    app: Section, name: str, *, opens: bool = True, aliases: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds a function to `app` as the command `name` and its `aliases`, with `--json`.

    If the command `opens` a table, it also takes `--storage-option`.
    """

    def register(run: Callable[..., None]) -> Callable[..., None]:
        function = _add_options(run, opens=opens)
        panel = app.title
        app.command(name, rich_help_panel=panel)(function)
        for alias in aliases:
            app.command(alias, help=f"The same as `{name}`.", rich_help_panel=panel)(function)
        return run

    return register


def _add_options(run: Callable[..., None], *, opens: bool) -> Callable[..., None]:
    hints = get_type_hints(run, include_extras=True)
    own = [each.replace(annotation=hints[each.name]) for each in inspect.signature(run).parameters.values()]
    more = [("as_json", _Json, False)] + ([("storage_option", _StorageOption, None)] if opens else [])
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(name, kind, default=default, annotation=hint) for name, hint, default in more]

    @functools.wraps(run)
    def command(**given: Any) -> None:
        _AS_JSON.set(given.pop("as_json"))
        _STORAGE.set(given.pop("storage_option", None))
        run(**given)

    parameters = [each.replace(kind=kind) for each in own] + added
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {**hints, **{each.name: each.annotation for each in added}}
    return command


def wants_json() -> bool:
    """Return whether the running command was given `--json`."""
    return _AS_JSON.get()


def storage_options() -> dict[str, str] | None:
    """Return the settings of `--storage-option`, or None without any; raises `InvalidOption` for one without `=`."""
    usage = "storage options are written name=value, e.g. --storage-option region=eu-west-1"
    return dict(pairs(_STORAGE.get(), usage)) or None
