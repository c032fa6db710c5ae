"""`watermark-column`: the files of a commit are read in order of their lower bounds, so that event time advances."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakescan
from tests.support.catalog import local_catalog

ORDER = {"watermark-column": "at", "maxFilesPerTrigger": 2}
HOURS = [5, 1, 4, 0, 3, 2]


def events(*hours: int | None) -> pa.Table:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = [None if hour is None else start + timedelta(hours=hour) for hour in hours]
    names = ["-" if hour is None else str(hour) for hour in hours]
    return pa.table({"at": pa.array(times, pa.timestamp("us", "UTC")), "name": names})


@pytest.fixture(params=["iceberg", "delta"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Make a table whose files are not in time order and whose last commit has many files."""
    path = str(tmp_path / "t")
    if request.param == "delta":
        for hour in HOURS:
            write_deltalake(path, events(hour), mode="append", partition_by=["name"])
        write_deltalake(path, events(9, 7, None, 8), mode="append")
        return path
    table = local_catalog(tmp_path).create_table("n.t", events(0).schema, location=f"file://{path}")
    with table.update_spec() as update:
        update.add_identity("name")
    for hour in HOURS:
        table.append(events(hour))
    table.append(events(9, 7, None, 8))
    return path


def batches(location: str, **options: object) -> list[list[str]]:
    """Return the names in each plan of a stream."""
    follower, found = lakescan.table(location).stream(wait=False, **options), []
    for batch in follower:
        found.append((follower.offset, batch["name"].to_pylist()))
    together: dict[str, list[str]] = {}
    for offset, names in found:
        together.setdefault(str(offset), []).extend(names)
    return [sorted(names) for names in together.values()]


def test_the_initial_snapshot_is_in_time_order_with_files_without_bounds_first(location: str) -> None:
    assert batches(location, **ORDER) == [["-", "0"], ["1", "2"], ["3", "4"], ["5", "7"], ["8", "9"]]


def test_a_split_commit_is_also_in_time_order(location: str) -> None:
    newest = lakescan.table(location).history()
    begin = (
        {"startingVersion": len(HOURS)}
        if "version" in newest.column_names
        else {
            "start-snapshot-id": newest["snapshot_id"].to_pylist()[-1],
            "starting-strategy": "INCREMENTAL_FROM_SNAPSHOT_ID",
        }
    )
    assert batches(location, **ORDER, **begin) == [["-", "7"], ["8", "9"]]


def test_a_filter_does_not_change_the_order(location: str) -> None:
    names = batches(location, filter="name <> '2'", **ORDER)
    assert names == [["-", "0"], ["1"], ["3", "4"], ["5", "7"], ["8", "9"]]


def test_an_offset_within_a_commit_continues_only_in_the_same_order(location: str) -> None:
    """The offset counts files in that order: with another order, some files would be skipped."""
    follower = lakescan.table(location).stream(wait=False, **ORDER)
    first = [next(follower)["name"].to_pylist() for _ in range(3)]
    assert follower.offset["watermark-column"] == "at"
    with pytest.raises(lakescan.InvalidOption, match="keep the old option"):
        lakescan.table(location).stream(start=follower.offset, wait=False)
    rest = lakescan.table(location).stream(start=follower.offset, wait=False, **ORDER)
    names = [n for batch in rest for n in batch["name"].to_pylist()]
    assert sorted([*first[0], *first[1], *names]) == ["-", *map(str, range(6)), "7", "8", "9"]


def test_columns_other_than_times_and_change_streams_are_refused(location: str) -> None:
    table = lakescan.table(location)
    with pytest.raises(lakescan.InvalidOption, match="it takes a timestamp"):
        table.stream(**{"watermark-column": "name"})
    with pytest.raises(lakescan.NoSuchColumn):
        table.stream(**{"watermark-column": "when"})
    with pytest.raises(lakescan.UnsupportedFeature, match="streams of changes"):
        table.stream(**{"watermark-column": "at", "on-change": "changelog"})
