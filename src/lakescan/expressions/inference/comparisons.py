"""Comparisons of a function chain with a constant, as predicates on the column."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from fractions import Fraction
from typing import Any

from lakescan.common import types as t
from lakescan.expressions.inference.constants import INSTANT, WALL, ConstantValue, as_time
from lakescan.expressions.inference.context import InferenceContext
from lakescan.expressions.inference.function_chains import Chain, has_nanos
from lakescan.expressions.inference.preimages import EVERYTHING, InstantOf, ValueInterval
from lakescan.expressions.inference.time_zones import DAY, plain_time
from lakescan.expressions.predicate import (
    FALSE,
    TRUE,
    Comparison,
    IsNull,
    Predicate,
    conjunction,
    disjunction,
    starts_with,
)
from lakescan.expressions.scalar.typed_sql import EXACT_DIGITS, MOST_DIGITS, decimal_of

_WHOLE = re.compile(r" *[+-]?[0-9]{1,18} *")
_PLAIN_NUMBER = re.compile(r" *[+-]?[0-9]{1,9}(\.[0-9]{1,6})? *")
_EXACT_IN_DOUBLE, _EXACT_IN_FLOAT = 2**53, 2**24


@dataclass(frozen=True)
class Inference:
    """The predicate that a condition implies.

    - `predicate`: satisfied by every row that satisfies the condition; not bound to a schema.
    - `exact`: whether no other row satisfies the predicate, and evaluating the condition fails (an error) for no row.
    """

    predicate: Predicate
    exact: bool = False


UNKNOWN_TRUTH = Inference(TRUE)
NEVER = Inference(FALSE, True)


def infer_comparison(chain: Chain, op: str, value: ConstantValue, context: InferenceContext) -> Inference:
    """Infer a predicate on the chain's column from `chain op value`, for one of the operators < <= > >= = !=.

    If nothing else can be inferred, it is that the column is not null.
    """
    not_null = Inference(IsNull(chain.path, negate=True))
    if value.value is None:
        return NEVER
    if chain.is_column and chain.type in t.INTEGRAL and value.type in t.INTEGRAL:  # long lists have many of these
        return _direct_comparison(chain, op, value)
    if chain.is_text:
        return _digits(chain, op, value, context)
    if chain.prefix is not None:
        return _infer_prefix(chain, chain.prefix, op, value)
    try:
        found = _comparable(chain, value, context)
        if found is None:
            return not_null
        chain, value = found
        if chain.type in t.FLOATING or chain.type in (t.BOOLEAN, t.STRING, t.BINARY):
            return _direct_comparison(chain, op, value)
        return _between(chain, op, value)
    except (ValueError, OverflowError):  # a date or time beyond the years 1 to 9999
        return not_null


def equals_char(char: t.Field, value: ConstantValue) -> Inference:
    """Infer a predicate from `char = value` for a CHAR(n) column; `char` is its field, with the column's path as name.

    Filters ignore the padding of CHAR. Engines ignore it for some constants and not for others. Ignoring it is safe: a
    value that equals a text with padding also equals it without.
    """
    if value.type != t.STRING or len(value.value) > char.pad:
        return Inference(IsNull(char.name, negate=True))
    return Inference(Comparison(char.name, op="=", value=value.value))


def _direct_comparison(chain: Chain, op: str, value: ConstantValue) -> Inference:
    """Return the same comparison as a test of the column, whose values the chain does not change."""
    return Inference(Comparison(chain.path, op=op, value=value.value), not chain.may_fail)


def _digits(chain: Chain, op: str, value: ConstantValue, context: InferenceContext) -> Inference:
    """Infer from a comparison of a number's text with a constant: `cast(id as string) = '7'` becomes `id = 7`.

    `chain` ends with the cast of an integer to a string. Only the canonical text of an integer can be equal.
    """
    number = Chain(chain.path, chain.field, t.LONG, chain.steps, chain.may_fail)
    if value.type != t.STRING or op not in ("=", "!="):
        return Inference(IsNull(chain.path, negate=True))
    if re.fullmatch("0|-?[1-9][0-9]{0,18}", value.value, re.ASCII):
        return infer_comparison(number, op, ConstantValue(int(value.value), t.LONG), context)
    return NEVER if op == "=" else Inference(IsNull(chain.path, negate=True), not chain.steps)


def _infer_prefix(chain: Chain, size: int, op: str, value: ConstantValue) -> Inference:
    """Infer from a comparison of a string's first `size` characters, which are never greater than the whole string."""
    path, text, not_null = chain.path, value.value, Inference(IsNull(chain.path, negate=True))
    if value.type != t.STRING:
        return not_null
    if op in ("=", "!="):
        if len(text) > size:
            return NEVER if op == "=" else Inference(not_null.predicate, True)
        if len(text) == size:
            return Inference(starts_with(path, text, negate=op == "!="), True)
        return Inference(Comparison(path, op=op, value=text), True)
    if op in ("<", ">=") and len(text) <= size:
        return Inference(Comparison(path, op=op, value=text), True)
    return Inference(Comparison(path, op=op, value=text)) if op in (">", ">=") else not_null


