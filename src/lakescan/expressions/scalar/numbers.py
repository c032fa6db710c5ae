"""Rounding, and functions of real numbers. Powers, logarithms and exponentials may differ in the last binary digit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakescan.common import types as t
from lakescan.expressions.scalar.arithmetic import divide, positive, quotient_of
from lakescan.expressions.scalar.typed import MOST_DIGITS, TypedSql, convert, literal, sql_type, unsupported_error
from lakescan.expressions.scalar.udf import call_python

_ZERO = TypedSql("CAST(0 AS INTEGER)", t.INT, literal=0)
_NO_FRACTION = "4503599627370496"  # 2^52: doubles from here on are whole


def round_number(each: TypedSql, places: TypedSql = _ZERO) -> TypedSql:
    """Return `round(each, places)`, away from zero in the middle; doubles are rounded as they are written."""
    count = places.literal
    if not isinstance(count, int) or isinstance(count, bool) or abs(count) > MOST_DIGITS:
        raise unsupported_error("the function round() with places that are no constant")
    positive(each)
    if isinstance(each.type, t.Decimal):
        return _round_decimal(each, each.type, count)
    if each.type in t.FLOATING:
        return _round_double(each, count)
    if count >= 0:
        return TypedSql(each.sql, each.type, each.raises)
    return _round_whole(each, -count, each.type)


def _round_decimal(each: TypedSql, kind: t.Decimal, count: int) -> TypedSql:
    digits = kind.precision - kind.scale
    if count < 0:
        whole = t.Decimal(min(max(digits + 1, 1 - count), MOST_DIGITS), 0)
        return _round_whole(each, -count, whole)
    scale = min(kind.scale, count)
    result = t.Decimal(min(digits + 1 + scale, MOST_DIGITS), scale)
    return TypedSql(f"CAST({each.sql} AS {sql_type(result)})", result, True)


def _round_whole(each: TypedSql, zeros: int, kind: t.Type) -> TypedSql:
    """Round to a multiple of a power of ten."""
    if zeros >= MOST_DIGITS:
        raise unsupported_error(f"the function round() to {-zeros} places")
    source = each if isinstance(each.type, t.Decimal) else convert(TypedSql(each.sql, each.type), t.Decimal(20, 0))
    unit = literal(10**zeros, t.Decimal(zeros + 1, 0))
    count = quotient_of(source, unit, t.Decimal(MOST_DIGITS, 0))
    return TypedSql(
        f"CAST(CAST({count.sql} AS HUGEINT) * CAST('1{'0' * zeros}' AS HUGEINT) AS {sql_type(kind)})", kind, True
    )


def _round_double(each: TypedSql, count: int) -> TypedSql:
    if not 0 <= count <= 18:
        raise unsupported_error(f"the function round() of {each.type} to {count} places")
    number = f"CAST(CAST({each.sql} AS VARCHAR) AS DECIMAL({MOST_DIGITS}, {count}))"
    name = sql_type(each.type)
    whole = f"isnan({each.sql}) OR isinf({each.sql}) OR abs({each.sql}) >= {_NO_FRACTION}"
    sql = f"CASE WHEN {whole} THEN {each.sql} ELSE CAST(CAST({number} AS VARCHAR) AS {name}) END"
    return TypedSql(sql, each.type, True)


def _double(each: TypedSql, name: str) -> TypedSql:
    if each.type not in (*t.INTEGRAL, *t.FLOATING) and not isinstance(each.type, t.Decimal):
        raise unsupported_error(f"the function {name}() of {each.type}")
    return convert(each, t.DOUBLE)


def sign(each: TypedSql) -> TypedSql:
    """Return `sign(each)`, a double."""
    x = _double(each, "sign").sql
    return TypedSql(
        f"CASE WHEN isnan({x}) OR {x} = 0 THEN {x} WHEN {x} > 0 THEN 1e0 WHEN {x} < 0 THEN -1e0 END", t.DOUBLE
    )


def real(name: str, least: str = "") -> Callable[[TypedSql], TypedSql]:
    """Return a function of a double; null where it is not above `least`, if that is given."""

    def apply(each: TypedSql) -> TypedSql:
        x = _double(each, name).sql
        value = f"{name}({x})"
        return TypedSql(f"CASE WHEN {x} > {least} THEN {value} END" if least else value, t.DOUBLE, True)

    return apply


def root(each: TypedSql) -> TypedSql:
    """Return `sqrt(each)`: NaN of a negative number."""
    x = _double(each, "sqrt").sql
    return TypedSql(f"CASE WHEN {x} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({x}) END", t.DOUBLE)


def power(base: TypedSql, exponent: TypedSql) -> TypedSql:
    """Return `power(base, exponent)`, a double."""
    return TypedSql(f"pow({_double(base, 'power').sql}, {_double(exponent, 'power').sql})", t.DOUBLE)


def logarithm(base: TypedSql, each: TypedSql | None = None) -> TypedSql:
    """Return `log(base, each)`, or the natural logarithm of a single operand."""
    if each is None:
        return real("ln", "0")(base)
    b, x = _double(base, "log").sql, _double(each, "log").sql
    return TypedSql(f"CASE WHEN {b} > 0 AND {x} > 0 THEN ln({x}) / ln({b}) END", t.DOUBLE)


def binary_logarithm(each: TypedSql) -> TypedSql:
    """Return `log2(each)`."""
    return logarithm(literal(2, t.INT), each)


def quotient_or_null(left: TypedSql, right: TypedSql) -> TypedSql:
    """Return `try_divide(left, right)`: null for a division by zero."""
    result = divide(left, right)
    if isinstance(result.type, t.Decimal) and result.type.precision == MOST_DIGITS:
        # DuckDB fails where only its own steps exceed 38 digits.
        return call_python("numbers.decimal_quotient", [left, right], result.type)
    if isinstance(result.type, t.Decimal):  # DuckDB computes with constants beforehand, and fails for a zero
        return divide(left, replace(right, sql=f"nullif({right.sql}, 0)"))
    return TypedSql(f"CASE WHEN ({right.sql}) <> 0 THEN {result.sql} END", result.type, True)
