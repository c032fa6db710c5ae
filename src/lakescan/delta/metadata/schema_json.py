"""Parse Delta schemas from JSON (protocol, "Schema Serialization Format" and "Column Mapping")."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.delta.log.log_text import ADVICE, as_long, parse_json, short_json
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
_INNER_CHAR = re.compile(r"[<:,]char\(", re.IGNORECASE)
_LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,3})\s*,\s*(-?\d{1,3})\s*\)")
_MOST_DIGITS = 38
_GEO = re.compile(r"(geometry|geography)(?:\(\s*([^,)]+?)\s*(?:,\s*(\w+)\s*)?\))?")
_ID, _PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"
_MOST_DEPTH = 100
_IDS = range(2**31)  # Parquet field ids have 32 bits


def parse_schema(text: str, mapping_mode: str, where: str) -> Schema:
    """Parse the schema of a metaData action; with column mapping, fields have its ids and physical names.

    `mapping_mode` is `none`, `id` or `name`. Fields without an id in Delta get one that is unique in the schema. Raises
    `CorruptMetadata`, whose message starts with `where`, for text that is not a schema, and for duplicate names, ids or
    physical names. With column mapping, it is also raised for a field without id or physical name, which would read as
    missing from every file. Raises `UnsupportedFeature` for an unsupported type.
    """
    node = parse_json(text, f"{where}: the table's schema")
    return Schema(_SchemaReader(mapping_mode in ("id", "name"), where, node).struct(node, "", 0).fields)


def _mapped_ids(node: Any) -> set[int]:
    """Return all column mapping ids in a parsed schema, at any depth."""
    ids, left = set(), [node]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left += each.values()
            if isinstance(number := each.get(_ID), int):
                ids.add(number)
        elif isinstance(each, list):
            left += each
    return ids


class _SchemaReader:
    """Parses one schema, and checks that its names and column mapping ids are unique."""

    def __init__(self, mapped: bool, where: str, node: Any) -> None:
        self._mapped, self._where = mapped, where
        self._paths: dict[int, str] = {}  # by column mapping id
        used = _mapped_ids(node) if mapped else set()
        self._fresh = (i for i in itertools.count(1) if i not in used)

    def struct(self, node: Any, path: str, depth: int) -> t.Struct:
        """Parse a struct type; `path` is its dotted path, `depth` its nesting depth. Raises `CorruptMetadata`."""
        if not isinstance(node, dict) or not isinstance(node.get("fields"), list):
            raise self._wrong(path, f"is {short_json(node)}; expected a struct with fields")
        fields = tuple(self._field(each, path, depth) for each in node["fields"])
        for key in ("name", "physical_name"):
            # Delta's column names are case-insensitive; physical names are Parquet's, which are case-sensitive.
            names = [getattr(f, key).lower() if key == "name" else getattr(f, key) for f in fields]
            if twice := [name for name, count in Counter(names).items() if count > 1]:
                raise self._wrong(path, f"has two columns with the {key.replace('_', ' ')} {short_json(twice[0])}")
        return t.Struct(fields)

    def _field(self, node: Any, path: str, depth: int) -> t.Field:
        if not isinstance(node, dict) or not isinstance(node.get("name"), str) or "type" not in node:
            raise self._wrong(path, f"has {short_json(node)}; expected a field with name and type")
        inner = f"{path}.{node['name']}" if path else node["name"]
        metadata, nullable = node.get("metadata"), node.get("nullable", True)
        metadata = {} if metadata is None else metadata
        if not isinstance(metadata, dict) or not isinstance(nullable, bool):
            raise self._wrong(inner, "has metadata that is not an object, or nullable that is neither true nor false")
        doc = metadata.get("comment")
        return t.Field(
            id=self._id(metadata, inner) if self._mapped else next(self._fresh),
            name=node["name"],
            type=_apply_lengths(self._type(node["type"], inner, depth + 1), metadata.get(_LENGTHS)),
            required=not nullable,
            doc=doc if isinstance(doc, str) else None,
            physical_name=self._physical_name(metadata, inner) if self._mapped else "",
            pad=_char_length(metadata) if node["type"] == "string" else 0,
        )

    def _id(self, metadata: dict[str, Any], path: str) -> int:
        field_id = as_long(metadata.get(_ID))
        if field_id is None or field_id not in _IDS:
            raise self._wrong(path, f"has {_ID} {short_json(metadata.get(_ID))}; column mapping needs a whole number")
        if (other := self._paths.setdefault(field_id, path)) != path:
            raise self._wrong(path, f"has the same {_ID} as column {short_json(other)}: {field_id}")
        return field_id

    def _physical_name(self, metadata: dict[str, Any], path: str) -> str:
        name = metadata.get(_PHYSICAL)
        if not isinstance(name, str) or not name:
            raise self._wrong(path, f"has {_PHYSICAL} {short_json(name)}; column mapping needs a name")
        return name

    def _type(self, node: Any, path: str, depth: int) -> t.Type:
        if depth > _MOST_DEPTH:
            raise UnsupportedFeature(f"columns nested more than {_MOST_DEPTH} levels deep", f"{self._where} has one.")
        if isinstance(node, str):
            return self._simple_type(node, path)
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
            raise UnsupportedFeature(
                f"column type {short_json(kind)}", f"{self._where}: column {short_json(path)} has it."
            )
        raise self._wrong(path, f"has the invalid type {short_json(node)}")

    def _child(self, name: str, kind: t.Type, *, required: bool) -> t.Field:
        return t.Field(next(self._fresh), name, kind, required=required)

    def _part(self, node: dict[str, Any], name: str, path: str, depth: int) -> t.Type:
        if name not in node:
            raise self._wrong(path, f"has a type without {name}")
        return self._type(node[name], path, depth + 1)

    def _simple_type(self, name: str, path: str) -> t.Type:
        if (match := _DECIMAL.fullmatch(name)) is not None:
            precision, scale = int(match[1]), int(match[2])
            if not (1 <= precision <= _MOST_DIGITS and scale <= precision):
                raise self._wrong(path, f"has the type {short_json(name)}: a decimal has at most {_MOST_DIGITS} digits")
        return _atomic_type(name)

    def _wrong(self, path: str, fault: str) -> CorruptMetadata:
        what = f"column {short_json(path)} of the table's schema" if path else "the table's schema"
        return CorruptMetadata(f"{self._where}: {what} {fault}. {ADVICE}")


def _atomic_type(name: str) -> t.Type:
    if (simple := _SIMPLE.get(name)) is not None:
        return simple
    if name == "decimal":
        return t.Decimal(10, 0)
    if match := _DECIMAL.fullmatch(name):
        return t.Decimal(int(match[1]), int(match[2]))
    if match := _GEO.fullmatch(name):
        return t.Geospatial(match[1], match[2] or "OGC:CRS84", match[3] or "spherical")
    raise UnsupportedFeature(f"column type {name!r}")


def _char_length(metadata: dict[str, Any]) -> int:
    """Return the length of a CHAR(n) column from its field metadata; 0 for other columns, such as VARCHAR(n)."""
    raw = metadata.get(_LENGTHS)
    match = _CHAR.fullmatch(raw) if isinstance(raw, str) else None
    return 0 if match is None else int(match[1])


def _apply_lengths(kind: t.Type, text: Any) -> t.Type:
    """Return the type of a struct, list or map column with the CHAR(n) lengths of its nested fields.

    `text` is the type in Spark's notation, from the column's metadata. It is ignored if it has no CHAR(n) or does not
    match the type: some writers do not update it when they change a nested field.
    """
    if not isinstance(kind, t.Struct | t.ListOf | t.MapOf):
        return kind
    if not isinstance(text, str) or _INNER_CHAR.search(text) is None:
        return kind
    from lakescan.delta.metadata.char_types import (
        text_lengths,
    )  # reading tables without such columns needs no writer module

    try:
        return _pad_type(kind, text_lengths(text, kind, ""))
    except CorruptMetadata:
        return kind


def _pad_type(kind: t.Type, lengths: Any) -> t.Type:
    def inner(field: t.Field, length: Any) -> t.Field:
        if length is None:
            return field
        if field.type == t.STRING:
            return replace(field, inner_pad=length.length if length.is_padded else 0)
        return replace(field, type=_pad_type(field.type, length))

    if lengths is None:
        return kind
    match kind:
        case t.Struct():
            return t.Struct(tuple(map(inner, kind.fields, lengths.children)))
        case t.ListOf():
            return t.ListOf(inner(kind.element, lengths.children[0]))
        case t.MapOf():
            return t.MapOf(*map(inner, (kind.key, kind.value), lengths.children))
    return kind
