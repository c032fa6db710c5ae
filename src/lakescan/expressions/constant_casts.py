"""Casts of constants in filters: those of values that stay what they are, or that have one meaning in all engines."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from lakescan.common import types as t
from lakescan.expressions.instants import Instant
from lakescan.expressions.text_values import offset_of_wall, value_of_text, wall_of_text

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TIMES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME")
_WALLS = ("TIMESTAMPNTZ", "DATETIME")
_MOVING = ("now", "today", "tomorrow", "yesterday")
# A day from the ends of Python's range, so that an offset from UTC fits.
_FIRST, _LAST = datetime(1, 1, 2) - datetime(1970, 1, 1), datetime(9999, 12, 31) - datetime(1970, 1, 1)
_WHOLE = re.compile(r" *[+-]?[0-9]+ *")
_DOUBLE = re.compile(r" *([+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)|nan) *", re.IGNORECASE)


class UnknownCast(ValueError):
    """A cast that is not evaluated here."""


def cast_constant(value: Any, target: str, parameters: tuple[int, ...] = ()) -> Any:
    """Return a constant as a value of an SQL type, by its name in capitals; null is null in all of them.

    Raises `ValueError` for a value that is not of the type, so that it would be rounded, cut or rewritten, and
    `UnknownCast` for types that are not known here.
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
    """Parse a date; one that Python's type cannot hold is numpy's."""
    if text.strip(" ").lower().startswith(_MOVING):
        raise UnknownCast("it is another day in each time zone")
    days = int(value_of_text(text, t.DATE))
    ordinal = days + date(1970, 1, 1).toordinal()
    return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else np.datetime64(days, "D")


def _timestamp(text: str, *, has_zone: bool) -> datetime | Instant:
    """Parse a timestamp; one that Python's type cannot hold is an `Instant`."""
    if text.strip(" ").lower().startswith((*_MOVING, "epoch")):
        raise UnknownCast("it is another time in each time zone")
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
    with np.errstate(over="ignore"):  # it is infinite then, as in Spark
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
        raise ValueError(f"it does not have at most {precision} digits, {scale} of them behind the point")
    return value
