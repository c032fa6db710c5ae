"""Times in table metadata never run backwards, whatever the writers' clocks show.

Java's `TableMetadata` refuses metadata whose logs go back by more than a minute, and Java servers refuse commits to
such tables.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.common.schema import Schema
from lakescan.errors import NoSuchTable
from lakescan.iceberg.commit.commit_snapshot import snapshot_updates
from lakescan.iceberg.commit.snapshot_producer import NewSnapshot
from lakescan.iceberg.view.metadata import ViewText, new_view, replace_view
from tests.tables.support import NAME, now, rows

pytestmark = pytest.mark.usefixtures("no_other_catalogs")

LATER = datetime.now(UTC) + timedelta(days=2)


class Clock:
    """The clock of the committing machine, `ahead` seconds ahead."""

    ahead = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that tests set, as read by lakescan and pyiceberg."""
    import pyiceberg.table.update

    found, real = Clock(), time.time

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=found.ahead)

    monkeypatch.setattr(time, "time", lambda: real() + found.ahead)
    monkeypatch.setattr(pyiceberg.table.update, "datetime", Shifted)
    return found


def append(number: int = 1) -> None:
    now().append(rows((number, "a"), (number + 1, "b")))


def first_snapshot() -> int:
    return int(now().inspect("snapshots")["snapshot_id"][0].as_py())


def append_to_branch() -> None:
    now().create_branch("audit", if_not_exists=True)
    now().append(rows((5, "b")), branch="audit")


def cherry_pick() -> None:
    wap_id = str(time.monotonic_ns())
    now().append(rows((9, "c")), wap_id=wap_id)
    append()
    now().publish(wap_id)


def expire() -> None:
    append()
    now().expire_snapshots(older_than=LATER, retain_last=1)


def rewrite_manifests() -> None:
    append()
    now().rewrite_manifests()


COMMITS: dict[str, Callable[[], Any]] = {
    "append": append,
    "overwrite": lambda: now().overwrite(rows((7, "c"))),
    "delete of files": lambda: now().delete("part = 'a'"),
    "delete of rows": lambda: now().delete("id = 1"),
    "upsert": lambda: now().upsert(rows((1, "a")), ["id", "part"]),
    "compaction": lambda: now().compact(min_input_files=1),
    "rewritten manifests": rewrite_manifests,
    "added column": lambda: now().alter().add_column(f"c{time.monotonic_ns()}", "INT").commit(),
    "properties": lambda: now().alter().set_properties({"owner": str(time.monotonic_ns())}).commit(),
    "partition field": lambda: lakescan.sql(f"ALTER TABLE {NAME} ADD PARTITION FIELD bucket({len(states())}, id)"),
    "sort order": lambda: now().alter().set_sort_order("id").commit(),
    "branch": lambda: now().create_branch(f"b{time.monotonic_ns()}"),
    "tag": lambda: now().create_tag(f"t{time.monotonic_ns()}"),
    "append to a branch": append_to_branch,
    "rollback": lambda: now().set_current_snapshot(version=now().inspect("snapshots")["snapshot_id"][0].as_py()),
    "staged append": lambda: now().append(rows((9, "c")), wap_id=str(time.monotonic_ns())),
    "cherry-pick": cherry_pick,
    "expiry": expire,
    "statistics": lambda: lakescan.sql(f"CALL local.system.compute_table_stats(table => '{NAME}')").to_arrow(),
    "replacement": lambda: lakescan.sql(f"CREATE OR REPLACE TABLE {NAME} (id BIGINT, part STRING) USING iceberg"),
    "replacement with rows": lambda: lakescan.sql(
        f"CREATE OR REPLACE TABLE {NAME} USING iceberg AS SELECT CAST(1 AS BIGINT) AS id, 'a' AS part"
    ),
    "upgrade": lambda: now().alter().set_properties({"format-version": "3"}).commit(),
}
WAP = {"write.wap.enabled": "true"}


def states() -> list[dict[str, Any]]:
    """Return the metadata files of the current table of the name, oldest first."""
    folder = Path(now().folder.removeprefix("file://")) / "metadata"
    files = sorted(folder.glob("*.metadata.json"), key=lambda each: int(each.name.split("-")[0]))
    found = [json.loads(each.read_text()) for each in files]
    of_table = connection("local").load_table(("db", "t")).metadata.table_uuid
    return [each for each in found if each["table-uuid"] == str(of_table)]


def assert_ordered(states: list[dict[str, Any]]) -> None:
    """Check that times never run backwards within a metadata file, as Java requires, nor from file to file."""
    for state in states:
        for log in (state.get("snapshot-log", []), state.get("metadata-log", [])):
            times = [each["timestamp-ms"] for each in log]
            assert [*times, state["last-updated-ms"]] == sorted([*times, state["last-updated-ms"]])
    updated = [each["last-updated-ms"] for each in states]
    assert updated == sorted(set(updated))
    known: dict[int, int] = {}
    for state in states:
        new = {each["snapshot-id"]: each["timestamp-ms"] for each in state.get("snapshots", [])}
        latest = max(known.values(), default=0)
        assert all(at > latest for each, at in new.items() if each not in known)
        known |= new


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("kind", COMMITS)
def test_a_commit_is_later_than_commits_by_a_fast_clock(
    local: lakescan.Catalog, clock: Clock, kind: str, version: str
) -> None:
    if (kind, version) in (("delete of rows", "1"), ("upgrade", "3")):
        version = "2"
    properties = {"format-version": version, **WAP}
    local.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"], properties=properties)
    append()
    clock.ahead = 600
    append(3)
    now().alter().set_properties({"by": "a fast clock"}).commit()
    clock.ahead, before = 0, len(states())
    COMMITS[kind]()
    assert len(states()) > before
    append(5)
    assert_ordered(states())


