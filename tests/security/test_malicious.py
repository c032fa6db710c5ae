"""Malicious tables and servers: no operation runs their code, contacts a foreign host, or reads or writes outside.

Each attack is planted into a table (or into the answers of a REST server), and all operations are tried on it in turn.
Each operation succeeds, with the table's own rows, or raises a `LakescanError`.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.cli.commands import app
from lakescan.errors import LakescanError, LocationRefused
from tests.security.test_settings_of_others import stranger
from tests.support.manifests import rewrite_avro
from tests.support.rest_server import RestServer, rest_server

OWN = [1, 2]
ROWS = pa.table({"id": pa.array(OWN, pa.int64())})
OUTSIDE = 666  # the id of each row outside
CODE = "lakescan_trap.Trap"
# Spark's workers lack the test's environment, so `trap` contains the name of the file.
TRAP = """
import os
NOTES = os.environ.get("LAKESCAN_TRAP", "{notes}")
open(NOTES, "a").write("imported ")
class Trap:
    def __init__(self, *a, **k):
        open(NOTES, "a").write("called ")
def call(*a, **k):
    Trap()
"""


def trap(notes: Path | str = "") -> str:
    """Return the text of a module that must never be imported; it writes to a file that it ran."""
    return TRAP.format(notes=notes)


@dataclass
class World:
    """The folder that a reader allows, a folder outside, a foreign host's address, and a catalog without limits."""

    lake: Path
    outside: Path
    address: str
    free: lakescan.Catalog

    @property
    def rows(self) -> Path:
        return self.outside / "rows.parquet"


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return all files and folders below a folder, with their times and contents."""
    return {
        str(each): (each.lstat().st_mtime_ns, each.read_bytes() if each.is_file() else b"")
        for each in sorted(folder.rglob("*"))
    }


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Make a world; afterwards, check that the trap never ran, and that no foreign host or outside file was touched."""
    sprung = tmp_path / "sprung"
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "lakescan_trap.py").write_text(trap())
    monkeypatch.syspath_prepend(tmp_path / "modules")
    monkeypatch.setenv("LAKESCAN_TRAP", str(sprung))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "SECRET-OF-THE-READER")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    outside, lake = tmp_path / "outside", tmp_path / "lake"
    outside.mkdir()
    lake.mkdir()
    there = pa.table({"id": pa.array([OUTSIDE], pa.int64())})
    pq.write_table(there, outside / "rows.parquet")
    lakescan.save(there, str(outside / "delta"), format="delta")
    free = lakescan.catalog("free", type="sql", uri=f"sqlite:///{tmp_path}/free.db", warehouse=str(lake))
    free.create_namespace("db")
    old = (datetime.now(UTC) - timedelta(days=90)).timestamp()
    for each in outside.rglob("*"):
        os.utime(each, (old, old))
    before = state(outside)
    with stranger() as (address, requests):
        yield World(lake, outside, address, free)
        assert requests == []
    assert not sprung.exists()
    assert "lakescan_trap" not in sys.modules
    assert state(outside) == before


SETTINGS: dict[str, Callable[[World], dict[str, str]]] = {
    "code": lambda w: dict.fromkeys(
        (
            "py-io-impl", "io-impl", "py-catalog-impl", "catalog-impl", "metrics-reporter-impl", "key-manager",
            "encryption.kms-impl", "s3.retry-strategy-impl", "auth.impl", "auth.type", "delta.logStore.class",
            "spark.delta.logStore.class", "fs.s3a.impl", "fs.file.impl", "fs.s3a.aws.credentials.provider",
            "client.factory", "s3.client-factory-impl", "s3.signer-impl", "lock-impl",
        ),
        CODE,
    ),
    "a location provider": lambda w: {"write.py-location-provider.impl": CODE, "write.location-provider.impl": CODE},
    "hosts": lambda w: dict.fromkeys(
        (
            "uri", "oauth2-server-uri", "s3.endpoint", "s3.proxy-uri", "s3.signer.uri", "signer.uri", "fs.s3a.endpoint",
            "fs.s3a.proxy.host", "gcs.service.host", "gcs.endpoint", "adls.account-host", "azure_storage_endpoint",
            "hdfs.host", "hf.endpoint", "glue.endpoint", "endpoint", "aws_endpoint_url", "proxy_url", "encryption.url",
            "delta.sharing.endpoint", "io.unitycatalog.uri",
        ),
        w.address,
    ) | {"s3.remote-signing-enabled": "true", "s3.signer.endpoint": "v1/sign"},
    "limits": lambda w: {"allowed-locations": str(w.outside), "allowed_locations": str(w.outside), "relocate": "{}"},
}  # fmt: skip


def as_properties(settings: str) -> Callable[[dict[str, Any], World], Any]:
    return lambda node, w: node["properties"].update(SETTINGS[settings](w))


