"""Binding of predicates to a schema: columns become field ids, and literals become Arrow scalars of the column's type.

SQL conditions become expressions over the columns, if they can be evaluated in process.

Text literals are cast as in Spark (`text_casts`). Any other literal that the column's type cannot represent exactly
(5.5 for an int, a timestamp for a date) is not rounded. Instead, the comparison is rewritten into an equivalent one.
Timestamps without an offset are in the filter's time zone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, tzinfo
from decimal import ROUND_FLOOR, Context, InvalidOperation, localcontext
from decimal import Decimal as PyDecimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import InvalidFilter, LakescanError, NoSuchColumn, UnsupportedFeature
from lakescan.expressions.inference import infer_predicate
from lakescan.expressions.like import join_pattern, split_pattern
from lakescan.expressions.literals import NANOSECONDS_A_DAY, Instant, instant_of, plain_value
from lakescan.expressions.predicate import (
    FALSE,
    TRUE,
    And,
    ColumnComparison,
    ColumnTest,
    Comparison,
    Constant,
    ExactText,
    In,
    IsNaN,
    IsNull,
    Like,
    Or,
    Predicate,
    SqlCondition,
    conjunction,
    disjunction,
    negation,
    operands,
)
from lakescan.expressions.scalar.expression import ScalarExpression
from lakescan.expressions.scalar.time_functions import clock_values
from lakescan.expressions.sql_condition import references
from lakescan.expressions.text_casts import double_of_text, name_of_zone, offset_of_wall, value_of_text

_LONG, _DATES = (-(2**63), 2**63 - 1), (-(2**31), 2**31 - 1)
_WIDE = Context(prec=40)


class _Inexact(Exception):
    """Raised for a literal that the column's type cannot represent exactly. Comparisons are rewritten with its values.

    - `below`: the greatest smaller value of the type, if it exists.
    - `above`: the least greater value instead, where the value below has no short form.
    - `above_all`: without `below` and `above`, whether the literal is above all values of the type. Otherwise it is
      below all of them.
    """

    def __init__(self, below: pa.Scalar | None, above_all: bool = False, above: pa.Scalar | None = None) -> None:
        self.below = below
        self.above = above
        self.above_all = above_all


def bind(predicate: Predicate, schema: Schema, *, case_sensitive: bool = False, zone: tzinfo = UTC) -> Predicate:
    """Bind a predicate to a schema: set the field ids of its leaves and convert its literals to the columns' types.

    An unknown constant becomes false, and a test that no value of the column satisfies becomes false. `zone` is the
    time zone of timestamps without an offset. Raises `NoSuchColumn`, `InvalidFilter` if a literal cannot be compared
    with its column, and `UnsupportedFeature` for an SQL condition that only Spark can evaluate.
    """
    match predicate:
        case Constant(value):
            return Constant(bool(value))  # unknown becomes false; negations are only in leaves
        case And() | Or():
            parts = [bind(part, schema, case_sensitive=case_sensitive, zone=zone) for part in operands(predicate)]
            return conjunction(parts) if isinstance(predicate, And) else disjunction(parts)
        case ColumnTest():
            field = schema.field(predicate.column, case_sensitive=case_sensitive)
            _check_reachable(schema, field)
            return _bind_leaf(predicate, field, zone)
        case ColumnComparison():
            return _bind_columns(predicate, schema, case_sensitive)
        case SqlCondition():
            return _bind_condition(predicate, schema, case_sensitive, zone)
    raise TypeError(f"not a predicate: {predicate!r}")


def bind_columns_only(predicate: Predicate, schema: Schema) -> Predicate:
    """Bind the parts of a predicate that read the schema's columns; parts on metadata columns become true.

    Every row that satisfies the predicate also satisfies the result. It is used to detect commit conflicts, because row
    numbers and row ids in files of concurrent commits were not read. Raises the same errors as `bind`, except
    `NoSuchColumn`.
    """
    if isinstance(predicate, And | Or):
        parts = [bind_columns_only(part, schema) for part in operands(predicate)]
        return conjunction(parts) if isinstance(predicate, And) else disjunction(parts)
    try:
        return bind(predicate, schema)
    except NoSuchColumn:
        return TRUE


def _bind_columns(comparison: ColumnComparison, schema: Schema, case_sensitive: bool) -> Predicate:
    names = (comparison.column, comparison.other)
    one, other = (schema.field(name, case_sensitive=case_sensitive) for name in names)
    for field in (one, other):
        _check_reachable(schema, field)
    if not t.are_ordered_alike(one.type, other.type):
        raise InvalidFilter(f"{comparison}: columns of types {one.type} and {other.type} cannot be compared")
    return replace(comparison, ids=(one.id, other.id))


def _bind_condition(condition: SqlCondition, schema: Schema, case_sensitive: bool, zone: tzinfo) -> Predicate:
    for reference in references(condition.text):
        reference.resolve(schema, case_sensitive=case_sensitive)  # report unknown columns before unsupported SQL
    found = infer_predicate(
        condition.text, schema, time_zone=name_of_zone(zone), case_sensitive=case_sensitive, now=condition.now
    )
    tests = bind(found.predicate, schema, case_sensitive=case_sensitive, zone=zone)
    if found.exact:
        return tests
    clock = clock_values(condition.now)
    expression = ScalarExpression.parse(condition.text, schema, clock, case_sensitive=case_sensitive)
    if expression.type not in (t.BOOLEAN, t.UNKNOWN):
        raise InvalidFilter(f"the filter {condition.text!r} is of type {expression.type}, not boolean")
    if zone is not UTC and expression.depends_on_zone:
        raise UnsupportedFeature(
            f"the filter {condition.text!r} in the time zone {name_of_zone(zone)}",
            "Data sources compute with times in UTC: filter the frame instead, or use a session in UTC.",
        )
    if not expression.columns:
        return Constant(
            expression.evaluate(pa.RecordBatch.from_arrays([pa.nulls(1)], names=["row"]))[0].as_py() is True
        )
    return replace(condition, implied=tests, expression=expression)


def can_bind(predicate: Predicate, schema: Schema, *, case_sensitive: bool = False, zone: tzinfo = UTC) -> bool:
    """Return whether `bind` succeeds, with the same arguments; False for any lakescan error that it raises."""
    try:
        bind(predicate, schema, case_sensitive=case_sensitive, zone=zone)
    except LakescanError:
        return False
    return True


def _check_reachable(schema: Schema, field: t.Field) -> None:
    """Raise `InvalidFilter` if `field` is inside a list or map, because it then has no single value per row."""
    within: tuple[t.Field, ...] = (schema.top_level_of[field.id],)
    while within:
        inside = next(f for f in within if field in t.walk((f,)))
        if inside is field:
            return
        if not isinstance(inside.type, t.Struct):
            raise InvalidFilter(f"column {schema.path_of[field.id]!r} is inside a list or map: filters cannot use it")
        within = inside.type.fields


def _bind_leaf(leaf: ColumnTest, field: t.Field, zone: tzinfo) -> Predicate:
    match leaf:
        case IsNull():
            return IsNull(leaf.column, field.id, leaf.negate)
        case IsNaN():
            if field.type not in t.FLOATING:
                raise InvalidFilter(f"isnan needs a float or double column; {leaf.column!r} is {field.type}")
            return IsNaN(leaf.column, field.id, leaf.negate)
        case Like():
            if field.type != t.STRING:
                raise InvalidFilter(f"like needs a string column; {leaf.column!r} is {field.type}")
            return Like(leaf.column, field.id, join_pattern(split_pattern(leaf.pattern)), leaf.negate, leaf.ignore_case)
        case In():
            return _bind_in(leaf, field, zone)
        case Comparison():
            return _bind_comparison(leaf, field, zone)
    raise TypeError(f"not a column test: {leaf!r}")


def _bind_comparison(leaf: Comparison, field: t.Field, zone: tzinfo) -> Predicate:
    if (value := _double(leaf.value, field, leaf.column)) is not None:
        return _compare_doubles(leaf, field, value)
    try:
        return Comparison(leaf.column, field.id, leaf.op, _scalar(leaf.value, field, leaf.column, zone))
    except _Inexact as inexact:
        not_null = IsNull(leaf.column, field.id, negate=True)
        if leaf.op in ("=", "!="):
            return FALSE if leaf.op == "=" else not_null
        less = leaf.op in ("<", "<=")
        if inexact.above is not None:
            return Comparison(leaf.column, field.id, "<" if less else ">=", inexact.above)
        if inexact.below is None:
            return not_null if less is inexact.above_all else FALSE
        return Comparison(leaf.column, field.id, "<=" if less else ">", inexact.below)


def _bind_in(leaf: In, field: t.Field, zone: tzinfo) -> Predicate:
    if leaf.has_null and leaf.negate:
        return FALSE
    if not leaf.values:  # as in Spark 4, a test against an empty list is false and not null
        return TRUE if leaf.negate else FALSE
    if leaf.has_null:  # Spark compares the texts of such a list with the padding of CHAR(n)
        field = replace(field, pad=0)
    values, ranges = _bulk_scalars(leaf.values, field), []
    if values is None:
        values = []
        for value in _unify_values(leaf, field):
            match _bind_comparison(Comparison(leaf.column, op="=", value=value), field, zone):
                case Comparison(op="=", value=found):
                    values.append(found)
                case And() as found:
                    ranges.append(found)
    parts = [In(leaf.column, field.id, tuple(values))] if values else []
    if not parts and not ranges:
        return IsNull(leaf.column, field.id, negate=True) if leaf.negate else FALSE
    found = disjunction([*parts, *ranges])
    return negation(found) if leaf.negate else found


def _unify_values(leaf: In, field: t.Field) -> Sequence[Any]:
    """Return the values of an IN list, converted to one type if Spark does so.

    Spark finds the common type from the left, beginning with the column's type. Raises `InvalidFilter` for a text that
    is not a value of that type, and for a mixture of numbers and texts that Spark compares in another way.
    """
    kinds = {type(value) for value in leaf.values}
    if len(kinds) == 1:
        return leaf.values
    if float in kinds and (field.type in t.INTEGRAL or isinstance(field.type, t.Decimal)):
        return [_double_value(each, leaf) for each in leaf.values]
    if str not in kinds:
        return leaf.values
    if field.type == t.DATE and any(issubclass(each, datetime) for each in kinds):
        texts = t.Timestamp("us", zoned=True)  # the column is compared as timestamps
        return [_parse_timestamp(each, texts, leaf) if isinstance(each, str) else each for each in leaf.values]
    is_decimal = isinstance(field.type, t.Decimal)
    if (field.type in t.INTEGRAL and PyDecimal in kinds) or (is_decimal and not kinds.isdisjoint((PyDecimal, int))):
        raise InvalidFilter(f"{leaf}: one list cannot have numbers and texts: write all numbers without quotes")
    return leaf.values


def _double_value(value: Any, leaf: In) -> float:
    try:
        return double_of_text(value) if isinstance(value, str) else float(value)
    except ValueError as error:
        raise InvalidFilter(f"{leaf}: {value!r} is {error}") from error


def _parse_timestamp(text: str, kind: t.Type, leaf: In) -> Any:
    try:
        return np.datetime64(int(value_of_text(text, kind)), "us")
    except ValueError as error:
        raise InvalidFilter(f"{leaf}: {text!r} is {error}") from error


def _double(value: Any, field: t.Field, column: str) -> float | None:
    """Return the literal `value` as a double if Spark compares the column as doubles with it; None for other literals.

    That is so for a float literal and an integer or decimal column, and for text and a decimal column. Raises
    `InvalidFilter`, with the column's name `column`, for text that is not a number.
    """
    is_decimal = isinstance(field.type, t.Decimal)
    if isinstance(value, str) and is_decimal:
        try:
            return double_of_text(value)
        except ValueError as error:
            raise _comparison_error(value, field, column, error) from error
    if isinstance(value, float) and (is_decimal or field.type in t.INTEGRAL):
        return float(value)
    return None


def _compare_doubles(leaf: Comparison, field: t.Field, value: float) -> Predicate:
    """Return a predicate with bounds in the column's type that is equivalent to comparing the column with a double.

    `leaf` is the comparison, on an integer or decimal column that Spark converts to double. `value` is its literal.
    """
    scale = field.type.scale if isinstance(field.type, t.Decimal) else 0
    low, high = _LONG
    if isinstance(field.type, t.Decimal):
        high = 10**field.type.precision - 1
        low = -high

    def number_value(number: int) -> float:
        return float(number) if not scale else float(PyDecimal(number).scaleb(-scale, _WIDE))

    def scalar(number: int) -> pa.Scalar:
        if isinstance(field.type, t.Decimal):
            return pa.scalar(PyDecimal(number).scaleb(-scale, _WIDE), field.type.arrow())
        return pa.scalar(number, pa.int64())

    def test(op: str, number: int) -> Predicate:
        return Comparison(leaf.column, field.id, op, scalar(number))

    is_nan = value != value
    first = high + 1 if is_nan else _binary_search(low, high, lambda number: number_value(number) >= value)
    after = high + 1 if is_nan else _binary_search(low, high, lambda number: number_value(number) > value)
    not_null = IsNull(leaf.column, field.id, negate=True)

    def less(end: int) -> Predicate:
        return FALSE if end == low else not_null if end > high else test("<=", end - 1)

    def greater(start: int) -> Predicate:
        return FALSE if start > high else not_null if start == low else test(">=", start)

    match leaf.op:
        case "<":
            return less(first)
        case "<=":
            return less(after)
        case ">":
            return greater(after)
        case ">=":
            return greater(first)
    if first == after:
        return FALSE if leaf.op == "=" else not_null
    if after == first + 1:
        return test(leaf.op, first)
    equal = test(">=", first) & test("<=", after - 1)
    return equal if leaf.op == "=" else negation(equal)


def _binary_search(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Return the least number from `low` to `high` that satisfies `holds`, or `high + 1` if no number does.

    Every greater number must satisfy `holds`, too.
    """
    high += 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _bulk_scalars(values: Sequence[Any], field: t.Field) -> list[pa.Scalar] | None:
    """Convert the literals of an IN list to Arrow scalars together, which is fast for long lists.

    Works for integers and an integer column, or texts and a string column that is not CHAR(n). Returns None for other
    lists, and for integers beyond 64 bits: the caller then converts each literal.
    """
    kinds = {type(value) for value in values}
    try:
        if kinds == {int} and field.type in t.INTEGRAL:
            return list(pa.array(values, pa.int64()))
        if kinds == {str} and field.type == t.STRING and not field.pad:
            return list(pa.array(values, pa.string()))
    except (OverflowError, pa.ArrowException, UnicodeError):
        pass  # the caller converts the values one by one
    return None


