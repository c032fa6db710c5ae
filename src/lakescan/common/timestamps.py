"""Moments: instants as both formats record them (milliseconds since 1970) and as people write them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakescan.errors import InvalidOption

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"(?:UTC|GMT|Z)?([+-])(\d{1,2})(?::?(\d{2}))?")


def from_millis(milliseconds: int) -> datetime:
    """Milliseconds since 1970 as a moment in UTC."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def to_millis(moment: datetime) -> int:
    """A moment as whole milliseconds since 1970, rounded down."""
    return (moment - EPOCH) // timedelta(milliseconds=1)


def as_zone(name: str) -> tzinfo:
    """A time zone by its name (`Europe/Paris`) or offset (`+02:00`); raises `ValueError`."""
    if found := _OFFSET.fullmatch(name.strip()):
        offset = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        return timezone(-offset if found[1] == "-" else offset)
    try:
        return ZoneInfo(name.strip())
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"no time zone {name!r}") from error


def as_moment(value: datetime | date | str, zone: tzinfo = UTC) -> datetime:
    """A moment from a timestamp or date, or text of one; of `zone` where it has no offset. Raises `InvalidOption`."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip().replace(" UTC", "+00:00"))
        except ValueError as error:
            raise InvalidOption(
                f"{value!r} is not a time: write it as '2026-01-31', '2026-01-31 12:00:00' or with an offset, +01:00"
            ) from error
    if not isinstance(value, date):
        raise InvalidOption(f"{value!r} is not a time: give a datetime, a date, or text such as '2026-01-31 12:00:00'")
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return (value if value.tzinfo is not None else value.replace(tzinfo=zone)).astimezone(UTC)
