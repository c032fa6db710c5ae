"""Compare tables as bags of rows, independent of order and of equivalent Arrow types."""

from __future__ import annotations

import math
import uuid
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.variant_utils import VariantUtils

from lakescan.common import types as t
from lakescan.reading.type_promotion import cast_leaf


def with_variants_decoded(table: pa.Table) -> pa.Table:
    """Return the table with each variant, shredded or not and at any depth, as the text of its value."""
    columns = [_decoded(table.column(i).combine_chunks()) for i in range(table.num_columns)]
    return pa.table(columns, names=table.column_names)


def _decoded(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(kind) and "metadata" in [f.name for f in kind]:
        plain = cast_leaf(array, t.VARIANT, "variant").to_pylist()
        texts = [None if v is None else str(VariantUtils.to_python(v["value"], v["metadata"])) for v in plain]
        return pa.array(texts, pa.string())
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind) and kind.num_fields:
        members = [_decoded(array.field(i)) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(members, names=[f.name for f in kind], mask=mask)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, _decoded(array.values), mask=mask)
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(array.offsets, _decoded(array.keys), _decoded(array.items), mask=mask)
    return array


def bag(table: pa.Table) -> Counter[str]:
    """Count the rows of a table, each in a normalized form."""
    columns = [[_plain(v) for v in column.to_pylist()] for column in table.columns]
    return Counter(map(repr, zip(*columns, strict=True))) if columns else Counter({"()": table.num_rows})


def differences(actual: pa.Table, expected: pa.Table) -> str:
    """Describe the differences for a message; empty if both have the same rows under the same column names."""
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
