"""Widen bounds in Delta statistics by the precision that writers are known to lose (`planning.corrupt_statistics`).

Statistics are JSON: writers convert decimals to doubles, truncate timestamps to milliseconds and texts to a prefix, and
print floats with too few digits. A bound widened by that much holds for every row. Unreadable bounds become null.
"""

from __future__ import annotations

from decimal import Decimal as PyDecimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.delta.scan.partition_values import parse_timestamps
from lakescan.planning import corrupt_statistics as faults

# A decimal in JSON: up to 38 digits before and after the point. With 128 bits, Arrow's parser would let values that are
# too large wrap around.
DECIMALS = pa.decimal256(76, 38)
_WIDE_DIGITS = 60  # room for sums of decimals of 38 digits

_LONG = np.iinfo(np.int64)

_DATE = r"^\d{4}-\d{2}-\d{2}$"
_TIME = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?(Z|[+-]\d{2}:?\d{2})?$"
_OFFSET = r"(Z|[+-]\d{2}:?\d{2})$"
_TIE_BREAKER = "\\??[\ufffd\U0010ffff]+$"


def widen_bounds(values: pa.Array, kind: t.Type, *, upper: bool) -> pa.Array:
    """Convert recorded bounds to the column's type, widened so that they hold for all rows; null if unusable.

    `values` have the type that JSON is parsed into, or the column's own. Raises `pyarrow.ArrowInvalid` for values that
    do not fit the type.
    """
    match kind:
        case t.Decimal():
            return _decimals(values, kind, upper)
        case t.Timestamp():
            return _times(values, kind, upper)
        case t.DATE:
            return _matching(values, _DATE).cast(pa.date32()) if pa.types.is_string(values.type) else values
        case t.STRING:
            return _texts(values) if upper else values
        case t.FLOAT | t.DOUBLE:
            return _floats(values, kind, upper)
        case _ if kind in t.INTEGRAL:
            return _integers(values, kind)
    return values.cast(kind.arrow())


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, pattern), texts, pa.scalar(None, pa.string()))


def _integers(values: pa.Array, kind: t.Type) -> pa.Array:
    target = kind.arrow()
    limits = np.iinfo(target.to_pandas_dtype())
    fits = pc.and_(pc.greater_equal(values, int(limits.min)), pc.less_equal(values, int(limits.max)))
    return pc.if_else(fits, values, pa.scalar(None, values.type)).cast(target)


def _floats(values: pa.Array, kind: t.Type, upper: bool) -> pa.Array:
    error, width = (faults.FLOAT_ERROR, np.float32) if kind == t.FLOAT else (faults.DOUBLE_ERROR, np.float64)
    numbers = pc.fill_null(values.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    outwards, most = np.inf if upper else -np.inf, float(np.finfo(width).max)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.clip(numbers, -most, most)  # writers may round the greatest numbers beyond the type's range
        wide = finite + np.copysign(np.abs(finite) * error + faults.LEAST_FLOAT, outwards)
        bounds = np.nextafter(wide.astype(width), width(outwards))
    return pa.array(bounds, mask=values.is_null().to_numpy(zero_copy_only=False))


def _decimals(values: pa.Array, kind: t.Decimal, upper: bool) -> pa.Array:
    """Round outwards to the type's scale; where a double is not exact, also widen by its possible error.

    The least and greatest 64-bit whole numbers become null: the actual value may not have fitted.
    """
    values, most = values.cast(DECIMALS), PyDecimal((0, (9,) * kind.precision, -kind.scale))
    values = within(values, most)
    rounded = pc.round(values, kind.scale, "up" if upper else "down").cast(pa.decimal256(_WIDE_DIGITS, kind.scale))
    unit = PyDecimal((0, (1,), -kind.scale))
    error = pc.multiply(pc.abs(rounded).cast(pa.float64()), faults.DECIMAL_ERROR).cast(rounded.type, safe=False)
    margin = pc.add(error, _scalar(unit, rounded))
    is_exact = pc.less(pc.abs(rounded), _scalar(unit.scaleb(faults.EXACT_DIGITS), rounded))
    margin = pc.if_else(is_exact, _scalar(PyDecimal(0), margin), margin)
    wide = pc.add(rounded, margin) if upper else pc.subtract(rounded, margin)
    if kind.scale == 0:
        end = _scalar(PyDecimal(int(_LONG.max if upper else _LONG.min)), rounded)
        wide = pc.if_else(pc.equal(rounded, end), pa.scalar(None, wide.type), wide)
    return within(wide, most).cast(kind.arrow())


def within(values: pa.Array, most: PyDecimal) -> pa.Array:
    """Decimals between -most and most; null for others."""
    low, high = _scalar(most.copy_negate(), values), _scalar(most, values)  # the operator - would round to 28 digits
    fits = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
    return pc.if_else(fits, values, pa.scalar(None, values.type))


def _scalar(value: PyDecimal, like: pa.Array) -> pa.Scalar:
    return pa.scalar(value, like.type)


def _times(values: pa.Array, kind: t.Timestamp, upper: bool) -> pa.Array:
    """Widen timestamps that may have been truncated to milliseconds, downwards or towards 1970.

    Writers print the offsets of zoned timestamps without seconds, which some zones had until 1972. A zoned timestamp
    without offset could be in any zone, so it becomes null.
    """
    if pa.types.is_string(values.type):
        texts = _matching(values, _TIME)
        if kind.zoned:
            texts = _matching(texts, _OFFSET)
        values = parse_timestamps(pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1"), kind)
    micros = values.cast(kind.arrow()).cast(pa.int64())
    numbers = pc.fill_null(micros, 0).to_numpy(zero_copy_only=False)
    margin = np.where(upper | (numbers <= 0), faults.MILLISECOND - 1, 0)
    if kind.zoned:
        margin = margin + np.where(numbers < faults.WHOLE_MINUTES, faults.MINUTE, 0)
    low, high = _LONG.min + faults.MINUTE + faults.MILLISECOND, _LONG.max - faults.MINUTE - faults.MILLISECOND
    wide = np.clip(numbers, low, high) + (margin if upper else -margin)
    return pa.array(wide, mask=micros.is_null().to_numpy(zero_copy_only=False)).cast(kind.arrow())


def _texts(values: pa.Array) -> pa.Array:
    """Upper bounds of texts: a truncated bound, a prefix and a tie-breaker, has to cover all texts with that prefix.

    The tie-breaker may sort before the text that was cut off (U+FFFD sorts before an emoji), or be its beginning. The
    least text above all texts with the prefix is the prefix with its last character replaced by the next one.
    """
    is_cut = pc.fill_null(pc.match_substring_regex(values, _TIE_BREAKER), False)
    if not pc.any(is_cut).as_py():
        return values
    prefixes = pc.replace_substring_regex(values, _TIE_BREAKER, "")
    last = pc.utf8_slice_codeunits(prefixes, -1).dictionary_encode()
    heads = pc.utf8_slice_codeunits(prefixes, 0, -1)
    following = pa.array([_next(character) for character in last.dictionary.to_pylist()], pa.string())
    return pc.if_else(is_cut, pc.binary_join_element_wise(heads, following.take(last.indices), ""), values)


def _next(character: str) -> str | None:
    if not character or character == "\U0010ffff":
        return None
    return "\ue000" if character == "\ud7ff" else chr(ord(character) + 1)
