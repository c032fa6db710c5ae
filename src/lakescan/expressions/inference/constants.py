"""Values of expressions without columns, folded as Spark folds them in ANSI mode."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakescan.common import types as t
from lakescan.errors import LakescanError
from lakescan.expressions.inference.context import InferenceContext, call_of, is_known, type_of_cast
from lakescan.expressions.inference.preimages import DATE_UNITS, UNITS, start_of
from lakescan.expressions.inference.time_zones import DAY, Zone, micros_of, plain_time
from lakescan.expressions.literals import cast_constant
from lakescan.expressions.scalar import nested
from lakescan.expressions.scalar.arithmetic import negative
from lakescan.expressions.scalar.expression import FailedEvaluation, evaluate_sql
from lakescan.expressions.scalar.translate import Translator
from lakescan.expressions.scalar.typed_sql import TypedSql, literal, parse_number, unsupported_error
from lakescan.expressions.text_casts import is_special, value_of_text, wall_of_text

INSTANT, WALL = t.Timestamp("us", zoned=True), t.Timestamp("us", zoned=False)
_TIMES: tuple[t.Type, ...] = (t.DATE, INSTANT, WALL)
_FIRST, _END = micros_of(datetime(2, 1, 1)), micros_of(datetime(9999, 1, 1))


@dataclass(frozen=True)
class ConstantValue:
    """The value of a constant expression.

    - `value`: a Python value, or None for null. Dates (their midnight) and timestamps are microseconds since 1970, of
      the wall clock, or in UTC for a timestamp with a zone.
    - `type`: its type in Spark.
    - `spread`: Spark's value may differ by up to this number of microseconds in either direction, where clocks change.
    - `rising`: whether Spark's value may be greater, because it is evaluated later.
    """

    value: Any
    type: t.Type
    spread: int = 0
    rising: bool = False


def value_of(node: Any, context: InferenceContext) -> ConstantValue | None:
    """Return the value of an expression without columns; None if it has columns, fails or cannot be interpreted."""
    if (known := _literal(node)) is not None:
        return known
    if (known := _time_value(node, context)) is not None:
        return known
    return _fold_scalar(node, context)


def _literal(node: Any) -> ConstantValue | None:
    from sqlglot import exp

    match node:
        case exp.Null():
            return ConstantValue(None, t.UNKNOWN)
        case exp.Boolean():
            return ConstantValue(bool(node.this), t.BOOLEAN)
        case exp.Literal(is_string=True):
            return ConstantValue(node.this, t.STRING)
        case exp.Literal():
            typed = parse_number(node.this)
            return ConstantValue(typed.literal, typed.type)
        case exp.Neg(this=exp.Literal(is_string=False)):
            return _negative(parse_number(node.this.this))
        case exp.Cast(this=exp.Literal(is_string=True)) if (kind := type_of_cast(node)) in t.FLOATING:
            return ConstantValue(cast_constant(node.this.this, str(kind).upper()), kind)
    return None


def _negative(each: TypedSql) -> ConstantValue:
    exact = each.literal.copy_negate() if isinstance(each.literal, Decimal) else -each.literal  # `-` rounds decimals
    return ConstantValue(exact, negative(each).type)


def _time_value(node: Any, context: InferenceContext) -> ConstantValue | None:
    """Return the value of a constant date or timestamp expression; None for other expressions."""
    from sqlglot import exp

    if not is_known(node):
        return None
    match node:
        case exp.Paren():
            return _time_value(node.this, context)
        case exp.Column():
            is_name = len(node.parts) == 1 and context.field_of(node) is None
            return _current_time(node.name.lower(), context) if is_name else None
        case exp.Cast() | exp.TryCast():
            kind = type_of_cast(node)
            inner = value_of(node.this, context) if kind in _TIMES else None
            return None if inner is None or kind is None else as_time(inner, kind, context.zone)
        case exp.Add() | exp.Sub():
            return _time_sum(node, context)
    if (call := call_of(node)) is not None:
        name, args = call
        return _current_time(name, context) if not args else _call(name, args, context)
    return None


def _current_time(name: str, context: InferenceContext) -> ConstantValue | None:
    if context.now is None or context.zone is None:
        return None
    instant = ConstantValue(micros_of(context.now), INSTANT, rising=not context.now_is_exact)
    if name in ("current_timestamp", "now"):
        return instant
    return as_time(instant, t.DATE, context.zone) if name in ("current_date", "curdate") else None


_SINCE_EPOCH = {"timestamp_micros": 1, "timestamp_millis": 10**3, "timestamp_seconds": 10**6}


def _call(name: str, args: list[Any], context: InferenceContext) -> ConstantValue | None:
    values = [value_of(each, context) for each in args]
    given = [each for each in values if each is not None]
    if len(given) < len(values):
        return None
    if any(each.value is None for each in given):
        return None
    match name, given:
        case (
            ("timestamp_micros" | "timestamp_millis" | "timestamp_seconds"),
            [ConstantValue(type=t.INT | t.LONG) as count],
        ):
            return ConstantValue(count.value * _SINCE_EPOCH[name], INSTANT)
        case (("date" | "to_date"), [one]):
            return as_time(one, t.DATE, context.zone)
        case (("timestamp" | "to_timestamp"), [one]):
            return as_time(one, INSTANT, context.zone)
        case "make_date", [*parts] if len(parts) == 3 and all(each.type == t.INT for each in parts):
            return ConstantValue(micros_of(datetime(*(each.value for each in parts))), t.DATE)
        case (("date_add" | "date_sub"), [one, days]) if days.type in (t.BYTE, t.SHORT, t.INT):
            return _shift_micros(as_time(one, t.DATE, context.zone), days.value * (DAY if name == "date_add" else -DAY))
        case "date_trunc", [ConstantValue(type=t.STRING) as unit, one]:
            return _truncate(unit.value, as_time(one, INSTANT, context.zone), context.zone)
        case "trunc", [one, ConstantValue(type=t.STRING) as unit]:
            return _truncate(unit.value, as_time(one, t.DATE, context.zone), context.zone)
    return None


def _shift_micros(each: ConstantValue | None, micros: int) -> ConstantValue | None:
    return None if each is None else ConstantValue(each.value + micros, each.type, each.spread, each.rising)


def _truncate(name: str, each: ConstantValue | None, zone: Zone | None) -> ConstantValue | None:
    """Return the start of the unit of time that contains a constant time; None for an unknown unit or time.

    `name` is the unit as `date_trunc` and `trunc` take it. `zone` is the session time zone.
    """
    unit = UNITS.get(name.lower())
    if each is None or unit is None or each.value is None or each.spread:
        return None
    if each.type != INSTANT:
        return ConstantValue(start_of(unit, each.value), each.type, 0, each.rising) if unit in DATE_UNITS else None
    if zone is None:
        return None
    instant, spread = zone.instant(start_of(unit, zone.local(each.value)))
    is_sure = zone.fixed or unit in (*DATE_UNITS, "day")  # an hour may occur twice
    return ConstantValue(instant, INSTANT, spread if is_sure else DAY, each.rising)


def as_time(each: ConstantValue, kind: t.Type, zone: Zone | None) -> ConstantValue | None:
    """Cast a constant to a date or timestamp; null stays null. None if Spark's result is uncertain."""
    if each.value is None or each.type == kind:
        return replace(each, type=kind)
    if each.type == t.STRING:
        return _parse_time(each.value, kind, zone)
    if each.type not in _TIMES:
        return None
    wall = each.value
    if each.type == INSTANT:
        # A later instant may be on an earlier day if clocks change around midnight.
        if zone is None or each.spread or not zone.is_certain(each.value, steady=each.rising):
            return None
        wall = zone.local(each.value)
    return _wall_value(wall, kind, zone, each.rising)