def exact_value(value: Any, kind: t.Type) -> Any:
    """Convert a literal to a Python value of a column type; raises `ValueError` if it is invalid or would be rounded.

    Text is parsed. Timestamps without an offset are in UTC.
    """
    try:
        if isinstance(value, str) and (isinstance(kind, t.Decimal) or kind in t.INTEGRAL):
            value = PyDecimal(value.strip())
        if isinstance(value, str) and kind == t.UUID:
            value = uuid.UUID(value)
        exact = _coerce(value, kind, UTC).as_py()
        pa.scalar(exact, kind.arrow())  # raises if out of range
        return exact
    except (_Inexact, TypeError, InvalidOperation, OverflowError, pa.ArrowException) as error:
        raise ValueError(_reason(error)) from error


def _reason(error: Exception) -> str:
    return "not a number" if isinstance(error, InvalidOperation) else str(error) or "not a value of this type"


def _scalar(value: Any, field: t.Field, column: str, zone: tzinfo) -> pa.Scalar:
    if isinstance(value, pa.Scalar) and not (pa.types.is_timestamp(value.type) or pa.types.is_date32(value.type)):
        value = plain_value(value)
    if field.pad and isinstance(value, str) and not isinstance(value, ExactText):
        value = _pad_char(value, field.pad)
    try:
        return _coerce(value, field.type, zone)
    except (ValueError, TypeError, InvalidOperation, OverflowError, pa.ArrowException) as error:
        raise _comparison_error(value, field, column, error) from error


