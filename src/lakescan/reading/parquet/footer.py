"""Reads the footer of a Parquet file: offsets, row counts and column statistics of its row groups.

pyarrow aborts the process when the metadata of a damaged column chunk is accessed (an invalid repetition type, a bound
with too few bytes, a histogram of the wrong length). So it is used for row counts only; everything else is parsed here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakescan import limits
from lakescan.errors import CorruptData
from lakescan.planning.corrupt_statistics import can_trust_footer
from lakescan.reading.decoding_errors import decoding
from lakescan.reading.parquet import thrift
from lakescan.storage.errors import read_whole, redact

_MOST_CHUNKS = 4_096  # maximum column chunks to search for encodings; each takes a Python step
_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
_TAIL = 64 * 2**10  # bytes read in the first request: enough for most footers
_DO = "The file is damaged: restore it, or rewrite its rows."

# Field ids in the Parquet format's `parquet.thrift`.
_ROW_GROUPS, _COLUMN_ORDERS = 4, 7
_COLUMNS = 1
_METADATA, _INDEX_OFFSET, _INDEX_LENGTH = 3, 6, 7
_BLOOM_OFFSET, _BLOOM_LENGTH = 14, 15
_TYPE, _CODEC, _DATA_PAGE, _DICTIONARY_PAGE, _STATISTICS, _ENCODINGS = 1, 4, 9, 11, 12, 13
_PAGE, _ENCODING, _PAGES_OF = 1, 2, 3
_DATA_PAGES, _BY_DICTIONARY = (0, 3), (2, 8)
_OLD_MAX, _OLD_MIN, _NULL_COUNT, _MAX, _MIN = 1, 2, 3, 5, 6

_Fields = dict[int, Any]
Extent = tuple[int, int]  # offset and length in bytes


@dataclass(frozen=True)
class ChunkStatistics:
    """The statistics of a column chunk or page: encoded bounds and null count, None if absent.

    `physical_type` is the type's number in `parquet.thrift`. If not `ordered`, the footer declares no column order, and
    the bounds are the deprecated `min` and `max`.
    """

    physical_type: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None
    null_count: int | None = None
    ordered: bool = False


@dataclass(frozen=True)
class Footer:
    """A Parquet footer: pyarrow's `metadata`, and the footer's bytes (`data`), None if it is encrypted.

    Leaf columns are numbered in schema order. Methods raise `CorruptData` for a damaged footer.
    """

    path: str
    metadata: pq.FileMetaData
    data: bytes | None

    @cached_property
    def first_rows(self) -> np.ndarray:
        """The file position of each row group's first row, followed by the file's row count.

        Raises `CorruptData` if the row counts of the row groups do not add up.
        """
        counts = [self.metadata.row_group(i).num_rows for i in range(self.metadata.num_row_groups)]
        if min(counts, default=0) < 0 or sum(counts) != self.metadata.num_rows:
            raise CorruptData(
                f"{redact(self.path)}: its footer records {self.metadata.num_rows:,} rows, but its row groups have "
                f"{sum(counts):,}. {_DO}"
            )
        result: np.ndarray = np.concatenate([[0], np.cumsum(np.array(counts, dtype=np.int64))])
        return result

    def starts(self, size: int) -> list[int]:
        """Return the offset of each row group in the file of `size` bytes: that of its first column's first page.

        Raises `CorruptData` for an offset outside the file.
        """
        if self.data is None:  # an encrypted footer was authenticated, so pyarrow can be trusted with it
            chunks = [self.metadata.row_group(i).column(0) for i in range(self.metadata.num_row_groups)]
            offsets = [_first_page(c.dictionary_page_offset, c.data_page_offset) for c in chunks]
        else:
            firsts = [group.get(0, {}) for group in self._chunks(frozenset())]
            offsets = [_first_page(c.get(_DICTIONARY_PAGE), c.get(_DATA_PAGE, -1)) for c in firsts]
        for number, start in enumerate(offsets):
            if not 0 <= start < size:
                raise CorruptData(
                    f"{redact(self.path)}: by its footer, row group {number} starts at byte {start:,} of {size:,}. "
                    f"{_DO}"
                )
        return offsets

    def statistics(self, leaves: Iterable[int]) -> dict[int, list[ChunkStatistics]]:
        """Return the statistics of these leaf columns by number, one entry per row group; all unknown if encrypted."""
        wanted = frozenset(leaves)
        if self.data is None:
            return {leaf: [ChunkStatistics()] * self.metadata.num_row_groups for leaf in wanted}
        groups = self._chunks(wanted)
        return {leaf: [_statistics(g.get(leaf, {}), leaf in self._ordered_leaves) for g in groups] for leaf in wanted}

    def dictionary_leaves(self, leaves: Iterable[int]) -> frozenset[int]:
        """Return those of these leaf columns whose data pages are all dictionary-encoded, according to the footer.

        The result is empty if the footer has no page counts by encoding, is encrypted, or has more than 4,096 column
        chunks.
        """
        wanted = frozenset(leaves)
        chunks = self.metadata.num_row_groups * self.metadata.num_columns
        if self.data is None or not wanted or chunks > _MOST_CHUNKS:
            return frozenset()
        groups = self._chunks(wanted, _read_chunk_encodings)
        return frozenset(leaf for leaf in wanted if all(_has_dictionary_pages(g.get(leaf, {})) for g in groups))

    def codecs(self, leaves: Iterable[int]) -> dict[int, frozenset[int]]:
        """Return the compression codecs of these leaf columns, by their numbers in `parquet.thrift`.

        The result is empty if the footer is encrypted or has more than 4,096 column chunks.
        """
        wanted = frozenset(leaves)
        chunks = self.metadata.num_row_groups * self.metadata.num_columns
        if self.data is None or not wanted or chunks > _MOST_CHUNKS:
            return {}
        groups = self._chunks(wanted, _read_codec)
        return {leaf: frozenset(g.get(leaf, {}).get(_CODEC, -1) for g in groups) for leaf in wanted}

    def bloom_filters(self, leaves: Iterable[int]) -> dict[int, list[Extent | None]]:
        """Return the extents of these leaf columns' Bloom filters, one entry per row group; None without a filter.

        The length is 0 if the footer does not record it. The result is empty if the footer is encrypted or has more
        than 4,096 column chunks.
        """

        def extent(chunk: _Fields) -> Extent | None:
            column = chunk.get(_METADATA, {})
            at = column.get(_BLOOM_OFFSET)
            return None if at is None else (at, column.get(_BLOOM_LENGTH, 0))

        return self._extents(leaves, extent)

    def column_indexes(self, leaves: Iterable[int]) -> dict[int, list[Extent | None]]:
        """Return the extents of the column indexes (page statistics) of these leaf columns, one entry per row group.

        An entry is None without an index. The result is empty if the footer is encrypted or has more than 4,096 column
        chunks.
        """

        def extent(chunk: _Fields) -> Extent | None:
            at, length = chunk.get(_INDEX_OFFSET), chunk.get(_INDEX_LENGTH)
            return None if at is None or length is None else (at, length)

        return self._extents(leaves, extent)

    def _extents(
        self, leaves: Iterable[int], extent: Callable[[_Fields], Extent | None]
    ) -> dict[int, list[Extent | None]]:
        wanted = frozenset(leaves)
        if self.data is None or not wanted or self.metadata.num_row_groups * self.metadata.num_columns > _MOST_CHUNKS:
            return {}
        bloom: Mapping[int, thrift.Reader] = dict.fromkeys((_BLOOM_OFFSET, _BLOOM_LENGTH), thrift.integer)
        fields: dict[int, thrift.Reader] = {_METADATA: lambda data, at, kind: thrift.struct(data, at, bloom)}
        fields |= dict.fromkeys((_INDEX_OFFSET, _INDEX_LENGTH), thrift.integer)

        def columns(data: bytes, at: int, kind: int) -> tuple[dict[int, _Fields], int]:
            count, inner, at = thrift.head_of_list(data, at)
            chunks = {}
            for leaf in range(count):
                if leaf in wanted:
                    chunks[leaf], at = thrift.struct(data, at, fields)
                else:
                    at = thrift.skip(data, at, inner)
            return chunks, at

        groups = [group.get(_COLUMNS, {}) for group in self._elements(_ROW_GROUPS, {_COLUMNS: columns})]
        if len(groups) != self.metadata.num_row_groups:
            return {}
        return {leaf: [extent(group.get(leaf, {})) for group in groups] for leaf in wanted}

    def _chunks(self, leaves: frozenset[int], of_leaves: thrift.Reader | None = None) -> list[dict[int, _Fields]]:
        """Return, for each row group, the metadata fields of column chunks by leaf: the first leaf, and these leaves.

        `of_leaves` reads the metadata of `leaves`, by default with statistics. Raises `CorruptData`.
        """

        def column(data: bytes, at: int, leaf: int) -> tuple[_Fields, int]:
            metadata = (of_leaves or _read_chunk) if leaf in leaves else _read_pages
            chunk, at = thrift.struct(data, at, {_METADATA: metadata})
            return chunk.get(_METADATA, {}), at

        def columns(data: bytes, at: int, kind: int) -> tuple[dict[int, _Fields], int]:
            count, inner, at = thrift.head_of_list(data, at)
            chunks = {}
            for leaf in range(count):
                if leaf == 0 or leaf in leaves:
                    chunks[leaf], at = column(data, at, leaf)
                else:
                    at = thrift.skip(data, at, inner)
            return chunks, at

        groups = self._elements(_ROW_GROUPS, {_COLUMNS: columns})
        if len(groups) != self.metadata.num_row_groups:
            raise CorruptData(
                f"{redact(self.path)}: its footer has {len(groups):,} row groups where pyarrow reads "
                f"{self.metadata.num_row_groups:,}. {_DO}"
            )
        return [group.get(_COLUMNS, {}) for group in groups]

    @cached_property
    def _ordered_leaves(self) -> frozenset[int]:
        """The numbers of the leaf columns whose column order in the footer is the one defined by their type."""
        orders = self._elements(_COLUMN_ORDERS, {1: _present})
        return frozenset(leaf for leaf, order in enumerate(orders) if order)

    def _elements(self, number: int, wanted: Mapping[int, thrift.Reader]) -> list[_Fields]:
        """Return the structs in one of the footer's lists (field `number`), each with the `wanted` fields by id.

        Empty if the footer lacks the list. Raises `CorruptData`.
        """

        def elements(data: bytes, at: int, kind: int) -> tuple[list[_Fields], int]:
            count, _, at = thrift.head_of_list(data, at)
            structs = []
            for _ in range(count):
                each, at = thrift.struct(data, at, wanted)
                structs.append(each)
            return structs, at

        assert self.data is not None
        with decoding(self.path, "its footer"):
            structs: list[_Fields] = thrift.struct(self.data, 0, {number: elements})[0].get(number, [])
            return structs


def read_footer_bytes(file: pa.NativeFile, path: str) -> bytes | None:
    """Read the bytes of an open file's footer; None if it is encrypted.

    Raises `CorruptData` if the file is not Parquet, or its footer is larger than the file or `limits.FOOTER`.
    """
    size = int(file.size())
    tail = _end_of(file, path, size, min(size, _TAIL))
    if len(tail) < 12 or tail[-4:] not in (_MAGIC, _ENCRYPTED):
        raise CorruptData(
            f"{redact(path)} is not a readable Parquet file: its {size:,} bytes do not end with Parquet's magic bytes. "
            "It was truncated, or is another file: restore it."
        )
    if tail[-4:] == _ENCRYPTED:
        return None
    length = int.from_bytes(tail[-8:-4], "little")
    if length > min(size - 8, limits.FOOTER):
        raise CorruptData(
            f"{redact(path)} is not a readable Parquet file: it declares a footer of {length:,} bytes, but has "
            f"{size:,}, and the limit is {limits.FOOTER:,}. Restore it."
        )
    if length + 8 > len(tail):
        tail = _end_of(file, path, size, length + 8)
    return tail[-8 - length : -8]


def parse_footer(data: bytes, path: str) -> Footer:
    """Parse the bytes of a footer of the file at `path`; raises `CorruptData`.

    If pyarrow refuses the types in it, it is repaired by `remove_unknown_groups`.
    """
    with decoding(path, "its footer"):
        try:
            return Footer(path, _metadata(data), data)
        except OSError as error:
            if REFUSAL not in str(error):
                raise
        data = remove_unknown_groups(data)
        return Footer(path, _metadata(data), data)


def open_lenient(file: pa.NativeFile, path: str) -> pq.ParquetFile:
    """Open a Parquet file by pyarrow. If pyarrow refuses the types in its footer, open it with the repaired footer.

    Raises pyarrow's errors, and `CorruptData`.
    """
    try:
        return pq.ParquetFile(file)
    except OSError as error:
        if REFUSAL not in str(error):
            raise
    data = read_footer_bytes(file, path)
    return pq.ParquetFile(file, metadata=None if data is None else parse_footer(data, path).metadata)


def _metadata(data: bytes) -> pq.FileMetaData:
    return pq.read_metadata(pa.BufferReader(_MAGIC + data + len(data).to_bytes(4, "little") + _MAGIC))


def _end_of(file: pa.NativeFile, path: str, size: int, length: int) -> bytes:
    file.seek(size - length)
    return read_whole(file, path, length)


def _first_page(dictionary: int | None, data: int) -> int:
    return data if not dictionary or dictionary > data else dictionary


def _statistics(chunk: _Fields, ordered: bool) -> ChunkStatistics:
    stats, kind = chunk.get(_STATISTICS, {}), chunk.get(_TYPE)
    lower, upper = (stats.get(_MIN), stats.get(_MAX)) if ordered else (stats.get(_OLD_MIN), stats.get(_OLD_MAX))
    return ChunkStatistics(kind, lower, upper, stats.get(_NULL_COUNT), ordered)


def _has_dictionary_pages(chunk: _Fields) -> bool:
    pages = [each for each in chunk.get(_ENCODINGS, ()) if each.get(_PAGE) in _DATA_PAGES and each.get(_PAGES_OF)]
    return bool(pages) and all(each.get(_ENCODING) in _BY_DICTIONARY for each in pages)


def _present(data: bytes, at: int, kind: int) -> tuple[bool, int]:
    return True, thrift.skip(data, at, kind)


def _read_statistics(data: bytes, at: int, kind: int) -> tuple[_Fields, int]:
    bounds = dict.fromkeys((_OLD_MAX, _OLD_MIN, _MAX, _MIN), thrift.binary)
    return thrift.struct(data, at, {**bounds, _NULL_COUNT: thrift.integer})


def _read_encodings(data: bytes, at: int, kind: int) -> tuple[list[_Fields], int]:
    count, _, at = thrift.head_of_list(data, at)
    pages = []
    for _ in range(count):
        each, at = thrift.struct(data, at, dict.fromkeys((_PAGE, _ENCODING, _PAGES_OF), thrift.integer))
        pages.append(each)
    return pages, at


_PAGES: Mapping[int, thrift.Reader] = dict.fromkeys((_TYPE, _DATA_PAGE, _DICTIONARY_PAGE), thrift.integer)
_ALL: Mapping[int, thrift.Reader] = {**_PAGES, _STATISTICS: _read_statistics}


def _read_pages(data: bytes, at: int, kind: int) -> tuple[_Fields, int]:
    return thrift.struct(data, at, _PAGES)


def _read_chunk(data: bytes, at: int, kind: int) -> tuple[_Fields, int]:
    return thrift.struct(data, at, _ALL)


def _read_codec(data: bytes, at: int, kind: int) -> tuple[_Fields, int]:
    return thrift.struct(data, at, {_CODEC: thrift.integer})


def _read_chunk_encodings(data: bytes, at: int, kind: int) -> tuple[_Fields, int]:
    return thrift.struct(data, at, {_ENCODINGS: _read_encodings})


# Some writers set the logical type UNKNOWN for groups. The Parquet format only allows it for columns of nulls, and
# Arrow rejects the file. The converted type `MAP_KEY_VALUE` still identifies the group, so the logical type is removed
# from the bytes. Nothing else is changed.

REFUSAL = "cannot be applied to group node"
_SCHEMA, _CHILDREN, _LOGICAL_TYPE, _UNKNOWN = 2, 5, 10, 11  # field ids in FileMetaData, SchemaElement and LogicalType
_STRUCT = 12


def remove_unknown_groups(footer: bytes) -> bytes:
    """Return a footer's bytes without the logical type UNKNOWN of schema groups, which pyarrow refuses.

    Raises `IndexError` or `ValueError` if the footer is truncated.
    """
    ranges = thrift.struct(footer, 0, {_SCHEMA: _unknown_groups})[0].get(_SCHEMA, [])
    kept, end = [], 0
    for start, stop in ranges:
        kept.append(footer[end:start])
        end = stop
    return b"".join([*kept, footer[end:]])


def _unknown_groups(data: bytes, at: int, kind: int) -> tuple[list[tuple[int, int]], int]:
    """Return the byte ranges of the logical types UNKNOWN of groups in the footer's schema, and the offset after it.

    Only types that are the last field of their schema element are included. A reader for `thrift.struct`.
    """
    count, _, at = thrift.head_of_list(data, at)
    ranges = []
    for _ in range(count):
        element, at = thrift.struct(data, at, {_CHILDREN: thrift.integer, _LOGICAL_TYPE: _logical_type})
        is_unknown, start, stop = element.get(_LOGICAL_TYPE, (False, 0, 0))
        if element.get(_CHILDREN) and is_unknown and stop == at - 1:
            ranges.append((start, stop))
    return ranges, at


def _logical_type(data: bytes, at: int, kind: int) -> tuple[tuple[bool, int, int], int]:
    """Return whether a logical type is UNKNOWN, the byte range of the field with its one-byte header, and its end.

    A reader for `thrift.struct`.
    """
    union, stop = thrift.struct(data, at, {_UNKNOWN: _skip_member})
    head = data[at - 1]
    is_short = head >> 4 != 0 and head & 15 == _STRUCT
    return (is_short and _UNKNOWN in union, at - 1, stop), stop


def _skip_member(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    return True, thrift.skip(data, at, kind)


# Physical types by their numbers in `parquet.thrift`.
_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTES, _FIXED = 0, 1, 2, 4, 5, 6, 7
_LAYOUT = {_BOOLEAN: "u1", _INT32: "<i4", _INT64: "<i8", _FLOAT: "<f4", _DOUBLE: "<f8"}
PHYSICAL = {"BOOLEAN": 0, "INT32": 1, "INT64": 2, "INT96": 3, "FLOAT": 4, "DOUBLE": 5}
PHYSICAL |= {"BYTE_ARRAY": _BYTES, "FIXED_LEN_BYTE_ARRAY": _FIXED}
_EXACT = Context(prec=80)


def decode_bounds(
    statistics: Sequence[ChunkStatistics], side: str, physical_type: str, kind: pa.DataType, created_by: str | None
) -> pa.Array | None:
    """Decode the bounds of one side ('lower' or 'upper') to an array of `kind`; null for chunks without reliable ones.

    Returns None if bounds of this type cannot be decoded, or the writer `created_by` is known to record wrong ones.
    `physical_type` is the schema's, such as "INT32"; a chunk of another type gets null.
    """
    number = PHYSICAL.get(physical_type)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not can_trust_footer(created_by, physical_type, kind):
        return None
    plain = number in _LAYOUT and not pa.types.is_unsigned_integer(kind)
    values = [getattr(s, side) if s.physical_type == number and (s.ordered or plain) else None for s in statistics]
    if number in _LAYOUT:
        return _numbers(values, _LAYOUT[number], kind)
    return _bytes(values, kind) if number in (_BYTES, _FIXED) else None


def _numbers(values: list[bytes | None], layout: str, kind: pa.DataType) -> pa.Array | None:
    width = np.dtype(layout).itemsize
    missing = np.array([v is None or len(v) != width for v in values], dtype=bool)
    joined = b"".join(bytes(width) if absent else v or b"" for v, absent in zip(values, missing, strict=True))
    numbers = np.frombuffer(joined, dtype=layout)
    if layout == "u1":
        return pa.array(numbers != 0, mask=missing) if pa.types.is_boolean(kind) else None
    if pa.types.is_floating(kind):
        return pa.array(numbers, mask=missing | np.isnan(numbers)).cast(kind)
    if pa.types.is_decimal(kind):
        return _decimals([None if absent else int(v) for v, absent in zip(numbers, missing, strict=True)], kind)
    if pa.types.is_unsigned_integer(kind):
        return pa.array(numbers.view(layout.replace("i", "u")), mask=missing).cast(kind)
    whole = pa.array(numbers, mask=missing)
    return whole.cast(kind) if pa.types.is_integer(kind) else whole.view(kind)


def _bytes(values: list[bytes | None], kind: pa.DataType) -> pa.Array | None:
    if pa.types.is_decimal(kind):
        return _decimals([None if v is None else int.from_bytes(v, "big", signed=True) for v in values], kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array([None if v is None else _text(v) for v in values], kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array(values, kind)
    return None


def _decimals(unscaled: list[int | None], kind: pa.DataType) -> pa.Array:
    decimals: list[Any] = [None if v is None else Decimal(v).scaleb(-kind.scale, _EXACT) for v in unscaled]
    return pa.array(decimals, kind)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
