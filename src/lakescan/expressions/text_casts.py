"""Casts of text to other types, as in Spark's ANSI mode: one parser for each type.

These parsers are used wherever text is cast: text literals compared with typed columns (`day < '2020-2-29 12:00'`),
casts of constants and of columns in SQL, JSON, and time zones. A parser raises `ValueError` for text that Spark
rejects: `CAST` fails for it, and `try_cast` returns null. Dates are days since 1970 and timestamps microseconds since
1970, because Spark's years are not limited to 1 to 9999 as Python's are. `tests/expressions/text_literals.json` has
Spark's own results.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Context, InvalidOperation
from decimal import Decimal as PyDecimal
from functools import cache, lru_cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from lakescan.common import types as t

DAY = 86_400 * 10**6
_LONG, _DAYS = (-(2**63), 2**63 - 1), (-(2**31), 2**31 - 1)
_JAVA_SPACE = "".join(map(chr, range(33)))
_BLANK = _JAVA_SPACE + "\x7f"  # white space and control characters, which Spark trims
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_MOST_DIGITS = 4000  # below Python's limit for parsing integers
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FLOATING = re.compile(rf"({_NUMBER.pattern})[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_NAN, _INFINITE = re.compile(r"[+-]?NaN|(?i:nan)"), re.compile(r"(?i:[+-]?inf(inity)?)")
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_CLOCK = r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.:].*)?)?)?"
_TIMESTAMP = re.compile(
    rf"([+-]?)([0-9]{{4,6}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:[ T]{_CLOCK})?)?)?", re.ASCII | re.DOTALL
)
_TIME_OF_TODAY = re.compile(rf"(?:T|(?=[0-9]{{1,2}}:)){_CLOCK}", re.ASCII | re.DOTALL)
_TIME = re.compile(
    r"(?:T|(?=[0-9]{1,2}:))([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?(?:\s*([aApP][mM]))?",
    re.ASCII,
)
_SPECIAL = re.compile(r"(epoch|now|today|tomorrow|yesterday)(?![a-z])[ \t]*(.*)", re.IGNORECASE | re.DOTALL)
_NO_TIMESTAMP = "not a timestamp: write it as '2026-01-31 12:00:00'"
_DAYS_FROM_NOW = {"now": 0, "today": 0, "tomorrow": 1, "yesterday": -1}
# Java's zone names that are not in the time zone database.
_SHORT_IDS = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
_OFFSET = re.compile(r"([+-])([0-9]{1,2}|[0-9]{2}:[0-9]{2}(?::[0-9]{2})?|[0-9]{4}(?:[0-9]{2})?)")
_MOST_SECONDS = 18 * 3600


def value_of_text(text: str, kind: t.Type, zone: tzinfo = UTC, now: datetime | None = None) -> bool | int | float | str:
    """Cast a text literal to a value that can be compared with a column of the given type, as Spark does.

    Dates are days since 1970. Timestamps are microseconds or nanoseconds since 1970, by the column's unit (nanoseconds
    may exceed 64 bits). Times are microseconds since midnight. For a decimal column the text becomes a float, as in
    Spark. For a binary or UUID column it stays a text (UUIDs are text in Spark).

    Args:
        text: The literal, without quotes.
        kind: The column's type.
        zone: The time zone of timestamps without one.
        now: The time of `'now'` and `'today'`; by default the current time.

    Raises:
        ValueError: The text is not a value of the type.
        TypeError: Columns of this type cannot be compared with text.

    Example:
        >>> value_of_text(" 2020-2-29 12:00 ", t.DATE)
        18321
    """
    if kind in (t.STRING, t.UUID, t.BINARY) or isinstance(kind, t.Fixed):
        return text
    if kind == t.BOOLEAN:
        return boolean_of_text(text)
    if kind in t.INTEGRAL:
        return whole_of_text(text)
    if kind in t.FLOATING or isinstance(kind, t.Decimal):
        return double_of_text(text)
    word = _special(text.strip(_BLANK)) if kind == t.DATE or isinstance(kind, t.Timestamp) else None
    if kind == t.DATE:
        if word is None:
            return date_of_text(text)
        return 0 if word == "epoch" else _today(zone, now) + _DAYS_FROM_NOW[word]
    if isinstance(kind, t.Timestamp):
        if word is None:
            return timestamp_of_text(text, kind, zone, now)
        return _special_time(word, kind.zoned, zone, now) * (kind.per_day // DAY)
    if kind == t.TIME:
        return time_of_text(text)
    raise TypeError("columns of this type cannot be compared with text")


def or_none(read: Callable[..., Any], *args: Any) -> Any:
    """Call a parser, and return None if it raises `ValueError`."""
    try:
        return read(*args)
    except ValueError:
        return None


def boolean_of_text(text: str) -> bool:
    """Parse t, true, y, yes, 1 or f, false, n, no, 0, in any case and between blanks; raises `ValueError`."""
    word = text.strip(_BLANK).lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError("not true or false")
    return word in _TRUE


def whole_of_text(text: str, bits: int = 64) -> int:
    """Parse an integer between blanks; raises `ValueError` for other text or a number of more than `bits` bits."""
    text = text.strip(_BLANK)
    if not _WHOLE.fullmatch(text):
        raise ValueError("not a whole number; write other numbers without quotes")
    digits = text.lstrip("+-").lstrip("0")
    number = 0 if not digits else int(digits) if len(digits) < _MOST_DIGITS else 2**64
    number = -number if text[0] == "-" else number
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        name = {8: "TINYINT", 16: "SMALLINT", 32: "INT"}.get(bits, "BIGINT")
        raise ValueError(f"it exceeds the range of {name}; write such numbers without quotes")
    return number


def double_of_text(text: str) -> float:
    """Parse a double as Java does (`1e3`, `1d`, `0x1p3`, `NaN`, `Infinity`); raises `ValueError` for other text."""
    stripped = text.strip(_JAVA_SPACE)
    if match := _FLOATING.fullmatch(stripped):
        return float(match[1])
    if match := _HEXADECIMAL.fullmatch(stripped):
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return float("-inf" if stripped[0] == "-" else "inf")
    if _NAN.fullmatch(stripped):
        return float("nan")
    if _INFINITE.fullmatch(stripped):
        return float("-inf" if stripped[0] == "-" else "inf")
    raise ValueError("not a number")


def decimal_of_text(text: str, precision: int, scale: int) -> PyDecimal:
    """Parse a decimal, rounded half up to `scale` places; raises `ValueError` if it is invalid or does not fit."""
    text = text.strip(_BLANK)
    if not _NUMBER.fullmatch(text):
        raise ValueError("not a number")
    try:
        found = rounded_decimal(PyDecimal(text), precision, scale)
    except InvalidOperation:  # the exponent exceeds Python's limits
        found = None
    if found is None:
        raise ValueError(f"it has more than {precision - scale} digits before the point")
    return found


def rounded_decimal(value: PyDecimal, precision: int, scale: int) -> PyDecimal | None:
    """Round a decimal half up to `scale` places; return None if it then has more digits than `precision`."""
    if value and value.adjusted() >= precision - scale + 1:
        return None
    context = Context(prec=precision + scale + 80, rounding=ROUND_HALF_UP)
    try:
        rounded = value.quantize(PyDecimal(1).scaleb(-scale), context=context)
    except InvalidOperation:
        return None
    return rounded if not rounded or rounded.adjusted() < precision - scale else None


def date_of_text(text: str) -> int:
    """Parse a date to days since 1970: `2024`, `2024-2`, `2024-2-9`, the latter with anything after a space or `T`.

    Raises `ValueError` for other text, or a day that does not exist or exceeds 32 bits.

    Example:
        >>> date_of_text(" 2024-2-9T12")
        19762
    """
    match = _DATE.fullmatch(text.strip(_BLANK))
    if match is None:
        raise ValueError("not a date: write it as '2026-01-31'")
    sign, year, month, day = match.groups()
    days = days_of_date(int(sign + year), int(month or 1), int(day or 1))
    if not _DAYS[0] <= days <= _DAYS[1]:
        raise ValueError("it exceeds the range of dates")
    return days


def days_of_date(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of a date in any year; raises `ValueError` for a day that does not exist."""
    cycles, within = divmod(year - 2000, 400)  # the calendar repeats itself after 400 years
    return datetime(2000 + within, month, day).toordinal() - 719_163 + cycles * 146_097


