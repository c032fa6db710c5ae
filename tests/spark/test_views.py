"""Views over tables: which of them see the newest state, and which keep an earlier one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from lakescan.errors import InvalidOption, InvalidStatement, NoSuchTable, UnsupportedFeature


@pytest.fixture(params=["iceberg", "delta"])
def table(spark: Any, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[lakescan.Table]:
    """Make a table of two rows, `viewed.db.t`."""
    lakescan.catalog("viewed", warehouse=str(tmp_path)).create_namespace("db")
    lakescan.save(pa.table({"id": [1, 2], "name": ["a", "b"]}), "viewed.db.t", format=request.param)
    yield lakescan.table("viewed.db.t")
    for name in ("orders", "names", "ids"):
        spark.catalog.dropTempView(name)
    for name in ("spark.lakescan.views", "spark.lakescan.namespace"):
        spark.conf.unset(name)


def ids(spark: Any, text: str, **frames: Any) -> list[Any]:
    return sorted(row[0] for row in lakescan.spark.sql(spark, text, **frames).collect())


def test_each_use_of_a_view_sees_the_newest_state(spark: Any, table: lakescan.Table) -> None:
    lakescan.spark.create_view(spark, "orders", "viewed.db.t")
    lakescan.spark.create_view(spark, "names", "SELECT name, count(*) AS n FROM orders GROUP BY name")
    kept = lakescan.spark.sql(spark, "SELECT id FROM orders")
    table.append(pa.table({"id": [3], "name": ["b"]}))
    assert ids(spark, "SELECT id FROM orders WHERE orders.id > 1") == [2, 3]
    assert ids(spark, "SELECT n FROM names WHERE name = 'b'") == [2]
    assert ids(spark, "TABLE orders LIMIT 9") == [1, 2, 3]
    assert kept.count() == 2


def test_sparks_own_statements_see_new_rows_after_a_refresh(spark: Any, table: lakescan.Table) -> None:
    lakescan.spark.create_view(spark, "orders", "viewed.db.t")
    table.append(pa.table({"id": [3], "name": ["c"]}))
    assert spark.sql("SELECT * FROM orders").count() == 2
    lakescan.spark.refresh_view(spark, "orders")
    assert spark.sql("SELECT * FROM orders").count() == 3


def test_refresh_table_renews_a_view(spark: Any, table: lakescan.Table) -> None:
    lakescan.spark.create_view(spark, "orders", "viewed.db.t")
    table.append(pa.table({"id": [3], "name": ["c"]}))
    assert lakescan.spark.sql(spark, "refresh TABLE `orders`") is None
    assert spark.sql("SELECT * FROM orders").count() == 3
    assert lakescan.spark.sql(spark, "REFRESH TABLE viewed.db.t") is None
    with pytest.raises(NoSuchTable):
        lakescan.spark.sql(spark, "REFRESH TABLE viewed.db.nothing")
    spark.range(1).createOrReplaceTempView("own")
    lakescan.spark.sql(spark, "REFRESH TABLE own")


def test_columns_that_were_added_are_seen(spark: Any, table: lakescan.Table) -> None:
    lakescan.spark.create_view(spark, "orders", "viewed.db.t")
    table.append(pa.table({"id": [3], "name": ["c"], "more": [7]}), merge_schema=True)
    assert ids(spark, "SELECT more FROM orders WHERE more IS NOT NULL") == [7]
    assert spark.table("orders").columns == ["id", "name"]
    lakescan.spark.refresh_view(spark, "orders")
    assert spark.table("orders").columns == ["id", "name", "more"]


def test_a_statement_reads_one_state_and_only_what_it_needs(spark: Any, table: lakescan.Table) -> None:
    lakescan.spark.create_view(spark, "orders", "viewed.db.t")
    frame = lakescan.spark.sql(
        spark, "SELECT (SELECT count(*) FROM orders), count(*) FROM orders o JOIN viewed.db.t USING (id)"
    )
    table.append(pa.table({"id": [3], "name": ["c"]}))
    assert tuple(frame.first()) == (2, 2)
    [(plan,)] = lakescan.spark.sql(spark, "EXPLAIN SELECT id FROM orders WHERE id = 1").collect()
    assert "viewed.db.t: columns id, where id = 1" in plan


def test_a_view_keeps_the_names_of_its_creation(spark: Any, table: lakescan.Table) -> None:
    lakescan.spark.sql(spark, "USE viewed.db")
    lakescan.spark.create_view(spark, "ids", "SELECT t.id FROM t JOIN db.t AS u ON u.id = t.id -- all of them")
    lakescan.spark.create_view(spark, "orders", "t")
    spark.conf.unset("spark.lakescan.namespace")
    assert ids(spark, "SELECT id FROM ids") == ids(spark, "SELECT id FROM orders") == [1, 2]


def test_a_view_dropped_or_replaced_by_spark_is_left_to_spark(spark: Any, table: lakescan.Table) -> None:
    lakescan.spark.create_view(spark, "orders", "viewed.db.t")
    spark.range(7, 8).createOrReplaceTempView("orders")
    assert ids(spark, "SELECT * FROM orders") == [7]
    with pytest.raises(NoSuchTable, match="no view 'orders'"):
        lakescan.spark.refresh_view(spark, "orders")
    spark.catalog.dropTempView("orders")
    with pytest.raises(NoSuchTable, match="no table 'orders'"):
        lakescan.spark.sql(spark, "SELECT * FROM orders")


def test_with_queries_and_frames_hide_a_view_of_the_same_name(spark: Any, table: lakescan.Table) -> None:
    lakescan.spark.create_view(spark, "orders", "viewed.db.t")
    assert ids(spark, "WITH orders AS (SELECT 9 AS id) SELECT id FROM orders") == [9]
    assert ids(spark, "SELECT id FROM orders", orders=spark.range(5, 6)) == [5]


def test_names_in_a_view_do_not_refer_to_the_statement(spark: Any, table: lakescan.Table) -> None:
    spark.range(2).createOrReplaceTempView("ids")
    lakescan.spark.create_view(spark, "orders", "SELECT t.id FROM viewed.db.t t JOIN ids ON ids.id = t.id")
    assert ids(spark, "SELECT id FROM orders") == [1]
    for text, frames in (
        ("WITH ids AS (SELECT 2 AS id) SELECT id FROM orders", {}),
        ("TABLE orders", {"ids": spark.range(9)}),
    ):
        with pytest.raises(UnsupportedFeature, match="its own 'ids'"):
            ids(spark, text, **frames)


def test_a_name_that_is_not_a_view_is_refused(spark: Any, table: lakescan.Table) -> None:
    lakescan.spark.create_view(spark, "orders", "viewed.db.t")
    spark.range(2).createOrReplaceTempView("ids")
    with pytest.raises(InvalidOption, match="one part"):
        lakescan.spark.create_view(spark, "db.orders", "viewed.db.t")
    with pytest.raises(InvalidOption, match="read itself"):
        lakescan.spark.create_view(spark, "ids", "SELECT * FROM ids")
    with pytest.raises(InvalidOption, match="one name"):
        lakescan.spark.create_view(spark, "names", "SELECT id, id FROM viewed.db.t")
    with pytest.raises(InvalidStatement, match="a table, or a query"):
        lakescan.spark.create_view(spark, "names", "DROP TABLE viewed.db.t")
    with pytest.raises(NoSuchTable, match="Did you mean 't'"):
        lakescan.spark.create_view(spark, "names", "viewed.db.tt")
    with pytest.raises(InvalidStatement, match=r"orders is a view.*\n.*\n +\^"):
        lakescan.spark.sql(spark, "SELECT * FROM orders VERSION AS OF 1")
    with pytest.raises(Exception, match="already exists"):
        lakescan.spark.create_view(spark, "orders", "viewed.db.t", replace=False)