def _comparison_error(value: Any, field: t.Field, column: str, error: Exception) -> InvalidFilter:
    return InvalidFilter(f"column {column!r} is {field.type} and cannot be compared with {value!r}: {_reason(error)}")


def _pad_char(text: str, size: int) -> str:
    """Return the CHAR(n) value with n = `size` that equals a text when the shorter one is padded with spaces.

    Raises `_Inexact` if no value is equal, because the text is longer.
    """
    value, rest = text[:size].ljust(size), text[size:].rstrip(" ")
    if not rest:
        return value
    scalar = pa.scalar(value, pa.string())
    raise _Inexact(scalar) if rest.lstrip(" ")[0] > " " else _Inexact(None, above=scalar)


def _coerce(value: Any, kind: t.Type, zone: tzinfo) -> pa.Scalar:
    if isinstance(value, str):
        return _parse_text(value, kind, zone)
    if kind in t.INTEGRAL:
        return _integral(value)
    if kind in t.FLOATING:
        return pa.scalar(float(value), pa.float64())
    match kind:
        case t.BOOLEAN:
            return pa.scalar(_boolean(value))
        case t.STRING:
            raise TypeError("quote it to compare it as text")
        case t.Decimal():
            return _decimal(value, kind)
        case t.DATE:
            return _date(value, zone)
        case t.TIME:
            if not isinstance(value, time):
                raise TypeError("not a time of day: write it as '12:30:00'")
            return pa.scalar(value, pa.time64("us"))
        case t.Timestamp():
            return _timestamp(value, kind, zone)
        case t.UUID:
            return pa.scalar(_uuid(value).bytes, pa.binary(16))
        case t.Fixed():
            return pa.scalar(_bytes(value), pa.binary())
        case t.BINARY:
            return pa.scalar(_bytes(value), pa.binary())
    raise TypeError("columns of this type support only `is null` and `is not null`")


