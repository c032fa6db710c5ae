"""Iceberg schemas from JSON (specification, appendix C: "Schemas", "Data Types", "JSON single-value serialization")."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal as PyDecimal
from typing import Any

from lakescan import types as t
from lakescan.errors import CorruptMetadata, UnsupportedFeature
from lakescan.schema import Schema

_SIMPLE: dict[str, t.Type] = {
    "boolean": t.BOOLEAN,
    "int": t.INT,
    "long": t.LONG,
    "float": t.FLOAT,
    "double": t.DOUBLE,
    "date": t.DATE,
    "time": t.TIME,
    "string": t.STRING,
    "uuid": t.UUID,
    "binary": t.BINARY,
    "unknown": t.UNKNOWN,
    "variant": t.VARIANT,
    "timestamp": t.Timestamp("us", zoned=False),
    "timestamptz": t.Timestamp("us", zoned=True),
    "timestamp_ns": t.Timestamp("ns", zoned=False),
    "timestamptz_ns": t.Timestamp("ns", zoned=True),
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_GEO = re.compile(r"(geometry|geography)(?:\(\s*([^,)]+?)\s*(?:,\s*(\w+)\s*)?\))?")


def parse_schema(node: Mapping[str, Any], where: str) -> Schema:
    """A schema object of table metadata; raises `CorruptMetadata` naming `where` it was read."""
    try:
        if node["type"] != "struct":
            raise CorruptMetadata(f"{where}: a schema is of type {node['type']!r} instead of struct")
        fields = tuple(_field(f) for f in node["fields"])
    except (KeyError, TypeError) as error:
        raise CorruptMetadata(f"{where}: a schema lacks {error}") from error
    return Schema(fields, int(node.get("schema-id", 0)), tuple(node.get("identifier-field-ids") or ()))


def _field(node: Mapping[str, Any]) -> t.Field:
    kind = parse_type(node["type"])
    before, after = (node.get(f"{which}-default") for which in ("initial", "write"))
    return t.Field(
        id=int(node["id"]),
        name=node["name"],
        type=kind,
        required=bool(node.get("required", False)),
        doc=node.get("doc"),
        default=None if before is None else _value(before, kind),
        write_default=None if after is None else _value(after, kind),
    )


def parse_type(node: str | Mapping[str, Any]) -> t.Type:
    """A type, by its name or its nested object; raises `UnsupportedFeature` for a name not in the specification."""
    if isinstance(node, str):
        return _named(node.strip())
    match node["type"]:
        case "struct":
            return t.Struct(tuple(_field(f) for f in node["fields"]))
        case "list":
            required = bool(node["element-required"])
            return t.ListOf(t.Field(int(node["element-id"]), "element", parse_type(node["element"]), required))
        case "map":
            key = t.Field(int(node["key-id"]), "key", parse_type(node["key"]), required=True)
            required = bool(node["value-required"])
            return t.MapOf(key, t.Field(int(node["value-id"]), "value", parse_type(node["value"]), required))
    raise UnsupportedFeature(f"column type {node['type']!r}")


def _named(name: str) -> t.Type:
    if (simple := _SIMPLE.get(name)) is not None:
        return simple
    if found := _DECIMAL.fullmatch(name):
        return t.Decimal(int(found[1]), int(found[2]))
    if found := _FIXED.fullmatch(name):
        return t.Fixed(int(found[1]))
    if found := _GEO.fullmatch(name):
        return t.Geospatial(found[1], found[2] or "OGC:CRS84", found[3] or "spherical")
    raise UnsupportedFeature(f"column type {name!r}")


def _value(value: Any, kind: t.Type) -> Any:
    """A default from its JSON single-value form."""
    match kind:
        case t.Struct():
            return {f.name: value.get(str(f.id)) for f in kind.fields}
        case t.ListOf():
            return [_value(v, kind.element.type) for v in value]
        case t.MapOf():
            keys = [_value(k, kind.key.type) for k in value["keys"]]
            return list(zip(keys, [_value(v, kind.value.type) for v in value["values"]], strict=True))
        case t.Decimal():
            return PyDecimal(value)
        case t.DATE:
            return date.fromisoformat(value)
        case t.TIME:
            return time.fromisoformat(value)
        case t.Timestamp():
            return datetime.fromisoformat(value)
        case t.UUID:
            return uuid.UUID(value).bytes
        case t.Fixed() | t.BINARY:
            return bytes.fromhex(value)
    return value
