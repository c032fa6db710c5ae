"""Recorded answers of Spark 4.3; `tests/spark/test_recorded.py` compares them with Spark."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

_INT = pa.int32()
IN_QUERIES = {
    "a": pa.table({"k": pa.array([1, 9, None], _INT)}),
    "b": pa.table({"k": pa.array([1, None], _INT)}),
    "e": pa.table({"k": pa.array([], _INT)}),
    "f": pa.table({"k": pa.array([1, 2], _INT)}),
    "a2": pa.table({"k": pa.array([1, 1, 9, 9, None], _INT), "j": pa.array([1, None, 9, None, None], _INT)}),
    "b2": pa.table({"k": pa.array([1, 2], _INT), "j": pa.array([1, None], _INT)}),
}
NAMED = pa.table(
    {
        "i": pa.array([1], _INT),
        "l": pa.array([2], pa.int64()),
        "d": pa.array([1.5], pa.float64()),
        "m": pa.array([Decimal("1.25")], pa.decimal128(10, 2)),
        "s": ["a"],
        "dt": [date(2024, 1, 1)],
        "ts": pa.array([datetime(2024, 1, 1)], pa.timestamp("us", "UTC")),
        "b": [True],
        "a": pa.array([[1, 2]], pa.list_(_INT)),
        "mp": pa.array([[("x", 1)]], pa.map_(pa.string(), _INT)),
        "st": pa.array([{"x": 1, "y": "z"}], pa.struct([("x", _INT), ("y", pa.string())])),
        "ast": pa.array([[{"x": 1}]], pa.list_(pa.struct([("x", _INT)]))),
        "bin": [b"1"],
        "price": ["1.5"],
        "sh": pa.array([1], pa.int16()),
        "ti": pa.array([1], pa.int8()),
        "f": pa.array([1.5], pa.float32()),
    }
)
_MICROS = pa.timestamp("us", "UTC")
_FAR_DAYS = pa.array(
    [0, -719_162, -719_163, -719_528, -719_529, -1_000_000, 2_932_896, 2_932_897, 5_000_000, -141_428, 18_321, None],
    _INT,
)
_FAR_MICROS = pa.array([None if d is None else d * 86_400_000_000 + 47_107_123_456 for d in _FAR_DAYS.to_pylist()])
FAR_YEARS = {  # of the years -768 to 15659
    "d": pa.table({"i": pa.array(range(12), _INT), "d": _FAR_DAYS.cast(pa.date32())}),
    "u": pa.table(
        {"i": pa.array(range(12), _INT), "ts": _FAR_MICROS.cast(_MICROS), "n": _FAR_MICROS.cast(pa.timestamp("us"))}
    ),
}


def recorded(name: str) -> list[tuple[str, Any]]:
    """Return the statements of a file, each with Spark's answer."""
    text = (Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8")
    return [(statement, answer) for statement, answer in json.loads(text)]


def in_order(rows: Any) -> list[tuple[Any, ...]]:
    """Return the rows in an order that does not depend on the engine."""
    return sorted(map(tuple, rows), key=repr)
