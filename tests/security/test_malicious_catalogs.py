"""Malicious catalog entries: Unity's answers, Hadoop's folders, rows of SQL catalogs, Glue's entries.

The requirements are those of `test_malicious`: no foreign code, no requests to foreign hosts, no access outside.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import lakescan
from lakescan.catalogs.lookup import find_table
from lakescan.catalogs.registry import connection
from lakescan.common.identifiers import Identifier
from lakescan.errors import LakescanError, LocationRefused, StorageError
from tests.security import test_malicious
from tests.security.test_malicious import (
    BY_SERVER,
    CODE,
    OPERATIONS,
    OWN,
    ROWS,
    World,
    attack,
    attempt,
    commands,
    every_setting,
    keys_of,
    rows_of,
)
from tests.support.s3 import KEY, REGION, SECRET, s3_server
from tests.support.unity_server import TOKEN, Node, StoredTable, UnityServer, unity_server

world = test_malicious.world
NAME = "main.db.t"


@dataclass
class Outer(World):
    """A world with the metadata file of an outside table that other readers may use."""

    metadata: Path


def try_all(lake: lakescan.Catalog, world: World) -> None:
    """Read, change, list, clone, create and drop the tables of a catalog."""
    name = f"{lake.name}.db.t"
    commands(name)
    attack(lambda: lakescan.table(name), world, BY_SERVER)
    attempt("tables", lambda: [lakescan.table(each).count() for each in lake.list_tables("db")])
    attempt("namespaces", lambda: [lake.list_tables(each) for each in lake.list_namespaces()])
    attempt("clone", lambda: lake.clone_table("db.copy", name))
    for format in ("iceberg", "delta"):
        attempt("create", partial(lake.create_table, f"db.new_{format}", "id BIGINT", format=format))
    attempt("create in its place", lambda: lake.create_table("db.t", "id BIGINT", format="delta", replace=True))
    attempt("rename", lambda: lake.rename_table("db.t", "db.u"))
    attempt("view", lambda: lake.create_view("db.v", "SELECT 1 AS id"))
    attempt("drop", lambda: lake.drop_table("db.t"))
    attempt("drop the other", lambda: lake.drop_table("db.u"))
    attempt("drop the namespace", lambda: lake.drop_namespace("db"))


# Unity Catalog


@pytest.fixture
def unity(world: World) -> Iterator[tuple[UnityServer, lakescan.Catalog]]:
    """A server whose tables are in the allowed folder, and its catalog with limits."""
    with unity_server(f"file://{world.lake}") as server:
        limits = {"allowed-locations": str(world.lake)}
        lake = lakescan.catalog("main", type="unity", uri=server.uri, token=TOKEN, **limits)
        lake.create_namespace("db")
        lake.create_table("db.t", "id BIGINT", format="delta").append(ROWS)
        yield server, lake


def at(location: Callable[[World], str]) -> Callable[[UnityServer, World], Any]:
    def change(server: UnityServer, w: World) -> None:
        server.tables[NAME].location = location(w)

    return change


def answering(path: str, answer: Callable[[World, Node], Any]) -> Callable[[UnityServer, World], Any]:
    """Return a change of the server's answers to requests whose path ends with `path`."""

    def change(server: UnityServer, w: World) -> None:
        usual = server.answer

        def hostile(method: str, where: str, query: Any, body: Node) -> Node:
            found = usual(method, where, query, body)
            return answer(w, found) if where.endswith(path) else found

        server.answer = hostile  # type: ignore[method-assign]

    return change


def as_staged(location: Callable[[World], str]) -> Callable[[UnityServer, World], Any]:
    """Return a change that gives new tables a location outside, which the server also accepts."""

    def change(server: UnityServer, w: World) -> None:
        usual = server._stage

        def stage(*request: Any) -> Node:
            found = usual(*request)
            server.staging[found["table-id"]] = (server.staging[found["table-id"]][0], location(w))
            return {**found, "location": location(w)}

        server._stage = stage  # type: ignore[method-assign]

    return change


