"""Columns of a table created for given rows: all optional, converted to types of the format that hold the values."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lakescan.common import types as t
from lakescan.definition.from_arrow import optional_columns_of
from lakescan.errors import SchemaMismatch, UnsupportedFeature

_MICROS: dict[t.Type, t.Type] = {
    t.Timestamp("ns", zoned=zoned): t.Timestamp("us", zoned=zoned) for zoned in (True, False)
}


def iceberg_columns(rows: pa.Schema, *, nanoseconds: bool) -> tuple[t.Field, ...]:
    """Return the columns of an Iceberg table; if its version has no `nanoseconds`, they become microseconds.

    Raises `SchemaMismatch` for columns that contain only nulls, which have no type.
    """
    return tuple(_format_column(field, "", {} if nanoseconds else _MICROS) for field in optional_columns_of(rows))


def delta_columns(rows: pa.Schema) -> tuple[t.Field, ...]:
    """Return the columns of a Delta table: nanoseconds become microseconds, UUIDs strings, fixed binaries binaries.

    Raises `UnsupportedFeature` for times of day, `SchemaMismatch` for columns of only nulls, which have no type.
    """
    columns = [
        _format_column(field, "", {**_MICROS, t.UUID: t.STRING}, t.BINARY) for field in optional_columns_of(rows)
    ]
    for field in t.walk(tuple(columns)):
        if field.type == t.TIME:
            raise UnsupportedFeature(
                f"column {field.name!r} of type time in a Delta table", "Cast it to text, or a number of microseconds."
            )
    return tuple(columns)


def _format_column(field: t.Field, where: str, instead: dict[t.Type, t.Type], fixed: t.Type | None = None) -> t.Field:
    """Replace types of a column at any depth: those in `instead`, and fixed-length binaries by `fixed` if given."""
    path = f"{where}{field.name}"

    def inner(below: t.Field) -> t.Field:
        return _format_column(below, f"{path}.", instead, fixed)

    match field.type:
        case t.UNKNOWN:
            raise SchemaMismatch(
                f"column {path!r} contains only nulls and so has no type: cast it to the type it should have, or leave "
                "it out"
            )
        case t.Struct():
            kind: t.Type = t.Struct(tuple(map(inner, field.type.fields)))
        case t.ListOf():
            kind = t.ListOf(inner(field.type.element))
        case t.MapOf():
            kind = t.MapOf(inner(field.type.key), inner(field.type.value))
        case t.Fixed() if fixed is not None:
            kind = fixed
        case _:
            kind = instead.get(field.type, field.type)
    return replace(field, type=kind)
