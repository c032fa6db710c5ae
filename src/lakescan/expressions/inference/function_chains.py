"""Chains of functions of one column: `year(cast(ts as date)) + 1` as the steps from the column to the result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from lakescan.common import types as t
from lakescan.expressions.inference.constants import INSTANT, WALL, ConstantValue, interval_of, value_of
from lakescan.expressions.inference.context import InferenceContext, call_of, is_known, type_of_cast
from lakescan.expressions.inference.preimages import (
    DATE_UNITS,
    UNITS,
    ChainStep,
    InstantOf,
    Linear,
    StartOf,
    TimeShift,
    WallOf,
    WholeQuotient,
    YearOf,
)
from lakescan.expressions.inference.time_zones import DAY
from lakescan.expressions.scalar.parse import names_of
from lakescan.expressions.scalar.typed_sql import decimal_of

_KEPT_DIGITS = 34  # Spark rounds decimal results with more digits
_COMPARED = (*t.INTEGRAL, *t.FLOATING, t.STRING, t.BOOLEAN, t.BINARY, t.DATE)


@dataclass(frozen=True)
class Chain:
    """A column and the steps from its values to the chain's result, which has the type `type`.

    - `path`, `field`: the reference to the column, and its field.
    - `steps`: the functions that are applied to the column's values, in order; casts without effect on values have no
      step.
    - `may_fail`: whether the expression may fail (an error) for a value.
    - `prefix`: if not None, the result is this many first characters of the string that the steps return.
    - `is_text`: whether the result is the text of the integer that the steps return.
    """

    path: str
    field: t.Field
    type: t.Type
    steps: tuple[ChainStep, ...] = ()
    may_fail: bool = False
    prefix: int | None = None
    is_text: bool = False

    @property
    def is_column(self) -> bool:
        """Whether the chain's values are the column's own values, with the same type."""
        return not self.steps and self.type == self.field.type and self.prefix is None

    def then(self, *steps: ChainStep, type: t.Type | None = None, may_fail: bool = False) -> Chain:
        """Return the chain with more steps. `type` is the new result type. `may_fail`: whether a new step may fail."""
        return replace(self, type=type or self.type, steps=self.steps + steps, may_fail=self.may_fail or may_fail)


def chain_of(node: Any, context: InferenceContext) -> Chain | None:
    """Return an expression (a sqlglot tree) as a chain; None if it is not a chain of known functions of one column."""
    from sqlglot import exp

    if not is_known(node):
        return None
    match node:
        case exp.Paren():
            return chain_of(node.this, context)
        case exp.Column() | exp.Dot():
            return _column(node, context)
        case exp.Neg():
            return _numeric(chain_of(node.this, context), Linear(Fraction(-1)), context)
        case exp.Add() | exp.Sub():
            return _sum(node, context)
        case exp.Mul():
            return _product(node, context)
        case exp.IntDiv():
            return _quotient(node, context)
        case exp.Cast() | exp.TryCast():
            chain, kind = chain_of(node.this, context), type_of_cast(node)
            return None if chain is None or kind is None else _cast(chain, kind, context)
    call = call_of(node)
    return None if call is None or not call[1] else _call(*call, context)


def _column(node: Any, context: InferenceContext) -> Chain | None:
    field, names = context.field_of(node), names_of(node)
    if field is None or names is None or field.pad:  # engines see CHAR values with padding
        return None
    kind = field.type
    if isinstance(kind, t.Timestamp) and kind.unit == "ns":
        kind = t.Timestamp("us", kind.zoned)
    if kind not in _COMPARED and not isinstance(kind, t.Decimal | t.Timestamp):
        return None
    path = context.path_of(names)
    return None if path is None else Chain(path, field, kind)


def char_of(node: Any, context: InferenceContext) -> t.Field | None:
    """Return the field of the CHAR(n) column that a node refers to, with the column's path as its name; else None."""
    field, names = context.field_of(node.unnest()), names_of(node.unnest())
    path = None if names is None else context.path_of(names)
    return None if field is None or path is None or not field.pad else replace(field, name=path)


def has_nanos(chain: Chain) -> bool:
    """Return whether the chain's column has nanoseconds, which an engine may read as integers or round down."""
    return isinstance(chain.field.type, t.Timestamp) and chain.field.type.unit == "ns"


def _numeric(
    chain: Chain | None, step: ChainStep, context: InferenceContext, other: ConstantValue | None = None, op: str = ""
) -> Chain | None:
    """Append an arithmetic step that is exact unless it overflows.

    `other` is the constant operand, None for a negation, and `op` is `*` for a product. None if Spark might round, or
    if the chain is missing or not a number.
    """
    if chain is None or chain.is_text or chain.prefix is not None:
        return None
    if chain.type in t.INTEGRAL and (other is None or other.type in t.INTEGRAL):
        wider = chain.type if other is None else max(chain.type, other.type, key=t.INTEGRAL.index)
        return chain.then(step, type=wider, may_fail=True) if context.ansi else None
    kind = _decimal_result(chain.type, other, op)
    return None if kind is None else chain.then(step, type=kind)


