"""Read a task group as Arrow batches: prune row groups, project columns, apply deletes, evaluate the residual."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.metadata_columns import DELETED
from lakescan.expressions.evaluate import columns_of, keep
from lakescan.expressions.predicate import FALSE, TRUE
from lakescan.planning.task_groups import FileScanTask, TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.reading.deletes.equality import EqualityDeletes
from lakescan.reading.deletes.positions import DeleteLoader, RowSelection
from lakescan.reading.row_batches import row_batches


def read_group(
    group: TaskGroup, context: ReadContext, equality: EqualityDeletes | None = None
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a task group as batches of the context's output schema; memory is bounded by one batch.

    `equality` may hold the equality deletes of the whole plan, shared by the groups that one process reads.
    Raises `MissingFile` or `CorruptMetadata` if a data or delete file cannot be read: rows are never skipped.
    """
    paths = group.splits["path"].to_pylist()
    positions = DeleteLoader(context.storage, paths, places=context.places, verify=context.verify)
    equality = equality or EqualityDeletes(context, group.deletes, group.tasks)
    for task in group.tasks():
        if context.residuals[task.residual] != FALSE:
            yield from _read_task(task, context, positions, equality)


def _read_task(
    task: FileScanTask, context: ReadContext, positions: DeleteLoader, equality: EqualityDeletes
) -> Iterator[pa.RecordBatch]:
    residual = context.residuals[task.residual]
    columns = context.columns_for(residual, equality.columns_of(task))
    selection: RowSelection | None = None
    for first, full in row_batches(task, context, columns, residual):
        rows, values = full.num_rows, columns_of(full, columns)
        if selection is None:
            selection = positions.selection(task.path, task.by_position, task.same_place, task.record_count)
        deleted, kept_rows = (equality.hits(task, first, values, rows, kept=kept) for kept in (False, True))
        live = _all_of([selection.live_rows(first, rows, kept_rows), None if deleted is None else pa.array(~deleted)])
        if DELETED in columns.fields:
            full, live = _mark_deleted(full, columns.fields.index(DELETED), live), None
            values = columns_of(full, columns)
        matched = None if residual == TRUE else keep(residual, values, rows, among=live)
        yield from _filtered(context.selected(full, columns), _all_of([live, matched]))


def _mark_deleted(batch: pa.RecordBatch, place: int, live: pa.Array | None) -> pa.RecordBatch:
    """Set the `_deleted` column: a scan that selects it returns deleted rows, too, marked true."""
    return batch if live is None else batch.set_column(place, DELETED.arrow(), pc.invert(live))


def _all_of(masks: list[pa.Array | None]) -> pa.Array | None:
    present = [m for m in masks if m is not None]
    return reduce(pc.and_, present) if present else None


def _filtered(batch: pa.RecordBatch, mask: pa.Array | None) -> Iterator[pa.RecordBatch]:
    """Filter a batch; yield it unless it becomes empty."""
    result = batch if mask is None else batch.filter(mask)
    if result.num_rows:
        yield result
