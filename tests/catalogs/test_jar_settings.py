"""Catalogs by the settings of Iceberg's JARs, against the servers of the suite; storage by Hadoop's settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.catalogs.registry import register_catalog
from lakescan.spark.drop_in.settings import read_jar_settings
from lakescan.storage.settings.hadoop_defaults import use_hadoop_defaults
from tests.catalogs.test_postgres import postgres  # noqa: F401  a fixture
from tests.support.nessie import nessie_server
from tests.support.rest_server import rest_server
from tests.support.s3 import KEY, REGION, SECRET, s3_server

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
ROWS = pa.table({"id": [1, 2, 3]})


def catalog(own: dict[str, str], others: dict[str, str] | None = None) -> lakescan.Catalog:
    """Return the catalog `jars` with these settings after `spark.sql.catalog.jars.`."""
    named = {f"spark.sql.catalog.jars.{name}": value for name, value in own.items()}
    found = read_jar_settings({"spark.sql.catalog.jars": ICEBERG, **named, **(others or {})})
    register_catalog("jars", found.catalogs["jars"])
    return lakescan.catalog("jars")


def works(lake: lakescan.Catalog) -> bool:
    """Create a namespace and a table, append rows, and read them by the table's name."""
    lake.create_namespace("db", exist_ok=True)
    lake.create_table("db.t", "id BIGINT").append(ROWS)
    return lakescan.table("jars.db.t").count() == 3


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server("lake") as found:
        yield found


def test_hadoop(tmp_path: Path) -> None:
    assert works(catalog({"type": "hadoop", "warehouse": str(tmp_path)}))


def test_in_memory(tmp_path: Path) -> None:
    name = "org.apache.iceberg.inmemory.InMemoryCatalog"
    assert works(catalog({"catalog-impl": name, "warehouse": f"file://{tmp_path}"}))


def test_rest(tmp_path: Path) -> None:
    with rest_server(tmp_path) as (_, uri):
        assert works(catalog({"type": "rest", "uri": uri, "token": "t"}))


def test_jdbc_to_sqlite(tmp_path: Path) -> None:
    assert works(
        catalog({"type": "jdbc", "uri": f"jdbc:sqlite:file:{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"})
    )


def test_jdbc_to_postgres(postgres: str, tmp_path: Path) -> None:  # noqa: F811
    address = postgres.partition("://lake@")[2]
    own = {"jdbc.user": "lake", "jdbc.password": "any p@ssword", "warehouse": f"file://{tmp_path}"}
    assert works(catalog({"type": "jdbc", "uri": f"jdbc:postgresql://{address}", **own}))


def test_glue(endpoint: str) -> None:
    keys = {"access-key-id": KEY, "secret-access-key": SECRET, "endpoint": endpoint}
    own = {f"{service}.{name}": value for service in ("glue", "s3") for name, value in keys.items()}
    own |= {"catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog", "client.region": REGION}
    assert works(catalog({**own, "io-impl": "org.apache.iceberg.aws.s3.S3FileIO", "warehouse": "s3://lake/glue"}))


def test_hive(hive_uri: str, tmp_path: Path) -> None:
    lake = catalog({"type": "hive", "uri": hive_uri, "warehouse": f"file://{tmp_path}"})
    lake.create_namespace("jars_db", properties={"location": f"file://{tmp_path}/jars_db"})
    lake.create_table("jars_db.t", "id BIGINT").append(ROWS)
    assert lakescan.table("jars.jars_db.t").count() == 3


def test_nessie(endpoint: str, tmp_path: Path) -> None:
    with nessie_server(endpoint, "lake", tmp_path / "log") as uri:
        own = {"type": "nessie", "uri": uri.replace("/iceberg", "/api/v2"), "ref": "main"}
        assert works(catalog({**own, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET}))


def test_a_catalog_of_an_unknown_class_is_refused_by_name_when_it_is_used() -> None:
    with pytest.raises(lakescan.InvalidOption, match=r"(?i)com\.example\.OwnCatalog"):
        catalog({"catalog-impl": "com.example.OwnCatalog"}).list_namespaces()


def s3a(endpoint: str) -> dict[str, str]:
    """Return Hadoop's settings of an S3 server."""
    return {
        "fs.s3a.endpoint": endpoint,
        "fs.s3a.access.key": KEY,
        "fs.s3a.secret.key": SECRET,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.endpoint.region": REGION,
        "fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    }


def test_hadoops_settings_are_those_of_a_catalogs_storage(endpoint: str) -> None:
    hadoop = {f"spark.hadoop.{name}": value for name, value in s3a(endpoint).items()}
    assert works(catalog({"type": "hadoop", "warehouse": "s3a://lake/hadoop"}, hadoop))


def test_hadoops_settings_of_an_enabled_session_are_those_of_tables_by_path(endpoint: str) -> None:
    try:
        use_hadoop_defaults(lambda: s3a(endpoint))
        lakescan.save(ROWS, "s3a://lake/by_path", format="delta")
        assert lakescan.table("s3a://lake/by_path").count() == 3
    finally:
        use_hadoop_defaults(None)


def test_a_catalog_sets_properties_of_new_tables(tmp_path: Path) -> None:
    own = {"type": "hadoop", "warehouse": str(tmp_path), "table-default.a": "1", "table-default.b": "2"}
    lake = catalog({**own, "table-override.c": "3"})
    made = lake.create_table("db.t", "id BIGINT", properties={"b": "own", "c": "own"})
    assert {name: made.properties[name] for name in "abc"} == {"a": "1", "b": "own", "c": "3"}
