"""Rebases dates and timestamps that were written by Spark 2, or by a later Spark in LEGACY mode.

Those writers used the hybrid calendar, Julian until 1582-10-04, and the time zones of Java's old classes, which have no
rules before 1900. The file's footer records this. In such a file, 1000-01-01 is stored as a different number than Arrow
(and today's Spark) uses for that day. Like Spark, rebasing preserves the date, not the number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import UnsupportedFeature
from lakescan.reading.projection import reset_offset

_VERSION, _ZONE = b"org.apache.spark.version", b"org.apache.spark.timeZone"
_DATES, _INT96 = b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"
_GREGORIAN_DAY = -141_427  # 1582-10-15, the first day of both calendars
_GREGORIAN_MICROS = _GREGORIAN_DAY * 86_400_000_000
_JAVA_ZONES_MICROS = -2_208_988_800_000_000  # 1900-01-01 in UTC
_EPOCH_JULIAN_DAY = 2_440_588
_DAY = 86_400_000_000
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?00)?")


@dataclass(frozen=True)
class LegacyCalendar:
    """The values of a file that need rebasing, and the time zone of its writer.

    `datetimes`: dates and 64-bit timestamps. `int96`: INT96 timestamps.
    """

    datetimes: bool
    int96: bool
    zone: str

    @staticmethod
    def read_metadata(footer: Mapping[bytes, bytes] | None) -> LegacyCalendar | None:
        """Read the calendar from a Parquet footer's key-value metadata, by Spark's rules.

        None if nothing needs rebasing: the file is not from Spark, or its writer used today's calendar.
        """
        if not footer or (version := footer.get(_VERSION)) is None:
            return None
        datetimes, int96 = version < b"3.0.0" or _DATES in footer, version < b"3.1.0" or _INT96 in footer
        zone = footer[_ZONE].decode() if _ZONE in footer else local_zone()
        return LegacyCalendar(datetimes, int96, zone) if datetimes or int96 else None

    def rebase(self, array: pa.Array, is_int96: Iterator[bool]) -> pa.Array:
        """Rebase the dates and timestamps in an Arrow column of the file, which may be nested.

        `is_int96` yields, for each leaf column of the file in turn, whether its physical type is INT96. Raises
        `UnsupportedFeature` for an unknown time zone.
        """
        kind = array.type
        if pa.types.is_struct(kind):
            members = [self.rebase(array.field(i), is_int96) for i in range(kind.num_fields)]
            return pa.StructArray.from_arrays(members, fields=list(kind), mask=_nulls(array))
        if pa.types.is_map(kind):
            array = reset_offset(array)
            keys, items = self.rebase(array.keys, is_int96), self.rebase(array.items, is_int96)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=_nulls(array))
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            array = reset_offset(array)
            values = self.rebase(array.values, is_int96)
            return type(array).from_arrays(array.offsets, values, type=kind, mask=_nulls(array))
        return self._leaf(array, next(is_int96))

    def _leaf(self, array: pa.Array, is_int96: bool) -> pa.Array:
        kind = array.type
        if pa.types.is_date32(kind) and self.datetimes:
            return _convert_before(array, pa.int32(), _GREGORIAN_DAY, rebase_days)
        if pa.types.is_timestamp(kind) and (self.int96 if is_int96 else self.datetimes and kind.tz is not None):
            micros = array.cast(pa.timestamp("us", kind.tz))
            first = _JAVA_ZONES_MICROS if _fixed_offset(self.zone) is None else _GREGORIAN_MICROS + _DAY
            return _convert_before(micros, pa.int64(), first, lambda v: rebase_micros(v, self.zone)).cast(kind)
        return array

    def reliable_bounds(self, bounds: pa.Array | None) -> pa.Array | None:
        """Return the footer's bounds, null where rebasing may change the value; None for None."""
        if bounds is not None and pa.types.is_date(bounds.type):
            return _null_before(bounds, pa.scalar(_GREGORIAN_DAY, pa.int32()).cast(pa.date32()))
        if bounds is not None and pa.types.is_timestamp(bounds.type):
            first = pa.scalar(_JAVA_ZONES_MICROS, pa.int64()).cast(pa.timestamp("us", bounds.type.tz))
            return _null_before(bounds, first)
        return bounds


