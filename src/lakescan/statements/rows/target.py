"""Open the table that a statement changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lakescan.api.open import open_table
from lakescan.api.table import Table
from lakescan.catalogs.registry import catalog_names, is_known
from lakescan.common.identifiers import Identifier
from lakescan.errors import InvalidStatement, LakescanError, NoSuchNamespace, NoSuchTable, nearest
from lakescan.expressions.predicate import TRUE
from lakescan.options.read import ReadOptions
from lakescan.options.session_settings import NO_SESSION, SessionSettings
from lakescan.options.write import WriteOptions
from lakescan.statements.select.table_resolution import FORMATS
from lakescan.statements.syntax.text import TableName, underline_place
from lakescan.tables.base import Target

_BRANCH, _TAG = "branch_", "tag_"
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ChangedTable:
    """A table to change, and the write options that its name implies.

    The name `t.branch_audit` implies the branch `audit`. `session` holds the session's settings for staging rows
    (write-audit-publish).
    """

    table: Table
    options: Mapping[str, Any]
    session: SessionSettings = NO_SESSION

    def run(self, options: Mapping[str, Any], change: Callable[[Target, WriteOptions], _Result]) -> _Result:
        """Run a change on the table in its current snapshot.

        Args:
            options: Further write options.
            change: Makes the change.
        """
        try:
            return self.table.written_by({**self.options, **options}, change, self.session)
        except LakescanError as error:
            error.table_format = error.table_format or self.table.format
            raise


def changed_table(
    name: TableName, within: tuple[str, ...], frames: Mapping[str, Any], text: str | None = None
) -> ChangedTable:
    """Open the table of a statement.

    Args:
        name: The table's name in the statement.
        within: The catalog and namespace of short names.
        frames: Tables that the user passed by name.
        text: The statement, for messages.

    Raises:
        NoSuchTable, NoSuchNamespace: The table does not exist. The message underlines the name.
        InvalidStatement: The name refers to data that cannot be changed.

    Example:
        >>> changed_table(TableName(("shop", "orders")), ("local",), {}).table.append(rows)
    """
    parts = name.parts
    given = {each.lower(): frame for each, frame in frames.items()}.get(parts[0].lower())
    if given is not None and len(parts) == 1:
        if not isinstance(given, Table):
            raise InvalidStatement(f"{parts[0]} is {type(given).__name__}, not a table: its rows cannot be changed")
        return ChangedTable(given, {})
    try:
        return _table_at_path(parts) if _is_path(parts) else _catalog_table(parts, within)
    except (NoSuchTable, NoSuchNamespace) as error:
        place = "" if text is None else underline_place(text, name.start, name.end)
        raise type(error)(f"{error}{place}") from error


def names_table(name: TableName, within: tuple[str, ...], frames: Mapping[str, Any]) -> bool:
    """Return whether a name can only mean a lakescan table.

    This holds for a path, a name in a known catalog, the name of passed data, and any name if `within`, the current
    catalog and namespace, is set.

    Example:
        >>> names_table(TableName(("local", "shop", "orders")), (), {})
        True
    """
    parts = name.parts
    is_given = len(parts) == 1 and parts[0].lower() in {each.lower() for each in frames}
    return is_given or _is_path(parts) or (len(parts) > 1 and is_known(parts[0])) or bool(within)


def _is_path(parts: tuple[str, ...]) -> bool:
    return parts[0].lower() in FORMATS and (len(parts) == 2 or (len(parts) == 3 and not is_known(parts[0])))


def _table_at_path(parts: tuple[str, ...]) -> ChangedTable:
    table = open_table(parts[1], ReadOptions.parse({"format": parts[0].lower()}))
    spec = table.scan().spec
    if spec.selector is not None or spec.condition != TRUE:  # /table@v3, /table/date=2026-01-31
        raise InvalidStatement(
            f"{parts[1]} is one version or partition of a table: its rows cannot be changed. Name the table itself"
        )
    return _branch_table(table, parts[2], parts) if len(parts) > 2 else ChangedTable(table, {})


def _catalog_table(parts: tuple[str, ...], within: tuple[str, ...]) -> ChangedTable:
    if len(parts) > 2 and is_known(parts[0]):
        candidates = [parts]
    elif within:
        candidates = [(*within, *parts)] if len(parts) == 1 else [(within[0], *parts), (*within, *parts)]
    else:
        hint = nearest(parts[0], catalog_names())
        raise NoSuchTable(
            f"there is no table {'.'.join(parts)!r}.{hint} Tables are named catalog.namespace.table (see "
            "lakescan.catalog), iceberg.`path` or delta.`path`; short names need USE."
        )
    missing: Exception | None = None
    for full in candidates:
        for names, branch in ((full, None), (full[:-1], full[-1])):
            if len(names) < 3 or (branch is not None and not branch.lower().startswith((_BRANCH, _TAG))):
                continue
            try:
                table = open_table(Identifier(names[0], names[1:-1], names[-1]), ReadOptions.parse({}))
            except (NoSuchTable, NoSuchNamespace) as error:
                missing = missing or error
            else:
                return ChangedTable(table, {}) if branch is None else _branch_table(table, branch, parts)
    raise missing or NoSuchTable(f"there is no table {'.'.join(parts)!r}: tables are named catalog.namespace.table")


def _branch_table(table: Table, part: str, parts: tuple[str, ...]) -> ChangedTable:
    """Return a table with an existing branch to change. A mistyped name creates no branch.

    `part` is the last part of the name, `parts` the whole name. Raises `InvalidStatement` for a tag, `NoSuchTable` for
    another part, and the error of reading a missing branch.
    """
    if part.lower().startswith(_TAG):
        raise InvalidStatement(f"{'.'.join(parts)} is a tag, whose snapshot never changes. Write to a branch")
    if not part.lower().startswith(_BRANCH):
        raise NoSuchTable(f"{part!r} is not a branch: rows can be changed in a table or in table.branch_<name>")
    branch = part[len(_BRANCH) :]
    table.scan().as_of(branch=branch).spec.snapshot  # noqa: B018  raises an error for a branch that does not exist
    return ChangedTable(table, {"branch": branch})
