"""CREATE TABLE ... SHALLOW CLONE: a Delta table of another one's files."""

from __future__ import annotations

from typing import Any

from lakescan.api.open import open_table
from lakescan.api.table import Table
from lakescan.catalogs.formats import format_at
from lakescan.errors import InvalidStatement, NoSuchTable, TableExists
from lakescan.options.read import ReadOptions
from lakescan.statements.syntax.create_table import CloneOf, CreateTable
from lakescan.statements.tables.context import Context
from lakescan.statements.tables.names import NewName, opened
from lakescan.storage import Storage


def clone_table(wanted: CreateTable, clone: CloneOf, name: NewName, context: Context) -> Table:
    """Make the clone, and open it; raises `TableExists`, `NoSuchTable`, and what `Table.clone` raises."""
    unused = (wanted.format, wanted.partition_by, wanted.order, wanted.cluster_by, wanted.comment, wanted.query)
    if any(unused):
        raise InvalidStatement(
            "a clone has the columns and layout of its source: only TBLPROPERTIES and LOCATION follow"
        )
    source = opened(clone.table, context)
    state: dict[str, Any] = {} if clone.state is None else {"timestamp": clone.state.timestamp}
    if clone.state is not None and clone.state.version is not None:
        state["version"] = int(clone.state.version)
    if not wanted.creates and not _is_there(name):
        raise NoSuchTable(f"{name.name} does not exist: CREATE OR REPLACE TABLE makes it")
    if name.catalog is not None:
        return name.catalog.clone_table(
            name.name,
            source,
            properties=wanted.properties,
            location=wanted.location,
            exist_ok=wanted.if_not_exists,
            replace=wanted.replaces,
            **state,
        )
    if wanted.location is not None and wanted.location != name.name:
        raise InvalidStatement(f"the clone is named by its folder, {name.name}: leave LOCATION out")
    is_there = _is_there(name)
    if is_there and not (wanted.if_not_exists or wanted.replaces):
        raise TableExists(
            f"there is a table at {name.name}: CREATE OR REPLACE TABLE replaces it, CREATE TABLE IF NOT EXISTS keeps it"
        )
    if not is_there or wanted.replaces:
        source.clone(name.name, properties=wanted.properties, replace=wanted.replaces, **state)
    return open_table(name.name, ReadOptions.of({"format": "delta"}))


def _is_there(name: NewName) -> bool:
    if name.catalog is not None:
        return name.catalog.table_exists(name.name)
    return format_at(name.name, Storage({})) is not None