def with_staged_link(server: UnityServer, w: World) -> None:
    """Make the next commit a link to a log outside."""
    table = server.tables[NAME]
    log = Path(table.location.removeprefix("file://")) / "_delta_log"
    version, name = table.latest + 1, f"{table.latest + 1:020d}.{uuid4()}.json"
    (log / "_staged_commits").mkdir(exist_ok=True)
    (log / "_staged_commits" / name).symlink_to(w.outside / "delta/_delta_log" / f"{0:020d}.json")
    node = {"version": version, "timestamp": 1, "file-name": name, "file-size": 9, "file-modification-timestamp": 1}
    table.commits[version], table.latest = node, version


def with_commit_named(name: Callable[[World], str]) -> Callable[[UnityServer, World], Any]:
    def change(server: UnityServer, w: World) -> None:
        table = server.tables[NAME]
        version = table.latest + 1
        node = {"timestamp": 1, "file-name": name(w), "file-size": 9, "file-modification-timestamp": 1}
        table.commits[version], table.latest = {"version": version, **node}, version

    return change


def hostile_credentials(w: World, found: Node) -> Node:
    config = {**every_setting(w), **keys_of(w), "azure.sas-token": "x", "gcs.oauth-token": "y"}
    return {"storage-credentials": [{"prefix": "", "operation": "READ", "config": config}]}


UNITY: dict[str, Callable[[UnityServer, World], Any]] = {
    "another place": at(lambda w: str(w.outside / "delta")),
    "another place as a URI": at(lambda w: (w.outside / "delta").as_uri()),
    "another place by dots": at(lambda w: f"file://{w.lake}/../outside/delta"),
    "another place by escaped dots": at(lambda w: f"file://{w.lake}/%2e%2e/outside/delta"),
    "a place at a host": at(lambda w: f"{w.address}/t"),
    "a namenode": at(lambda w: w.address.replace("http:", "hdfs:") + "/t"),
    "a host of the machine": at(lambda w: "hdfs://169.254.169.254/t"),
    "a bucket": at(lambda w: "s3://bucket/t"),
    "an account of Azure": at(lambda w: "abfss://c@stranger.dfs.core.windows.net/t"),
    "a bucket, with keys": lambda server, w: (
        at(lambda w: "s3://bucket/t")(server, w),
        answering("/credentials", hostile_credentials)(server, w),
    ),
    "properties": lambda server, w: server.tables[NAME].properties.update(every_setting(w)),
    "an id that is a path": lambda server, w: setattr(server.tables[NAME], "uuid", "../../../stranger"),
    "names of tables": answering(
        "/tables", lambda w, found: {"tables": [{"name": f"../../{w.outside.name}/delta"}, {"name": ".."}]}
    ),
    "names of schemas": answering("/schemas", lambda w, found: {"schemas": [{"name": "../.."}, {"name": "a/b"}]}),
    "a schema": answering("/schemas/main.db", lambda w, found: {**found, "storage_root": str(w.outside)}),
    "a page elsewhere": answering("/tables", lambda w, found: {**found, "next_page_token": f"{w.address}/next"}),
    "a new table's place": as_staged(lambda w: str(w.outside / "new")),
    "a new table's place by dots": as_staged(lambda w: f"file://{w.lake}/../outside/new"),
    "a new table's host": as_staged(lambda w: f"{w.address}/new"),
    "a commit elsewhere": with_commit_named(lambda w: f"../../../../outside/{0:020d}.{uuid4()}.json"),
    "a commit at a host": with_commit_named(lambda w: f"{w.address}/{2:020d}.{uuid4()}.json"),
    "a commit that is a link": with_staged_link,
}


