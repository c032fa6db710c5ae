"""Write columns as Delta's schema JSON (protocol, "Schema Serialization Format" and "Column Mapping")."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from lakescan.common import types as t
from lakescan.delta.log.log_text import parse_json
from lakescan.errors import UnsupportedFeature

_NAMES = {t.INT: "integer"}
_ATOMIC = (t.BOOLEAN, t.BYTE, t.SHORT, t.INT, t.LONG, t.FLOAT, t.DOUBLE, t.DATE, t.STRING, t.BINARY)
_WITH_PARAMETERS = (t.Decimal, t.Timestamp)
_NAMED = (*_ATOMIC, t.VARIANT)
IDENTITY_STEP, IDENTITY_MARK = "delta.identity.step", "delta.identity.highWaterMark"
_MAPPING = "delta.columnMapping."
_ID, _PHYSICAL = f"{_MAPPING}id", f"{_MAPPING}physicalName"


def schema_string(columns: Iterable[t.Field]) -> str:
    """Return the columns as schema JSON (a text); raises `UnsupportedFeature` as `field_node` does."""
    return json.dumps({"type": "struct", "fields": [field_node(each) for each in columns]}, separators=(",", ":"))


def append_columns(schema: str, columns: Iterable[t.Field]) -> str:
    """Return a schema's JSON with `columns` added at its end; existing columns are unchanged.

    Raises `UnsupportedFeature` as `field_node` does.
    """
    node = parse_json(schema, "the table's schema")
    return json.dumps({**node, "fields": [*node["fields"], *map(field_node, columns)]}, separators=(",", ":"))


def set_identity_marks(schema: str, marks: Iterable[Mapping[str, int]]) -> str | None:
    """Return a schema's JSON with new high-water marks of identity columns; None if `marks` names no column.

    Each of `marks` maps columns to the last values that one write task assigned. The new mark is the highest of these,
    or the lowest if the column's step is negative; it replaces the old mark, which is not compared.
    """
    by_column: dict[str, list[int]] = {}
    for each in marks:
        for name, last in each.items():
            by_column.setdefault(name, []).append(last)
    if not by_column:
        return None
    node = parse_json(schema, "the table's schema")
    for field in node["fields"]:
        if (given := by_column.get(field["name"])) is not None:
            field["metadata"][IDENTITY_MARK] = max(given) if field["metadata"][IDENTITY_STEP] > 0 else min(given)
    return json.dumps(node, separators=(",", ":"))


def assign_column_ids(schema: str, last_id: int) -> tuple[str, int]:
    """Return a schema's JSON with an id and a physical name for each field that has none, and the highest id.

    New ids come after `last_id` and the ids of the schema, since other writers may not have kept `last_id` up to date.
    """
    node = parse_json(schema, "the table's schema")
    last_id = max([last_id, *(field.get("metadata", {}).get(_ID, 0) for field in _fields(node))])
    for field in _fields(node):
        metadata = field.setdefault("metadata", {})
        if _ID not in metadata:
            last_id += 1
            metadata[_ID] = last_id
        metadata.setdefault(_PHYSICAL, f"col-{uuid.uuid4()}")
    return json.dumps(node, separators=(",", ":")), last_id


def keep_mapping(schema: str, before: str) -> str:
    """Return a schema's JSON whose unchanged columns have the column mapping ids and physical names from `before`.

    `before` is the JSON of the table's current schema. A column is unchanged if `before` has one of the same name and
    type, including the names and nullability of nested fields.
    """
    node, known = parse_json(schema, "the new schema"), parse_json(before, "the table's schema")
    by_name = {field["name"]: field for field in known["fields"]}
    for field in node["fields"]:
        old = by_name.get(field["name"])
        if old is not None and _plain(old["type"]) == _plain(field["type"]):
            mapping = {name: value for name, value in old.get("metadata", {}).items() if name.startswith(_MAPPING)}
            field["metadata"] = {**field.get("metadata", {}), **mapping}
            field["type"] = old["type"]
    return json.dumps(node, separators=(",", ":"))


def _plain(kind: Any) -> Any:
    """Return a type's JSON without the metadata of nested fields."""
    if isinstance(kind, Mapping):
        return {name: _plain(each) for name, each in kind.items() if name != "metadata"}
    return [_plain(each) for each in kind] if isinstance(kind, list) else kind


def check_partitioning(columns: Collection[t.Field], names: Collection[str]) -> None:
    """Raise `UnsupportedFeature` if a partition column's type has no text form, or if no other column is left.

    `names` are the partition columns. Data files do not store them, so a file without any other column would not even
    have a row count.
    """
    for column in columns:
        if column.name in names and (column.type not in _ATOMIC and not isinstance(column.type, _WITH_PARAMETERS)):
            raise UnsupportedFeature(
                f"partitioning a Delta table by column {column.name!r} of type {column.type}",
                "Partition it by columns of numbers, texts, dates, timestamps or booleans.",
            )
    if names and len(columns) == len(names):
        raise UnsupportedFeature("partitioning a Delta table by all of its columns", "Leave at least one column out.")


def _fields(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of the fields of all structs in a parsed schema, at any depth."""
    left = [node]
    while left:
        each = left.pop(0)
        if isinstance(each, Mapping):
            if each.get("type") == "struct":
                yield from each["fields"]
                left += [field["type"] for field in each["fields"]]
            else:
                left += [each[name] for name in ("elementType", "keyType", "valueType") if name in each]


def field_node(field: t.Field) -> dict[str, Any]:
    """Return a column as an object of schema JSON.

    Raises `UnsupportedFeature` for a type that the format does not have, or for a column with a write default.
    """
    if field.write_default is not None:
        raise UnsupportedFeature(
            f"a default of column {field.name!r} of a Delta table", "lakescan would not write the default."
        )
    metadata = {} if field.doc is None else {"comment": field.doc}
    return {"name": field.name, "type": type_node(field.type), "nullable": not field.required, "metadata": metadata}


def type_node(kind: t.Type) -> str | dict[str, Any]:
    """Return a type as schema JSON: its name, or an object if it is nested.

    Raises `UnsupportedFeature` for a type that the format does not have.
    """
    match kind:
        case t.Struct():
            return {"type": "struct", "fields": [field_node(f) for f in kind.fields]}
        case t.ListOf():
            of = kind.element
            return {"type": "array", "elementType": type_node(of.type), "containsNull": not of.required}
        case t.MapOf():
            of = kind.value
            key = {"type": "map", "keyType": type_node(kind.key.type)}
            return {**key, "valueType": type_node(of.type), "valueContainsNull": not of.required}
        case t.Decimal():
            return f"decimal({kind.precision},{kind.scale})"
        case t.Timestamp(unit="us"):
            return "timestamp" if kind.zoned else "timestamp_ntz"
    if kind in _NAMED:
        return _NAMES.get(kind, str(kind))
    raise UnsupportedFeature(f"a column of type {kind} in a Delta table")
