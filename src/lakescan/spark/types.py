"""Convert column types to Spark types, and Arrow arrays to the Arrow types that Spark expects for them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import types as s
from pyspark.sql.pandas.types import to_arrow_schema

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.common.uuids import uuid_texts
from lakescan.errors import UnsupportedFeature
from lakescan.tables.scan_spec import ScanSpec

_ATOMIC: dict[str, type[s.DataType]] = {
    "boolean": s.BooleanType,
    "byte": s.ByteType,
    "short": s.ShortType,
    "int": s.IntegerType,
    "long": s.LongType,
    "float": s.FloatType,
    "double": s.DoubleType,
    "date": s.DateType,
    "string": s.StringType,
    "binary": s.BinaryType,
    "uuid": s.StringType,
    "unknown": s.NullType,
    "variant": s.VariantType,
}

_NOT_WRITTEN = (
    "CalendarIntervalType",
    "DayTimeIntervalType",
    "GeographyType",
    "GeometryType",
    "VariantType",
    "YearMonthIntervalType",
)


_RAW_TYPE = "__CHAR_VARCHAR_TYPE_STRING"


def spark_schema(schema: Schema, *, nanos_as_long: bool = False) -> s.StructType:
    """Convert a table's columns, with their comments, to a Spark schema.

    Spark's timestamps have microseconds. Nanosecond columns become microseconds, and reading a finer value raises. With
    `nanos_as_long` they become `BIGINT`, nanoseconds since 1970. Columns of CHAR(n) are marked as in Spark's own
    tables, so that comparisons ignore their padding.
    """
    struct = _struct(schema.struct(), nanos_as_long)
    for column, field in zip(schema.fields, struct.fields, strict=True):
        if column.pad:
            field.metadata = {**(field.metadata or {}), _RAW_TYPE: f"char({column.pad})"}
    return struct


def schema_of(scan: ScanSpec) -> s.StructType:
    """Return the Spark schema of the rows that a scan returns.

    Its option `nanosAsLong` selects the type of nanoseconds.
    """
    return spark_schema(scan.output, nanos_as_long=scan.options.nanos_as_long)


def _struct(kind: t.Struct, nanos_as_long: bool) -> s.StructType:
    return s.StructType(
        [s.StructField(f.name, spark_type(f.type, nanos_as_long), not f.required, _comment(f.doc)) for f in kind.fields]
    )


def _comment(doc: str | None) -> dict[str, str] | None:
    return {"comment": doc} if doc else None


def spark_type(kind: t.Type, nanos_as_long: bool = False) -> s.DataType:
    """Return the Spark type for values of a lakescan column type; raises `UnsupportedFeature` for a type without one.

    Nanosecond timestamps become microseconds, or BIGINT with `nanos_as_long`.
    """
    match kind:
        case t.Struct():
            return _struct(kind, nanos_as_long)
        case t.ListOf():
            return s.ArrayType(spark_type(kind.element.type, nanos_as_long), not kind.element.required)
        case t.MapOf():
            key, value = (spark_type(f.type, nanos_as_long) for f in (kind.key, kind.value))
            return s.MapType(key, value, not kind.value.required)
        case t.Decimal():
            return s.DecimalType(kind.precision, kind.scale)
        case t.Timestamp(unit="ns") if nanos_as_long:
            return s.LongType()
        case t.Timestamp():
            return s.TimestampType() if kind.zoned else s.TimestampNTZType()
        case t.Fixed() | t.Geospatial():
            return s.BinaryType()
        case t.TIME:
            return s.TimeType(6)
        case t.Atomic():
            return _ATOMIC[kind.name]()
    raise UnsupportedFeature(f"{kind} columns on Spark", "Leave the column out, or read in process.")


def arrow_schema(schema: s.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of batches for a Spark schema; timestamps with a zone are in UTC."""
    takes_zone = "timezone" in inspect.signature(to_arrow_schema).parameters  # PySpark 4.1 always uses UTC
    return to_arrow_schema(schema, timezone="UTC") if takes_zone else to_arrow_schema(schema)


def schema_of_rows(schema: s.StructType | pa.Schema) -> pa.Schema:
    """Return the Arrow schema of a frame's rows as Spark passes them to Python, to write them.

    Sail passes an Arrow schema, which is returned unchanged. Raises `UnsupportedFeature` for types that Arrow lacks, or
    whose values Spark exports differently.
    """
    if isinstance(schema, pa.Schema):
        return schema
    for path, kind in _types(schema, ""):
        if type(kind).__name__ in _NOT_WRITTEN or isinstance(kind, s.UserDefinedType):
            name = kind.simpleString()
            raise UnsupportedFeature(f"writing column {path!r} of Spark type {name}", "Cast it to another type.")
    try:
        return arrow_schema(schema)
    except PySparkTypeError as error:
        raise UnsupportedFeature(f"writing a column of the frame: {error}", "Cast it to another type.") from error


def _types(kind: s.DataType, path: str) -> Iterator[tuple[str, s.DataType]]:
    match kind:
        case s.StructType():
            for field in kind.fields:
                yield from _types(field.dataType, f"{path}.{field.name}" if path else field.name)
        case s.ArrayType():
            yield from _types(kind.elementType, f"{path}.element")
        case s.MapType():
            yield from _types(kind.keyType, f"{path}.key")
            yield from _types(kind.valueType, f"{path}.value")
        case _:
            yield path, kind


def as_spark_batch(batch: pa.RecordBatch, fields: Iterable[t.Field], schema: s.StructType) -> pa.RecordBatch:
    """Convert a batch with the lakescan types of `fields` to the Arrow types that Spark expects for `schema`."""
    target = arrow_schema(schema)
    columns = [
        as_spark_array(column, field.type, kind)
        for column, field, kind in zip(batch.columns, fields, target.types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def as_spark_array(array: pa.Array, kind: t.Type, target: pa.DataType) -> pa.Array:
    """Convert an array of a lakescan column type to the Arrow type `target` that Spark expects for it.

    Raises `UnsupportedFeature` for nanoseconds that are not whole microseconds.
    """
    if array.type == target:
        return array
    if isinstance(kind, t.Struct):
        members = [as_spark_array(array.field(i), f.type, target.field(i).type) for i, f in enumerate(kind.fields)]
        return pa.StructArray.from_arrays(members, fields=list(target), mask=_nulls(array))
    if kind == t.VARIANT:
        members = [array.field(target.field(i).name) for i in range(target.num_fields)]
        return pa.StructArray.from_arrays(members, fields=list(target), mask=_nulls(array))
    if isinstance(kind, t.ListOf):
        values = as_spark_array(array.values, kind.element.type, target.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=target, mask=_nulls(array))
    if isinstance(kind, t.MapOf):
        keys = as_spark_array(array.keys, kind.key.type, target.key_type)
        items = as_spark_array(array.items, kind.value.type, target.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=target, mask=_nulls(array))
    if kind == t.UUID and pa.types.is_string(target):
        return uuid_texts(array.storage if isinstance(array, pa.ExtensionArray) else array)
    if isinstance(kind, t.Timestamp) and kind.unit == "ns" and pa.types.is_timestamp(target):
        return _whole_microseconds(array, target)
    return array.cast(target)


def _whole_microseconds(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast nanoseconds to microseconds (`target`); raises `UnsupportedFeature` if digits would be lost."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise UnsupportedFeature(
            "timestamps finer than microseconds on Spark",
            f"Spark cannot represent them ({error}). Read such columns as BIGINT, nanoseconds since 1970, with "
            "option('nanosAsLong', 'true'), or read in process.",
        ) from error


def _nulls(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None
