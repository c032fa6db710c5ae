"""The row changes of `Table`: delete, update, merge and upsert."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakescan.api.scan import Scan
from lakescan.api.table import Table
from lakescan.common import types as t
from lakescan.common.executors import PlanningExecutor
from lakescan.common.references import backquote
from lakescan.errors import AmbiguousMerge, InvalidOption, QueryFailed, UnsupportedFeature
from lakescan.expressions.predicate import Predicate
from lakescan.statements.rows.change_query import TARGET
from lakescan.statements.rows.execute import change, hold_stream
from lakescan.statements.rows.merge import SOURCE, MergeBuilder, assignments_of, merge_of
from lakescan.statements.rows.upserts import StoredKeys, check_keys, upsert_by_equality
from lakescan.statements.select.query import columns_of, query
from lakescan.statements.select.session import arrow_table
from lakescan.statements.syntax.dml import Clause, Delete, MergeAction, Update, When
from lakescan.statements.syntax.text import Sql, TableName
from lakescan.tables.base import Target
from lakescan.tables.results import ChangeResult

_EVERY = (
    Clause(When.MATCHED, MergeAction.UPDATE, None, None),
    Clause(When.NOT_MATCHED, MergeAction.INSERT, None, None),
)


def delete(target: Target, where: str | Predicate | None, executor: PlanningExecutor | None = None) -> ChangeResult:
    """Delete the rows of a target that match a condition, or all rows if it is None. See `Table.delete`."""
    condition, given = _condition(where)
    return change(target, Delete(_anonymous_name(target), condition), {}, executor=executor, of_sql=False, given=given)


def update(target: Target, values: Mapping[str, str], where: str | Predicate | None) -> ChangeResult:
    """Update the rows of a target that match a condition, or all rows if it is None. See `Table.update`."""
    condition, given = _condition(where)
    return change(target, Update(_anonymous_name(target), assignments_of(values), condition), {}, given=given)


def _condition(where: str | Predicate | None) -> tuple[Sql | None, Predicate | None]:
    """Return a condition as SQL text and None, or None and a predicate; two None without a condition."""
    return (None, where) if isinstance(where, Predicate) else (None if where is None else Sql(where), None)


def _anonymous_name(target: Target) -> TableName:
    """Return the name `t` for the target, or a reserved name if a column is called `t`."""
    is_taken = any(name.lower() == "t" for name in target.writes.schema.names)
    return TableName((TARGET if is_taken else "t",))


def merge(
    run: Callable[[Callable[[Target], ChangeResult]], ChangeResult],
    source: Any,
    on: str,
    source_alias: str,
    target_alias: str,
) -> MergeBuilder:
    """Return a MERGE builder. `run` opens the table when the MERGE is executed. See `Table.merge`."""
    statement = merge_of(on, target_alias, source_alias)
    return MergeBuilder(statement, lambda found: run(lambda target: change(target, found, {SOURCE: source})))


def upsert(target: Target, rows: Any, keys: Sequence[str] | None, mode: str | None = None) -> ChangeResult:
    """Update rows by keys, and insert the others. See `Table.upsert`."""
    names = keys_of(target, keys)
    if target.has_committed():
        return ChangeResult()
    if mode == "equality":
        return _upsert_by_equality(target, rows, names)
    source = hold_stream("rows", rows)
    columns, ansi = _columns_of(source)
    stored = StoredKeys.build(target, columns, names, ansi=ansi)
    try:
        _check_keys(target, source, stored)
        _check_unique(target, source, stored.source(SOURCE), names)
    except QueryFailed as error:
        raise QueryFailed(f"upsert into {target.name}: {stored.description}: {error}") from error
    on = " AND ".join(f"t.{backquote(name)} = s.{backquote(name)}" for name in names)
    statement = replace(merge_of(on, "t", "s"), source=Sql(stored.source(SOURCE)), clauses=_EVERY)
    return change(target, statement, {SOURCE: source})


def _upsert_by_equality(target: Target, rows: Any, keys: Sequence[str]) -> ChangeResult:
    if hasattr(rows, "sparkSession"):
        raise UnsupportedFeature(
            "Table.upsert of a Spark frame with upsert-mode=equality", "Use lakescan.spark.upsert_sink(...)(frame)."
        )
    source = rows.scan() if isinstance(rows, Table) else rows
    table = source.to_arrow() if isinstance(source, Scan) else arrow_table("rows", source)
    of_keys = check_keys(table, keys, target.name)
    stored = StoredKeys.build(target, _columns_of(table)[0], keys, ansi=True)
    _check_keys(target, table, stored)
    _check_unique(target, table, stored.source(SOURCE), of_keys)
    return upsert_by_equality(target, table, keys)


def _columns_of(rows: Any) -> tuple[dict[str, t.Type], bool]:
    """Return the columns of a source with their types in Spark, and whether its engine's casts fail on errors."""
    if hasattr(rows, "sparkSession"):
        from lakescan.spark.statements.names import columns_of as columns_on_spark

        columns, ansi = columns_on_spark(rows)
        return columns, ansi
    return dict(columns_of(query(f"SELECT * FROM `{SOURCE}`", None, {SOURCE: rows}, ()))), True


