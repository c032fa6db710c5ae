"""Arrow arrays: chunks as one array, values as numbers, and floating-point numbers as bits."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BITS = {pa.float64(): pa.int64(), pa.float32(): pa.int32(), pa.float16(): pa.int16()}


def as_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values as one array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def codes(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A number for each distinct value, from 0 in order of appearance; -1 for null."""
    indices = as_array(values).dictionary_encode().indices
    result: np.ndarray = indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return result


def float_bits(values: pa.Array) -> pa.Array:
    """Floating-point numbers as bits, which distinguish -0.0 from 0.0, with one NaN; other values as they are."""
    if values.type not in _BITS:
        return values
    one_nan = pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), values)
    return one_nan.view(_BITS[values.type])