def set_property(name: str, value: Callable[[World], str]) -> Callable[[dict[str, Any], World], Any]:
    return lambda node, w: node["properties"].update({name: value(w)})


def at_snapshots(member: str, value: Callable[[World], Any]) -> Callable[[dict[str, Any], World], Any]:
    return lambda node, w: [each.update({member: value(w)}) for each in node["snapshots"]]


def with_statistics(kind: str, place: Callable[[World], str]) -> Callable[[dict[str, Any], World], Any]:
    def change(node: dict[str, Any], w: World) -> None:
        node[kind] = [
            {
                "snapshot-id": each["snapshot-id"], "statistics-path": place(w), "file-size-in-bytes": 100,
                "file-footer-size-in-bytes": 40, "blob-metadata": [],
            }
            for each in node["snapshots"]
        ]  # fmt: skip

    return change


def with_old_metadata(node: dict[str, Any], w: World) -> None:
    node["metadata-log"] = [{"timestamp-ms": 1, "metadata-file": str(w.rows)}] * 3
    node["properties"] |= {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }


def with_refs(node: dict[str, Any], w: World) -> None:
    (current,) = node["refs"].values()
    node["refs"][f"../../../{w.outside.name}/x"] = {**current, "type": "tag"}


def with_partition_field(node: dict[str, Any], w: World) -> None:
    """Add a partition field whose name, which is part of data file paths, climbs out of the folder."""
    name = f"../../../../{w.outside.name}/x"
    field = {"source-id": 1, "field-id": 1000, "transform": "identity", "name": name}
    node["partition-specs"].append({"spec-id": 1, "fields": [field]})
    node["default-spec-id"], node["last-partition-id"] = 1, 1000


ICEBERG: dict[str, Callable[[dict[str, Any], World], Any]] = {
    **{f"properties: {each}": as_properties(each) for each in SETTINGS},
    "location": lambda node, w: node.update(location=str(w.outside)),
    "location by dots": lambda node, w: node.update(location=f"{w.lake}/../{w.outside.name}"),
    "location at a host": lambda node, w: node.update(location=f"{w.address}/t"),
    **{
        f"{name} {how}": set_property(name, place)
        for name in ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
        for how, place in (("outside", lambda w: str(w.outside)), ("at a host", lambda w: f"{w.address}/x"))
    },
    "object storage": lambda node, w: node["properties"].update(
        {"write.object-storage.enabled": "true", "write.data.path": f"{w.outside}"}
    ),
    "manifest list": at_snapshots("manifest-list", lambda w: str(w.rows)),
    "manifest list at a host": at_snapshots("manifest-list", lambda w: f"{w.address}/list.avro"),
    "manifest list in S3": lambda node, w: (
        at_snapshots("manifest-list", lambda w: "s3://bucket/list.avro")(node, w),
        as_properties("hosts")(node, w),
    ),
    "statistics": with_statistics("statistics", lambda w: str(w.rows)),
    "partition statistics": with_statistics("partition-statistics", lambda w: str(w.rows)),
    "statistics at a host": with_statistics("statistics", lambda w: f"{w.address}/x.puffin"),
    "old metadata": with_old_metadata,
    "refs": with_refs,
    "partition field": with_partition_field,
    "encryption": lambda node, w: (
        node["properties"].update({"encryption.key-id": CODE, "encryption.kms-impl": CODE}),
        node.update({"encryption-keys": [{"key-id": "k", "encrypted-key-metadata": "QQ==", "encrypted-by-id": CODE}]}),
    ),
    "column comments": lambda node, w: [
        field.update(doc="${java:" + CODE + "}") for schema in node["schemas"] for field in schema["fields"]
    ],
}


def rows_of(found: pa.Table) -> list[int]:
    return sorted(found["id"].to_pylist())


def read_by_stream(table: lakescan.Table) -> pa.Table:
    batches = (pa.table(each).select(["id"]) for each in table.stream(wait=False))
    return pa.concat_tables([ROWS.slice(0, 0), *batches])


