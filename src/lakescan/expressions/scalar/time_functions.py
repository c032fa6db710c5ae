"""Functions of dates and timestamps; instants have their fields in UTC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from lakescan.common import types as t
from lakescan.expressions.scalar.casts import cast
from lakescan.expressions.scalar.typed import Typed, evaluated_if, literal, unsupported

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
_INTERVALS = ("year", "month", "day", "week", "hour", "minute", "second")
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def values_at(now: datetime) -> Mapping[str, Typed]:
    """Return the values of the functions without arguments that tell the time, by name; `now` is in UTC."""
    instant, day = literal(now.replace(tzinfo=None), INSTANT), literal(now.date(), t.DATE)
    return {"current_timestamp": instant, "now": instant, "current_date": day, "curdate": day}


def field_of_day(sql: str) -> Callable[[Typed], Typed]:
    """Return a function of a date, `x` in `sql`, with a whole number as its result; timestamps are taken as dates."""

    def apply(each: Typed) -> Typed:
        value = cast(each, t.DATE)
        return Typed(f"CAST({sql.format(x=value.sql)} AS INTEGER)", t.INT, value.raises)

    return apply


def field_of_time(sql: str) -> Callable[[Typed], Typed]:
    """Return a function of a timestamp, `x` in `sql`, with a whole number as its result; dates are their midnights."""

    def apply(each: Typed) -> Typed:
        value = instant_of(each)
        return Typed(f"CAST({sql.format(x=value.sql)} AS INTEGER)", t.INT, value.raises)

    return apply


def instant_of(each: Typed) -> Typed:
    """Return the value as a timestamp."""
    return each if isinstance(each.type, t.Timestamp) else cast(each, INSTANT)


def _unit(each: Typed, known: dict[str, str], name: str) -> str:
    unit = known.get(each.literal.lower()) if each.is_text_literal else None
    if unit is None:
        raise unsupported(f"the function {name}() with the unit {each.literal!r}")
    return unit


def truncated_time(unit: Typed, each: Typed) -> Typed:
    """Return `date_trunc(unit, each)`, a timestamp."""
    value = instant_of(each)
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
    is_day = each.type == t.DATE and unit in _INTERVALS[:4]
    kind = each.type if is_day or each.type != t.DATE else INSTANT
    function = f"to_{unit}s"
    if abs(number) >= 2**31:
        raise unsupported(f"an interval of {number} {unit}s")
    value = cast(each, kind)
    sql = f"{value.sql} + {function}(CAST('{number}' AS {'BIGINT' if unit in _INTERVALS[4:] else 'INTEGER'}))"
    return Typed(f"CAST({sql} AS {'DATE' if kind == t.DATE else 'TIMESTAMP'})", kind, True)


def days_between(end: Typed, start: Typed) -> Typed:
    """Return `datediff(end, start)` in days."""
    return Typed(f"CAST({cast(end, t.DATE).sql} - {cast(start, t.DATE).sql} AS INTEGER)", t.INT, True)


def last_day(each: Typed) -> Typed:
    """Return the last day of the month."""
    return Typed(f"last_day({cast(each, t.DATE).sql})", t.DATE, True)


def made_date(year: Typed, month: Typed, day: Typed) -> Typed:
    """Return `make_date(year, month, day)`."""
    parts = []
    for each in (year, month, day):
        if each.type not in (t.BYTE, t.SHORT, t.INT):
            raise unsupported(f"the function make_date() of {each.type}")
        parts.append(f"CAST({each.sql} AS BIGINT)")
    known = f"({year.sql}) IS NULL OR ({year.sql}) BETWEEN 1 AND 9999"
    return evaluated_if(known, f"make_date({', '.join(parts)})", t.DATE, "make_date() of the year", year.sql)


def next_day(each: Typed, day: Typed) -> Typed:
    """Return `next_day(each, day)`: the first such day of the week after a date."""
    name = (day.literal if day.is_text_literal else "").lower()
    number = next((n for n, full in enumerate(_WEEKDAYS, 1) if name in (full, full[:3], full[:2])), None)
    if number is None:
        raise unsupported(f"the function next_day() with the day {day.literal!r}")
    value = cast(each, t.DATE)
    ahead = f"(({number} - isodow({value.sql}) + 6) % 7 + 1)"
    return Typed(f"CAST({value.sql} + CAST({ahead} AS INTEGER) AS DATE)", t.DATE, True)


def counted(start: Typed, end: Typed, unit: str) -> Typed:
    """Return `datediff(unit, start, end)`, whole units between two times."""
    if unit.lower() not in ("day", "hour", "minute", "second"):
        raise unsupported(f"a difference of times in {unit}")
    size = {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}[unit.lower()] * 1_000_000
    micros = [f"epoch_us({instant_of(each).sql})" for each in (start, end)]
    return Typed(f"CAST(({micros[1]} - {micros[0]}) // {size} AS BIGINT)", t.LONG, True)
