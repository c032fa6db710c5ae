"""A translated expression: its DuckDB SQL and its type in Spark, and the conversions that Spark makes implicitly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakescan.common import types as t
from lakescan.errors import UnsupportedFeature
from lakescan.expressions.scalar import nested
from lakescan.expressions.text_casts import (
    boolean_of_text,
    decimal_of_text,
    double_of_text,
    or_none,
    value_of_text,
    whole_of_text,
)

_SQL_NAMES: dict[t.Type, str] = {
    t.BOOLEAN: "BOOLEAN",
    t.BYTE: "TINYINT",
    t.SHORT: "SMALLINT",
    t.INT: "INTEGER",
    t.LONG: "BIGINT",
    t.FLOAT: "FLOAT",
    t.DOUBLE: "DOUBLE",
    t.DATE: "DATE",
    t.TIME: "TIME",
    t.STRING: "VARCHAR",
    t.BINARY: "BLOB",
    t.UNKNOWN: "INTEGER",  # of nulls
}
DIGITS: dict[t.Type, int] = {t.BYTE: 3, t.SHORT: 5, t.INT: 10, t.LONG: 20}  # of Spark's decimals for whole numbers
MOST_DIGITS = 38
EXACT_DIGITS = 15  # a decimal of so many digits becomes the nearest double by one division
_EXACT_IN_FLOAT = 2**24
_KEPT_DIGITS = 34  # of a decimal that Spark negates or makes a whole number; it rounds the others away
UNEQUAL = "engines may differ: "  # begins the message about a value that is not evaluated here
TIME_FORM = r"[ T]([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\.[0-9]{1,6})?"


@dataclass(frozen=True)
class TypedSql:
    """An expression as DuckDB SQL.

    - `type`: its type in Spark; `t.UNKNOWN` for a null without one.
    - `raises`: whether its evaluation may fail for some values; if so, it is evaluated only where Spark does so.
    - `literal`: the value of a literal, in Python.
    - `pad`: the length of a column of CHAR(n), whose texts are padded; 0 for any other expression.
    """

    sql: str
    type: t.Type
    raises: bool = False
    literal: Any = None
    pad: int = 0

    @property
    def is_text_literal(self) -> bool:
        """Whether it is a quoted text."""
        return isinstance(self.literal, str)


def unsupported_error(what: str) -> UnsupportedFeature:
    """Return the error for a part of an expression that is not evaluated here."""
    return UnsupportedFeature(f"{what} in an SQL expression", "Only Spark itself evaluates it.")


def sql_type(kind: t.Type) -> str:
    """Return DuckDB's name of a type; raises `UnsupportedFeature` for types that expressions cannot use."""
    if isinstance(kind, t.Decimal) and kind.scale >= 0:
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if isinstance(kind, t.Timestamp) and kind.unit == "us":
        return "TIMESTAMP"  # instants are their wall-clock times in UTC
    if isinstance(kind, Interval):
        return "INTEGER" if kind.has_months else "BIGINT"  # months, or microseconds
    if (name := _SQL_NAMES.get(kind)) is None:
        raise unsupported_error(f"a value of type {kind}")
    return name


def nested_sql_type(kind: t.Type) -> str:
    """Return DuckDB's name of a type, which may be a list, map or struct."""
    match kind:
        case t.ListOf():
            return f"{nested_sql_type(kind.element.type)}[]"
        case t.MapOf():
            return f"MAP({nested_sql_type(kind.key.type)}, {nested_sql_type(kind.value.type)})"
        case t.Struct():
            named = zip(nested.member_names(kind), kind.fields, strict=True)
            members = ", ".join(f"{quote_name(name)} {nested_sql_type(each.type)}" for name, each in named)
            return f"STRUCT({members})"
    return sql_type(kind)


