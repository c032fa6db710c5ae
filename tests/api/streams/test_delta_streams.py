"""Streams of Delta tables: where they begin, which commits they skip, and what ends them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from samples.delta_deletes import commit_vectors, stored_vector

import lakescan
from tests.support.two_commits import save_in_two_commits


def append(path: Path, *ids: int, **options: Any) -> None:
    write_deltalake(path, pa.table({"id": pa.array(ids, pa.int64())}), mode="append", **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a table with versions 0 to 3, one number in each."""
    for number in range(4):
        append(tmp_path / "t", number)
    return tmp_path / "t"


def rows(path: Path, start: dict[str, Any] | None = None, **options: Any) -> list[int]:
    follower = lakescan.table(path).stream(start=start, wait=False, **options)
    return [n for batch in follower for n in batch["id"].to_pylist()]


def test_a_starting_version_is_included(path: Path) -> None:
    assert rows(path, startingVersion=2) == [2, 3]
    assert rows(path, startingVersion=0) == [0, 1, 2, 3]
    assert rows(path, startingVersion=4) == []
    with pytest.raises(lakescan.NoSuchSnapshot, match="no version 9: its newest is 3"):
        rows(path, startingVersion=9)


def test_latest_starts_with_the_next_commit(path: Path) -> None:
    follower = lakescan.table(path).stream(wait=False, startingVersion="latest")
    assert list(follower) == []
    append(path, 4)
    assert rows(path, follower.offset) == [4]


def test_a_stream_starts_at_a_time(path: Path) -> None:
    times = lakescan.table(path).history()["timestamp"].to_pylist()
    assert rows(path, startingTimestamp=times[2].isoformat()) == [2, 3]
    with pytest.raises(lakescan.NoSuchSnapshot, match="no commit at or after"):
        rows(path, startingTimestamp=datetime(2999, 1, 1, tzinfo=UTC).isoformat())
    with pytest.raises(lakescan.InvalidOption, match="both set where the stream begins"):
        rows(path, startingTimestamp="2026-01-01", startingVersion=1)


def test_files_without_data_changes_are_skipped(path: Path) -> None:
    DeltaTable(path).optimize.compact()
    append(path, 4)
    assert rows(path, startingVersion=0) == [0, 1, 2, 3, 4]


def test_rewritten_files_are_read_again_with_ignore_changes(path: Path) -> None:
    append(path, 10, 11)
    DeltaTable(path).update(updates={"id": "99"}, predicate="id = 11")
    append(path, 12)
    with pytest.raises(lakescan.RowsChanged, match="UPDATE"):
        rows(path, startingVersion=5)
    assert sorted(rows(path, startingVersion=5, ignoreChanges=True)) == [10, 12, 99]
    assert rows(path, startingVersion=5, skipChangeCommits=True) == [12]
    assert rows(path, startingVersion=5, **{"on-change": "skip"}) == [12]
    assert rows(path, startingVersion=5, **{"skip-operations": "MERGE, UPDATE"}) == [12]
    with pytest.raises(lakescan.RowsChanged, match="UPDATE"):
        rows(path, startingVersion=5, ignoreDeletes=True)


def test_rows_deleted_by_vectors_are_not_in_the_initial_snapshot(path: Path) -> None:
    append(path, 10, 11, 12)
    name = next(f.name for f in sorted(path.glob("*.parquet"), key=lambda f: f.stat().st_mtime)[-1:])
    commit_vectors(path, {name: stored_vector(path, [1])})
    assert sorted(rows(path)) == [0, 1, 2, 3, 10, 12]
    assert sorted(rows(path, startingVersion=5, ignoreChanges=True)) == [10, 12]


def test_a_stream_begins_after_the_commit_that_removes_column_mapping(tmp_path: Path) -> None:
    """Older files use column names that are no longer in the schema: their columns would be read as null."""
    folder = tmp_path / "mapped"
    mapped = {"delta.columnMapping.mode": "name"}
    save_in_two_commits(pa.table({"id": [1, 2]}), folder, format="delta", properties=mapped)
    before = lakescan.table(folder).stream(wait=False, startingVersion=1)
    assert [n for batch in before for n in batch["id"].to_pylist()] == [1, 2]
    lakescan.table(folder).append(pa.table({"id": [9]}))
    lakescan.table(folder).alter().drop_feature("columnMapping").commit()
    lakescan.table(folder).append(pa.table({"id": [3]}))
    for start in ({"startingVersion": 1}, {"start": before.offset}):
        with pytest.raises(lakescan.SchemaChanged, match=r"column 'id'"):
            rows(folder, **start)
    assert rows(folder, startingVersion=3) == [3]  # version 3 removes the mapping
    opened = lakescan.table(folder)
    with pytest.raises(lakescan.SchemaChanged, match="start after that change"):
        list(opened.stream(wait=False, startingVersion=1))
    assert len(list(opened.stream(wait=False, startingVersion=3))) == 1


def test_excluded_files_are_left_out(tmp_path: Path) -> None:
    rows_of = pa.table({"id": pa.array([1, 2], pa.int64()), "part": ["a", "b"]})
    write_deltalake(tmp_path / "t", rows_of, partition_by=["part"])
    assert rows(tmp_path / "t", excludeRegex="^part=a/") == [2]
    assert rows(tmp_path / "t", excludeRegex="part=b", startingVersion=0) == [1]


