"""The columns that a table is given for rows: all optional, of types of its format that hold the same values."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from lakescan.common import types as t
from lakescan.definition.from_arrow import optional_columns_of
from lakescan.errors import SchemaMismatch, UnsupportedFeature

_MICROS: dict[t.Type, t.Type] = {
    t.Timestamp("ns", zoned=zoned): t.Timestamp("us", zoned=zoned) for zoned in (True, False)
}


def iceberg_columns(rows: pa.Schema, version: int) -> tuple[t.Field, ...]:
    """For a table of a format version: nanoseconds are kept from 3 on, and are microseconds before.

    Raises `SchemaMismatch` for columns of nothing but nulls, which have no type.
    """
    return tuple(_column(field, "", {} if version > 2 else _MICROS) for field in optional_columns_of(rows))


def delta_columns(rows: pa.Schema) -> tuple[t.Field, ...]:
    """For a Delta table: nanoseconds are microseconds, UUIDs are texts, binaries of a fixed length are binaries.

    Raises `UnsupportedFeature` for times of day, `SchemaMismatch` for columns of nothing but nulls, which have no type.
    """
    columns = [_column(field, "", {**_MICROS, t.UUID: t.STRING}, t.BINARY) for field in optional_columns_of(rows)]
    for field in t.walk(tuple(columns)):
        if field.type == t.TIME:
            raise UnsupportedFeature(
                f"column {field.name!r} of type time in a Delta table", "Cast it to text, or a number of microseconds."
            )
    return tuple(columns)


def _column(field: t.Field, where: str, instead: dict[t.Type, t.Type], fixed: t.Type | None = None) -> t.Field:
    """A column with other types in the place of some, at any depth; `fixed` is for binaries of a fixed length."""
    path = f"{where}{field.name}"

    def inner(below: t.Field) -> t.Field:
        return _column(below, f"{path}.", instead, fixed)

    match field.type:
        case t.UNKNOWN:
            raise SchemaMismatch(
                f"column {path!r} has nothing but nulls, and so no type: cast it to that which it is to have, or leave "
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
