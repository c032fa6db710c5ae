"""Rule out equality deletes by statistics: a delete whose keys share no value range and no null with a data file.

Statistics are per column, and a row is deleted only if all its key columns match. So one column that cannot match rules
out the pair. Missing statistics rule out nothing.

If there are too many pairs to enumerate, neighbouring deletes are compared as blocks, by statistics that hold for all
of them. Remaining blocks are divided while that leaves few enough pairs. Readers compare sequence numbers and keys
themselves, so keeping a delete that does not apply costs time but is not wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.iceberg.manifests.bounds import recorded_stats
from lakescan.planning.column_stats import ColumnStats

_MOST = 1 << 22  # maximum pairs of a data file and a block of deletes
_AT_ONCE = 1 << 18
_LARGEST = 1 << 30


@dataclass(frozen=True)
class _Side:
    """Statistics of one column in each data file, or in each delete file.

    `lower` and `upper` are its bounds, and the others are masks: whether it certainly has no null, only nulls, or no
    NaN.
    """

    lower: pa.Array | None
    upper: pa.Array | None
    no_null: np.ndarray
    only_null: np.ndarray
    no_nan: np.ndarray

    @staticmethod
    def read(stats: ColumnStats, rows: int, kind: t.Type) -> _Side:
        nulls = _fill_counts(stats.null_count, rows)
        values = _fill_counts(stats.value_count, rows)
        no_nan = _fill_counts(stats.nan_count, rows) == 0 if kind in t.FLOATING else np.ones(rows, dtype=bool)
        return _Side(stats.lower, stats.upper, nulls == 0, (nulls == values) & (nulls > 0), no_nan)

    def merge_blocks(self, size: int) -> _Side:
        """Return statistics of blocks of `size` neighbouring files, which hold for all files of a block."""
        starts = np.arange(0, len(self.no_null), size)
        masks = [np.logical_and.reduceat(each, starts) for each in (self.no_null, self.only_null, self.no_nan)]
        return _Side(_merge_bounds(self.lower, size, "min"), _merge_bounds(self.upper, size, "max"), *masks)


@dataclass(frozen=True)
class ComparedColumns:
    """The statistics that delete files record of the columns that equality deletes compare.

    `deletes` has `stats`, `record_count` and `equality_ids`; `fields` are all fields that the table has or had, by id.
    """

    deletes: pa.Table
    fields: Mapping[int, t.Field]
    _merged: dict[tuple[int, int], tuple[_Side, np.ndarray]] = field(default_factory=dict, compare=False)

    @cached_property
    def _key_masks(self) -> dict[int, np.ndarray]:
        """For each column that can rule out deletes, a mask of the deletes that compare it."""
        compared = self.deletes["equality_ids"].combine_chunks()
        parents, ids = pc.list_parent_indices(compared).to_numpy(), compared.flatten().to_numpy()
        masks = {}
        for field_id in np.unique(ids).tolist():
            known = self.fields.get(field_id)
            if known is None or t.children(known.type):
                continue
            masks[field_id] = mask = np.zeros(self.deletes.num_rows, dtype=bool)
            mask[parents[ids == field_id]] = True
        return masks

    def pair_columns(self, data: pa.Table) -> list[_Column]:
        """Return the columns that can rule out deletes, with their statistics in the data files.

        The result is empty if `data` has no statistics.
        """
        if "stats" not in data.column_names:
            return []
        return [_Column(self, each, self._side(data, each)) for each in self._key_masks]

    @cached_property
    def _members(self) -> frozenset[int]:
        """The ids of the fields that are members of structs."""
        return frozenset(each.id for field in self.fields.values() for each in t.children(field.type))

    def _side(self, files: pa.Table, field_id: int) -> _Side:
        field = self.fields[field_id]
        stats = recorded_stats(files, field, is_member=field_id in self._members)
        return _Side.read(stats, files.num_rows, field.type)

    def block_stats(self, field_id: int, size: int) -> tuple[_Side, np.ndarray]:
        """Return statistics of blocks of `size` neighbouring deletes, and whether all in a block compare the column."""
        key = (field_id, size)
        if key not in self._merged:
            if size == 1:
                self._merged[key] = self._side(self.deletes, field_id), self._key_masks[field_id]
            else:
                side, mask = self.block_stats(field_id, 1)
                starts = np.arange(0, len(mask), size)
                self._merged[key] = side.merge_blocks(size), np.logical_and.reduceat(mask, starts)
        return self._merged[key]


@dataclass(frozen=True)
class _Column:
    """A column that some of the deletes compare, with its statistics in data files."""

    columns: ComparedColumns
    field_id: int
    data: _Side

    def rules_out(self, data: np.ndarray, block: np.ndarray, size: int) -> np.ndarray:
        """Return, for each pair of a data file and a block of `size` deletes, whether they certainly share no key.

        `data` and `block` have the numbers of the data files and of the blocks.
        """
        deletes, is_compared = self.columns.block_stats(self.field_id, size)
        result: np.ndarray = is_compared[block] & _disjoint(self.data, deletes, data, block)
        return result


Ranges = tuple[np.ndarray, np.ndarray, np.ndarray]


def sharing_keys(data: pa.Table, deletes: ComparedColumns, ranges: Ranges) -> Ranges:
    """Return the parts of ranges of equality deletes that may delete rows of their data files.

    A range is a data file, the first delete and the last delete (exclusive), as row numbers in both tables. The data
    files have `stats` and `record_count`.
    """
    columns = deletes.pair_columns(data)
    if not columns:
        return ranges
    size = _block(ranges)
    while True:
        ranges = _remaining(columns, ranges, size)
        smaller = _block(ranges)
        if size == 1 or smaller >= size:
            return ranges
        size = smaller


def _block(ranges: Ranges) -> int:
    """Return how many neighbouring deletes to compare at once, a power of two, for at most `_MOST` pairs."""
    _, first, stop = ranges
    size = 1
    while np.sum((stop - 1) // size - first // size + 1) > _MOST and size < _LARGEST:
        size *= 2
    return size


def _remaining(columns: list[_Column], ranges: Ranges, size: int) -> Ranges:
    """Return the parts of ranges that are not ruled out when blocks of `size` deletes are compared."""
    file, first, stop = ranges
    if not len(file):
        return ranges
    counts = (stop - 1) // size - first // size + 1
    before = np.cumsum(counts) - counts
    parts: list[Ranges] = []
    cuts = np.unique(np.searchsorted(before, np.arange(0, max(int(counts.sum()), 1), _AT_ONCE)))
    for low, high in pairwise([*cuts[cuts < len(file)].tolist(), len(file)]):
        some = slice(low, high)
        owner = np.repeat(np.arange(low, high), counts[some])
        block = np.arange(len(owner)) - np.repeat(before[some] - before[low], counts[some]) + (first // size)[owner]
        keep = np.ones(len(owner), dtype=bool)
        for column in columns:
            keep[keep] = ~column.rules_out(file[owner[keep]], block[keep], size)
        owner, block = owner[keep], block[keep]
        begins = np.ones(len(owner), dtype=bool)
        begins[1:] = (owner[1:] != owner[:-1]) | (block[1:] != block[:-1] + 1)
        ends = np.append(begins[1:], True) if len(begins) else begins
        run = owner[begins]
        parts.append(
            (
                file[run],
                np.maximum(first[run], block[begins] * size),
                np.minimum(stop[run], (block[ends] + 1) * size),
            )
        )
    files, firsts, stops = (np.concatenate(each) for each in zip(*parts, strict=True))
    return files, firsts, stops


def _disjoint(data: _Side, deletes: _Side, rows: np.ndarray, delete_rows: np.ndarray) -> np.ndarray:
    """Return, pair by pair, whether the two sides certainly share no value; `rows` and `delete_rows` are the pairs.

    That is so if one side has no nulls, and if one side has only nulls, or the value ranges are disjoint and one side
    has no NaNs.
    """
    no_common_null = data.no_null[rows] | deletes.no_null[delete_rows]
    no_common_nan = data.no_nan[rows] | deletes.no_nan[delete_rows]
    one_is_null = data.only_null[rows] | deletes.only_null[delete_rows]
    apart = _below(data.upper, deletes.lower, rows, delete_rows) | _below(deletes.upper, data.lower, delete_rows, rows)
    result: np.ndarray = no_common_null & (one_is_null | (apart & no_common_nan))
    return result


def _below(upper: pa.Array | None, lower: pa.Array | None, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return, pair by pair, whether an upper bound (in `rows`) is less than a lower bound (in `others`).

    It is False if a bound is missing.
    """
    if upper is None or lower is None:
        return np.zeros(len(rows), dtype=bool)
    below = pc.less(upper.take(pa.array(rows)), lower.take(pa.array(others)))
    result: np.ndarray = pc.fill_null(below, False).to_numpy(zero_copy_only=False)
    return result


def _merge_bounds(bounds: pa.Array | None, size: int, how: str) -> pa.Array | None:
    """Return the least or greatest (`how`: min or max) bound of each `size` neighbours; null if any of them is unknown.

    Returns None without bounds.
    """
    if bounds is None or pa.types.is_null(bounds.type):
        return None
    if pa.types.is_floating(bounds.type):
        bounds = pc.if_else(pc.is_nan(bounds), pa.scalar(None, bounds.type), bounds)
    block = np.arange(len(bounds)) // size
    unknown = np.zeros(int(block.max(initial=-1)) + 1, dtype=bool)
    unknown[block[bounds.is_null().to_numpy(zero_copy_only=False)]] = True
    groups = pa.table({"block": block, "bound": bounds}).group_by("block", use_threads=False)
    found = groups.aggregate([("bound", how)]).sort_by("block")[f"bound_{how}"].combine_chunks()
    return pc.if_else(pa.array(unknown), pa.scalar(None, found.type), found)


def _fill_counts(counts: pa.Array | None, rows: int) -> np.ndarray:
    """Return counts as int64, with -1 for missing ones."""
    if counts is None:
        return np.full(rows, -1, dtype=np.int64)
    result: np.ndarray = pc.fill_null(counts.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return result
