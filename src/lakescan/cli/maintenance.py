"""The commands that write: create, compact, expire, clean up and checkpoint tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from lakescan.catalog import Catalog
from lakescan.cli.arguments import pairs
from lakescan.common.timestamps import as_moment
from lakescan.errors import InvalidOption
from lakescan.opening import table

app = typer.Typer(no_args_is_help=True)
console = Console(highlight=False, markup=False, emoji=False)

TableName = Annotated[str, typer.Argument(help="catalog.namespace.table, or a Delta table's folder.")]
Where = Annotated[str | None, typer.Option("--where", "-w", help="Only files that may have matching rows.")]
OlderThan = Annotated[str | None, typer.Option(help="A timestamp, such as 2026-01-31 or 2026-01-31T12:00:00.")]


@app.command()
def tables(
    catalog: Annotated[str, typer.Argument(help="Catalog name.")],
    namespace: Annotated[str | None, typer.Argument(help="List only this namespace.")] = None,
) -> None:
    """List the tables of a catalog."""
    opened = Catalog(catalog)
    for each in [namespace] if namespace else opened.list_namespaces():
        for name in opened.list_tables(each):
            console.print(f"{catalog}.{name}")


@app.command()
def compact(
    name: TableName,
    where: Where = None,
    strategy: Annotated[str | None, typer.Option(help="binpack, sort or zorder.")] = None,
    sort_order: Annotated[
        str | None, typer.Option(help="What to sort by, such as 'country, ts DESC'; by default the table's order.")
    ] = None,
    zorder_by: Annotated[str | None, typer.Option(help="The columns of a Z-order, separated by commas.")] = None,
    purge: Annotated[bool, typer.Option("--purge", help="Rewrite just all files that have deletes.")] = False,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="An option, such as delete-ratio-threshold=0.1 or rewrite-all=true."),
    ] = None,
) -> None:
    """Compact small files, apply their deletes, and sort their rows if asked to."""
    given: dict[str, Any] = {"strategy": strategy, "sort-order": sort_order, "zorder-by": zorder_by}
    if strategy is None and (sort_order or zorder_by):
        given["strategy"] = "zorder" if zorder_by else "sort"
    given = {key: value for key, value in given.items() if value is not None} | ({"purge": True} if purge else {})
    more: dict[str, Any] = dict(pairs(option, "options are written name=value, e.g. -o min-input-files=5"))
    console.print(str(table(name).compact(where=where, **given, **more)))


@app.command()
def rewrite_position_deletes(
    name: TableName,
    where: Where = None,
    rewrite_all: Annotated[bool, typer.Option("--rewrite-all", help="Whatever their sizes are.")] = False,
    min_input_files: Annotated[int, typer.Option(help="How many of a partition are enough.", min=1)] = 5,
) -> None:
    """Rewrite small files of position deletes of an Iceberg table; after an upgrade to version 3, as vectors."""
    result = table(name).rewrite_position_deletes(where=where, rewrite_all=rewrite_all, min_input_files=min_input_files)
    console.print(str(result))


@app.command()
def expire_snapshots(
    name: TableName,
    older_than: OlderThan = None,
    retain_last: Annotated[
        int | None, typer.Option(help="Newest snapshots of each branch to keep, whatever their age.", min=1)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
) -> None:
    """Expire old snapshots of an Iceberg table, by default by its properties; remove-orphans deletes their files."""
    console.print(str(table(name).expire_snapshots(_past(older_than), retain_last=retain_last, dry_run=dry_run)))


@app.command()
def remove_orphans(
    name: TableName,
    older_than: OlderThan = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    location: Annotated[str | None, typer.Option(help="Scan this folder instead of the table's own.")] = None,
) -> None:
    """Remove unreferenced files, by default older than 3 days (Iceberg), or a week or the table's retention (Delta)."""
    orphans = table(name).remove_orphans(older_than, dry_run=dry_run, location=location)
    for orphan in orphans:
        console.print(orphan, soft_wrap=True)
    console.print(str(orphans))


def _past(text: str | None) -> datetime | None:
    """Parse a timestamp; raises `InvalidOption` for one in the future."""
    timestamp = None if text is None else as_moment(text)
    if timestamp is not None and timestamp > datetime.now(UTC):
        raise InvalidOption(f"--older-than {text} is in the future")
    return timestamp


@app.command()
def rewrite_manifests(name: TableName) -> None:
    """Rewrite the manifests of an Iceberg table, sorted by partition."""
    console.print(str(table(name).rewrite_manifests()))


@app.command()
def checkpoint(name: TableName) -> None:
    """Write a checkpoint of a Delta table's newest version."""
    table(name).checkpoint()
    console.print("wrote a checkpoint")
