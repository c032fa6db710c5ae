"""Convert schemas from and to JSON (specification, appendix C: "Schemas", "JSON single-value serialization")."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal as PyDecimal
from typing import Any

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.common.timestamps import EPOCH
from lakescan.errors import LimitExceeded, UnsupportedFeature
from lakescan.iceberg.metadata.json_document import INT_MAX, Node, shown_value

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
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,9})\s*,\s*(-?[0-9]{1,9})\s*\)")
_FIXED = re.compile(r"fixed\[\s*([0-9]{1,15})\s*\]")
_DEPTH = 100  # maximum nesting of lists, maps and structs
_GEO = re.compile(r"(geometry|geography)(?:\(\s*([^,)]+?)\s*(?:,\s*(\w+)\s*)?\))?")


def parse_schema(node: Mapping[str, Any], where: str) -> Schema:
    """Parse a schema's JSON object; raises `CorruptMetadata` with `where`, the name of the file, in the message."""
    return parse_schema_node(Node.wrap(node, where, "schema"))


def parse_schema_node(node: Node) -> Schema:
    """Parse a schema of a metadata document; raises `CorruptMetadata` if it is invalid or repeats an id or a name."""
    if node.text("type") != "struct":
        raise node.fault(f"has type {node.text('type')!r} instead of struct")
    schema_id = node.integer("schema-id", 0, most=INT_MAX)
    fields = _fields(node, 0)
    ids = [each.id for each in t.walk(fields)]
    if len(set(ids)) < len(ids):
        twice = next(i for i, count in Counter(ids).items() if count > 1)
        raise node.fault(f"has two columns with field id {twice}")
    return Schema(fields, schema_id, node.integers("identifier-field-ids"))


def _fields(node: Node, depth: int) -> tuple[t.Field, ...]:
    fields = tuple(_field(each, depth) for each in node.children("fields"))
    names = Counter(each.name for each in fields)
    if len(names) < len(fields):
        raise node.fault(f"has two columns named {next(n for n, count in names.items() if count > 1)!r}")
    return fields


def _field(node: Node, depth: int) -> t.Field:
    kind = _type_of(node, "type", depth)
    doc = node.value.get("doc")
    return t.Field(
        id=node.integer("id", most=INT_MAX),
        name=node.text("name"),
        type=kind,
        required=node.flag("required", False),
        doc=doc if isinstance(doc, str) else None,
        default=_default(node, "initial-default", kind),
        write_default=_default(node, "write-default", kind),
    )


def _type_of(node: Node, name: str, depth: int) -> t.Type:
    """Parse the type in the member `name`: a type name or a nested object; `depth` is the number of types around it.

    Raises `CorruptMetadata`, and `LimitExceeded` for types that are nested too deep.
    """
    if depth > _DEPTH:
        raise LimitExceeded(f"{node.source}: {node.place[:80]}... exceeds the nesting limit of {_DEPTH} levels")
    if isinstance(node.value.get(name), str):
        return _primitive_type(node, node.text(name).strip())
    return _nested_type(node.child(name), depth + 1)


def _nested_type(node: Node, depth: int) -> t.Type:
    kind = node.text("type")
    if kind == "struct":
        return t.Struct(_fields(node, depth))
    if kind == "list":
        return t.ListOf(_inner(node, "element", depth, required=node.flag("element-required")))
    if kind == "map":
        value = _inner(node, "value", depth, required=node.flag("value-required"))
        return t.MapOf(_inner(node, "key", depth, required=True), value)
    raise UnsupportedFeature(f"column type {kind[:60]!r}", f"{node.source}: {node.place} has this type.")


def _inner(node: Node, name: str, depth: int, *, required: bool) -> t.Field:
    return t.Field(node.integer(f"{name}-id", most=INT_MAX), name, _type_of(node, name, depth), required)


def _primitive_type(node: Node, name: str) -> t.Type:
    """Parse a type name; raises `CorruptMetadata` for a precision or length beyond the limits of the type."""
    kind = _parse_type_name(name, node)
    if isinstance(kind, t.Decimal) and not 0 < kind.precision <= 38:
        raise node.fault(f"has type {name[:60]}: decimals have 1 to 38 digits")
    if isinstance(kind, t.Fixed) and kind.length > INT_MAX:
        raise node.fault(f"has type {name[:60]}: the maximum length is {INT_MAX}")
    return kind


def _default(node: Node, name: str, kind: t.Type) -> Any:
    """Return the default in the member `name`, or None without one.

    Raises `CorruptMetadata` if it is not a value of the field's type.
    """
    value = node.value.get(name)
    if value is None:
        return None
    try:
        default = _value(value, kind)
        pa.scalar(default, kind.arrow())
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
        raise node.fault(f"has {shown_value(value)} for {name!r}, which is not a value of type {kind}") from error
    return default


def _parse_type_name(name: str, node: Node) -> t.Type:
    if (simple := _SIMPLE.get(name)) is not None:
        return simple
    if match := _DECIMAL.fullmatch(name):
        return t.Decimal(int(match[1]), int(match[2]))
    if match := _FIXED.fullmatch(name):
        return t.Fixed(int(match[1]))
    if match := _GEO.fullmatch(name):
        return t.Geospatial(match[1], match[2] or "OGC:CRS84", match[3] or "spherical")
    raise UnsupportedFeature(f"column type {name[:60]!r}", f"{node.source}: {node.place} has this type.")


def _value(value: Any, kind: t.Type) -> Any:
    """Decode a default value from its JSON single-value form; raises various Python errors for an invalid value."""
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
        case t.Timestamp(unit="ns"):
            return _nanoseconds(value)
        case t.Timestamp():
            return datetime.fromisoformat(value)
        case t.UUID:
            return uuid.UUID(value).bytes
        case t.Fixed() | t.BINARY:
            return bytes.fromhex(value)
    return value


def _nanoseconds(text: str) -> int:
    """Parse a timestamp to nanoseconds since 1970, which Python's datetime cannot represent."""
    seconds, _, rest = text.partition(".")
    digits = re.match("[0-9]*", rest)
    fraction = digits[0] if digits else ""
    instant = datetime.fromisoformat(seconds + rest[len(fraction) :])
    whole = (instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)) - EPOCH
    return whole // timedelta(seconds=1) * 10**9 + int(fraction.ljust(9, "0")[:9])


# Iceberg has no integer types narrower than int.
_WIDENED = {t.BYTE: "int", t.SHORT: "int"}


def schema_node(schema: Schema) -> dict[str, Any]:
    """Return a schema as a JSON object; raises `UnsupportedFeature` for a default that JSON cannot represent."""
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
    """Encode a default as a JSON value (specification, "JSON single-value serialization")."""
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
    """Return a geospatial type as text, without default parameters: pyiceberg cannot read `geometry(OGC:CRS84)`."""
    default = t.Geospatial(kind.kind)
    if kind.kind == "geography" and kind.algorithm != default.algorithm:
        return f"geography({kind.crs}, {kind.algorithm})"
    return kind.kind if kind.crs == default.crs else f"{kind.kind}({kind.crs})"