def _query_rows(rows: Any, text: str) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries.

    The query names the source `SOURCE`; Spark runs it for a Spark frame.
    """
    if hasattr(rows, "sparkSession"):
        from lakescan.spark.statements.sql import run_sql

        frame: Any = run_sql(rows.sparkSession, text, None, **{SOURCE: rows})
        table = frame.toArrow()
    else:
        table = query(text, None, {SOURCE: rows}, ()).to_arrow()
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def _check_keys(target: Target, rows: Any, stored: StoredKeys) -> None:
    """Raise `SchemaMismatch` for a key that would be stored as another value, which could be an existing row's key.

    `rows` is the source, and `stored` has the keys that are converted when they are stored.
    """
    text = stored.change_query(SOURCE)
    if text is None:
        return
    found = _query_rows(rows, text)
    if found:
        stored.refuse(target.name, found[0])


def _check_unique(target: Target, rows: Any, source: str, keys: Sequence[str]) -> None:
    """Raise `AmbiguousMerge` if several of the new rows have the same keys, as they are stored. Null keys are ignored.

    `source` is the FROM item of the rows, from `StoredKeys.source`.
    """
    columns = ", ".join(backquote(name) for name in keys)
    filled = " AND ".join(f"{backquote(name)} IS NOT NULL" for name in keys)
    found = _query_rows(
        rows,
        f"SELECT {columns}, count(*) AS `__lakescan_count` FROM {source} WHERE {filled} GROUP BY {columns} "
        "HAVING count(*) > 1 LIMIT 1",
    )
    if found:
        *values, count = found[0].items()
        shown = ", ".join(f"{name} = {value!r}" for name, value in values)
        raise AmbiguousMerge(
            f"upsert into {target.name}: {count[1]:,} of the new rows have {shown}, and it is not defined which one to "
            "store. Nothing was changed. Keep one row for each key"
        )


def keys_of(target: Target, keys: Sequence[str] | None) -> list[str]:
    """Return the names of the key columns: `keys`, or else the table's identifier fields.

    Raises `InvalidOption` if there are neither, and `UnsupportedFeature` for an identifier field in a struct.
    """
    schema = target.scan.snapshot.schema
    if keys:
        return [schema.column(name).name for name in keys]
    names = [schema.path_of[each] for each in schema.identifier_ids]
    if not names:
        raise InvalidOption(
            f"{target.name} has no identifier fields (primary key): pass the columns that identify a row, keys=[...]"
        )
    if nested := [name for name in names if name not in schema.names]:
        raise UnsupportedFeature(f"upserts by the member {nested[0]!r} of a struct", "Use merge.")
    return names