def quote_text(text: str) -> str:
    """Return text as an SQL literal."""
    if "\0" in text:
        raise unsupported_error("a text with the character 0")
    return "'" + text.replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any, kind: t.Type) -> TypedSql:
    """Return a value as a literal of a type."""
    if value is None:
        return TypedSql(f"CAST(NULL AS {sql_type(kind)})", kind)
    if kind == t.STRING:
        return TypedSql(quote_text(value), kind, literal=value)
    return TypedSql(f"CAST({quote_text(_text(value))} AS {sql_type(kind)})", kind, literal=value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def parse_number(text: str) -> TypedSql:
    """Return a number as Spark reads it: an integer, a long, a decimal, or with an exponent a double."""
    if text.isdecimal():
        whole = int(text)
        digits = len(text.lstrip("0")) or 1
        kind: t.Type = t.INT if whole < 2**31 else t.LONG if whole < 2**63 else _decimal(digits, 0)
        return literal(whole, kind)
    if "e" in text.lower():
        if math.isinf(value := float(text)):
            raise unsupported_error(f"the number {text}")
        return literal(value, t.DOUBLE)
    exact = Decimal(text)
    scale = -int(exact.as_tuple().exponent)
    return literal(exact, _decimal(max(len(exact.as_tuple().digits), scale, 1), scale))


def _decimal(precision: int, scale: int) -> t.Decimal:
    if precision > MOST_DIGITS:
        raise unsupported_error(f"a decimal of more than {MOST_DIGITS} digits")
    return t.Decimal(precision, scale)


def decimal_of(kind: t.Type) -> t.Decimal | None:
    """Return the decimal type that Spark takes for a decimal or whole number; None for other types."""
    if isinstance(kind, t.Decimal):
        return kind
    return t.Decimal(DIGITS[kind], 0) if kind in DIGITS else None


def adjust_precision_scale(precision: int, scale: int) -> t.Decimal:
    """Return the decimal type that Spark gives to a result: beyond 38 digits, it cuts decimal places off, down to 6."""
    if precision <= MOST_DIGITS:
        return t.Decimal(precision, scale)
    return t.Decimal(MOST_DIGITS, max(MOST_DIGITS - (precision - scale), min(scale, 6)))


def is_rounded(kind: t.Type) -> bool:
    """Whether Spark negates the values of a type, or makes them whole numbers, only after it has rounded them."""
    return isinstance(kind, t.Decimal) and kind.precision > _KEPT_DIGITS


def wider_decimal(left: t.Decimal, right: t.Decimal) -> t.Decimal:
    """Return the decimal type to which Spark converts two others; beyond 38 digits, it cuts decimal places off."""
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    return t.Decimal(min(digits, MOST_DIGITS), max(scale - max(digits - MOST_DIGITS, 0), 0))


def common_type(left: TypedSql, right: TypedSql, doing: str) -> t.Type:
    """Return the type to which Spark converts both, also inside structs, lists and maps.

    Raises `UnsupportedFeature`, which says `doing` what.
    """
    kinds = {left.type, right.type}
    if len(kinds) == 1:
        return left.type
    if t.UNKNOWN in kinds:
        return right.type if left.type == t.UNKNOWN else left.type

    def inside(one: t.Type, other: t.Type) -> t.Type:
        return common_type(TypedSql("", one), TypedSql("", other), doing)

    if (whole := nested.common_nested_type(left.type, right.type, inside)) is not None:
        return whole
    if (interval := widest(left.type, right.type)) is not None:
        return interval
    if kinds <= set(t.INTEGRAL):
        return max(kinds, key=t.INTEGRAL.index)
    first, second = decimal_of(left.type), decimal_of(right.type)
    if first is not None and second is not None:
        return wider_decimal(first, second)
    if kinds & set(t.FLOATING) and all(_is_double(each, kinds) for each in (left, right)):
        return t.DOUBLE
    times = [kind for kind in kinds if isinstance(kind, t.Timestamp)]
    if times and all(kind == t.DATE or isinstance(kind, t.Timestamp) for kind in kinds):
        return t.Timestamp(zoned=any(kind.zoned for kind in times))
    if t.STRING in kinds and (found := text_comparison_type(*(kinds - {t.STRING}))) is not None:
        return found
    raise unsupported_error(f"{doing} of {left.type} and {right.type}")


def _is_double(each: TypedSql, kinds: set[t.Type]) -> bool:
    """Whether Spark converts it to double beside another type, and the result does not depend on its ANSI mode."""
    if each.type in t.INTEGRAL:
        small = isinstance(each.literal, int) and abs(each.literal) <= _EXACT_IN_FLOAT
        return t.FLOAT not in kinds or small
    if isinstance(each.type, t.Decimal):
        return True
    return each.type in t.FLOATING


def convert(each: TypedSql, kind: t.Type) -> TypedSql:
    """Convert to a type that `common_type` has returned."""
    if each.type == kind:
        return each
    if each.type == t.UNKNOWN and each.raises:
        return failure_value(each, kind)
    if t.children(kind):
        return convert_inside(each, kind, convert)
    if each.type == t.UNKNOWN:
        return literal(None, kind)
    if each.type == t.STRING:
        from lakescan.expressions.scalar.casts import cast  # of texts: it is made of what is here

        return cast(each, kind)
    if each.literal is not None and kind == t.DOUBLE:
        return replace(literal(float(each.literal), kind), literal=each.literal)
    if isinstance(each.type, t.Decimal) and kind == t.DOUBLE and each.type.precision > EXACT_DIGITS:
        return TypedSql(f"CAST(CAST({each.sql} AS VARCHAR) AS DOUBLE)", kind, each.raises)
    return TypedSql(f"CAST({each.sql} AS {sql_type(kind)})", kind, each.raises)


def failure_value(each: TypedSql, kind: t.Type) -> TypedSql:
    """Give an expression that only fails, as `raise_error`, the type of the values next to it."""
    if t.children(kind):
        null = convert_inside(TypedSql("NULL", t.UNKNOWN), kind, convert)
        return TypedSql(f"CASE WHEN {each.sql} IS NULL THEN {null.sql} END", kind, True)
    return TypedSql(f"CAST({each.sql} AS {sql_type(kind)})", kind, True)


def convert_inside(each: TypedSql, kind: t.Type, convert: Callable[[TypedSql, t.Type], TypedSql]) -> TypedSql:
    """Convert a struct, list or map to a type of the same shape, and what is inside by `convert`."""

    def leaf(sql: str, source: t.Type, wanted: t.Type) -> tuple[str, bool]:
        found = convert(TypedSql(sql, source), wanted)
        return found.sql, found.raises

    sql, fails = nested.convert(each.sql, each.type, kind, leaf)
    return TypedSql(sql, kind, each.raises or fails)


def text_comparison_type(kind: t.Type) -> t.Type | None:
    """Return the type to which Spark converts a text and a value of a type, where both are compared."""
    if kind in t.INTEGRAL:
        return t.LONG
    if kind in t.FLOATING or isinstance(kind, t.Decimal):
        return t.DOUBLE
    return kind if kind in (t.DATE, t.TIME, t.BOOLEAN, t.BINARY) or isinstance(kind, t.Timestamp) else None


def read_text(text: str, kind: t.Type) -> TypedSql | None:
    """Return the value that Spark reads from a text as a type; None if there is none."""
    if kind in (t.DATE, t.TIME) or isinstance(kind, t.Timestamp):
        try:
            number = int(value_of_text(text, kind))
        except ValueError:
            return None
        if kind == t.DATE:
            return TypedSql(f"(DATE '1970-01-01' + CAST({number} AS INTEGER))", kind)
        if kind == t.TIME:
            return TypedSql(f"CAST('{datetime.min + timedelta(microseconds=number):%H:%M:%S.%f}' AS TIME)", kind)
        sql_type(kind)  # refuses nanoseconds
        return TypedSql(f"make_timestamp(CAST({number} AS BIGINT))", kind)
    value: Any
    if kind in t.INTEGRAL:
        value = or_none(whole_of_text, text, 8 << t.INTEGRAL.index(kind))
    elif kind in t.FLOATING:
        value = or_none(double_of_text, text)
        if value is not None and kind == t.FLOAT:
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
    elif isinstance(kind, t.Decimal):
        value = or_none(decimal_of_text, text, kind.precision, kind.scale)
    elif kind == t.BOOLEAN:
        value = or_none(boolean_of_text, text)
    elif kind == t.BINARY:
        return TypedSql(f"encode({quote_text(text)})", kind)
    else:
        return None
    return None if value is None else literal(value, kind)


def align(left: TypedSql, right: TypedSql, doing: str) -> tuple[TypedSql, TypedSql]:
    """Convert two operands to their common type, as Spark does for a comparison."""
    kind = common_type(left, right, doing)
    return convert(left, kind), convert(right, kind)


def fail_unless(condition: str, then: str, kind: t.Type, problem: str) -> TypedSql:
    """Return an expression that fails, as in Spark, where a condition does not hold; `problem` says why."""
    return _or_error(condition, then, kind, quote_text(problem))


def refuse_unless(condition: str, then: str, kind: t.Type, what: str, value: str) -> TypedSql:
    """Return an expression that is refused where a condition does not hold, since the engines may differ there.

    `value` is the SQL of the value of which that is said.
    """
    return _or_error(condition, then, kind, f"{quote_text(UNEQUAL + what + ' ')} || CAST({value} AS VARCHAR)")


def _or_error(condition: str, then: str, kind: t.Type, message: str) -> TypedSql:
    return TypedSql(
        f"CASE WHEN {condition} THEN {then} ELSE CAST(error({message}) AS {sql_type(kind)}) END", kind, True
    )


UNITS = ("year", "month", "day", "hour", "minute", "second")


@dataclass(frozen=True)
class Interval(t.Type):
    """Intervals from a unit to a unit: of years and months, or of days to seconds."""

    first: str
    last: str

    @property
    def has_months(self) -> bool:
        """Whether it is one of years and months."""
        return self.first in UNITS[:2]

    def arrow(self) -> pa.DataType:
        """Return the Arrow type of values: a duration in microseconds; one of months."""
        return pa.month_day_nano_interval() if self.has_months else pa.duration("us")

    def __str__(self) -> str:
        return f"interval {self.first}" if self.first == self.last else f"interval {self.first} to {self.last}"


DAY_TIME = Interval("day", "second")


def widest(left: t.Type, right: t.Type) -> Interval | None:
    """Return the type that holds the intervals of two; None for other types, and for months with days."""
    if not isinstance(left, Interval) or not isinstance(right, Interval) or left.has_months != right.has_months:
        return None
    places = [UNITS.index(each) for each in (left.first, left.last, right.first, right.last)]
    return Interval(UNITS[min(places)], UNITS[max(places)])