def _parse_text(text: str, kind: t.Type, zone: tzinfo) -> pa.Scalar:
    value = value_of_text(text, kind, zone)
    match kind:
        case t.DATE:
            return pa.scalar(value, pa.int32()).cast(pa.date32())
        case t.TIME:
            return pa.scalar(value, pa.int64()).cast(pa.time64("us"))
        case t.Timestamp():
            return _timestamp_scalar(int(value), kind)
        case t.UUID:
            return _uuid_like(text)
        case t.Fixed() | t.BINARY:
            return pa.scalar(text.encode(), pa.binary())
    if kind in t.INTEGRAL:
        return pa.scalar(value, pa.int64())
    return pa.scalar(value, pa.float64() if kind in t.FLOATING else None)


def _uuid_like(text: str) -> pa.Scalar:
    """Return the UUID with this text as 16 bytes in an Arrow scalar.

    UUIDs are compared as text, as in Spark. For any other text than the canonical form of a UUID, raises `_Inexact`
    with the UUID whose text is the greatest smaller one.
    """

    def scalar(number: int) -> pa.Scalar:
        return pa.scalar(number.to_bytes(16), pa.binary(16))

    least = _binary_search(0, 2**128 - 1, lambda number: str(uuid.UUID(int=number)) >= text)
    if least == 2**128:
        raise _Inexact(None, above_all=True)
    if str(uuid.UUID(int=least)) == text:
        return scalar(least)
    raise _Inexact(scalar(least - 1) if least else None)


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise TypeError("not true or false")


