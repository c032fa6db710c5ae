"""Parses and checks the schema in an Avro file's header, before any record is decoded.

Decoders trust the schema. With a recursive schema, the data decides how deep they recurse, and items of zero bytes can
have any number. So references to named types are replaced by the types here. The schema becomes a tree of limited depth
and size, with a known minimum number of bytes per record.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa

from lakescan.errors import UnsupportedFeature

_LEAST = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}
_DEPTH = 32  # manifests have seven levels
_NODES = 100_000
_DIGITS = 38  # maximum precision of a decimal


@dataclass(frozen=True)
class WrittenSchema:
    """An Avro record schema without type references; `least` is the minimum number of bytes of a record."""

    record: Mapping[str, Any]
    least: int


@functools.lru_cache(maxsize=128)
def parse_avro_schema(text: bytes, depth: int = _DEPTH) -> WrittenSchema:
    """Parse the JSON schema of a file's records; raises `ValueError` if it is invalid or nests deeper than `depth`."""
    try:
        node = json.loads(text)
    except RecursionError:
        raise ValueError(f"its schema nests deeper than {depth} levels") from None
    except ValueError:
        raise ValueError("its schema is not JSON") from None
    record, least = _Resolver(depth).resolve(node, 0)
    if not isinstance(record, dict) or record["type"] != "record":
        raise ValueError("its schema is not a record")
    return WrittenSchema(record, least)


class _Resolver:
    """Resolves an Avro schema: `resolve` returns a type without references, and the minimum bytes of a value.

    Raises `ValueError` for an invalid or recursive type, and one that nests deeper than `depth`.
    """

    def __init__(self, depth: int) -> None:
        self._most = depth
        self._known: dict[str, Mapping[str, Any]] = {}
        self._within: set[str] = set()
        self._uses: dict[str, int] = {}
        self._nodes = 0

    def resolve(self, node: Any, depth: int) -> tuple[Any, int]:
        self._nodes += 1
        if depth > self._most:
            raise ValueError(f"its schema nests deeper than {self._most} levels")
        if self._nodes > _NODES:
            raise ValueError(f"its schema has more than {_NODES:,} types")
        if isinstance(node, str):
            return self._resolve_name(node, depth)
        if isinstance(node, list):
            return self._resolve_union(node, depth)
        if not isinstance(node, dict) or "type" not in node:
            raise ValueError(f"its schema has {_quote(node)} as a type")
        kind = node["type"]
        if isinstance(kind, dict | list):
            return self.resolve(kind, depth + 1)
        if kind in ("record", "fixed", "enum"):
            return self._resolve_definition(node, depth)
        if kind == "array":
            items, least = self.resolve(node.get("items"), depth + 1)
            if least == 0:
                raise ValueError("its schema has arrays whose items take no bytes")
            return {**node, "items": items}, 1
        if kind == "map":
            return {**node, "values": self.resolve(node.get("values"), depth + 1)[0]}, 1
        if isinstance(kind, str) and kind in _LEAST:
            return _check_decimal(node), _LEAST[kind]
        return self._resolve_name(kind, depth)

    def _resolve_name(self, name: Any, depth: int) -> tuple[Any, int]:
        """Resolve the name of a primitive type, or of a type defined earlier; see `_Resolver`."""
        if isinstance(name, str) and name in _LEAST:
            return name, _LEAST[name]
        if name in self._within:
            raise ValueError(f"its schema's type {_quote(name)} contains itself")
        if not isinstance(name, str) or name not in self._known:
            raise ValueError(f"its schema references a type {_quote(name)}, which it does not define")
        return self._resolve_definition(self._known[name], depth)

    def _resolve_union(self, members: list[Any], depth: int) -> tuple[Any, int]:
        if not members or any(isinstance(each, list) for each in members):
            raise ValueError("its schema has an empty union, or a union of unions")
        resolved = [self.resolve(each, depth + 1) for each in members]
        return [kind for kind, _ in resolved], 1 + min(least for _, least in resolved)

    def _resolve_definition(self, node: Mapping[str, Any], depth: int) -> tuple[dict[str, Any], int]:
        name = node.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"its schema has a {node['type']} without a name")
        if name in self._within:
            raise ValueError(f"its schema's type {_quote(name)} contains itself")
        self._known.setdefault(name, node)
        self._uses[name] = used = self._uses.get(name, 0) + 1
        own = {**node, "name": name if used == 1 else f"{name}_use{used}"}
        if node["type"] == "fixed":
            size = node.get("size")
            if not _is_number(size, 0, 2**31 - 1):
                raise ValueError(f"its schema has a fixed type of {_quote(size)} bytes")
            return _check_decimal(own), size
        if node["type"] == "enum":
            if not isinstance(node.get("symbols"), list):
                raise ValueError(f"its schema's enum {_quote(name)} has no symbols")
            return own, 1
        self._within.add(name)
        fields = self._resolve_fields(node.get("fields"), depth)
        self._within.discard(name)
        return {**own, "fields": [each for each, _ in fields]}, sum(least for _, least in fields)

    def _resolve_fields(self, nodes: Any, depth: int) -> list[tuple[dict[str, Any], int]]:
        if not isinstance(nodes, list) or not all(
            isinstance(n, dict) and isinstance(n.get("name"), str) for n in nodes
        ):
            raise ValueError("its schema has a record with unnamed fields")
        ids = [n["field-id"] for n in nodes if n.get("field-id") is not None]
        if wrong := [i for i in ids if not _is_number(i, -(2**31), 2**31 - 1)]:
            raise ValueError(f"its schema has {_quote(wrong[0])} as a field id")
        for each, what in ((ids, "ids"), ([n["name"] for n in nodes], "names")):
            if len(set(each)) < len(each):
                raise ValueError(f"its schema has a record whose fields share {what}")
        fields = []
        for node in nodes:
            kind, least = self.resolve(node.get("type"), depth + 1)
            fields.append(({k: v for k, v in node.items() if k != "default"} | {"type": kind}, least))
        return fields


