"""Conversion of timestamps between `datetime`, text, and milliseconds since 1970-01-01 UTC, which both formats use."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakescan.errors import InvalidOption

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"(?:UTC|GMT|Z)?([+-])(\d{1,2})(?::?(\d{2}))?")


def from_millis(milliseconds: int) -> datetime:
    """Convert milliseconds since 1970 to a datetime in UTC; raises `InvalidOption` outside the years 1 to 9999."""
    try:
        return EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError as error:
        raise InvalidOption(f"{milliseconds} ms since 1970 is not a time between the years 1 and 9999") from error


def to_millis(time: datetime) -> int:
    """Convert a datetime with a time zone to milliseconds since 1970, rounded down."""
    return (time - EPOCH) // timedelta(milliseconds=1)


def as_zone(name: str) -> tzinfo:
    """Return a time zone by name (`Europe/Paris`) or offset (`+02:00`); raises `ValueError` for an unknown zone."""
    if match := _OFFSET.fullmatch(name.strip()):
        offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return timezone(-offset if match[1] == "-" else offset)
    try:
        return ZoneInfo(name.strip())
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"unknown time zone {name!r}") from error


def as_moment(value: datetime | date | str, zone: tzinfo = UTC) -> datetime:
    """Convert a datetime, a date (its midnight) or ISO 8601 text to a datetime in UTC.

    A value without an offset is in the time zone `zone`. Raises `InvalidOption` for a value that is not a timestamp in
    the years 1 to 9999.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().replace(" UTC", "+00:00"))
        except ValueError as error:
            raise InvalidOption(
                f"{value!r} is not a timestamp: write '2026-01-31', '2026-01-31 12:00:00', or add an offset, +01:00"
            ) from error
    if not isinstance(value, date):
        raise InvalidOption(
            f"{value!r} is not a timestamp: give a datetime, a date, or text such as '2026-01-31 12:00:00'"
        )
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    try:
        return (value if value.tzinfo is not None else value.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError as error:
        raise InvalidOption(f"{value} is not between the years 1 and 9999 in UTC") from error
