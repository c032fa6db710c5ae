"""Statistics of a written file: exact counts and bounds of its columns, which are identified by position.

Bounds are read from the Parquet footer that Arrow wrote, in Parquet's encoding: integers for times and decimals, bytes
for strings. Arrow omits the bounds of very long strings, and ignores NaN, so NaNs are counted here while rows are
written.

A column with NaN gets no statistics in the footer. Spark orders NaN above all numbers and would skip row groups by
bounds that ignore NaN. For such columns, the statistics are computed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.common import types as t

Extreme = bool | int | float | bytes


@dataclass(frozen=True)
class LeafColumn:
    """A leaf column of a Parquet file.

    - `way`: the fields from the top-level column down to the leaf.
    - `places`: the position of each of these fields in its parent (of the first one, among the columns).
    - `is_repeated`: whether a list or map encloses the leaf.
    """

    way: tuple[t.Field, ...]
    places: tuple[int, ...]
    is_repeated: bool = False

    @property
    def field(self) -> t.Field:
        """The leaf's field."""
        return self.way[-1]


@dataclass(frozen=True)
class NanStatistics:
    """Statistics of a floating-point leaf column with NaN, computed from its values.

    - `nans`, `nulls`: their numbers.
    - `least`, `most`: bounds of the other values; None without other values.
    """

    nans: int = 0
    nulls: int = 0
    least: float | None = None
    most: float | None = None

    def __add__(self, other: NanStatistics) -> NanStatistics:
        """Return the statistics of the rows of both."""
        least = [each for each in (self.least, other.least) if each is not None]
        most = [each for each in (self.most, other.most) if each is not None]
        nans, nulls = self.nans + other.nans, self.nulls + other.nulls
        return NanStatistics(nans, nulls, min(least, default=None), max(most, default=None))


@dataclass(frozen=True)
class LeafStatistics:
    """Statistics of one leaf column of a file.

    - `size`: compressed bytes.
    - `values`: the number of values, including nulls and NaNs.
    - `nulls`, `nans`: their numbers; None if unknown.
    - `least`, `most`: bounds of the values without nulls and NaNs, in Parquet's encoding; None if unknown or without
      values.
    """

    leaf: LeafColumn
    size: int | None
    values: int
    nulls: int | None
    nans: int | None
    least: Extreme | None
    most: Extreme | None


@dataclass(frozen=True)
class FileStatistics:
    """Statistics of one file: its row count, the byte offset of each row group, and its leaf columns in order."""

    rows: int
    split_offsets: Sequence[int]
    leaves: Sequence[LeafStatistics]

    @staticmethod
    def read_footer(
        metadata: pq.FileMetaData, leaves: Sequence[LeafColumn], counted: Mapping[int, NanStatistics]
    ) -> FileStatistics:
        """Read statistics from a Parquet footer.

        `leaves` are all leaf columns of the file. `counted` has the statistics of those that have none in the footer,
        because they have NaN, by index in `leaves`.
        """
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        columns = [
            _statistics(leaf, [group.column(place) for group in groups], counted.get(place))
            for place, leaf in enumerate(leaves)
        ]
        return FileStatistics(metadata.num_rows, [_start(group.column(0)) for group in groups], columns)


def leaves_of(fields: Sequence[t.Field]) -> list[LeafColumn]:
    """Return the leaf columns of a Parquet file with these top-level columns, in order."""
    return [each for place, field in enumerate(fields) for each in _leaves((field,), (place,), is_repeated=False)]


def _leaves(way: tuple[t.Field, ...], places: tuple[int, ...], *, is_repeated: bool) -> Iterator[LeafColumn]:
    below = t.children(way[-1].type)
    if not below:
        yield LeafColumn(way, places, is_repeated)
    repeats = is_repeated or isinstance(way[-1].type, (t.ListOf, t.MapOf))
    for place, field in enumerate(below):
        yield from _leaves((*way, field), (*places, place), is_repeated=repeats)


def nan_columns(rows: pa.Table, leaves: Sequence[LeafColumn]) -> frozenset[int]:
    """Return the indexes in `leaves` of the floating-point leaf columns that have NaN in these rows.

    Columns inside lists and maps, which have no bounds, are left out.
    """
    return frozenset(
        place
        for place, leaf in enumerate(leaves)
        if leaf.field.type in t.FLOATING and not leaf.is_repeated and pc.any(pc.is_nan(_values(rows, leaf))).as_py()
    )


def nan_statistics(rows: pa.Table, leaf: LeafColumn) -> NanStatistics:
    """Compute the statistics of one floating-point leaf column, outside of lists and maps, over all rows."""
    values = _values(rows, leaf)
    is_nan = pc.fill_null(pc.is_nan(values), False)
    bounds = pc.min_max(values.filter(pc.invert(is_nan))).as_py()
    # As Parquet requires, a lower bound of zero is -0.0, and an upper bound of zero is 0.0.
    least = -0.0 if bounds["min"] == 0 else bounds["min"]
    most = 0.0 if bounds["max"] == 0 else bounds["max"]
    return NanStatistics(pc.sum(is_nan).as_py() or 0, values.null_count, least, most)


def _values(rows: pa.Table, leaf: LeafColumn) -> pa.ChunkedArray:
    column = rows.column(leaf.places[0])
    for place in leaf.places[1:]:
        column = pc.struct_field(column, [place])
    return column


def _statistics(
    leaf: LeafColumn, chunks: Sequence[pq.ColumnChunkMetaData], told: NanStatistics | None
) -> LeafStatistics:
    size, values = sum(chunk.total_compressed_size for chunk in chunks), sum(chunk.num_values for chunk in chunks)
    if told is not None:
        return LeafStatistics(leaf, size, values, told.nulls, told.nans, told.least, told.most)
    stats = [each for each in (chunk.statistics for chunk in chunks) if each is not None and each.has_null_count]
    if len(stats) < len(chunks):
        return LeafStatistics(leaf, size, values, None, 0, None, None)
    nulls = sum(each.null_count for each in stats)
    bounded = [each for each in stats if each.has_min_max]
    unbounded_values = sum(each.num_values for each in stats if not each.has_min_max)
    # Unless a row group without bounds has only nulls, the file's bounds are unknown.
    if not bounded or unbounded_values > 0 or leaf.is_repeated:
        return LeafStatistics(leaf, size, values, nulls, 0, None, None)
    least = min(_extreme(each.min_raw, leaf.field.type) for each in bounded)
    most = max(_extreme(each.max_raw, leaf.field.type) for each in bounded)
    return LeafStatistics(leaf, size, values, nulls, 0, least, most)


def _extreme(value: Extreme, kind: t.Type) -> Extreme:
    if isinstance(kind, t.Decimal) and isinstance(value, bytes):
        return int.from_bytes(value, "big", signed=True)
    return value


def _start(first: pq.ColumnChunkMetaData) -> int:
    """Return the byte offset where a row group begins, from the footer metadata of its first column.

    That is the offset of the column's dictionary page if it has one, else of its first data page.
    """
    offset: int = first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset
    return offset
