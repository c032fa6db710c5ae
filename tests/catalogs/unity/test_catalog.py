"""Schemas and tables of a Unity Catalog by name, their storage locations, and where credentials stay."""

from __future__ import annotations

import pickle
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakescan
from lakescan.catalogs.unity.client import UnityResponse
from lakescan.catalogs.unity.credentials import IssuedCredentials, parse_credentials
from lakescan.errors import StorageError
from tests.support.s3 import KEY, REGION, SECRET, s3_server
from tests.support.unity_server import TOKEN, Fault, StoredTable, UnityServer, unity_server
from tests.support.unity_tables import NAME, ids, rows, stored


def test_schemas_and_tables_are_made_listed_renamed_and_dropped(main: lakescan.Catalog) -> None:
    main.create_namespace("other", properties={"comment": "of others", "owner": "x"})
    assert main.list_namespaces() == ["db", "other"]
    assert main.namespace_properties("other") == {"comment": "of others", "owner": "x"}
    for name in ("a", "b", "c", "d", "e"):  # more than a page
        main.create_table(f"db.{name}", "id BIGINT", format="delta")
    assert main.list_tables("db") == ["db.a", "db.b", "db.c", "db.d", "db.e"]
    main.rename_table("db.a", "db.z")
    main.drop_table("db.b")
    assert main.list_tables("db") == ["db.c", "db.d", "db.e", "db.z"]
    with pytest.raises(lakescan.TableExists, match="has tables"):
        main.drop_namespace("db")
    main.drop_namespace("other")
    assert not main.namespace_exists("other")


@pytest.mark.parametrize("name", ["t?x", "t#x", "%74", "t x", "t&x=1", "ä"])
def test_names_may_contain_url_characters(
    main: lakescan.Catalog, table: lakescan.Table, server: UnityServer, name: str
) -> None:
    main.create_namespace(f"`db{name}`")
    assert main.namespace_exists(f"`db{name}`")
    assert not main.namespace_exists(f"`db?{name}`")
    main.create_table(("db", name), "id BIGINT, part STRING", format="delta").append(rows(1))
    assert ids(f"main.db.`{name}`") == [1]
    main.drop_table(("db", name))
    main.drop_namespace(f"`db{name}`")
    assert list(server.tables) == ["main.db.t"]  # no other table was dropped
    assert list(server.schemas) == ["main.db"]


def test_unknown_names_are_refused_with_the_nearest(main: lakescan.Catalog, table: lakescan.Table) -> None:
    with pytest.raises(lakescan.NoSuchTable, match=r"has no table 'db\.tt'.*'t'"):
        lakescan.table("main.db.tt")
    with pytest.raises(lakescan.NoSuchNamespace):
        main.list_tables("nowhere")
    with pytest.raises(lakescan.NoSuchNamespace):
        main.create_table("nowhere.t", "id INT", format="delta")
    with pytest.raises(lakescan.TableExists):
        main.create_namespace("db")
    with pytest.raises(lakescan.TableExists):
        main.create_table("db.t", "id INT", format="delta")


def test_iceberg_tables_are_refused_with_what_to_do(main: lakescan.Catalog) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match=r"format='delta'.*type rest"):
        main.create_table("db.i", "id INT")


def test_the_server_side_name_of_the_catalog_can_differ(server: UnityServer, main: lakescan.Catalog) -> None:
    main.create_table("db.t", "id BIGINT, part STRING", format="delta").append(rows(1))
    lakescan.catalog("here", type="unity", uri=server.uri, token=TOKEN, warehouse="main")
    assert ids("here.db.t") == [1]
    assert lakescan.sql("SELECT id FROM here.db.t").to_arrow().to_pydict() == {"id": [1]}


def test_tables_are_made_and_written_to_in_sql(main: lakescan.Catalog, server: UnityServer) -> None:
    lakescan.sql("CREATE TABLE main.db.s (id BIGINT, part STRING) USING delta COMMENT 'sold' PARTITIONED BY (part)")
    lakescan.sql("INSERT INTO main.db.s VALUES (1, 'a'), (2, 'b')")
    lakescan.sql("UPDATE main.db.s SET id = 5 WHERE part = 'b'")
    assert ids("main.db.s") == [1, 5]
    assert stored(server, "main.db.s").comment == "sold"
    assert stored(server, "main.db.s").partition_columns == ["part"]
    lakescan.sql("DROP TABLE main.db.s")
    assert not main.table_exists("db.s")


