"""Write data files and commit them; remove files that are not committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.executors import PlanningExecutor
from lakescan.common.references import split_list
from lakescan.common.retries import Attempts
from lakescan.definition.arrow_schema import optional_columns_of
from lakescan.definition.table_changes import AddColumn, ChangeColumn
from lakescan.definition.table_definition import TableDefinition, Term, assign_ids
from lakescan.errors import CommitConflict, InvalidOption
from lakescan.expressions.predicate import Predicate
from lakescan.expressions.row_condition import RowCondition
from lakescan.options.write import WriteOptions
from lakescan.storage.removal import PROVABLE_FAILURES, discard
from lakescan.tables.base import OverwriteScope, Target
from lakescan.tables.capabilities import ColumnChanges, KeyUpserts, Overwrites, added_columns, commit_columns, require
from lakescan.tables.copy_on_write import ReplacedFiles, files_to_replace
from lakescan.tables.results import WriteResult
from lakescan.writing.column_rules import MARKS, RowCompleter
from lakescan.writing.conform import Fit, places_of
from lakescan.writing.parquet_writer import write_rows
from lakescan.writing.table_writes import TableWrites, WrittenFile
from lakescan.writing.upserts import UpsertFiles


def prepare_target(target: Target, rows: pa.Schema, options: WriteOptions) -> Target:
    """Return the target, adding or replacing columns to fit rows with the schema `rows` if the options ask for it.

    Nothing is committed or written yet. Raises `SchemaMismatch` if the rows do not fit, and `InvalidOption` if the
    option `partition-by` differs from the table's partitioning.
    """
    given = "partition_by" in options.given
    terms = tuple(map(Term.parse, options.partition_by))
    if options.overwrite_schema:
        if added_columns(target) is None:  # else tasks of this write have already written files with the new columns
            new = TableDefinition(assign_ids(target.writes.columns_for(rows)), partition_by=terms)
            target = require(target, ColumnChanges).with_schema(new, repartitions=given)
    elif terms:
        _check_partitions(target, terms)
    if options.merge_schema and not options.overwrite_schema:
        target = add_new_columns(target, rows)
    if not options.data_change and added_columns(target) is not None:
        raise InvalidOption("dataChange=false is for writes that only move rows: this one changes the table's columns")
    check_fit(target.writes, rows)
    return target


def _check_partitions(target: Target, terms: Sequence[Term]) -> None:
    """Raise `InvalidOption` if the table is not partitioned by these terms, in this order."""
    there = target.scan.table.partitioning
    parts = [] if there == "unpartitioned" else map(Term.parse, split_list(there, keep_calls=True))
    known = [str(each).lower() for each in parts if each.name != "void"]  # void: a field that was dropped
    if [str(each).lower() for each in terms] != known:
        there = f"partitioned by {there}" if known else "not partitioned"
        raise InvalidOption(
            f"partition-by={', '.join(map(str, terms))!r}: {target.name} is {there}. Leave the option out, or "
            "overwrite the table with overwriteSchema, which replaces its partitioning"
        )


def add_new_columns(target: Target, rows: pa.Schema) -> Target:
    """Return the target with the columns and struct members that only the rows have, and with their wider types.

    The commit of the rows also changes the columns. A type is widened only if the format's own writers do that;
    otherwise values of a wider type are stored if they fit.
    """
    changes = list(_column_changes(target.writes, target.writes.schema.fields, optional_columns_of(rows), rows))
    return require(target, ColumnChanges).with_columns(changes) if changes else target


def _column_changes(
    writes: TableWrites, ours: Sequence[t.Field], theirs: Sequence[t.Field], rows: pa.Schema, path: tuple[str, ...] = ()
) -> Iterator[AddColumn | ChangeColumn]:
    places = places_of(tuple(ours), tuple(theirs))
    for column, place in zip(ours, places, strict=True):
        if place is not None:
            yield from _type_changes(writes, column.type, theirs[place].type, (*path, column.name))
    for place, column in enumerate(theirs):
        if place not in places:
            given = pa.schema([pa.field(column.name, column.type.arrow()) if path else rows.field(place)])
            (new,) = writes.columns_for(given)
            yield AddColumn(path, new, if_not_exists=True)


def _type_changes(
    writes: TableWrites, ours: t.Type, theirs: t.Type, path: tuple[str, ...]
) -> Iterator[AddColumn | ChangeColumn]:
    match ours, theirs:
        case t.Struct(), t.Struct():
            yield from _column_changes(writes, ours.fields, theirs.fields, pa.schema([]), path)
        case t.ListOf(), t.ListOf():
            yield from _type_changes(writes, ours.element.type, theirs.element.type, (*path, "element"))
        case t.MapOf(), t.MapOf():
            yield from _type_changes(writes, ours.value.type, theirs.value.type, (*path, "value"))
        case _ if ours != theirs and writes.widens(ours, theirs):
            yield ChangeColumn(path, theirs)


def check_fit(writes: TableWrites, rows: pa.Schema) -> None:
    """Raise `SchemaMismatch` if rows with this schema do not fit the table's columns."""
    Fit.match_columns(writes.rules.input_columns(writes.schema, rows), rows)


def append(target: Target, files: Sequence[WrittenFile]) -> WriteResult:
    """Commit an append of written files; without files, only the columns that the target adds.

    If a concurrent writer already committed the same transaction, the files are removed and nothing is committed.
    """
    if not files:
        commit_columns(target)
        return WriteResult(0, 0, 0)
    with remove_on_failure(target, files) as remove:
        try:
            target.append(files)
        except CommitConflict:
            if not target.reopen().has_committed():
                raise
            remove()
            return WriteResult(0, 0, 0)
    return write_result(files, note=target.writes.note)