def _decimal_result(kind: t.Type, other: ConstantValue | None, op: str) -> t.Decimal | None:
    """Return Spark's decimal type for an operation of a number and a constant, see `_numeric`.

    None if the types are not exact numbers, or if Spark might round the result.
    """
    first = decimal_of(kind)
    if first is None:
        return None
    if other is None:
        result = first
    elif (second := decimal_of(other.type)) is None:
        return None
    elif op == "*":
        result = t.Decimal(first.precision + second.precision + 1, first.scale + second.scale)
    else:
        scale = max(first.scale, second.scale)
        whole = max(first.precision - first.scale, second.precision - second.scale)
        result = t.Decimal(whole + scale + 1, scale)
    return result if result.precision <= _KEPT_DIGITS else None


def _number(node: Any, context: InferenceContext) -> ConstantValue | None:
    value = value_of(node, context)
    return value if value is not None and value.value is not None and decimal_of(value.type) is not None else None


def _sum(node: Any, context: InferenceContext) -> Chain | None:
    from sqlglot import exp

    is_sum = isinstance(node, exp.Add)
    if (chain := chain_of(node.this, context)) is not None:
        if chain.type == t.DATE or isinstance(chain.type, t.Timestamp):
            return _add_interval(chain, node.expression, 1 if is_sum else -1, context)
        other = _number(node.expression, context)
        step = Linear(Fraction(1), _fraction(other) * (1 if is_sum else -1))
        return None if other is None else _numeric(chain, step, context, other)
    other = _number(node.this, context)
    step = Linear(Fraction(1 if is_sum else -1), _fraction(other))
    return None if other is None else _numeric(chain_of(node.expression, context), step, context, other)


def _fraction(value: ConstantValue | None) -> Fraction:
    return Fraction(0 if value is None else value.value)


def _add_interval(chain: Chain, node: Any, sign: int, context: InferenceContext) -> Chain | None:
    """Append the addition (`sign` is 1) or subtraction (-1) of an interval or number of days to a date or timestamp.

    `node` is the interval or number. None for months, whose sum is not invertible, and for instants in a zone with
    clock changes.
    """
    if has_nanos(chain):
        return None
    interval = interval_of(node)
    if interval is None:
        days = value_of(node, context)
        is_count = days is not None and days.value is not None and days.type in (t.BYTE, t.SHORT, t.INT)
        if chain.type != t.DATE or days is None or not is_count:
            return None
        interval = (0, days.value * DAY)
    months, micros = interval
    if months or (chain.type == t.DATE and micros % DAY):
        return None
    if chain.type == INSTANT and not (context.zone is not None and context.zone.fixed):
        return None
    return chain.then(TimeShift(sign * micros), may_fail=True)


def _product(node: Any, context: InferenceContext) -> Chain | None:
    for side, other in ((node.this, node.expression), (node.expression, node.this)):
        factor = _number(other, context)
        if factor is not None and factor.value != 0:
            return _numeric(chain_of(side, context), Linear(_fraction(factor)), context, factor, "*")
    return None


def _quotient(node: Any, context: InferenceContext) -> Chain | None:
    """Build the chain of `x div 5`, a long, for an integer `x` and a positive constant; None for other quotients."""
    chain, divisor = chain_of(node.this, context), _number(node.expression, context)
    if chain is None or chain.type not in t.INTEGRAL or divisor is None or divisor.type not in t.INTEGRAL:
        return None
    return chain.then(WholeQuotient(divisor.value), type=t.LONG) if divisor.value > 0 else None


def _cast(chain: Chain, kind: t.Type, context: InferenceContext) -> Chain | None:
    if chain.is_text or chain.prefix is not None or chain.type == kind:
        return chain if chain.type == kind else None
    if kind in (t.DATE, INSTANT, WALL):
        return _cast_to_time(chain, kind, context)
    if chain.type in t.INTEGRAL:
        return _cast_of_whole(chain, kind, context)
    if isinstance(chain.type, t.Decimal):
        return _cast_of_decimal(chain, chain.type, kind, context)
    if chain.type == t.FLOAT and kind == t.DOUBLE:
        return chain.then(type=kind)
    if chain.type in t.FLOATING and kind in t.INTEGRAL and context.ansi:
        return chain.then(WholeQuotient(), type=kind, may_fail=True)
    if chain.type == INSTANT and kind == t.LONG and not has_nanos(chain):
        return chain.then(WholeQuotient(10**6, floor=True), type=kind)
    return None