def test_a_table_created_with_rows_is_registered_after_they_are_written(
    main: lakescan.Catalog, server: UnityServer
) -> None:
    lakescan.save(rows(1, 2), "main.db.new", format="delta")
    assert ids("main.db.new") == [1, 2]
    assert stored(server, "main.db.new").latest == 0
    lakescan.sql("CREATE TABLE main.db.made USING delta AS SELECT id + 1 AS id FROM main.db.new")
    assert ids("main.db.made") == [2, 3]


def test_a_table_creation_with_a_lost_answer_is_made_once(main: lakescan.Catalog, server: UnityServer) -> None:
    server.faults.append(Fault("POST", "/schemas/db/tables$", "lost"))
    main.create_table("db.t", "id BIGINT, part STRING", format="delta").append(rows(1))
    assert ids() == [1]


def test_properties_that_contradict_the_catalog_are_refused(main: lakescan.Catalog) -> None:
    with pytest.raises(lakescan.InvalidOption, match="the catalog requires 'true'"):
        main.create_table("db.t", "id INT", format="delta", properties={"delta.enableDeletionVectors": "false"})
    main.create_table("db.r", "id INT", format="delta")
    with pytest.raises(lakescan.UnsupportedFeature, match="replacing"):
        main.create_table("db.r", "id INT", format="delta", replace=True)


def test_an_external_table_is_in_its_own_folder_and_committed_to_by_its_log(
    main: lakescan.Catalog, server: UnityServer, tmp_path: Path
) -> None:
    table = main.create_table("db.t", "id BIGINT, part STRING", format="delta", location=tmp_path / "mine")
    table.append(rows(1))
    assert ids() == ids(str(tmp_path / "mine")) == [1]
    assert stored(server).kind == "EXTERNAL"


def test_tables_missing_from_the_newer_api_are_opened_through_the_older_one(
    main: lakescan.Catalog, server: UnityServer, tmp_path: Path
) -> None:
    lakescan.save(rows(1), str(tmp_path / "old"), format="delta")
    for name, properties in (("old", {}), ("csv", {"format": "CSV"})):
        server.tables[f"main.db.{name}"] = StoredTable(
            f"main.db.{name}", str(uuid.uuid4()), str(tmp_path / "old"), "OLD", {}, properties
        )
    lakescan.table("main.db.old").append(rows(2))
    assert ids("main.db.old") == [1, 2]
    with pytest.raises(lakescan.UnsupportedFeature, match="CSV"):
        lakescan.table("main.db.csv")


def test_a_server_that_does_not_answer_is_reported(
    main: lakescan.Catalog, table: lakescan.Table, server: UnityServer
) -> None:
    server.faults.append(Fault("GET", "/tables/t$", "dropped", times=2))
    assert ids() == []
    server.faults.append(Fault("GET", "/tables/t$", 403, kind="PermissionDeniedException"))
    with pytest.raises(lakescan.StorageError, match=r"'main' failed to respond for main\.db\.t.*PermissionDenied"):
        lakescan.table(NAME)


def test_a_wrong_token_is_reported_without_showing_it(server: UnityServer) -> None:
    lakescan.catalog("main", type="unity", uri=server.uri, token="a-wrong-one")
    with pytest.raises(lakescan.StorageError, match="NotAuthorized") as error:
        lakescan.table(NAME)
    assert "a-wrong-one" not in str(error.value)


@pytest.mark.parametrize("uri", ["", "unity.example.com", "ftp://unity", "http://user:secret@unity"])
def test_invalid_addresses_are_refused(uri: str) -> None:
    with pytest.raises(lakescan.InvalidOption, match="needs a uri") as error:
        lakescan.catalog("main", type="unity", uri=uri, token=TOKEN)
    assert "secret" not in str(error.value)


def test_the_token_is_sent_to_no_other_server(
    main: lakescan.Catalog, table: lakescan.Table, server: UnityServer
) -> None:
    with unity_server("unused") as other:
        server.faults.append(Fault("GET", "/tables/t$", 307, headers={"Location": f"{other.uri}/stolen"}))
        with pytest.raises(lakescan.StorageError, match="307"):
            lakescan.table(NAME)
        assert other.requests == []


def test_credentials_of_the_longest_prefix_are_used() -> None:
    def answer(*prefixes: str) -> UnityResponse:
        listed = [
            {"prefix": each, "config": {"s3.access-key-id": each, "gcs.oauth-token": None}, "expiration-time-ms": 0}
            for each in prefixes
        ]
        return UnityResponse({"storage-credentials": listed})

    found = parse_credentials(answer("s3://b/", "s3://b/t/", "s3://b/t2"), "s3a://b/t")
    assert found.properties == {"s3.access-key-id": "s3://b/t/"}
    with pytest.raises(StorageError, match="no credentials"):
        parse_credentials(answer("s3://b/t2"), "s3://b/t")


