"""Compare tables exactly: names, types, and rows as bags, with the sign of zero; all NaN are equal."""

from __future__ import annotations

import math
import struct
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa


def bag(table: pa.Table) -> Counter[str]:
    """Count rows in a normalized form."""
    return Counter(spelled(table))


def spelled(table: pa.Table) -> list[str]:
    """Return each row in a normalized form."""
    pairs = zip(table.schema, table.columns, strict=True)
    columns = [[repr(_plain(v, f.type)) for v in column.to_pylist()] for f, column in pairs]
    return [" | ".join(row) for row in zip(*columns, strict=True)] if columns else [""] * table.num_rows


def difference(ours: pa.Table, theirs: pa.Table, types: bool = True) -> str:
    """Describe the difference; empty if there is none."""
    if ours.column_names != theirs.column_names:
        return f"columns {ours.column_names} instead of {theirs.column_names}"
    if types and (found := [_shape(f.type) for f in ours.schema]) != (
        wanted := [_shape(f.type) for f in theirs.schema]
    ):
        return f"types {found} instead of {wanted}"
    mine, expected = bag(ours), bag(theirs)
    if mine == expected:
        return ""
    differ = [n for n in range(ours.num_columns) if bag(ours.select([n])) != bag(theirs.select([n]))]
    shown = differ if 0 < len(differ) < 6 else list(range(ours.num_columns))
    mine, expected = bag(ours.select(shown)), bag(theirs.select(shown))
    return (
        f"{ours.num_rows} rows, expected {theirs.num_rows}; of {[ours.column_names[n] for n in shown]}:\n"
        f"    unexpected {list((mine - expected).items())[:3]}\n    missing    {list((expected - mine).items())[:3]}"
    )


def _shape(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{f.name}: {_shape(f.type)}' for f in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{_shape(kind.key_type)}, {_shape(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"list<{_shape(kind.value_type)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    return str(kind).removeprefix("large_")


def _plain(value: Any, kind: pa.DataType) -> Any:
    match value:
        case float():
            return "NaN" if math.isnan(value) else struct.pack("d", value).hex() + f" {value!r}"
        case datetime():
            return (value.astimezone(UTC) if value.tzinfo else value).isoformat()
        case bytes():
            return value.hex()
        case dict():
            return tuple((k, _plain(v, kind.field(k).type)) for k, v in value.items())
        case list() if pa.types.is_map(kind):
            return tuple(sorted(repr((_plain(k, kind.key_type), _plain(v, kind.item_type))) for k, v in value))
        case list():
            return tuple(_plain(v, kind.value_type) for v in value)
    return value
