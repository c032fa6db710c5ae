"""Saving batches: written, then committed; what is not committed is removed."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.definition.from_arrow import optional_columns_of
from lakescan.definition.table_definition import TableDefinition, numbered
from lakescan.errors import CommitConflict, SchemaMismatch, UnsupportedFeature
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import columns_of, keep
from lakescan.expressions.predicate import TRUE, Predicate
from lakescan.local import read_batches
from lakescan.planning.file_table import delete_counts
from lakescan.saving.target import Removed, Saved, Target
from lakescan.saving.write_options import WriteOptions
from lakescan.scan import Scan
from lakescan.writing.fitting import Fit
from lakescan.writing.table_writes import Key, TableWrites, WrittenFile
from lakescan.writing.task import write_rows

_ATTEMPTS = 10  # at replacing rows of a table to which others append


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


def new_write_id() -> str:
    """What the names of a write's files begin with."""
    return uuid.uuid4().hex[:16]


def append(target: Target, files: Sequence[WrittenFile]) -> Saved:
    """Commit files that were written; nothing where there is none."""
    if not files:
        return Saved(0, 0, 0)
    with undone(target, files):
        target.append(files)
    return saved(files)


def overwrite(target: Target, files: Sequence[WrittenFile], *, where: Predicate | None, dynamic: bool) -> Saved:
    """Commit files in the place of all rows, of those of a filter, or of the partitions that they are of.

    Files that the filter cuts are written anew without its rows. Where others commit meanwhile, it begins again from
    what there is then, unless they changed what is replaced: `CommitConflict` (Iceberg).
    """
    with undone(target, files):
        for _ in range(_ATTEMPTS if target.begins_again else 1):
            removed, rest = _replaced(target, files, where, dynamic=dynamic)
            try:
                with undone(target, rest):
                    if where is None and not dynamic:
                        target.replace_all(removed, files)
                    else:
                        target.replace(removed, [*files, *rest], where)
                return saved(files, len(removed))
            except CommitConflict as error:
                conflict = error
                target = target.reopened()
        raise conflict


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


def _replaced(
    target: Target, files: Sequence[WrittenFile], where: Predicate | None, *, dynamic: bool
) -> tuple[list[Removed], list[WrittenFile]]:
    """The files that go, and those that are written for the rows of them that stay."""
    scan = target.scan if where is None else target.scan.where(where)
    if target.scan.snapshot.id is None:
        return [], []
    plan = scan.plan()
    table = plan.table
    if where is None and not dynamic:
        return as_removed(table.files), []
    if dynamic:
        table = table.filter(_of_partitions(table.files, target.writes, {file.key for file in files}))
    target.check_removable(delete_counts(table.files), partly=False)
    rest: list[WrittenFile] = []
    if where is not None:
        is_cut = pa.array([residual != TRUE for residual in plan.residuals], pa.bool_()).take(plan.splits["residual"])
        cut = pc.unique(plan.splits["file"].filter(is_cut))
        if len(cut):
            paths = table.files["path"].take(cut).combine_chunks()
            target.check_removable(delete_counts(table.files), partly=True)
            writes = target.writes.of_moved_rows
            rows = _rows_that_stay(target.scan.select(*writes.schema.names), where, paths)
            rest = write_rows(writes, rows, new_write_id())
    return as_removed(table.files), rest


def as_removed(files: pa.Table) -> list[Removed]:
    """Files of a file table, to go."""
    shown = files.select(["path", "partition", "size"]).to_pylist()
    return [Removed(each["path"], each["partition"], each["size"]) for each in shown]


def _rows_that_stay(scan: Scan, where: Predicate, paths: pa.Array) -> Iterator[pa.RecordBatch]:
    """The rows of some files that a filter does not match."""
    all_rows = scan.where(where).ignore_residuals()
    plan = all_rows.plan()
    some = all_rows.plan_of(plan, pc.is_in(plan.files["path"], value_set=paths).combine_chunks())
    schema = scan.snapshot.schema
    bound = bind(where, schema)
    for batch in read_batches([(some, all_rows.read_context(some))]):
        yield batch.filter(pc.invert(keep(bound, columns_of(batch, schema), batch.num_rows)))


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
        locations = [file.location for file in files]
        with suppress(Exception):  # what cannot be looked at may have been committed
            named = set(target.reopened().scan.plan().files["path"].to_pylist())
            if named.isdisjoint(locations):
                target.writes.storage.remove(locations)
        raise
