"""Delta schemas from JSON (protocol, "Schema Serialization Format" and "Column Mapping")."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.delta.log.text import ADVICE, as_long, parse_json, shown
from lakescan.errors import CorruptMetadata, UnsupportedFeature

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
_CHAR = re.compile(r"char\((\d{1,9})\)")
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(-?\d{1,3})\s*\)")
_MOST_DIGITS = 38
_GEO = re.compile(r"(geometry|geography)(?:\(\s*([^,)]+?)\s*(?:,\s*(\w+)\s*)?\))?")
_ID, _PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"
_MOST_DEPTH = 100
_IDS = range(2**31)  # Parquet's field ids are of 32 bits


def parse_schema(text: str, mapping_mode: str, where: str) -> Schema:
    """The schema of a metaData action. With column mapping, fields carry its ids and physical names.

    Fields without an id of the format get one that is unique in the schema. Raises `CorruptMetadata`, beginning with
    `where`, for what is not a schema, and for names, ids and physical names that are there twice; with column mapping,
    for a field that lacks its id or physical name: it would be taken for one that no file has.
    """
    node = parse_json(text, f"{where}: the table's schema")
    return Schema(_SchemaReader(mapping_mode in ("id", "name"), where, node).struct(node, "", 0).fields)


def _mapped_ids(node: Any) -> set[int]:
    """All ids of column mapping in a schema, whatever it is nested in."""
    found, left = set(), [node]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left += each.values()
            if isinstance(number := each.get(_ID), int):
                found.add(number)
        elif isinstance(each, list):
            left += each
    return found


class _SchemaReader:
    """Reads one schema."""

    def __init__(self, mapped: bool, where: str, node: Any) -> None:
        self._mapped, self._where = mapped, where
        self._paths: dict[int, str] = {}  # by id of column mapping
        used = _mapped_ids(node) if mapped else set()
        self._fresh = (i for i in itertools.count(1) if i not in used)

    def struct(self, node: Any, path: str, depth: int) -> t.Struct:
        """A struct type, at a dotted path, which is in so many others."""
        if not isinstance(node, dict) or not isinstance(node.get("fields"), list):
            raise self._wrong(path, f"is {shown(node)}, where a struct with fields belongs")
        fields = tuple(self._field(each, path, depth) for each in node["fields"])
        for key in ("name", "physical_name"):
            # Delta's names are the same whatever their case; physical names are those of Parquet, as they are.
            names = [getattr(f, key).lower() if key == "name" else getattr(f, key) for f in fields]
            if twice := [name for name, count in Counter(names).items() if count > 1]:
                raise self._wrong(path, f"has two columns of the {key.replace('_', ' ')} {shown(twice[0])}")
        return t.Struct(fields)

    def _field(self, node: Any, path: str, depth: int) -> t.Field:
        if not isinstance(node, dict) or not isinstance(node.get("name"), str) or "type" not in node:
            raise self._wrong(path, f"has {shown(node)}, where a field with name and type belongs")
        inner = f"{path}.{node['name']}" if path else node["name"]
        metadata, nullable = node.get("metadata"), node.get("nullable", True)
        metadata = {} if metadata is None else metadata
        if not isinstance(metadata, dict) or not isinstance(nullable, bool):
            raise self._wrong(inner, "has metadata that is no object, or a nullable that is neither true nor false")
        doc = metadata.get("comment")
        return t.Field(
            id=self._id(metadata, inner) if self._mapped else next(self._fresh),
            name=node["name"],
            type=self._type(node["type"], inner, depth + 1),
            required=not nullable,
            doc=doc if isinstance(doc, str) else None,
            physical_name=self._physical_name(metadata, inner) if self._mapped else "",
            pad=_char_length(metadata) if node["type"] == "string" else 0,
        )

    def _id(self, metadata: dict[str, Any], path: str) -> int:
        found = as_long(metadata.get(_ID))
        if found is None or found not in _IDS:
            raise self._wrong(path, f"has {_ID} {shown(metadata.get(_ID))}, where column mapping needs a whole number")
        if (other := self._paths.setdefault(found, path)) != path:
            raise self._wrong(path, f"has the {_ID} {found} of column {shown(other)}")
        return found

    def _physical_name(self, metadata: dict[str, Any], path: str) -> str:
        found = metadata.get(_PHYSICAL)
        if not isinstance(found, str) or not found:
            raise self._wrong(path, f"has {_PHYSICAL} {shown(found)}, where column mapping needs a name")
        return found

    def _type(self, node: Any, path: str, depth: int) -> t.Type:
        if depth > _MOST_DEPTH:
            raise UnsupportedFeature(f"columns nested more than {_MOST_DEPTH} deep", f"{self._where} has one.")
        if isinstance(node, str):
            return self._named(node, path)
        kind = node.get("type") if isinstance(node, dict) else None
        match kind:
            case "struct":
                return self.struct(node, path, depth)
            case "array":
                inner = self._part(node, "elementType", path, depth)
                return t.ListOf(self._child("element", inner, required=not node.get("containsNull", True)))
            case "map":
                key, value = (self._part(node, name, path, depth) for name in ("keyType", "valueType"))
                required = not node.get("valueContainsNull", True)
                return t.MapOf(self._child("key", key, required=True), self._child("value", value, required=required))
        if isinstance(kind, str):
            raise UnsupportedFeature(f"column type {shown(kind)}", f"{self._where}: column {shown(path)} has it.")
        raise self._wrong(path, f"has the type {shown(node)}")

    def _child(self, name: str, kind: t.Type, *, required: bool) -> t.Field:
        return t.Field(next(self._fresh), name, kind, required=required)

    def _part(self, node: dict[str, Any], name: str, path: str, depth: int) -> t.Type:
        if name not in node:
            raise self._wrong(path, f"has a type without {name}")
        return self._type(node[name], path, depth + 1)

    def _named(self, name: str, path: str) -> t.Type:
        if (found := _DECIMAL.fullmatch(name)) is not None:
            precision, scale = int(found[1]), int(found[2])
            if not (1 <= precision <= _MOST_DIGITS and scale <= precision):
                raise self._wrong(path, f"has the type {shown(name)}: a decimal has up to {_MOST_DIGITS} digits")
        return _named(name)

    def _wrong(self, path: str, fault: str) -> CorruptMetadata:
        what = f"column {shown(path)} of the table's schema" if path else "the table's schema"
        return CorruptMetadata(f"{self._where}: {what} {fault}. {ADVICE}")


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


def _char_length(metadata: dict[str, Any]) -> int:
    """The length of a CHAR(n), which is a string in the schema; 0 for other columns."""
    raw = metadata.get("__CHAR_VARCHAR_TYPE_STRING")
    found = _CHAR.fullmatch(raw) if isinstance(raw, str) else None
    return 0 if found is None else int(found[1])
