"""Casts from strings to other values, and from other values to strings, as in Spark.

The `to_...` functions are the casts from strings that raise `FailedValue` for invalid text instead of returning None.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from lakescan.common import types as t
from lakescan.common.java_numbers import double_text, float_text
from lakescan.expressions.scalar.udf import FailedValue
from lakescan.expressions.text_casts import (
    boolean_of_text,
    date_of_text,
    decimal_of_text,
    double_of_text,
    or_none,
    timestamp_of_text,
    whole_of_text,
)


def _or_fail(value: Any, text: str, kind: str) -> Any:
    if value is None:
        raise FailedValue(f"CAST_INVALID_INPUT: the text {text!r} is no {kind}. try_cast returns null for it")
    return value


def date(text: str) -> int | None:
    """Cast a string to a date, as days since 1970; None if it is invalid."""
    found: int | None = or_none(date_of_text, text)
    return found


def timestamp(text: str) -> int | None:
    """Cast a string to an instant in microseconds since 1970, in UTC unless it has a time zone; None if invalid."""
    found: int | None = or_none(timestamp_of_text, text, t.Timestamp())
    return found


def timestamp_ntz(text: str) -> int | None:
    """Cast a string to a wall-clock time in microseconds since 1970, ignoring time zones; None if it is invalid."""
    found: int | None = or_none(timestamp_of_text, text, t.Timestamp(zoned=False))
    return found


def byte(text: str) -> int | None:
    """Cast a string to an 8-bit integer; None if it is invalid."""
    found: int | None = or_none(whole_of_text, text, 8)
    return found


def short(text: str) -> int | None:
    """Cast a string to a 16-bit integer; None if it is invalid."""
    found: int | None = or_none(whole_of_text, text, 16)
    return found


def int_(text: str) -> int | None:
    """Cast a string to a 32-bit integer; None if it is invalid."""
    found: int | None = or_none(whole_of_text, text, 32)
    return found


def long(text: str) -> int | None:
    """Cast a string to a 64-bit integer; None if it is invalid."""
    found: int | None = or_none(whole_of_text, text, 64)
    return found


def double(text: str) -> float | None:
    """Cast a string to a double; None if it is invalid."""
    found: float | None = or_none(double_of_text, text)
    return found


def boolean(text: str) -> bool | None:
    """Cast a string to a boolean; None if it is invalid."""
    found: bool | None = or_none(boolean_of_text, text)
    return found


def decimal(text: str, precision: int, scale: int) -> Decimal | None:
    """Cast a string to a decimal, rounded half up to `scale` places; None if it is invalid or does not fit."""
    found: Decimal | None = or_none(decimal_of_text, text, precision, scale)
    return found


def _failing(name: str, kind: str, read: Callable[..., Any]) -> Callable[..., Any]:
    def apply(text: str, *more: Any) -> Any:
        return _or_fail(read(text, *more), text, kind)

    apply.__name__ = name
    apply.__doc__ = f"Cast a string to {kind}; raises `FailedValue` if it is invalid."
    return apply


to_date = _failing("to_date", "DATE", date)
to_timestamp = _failing("to_timestamp", "TIMESTAMP", timestamp)
to_timestamp_ntz = _failing("to_timestamp_ntz", "TIMESTAMP_NTZ", timestamp_ntz)
to_byte = _failing("to_byte", "TINYINT", byte)
to_short = _failing("to_short", "SMALLINT", short)
to_int = _failing("to_int", "INT", int_)
to_long = _failing("to_long", "BIGINT", long)
to_double = _failing("to_double", "DOUBLE", double)
to_boolean = _failing("to_boolean", "BOOLEAN", boolean)
to_decimal = _failing("to_decimal", "DECIMAL", decimal)


def double_as_text(value: float) -> str:
    """Format a double as Java's `Double.toString` does: `1.0E10`."""
    return double_text(value)


def float_as_text(value: float) -> str:
    """Format a float as Java's `Float.toString` does."""
    return float_text(value)


def decimal_as_text(value: Decimal) -> str:
    """Format a decimal as Java's `toPlainString` does: without an exponent, with all places."""
    return f"{value:f}"


def binary_as_text(value: bytes) -> str:
    """Decode bytes as UTF-8; invalid bytes become the replacement character."""
    return value.decode("utf-8", "replace")


def date_as_text(days: int) -> str:
    """Format a date, given as days since 1970, as Spark does; years with more than four digits have a sign."""
    year, month, day = civil(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def timestamp_as_text(micros: int) -> str:
    """Format a timestamp, given as microseconds since 1970, as Spark does, without trailing zeros in the fraction."""
    seconds, fraction = divmod(micros, 1_000_000)
    days, clock = divmod(seconds, 86_400)
    text = f"{date_as_text(days)} {clock // 3600:02}:{clock // 60 % 60:02}:{clock % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def civil(days: int) -> tuple[int, int, int]:
    """Return the year, month and day for days since 1970, in the proleptic Gregorian calendar."""
    era, of_era = divmod(days + 719_468, 146_097)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1