def _number(value: Any) -> PyDecimal:
    if isinstance(value, bool):
        raise TypeError("a boolean is not a number")
    return PyDecimal(str(value).strip())


def _integral(value: Any) -> pa.Scalar:
    number = _number(value)
    if number.is_nan():
        raise _Inexact(None, above_all=True)
    if number > _LONG[1] or number < _LONG[0]:
        raise _Inexact(None, above_all=number > 0)
    whole = int(number.to_integral_value(rounding="ROUND_FLOOR"))
    if whole != number:
        raise _Inexact(pa.scalar(whole, pa.int64()))
    return pa.scalar(whole, pa.int64())


def _decimal(value: Any, kind: t.Decimal) -> pa.Scalar:
    """Convert a literal to the column's decimal type; raises `_Inexact` if it would be rounded or does not fit.

    Arrow and Spark would widen both sides of a comparison instead, and fail beyond 38 digits.
    """
    number = _number(value)
    if number.is_nan():
        raise _Inexact(None, above_all=True)
    limit = PyDecimal(10) ** (kind.precision - kind.scale)
    if not -limit < number < limit:
        raise _Inexact(None, above_all=number > 0)
    with localcontext(prec=kind.precision + 2):
        below = number.quantize(PyDecimal(1).scaleb(-kind.scale), rounding=ROUND_FLOOR)
    if below <= -limit:
        raise _Inexact(None, above_all=False)
    scalar = pa.scalar(below, kind.arrow())
    if below != number:
        raise _Inexact(scalar)
    return scalar


