"""Record batches that may have rows but no columns, for scans that only count."""

from __future__ import annotations

import pyarrow as pa


def batch_of(arrays: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A batch of `rows` rows, a count that is kept even if there are no arrays."""
    if not arrays:
        return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=[""]).select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