def timestamp_of_text(text: str, kind: t.Timestamp, zone: tzinfo = UTC, now: datetime | None = None) -> int:
    """Parse a timestamp to units since 1970: an instant in UTC, or wall-clock time for a type without a zone.

    Args:
        text: A date, or a date with a time, after which a zone may follow; for a type with a zone also a time of today.
        kind: The type, which determines the unit.
        zone: The zone of a text without one. For a type without a zone, zones are ignored.
        now: The time that decides which day is today; by default the current time.

    Raises:
        ValueError: The text is not a timestamp, or exceeds the range of timestamps.

    Example:
        >>> timestamp_of_text("1970-01-01 02:00:00+02:00", t.Timestamp())
        0
    """
    instant = wall_of_text(text, _today(zone, now) if kind.zoned else None)
    own = zone if instant.zone is None else instant.zone
    micros = instant.nanoseconds // 1000
    moved = offset_of_wall(micros, own) if kind.zoned else 0
    if not _LONG[0] <= micros - moved <= _LONG[1]:
        raise ValueError("it exceeds the range of timestamps")
    return instant.nanoseconds - moved * 1000 if kind.unit == "ns" else micros - moved


@dataclass(frozen=True)
class WallTime:
    """A wall-clock time in nanoseconds since 1970, and the time zone in its text, or None."""

    nanoseconds: int
    zone: tzinfo | None


