"""Write rows to a table in one commit: append, overwrite, or create the table with them."""

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
    """Return the definition; if it has no columns, with those of the rows in the format's types."""
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
    """Create a table with rows in a folder, in one commit. Without columns in the definition, it has those of the rows.

    Raises `CreatedConcurrently` if the folder already has a table, and the errors of `create_with_rows`.
    """
    options.check_appends()
    options.check_new_table()
    whole = fill_columns(definition, rows, format)
    return create_with_rows(format.new_table_at(location, whole, options, storage_options), rows)


def create_with_rows(new: NewTable, rows: Rows, where: Predicate | None = None) -> WriteResult:
    """Write the rows, and create or replace the table with them in one commit.

    If anything fails, the table stays as it was, and the files of a new table are removed, unless the outcome of the
    commit is unknown. Raises `SchemaMismatch` for rows that do not fit the columns or do not match `where`, and the
    errors of `NewTable.commit`.
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
    """Commit a new or replaced table with these files, which are removed if the commit definitely failed.

    Raises the errors of `NewTable.commit`.
    """
    try:
        new.commit(files)
    except CommitStateUnknown:
        raise
    except Exception:
        discard(new.writes.storage, [each.location for each in files], new.referenced_locations)
        raise
    return write_result(files)


def remove_task_files(new: NewTable, write_id: str) -> None:
    """Remove the files that some tasks of a write had already written when another task failed.

    `write_id` is part of their names. If they cannot be listed, only a warning is logged.
    """
    writes = new.writes
    try:
        locations = writes.storage.find(writes.data_folder, write_id)
    except Exception as error:
        _LOG.warning(
            "files named *%s* in %s may remain after a failed write, because they could not be listed: %s",
            write_id,
            writes.data_folder,
            error,
        )
        return
    discard(writes.storage, locations, new.referenced_locations)


def append_rows(target: Target, rows: Rows, options: WriteOptions) -> WriteResult:
    """Append rows in one commit; do nothing if the transaction of the options was already committed.

    If the table's properties make appends replace rows by key (`KeyUpserts.append_keys`), they do so, and of several
    new rows with the same key the last one is written.
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
    checks_rows: bool = True,
) -> WriteResult:
    """Replace rows in one commit: all rows, those that match `where`, or whole partitions; see `WriteOptions`.

    Without `where`, the option `replaceWhere` applies. Does nothing if the transaction of the options was already
    committed. `reads_target`: the new rows were computed from the target, so concurrent changes of it are conflicts.
    `checks_rows`: all new rows must match `where`.
    """
    if target.has_committed():
        return WriteResult(0, 0, 0)
    condition: Any = options.replace_where if where is None else where
    predicate = None if condition is None else as_predicate(condition)
    options.check_overwrites(condition)
    target = prepare_target(target, rows.schema, options)
    files = rows.write(target.writes, new_write_id(), predicate if checks_rows else None)
    return overwrite(
        target,
        files,
        where=predicate,
        dynamic=options.is_dynamic,
        executor=rows.executor,
        retries=not reads_target,
    )
