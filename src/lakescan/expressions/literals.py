"""Date and timestamp literals as nanoseconds since 1970, without Python's limits (years 1 to 9999, microseconds)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakescan.common import types as t
from lakescan.expressions.text_casts import offset_of_wall, value_of_text, wall_of_text

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = 1_000
NANOSECONDS_A_DAY = 86_400 * 10**9
# Nanoseconds per fixed-length unit of numpy.
_UNITS = {"W": 7 * NANOSECONDS_A_DAY, "D": NANOSECONDS_A_DAY, "h": 3_600 * 10**9, "m": 60 * 10**9, "s": 10**9}
_UNITS |= {"ms": 10**6, "us": _MICROSECOND, "ns": 1}
_NO_TIME = np.iinfo(np.int64).min
# Spark and ISO 8601 write a sign before years that do not have four digits. Here it is optional before five or six
# digits. Python's parser rejects such years.
_FAR_YEAR = re.compile(r"([+-]\d{4,6}|\d{5,6})(-\d{2}-\d{2})")


@dataclass(frozen=True)
class Instant:
    """A wall-clock time in nanoseconds since 1970, and its UTC offset in nanoseconds, None if not given."""

    wall: int
    offset: int | None = None

    def __str__(self) -> str:
        shown = f"{np.datetime64(self.wall // _MICROSECOND, 'us')}{self.wall % _MICROSECOND:03}"
        return shown if self.offset is None else f"{shown} (UTC{self.offset / (3600 * 10**9):+g}h)"

    @property
    def utc(self) -> int:
        """Nanoseconds since 1970 in UTC. A wall-clock time without an offset is taken as UTC."""
        return self.wall - (self.offset or 0)


def instant_of(value: Any) -> Instant:
    """Convert a literal (`datetime`, `date`, an Arrow scalar, or a pandas or NumPy timestamp) to an `Instant`.

    Raises `TypeError` for other values, NaT, and units finer than nanoseconds.
    """
    if isinstance(value, Instant):
        return value
    if isinstance(value, pa.Scalar) and value.is_valid and (unit := _unit_of(value.type)) in _UNITS:
        is_utc = pa.types.is_timestamp(value.type) and value.type.tz is not None
        return Instant(value.value * _UNITS[unit], 0 if is_utc else None)
    if isinstance(value, np.datetime64):
        return Instant(_numpy_nanoseconds(value))
    if isinstance(value, datetime):
        offset = value.utcoffset()
        wall = (value.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1) * _MICROSECOND
        finer = getattr(value, "nanosecond", 0)  # pandas
        return Instant(
            int(wall) + finer, None if offset is None else offset // timedelta(microseconds=1) * _MICROSECOND
        )
    if isinstance(value, date):
        return Instant((value - _EPOCH.date()).days * NANOSECONDS_A_DAY)
    raise TypeError("not a date or timestamp: write it as '2026-01-31' or '2026-01-31 12:00:00'")


def _unit_of(kind: pa.DataType) -> str:
    """Return NumPy's name for the unit of an Arrow timestamp or date type (`us`, `D`); empty for other types."""
    if pa.types.is_timestamp(kind):
        return str(kind.unit)
    return "D" if pa.types.is_date32(kind) else ""


def is_far(text: str) -> bool:
    """Return whether a text begins with a date whose year has a sign or more than four digits.

    Python cannot parse such dates.
    """
    return _FAR_YEAR.match(text) is not None


def _numpy_nanoseconds(value: np.datetime64) -> int:
    if np.isnat(value):
        raise TypeError("NaT is not a date or timestamp")
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M"):
        value, unit, count = value.astype("datetime64[D]"), "D", 1
    if unit not in _UNITS:
        raise TypeError(f"the unit {unit} is finer than nanoseconds")
    return int(value.astype(np.int64)) * count * _UNITS[unit]


def plain_value(value: pa.Scalar) -> Any:
    """Convert a scalar to a Python value, or to `numpy.datetime64` in UTC for times outside Python's range.

    The smallest 64-bit timestamp stays an Arrow scalar, because numpy and pandas interpret it as NaT.
    """
    if value.is_valid and pa.types.is_timestamp(value.type) and value.value == _NO_TIME:
        return value
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        if pa.types.is_date(value.type):
            return np.datetime64(value.cast(pa.date32()).value, "D")
        if pa.types.is_timestamp(value.type):
            return np.datetime64(value.value, value.type.unit)
        raise


