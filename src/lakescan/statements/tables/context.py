"""The context that a statement runs in: the meaning of names, and the engine that runs its queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakescan.api.catalog import Catalog
from lakescan.api.changes import Changes
from lakescan.api.table import Table
from lakescan.catalogs.registry import catalog_names, is_known
from lakescan.common.executors import PlanningExecutor
from lakescan.common.identifiers import dotted_name
from lakescan.errors import InvalidStatement, NoSuchCatalog, nearest
from lakescan.statements.procedures import SourceTable
from lakescan.statements.rows.target import changed_table
from lakescan.statements.select.table_resolution import FORMATS
from lakescan.statements.syntax.text import TableName, underline_place


@dataclass(frozen=True)
class StatementContext:
    """The text of a statement, and the context that it runs in.

    - `within`: the catalog and namespace of short names.
    - `rows`: runs an SQL query, and returns its rows in a form that writers accept.
    - `frames`: tables and rows that the user passed by name.
    - `executor`: runs the reading and writing of files; threads of this process if it is None.
    - `make_view`: creates a temporary view of changes by name, if the engine has temporary views.
    - `source_table`: describes a table of the engine's own catalog by name, if the engine has one.
    - `ignore_retention`: returns why VACUUM may delete files within the retention; None if it may not.
    - `temporary`: returns whether a short name exists only in the session, such as a temporary view.
    """

    text: str
    within: tuple[str, ...]
    rows: Callable[[str], Any]
    frames: Mapping[str, Any] = field(default_factory=dict)
    executor: PlanningExecutor | None = None
    make_view: Callable[[str, Changes], None] | None = None
    source_table: Callable[[str], SourceTable] | None = None
    temporary: Callable[[str], bool] = lambda name: False
    ignore_retention: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class NewName:
    """The name of a table to create: a name in a catalog, or a folder with a format if `catalog` is None."""

    catalog: Catalog | None
    name: str
    format: str | None = None


def find_table(name: TableName, context: StatementContext) -> Table:
    """Open the table that a statement names.

    Raises `NoSuchTable`, `NoSuchNamespace`, and `InvalidStatement` for a branch or data that is not a table. The
    message underlines the name.
    """
    found = changed_table(name, context.within, context.frames, context.text)
    if found.options:
        raise InvalidStatement(
            f"{'.'.join(name.parts)} is a branch: name the table without it"
            f"{underline_place(context.text, name.start, name.end)}"
        )
    return found.table


def new_name(name: TableName, context: StatementContext) -> NewName:
    """Resolve the name of a table to create, drop or rename, which need not exist.

    Raises `NoSuchCatalog` for an unknown catalog, and `InvalidStatement` for a name without a namespace.
    """
    parts = name.parts
    if len(parts) == 2 and parts[0].lower() in FORMATS and not is_known(parts[0]):
        return NewName(None, parts[1], parts[0].lower())
    full = _full_name(parts, context.within, 3)
    if full is None:
        raise _name_error(parts, context, name, "catalog.namespace.table")
    return NewName(Catalog(full[0]), dotted_name(full[1:]))


def new_name_within(catalog: Catalog, name: TableName, context: StatementContext) -> str:
    """Resolve the new name of a table or view of `catalog`, and return it without the catalog.

    Raises `InvalidStatement` for a name in another catalog or a folder.
    """
    new = new_name(name, replace(context, within=(catalog.name,)))
    if new.catalog is None or new.catalog.name != catalog.name:
        raise InvalidStatement(f"{'.'.join(name.parts)} is in another catalog: the new name must be in {catalog.name}")
    return new.name


def namespace(parts: tuple[str, ...] | None, context: StatementContext, *, least: int = 1) -> tuple[Catalog, str]:
    """Return the catalog and the dotted name of a namespace; for None, those that USE set.

    The dotted name is empty for a catalog, which only `least=0` accepts. Raises `NoSuchCatalog`, and `InvalidStatement`
    if the name is too short or USE was not run.
    """
    full = context.within if parts is None else _full_name(parts, context.within, 2)
    if not full:
        if parts is None:
            raise InvalidStatement("no namespace is given: name a catalog or catalog.namespace, or run USE first")
        raise _name_error(parts, context, None, "catalog.namespace")
    if len(full) <= least:
        raise InvalidStatement(f"{'.'.join(full)} is a catalog: name a namespace of it")
    return Catalog(full[0]), dotted_name(full[1:])


def _full_name(parts: tuple[str, ...], within: tuple[str, ...], length: int) -> tuple[str, ...] | None:
    """Return a name with its catalog, and a short table name with the namespace of USE; None if that is not possible.

    `within` is the catalog and namespace of USE. `length` is 3 for the name of a table, and 2 for that of a namespace.
    """
    if is_known(parts[0]) and (len(parts) >= length or not within or length == 2):
        return parts if len(parts) >= length or length == 2 else None
    if not within:
        return None
    if length == 3 and len(parts) == 1:
        return (*within, *parts) if len(within) > 1 else None
    return (within[0], *parts)


def _name_error(parts: tuple[str, ...], context: StatementContext, name: TableName | None, wanted: str) -> Exception:
    place = "" if name is None else underline_place(context.text, name.start, name.end)
    if is_known(parts[0]):
        return InvalidStatement(f"{'.'.join(parts)!r} is too short: write {wanted}{place}")
    if context.within:
        return InvalidStatement(
            f"{'.'.join(parts)!r} needs a namespace, and USE set only the catalog {context.within[0]!r}: write "
            f"{wanted}{place}"
        )
    names = catalog_names()
    return NoSuchCatalog(
        f"{'.'.join(parts)!r} does not begin with a known catalog.{nearest(parts[0], names)} "
        f"Known: {', '.join(names) or 'none'}; see lakescan.catalog.{place}"
    )
