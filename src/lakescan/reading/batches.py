"""Record batches that may have rows and no columns, for scans that only need to count."""

from __future__ import annotations

import pyarrow as pa


def batch_of(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of `rows` rows, which it keeps where there is no array to tell them."""
    if not arrays:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""]).select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
