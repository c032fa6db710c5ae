"""The rows of a task before deletes and residuals: its row groups that can match, as columns of the table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakescan.expressions.predicate import TRUE, Predicate
from lakescan.metadata_columns import RESERVED_IDS
from lakescan.planning.plan import FileScanTask
from lakescan.reading.batches import batch_of
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import open_data_file
from lakescan.reading.file_schema import read_fields
from lakescan.reading.parquet import ParquetData, matching_row_groups
from lakescan.reading.projection import resolve
from lakescan.reading.row_metadata import metadata_values
from lakescan.schema import Schema


def row_batches(
    task: FileScanTask, context: ReadContext, columns: Schema, residual: Predicate = TRUE
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of these columns, each with the position in the file of its first row.

    Row groups of which statistics show that no row matches `residual` are left out.
    """
    with open_data_file(context.storage, task.path, task.file_format, task.key_metadata) as data:
        fields = read_fields(data.schema, context.matching)
        projection = resolve(fields, columns, context.matching, task.constants)
        chunks = data.chunks(task.start, task.stop)
        if residual != TRUE and isinstance(data, ParquetData):
            chunks = matching_row_groups(data, chunks, residual, fields, projection, columns)
        if not chunks:
            return
        for first, batch in data.batches(chunks, projection, context.batch_size):
            filled = [
                metadata_values(field, array, task, first) if field.id in RESERVED_IDS else array
                for field, array in zip(columns.fields, projection.apply(batch), strict=True)
            ]
            yield first, batch_of(filled, columns.arrow(), batch.num_rows)
