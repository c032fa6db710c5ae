"""Flink reads tables that lakescan writes and maintains, and continues to write them."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import lakescan

from .session import FlinkSession, in_order, rows_of


def rows(*pairs: tuple[int, str]) -> pa.Table:
    return pa.table({"id": [n for n, _ in pairs], "v": [v for _, v in pairs]})


def same(flink: FlinkSession, name: str) -> list[tuple[object, ...]]:
    """Return the rows of a table, after checking that both sides read the same."""
    found = in_order(rows_of(lakescan.table(name).to_arrow()))
    assert in_order(flink.sql(f"SELECT * FROM {name}")) == found
    return found


@pytest.mark.parametrize("partitioning", ["", "bucket(4, id)"])
@pytest.mark.parametrize("version", ["2", "3"])
def test_flink_reads_every_kind_of_delete_and_upserts_into_it(
    lake: lakescan.Catalog, flink: FlinkSession, version: str, partitioning: str
) -> None:
    name = f"lake.db.ours_{version}_{'b' if partitioning else 'n'}"
    modes = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
    lake.create_table(
        name.removeprefix("lake."),
        "id BIGINT NOT NULL, v STRING, PRIMARY KEY (id)",
        partition_by=partitioning or (),
        properties={"format-version": version, "write.upsert.enabled": "true", **modes},
    )
    now = lambda: lakescan.table(name)  # noqa: E731
    now().upsert(rows(*((n, f"v{n}") for n in range(8))))
    now().upsert(rows((2, "two"), (9, "nine")), upsert_mode="equality")
    now().delete("id = 6")
    now().update({"v": "concat(v, '!')"}, where="id in (1, 7)")
    assert len(same(flink, name)) == 8
    changes = [("+U", "3", "flink"), ("-D", "5", "v5"), ("+I", "100", None), ("+U", "3", "again")]
    flink.change(name, ("id", "v"), "CAST(id AS BIGINT), v", changes)
    found = dict(same(flink, name))
    assert (found[3], found[100], 5 in found) == ("sagain", None, False)
    for maintain in ("convert_equality_deletes", "compact", "rewrite_manifests"):
        getattr(now(), maintain)()
        assert dict(same(flink, name)) == found
    flink.change(name, ("id", "v"), "CAST(id AS BIGINT), v", [("+U", "3", "end"), ("-D", "0", "v0")])
    assert dict(same(flink, name)) == {key: value for key, value in found.items() if key} | {3: "send"}


def test_flink_streams_what_lakescan_commits(lake: lakescan.Catalog, flink: FlinkSession) -> None:
    table = lake.create_table("db.streamed", "id BIGINT NOT NULL, v STRING")
    table.append(rows((1, "a")))
    hint = "'streaming'='true', 'monitor-interval'='200ms', 'starting-strategy'='TABLE_SCAN_THEN_INCREMENTAL'"
    job = flink.start(f"SELECT * FROM lake.db.streamed /*+ OPTIONS({hint}) */")
    for n in range(2, 5):
        lakescan.table("lake.db.streamed").append(rows((n, f"v{n}")))
    lakescan.table("lake.db.streamed").compact(min_input_files=2)
    lakescan.table("lake.db.streamed").append(rows((5, "e")))
    assert in_order(flink.drained(job, 5)) == same(flink, "lake.db.streamed")


def test_maintenance_next_to_a_running_job_loses_and_doubles_nothing(
    lake: lakescan.Catalog, flink: FlinkSession
) -> None:
    keys, changes = 20, 400
    lake.create_table(
        "db.busy",
        "id BIGINT NOT NULL, v BIGINT, PRIMARY KEY (id)",
        properties={"write.upsert.enabled": "true", "commit.retry.num-retries": "20"},
    )
    numbers = (
        "CREATE TEMPORARY TABLE default_catalog.default_database.numbers (n BIGINT) WITH ('connector'='datagen', "
        f"'fields.n.kind'='sequence', 'fields.n.start'='0', 'fields.n.end'='{changes - 1}', 'rows-per-second'='40')"
    )
    insert = f"INSERT INTO lake.db.busy SELECT MOD(n, {keys}), n FROM default_catalog.default_database.numbers"
    job = flink.start(insert, setup=numbers)
    steps = (
        lambda t: t.compact(min_input_files=2),
        lambda t: t.convert_equality_deletes(),
        lambda t: t.rewrite_manifests(),
        lambda t: t.expire_snapshots(datetime.now(UTC), retain_last=2),
        lambda t: t.remove_orphans(),
    )
    done = 0
    ends = time.monotonic() + 240
    while not (is_done := flink.poll(job)[1]) and time.monotonic() < ends:
        with suppress(lakescan.CommitConflict):  # Flink committed first, and nothing was changed
            steps[done % len(steps)](lakescan.table("lake.db.busy"))
        done += 1
        seen = lakescan.table("lake.db.busy").to_arrow()["id"].to_pylist()
        assert len(seen) == len(set(seen))
    assert is_done
    assert done >= len(steps)
    assert dict(same(flink, "lake.db.busy")) == {n % keys: n for n in range(changes - keys, changes)}
