"""Columns of every type with its extremes, and SQL's filter results on them, in plain Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa

NAN, INF = float("nan"), float("inf")
ROWS = 12


def _decimals(precision: int, scale: int, *some: str) -> pa.Array:
    most = Decimal((0, (9,) * precision, -scale))
    values = [most.copy_negate(), *map(Decimal, some), most]
    with localcontext(prec=80):
        return pa.array([v.quantize(Decimal((0, (1,), -scale))) for v in values], pa.decimal128(precision, scale))


def _times(unit: str, zone: str | None, *some: int) -> pa.Array:
    return pa.array(some, pa.int64()).cast(pa.timestamp(unit, zone))


def _moments(zone: str | None) -> pa.Array:
    first, last = -62135596800000000, 253402300799999999  # the years 1 and 9999
    return _times("us", zone, first, -2208988800000001, -1001, -1, 0, 1, 999, 1700000000123456, last)


_VALUES: dict[str, pa.Array] = {
    "i": pa.array([-(2**31), 1 - 2**31, -11, -1, 0, 7, 2**31 - 2, 2**31 - 1], pa.int32()),
    "l": pa.array([-(2**63), 1 - 2**63, -1, 0, 2**53 + 1, 2**31, 2**63 - 2, 2**63 - 1], pa.int64()),
    "f": pa.array([-INF, -3.4028235e38, -0.0, 0.0, 1e-45, 0.1, 3.4028235e38, INF, NAN], pa.float32()),
    "g": pa.array([-INF, -1e308, -0.0, 0.0, 5e-324, 0.1, 1 / 3, INF, NAN], pa.float64()),
    "b": pa.array([True, False]),
    "d9": _decimals(9, 2, "-10.65", "-0.01", "0", "0.29", "10.65"),
    "d20": _decimals(20, 2, "12345678901234567.89", "12345678901234567.91", "0.57", "-0.03"),
    "d38": _decimals(38, 5, "-1.00001", "0", "3.1", "1234567890123456789012345678901.12345"),
    "price": _decimals(9, 2, "-10.65", "-0.01", "0", "10.65").slice(1, 4),  # truncating the least needs a tenth digit
    "whole": _decimals(38, 0, "-9223372036854775809", "9223372036854775807", "9223372036854775809", "0"),
    "day": pa.array([-719162, -141428, -1, 0, 364, 20000, 2932896], pa.int32()).cast(pa.date32()),
    "wall": _moments(None),
    "instant": _moments("UTC"),
    "fine": _times("ns", None, -(2**63), 1 - 2**63, -1_000_001, -1, 0, 1, 1000, 1234567891234567891, 2**63 - 1),
    "clock": pa.array([0, 1, 86_399_999_999], pa.int64()).cast(pa.time64("us")),
    "s": pa.array(
        [
            *("", "\x00", "%_\\a", "z", "a" * 40, "a" * 40 + "b", "\u00e9" * 20, "\U0010ffff" * 20),
            *("a" * 15 + "\ud7ff" * 2, "a" * 15 + "\uffff" * 3, "a" * 32 + "\U0010ffff" + "z"),
        ]
    ),
    "x": pa.array([b"", b"\x00", b"\xff" * 20, b"\x80", b"\x7f\xff" * 9, b"abc" * 10, b"abc" * 10 + b"d"]),
}


def table() -> pa.Table:
    """Return twelve rows, numbered by `k` and by pairs in `pair`; each column has all of its values, most a null."""
    columns: dict[str, pa.Array] = {"k": pa.array(range(ROWS)), "pair": pa.array([n // 2 for n in range(ROWS)])}
    for place, (name, values) in enumerate(_VALUES.items()):
        known = pa.concat_arrays([values, pa.nulls(1, values.type)])
        columns[name] = known.take(pa.array([(n * 5 + place) % len(known) for n in range(ROWS)]))
        if len(values) >= ROWS - 1 or len(known) % 5 == 0:
            columns[name] = known.take(pa.array([(n + place) % len(known) for n in range(ROWS)]))
    return pa.table(columns)


def key(value: Any) -> Any:
    """Convert a value or literal to one that Python orders as SQL does: NaN last, times as whole numbers."""
    if not isinstance(value, pa.Scalar) or not value.is_valid:
        return value if not isinstance(value, pa.Scalar) else None
    kind = value.type
    if pa.types.is_temporal(kind):
        return value.value
    plain = value.as_py()
    return (plain != plain, 0.0 if plain != plain else plain) if pa.types.is_floating(kind) else plain


_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def sql_comparison(op: str, value: Any, literal: Any) -> bool | None:
    """Return the result of a comparison for a row: unknown (None) if the value is null."""
    return None if value is None else bool(_COMPARED[op](value, literal))


def both(one: bool | None, other: bool | None) -> bool | None:
    """Compute SQL's AND."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def sql_not(of: bool | None) -> bool | None:
    """Compute SQL's NOT."""
    return None if of is None else not of


def sql_like(text: str | None, pattern: str) -> bool | None:
    """Compute SQL's LIKE, with a backslash as its escape."""
    if text is None:
        return None
    pieces = re.findall(r"\\(.)|(.)", pattern, re.DOTALL)
    regex = "".join(
        re.escape(escaped) or {"%": ".*", "_": "."}.get(plain, re.escape(plain)) for escaped, plain in pieces
    )
    return re.fullmatch(regex, text, re.DOTALL) is not None


def as_numbers(values: pa.ChunkedArray) -> list[Any]:
    """Convert all values by `key`."""
    return [key(value) for chunk in values.chunks for value in chunk]


def same(found: Any, wanted: Any, kind: pa.DataType) -> bool:
    """Return whether the result of `min` or `max` is the value with the wanted key."""
    if found is None or wanted is None:
        return found is None and wanted is None
    if isinstance(found, pa.Scalar):  # the first nanosecond
        return bool(found.value == wanted)
    if isinstance(found, np.datetime64):
        return bool(found.astype(np.int64) == wanted)
    return bool(key(pa.scalar(found, kind)) == wanted)
