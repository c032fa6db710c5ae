"""Views of catalogs on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[lakescan.Catalog]:
    """Orders of two countries, one file each, in the catalog `viewed`."""
    found = lakescan.catalog("viewed", warehouse=str(tmp_path))
    found.create_namespace("shop")
    orders = found.create_table("shop.orders", "id BIGINT, country STRING", partition_by=["country"])
    for country in ("FR", "DE"):
        orders.append(pa.table({"id": [1, 2, 3], "country": [country] * 3}))
    yield found
    spark.catalog.dropTempView("temporary")
    for name in ("spark.lakescan.views", "spark.lakescan.namespace"):
        spark.conf.unset(name)


def rows(spark: Any, text: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in lakescan.spark.sql(spark, text).collect())


def test_views_are_made_read_and_dropped(spark: Any, lake: lakescan.Catalog) -> None:
    made = lakescan.spark.sql(
        spark, "CREATE VIEW viewed.shop.v (no COMMENT 'n', land) AS SELECT id, country FROM orders WHERE id > 1"
    )
    assert (made.schema.names, made.schema.types) == (["no", "land"], [pa.int64(), pa.string()])
    assert rows(spark, "SELECT no FROM viewed.shop.v WHERE land = 'FR'") == [(2,), (3,)]
    frame = lakescan.spark.sql(spark, "EXPLAIN SELECT no FROM viewed.shop.v WHERE land = 'FR'")
    assert "where (id > 1 and country = 'FR')" in frame.first()[0]
    lakescan.spark.sql(spark, "USE viewed.shop")
    assert rows(spark, "SELECT v.land, count(*) FROM v JOIN orders o ON o.id = v.no GROUP BY 1") == [
        ("DE", 4),
        ("FR", 4),
    ]
    assert rows(spark, "SHOW VIEWS IN viewed.shop") == [("shop", "v", False)]
    lakescan.spark.sql(spark, "ALTER VIEW v AS SELECT to_char(1, '9') AS one")  # Spark's alone
    assert rows(spark, "SELECT * FROM v") == [("1",)]
    lakescan.spark.sql(spark, "DROP VIEW v")
    assert lake.list_views("shop") == []


def test_temporary_views_are_left_to_spark(spark: Any, lake: lakescan.Catalog) -> None:
    lakescan.spark.create_view(spark, "temporary", "SELECT id FROM viewed.shop.orders")
    with pytest.raises(lakescan.UnsupportedFeature, match="'temporary', which exists only in this session"):
        lakescan.spark.sql(spark, "CREATE VIEW viewed.shop.v AS SELECT * FROM temporary")
    lakescan.spark.sql(spark, "USE viewed.shop")
    lakescan.spark.sql(spark, "DROP VIEW temporary")
    assert not spark.catalog.tableExists("temporary")


def test_temporary_views_read_views_of_catalogs(spark: Any, lake: lakescan.Catalog) -> None:
    lake.create_view("shop.v", "SELECT id AS n FROM orders WHERE country = 'FR'")
    lakescan.spark.create_view(spark, "temporary", "viewed.shop.v")
    lake.load_table("shop.orders").append(pa.table({"id": [7], "country": ["FR"]}))
    assert rows(spark, "SELECT n FROM temporary WHERE n > 2") == [(3,), (7,)]


def test_views_can_be_sources_but_not_targets_of_changes(spark: Any, lake: lakescan.Catalog) -> None:
    lake.create_view("shop.v", "SELECT id + 10 AS id, country FROM orders WHERE id = 3")
    lakescan.spark.sql(spark, "INSERT INTO viewed.shop.orders SELECT * FROM viewed.shop.v")
    lakescan.spark.sql(spark, "DELETE FROM viewed.shop.orders WHERE id IN (SELECT id - 10 FROM viewed.shop.v)")
    assert rows(spark, "SELECT DISTINCT id FROM viewed.shop.orders") == [(1,), (2,), (13,)]
    with pytest.raises(lakescan.IsAView, match="change the rows of its tables"):
        lakescan.spark.sql(spark, "DELETE FROM viewed.shop.v WHERE id = 1")


def test_a_view_keeps_its_columns(spark: Any, lake: lakescan.Catalog) -> None:
    lake.create_view("shop.v", "SELECT * FROM orders")
    lake.load_table("shop.orders").alter().add_column("note", "STRING", first=True).commit()
    assert lakescan.spark.sql(spark, "SELECT * FROM viewed.shop.v").columns == ["id", "country"]
    assert rows(spark, "SELECT max(id) FROM viewed.shop.v") == [(3,)]
