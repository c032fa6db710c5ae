"""Sanitizing of literals for reports and logs: a literal is replaced by its type and magnitude, or by a hash.

Reports must not contain the values that people filter by, but allow comparing filters: `(2-digit-int)`,
`(date-3-days-ago)`, `(hash-7f6e2a01)`. The forms are those of Iceberg's `ExpressionUtil.sanitize`.
"""

from __future__ import annotations

import math
import re
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakescan.common.hashing import murmur3
from lakescan.expressions.literals import plain_value

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?([-+]\d{2}:\d{2})?")
_ABOUT_NOW, _MOST_HOURS, _MOST_DAYS = timedelta(minutes=5), 3 * 24, 90
_BUCKETS = 2**31 - 1
_ABBREVIATED = 10  # Iceberg's LONG_IN_PREDICATE_ABBREVIATION_THRESHOLD


def sanitize_literal(value: Any, now: datetime | None = None) -> str:
    """Return the sanitized form of a literal.

    Args:
        value: A Python value or an Arrow scalar.
        now: The time that dates and timestamps are compared with; by default the current time.
    """
    now = now or datetime.now(UTC)
    value = plain_value(value) if isinstance(value, pa.Scalar) else value
    match value:
        case bool():
            return _hash_text(str(value).lower())
        case int() | np.integer():
            return _number(float(value), "int")
        case float() | np.floating():
            return _number(float(value), "float")
        case Decimal() | uuid.UUID():
            return _hash_text(str(value))
        case bytes():
            return _hash_text(value.hex())
        case datetime():
            return _timestamp(value, now)
        case date():
            return _date(value, now)
        case time():
            return "(time)"
        case np.datetime64():
            return "(timestamp)"
        case str():
            return _text(value, now)
    return "(unknown)"


def sanitize_list(values: list[Any], now: datetime | None = None) -> list[str]:
    """Return the sanitized forms of the literals of a list.

    Of a list with at least 10 literals, only the first 10 distinct forms are returned, and a text with the number of
    others.
    """
    shown = [sanitize_literal(each, now) for each in values]
    if len(shown) < _ABBREVIATED:
        return shown
    some = list(dict.fromkeys(shown))[:_ABBREVIATED]
    hidden = len(shown) - len(some)
    return [*some, f"... ({hidden} values hidden, {len(shown)} in total)"] if hidden else some


def _number(value: float, kind: str) -> str:
    if not math.isfinite(value):
        return f"(1-digit-{kind})"
    digits = 1 if value == 0 else int(math.log10(abs(value))) + 1
    return f"({digits}-digit-{kind})"


def _date(value: date, now: datetime) -> str:
    days = (now.date() - value).days
    if days == 0:
        return "(date-today)"
    return f"(date-{abs(days)}-days-{_direction(days)})" if abs(days) < _MOST_DAYS else "(date)"


def _timestamp(value: datetime, now: datetime) -> str:
    past = now - (value if value.tzinfo is not None else value.replace(tzinfo=UTC))
    if abs(past) < _ABOUT_NOW:
        return "(timestamp-about-now)"
    hours = abs(past) // timedelta(hours=1)
    direction = _direction(1 if past > timedelta() else -1)
    if hours <= _MOST_HOURS:
        return f"(timestamp-{hours}-hours-{direction})"
    return f"(timestamp-{hours // 24}-days-{direction})" if hours < _MOST_DAYS * 24 else "(timestamp)"


def _direction(past: int) -> str:
    return "ago" if past > 0 else "from-now"


def _text(value: str, now: datetime) -> str:
    try:
        if _DATE.fullmatch(value):
            return _date(date.fromisoformat(value), now)
        if _TIMESTAMP.fullmatch(value):
            return _timestamp(datetime.fromisoformat(value), now)
    except ValueError:
        return _hash_text(value)
    return "(time)" if _TIME.fullmatch(value) else _hash_text(value)


def _hash_text(text: str) -> str:
    return f"(hash-{(murmur3(text.encode(errors='replace')) & _BUCKETS) % _BUCKETS:08x})"
