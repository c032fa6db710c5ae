"""Statistics of a written file: exact counts and bounds of its columns, identified by position and not by name.

Bounds are read from the Parquet footer that Arrow wrote, in Parquet's encoding: integers for times and decimals, bytes
for strings. Arrow omits the bounds of very long strings, and ignores NaN, which is counted here as rows pass.
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
    """A leaf column: the fields from the root to it, their positions, and whether a list or a map encloses it."""

    way: tuple[t.Field, ...]
    places: tuple[int, ...]
    is_repeated: bool = False

    @property
    def field(self) -> t.Field:
        """The leaf's own field."""
        return self.way[-1]


@dataclass(frozen=True)
class LeafStatistics:
    """One leaf column: compressed bytes, values (nulls and NaN included), nulls, NaNs; bounds of the rest, if known."""

    leaf: Leaf
    size: int | None
    values: int
    nulls: int | None
    nans: int | None
    least: Extreme | None
    most: Extreme | None


@dataclass(frozen=True)
class FileStatistics:
    """One file: its row count, the offsets of its row groups, and its leaf columns in order."""

    rows: int
    split_offsets: Sequence[int]
    leaves: Sequence[LeafStatistics]

    @staticmethod
    def of(metadata: pq.FileMetaData, leaves: Sequence[Leaf], nans: Sequence[int]) -> FileStatistics:
        """Read them from a footer; `nans` is the number of NaNs in each leaf column."""
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        columns = [
            _statistics(leaf, [group.column(place) for group in groups], nans[place])
            for place, leaf in enumerate(leaves)
        ]
        return FileStatistics(metadata.num_rows, [_start(group.column(0)) for group in groups], columns)


def leaves_of(fields: Sequence[t.Field]) -> list[Leaf]:
    """The leaf columns of a Parquet file with these fields, in order."""
    return [each for place, field in enumerate(fields) for each in _leaves((field,), (place,), is_repeated=False)]


def _leaves(way: tuple[t.Field, ...], places: tuple[int, ...], *, is_repeated: bool) -> Iterator[Leaf]:
    below = t.children(way[-1].type)
    if not below:
        yield Leaf(way, places, is_repeated)
    repeats = is_repeated or isinstance(way[-1].type, (t.ListOf, t.MapOf))
    for place, field in enumerate(below):
        yield from _leaves((*way, field), (*places, place), is_repeated=repeats)


def count_nans(rows: pa.Table, leaves: Sequence[Leaf]) -> list[int]:
    """The number of NaNs in each leaf column; 0 for columns without bounds (repeated or not floating-point)."""
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
    stats = [each for each in (chunk.statistics for chunk in chunks) if each is not None and each.has_null_count]
    if len(stats) < len(chunks):
        return LeafStatistics(leaf, size, values, None, nans, None, None)
    nulls = sum(each.null_count for each in stats)
    bounded = [each for each in stats if each.has_min_max]
    unbounded_values = sum(each.num_values for each in stats if not each.has_min_max)
    # A row group without bounds must hold nothing but NaN (and nulls), else the file's bounds are unknown.
    if not bounded or unbounded_values > nans or leaf.is_repeated:
        return LeafStatistics(leaf, size, values, nulls, nans, None, None)
    least = min(_extreme(each.min_raw, leaf.field.type) for each in bounded)
    most = max(_extreme(each.max_raw, leaf.field.type) for each in bounded)
    return LeafStatistics(leaf, size, values, nulls, nans, least, most)


def _extreme(value: Extreme, kind: t.Type) -> Extreme:
    if isinstance(kind, t.Decimal) and isinstance(value, bytes):
        return int.from_bytes(value, "big", signed=True)
    return value


def _start(first: pq.ColumnChunkMetaData) -> int:
    """The offset of a row group: that of its first column's dictionary page, if it has one, else of its data page."""
    offset: int = first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset
    return offset
