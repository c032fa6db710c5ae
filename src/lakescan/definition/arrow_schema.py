"""Convert Arrow schemas to table columns; the page Column types of the documentation lists all conversions."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyarrow import types as kinds

from lakescan.common import types as t
from lakescan.errors import SchemaMismatch, UnsupportedFeature

_SIMPLE = {
    pa.bool_(): t.BOOLEAN,
    pa.int8(): t.BYTE,
    pa.int16(): t.SHORT,
    pa.int32(): t.INT,
    pa.int64(): t.LONG,
    pa.uint8(): t.INT,
    pa.uint16(): t.INT,
    pa.uint32(): t.LONG,
    pa.uint64(): t.Decimal(20, 0),
    pa.float16(): t.FLOAT,
    pa.float32(): t.FLOAT,
    pa.float64(): t.DOUBLE,
    pa.date32(): t.DATE,
    pa.date64(): t.DATE,
    pa.time32("s"): t.TIME,
    pa.time32("ms"): t.TIME,
    pa.time64("us"): t.TIME,
    pa.time64("ns"): t.TIME,
    pa.string(): t.STRING,
    pa.large_string(): t.STRING,
    pa.string_view(): t.STRING,
    pa.binary(): t.BINARY,
    pa.large_binary(): t.BINARY,
    pa.binary_view(): t.BINARY,
    pa.uuid(): t.UUID,
    pa.bool8(): t.BOOLEAN,
    pa.null(): t.UNKNOWN,
}
# Extension types that are stored as their storage type.
_TRANSPARENT = ("arrow.json", "arrow.fixed_shape_tensor")
_EXTENSION = b"ARROW:extension:name"
_INSTEAD = {
    "duration": "Cast it to a number of microseconds (`int64`).",
    "month_interval": "Cast it to a number of months (`int32`).",
    "day_time_interval": "Cast it to text, or a number.",
    "month_day_nano_interval": "Cast it to text, or to numbers of months and days.",
    "sparse_union": "Make a struct with a member for each of its types.",
    "dense_union": "Make a struct with a member for each of its types.",
}


def columns_of(schema: pa.Schema) -> tuple[t.Field, ...]:
    """Convert an Arrow schema to columns with the field id 0 and with comments, from the metadata `comment` or `doc`.

    Raises `UnsupportedFeature` for Arrow types without a table type.
    """
    return tuple(_column(field, "") for field in schema)


def optional_columns_of(schema: pa.Schema) -> tuple[t.Field, ...]:
    """Convert an Arrow schema as `columns_of` does, but make all fields nullable, apart from map keys.

    So later rows may have nulls where the first ones have none.
    """
    return tuple(map(_optional, columns_of(schema)))


def is_any_list(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a list in any layout: list, large list, fixed-size list or list view."""
    return bool(
        kinds.is_list(kind)
        or kinds.is_large_list(kind)
        or kinds.is_fixed_size_list(kind)
        or kinds.is_list_view(kind)
        or kinds.is_large_list_view(kind)
    )


def decimal_digits(kind: pa.DataType) -> tuple[int, int]:
    """Return the precision and scale of the decimal table type for an Arrow decimal.

    In Arrow, the scale may be negative or greater than the precision. The precision may be more than a table can have.
    """
    scale = max(kind.scale, 0)
    return max(kind.precision - min(kind.scale, 0), scale), scale


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


def _column(field: pa.Field, where: str) -> t.Field:
    metadata = field.metadata or {}
    doc = metadata.get(b"comment", metadata.get(b"doc"))
    path = f"{where}{field.name}"
    return t.Field(0, field.name, _type(field, path), not field.nullable, None if doc is None else doc.decode())


def _type(field: pa.Field, path: str) -> t.Type:
    kind = field.type
    if (name := (field.metadata or {}).get(_EXTENSION)) is not None:  # an extension type unknown to pyarrow
        raise _unsupported_type(path, f"extension<{name.decode()}>")
    if (simple := _SIMPLE.get(kind)) is not None:
        return simple
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name not in _TRANSPARENT:
            raise _unsupported_type(path, str(kind))
        return _type(pa.field(field.name, kind.storage_type), path)
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        return _type(pa.field(field.name, kind.value_type), path)
    if kinds.is_timestamp(kind):
        return t.Timestamp("ns" if kind.unit == "ns" else "us", zoned=kind.tz is not None)
    if kinds.is_decimal(kind) and decimal_digits(kind)[0] <= 38:
        return t.Decimal(*decimal_digits(kind))
    if kinds.is_fixed_size_binary(kind) and kind.byte_width:
        return t.Fixed(kind.byte_width)
    return _nested_type(kind, path)


def _nested_type(kind: pa.DataType, path: str) -> t.Type:
    if kinds.is_struct(kind) and kind.num_fields:
        return t.Struct(tuple(_column(member, f"{path}.") for member in kind))
    if is_any_list(kind):
        return t.ListOf(_inner("element", kind.value_field, path))
    if kinds.is_map(kind):
        key = replace(_inner("key", kind.key_field, path), required=True)
        return t.MapOf(key, _inner("value", kind.item_field, path))
    if kinds.is_struct(kind):
        raise _unsupported_type(path, "struct without members", "Leave it out: Parquet files cannot store it.")
    raise _unsupported_type(path, str(kind))


def _inner(name: str, field: pa.Field, path: str) -> t.Field:
    return t.Field(0, name, _type(field, f"{path}.{name}"), not field.nullable)


def _unsupported_type(path: str, kind: str, instead: str = "") -> UnsupportedFeature:
    name = kind.split("[")[0].split("<")[0]
    more = instead or _INSTEAD.get(name, "Cast it to another type, or leave it out.")
    return UnsupportedFeature(f"column {path!r} of Arrow type {kind} in a table", more)


_MICROS: dict[t.Type, t.Type] = {
    t.Timestamp("ns", zoned=zoned): t.Timestamp("us", zoned=zoned) for zoned in (True, False)
}


def iceberg_columns(rows: pa.Schema, *, nanoseconds: bool) -> tuple[t.Field, ...]:
    """Convert an Arrow schema to the columns of an Iceberg table, all nullable.

    Without `nanoseconds` (before format version 3), nanosecond timestamps become microsecond timestamps.

    Raises `UnsupportedFeature` for Arrow types without a table type, and `SchemaMismatch` for columns of only nulls.
    """
    return tuple(_format_column(field, "", {} if nanoseconds else _MICROS) for field in optional_columns_of(rows))


def delta_columns(rows: pa.Schema) -> tuple[t.Field, ...]:
    """Convert an Arrow schema to the columns of a Delta table, all nullable.

    Nanosecond timestamps become microseconds, UUIDs become strings, and fixed-size binaries become binaries.

    Raises `UnsupportedFeature` for times of day and for Arrow types without a table type, and `SchemaMismatch` for
    columns of only nulls, which have no type.
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
    """Replace types within a column at any depth: each type in `instead`, and fixed-size binaries by `fixed` if set.

    `where` is the path of the column's parent with a dot, for messages. Raises `SchemaMismatch` for a column of only
    nulls.
    """
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
