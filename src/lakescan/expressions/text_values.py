"""Texts as values of other types, as Spark's casts read them: dates, timestamps, numbers and booleans.

Each function returns None for a text that Spark does not read: `try_cast` is null then, and `CAST` fails. Dates are
days since 1970 and timestamps microseconds since 1970, because Spark has other years than Python (1 to 9999).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Context, InvalidOperation
from decimal import Decimal as PyDecimal
from functools import lru_cache
from zoneinfo import ZoneInfo

# What Spark trims: bytes of ASCII that are blank or control characters.
_BLANK = "".join(map(chr, (*range(0x21), 0x7F)))
_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIME = r"(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?([^\d:.].*)?)?)?"
_TIMESTAMP = re.compile(rf"([+-]?)(\d{{4,6}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[ T]{_TIME})?)?)?", re.ASCII | re.DOTALL)
_TIME_OF_TODAY = re.compile(rf"(?:T|(?=\d{{1,2}}:)){_TIME}", re.ASCII | re.DOTALL)
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d\d)(?::?(\d\d))?)?", re.ASCII)
_SINGLE_HOUR, _SINGLE_MINUTE = re.compile(r"([+-])(\d):", re.ASCII), re.compile(r"([+-]\d\d):(\d)$", re.ASCII)
_PREFIX = re.compile(r"(?:UTC|GMT|UT)(?=[+-]|\Z)")
_MOST_OFFSET = 18 * 3600
# Names of zones that are short, and that Java has besides those of the database.
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
}
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+", re.ASCII)
_JAVA_SPACE = "".join(map(chr, range(0x21)))
_INFINITE = {"inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}
_SECOND = 1_000_000
_DAY = 86_400
_FIRST = datetime(1970, 1, 1)


def trimmed(text: str) -> str:
    """Return the text without blanks and control characters at its ends, which Spark's casts ignore."""
    return text.strip(_BLANK)


def days_of(year: int, month: int, day: int) -> int | None:
    """Return the day's number since 1970 in the proleptic Gregorian calendar; None for a day that does not exist."""
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > (31, 29 if is_leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]:
        return None
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def date_of(text: str) -> int | None:
    """Return the day that a text names: `2024`, `2024-2`, `2024-2-9`, with anything after a space or `T`.

    Example:
        >>> date_of(" 2024-2-9T12")
        19762
    """
    found = _DATE.fullmatch(trimmed(text))
    if found is None:
        return None
    sign, year, month, day = found.groups()
    return days_of(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))


def timestamp_of(text: str, session: tzinfo | None = UTC, now: datetime | None = None) -> int | None:
    """Return the instant that a text names, in microseconds since 1970 in UTC.

    Args:
        text: A date, or a date with a time, after which a zone may stand; or a time of today.
        session: The zone of a text without one. None for a timestamp without a time zone: a zone in the text is
            ignored, and a time without a date is not read.
        now: The time that decides which day is today.

    Example:
        >>> timestamp_of("1970-01-01 02:00:00+02:00")
        0
    """
    rest = trimmed(text)
    found = _TIMESTAMP.fullmatch(rest)
    if found is not None:
        sign, year, month, day, *clock = found.groups()
        date: tuple[int, int, int] | None = (
            -int(year) if sign == "-" else int(year),
            int(month or 1),
            int(day or 1),
        )
    elif (
        session is not None
        and (found := _TIME_OF_TODAY.fullmatch(rest)) is not None
        and (rest[0] != "T" or text[0] == "T")
    ):
        date, clock = None, list(found.groups())
    else:
        return None
    hour, minute, second = (int(each or 0) for each in clock[:3])
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int(((clock[3] or "") + "000000")[:6])
    zone = session
    if clock[4] is not None:
        try:
            named = zone_of(clock[4].strip(_JAVA_SPACE))
        except ValueError:
            return None
        zone = None if session is None else named
    if date is None:
        today = (now or datetime.now(UTC)).astimezone(zone)
        date = (today.year, today.month, today.day)
    days = days_of(*date)
    if days is None:
        return None
    seconds = days * _DAY + hour * 3600 + minute * 60 + second
    micros = (seconds - (0 if zone is None else offset_at(seconds, zone))) * _SECOND + fraction
    return micros if -(2**63) <= micros < 2**63 else None


