"""Streams and changes of tables that the JVM implementations write."""

from __future__ import annotations

import itertools
import signal
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.api.streams.killed import NEVER, POINTS, run_killed

import lakescan

MODES = [(2, "copy-on-write"), (2, "merge-on-read"), (3, "merge-on-read")]


def changed(jvm: Any, name: str, version: int, mode: str) -> str:
    """Make a table with every kind of SQL change; return its identifier."""
    identifier = f"ice.db.{name}"
    modes = ", ".join(f"'write.{what}.mode'='{mode}'" for what in ("delete", "update", "merge"))
    jvm.sql(
        f"CREATE TABLE {identifier} (id BIGINT, v STRING) USING iceberg "
        f"TBLPROPERTIES ('format-version'='{version}', {modes})"
    )
    jvm.sql(f"INSERT INTO {identifier} SELECT id, 'a' FROM range(6)")
    jvm.sql(f"INSERT INTO {identifier} VALUES (6, 'a'), (7, 'a'), (7, 'a')")
    jvm.sql(f"DELETE FROM {identifier} WHERE id = 2")
    jvm.sql(f"DELETE FROM {identifier} WHERE id = 3")
    jvm.sql(f"UPDATE {identifier} SET v = 'b' WHERE id IN (4, 7)")
    jvm.sql(
        f"MERGE INTO {identifier} t USING (SELECT 5 AS id, 'c' AS v UNION ALL SELECT 9, 'c') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    )
    jvm.sql(f"CALL ice.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))")
    jvm.sql(f"INSERT INTO {identifier} VALUES (10, 'd')")
    return identifier


def rows(location: str, snapshot: int) -> Counter[Any]:
    found = lakescan.table(location).scan().as_of(version=snapshot).to_arrow()
    return Counter(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_changes_lead_from_each_state_to_the_next(jvm, warehouse: Path, version: int, mode: str) -> None:
    name = f"changed_{version}_{mode.replace('-', '_')}"
    changed(jvm, name, version, mode)
    location = f"{warehouse}/ice/db/{name}"
    table = lakescan.table(location)
    states = table.history()["snapshot_id"].to_pylist()
    for before, after in itertools.pairwise(states):
        found = rows(location, before)
        changes = table.changes(before, after).to_arrow().to_pylist()
        for row in changes:
            found[row["id"], row["v"]] += 1 if row["_change_type"] == "INSERT" else -1
        assert +found == rows(location, after)
        assert not any({"INSERT", "DELETE"} == kinds for kinds in _sides(changes).values())


def _sides(changes: list[dict[str, Any]]) -> dict[Any, set[str]]:
    found: dict[Any, set[str]] = {}
    for row in changes:
        found.setdefault((row["id"], row["v"]), set()).add(row["_change_type"])
    return found


@pytest.mark.parametrize("identity", [(), ("id",)])
def test_changes_equal_those_of_javas_changelog(jvm, warehouse: Path, identity: tuple[str, ...]) -> None:
    """Only cases that Java supports: it refuses tables with delete files, and identities that occur twice in a commit."""
    name = f"changelog_{len(identity)}"
    identifier = changed(jvm, name, 2, "copy-on-write")
    if identity:
        jvm.sql(f"DELETE FROM {identifier} WHERE id = 7")
        jvm.sql(f"UPDATE {identifier} SET v = 'z' WHERE id < 2")
    table = lakescan.table(f"{warehouse}/ice/db/{name}")
    start = table.history()["snapshot_id"].to_pylist()[-2 if identity else 0]
    updates = "compute_updates => true, identifier_columns => array('id')" if identity else "compute_updates => false"
    jvm.sql(
        f"CALL ice.system.create_changelog_view(table => 'db.{name}', changelog_view => 'of_java_{name}', "
        f"options => map('start-snapshot-id', '{start}'), {updates})"
    )
    columns = ["id", "v", "_change_type", "_commit_snapshot_id"]
    expected = Counter(tuple(row) for row in jvm.table(f"of_java_{name}").select(*columns).collect())
    found = table.changes(start, identity=identity).to_arrow().select(columns)
    assert Counter(tuple(row.values()) for row in found.to_pylist()) == expected


@pytest.mark.parametrize(("version", "mode"), MODES)
def test_appends_are_streamed_and_compactions_are_skipped(jvm, warehouse: Path, version: int, mode: str) -> None:
    name = f"streamed_{version}_{mode.replace('-', '_')}"
    identifier = changed(jvm, name, version, mode)
    table = lakescan.table(f"{warehouse}/ice/db/{name}")
    start = {"starting-strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"}
    with pytest.raises(lakescan.RowsChanged):
        list(table.stream(wait=False, **start))
    found = [n for b in table.stream(wait=False, **start, **{"on-change": "skip"}) for n in b["id"].to_pylist()]
    first = table.history()["snapshot_id"].to_pylist()[0]
    java = jvm.read.format("iceberg").option("start-snapshot-id", first).load(identifier).collect()
    assert sorted(found) == sorted([*range(6), *(row["id"] for row in java)])
    changes = [row for b in table.stream(wait=False, **start, **{"on-change": "changelog"}) for row in b.to_pylist()]
    state: Counter[Any] = Counter()
    for row in changes:
        state[row["id"], row["v"]] += 1 if row["_change_type"] == "INSERT" else -1
    assert +state == Counter(tuple(row) for row in jvm.table(identifier).collect())


def test_delta_commits_of_every_kind_are_streamed(jvm, warehouse: Path) -> None:
    path = f"{warehouse}/streamed_delta"
    properties = "'delta.enableDeletionVectors'='true', 'delta.enableChangeDataFeed'='true'"
    jvm.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING) USING delta TBLPROPERTIES ({properties})")
    jvm.sql(f"INSERT INTO delta.`{path}` SELECT id, 'a' FROM range(6)")
    jvm.sql(f"INSERT INTO delta.`{path}` VALUES (6, 'a')")
    jvm.sql(f"OPTIMIZE delta.`{path}`")
    jvm.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    jvm.sql(f"UPDATE delta.`{path}` SET v = 'b' WHERE id = 4")
    jvm.sql(f"INSERT INTO delta.`{path}` VALUES (9, 'c')")
    table = lakescan.table(path)
    follower = table.stream(wait=False, startingVersion=0)
    with pytest.raises(lakescan.RowsChanged, match="DELETE"):
        list(follower)
    assert follower.offset["version"] == 3
    found = [
        n for b in table.stream(wait=False, startingVersion=0, skipChangeCommits=True) for n in b["id"].to_pylist()
    ]
    assert sorted(found) == [*range(7), 9]
    feed = [row for b in table.stream(wait=False, startingVersion=0, readChangeFeed=True) for row in b.to_pylist()]
    java = jvm.read.format("delta").option("readChangeFeed", "true").option("startingVersion", "0").load(path)
    names = ("id", "v", "_change_type", "_commit_version")
    expected = Counter(tuple(row[n] for n in names) for row in java.collect())
    assert Counter(tuple(row[n] for n in names) for row in feed) == expected


@pytest.mark.parametrize("name", ["iceberg", "delta"])
def test_a_query_that_is_killed_while_java_writes_reads_every_row_once(jvm, warehouse: Path, tmp_path, name) -> None:
    """Killed while a batch is planned, read or committed; for Delta only at the last point."""
    path = f"{warehouse}/ice/db/killed" if name == "iceberg" else f"{warehouse}/killed_delta"
    table = "ice.db.killed" if name == "iceberg" else f"delta.`{path}`"
    jvm.sql(f"CREATE TABLE {table} (id BIGINT) USING {name}")
    jvm.sql(f"INSERT INTO {table} VALUES (0), (1)")
    stopped = threading.Event()
    written = [0, 1]

    def write() -> None:
        while not stopped.wait(1):
            some = [len(written), len(written) + 1]
            jvm.sql(f"INSERT INTO {table} VALUES {', '.join(f'({n})' for n in some)}")
            written.extend(some)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for point in POINTS if name == "iceberg" else POINTS[-1:]:
            assert run_killed(name, path, tmp_path, point) == -signal.SIGKILL
    finally:
        stopped.set()
        writer.join()
    for _ in range(2):  # PySpark 4.1 finishes the batch that was begun, then ends: AvailableNow is one batch there
        assert run_killed(name, path, tmp_path, NEVER) == 0
    assert sorted(row["id"] for row in jvm.read.parquet(str(tmp_path / "target")).collect()) == written