def wall_of_text(text: str, today: int | None = None) -> WallTime:
    """Parse the text of a timestamp; digits of the fraction after the ninth are truncated.

    `today`, in days since 1970, is the day of a text that has only a time of day; without it, such a text is invalid.
    Raises `ValueError` for other text, also for words such as `'now'`.
    """
    stripped = text.strip(_BLANK)
    if match := _TIMESTAMP.fullmatch(stripped):
        sign, year, month, day, *clock = match.groups()
        days = days_of_date(int(sign + year), int(month or 1), int(day or 1))
    elif today is not None and (match := _TIME_OF_TODAY.fullmatch(stripped)):
        if stripped[0] == "T" and text[0] != "T":
            raise ValueError(_NO_TIMESTAMP)
        days, clock = today, list(match.groups())
    else:
        raise ValueError(_NO_TIMESTAMP)
    hour, minute, second, fraction, name = clock
    nanoseconds = days * DAY * 1000 + _clock_nanoseconds(hour, minute, second, fraction)
    return WallTime(nanoseconds, zone_of_name(name.strip(_BLANK)) if name else None)


def _clock_nanoseconds(hour: str | None, minute: str | None, second: str | None, fraction: str | None) -> int:
    """Return the nanoseconds since midnight of a time given by its digits; None counts as 0.

    Fraction digits after the ninth are truncated. Raises `ValueError` for an hour above 23, or a minute or second above
    59.
    """
    parts = [int(each or 0) for each in (hour, minute, second)]
    if parts[0] > 23 or parts[1] > 59 or parts[2] > 59:
        raise ValueError("there is no such time of day")
    seconds = (parts[0] * 60 + parts[1]) * 60 + parts[2]
    return seconds * 10**9 + int((fraction or "")[:9].ljust(9, "0"))


def time_of_text(text: str) -> int:
    """Parse a time of day, also with AM or PM, to microseconds since midnight; raises `ValueError`."""
    match = _TIME.fullmatch(text.strip(_BLANK))
    if match is None:
        raise ValueError("not a time of day: write it as '12:30:00'")
    hour, minute, second, fraction, half = match.groups()
    if half is not None:
        if not 1 <= int(hour) <= 12:
            raise ValueError("there is no such time of day")
        hour = str(int(hour) % 12 + (12 if half.lower() == "pm" else 0))
    return _clock_nanoseconds(hour, minute, second, fraction) // 1000


def is_special(text: str) -> bool:
    """Return whether a text is one of Spark's words for a date or time: epoch, now, today, tomorrow, yesterday."""
    return _special(text.strip(_BLANK)) is not None


def _special(text: str) -> str | None:
    """Return the word of `is_special`, in lower case, that a text consists of; None for other text.

    A time zone after the word is ignored, except after `now`, where it is invalid.
    """
    match = _SPECIAL.fullmatch(text)
    if match is None:
        return None
    word, name = match[1].lower(), match[2]
    if name:
        if word == "now":
            return None
        try:
            zone_of_name(name)
        except ValueError:
            return None
    return word


