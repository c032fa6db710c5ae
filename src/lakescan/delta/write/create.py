"""Convert a table definition to deltalake's schema and arguments for creating a table."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from lakescan.common import types as t
from lakescan.definition.table_definition import TableDefinition, Term
from lakescan.delta.metadata.features import brought_by_type
from lakescan.delta.metadata.new_properties import checked_properties
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import InvalidOption, UnsupportedFeature, missing_dependency

_NAMES = {t.INT: "integer"}
_ZONELESS = t.Timestamp(zoned=False)


def delta_arguments(definition: TableDefinition) -> dict[str, Any]:
    """The arguments of deltalake's `DeltaTable.create`.

    Raises `UnsupportedFeature` for definitions that the format or deltalake cannot record, and `InvalidOption`.
    """
    if definition.primary_key:
        raise UnsupportedFeature("a primary key of a Delta table", "The format has no primary keys.")
    if definition.sort_by:
        raise UnsupportedFeature("a sort order of a Delta table", "The format has no sort orders.")
    if definition.properties.get(mapping := DeltaProperties.column_mapping.name) == "id":
        raise InvalidOption(f"'{mapping}'='id' is only for converted tables: use 'name'")
    check_zoneless_maps(definition.columns)
    return {
        "schema": as_schema(definition),
        "partition_by": [_partition_column(definition, term) for term in definition.partition_by],
        "configuration": checked_properties(definition.properties, definition.columns),
        "description": definition.comment,
    }


def _partition_column(definition: TableDefinition, term: Term) -> str:
    """The name of a partition column, which is no member of a struct."""
    if term.name != "identity":
        raise UnsupportedFeature(f"partitioning a Delta table by {term}", "Partition it by plain columns.")
    field = definition.schema.field(term.column)
    if field not in definition.columns:
        raise UnsupportedFeature(f"partitioning a Delta table by {term}", "The format has no nested partition columns.")
    return field.name


def check_location(location: str) -> None:
    """Raise `UnsupportedFeature` for a location that deltalake would misread as another one, perhaps another table's.

    deltalake decodes percent-encoding, and cuts URIs at ? or #.
    """
    is_cut = "://" in location and any(mark in location for mark in "?#")
    if is_cut or unquote(location) != location:
        raise UnsupportedFeature(
            f"writing to a Delta table at {location}",
            "deltalake, which commits, decodes percent-encoding and cuts URIs at ? or #, so it would write to another "
            "location: move the table to a folder without these characters.",
        )


def check_zoneless_maps(columns: Iterable[t.Field], features: Collection[str] = ()) -> None:
    """Raise `UnsupportedFeature` for columns with which the table would be unreadable for lack of a table feature.

    deltalake lists the feature `timestampNtz` for columns of that type, but does not look inside maps. `features` are
    those that the table has already.
    """
    places = {inside for field in columns for inside in _zoneless(field.type, within_map=False)}
    if places == {True} and brought_by_type(_ZONELESS) not in features:
        raise UnsupportedFeature(
            "a Delta table with timestamps without time zone only inside maps",
            "deltalake does not list the table feature timestampNtz for them: use timestamps with time zone.",
        )


def _zoneless(kind: t.Type, *, within_map: bool) -> Iterator[bool]:
    """For each timestamp type without time zone nested in a type: whether it is inside a map."""
    match kind:
        case t.Timestamp(zoned=False):
            yield within_map
        case t.Struct():
            for field in kind.fields:
                yield from _zoneless(field.type, within_map=within_map)
        case t.ListOf():
            yield from _zoneless(kind.element.type, within_map=within_map)
        case t.MapOf():
            for side in (kind.key, kind.value):
                yield from _zoneless(side.type, within_map=True)


def as_schema(definition: TableDefinition) -> Any:
    """The columns as a deltalake schema."""
    try:
        from deltalake import Schema
    except ImportError as error:
        raise missing_dependency("deltalake", "delta", "creating Delta tables") from error
    return Schema.from_json(json.dumps({"type": "struct", "fields": [_field(f) for f in definition.columns]}))


def _field(field: t.Field) -> dict[str, Any]:
    if field.write_default is not None:
        raise UnsupportedFeature(
            f"a default of column {field.name!r} of a Delta table", "deltalake does not write defaults."
        )
    metadata = {} if field.doc is None else {"comment": field.doc}
    return {"name": field.name, "type": _type(field.type), "nullable": not field.required, "metadata": metadata}


def _type(kind: t.Type) -> str | dict[str, Any]:
    match kind:
        case t.Struct():
            return {"type": "struct", "fields": [_field(f) for f in kind.fields]}
        case t.ListOf():
            of = kind.element
            return {"type": "array", "elementType": _type(of.type), "containsNull": not of.required}
        case t.MapOf():
            of = kind.value
            key = {"type": "map", "keyType": _type(kind.key.type)}
            return {**key, "valueType": _type(of.type), "valueContainsNull": not of.required}
        case t.Decimal():
            return f"decimal({kind.precision},{kind.scale})"
        case t.Timestamp(unit="us"):
            return "timestamp" if kind.zoned else "timestamp_ntz"
    if kind in (t.BOOLEAN, t.BYTE, t.SHORT, t.INT, t.LONG, t.FLOAT, t.DOUBLE, t.DATE, t.STRING, t.BINARY, t.VARIANT):
        return _NAMES.get(kind, str(kind))
    raise UnsupportedFeature(f"a column of type {kind} in a Delta table")
