"""Spark's date and timestamp functions in Python: patterns, time zones, and calendar arithmetic for any year.

Dates are days and timestamps are microseconds since 1970. The session time zone is UTC.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, tzinfo
from decimal import Context, Decimal
from functools import lru_cache

from lakescan.expressions.scalar.python.casts import civil
from lakescan.expressions.scalar.udf import FailedValue
from lakescan.expressions.text_casts import days_of_date, offset_of_wall, or_none, wall_clock, zone_of_name

_DAY = 86_400_000_000
_SECOND = 1_000_000
_WIDE = Context(prec=100)  # the default rounds to 28 digits
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_PIECE = re.compile(r"([A-Za-z])\1*|'((?:[^']|'')*)'|([^A-Za-z'\[\]]+|[\[\]])", re.DOTALL)


@lru_cache(200)
def _pieces(pattern: str) -> tuple[tuple[str, str], ...]:
    """Split a datetime pattern into pairs of a letter and its repetitions (`y`, `yyyy`).

    Literal text has an empty letter, and brackets of optional parts have themselves. Raises `FailedValue` for another
    pattern.
    """
    found, at = [], 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            raise FailedValue(f"the pattern {pattern!r} is not supported outside Spark")
        if piece[1]:
            found.append((piece[1], piece[0]))
        elif piece[2] is not None:
            found.append(("", piece[2].replace("''", "'") or "'"))
        else:
            found.append((piece[3] if piece[3] in "[]" else "", piece[3]))
        at = piece.end()
    return tuple(found)


def date_format(micros: int, pattern: str) -> str:
    """Format a timestamp by a Spark datetime pattern; raises `FailedValue` for a letter that Spark rejects."""
    days, rest = divmod(micros, _DAY)
    year, month, day = civil(days)
    seconds, fraction = divmod(rest, _SECOND)
    hour, minute, second = seconds // 3600, seconds // 60 % 60, seconds % 60
    parts = []
    pieces = _pieces(pattern)
    has_era = any(letter == "G" for letter, _ in pieces)
    for letter, text in pieces:
        size = len(text)
        match letter:
            case "":
                parts.append(text)
            case "[" | "]":
                pass
            case "y" | "u":
                shown = 1 - year if letter == "y" and has_era and year < 1 else year
                if size == 2:
                    parts.append(f"{abs(shown) % 100:02}")
                else:
                    sign = "-" if shown < 0 else "+" if size >= 4 and shown >= 10**size else ""
                    parts.append(sign + f"{abs(shown):0{size}}")
            case "M" | "L":
                name = _MONTHS[month - 1]
                parts.append(f"{month:0{size}}" if size < 3 else name[:3] if size == 3 else name)
            case "d" if size <= 2:
                parts.append(f"{day:0{size}}")
            case "D" if size <= 3:
                parts.append(f"{days - _first_day(year) + 1:0{size}}")
            case "H" if size <= 2:
                parts.append(f"{hour:0{size}}")
            case "k" if size <= 2:
                parts.append(f"{hour or 24:0{size}}")
            case "K" if size <= 2:
                parts.append(f"{hour % 12:0{size}}")
            case "h" if size <= 2:
                parts.append(f"{hour % 12 or 12:0{size}}")
            case "m" if size <= 2:
                parts.append(f"{minute:0{size}}")
            case "s" if size <= 2:
                parts.append(f"{second:0{size}}")
            case "S" if size <= 9:
                parts.append(f"{fraction:06}000"[:size])
            case "a" if size == 1:
                parts.append("AM" if hour < 12 else "PM")
            case "E" if size <= 4:
                name = _DAYS[(days + 3) % 7]
                parts.append(name if size == 4 else name[:3])
            case "F" if size == 1:
                parts.append(str((day - 1) % 7 + 1))
            case "Q" | "q" if size <= 4:
                quarter = (month + 2) // 3
                named = ("1st", "2nd", "3rd", "4th")[quarter - 1] + " quarter"
                parts.append(f"{quarter:0{size}}" if size < 3 else f"Q{quarter}" if size == 3 else named)
            case "G" if size <= 4:
                era = ("BC", "AD") if size < 4 else ("Before Christ", "Anno Domini")
                parts.append(era[year > 0])
            case "V" if size == 2:
                parts.append("Z")
            case "z" if size <= 4:
                parts.append("UTC" if size < 4 else "Coordinated Universal Time")
            case "O" if size in (1, 4):
                parts.append("GMT")
            case "X" if size <= 5:
                parts.append("Z")
            case "x" if size <= 5:
                parts.append("+00" if size == 1 else "+00:00" if size in (3, 5) else "+0000")
            case "Z" if size <= 5:
                parts.append("+0000" if size < 4 else "GMT" if size == 4 else "Z")
            case _:
                raise FailedValue(
                    f"INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION: the pattern {pattern!r} has "
                    f"{text!r}"
                )
    return "".join(parts)


def _first_day(year: int) -> int:
    return days_of_date(year, 1, 1)


def to_timestamp(text: str, pattern: str) -> int:
    """Parse a timestamp by a Spark datetime pattern; without a zone in the text, it is in UTC.

    Raises `FailedValue` for text that does not match, and for an unsupported pattern.
    """
    found = try_to_timestamp(text, pattern)
    if found is None:
        raise FailedValue(
            f"CANNOT_PARSE_TIMESTAMP: the text {text!r} does not match the pattern {pattern!r}. "
            "try_to_timestamp returns null for it"
        )
    return found


@lru_cache(200)
def _pattern_reader(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    parts, fields = [], []
    pieces = _pieces(pattern)
    for n, (letter, text) in enumerate(pieces):
        size = len(text)
        follows_digits = n + 1 < len(pieces) and pieces[n + 1][0] in set("yuMdDHkKhmsS") and len(pieces[n + 1][1]) != 3
        if letter == "":
            parts.append(re.escape(text))
            continue
        if letter == "[":
            parts.append("(?:")
            continue
        if letter == "]":
            parts.append(")?")
            continue
        fields.append(letter if not (letter in "ML" and size >= 3) else "MMM")
        if letter in "yu":
            form = r"\d{2}" if size == 2 else rf"-?\d{{{size}}}" if follows_digits else rf"[+-]?\d{{{size},6}}"
            fields[-1] = "yy" if size == 2 else "y"
        elif letter in "ML" and size >= 3:
            form = "|".join(each[:3] if size == 3 else each for each in _MONTHS)
        elif letter in "MLdHkKhms":
            form = r"\d{2}" if size == 2 else r"\d{1,2}"
        elif letter == "D":
            form = r"\d{3}" if size == 3 else r"\d{1,3}"
        elif letter == "S":
            form = rf"\d{{{size}}}" if follows_digits else rf"\d{{1,{size}}}"
        elif letter == "a":
            form = "AM|PM|am|pm"
        elif letter == "E":
            form = "|".join(each if size == 4 else each[:3] for each in _DAYS)
        elif letter in "XxZVzO":
            form = r"Z|[+-]\d{1,2}(?::?\d\d(?::?\d\d)?)?|[A-Za-z][\w/+:-]*"
        else:
            raise FailedValue(f"the pattern {pattern!r} is not supported outside Spark")
        parts.append(f"({form})")
    return re.compile("".join(parts), re.ASCII), tuple(fields)


def try_to_timestamp(text: str, pattern: str) -> int | None:
    """Parse a timestamp by a Spark datetime pattern; None for text that does not match.

    Without a zone in the text, it is in UTC. Raises `FailedValue` for an unsupported pattern.
    """
    form, fields = _pattern_reader(pattern)
    found = form.fullmatch(text)
    if found is None:
        return None
    values = {name: value for name, value in zip(fields, found.groups(), strict=True) if value is not None}
    year = int(values["y"]) if "y" in values else 2000 + int(values["yy"]) if "yy" in values else 1970
    month = int(values.get("M") or values.get("L") or 1)
    if "MMM" in values:
        month = next(n for n, each in enumerate(_MONTHS, 1) if each.startswith(values["MMM"]))
    if "D" in values:
        days: int | None = _first_day(year) + int(values["D"]) - 1
        if not 1 <= int(values["D"]) <= _first_day(year + 1) - _first_day(year):
            return None
    else:
        days = or_none(days_of_date, year, month, int(values.get("d", 1)))
    hour = int(values.get("H", 0))
    if "k" in values:
        hour = int(values["k"]) % 24
    if "h" in values or "K" in values:
        number = int(values.get("h") or values.get("K") or 0)
        if not (1 <= number <= 12 if "h" in values else 0 <= number <= 11):
            return None
        hour = number % 12 + 12 * (values.get("a", "AM").upper() == "PM")
    minute, second = int(values.get("m", 0)), int(values.get("s", 0))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    wall = days * 86_400 + hour * 3600 + minute * 60 + second
    zone: tzinfo = UTC
    for letter in "XxZVzO":
        if letter in values:
            try:
                zone = zone_of_name(values[letter])
            except ValueError:
                return None
    return wall * _SECOND - offset_of_wall(wall * _SECOND, zone) + int((values.get("S", "") + "000000")[:6])


def to_seconds(text: str, pattern: str) -> int:
    """Parse a timestamp by a pattern, and return the seconds since 1970; raises the errors of `to_timestamp`."""
    return to_timestamp(text, pattern) // _SECOND


def _zone(name: str) -> tzinfo:
    try:
        return zone_of_name(name)
    except ValueError:
        raise FailedValue(f"INVALID_TIMEZONE: {name!r} is not a time zone") from None


def from_utc(micros: int, zone: str) -> int:
    """Convert a time in UTC to wall-clock time in a zone; raises `FailedValue` for an unknown zone."""
    return wall_clock(micros, _zone(zone))


def to_utc(micros: int, zone: str) -> int:
    """Convert wall-clock time in a zone to UTC; raises `FailedValue` for an unknown zone."""
    return micros - offset_of_wall(micros, _zone(zone))


def convert_timezone(source: str, target: str, micros: int) -> int:
    """Convert wall-clock time in the zone `source` to wall-clock time in the zone `target`.

    Raises `FailedValue` for an unknown zone.
    """
    return from_utc(to_utc(micros, source), target)


def months_between(end: int, start: int, rounds: bool) -> float:
    """Return the months from `start` to `end`; a fraction of a month counts 31 days.

    It is a whole number for the same day of the month, or if both are the last day of their month. With `rounds`, it is
    rounded to 8 places.
    """
    (days1, rest1), (days2, rest2) = divmod(end, _DAY), divmod(start, _DAY)
    (year1, month1, day1), (year2, month2, day2) = civil(days1), civil(days2)
    months = (year1 - year2) * 12 + month1 - month2
    last1, last2 = (_month_length(y, m) for y, m in ((year1, month1), (year2, month2)))
    if day1 == day2 or (day1 == last1 and day2 == last2):
        return float(months)
    seconds = (day1 - day2) * 86_400 + rest1 // _SECOND - rest2 // _SECOND
    difference = months + seconds / (31 * 86_400)
    return _half_up(difference, 8) if rounds else difference


def _month_length(year: int, month: int) -> int:
    return days_of_date(year + month // 12, month % 12 + 1, 1) - days_of_date(year, month, 1)


def _half_up(value: float, places: int) -> float:
    return math.floor(value * 10**places + 0.5) / 10**places if value >= 0 else -_half_up(-value, places)


def make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: Decimal, zone: str) -> int:
    """Return the instant of a wall-clock time in a zone.

    Raises `FailedValue` for a time that does not exist, and for an unknown zone.
    """
    found = try_make_timestamp(year, month, day, hour, minute, second, zone)
    if found is None:
        raise FailedValue(
            f"DATETIME_FIELD_OUT_OF_BOUNDS: {year}-{month}-{day} {hour}:{minute}:{second} is not a valid time. "
            "try_make_timestamp returns null for it"
        )
    return found


def try_make_timestamp(
    year: int, month: int, day: int, hour: int, minute: int, second: Decimal, zone: str
) -> int | None:
    """Return the instant of a wall-clock time in a zone; None for a time that does not exist.

    The second 60 is the first second of the next minute. Raises `FailedValue` for an unknown zone.
    """
    days: int | None = or_none(days_of_date, year, month, day)
    micros = int(second * _SECOND)
    if days is None or not (0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= micros <= 60 * _SECOND):
        return None
    wall = (days * 86_400 + hour * 3600 + minute * 60) * _SECOND + micros
    return wall - offset_of_wall(wall, _zone(zone))


def make_date(year: int, month: int, day: int) -> int:
    """Return a date as days since 1970; raises `FailedValue` for a date that does not exist."""
    found: int | None = or_none(days_of_date, year, month, day)
    if found is None:
        raise FailedValue(f"DATETIME_FIELD_OUT_OF_BOUNDS: {year}-{month}-{day} is not a valid date")
    return found


def make_dt_interval(days: int, hours: int, minutes: int, seconds: Decimal) -> int:
    """Return a day-time interval in microseconds; raises `FailedValue` beyond 64 bits."""
    total = ((days * 24 + hours) * 60 + minutes) * 60 * _SECOND + int(seconds * _SECOND)
    if not -(2**63) <= total < 2**63:
        raise FailedValue("INTERVAL_ARITHMETIC_OVERFLOW: the interval is too long")
    return total


def timestamp_of_double(seconds: float) -> int | None:
    """Convert seconds since 1970 to microseconds, limited to 64 bits; raises `FailedValue` for NaN and infinity."""
    if math.isnan(seconds) or math.isinf(seconds):
        raise FailedValue("CAST_INVALID_INPUT: NaN and infinity cannot be cast to a timestamp")
    micros = int(seconds * _SECOND)
    return max(min(micros, 2**63 - 1), -(2**63))


def timestamp_of_decimal(seconds: Decimal) -> int:
    """Convert seconds since 1970 to microseconds, truncating digits after the sixth decimal place."""
    return int(seconds.scaleb(6, _WIDE))


def timestamp_seconds(seconds: Decimal) -> int:
    """Convert seconds since 1970 to microseconds; raises `FailedValue` if there are more than six decimal places."""
    micros = seconds.scaleb(6, _WIDE)
    if micros != int(micros):
        raise FailedValue("ROUNDING_NECESSARY: timestamp_seconds() of more than six decimal places")
    return int(micros)


def next_day(days: int, name: str) -> int:
    """Return the first date after a date with the named day of the week; raises `FailedValue` for an unknown name."""
    wanted = name.strip().lower()
    for n, each in enumerate(_DAYS):
        if wanted and wanted in (each.lower(), each[:3].lower(), each[:2].lower()):
            ahead = (n - (days + 3) % 7) % 7
            return days + (ahead or 7)
    raise FailedValue(f"ILLEGAL_DAY_OF_WEEK: {name!r} is not a day of the week")


_TRUNCATED = {"year": 12, "yyyy": 12, "yy": 12, "quarter": 3, "month": 1, "mon": 1, "mm": 1}
_SIZES = {"microsecond": 1, "millisecond": 1000, "second": _SECOND, "minute": 60 * _SECOND, "hour": 3600 * _SECOND}
_SIZES |= {"day": _DAY, "dd": _DAY}


def date_trunc(unit: str, micros: int) -> int | None:
    """Return the start of the unit (`year` to `microsecond`) that contains a timestamp; None for an unknown unit."""
    name = unit.lower()
    if name in _SIZES:
        return micros - micros % _SIZES[name]
    days = trunc(micros // _DAY, unit)
    return None if days is None else days * _DAY


def trunc(days: int, unit: str) -> int | None:
    """Return the first day of the unit (year, quarter, month, week) that contains a date; None for other units."""
    name = unit.lower()
    if name == "week":
        return days - (days + 3) % 7
    if name not in _TRUNCATED:
        return None
    year, month, _ = civil(days)
    return days_of_date(year, month - (month - 1) % _TRUNCATED[name], 1)


def add_months_to_time(micros: int, months: int) -> int:
    """Add months to a timestamp; a day beyond the end of the month becomes its last day."""
    days, rest = divmod(micros, _DAY)
    return add_months(days, months) * _DAY + rest


def add_months(days: int, months: int) -> int:
    """Add months to a date; a day beyond the end of the month becomes its last day."""
    year, month, day = civil(days)
    total = year * 12 + month - 1 + months
    year, month = total // 12, total % 12 + 1
    return days_of_date(year, month, min(day, _month_length(year, month)))


def whole_months(start: int, end: int) -> int:
    """Return the number of whole months from `start` to `end`, negative if `end` is earlier."""
    sign = 1
    if end < start:
        start, end, sign = end, start, -1
    (days1, rest1), (days2, rest2) = divmod(start, _DAY), divmod(end, _DAY)
    (year1, month1, day1), (year2, month2, day2) = civil(days1), civil(days2)
    months = (year2 - year1) * 12 + month2 - month1
    return sign * (months - ((day2, rest2) < (day1, rest1)))


def time_bucket(size: int, micros: int, origin: int) -> int:
    """Return the start of the bucket of `size` microseconds that contains a time; buckets are counted from `origin`."""
    return micros - (micros - origin) % size