def _wall_value(wall: int, kind: t.Type, zone: Zone | None, rising: bool = False) -> ConstantValue | None:
    if kind != INSTANT:
        return ConstantValue(start_of("day", wall) if kind == t.DATE else wall, kind, rising=rising)
    return None if zone is None else _instant(wall, zone, rising)


def _instant(wall: int, zone: Zone, rising: bool) -> ConstantValue:
    instant, spread = zone.instant(wall)
    return ConstantValue(instant, INSTANT, spread, rising)


def _parse_time(text: str, kind: t.Type, zone: Zone | None) -> ConstantValue | None:
    try:
        if kind == t.DATE:
            return (
                None
                if is_special(text)
                else _known_year_value(ConstantValue(int(value_of_text(text, kind)) * DAY, kind))
            )
        wall = wall_of_text(text)
    except ValueError:
        return None
    micros = wall.nanoseconds // 1000
    if _known_year_value(ConstantValue(micros, kind)) is None:
        return None
    if wall.zone is None or kind == WALL:
        return _wall_value(micros, kind, zone)
    return _instant(micros, Zone(wall.zone, isinstance(wall.zone, timezone)), rising=False)


def _known_year_value(each: ConstantValue) -> ConstantValue | None:
    """Return the date or timestamp itself if it is in the years 2 to 9998, and so valid in any time zone; else None."""
    return each if _FIRST <= each.value < _END else None


