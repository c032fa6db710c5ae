"""Rows of Spark frames have Arrow types, or are refused before anything is written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as s

import lakescan
from lakescan.spark.types import schema_of_rows

WRITTEN = {
    s.StringType(): pa.string(),
    s.BinaryType(): pa.binary(),
    s.ByteType(): pa.int8(),
    s.ShortType(): pa.int16(),
    s.DecimalType(38, 10): pa.decimal128(38, 10),
    s.DateType(): pa.date32(),
    s.TimestampType(): pa.timestamp("us", "UTC"),
    s.TimestampNTZType(): pa.timestamp("us"),
    s.NullType(): pa.null(),
}
REFUSED = [
    s.DayTimeIntervalType(),
    s.YearMonthIntervalType(),
    s.CalendarIntervalType(),
    s.VariantType(),
    *[getattr(s, name)(4326) for name in ("GeometryType", "GeographyType") if hasattr(s, name)],
]


def a_frame(kind: s.DataType) -> s.StructType:
    return s.StructType([s.StructField("c", kind)])


@pytest.mark.parametrize("kind", WRITTEN, ids=str)
def test_supported_types_are_written(kind: s.DataType) -> None:
    assert schema_of_rows(a_frame(kind)).field("c").type == WRITTEN[kind]


@pytest.mark.parametrize("kind", REFUSED, ids=str)
def test_types_that_tables_cannot_hold_are_refused_at_any_depth(kind: s.DataType) -> None:
    nested = {"c": kind, "c.element.x": s.ArrayType(a_struct(kind)), "c.value": s.MapType(s.StringType(), kind)}
    for path, each in nested.items():
        with pytest.raises(lakescan.UnsupportedFeature, match=f"column '{path}' of Spark type"):
            schema_of_rows(a_frame(each))


def a_struct(kind: s.DataType) -> s.StructType:
    return s.StructType([s.StructField("x", kind)])
