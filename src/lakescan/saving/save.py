"""Saving batches: written, then committed; what is not committed is removed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.definition.from_arrow import optional_columns_of
from lakescan.definition.table_definition import TableDefinition, numbered
from lakescan.errors import CommitConflict, SchemaMismatch, UnsupportedFeature
from lakescan.executors import PlanningExecutor
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import columns_of, keep
from lakescan.expressions.predicate import TRUE, Predicate
from lakescan.planning.file_table import FileTable, delete_counts
from lakescan.planning.plan import ScanPlan
from lakescan.saving.rewriting import rewritten
from lakescan.saving.target import Removed, Saved, Target
from lakescan.saving.write_options import WriteOptions
from lakescan.scan import Scan
from lakescan.writing.fitting import Fit
from lakescan.writing.table_writes import Key, TableWrites, WrittenFile
from lakescan.writing.task import write_rows

# Seconds between attempts at replacing rows of a table to which others commit.
WAITS = (0.05, 0.1, 0.2, 0.4, 0.8, *[1.0] * 25)


def prepared(target: Target, rows: pa.Schema, options: WriteOptions) -> Target:
    """The target with columns for the rows; raises `SchemaMismatch` before anything is written."""
    if options.overwrite_schema:
        target = target.with_schema(TableDefinition(numbered(optional_columns_of(rows))))
    elif options.merge_schema:
        known = {name.lower() for name in target.writes.schema.names}
        new = [column for column in optional_columns_of(rows) if column.name.lower() not in known]
        target = target.with_columns(TableDefinition(numbered(new))) if new else target
    Fit.of(target.writes.schema, rows)
    return target


def append(target: Target, files: Sequence[WrittenFile]) -> Saved:
    """Commit files that were written; nothing where there is none."""
    if not files:
        return Saved(0, 0, 0)
    with undone(target, files):
        target.append(files)
    return saved(files)


def overwrite(
    target: Target,
    files: Sequence[WrittenFile],
    *,
    where: Predicate | None,
    dynamic: bool,
    executor: PlanningExecutor | None = None,
) -> Saved:
    """Commit files in the place of all rows, of those of a filter, or of the partitions that they are of.

    Files that the filter cuts are written anew without its rows, by the executor. Where others commit meanwhile, it
    begins again from what there is then, unless they changed what is replaced: `CommitConflict` (Iceberg).
    """
    written, found, conflict = list(files), None, None
    with undone(target, written):
        for wait in WAITS:
            now = _replaced(target, files, where, dynamic=dynamic)
            if found is not None and found.table.state() != now.table.state():
                if not target.begins_again:
                    raise CommitConflict(
                        f"{target.name}: another writer changed what this one replaces. Look again, and repeat it."
                    ) from conflict
                _discard(target, written[len(files) :])
                del written[len(files) :]
                found = None
            if found is None:
                found, more = now, _rest(target, now, where, executor)
                written += more
            try:
                removed = as_removed(now.table.files)
                if where is None and not dynamic:
                    target.replace_all(removed, written)
                else:
                    target.replace(removed, written)
                return saved(files, len(removed))
            except CommitConflict as error:
                conflict = error
                time.sleep(wait)
                target = target.reopened()
        raise conflict or AssertionError


def write_checked(
    writes: TableWrites, batches: Iterable[pa.RecordBatch], write_id: str, where: Predicate | None
) -> list[WrittenFile]:
    """Write rows in one task; with `where`, raises `SchemaMismatch` for rows that are not of it."""
    return write_rows(writes, batches if where is None else _checked(batches, where, writes), write_id)


def _checked(batches: Iterable[pa.RecordBatch], where: Predicate, writes: TableWrites) -> Iterator[pa.RecordBatch]:
    """Batches, made to fit, that pass on when all of their rows are of a filter."""
    schema, fit = writes.schema, None
    bound = bind(where, schema)
    for batch in batches:
        fit = fit or Fit.of(schema, batch.schema)
        rows = fit.apply(batch)
        others = rows.num_rows - (pc.sum(keep(bound, columns_of(rows, schema), rows.num_rows)).as_py() or 0)
        if others:
            raise SchemaMismatch(
                f"{others:,} rows are not of replaceWhere={str(where)!r}: they would add to what is not replaced"
            )
        yield rows


@dataclass(frozen=True)
class _Replaced:
    """The files that go, and those of them to be written anew for the rows that stay: a plan of these, if any."""

    table: FileTable
    cut: ScanPlan | None = None
    scan: Scan | None = None


def _replaced(target: Target, files: Sequence[WrittenFile], where: Predicate | None, *, dynamic: bool) -> _Replaced:
    """What an overwrite is in the place of, as the target has it."""
    if target.scan.snapshot.id is None:
        return _Replaced(FileTable.empty())
    if where is not None:
        return _of_filter(target, where)
    table = target.scan.plan().table
    if dynamic:
        table = table.filter(_of_partitions(table.files, target.writes, {file.key for file in files}))
        target.check_removable(delete_counts(table.files), partly=False)
    return _Replaced(table)


def _of_filter(target: Target, where: Predicate) -> _Replaced:
    """The files that may have rows of a filter; cut are those that have others, too."""
    scan = target.scan.select(*target.writes.of_moved_rows.schema.names).where(where)
    plan = scan.plan()
    is_cut = pa.array([residual != TRUE for residual in plan.residuals], pa.bool_()).take(plan.splits["residual"])
    cut = pc.is_in(pa.array(np.arange(len(plan.table))), value_set=plan.splits["file"].filter(is_cut).combine_chunks())
    some_are_cut = bool(pc.any(cut).as_py())
    target.check_removable(delete_counts(plan.files), partly=some_are_cut)
    if not some_are_cut:
        return _Replaced(plan.table)
    whole = scan.ignore_residuals()
    return _Replaced(plan.table, whole.plan_of(plan, cut), whole)


def _rest(
    target: Target, replaced: _Replaced, where: Predicate | None, executor: PlanningExecutor | None
) -> list[WrittenFile]:
    """The rows of files that are cut, written anew but for those that the filter matches."""
    if replaced.cut is None or replaced.scan is None or where is None:
        return []
    context = replaced.scan.read_context(replaced.cut)
    without = bind(where, replaced.scan.snapshot.schema)
    return rewritten(target.writes.of_moved_rows, replaced.cut, context, executor, without)


def as_removed(files: pa.Table) -> list[Removed]:
    """Files of a file table, to go."""
    shown = files.select(["path", "partition", "size"]).to_pylist()
    return [Removed(each["path"], each["partition"], each["size"]) for each in shown]


def _of_partitions(files: pa.Table, writes: TableWrites, keys: set[Key]) -> pa.Array:
    """Which files are of some partitions, of the spec that new files have; a step a file that may be replaced."""
    names, shown = writes.partition_names, {writes.shown_partition(key) for key in keys}
    rows = zip(files["spec_id"].to_pylist(), files["partition"].to_pylist(), strict=True)
    return pa.array(
        [spec == writes.spec_id and tuple(each[n] for n in names) in shown for spec, each in rows], pa.bool_()
    )


def saved(files: Sequence[WrittenFile], removed: int = 0) -> Saved:
    """What was committed, by the files."""
    return Saved(len(files), sum(file.rows for file in files), sum(file.size for file in files), removed)


@contextmanager
def undone(target: Target, files: Sequence[WrittenFile]) -> Iterator[None]:
    """Remove files where the block, which commits them, fails without having done so.

    That is where it says so, and the table, looked at anew, does not name them. Another failure leaves them: the
    commit may have been made, or be made yet.
    """
    try:
        yield
    except (CommitConflict, UnsupportedFeature, SchemaMismatch):
        _discard(target, files)
        raise


def _discard(target: Target, files: Sequence[WrittenFile]) -> None:
    """Remove files that are not committed; they stay where the table cannot be looked at, or names them."""
    locations = [file.location for file in files]
    with suppress(Exception):
        named = set(target.reopened().scan.plan().files["path"].to_pylist())
        if named.isdisjoint(locations):
            target.writes.storage.remove(locations)