READS: dict[str, Callable[[lakescan.Table], pa.Table]] = {
    "arrow": lambda t: t.scan().to_arrow(),
    "head": lambda t: t.head(5),
    "filter": lambda t: t.scan().where("id > 0").to_arrow(),
    "sql": lambda t: lakescan.sql("SELECT id FROM t", t=t).to_arrow(),
    "pickled": lambda t: pickle.loads(pickle.dumps(t)).scan().to_arrow(),
    "stream": read_by_stream,
}
LATER = datetime(2100, 1, 1, tzinfo=UTC)
OPERATIONS: dict[str, Callable[[lakescan.Table, World], Any]] = {
    "count": lambda t, w: t.count(),
    "plan": lambda t, w: t.scan().explain(),
    "changes": lambda t, w: t.changes().to_arrow(),
    "detail": lambda t, w: t.detail(),
    "history": lambda t, w: t.history(),
    "health": lambda t, w: t.health(orphans=True, missing=True),
    "files": lambda t, w: t.inspect("files"),
    "orphans, tried": lambda t, w: t.remove_orphans(dry_run=True),
    "orphans elsewhere": lambda t, w: t.remove_orphans(location=str(w.outside)),
    "orphans elsewhere, tried": lambda t, w: t.remove_orphans(location=str(w.outside), dry_run=True),
    "tag": lambda t, w: t.create_tag("first"),
    "branch": lambda t, w: t.create_branch("b"),
    "property": lambda t, w: t.alter().set_properties({"a": "b"}).commit(),
    "column": lambda t, w: t.alter().add_column("c", "INT").commit(),
    "append": lambda t, w: t.append(pa.table({"id": [3]})),
    "update": lambda t, w: t.update({"id": "id + 10"}, "id = 3"),
    "delete": lambda t, w: t.delete("id = 1"),
    "merge": lambda t, w: t.upsert(pa.table({"id": [4]}), keys="id"),
    "statistics": lambda t, w: t.compute_statistics(),
    "checkpoint": lambda t, w: t.checkpoint(),
    "generate": lambda t, w: t.generate(),
    "manifests": lambda t, w: t.rewrite_manifests(),
    "paths": lambda t, w: t.rewrite_paths(str(w.lake), str(w.outside)),
    "staged paths": lambda t, w: t.rewrite_paths(str(w.lake), "s3://b", staging_location=str(w.lake / "staged")),
    "compact": lambda t, w: t.compact(),
    "overwrite": lambda t, w: t.overwrite(pa.table({"id": [9]})),
    "clone": lambda t, w: t.clone(str(w.lake / "clone")),
    "expire, tried": lambda t, w: t.expire_snapshots(LATER, retain_last=1, dry_run=True),
    "expire": lambda t, w: t.expire_snapshots(LATER, retain_last=1),
    "orphans": lambda t, w: t.remove_orphans(),
    "maintain": lambda t, w: t.maintain(),
    "restore": lambda t, w: t.restore(1),
}
# Operations that open, rewrite or remove files that the metadata names.
OF_FILES = ("health", "files", "append", "delete", "manifests", "compact", "clone", "expire", "orphans", "restore")
COMMANDS = ("describe", "schema", "properties", "history", "head", "count", "health", "explain", "snapshots")


def attempt(what: str, work: Callable[[], Any]) -> Any:
    """Return the result of an operation, or None if it raises a `LakescanError`; other errors fail the test."""
    try:
        return work()
    except LakescanError:
        return None
    except Exception as error:
        pytest.fail(f"{what}: {type(error).__name__}: {error}")


def read_opened(opened: Callable[[], lakescan.Table], read: Callable[[lakescan.Table], pa.Table]) -> pa.Table:
    return read(opened())


def change_opened(
    opened: Callable[[], lakescan.Table], change: Callable[[lakescan.Table, World], Any], world: World
) -> Any:
    return change(opened(), world)


def attack(opened: Callable[[], lakescan.Table], world: World, operations: Collection[str] = OPERATIONS.keys()) -> None:
    """Try all operations: each returns the table's own rows or raises an error."""
    for name, read in READS.items():
        found = attempt(name, partial(read_opened, opened, read))
        assert found is None or rows_of(found) == OWN, name
    for name in operations:
        attempt(name, partial(change_opened, opened, OPERATIONS[name], world))
    found = attempt("at last", lambda: opened().scan().to_arrow())
    assert found is None or OUTSIDE not in rows_of(found)


def commands(name: str) -> None:
    for command in COMMANDS:
        result = CliRunner().invoke(app, [command, name])
        error = result.exception
        assert error is None or isinstance(error, LakescanError | SystemExit), (command, error)


@pytest.mark.slow
@pytest.mark.parametrize(("planted", "version"), [(each, str(1 + at % 3)) for at, each in enumerate(ICEBERG)])
def test_a_malicious_iceberg_table_does_no_harm(world: World, planted: str, version: str) -> None:
    made = world.free.create_table("db.t", "id BIGINT", properties={"format-version": version})
    made.append(ROWS)
    file = Path(connection("free").load_table("db.t").metadata_location.removeprefix("file://"))
    node = json.loads(file.read_text())
    ICEBERG[planted](node, world)
    hostile = file.with_name("00009-11111111-1111-1111-1111-111111111111.metadata.json")
    hostile.write_text(json.dumps(node))
    uri = f"sqlite:///{world.lake.parent}/limited.db"
    limits = {"allowed-locations": str(world.lake)}
    limited = lakescan.catalog("limited", type="sql", uri=uri, warehouse=str(world.lake), **limits)
    limited.create_namespace("db")
    if attempt("register", lambda: limited.register_table("db.t", str(hostile))) is not None:
        commands("limited.db.t")
        attack(lambda: lakescan.table("limited.db.t"), world)
        attempt("clone", lambda: limited.clone_table("db.copy", "limited.db.t"))
        attempt("again", lambda: limited.create_table("db.t", "id BIGINT", replace=True))
        attempt("drop", lambda: limited.drop_table("db.t"))


