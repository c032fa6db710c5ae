"""Functions of dates and timestamps; instants have their fields in UTC."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime

from lakescan.common import types as t
from lakescan.expressions.scalar.casts import cast
from lakescan.expressions.scalar.typed import Typed, evaluated_in_known_years, literal, quoted, unsupported

INSTANT = t.Timestamp("us", zoned=True)
_UNITS = {
    **dict.fromkeys(["year", "yyyy", "yy"], "year"),
    **dict.fromkeys(["month", "mon", "mm"], "month"),
    "quarter": "quarter",
    "week": "week",
}
_FINER = {
    **dict.fromkeys(["day", "dd"], "day"),
    **{each: each for each in ("hour", "minute", "second", "millisecond", "microsecond")},
}
_INTERVALS = ("year", "month", "day", "hour", "minute", "second")
_FORMAT = re.compile(r"yyyy|MM|dd|HH|mm|ss|[-_/:. ]")
_CODES = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}


def values_at(now: datetime) -> Mapping[str, Typed]:
    """Return the values of the functions without arguments that tell the time, by name; `now` is in UTC."""
    instant, day = literal(now.replace(tzinfo=None), INSTANT), literal(now.date(), t.DATE)
    return {"current_timestamp": instant, "now": instant, "current_date": day, "curdate": day}


def day_of(each: Typed) -> Typed:
    """Return `to_date(each)`: the date of a date, a timestamp or a text."""
    return cast(each, t.DATE)


def field_of_day(sql: str) -> Callable[[Typed], Typed]:
    """Return a function of a date, `x` in `sql`, with a whole number as its result; timestamps are taken as dates."""

    def apply(each: Typed) -> Typed:
        value = cast(each, t.DATE)
        return Typed(f"CAST({sql.format(x=value.sql)} AS INTEGER)", t.INT, value.raises)

    return apply


def field_of_time(sql: str) -> Callable[[Typed], Typed]:
    """Return a function of a timestamp, `x` in `sql`, with a whole number as its result; dates are their midnights."""

    def apply(each: Typed) -> Typed:
        value = _instant(each)
        return Typed(f"CAST({sql.format(x=value.sql)} AS INTEGER)", t.INT, value.raises)

    return apply


def _instant(each: Typed) -> Typed:
    return each if isinstance(each.type, t.Timestamp) else cast(each, INSTANT)


def _unit(each: Typed, known: dict[str, str], name: str) -> str:
    unit = known.get(each.literal.lower()) if each.is_text_literal else None
    if unit is None:
        raise unsupported(f"the function {name}() with the unit {each.literal!r}")
    return unit


def truncated_time(unit: Typed, each: Typed) -> Typed:
    """Return `date_trunc(unit, each)`, a timestamp."""
    value = _instant(each)
    start = f"date_trunc('{_unit(unit, {**_UNITS, **_FINER}, 'date_trunc')}', {value.sql})"
    return Typed(f"CAST({start} AS TIMESTAMP)", INSTANT, True)


def truncated_day(each: Typed, unit: Typed) -> Typed:
    """Return `trunc(each, unit)`, a date."""
    start = f"date_trunc('{_unit(unit, _UNITS, 'trunc')}', {cast(each, t.DATE).sql})"
    return Typed(f"CAST({start} AS DATE)", t.DATE, True)


def moved(sign: str) -> Callable[[Typed, Typed], Typed]:
    """Return `date_add` (+) or `date_sub` (-)."""

    def apply(each: Typed, days: Typed) -> Typed:
        return _shifted(each, days, "date_add", f"{sign} CAST({days.sql} AS INTEGER)")

    return apply


def months_later(each: Typed, months: Typed) -> Typed:
    """Return `add_months(each, months)`, at most the last day of the month."""
    return _shifted(each, months, "add_months", f"+ to_months(CAST({months.sql} AS INTEGER))")


def _shifted(each: Typed, number: Typed, name: str, sql: str) -> Typed:
    if number.type not in (t.BYTE, t.SHORT, t.INT):
        raise unsupported(f"the function {name}() with a number of {number.type}")
    return Typed(f"CAST({cast(each, t.DATE).sql} {sql} AS DATE)", t.DATE, True)


def shifted(each: Typed, number: int, unit: str) -> Typed:
    """Return `each + INTERVAL number unit`: a date stays one unless the unit is shorter than a day."""
    if unit not in _INTERVALS:
        raise unsupported(f"an interval in {unit}s")
    if each.type != t.DATE and not isinstance(each.type, t.Timestamp):
        raise unsupported(f"an interval added to {each.type}")
    is_day = each.type == t.DATE and unit in ("year", "month", "day")
    kind = each.type if is_day or each.type != t.DATE else INSTANT
    function = f"to_{unit}s"
    if abs(number) >= 2**31:
        raise unsupported(f"an interval of {number} {unit}s")
    value = cast(each, kind)
    sql = f"{value.sql} + {function}(CAST('{number}' AS {'BIGINT' if unit in _INTERVALS[3:] else 'INTEGER'}))"
    return Typed(f"CAST({sql} AS {'DATE' if kind == t.DATE else 'TIMESTAMP'})", kind, True)


def days_between(end: Typed, start: Typed) -> Typed:
    """Return `datediff(end, start)` in days."""
    return Typed(f"CAST({cast(end, t.DATE).sql} - {cast(start, t.DATE).sql} AS INTEGER)", t.INT, True)


def last_day(each: Typed) -> Typed:
    """Return the last day of the month."""
    return Typed(f"last_day({cast(each, t.DATE).sql})", t.DATE, True)


def formatted(each: Typed, pattern: Typed) -> Typed:
    """Return `date_format(each, pattern)` for patterns of digits and punctuation, in the years 1 to 9999."""
    text = pattern.literal if pattern.is_text_literal else ""
    pieces = _FORMAT.findall(text)
    if not pieces or "".join(pieces) != text:
        raise unsupported(f"the function date_format() with the pattern {text!r}")
    value = _instant(each)
    codes = quoted("".join(_CODES.get(each, each) for each in pieces))
    return evaluated_in_known_years(value, f"strftime({value.sql}, {codes})", t.STRING, "date_format() of")
