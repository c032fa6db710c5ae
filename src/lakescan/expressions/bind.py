"""Binding: columns of a predicate become field ids, and its literals Arrow scalars of the column's type.

SQL conditions become expressions over the columns, if they can be evaluated in process.

A literal that the column's type cannot hold exactly (5.5 for an int, a timestamp for a date) is not rounded: the
comparison is rewritten into an equivalent one. Timestamps without an offset are taken as UTC if the column holds
instants.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import time
from decimal import ROUND_FLOOR, InvalidOperation, localcontext
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import InvalidFilter, LakescanError
from lakescan.expressions.implied import implied
from lakescan.expressions.instants import NANOSECONDS_A_DAY, instant_of, plain_value
from lakescan.expressions.like import joined, parts
from lakescan.expressions.predicate import (
    FALSE,
    TRUE,
    And,
    ColumnComparison,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Leaf,
    Like,
    Or,
    Predicate,
    SqlCondition,
    conjunction,
    disjunction,
    operands,
)
from lakescan.expressions.scalar.expression import ScalarExpression
from lakescan.expressions.scalar.time_functions import values_at
from lakescan.expressions.sql_condition import references

_LONG, _DATES = (-(2**63), 2**63 - 1), (-(2**31), 2**31 - 1)


class _Inexact(Exception):
    """The type cannot hold the literal; `below` is the greatest smaller value of the type, None if there is none.

    `above` is the least greater value instead, where the one below has no short form. Without both, the literal is
    above all values of the type (`above_all`) or below all of them.
    """

    def __init__(self, below: pa.Scalar | None, above_all: bool = False, above: pa.Scalar | None = None) -> None:
        self.below = below
        self.above = above
        self.above_all = above_all


def bind(predicate: Predicate, schema: Schema, *, case_sensitive: bool = True) -> Predicate:
    """Bind a predicate to a schema: leaves get field ids and typed literals.

    Raises `NoSuchColumn`, `InvalidFilter` if a literal cannot be compared with its column, and `UnsupportedFeature` for
    an SQL condition that only Spark evaluates.
    """
    match predicate:
        case Constant(value):
            return Constant(bool(value))  # unknown keeps no row, like false: no `not` can be above, only in leaves
        case And() | Or():
            parts = [bind(part, schema, case_sensitive=case_sensitive) for part in operands(predicate)]
            return conjunction(parts) if isinstance(predicate, And) else disjunction(parts)
        case Leaf():
            field = schema.field(predicate.column, case_sensitive=case_sensitive)
            _check_reachable(schema, field)
            return _bind_leaf(predicate, field)
        case ColumnComparison():
            return _bind_columns(predicate, schema, case_sensitive)
        case SqlCondition():
            return _bind_condition(predicate, schema, case_sensitive)
    raise TypeError(f"not a predicate: {predicate!r}")


def _bind_columns(comparison: ColumnComparison, schema: Schema, case_sensitive: bool) -> Predicate:
    names = (comparison.column, comparison.other)
    one, other = (schema.field(name, case_sensitive=case_sensitive) for name in names)
    for field in (one, other):
        _check_reachable(schema, field)
    if not t.are_ordered_alike(one.type, other.type):
        raise InvalidFilter(f"{comparison}: columns of types {one.type} and {other.type} are not compared")
    return replace(comparison, ids=(one.id, other.id))


def _bind_condition(condition: SqlCondition, schema: Schema, case_sensitive: bool) -> Predicate:
    for reference in references(condition.text):
        reference.field_in(schema, case_sensitive=case_sensitive)  # raises, before what is not evaluated is refused
    found = implied(condition.text, schema, case_sensitive=case_sensitive, now=condition.now)
    tests = bind(found.predicate, schema, case_sensitive=case_sensitive)
    if found.exact:
        return tests
    clock = values_at(condition.now)
    expression = ScalarExpression.of(condition.text, schema, clock, case_sensitive=case_sensitive)
    if expression.type not in (t.BOOLEAN, t.UNKNOWN):
        raise InvalidFilter(f"the filter {condition.text!r} is of type {expression.type}, and not true or false")
    if not expression.columns:
        return Constant(
            expression.evaluate(pa.RecordBatch.from_arrays([pa.nulls(1)], names=["row"]))[0].as_py() is True
        )
    return replace(condition, implied=tests, expression=expression)


def binds(predicate: Predicate, schema: Schema, *, case_sensitive: bool = True) -> bool:
    """Whether a predicate can be bound to a schema."""
    try:
        bind(predicate, schema, case_sensitive=case_sensitive)
    except LakescanError:
        return False
    return True


def _check_reachable(schema: Schema, field: t.Field) -> None:
    """Raise `InvalidFilter` for a field inside a list or map, which has no single value per row."""
    within: tuple[t.Field, ...] = (schema.top_level_of[field.id],)
    while within:
        inside = next(f for f in within if field in t.walk((f,)))
        if inside is field:
            return
        if not isinstance(inside.type, t.Struct):
            raise InvalidFilter(f"column {schema.path_of[field.id]!r} is inside a list or map: filters cannot use it")
        within = inside.type.fields


def _bind_leaf(leaf: Leaf, field: t.Field) -> Predicate:
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
            return Like(leaf.column, field.id, joined(parts(leaf.pattern)), leaf.negate, leaf.ignore_case)
        case In():
            return _bind_in(leaf, field)
        case Comparison():
            return _bind_comparison(leaf, field)
    raise TypeError(f"not a column test: {leaf!r}")


def _bind_comparison(leaf: Comparison, field: t.Field) -> Predicate:
    try:
        return Comparison(leaf.column, field.id, leaf.op, _scalar(leaf.value, field, leaf.column))
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


def _bind_in(leaf: In, field: t.Field) -> Predicate:
    if leaf.has_null and leaf.negate:
        return FALSE
    if not leaf.values:  # as in Spark 4, a test against an empty list is false and not null
        return TRUE if leaf.negate else FALSE
    values = _plain_values(leaf.values, field)
    if values is None:
        values = []
        for value in leaf.values:
            try:
                values.append(_scalar(value, field, leaf.column))
            except _Inexact:
                continue
    if not values:
        return IsNull(leaf.column, field.id, negate=True) if leaf.negate else FALSE
    return In(leaf.column, field.id, tuple(values), leaf.negate)


def _plain_values(values: Sequence[Any], field: t.Field) -> list[pa.Scalar] | None:
    """Long lists at once: whole numbers for a column of such, texts for one of texts; None for all others."""
    kinds = {type(value) for value in values}
    try:
        if kinds == {int} and field.type in t.INTEGRAL:
            return list(pa.array(values, pa.int64()))
        if kinds == {str} and field.type == t.STRING and not field.pad:
            return list(pa.array(values, pa.string()))
    except (OverflowError, pa.ArrowException, UnicodeError):
        pass  # a value of its own is told apart below
    return None


def value_of(value: Any, kind: t.Type) -> Any:
    """Convert a literal to a value of a type; raises `ValueError` if it is invalid or would be rounded."""
    try:
        exact = _coerce(value, kind).as_py()
        pa.scalar(exact, kind.arrow())  # raises if out of range
        return exact
    except (_Inexact, TypeError, InvalidOperation, OverflowError, pa.ArrowException) as error:
        raise ValueError(_reason(error)) from error


def _reason(error: Exception) -> str:
    return "not a number" if isinstance(error, InvalidOperation) else str(error) or "not a value of this type"


def _scalar(value: Any, field: t.Field, column: str) -> pa.Scalar:
    if isinstance(value, pa.Scalar) and not (pa.types.is_timestamp(value.type) or pa.types.is_date32(value.type)):
        value = plain_value(value)
    if field.pad and isinstance(value, str):
        value = _padded(value, field.pad)
    try:
        return _coerce(value, field.type)
    except (ValueError, TypeError, InvalidOperation, OverflowError, pa.ArrowException) as error:
        raise InvalidFilter(
            f"column {column!r} is {field.type} and cannot be compared with {value!r}: {_reason(error)}"
        ) from error


def _padded(text: str, size: int) -> str:
    """The text of CHAR(n) that equals another in comparisons, which pad the shorter one; raises `_Inexact`."""
    value, rest = text[:size].ljust(size), text[size:].rstrip(" ")
    if not rest:
        return value
    scalar = pa.scalar(value, pa.string())
    raise _Inexact(scalar) if rest.lstrip(" ")[0] > " " else _Inexact(None, above=scalar)


def _coerce(value: Any, kind: t.Type) -> pa.Scalar:
    if kind in t.INTEGRAL:
        return _integral(value)
    if kind in t.FLOATING:
        return pa.scalar(float(value), pa.float64())
    match kind:
        case t.BOOLEAN:
            return pa.scalar(_boolean(value))
        case t.STRING:
            if not isinstance(value, str):
                raise TypeError("quote it to compare it as text")
            return pa.scalar(value, pa.string())
        case t.Decimal():
            return _decimal(value, kind)
        case t.DATE:
            return _date(value)
        case t.TIME:
            return pa.scalar(value if isinstance(value, time) else time.fromisoformat(value), pa.time64("us"))
        case t.Timestamp():
            return _timestamp(value, kind)
        case t.UUID:
            return pa.scalar(_uuid(value).bytes, pa.binary(16))
        case t.Fixed():
            return pa.scalar(_bytes(value), pa.binary())
        case t.BINARY:
            return pa.scalar(_bytes(value), pa.binary())
    raise TypeError("columns of this type support only `is null` and `is not null`")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
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
    """Convert to the column's own decimal type: Arrow and Spark would widen both sides, and fail beyond 38 digits."""
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


def _date(value: Any) -> pa.Scalar:
    day, rest = divmod(instant_of(value).wall, NANOSECONDS_A_DAY)
    if not _DATES[0] <= day <= _DATES[1]:
        raise _Inexact(None, above_all=day > 0)
    scalar = pa.scalar(day, pa.int32()).cast(pa.date32())
    if rest:
        raise _Inexact(scalar)
    return scalar


def _timestamp(value: Any, kind: t.Timestamp) -> pa.Scalar:
    instant = instant_of(value)
    if instant.offset is not None and not kind.zoned:
        raise TypeError("the value has a time zone offset, but the column has no time zone")
    whole, rest = divmod(instant.utc, NANOSECONDS_A_DAY // kind.per_day)
    if not _LONG[0] <= whole <= _LONG[1]:
        raise _Inexact(None, above_all=whole > 0)
    scalar = pa.scalar(whole, pa.int64()).cast(kind.arrow())
    if rest:
        raise _Inexact(scalar)
    return scalar


def _uuid(value: Any) -> uuid.UUID:
    if isinstance(value, bytes):
        return uuid.UUID(bytes=value)
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise TypeError("not binary: write it as X'00ff'")
