"""One task group as Arrow record batches: row groups chosen, columns projected, deletes applied, residual evaluated."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.expressions.evaluate import columns_of, keep
from lakescan.expressions.predicate import FALSE, TRUE
from lakescan.planning.plan import FileScanTask, TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import open_data_file
from lakescan.reading.deletes import DeleteLoader, live_rows
from lakescan.reading.file_schema import read_fields
from lakescan.reading.parquet import ParquetData, matching_row_groups
from lakescan.reading.projection import resolve


def read_group(group: TaskGroup, context: ReadContext) -> Iterator[pa.RecordBatch]:
    """The rows of a task group, as batches of the context's output schema; memory is bounded by a batch.

    Raises `MissingFile` or `CorruptMetadata` where a data or delete file cannot be read: rows are never skipped.
    """
    deletes = DeleteLoader(context.storage, group.splits["path"].to_pylist())
    for task in group.tasks():
        yield from _read_task(task, context, deletes)


def _read_task(task: FileScanTask, context: ReadContext, loader: DeleteLoader) -> Iterator[pa.RecordBatch]:
    residual = context.residuals[task.residual]
    if residual == FALSE:
        return
    columns = context.columns_for(residual)
    schema = context.output.arrow()
    with open_data_file(context.storage, task.path, task.file_format) as data:
        fields = read_fields(data.schema, context.matching)
        projection = resolve(fields, columns, context.matching, task.constants)
        chunks = data.chunks(task.start, task.stop)
        if residual != TRUE and isinstance(data, ParquetData):
            chunks = matching_row_groups(data, chunks, residual, fields, projection, columns)
        if not chunks:
            return
        deleted = loader.positions(task.path, task.deletes)
        for first, batch in data.batches(chunks, projection, context.batch_size):
            arrays = projection.apply(batch)
            rows = batch.num_rows
            mask = live_rows(deleted, first, rows)
            if residual != TRUE:
                full = pa.RecordBatch.from_arrays(arrays, schema=columns.arrow())
                matched = keep(residual, columns_of(full, columns), rows)
                mask = matched if mask is None else pc.and_(mask, matched)
            result = _output(arrays[: len(schema)], schema, rows)
            if mask is not None:
                result = result.filter(mask)
            if result.num_rows:
                yield result


def _output(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    if not arrays:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""]).select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
