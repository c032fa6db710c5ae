"""Streams of Iceberg tables, and the same increments read as batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType
from samples.iceberg_deletes import commit_deletes, write_equality_deletes

import lakescan
from lakescan.common.timestamps import to_millis
from tests.support.catalog import local_catalog


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Make a pyiceberg table with four snapshots of one number each."""
    made = local_catalog(tmp_path).create_table("n.t", pa.schema({"id": pa.int64()}))
    for number in range(4):
        made.append(pa.table({"id": [number]}))
    return made


def follow(table: Any, start: dict[str, Any] | None = None, **options: Any) -> lakescan.BatchStream:
    options = {name.replace("_", "-"): value for name, value in options.items()}
    return lakescan.table(table.location()).stream(start=start, wait=False, **options)


def rows(table: Any, start: dict[str, Any] | None = None, **options: Any) -> list[int]:
    return [n for batch in follow(table, start, **options) for n in batch["id"].to_pylist()]


def snapshots(table: Any) -> list[Any]:
    return sorted(table.metadata.snapshots, key=lambda s: s.sequence_number)


def test_a_strategy_selects_where_a_stream_begins(table: Any) -> None:
    third = snapshots(table)[2]
    assert sorted(rows(table)) == [0, 1, 2, 3]
    assert sorted(rows(table, starting_strategy="table_scan_then_incremental")) == [0, 1, 2, 3]
    assert rows(table, starting_strategy="INCREMENTAL_FROM_LATEST_SNAPSHOT") == [3]
    assert rows(table, starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT") == [0, 1, 2, 3]
    by_id = {"start_snapshot_id": third.snapshot_id}
    assert rows(table, **by_id) == [3]  # as in batch reads, and as Flink documents it
    assert rows(table, starting_strategy="INCREMENTAL_FROM_SNAPSHOT_ID", **by_id) == [2, 3]
    by_time = {"start_snapshot_timestamp": third.timestamp_ms}
    assert rows(table, starting_strategy="INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP", **by_time) == [2, 3]
    assert rows(table, stream_from_timestamp=third.timestamp_ms) == [2, 3]
    assert rows(table, stream_from_timestamp=snapshots(table)[3].timestamp_ms + 1) == []
    table.manage_snapshots().create_tag(third.snapshot_id, "here").commit()
    assert rows(table, start_tag="here") == [3]
    assert rows(table, start_tag="here", starting_strategy="INCREMENTAL_FROM_SNAPSHOT_ID") == [2, 3]
    assert rows(table, start_timestamp=third.timestamp_ms) == [3]
    assert rows(table, start_timestamp=third.timestamp_ms - 1) == [2, 3]
    assert rows(table, starting_strategy="INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE") == []


def test_strategies_with_missing_or_extra_options_are_refused(table: Any) -> None:
    with pytest.raises(lakescan.InvalidOption, match="needs the option start-snapshot-id"):
        rows(table, starting_strategy="INCREMENTAL_FROM_SNAPSHOT_ID")
    with pytest.raises(lakescan.InvalidOption, match="contradict each other"):
        rows(table, starting_strategy="TABLE_SCAN_THEN_INCREMENTAL", start_tag="x")
    with pytest.raises(lakescan.InvalidOption, match="TABLE_SCAN_THEN_INCREMENTAL, INCREMENTAL_FROM"):
        rows(table, starting_strategy="now")
    with pytest.raises(lakescan.NoSuchSnapshot, match="snapshot 1 is not on the branch"):
        rows(table, start_snapshot_id=1)


def test_a_branch_is_followed(table: Any) -> None:
    table.manage_snapshots().create_branch(snapshots(table)[1].snapshot_id, "audit").commit()
    assert sorted(rows(table, branch="audit")) == [0, 1]
    table.append(pa.table({"id": [7]}), branch="audit")
    assert rows(table, branch="audit", starting_strategy="INCREMENTAL_FROM_LATEST_SNAPSHOT") == [7]
    assert sorted(rows(table)) == [0, 1, 2, 3]


def test_the_wap_branch_is_followed_if_it_exists(table: Any) -> None:
    with pytest.raises(lakescan.InvalidOption, match=r"write\.wap\.enabled is not true"):
        rows(table, wap_branch="audit")
    with table.transaction() as changes:
        changes.set_properties({"write.wap.enabled": "true"})
    assert sorted(rows(table, wap_branch="audit")) == [0, 1, 2, 3]
    table.manage_snapshots().create_branch(snapshots(table)[1].snapshot_id, "audit").commit()
    assert sorted(rows(table, wap_branch="audit")) == [0, 1]
    table.append(pa.table({"id": [7]}), branch="audit")
    assert rows(table, wap_branch="audit", starting_strategy="INCREMENTAL_FROM_LATEST_SNAPSHOT") == [7]
    with pytest.raises(lakescan.InvalidOption, match="'branch' and 'wap-branch' both select what to read"):
        rows(table, wap_branch="audit", branch="audit")


def test_the_snapshots_per_batch_can_be_limited(table: Any) -> None:
    follower = follow(table, starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT", max_planning_snapshot_count=1)
    places = []
    for _ in follower:
        places.append(follower.offset["snapshot-id"])
    assert places == [-1, *(s.snapshot_id for s in snapshots(table)[:3])]


def test_overwrites_are_skipped_or_read_if_an_option_allows_it(table: Any) -> None:
    """pyiceberg's overwrite rewrites files: it deletes one row of a file with two."""
    table.append(pa.table({"id": [4, 5]}))
    offset = follow(table)
    assert sorted(n for b in offset for n in b["id"].to_pylist()) == [0, 1, 2, 3, 4, 5]
    table.delete("id = 5")
    table.append(pa.table({"id": [6]}))
    with pytest.raises(lakescan.RowsChanged, match=r"overwrite.*added-records=1"):
        rows(table, offset.offset)
    assert rows(table, offset.offset, streaming_skip_overwrite_snapshots=True) == [6]
    assert rows(table, offset.offset, on_change="added-rows") == [4, 6]
    with pytest.raises(lakescan.RowsChanged):
        rows(table, offset.offset, streaming_skip_delete_snapshots=True)


def test_a_stream_reads_the_added_rows_of_upserts(table: Any) -> None:
    """A snapshot that only deletes yields nothing."""
    offset = follow(table, starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT")
    assert [n for b in offset for n in b["id"].to_pylist()] == [0, 1, 2, 3]
    path = f"{table.location()}/data/eq.parquet"
    location = commit_deletes(table.metadata_location, [write_equality_deletes(path, pa.table({"id": [1]}), {"id": 1})])
    follower = lakescan.table(location).stream(start=offset.offset, wait=False, **{"on-change": "added-rows"})
    assert list(follower) == []


def test_the_error_for_an_expired_start_tells_how_to_continue(table: Any) -> None:
    from pyiceberg.table.update.snapshot import ExpireSnapshots  # noqa: F401

    first = follow(table, starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT", max_planning_snapshot_count=1)
    next(first), next(first)
    table.append(pa.table({"id": [4]}))
    old = [s.snapshot_id for s in snapshots(table)[:3]]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    with pytest.raises(lakescan.NoSuchSnapshot, match=r"has expired.*oldest one left.*TABLE_SCAN_THEN_INCREMENTAL"):
        rows(table, first.offset)
    assert sorted(rows(table)) == [0, 1, 2, 3, 4]
    assert rows(table, starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT") == [3, 4]


def test_a_rollback_is_reported(table: Any) -> None:
    follower = follow(table)
    list(follower)
    table.manage_snapshots().set_current_snapshot(snapshots(table)[1].snapshot_id).commit()
    with pytest.raises(lakescan.NoSuchSnapshot, match="rolled back"):
        rows(table, follower.offset)


def test_added_columns_are_read_by_streams_that_start_later(table: Any) -> None:
    from pyiceberg.types import StringType

    follower = lakescan.table(table.location()).stream(monitor_interval="10ms")
    assert sorted(next(follower)["id"].to_pylist() + next(follower)["id"].to_pylist())
    offset = follow(table).offset
    with table.update_schema() as update:
        update.add_column("name", StringType())
    table.append(pa.table({"id": pa.array([9], pa.int64()), "name": ["x"]}))
    last = [b.to_pydict() for b in follow(table, offset)][-1]
    assert last["name"][-1] in ("x", None)
    follower.close()


def batch(table: Any, **options: Any) -> list[int]:
    options = {name.replace("_", "-"): value for name, value in options.items()}
    found = lakescan.table(table.metadata_location).scan().options(**options).to_arrow()
    return sorted(found["id"].to_pylist())


def test_ranges_of_snapshots_are_read_as_batches(table: Any) -> None:
    """The start is exclusive and the end inclusive, as in Iceberg's append scans."""
    first, second, third, _ = (s.snapshot_id for s in snapshots(table))
    assert batch(table, start_snapshot_id=first) == [1, 2, 3]
    assert batch(table, start_snapshot_id=first, end_snapshot_id=third) == [1, 2]
    table.manage_snapshots().create_tag(second, "from").commit()
    table.manage_snapshots().create_tag(third, "to").commit()
    assert batch(table, start_tag="from", end_tag="to") == [2]
    times = [s.timestamp_ms for s in snapshots(table)]
    assert batch(table, start_timestamp=times[1], end_timestamp=times[2]) == [2]
    table.delete("id = 3")
    table.append(pa.table({"id": [8]}))
    assert batch(table, start_snapshot_id=third) == [3, 8]
    assert batch(table, start_snapshot_id=third, filter="id > 5") == [8]


def test_impossible_ranges_are_refused(table: Any) -> None:
    first, second, *_ = (s.snapshot_id for s in snapshots(table))
    with pytest.raises(lakescan.NoSuchSnapshot, match=str(second)):
        batch(table, start_snapshot_id=second, end_snapshot_id=first)
    with pytest.raises(lakescan.InvalidOption, match="needs a start"):
        batch(table, end_snapshot_id=first)
    with pytest.raises(lakescan.InvalidOption, match="the same end of the range"):
        batch(table, start_snapshot_id=first, start_tag="x")
    with pytest.raises(lakescan.InvalidOption, match="a range of snapshots cannot be combined"):
        batch(table, start_snapshot_id=first, snapshot_id=second)


@pytest.mark.spark
def test_ranges_of_snapshots_are_read_on_spark(spark, table: Any) -> None:
    first = snapshots(table)[0]
    scan = lakescan.table(table.metadata_location).scan().options(start_snapshot_id=first.snapshot_id)
    for lane in ("native", "arrow"):
        assert sorted(r["id"] for r in scan.options(lane=lane).to_spark(spark).collect()) == [1, 2, 3]
    reader = spark.read.format("iceberg").option("start-timestamp", str(to_millis(scan.snapshot.timestamp) - 10**9))
    with pytest.raises(Exception, match="no snapshot was current"):
        reader.load(table.metadata_location).collect()
    reader = spark.read.format("iceberg").option("start-snapshot-id", str(first.snapshot_id))
    assert sorted(r["id"] for r in reader.load(table.metadata_location).collect()) == [1, 2, 3]


def test_changes_of_rows_are_followed(table: Any) -> None:
    """The stream yields the whole table as inserts, then each commit's changes, without rows that were only moved."""
    follower = follow(table, on_change="changelog")
    first = [row for b in follower for row in b.to_pylist()]
    assert sorted((r["_change_type"], r["id"]) for r in first) == [("INSERT", n) for n in range(4)]
    table.append(pa.table({"id": [10, 11]}))
    table.delete("id = 11")
    found = [row for b in follow(table, follower.offset, on_change="changelog") for row in b.to_pylist()]
    assert [(r["_change_type"], r["id"]) for r in found] == [("INSERT", 10), ("INSERT", 11), ("DELETE", 11)]
    assert len({r["_commit_snapshot_id"] for r in found}) == 2
    one = follow(table, follower.offset, on_change="changelog", max_planning_snapshot_count=1)
    assert [row["id"] for b in one for row in b.to_pylist()] == [10, 11, 11]


@pytest.mark.spark
def test_changes_of_rows_are_streamed(spark, table: Any, tmp_path: Path) -> None:
    table.append(pa.table({"id": [10, 11]}))
    table.delete("id = 11")
    options = {"on-change": "changelog", "starting-strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"}
    frame = spark.readStream.format("iceberg").options(**options).load(table.location())
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c"))
    writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination(120)
    found = sorted((r["_change_type"], r["id"]) for r in spark.read.parquet(str(tmp_path / "out")).collect())
    assert found == [("DELETE", 11), *(("INSERT", n) for n in (0, 1, 2, 3, 10, 11))]


@pytest.mark.parametrize("mode", ["rows", "changelog"])
def test_a_running_stream_stops_before_widened_columns_and_continues_after_a_restart(table: Any, mode: str) -> None:
    made = table.catalog.create_table("n.wide", pa.schema({"id": pa.int32(), "s": pa.string()}))
    made.append(pa.table({"id": pa.array([1], pa.int32()), "s": ["a"]}))
    options = {"on-change": "changelog"} if mode == "changelog" else {}
    stream = lakescan.table(made.location()).stream(**options, **{"monitor-interval": "10 ms"})
    assert next(stream)["id"].to_pylist() == [1]
    with made.update_schema() as update:
        update.update_column("id", LongType())
        update.add_column("new", LongType())
    made.append(pa.table({"id": [2**40], "s": ["b"], "new": [1]}))
    with pytest.raises(lakescan.SchemaChanged, match=r"'id' of type long, which is int in the read schema. Restart"):
        next(stream)
    after = lakescan.table(made.location()).stream(start=stream.offset, wait=False, **options)
    assert [row["id"] for batch in after for row in batch.to_pylist()] == [2**40]


def test_columns_widened_before_the_start_have_their_current_type(table: Any) -> None:
    made = table.catalog.create_table("n.wide", pa.schema({"id": pa.int32()}))
    made.append(pa.table({"id": pa.array([1], pa.int32())}))
    with made.update_schema() as update:
        update.update_column("id", LongType())
    made.append(pa.table({"id": [2**40]}))
    assert rows(made, starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT") == [1, 2**40]
