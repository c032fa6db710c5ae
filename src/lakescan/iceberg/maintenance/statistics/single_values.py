"""Hashes of values for Theta sketches: of their single-value serialization (specification, appendix D), in columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.maintenance.statistics.murmur import Numbers, hashes, hashes_of_words
from lakescan.iceberg.maintenance.statistics.theta_sketch import SEED

_ONE = np.uint64(1)
_ROWS = 1 << 16  # values hashed at once: they stay in the processor's cache
_WIDE = 16  # bytes of a decimal in Arrow


def is_hashed(kind: t.Type) -> bool:
    """Whether there are hashes of values of a type: those of primitive types."""
    return not isinstance(kind, t.Struct | t.ListOf | t.MapOf | t.Geospatial) and kind not in (t.UNKNOWN, t.VARIANT)


def hash_values(values: pa.Array, kind: t.Type) -> Numbers:
    """Return the hash of each value that is neither null nor empty, 63 bits as in sketches.

    Raises `UnsupportedFeature` for a type without hashes.
    """
    if not is_hashed(kind):
        raise UnsupportedFeature(f"numbers of distinct values of type {kind}", "Name columns of primitive types.")
    some = (values.storage if isinstance(values, pa.ExtensionArray) else values).drop_null()
    parts = [_hash_array(some.slice(start, _ROWS), kind) for start in range(0, len(some), _ROWS)]
    found: Numbers = np.concatenate([np.zeros(0, np.uint64), *parts]) >> _ONE
    return found


def _hash_array(values: pa.Array, kind: t.Type) -> Numbers:
    if isinstance(kind, t.Decimal):
        return _hash_decimals(values)
    if kind in (t.STRING, t.BINARY):
        return _hash_bytes(values.cast(pa.large_binary()))
    if isinstance(kind, t.Fixed) or kind == t.UUID:
        return _hash_bytes(values.cast(pa.binary()).cast(pa.large_binary()))
    if kind == t.BOOLEAN:
        values = values.cast(pa.uint8())
    numbers = values.to_numpy(zero_copy_only=False) if not pa.types.is_temporal(values.type) else _as_numbers(values)
    size = numbers.dtype.itemsize
    words = np.ascontiguousarray(numbers).view(f"<u{size}").astype(np.uint64)
    return hashes_of_words(words, size, SEED)


def _as_numbers(values: pa.Array) -> npt.NDArray[np.int32 | np.int64]:
    """Dates as days, times and timestamps in their units."""
    whole = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
    found: npt.NDArray[np.int32 | np.int64] = values.view(whole).to_numpy()
    return found


def _hash_bytes(values: pa.Array) -> Numbers:
    values = values.filter(pc.greater(pc.binary_length(values), 0))  # sketches of DataSketches leave empty ones out
    if not len(values):
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = values.buffers()[2][int(offsets[0]) : int(offsets[-1])]
    return hashes(data, offsets[:-1] - offsets[0], np.diff(offsets), SEED)


def _hash_decimals(values: pa.Array) -> Numbers:
    """Unscaled values: big-endian two's complement, of as few bytes as hold them."""
    raw = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * _WIDE : (values.offset + len(values)) * _WIDE]
    data = np.ascontiguousarray(raw.reshape(-1, _WIDE)[:, ::-1])
    sign = data[:, :1] >> 7
    # A first byte is left out if it only repeats the sign of the byte after it.
    repeats = (data[:, :-1] == sign * np.uint8(0xFF)) & (data[:, 1:] >> 7 == sign)
    skipped = np.cumprod(repeats, axis=1).sum(axis=1).astype(np.int64)
    starts = np.arange(len(data), dtype=np.int64) * _WIDE + skipped
    return hashes(data.tobytes(), starts, _WIDE - skipped, SEED)
