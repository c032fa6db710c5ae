"""Types of columns in SQL: Arrow types as Spark reads them, and conversions between DuckDB's and Spark's types."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from lakescan.common import types as t
from lakescan.expressions.scalar import nested
from lakescan.expressions.scalar.typed_sql import TypedSql, nested_sql_type

INSTANT = t.Timestamp()
_OF_ARROW: dict[pa.DataType, t.Type] = {
    pa.bool_(): t.BOOLEAN,
    pa.int8(): t.BYTE,
    pa.int16(): t.SHORT,
    pa.int32(): t.INT,
    pa.int64(): t.LONG,
    pa.uint8(): t.SHORT,
    pa.uint16(): t.INT,
    pa.uint32(): t.LONG,
    pa.uint64(): t.Decimal(20, 0),
    pa.float32(): t.FLOAT,
    pa.float64(): t.DOUBLE,
    pa.date32(): t.DATE,
    pa.date64(): t.DATE,
    pa.string(): t.STRING,
    pa.large_string(): t.STRING,
    pa.string_view(): t.STRING,
    pa.binary(): t.BINARY,
    pa.large_binary(): t.BINARY,
    pa.null(): t.UNKNOWN,
}
_CAST: dict[t.Type, str] = {
    t.BYTE: "TINYINT",
    t.SHORT: "SMALLINT",
    t.INT: "INTEGER",
    t.LONG: "BIGINT",
    t.STRING: "VARCHAR",
    t.DATE: "DATE",
    t.UNKNOWN: "INTEGER",
}


@dataclass(frozen=True)
class ForeignType(t.Type):
    """The Arrow type `found`, which Spark does not have. Its values can be selected, but not used in expressions."""

    found: pa.DataType

    def arrow(self) -> pa.DataType:
        """Return the Arrow type."""
        return self.found

    def __str__(self) -> str:
        return str(self.found)


def spark_type(kind: pa.DataType) -> t.Type:
    """Return the Spark type of an Arrow column; a `ForeignType` for an Arrow type that Spark does not have.

    Unsigned integers become the next larger type, and dictionaries the type of their values.
    """
    if (found := _OF_ARROW.get(kind)) is not None:
        return found
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return t.Decimal(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return t.Timestamp(zoned=kind.tz is not None)
    if pa.types.is_fixed_size_binary(kind):
        return t.BINARY
    if pa.types.is_struct(kind):
        return t.Struct(tuple(t.Field(0, each.name, spark_type(each.type)) for each in kind))
    if pa.types.is_map(kind):
        return t.MapOf(t.Field(0, "key", spark_type(kind.key_type)), t.Field(0, "value", spark_type(kind.item_type)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return t.ListOf(t.Field(0, "element", spark_type(kind.value_type)))
    return ForeignType(kind)


def comparable_type(kind: t.Type) -> t.Type:
    """Return a table's type as SQL compares it, without field ids, defaults and other attributes.

    UUID becomes STRING, and fixed-length binary becomes BINARY.
    """
    match kind:
        case t.UUID:
            return t.STRING
        case t.Fixed():
            return t.BINARY
        case t.Timestamp():
            return t.Timestamp(zoned=kind.zoned)
        case t.Struct():
            return t.Struct(tuple(_field(each, each.name) for each in kind.fields))
        case t.ListOf():
            return t.ListOf(_field(kind.element, "element"))
        case t.MapOf():
            return t.MapOf(_field(kind.key, "key"), _field(kind.value, "value"))
    return kind


def _field(each: t.Field, name: str) -> t.Field:
    return t.Field(0, name, comparable_type(each.type))


def column_of(sql: str, kind: t.Type) -> TypedSql:
    """Return a column of an Arrow table in DuckDB, cast to the DuckDB type that expressions expect for `kind`.

    Timestamps with a time zone become wall-clock times in UTC.
    """
    if isinstance(kind, t.Timestamp):
        if kind.zoned:  # DuckDB cannot cast zoned nanoseconds, which pandas uses, to wall-clock times
            sql = f"CAST({sql} AS TIMESTAMPTZ)"
        return TypedSql(f"CAST({sql} AS TIMESTAMP)", kind)
    if isinstance(kind, t.Decimal):
        return TypedSql(f"CAST({sql} AS DECIMAL({kind.precision}, {kind.scale}))", kind)
    if t.children(kind) and _has_instants(kind):
        return TypedSql(f"CAST({sql} AS {nested_sql_type(kind)})", kind)
    return TypedSql(f"CAST({sql} AS {_CAST[kind]})" if kind in _CAST else sql, kind)


def _has_instants(kind: t.Type) -> bool:
    """Return whether a type is or contains a timestamp.

    False if it contains a type that DuckDB keeps, such as VARIANT.
    """
    if _keeps_duckdb_type(kind):
        return False
    return isinstance(kind, t.Timestamp) or any(_has_instants(each.type) for each in t.children(kind))


def cell_of(sql: str, of: TypedSql) -> TypedSql:
    """Return the column `sql` of an outer query, which has the values, type and CHAR length of the expression `of`."""
    return TypedSql(sql, of.type, pad=of.pad)


def result_type(kind: t.Type) -> pa.DataType | None:
    """Return the Arrow type of a result column.

    Returns None for a type that is returned as DuckDB has it: VARIANT, TIME, UUID, geospatial and foreign types.
    """
    return None if _keeps_duckdb_type(kind) else nested.arrow(kind)


def _keeps_duckdb_type(kind: t.Type) -> bool:
    is_left = isinstance(kind, ForeignType | t.Geospatial) or kind in (t.VARIANT, t.TIME, t.UUID)
    return is_left or any(_keeps_duckdb_type(each.type) for each in t.children(kind))


def unnamed(value: TypedSql) -> TypedSql:
    """Return the value without its literal, so that it is no longer treated as a constant."""
    return replace(value, literal=None)
