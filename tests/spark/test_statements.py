"""Statements about tables, namespaces and views on Spark: lakescan's own, and those that stay Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakescan

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(tmp_path: Path, spark: Any) -> Iterator[lakescan.Catalog]:
    catalog = lakescan.catalog("stlake", warehouse=tmp_path / "lake")
    catalog.create_namespace("shop")
    yield catalog
    spark.conf.unset("spark.lakescan.namespace")


def rows(spark: Any, text: str, **arguments: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lakescan.spark.sql(spark, text, **arguments).collect()]


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_the_life_of_a_table(spark: Any, lake: lakescan.Catalog, format: str) -> None:
    run = lambda text: lakescan.spark.sql(spark, text)  # noqa: E731
    run(f"CREATE TABLE stlake.shop.t (id BIGINT, day DATE) USING {format} PARTITIONED BY (day) COMMENT 'orders'")
    run("INSERT INTO stlake.shop.t VALUES (1, DATE '2026-01-31')")
    run("ALTER TABLE stlake.shop.t ADD COLUMNS (note STRING COMMENT 'free text')")
    run("ALTER TABLE stlake.shop.t SET TBLPROPERTIES ('owner' = 'sales')")
    run("INSERT INTO stlake.shop.t VALUES (2, DATE '2026-02-01', 'new')")
    assert rows(spark, "SELECT id, note FROM stlake.shop.t ORDER BY id") == [(1, None), (2, "new")]
    assert ("note", "string", "free text") in rows(spark, "DESCRIBE TABLE stlake.shop.t")
    assert ("owner", "sales") in rows(spark, "SHOW TBLPROPERTIES stlake.shop.t")
    assert rows(spark, "SHOW TABLES IN stlake.shop") == [("shop", "t", False)]
    assert len(rows(spark, "SHOW PARTITIONS stlake.shop.t")) == 2
    run("ALTER TABLE stlake.shop.t RENAME TO u")
    run("DROP TABLE stlake.shop.u")
    assert lake.list_tables("shop") == []


def test_a_table_is_made_of_a_query_over_lakescan_tables_and_views(spark: Any, lake: lakescan.Catalog) -> None:
    lakescan.spark.sql(spark, "CREATE TABLE stlake.shop.a AS SELECT id, id * 2 AS n FROM range(5)")
    spark.range(3).createOrReplaceTempView("st_ids")
    lakescan.spark.sql(
        spark,
        "CREATE TABLE stlake.shop.b USING delta AS SELECT a.n FROM stlake.shop.a a JOIN st_ids ON a.id = st_ids.id",
    )
    spark.catalog.dropTempView("st_ids")
    assert sorted(rows(spark, "SELECT n FROM stlake.shop.b")) == [(0,), (2,), (4,)]


def test_branches_and_procedures(spark: Any, lake: lakescan.Catalog) -> None:
    lakescan.spark.sql(spark, "CREATE TABLE stlake.shop.t (id BIGINT)")
    for number in range(2):
        lakescan.spark.sql(spark, f"INSERT INTO stlake.shop.t VALUES ({number})")
    lakescan.spark.sql(spark, "ALTER TABLE stlake.shop.t CREATE BRANCH audit")
    assert {row[0] for row in rows(spark, "SHOW BRANCHES FROM stlake.shop.t")} == {"main", "audit"}
    [compacted] = rows(
        spark, "CALL stlake.system.rewrite_data_files(table => 'shop.t', options => map('rewrite-all', 'true'))"
    )
    assert compacted[0] == 2
    assert rows(
        spark, "CALL stlake.system.create_changelog_view(table => 'shop.t', changelog_view => 'st_changes')"
    ) == [("st_changes",)]
    assert spark.sql("SELECT count(*) FROM st_changes").first()[0] == 2
    spark.catalog.dropTempView("st_changes")


def test_short_names_mean_the_namespace_of_use(spark: Any, lake: lakescan.Catalog) -> None:
    lakescan.spark.sql(spark, "USE stlake.shop")
    lakescan.spark.sql(spark, "CREATE TABLE t (id INT)")
    assert rows(spark, "SHOW TABLES") == [("shop", "t", False)]
    lakescan.spark.sql(spark, "ALTER TABLE t ADD COLUMN n INT")
    assert rows(spark, "SHOW COLUMNS IN t") == [("id",), ("n",)]


def test_statements_about_other_tables_stay_spark_s(spark: Any, lake: lakescan.Catalog) -> None:
    spark.range(1).createOrReplaceTempView("st_view")
    assert rows(spark, "DESCRIBE st_view") == [("id", "bigint", None)]
    assert any("st_view" in row for row in rows(spark, "SHOW TABLES"))
    spark.catalog.dropTempView("st_view")
    names = {row[0] for row in rows(spark, "SHOW CATALOGS")}
    assert {"spark_catalog", "stlake"} <= names
    lakescan.spark.sql(spark, "CREATE TABLE st_own (id INT) USING parquet")
    assert spark.catalog.tableExists("st_own")
    lakescan.spark.sql(spark, "DROP TABLE st_own")
    assert not spark.catalog.tableExists("st_own")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("ALTER TABLE stlake.shop.t ADD COLUM x INT", lakescan.InvalidStatement, "Did you mean 'COLUMN'"),
        ("DESCRIBE stlake.shop.nope", lakescan.NoSuchTable, "has no table"),
        ("ANALYZE TABLE stlake.shop.t COMPUTE STATISTICS", lakescan.UnsupportedFeature, "ANALYZE"),
    ],
)
def test_what_is_wrong_is_said_in_lakescan_s_words(
    spark: Any, lake: lakescan.Catalog, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lakescan.spark.sql(spark, text)