def text_of(value: pa.Scalar) -> str:
    """Format an Arrow date or timestamp as text that Spark can cast: years with more than four digits have a sign."""
    text = str(value.cast(pa.string()).as_py())
    return f"+{text}" if is_far(text) and text[0] != "-" else text


_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TIMES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME")
_WALLS = ("TIMESTAMPNTZ", "DATETIME")
_MOVING = ("now", "today", "tomorrow", "yesterday")
# One day inside Python's range, so that an offset from UTC fits.
_FIRST, _LAST = datetime(1, 1, 2) - datetime(1970, 1, 1), datetime(9999, 12, 31) - datetime(1970, 1, 1)
_WHOLE = re.compile(r" *[+-]?[0-9]+ *")
_DOUBLE = re.compile(r" *([+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)|nan) *", re.IGNORECASE)


class UnknownCast(ValueError):
    """Raised for a cast that lakescan does not evaluate."""


def cast_constant(value: Any, target: str, parameters: tuple[int, ...] = ()) -> Any:
    """Cast a Python value to an SQL type, given by its name in capitals; null stays null.

    `parameters` are the type's, such as precision and scale. Raises `ValueError` for a value that the type cannot
    represent exactly, and its subclass `UnknownCast` for a cast that lakescan does not evaluate.
    """
    if value is None:
        return None
    if target == "DATE" and isinstance(value, str | date):
        return _date(str(value))
    if target in _TIMES and isinstance(value, str | date):
        return _timestamp(str(value), has_zone=target not in _WALLS)
    if target == "TIME" and isinstance(value, str) and not parameters:
        return (datetime.min + timedelta(microseconds=int(value_of_text(value, t.TIME)))).time()
    if target in ("FLOAT", "DOUBLE") and not isinstance(value, bool | bytes | date):
        return _floating(value, target)
    if target in _BITS and not parameters:
        return _whole(value, _BITS[target])
    if target == "DECIMAL" and type(value) in (int, Decimal):
        return _decimal(value, *(*parameters, *(10, 0)[len(parameters) :]))
    if target in ("TEXT", "VARCHAR") and isinstance(value, str):
        return value
    if target == "BINARY" and isinstance(value, str | bytes):
        return value
    raise UnknownCast(f"a cast of {value!r} to it is not known")


def _date(text: str) -> date | np.datetime64:
    """Parse a date. A date outside Python's range becomes `numpy.datetime64`.

    Raises `ValueError` for other text, and `UnknownCast` for words such as `today`, which depend on the time zone.
    """
    if text.strip(" ").lower().startswith(_MOVING):
        raise UnknownCast("it depends on the time zone")
    days = int(value_of_text(text, t.DATE))
    ordinal = days + date(1970, 1, 1).toordinal()
    return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else np.datetime64(days, "D")


def _timestamp(text: str, *, has_zone: bool) -> datetime | Instant:
    """Parse a timestamp; one outside Python's range or precision becomes an `Instant`.

    Without `has_zone`, a time zone in the text is ignored. Raises `ValueError` for other text, and `UnknownCast` for
    words such as `now`, which depend on the time zone.
    """
    if text.strip(" ").lower().startswith((*_MOVING, "epoch")):
        raise UnknownCast("the time depends on the time zone")
    wall = wall_of_text(text)
    zone = wall.zone if has_zone else None
    finer = wall.nanoseconds % 1000
    micros = timedelta(microseconds=wall.nanoseconds // 1000)
    offset = None
    if zone is not None:
        offset = 1000 * offset_of_wall(wall.nanoseconds // 1000, zone)
    if finer or not _FIRST <= micros <= _LAST:
        return Instant(wall.nanoseconds, offset)
    time = datetime(1970, 1, 1) + micros
    return time if offset is None else (time - timedelta(microseconds=offset // 1000)).replace(tzinfo=UTC)


def _floating(value: Any, target: str) -> float:
    if isinstance(value, str) and not _DOUBLE.fullmatch(value):
        raise ValueError("not a number")
    with np.errstate(over="ignore"):  # overflows to infinity, as in Spark
        return float(np.float32(value)) if target == "FLOAT" else float(value)


def _whole(value: Any, bits: int) -> int:
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if type(value) is not int or not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        raise ValueError(f"not a whole number of {bits} bits")
    return value


def _decimal(value: int | Decimal, precision: int, scale: int) -> int | Decimal:
    _, digits, exponent = Decimal(value).as_tuple()
    if -int(exponent) > scale or len(digits) + int(exponent) > precision - scale:
        raise ValueError(f"it has more than {precision} digits, or more than {scale} of them after the decimal point")
    return value