def everywhere(w: World) -> dict[str, str]:
    """Return locations outside, in the forms that manifests and logs may use."""
    path = str(w.rows)
    return {
        "a path": path,
        "a URI": w.rows.as_uri(),
        "a URI without slashes": f"file:{path}",
        "a URI with a host": f"file://localhost{path}",
        "another case": f"FILE://{path}",
        "dots": f"{w.lake}/../{w.outside.name}/rows.parquet",
        "dots in a URI": f"file://{w.lake}/x/../../{w.outside.name}/rows.parquet",
        "escaped dots": f"file://{w.lake}/%2e%2e/{w.outside.name}/rows.parquet",
        "escaped slashes": f"{w.lake}%2F..%2F..%2F{w.outside.name}/rows.parquet",
        "a host": f"{w.address}/rows.parquet",
        "a namenode": f"{w.address}/rows.parquet".replace("http:", "hdfs:"),
        "the machine": "http://169.254.169.254/latest/meta-data/rows.parquet",
        "the machine's namenode": "hdfs://169.254.169.254/rows.parquet",
        "the machine in Azure": "abfss://c@169.254.169.254/rows.parquet",
        "a bucket": "s3://bucket/rows.parquet",
        "Hugging Face": "hf://datasets/stranger/rows.parquet",
    }


PLACES = list(everywhere(World(Path("/l"), Path("/o"), "http://h", None)))  # type: ignore[arg-type]


def with_files(path: Path, member: str, place: str) -> None:
    """Make a manifest, or a manifest list, name another file."""

    def change(records: list[Any]) -> None:
        for each in records:
            found = each.get("data_file", each)
            found[member] = place

    rewrite_avro(path, change)


@pytest.mark.parametrize(
    ("place", "named"), [(each, ("file_path", "manifest_path")[at % 2]) for at, each in enumerate(PLACES)]
)
def test_a_malicious_manifest_does_no_harm(world: World, place: str, named: str) -> None:
    lake = limited_catalog(world)
    metadata = Path(connection("limited").load_table("db.t").metadata_location.removeprefix("file://")).parent
    (manifest,) = (each for each in metadata.glob("*.avro") if not each.name.startswith("snap-"))
    (manifests,) = metadata.glob("snap-*.avro")
    with_files(manifest if named == "file_path" else manifests, named, everywhere(world)[place])
    with pytest.raises(LakescanError):
        lakescan.table("limited.db.t").scan().to_arrow()
    attack(lambda: lakescan.table("limited.db.t"), world, OF_FILES)
    attempt("drop", lambda: lake.drop_table("db.t", purge=True))


Actions = list[dict[str, Any]]


def in_configuration(values: Callable[[World], dict[str, str]]) -> Callable[[Actions, World], Any]:
    return lambda actions, w: metadata_of(actions)["configuration"].update(values(w))


def metadata_of(actions: Actions) -> dict[str, Any]:
    return next(each["metaData"] for each in actions if "metaData" in each)


def with_features(actions: Actions, *features: str) -> None:
    protocol = next(each["protocol"] for each in actions if "protocol" in each)
    protocol |= {"minReaderVersion": 3, "minWriterVersion": 7}
    readers = {"deletionVectors", "v2Checkpoint", "columnMapping"}
    protocol["writerFeatures"] = sorted({*protocol.get("writerFeatures", ()), *features})
    protocol["readerFeatures"] = sorted({*protocol.get("readerFeatures", ()), *(readers & set(features))})


def with_constraint(expression: str) -> Callable[[Actions, World], Any]:
    def change(actions: Actions, w: World) -> None:
        with_features(actions, "checkConstraints")
        metadata_of(actions)["configuration"]["delta.constraints.c"] = expression

    return change


def with_column_rule(name: str, feature: str, expression: Any) -> Callable[[Actions, World], Any]:
    def change(actions: Actions, w: World) -> None:
        with_features(actions, feature)
        schema = json.loads(metadata_of(actions)["schemaString"])
        kind = "string" if name == "delta.generationExpression" else "boolean"
        field = {"name": "g", "type": kind, "nullable": True, "metadata": {name: expression}}
        metadata_of(actions)["schemaString"] = json.dumps({**schema, "fields": [*schema["fields"], field]})

    return change