STEPS = st.lists(st.tuples(st.sampled_from(sorted(COMMITS)), st.integers(-100_000, 100_000)), min_size=2, max_size=6)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_times_never_run_backwards(local: lakescan.Catalog, clock: Clock, steps: list[tuple[str, int]]) -> None:
    with suppress(NoSuchTable):
        local.drop_table("db.t")
    local.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"], properties=WAP)
    for kind, ahead in [("append", 0), *steps]:
        clock.ahead = ahead
        COMMITS[kind]()
    assert_ordered(states())


def test_rows_of_a_new_table_are_as_late_as_the_table(local: lakescan.Catalog, clock: Clock) -> None:
    clock.ahead = 600
    lakescan.sql(f"CREATE TABLE {NAME} USING iceberg AS SELECT 1 AS id, 'a' AS part")
    clock.ahead = 0
    append()
    assert_ordered(states())


def disorder(local: lakescan.Catalog) -> None:
    """Commit with differing clocks, as earlier writers did: the logs go back by ten minutes."""
    local.create_table("db.t", "id BIGINT, part STRING")
    for number in range(4):
        append(number)
    table = connection("local").load_table(("db", "t"))
    path = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    for log in (metadata["snapshot-log"], metadata["metadata-log"]):
        log[1]["timestamp-ms"] += 600_000
    path.write_text(json.dumps(metadata))


def test_the_next_commit_repairs_logs_that_are_out_of_order(local: lakescan.Catalog) -> None:
    disorder(local)
    before = states()[-1]
    append(7)
    after = states()[-1]
    assert_ordered([after])
    ids = [each["snapshot-id"] for each in after["snapshot-log"]]
    assert ids[:-1] == [each["snapshot-id"] for each in before["snapshot-log"]]
    assert after["snapshot-log"][0] == before["snapshot-log"][0]
    assert {each["timestamp-ms"] for each in after["snapshot-log"][2:-1]} == {before["snapshot-log"][1]["timestamp-ms"]}


def test_a_commit_that_changes_nothing_writes_no_metadata(local: lakescan.Catalog) -> None:
    disorder(local)
    before = states()
    now().alter().set_properties({}).commit()
    now().create_branch("main", if_not_exists=True)
    assert states() == before


def test_a_time_selects_the_last_snapshot_of_the_log_until_then(local: lakescan.Catalog) -> None:
    disorder(local)
    ids = [each["snapshot-id"] for each in states()[-1]["snapshot-log"]]
    assert now().snapshot_id == ids[-1]
    assert lakescan.table(NAME, timestamp_as_of=LATER).to_arrow() == now().to_arrow()


def test_no_time_selects_a_snapshot_across_one_that_expired(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    append()
    now().create_tag("first")
    append()
    second = now().inspect("snapshots")["committed_at"][-1].as_py()
    append()
    now().expire_snapshots(older_than=LATER, retain_last=1)
    assert len(now().inspect("snapshots")) == 2
    with pytest.raises(lakescan.errors.NoSuchSnapshot, match="no snapshot was current at"):
        lakescan.table(NAME, timestamp_as_of=second).to_arrow()
    assert [each["snapshot-id"] for each in states()[-1]["snapshot-log"]] == [now().snapshot_id]


def test_a_table_far_ahead_of_the_clock_is_reported(
    local: lakescan.Catalog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    clock.ahead = 600
    append()
    clock.ahead = 0
    append()
    assert any("ahead of this machine's clock" in each.message for each in caplog.records)


def test_a_snapshot_for_a_server_is_later_than_the_table(local: lakescan.Catalog, clock: Clock) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    clock.ahead = 600
    append()
    clock.ahead = 0
    metadata = connection("local").load_table(("db", "t")).metadata
    new = NewSnapshot(1, None, 2, "/lake/list.avro", "append", {}, 0, None, None)
    added = snapshot_updates(metadata, new, "main")[-2]
    assert added.snapshot.timestamp_ms == metadata.last_updated_ms + 1


def test_versions_of_a_view_are_in_order() -> None:
    def text(at: int, query: str) -> ViewText:
        return ViewText(query, Schema(()), None, ("db",), at, {})

    view = new_view(text(2_000_000, "SELECT 1"), "/lake/v", {})
    for query in ("SELECT 2", "SELECT 1"):
        view = replace_view(view, text(1_000_000, query), {}, "v")
    times = [at for at, _ in view.log]
    assert len(times) == 3
    assert times == sorted(set(times))
