"""Columns of an Arrow schema as column types of tables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyarrow import types as kinds

from lakescan import types as t
from lakescan.errors import UnsupportedFeature

_SIMPLE = {
    pa.bool_(): t.BOOLEAN,
    pa.int8(): t.BYTE,
    pa.int16(): t.SHORT,
    pa.int32(): t.INT,
    pa.int64(): t.LONG,
    pa.uint8(): t.INT,
    pa.uint16(): t.INT,
    pa.uint32(): t.LONG,
    pa.float16(): t.FLOAT,
    pa.float32(): t.FLOAT,
    pa.float64(): t.DOUBLE,
    pa.date32(): t.DATE,
    pa.date64(): t.DATE,
    pa.time32("s"): t.TIME,
    pa.time32("ms"): t.TIME,
    pa.time64("us"): t.TIME,
    pa.string(): t.STRING,
    pa.large_string(): t.STRING,
    pa.string_view(): t.STRING,
    pa.binary(): t.BINARY,
    pa.large_binary(): t.BINARY,
    pa.binary_view(): t.BINARY,
    pa.uuid(): t.UUID,
    pa.null(): t.UNKNOWN,
}


def columns_of(schema: pa.Schema) -> tuple[t.Field, ...]:
    """The columns, without ids; comments are from fields' metadata (`comment`, `doc`). Raises `UnsupportedFeature`."""
    return tuple(map(_column, schema))


def optional_columns_of(schema: pa.Schema) -> tuple[t.Field, ...]:
    """The same, all of which may be null, at any depth: that rows have no null says nothing of others to come."""
    return tuple(map(_optional, columns_of(schema)))


def _optional(field: t.Field) -> t.Field:
    match field.type:
        case t.Struct():
            kind: t.Type = t.Struct(tuple(map(_optional, field.type.fields)))
        case t.ListOf():
            kind = t.ListOf(_optional(field.type.element))
        case t.MapOf():
            kind = t.MapOf(field.type.key, _optional(field.type.value))
        case _:
            kind = field.type
    return replace(field, required=False, type=kind)


def _column(field: pa.Field) -> t.Field:
    said = field.metadata or {}
    doc = said.get(b"comment", said.get(b"doc"))
    return t.Field(0, field.name, _type(field), not field.nullable, None if doc is None else doc.decode())


def _type(field: pa.Field) -> t.Type:
    kind = field.type
    if (simple := _SIMPLE.get(kind)) is not None:
        return simple
    if kinds.is_dictionary(kind):
        return _type(pa.field(field.name, kind.value_type))
    if kinds.is_timestamp(kind):
        return t.Timestamp("ns" if kind.unit == "ns" else "us", zoned=kind.tz is not None)
    if kinds.is_decimal(kind) and kind.precision <= 38:
        return t.Decimal(kind.precision, kind.scale)
    if kinds.is_fixed_size_binary(kind):
        return t.Fixed(kind.byte_width)
    if kinds.is_struct(kind):
        return t.Struct(tuple(map(_column, kind)))
    inner = partial(t.Field, 0)
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        value = kind.value_field
        return t.ListOf(inner("element", _type(value), not value.nullable))
    if kinds.is_map(kind):
        item = kind.item_field
        return t.MapOf(
            inner("key", _type(kind.key_field), required=True), inner("value", _type(item), not item.nullable)
        )
    raise UnsupportedFeature(f"column {field.name!r} of Arrow type {kind} in a table", "Cast it to another type.")