def upsert(target: Target, written: UpsertFiles) -> bool:
    """Commit rows that replace existing rows with the same keys; return whether any rows were committed.

    If a concurrent writer already committed the same transaction, the files are removed and nothing is committed.
    """
    if not written.all:
        commit_columns(target)
        return False
    with remove_on_failure(target, written.all) as remove:
        try:
            require(target, KeyUpserts).upsert(written.files, written.deletes)
        except CommitConflict:
            if not target.reopen().has_committed():
                raise
            remove()
            return False
    return True


def overwrite(
    target: Target,
    files: Sequence[WrittenFile],
    *,
    where: Predicate | None,
    dynamic: bool,
    executor: PlanningExecutor | None = None,
    retries: bool = True,
) -> WriteResult:
    """Commit an overwrite: replace all rows, the rows that match `where`, or the partitions of `files` (`dynamic`).

    The executor rewrites files that match `where` only partly, without the matching rows. After a concurrent commit, a
    Delta overwrite starts again on the reopened table; without `retries` it raises `CommitConflict`. An Iceberg
    overwrite is retried after concurrent commits unrelated to the rows that it read, and raises `CommitConflict` for
    others. If a concurrent writer already committed the same transaction, the files are removed and nothing is
    committed.
    """
    written, kept, changes, replaced, conflict, first = list(files), [], None, None, None, target
    attempts, dynamic = Attempts(target.retries), dynamic and require(target, Overwrites).has_dynamic_overwrites
    with remove_on_failure(target, written) as remove:
        while True:
            if conflict is not None and target.has_committed():
                remove()
                return WriteResult(0, 0, 0)
            if conflict is not None and not (retries and target.retries_overwrites):
                raise conflict
            target.check_rules(first.rules)
            now = files_to_replace(target, files, where, dynamic=dynamic)
            if replaced is None or not now.has_same_files(replaced):
                remove(written[len(files) :])
                del written[len(files) :]
                kept = now.rewrite_kept_rows(target, executor)
                written += kept
                changes = _write_change_files(target, now, files, executor, written)
                replaced = now
            try:
                removed = now.files_to_remove
                if where is None and not dynamic:
                    require(target, Overwrites).replace_all(removed, files)
                else:
                    scope = OverwriteScope(where, dynamic)
                    require(target, Overwrites).replace(removed, [*files, *kept], scope, changes)
                return write_result(files, len(removed), target.writes.note if files else "")
            except CommitConflict as error:
                conflict = error
                if retries and target.retries_overwrites:
                    attempts.wait_or_raise(target.name, error)
                target = target.reopen()


def _write_change_files(
    target: Target,
    replaced: ReplacedFiles,
    files: Sequence[WrittenFile],
    executor: PlanningExecutor | None,
    written: list[WrittenFile],
) -> list[WrittenFile] | None:
    """Write the change files of an overwrite, and return them; they are also added to `written`.

    Returns None if no file is rewritten in part, or the table has no change feed: then readers infer the changes.
    """
    recorded = require(target, Overwrites).change_files
    if replaced.cut is None or recorded is None:
        return None
    changes: list[WrittenFile] = []
    for some in replaced.write_changes(target, recorded, files, executor):
        written += some
        changes += some
    return changes


def check_and_write(
    writes: TableWrites,
    batches: Iterable[pa.RecordBatch],
    write_id: str,
    where: Predicate | None,
    task: int | None = None,
) -> list[WrittenFile]:
    """Write new rows to data files as one task: the only task of the write, or the one with the number `task`.

    `write_id` is part of the file names. Raises `SchemaMismatch` for rows that violate a rule of the table
    (`ColumnRules`), or do not match `where`.
    """
    more = {}
    if where is not None:
        said = "do not match replaceWhere, and would be added next to the rows that it replaces"
        more[said] = RowCondition.bind_predicate(where, writes.schema)
    if not writes.rules and not more:
        return write_rows(writes, batches, write_id)
    rows = RowCompleter(writes.rules, writes.schema, more, task)
    files = write_rows(writes, rows.complete(batches), write_id)
    return [replace(file, details={**file.details, MARKS: rows.marks}) for file in files] if rows.marks else files


def write_result(files: Sequence[WrittenFile], removed: int = 0, note: str = "") -> WriteResult:
    """Build the `WriteResult` of a commit that adds `files`.

    `removed` is the number of files that it removes, and `note` a remark on the added ones.
    """
    rows, size = sum(file.rows for file in files), sum(file.size for file in files)
    return WriteResult(len(files), rows, size, removed, note=note)


@contextmanager
def remove_on_failure(target: Target, files: Sequence[WrittenFile]) -> Iterator[Callable[..., None]]:
    """Context manager: remove written files if the commit in its block definitely failed.

    They are kept if the outcome is unknown. `files` must have been written after `target` was opened. The block
    receives a function that removes some or all of the files if they are not needed. Files that a commit references are
    never removed (`lakescan.storage.removal`).
    """
    base, storage = target.base_state, target.writes.storage

    def remove(some: Sequence[WrittenFile] | None = None) -> None:
        locations = [each.location for each in (files if some is None else some)]
        discard(storage, locations, lambda: target.files_added_since(base))

    try:
        yield remove
    except PROVABLE_FAILURES:
        remove()
        raise
