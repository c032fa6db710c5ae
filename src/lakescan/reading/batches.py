"""Record batches: with rows but no columns, for scans that only count; with columns that are still dictionaries."""

from __future__ import annotations

import pyarrow as pa

from lakescan.common.arrays import without_inner_offsets


def batch_of(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of `rows` rows, a count that is kept even if there are no arrays."""
    if not arrays:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""]).select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def as_encoded(schema: pa.Schema, arrays: list[pa.Array]) -> pa.Schema:
    """The schema with the types of arrays, of which some may be dictionary arrays."""
    return pa.schema([field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)])


def decoded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with this schema, for any engine: dictionary arrays are decoded where the schema has their values."""
    arrays = [
        without_inner_offsets(column) if column.type == field.type else column.dictionary_decode()
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return batch_of(arrays, schema, batch.num_rows)
