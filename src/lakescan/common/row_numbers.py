"""Numbers for the distinct rows of several columns: equal rows have the same number."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from lakescan.common.arrays import as_array


def row_numbers(columns: Iterable[pa.Array | pa.ChunkedArray]) -> np.ndarray:
    """A number for each row, from 0; equal for rows that are equal in all columns.

    Null equals null, and NaN equals NaN. Whether 0.0 equals -0.0 is not defined: pass floating-point numbers as bits
    (`arrays.float_bits`), or with one kind of zero. The types are those that Arrow can hash: no lists, maps or structs.
    """
    numbers: np.ndarray | None = None
    for column in columns:
        values = as_array(column)
        encoded = (values.storage if isinstance(values, pa.ExtensionArray) else values).dictionary_encode("encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        numbers = codes if numbers is None else combine_codes(numbers, codes, len(encoded.dictionary))[1]
    return np.zeros(0, dtype=np.int64) if numbers is None else numbers


def combine_codes(numbers: np.ndarray, codes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Combine row numbers with the codes of another column, which are less than `count`.

    Returns the distinct combinations, `number * count + code`, sorted; and the place of each row's combination in them.
    Places are dense, so that the next product cannot overflow.
    """
    combinations, places = np.unique(numbers * max(count, 1) + codes, return_inverse=True)
    return combinations, places.astype(np.int64, copy=False)
