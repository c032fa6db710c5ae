"""A Hive catalog in a metastore that the tests start."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_table_is_created_written_and_dropped_in_a_hive_catalog(
    hive: lakescan.Catalog, spark: Any, version: str
) -> None:
    properties = {"format-version": version}
    made = hive.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"], properties=properties)
    made.append(pa.table({"id": [1, 2], "part": ["a", "b"]}))
    with pytest.raises(lakescan.TableExists):
        hive.create_table("db.t", "id BIGINT")
    hive.load_table("db.t").overwrite(pa.table({"id": [3], "part": ["b"]}), where="part = 'b'")
    lakescan.spark.register(spark)
    spark.range(4, 6).selectExpr("id", "'c' AS part").write.format("iceberg").mode("append").save("hive.db.t")
    found = spark.read.format("iceberg").load("hive.db.t").collect()
    assert sorted(tuple(row) for row in found) == [(1, "a"), (3, "b"), (4, "c"), (5, "c")]
    assert str(hive.rename_table("db.t", "db.u").name) == "hive.db.u"
    assert hive.list_tables("db") == ["db.u"]
    with pytest.raises(lakescan.NoSuchTable):
        hive.load_table("db.t")
    hive.drop_table("db.u")
    assert hive.list_tables("db") == []


def test_concurrent_writers_in_a_hive_catalog_lose_nothing(hive: lakescan.Catalog) -> None:
    hive.create_table("db.many", "id BIGINT")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: hive.load_table("db.many").append(pa.table({"id": [number]})), range(8)))
    assert sorted(hive.load_table("db.many").scan().to_arrow()["id"].to_pylist()) == list(range(8))
    hive.drop_table("db.many")


def test_refusals_of_the_metastore_are_quoted(hive: lakescan.Catalog) -> None:
    table = hive.create_table("db.kept", "id BIGINT")
    with pytest.raises(lakescan.StorageError, match="types incompatible with the existing columns"):
        hive.create_table("db.kept", "id INT", replace=True)
    table.append(pa.table({"id": [1]}))
    hive.drop_table("db.kept")


def test_a_hive_catalog_has_no_lakescan_views(hive: lakescan.Catalog) -> None:
    assert hive.list_views("db") == []
    assert not hive.view_exists("db.v")
    with pytest.raises(lakescan.UnsupportedFeature, match=r"HiveCatalog.*create_view"):
        hive.create_view("db.v", "SELECT 1 AS n")
    with pytest.raises(lakescan.NoSuchTable):
        hive.drop_view("db.v")
