"""Delta tables by name in Glue, next to tables of other formats, and the answers of AWS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

import lakescan
from lakescan.catalogs.lost_answers import is_refusal
from lakescan.catalogs.registry import connection
from tests.support.s3 import KEY, REGION, SECRET, s3_server
from tests.tables.test_outcomes import looks

ROWS = pa.table({"id": [1, 2, 3]})
PROVIDER = "spark.sql.sources.provider"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server("lake") as found:
        yield found


@pytest.fixture
def glue(endpoint: str, tmp_path: Path) -> lakescan.Catalog:
    """Make a Glue catalog with a namespace `db` that no other test shares."""
    found = glue_at(endpoint, f"s3://lake/{tmp_path.name}")
    client = connection("aws").glue  # type: ignore[attr-defined]
    for database in client.get_databases()["DatabaseList"]:
        client.delete_database(Name=database["Name"])
    found.create_namespace("db")
    return found


def glue_at(endpoint: str, warehouse: str) -> lakescan.Catalog:
    keys = {"access-key-id": KEY, "secret-access-key": SECRET, "region": REGION, "endpoint": endpoint}
    properties = {f"{service}.{name}": value for service in ("glue", "s3") for name, value in keys.items()}
    return lakescan.catalog({"name": "aws", "type": "glue", "warehouse": warehouse, **properties})


@pytest.fixture
def client(endpoint: str) -> Any:
    return boto3.client("glue", REGION, endpoint_url=endpoint, aws_access_key_id=KEY, aws_secret_access_key=SECRET)


def put_entry(client: Any, name: str, parameters: dict[str, str], kind: str = "EXTERNAL_TABLE", **more: Any) -> None:
    table = {"Name": name, "Parameters": parameters, "TableType": kind, "StorageDescriptor": {}, **more}
    client.create_table(DatabaseName="db", TableInput=table)


def test_a_name_is_free_after_drop_although_the_files_stay(glue: lakescan.Catalog) -> None:
    for rows in (ROWS, ROWS.slice(1)):
        glue.create_table("db.t", "id BIGINT", format="delta").append(rows)
        assert glue.load_table("db.t").to_arrow().num_rows == rows.num_rows
        glue.drop_table("db.t")


def test_a_rename_keeps_the_registered_properties(glue: lakescan.Catalog, client: Any) -> None:
    place = "s3://lake/others/t"
    keys = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": REGION}
    lakescan.save(ROWS, place, format="delta", storage_options={**keys, "s3.endpoint": client.meta.endpoint_url})
    storage = {"Columns": [{"Name": "id", "Type": "bigint", "Comment": "the key"}], "Location": place}
    parameters = {"table_type": "DELTA", "team": "b"}
    put_entry(client, "t", parameters, Owner="ann", Description="numbers", StorageDescriptor=storage, Retention=3)
    before = client.get_table(DatabaseName="db", Name="t")["Table"]
    assert glue.rename_table("db.t", "db.u").count() == 3
    after = client.get_table(DatabaseName="db", Name="u")["Table"]
    for member in ("Owner", "Description", "Parameters", "StorageDescriptor", "Retention", "TableType"):
        assert after[member] == before[member], member
    assert glue.list_tables("db") == ["db.u"]
    with pytest.raises(lakescan.NoSuchNamespace):
        glue.rename_table("db.u", "none.u")


OTHERS = {
    "table": ({}, "EXTERNAL_TABLE", "a Glue table"),
    "view": ({"presto_view": "true"}, "VIRTUAL_VIEW", "a Glue view"),
    "hudi": ({PROVIDER: "hudi"}, "EXTERNAL_TABLE", r"a Glue table \(hudi\)"),
}


@pytest.mark.parametrize("of", OTHERS)
def test_tables_of_other_formats_are_named_and_kept(glue: lakescan.Catalog, client: Any, of: str) -> None:
    parameters, kind, said = OTHERS[of]
    put_entry(client, "other", parameters, kind)
    for reads in (
        lambda: glue.load_table("db.other"),
        lambda: lakescan.sql("SELECT * FROM aws.db.other").to_arrow(),
        lambda: glue.drop_table("db.other", missing_ok=True),
        lambda: glue.drop_table("db.other", purge=True),
    ):
        with pytest.raises(lakescan.NoSuchTable, match=rf"aws\.db\.other is {said}, neither an Iceberg nor a Delta"):
            reads()
    for format in ("iceberg", "delta"):
        with pytest.raises(lakescan.TableExists, match=rf"aws\.db\.other is {said}"):
            glue.create_table("db.other", "id BIGINT", format=format)
    assert client.get_table(DatabaseName="db", Name="other")["Table"]["TableType"] == kind


def _asks(lake: lakescan.Catalog) -> Iterator[Any]:
    yield lambda: lake.load_table("db.t")
    yield lambda: lake.table_exists("db.t")
    yield lambda: lake.list_tables("db")
    yield lambda: lake.create_table("db.t", "id BIGINT", format="delta")
    yield lambda: lake.register_table("db.t", "/nowhere")
    yield lambda: lake.rename_table("db.t", "db.u")
    yield lambda: lake.drop_table("db.t")
    yield lambda: lake.drop_namespace("db")
    yield lambda: lakescan.sql("SELECT * FROM aws.db.t").to_arrow()


def test_an_endpoint_that_does_not_answer_is_a_storage_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyiceberg.catalog.glue.MAX_RETRIES", 0)
    lake = glue_at("http://127.0.0.1:9", "s3://lake/w")
    for ask in _asks(lake):
        with looks(1), pytest.raises(lakescan.StorageError, match=r"Could not connect to the endpoint.*127\.0\.0\.1:9"):
            ask()


def test_missing_credentials_are_a_storage_error(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    properties = {"glue.region": REGION, "glue.endpoint": endpoint, "warehouse": "s3://lake/w"}
    lake = lakescan.catalog({"name": "aws", "type": "glue", **properties})
    for ask in _asks(lake):
        with pytest.raises(lakescan.StorageError, match="Unable to locate credentials") as failed:
            ask()
        assert not isinstance(failed.value, lakescan.CommitStateUnknown)


def test_refusals_of_aws_are_quoted_without_secrets(glue: lakescan.Catalog) -> None:
    client = connection("aws").glue  # type: ignore[attr-defined]
    from botocore.stub import Stubber

    for name, ask in (
        ("get_table", lambda: glue.load_table("db.t")),
        ("get_tables", lambda: glue.list_tables("db")),
        ("get_table", lambda: glue.drop_table("db.t")),
    ):
        with Stubber(client) as stubbed:
            stubbed.add_client_error(name, "AccessDeniedException", "User: joe is not authorized", 400)
            with pytest.raises(lakescan.StorageError, match=r"AccessDeniedException.*joe is not authorized") as failed:
                ask()
        assert SECRET not in str(failed.value)


def test_an_answer_before_the_request_or_by_name_is_a_refusal(glue: lakescan.Catalog) -> None:
    from botocore.exceptions import EndpointConnectionError, NoCredentialsError

    client = connection("aws").glue  # type: ignore[attr-defined]
    refused = client.exceptions.AccessDeniedException({"Error": {"Code": "AccessDeniedException"}}, "CreateTable")
    assert is_refusal(refused)
    assert is_refusal(NoCredentialsError())
    assert not is_refusal(EndpointConnectionError(endpoint_url="http://x"))  # an earlier attempt may have arrived