def test_credentials_of_each_cloud_have_the_names_of_file_io() -> None:
    until = (time.time() + 3600) * 1000
    azure = IssuedCredentials.until({"adls.sas-token": "x"}, until, "abfss://c@account.dfs.core.windows.net/t")
    assert azure.properties == {"adls.sas-token": "x", "adls.account-name": "account"}
    google = IssuedCredentials.until({"gcs.oauth2.token": "x"}, until, "gs://b/t")
    assert google.properties["gcs.oauth2.token-expires-at"] == str(int(until))
    assert not google.is_due
    assert IssuedCredentials.until({}, (time.time() + 1) * 1000, "s3://b").is_valid


def test_expiry_times_may_be_texts_or_seconds_and_invalid_ones_never_expire() -> None:
    until = float(round(time.time() + 3600))
    for written in (until * 1000, int(until * 1000), str(int(until * 1000)), until, str(int(until))):
        found = IssuedCredentials.until({}, written, "s3://b/t")
        assert found.expiry == until
        assert not found.is_due
    for written in (None, 0, -1, True, "2030-01-01", "nan", float("inf"), 10**400, [], ""):
        assert IssuedCredentials.until({}, written, "s3://b/t").expiry is None


def test_credentials_expired_by_the_local_clock_are_still_used_briefly() -> None:
    found = IssuedCredentials.until({}, (time.time() - 7200) * 1000, "s3://b/t")
    assert not found.is_due  # requesting new credentials would not help, and would happen for each file
    assert found.is_valid
    assert found.renewal is not None


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server("lake") as found:
        yield found


@pytest.fixture
def bucket(endpoint: str, tmp_path: Path) -> Iterator[UnityServer]:
    """A server whose tables are in a bucket, with the catalog `main`."""
    keys = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
    with unity_server(f"s3://lake/{tmp_path.name}", keys) as server:
        settings = {"s3.endpoint": endpoint, "s3.region": REGION}
        given = {"name": "main", "type": "unity", "uri": server.uri, "token": TOKEN, **settings}
        catalog = lakescan.catalog(given)
        catalog.create_namespace("db")
        catalog.create_table("db.t", "id BIGINT, part STRING", format="delta")
        yield server


@pytest.mark.slow
def test_tables_in_a_bucket_are_read_and_written_with_vended_credentials(bucket: UnityServer) -> None:
    table = lakescan.table(NAME)
    table.append(rows(1, 2))
    table.delete("id = 1")
    assert ids() == [2]
    operations = [path for _, path, _ in bucket.requests if path.endswith("/credentials")]
    assert len(operations) < 12  # not for each file


@pytest.mark.slow
def test_credentials_are_renewed_before_they_expire(bucket: UnityServer) -> None:
    bucket.lifetime = 2.0
    opened = lakescan.table(NAME)
    opened.append(rows(1))
    assert opened.count() == 1
    storage = opened.scan().spec.storage
    first = storage.vended._issued  # type: ignore[union-attr]
    bucket.config["s3.session-token"] = "the second"
    storage.vended._issued = IssuedCredentials(first.properties, renewal=0.0, expiry=time.time() + 1)  # type: ignore[union-attr]
    for settings in (storage.all_options_at(storage.vended.location), storage.settings_at(storage.vended.location)):  # type: ignore[union-attr]
        assert settings.s3()["session_token"] == "the second"


@pytest.mark.slow
def test_no_text_contains_secrets(bucket: UnityServer) -> None:
    table = lakescan.table(NAME)
    table.append(rows(1))
    spec = table.scan().spec
    assert SECRET in dict(spec.storage.vended.at(spec.storage.vended.location).properties).values()  # type: ignore[union-attr]
    shown = [repr(each) for each in (table, spec, spec.storage, spec.storage.vended, lakescan.catalog("main"))]
    shown += [table.scan().explain(), str(table.scan().plan()), repr(spec.storage.vended.client)]  # type: ignore[union-attr]
    for text in shown:
        assert not re.search(f"{re.escape(SECRET)}|{re.escape(TOKEN)}", text)
    assert pickle.loads(pickle.dumps(spec.storage)).identity == spec.storage.identity
