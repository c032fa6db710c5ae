"""Read a task's rows before deletes and residual: the row groups that can match, projected onto the table's columns."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakescan.common.metadata_columns import RESERVED_IDS
from lakescan.common.schema import Schema
from lakescan.errors import CorruptData
from lakescan.expressions.predicate import TRUE, Predicate
from lakescan.planning.task_groups import FileScanTask
from lakescan.reading.batches import batch_of
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import open_data_file
from lakescan.reading.decoding import decoding
from lakescan.reading.file_schema import read_fields
from lakescan.reading.parquet.file import ParquetData, matching_row_groups
from lakescan.reading.projection import resolve
from lakescan.reading.row_metadata import metadata_values
from lakescan.storage.faults import shown


def row_batches(
    task: FileScanTask, context: ReadContext, columns: Schema, residual: Predicate = TRUE
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches of these columns, each with the file position of its first row.

    Row groups whose statistics rule out `residual` are pruned. Raises `CorruptData` if the file cannot be decoded, or
    its row count differs from its footer's or the table metadata's.
    """
    opened = open_data_file(context.storage, task.path, task.file_format, task.key_metadata, verify=context.verify)
    with opened as data, decoding(task.path, "its rows"):
        check_rows(task.path, data.rows, task.record_count)
        if context.matching.legacy_calendar and isinstance(data, ParquetData):
            data = data.as_spark_reads()
        fields = read_fields(data.schema, context.matching)
        projection = resolve(fields, columns, context.matching, task.constants)
        chunks = data.chunks(task.start, task.stop)
        if residual != TRUE and isinstance(data, ParquetData):
            chunks = matching_row_groups(data, chunks, residual, fields, projection, columns)
        if not chunks:
            return
        end = 0
        for first, batch in data.batches(chunks, projection, context.batch_size):
            end = first + batch.num_rows
            filled = [
                metadata_values(field, array, task, first) if field.id in RESERVED_IDS else array
                for field, array in zip(columns.fields, projection.apply(batch), strict=True)
            ]
            yield first, batch_of(filled, columns.arrow(), batch.num_rows)
        if data.rows is None:
            check_rows(task.path, end, task.record_count)


def check_rows(path: str, rows: int | None, recorded: int | None) -> None:
    """Raise `CorruptData` if the row count differs from the table metadata's; None and -1 are unknown and pass."""
    if rows is not None and recorded is not None and recorded >= 0 and rows != recorded:
        raise CorruptData(
            f"{shown(path)} has {rows:,} rows, but the table's metadata says {recorded:,}: the file is damaged, or was "
            "replaced by another one. Restore it, or the metadata that references it."
        )
