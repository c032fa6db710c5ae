"""Schemas and types of other libraries as columns and column types of new tables."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import deltalake
import pandas as pd
import polars as pl
import pyarrow as pa
import pyiceberg.schema
import pyiceberg.types as iceberg_types
import pytest
from pyspark.sql import types as spark

import lakescan
from lakescan.errors import InvalidOption

PANDAS = pd.DataFrame({"id": [1], "at": pd.to_datetime(["2026-01-01"]), "name": pd.Series(["x"], dtype="string")})
POLARS = pl.DataFrame({"id": [1], "at": [datetime(2026, 1, 1)], "name": ["x"]})
STRUCT = spark.StructType(
    [
        spark.StructField("id", spark.LongType(), nullable=False, metadata={"comment": "the 'key'"}),
        spark.StructField("at", spark.TimestampNTZType()),
        spark.StructField("name", spark.StringType()),
    ]
)
ARROW = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us")), ("name", pa.string())])
SCHEMAS: dict[str, Any] = {
    "Arrow schema": ARROW,
    "Arrow table": ARROW.empty_table(),
    "SQL": "id BIGINT, at TIMESTAMP_NTZ, name STRING",
    "StructType": STRUCT,
    "pandas dtypes": PANDAS.dtypes,
    "pandas frame": PANDAS,
    "Polars schema": POLARS.schema,
    "Polars frame": POLARS,
    "lazy Polars frame": POLARS.lazy(),
    "pyiceberg schema": pyiceberg.schema.Schema(
        iceberg_types.NestedField(1, "id", iceberg_types.LongType()),
        iceberg_types.NestedField(2, "at", iceberg_types.TimestampType()),
        iceberg_types.NestedField(3, "name", iceberg_types.StringType()),
    ),
    "deltalake schema": deltalake.Schema(
        [
            deltalake.Field("id", "long"),
            deltalake.Field("at", deltalake.schema.PrimitiveType("timestamp_ntz")),
            deltalake.Field("name", "string"),
        ]
    ),
}


@pytest.fixture
def lake(tmp_path: Path) -> lakescan.Catalog:
    lake = lakescan.catalog("local", warehouse=str(tmp_path / "lake"))
    lake.create_namespace("db")
    return lake


@pytest.mark.parametrize("format_name", ["iceberg", "delta"])
@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_table_has_the_columns_of_a_schema_of_any_library(
    lake: lakescan.Catalog, kind: str, format_name: str
) -> None:
    table = lake.create_table("db.t", SCHEMAS[kind], format=format_name)
    assert [(each.name, each.type) for each in table.schema] == [(each.name, each.type) for each in ARROW]
    table.append(POLARS)
    assert lakescan.table("local.db.t").to_arrow().to_pylist() == POLARS.to_dicts()


@pytest.mark.parametrize("format_name", ["iceberg", "delta"])
def test_a_struct_type_has_nested_types_comments_and_not_null(lake: lakescan.Catalog, format_name: str) -> None:
    inner = spark.StructType([spark.StructField("x y", spark.ArrayType(spark.IntegerType()))])
    fields = [
        STRUCT["id"],
        spark.StructField("s", inner),
        spark.StructField("m", spark.MapType(spark.StringType(), spark.DecimalType(10, 2))),
        spark.StructField("at", spark.TimestampType()),
    ]
    table = lake.create_table("db.t", spark.StructType(fields), format=format_name)
    described = lakescan.sql("DESCRIBE local.db.t").to_arrow().to_pylist()
    assert described[0] == {"col_name": "id", "data_type": "bigint", "comment": "the 'key'"}
    assert not table.schema.field("id").nullable
    s, m, at = (table.schema.field(name).type for name in ("s", "m", "at"))
    assert (s.field(0).name, s.field(0).type.value_type) == ("x y", pa.int32())
    assert (m.key_type, m.item_type, at) == (pa.string(), pa.decimal128(10, 2), pa.timestamp("us", "UTC"))


def test_lengths_of_spark_types_are_kept(lake: lakescan.Catalog) -> None:
    struct = spark.StructType([spark.StructField("code", spark.VarcharType(3))])
    lake.create_table("db.t", struct, format="delta")
    assert lakescan.sql("DESCRIBE local.db.t").to_arrow()["data_type"].to_pylist() == ["varchar(3)"]


def test_identifier_fields_of_a_pyiceberg_schema_become_the_key(lake: lakescan.Catalog) -> None:
    field = iceberg_types.NestedField(7, "id", iceberg_types.LongType(), required=True)
    table = lake.create_table("db.t", pyiceberg.schema.Schema(field, identifier_field_ids=[7]))
    table.append(pa.table({"id": [1]}))
    assert lakescan.table("local.db.t").upsert(pa.table({"id": [1]})).updated == 1


@pytest.mark.parametrize("given", [5, {"id": "BIGINT"}, [("id", "BIGINT")], None])
def test_an_object_without_a_schema_is_refused(lake: lakescan.Catalog, given: Any) -> None:
    with pytest.raises(InvalidOption, match="is not a schema: expected"):
        lake.create_table("db.t", given)
    assert not lake.table_exists("db.t")


def test_a_pandas_column_of_objects_is_refused_by_name(lake: lakescan.Catalog) -> None:
    with pytest.raises(InvalidOption, match="column 'name' of pandas type object has no type"):
        lake.create_table("db.t", pd.DataFrame({"name": ["x"]}).dtypes)


def test_none_means_that_an_argument_is_not_given(lake: lakescan.Catalog) -> None:
    none: dict[str, Any] = dict.fromkeys(
        ["primary_key", "partition_by", "sort_by", "defaults", "properties", "location", "comment"]
    )
    assert lake.create_table("db.t", "id BIGINT", **none).schema.names == ["id"]
    assert lake.create_table_if_not_exists("db.t", STRUCT, **none).schema.names == ["id"]


LONGS = [spark.LongType(), spark.LongType, pl.Int64, pl.Int64(), pd.Int64Dtype(), iceberg_types.LongType(), pa.int64()]


@pytest.mark.parametrize("kind", ["BIGINT", *LONGS], ids=str)
def test_a_column_is_added_with_a_type_of_any_library(lake: lakescan.Catalog, kind: Any) -> None:
    table = lake.create_table("db.t", "id INT")
    table.alter().add_column("more", kind).change_column("id", type=kind).commit()
    assert lakescan.table("local.db.t").schema.types == [pa.int64(), pa.int64()]


def test_columns_are_replaced_by_a_struct_type(lake: lakescan.Catalog) -> None:
    table = lake.create_table("db.t", "other INT")
    table.alter().replace_columns(spark.StructType(STRUCT.fields[1:])).commit()
    assert lakescan.table("local.db.t").schema.names == ["at", "name"]


def test_an_object_that_is_not_a_type_is_refused(lake: lakescan.Catalog) -> None:
    table = lake.create_table("db.t", "id INT")
    with pytest.raises(InvalidOption, match="give an SQL type as text"):
        table.alter().add_column("more", 5)
