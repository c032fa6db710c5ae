"""Delta schemas from JSON (protocol, "Schema Serialization Format" and "Column Mapping")."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lakescan import types as t
from lakescan.errors import CorruptMetadata, UnsupportedFeature
from lakescan.schema import Schema

_SIMPLE: dict[str, t.Type] = {
    "boolean": t.BOOLEAN,
    "byte": t.BYTE,
    "short": t.SHORT,
    "integer": t.INT,
    "long": t.LONG,
    "float": t.FLOAT,
    "double": t.DOUBLE,
    "date": t.DATE,
    "string": t.STRING,
    "binary": t.BINARY,
    "timestamp": t.Timestamp("us", zoned=True),
    "timestamp_ntz": t.Timestamp("us", zoned=False),
    "void": t.UNKNOWN,
    "variant": t.VARIANT,
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_GEO = re.compile(r"(geometry|geography)(?:\(\s*([^,)]+?)\s*(?:,\s*(\w+)\s*)?\))?")
_ID, _PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"


def parse_schema(text: str, mapping_mode: str, where: str) -> Schema:
    """The schema of a metaData action. With column mapping, fields carry its ids and physical names.

    Fields without an id of the format get one that is unique in the schema. Raises `CorruptMetadata`.
    """
    try:
        node = json.loads(text)
        mapped = mapping_mode in ("id", "name")
        used = _mapped_ids(node) if mapped else set()
        fresh = (i for i in itertools.count(1) if i not in used)
        return Schema(_struct(node, mapped, fresh).fields)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise CorruptMetadata(f"{where}: the table's schema cannot be read ({error!r})") from error


def _mapped_ids(node: Any) -> set[int]:
    if isinstance(node, dict):
        own = (
            {int(node["metadata"][_ID])}
            if isinstance(node.get("metadata"), dict) and _ID in node["metadata"]
            else set()
        )
        return own.union(*(_mapped_ids(v) for v in node.values()))
    if isinstance(node, list):
        return set().union(*(_mapped_ids(v) for v in node))
    return set()


def _struct(node: Mapping[str, Any], mapped: bool, fresh: Iterator[int]) -> t.Struct:
    return t.Struct(tuple(_field(f, mapped, fresh) for f in node["fields"]))


def _field(node: Mapping[str, Any], mapped: bool, fresh: Iterator[int]) -> t.Field:
    metadata = node.get("metadata") or {}
    own_id = int(metadata[_ID]) if mapped and _ID in metadata else next(fresh)
    return t.Field(
        id=own_id,
        name=node["name"],
        type=_type(node["type"], mapped, fresh),
        required=not node.get("nullable", True),
        doc=metadata.get("comment"),
        physical_name=metadata.get(_PHYSICAL, "") if mapped else "",
    )


def _type(node: Any, mapped: bool, fresh: Iterator[int]) -> t.Type:
    if isinstance(node, str):
        return _named(node)
    match node["type"]:
        case "struct":
            return _struct(node, mapped, fresh)
        case "array":
            inner = _type(node["elementType"], mapped, fresh)
            return t.ListOf(t.Field(next(fresh), "element", inner, required=not node.get("containsNull", True)))
        case "map":
            key = t.Field(next(fresh), "key", _type(node["keyType"], mapped, fresh), required=True)
            inner = _type(node["valueType"], mapped, fresh)
            required = not node.get("valueContainsNull", True)
            return t.MapOf(key, t.Field(next(fresh), "value", inner, required))
    raise UnsupportedFeature(f"column type {node['type']!r}")


def _named(name: str) -> t.Type:
    if (simple := _SIMPLE.get(name)) is not None:
        return simple
    if name == "decimal":
        return t.Decimal(10, 0)
    if found := _DECIMAL.fullmatch(name):
        return t.Decimal(int(found[1]), int(found[2]))
    if found := _GEO.fullmatch(name):
        return t.Geospatial(found[1], found[2] or "OGC:CRS84", found[3] or "spherical")
    raise UnsupportedFeature(f"column type {name!r}")