def _special_time(word: str, zoned: bool, zone: tzinfo, now: datetime | None) -> int:
    if word == "epoch":
        return 0
    instant = now or datetime.now(UTC)
    if word == "now":
        wall = instant if zoned else instant.astimezone(zone).replace(tzinfo=UTC)
        return (wall - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    midnight = (_today(zone, instant) + _DAYS_FROM_NOW[word]) * DAY
    return midnight - offset_of_wall(midnight, zone) if zoned else midnight


def _today(zone: tzinfo, now: datetime | None) -> int:
    return (now or datetime.now(UTC)).astimezone(zone).toordinal() - 719_163


def offset_of_wall(micros: int, zone: tzinfo) -> int:
    """Return a zone's offset from UTC, in microseconds, at a wall-clock time in microseconds since 1970.

    As in Java, a time that occurs twice means the first occurrence, and a time that clocks skip has the offset before
    the change, so that it moves forward by the length of the gap.
    """
    if zone is UTC:
        return 0
    offset = _equivalent_year(micros).replace(tzinfo=zone).utcoffset()
    return 0 if offset is None else offset // timedelta(microseconds=1)


def wall_clock(instant: int, zone: tzinfo) -> int:
    """Convert an instant to wall-clock time in a zone; both are in microseconds since 1970."""
    if zone is UTC:
        return instant
    offset = _equivalent_year(instant).replace(tzinfo=UTC).astimezone(zone).utcoffset()
    return instant + (0 if offset is None else offset // timedelta(microseconds=1))


def _equivalent_year(micros: int) -> datetime:
    """Convert wall-clock microseconds since 1970 to a `datetime`.

    A year beyond Python's range becomes one in it with the same calendar (400 years apart), or the year 1.
    """
    days, rest = divmod(micros, DAY)
    cycles = (days - 2_932_532) // 146_097 + 1 if days > 2_932_532 else 0  # years after 9998: 400-year cycles earlier
    days = max(days - cycles * 146_097, -719_160)  # years before 1 have the offset of year 1
    return datetime.fromordinal(days + 719_163) + timedelta(microseconds=rest)


@lru_cache(1000)
def zone_of_name(name: str) -> tzinfo:
    """Return the time zone for a name or an offset, as Java and Spark parse it; raises `ValueError`.

    Example:
        >>> zone_of_name("+2:30")
        datetime.timezone(datetime.timedelta(seconds=9000))
    """
    padded = re.sub(r"([+-])(\d):", r"\g<1>0\2:", name, count=1, flags=re.ASCII)
    padded = re.sub(r"([+-])(\d\d):(\d)$", r"\1\2:0\3", padded, flags=re.ASCII)
    padded = _SHORT_IDS.get(padded, padded)
    if padded in ("Z", "UTC", "GMT", "UT", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Zulu", "Universal"):
        return UTC
    offset = _OFFSET.fullmatch(re.sub(r"^(UTC|GMT|UT)(?=[+-])", "", padded))
    if offset is not None:
        return _offset_zone(offset[1], offset[2].replace(":", ""))
    if padded not in _names():
        raise ValueError(f"unknown time zone {name!r}")
    return ZoneInfo(padded)


def name_of_zone(zone: tzinfo) -> str:
    """Return Spark's name of a time zone: `UTC`, `Europe/Paris` or `+02:00`."""
    return "UTC" if zone is UTC else str(zone).removeprefix("UTC")


def _offset_zone(sign: str, digits: str) -> tzinfo:
    parts = [int(digits)] if len(digits) < 3 else [int(digits[n : n + 2]) for n in range(0, len(digits), 2)]
    hours, minutes, seconds = (*parts, 0, 0)[:3]
    count = (hours * 60 + minutes) * 60 + seconds
    if minutes > 59 or seconds > 59 or count > _MOST_SECONDS:
        raise ValueError(f"there is no offset of {sign}{digits} from UTC")
    return timezone(timedelta(seconds=-count if sign == "-" else count)) if count else UTC


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones()) - {"Factory", "localtime"}