def _check_decimal(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a type; raises `ValueError` if it is a decimal with an invalid precision or scale."""
    if node.get("logicalType") == "decimal":
        digits, scale = node.get("precision"), node.get("scale", 0)
        if not _is_number(digits, 1, _DIGITS) or not _is_number(scale, 0, digits):
            raise ValueError(f"its schema has a decimal of precision {_quote(digits)} and scale {_quote(scale)}")
    return dict(node)


def _is_number(value: Any, least: int, most: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _quote(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


# Iceberg specification, "Avro" data type mappings.

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
    """Return the Arrow field of an Avro record's field; `names` renames fields by id.

    The Arrow field's metadata has the Avro name and the field id. Raises `UnsupportedFeature` for unions of several
    types.
    """
    return _field(node["name"], node["type"], node.get("field-id"), names)


def field_of_type(node: Mapping[str, Any], kind: pa.DataType, names: Mapping[int, str]) -> pa.Field:
    """Return the Arrow field of an Avro record's field, as `arrow_field` does, with the Arrow type `kind`."""
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
    """Return the type in a union with null, and a type that is not a union unchanged.

    Raises `UnsupportedFeature` for unions of several types.
    """
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
    """Convert Python values from fastavro to an Arrow array of a type from `arrow_field`."""
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
    """Return the (key, value) entries of a map from fastavro: an Avro map, or an array of key-value records."""
    if isinstance(value, dict):
        return list(value.items())
    key, item = _key(kind.key_field), _key(kind.item_field)
    return [(entry[key], entry[item]) for entry in value if entry is not None]


def _key(field: pa.Field) -> str:
    """Return the name in Avro records of a field from `arrow_field`, which may have been renamed."""
    return str(field.metadata[b"avro.name"].decode())


def _offsets(values: list[Any]) -> tuple[pa.Array, pa.Array | None]:
    lengths = np.array([0 if v is None else len(v) for v in values], dtype=np.int64)
    nulls = [v is None for v in values]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return offsets, pa.array(nulls) if any(nulls) else None