def _null_before(bounds: pa.Array, first: pa.Scalar) -> pa.Array:
    return pc.if_else(pc.less(bounds, first), None, bounds)


def _convert_before(
    array: pa.Array, raw: pa.DataType, first: int, convert: Callable[[np.ndarray], np.ndarray]
) -> pa.Array:
    """Apply `convert` to the values before `first`, as integers of the Arrow type `raw`; nulls stay null."""
    numbers = array.cast(raw)
    old = pc.fill_null(pc.less(numbers, pa.scalar(first, raw)), False)
    if not pc.any(old).as_py():
        return array
    changed = convert(numbers.filter(old).to_numpy())
    return pc.replace_with_mask(numbers, old, pa.array(changed, raw)).cast(array.type)


def rebase_days(days: np.ndarray) -> np.ndarray:
    """Convert days since 1970, before 1582-10-15, from the Julian to the Gregorian calendar, preserving the date.

    A date that only the Julian calendar has, such as 1500-02-29, becomes the next day.
    """
    c = days.astype(np.int64) + _EPOCH_JULIAN_DAY + 32_082
    d = (4 * c + 3) // 1461
    e = c - (1461 * d) // 4
    m = (5 * e + 2) // 153
    day, month, year = e - (153 * m + 2) // 5 + 1, m + 3 - 12 * (m // 10), d - 4800 + m // 10
    a = (14 - month) // 12
    y, n = year + 4800 - a, month + 12 * a - 3
    number = day + (153 * n + 2) // 5 + 365 * y + y // 4 - y // 100 + y // 400 - 32_045
    result: np.ndarray = number - _EPOCH_JULIAN_DAY
    return result


def rebase_micros(micros: np.ndarray, zone: str) -> np.ndarray:
    """Convert instants before 1900, in microseconds since 1970, from the legacy calendar and Java's old time zones.

    The local date and time in `zone` are preserved. Raises `UnsupportedFeature` for an unknown zone.
    """
    clock = micros + _java_offset(zone)
    day = clock // _DAY
    day = np.where(day < _GREGORIAN_DAY, rebase_days(day), day)
    local = pa.array(day * _DAY + clock % _DAY, pa.timestamp("us"))
    if (fixed := _fixed_offset(zone)) is not None:
        return local.cast(pa.int64()).to_numpy() - fixed
    instants = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="latest")
    result: np.ndarray = instants.cast(pa.int64()).to_numpy()
    return result


def _java_offset(zone: str) -> int:
    """Return the UTC offset that Java's old classes use before 1900, in microseconds.

    It is the zone's current standard offset. Raises `UnsupportedFeature` for an unknown zone.
    """
    if (fixed := _fixed_offset(zone)) is not None:
        return fixed
    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise UnsupportedFeature(
            f"the time zone {zone!r} of a data file", "It is not in this machine's time zone database."
        ) from error
    offsets = [info.utcoffset(datetime(2024, month, 1)) or timedelta() for month in (1, 7)]
    return min(offsets) // timedelta(microseconds=1)


def _fixed_offset(zone: str) -> int | None:
    """Return the offset of a fixed-offset zone, such as UTC or +01:00, in microseconds; None for regions."""
    if zone in ("UTC", "GMT", "Z", "Etc/UTC"):
        return 0
    if (match := _OFFSET.fullmatch(zone)) is None:
        return None
    sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0)) // timedelta(microseconds=1)
    return -offset if sign == "-" else offset


def local_zone() -> str:
    """Return this machine's time zone as Java determines it: from `TZ` or `/etc/localtime`, else "UTC".

    Used for files that do not record their writer's zone.
    """
    if (named := os.environ.get("TZ", "").lstrip(":")) and not named.startswith("/"):
        return named
    _, separator, name = os.path.realpath("/etc/localtime").partition("/zoneinfo/")
    return name if separator else "UTC"


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
