"""One task group as Arrow record batches: row groups chosen, columns projected, deletes applied, residual evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.expressions.evaluate import columns_of, keep
from lakescan.expressions.predicate import FALSE, TRUE
from lakescan.planning.plan import FileScanTask, TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import open_data_file
from lakescan.reading.deletes import DeleteLoader, live_rows
from lakescan.reading.equality import EqualityDeletes
from lakescan.reading.file_schema import read_fields
from lakescan.reading.parquet import ParquetData, matching_row_groups
from lakescan.reading.projection import resolve


def read_group(group: TaskGroup, context: ReadContext) -> Iterator[pa.RecordBatch]:
    """The rows of a task group, as batches of the context's output schema; memory is bounded by a batch.

    Raises `MissingFile` or `CorruptMetadata` where a data or delete file cannot be read: rows are never skipped.
    """
    positions = DeleteLoader(context.storage, group.splits["path"].to_pylist())
    equality = EqualityDeletes(context, group.deletes)
    for task in group.tasks():
        if context.residuals[task.residual] != FALSE:
            yield from _read_task(task, context, positions, equality)


def _read_task(
    task: FileScanTask, context: ReadContext, positions: DeleteLoader, equality: EqualityDeletes
) -> Iterator[pa.RecordBatch]:
    residual = context.residuals[task.residual]
    columns = context.columns_for(residual, equality.columns_of(task))
    with open_data_file(context.storage, task.path, task.file_format) as data:
        fields = read_fields(data.schema, context.matching)
        projection = resolve(fields, columns, context.matching, task.constants)
        chunks = data.chunks(task.start, task.stop)
        if residual != TRUE and isinstance(data, ParquetData):
            chunks = matching_row_groups(data, chunks, residual, fields, projection, columns)
        if not chunks:
            return
        deleted = positions.positions(task.path, task.deletes)
        for first, batch in data.batches(chunks, projection, context.batch_size):
            rows = batch.num_rows
            full = _batch(projection.apply(batch), columns.arrow(), rows)
            found = columns_of(full, columns)
            masks = [live_rows(deleted, first, rows), equality.live_rows(task, found, rows)]
            if residual != TRUE:
                masks.append(keep(residual, found, rows))
            result = full.select(range(len(context.output.fields)))
            yield from _kept(result, [m for m in masks if m is not None])


def _kept(batch: pa.RecordBatch, masks: list[pa.Array]) -> Iterator[pa.RecordBatch]:
    """The rows that every mask keeps, if any."""
    result = batch.filter(reduce(pc.and_, masks)) if masks else batch
    if result.num_rows:
        yield result


def _batch(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if not arrays:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""]).select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