@lru_cache(1000)
def zone_of(name: str) -> tzinfo:
    """Return the time zone that Spark knows by a name: `Z`, `+2:00`, `UTC+02:00`, `EST`, `Europe/Berlin`.

    Raises `ValueError` for other names.
    """
    name = _SINGLE_MINUTE.sub(r"\1:0\2", _SINGLE_HOUR.sub(r"\g<1>0\2:", name, count=1))
    name = _SHORT.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if (prefix := _PREFIX.match(name)) is not None:
        name = name[prefix.end() :]
    if name[:1] in ("+", "-"):
        found = _OFFSET.fullmatch(name)
        if found is None or (len(found[2]) == 1 and found[3]):
            raise ValueError(f"{name} is no offset of a time zone")
        hours, minutes, seconds = (int(each or 0) for each in found.groups()[1:])
        total = hours * 3600 + minutes * 60 + seconds
        if minutes > 59 or seconds > 59 or total > _MOST_OFFSET:
            raise ValueError(f"{name} is no offset of a time zone")
        return timezone(timedelta(seconds=total if found[1] == "+" else -total))
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is no time zone") from error


def offset_at(wall: int, zone: tzinfo) -> int:
    """Return the offset of a wall-clock time, in seconds; in a gap, and of two, that before the clock is changed."""
    if zone is UTC:
        return 0
    found = zone.utcoffset(_within_years(wall))
    return 0 if found is None else found // timedelta(seconds=1)


def wall_clock(instant: int, zone: tzinfo) -> int:
    """Return the wall-clock time in a zone, in seconds, of an instant in seconds since 1970."""
    if zone is UTC:
        return instant
    at = _within_years(instant).replace(tzinfo=UTC).astimezone(zone).utcoffset()
    return instant + (0 if at is None else at // timedelta(seconds=1))


def _within_years(seconds: int) -> datetime:
    """The time, or one of a year in which Python's zones have the same offset."""
    least, most, cycle = -62_135_510_400, 253_402_214_400, 12_622_780_800  # years 1 and 9999, 400 years
    if seconds < least:
        seconds = least
    elif seconds > most:
        seconds -= ((seconds - most) // cycle + 1) * cycle
    return _FIRST + timedelta(seconds=seconds)


def whole_of(text: str, bits: int) -> int | None:
    """Return the whole number of so many bits that a text is."""
    text = trimmed(text)
    if not _WHOLE.fullmatch(text) or len(text) > 4000:
        return None
    value = int(text)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def double_of(text: str) -> float | None:
    """Return the double that a text is, with the words and suffixes that Java reads."""
    text = text.strip(_JAVA_SPACE)
    number = text[:-1] if text[-1:] in ("d", "D", "f", "F") else text
    if _NUMBER.fullmatch(number):
        return float(number)
    if _HEXADECIMAL.fullmatch(number):
        try:
            return float.fromhex(number)
        except OverflowError:
            return float("-inf" if number[0] == "-" else "inf")
    word = text.lower()
    if word in _INFINITE:
        return float(_INFINITE[word])
    return float("nan") if word == "nan" or text in ("+NaN", "-NaN") else None


def decimal_of(text: str, precision: int, scale: int) -> PyDecimal | None:
    """Return the decimal that a text is, rounded half up to `scale` places."""
    text = trimmed(text)
    if not _NUMBER.fullmatch(text):
        return None
    return rounded_decimal(PyDecimal(text), precision, scale)


def rounded_decimal(value: PyDecimal, precision: int, scale: int) -> PyDecimal | None:
    """Return a decimal rounded half up to `scale` places; None if it has more digits than `precision`."""
    if value and value.adjusted() >= precision - scale + 1:
        return None
    context = Context(prec=precision + scale + 80, rounding=ROUND_HALF_UP)
    try:
        rounded = value.quantize(PyDecimal(1).scaleb(-scale), context=context)
    except InvalidOperation:
        return None
    return rounded if not rounded or rounded.adjusted() < precision - scale else None


def boolean_of(text: str) -> bool | None:
    """Return the truth that a text names: t, true, y, yes, 1; f, false, n, no, 0; in any case."""
    word = trimmed(text).lower()
    if word in ("true", "t", "yes", "y", "1"):
        return True
    return False if word in ("false", "f", "no", "n", "0") else None
