"""`spark.catalog` over lakescan's catalogs, and Spark's own as before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.catalog import CatalogMetadata, Column, Database, Table

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def catalog(enabled: Any) -> Iterator[Any]:
    """The session's `spark.catalog`, with tables and a namespace in `lake`."""
    enabled.sql("CREATE NAMESPACE IF NOT EXISTS lake.listed")
    enabled.sql("CREATE TABLE lake.listed.t (id BIGINT NOT NULL COMMENT 'key', s STRING, d DATE) PARTITIONED BY (s)")
    enabled.sql("CREATE TABLE lake.listed.by_year (d DATE) PARTITIONED BY (years(d))")
    enabled.sql("CREATE TABLE listed_delta (id BIGINT, part STRING) USING delta PARTITIONED BY (part)")
    yield enabled.catalog
    enabled.sql("DROP TABLE lake.listed.t")
    enabled.sql("DROP TABLE lake.listed.by_year")
    enabled.sql("DROP TABLE listed_delta")


@pytest.fixture
def lake(catalog: Any) -> Iterator[Any]:
    """`spark.catalog` while `lake` is the current catalog."""
    catalog.setCurrentCatalog("lake")
    yield catalog
    catalog.setCurrentCatalog("spark_catalog")


def test_catalogs_are_spark_s_and_the_session_s(catalog: Any) -> None:
    names = [each.name for each in catalog.listCatalogs()]
    assert "lake" in names
    assert "spark_catalog" in names
    assert catalog.listCatalogs("la*") == [CatalogMetadata("lake", None)]


def test_the_current_catalog_and_database(lake: Any) -> None:
    assert lake.currentCatalog() == "lake"
    assert lake.currentDatabase() == ""
    lake.setCurrentDatabase("listed")
    assert lake.currentDatabase() == "listed"
    assert sorted(each.name for each in lake.listTables()) == ["by_year", "t"]
    assert lake.tableExists("t")
    assert lake.getTable("t").namespace == ["listed"]
    with pytest.raises(AnalysisException) as raised:
        lake.setCurrentDatabase("missing")
    assert raised.value.getCondition() == "SCHEMA_NOT_FOUND"


def test_spark_s_catalog_is_current_again(catalog: Any) -> None:
    catalog.setCurrentCatalog("lake")
    catalog.setCurrentCatalog("spark_catalog")
    assert catalog.currentCatalog() == "spark_catalog"
    assert catalog.currentDatabase() == "default"


def test_databases(lake: Any) -> None:
    assert "listed" in [each.name for each in lake.listDatabases()]
    assert lake.listDatabases("lis*") == [lake.getDatabase("lake.listed")]
    found = lake.getDatabase("listed")
    assert isinstance(found, Database)
    assert (found.name, found.catalog) == ("listed", "lake")
    assert lake.databaseExists("lake.listed")
    assert not lake.databaseExists("missing")


def test_tables_have_pyspark_s_own_class(catalog: Any) -> None:
    expected = Table("t", "lake", ["listed"], None, "MANAGED", False)
    assert catalog.getTable("lake.listed.t") == expected
    assert expected in catalog.listTables("lake.listed")
    assert catalog.listTables("lake.listed", "by*") == [Table("by_year", "lake", ["listed"], None, "MANAGED", False)]


def test_tables_exist_or_not(catalog: Any) -> None:
    assert catalog.tableExists("lake.listed.t")
    assert catalog.tableExists("lake.listed.t.snapshots")
    assert not catalog.tableExists("lake.listed.missing")
    assert not catalog.tableExists("lake.missing.t")
    assert catalog.tableExists("listed_delta")
    with pytest.raises(AnalysisException) as raised:
        catalog.getTable("lake.listed.missing")
    assert raised.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_columns(catalog: Any) -> None:
    assert catalog.listColumns("lake.listed.t") == [
        Column("id", "key", "bigint", False, False, False, False),
        Column("s", None, "string", True, True, False, False),
        Column("d", None, "date", True, False, False, False),
    ]
    assert [each.isPartition for each in catalog.listColumns("lake.listed.by_year")] == [False]
    assert [each.isPartition for each in catalog.listColumns("listed_delta")] == [False, True]


def test_delta_tables_of_spark_s_catalog(catalog: Any) -> None:
    expected = Table("listed_delta", "spark_catalog", ["default"], None, "MANAGED", False)
    assert catalog.getTable("listed_delta") == expected
    assert expected in catalog.listTables("default")
    assert expected in catalog.listTables()


def test_caching_by_name(catalog: Any) -> None:
    for name in ("lake.listed.t", "listed_delta"):
        assert not catalog.isCached(name)
        catalog.cacheTable(name)
        assert catalog.isCached(name)
        catalog.uncacheTable(name)
        assert not catalog.isCached(name)
    catalog.cacheTable("lake.listed.t")
    catalog.clearCache()
    assert not catalog.isCached("lake.listed.t")


def test_refreshing(catalog: Any) -> None:
    catalog.refreshTable("lake.listed.t")
    catalog.refreshTable("listed_delta")
    with pytest.raises(AnalysisException):
        catalog.refreshTable("lake.listed.missing")


def test_partitions_are_not_recovered(catalog: Any) -> None:
    with pytest.raises(AnalysisException):
        catalog.recoverPartitions("lake.listed.t")


def test_tables_are_created(enabled: Any, catalog: Any) -> None:
    schema = enabled.range(1).schema
    made = catalog.createTable("lake.listed.made", source="iceberg", schema=schema)
    assert made.columns == ["id"]
    assert made.count() == 0
    with pytest.raises(AnalysisException) as raised:
        catalog.createTable("lake.listed.made", source="iceberg", schema=schema)
    assert raised.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    enabled.sql("DROP TABLE lake.listed.made")


def test_tables_and_views_of_spark_are_unchanged(enabled: Any, catalog: Any) -> None:
    enabled.range(1).write.format("parquet").saveAsTable("plain_of_spark")
    enabled.range(1).createOrReplaceTempView("view_of_spark")
    assert catalog.getTable("plain_of_spark").tableType == "MANAGED"
    assert catalog.getTable("view_of_spark").isTemporary
    listed = {each.name: each.isTemporary for each in catalog.listTables()}
    assert listed["plain_of_spark"] is False
    assert listed["view_of_spark"] is True
    assert [each.name for each in catalog.listColumns("plain_of_spark")] == ["id"]
    assert catalog.dropTempView("view_of_spark")
    enabled.sql("DROP TABLE plain_of_spark")
    assert not catalog.tableExists("plain_of_spark")
