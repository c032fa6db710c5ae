"""Record batches with rows but no columns, for scans that only count, and with dictionary arrays."""

from __future__ import annotations

import pyarrow as pa

from lakescan.common.arrays import remove_inner_offsets
from lakescan.common.polars_columns import is_fixed_width, polars_for


def batch_of(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """Create a batch of `rows` rows from arrays. The row count is kept even without arrays."""
    if not arrays:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""]).select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def as_encoded(schema: pa.Schema, arrays: list[pa.Array]) -> pa.Schema:
    """Return the schema with its fields' types replaced by those of `arrays`, which may be dictionary types."""
    return pa.schema([field.with_type(array.type) for field, array in zip(schema, arrays, strict=True)])


def decode_dictionaries(
    batch: pa.RecordBatch, schema: pa.Schema, *, keeps_dictionaries: bool = False
) -> pa.RecordBatch:
    """Return the batch with this schema, for any engine: dictionary arrays are decoded.

    Offsets of structs inside other types are removed, which DuckDB before 2.0 ignores. `keeps_dictionaries`: keep
    dictionary arrays, so that the batch's schema has their types.
    """
    pairs = list(zip(batch.columns, schema, strict=True))
    if keeps_dictionaries:
        arrays = [remove_inner_offsets(column) for column, _ in pairs]
        return batch_of(arrays, as_encoded(schema, arrays), batch.num_rows)
    arrays = [
        remove_inner_offsets(column) if column.type == field.type else column.dictionary.take(column.indices)
        for column, field in pairs
    ]
    return batch_of(arrays, schema, batch.num_rows)


def filter_rows(batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
    """Return the rows of a batch whose value in the Boolean array `mask` is true.

    Polars filters fixed-width columns, including dictionary indices, in a quarter of pyarrow's time.
    """
    quick = [n for n, column in enumerate(batch.columns) if is_fixed_width(_indices(column).type)]
    polars = polars_for(8 * batch.num_rows * len(quick)) if quick else None
    if polars is None:
        return batch.filter(mask)
    rows = polars.Series(mask)
    arrays = []
    for n, column in enumerate(batch.columns):
        if n not in quick:
            arrays.append(column.filter(mask))
            continue
        left = polars.Series(_indices(column)).filter(rows).to_arrow()
        is_dictionary = isinstance(column, pa.DictionaryArray)
        arrays.append(pa.DictionaryArray.from_arrays(left, column.dictionary) if is_dictionary else left)
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _indices(column: pa.Array) -> pa.Array:
    """Return the indices of a dictionary array, and other arrays unchanged."""
    return column.indices if isinstance(column, pa.DictionaryArray) else column
