"""Arithmetic as in Spark, translated to DuckDB SQL: functions take and return `TypedSql`.

Operands are promoted by Spark's rules, and overflow or division by zero is an error when the SQL is evaluated. All
functions raise `UnsupportedFeature` for operands of other types than their docstring names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lakescan.common import types as t
from lakescan.expressions.scalar import interval_values
from lakescan.expressions.scalar.typed_sql import (
    MOST_DIGITS,
    Interval,
    TypedSql,
    adjust_precision_scale,
    common_type,
    convert,
    decimal_of,
    fail_unless,
    is_rounded,
    literal,
    sql_type,
    unsupported_error,
)
from lakescan.expressions.scalar.udf import call_python

_BY_ZERO = "division by zero"
_DIGITS_OF_LONGS = 18


def arithmetic(op: str, left: TypedSql, right: TypedSql) -> TypedSql:
    """Return the SQL of `left op right` for one of + - *, for numbers that may have different types."""
    kinds = {left.type, right.type}
    if any(isinstance(kind, t.Decimal) for kind in kinds) and not kinds & set(t.FLOATING):
        return _decimal_arithmetic(op, left, right)
    kind = _number(common_type(left, right, f"the operator {op}"), f"the operator {op}")
    if (constant := _fold_literals(op, left.literal, right.literal, kind)) is not None:
        return constant
    first, second = convert(left, kind), convert(right, kind)
    return TypedSql(f"CAST({first.sql} {op} {second.sql} AS {sql_type(kind)})", kind, True)


def _numbers(left: TypedSql, right: TypedSql) -> tuple[TypedSql, TypedSql]:
    """Return the operands of an arithmetic operator as numbers.

    A string operand is cast to BIGINT or DOUBLE, by the type of the other operand, as in Spark.
    """
    if t.STRING in (left.type, right.type) and left.type != right.type:
        kind = common_type(left, right, "arithmetic")
        if kind in (*t.INTEGRAL, *t.FLOATING):
            left, right = (convert(each, kind) if each.type == t.STRING else each for each in (left, right))
    elif left.type == right.type == t.STRING:
        left, right = convert(left, t.DOUBLE), convert(right, t.DOUBLE)
    return left, right


def add(left: TypedSql, right: TypedSql) -> TypedSql:
    """Return `left + right` for numbers, or for a time or interval and an interval."""
    return interval_values.add_interval("+", left, right) or arithmetic("+", *_numbers(left, right))


def subtract(left: TypedSql, right: TypedSql) -> TypedSql:
    """Return `left - right` for numbers, times or intervals."""
    return interval_values.add_interval("-", left, right) or arithmetic("-", *_numbers(left, right))


def multiply(left: TypedSql, right: TypedSql) -> TypedSql:
    """Return `left * right` for numbers, or for an interval and a number."""
    if isinstance(left.type, Interval):
        return interval_values.multiply_interval(left, right)
    if isinstance(right.type, Interval):
        return interval_values.multiply_interval(right, left)
    return arithmetic("*", *_numbers(left, right))


def quotient(left: TypedSql, right: TypedSql) -> TypedSql:
    """Return `left / right` for numbers, or for an interval and a number."""
    if isinstance(left.type, Interval):
        return interval_values.multiply_interval(left, right, divides=True)
    return divide(*_numbers(left, right))


def invert_bits(each: TypedSql) -> TypedSql:
    """Return `~each` of an integer: all of its bits inverted."""
    if each.type not in t.INTEGRAL:
        raise unsupported_error(f"the operator ~ of {each.type}")
    return TypedSql(f"CAST(~{each.sql} AS {sql_type(each.type)})", each.type, each.raises)


def _fold_literals(op: str, left: Any, right: Any, kind: t.Type) -> TypedSql | None:
    """Compute `left op right` of two integers for the result type `kind`; None if it exceeds INT or LONG."""
    if kind not in (t.INT, t.LONG) or type(left) is not int or type(right) is not int:
        return None
    value = {"+": left + right, "-": left - right, "*": left * right}[op]
    most = 2**31 if kind == t.INT else 2**63
    # The result is not a literal, since Spark uses the digits of literals when it combines decimals and integers.
    return replace(literal(value, kind), literal=None) if -most <= value < most else None


def _number(kind: t.Type, what: str) -> t.Type:
    if kind not in (*t.INTEGRAL, *t.FLOATING):
        raise unsupported_error(f"{what} of {kind}")
    return kind


def _decimal_arithmetic(op: str, left: TypedSql, right: TypedSql) -> TypedSql:
    """Return the SQL of + - or * of decimals and integers in Spark's result type.

    A result with more than 38 digits is rounded to the type. Evaluation fails if it has more than 38 digits before
    rounding.
    """
    first, second = _operand(left), _operand(right)
    if first is None or second is None:
        raise unsupported_error(f"the operator {op} of {left.type} and {right.type}")
    scale = max(first.scale, second.scale)
    if op == "*":
        scale = first.scale + second.scale
        if scale > MOST_DIGITS:
            raise unsupported_error(f"the operator * of {first} and {second}")
        digits = first.precision + second.precision + 1
        kind = adjust_precision_scale(digits, scale)
        kinds = (_widen_decimal(first) if kind.precision > _DIGITS_OF_LONGS else first, second)
    else:
        digits = max(first.precision - first.scale, second.precision - second.scale) + scale + 1
        kind = adjust_precision_scale(digits, scale)
        kinds = (t.Decimal(min(digits, MOST_DIGITS), scale),) * 2
    sides = [f"CAST({each.sql} AS {sql_type(of)})" for each, of in zip((left, right), kinds, strict=True)]
    raises = left.raises or right.raises or digits > MOST_DIGITS
    return TypedSql(f"CAST({sides[0]} {op} {sides[1]} AS {sql_type(kind)})", kind, raises)


def _widen_decimal(kind: t.Decimal) -> t.Decimal:
    """Return a decimal type with at least 19 digits and the same scale, so that DuckDB does not multiply in 64 bits."""
    return t.Decimal(max(kind.precision, _DIGITS_OF_LONGS + 1), kind.scale)


def quotient_of(left: TypedSql, right: TypedSql, kind: t.Decimal) -> TypedSql:
    """Return the SQL of `left / right` of decimals or integers as the decimal type `kind`.

    The value is null if an operand is null or `right` is zero. Spark rounds half away from zero twice: to 39 places,
    and then to the scale of the type. So a remainder less than half of the 39th place below the middle is rounded up,
    too.
    """
    first, second = _operand(left), _operand(right)
    if first is None or second is None:
        raise unsupported_error(f"a quotient of {left.type} and {right.type}")
    shift = kind.scale + second.scale - first.scale
    dividend = _unscaled_value(left, first, max(shift, 0))
    divisor = _unscaled_value(right, second, max(-shift, 0))
    rest, size = f"abs({dividend} % {divisor})", f"abs({divisor})"
    near = f"{size} // CAST('1{'0' * (MOST_DIGITS + 1 - kind.scale)}' AS HUGEINT)" if kind.scale > 1 else "0"
    away = f"CASE WHEN ({dividend} < 0) = ({divisor} < 0) THEN 1 ELSE -1 END"
    rounded_sql = f"{dividend} // {divisor} + CASE WHEN {size} - {rest} - {near} <= {rest} THEN {away} ELSE 0 END"
    unit = f"CAST('{Decimal(1).scaleb(-kind.scale):f}' AS DECIMAL({max(kind.scale, 1)}, {kind.scale}))"
    number = f"CAST({rounded_sql} AS DECIMAL({MOST_DIGITS}, 0)) * {unit}"
    return TypedSql(f"CASE WHEN {divisor} <> 0 THEN CAST({number} AS {sql_type(kind)}) END", kind, True)


def _unscaled_value(each: TypedSql, kind: t.Decimal, zeros: int) -> str:
    """Return the SQL of a decimal's unscaled value as a 128-bit integer, with `zeros` zeros appended.

    `kind` is the decimal type of `each`.
    """
    if kind.scale == 0:
        digits = f"CAST({each.sql} AS HUGEINT)"
    elif kind.precision + kind.scale + zeros <= MOST_DIGITS:
        wide = f"CAST({each.sql} AS DECIMAL({MOST_DIGITS}, {kind.scale}))"
        return f"CAST({wide} * CAST('1{'0' * (kind.scale + zeros)}' AS DECIMAL({MOST_DIGITS}, 0)) AS HUGEINT)"
    else:
        digits = f"CAST(replace(CAST(CAST({each.sql} AS {sql_type(kind)}) AS VARCHAR), '.', '') AS HUGEINT)"
    return f"({digits} * CAST('1{'0' * zeros}' AS HUGEINT))" if zeros else digits


def _operand(each: TypedSql) -> t.Decimal | None:
    """Return the decimal type of an operand in decimal arithmetic; None if it is neither decimal nor integer.

    An integer literal (except TINYINT) has as many digits as are written.
    """
    if each.type in (t.SHORT, t.INT, t.LONG) and isinstance(each.literal, int):
        return t.Decimal(len(str(abs(each.literal))), 0)
    return decimal_of(each.type)


def divide(left: TypedSql, right: TypedSql) -> TypedSql:
    """Return `left / right`: a decimal if one operand is a decimal and none is floating-point, else a double."""
    kinds = {left.type, right.type}
    if any(isinstance(kind, t.Decimal) for kind in kinds) and not kinds & set(t.FLOATING):
        return _decimal_quotient(left, right)
    for each in (left, right):
        if each.type not in (*t.INTEGRAL, *t.FLOATING) and not isinstance(each.type, t.Decimal):
            raise unsupported_error(f"the operator / of {left.type} and {right.type}")
        common_type(literal(0.0, t.DOUBLE), each, "the operator /")
    first, second = convert(left, t.DOUBLE), convert(right, t.DOUBLE)
    return _unless_zero(first, second, f"{first.sql} / {second.sql}", t.DOUBLE)


def _decimal_quotient(left: TypedSql, right: TypedSql) -> TypedSql:
    first, second = _operand(left), _operand(right)
    if first is None or second is None:
        raise unsupported_error(f"the operator / of {left.type} and {right.type}")
    scale = max(6, first.scale + second.precision + 1)
    kind = adjust_precision_scale(first.precision - first.scale + second.scale + scale, scale)
    return _unless_zero(left, right, quotient_of(left, right, kind).sql, kind)


def _unless_zero(dividend: TypedSql, divisor: TypedSql, sql: str, kind: t.Type) -> TypedSql:
    """Return the quotient `sql` as the type `kind`; it fails for a zero divisor, but is null if an operand is null."""
    result = f"CAST({sql} AS {sql_type(kind)})"
    allowed = f"({divisor.sql}) IS NULL OR ({dividend.sql}) IS NULL OR ({divisor.sql}) <> 0"
    return fail_unless(allowed, result, kind, _BY_ZERO)


def _whole(left: TypedSql, right: TypedSql, what: str) -> tuple[t.Type, TypedSql, TypedSql]:
    kind = common_type(left, right, what)
    if kind not in t.INTEGRAL:
        raise unsupported_error(f"{what} of {left.type} and {right.type}")
    return kind, convert(left, kind), convert(right, kind)


def whole_quotient(left: TypedSql, right: TypedSql) -> TypedSql:
    """Return `left DIV right` of integers, a long."""
    _whole(left, right, "the operator DIV")
    first, second = convert(left, t.LONG), convert(right, t.LONG)
    return _unless_zero(first, second, f"{first.sql} // {second.sql}", t.LONG)


def remainder(left: TypedSql, right: TypedSql) -> TypedSql:
    """Return `left % right` of numbers, which has the sign of `left`."""
    kinds = {left.type, right.type}
    if any(isinstance(kind, t.Decimal) for kind in kinds) and not kinds & set(t.FLOATING):
        return _decimal_remainder(left, right)
    if kinds & set(t.FLOATING):
        kind = common_type(left, right, "the operator %")
        first, second = convert(left, kind), convert(right, kind)
        return _unless_zero(first, second, f"{first.sql} % {second.sql}", kind)
    kind, first, second = _whole(left, right, "the operator %")
    return _unless_zero(first, second, _remainder(first, second), kind)


def _decimal_remainder(left: TypedSql, right: TypedSql) -> TypedSql:
    first, second = _operand(left), _operand(right)
    if first is None or second is None:
        raise unsupported_error(f"the operator % of {left.type} and {right.type}")
    scale = max(first.scale, second.scale)
    places = [each.precision - each.scale for each in (first, second)]
    if max(places) + scale > MOST_DIGITS:
        raise unsupported_error(f"the operator % of {left.type} and {right.type}")
    kind = t.Decimal(min(places) + scale, scale)
    wide = t.Decimal(max(places) + scale, scale)
    numbers = [
        _unscaled_value(TypedSql(f"CAST({each.sql} AS {sql_type(wide)})", wide), wide, 0) for each in (left, right)
    ]
    unit = f"CAST('{Decimal(1).scaleb(-scale):f}' AS DECIMAL({max(scale, 1)}, {scale}))"
    sql = f"CAST({numbers[0]} % {numbers[1]} AS DECIMAL({MOST_DIGITS}, 0)) * {unit}"
    return _unless_zero(left, right, sql, kind)


def _remainder(first: TypedSql, second: TypedSql) -> str:
    of_one = f"({first.sql}) IS NOT NULL AND {second.sql} = -1"  # DuckDB would fail for the type's least number
    return f"CASE WHEN {of_one} THEN 0 ELSE {first.sql} % {second.sql} END"


def positive_remainder(left: TypedSql, right: TypedSql) -> TypedSql:
    """Return `pmod(left, right)` of integers: the remainder, which is not negative if `right` is positive."""
    kind, first, second = _whole(left, right, "the function pmod()")
    rest = f"({_remainder(first, second)})"
    positive = f"CASE WHEN {rest} < 0 THEN ({rest} + {second.sql}) % {second.sql} ELSE {rest} END"
    return _unless_zero(first, second, positive, kind)


def bitwise(op: str) -> Callable[[TypedSql, TypedSql], TypedSql]:
    """Return a function that translates a bitwise operator of integers: &, | or xor."""

    def apply(left: TypedSql, right: TypedSql) -> TypedSql:
        kind, first, second = _whole(left, right, f"the operator {op}")
        sql = f"xor({first.sql}, {second.sql})" if op == "xor" else f"({first.sql} {op} {second.sql})"
        return TypedSql(f"CAST({sql} AS {sql_type(kind)})", kind, first.raises or second.raises)

    return apply


def positive(each: TypedSql) -> TypedSql:
    """Return `+each`: a number itself, or a string as a double."""
    if each.type == t.STRING:
        return convert(each, t.DOUBLE)
    if not isinstance(each.type, t.Decimal):
        _number(each.type, "the operator +")
    return each


def negative(each: TypedSql) -> TypedSql:
    """Return `-each` of a number, an interval or a string with a number; the sign of a literal becomes part of it."""
    if isinstance(each.literal, int) and not isinstance(each.literal, bool):  # the sign is part of a literal
        return literal(
            -each.literal, t.INT if each.literal <= 2**31 else t.LONG if each.literal <= 2**63 else each.type
        )
    if isinstance(each.literal, float | Decimal):
        return TypedSql(f"CAST(-({each.sql}) AS {sql_type(each.type)})", each.type, literal=-each.literal)
    if isinstance(each.type, Interval):
        return interval_values.negate_interval(each)
    if each.type == t.STRING:
        each = replace(convert(each, t.DOUBLE), literal=None)
    return _same_type("-", each, "the operator -")


def absolute(each: TypedSql) -> TypedSql:
    """Return `abs(each)` of a number, an interval or a string with a number."""
    if isinstance(each.type, Interval):
        return interval_values.absolute(each)
    if each.type == t.STRING:
        each = replace(convert(each, t.DOUBLE), literal=None)
    return _same_type("abs", each, "the function abs()")


def _same_type(function: str, each: TypedSql, what: str) -> TypedSql:
    if is_rounded(each.type):
        raise unsupported_error(f"{what} of {each.type}")
    kind = each.type if isinstance(each.type, t.Decimal) else _number(each.type, what)
    return TypedSql(f"CAST({function}({each.sql}) AS {sql_type(kind)})", kind, True)


def ceil_or_floor(function: str) -> Callable[[TypedSql], TypedSql]:
    """Return a translator of `ceil` or `floor` of a number, which returns a decimal for decimals, else a long."""

    def apply(each: TypedSql) -> TypedSql:
        if isinstance(each.type, t.Decimal):
            kind: t.Type = t.Decimal(min(each.type.precision - each.type.scale + 1, MOST_DIGITS), 0)
        else:
            _number(each.type, f"the function {function}()")
            kind = t.LONG
            if each.type in t.INTEGRAL:  # DuckDB would convert it to a double
                return convert(replace(each, literal=None), kind)
        return TypedSql(f"CAST({function}({each.sql}) AS {sql_type(kind)})", kind, True)

    return apply


_ZERO = TypedSql("CAST(0 AS INTEGER)", t.INT, literal=0)
_NO_FRACTION = "4503599627370496"  # 2^52: doubles from here on have no fraction


def round_number(each: TypedSql, places: TypedSql = _ZERO) -> TypedSql:
    """Return `round(each, places)`, half away from zero, for constant `places`.

    Doubles are rounded by their decimal text.
    """
    count = places.literal
    if not isinstance(count, int) or isinstance(count, bool) or abs(count) > MOST_DIGITS:
        raise unsupported_error("the function round() with places that are not constant")
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
    """Return an integer or decimal rounded, half away from zero, to a multiple of `10**zeros`, as the type `kind`."""
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
    """Return `sign(each)`, a double; NaN and zeros stay."""
    x = _double(each, "sign").sql
    return TypedSql(
        f"CASE WHEN isnan({x}) OR {x} = 0 THEN {x} WHEN {x} > 0 THEN 1e0 WHEN {x} < 0 THEN -1e0 END", t.DOUBLE
    )


def real(name: str, least: str = "") -> Callable[[TypedSql], TypedSql]:
    """Return a translator of DuckDB's function `name` of a double.

    If `least` is given, as SQL of a number, the value is null unless the argument exceeds it.
    """

    def apply(each: TypedSql) -> TypedSql:
        x = _double(each, name).sql
        value = f"{name}({x})"
        return TypedSql(f"CASE WHEN {x} > {least} THEN {value} END" if least else value, t.DOUBLE, True)

    return apply


def root(each: TypedSql) -> TypedSql:
    """Return `sqrt(each)`, which is NaN for a negative number."""
    x = _double(each, "sqrt").sql
    return TypedSql(f"CASE WHEN {x} < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt({x}) END", t.DOUBLE)


def power(base: TypedSql, exponent: TypedSql) -> TypedSql:
    """Return `power(base, exponent)`, a double."""
    return TypedSql(f"pow({_double(base, 'power').sql}, {_double(exponent, 'power').sql})", t.DOUBLE)


def logarithm(base: TypedSql, each: TypedSql | None = None) -> TypedSql:
    """Return `log(base, each)`, or the natural logarithm of `base` if it is the only argument.

    The value is null for arguments that are not positive.
    """
    if each is None:
        return real("ln", "0")(base)
    b, x = _double(base, "log").sql, _double(each, "log").sql
    return TypedSql(f"CASE WHEN {b} > 0 AND {x} > 0 THEN ln({x}) / ln({b}) END", t.DOUBLE)


def binary_logarithm(each: TypedSql) -> TypedSql:
    """Return `log2(each)`."""
    return logarithm(literal(2, t.INT), each)


def quotient_or_null(left: TypedSql, right: TypedSql) -> TypedSql:
    """Return `try_divide(left, right)`, which is null for a division by zero."""
    result = divide(left, right)
    if isinstance(result.type, t.Decimal) and result.type.precision == MOST_DIGITS:
        # DuckDB fails if its intermediate results exceed 38 digits.
        return call_python("numbers.decimal_quotient", [left, right], result.type)
    if isinstance(result.type, t.Decimal):  # DuckDB folds constants first, and fails for a constant zero
        return divide(left, replace(right, sql=f"nullif({right.sql}, 0)"))
    return TypedSql(f"CASE WHEN ({right.sql}) <> 0 THEN {result.sql} END", result.type, True)
