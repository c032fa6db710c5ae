"""What is known of a file that was written: counts and extremes of its columns, exact, by place and not by name.

Extremes are those of the Parquet footer that Arrow wrote, as Parquet has them: integers for times and decimals, bytes
for texts. Arrow leaves out those of very long texts, and NaN, which is counted here as rows go by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.common import types as t

Extreme = bool | int | float | bytes


@dataclass(frozen=True)
class Leaf:
    """A column of a Parquet file: the fields on the way to it, their places; whether a list or a map is above it."""

    way: tuple[t.Field, ...]
    places: tuple[int, ...]
    is_repeated: bool = False

    @property
    def field(self) -> t.Field:
        """The field itself."""
        return self.way[-1]


@dataclass(frozen=True)
class LeafStatistics:
    """Of one column: bytes, values (nulls and NaN among them), nulls, NaN; the extremes of the others, if known."""

    leaf: Leaf
    size: int
    values: int
    nulls: int | None
    nans: int
    least: Extreme | None
    most: Extreme | None


@dataclass(frozen=True)
class FileStatistics:
    """Of a file: its rows, where its row groups begin, and its columns in their order."""

    rows: int
    split_offsets: Sequence[int]
    leaves: Sequence[LeafStatistics]

    @staticmethod
    def of(metadata: pq.FileMetaData, leaves: Sequence[Leaf], nans: Sequence[int]) -> FileStatistics:
        """From the footer of a file with these columns, and the number of NaN in each."""
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        found = [
            _statistics(leaf, [group.column(place) for group in groups], nans[place])
            for place, leaf in enumerate(leaves)
        ]
        return FileStatistics(metadata.num_rows, [_start(group.column(0)) for group in groups], found)


def leaves_of(fields: Sequence[t.Field]) -> list[Leaf]:
    """The columns of a Parquet file with such fields, in their order."""
    return [each for place, field in enumerate(fields) for each in _leaves((field,), (place,), is_repeated=False)]


def _leaves(way: tuple[t.Field, ...], places: tuple[int, ...], *, is_repeated: bool) -> Iterator[Leaf]:
    below = t.children(way[-1].type)
    if not below:
        yield Leaf(way, places, is_repeated)
    repeats = is_repeated or isinstance(way[-1].type, (t.ListOf, t.MapOf))
    for place, field in enumerate(below):
        yield from _leaves((*way, field), (*places, place), is_repeated=repeats)


def count_nans(rows: pa.Table, leaves: Sequence[Leaf]) -> list[int]:
    """The NaN of each column that has extremes."""
    return [
        _nans(rows.column(leaf.places[0]), leaf.places[1:])
        if leaf.field.type in t.FLOATING and not leaf.is_repeated
        else 0
        for leaf in leaves
    ]


def _nans(column: pa.ChunkedArray, places: tuple[int, ...]) -> int:
    for place in places:
        column = pc.struct_field(column, [place])
    return pc.sum(pc.is_nan(column)).as_py() or 0


def _statistics(leaf: Leaf, chunks: Sequence[pq.ColumnChunkMetaData], nans: int) -> LeafStatistics:
    size, values = sum(chunk.total_compressed_size for chunk in chunks), sum(chunk.num_values for chunk in chunks)
    said = [one for one in (chunk.statistics for chunk in chunks) if one is not None and one.has_null_count]
    if len(said) < len(chunks):
        return LeafStatistics(leaf, size, values, None, nans, None, None)
    nulls = sum(one.null_count for one in said)
    bounded = [one for one in said if one.has_min_max]
    without = sum(one.num_values for one in said if not one.has_min_max)
    if not bounded or without > nans or leaf.is_repeated:  # row groups without extremes may have nothing but NaN
        return LeafStatistics(leaf, size, values, nulls, nans, None, None)
    least = min(_extreme(one.min_raw, leaf.field.type) for one in bounded)
    most = max(_extreme(one.max_raw, leaf.field.type) for one in bounded)
    return LeafStatistics(leaf, size, values, nulls, nans, least, most)


def _extreme(value: Extreme, kind: t.Type) -> Extreme:
    if isinstance(kind, t.Decimal) and isinstance(value, bytes):
        return int.from_bytes(value, "big", signed=True)
    return value


def _start(first: pq.ColumnChunkMetaData) -> int:
    """Where a row group begins: at its first column's dictionary, if that has one."""
    offset: int = first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset
    return offset