def _date(value: Any, zone: tzinfo) -> pa.Scalar:
    day, rest = _day_of(instant_of(value), zone)
    if not _DATES[0] <= day <= _DATES[1]:
        raise _Inexact(None, above_all=day > 0)
    scalar = pa.scalar(day, pa.int32()).cast(pa.date32())
    if rest:
        raise _Inexact(scalar)
    return scalar


def _day_of(instant: Instant, zone: tzinfo) -> tuple[int, bool]:
    """Return the last day (days since 1970) that begins at or before a time, and whether it begins before the time.

    Days begin by the clocks of the time zone `zone`. A time without an offset is wall-clock time there.
    """
    if instant.offset is None:
        day, rest = divmod(instant.wall, NANOSECONDS_A_DAY)
        return day, rest > 0
    day = (instant.utc + 1000 * offset_of_wall(instant.utc // 1000, zone)) // NANOSECONDS_A_DAY + 1
    while (start := _start_of(day, zone)) > instant.utc:
        day -= 1
    return day, start < instant.utc


def _start_of(day: int, zone: tzinfo) -> int:
    """Return the instant at which a day begins in a zone, in nanoseconds since 1970 UTC."""
    wall = day * NANOSECONDS_A_DAY
    return wall - 1000 * offset_of_wall(wall // 1000, zone)


def _timestamp(value: Any, kind: t.Timestamp, zone: tzinfo) -> pa.Scalar:
    instant = instant_of(value)
    if instant.offset is not None and not kind.zoned:
        raise TypeError("the value has a time zone offset, but the column has no time zone")
    nanoseconds = instant.utc
    if kind.zoned and instant.offset is None:
        nanoseconds -= 1000 * offset_of_wall(nanoseconds // 1000, zone)
    if isinstance(value, Instant) and kind.unit == "us":
        nanoseconds -= nanoseconds % 1000  # SQL literals have microseconds: further digits are truncated
    whole, rest = divmod(nanoseconds, NANOSECONDS_A_DAY // kind.per_day)
    scalar = _timestamp_scalar(whole, kind)
    if rest:
        raise _Inexact(scalar)
    return scalar


def _timestamp_scalar(whole: int, kind: t.Timestamp) -> pa.Scalar:
    if not _LONG[0] <= whole <= _LONG[1]:
        raise _Inexact(None, above_all=whole > 0)
    return pa.scalar(whole, pa.int64()).cast(kind.arrow())


def _uuid(value: Any) -> uuid.UUID:
    if isinstance(value, bytes):
        return uuid.UUID(bytes=value)
    if isinstance(value, uuid.UUID):
        return value
    raise TypeError("not a UUID: write it as text")


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise TypeError("not binary: write it as X'00ff'")
