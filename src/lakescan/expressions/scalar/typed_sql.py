"""Translated expressions: DuckDB SQL with its Spark type, and Spark's implicit conversions."""

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
    t.UNKNOWN: "INTEGER",  # for nulls
}
DIGITS: dict[t.Type, int] = {t.BYTE: 3, t.SHORT: 5, t.INT: 10, t.LONG: 20}  # of Spark's decimals for integers
MOST_DIGITS = 38
EXACT_DIGITS = 15  # one division converts a decimal with this many digits to the nearest double
_EXACT_IN_FLOAT = 2**24
_KEPT_DIGITS = 34  # Spark rounds decimals with more digits when it negates them or casts them to integers
UNEQUAL = "engines may differ: "  # prefix of the message about a value that is refused
TIME_FORM = r"[ T]([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\.[0-9]{1,6})?"


@dataclass(frozen=True)
class TypedSql:
    """An expression as DuckDB SQL.

    - `type`: its type in Spark; `t.UNKNOWN` for a null without a type.
    - `raises`: whether evaluation may fail for some values. Then it is evaluated only where Spark evaluates it.
    - `literal`: the Python value of a literal; None for other expressions and for null.
    - `pad`: the length of a CHAR(n) column, whose values are padded; 0 for other expressions.
    """

    sql: str
    type: t.Type
    raises: bool = False
    literal: Any = None
    pad: int = 0

    @property
    def is_text_literal(self) -> bool:
        """Whether the expression is a string literal."""
        return isinstance(self.literal, str)


def unsupported_error(what: str) -> UnsupportedFeature:
    """Return the `UnsupportedFeature` error for a part of an expression that only Spark evaluates.

    `what` names the part, and begins the message.
    """
    return UnsupportedFeature(f"{what} in an SQL expression", "Only Spark itself evaluates it.")


def sql_type(kind: t.Type) -> str:
    """Return DuckDB's name for a type; raises `UnsupportedFeature` for types that expressions cannot use."""
    if isinstance(kind, t.Decimal) and kind.scale >= 0:
        return f"DECIMAL({kind.precision}, {kind.scale})"
    if isinstance(kind, t.Timestamp) and kind.unit == "us":
        return "TIMESTAMP"  # instants are stored as wall-clock times in UTC
    if isinstance(kind, Interval):
        return "INTEGER" if kind.has_months else "BIGINT"  # months, or microseconds
    if (name := _SQL_NAMES.get(kind)) is None:
        raise unsupported_error(f"a value of type {kind}")
    return name


def nested_sql_type(kind: t.Type) -> str:
    """Return DuckDB's name for a type, including lists, maps and structs.

    Raises `UnsupportedFeature` for types that expressions cannot use.
    """
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
    """Return text as an SQL string literal; raises `UnsupportedFeature` for text with the character U+0000."""
    if "\0" in text:
        raise unsupported_error("a string with the character U+0000")
    return "'" + text.replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """Return a name as a quoted SQL identifier for DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any, kind: t.Type) -> TypedSql:
    """Return a Python value as a literal of a type that is not nested; None is null."""
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
    """Return the literal for a number in SQL text, with Spark's type.

    That is an integer, a long or a decimal, or a double if the text has an exponent. Raises `UnsupportedFeature` for
    more digits than a decimal has, or a double out of range.
    """
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
    """Return the decimal type that Spark uses for a decimal or integer type in decimal arithmetic; None for others."""
    if isinstance(kind, t.Decimal):
        return kind
    return t.Decimal(DIGITS[kind], 0) if kind in DIGITS else None


def adjust_precision_scale(precision: int, scale: int) -> t.Decimal:
    """Return Spark's decimal result type for a precision and scale that may exceed 38 digits.

    The scale is then reduced, but not below 6.
    """
    if precision <= MOST_DIGITS:
        return t.Decimal(precision, scale)
    return t.Decimal(MOST_DIGITS, max(MOST_DIGITS - (precision - scale), min(scale, 6)))


def is_rounded(kind: t.Type) -> bool:
    """Return whether Spark rounds values of a decimal type before it negates them or casts them to integers."""
    return isinstance(kind, t.Decimal) and kind.precision > _KEPT_DIGITS


def wider_decimal(left: t.Decimal, right: t.Decimal) -> t.Decimal:
    """Return the decimal type that Spark converts decimals of two types to; beyond 38 digits, the scale is reduced."""
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale
    return t.Decimal(min(digits, MOST_DIGITS), max(scale - max(digits - MOST_DIGITS, 0), 0))


def common_type(left: TypedSql, right: TypedSql, doing: str) -> t.Type:
    """Return the type that Spark converts both operands to, also inside structs, lists and maps.

    Raises `UnsupportedFeature` for types that Spark, or lakescan, does not convert to one; `doing` names the operation
    in the message.
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
    """Return whether Spark converts an operand to double if the operands' types are `kinds`, in either ANSI mode."""
    if each.type in t.INTEGRAL:
        small = isinstance(each.literal, int) and abs(each.literal) <= _EXACT_IN_FLOAT
        return t.FLOAT not in kinds or small
    if isinstance(each.type, t.Decimal):
        return True
    return each.type in t.FLOATING


