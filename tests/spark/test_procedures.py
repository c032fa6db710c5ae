"""Procedures by `CALL` on Spark: files of its own tables, and statistics that its workers compute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import InvalidOption, NoSuchTable, UnsupportedFeature
from lakescan.spark import sql

pytestmark = pytest.mark.usefixtures("no_other_catalogs")


@pytest.fixture
def source(spark: Any, tmp_path: Path) -> Iterator[str]:
    """A table of the session catalog in three partitions, whose names must be escaped in folder names."""
    folder = tmp_path / "with space" / "source"
    columns = "id BIGINT COMMENT 'the id', price DECIMAL(9, 2), at TIMESTAMP, `p%` STRING, n INT"
    spark.sql(
        f"CREATE TABLE default.snapped ({columns}) USING parquet PARTITIONED BY (`p%`, n) "
        f"TBLPROPERTIES ('team' = 'sales') LOCATION 'file://{folder}'"
    )
    try:
        spark.sql("INSERT INTO default.snapped VALUES (1, 1.50, TIMESTAMP '2026-01-31 12:00:00', 'a b/c', 1)")
        spark.sql("INSERT INTO default.snapped VALUES (2, NULL, NULL, NULL, 2), (3, 0, NULL, 'x%y', 2)")
        yield "spark_catalog.default.snapped"
    finally:
        spark.sql("DROP TABLE IF EXISTS default.snapped")


def call(spark: Any, text: str) -> list[Any]:
    return [tuple(row) for row in sql(spark, f"CALL local.system.{text}").collect()]


def test_a_table_of_sparks_own_catalog_becomes_an_iceberg_table(
    spark: Any, local: lakescan.Catalog, source: str
) -> None:
    files = call(spark, f"snapshot('{source}', 'db.t', properties => map('a', 'b'))")
    assert files == [(len(spark.table("default.snapped").inputFiles()),)]
    table = local.load_table("db.t")
    assert table.partitioning == "p%, n"
    expected = spark.table("default.snapped").orderBy("id").collect()
    assert sql(spark, "SELECT * FROM local.db.t ORDER BY id").collect() == expected
    assert {"team": "sales", "a": "b", "gc.enabled": "false"}.items() <= table.properties.items()
    spark.sql("INSERT INTO default.snapped VALUES (4, 1, NULL, 'z', 3)")
    table.delete("id = 1")
    assert sorted(local.load_table("db.t").to_arrow()["id"].to_pylist()) == [2, 3]
    assert spark.table("default.snapped").count() == 4


def test_files_of_dropped_partitions_are_not_added(spark: Any, local: lakescan.Catalog, source: str) -> None:
    """The table is external, so a partition dropped from the catalog still has files in the folder."""
    spark.sql("ALTER TABLE default.snapped DROP PARTITION (`p%` = 'a b/c', n = 1)")
    spark.sql("CREATE TABLE default.empty_one (id BIGINT) USING parquet")
    try:
        call(spark, "snapshot('default.snapped', 'db.t')")
        assert sorted(local.load_table("db.t").to_arrow()["id"].to_pylist()) == [2, 3]
        assert call(spark, "snapshot('empty_one', 'db.u')") == [(0,)]
        assert local.load_table("db.u").count() == 0
    finally:
        spark.sql("DROP TABLE default.empty_one")


def test_files_of_a_table_of_sparks_own_catalog_are_added(spark: Any, local: lakescan.Catalog, source: str) -> None:
    columns = "id BIGINT, price DECIMAL(9, 2), at TIMESTAMP, `p%` STRING, n INT"
    local.create_table("db.t", columns, partition_by=["`p%`", "n"])
    spark.sql("ALTER TABLE default.snapped DROP PARTITION (`p%` = 'a b/c', n = 1)")
    assert call(spark, "add_files('db.t', 'default.snapped')") == [(2, None)]
    assert sorted(local.load_table("db.t").to_arrow()["id"].to_pylist()) == [2, 3]


def test_partitions_in_other_locations_are_refused(
    spark: Any, local: lakescan.Catalog, source: str, tmp_path: Path
) -> None:
    spark.sql(f"ALTER TABLE default.snapped ADD PARTITION (`p%` = 'e', n = 9) LOCATION 'file://{tmp_path}/elsewhere'")
    spark.sql("INSERT INTO default.snapped PARTITION (`p%` = 'e', n = 9) VALUES (9, NULL, NULL)")
    with pytest.raises(InvalidOption, match=r"elsewhere.* is not among the files of"):
        call(spark, f"snapshot('{source}', 'db.t')")
    assert not local.table_exists("db.t")


@pytest.mark.parametrize(
    ("statement", "name", "error", "message"),
    [
        ("CREATE TABLE default.other_one (id BIGINT) USING orc", "other_one", UnsupportedFeature, "orc files"),
        (
            "CREATE TABLE default.other_one (id INT) USING parquet CLUSTERED BY (id) INTO 2 BUCKETS",
            "default.other_one",
            UnsupportedFeature,
            "bucketed",
        ),
        ("CREATE VIEW default.other_one AS SELECT 1 AS id", "default.other_one", UnsupportedFeature, "a view"),
        ("SELECT 1", "default.other_one", NoSuchTable, "no table default.other_one"),
        ("SELECT 1", "local.db.t", UnsupportedFeature, "not in Spark's own catalog"),
    ],
)
def test_sources_whose_files_are_not_the_rows_are_refused(
    spark: Any, local: lakescan.Catalog, statement: str, name: str, error: type[Exception], message: str
) -> None:
    spark.sql(statement)
    try:
        with pytest.raises(error, match=message):
            call(spark, f"snapshot('{name}', 'db.t')")
    finally:
        spark.sql(f"DROP {'VIEW' if 'VIEW' in statement else 'TABLE'} IF EXISTS default.other_one")


def test_statistics_and_paths_are_computed_by_workers(spark: Any, local: lakescan.Catalog, tmp_path: Path) -> None:
    """With the same results as by threads of this process."""
    table = local.create_table(
        "db.t", "id BIGINT, part STRING", partition_by=("part",), properties={"write.delete.mode": "merge-on-read"}
    )
    for start in range(0, 9000, 3000):
        ids = range(start, start + 3000)
        table.append(pa.table({"id": ids, "part": [str(each % 2) for each in ids]}))
    table.delete("id = 7")
    here = table.compute_statistics()
    assert call(spark, "compute_table_stats('db.t', columns => array('id', 'part'))")[0][0].endswith(".stats")
    there = local.load_table("db.t").compute_statistics(executor=lakescan.spark.SparkExecutor(spark))
    assert there.distinct_values == here.distinct_values
    assert [len(call(spark, "compute_partition_stats('db.t')")) for _ in range(2)] == [1, 1]
    target = f"file://{tmp_path}/copy"
    text = f"rewrite_table_path('db.t', source_prefix => '{table.folder}', target_prefix => '{target}')"
    assert call(spark, text)[0][2:] == (4, 1)
