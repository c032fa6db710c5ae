"""Theta sketches: estimate the number of distinct values from the least of their hashes.

The serialized form is a compact, ordered sketch of Apache DataSketches (serial version 3), as in Iceberg's blobs of
type `apache-datasketches-theta-v1`, so that engines can read it and merge it with their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.errors import CorruptData, UnsupportedFeature

SEED = 9001  # the default seed of DataSketches
MOST = 4096  # maximum hashes in a sketch, for a standard error of 1.6%
_ALL = 2**63 - 1  # the bound of a sketch that holds all hashes
_SERIAL, _COMPACT = 3, 3
_SEED_HASH = b"\xcc\x93"  # the hash of `SEED`
_READ_ONLY, _EMPTY, _IS_COMPACT, _ORDERED, _SINGLE = 2, 4, 8, 16, 32


@dataclass(frozen=True)
class ThetaSketch:
    """The hashes below `bound`, ascending: all hashes of the values, or the least `MOST` of them.

    Hashes have 63 bits. Sketches of the same values are equal, in whatever order the values were added.

    Example:
        >>> ThetaSketch().add_hashes(hash_values(values, field)).estimate
        3
    """

    hashes: Numbers = field(default_factory=lambda: np.zeros(0, np.uint64))
    bound: int = _ALL

    def add_hashes(self, hashes: Numbers) -> ThetaSketch:
        """Return the sketch with more values added, given their hashes in any order."""
        new = hashes[hashes < np.uint64(self.bound)]
        return self if not len(new) else self._keep_least(np.concatenate([self.hashes, new]), self.bound)

    def union(self, other: ThetaSketch) -> ThetaSketch:
        """Return the sketch of the values of both sketches."""
        return self._keep_least(np.concatenate([self.hashes, other.hashes]), min(self.bound, other.bound))

    @staticmethod
    def _keep_least(hashes: Numbers, bound: int) -> ThetaSketch:
        least = np.unique(hashes[hashes < np.uint64(bound)])
        if len(least) <= MOST:
            return ThetaSketch(least, bound)
        return ThetaSketch(least[:MOST], int(least[MOST]))

    @property
    def estimate(self) -> int:
        """The estimated number of distinct values; exact up to `MOST`."""
        return int(len(self.hashes) * (float(_ALL) / float(self.bound)))  # rounded as in Java

    def serialize(self) -> bytes:
        """Return the bytes of the sketch."""
        count, is_exact = len(self.hashes), self.bound == _ALL
        flags = _READ_ONLY | _IS_COMPACT | _ORDERED
        if is_exact and not count:
            return bytes([1, _SERIAL, _COMPACT, 0, 0, flags | _EMPTY, 0, 0])
        body = self.hashes.astype("<u8").tobytes()
        if is_exact and count == 1:
            return bytes([1, _SERIAL, _COMPACT, 0, 0, flags | _SINGLE]) + _SEED_HASH + body
        head = bytes([2 if is_exact else 3, _SERIAL, _COMPACT, 0, 0, flags]) + _SEED_HASH
        counted = count.to_bytes(4, "little") + np.float32(1).tobytes()
        return head + counted + (b"" if is_exact else self.bound.to_bytes(8, "little")) + body

    @staticmethod
    def parse(data: bytes) -> ThetaSketch:
        """Parse the bytes of a compact, ordered sketch of this seed; raises `CorruptData` for others."""
        longs = data[0] & 0x3F if len(data) >= 8 else 0
        if longs not in (1, 2, 3) or data[1] != _SERIAL or data[2] != _COMPACT or not data[5] & _ORDERED:
            raise CorruptData("a Theta sketch is not a compact, ordered one of serial version 3")
        if data[5] & _EMPTY:
            return ThetaSketch()
        if data[6:8] != _SEED_HASH:
            raise CorruptData("a Theta sketch has another seed than 9001")
        count = 1 if longs == 1 else int.from_bytes(data[8:12], "little")
        bound = _ALL if longs < 3 else int.from_bytes(data[16:24], "little")
        if len(data) < 8 * (longs + count):
            raise CorruptData("a Theta sketch is truncated")
        return ThetaSketch(np.frombuffer(data, "<u8", count, 8 * longs).astype(np.uint64), bound)


# MurmurHash3 (128 bits), with one NumPy pass for each 16 bytes of the longest string, over the strings of that length.

Numbers = npt.NDArray[np.uint64]
_BLOCK = 16
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_N1, _N2, _FIVE = np.uint64(0x52DCE729), np.uint64(0x38495AB5), np.uint64(5)
_F1, _F2, _HALF = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(33)
# The bits of the first 0 to 8 bytes of a little-endian word.
_FIRST = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


def hashes(
    data: bytes | memoryview, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], seed: int
) -> Numbers:
    """Return the first 64 bits of the MurmurHash3 of each string: `lengths` bytes of `data` from `starts` on."""
    padded = np.frombuffer(bytes(data) + bytes(_BLOCK), np.uint8)
    # The 8-byte word that begins at each byte.
    words: Numbers = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    order = np.argsort(-(lengths // _BLOCK), kind="stable")
    starts, lengths = starts[order], lengths[order]
    one, two = np.full(len(starts), seed, np.uint64), np.full(len(starts), seed, np.uint64)
    blocks = lengths // _BLOCK
    active = len(starts)
    for block in range(int(blocks.max(initial=0))):
        active = int(np.searchsorted(-blocks[:active], -block))  # strings with more blocks than this come first
        at = starts[:active] + block * _BLOCK
        one[:active], two[:active] = _mix(one[:active], two[:active], words[at], words[at + 8])
    at, left = starts + blocks * _BLOCK, lengths % _BLOCK
    first = words[at] & _FIRST[np.minimum(left, 8)]
    second = words[at + 8] & _FIRST[np.maximum(left - 8, 0)]
    found = np.empty(len(starts), np.uint64)
    found[order] = _finish(one, two, first, second, lengths.astype(np.uint64))
    return found


def hashes_of_words(words: Numbers, size: int, seed: int) -> Numbers:
    """Return the hashes of strings of `size` bytes, at most 8, given as little-endian words; see `hashes`."""
    start = np.full(len(words), seed, np.uint64)
    return _finish(start, start, words, np.zeros(1, np.uint64), np.full(1, size, np.uint64))


def _mix(one: Numbers, two: Numbers, first: Numbers, second: Numbers) -> tuple[Numbers, Numbers]:
    one = _rotate_left(one ^ _rotate_left(first * _C1, 31) * _C2, 27) + two
    one = one * _FIVE + _N1
    two = _rotate_left(two ^ _rotate_left(second * _C2, 33) * _C1, 31) + one
    return one, two * _FIVE + _N2


def _finish(one: Numbers, two: Numbers, first: Numbers, second: Numbers, lengths: Numbers) -> Numbers:
    """Return the hashes from the states `one` and `two`, after mixing in each string's last bytes and its length.

    The last bytes are the words `first` and `second`, which are zero beyond the string.
    """
    one = one ^ _rotate_left(first * _C1, 31) * _C2 ^ lengths
    two = two ^ _rotate_left(second * _C2, 33) * _C1 ^ lengths
    one = one + two
    two = two + one
    return _avalanche(one) + _avalanche(two)


def _rotate_left(words: Numbers, bits: int) -> Numbers:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _avalanche(words: Numbers) -> Numbers:
    words = (words ^ (words >> _HALF)) * _F1
    words = (words ^ (words >> _HALF)) * _F2
    return words ^ (words >> _HALF)


_ONE = np.uint64(1)
_ROWS = 1 << 16  # values hashed at once: they stay in the processor's cache
_WIDE = 16  # bytes of a decimal in Arrow


def is_hashed(kind: t.Type) -> bool:
    """Return whether values of a type can be hashed: only primitive types can."""
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
    """Return dates as days, and times and timestamps as numbers of their units."""
    whole = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
    found: npt.NDArray[np.int32 | np.int64] = values.view(whole).to_numpy()
    return found


def _hash_bytes(values: pa.Array) -> Numbers:
    values = values.filter(pc.greater(pc.binary_length(values), 0))  # DataSketches ignores empty values
    if not len(values):
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    data = values.buffers()[2][int(offsets[0]) : int(offsets[-1])]
    return hashes(data, offsets[:-1] - offsets[0], np.diff(offsets), SEED)


def _hash_decimals(values: pa.Array) -> Numbers:
    """Hash unscaled values as big-endian two's complement in the fewest bytes that hold them."""
    raw = np.frombuffer(values.buffers()[1], np.uint8)[values.offset * _WIDE : (values.offset + len(values)) * _WIDE]
    data = np.ascontiguousarray(raw.reshape(-1, _WIDE)[:, ::-1])
    sign = data[:, :1] >> 7
    # A first byte is left out if it only repeats the sign of the byte after it.
    repeats = (data[:, :-1] == sign * np.uint8(0xFF)) & (data[:, 1:] >> 7 == sign)
    skipped = np.cumprod(repeats, axis=1).sum(axis=1).astype(np.int64)
    starts = np.arange(len(data), dtype=np.int64) * _WIDE + skipped
    return hashes(data.tobytes(), starts, _WIDE - skipped, SEED)
