"""Iceberg tables, read in process: the demo's table, time travel, branches, tags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from tests.support.catalog import local_catalog
from tests.support.rows import differences


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A pyiceberg table with three snapshots, a tag on the first and a branch on the second, and added columns."""
    folder = tmp_path_factory.mktemp("events")
    catalog = local_catalog(folder)
    table = catalog.create_table("n.events", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    first = table.current_snapshot().snapshot_id
    table.append(pa.table({"id": [3]}))
    second = table.current_snapshot().snapshot_id
    from pyiceberg.types import StringType

    with table.update_schema() as update:
        update.add_column("note", StringType())
    table.append(pa.table({"id": [4], "note": ["four"]}))
    with table.manage_snapshots() as manage:
        manage.create_tag(first, "start").create_branch(second, "audit")
    return table


def opened(events: Any) -> lakescan.Table:
    return lakescan.table(events.metadata_location)


def ids(scan: lakescan.Scan) -> list[int]:
    return sorted(scan.to_arrow()["id"].to_pylist())


def test_the_demo_table_has_the_rows_after_its_deletes(shop) -> None:
    actual = lakescan.table(shop.orders).scan().to_arrow()
    assert differences(actual, pq.read_table(shop.expected_orders)) == ""


def test_a_table_can_be_opened_by_its_folder(events: Any) -> None:
    assert ids(lakescan.table(events.location()).scan()) == [1, 2, 3, 4]


def test_the_schema_has_the_field_ids(events: Any) -> None:
    assert opened(events).schema.field("note").metadata[b"PARQUET:field_id"] == b"2"


def test_a_snapshot_id_reads_that_snapshot_with_its_own_schema(events: Any) -> None:
    log = opened(events).history()["snapshot_id"].to_pylist()
    scan = opened(events).scan().as_of(version=log[0])
    assert ids(scan) == [1, 2]
    assert scan.schema.names == ["id"]


def test_a_time_picks_the_snapshot_that_was_current_then(events: Any) -> None:
    moments = opened(events).history()["made_current_at"].to_pylist()
    assert ids(opened(events).scan().as_of(timestamp=moments[1])) == [1, 2, 3]


def test_a_tag_reads_with_the_snapshots_schema_and_a_branch_with_the_tables(events: Any) -> None:
    tag, branch = opened(events).scan().as_of(tag="start"), opened(events).scan().as_of(branch="audit")
    assert (ids(tag), tag.schema.names) == ([1, 2], ["id"])
    assert (ids(branch), branch.schema.names) == ([1, 2, 3], ["id", "note"])


@pytest.mark.parametrize("option", ["versionAsOf", "snapshot-id", "snapshot_id"])
def test_options_select_a_snapshot_under_the_ecosystems_names(events: Any, option: str) -> None:
    log = opened(events).history()["snapshot_id"].to_pylist()
    assert ids(lakescan.table(events.metadata_location, **{option: str(log[1])}).scan()) == [1, 2, 3]


def test_version_as_of_takes_a_branch_or_tag(events: Any) -> None:
    assert ids(lakescan.table(events.metadata_location, versionAsOf="start").scan()) == [1, 2]
    assert ids(lakescan.table(events.metadata_location, versionAsOf="audit").scan()) == [1, 2, 3]


def test_as_of_timestamp_is_milliseconds(events: Any) -> None:
    moment = opened(events).history()["made_current_at"].to_pylist()[0]
    option = {"as-of-timestamp": int(moment.timestamp() * 1000)}
    assert ids(lakescan.table(events.metadata_location, **option).scan()) == [1, 2]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"version": 12345}, "no snapshot 12345; it has 3 snapshots"),
        ({"timestamp": "2000-01-01"}, "no snapshot was current at 2000-01-01"),
        ({"branch": "start"}, "no branch 'start'"),
        ({"tag": "nowhere"}, "no tag 'nowhere'; its tag names are: start"),
    ],
)
def test_a_missing_state_is_refused_with_the_existing_ones(events: Any, selection: dict, message: str) -> None:
    with pytest.raises(lakescan.NoSuchSnapshot, match=message):
        opened(events).scan().as_of(**selection).to_arrow()


def test_history_lists_the_snapshots_oldest_first(events: Any) -> None:
    found = opened(events).history()
    assert found["operation"].to_pylist() == ["append"] * 3
    assert found["is_current_ancestor"].to_pylist() == [True] * 3
    assert found["parent_id"].to_pylist() == [None, *found["snapshot_id"].to_pylist()[:2]]


def test_a_table_without_a_snapshot_is_empty(tmp_path: Path) -> None:
    catalog = local_catalog(tmp_path)
    table = catalog.create_table("n.empty", pa.schema([("id", pa.int64())]))
    assert lakescan.table(table.metadata_location).scan().where("id = 1").to_arrow().num_rows == 0


def test_partitions_prune_files_before_statistics_do(shop) -> None:
    report = lakescan.table(shop.orders).scan().where("ordered_at < '2026-02-01'").plan().report
    assert report.skipped_by_partition > 0
    assert report.metrics.result_data_files < 14


def test_a_month_that_the_filter_covers_leaves_no_residual(shop) -> None:
    plan = lakescan.table(shop.orders).scan().where("ordered_at < '2026-02-01'").plan()
    assert [str(r) for r in plan.residuals] == ["true"]


def test_a_moved_table_is_read_from_its_new_location(events: Any, tmp_path: Path) -> None:
    import shutil

    old = events.location().removeprefix("file://")
    shutil.copytree(old, tmp_path / "moved")
    metadata = tmp_path / "moved" / "metadata" / events.metadata_location.rsplit("/", 1)[1]
    for file in Path(old, "data").glob("*.parquet"):
        file.rename(file.with_suffix(".hidden"))
    try:
        with pytest.raises(lakescan.MissingFile, match="relocate"):
            lakescan.table(metadata).scan().to_arrow()
        assert ids(lakescan.table(metadata, relocate={events.location(): str(tmp_path / "moved")}).scan()) == [
            1,
            2,
            3,
            4,
        ]
    finally:
        for file in Path(old, "data").glob("*.hidden"):
            file.rename(file.with_suffix(".parquet"))