def with_add(path: Callable[[World], str]) -> Callable[[Actions, World], Any]:
    def change(actions: Actions, w: World) -> None:
        size = w.rows.stat().st_size
        more = {"partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
        actions.append({"add": {"path": path(w), **more}})

    return change


def with_remove(path: Callable[[World], str]) -> Callable[[Actions, World], Any]:
    def change(actions: Actions, w: World) -> None:
        more = {"deletionTimestamp": 1, "dataChange": True, "size": 1, "partitionValues": {}}
        actions.append({"remove": {"path": path(w), **more}})
        metadata_of(actions)["configuration"]["delta.deletedFileRetentionDuration"] = "interval 0 seconds"

    return change


def with_vector(kind: str, path: Callable[[World], str]) -> Callable[[Actions, World], Any]:
    def change(actions: Actions, w: World) -> None:
        with_features(actions, "deletionVectors")
        vector = {"storageType": kind, "pathOrInlineDv": path(w), "offset": 1, "sizeInBytes": 36, "cardinality": 1}
        next(each["add"] for each in actions if "add" in each)["deletionVector"] = vector

    return change


def with_cdc(actions: Actions, w: World) -> None:
    metadata_of(actions)["configuration"]["delta.enableChangeDataFeed"] = "true"
    more = {"partitionValues": {}, "size": w.rows.stat().st_size, "dataChange": False}
    actions.append({"cdc": {"path": w.rows.as_uri(), **more}})


def with_physical_name(actions: Actions, w: World) -> None:
    """Give a partition column a physical name that climbs out of the folder of data files."""
    with_features(actions, "columnMapping")
    metadata = metadata_of(actions)
    metadata["configuration"] |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"] = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "id"}
    of_part = {"delta.columnMapping.id": 2, "delta.columnMapping.physicalName": f"../../{w.outside.name}/x"}
    schema["fields"].append({"name": "part", "type": "string", "nullable": True, "metadata": of_part})
    metadata["schemaString"] = json.dumps(schema)
    metadata["partitionColumns"] = ["part"]


def pointer(**members: Any) -> Callable[[Path, World], Any]:
    return lambda log, w: (log / "_last_checkpoint").write_text(
        json.dumps({name: value(w) if callable(value) else value for name, value in members.items()})
    )


JAVA = "java.lang.Runtime"
CALLS = (
    f"reflect('{JAVA}', 'getRuntime') IS NOT NULL",
    f"java_method('{JAVA}', 'getRuntime') IS NOT NULL",
    f"try_reflect('{JAVA}', 'getRuntime') IS NOT NULL",
    "lakescan_trap.call(id) IS NULL",
    "sys.db.my_udf(id) > 0",
    "read_text('{outside}') IS NOT NULL",
    "id IN (SELECT id FROM read_parquet('/etc/passwd'))",
)
DELTA: dict[str, Callable[[Actions, World], Any]] = {
    **{f"configuration: {name}": in_configuration(values) for name, values in SETTINGS.items()},
    "format": lambda actions, w: metadata_of(actions).update(
        format={"provider": CODE, "options": {"path": str(w.outside), "py-io-impl": CODE}}
    ),
    "format options": lambda actions, w: metadata_of(actions)["format"].update(
        options={"path": str(w.outside), "fs.s3a.endpoint": w.address}
    ),
    **{f"constraint: {each}": with_constraint(each) for each in CALLS},
    **{
        f"generated: {each}": with_column_rule(
            "delta.generationExpression", "generatedColumns", f"CAST({each} AS STRING)"
        )
        for each in CALLS
    },
    **{f"default: {each}": with_column_rule("CURRENT_DEFAULT", "allowColumnDefaults", each) for each in CALLS[1:5]},
    **{
        f"invariant: {each}": with_column_rule(
            "delta.invariants", "invariants", json.dumps({"expression": {"expression": each}})
        )
        for each in CALLS[2:4]
    },
    "add": with_add(lambda w: w.rows.as_uri()),
    "add by its path": with_add(lambda w: str(w.rows)),
    "add by dots": with_add(lambda w: f"../../{w.outside.name}/rows.parquet"),
    "add by escaped dots": with_add(lambda w: f"%2e%2e/..%2F{w.outside.name}/rows.parquet"),
    "add at a host": with_add(lambda w: f"{w.address}/rows.parquet"),
    "add in S3": lambda actions, w: (
        with_add(lambda w: "s3://bucket/rows.parquet")(actions, w),
        in_configuration(SETTINGS["hosts"])(actions, w),
    ),
    "remove": with_remove(lambda w: w.rows.as_uri()),
    "remove by dots": with_remove(lambda w: f"../../{w.outside.name}/rows.parquet"),
    "vector": with_vector("p", lambda w: w.rows.as_uri()),
    "vector at a host": with_vector("p", lambda w: f"{w.address}/dv.bin"),
    "vector by dots": with_vector("u", lambda w: f"../../{w.outside.name}/" + "0" * 20),
    "cdc": with_cdc,
    "physical name": with_physical_name,
    "coordinated commits": in_configuration(
        lambda w: {
            "delta.coordinatedCommits.commitCoordinator-preview": CODE,
            "delta.coordinatedCommits.commitCoordinatorConf-preview": json.dumps({"uri": w.address}),
        }
    ),
}


def with_sidecars(log: Path, w: World) -> None:
    features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
    places = (f"../../../../{w.outside.name}/rows.parquet", w.rows.as_uri(), f"{w.address}/rows.parquet")
    commit = (log / f"{0:020d}.json").read_text().splitlines()
    actions = [
        {"checkpointMetadata": {"version": 0}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        *(json.loads(line) for line in commit if "metaData" in line),
        *({"sidecar": {"path": place, "sizeInBytes": 9, "modificationTime": 1}} for place in places),
    ]
    checkpoint = log / f"{0:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    checkpoint.write_text("\n".join(map(json.dumps, actions)))
    pointer(version=0, size=len(actions))(log, w)


def with_checkpoint(member: str) -> Callable[[Path, World, str], Any]:
    """Return a change that writes a checkpoint naming a file elsewhere: an add, a vector, a remove or a sidecar."""

    def change(log: Path, w: World, place: str) -> None:
        actions = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
        kept = [each for each in actions if "commitInfo" not in each]
        if member == "add":
            with_add(lambda w: place)(kept, w)
        elif member == "remove":
            with_remove(lambda w: place)(kept, w)
        elif member == "vector":
            with_vector("p", lambda w: place)(kept, w)
        else:
            kept.append({"sidecar": {"path": place, "sizeInBytes": 9, "modificationTime": 1}})
        with_features(kept, "v2Checkpoint")
        kept.insert(0, {"checkpointMetadata": {"version": 0}})
        name = f"{0:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
        (log / name).write_text("\n".join(map(json.dumps, kept)))
        (log / f"{0:020d}.json").write_text(
            "\n".join(map(json.dumps, [each for each in kept if "sidecar" not in each][1:]))
        )
        pointer(version=0, size=len(kept))(log, w)

    return change


CHECKPOINTS = ("add", "remove", "vector", "sidecar")


@pytest.mark.parametrize(("place", "member"), [(each, CHECKPOINTS[at % 4]) for at, each in enumerate(PLACES)])
def test_a_malicious_checkpoint_does_no_harm(world: World, place: str, member: str) -> None:
    folder = delta_table(world)
    with_checkpoint(member)(folder / "_delta_log", world, everywhere(world)[place])
    attack(limited_to(folder), world, OF_FILES)


LOGS: dict[str, Callable[[Path, World], Any]] = {
    "checkpoint by dots": pointer(version=0, v2Checkpoint={"path": "../../../outside/rows.parquet", "sizeInBytes": 9}),
    "sidecars": with_sidecars,
    "a far pointer": pointer(version=10**17, parts=10**9, size=10**18),
    "a pointer of another kind": pointer(version="../../../outside/rows.parquet", parts="x"),
    "a link to the outside": lambda log, w: (log / f"{1:020d}.json").symlink_to(
        w.outside / "delta/_delta_log" / f"{0:020d}.json"
    ),
    "a link in place of a folder": lambda log, w: (log / "_sidecars").symlink_to(w.outside),
    "change data by a link": lambda log, w: (log.parent / "_change_data").symlink_to(w.outside),
}  # fmt: skip


def delta_table(world: World) -> Path:
    folder = world.lake / "t"
    lakescan.save(ROWS, str(folder), format="delta")
    return folder


def limited_to(folder: Path) -> Callable[[], lakescan.Table]:
    return lambda: lakescan.table(str(folder), allowed_locations=[])


@pytest.mark.slow
@pytest.mark.parametrize("planted", DELTA)
def test_a_malicious_delta_table_does_no_harm(world: World, planted: str) -> None:
    folder = delta_table(world)
    commit = folder / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    DELTA[planted](actions, world)
    commit.write_text("\n".join(map(json.dumps, actions)))
    attack(limited_to(folder), world)
    commands(str(folder))


@pytest.mark.parametrize("planted", LOGS)
def test_a_malicious_log_does_no_harm(world: World, planted: str) -> None:
    folder = delta_table(world)
    LOGS[planted](folder / "_delta_log", world)
    attack(limited_to(folder), world)
    commands(str(folder))


@pytest.fixture
def server(world: World, tmp_path: Path) -> Iterator[tuple[RestServer, str]]:
    with rest_server(tmp_path / "rest", {"warehouse": f"file://{world.lake}"}) as (served, uri):
        served.catalog.create_namespace("db")
        served.catalog.create_table("db.t", schema=ROWS.schema).append(ROWS)
        yield served, uri


def keys_of(w: World) -> dict[str, str]:
    return {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": "c", "s3.endpoint": w.address}


def set_table(member: str, value: Callable[[World], Any]) -> Callable[[RestServer, World], Any]:
    return lambda served, w: served.of_table.update({member: value(w)})


def answers(ending: str, answer: Callable[[World], Any], status: int = 200) -> Callable[[RestServer, World], Any]:
    def change(served: RestServer, w: World) -> None:
        served.before = lambda request: (status, answer(w)) if request.what.endswith(ending) else None

    return change


def every_setting(w: World) -> dict[str, str]:
    return {name: value for values in SETTINGS.values() for name, value in values(w).items()}


def task(place: Callable[[World], str]) -> Callable[[World], Any]:
    def answer(w: World) -> dict[str, Any]:
        file = {
            "content": "data", "file-path": place(w), "file-format": "parquet", "spec-id": 0, "partition": [],
            "record-count": 1, "file-size-in-bytes": w.rows.stat().st_size,
        }  # fmt: skip
        return {"status": "completed", "file-scan-tasks": [{"data-file": file}]}

    return answer


BY_SERVER = (
    "changes",
    "health",
    "orphans, tried",
    "tag",
    "property",
    "append",
    "delete",
    "compact",
    "expire",
    "orphans",
)
SERVERS: dict[str, Callable[[RestServer, World], Any]] = {
    "defaults": lambda served, w: served.config.update(defaults=every_setting(w) | {"uri": ""}),
    "overrides of code": lambda served, w: served.config.update(overrides=SETTINGS["code"](w)),
    "overrides of hosts": lambda served, w: served.config.update(overrides=SETTINGS["hosts"](w)),
    "overrides of limits": lambda served, w: served.config.update(overrides=SETTINGS["limits"](w)),
    "auth": lambda served, w: served.config.update(overrides={"auth": {"type": "custom", "impl": CODE, "custom": {}}}),
    "table config": lambda served, w: served.table_config.update(every_setting(w)),
    "table config with keys": lambda served, w: served.table_config.update(every_setting(w) | keys_of(w)),
    "credentials": set_table(
        "storage-credentials", lambda w: [{"prefix": f"file://{w.outside}", "config": every_setting(w)}]
    ),
    "credentials without a prefix": set_table(
        "storage-credentials", lambda w: [{"prefix": "", "config": every_setting(w)}]
    ),
    "signer": set_table(
        "remote-signing-config",
        lambda w: {"signer-uri": w.address, "signer-endpoint": f"{w.address}/sign", "headers": {"X": ["y"]}},
    ),
    "metadata location": set_table("metadata-location", lambda w: str(w.rows)),
    "metadata location at a host": set_table("metadata-location", lambda w: f"{w.address}/1.metadata.json"),
    "namespace": answers(
        "GET namespaces/db", lambda w: {"namespace": ["db"], "properties": {"location": str(w.outside)}}
    ),
    "plan": answers("/plan", task(lambda w: str(w.rows))),
    "plan at a host": answers("/plan", task(lambda w: f"{w.address}/x.parquet")),
    "plan in S3": answers(
        "/plan",
        lambda w: {
            **task(lambda w: "s3://bucket/x.parquet")(w),
            "storage-credentials": [{"prefix": "s3://bucket", "config": {"s3.endpoint": w.address}}],
        },
    ),
    "plan with code": answers(
        "/plan",
        lambda w: {
            **task(lambda w: str(w.rows))(w),
            "storage-credentials": [{"prefix": "", "config": every_setting(w)}],
        },
    ),
    "tables": answers(
        "namespaces/db/tables",
        lambda w: {"identifiers": [{"namespace": ["..", ".."], "name": f"../../{w.outside.name}/delta"}]},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("planted", SERVERS)
def test_a_malicious_server_does_no_harm(world: World, server: tuple[RestServer, str], planted: str) -> None:
    served, uri = server
    SERVERS[planted](served, world)
    limits = {"allowed-locations": str(world.lake)}
    lake = attempt("connect", lambda: lakescan.catalog("lake", type="rest", uri=uri, token="SECRET-OF-ALL", **limits))
    if lake is None:
        return
    by_server = attempt(
        "plan by the server",
        lambda: lakescan.table("lake.db.t").scan().options(scan_planning_mode="server").to_arrow(),
    )
    assert by_server is None or rows_of(by_server) == OWN
    commands("lake.db.t")
    attack(lambda: lakescan.table("lake.db.t"), world, BY_SERVER)
    attempt("tables", lambda: [lakescan.table(name).count() for name in lake.list_tables("db")])
    attempt("create", lambda: lake.create_table("db.new", "id BIGINT"))
    attempt("create Delta", lambda: lake.create_table("db.delta", "id BIGINT", format="delta"))
    attempt("view", lambda: lake.create_view("db.v", "SELECT 1 AS id"))
    attempt("drop", lambda: lake.drop_table("db.t"))


def limited_catalog(world: World) -> lakescan.Catalog:
    uri, lake = f"sqlite:///{world.lake.parent}/limited.db", str(world.lake)
    limited = lakescan.catalog("limited", type="sql", uri=uri, warehouse=lake, **{"allowed-locations": lake})
    limited.create_namespace("db")
    limited.create_table("db.t", "id BIGINT").append(ROWS)
    return limited


def planted_view(world: World, query: str) -> None:
    """Make a view in the catalog with limits and replace the query in its file."""
    limited_catalog(world).create_view("db.v", "SELECT id FROM limited.db.t")
    for file in world.lake.rglob("*.json"):
        node = json.loads(file.read_text())
        for version in node.get("versions", []):
            for each in version.get("representations", []):
                each["sql"] = query
        file.write_text(json.dumps(node))


VIEWS = (
    "SELECT id FROM delta.`{outside}/delta`",
    "SELECT id FROM iceberg.`{outside}/delta`",
    "SELECT id FROM delta.`{lake}/../outside/delta`",
    "SELECT id FROM parquet.`{outside}/rows.parquet`",
    "SELECT id FROM limited.db.t WHERE id IN (SELECT id FROM delta.`{outside}/delta`)",
    "WITH c AS (SELECT id FROM delta.`{outside}/delta`) SELECT id FROM c",
    "SELECT id FROM table_changes('{outside}/delta', 0)",
    'SELECT id FROM table_changes("delta.`{outside}/delta`", 0)',
    "SELECT id FROM delta.`{host}/t`",
    "SELECT * FROM read_parquet('{outside}/rows.parquet')",
    "SELECT length(read_text('{outside}/rows.parquet')) AS id",
    *(f"SELECT CASE WHEN {each} THEN 1 END AS id FROM limited.db.t" for each in CALLS),
)


def run_sql(text: str) -> Any:
    found = lakescan.sql(text)
    return found.to_arrow() if isinstance(found, lakescan.Query) else found


@pytest.mark.parametrize("query", VIEWS)
def test_a_malicious_view_does_no_harm(world: World, query: str) -> None:
    planted_view(world, query.format(outside=world.outside, lake=world.lake, host=world.address))
    for text in (
        "SELECT id FROM limited.db.v",
        "SELECT count(id) AS id FROM (SELECT * FROM limited.db.v)",
        "CREATE TABLE limited.db.copy USING iceberg AS SELECT * FROM limited.db.v",
        "INSERT INTO limited.db.t SELECT id FROM limited.db.v",
    ):
        assert attempt(text, partial(run_sql, text)) is None, text
    assert rows_of(lakescan.table("limited.db.t").scan().to_arrow()) == OWN


BEYOND: dict[str, Callable[[lakescan.Catalog, World], Any]] = {
    "a clone of a folder": lambda lake, w: lake.clone_table("db.c", str(w.outside / "delta")),
    "a clone to a folder": lambda lake, w: lake.clone_table("db.c", "limited.db.t", location=str(w.outside / "c")),
    "a registered folder": lambda lake, w: lake.register_table("db.c", str(w.outside / "delta")),
    "files": lambda lake, w: lake.create_from_files("db.c", str(w.outside), files=[str(w.rows)]),
    "added files": lambda lake, w: lakescan.sql(
        f"CALL limited.system.add_files(table => 'db.t', source_table => '`parquet`.`{w.outside}`')"
    ).to_arrow(),
    "orphans": lambda lake, w: lake.load_table("db.t").remove_orphans(location=str(w.outside)),
    "orphans, tried": lambda lake, w: lake.load_table("db.t").remove_orphans(location=str(w.outside), dry_run=True),
    "orphans by SQL": lambda lake, w: lakescan.sql(
        f"CALL limited.system.remove_orphan_files(table => 'db.t', location => '{w.outside}', dry_run => true)"
    ).to_arrow(),
    "staged paths": lambda lake, w: lake.load_table("db.t").rewrite_paths(
        str(w.lake), "s3://b", staging_location=str(w.outside / "staged")
    ),
    "a metadata location": lambda lake, w: (
        lake.load_table("db.t").alter().set_properties({"write.metadata.path": str(w.outside)}).commit()
    ),
}


def test_relative_limits_mean_the_same_folder_in_any_working_directory(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.lake.parent)
    uri = f"sqlite:///{world.lake.parent}/limited.db"
    limited = lakescan.catalog(
        "limited", type="sql", uri=uri, warehouse=str(world.lake), **{"allowed-locations": "lake"}
    )
    limited.create_namespace("db")
    limited.create_table("db.t", "id BIGINT").append(ROWS)
    lakescan.save(ROWS, "lake/delta", format="delta")
    by_folder = lakescan.table("lake/delta", allowed_locations=["lake"])
    (world.lake / "lake").symlink_to(world.outside)
    monkeypatch.chdir(world.lake)
    for table in (lakescan.table("limited.db.t"), by_folder, pickle.loads(pickle.dumps(by_folder))):
        assert rows_of(table.scan().to_arrow()) == OWN
    with pytest.raises(LocationRefused):
        limited.create_table("db.c", "id BIGINT", location=str(world.outside / "c"))


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("how", BEYOND)
def test_limits_hold_for_operations_of_a_catalog(
    world: World, how: str, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = limited_catalog(world)
    if elsewhere:
        monkeypatch.chdir(world.outside)
    with pytest.raises(LocationRefused):
        BEYOND[how](lake, world)