_MONTHS = {"month": 1, "year": 12}
_MICROS = {"week": 7 * DAY, "day": DAY, "hour": DAY // 24, "minute": 60 * 10**6, "second": 10**6}


def interval_of(node: Any) -> tuple[int, int] | None:
    """Return the months and microseconds of an INTERVAL node with one unit and a whole number; None for other nodes."""
    from sqlglot import exp

    if not isinstance(node, exp.Interval) or not isinstance(node.args.get("unit"), exp.Var):
        return None
    count, unit = node.this.name, node.args["unit"].name.lower().removesuffix("s")
    if not re.fullmatch(r"-?[0-9]{1,9}", count) or unit not in {**_MONTHS, **_MICROS}:
        return None
    return int(count) * _MONTHS.get(unit, 0), int(count) * _MICROS.get(unit, 0)


def _time_sum(node: Any, context: InferenceContext) -> ConstantValue | None:
    """Return a constant date or timestamp plus or minus an interval or a number of days; None for other sums."""
    from sqlglot import exp

    sign = 1 if isinstance(node, exp.Add) else -1
    start = _time_value(node.this, context)
    if start is None or start.value is None:
        return None
    if (interval := interval_of(node.expression)) is not None:
        return _shift_time(start, sign * interval[0], sign * interval[1], context.zone)
    days = value_of(node.expression, context)
    if start.type != t.DATE or days is None or days.value is None or days.type not in (t.BYTE, t.SHORT, t.INT):
        return None
    return replace(start, value=start.value + sign * days.value * DAY)


def _shift_time(start: ConstantValue, months: int, micros: int, zone: Zone | None) -> ConstantValue | None:
    if start.type == t.DATE and micros % DAY:
        return None
    if start.type != INSTANT:
        return replace(start, value=_months_later(start.value, months) + micros)
    if zone is None:
        return None
    shift = _months_later(wall := zone.local(start.value), months) - wall + micros
    moved = start.value + shift
    # Spark shifts the wall clock by whole days and months, and the instant by the remaining time.
    is_sure = zone.fixed or zone.local(moved) - moved == wall - start.value
    return replace(start, value=moved, spread=start.spread + (0 if is_sure else DAY))


def _months_later(wall: int, months: int) -> int:
    """Return the wall-clock time on the same day of the month some months later, or on the last day of that month.

    Times are microseconds since 1970. Raises `OverflowError` or `ValueError` beyond Python's years.
    """
    if not months:
        return wall
    day = plain_time(wall)
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return micros_of(day.replace(year=year, month=month + 1, day=min(day.day, last)))


def _fold_scalar(node: Any, context: InferenceContext) -> ConstantValue | None:
    """Return the value that DuckDB computes for an expression without columns; None if it fails or is unsupported.

    DuckDB assumes the session time zone UTC, so expressions that depend on another one also give None.
    """
    if not _is_constant(node) or (not context.is_utc and _has_instants(node)):
        return None
    values = {}
    if context.now_is_exact and (today := _current_time("current_date", context)) is not None:
        values["current_date"] = literal(plain_time(today.value).date(), t.DATE)

    def column(path: tuple[str, ...]) -> TypedSql:
        if len(path) == 1 and path[0].lower() in values and context.path_of(path) is None:
            return values[path[0].lower()]
        raise unsupported_error("a column")

    try:
        typed = Translator(column, values)(node)
        [result] = evaluate_sql(typed.sql, [], 1, nested.arrow(typed.type))
    except (LakescanError, FailedEvaluation):
        return None
    if typed.type == INSTANT and not context.is_utc:
        return None
    return ConstantValue(_python_value(result, typed.type), typed.type)


def _python_value(result: pa.Scalar, kind: t.Type) -> Any:
    if not result.is_valid:
        return None
    if kind in _TIMES:
        return result.value * (DAY if kind == t.DATE else 1)
    return result.as_py()


def _is_constant(node: Any) -> bool:
    from sqlglot import exp

    return all(each.name.lower() == "current_date" for each in node.find_all(exp.Column))


def _has_instants(node: Any) -> bool:
    from sqlglot import exp

    casts = (type_of_cast(each) for each in node.find_all(exp.Cast, exp.TryCast))
    calls = (str(each.this).lower() for each in node.find_all(exp.Anonymous))
    return INSTANT in casts or "date_trunc" in calls