def test_a_schema_change_ends_a_stream_and_a_new_stream_continues(path: Path) -> None:
    """Commits before the schema change are read first."""
    follower = lakescan.table(path).stream(startingVersion=2, monitor_interval="10ms")
    found = next(follower)["id"].to_pylist()
    append(path, 100)
    wide = pa.table({"id": pa.array([4], pa.int64()), "name": ["x"]})
    write_deltalake(path, wide, mode="append", schema_mode="merge")
    with pytest.raises(lakescan.SchemaChanged, match=r"a column 'name'.*Restart the stream"):
        found.extend(n for batch in follower for n in batch["id"].to_pylist())
    assert found == [2, 3, 100]
    again = lakescan.table(path).stream(start=follower.offset, wait=False)
    assert next(again).to_pylist() == [{"id": 4, "name": "x"}]


def test_missing_commits_end_a_stream_unless_loss_is_allowed(path: Path) -> None:
    DeltaTable(path).create_checkpoint()
    for version in (0, 1):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(lakescan.NoSuchSnapshot, match="were removed from the log"):
        rows(path, startingVersion=0)
    assert rows(path, startingVersion=0, failOnDataLoss=False) == [2, 3]


def test_a_batch_has_a_thousand_files_by_default(tmp_path: Path) -> None:
    from lakescan.options.streaming import batch_limits

    append(tmp_path / "t", 1)
    scan = lakescan.table(tmp_path / "t").scan()
    assert batch_limits(scan.spec.options, scan.spec.table.default_limits).files == 1000
    assert (
        batch_limits(scan.options(maxBytesPerTrigger="1g").spec.options, scan.spec.table.default_limits).files is None
    )


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Make a table with a change feed: 1 and 2 inserted, 1 updated to 5, 2 deleted."""
    path = tmp_path / "t"
    append(path, 1, 2, configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(path).update(updates={"id": "5"}, predicate="id = 1")
    DeltaTable(path).delete("id = 2")
    return path


def changes(path: Path, start: dict[str, Any] | None = None, **options: Any) -> list[tuple[Any, ...]]:
    follower = lakescan.table(path).stream(start=start, wait=False, readChangeFeed=True, **options)
    names = ("_commit_version", "_change_type", "id")
    return [tuple(row[n] for n in names) for batch in follower for row in batch.to_pylist()]


def test_a_change_feed_is_followed_version_by_version(recorded: Path) -> None:
    expected = [
        (0, "insert", 1),
        (0, "insert", 2),
        (1, "update_postimage", 5),
        (1, "update_preimage", 1),
        (2, "delete", 2),
    ]
    assert sorted(changes(recorded, startingVersion=0)) == expected
    assert sorted(changes(recorded, startingVersion=0, maxRowsPerTrigger=1)) == expected
    assert sorted(changes(recorded, startingVersion=1)) == expected[2:]
    batch = lakescan.table(recorded).scan().options(readChangeFeed=True, startingVersion=0).to_arrow()
    assert lakescan.table(recorded).stream(wait=False, readChangeFeed=True).schema == batch.schema


def test_a_feed_without_a_start_begins_with_all_rows_as_inserts(recorded: Path) -> None:
    append(recorded, 7)
    follower = lakescan.table(recorded).stream(wait=False, readChangeFeed=True)
    first = [(r["_commit_version"], r["_change_type"], r["id"]) for b in follower for r in b.to_pylist()]
    assert sorted(first) == [(3, "insert", 5), (3, "insert", 7)]
    append(recorded, 8)
    assert changes(recorded, follower.offset) == [(4, "insert", 8)]


def test_a_feed_ends_where_changes_are_no_longer_recorded(recorded: Path) -> None:
    follower = lakescan.table(recorded).stream(wait=False, readChangeFeed=True)
    list(follower)
    log = recorded / "_delta_log"
    metadata = next(
        json.loads(line)["metaData"]
        for line in (log / f"{0:020d}.json").read_text().splitlines()
        if "metaData" in json.loads(line)
    )
    actions = [{"commitInfo": {"operation": "SET TBLPROPERTIES"}}, {"metaData": metadata | {"configuration": {}}}]
    (log / f"{3:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    again = lakescan.table(recorded)
    with pytest.raises(lakescan.LakescanError, match=r"did not record changes|stops recording changes"):
        list(again.stream(start=follower.offset, wait=False, readChangeFeed=True))


@pytest.mark.parametrize("start", [0, 1])
def test_a_feed_that_starts_too_early_names_the_first_version_with_changes(tmp_path: Path, start: int) -> None:
    """Version 1 has no metadata of its own. A stream that begins there must not read it either."""
    append(tmp_path / "t", 1)
    append(tmp_path / "t", 2)
    off = r"did not record changes at version {0}: {1}"
    DeltaTable(tmp_path / "t").alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    append(tmp_path / "t", 3)
    hint = r"change data was not recorded before version 2\. Start at 2 or later"
    with pytest.raises(lakescan.UnsupportedFeature, match=off.format(start, hint)):
        changes(tmp_path / "t", startingVersion=start)
    with pytest.raises(lakescan.UnsupportedFeature, match=off.format(start, hint)):
        lakescan.table(tmp_path / "t").scan().options(readChangeFeed=True, startingVersion=start).to_arrow()
    assert changes(tmp_path / "t", startingVersion=2) == [(3, "insert", 3)]


def test_a_refused_commit_without_metrics_is_named_with_its_writer(path: Path) -> None:
    """The error for a refused commit quotes the commit's own operation and writer."""
    properties = CommitProperties(custom_metadata={"who": "me"})
    DeltaTable(path).delete("id = 1", commit_properties=properties)
    with pytest.raises(lakescan.RowsChanged, match=r"commit 4 \(DELETE at .*num_removed_files=1"):
        rows(path, startingVersion=4)
