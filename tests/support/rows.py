"""Tables compared as bags of rows, whatever their order and the spelling of their Arrow types."""

from __future__ import annotations

import math
import uuid
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa


def bag(table: pa.Table) -> Counter[str]:
    """The rows of a table, each in one spelling, with how often it occurs."""
    columns = [[_plain(v) for v in column.to_pylist()] for column in table.columns]
    return Counter(map(repr, zip(*columns, strict=True))) if columns else Counter({"()": table.num_rows})


def differences(actual: pa.Table, expected: pa.Table) -> str:
    """What differs, for a message; empty where the tables hold the same rows under the same column names."""
    if actual.column_names != expected.column_names:
        return f"columns {actual.column_names} instead of {expected.column_names}"
    if actual.num_rows != expected.num_rows:
        return f"{actual.num_rows} rows instead of {expected.num_rows}"
    if _is_flat(expected) and expected.num_rows > 50_000:
        return _sorted_differences(actual, expected)
    ours, theirs = bag(actual), bag(expected)
    if ours == theirs:
        return ""
    return f"unexpected {list((ours - theirs).items())[:3]}, missing {list((theirs - ours).items())[:3]}"


def _is_flat(table: pa.Table) -> bool:
    return not any(pa.types.is_nested(f.type) for f in table.schema)


def _sorted_differences(actual: pa.Table, expected: pa.Table) -> str:
    order = [(name, "ascending") for name in expected.column_names]
    ours = actual.cast(expected.schema).sort_by(order)
    return "" if ours.equals(expected.sort_by(order)) else "the same number of rows, with other values"


def _plain(value: Any) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case bytes():
            return value.hex()
        case uuid.UUID():
            return str(value)
        case datetime():
            return (value.astimezone(UTC) if value.tzinfo else value).isoformat()
        case dict():
            return tuple((k, _plain(v)) for k, v in value.items())
        case list() if value and all(isinstance(v, tuple) for v in value):
            return tuple(sorted(repr((_plain(k), _plain(v))) for k, v in value))
        case list():
            return tuple(_plain(v) for v in value)
        case None | bool() | int() | str():
            return value
    return str(value)
