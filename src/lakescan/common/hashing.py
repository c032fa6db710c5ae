"""A hash over columns of strings or binaries that gives the same result in every process."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ROWS = 1 << 16  # rows hashed at once: hashing takes nine bytes of memory per byte
_PRIME = 1_099_511_628_211


def hashes(values: pa.Array) -> np.ndarray:
    """Return a 64-bit hash (uint64) of each value; values are strings or binaries without nulls."""
    chunks = [values.slice(start, _ROWS) for start in range(0, len(values), _ROWS)]
    return np.concatenate([np.zeros(0, dtype=np.uint64), *map(_hashes, chunks)])


def _hashes(values: pa.Array) -> np.ndarray:
    """Hash by a polynomial in the bytes of each value, modulo 2^64, with the upper bits mixed into the lower ones."""
    # A byte is appended because `reduceat` needs non-empty segments.
    ended = pc.binary_join_element_wise(values.cast(pa.binary()), b"\x01", b"").cast(pa.large_binary())
    offsets = np.frombuffer(ended.buffers()[1], dtype=np.int64)[ended.offset : ended.offset + len(ended) + 1]
    data = np.frombuffer(ended.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    powers = np.full(int(lengths.max(initial=1)), _PRIME, dtype=np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    position = np.arange(len(data)) - np.repeat(starts, lengths)
    hashed = np.add.reduceat(data.astype(np.uint64) * powers[position], starts)
    hashed = (hashed ^ (hashed >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    result: np.ndarray = hashed ^ (hashed >> np.uint64(33))
    return result