def _comparable(chain: Chain, value: ConstantValue, context: InferenceContext) -> tuple[Chain, ConstantValue] | None:
    """Return the chain and the constant, both converted to Spark's type for the comparison.

    None if the conversion is unknown or may round.
    """
    kind = chain.type
    if kind == t.DATE or isinstance(kind, t.Timestamp):
        return _comparable_times(chain, value, context)
    if kind == value.type and kind in (t.STRING, t.BOOLEAN, t.BINARY):
        return chain, value
    if kind in t.FLOATING:
        number = _double(kind, value)
        if chain.field.type in t.INTEGRAL and number is not None:
            exact = _exact_double(chain.field.type, ConstantValue(number, t.DOUBLE))
            return None if exact is None else (chain.then(type=t.LONG), ConstantValue(exact, t.LONG))
        return None if number is None or chain.steps else (chain, ConstantValue(number, kind))
    exact = _exact_number(kind, value)
    return None if exact is None else (chain, ConstantValue(exact, kind))


def _comparable_times(
    chain: Chain, value: ConstantValue, context: InferenceContext
) -> tuple[Chain, ConstantValue] | None:
    kinds = {chain.type, value.type}
    wanted = chain.type
    if kinds == {t.DATE, WALL}:
        wanted = WALL
    elif kinds == {t.DATE, INSTANT} or kinds == {WALL, INSTANT}:
        wanted = INSTANT
    constant = as_time(value, wanted, context.zone)
    if constant is None:
        return None
    if wanted == INSTANT and chain.type != INSTANT:
        return None if context.zone is None else (chain.then(InstantOf(context.zone), type=INSTANT), constant)
    return chain, constant


def _double(kind: t.Type, value: ConstantValue) -> float | None:
    """Return the constant as the double that Spark compares with a floating-point column of type `kind`.

    None if Spark may compare in another way, or if the conversion may round.
    """
    if value.type in t.FLOATING:
        return float(value.value)
    limit = _EXACT_IN_FLOAT if kind == t.FLOAT else _EXACT_IN_DOUBLE
    if value.type in t.INTEGRAL and abs(value.value) <= limit:
        return float(value.value)
    if isinstance(value.type, t.Decimal) and value.type.precision <= EXACT_DIGITS:
        return float(value.value)
    is_number = value.type == t.STRING and kind == t.DOUBLE and _PLAIN_NUMBER.fullmatch(value.value)
    return float(value.value) if is_number else None


def _exact_number(kind: t.Type, value: ConstantValue) -> Fraction | None:
    """Return the constant as the exact number that Spark compares with an integer or decimal of type `kind`.

    None if Spark may round, or if the constant is not a number.
    """
    if value.type == t.STRING:
        if kind in t.INTEGRAL:
            return Fraction(int(value.value)) if _WHOLE.fullmatch(value.value) else None
        return Fraction(value.value.strip()) if _has_few(kind) and _PLAIN_NUMBER.fullmatch(value.value) else None
    if value.type in t.FLOATING:
        return _exact_double(kind, value)
    mine, other = decimal_of(kind), decimal_of(value.type)
    if mine is None or other is None:
        return None
    whole = max(mine.precision - mine.scale, other.precision - other.scale)
    is_kept = (kind in t.INTEGRAL and value.type in t.INTEGRAL) or whole + max(mine.scale, other.scale) <= MOST_DIGITS
    return Fraction(value.value) if is_kept else None


def _has_few(kind: t.Type) -> bool:
    """Return whether `kind` is a decimal type with so few digits that all of its values have distinct doubles."""
    return isinstance(kind, t.Decimal) and kind.precision <= EXACT_DIGITS


def _exact_double(kind: t.Type, value: ConstantValue) -> Fraction | None:
    """Return the exact number for a float constant that Spark compares, as doubles, with numbers of the type `kind`.

    None if an exact comparison may differ, because two numbers of the type have the same double.
    """
    if not math.isfinite(value.value):
        return None
    if kind in t.INTEGRAL:
        limit = _EXACT_IN_FLOAT if value.type == t.FLOAT else _EXACT_IN_DOUBLE
        return Fraction(value.value) if abs(value.value) < limit else None
    return Fraction(repr(value.value)) if _has_few(kind) and value.type == t.DOUBLE else None


