"""Convert Avro records to Arrow columns: types from the writer's schema, with field ids; key-value arrays as maps.

Iceberg specification, "Avro" data type mappings.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from lakescan.errors import UnsupportedFeature

_PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL = {"date": pa.date32(), "time-micros": pa.time64("us"), "uuid": pa.binary(16)}
_TIMESTAMPS = {"timestamp-millis": "ms", "timestamp-micros": "us", "timestamp-nanos": "ns"}
_NO_NAMES: Mapping[int, str] = {}


def arrow_field(node: Mapping[str, Any], names: Mapping[int, str] = _NO_NAMES) -> pa.Field:
    """The Arrow field of a record's field; `names` renames fields by id."""
    return _field(node["name"], node["type"], node.get("field-id"), names)


def field_of_type(node: Mapping[str, Any], kind: pa.DataType, names: Mapping[int, str]) -> pa.Field:
    """The Arrow field of a record's field whose Arrow type is already known."""
    return _field_with_id(node["name"], kind, node.get("field-id"), names)


def _field(name: str, node: Any, field_id: int | None, names: Mapping[int, str]) -> pa.Field:
    return _field_with_id(name, _arrow_type(node, names), field_id, names)


def _field_with_id(name: str, kind: pa.DataType, field_id: int | None, names: Mapping[int, str]) -> pa.Field:
    metadata = {"avro.name": name}
    if field_id is not None:
        metadata["PARQUET:field_id"] = str(field_id)
        name = names.get(field_id, name)
    return pa.field(name, kind, metadata=metadata)


def _arrow_type(node: Any, names: Mapping[int, str]) -> pa.DataType:
    if isinstance(node, list):
        return _arrow_type(only_type(node), names)
    if isinstance(node, str):
        return _PRIMITIVE[node]
    logical = str(node.get("logicalType", ""))
    if logical == "decimal":
        return pa.decimal128(int(node["precision"]), int(node.get("scale", 0)))
    if (unit := _TIMESTAMPS.get(logical.removeprefix("local-"))) is not None:
        zoned = node.get("adjust-to-utc", not logical.startswith("local"))
        return pa.timestamp(unit, "UTC" if zoned else None)
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    return _nested_type(node, names)


def only_type(node: Any) -> Any:
    """The type in an optional union (a union with null); other types unchanged."""
    if not isinstance(node, list):
        return node
    options = [n for n in node if n != "null"]
    if len(options) > 1:
        raise UnsupportedFeature("Avro unions of several types")
    return options[0] if options else "null"


def _nested_type(node: Mapping[str, Any], names: Mapping[int, str]) -> pa.DataType:
    match node["type"]:
        case "record":
            return pa.struct([arrow_field(f, names) for f in node["fields"]])
        case "array" if node.get("logicalType") == "map":
            key, value = (arrow_field(f, names) for f in only_type(node["items"])["fields"])
            return pa.map_(key.with_nullable(False), value)
        case "array":
            return pa.list_(_field("element", node["items"], node.get("element-id"), names))
        case "map":
            key = _field("key", "string", node.get("key-id"), names).with_nullable(False)
            return pa.map_(key, _field("value", node["values"], node.get("value-id"), names))
        case "fixed":
            return pa.binary(int(node["size"]))
        case "enum":
            return pa.string()
    return _arrow_type(node["type"], names)


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Convert values from fastavro to an Arrow array of a type from `arrow_field`."""
    if pa.types.is_struct(kind):
        return _struct(values, kind)
    if pa.types.is_list(kind):
        offsets, mask = _offsets(values)
        items = column(list(chain.from_iterable(v for v in values if v is not None)), kind.value_type)
        return pa.ListArray.from_arrays(offsets, items, type=kind, mask=mask)
    if pa.types.is_map(kind):
        pairs = [None if v is None else _pairs(v, kind) for v in values]
        offsets, mask = _offsets(pairs)
        flat = list(chain.from_iterable(p for p in pairs if p is not None))
        keys = column([k for k, _ in flat], kind.key_type)
        items = column([v for _, v in flat], kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    if pa.types.is_fixed_size_binary(kind):
        values = [getattr(v, "bytes", v) for v in values]
    return pa.array(values, kind)


def _struct(values: list[Any], kind: pa.DataType) -> pa.Array:
    if not kind.num_fields:
        return pa.array([None if v is None else {} for v in values], kind)
    members = [
        column([None if v is None else v[_key(kind.field(i))] for v in values], kind.field(i).type)
        for i in range(kind.num_fields)
    ]
    return pa.StructArray.from_arrays(
        members, fields=list(kind), mask=pa.array([v is None for v in values], pa.bool_())
    )


def _pairs(value: Any, kind: pa.DataType) -> list[tuple[Any, Any]]:
    """The entries of a map, from an Avro map or an array of key-value records."""
    if isinstance(value, dict):
        return list(value.items())
    key, item = _key(kind.key_field), _key(kind.item_field)
    return [(entry[key], entry[item]) for entry in value if entry is not None]


def _key(field: pa.Field) -> str:
    """The field's name in Avro records."""
    return str(field.metadata[b"avro.name"].decode())


def _offsets(values: list[Any]) -> tuple[pa.Array, pa.Array | None]:
    lengths = np.array([0 if v is None else len(v) for v in values], dtype=np.int64)
    nulls = [v is None for v in values]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return offsets, pa.array(nulls) if any(nulls) else None
