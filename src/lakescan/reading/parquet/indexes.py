"""Prunes row groups by Bloom filters and column indexes, after pruning by the statistics in the footer.

A Bloom filter has the hashes of a column's values in a row group: it proves that a value is not among them. A column
index has the bounds of each page: it proves that no page has a value in a range. Both are at the end of the file, and
are read only for the columns that the filter compares with literals. Single pages are not skipped, since pyarrow reads
whole row groups.

Parquet specification: `BloomFilter.md`, `PageIndex.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakescan.expressions.predicate import And, Comparison, In, Or, Predicate, conjunction, conjuncts, leaves
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.prune import might_match
from lakescan.reading.parquet import thrift
from lakescan.reading.parquet.footer import ChunkStatistics, Extent

_MOST_LITERALS = 200
_MOST_BYTES = 1 << 22  # maximum size of a Bloom filter or column index
_HEAD = 64  # bytes to read for the header of a Bloom filter
_MASK32, _MASK64 = (1 << 32) - 1, (1 << 64) - 1
_SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)
_PRIME = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261)

Read = Callable[[int, int], bytes]  # bytes of the file: offset, length


@dataclass(frozen=True)
class BloomFilter:
    """A split block Bloom filter, as an array with one row of eight 32-bit words for each block."""

    blocks: np.ndarray

    @staticmethod
    def parse(read: Read, extent: Extent, size: int) -> BloomFilter | None:
        """Read the filter at `extent` in a file of `size` bytes; None if damaged, too large, or of another kind."""
        start, length = extent
        if not 0 <= start < size or length > _MOST_BYTES:
            return None
        try:
            data = read(start, min(length or _HEAD, size - start))
            union = {1: _present}
            header, at = thrift.struct(
                data, 0, {1: thrift.integer, **{n: lambda d, i, kind: thrift.struct(d, i, union) for n in (2, 3, 4)}}
            )
        except (IndexError, ValueError):
            return None
        count = header.get(1, 0)
        is_known = all(1 in header.get(each, {}) for each in (2, 3, 4))  # blocks, xxHash, uncompressed
        if not is_known or count <= 0 or count % 32 or count > _MOST_BYTES or start + at + count > size:
            return None
        bits = data[at : at + count] if at + count <= len(data) else read(start + at, count)
        return BloomFilter(np.frombuffer(bits, "<u4").reshape(-1, 8)) if len(bits) == count else None

    def may_contain(self, hashed: int) -> bool:
        """Return whether the row group may have a value with this hash, from `value_hash`. False is certain."""
        block = self.blocks[((hashed >> 32) * len(self.blocks)) >> 32]
        key = hashed & _MASK32
        return all(int(word) >> ((key * salt & _MASK32) >> 27) & 1 for word, salt in zip(block, _SALT, strict=True))


def value_hash(value: Any, physical: str) -> int | None:
    """Return the 64-bit hash of an integer or string in a column of a physical type, such as "INT32".

    None if the column cannot store the value. Raises `ValueError` for an unsupported type.
    """
    if physical in ("INT32", "INT64") and isinstance(value, int):
        width = 4 if physical == "INT32" else 8
        least = -(1 << 8 * width - 1)
        return xxhash64(value.to_bytes(width, "little", signed=True)) if least <= value < -least else None
    if physical == "BYTE_ARRAY" and isinstance(value, str):
        return xxhash64(value.encode())
    raise ValueError(f"a value of type {type(value).__name__} in a column of type {physical}")


def xxhash64(data: bytes) -> int:
    """Return the 64-bit xxHash of bytes, with the seed 0.

    >>> hex(xxhash64(b""))
    '0xef46db3751d8e999'
    """
    one, two, three, four, five = _PRIME
    at, length = 0, len(data)
    if length >= 32:
        lanes = [(one + two) & _MASK64, two, 0, -one & _MASK64]
        while at + 32 <= length:
            for n in range(4):
                word = int.from_bytes(data[at + 8 * n : at + 8 * n + 8], "little")
                lanes[n] = _rotate_left((lanes[n] + word * two) & _MASK64, 31) * one & _MASK64
            at += 32
        total = sum(_rotate_left(lane, turn) for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK64
        for lane in lanes:
            total = ((total ^ _rotate_left(lane * two & _MASK64, 31) * one & _MASK64) * one + four) & _MASK64
    else:
        total = five
    total = (total + length) & _MASK64
    while at + 8 <= length:
        word = int.from_bytes(data[at : at + 8], "little")
        total ^= _rotate_left(word * two & _MASK64, 31) * one & _MASK64
        total = (_rotate_left(total, 27) * one + four) & _MASK64
        at += 8
    if at + 4 <= length:
        total ^= int.from_bytes(data[at : at + 4], "little") * one & _MASK64
        total = (_rotate_left(total, 23) * two + three) & _MASK64
        at += 4
    for byte in data[at:]:
        total ^= byte * five & _MASK64
        total = _rotate_left(total, 11) * one & _MASK64
    total = (total ^ total >> 33) * two & _MASK64
    total = (total ^ total >> 29) * three & _MASK64
    return total ^ total >> 32


def _rotate_left(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK64


def bloom_filters_may_match(
    predicate: Predicate, physical: Mapping[int, str], load: Callable[[int], BloomFilter | None]
) -> bool:
    """Return whether a row group may have a matching row, by the Bloom filters that `load` returns for field ids.

    `physical` maps the ids of fields that can be looked up to their physical types. `load` returns None without a
    filter.
    """

    def may_match(part: Predicate) -> bool:
        match part:
            case And(left, right):
                return may_match(left) and may_match(right)
            case Or(left, right):
                return may_match(left) or may_match(right)
            case Comparison(op="=") | In(negate=False) if part.bound_id in physical:
                values = part.values if isinstance(part, In) else (part.value,)
                return len(values) > _MOST_LITERALS or _may_have(values, physical[part.bound_id], part.bound_id)
        return True

    def _may_have(values: Sequence[pa.Scalar], kind: str, field_id: int) -> bool:
        found = load(field_id)
        if found is None:
            return True
        try:
            hashes = [value_hash(_physical_value(each), kind) for each in values]
        except ValueError:
            return True
        return any(each is not None and found.may_contain(each) for each in hashes)

    return may_match(predicate)


def equality_fields(predicate: Predicate) -> frozenset[int]:
    """Return the ids of the fields that a predicate compares with literals by `=` or `IN`."""
    found = (each for each in leaves(predicate) if isinstance(each, Comparison | In))
    return frozenset(
        each.bound_id for each in found if (each.op == "=" if isinstance(each, Comparison) else not each.negate)
    )


def _physical_value(value: pa.Scalar) -> Any:
    return value.cast(pa.int32()).as_py() if pa.types.is_date32(value.type) else value.as_py()


def page_statistics(data: bytes, physical_type: int | None) -> tuple[list[ChunkStatistics], pa.Array] | None:
    """Parse a column index; return the statistics of its pages, and a mask of pages with only nulls.

    `physical_type` is the number of the column's type in `parquet.thrift`. Returns None if the index is damaged.
    """
    fields = {1: _booleans, 2: _binaries, 3: _binaries, 5: _integers}
    try:
        index, _ = thrift.struct(data, 0, fields)
    except (IndexError, ValueError):
        return None
    only_null, least, most = (index.get(each, []) for each in (1, 2, 3))
    if not only_null or not len(only_null) == len(least) == len(most):
        return None
    counts = index.get(5) or [None] * len(only_null)
    if len(counts) != len(only_null):
        return None
    pages = [
        ChunkStatistics(physical_type, None if empty else low, None if empty else high, nulls, True)
        for empty, low, high, nulls in zip(only_null, least, most, counts, strict=True)
    ]
    return pages, pa.array(only_null, pa.bool_())


def pages_may_match(predicate: Predicate, stats_of: Callable[[int], ColumnStats | None]) -> bool:
    """Return whether a row group may have a matching row, by the page statistics of single columns.

    `stats_of` returns the statistics of a field id, one value for each page, or None. Pages of different columns
    contain different rows, so only conditions on one column are evaluated.
    """
    of_columns: dict[int, list[Predicate]] = {}
    for part in conjuncts(predicate):
        ids = {leaf.bound_id for leaf in leaves(part)}
        if len(ids) == 1:
            of_columns.setdefault(ids.pop(), []).append(part)
    for field_id, parts in of_columns.items():
        stats = stats_of(field_id)
        if stats is not None and stats.value_count is not None:
            mask = might_match(conjunction(parts), {field_id: stats}, len(stats.value_count))
            if not any(mask.to_pylist()):
                return False
    return True


def index_bytes(read: Read, extent: Extent | None, size: int) -> bytes | None:
    """Read the bytes of a column index in a file of `size` bytes; None if it is missing, too large, or out of range.

    `read` takes an offset and a length.
    """
    if extent is None or not 0 < extent[1] <= _MOST_BYTES or not 0 <= extent[0] <= size - extent[1]:
        return None
    data = read(*extent)
    return data if len(data) == extent[1] else None


def _present(data: bytes, at: int, kind: int) -> tuple[bool, int]:
    return True, thrift.skip(data, at, kind)


def _booleans(data: bytes, at: int, kind: int) -> tuple[list[bool], int]:
    count, _, at = thrift.head_of_list(data, at)
    return [data[at + n] == 1 for n in range(count)], at + count


def _binaries(data: bytes, at: int, kind: int) -> tuple[list[bytes], int]:
    count, _, at = thrift.head_of_list(data, at)
    values = []
    for _ in range(count):
        value, at = thrift.binary(data, at, 0)
        values.append(value)
    return values, at


def _integers(data: bytes, at: int, kind: int) -> tuple[list[int], int]:
    count, _, at = thrift.head_of_list(data, at)
    values = []
    for _ in range(count):
        value, at = thrift.integer(data, at, 0)
        values.append(value)
    return values, at
