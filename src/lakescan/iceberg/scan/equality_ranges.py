"""Rule out equality deletes by statistics: they do not apply if keys and data share no value range and no null.

Statistics are per column, and a row is deleted only if all its key columns match: one column that cannot match rules
the pair out. Missing statistics rule nothing out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.iceberg.manifests.bounds import column_stats
from lakescan.planning.column_stats import ColumnStats


@dataclass(frozen=True)
class _Side:
    """Statistics of one column in each data file, or in each delete file."""

    lower: pa.Array | None
    upper: pa.Array | None
    no_null: np.ndarray
    only_null: np.ndarray
    no_nan: np.ndarray

    @staticmethod
    def of(stats: ColumnStats, rows: int, kind: t.Type) -> _Side:
        nulls = _known(stats.null_count, rows)
        values = _known(stats.value_count, rows)
        no_nan = _known(stats.nan_count, rows) == 0 if kind in t.FLOATING else np.ones(rows, dtype=bool)
        return _Side(stats.lower, stats.upper, nulls == 0, (nulls == values) & (nulls > 0), no_nan)


def may_share_keys(
    data: pa.Table, deletes: pa.Table, data_rows: np.ndarray, delete_rows: np.ndarray, fields: Mapping[int, t.Field]
) -> np.ndarray:
    """Whether the delete may apply, for each pair of a data file and an equality delete file (row numbers in both).

    `fields` are all fields that the table has or had, by id. Both tables have `stats` and `record_count`, the deletes
    also `equality_ids`. Evaluates all pairs at once, column by column.
    """
    keep = np.ones(len(data_rows), dtype=bool)
    if "stats" not in data.column_names or not len(data_rows):
        return keep
    compared = deletes["equality_ids"].combine_chunks()
    parents, ids = pc.list_parent_indices(compared).to_numpy(), compared.flatten().to_numpy()
    for field_id in np.unique(ids).tolist():
        field = fields.get(field_id)
        if field is None or t.children(field.type):
            continue
        affected = np.isin(delete_rows, parents[ids == field_id])
        ours, theirs = (_side(table, field) for table in (data, deletes))
        pairs = data_rows[affected], delete_rows[affected]
        keep[affected] &= ~_disjoint(ours, theirs, *pairs)
    return keep


def _side(files: pa.Table, field: t.Field) -> _Side:
    counts = files["record_count"].combine_chunks()
    return _Side.of(column_stats(files["stats"].combine_chunks(), field, counts), files.num_rows, field.type)


def _disjoint(data: _Side, deletes: _Side, rows: np.ndarray, delete_rows: np.ndarray) -> np.ndarray:
    """Whether the two sides share no value: not both have nulls, and one has only nulls or the ranges are disjoint."""
    no_common_null = data.no_null[rows] | deletes.no_null[delete_rows]
    no_common_nan = data.no_nan[rows] | deletes.no_nan[delete_rows]
    one_is_null = data.only_null[rows] | deletes.only_null[delete_rows]
    apart = _below(data.upper, deletes.lower, rows, delete_rows) | _below(deletes.upper, data.lower, delete_rows, rows)
    result: np.ndarray = no_common_null & (one_is_null | (apart & no_common_nan))
    return result


def _below(upper: pa.Array | None, lower: pa.Array | None, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether an upper bound is less than a lower bound, pair by pair."""
    if upper is None or lower is None:
        return np.zeros(len(rows), dtype=bool)
    below = pc.less(upper.take(pa.array(rows)), lower.take(pa.array(others)))
    result: np.ndarray = pc.fill_null(below, False).to_numpy(zero_copy_only=False)
    return result


def _known(counts: pa.Array | None, rows: int) -> np.ndarray:
    """Counts as int64, -1 where missing."""
    if counts is None:
        return np.full(rows, -1, dtype=np.int64)
    result: np.ndarray = pc.fill_null(counts.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    return result
