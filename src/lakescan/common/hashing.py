"""Hash functions: 64-bit hashes of strings and binaries, equal in every process, and Iceberg's Murmur3 for buckets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# Rows and bytes hashed at once. Hashing needs about 33 bytes of memory per byte of input.
_ROWS, _BYTES = 1 << 16, 1 << 21
_PRIME = 1_099_511_628_211


def hashes(values: pa.Array) -> np.ndarray:
    """Return a 64-bit hash (uint64) of each value; values are strings or binaries without nulls."""
    return np.concatenate([np.zeros(0, dtype=np.uint64), *map(_mix_bits, map(_sums, _slices(values)))])


def _slices(values: pa.Array) -> Iterator[pa.Array]:
    """Yield the values in slices of at most `_ROWS` values and `_BYTES` bytes; a longer value gets its own slice."""
    ends, start = np.cumsum(pc.binary_length(values).to_numpy(zero_copy_only=False), dtype=np.int64), 0
    while start < len(values):
        most = (ends[start - 1] if start else 0) + _BYTES
        stop = min(max(int(np.searchsorted(ends, most, side="right")), start + 1), start + _ROWS)
        yield values.slice(start, stop - start)
        start = stop


def _mix_bits(sums: np.ndarray) -> np.ndarray:
    """Mix the upper bits of each 64-bit sum into its lower bits, so that sums that differ anywhere differ there."""
    mixed = (sums ^ (sums >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    result: np.ndarray = mixed ^ (mixed >> np.uint64(33))
    return result


def _sums(values: pa.Array) -> np.ndarray:
    """Return, for each value, a polynomial in `_PRIME` modulo 2^64 whose coefficients are its bytes and a final 1."""
    if len(values) == 1 and (size := pc.binary_length(values)[0].as_py()) > _BYTES:
        return _sum_of_long(values.cast(pa.large_binary()), size)
    # A byte is appended because `reduceat` needs non-empty segments.
    ended = pc.binary_join_element_wise(values.cast(pa.binary()), b"\x01", b"").cast(pa.large_binary())
    offsets = np.frombuffer(ended.buffers()[1], dtype=np.int64)[ended.offset : ended.offset + len(ended) + 1]
    data = np.frombuffer(ended.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    powers = np.full(int(lengths.max(initial=1)), _PRIME, dtype=np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    position = np.arange(len(data)) - np.repeat(starts, lengths)
    result: np.ndarray = np.add.reduceat(data.astype(np.uint64) * powers[position], starts)
    return result


def _sum_of_long(value: pa.Array, size: int) -> np.ndarray:
    """Compute the same polynomial as `_sums` for one value of `size` bytes, a block of bytes at a time."""
    start = np.frombuffer(value.buffers()[1], dtype=np.int64)[value.offset]
    data = np.frombuffer(value.buffers()[2], dtype=np.uint8)[start : start + size]
    powers = np.full(_BYTES, _PRIME, dtype=np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    total, factor = np.zeros(1, dtype=np.uint64), np.ones(1, dtype=np.uint64)
    for first in range(0, size + 1, _BYTES):
        part = data[first : first + _BYTES]
        if first + _BYTES > size:
            part = np.append(part, np.uint8(1))  # the byte that ends a value
        total += np.sum(part.astype(np.uint64) * powers[: len(part)], dtype=np.uint64) * factor
        factor = factor * powers[-1] * np.uint64(_PRIME)
    return total


_MASK = 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """Return the Murmur3 hash of bytes (32 bits, seed 0) that Iceberg's bucket transform uses, as a signed integer."""
    state = 0
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        state ^= _scramble(int.from_bytes(data[at : at + 4], "little"))
        state = (_rotate(state, 13) * 5 + 0xE6546B64) & _MASK
    state ^= _scramble(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = ((state ^ state >> 16) * 0x85EBCA6B) & _MASK
    state = ((state ^ state >> 13) * 0xC2B2AE35) & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _scramble(block: int) -> int:
    return _rotate(block * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _MASK
