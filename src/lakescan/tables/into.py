"""Append rows to an existing table, or overwrite rows of it."""

from __future__ import annotations

from typing import Any

from lakescan.expressions.predicate import Predicate
from lakescan.options.write import WriteOptions
from lakescan.tables.base import Target
from lakescan.tables.results import WriteResult
from lakescan.tables.rows import Rows
from lakescan.tables.save import append, overwrite, prepare_target, upsert, write_result
from lakescan.tables.scan_spec import as_predicate
from lakescan.writing.partitioned_writer import new_write_id


def append_rows(target: Target, rows: Rows, options: WriteOptions) -> WriteResult:
    """Append rows in one commit; do nothing if the transaction of the options was already committed.

    In a table whose properties say so (`Target.append_keys`), rows replace those with their keys, and the last of
    several rows with the same key counts.
    """
    if target.has_committed():
        return WriteResult(0, 0, 0)
    options.check_appends()
    keys = target.append_keys()
    target = prepare_target(target, rows.schema, options)
    if keys is not None:
        written = rows.write_newest(target.writes, target.key_writes(keys), new_write_id())
        return write_result(written.files if upsert(target, written) else (), note=target.writes.note)
    return append(target, rows.write(target.writes, new_write_id(), None))


def overwrite_rows(
    target: Target,
    rows: Rows,
    options: WriteOptions,
    where: str | Predicate | None,
    *,
    reads_target: bool = False,
) -> WriteResult:
    """Overwrite rows in one commit: all rows, those that match `where`, or whole partitions; see `WriteOptions`.

    `reads_target`: the new rows are made from those of the target, so that a concurrent change of it is a conflict.
    """
    if target.has_committed():
        return WriteResult(0, 0, 0)
    condition: Any = options.replace_where if where is None else where
    predicate = None if condition is None else as_predicate(condition)
    options.check_overwrites(condition)
    target = prepare_target(target, rows.schema, options)
    files = rows.write(target.writes, new_write_id(), predicate)
    return overwrite(
        target,
        files,
        where=predicate,
        dynamic=options.is_dynamic,
        executor=rows.executor,
        retries=not reads_target,
    )
