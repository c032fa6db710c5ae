"""Saving batches: written, then committed; what is not committed is removed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.definition.table_definition import TableDefinition, numbered
from lakescan.errors import CommitConflict, SchemaMismatch
from lakescan.executors import PlanningExecutor
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import columns_of, keep
from lakescan.expressions.predicate import Predicate
from lakescan.options.write import WriteOptions
from lakescan.storage.removal import PROVABLE_FAILURES, discard
from lakescan.transaction.base import WAITS, Saved, Target
from lakescan.transaction.overwritten_files import replaced_by
from lakescan.write.conform import Fit
from lakescan.write.partitioned_writer import write_rows
from lakescan.write.table_writes import TableWrites, WrittenFile


def prepared(target: Target, rows: pa.Schema, options: WriteOptions) -> Target:
    """The target with columns for the rows; raises `SchemaMismatch` before anything is written."""
    if options.overwrite_schema:
        target = target.with_schema(TableDefinition(numbered(target.writes.columns_for(rows))))
    elif options.merge_schema:
        known = {name.lower() for name in target.writes.schema.names}
        new = target.writes.columns_for(pa.schema([column for column in rows if column.name.lower() not in known]))
        others = pa.schema([column for column in rows if column.name.lower() in known], rows.metadata)
        Fit.of(target.writes.schema, others)  # before columns are added, which stay
        target = target.with_columns(TableDefinition(numbered(new))) if new else target
    Fit.of(target.writes.schema, rows)
    return target


def append(target: Target, files: Sequence[WrittenFile]) -> Saved:
    """Commit files that were written; nothing where there is none, or another writer committed the transaction."""
    if not files:
        return Saved(0, 0, 0)
    with undone(target, files) as undo:
        try:
            target.append(files)
        except CommitConflict:
            if not target.reopened().has_committed():
                raise
            undo()
            return Saved(0, 0, 0)
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
    begins again from what there is then, unless they changed what is replaced: `CommitConflict` (Iceberg). Nothing is
    done where another writer has committed the transaction.
    """
    written, found, conflict, first = list(files), None, None, target
    with undone(target, written) as undo:
        for wait in WAITS:
            if conflict is not None and target.has_committed():
                undo()
                return Saved(0, 0, 0)
            target.check_rules(first)
            now = replaced_by(target, files, where, dynamic=dynamic)
            if found is None or not now.is_as(found):
                if found is not None and not target.begins_again:
                    raise CommitConflict(
                        f"{target.name}: another writer changed what this one replaces. Look again, and repeat it."
                    ) from conflict
                undo(written[len(files) :])
                del written[len(files) :]
                written += now.written_anew(target, executor)
                found = now
            try:
                removed = now.removed
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
    """Write rows in one task.

    Raises `SchemaMismatch` for rows that are not of `where`, if that is given, or break a constraint of the table.
    """
    rules = {f"break the constraint {name!r} of the table": rule for name, rule in writes.constraints.items()}
    if where is not None:
        rules["are not of replaceWhere, and would add to what is not replaced"] = where
    return write_rows(writes, _checked(batches, rules, writes) if rules else batches, write_id)


def _checked(
    batches: Iterable[pa.RecordBatch], rules: Mapping[str, Predicate], writes: TableWrites
) -> Iterator[pa.RecordBatch]:
    """Batches, made to fit, that pass on when each rule is true of all of their rows."""
    schema, fit = writes.schema, None
    bound = {wrong: bind(rule, schema) for wrong, rule in rules.items()}
    for batch in batches:
        fit = fit or Fit.of(schema, batch.schema)
        for rows in fit.pieces(batch):
            for wrong, rule in bound.items():
                others = rows.num_rows - (pc.sum(keep(rule, columns_of(rows, schema), rows.num_rows)).as_py() or 0)
                if others:
                    raise SchemaMismatch(f"{others:,} rows {wrong}: {rules[wrong]}")
            yield rows


def saved(files: Sequence[WrittenFile], removed: int = 0) -> Saved:
    """What was committed, by the files."""
    return Saved(len(files), sum(file.rows for file in files), sum(file.size for file in files), removed)


@contextmanager
def undone(target: Target, files: Sequence[WrittenFile]) -> Iterator[Callable[..., None]]:
    """Remove files where the block, which commits them, provably fails; another failure may have committed them.

    The files were written after the target was opened. The block gets what removes them (or some) where they turn out
    not to be needed, by the same rule (`lakescan.storage.removal`).
    """
    known, storage = target.known, target.writes.storage

    def undo(some: Sequence[WrittenFile] | None = None) -> None:
        locations = [each.location for each in (files if some is None else some)]
        discard(storage, locations, lambda: target.named_since(known))

    try:
        yield undo
    except PROVABLE_FAILURES:
        undo()
        raise
