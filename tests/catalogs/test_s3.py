"""Tables in an object store: a catalog's storage options reach readers and writers in process and on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from tests.support.s3 import KEY, REGION, SECRET, s3_server

ROWS = pa.table({"id": [1, 2, 3], "part": ["a", "b", "c d"]})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server("lake") as found:
        yield found


@pytest.fixture
def remote(endpoint: str, tmp_path: Path) -> lakescan.Catalog:
    """Make a SQL catalog whose tables are in a bucket."""
    catalog = lakescan.catalog(
        {
            "name": "remote",
            "type": "sql",
            "uri": f"sqlite:///{tmp_path}/c.db",
            "warehouse": f"s3://lake/{tmp_path.name}",
            "s3.endpoint": endpoint,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.region": REGION,
        }
    )
    catalog.create_namespace("db")
    return catalog


@pytest.mark.slow
@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_tables_in_a_bucket_are_written_and_read(remote: lakescan.Catalog, format: str) -> None:
    table = remote.create_table("db.t", "id BIGINT, part STRING", format=format, partition_by=["part"])
    table.append(ROWS)
    remote.load_table("db.t").overwrite(pa.table({"id": [9], "part": ["a"]}), where="part = 'a'")
    found = lakescan.table("remote.db.t").scan().to_arrow().sort_by("id")
    assert found.to_pydict() == {"id": [2, 3, 9], "part": ["b", "c d", "a"]}
    assert lakescan.table("remote.db.t").inspect("files").num_rows == 3


def test_a_delta_table_by_path_uses_the_given_settings(endpoint: str, tmp_path: Path) -> None:
    settings = {"s3.endpoint": endpoint, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": REGION}
    path = f"s3://lake/{tmp_path.name}/by_path"
    for mode in ("error", "append"):
        lakescan.save(ROWS, path, mode=mode, format="delta", storage_options=settings)
    table = lakescan.table(path, storage_options=settings)
    assert table.scan().count() == 6
    table.overwrite(ROWS.slice(0, 1), where="id < 3")
    assert sorted(lakescan.table(path, storage_options=settings).scan().to_arrow()["id"].to_pylist()) == [1, 3, 3]


@pytest.mark.spark
@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_sparks_workers_read_the_bucket_and_plans_show_no_secret(
    spark: Any, remote: lakescan.Catalog, format: str
) -> None:
    lakescan.spark.register(spark)
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id long, part string")
    frame.write.format(format).mode("append").save("remote.db.s")
    by_name = spark.read.format(format).load("remote.db.s")
    planned = lakescan.table("remote.db.s").scan().where("id > 1").to_spark(spark)
    assert sorted(row["id"] for row in by_name.collect()) == [1, 2]
    assert [row["id"] for row in planned.collect()] == [2]
    for each in (by_name, planned):
        text = each._jdf.queryExecution().toString()
        assert SECRET not in text
        assert KEY not in text
    assert "files in the Arrow lane" in lakescan.spark.explain(lakescan.table("remote.db.s").scan())


def test_a_glue_catalog_has_tables(endpoint: str, tmp_path: Path) -> None:
    keys = {"access-key-id": KEY, "secret-access-key": SECRET, "region": REGION, "endpoint": endpoint}
    properties = {f"{service}.{name}": value for service in ("glue", "s3") for name, value in keys.items()}
    catalog = lakescan.catalog({"name": "aws", "type": "glue", "warehouse": f"s3://lake/{tmp_path.name}", **properties})
    catalog.create_namespace("db")
    catalog.create_table("db.t", "id BIGINT, part STRING", partition_by=["bucket(2, id)"]).append(ROWS)
    assert sorted(lakescan.table("aws.db.t").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert (catalog.list_namespaces(), catalog.list_tables("db")) == (["db"], ["db.t"])
    delta = catalog.create_table("db.d", "id BIGINT, part STRING", format="delta", partition_by=["part"])
    delta.append(ROWS)
    with pytest.raises(lakescan.TableExists):
        catalog.create_table("db.d", "id BIGINT", format="delta")
    lakescan.sql("DELETE FROM aws.db.d WHERE id = 2")
    assert sorted(lakescan.table("aws.db.d").scan().to_arrow()["id"].to_pylist()) == [1, 3]
    assert catalog.list_tables("db") == ["db.d", "db.t"]
    catalog.rename_table("db.d", "db.e")
    catalog.drop_table("db.e")
    assert catalog.list_tables("db") == ["db.t"]
    with pytest.raises(lakescan.NoSuchTable):
        lakescan.table("aws.db.e")


@pytest.mark.slow
def test_delta_tables_that_others_registered_in_glue_are_read(endpoint: str, tmp_path: Path) -> None:
    keys = {"access-key-id": KEY, "secret-access-key": SECRET, "region": REGION, "endpoint": endpoint}
    properties = {f"{service}.{name}": value for service in ("glue", "s3") for name, value in keys.items()}
    place = f"s3://lake/{tmp_path.name}/d"
    lakescan.save(ROWS, place, format="delta", storage_options=SETTINGS | {"s3.endpoint": endpoint})
    lake = lakescan.catalog({"name": "others", "type": "glue", "warehouse": "s3://lake/w", **properties})
    lake.create_namespace(f"d{tmp_path.name.replace('_', '')[-12:]}")
    database = lake.list_namespaces()[-1]
    client = boto3.client("glue", REGION, endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET)
    of_spark = {"Location": f"s3://lake/{database}/x-__PLACEHOLDER__", "SerdeInfo": {"Parameters": {"path": place}}}
    for name, parameters, storage in (
        ("spark", {"spark.sql.sources.provider": "DELTA"}, of_spark),
        ("athena", {"table_type": "DELTA"}, {"Location": place}),
        ("hive", {}, {"Location": place}),
    ):
        table = {"Name": name, "Parameters": parameters, "StorageDescriptor": storage}
        client.create_table(DatabaseName=database, TableInput=table)
    assert lake.list_tables(database) == [f"{database}.athena", f"{database}.spark"]
    for name in ("spark", "athena"):
        assert lake.load_table(f"{database}.{name}").scan().count() == 3
    with pytest.raises(lakescan.NoSuchTable):
        lake.load_table(f"{database}.hive")


SETTINGS = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": REGION}


def test_a_missing_bucket_is_a_storage_error(endpoint: str) -> None:
    settings = {**SETTINGS, "s3.endpoint": endpoint}
    with pytest.raises(lakescan.NotATable, match="does not exist"):
        lakescan.table("s3://lake/none", storage_options=settings)
    with pytest.raises(lakescan.StorageError, match="bucket 'nobucket' does not exist"):
        lakescan.table("s3://nobucket/x", storage_options=settings)
    with pytest.raises(lakescan.StorageError, match=r"s3://nobucket/x.* cannot be written"):
        lakescan.save(ROWS, "s3://nobucket/x", format="delta", storage_options=settings)


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("http://127.0.0.1:9", "server does not respond"),
        ("http://no.such.host.invalid", "host name cannot be resolved|server does not respond"),
    ],
)
def test_a_store_that_does_not_answer_is_a_storage_error(where: str, says: str) -> None:
    with pytest.raises(lakescan.StorageError, match=says):
        lakescan.table("s3://lake/t", storage_options={**SETTINGS, "s3.endpoint": where})


def test_the_endpoint_of_the_environment_is_used(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    path = f"s3://lake/{tmp_path.name}/environment"
    lakescan.save(ROWS, path, format="delta", storage_options=SETTINGS)
    assert lakescan.table(path, storage_options=SETTINGS).scan().count() == 3
