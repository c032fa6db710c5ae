"""INSERT and TRUNCATE TABLE on Spark: `lakescan.spark.sql`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from lakescan.errors import InvalidStatement, NoSuchTable, SchemaMismatch, UnsupportedFeature
from tests.statements.rows.test_parse import REFUSED, TAKEN

FORMATS = ("iceberg", "delta")
D1, D2 = date(2026, 1, 1), date(2026, 1, 2)
COUNTS = ["num_affected_rows", "num_inserted_rows"]


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[Path]:
    """The catalog `sparkins` with a namespace, and tables of both formats named after their format."""
    lakescan.catalog("sparkins", warehouse=str(tmp_path / "lake")).create_namespace("db")
    for name in FORMATS:
        columns = "(id BIGINT NOT NULL, name STRING, day DATE)"
        lakescan.sql(f"CREATE TABLE sparkins.db.{name} {columns} USING {name} PARTITIONED BY (day)")
    yield tmp_path / "lake"
    for conf in ("spark.lakescan.namespace", "spark.sql.ansi.enabled", "spark.sql.sources.partitionOverwriteMode"):
        spark.conf.unset(conf)


def rows(name: str) -> list[tuple[Any, ...]]:
    found = lakescan.table(f"sparkins.db.{name}").to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=str)


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_appended_by_position_by_list_and_by_name(spark: Any, lake: Path, name: str) -> None:
    def run(text: str, *args: Any, **frames: Any) -> Any:
        return lakescan.spark.sql(spark, text, *args, **frames)

    result = run(f"INSERT INTO sparkins.db.{name} VALUES (1, 'a', DATE'2026-01-01'), (2, NULL, DATE'2026-01-02')")
    assert result.columns == COUNTS
    assert [tuple(row) for row in result.collect()] == [(2, 2)]
    run(f"INSERT INTO TABLE sparkins.db.{name} (day, ID) SELECT DATE'2026-01-01', 3")
    run(f"INSERT INTO sparkins.db.{name} BY NAME SELECT 'd{{}}' AS name, 4 AS id FROM {{one}}", one=spark.range(1))
    run(
        f"WITH q AS (SELECT max(id) + :n AS id FROM sparkins.db.{name}) INSERT INTO sparkins.db.{name} (id) TABLE q",
        {"n": 1},
    )
    run("USE sparkins.db")
    run(f"INSERT INTO {name} PARTITION (day = '2026-01-02') (name, id) VALUES (?, ?)", ["f", 6])
    assert rows(name) == [
        (1, "a", D1),
        (2, None, D2),
        (3, None, D1),
        (4, "d{}", None),
        (5, None, None),
        (6, "f", D2),
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_overwrites_replace_all_rows_a_partition_or_those_of_a_condition(spark: Any, lake: Path, name: str) -> None:
    table = f"sparkins.db.{name}"

    def run(text: str, *args: Any) -> None:
        lakescan.spark.sql(spark, text, *args)

    run(f"INSERT INTO {table} VALUES (1, 'a', DATE'2026-01-01'), (2, 'b', DATE'2026-01-02'), (3, 'c', NULL)")
    run(f"INSERT OVERWRITE {table} PARTITION (day = DATE'2026-01-01') SELECT 4, 'd'")
    assert rows(name) == [(2, "b", D2), (3, "c", None), (4, "d", D1)]
    run(f"INSERT INTO {table} REPLACE WHERE day = :day SELECT 6, 'f', :day", {"day": D2})
    assert rows(name) == [(3, "c", None), (4, "d", D1), (6, "f", D2)]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    run(f"INSERT OVERWRITE {table} SELECT id + 1, name, day FROM {table} WHERE id = 4")
    assert rows(name) == [(3, "c", None), (5, "d", D1), (6, "f", D2)]
    run(f"INSERT OVERWRITE {table} PARTITION (day = '2026-01-02') SELECT 9, 'x' WHERE false")
    assert rows(name) == [(3, "c", None), (5, "d", D1)]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "static")
    run(f"INSERT OVERWRITE {table} SELECT * FROM {table} WHERE id = 3")
    assert rows(name) == [(3, "c", None)]
    assert lakescan.spark.sql(spark, f"TRUNCATE TABLE {table}") is not None
    assert rows(name) == []


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_values_that_a_column_cannot_hold_fail_in_every_mode(spark: Any, lake: Path, ansi: str) -> None:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    lakescan.sql("CREATE TABLE sparkins.db.t (a INT, b DECIMAL(5, 1), c STRING, d TINYINT) USING delta")
    table = lakescan.table("sparkins.db.t")
    for values in (
        "3000000000, 1, 'x', 1",
        "1, 99999.99, 'x', 1",
        "1, 1, 'x', 300",
        "'x', 1, 'x', 1",
        "1D / 3e-20D, 1, 'x', 1",
    ):
        with pytest.raises(
            Exception, match=r"CAST_OVERFLOW|CAST_INVALID|NUMERIC_VALUE_OUT_OF_RANGE|does not fit|OVERFLOW"
        ):
            lakescan.spark.sql(spark, f"INSERT INTO sparkins.db.t VALUES ({values})")
    with pytest.raises(SchemaMismatch, match="column 'a' is int, and its value boolean"):
        lakescan.spark.sql(spark, "INSERT INTO sparkins.db.t VALUES (true, 1, 'x', 1)")
    assert table.refresh().version == 0
    lakescan.spark.sql(spark, "INSERT INTO sparkins.db.t VALUES (1.9D, 12.345, 7, '8'), (NULL, NULL, NULL, NULL)")
    assert rows("t") == [(1, Decimal("12.3"), "7", 8), (None, None, None, None)]


def test_columns_that_are_left_out_have_their_defaults(spark: Any, lake: Path) -> None:
    lakescan.sql(
        "CREATE TABLE sparkins.db.t (id INT, n INT DEFAULT 7, m MAP<STRING, INT>) USING iceberg "
        "TBLPROPERTIES ('format-version' = '3')"
    )
    lakescan.spark.sql(spark, "INSERT INTO sparkins.db.t VALUES (1, DEFAULT, map('k', 1)), (2, 3, NULL)")
    lakescan.spark.sql(spark, "INSERT INTO sparkins.db.t (id) SELECT 4")
    assert rows("t") == [(1, 7, [("k", 1)]), (2, 3, None), (4, 7, None)]


def test_statements_of_sparks_own_tables_stay_with_spark(spark: Any, lake: Path) -> None:
    spark.sql("CREATE OR REPLACE TEMP VIEW own_view AS SELECT 1 AS a")
    spark.sql("DROP TABLE IF EXISTS own_table")
    spark.sql("CREATE TABLE own_table (a INT) USING parquet")
    try:
        lakescan.spark.sql(spark, "INSERT INTO own_table VALUES (1), (2)")
        lakescan.spark.sql(spark, "INSERT INTO TABLE spark_catalog.default.own_table SELECT :a", {"a": 3})
        lakescan.spark.sql(spark, "FROM own_view INSERT INTO own_table SELECT a + 3")
        lakescan.spark.sql(spark, "USE sparkins.db")
        lakescan.spark.sql(spark, "INSERT INTO spark_catalog.default.own_table VALUES (5)")
        with pytest.raises(NoSuchTable, match="own_table"):
            lakescan.spark.sql(spark, "INSERT INTO own_table VALUES (6)")  # in the namespace set by USE
        lakescan.spark.sql(spark, "USE spark_catalog.default")
        assert [row.a for row in spark.table("own_table").sort("a").collect()] == [1, 2, 3, 4, 5]
        lakescan.spark.sql(spark, "TRUNCATE TABLE own_table")
        assert spark.table("own_table").count() == 0
        assert "own_table" in str(lakescan.spark.sql(spark, "EXPLAIN INSERT INTO own_table VALUES (1)").collect())
        with pytest.raises(UnsupportedFeature, match="EXPLAIN of INSERT"):
            lakescan.spark.sql(spark, "EXPLAIN INSERT INTO sparkins.db.delta VALUES (1, 'a', NULL)")
        with pytest.raises(UnsupportedFeature, match="INSERT with tables of lakescan's catalog"):
            lakescan.spark.sql(spark, "INSERT INTO own_table SELECT id FROM sparkins.db.delta")
    finally:
        spark.sql("DROP TABLE own_table")
        spark.sql("DROP VIEW own_view")


def test_mistakes_in_statements_about_lakescan_tables_are_reported(spark: Any, lake: Path) -> None:
    for text, error, message in (
        ("INSERT INTO sparkins.db.delta SELEC 1", InvalidStatement, "Did you mean 'SELECT'"),
        ("INSERT INTO sparkins.db.delt SELECT 1", NoSuchTable, "delt"),
        ("INSERT INTO sparkins.db.delta SELECT 1", SchemaMismatch, "1 columns"),
        ("FROM x INSERT INTO sparkins.db.delta SELECT 1", UnsupportedFeature, "Hive"),
    ):
        with pytest.raises(error, match=message):
            lakescan.spark.sql(spark, text)


def test_rows_are_deleted_updated_and_merged(spark: Any, lake: Path) -> None:
    def run(text: str, **frames: Any) -> list[tuple[int, ...]]:
        return [tuple(row) for row in lakescan.spark.sql(spark, text, **frames).collect()]

    run("INSERT INTO sparkins.db.delta VALUES (1, 'a', NULL), (2, 'b', NULL), (3, 'c', NULL)")
    assert run("DELETE FROM sparkins.db.delta d WHERE d.id = 1") == [(1,)]
    assert run("UPDATE sparkins.db.delta SET delta.name = concat(name, '!') WHERE id = 2") == [(1,)]
    source = spark.createDataFrame(pa.table({"id": [3, 4]}))
    merge = (
        "MERGE INTO sparkins.db.delta t USING {source} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET t.name = 'm' "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'n')"
    )
    assert run(merge, source=source) == [(2, 1, 0, 1)]
    assert rows("delta") == [(2, "b!", None), (3, "m", None), (4, "n", None)]


@pytest.mark.parametrize("text", [*TAKEN, *(text for text, _, _ in REFUSED)])
def test_the_same_statements_are_accepted_and_refused_as_by_sparks_parser(spark: Any, text: str) -> None:
    from pyspark.errors import ParseException

    parser = spark._jsparkSession.sessionState().sqlParser()
    if text in TAKEN:
        parser.parsePlan(text)
    else:
        with pytest.raises(ParseException):
            parser.parsePlan(text)


@pytest.mark.parametrize("name", FORMATS)
def test_rows_of_only_defaults_are_written(spark: Any, lake: Path, name: str) -> None:
    more = "TBLPROPERTIES ('format-version' = '3')" if name == "iceberg" else ""
    lakescan.sql(f"CREATE TABLE sparkins.db.d (id INT, n INT DEFAULT 7) USING {name} {more}")
    for into, values, count in (
        ("INTO", "VALUES (DEFAULT, DEFAULT)", 1),
        ("INTO", "(id) VALUES (DEFAULT), (DEFAULT)", 3),
        ("OVERWRITE", "VALUES (DEFAULT, DEFAULT), (DEFAULT, DEFAULT)", 2),
    ):
        lakescan.spark.sql(spark, f"INSERT {into} sparkins.db.d {values}")
        assert rows("d") == [(None, 7)] * count
