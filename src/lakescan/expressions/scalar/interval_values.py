"""Interval values in DuckDB SQL: literals, and arithmetic with times and numbers.

Year-month intervals are numbers of months, and day-time intervals numbers of microseconds. `sign` is 1 or -1 and
multiplies a literal.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

from lakescan.common import types as t
from lakescan.errors import InvalidFilter
from lakescan.expressions.scalar.casts import cast, implicit_cast
from lakescan.expressions.scalar.typed_sql import (
    UNITS,
    Interval,
    TypedSql,
    convert,
    sql_type,
    unsupported_error,
    widest,
)
from lakescan.expressions.scalar.udf import call_python

_INSTANT = t.Timestamp()
_MICROS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 7 * 86_400_000_000,
}
_MONTHS = {"month": 1, "year": 12, "quarter": 3}
_PART = re.compile(r"([+-]?)\s*(\d*\.?\d+|\d+\.)\s*([a-zA-Z]+)")
_SPANS = {
    ("year", "month"): r"([+-])?(\d+)-(\d+)",
    ("day", "hour"): r"([+-])?(\d+) (\d{1,2})",
    ("day", "minute"): r"([+-])?(\d+) (\d{1,2}):(\d{1,2})",
    ("day", "second"): r"([+-])?(\d+) (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?",
    ("hour", "minute"): r"([+-])?(\d+):(\d{1,2})",
    ("hour", "second"): r"([+-])?(\d+):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?",
    ("minute", "second"): r"([+-])?(\d+):(\d{1,2})(?:\.(\d{1,9}))?",
}


def interval_literal(value: int, kind: Interval) -> TypedSql:
    """Return an interval of `value` months or microseconds, by its type; raises `InvalidFilter` if it is too long."""
    if not -(2**63 if not kind.has_months else 2**31) <= value < (2**63 if not kind.has_months else 2**31):
        raise InvalidFilter("an interval is too long")
    return TypedSql(f"CAST({value} AS {sql_type(kind)})", kind)


def unit_interval(text: str, unit: str, sign: int = 1) -> TypedSql:
    """Return `INTERVAL 'text' unit` with one unit.

    Raises `InvalidFilter` for text that is not a number, and `UnsupportedFeature` for an unknown unit or a fraction of
    a unit other than seconds.
    """
    name = unit.lower().removesuffix("s") if unit.lower() != "s" else unit
    try:
        number = Decimal(text.strip()) * sign
    except ArithmeticError:
        raise InvalidFilter(f"INTERVAL {text!r} {unit.upper()}: {text!r} is not a number") from None
    if name in _MONTHS and number == int(number):
        return interval_literal(
            int(number) * _MONTHS[name], Interval(*(("year",) * 2 if name == "year" else ("month",) * 2))
        )
    if name not in _MICROS or (number != int(number) and name != "second"):
        raise unsupported_error(f"an interval of {text} {unit}")
    kind = name if name in UNITS else "day" if name == "week" else "second"
    return interval_literal(int(number * _MICROS[name]), Interval(kind, kind))


def span_interval(text: str, first: str, last: str, sign: int = 1) -> TypedSql:
    """Return `INTERVAL 'text' first TO last`, such as `INTERVAL '1-2' YEAR TO MONTH`.

    Raises `InvalidFilter` for text in another form, and for numbers that are too large for their unit.
    """
    form = _SPANS.get((first, last))
    found = re.fullmatch(form, text.strip()) if form else None
    if found is None:
        raise InvalidFilter(f"INTERVAL {text!r} {first.upper()} TO {last.upper()}: the text does not have this form")
    sign = -sign if found[1] == "-" else sign
    numbers = list(found.groups())[1:]
    if (first, last) == ("year", "month"):
        if int(numbers[1]) > 11:
            raise InvalidFilter(f"INTERVAL {text!r} YEAR TO MONTH has a month beyond 11")
        return interval_literal(sign * (int(numbers[0]) * 12 + int(numbers[1])), Interval(first, last))
    micros = 0
    if last == "second":
        micros = int(((numbers.pop() or "") + "000000")[:6])
    units = UNITS[UNITS.index(first) : UNITS.index(last) + 1]
    for n, (unit, number) in enumerate(zip(units, numbers, strict=True)):
        if n and int(number) > (23 if unit == "hour" else 59):
            raise InvalidFilter(f"INTERVAL {text!r} has a number of {unit}s that is too large")
        micros += int(number) * _MICROS[unit]
    return interval_literal(sign * micros, Interval(first, last))


def parse_interval(text: str, sign: int = 1) -> TypedSql:
    """Return the interval of a text with numbers and units, such as '1 day 2 hours': the sum of its parts.

    Raises `InvalidFilter` for text in another form, and the errors of `unit_interval`.
    """
    rest = re.sub(r"^\s*interval\b", "", text, flags=re.IGNORECASE)
    parts = _PART.findall(rest)
    if not parts or _PART.sub("", rest).strip():
        raise InvalidFilter(f"INTERVAL {text!r} is not of the form '1 day 2 hours'")
    total: TypedSql | None = None
    for mark, number, unit in parts:
        one = unit_interval(mark + number, unit, sign)
        total = one if total is None else add_interval("+", total, one)
    assert total is not None
    return total


def value_interval(each: TypedSql, unit: str) -> TypedSql:
    """Return `INTERVAL expression unit`, for an expression that is a number.

    Raises `UnsupportedFeature` for an unknown unit or another type.
    """
    name = unit.lower().removesuffix("s")
    if name in _MONTHS:
        months = implicit_cast(each, t.INT, "an interval")
        kind = Interval(*(("year",) * 2 if name == "year" else ("month",) * 2))
        return TypedSql(f"CAST(CAST({months.sql} AS BIGINT) * {_MONTHS[name]} AS INTEGER)", kind, True)
    if name not in _MICROS:
        raise unsupported_error(f"an interval of {unit}")
    kind_name = name if name in UNITS else "day" if name == "week" else "second"
    count = implicit_cast(each, t.Decimal(18, 6) if name == "second" else t.LONG, "an interval")
    return TypedSql(f"CAST({count.sql} * {_MICROS[name]} AS BIGINT)", Interval(kind_name, kind_name), True)


def is_time(kind: t.Type) -> bool:
    """Return whether a type is a date or timestamp."""
    return kind == t.DATE or isinstance(kind, t.Timestamp)


def add_interval(op: str, left: TypedSql, right: TypedSql) -> TypedSql | None:
    """Return `left op right` (+ or -) if an operand is an interval, or if both are times (-); None for other operands.

    Raises `UnsupportedFeature` for an interval and an operand that Spark cannot combine with it.
    """
    if isinstance(left.type, Interval) and isinstance(right.type, Interval):
        kind = widest(left.type, right.type)
        if kind is None:
            raise unsupported_error(f"the operator {op} of {left.type} and {right.type}")
        return TypedSql(f"CAST({left.sql} {op} {right.sql} AS {sql_type(kind)})", kind, True)
    if isinstance(left.type, Interval) and op == "+":
        left, right = right, left
    if isinstance(right.type, Interval):
        if left.type == t.STRING:
            left = cast(left, _INSTANT)
        if is_time(left.type):
            return _shift_time(op, left, right, right.type)
        raise unsupported_error(f"an interval added to {left.type}")
    if op == "-" and is_time(left.type) and (is_time(right.type) or right.type == t.STRING):
        return _between(left, right)
    if op == "-" and is_time(right.type) and left.type == t.STRING:
        return _between(left, right)
    return None


def _shift_time(op: str, left: TypedSql, right: TypedSql, kind: Interval) -> TypedSql:
    if kind.has_months:
        months = f"{op if op == '-' else ''}({right.sql})"
        sql = f"{left.sql} + to_months(CAST({months} AS INTEGER))"
        return TypedSql(f"CAST({sql} AS {sql_type(left.type)})", left.type, True)
    if left.type == t.DATE and kind.last == "day":
        return TypedSql(f"CAST({left.sql} {op} CAST({right.sql} // 86400000000 AS INTEGER) AS DATE)", t.DATE, True)
    value = cast(left, _INSTANT) if left.type == t.DATE else left
    sql = f"make_timestamp(epoch_us({value.sql}) {op} {right.sql})"
    return TypedSql(sql, value.type, True)


def _between(left: TypedSql, right: TypedSql) -> TypedSql:
    if left.type == t.DATE and right.type == t.DATE:
        return TypedSql(f"(CAST({left.sql} - {right.sql} AS BIGINT) * 86400000000)", Interval("day", "day"), True)
    kinds = [each.type for each in (left, right) if isinstance(each.type, t.Timestamp)]
    kind = kinds[0] if kinds else t.DATE
    one, other = (each if each.type == kind else cast(each, kind) for each in (left, right))
    if kind == t.DATE:
        return _between(one, other)
    return TypedSql(f"(epoch_us({one.sql}) - epoch_us({other.sql}))", Interval("day", "second"), True)


def multiply_interval(each: TypedSql, number: TypedSql, divides: bool = False) -> TypedSql:
    """Return an interval multiplied by a number or, with `divides`, divided by it, rounded half up.

    Raises `UnsupportedFeature` if `number` is not a number.
    """
    kind = each.type
    assert isinstance(kind, Interval)
    of = Interval("year", "month") if kind.has_months else Interval("day", "second")
    if number.type in t.INTEGRAL and not divides:
        return TypedSql(f"CAST({each.sql} * CAST({number.sql} AS BIGINT) AS {sql_type(of)})", of, True)
    if number.type not in (*t.INTEGRAL, *t.FLOATING) and not isinstance(number.type, t.Decimal):
        raise unsupported_error(f"an interval and a number of {number.type}")
    value = convert(replace(number, literal=None), t.DOUBLE) if number.type in t.FLOATING else number
    given = [each, replace(value, literal=None)]
    return call_python(f"numbers.interval_{'divided' if divides else 'times'}", given, of, raises=True)


def negate_interval(each: TypedSql) -> TypedSql:
    """Return `-interval`."""
    return TypedSql(f"CAST(-({each.sql}) AS {sql_type(each.type)})", each.type, True)


def absolute(each: TypedSql) -> TypedSql:
    """Return `abs(interval)`."""
    return TypedSql(f"CAST(abs({each.sql}) AS {sql_type(each.type)})", each.type, True)
