"""Avro files (manifest lists, manifests) as Arrow tables, their columns named by the specification's field ids.

Names differ between writers and format versions; ids do not. Columns that the caller does not name are not decoded.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa

from lakescan.errors import CorruptMetadata

_PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "date": pa.date32(),
    "time-micros": pa.time64("us"),
    "uuid": pa.binary(16),
}


@dataclass(frozen=True)
class AvroFile:
    """A decoded file: its rows, the key-value metadata of its header."""

    rows: pa.Table
    metadata: Mapping[str, str]


def read_avro(data: bytes, names: Mapping[int, str], source: str) -> AvroFile:
    """Decode a file of records; `names` maps the field ids that are wanted to the column names to use.

    Wanted fields under a record keep their nesting. Raises `CorruptMetadata` for what is not Avro.
    """
    try:
        reader = fastavro.reader(io.BytesIO(data))
        schema: dict[str, Any] = json.loads(reader.metadata["avro.schema"])
        wanted = _pruned(schema, names)
        records = list(fastavro.reader(io.BytesIO(data), reader_schema=wanted))
    except (ValueError, EOFError, KeyError, IndexError, TypeError) as error:
        raise CorruptMetadata(f"{source} is not an Avro file that can be read: {error}") from error
    arrow = pa.schema([_arrow_field(f, names) for f in wanted["fields"]])
    keys = [f["name"] for f in wanted["fields"]]
    columns = [_column([r[key] for r in records], field.type) for key, field in zip(keys, arrow, strict=True)]
    metadata = {k: v if isinstance(v, str) else v.decode() for k, v in reader.metadata.items()}
    return AvroFile(pa.Table.from_arrays(columns, schema=arrow), metadata)


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            return pa.array([{} for _ in values], kind)
        return pa.StructArray.from_arrays(
            [
                _column([None if v is None else v[_key(kind.field(i))] for v in values], kind.field(i).type)
                for i in range(kind.num_fields)
            ],
            fields=list(kind),
            mask=pa.array([v is None for v in values], pa.bool_()),
        )
    if pa.types.is_fixed_size_binary(kind):
        values = [getattr(v, "bytes", v) for v in values]
    return pa.array(values, kind)


def _key(field: pa.Field) -> str:
    """The name under which a record has the field."""
    return str(field.metadata[b"avro.name"].decode())


def _pruned(schema: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    """The record schema with the wanted fields only."""
    fields = []
    for each in schema["fields"]:
        field_id = each.get("field-id")
        if field_id is not None and field_id not in names:
            continue
        if field_id is None and each["name"] not in names.values():
            continue
        fields.append({**each, "type": _prune_type(each["type"], names)})
    return {**schema, "fields": fields}


def _prune_type(node: Any, names: Mapping[int, str]) -> Any:
    if isinstance(node, list):
        return [_prune_type(n, names) for n in node]
    if isinstance(node, dict) and node["type"] == "record" and not _is_partition(node):
        return _pruned(node, names)
    return node


def _is_partition(node: Mapping[str, Any]) -> bool:
    """The partition record has the table's own field ids (from 1000): it is kept whole."""
    ids = [f.get("field-id") for f in node["fields"]]
    return node.get("name") == "r102" or all(i is not None and i >= 1000 for i in ids)


def _arrow_field(node: Mapping[str, Any], names: Mapping[int, str]) -> pa.Field:
    field_id = node.get("field-id")
    name = names.get(field_id, node["name"]) if field_id is not None else node["name"]
    metadata = {"avro.name": node["name"], **({"field-id": str(field_id)} if field_id is not None else {})}
    return pa.field(name, _arrow_type(node["type"], names), metadata=metadata)


def _arrow_type(node: Any, names: Mapping[int, str]) -> pa.DataType:
    if isinstance(node, list):
        return _arrow_type(next((n for n in node if n != "null"), "null"), names)
    if isinstance(node, str):
        return _PRIMITIVE[node]
    logical = node.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(int(node["precision"]), int(node.get("scale", 0)))
    if logical in ("timestamp-micros", "timestamp-nanos", "local-timestamp-micros"):
        zoned = node.get("adjust-to-utc", not logical.startswith("local"))
        return pa.timestamp("ns" if logical.endswith("nanos") else "us", "UTC" if zoned else None)
    if logical in ("date", "time-micros", "uuid"):
        return _PRIMITIVE[logical]
    match node["type"]:
        case "record":
            return pa.struct([_arrow_field(f, names) for f in node["fields"]])
        case "array":
            return pa.list_(_arrow_type(node["items"], names))
        case "map":
            return pa.map_(pa.string(), _arrow_type(node["values"], names))
        case "fixed":
            return pa.binary(int(node["size"]))
    return _arrow_type(node["type"], names)
