"""The value of a text literal beside a typed column, as Spark casts it in its ANSI mode: `day < '2020-2-29 12:00'`.

Spark compares a text with a column of whole numbers as a BIGINT, with floats and decimals as a DOUBLE, and with any
other column as a value of the column's type. `tests/expressions/text_literals.json` has Spark's own answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from lakescan.common import types as t

DAY = 86_400 * 10**6
_LONG, _DAYS = (-(2**63), 2**63 - 1), (-(2**31), 2**31 - 1)
_BLANK = "".join(map(chr, range(33))) + "\x7f"  # what Spark trims: white space and control characters
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_FLOATING = re.compile(r"([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[fFdD]?")
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
_DAYS_FROM_NOW = {"now": 0, "today": 0, "tomorrow": 1, "yesterday": -1}
# Names of Java besides those of the time zone database.
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
    """Return what a text means beside a column of a type.

    Dates are days since 1970; timestamps are microseconds or nanoseconds since 1970, by the column's unit (nanoseconds
    may exceed 64 bits); times are microseconds since midnight. Beside a decimal a text is a float, as in Spark. Beside
    binary, and beside a UUID, which is text in Spark, it stays a text.

    Args:
        text: The literal, without quotes.
        kind: The column's type.
        zone: The time zone of timestamps without one.
        now: The time of `'now'` and `'today'`; by default the present time.

    Raises:
        ValueError: The text is not a value of the type.
        TypeError: Columns of this type are not compared with text.

    Example:
        >>> value_of_text(" 2020-2-29 12:00 ", t.DATE)
        18321
    """
    if kind in (t.STRING, t.UUID, t.BINARY) or isinstance(kind, t.Fixed):
        return text
    stripped = text.strip(_BLANK)
    if kind == t.BOOLEAN:
        return _truth(stripped)
    if kind in t.INTEGRAL:
        return _whole(stripped)
    if kind in t.FLOATING or isinstance(kind, t.Decimal):
        return floating_of_text(text)
    if kind == t.DATE:
        return _date(stripped, zone, now)
    if isinstance(kind, t.Timestamp):
        return _timestamp(stripped, kind, zone, now)
    if kind == t.TIME:
        return _time(stripped)
    raise TypeError("columns of this type are not compared with text")


def _truth(text: str) -> bool:
    word = text.lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError("not true or false")
    return word in _TRUE


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise ValueError("not a whole number; without quotes, other numbers can be compared with it")
    number = int(text)
    if not _LONG[0] <= number <= _LONG[1]:
        raise ValueError("it exceeds the range of BIGINT; without quotes, it can be compared")
    return number


def floating_of_text(text: str) -> float:
    """Return a text as a DOUBLE; raises `ValueError`."""
    stripped = text.strip(_BLANK[:33])
    if match := _FLOATING.fullmatch(stripped):
        return float(match[1])
    if match := _HEXADECIMAL.fullmatch(stripped):
        return float.fromhex(match[1])
    if _NAN.fullmatch(stripped):
        return float("nan")
    if _INFINITE.fullmatch(stripped):
        return float("-inf" if stripped[0] == "-" else "inf")
    raise ValueError("not a number")


def _date(text: str, zone: tzinfo, now: datetime | None) -> int:
    if (word := _special(text)) is not None:
        return 0 if word == "epoch" else _today(zone, now) + _DAYS_FROM_NOW[word]
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError("not a date: write it as '2026-01-31'")
    sign, year, month, day = match.groups()
    return _days(int(sign + year), int(month or 1), int(day or 1))


def _days(year: int, month: int, day: int) -> int:
    days = days_of_date(year, month, day)
    if not _DAYS[0] <= days <= _DAYS[1]:
        raise ValueError("it exceeds the range of dates")
    return days


def days_of_date(year: int, month: int, day: int) -> int:
    """Return the days since 1970 of any year; raises `ValueError` for a day that the calendar does not have."""
    cycles, within = divmod(year - 2000, 400)  # the calendar repeats itself after 400 years
    return datetime(2000 + within, month, day).toordinal() - 719_163 + cycles * 146_097


def _timestamp(text: str, kind: t.Timestamp, zone: tzinfo, now: datetime | None) -> int:
    if (word := _special(text)) is not None:
        micros = _special_time(word, kind.zoned, zone, now)
        return micros * (kind.per_day // DAY)
    instant = wall_of_text(text, _today(zone, now))
    own = zone if instant.zone is None else instant.zone
    micros = instant.nanoseconds // 1000
    moved = offset_of_wall(micros, own) if kind.zoned else 0
    if not _LONG[0] <= micros - moved <= _LONG[1]:
        raise ValueError("it exceeds the range of timestamps")
    return instant.nanoseconds - moved * 1000 if kind.unit == "ns" else micros - moved


@dataclass(frozen=True)
class Wall:
    """A wall-clock time in nanoseconds since 1970, and the time zone that a text gives it, or None."""

    nanoseconds: int
    zone: tzinfo | None


def wall_of_text(text: str, today: int | None = None) -> Wall:
    """Parse the text of a timestamp other than `'now'` and the like; digits after the ninth are cut off.

    `today` is the day of a text that is only a time of day. Raises `ValueError`.
    """
    text = text.strip(_BLANK)
    if match := _TIMESTAMP.fullmatch(text):
        sign, year, month, day, *clock = match.groups()
        days = days_of_date(int(sign + year), int(month or 1), int(day or 1))
    elif today is not None and (match := _TIME_OF_TODAY.fullmatch(text)):
        days, clock = today, list(match.groups())
    else:
        raise ValueError("not a timestamp: write it as '2026-01-31 12:00:00'")
    hour, minute, second, fraction, name = clock
    nanoseconds = days * DAY * 1000 + _of_clock(hour, minute, second, fraction)
    return Wall(nanoseconds, zone_of_name(name.strip(_BLANK)) if name else None)


def _of_clock(hour: str | None, minute: str | None, second: str | None, fraction: str | None) -> int:
    """The nanoseconds since midnight; digits of the fraction after the ninth are cut off."""
    parts = [int(each or 0) for each in (hour, minute, second)]
    if parts[0] > 23 or parts[1] > 59 or parts[2] > 59:
        raise ValueError("there is no such time of day")
    seconds = (parts[0] * 60 + parts[1]) * 60 + parts[2]
    return seconds * 10**9 + int((fraction or "")[:9].ljust(9, "0"))


def _time(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("not a time of day: write it as '12:30:00'")
    hour, minute, second, fraction, half = match.groups()
    if half is not None:
        if not 1 <= int(hour) <= 12:
            raise ValueError("there is no such time of day")
        hour = str(int(hour) % 12 + (12 if half.lower() == "pm" else 0))
    return _of_clock(hour, minute, second, fraction) // 1000


def is_special(text: str) -> bool:
    """Whether a text is a word such as `now` or `epoch`, which is a date or time."""
    return _special(text.strip(_BLANK)) is not None


def _special(text: str) -> str | None:
    """The word for a date or time, which a time zone may follow that has no meaning; None for other texts."""
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
    """Return the offset from UTC, in microseconds, of a zone at a wall-clock time in microseconds since 1970.

    A time that comes twice is the first of both, and one that is skipped is moved by as much as clocks are, as in Java.
    """
    if zone is UTC:
        return 0
    days, rest = divmod(micros, DAY)
    cycles = (days - 2_932_532) // 146_097 + 1 if days > 2_932_532 else 0  # years after 9998 as 400 years before
    days = max(days - cycles * 146_097, -719_162)  # years before 1 have the offset of the first
    wall = datetime.fromordinal(days + 719_163) + timedelta(microseconds=rest)
    offset = wall.replace(tzinfo=zone).utcoffset()
    return 0 if offset is None else offset // timedelta(microseconds=1)


def zone_of_name(name: str) -> tzinfo:
    """Return the time zone that Java and Spark give a name or an offset; raises `ValueError`.

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
    """Return the name that Spark gives a time zone."""
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