def _between(chain: Chain, op: str, value: ConstantValue) -> Inference:
    """Infer a predicate by mapping the results that satisfy `op value` back through the chain to column values.

    Each step maps an interval of results to an interval of its inputs.
    """
    wanted = _intervals(op, value)
    found = []
    for each in wanted:
        for step in reversed(chain.steps):
            each = step.preimage(each)
        found.append(each)
    exact = all(each.exact for each in found) and not chain.may_fail and not has_nanos(chain)
    return Inference(_column_predicate(chain, found), exact)


def _intervals(op: str, value: ConstantValue) -> list[ValueInterval]:
    low, high, exact = value.value - value.spread, value.value + value.spread, not value.spread and not value.rising
    if value.rising and op not in ("=", ">", ">="):
        return [EVERYTHING]
    match op:
        case "=":
            return [ValueInterval(low, None if value.rising else high, exact=exact)]
        case "<" | "<=":
            return [ValueInterval(None, high, high_open=op == "<", exact=exact)]
        case ">" | ">=":
            return [ValueInterval(low, None, low_open=op == ">", exact=exact)]
    if value.spread:
        return [EVERYTHING]
    return [ValueInterval(None, high, high_open=True), ValueInterval(low, None, low_open=True)]


def _column_predicate(chain: Chain, found: list[ValueInterval]) -> Predicate:
    scale = _scale(chain.field.type)
    if len(found) == 2 and found[0].high == found[1].low and found[0].high_open and found[1].low_open:
        if (units := found[0].high / scale) == int(units):
            return Comparison(chain.path, op="!=", value=_column_value(chain.field.type, int(units)))
        return IsNull(chain.path, negate=True)
    return disjunction([_interval_predicate(chain, each, scale) for each in found if not each.is_empty])


def _scale(kind: t.Type) -> Fraction:
    """Return the distance between neighbouring values of a column's type, in the unit of `ValueInterval`.

    It is 1 for integers and timestamps, a day in microseconds for dates, and 10^-scale for decimals.
    """
    if isinstance(kind, t.Decimal):
        return Fraction(1, 10**kind.scale)
    return Fraction(DAY if kind == t.DATE else 1)


def _interval_predicate(chain: Chain, interval: ValueInterval, scale: Fraction) -> Predicate:
    kind, path = chain.field.type, chain.path
    nanos = has_nanos(chain)  # an engine may round them down
    tests: list[Predicate] = []
    if interval.is_point and not nanos:
        units = interval.low / scale
        return Comparison(path, op="=", value=_column_value(kind, int(units))) if units == int(units) else FALSE
    if interval.low is not None:
        below = math.floor(interval.low / scale)
        after = interval.low_open or below != interval.low / scale
        op = ">" if after else ">="
        if nanos and after:
            op, below = ">=", below + 1
        tests.append(Comparison(path, op=op, value=_column_value(kind, below)))
    if interval.high is not None:
        below = math.floor(interval.high / scale)
        op = "<" if interval.high_open and below == interval.high / scale else "<="
        if nanos and op == "<=":
            op, below = "<", below + 1
        tests.append(Comparison(path, op=op, value=_column_value(kind, below)))
    return conjunction(tests) if tests else IsNull(path, negate=True)


def _column_value(kind: t.Type, units: int) -> Any:
    """Convert `units` times the distance of `_scale` to a Python value of the column's type.

    Raises `OverflowError` for a date or time beyond Python's years, or a float that may not be exact.
    """
    match kind:
        case t.DATE:
            return plain_time(units * DAY).date()
        case t.Timestamp(zoned=zoned):
            return plain_time(units).replace(tzinfo=UTC) if zoned else plain_time(units)
        case t.Decimal(scale=scale):
            return Decimal(f"{units}E-{scale}")  # arithmetic would round to 28 digits
        case t.FLOAT | t.DOUBLE:
            if abs(units) > _EXACT_IN_FLOAT:
                raise OverflowError(f"{units} may not be exact as {kind}")
            return float(units)
    return units


def infer_all(parts: Sequence[Inference]) -> Inference:
    """Combine the inferences of conditions by AND, if all conditions are true. It is exact if all of them are."""
    return Inference(conjunction([each.predicate for each in parts]), all(each.exact for each in parts))


def infer_any(parts: Sequence[Inference]) -> Inference:
    """Combine the inferences of conditions by OR, if at least one condition is true. It is exact if all of them are."""
    return Inference(disjunction([each.predicate for each in parts]), all(each.exact for each in parts))
