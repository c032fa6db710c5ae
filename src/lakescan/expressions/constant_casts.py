"""Casts of constants in filters: those of values that stay what they are, or that have one meaning in all engines."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from lakescan.expressions.instants import instant_of, is_far

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_TIMES = ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME")
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
        return _date(str(value).strip())
    if target in _TIMES and isinstance(value, str | date):
        return _time(str(value).strip())
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


def _date(text: str) -> date | str:
    instant_of(text)
    return re.split("[T ]", text)[0] if is_far(text) else date.fromisoformat(text[:10])


def _time(text: str) -> datetime | str:
    """Parse a timestamp; it stays text if Python's type cannot hold it."""
    instant_of(text)
    return text if is_far(text) or len(text.partition(".")[2]) > 6 else datetime.fromisoformat(text)


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
