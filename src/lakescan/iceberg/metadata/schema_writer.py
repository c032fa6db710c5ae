"""Schemas as JSON (specification, appendix C), the inverse of `schema_json`."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.common.timestamps import EPOCH
from lakescan.errors import UnsupportedFeature

# Iceberg has no narrower integers.
_WIDENED = {t.BYTE: "int", t.SHORT: "int"}


def schema_node(schema: Schema) -> dict[str, Any]:
    """A schema as a JSON object; raises `UnsupportedFeature` for a default that JSON cannot have."""
    return {
        "type": "struct",
        "schema-id": schema.id,
        "identifier-field-ids": list(schema.identifier_ids),
        "fields": list(map(_field_node, schema.fields)),
    }


def _field_node(field: t.Field) -> dict[str, Any]:
    node = {"id": field.id, "name": field.name, "required": field.required, "type": _type_node(field.type)}
    if field.doc is not None:
        node["doc"] = field.doc
    for name, value in (("initial-default", field.default), ("write-default", field.write_default)):
        if value is not None:
            node[name] = _default_node(value, field.type, field.name)
    return node


def _default_node(value: Any, kind: t.Type, name: str) -> Any:
    """A default as a JSON value (specification, "JSON single-value serialization")."""
    match kind:
        case t.BOOLEAN | t.STRING | t.BYTE | t.SHORT | t.INT | t.LONG | t.FLOAT | t.DOUBLE:
            return value
        case t.Decimal():
            return f"{value:f}"
        case t.DATE | t.TIME:
            return value.isoformat()
        case t.Timestamp(unit="us"):
            return value.isoformat(timespec="microseconds")
        case t.Timestamp(zoned=zoned) if isinstance(value, int):
            return _timestamp_text(value) + ("+00:00" if zoned else "")
        case t.UUID:
            return str(uuid.UUID(bytes=value))
        case t.BINARY | t.Fixed():
            return value.hex()
        case t.Struct(fields):
            return {str(each.id): _value_node(value.get(each.name), each.type, name) for each in fields}
        case t.ListOf(element):
            return [_value_node(each, element.type, name) for each in value]
        case t.MapOf(key, of):
            keys, values = zip(*value, strict=True) if value else ((), ())
            return {
                "keys": [_value_node(each, key.type, name) for each in keys],
                "values": [_value_node(each, of.type, name) for each in values],
            }
    raise UnsupportedFeature(f"a default for column {name!r} of type {kind}")


def _value_node(value: Any, kind: t.Type, name: str) -> Any:
    return None if value is None else _default_node(value, kind, name)


def _timestamp_text(value: int) -> str:
    seconds, fraction = divmod(value, 10**9)
    whole: datetime = (EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
    return f"{whole.isoformat(timespec='seconds')}.{fraction:09d}"


def _type_node(kind: t.Type) -> str | dict[str, Any]:
    match kind:
        case t.Struct():
            return {"type": "struct", "fields": list(map(_field_node, kind.fields))}
        case t.ListOf():
            of = kind.element
            return {
                "type": "list",
                "element-id": of.id,
                "element": _type_node(of.type),
                "element-required": of.required,
            }
        case t.MapOf():
            of = kind.value
            key = {"type": "map", "key-id": kind.key.id, "key": _type_node(kind.key.type)}
            return {**key, "value-id": of.id, "value": _type_node(of.type), "value-required": of.required}
        case t.Geospatial():
            return _geospatial(kind)
    return _WIDENED.get(kind, str(kind))  # type: ignore[call-overload]


def _geospatial(kind: t.Geospatial) -> str:
    """What is by default is left out: pyiceberg does not read `geometry(OGC:CRS84)`, which `geometry` stands for."""
    default = t.Geospatial(kind.kind)
    if kind.kind == "geography" and kind.algorithm != default.algorithm:
        return f"geography({kind.crs}, {kind.algorithm})"
    return kind.kind if kind.crs == default.crs else f"{kind.kind}({kind.crs})"
