"""Statements about tables, namespaces and views on Spark: lakescan runs its own, and leaves others to Spark."""

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
def test_a_table_is_created_changed_and_dropped(spark: Any, lake: lakescan.Catalog, format: str) -> None:
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


def test_branches_and_procedures_run_on_spark(spark: Any, lake: lakescan.Catalog) -> None:
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


def test_statements_about_other_tables_are_left_to_spark(spark: Any, lake: lakescan.Catalog) -> None:
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


def test_use_sets_the_namespace_of_short_names_and_can_return_to_spark(spark: Any, lake: lakescan.Catalog) -> None:
    lakescan.spark.sql(spark, "CREATE TABLE st_both (n INT) USING parquet")
    spark.range(7, 8).createOrReplaceGlobalTempView("st_global")
    try:
        lakescan.spark.sql(spark, "USE stlake.shop")
        lakescan.spark.sql(spark, "CREATE TABLE st_both AS SELECT 1 AS id")
        lakescan.spark.sql(spark, "INSERT INTO st_both VALUES (2)")
        assert rows(spark, "SELECT id FROM st_both ORDER BY id") == [(1,), (2,)]  # not Spark's table of that name
        assert rows(spark, "SELECT count(*) FROM spark_catalog.default.st_both") == [(0,)]
        assert rows(spark, "SELECT g.id FROM global_temp.st_global g JOIN st_both ON st_both.id = 1") == [(7,)]
        lakescan.spark.sql(spark, "USE spark_catalog.default")
        assert rows(spark, "SHOW CURRENT NAMESPACE") == [("spark_catalog", "default")]
        assert rows(spark, "SELECT n FROM st_both") == []
        lakescan.spark.sql(spark, "USE IDENTIFIER(:name)", {"name": "stlake.shop"})
        assert rows(spark, "SELECT count(*) FROM st_both") == [(2,)]
        lakescan.spark.sql(spark, "USE IDENTIFIER(?)", ["spark_catalog.default"])
        assert rows(spark, "SELECT count(*) FROM st_both") == [(0,)]
    finally:
        spark.catalog.dropGlobalTempView("st_global")
        spark.sql("DROP TABLE spark_catalog.default.st_both")


def test_a_temporary_view_hides_a_table_from_short_names_in_all_statements(spark: Any, lake: lakescan.Catalog) -> None:
    lakescan.spark.sql(spark, "USE stlake.shop")
    lakescan.spark.sql(spark, "CREATE TABLE st_hidden (id INT)")
    spark.range(1).selectExpr("id AS of_view").createOrReplaceTempView("st_hidden")
    for text in ("SELECT * FROM st_hidden", "TABLE st_hidden"):
        assert lakescan.spark.sql(spark, text).columns == ["of_view"]
    assert rows(spark, "DESCRIBE st_hidden") == [("of_view", "bigint", None)]
    assert rows(spark, "SHOW COLUMNS IN st_hidden") == [("of_view",)]
    for text in ("ALTER TABLE st_hidden ADD COLUMN n INT", "OPTIMIZE st_hidden", "SHOW BRANCHES FROM st_hidden"):
        with pytest.raises(lakescan.InvalidStatement, match="st_hidden is a temporary view"):
            lakescan.spark.sql(spark, text)
    lakescan.spark.sql(spark, "DROP TABLE st_hidden")  # the view, as in Spark
    assert rows(spark, "DESCRIBE st_hidden") == [("id", "int", None)]


def test_describe_shows_the_columns_of_a_query(spark: Any, lake: lakescan.Catalog) -> None:
    lakescan.spark.sql(spark, "CREATE TABLE stlake.shop.t (id BIGINT, `d.ay` DATE)")
    for text in ("SELECT `d.ay`, id + 1 AS n FROM stlake.shop.t", "(SELECT `d.ay`, id AS n FROM stlake.shop.t)"):
        for first in ("DESCRIBE QUERY", "desc /* of */"):
            assert rows(spark, f"{first} {text}") == [("d.ay", "date", None), ("n", "bigint", None)]
    assert rows(spark, "DESC QUERY TABLE stlake.shop.t")[0] == ("id", "bigint", None)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SHOW TABLES IN stlak.shop", lakescan.NoSuchCatalog, "Did you mean 'stlake'"),
        ("CREATE NAMESPACE STLAKE.shop", lakescan.NoSuchCatalog, "'STLAKE.shop' does not begin with a known catalog"),
        ("CREATE TABLE stlak.shop.t (id INT)", lakescan.NoSuchCatalog, "Did you mean 'stlake'"),
        ("SELECT * FROM STLAKE.shop.t", lakescan.NoSuchTable, "Did you mean 'stlake.shop.t'"),
        ("ALTER TABLE stlake.shop.t ADD COLUM x INT", lakescan.InvalidStatement, "Did you mean 'COLUMN'"),
        ("DESCRIBE stlake.shop.nope", lakescan.NoSuchTable, "has no table"),
        ("ANALYZE TABLE stlake.shop.t COMPUTE STATISTICS", lakescan.UnsupportedFeature, "ANALYZE"),
    ],
)
def test_errors_have_lakescan_messages(
    spark: Any, lake: lakescan.Catalog, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lakescan.spark.sql(spark, text)
