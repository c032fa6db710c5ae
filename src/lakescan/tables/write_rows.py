"""Rows written to a table in one commit: appended, overwritten, or together with the table that they create."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from lakescan.definition.table_definition import TableDefinition, assign_ids
from lakescan.errors import CommitStateUnknown
from lakescan.expressions.predicate import Predicate
from lakescan.options.write import WriteOptions
from lakescan.storage.removal import discard
from lakescan.tables.base import Format, NewTable, Target
from lakescan.tables.capabilities import KeyUpserts, find_capability, require
from lakescan.tables.commit_files import append, check_fit, overwrite, prepare_target, upsert, write_result
from lakescan.tables.results import WriteResult
from lakescan.tables.rows import Rows
from lakescan.tables.scan_spec import as_predicate
from lakescan.writing.parquet_writer import new_write_id
from lakescan.writing.table_writes import WrittenFile

_LOG = logging.getLogger("lakescan")


def fill_columns(definition: TableDefinition, rows: Rows, format: Format) -> TableDefinition:
    """The definition with the columns of rows, if it has none."""
    if definition.columns:
        return definition
    return replace(definition, columns=assign_ids(format.columns(rows.schema, definition.properties)))


def create_in_folder(
    location: str,
    definition: TableDefinition,
    rows: Rows,
    format: Format,
    options: WriteOptions = WriteOptions(),  # noqa: B008
    storage_options: Mapping[str, Any] = MappingProxyType({}),
) -> WriteResult:
    """Create a table in a folder with rows, in one commit; its columns are theirs if the definition has none.

    Raises `CreatedConcurrently` if one is there, and what `create_with` raises.
    """
    options.check_appends()
    options.check_new_table()
    whole = fill_columns(definition, rows, format)
    return create_with_rows(format.new_table_at(location, whole, options, storage_options), rows)


def create_with_rows(new: NewTable, rows: Rows, where: Predicate | None = None) -> WriteResult:
    """Write the rows, and make the table with them in one commit.

    If anything fails, there is no table, and its files are removed; unless the outcome of the commit is unknown.
    Raises `SchemaMismatch` for rows that do not fit its columns, or do not match `where`, and what its commit raises.
    """
    check_fit(new.writes, rows.schema)
    write_id = new_write_id()
    try:
        files = rows.write(new.writes, write_id, where)
    except BaseException:
        if new.is_new:
            remove_task_files(new, write_id)
        raise
    return commit_new_table(new, files)


def commit_new_table(new: NewTable, files: Sequence[WrittenFile]) -> WriteResult:
    """Make the table with files; they are removed if it provably was not made."""
    try:
        new.commit(files)
    except CommitStateUnknown:
        raise
    except Exception:
        discard(new.writes.storage, [each.location for each in files], new.referenced_locations)
        raise
    return write_result(files)


def remove_task_files(new: NewTable, write_id: str) -> None:
    """Remove what tasks have written that ended before another one failed."""
    writes = new.writes
    try:
        locations = writes.storage.find(writes.data_folder, write_id)
    except Exception as error:
        _LOG.warning("files named *%s* in %s may be left over: %s", write_id, writes.data_folder, error)
        return
    discard(writes.storage, locations, new.referenced_locations)


def append_rows(target: Target, rows: Rows, options: WriteOptions) -> WriteResult:
    """Append rows in one commit; do nothing if the transaction of the options was already committed.

    In a table whose properties say so (`KeyUpserts.append_keys`), rows replace those with their keys, and the last of
    several rows with the same key counts.
    """
    if target.has_committed():
        return WriteResult(0, 0, 0)
    options.check_appends()
    keyed = find_capability(target, KeyUpserts)
    keys = None if keyed is None else keyed.append_keys()
    target = prepare_target(target, rows.schema, options)
    if keys is not None:
        of_keys = require(target, KeyUpserts).key_writes(keys)
        written = rows.write_newest(target.writes, of_keys, new_write_id())
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
