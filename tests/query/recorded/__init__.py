"""Answers of Spark 4.3 that were recorded; `tests/spark/test_recorded.py` asks Spark for them again."""

from __future__ import annotations

import json
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


def recorded(name: str) -> list[tuple[str, Any]]:
    """The statements of a file, each with Spark's answer."""
    text = (Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8")
    return [(statement, answer) for statement, answer in json.loads(text)]


def in_order(rows: Any) -> list[tuple[Any, ...]]:
    """Rows in an order that does not depend on the engine."""
    return sorted(map(tuple, rows), key=repr)