def _cast_of_whole(chain: Chain, kind: t.Type, context: InferenceContext) -> Chain | None:
    if kind in t.INTEGRAL:
        widens = t.INTEGRAL.index(kind) > t.INTEGRAL.index(chain.type)
        return chain.then(type=kind, may_fail=not widens) if widens or context.ansi else None
    if isinstance(kind, t.Decimal):
        return chain.then(type=kind, may_fail=True)
    if kind == t.STRING:
        return replace(chain, type=kind, is_text=True)
    return chain.then(type=kind) if kind == t.DOUBLE and chain.field.type in t.INTEGRAL else None


def _cast_of_decimal(chain: Chain, source: t.Decimal, kind: t.Type, context: InferenceContext) -> Chain | None:
    if isinstance(kind, t.Decimal) and kind.scale >= source.scale:
        return chain.then(type=kind, may_fail=True)
    if kind in t.INTEGRAL and context.ansi and source.precision <= _KEPT_DIGITS:
        return chain.then(WholeQuotient(), type=kind, may_fail=True)
    return None


def _cast_to_time(chain: Chain, kind: t.Type, context: InferenceContext) -> Chain | None:
    if has_nanos(chain) or (chain.type != t.DATE and not isinstance(chain.type, t.Timestamp)):
        return None
    if chain.type == INSTANT or kind == INSTANT:
        if context.zone is None:
            return None
        chain = chain.then(WallOf(context.zone) if chain.type == INSTANT else InstantOf(context.zone), type=kind)
        return chain.then(StartOf("day")) if kind == t.DATE else chain
    return chain.then(*([StartOf("day")] if kind == t.DATE else []), type=kind)


_SINCE_EPOCH = {"unix_seconds": 10**6, "unix_millis": 10**3, "unix_micros": 1}
_CASTS = {"string": t.STRING, "bigint": t.LONG, "int": t.INT, "smallint": t.SHORT, "tinyint": t.BYTE}


def _call(name: str, args: list[Any], context: InferenceContext) -> Chain | None:
    if name == "date_trunc" and len(args) == 2:
        return _truncate(args[0], _as_time(chain_of(args[1], context), INSTANT, context), UNITS, context)
    chain = chain_of(args[0], context)
    if chain is None:
        return None
    match name, args[1:]:
        case "positive", [] if decimal_of(chain.type) is not None:
            return chain
        case "year", []:
            days = _as_time(chain, t.DATE, context)
            return None if days is None else days.then(YearOf(), type=t.INT)
        case (("date" | "to_date"), []):
            return _as_time(chain, t.DATE, context)
        case (("timestamp" | "to_timestamp"), []):
            return _as_time(chain, INSTANT, context)
        case _, [] if name in _CASTS:
            return _cast(chain, _CASTS[name], context)
        case "trunc", [unit]:
            kept = {each: of for each, of in UNITS.items() if of in DATE_UNITS}
            return _truncate(unit, _as_time(chain, t.DATE, context), kept, context)
        case (("date_add" | "date_sub"), [days]):
            moved = _as_time(chain, t.DATE, context)
            return None if moved is None else _add_interval(moved, days, 1 if name == "date_add" else -1, context)
        case "unix_date", [] if chain.type == t.DATE:
            return chain.then(WholeQuotient(DAY, floor=True), type=t.INT)
        case (("unix_seconds" | "unix_millis" | "unix_micros"), []) if chain.type == INSTANT and not has_nanos(chain):
            return chain.then(WholeQuotient(_SINCE_EPOCH[name], floor=True), type=t.LONG)
        case "left", [size]:
            return _prefix(chain, size, context)
        case (("substring" | "substr"), [start, size]):
            first = value_of(start, context)
            return _prefix(chain, size, context) if first is not None and first.value in (0, 1) else None
    return None


def _as_time(chain: Chain | None, kind: t.Type, context: InferenceContext) -> Chain | None:
    """Append a cast to a date or timestamp.

    Returns None without a chain, for a result that is neither date nor timestamp, and for a cast that is not supported.
    """
    return None if chain is None else chain if chain.type == kind else _cast_to_time(chain, kind, context)


def _truncate(unit: Any, chain: Chain | None, units: dict[str, str], context: InferenceContext) -> Chain | None:
    value = value_of(unit, context)
    if chain is None or has_nanos(chain) or value is None or value.type != t.STRING or value.value is None:
        return None
    known = units.get(value.value.lower())
    if known is None:
        return None
    if chain.type == t.DATE:
        return chain.then(StartOf(known))
    if context.zone is None:
        return None
    return chain.then(WallOf(context.zone), StartOf(known), InstantOf(context.zone))


def _prefix(chain: Chain, size: Any, context: InferenceContext) -> Chain | None:
    length = value_of(size, context)
    if not chain.is_column or chain.type != t.STRING or length is None or length.type != t.INT:
        return None
    return replace(chain, prefix=length.value) if length.value is not None and length.value > 0 else None