def convert(each: TypedSql, kind: t.Type) -> TypedSql:
    """Convert an expression implicitly to a type that `common_type` returned for it."""
    if each.type == kind:
        return each
    if each.type == t.UNKNOWN and each.raises:
        return failure_value(each, kind)
    if t.children(kind):
        return convert_inside(each, kind, convert)
    if each.type == t.UNKNOWN:
        return literal(None, kind)
    if each.type == t.STRING:
        from lakescan.expressions.scalar.casts import cast  # imported here because it imports this module

        return cast(each, kind)
    if each.literal is not None and kind == t.DOUBLE:
        return replace(literal(float(each.literal), kind), literal=each.literal)
    if isinstance(each.type, t.Decimal) and kind == t.DOUBLE and each.type.precision > EXACT_DIGITS:
        return TypedSql(f"CAST(CAST({each.sql} AS VARCHAR) AS DOUBLE)", kind, each.raises)
    return TypedSql(f"CAST({each.sql} AS {sql_type(kind)})", kind, each.raises)


def failure_value(each: TypedSql, kind: t.Type) -> TypedSql:
    """Return an expression that always fails, such as `raise_error`, with the type `kind` of the values next to it."""
    if t.children(kind):
        null = convert_inside(TypedSql("NULL", t.UNKNOWN), kind, convert)
        return TypedSql(f"CASE WHEN {each.sql} IS NULL THEN {null.sql} END", kind, True)
    return TypedSql(f"CAST({each.sql} AS {sql_type(kind)})", kind, True)


def convert_inside(each: TypedSql, kind: t.Type, convert: Callable[[TypedSql, t.Type], TypedSql]) -> TypedSql:
    """Convert a struct, list or map to `kind`, a type with the same nesting, using `convert` for the inner values."""

    def leaf(sql: str, source: t.Type, wanted: t.Type) -> tuple[str, bool]:
        found = convert(TypedSql(sql, source), wanted)
        return found.sql, found.raises

    sql, fails = nested.convert(each.sql, each.type, kind, leaf)
    return TypedSql(sql, kind, each.raises or fails)


def text_comparison_type(kind: t.Type) -> t.Type | None:
    """Return Spark's type for comparing a string with a value of type `kind`; None if it is not supported."""
    if kind in t.INTEGRAL:
        return t.LONG
    if kind in t.FLOATING or isinstance(kind, t.Decimal):
        return t.DOUBLE
    return kind if kind in (t.DATE, t.TIME, t.BOOLEAN, t.BINARY) or isinstance(kind, t.Timestamp) else None


def read_text(text: str, kind: t.Type) -> TypedSql | None:
    """Return the literal that Spark gets from casting a text to a type that is not nested.

    None if the text is not a value of the type.
    """
    if kind in (t.DATE, t.TIME) or isinstance(kind, t.Timestamp):
        try:
            number = int(value_of_text(text, kind))
        except ValueError:
            return None
        if kind == t.DATE:
            return TypedSql(f"(DATE '1970-01-01' + CAST({number} AS INTEGER))", kind)
        if kind == t.TIME:
            return TypedSql(f"CAST('{datetime.min + timedelta(microseconds=number):%H:%M:%S.%f}' AS TIME)", kind)
        sql_type(kind)  # raises for nanoseconds
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
    """Convert two operands to their common type, as Spark does for a comparison; raises the errors of `common_type`."""
    kind = common_type(left, right, doing)
    return convert(left, kind), convert(right, kind)


def fail_unless(condition: str, then: str, kind: t.Type, problem: str) -> TypedSql:
    """Return an expression for SQL `then`, of type `kind`, that fails with `problem` where SQL `condition` is not true.

    Use it where Spark fails, too.
    """
    return _or_error(condition, then, kind, quote_text(problem))


def refuse_unless(condition: str, then: str, kind: t.Type, what: str, value: str) -> TypedSql:
    """Return an expression for SQL `then`, of type `kind`, that is refused where SQL `condition` is not true.

    Evaluation then raises `UnsupportedFeature`. Use it where Spark's value may differ. `what` names the operation, and
    `value` is the SQL of the value, for the message.
    """
    return _or_error(condition, then, kind, f"{quote_text(UNEQUAL + what + ' ')} || CAST({value} AS VARCHAR)")


def _or_error(condition: str, then: str, kind: t.Type, message: str) -> TypedSql:
    return TypedSql(
        f"CASE WHEN {condition} THEN {then} ELSE CAST(error({message}) AS {sql_type(kind)}) END", kind, True
    )


UNITS = ("year", "month", "day", "hour", "minute", "second")


@dataclass(frozen=True)
class Interval(t.Type):
    """An interval type from its first to its last unit: from years to months, or from days to seconds."""

    first: str
    last: str

    @property
    def has_months(self) -> bool:
        """Whether it is a year-month interval, with values in months; else values are in microseconds."""
        return self.first in UNITS[:2]

    def arrow(self) -> pa.DataType:
        """Return the Arrow type: `month_day_nano_interval` for year-month intervals, else `duration('us')`."""
        return pa.month_day_nano_interval() if self.has_months else pa.duration("us")

    def __str__(self) -> str:
        return f"interval {self.first}" if self.first == self.last else f"interval {self.first} to {self.last}"


DAY_TIME = Interval("day", "second")


def widest(left: t.Type, right: t.Type) -> Interval | None:
    """Return the interval type with the units of both types.

    None if one is not an interval type, or for a year-month and a day-time interval.
    """
    if not isinstance(left, Interval) or not isinstance(right, Interval) or left.has_months != right.has_months:
        return None
    places = [UNITS.index(each) for each in (left.first, left.last, right.first, right.last)]
    return Interval(UNITS[min(places)], UNITS[max(places)])
