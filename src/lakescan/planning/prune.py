"""Inclusive and strict evaluation of a bound predicate over column statistics, vectorized over containers.

A container is a file, a row group, a manifest or the like. `might_match` is false only if the statistics prove that no
row matches, so that the container can be skipped. `must_match` is true only if they prove that every row matches, so
that the rows need not be filtered. Unknown statistics prove nothing.

Every value is within its bounds, truncated or not, so `lower == upper == v` proves that all values are v. NaN is
outside the bounds and, as in SQL, greater than everything: for a float column, `>` can be disproved only if the NaN
count is known to be zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.expressions.evaluate import KERNELS, compare
from lakescan.expressions.predicate import (
    And,
    ColumnComparison,
    ColumnTest,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Or,
    Predicate,
    SqlCondition,
    replace_sql,
)
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.corrupt_statistics import drop_contradictions

Stats = Mapping[int, ColumnStats]

# The most values of an `in` list that a strict proof compares files with.
_LIST_LIMIT = 200


def might_match(predicate: Predicate, stats: Stats, rows: int) -> pa.Array:
    """Return a mask of the `rows` containers that may have a row that satisfies the bound predicate.

    `stats` are by field id; columns without any are unknown.
    """
    return _walk(replace_sql(predicate), stats, rows, _Inclusive)


def must_match(predicate: Predicate, stats: Stats, rows: int) -> pa.Array:
    """Return a mask of the `rows` containers where every row certainly satisfies the bound predicate.

    `stats` are by field id; columns without any are unknown.
    """
    return _walk(predicate, stats, rows, _Strict)


def _walk(predicate: Predicate, stats: Stats, rows: int, evaluator: type[_Evaluator]) -> pa.Array:
    match predicate:
        case Constant(value):
            return pa.repeat(pa.scalar(value), rows)
        case And(left, right):
            return pc.and_(_walk(left, stats, rows, evaluator), _walk(right, stats, rows, evaluator))
        case Or(left, right):
            return pc.or_(_walk(left, stats, rows, evaluator), _walk(right, stats, rows, evaluator))
        case ColumnComparison():
            columns = [drop_contradictions(stats.get(each, ColumnStats())) for each in predicate.bound_ids]
            return _columns_might_match(columns, predicate.op, rows, evaluator)
        case SqlCondition():  # strict evaluation only: the implied predicate proves nothing
            return pa.repeat(pa.scalar(False), rows)
        case ColumnTest():
            column = stats.get(predicate.bound_id, ColumnStats())
            return evaluator(column, rows, _tests_floats(predicate)).leaf(predicate)
    raise TypeError(f"not a predicate: {predicate!r}")


def _columns_might_match(columns: list[ColumnStats], op: str, rows: int, evaluator: type[_Evaluator]) -> pa.Array:
    """Return the mask of a comparison of two columns, by their bounds; false everywhere for the strict evaluation."""
    unknown = pa.repeat(pa.scalar(evaluator is _Inclusive), rows)
    if evaluator is not _Inclusive or op == "!=":
        return unknown
    one, other = columns
    below, above = (one.lower, other.upper), (one.upper, other.lower)
    never = {
        "<": [(below, ">=")],
        "<=": [(below, ">")],
        ">": [(above, "<=")],
        ">=": [(above, "<")],
        "=": [(below, ">"), (above, "<")],
    }[op]
    for (left, right), disproof in never:
        if left is not None and right is not None:
            unknown = pc.and_(unknown, pc.invert(pc.fill_null(KERNELS[disproof](left, right), False)))
    return unknown


class _Evaluator:
    """Proofs from the statistics of one column. Each method returns a mask of the `rows` containers with a proof.

    `floating` is whether the column has a float type, whose values may be NaN.
    """

    def __init__(self, stats: ColumnStats, rows: int, floating: bool) -> None:
        stats = drop_contradictions(stats)
        self.rows, self.floating = rows, floating
        self.null_count, self.nan_count, self.value_count = (
            stats.null_count,
            stats.nan_count,
            stats.value_count,
        )
        self.lower, self.upper = _drop_nan(stats.lower), _drop_nan(stats.upper)

    def leaf(self, leaf: ColumnTest) -> pa.Array:
        raise NotImplementedError

    def constant(self, value: bool) -> pa.Array:
        return pa.repeat(pa.scalar(value), self.rows)

    def fill_unknown(self, condition: pa.Array | None) -> pa.Array:
        """Return a mask with unknown elements as false; all false if the mask is None."""
        return self.constant(False) if condition is None else pc.fill_null(condition, False)

    def no_nulls(self) -> pa.Array:
        return self.fill_unknown(None if self.null_count is None else pc.equal(self.null_count, 0))

    def all_null(self) -> pa.Array:
        return self._all(self.null_count)

    def all_nan(self) -> pa.Array:
        return self._all(self.nan_count)

    def _all(self, count: pa.Array | None) -> pa.Array:
        if count is None or self.value_count is None:
            return self.constant(False)
        return self.fill_unknown(pc.equal(count, self.value_count))  # a greater count is wrong and proves nothing

    def no_nan(self) -> pa.Array:
        if not self.floating:
            return self.constant(True)
        return self.fill_unknown(None if self.nan_count is None else pc.equal(self.nan_count, 0))

    def no_ordinary(self) -> pa.Array:
        """Return a mask of the containers where every value is null or NaN.

        All false for other types than floats.
        """
        if not self.floating or self.nan_count is None or self.null_count is None:
            return self.constant(False)
        return self._all(pc.add(self.null_count, self.nan_count))

    def bound(self, bound: pa.Array | None, op: str, value: pa.Scalar) -> pa.Array:
        """Return a mask of the containers where the bound is known and `bound op value` holds."""
        return self.fill_unknown(None if bound is None else compare(bound, op, value))

    def none_equal(self, value: pa.Scalar) -> pa.Array:
        """Return a mask of the containers where the bounds prove that no value equals `value`.

        NaN is not considered.
        """
        return pc.or_(self.bound(self.lower, ">", value), self.bound(self.upper, "<", value))

    def none_within(self, values: Sequence[pa.Scalar]) -> pa.Array:
        """Return a mask of the containers whose bounds exclude each of the `values`. There may be many values."""
        kind = values[0].type
        if any(not _are_alike(bound.type, kind) for bound in (self.lower, self.upper) if bound is not None):
            return reduce(pc.and_, (self.none_equal(v) for v in values))
        ordered = np.sort(_as_numpy(pa.array(values, kind)))
        first, end = np.zeros(self.rows, dtype=np.int64), np.full(self.rows, len(ordered))
        if self.lower is not None:
            first[_valid_mask(self.lower)] = np.searchsorted(ordered, _as_numpy(self.lower.drop_null()), "left")
        if self.upper is not None:
            end[_valid_mask(self.upper)] = np.searchsorted(ordered, _as_numpy(self.upper.drop_null()), "right")
        return pa.array(first >= end)

    def all_equal(self, value: pa.Scalar) -> pa.Array:
        """Return a mask of the containers whose bounds both equal `value`; NaN is not considered."""
        return pc.and_(self.bound(self.lower, "=", value), self.bound(self.upper, "=", value))

    def none_start_with(self, prefix: str) -> pa.Array:
        """Return a mask of the containers whose bounds prove that no value starts with `prefix`."""
        if self.lower is None or self.upper is None:
            return self.constant(False)
        value = pa.scalar(prefix)
        above = pc.greater(pc.utf8_slice_codeunits(self.lower, 0, len(prefix)), value)
        return self.fill_unknown(pc.or_kleene(above, pc.less(self.upper, value)))

    def all_start_with(self, prefix: str) -> pa.Array:
        """Return a mask of the containers whose bounds prove that every value starts with `prefix`."""
        if self.lower is None or self.upper is None:
            return self.constant(False)
        bounds = [pc.starts_with(bound, prefix) for bound in (self.lower, self.upper)]
        return self.fill_unknown(pc.and_kleene(*bounds))


class _Inclusive(_Evaluator):
    """Evaluates leaves of a predicate: masks are true unless the statistics disprove that some row matches."""

    def leaf(self, leaf: ColumnTest) -> pa.Array:
        match leaf:
            case IsNull(negate=True):
                return pc.invert(self.all_null())
            case IsNull():
                return pc.invert(self.no_nulls())
            case IsNaN(negate=True):
                return pc.invert(self.all_nan())
            case IsNaN():
                none = None if self.nan_count is None else pc.equal(self.nan_count, 0)
                return pc.invert(pc.or_(self.fill_unknown(none), self.all_null()))
        return pc.invert(pc.or_(self.all_null(), self._disprove(leaf)))

    def _disprove(self, leaf: ColumnTest) -> pa.Array:
        match leaf:
            case Comparison():
                return self._comparison(leaf.op, leaf.value)
            case In():
                return self._not_in(leaf) if leaf.negate else self._in(leaf)
            case Like(negate=True):
                return self.all_start_with(leaf.prefix) if leaf.is_prefix_match else self.constant(False)
            case Like():
                return self.none_start_with(leaf.prefix)
        raise TypeError(f"cannot prune by {leaf!r}")

    def _comparison(self, op: str, value: pa.Scalar) -> pa.Array:
        if _is_nan(value):
            return self.no_nan() if op in ("=", ">=") else self.constant(op == ">")
        match op:
            case "<":
                return pc.or_(self.no_ordinary(), self.bound(self.lower, ">=", value))
            case "<=":
                return pc.or_(self.no_ordinary(), self.bound(self.lower, ">", value))
            case ">":
                return pc.and_(self.no_nan(), self.bound(self.upper, "<=", value))
            case ">=":
                return pc.and_(self.no_nan(), self.bound(self.upper, "<", value))
            case "=":
                return pc.or_(self.no_ordinary(), self.none_equal(value))
        return pc.and_(self.no_nan(), self.all_equal(value))

    def _in(self, leaf: In) -> pa.Array:
        if any(_is_nan(v) for v in leaf.values):
            return self.constant(False)
        return pc.or_(self.no_ordinary(), self.none_within(leaf.values))

    def _not_in(self, leaf: In) -> pa.Array:
        if len(leaf.values) > _LIST_LIMIT:
            return self.constant(False)
        return pc.and_(self.no_nan(), reduce(pc.or_, (self.all_equal(v) for v in leaf.values)))


class _Strict(_Evaluator):
    """Evaluates leaves of a predicate: masks are false unless the statistics prove that every row matches."""

    def leaf(self, leaf: ColumnTest) -> pa.Array:
        match leaf:
            case IsNull(negate=True):
                return self.no_nulls()
            case IsNull():
                return self.all_null()
            case IsNaN(negate=True):
                return self.no_nan()
            case IsNaN():
                return self.all_nan()
        return pc.and_(pc.and_(self.no_nulls(), self.no_nan()), self._prove(leaf))

    def _prove(self, leaf: ColumnTest) -> pa.Array:
        match leaf:
            case Comparison():
                return self._comparison(leaf.op, leaf.value)
            case In():
                return self._in(leaf)
            case Like(negate=True):
                return self.none_start_with(leaf.prefix)
            case Like():
                return self.all_start_with(leaf.prefix) if leaf.is_prefix_match else self.constant(False)
        raise TypeError(f"cannot prove {leaf!r}")

    def _comparison(self, op: str, value: pa.Scalar) -> pa.Array:
        if _is_nan(value):
            return self.constant(op in ("<", "<=", "!="))
        match op:
            case "<" | "<=":
                return self.bound(self.upper, op, value)
            case ">" | ">=":
                return self.bound(self.lower, op, value)
            case "=":
                return self.all_equal(value)
        return self.none_equal(value)

    def _in(self, leaf: In) -> pa.Array:
        if len(leaf.values) > _LIST_LIMIT or any(_is_nan(v) for v in leaf.values):
            return self.constant(False)
        if leaf.negate:
            return reduce(pc.and_, (self.none_equal(v) for v in leaf.values))
        return reduce(pc.or_, (self.all_equal(v) for v in leaf.values))


def _tests_floats(leaf: ColumnTest) -> bool:
    """Return whether a test is of a float column, by its literal's type.

    Only literals bound to such columns are floats.
    """
    match leaf:
        case Comparison():
            return bool(pa.types.is_floating(leaf.value.type))
        case In():
            return bool(pa.types.is_floating(leaf.values[0].type))
    return isinstance(leaf, IsNaN)


def _valid_mask(bound: pa.Array) -> np.ndarray:
    known: np.ndarray = bound.is_valid().to_numpy(zero_copy_only=False)
    return known


def _are_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether values of both Arrow types have the same order: equal types, or two integers, floats or decimals.

    INT columns have long literals, and FLOAT columns doubles.
    """
    families = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return one == other or any(is_one(one) and is_one(other) for is_one in families)


def _as_numpy(values: pa.Array) -> Any:
    """Convert values without nulls to a NumPy array of the same order: dates and times to integers."""
    kind = values.type
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_temporal(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_fixed_size_binary(kind):
        values = values.cast(pa.binary())
    return values.to_numpy(zero_copy_only=False)


def _drop_nan(bound: pa.Array | None) -> pa.Array | None:
    """Return bounds with NaN replaced by unknown. Some old writers recorded NaN bounds, which prove nothing."""
    if bound is None or not pa.types.is_floating(bound.type):
        return bound
    return pc.if_else(pc.is_nan(bound), pa.scalar(None, bound.type), bound)


def _is_nan(value: pa.Scalar) -> bool:
    return pa.types.is_floating(value.type) and value.as_py() != value.as_py()
