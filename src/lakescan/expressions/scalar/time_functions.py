"""Date and timestamp functions as in Spark with the session time zone UTC, translated to DuckDB SQL.

Functions take and return `TypedSql`, cast their arguments as Spark does, and raise `UnsupportedFeature` for types,
units and patterns that are not translated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime

from lakescan.common import types as t
from lakescan.expressions.scalar.casts import cast, implicit_cast
from lakescan.expressions.scalar.text_functions import text_arguments
from lakescan.expressions.scalar.typed_sql import Interval, TypedSql, literal, quote_text, unsupported_error
from lakescan.expressions.scalar.udf import call_python

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
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def clock_values(now: datetime) -> Mapping[str, TypedSql]:
    """Return literals for the functions of the current time without arguments, such as `current_date`, by name.

    `now` is the current time in UTC.
    """
    instant, day = literal(now.replace(tzinfo=None), INSTANT), literal(now.date(), t.DATE)
    return {"current_timestamp": instant, "now": instant, "current_date": day, "curdate": day}


def field_of_day(sql: str) -> Callable[[TypedSql], TypedSql]:
    """Return a translator of a function of a date with an integer result, such as `year`.

    `{x}` in the DuckDB SQL `sql` stands for the date. Timestamps and strings are cast to dates.
    """

    def apply(each: TypedSql) -> TypedSql:
        value = cast(each, t.DATE)
        return TypedSql(f"CAST({sql.format(x=value.sql)} AS INTEGER)", t.INT, value.raises)

    return apply


def field_of_time(sql: str) -> Callable[[TypedSql], TypedSql]:
    """Return a translator of a function of a timestamp with an integer result, such as `hour`.

    `{x}` in the DuckDB SQL `sql` stands for the timestamp. Dates and strings are cast to timestamps.
    """

    def apply(each: TypedSql) -> TypedSql:
        value = instant_of(each)
        return TypedSql(f"CAST({sql.format(x=value.sql)} AS INTEGER)", t.INT, value.raises)

    return apply


def instant_of(each: TypedSql) -> TypedSql:
    """Return a timestamp (with or without a time zone) unchanged, and cast other values to a timestamp in UTC."""
    return each if isinstance(each.type, t.Timestamp) else cast(each, INSTANT)


def _unit(each: TypedSql, known: dict[str, str], name: str) -> str:
    unit = known.get(each.literal.lower()) if each.is_text_literal else None
    if unit is None:
        raise unsupported_error(f"the function {name}() with the unit {each.literal!r}")
    return unit


def date_trunc(unit: TypedSql, each: TypedSql) -> TypedSql:
    """Return `date_trunc(unit, each)`: the start of the unit that contains a time, a timestamp. `unit` is a literal."""
    value = instant_of(each)
    start = f"date_trunc('{_unit(unit, {**_UNITS, **_FINER}, 'date_trunc')}', {value.sql})"
    return TypedSql(f"CAST({start} AS TIMESTAMP)", INSTANT, True)


def trunc(each: TypedSql, unit: TypedSql) -> TypedSql:
    """Return `trunc(each, unit)`: the first day of the year, quarter, month or week, a date. `unit` is a literal."""
    start = f"date_trunc('{_unit(unit, _UNITS, 'trunc')}', {cast(each, t.DATE).sql})"
    return TypedSql(f"CAST({start} AS DATE)", t.DATE, True)


def shift_days(sign: str) -> Callable[[TypedSql, TypedSql], TypedSql]:
    """Return a translator of `date_add` (`sign` is +) or `date_sub` (-)."""

    def apply(each: TypedSql, days: TypedSql) -> TypedSql:
        count = implicit_cast(days, t.INT, "the function date_add()")
        return _shift_date(each, count, "date_add", f"{sign} {count.sql}")

    return apply


def add_months(each: TypedSql, months: TypedSql) -> TypedSql:
    """Return `add_months(each, months)`, a date; a day beyond the end of the month becomes its last day."""
    count = implicit_cast(months, t.INT, "the function add_months()")
    return _shift_date(each, count, "add_months", f"+ to_months({count.sql})")


def _shift_date(each: TypedSql, number: TypedSql, name: str, sql: str) -> TypedSql:
    number = implicit_cast(number, t.INT, f"the function {name}()")
    return TypedSql(f"CAST({cast(each, t.DATE).sql} {sql} AS DATE)", t.DATE, True)


def days_between(end: TypedSql, start: TypedSql) -> TypedSql:
    """Return `datediff(end, start)`: the number of days from `start` to `end`."""
    return TypedSql(f"CAST({cast(end, t.DATE).sql} - {cast(start, t.DATE).sql} AS INTEGER)", t.INT, True)


def last_day(each: TypedSql) -> TypedSql:
    """Return `last_day(each)`: the last day of the month that contains a date."""
    return TypedSql(f"last_day({cast(each, t.DATE).sql})", t.DATE, True)


def make_date(year: TypedSql, month: TypedSql, day: TypedSql) -> TypedSql:
    """Return `make_date(year, month, day)` of integers; evaluation fails for a date that does not exist."""
    parts = []
    for each in (year, month, day):
        if each.type not in (t.BYTE, t.SHORT, t.INT):
            raise unsupported_error(f"the function make_date() of {each.type}")
        parts.append(f"CAST({each.sql} AS BIGINT)")
    other = call_python(
        "times.make_date", [TypedSql(f"CAST({each.sql} AS INTEGER)", t.INT) for each in (year, month, day)], t.DATE
    )
    known = f"({year.sql}) IS NULL OR ({year.sql}) BETWEEN 1 AND 9999"
    return TypedSql(f"CASE WHEN {known} THEN make_date({', '.join(parts)}) ELSE {other.sql} END", t.DATE, True)


def next_day(each: TypedSql, day: TypedSql) -> TypedSql:
    """Return `next_day(each, day)`: the first date after `each` with this day of the week, a literal such as 'Mon'."""
    name = (day.literal if day.is_text_literal else "").lower()
    number = next((n for n, full in enumerate(_WEEKDAYS, 1) if name in (full, full[:3], full[:2])), None)
    if number is None:
        raise unsupported_error(f"the function next_day() with the day {day.literal!r}")
    value = cast(each, t.DATE)
    ahead = f"(({number} - isodow({value.sql}) + 6) % 7 + 1)"
    return TypedSql(f"CAST({value.sql} + CAST({ahead} AS INTEGER) AS DATE)", t.DATE, True)


_SIZES = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "dayofyear": 86_400_000_000,
    "week": 604_800_000_000,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}


def timestampdiff(start: TypedSql, end: TypedSql, unit: str) -> TypedSql:
    """Return `datediff(unit, start, end)`: the number of whole units from `start` to `end`, a long."""
    name = unit.lower()
    times = [instant_of(each) for each in (start, end)]
    if name in _MONTHS:
        months = call_python("times.whole_months", times, t.LONG).sql
        return TypedSql(f"({months} // {_MONTHS[name]})", t.LONG, True)
    if name not in _SIZES:
        raise unsupported_error(f"a difference of times in {unit}")
    micros = [f"epoch_us({each.sql})" for each in times]
    return TypedSql(f"CAST(({micros[1]} - {micros[0]}) // {_SIZES[name]} AS BIGINT)", t.LONG, True)


def timestampadd(unit: str, count: TypedSql, each: TypedSql) -> TypedSql:
    """Return `dateadd(unit, count, each)`: a time moved by a number of units, a timestamp."""
    name = unit.lower()
    value = instant_of(each)
    if name in _MONTHS:
        number = implicit_cast(count, t.INT, "the function timestampadd()")
        months = f"CAST(CAST({number.sql} AS BIGINT) * {_MONTHS[name]} AS INTEGER)"
        return TypedSql(f"CAST({value.sql} + to_months({months}) AS TIMESTAMP)", value.type, True)
    if name not in _SIZES:
        raise unsupported_error(f"a time moved by {unit}")
    number = implicit_cast(count, t.LONG, "the function timestampadd()")
    return TypedSql(f"make_timestamp(epoch_us({value.sql}) + {number.sql} * {_SIZES[name]})", value.type, True)


_PARTS = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year({x})"),
    **dict.fromkeys(("yearofweek",), "isoyear({x})"),
    **dict.fromkeys(("quarter", "qtr"), "quarter({x})"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month({x})"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear({x})"),
    **dict.fromkeys(("day", "d", "days"), "day({x})"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek({x}) + 1"),
    **dict.fromkeys(("dayofweek_iso", "dow_iso"), "isodow({x})"),
    **dict.fromkeys(("doy",), "dayofyear({x})"),
}
_CLOCK_PARTS = {
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour({x})"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute({x})"),
}
_SECOND_PARTS = ("second", "s", "sec", "seconds", "secs")


def extract(unit: str, each: TypedSql) -> TypedSql:
    """Return `extract(unit FROM each)` for a time or an interval; seconds are a decimal with six places.

    Raises `UnsupportedFeature` for an unknown unit, or one that an interval lacks.
    """
    name = unit.lower()
    if isinstance(each.type, Interval):
        return _part_of_interval(name, each)
    if name in _PARTS:
        return field_of_day(_PARTS[name])(each)
    if name in _CLOCK_PARTS:
        return field_of_time(_CLOCK_PARTS[name])(each)
    if name not in _SECOND_PARTS:
        raise unsupported_error(f"the part {unit} of a time")
    value = instant_of(each)
    micros = f"((epoch_us({value.sql}) % 60000000 + 60000000) % 60000000)"
    sql = f"CAST({micros} * CAST('0.000001' AS DECIMAL(7, 6)) AS DECIMAL(8, 6))"
    return TypedSql(sql, t.Decimal(8, 6), value.raises)


def _part_of_interval(name: str, each: TypedSql) -> TypedSql:
    kind = each.type
    assert isinstance(kind, Interval)
    sizes = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000}
    plain = next((unit for unit, form in _INTERVAL_PARTS.items() if name in form), None)
    if plain in ("year", "month") and kind.has_months:
        sql = f"({each.sql} // 12)" if plain == "year" else f"({each.sql} % 12)"
        return TypedSql(
            f"CAST({sql} AS {'INTEGER' if plain == 'year' else 'TINYINT'})", t.INT if plain == "year" else t.BYTE
        )
    if plain is None or kind.has_months or plain in ("year", "month"):
        raise unsupported_error(f"the part {name} of {kind}")
    if plain == "second":
        micros = f"({each.sql} % 60000000)"
        return TypedSql(f"CAST({micros} * CAST('0.000001' AS DECIMAL(7, 6)) AS DECIMAL(8, 6))", t.Decimal(8, 6))
    rest = {"day": each.sql, "hour": f"({each.sql} % 86400000000)", "minute": f"({each.sql} % 3600000000)"}[plain]
    kind_of = t.INT if plain == "day" else t.BYTE
    return TypedSql(f"CAST({rest} // {sizes[plain]} AS {'INTEGER' if plain == 'day' else 'TINYINT'})", kind_of)


_INTERVAL_PARTS = {
    "year": ("year", "y", "years", "yr", "yrs"),
    "month": ("month", "mon", "mons", "months"),
    "day": ("day", "d", "days"),
    "hour": ("hour", "h", "hours", "hr", "hrs"),
    "minute": ("minute", "m", "min", "mins", "minutes"),
    "second": _SECOND_PARTS,
}


_PIECE = re.compile(r"yyyy|yy|MMMM|MMM|MM|M|dd|d|HH|H|hh|h|mm|ss|SSSSSS|SSS|EEEE|EEE|E|a|'[^'%]*'|[-_/:., ]")
_CODES = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "M": "%-m",
    "dd": "%d",
    "d": "%-d",
    "HH": "%H",
    "H": "%-H",
    "hh": "%I",
    "h": "%-I",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "EEEE": "%A",
    "EEE": "%a",
    "E": "%a",
    "a": "%p",
}
_FIXED = {"yyyy": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2, "ss": 2}
DEFAULT = literal("yyyy-MM-dd HH:mm:ss", t.STRING)


def _pieces(pattern: TypedSql, name: str) -> list[str]:
    text = pattern.literal if pattern.is_text_literal else None
    pieces = _PIECE.findall(text or "")
    if not pieces or "".join(pieces) != text:
        raise unsupported_error(f"the function {name}() with the pattern {text!r}")
    return pieces


def date_format(each: TypedSql, pattern: TypedSql) -> TypedSql:
    """Return `date_format(each, pattern)` for a literal pattern with common letters.

    Raises `UnsupportedFeature` for others; the function of this name in `python_functions` formats them.
    """
    pieces = _pieces(pattern, "date_format")
    value = instant_of(each)
    codes = quote_text("".join(_CODES.get(one, one.strip("'")) for one in pieces))
    other = call_python("times.date_format", [value, pattern], t.STRING).sql
    within = f"({value.sql}) IS NULL OR year({value.sql}) BETWEEN 1 AND 9999"
    return TypedSql(f"CASE WHEN {within} THEN strftime({value.sql}, {codes}) ELSE {other} END", t.STRING, value.raises)


def parse_instant(text: TypedSql, pattern: TypedSql, name: str = "to_timestamp") -> TypedSql:
    """Return `to_timestamp(text, pattern)` for a literal pattern, which fails for text that does not match it.

    Raises `UnsupportedFeature`, with the function's name `name`, for patterns that are not translated.
    """
    value = text_arguments(name, text)[0]
    pieces = _pieces(pattern, name)
    fields: dict[str, str] = {}
    form, at = "", 1
    for each in pieces:
        plain = each.strip("'") if each.startswith("'") else each
        if each in _FIXED and each not in fields:
            fields[each] = f"CAST(substring({value}, {at}, {_FIXED[each]}) AS BIGINT)"
            form, at = f"{form}[0-9]{{{_FIXED[each]}}}", at + _FIXED[each]
        elif plain and plain not in _CODES:
            form, at = form + re.escape(plain).replace("/", "/"), at + len(plain)
        else:
            raise unsupported_error(f"the function {name}() with the pattern {pattern.literal!r}")
    if not {"yyyy", "MM", "dd"} <= fields.keys() or _has_gaps(fields):
        raise unsupported_error(f"the function {name}() with the pattern {pattern.literal!r}")
    parts = [fields.get(each, "0") for each in _FIXED]
    made = f"make_timestamp({', '.join(parts[:5])}, CAST({parts[5]} AS DOUBLE))"
    fits = f"regexp_full_match({value}, {quote_text(form)}) AND {parts[0]} > 0 AND {parts[1]} BETWEEN 1 AND 12"
    fits += f" AND {parts[2]} BETWEEN 1 AND 28 AND {parts[3]} < 24 AND {parts[4]} < 60 AND {parts[5]} < 60"
    other = call_python("times.to_timestamp", [TypedSql(value, t.STRING), pattern], t.Timestamp(zoned=False)).sql
    sql = f"CASE WHEN ({value}) IS NULL THEN NULL WHEN {fits} THEN {made} ELSE {other} END"
    return TypedSql(sql, INSTANT, True)


def _has_gaps(fields: dict[str, str]) -> bool:
    """Return whether a pattern has minutes without hours, or seconds without minutes; `fields` are its letters."""
    times = [each in fields for each in ("HH", "mm", "ss")]
    return times != sorted(times, reverse=True)


def to_timestamp(each: TypedSql, pattern: TypedSql | None = None) -> TypedSql:
    """Return `to_timestamp(each)`, a cast, or `to_timestamp(each, pattern)` for a string."""
    return cast(each, INSTANT) if pattern is None or each.type != t.STRING else parse_instant(each, pattern)


def to_date(each: TypedSql, pattern: TypedSql | None = None) -> TypedSql:
    """Return `to_date(each)`, a cast, or `to_date(each, pattern)` for a string."""
    if pattern is None or each.type != t.STRING:
        return cast(each, t.DATE)
    return cast(parse_instant(each, pattern, "to_date"), t.DATE)


def from_seconds(each: TypedSql, pattern: TypedSql = DEFAULT) -> TypedSql:
    """Return `from_unixtime(each, pattern)`: seconds since 1970 formatted by a literal pattern."""
    return date_format(cast(cast(each, t.LONG), INSTANT), pattern)


def unix_timestamp(each: TypedSql, pattern: TypedSql = DEFAULT) -> TypedSql:
    """Return `unix_timestamp(each, pattern)`: the seconds since 1970 of a time, or of a string in a literal pattern."""
    value = parse_instant(each, pattern, "unix_timestamp") if each.type == t.STRING else instant_of(each)
    return TypedSql(f"(epoch_us({value.sql}) // 1000000)", t.LONG, True)
