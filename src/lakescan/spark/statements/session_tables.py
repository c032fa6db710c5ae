"""Delta and Iceberg tables in Spark's own catalog, in the sessions that `lakescan.spark.enable` enabled for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from lakescan.statements.syntax.grammar import TableStatement
from lakescan.statements.syntax.tables_and_views import CloneOf, CreateTable
from lakescan.statements.syntax.text import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakescan.catalogs.views import StoredView

_FORMATS = ("delta", "iceberg")
SAME = "same"  # the format of a table that is like one of Spark's own catalog
_find: list[Callable[[Any, Sequence[str], bool], tuple[str, ...] | None]] = []
_find_new: list[Callable[[Any, Sequence[str], str | None], tuple[str, ...] | None]] = []
_find_view: list[Callable[[Any, Sequence[str]], StoredView | None]] = []


def set_finders(
    find: Callable[[Any, Sequence[str], bool], tuple[str, ...] | None],
    find_new: Callable[[Any, Sequence[str], str | None], tuple[str, ...] | None],
    find_view: Callable[[Any, Sequence[str]], StoredView | None],
) -> None:
    """Set the functions that find tables and views, and choose new ones, in Spark's own catalog.

    Args:
        find: Takes the session, the parts of a name, and whether to find views, too; returns the full name.
        find_new: Takes the session, the parts of a name, and a format; returns the full name.
        find_view: Takes the session and the parts of a name; returns a view over Iceberg tables.
    """
    _find[:], _find_new[:], _find_view[:] = [find], [find_new], [find_view]


def stored_view(spark: SparkSession, parts: Sequence[str]) -> StoredView | None:
    """Return a view of Spark's own catalog that reads its Iceberg tables; None for any other name."""
    return _find_view[0](spark, parts) if _find_view else None


def full_name(spark: SparkSession, parts: Sequence[str], *, with_views: bool = False) -> tuple[str, ...] | None:
    """Return the full name of a lakescan table in Spark's own catalog; None for any other name.

    With `with_views`, also that of a view that reads one.
    """
    return _find[0](spark, parts, with_views) if _find else None


def qualify_target(spark: SparkSession, name: TableName) -> TableName | None:
    """Return the name of a lakescan table in Spark's own catalog with catalog and database; None for any other name."""
    full = full_name(spark, name.parts)
    return None if full is None else replace(name, parts=full)


def qualify_statement(spark: SparkSession, statement: TableStatement) -> tuple[TableStatement, bool]:
    """Write the names of lakescan's tables in Spark's own catalog in full.

    Returns:
        The statement, and whether it is about such a table, or creates one.
    """
    if not _find:
        return statement, False
    changes: dict[str, Any] = {}
    for field in fields(statement):
        value = getattr(statement, field.name)
        if isinstance(value, TableName) and not (isinstance(statement, CreateTable) and field.name == "table"):
            if (found := qualify_target(spark, value)) is not None:
                changes[field.name] = found
        elif isinstance(value, CloneOf) and (found := qualify_target(spark, value.table)) is not None:
            changes[field.name] = replace(value, table=found)
    is_own = not changes.keys().isdisjoint(("table", "view", "name"))
    if isinstance(statement, CreateTable):
        full = _find_new[0](spark, statement.table.parts, _format(statement, changes))
        if full is not None:
            changes["table"], is_own = replace(statement.table, parts=full), True
    return (replace(statement, **changes) if changes else statement), is_own


def _format(wanted: CreateTable, qualified: dict[str, Any]) -> str | None:
    """Return the format of a new table: after USING, or that of the table that it is like; empty if none is named."""
    if wanted.format is not None:
        return wanted.format
    source = wanted.like if wanted.clone is None else wanted.clone.table
    if source is not None:
        if source.parts[0].lower() in _FORMATS and len(source.parts) == 2:
            return source.parts[0].lower()
        found = qualified.get("like") or qualified.get("clone")
        return None if found is None else SAME
    return ""
