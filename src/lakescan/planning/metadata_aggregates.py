"""Compute the minimum, maximum and row count from metadata where that is exact, and find the files that must be read.

The order is that of SQL: nulls are ignored, and NaN is greater than everything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.expressions.predicate import TRUE
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.corrupt_statistics import drop_contradictions
from lakescan.planning.delete_files import DeleteKind
from lakescan.planning.plan import ScanPlan

# Types with a supported order, besides decimals and timestamps.
ORDERED = (*t.INTEGRAL, *t.FLOATING, t.BOOLEAN, t.DATE, t.TIME, t.STRING, t.BINARY)


@dataclass(frozen=True)
class Extreme:
    """A minimum or maximum from the files with exact metadata, and the files that must be read for the others.

    - `value`: the extreme value; None without one.
    - `unknown`: a mask of the files to read.
    """

    value: pa.Scalar | None
    unknown: pa.Array


def extreme_by_metadata(plan: ScanPlan, field: t.Field, *, largest: bool) -> Extreme:
    """Find the minimum, or with `largest` the maximum, of a column among files that need not be read, and the others.

    A file need not be read if all of its rows count (no residual, no deletes) and its bound is exact, if all its values
    are null, or if its bound proves that it cannot exceed the value found in other files.
    """
    stats = _with_constants(plan, field)
    bound = stats.upper if largest else stats.lower
    rows = len(plan.table)
    if bound is None:
        return Extreme(None, pc.invert(_all_null(stats, rows)))
    present = pc.is_valid(bound).to_numpy(zero_copy_only=False)
    if largest and field.type in t.FLOATING:
        present &= _zeros(stats.nan_count, rows)
    known = present & _true(stats.exact, rows) & _every_row_counts(plan)
    values = bound.filter(pa.array(known))
    best = extreme_of(values, largest=largest)
    beaten = np.zeros(rows, dtype=bool)
    if best is not None:
        compare = pc.less_equal if largest else pc.greater_equal
        beaten = present & pc.fill_null(compare(bound, best), False).to_numpy(zero_copy_only=False)
    done = known | beaten | _all_null(stats, rows).to_numpy(zero_copy_only=False)
    return Extreme(best, pa.array(~done))


def extreme_of(values: pa.Array | pa.ChunkedArray, *, largest: bool) -> pa.Scalar | None:
    """Return the minimum, or with `largest` the maximum, of an array, with NaN as the greatest value.

    None if all values are null.
    """
    values = values.drop_null()
    if not len(values):
        return None
    if pa.types.is_floating(values.type):
        is_nan = pc.is_nan(values)
        if pc.any(is_nan).as_py() and (largest or pc.all(is_nan).as_py()):
            return pa.scalar(float("nan"), values.type)
        values = values.filter(pc.invert(is_nan))
    return pc.max(values) if largest else pc.min(values)


def _with_constants(plan: ScanPlan, field: t.Field) -> ColumnStats:
    """Return exact statistics of a column if it is constant in every file, else the recorded ones to be trusted."""
    if len(plan.table) and _is_constant(plan, field).all():
        return ColumnStats.constant_column(pc.struct_field(plan.files["constants"].combine_chunks(), str(field.id)))
    return drop_contradictions(plan.table.stats.get(field.id, ColumnStats()))


def _is_constant(plan: ScanPlan, field: t.Field) -> np.ndarray:
    specs = [spec_id for spec_id, ids in plan.table.constant_fields.items() if field.id in ids]
    return np.isin(plan.files["spec_id"].to_numpy(), specs)


def _every_row_counts(plan: ScanPlan) -> np.ndarray:
    """Return a mask of the files without deletes and without a residual."""
    counts: np.ndarray = plan.table.references.counts == 0
    filtered = np.array([residual != TRUE for residual in plan.residuals], dtype=bool)
    splits = plan.splits
    counts[splits["file"].to_numpy()[filtered[splits["residual"].to_numpy()]]] = False
    return counts


def _all_null(stats: ColumnStats, rows: int) -> pa.Array:
    if stats.null_count is None or stats.value_count is None:
        return pa.array(np.zeros(rows, dtype=bool))
    return pc.fill_null(pc.equal(stats.null_count, stats.value_count), False)


def _zeros(counts: pa.Array | None, rows: int) -> np.ndarray:
    if counts is None:
        return np.zeros(rows, dtype=bool)
    return _true(pc.equal(counts, 0), rows)


def _true(mask: pa.Array | None, rows: int) -> np.ndarray:
    """Return the mask as a NumPy array, with null as false; a mask that is None has `rows` times false."""
    if mask is None:
        return np.zeros(rows, dtype=bool)
    result: np.ndarray = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return result


def rows_by_metadata(plan: ScanPlan) -> tuple[int, pa.Array]:
    """Return the number of rows in files that metadata counts exactly, and a mask of the other files.

    Metadata counts a file exactly if it has no residual, a known record count, and no deletes other than deletion
    vectors of known cardinality. Position deletes may refer to a row twice, and equality deletes may match no row.
    """
    files, deletes = plan.files, plan.deletes
    counts = pc.fill_null(files["record_count"], -1).to_numpy()
    unknown = counts < 0
    is_true = np.array([residual == TRUE for residual in plan.residuals], dtype=bool)
    splits = plan.splits
    unknown[splits["file"].to_numpy()[~is_true[splits["residual"].to_numpy()]]] = True
    references = plan.table.references
    cardinality = pc.fill_null(deletes["record_count"], -1).to_numpy()
    is_vector = pc.equal(deletes["kind"], DeleteKind.VECTOR).to_numpy(zero_copy_only=False)
    # A cardinality of 0 is implausible, since writers write no empty vectors.
    unknown |= references.has_equality | references.has(~is_vector | (cardinality <= 0))
    deleted = references.sums(cardinality)
    # With more deleted rows than rows, one of the counts is wrong.
    unknown |= deleted > counts
    return int((counts - deleted)[~unknown].sum()), pa.array(unknown)