@pytest.mark.parametrize("planted", UNITY)
def test_a_malicious_unity_catalog_does_no_harm(
    world: World, unity: tuple[UnityServer, lakescan.Catalog], planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    server, lake = unity
    UNITY[planted](server, world)
    try_all(lake, world)


def test_a_unity_catalog_cannot_set_hosts_or_redirect_secrets(world: World) -> None:
    config = every_setting(world) | {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.endpoint": world.address}
    own = {"s3.endpoint": "http://127.0.0.1:9", "s3.region": "r", "s3.session-token": "of-the-user"}
    with unity_server("s3://lake", config) as server:
        lakescan.catalog("main", type="unity", uri=server.uri, token=TOKEN, **own).create_namespace("db")
        server.tables[NAME] = StoredTable(NAME, "u", "s3://lake/t", "EXTERNAL", {}, {})
        storage = find_table(Identifier("main", ("db",), "t")).storage()
        found = storage.settings_at("s3://lake/t").s3()
    assert (found["access_key"], found["secret_key"]) == ("a", "b")
    assert found["endpoint_override"] == "http://127.0.0.1:9"
    assert "session_token" not in found


# Hadoop


def hadoop_table(world: World) -> Path:
    """Make a table in a catalog of type hadoop with limits; return its folder."""
    limits = {"allowed-locations": str(world.lake)}
    lake = lakescan.catalog("main", type="hadoop", warehouse=str(world.lake), **limits)
    lake.create_namespace("db")
    lake.create_table("db.t", "id BIGINT").append(ROWS)
    return world.lake / "db" / "t"


def outside_table(world: World) -> Path:
    """Make a table of a hadoop catalog outside and return its folder."""
    other = lakescan.catalog("other", type="hadoop", warehouse=str(others(world)))
    other.create_namespace("db")
    other.create_table("db.t", "id BIGINT").append(pa.table({"id": [test_malicious.OUTSIDE]}))
    return others(world) / "db" / "t"


def others(w: World) -> Path:
    """Return the warehouse of another hadoop catalog, outside."""
    return w.lake.parent / "others"


def hint(text: Callable[[World], str]) -> Callable[[Path, World], Any]:
    return lambda table, w: (table / "metadata/version-hint.text").write_text(text(w))


def linked(name: str, target: str) -> Callable[[Path, World], Any]:
    """Return a change that replaces a file or folder of the table by a link to one of an outside table."""

    def change(table: Path, w: World) -> None:
        put_link(table / name, others(w) / target)

    return change


def put_link(place: Path, target: Path) -> None:
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    place.symlink_to(target)


def in_newest(change: Callable[[dict[str, Any], World], Any]) -> Callable[[Path, World], Any]:
    def planted(table: Path, w: World) -> None:
        file = max((table / "metadata").glob("v*.metadata.json"))
        node = json.loads(file.read_text())
        change(node, w)
        file.write_text(json.dumps(node))

    return planted


HADOOP: dict[str, Callable[[Path, World], Any]] = {
    "a hint by dots": hint(lambda w: "../../../../others/db/t/metadata/v2"),
    "a hint of a path": hint(lambda w: str(others(w) / "db/t/metadata/v2")),
    "a hint of a host": hint(lambda w: f"{w.address}/v2"),
    "a hint of code": hint(lambda w: CODE),
    "a hint that is a link": linked("metadata/version-hint.text", "db/t/metadata/version-hint.text"),
    "a metadata file that is a link": linked("metadata/v2.metadata.json", "db/t/metadata/v2.metadata.json"),
    "a metadata folder that is a link": linked("metadata", "db/t/metadata"),
    "a data folder that is a link": linked("data", "db/t/data"),
    "a table that is a link": lambda table, w: put_link(table, others(w) / "db/t"),
    "a namespace that is a link": lambda table, w: put_link(table.parent, others(w) / "db"),
    "location": in_newest(lambda node, w: node.update(location=str(others(w) / "db/t"))),
    "properties": in_newest(lambda node, w: node["properties"].update(every_setting(w))),
    "a place of metadata": in_newest(
        lambda node, w: node["properties"].update({"write.metadata.path": str(w.outside)})
    ),
    "snapshots": in_newest(
        lambda node, w: [
            each.update({"manifest-list": str(next((others(w) / "db/t/metadata").glob("snap-*.avro")))})
            for each in node["snapshots"]
        ]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("planted", HADOOP)
def test_a_malicious_folder_of_a_hadoop_catalog_does_no_harm(world: World, planted: str) -> None:
    table = hadoop_table(world)
    outside = outside_table(world)
    before = test_malicious.state(outside.parents[1])
    HADOOP[planted](table, world)
    lake = lakescan.catalog("main")
    try_all(lake, world)
    attempt("create below", lambda: lake.create_namespace("db.below"))
    assert test_malicious.state(outside.parents[1]) == before


@pytest.mark.parametrize("planted", ["properties", "location", "a metadata file that is a link"])
def test_a_malicious_folder_of_an_iceberg_table_does_no_harm(world: World, planted: str) -> None:
    table, outside = hadoop_table(world), outside_table(world)
    before = test_malicious.state(outside.parents[1])
    HADOOP[planted](table, world)
    attack(test_malicious.limited_to(table), world, BY_SERVER)
    assert test_malicious.state(outside.parents[1]) == before


# Entries of databases: SQL, Glue

PLACES: dict[str, Callable[[World], str]] = {
    "outside": lambda w: str(w.metadata),
    "outside as a URI": lambda w: w.metadata.as_uri(),
    "outside by dots": lambda w: f"file://{w.lake}/../{w.metadata.relative_to(w.lake.parent)}",
    "outside, not absolute": lambda w: os.path.relpath(w.metadata),
    "a file that is no metadata": lambda w: str(w.rows),
    "a host": lambda w: f"{w.address}/t/metadata/v1.metadata.json",
    "a namenode": lambda w: f"{w.address}/t/metadata/v1.metadata.json".replace("http:", "hdfs:"),
    "a host of the machine": lambda w: "hdfs://169.254.169.254/t/metadata/v1.metadata.json",
    "a bucket": lambda w: "s3://bucket/t/metadata/v1.metadata.json",
    "an account of Azure": lambda w: "abfss://c@stranger.dfs.core.windows.net/t/metadata/v1.metadata.json",
    "Hugging Face": lambda w: "hf://datasets/stranger/t/metadata/v1.metadata.json",
}


def as_folder(location: str) -> str:
    """Return a location for a Delta table: the folder of the outside table, or one in the same store."""
    return location.partition("/metadata/")[0].replace("/iceberg", "/delta")


def sql_entry(statement: str, value: Callable[[str], str] = str) -> Callable[[lakescan.Catalog, str], Any]:
    def change(lake: lakescan.Catalog, place: str) -> None:
        opened: Any = connection(lake.name)
        with opened.engine.begin() as database:
            database.exec_driver_sql(statement, (value(place),))

    return change


NAMESPACE = (
    "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value) "
    "VALUES ('main', 'db', 'location', ?)"
)
SQL: dict[str, Callable[[lakescan.Catalog, str], Any]] = {
    "a table": sql_entry("UPDATE iceberg_tables SET metadata_location = ?"),
    "a table's last metadata": sql_entry("UPDATE iceberg_tables SET previous_metadata_location = ?"),
    "a Delta table": sql_entry("UPDATE lakescan_delta_tables SET location = ?", as_folder),
    "a namespace": sql_entry(NAMESPACE, as_folder),
}


@pytest.fixture
def outer(world: World) -> Outer:
    """The world with an outside Iceberg table that other readers may use."""
    other = lakescan.catalog("other", type="sql", uri=f"sqlite:///{world.lake.parent}/o.db", warehouse=str(world.lake))
    other.create_namespace("db")
    other.create_table("db.t", "id BIGINT", location=str(others(world) / "iceberg")).append(
        pa.table({"id": [test_malicious.OUTSIDE]})
    )
    lakescan.save(pa.table({"id": [test_malicious.OUTSIDE]}), others(world) / "delta", format="delta")
    opened: Any = connection("other")
    metadata = Path(opened.load_table("db.t").metadata_location.removeprefix("file://"))
    return Outer(world.lake, world.outside, world.address, world.free, metadata)


@pytest.mark.parametrize("entry", SQL)
def test_a_malicious_entry_of_an_sql_catalog_does_no_harm(outer: Outer, entry: str) -> None:
    limits, warehouse = {"allowed-locations": str(outer.lake)}, str(outer.lake)
    before = test_malicious.state(others(outer))
    for at, (place, location) in enumerate(PLACES.items()):
        uri = f"sqlite:///{outer.lake.parent}/main{at}.db"
        lake = lakescan.catalog("main", type="sql", uri=uri, warehouse=f"{warehouse}/{at}", **limits)
        lake.create_namespace("db")
        lake.create_table("db.t", "id BIGINT", format="delta" if "Delta" in entry else "iceberg").append(ROWS)
        SQL[entry](lake, location(outer))
        if entry in ("a table", "a Delta table"):
            with pytest.raises(LocationRefused):
                lakescan.table("main.db.t").scan().to_arrow()
        try_few(lake, outer, place)
        assert test_malicious.state(others(outer)) == before, place


def try_few(lake: lakescan.Catalog, world: World, place: str) -> None:
    """Read, change, clone, create and drop a table."""
    name = f"{lake.name}.db.t"
    found = attempt(f"read, {place}", lambda: lakescan.table(name).scan().to_arrow())
    assert found is None or rows_of(found) == OWN, place
    for each in ("append", "property", "expire"):
        change = partial(test_malicious.change_opened, lambda: lakescan.table(name), OPERATIONS[each], world)
        attempt(f"{each}, {place}", change)
    attempt(f"clone, {place}", lambda: lake.clone_table("db.copy", name))
    for format in ("iceberg", "delta"):
        attempt(f"create, {place}", partial(lake.create_table, f"db.new_{format}", "id BIGINT", format=format))
    attempt(f"view, {place}", lambda: lake.create_view("db.v", "SELECT 1 AS id"))
    attempt(f"drop, {place}", lambda: lake.drop_table("db.t", purge=True))


@pytest.mark.parametrize(
    ("own", "message"), [({"adls.account-name": "mine"}, "sent to no other"), ({}, "they were not sent")]
)
@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_an_entry_cannot_send_azure_secrets_to_another_account(
    tmp_path: Path, format: str, own: dict[str, str], message: str
) -> None:
    secrets = {"adls.sas-token": "sv=1&sig=SECRET-OF-THE-READER", **own}
    lake = lakescan.catalog("main", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path), **secrets)
    lake.create_namespace("db")
    lake.create_table("db.t", "id BIGINT", format=format)
    place = PLACES["an account of Azure"](None)  # type: ignore[arg-type]
    SQL["a table" if format == "iceberg" else "a Delta table"](lake, place)
    with pytest.raises(StorageError, match=message):
        lakescan.table("main.db.t").scan().to_arrow()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server("lake") as found:
        yield found


def glue_catalog(endpoint: str, warehouse: str, **more: str) -> lakescan.Catalog:
    keys = {"access-key-id": KEY, "secret-access-key": SECRET, "region": REGION, "endpoint": endpoint}
    properties = {f"{service}.{name}": value for service in ("glue", "s3") for name, value in keys.items()}
    return lakescan.catalog("main", type="glue", warehouse=warehouse, **properties, **more)


GLUE = {
    "an Iceberg table": lambda place, w: {
        "Parameters": {"table_type": "ICEBERG", "metadata_location": place, **every_setting(w)},
        "StorageDescriptor": {"Location": as_folder(place)},
    },
    "a table's last metadata": lambda place, w: {
        "Parameters": {"table_type": "ICEBERG", "metadata_location": str(w.rows), "previous_metadata_location": place},
        "StorageDescriptor": {"Location": str(w.lake)},
    },
    "a Delta table": lambda place, w: {
        "Parameters": {"spark.sql.sources.provider": "delta", **every_setting(w)},
        "StorageDescriptor": {
            "Location": as_folder(place),
            "SerdeInfo": {"Parameters": {"path": as_folder(place), **every_setting(w)}},
        },
    },
}


@pytest.mark.parametrize("entry", GLUE)
def test_a_malicious_entry_of_glue_does_no_harm(outer: Outer, endpoint: str, entry: str) -> None:
    lake = glue_catalog(endpoint, str(outer.lake), **{"allowed-locations": str(outer.lake)})
    opened: Any = connection("main")
    for database in opened.glue.get_databases()["DatabaseList"]:  # of other tests: servers of one process share them
        opened.glue.delete_database(Name=database["Name"])
    before = test_malicious.state(others(outer))
    for place, location in PLACES.items():
        said = location(outer)
        database = {"Name": "db", "LocationUri": as_folder(said), "Parameters": every_setting(outer)}
        opened.glue.create_database(DatabaseInput=database)
        table = {"Name": "t", "TableType": "EXTERNAL_TABLE", **GLUE[entry](said, outer)}
        opened.glue.create_table(DatabaseName="db", TableInput=table)
        try_few(lake, outer, place)
        opened.glue.delete_database(Name="db")
        assert test_malicious.state(others(outer)) == before, place


def test_glue_has_no_namespaces_of_several_levels(endpoint: str) -> None:
    lake = glue_catalog(endpoint, "s3://lake/w")
    with pytest.raises(LakescanError, match="one level"):
        lake.create_namespace("a.b")
    assert "a" not in lake.list_namespaces()
