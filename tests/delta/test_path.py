"""A path can select a version, a time or a partition; errors in it are reported plainly."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakescan


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make a table of two versions, partitioned by a text and a date, with nulls; the folder's name contains an @."""
    folder = str(tmp_path_factory.mktemp("paths") / "plain@v1")
    for start in (0, 10):
        rows = pa.table(
            {
                "id": [start, start + 1, start + 2],
                "name": ["a b", "x=y", None],
                "day": pa.array([0, 1, None], pa.date32()),
            }
        )
        write_deltalake(folder, rows, mode="append", partition_by=["name", "day"])
    return folder


def ids(path: str, **options: str) -> list[int]:
    return sorted(lakescan.table(path, **options).scan().to_arrow()["id"].to_pylist())


def test_a_table_whose_name_looks_like_a_version_opens(table: str) -> None:
    assert ids(table) == ids(table + "/") == [0, 1, 2, 10, 11, 12]


def test_a_path_may_have_a_version_or_time_after_an_at_sign(table: str) -> None:
    assert ids(f"{table}@v0") == ids(f"{table}@V0", format="delta") == [0, 1, 2]
    first = lakescan.table(table).history()["timestamp"][0].as_py()
    written = f"{first:%Y%m%d%H%M%S}{first.microsecond // 1000:03d}"
    assert ids(f"{table}@{written}") == [0, 1, 2]


@pytest.mark.parametrize("option", [{"versionAsOf": "0"}, {"timestampAsOf": "2026-01-01"}, {"readChangeFeed": "true"}])
def test_a_state_in_the_path_and_in_an_option_is_refused(table: str, option: dict[str, str]) -> None:
    with pytest.raises(lakescan.InvalidOption, match="both select what to read"):
        lakescan.table(f"{table}@v0", **option)
    with pytest.raises(lakescan.InvalidOption, match="both select what to read"):
        lakescan.table(f"{table}@v0").scan().options(**option)


def test_streams_do_not_follow_one_state(table: str) -> None:
    for opened in (lakescan.table(f"{table}@v0"), lakescan.table(table, versionAsOf=0)):
        with pytest.raises(lakescan.InvalidOption, match="one snapshot of the table"):
            next(iter(opened.stream(wait=False)))


def test_an_invalid_time_is_refused(table: str) -> None:
    with pytest.raises(lakescan.InvalidOption, match="yyyyMMddHHmmssSSS"):
        lakescan.table(f"{table}@20261399000000000")


def test_a_missing_version_is_named(table: str) -> None:
    with pytest.raises(lakescan.NoSuchSnapshot, match="no version 7"):
        ids(f"{table}@v7")


def test_a_folder_of_a_partition_reads_that_partition(table: str) -> None:
    assert ids(f"{table}/name=a%20b") == [0, 10]
    assert ids(f"{table}/name=x%3Dy/day=1970-01-02") == [1, 11]
    assert ids(f"{table}/name=x%3Dy/day=1970-01-01") == []
    assert ids(f"{table}/name=__HIVE_DEFAULT_PARTITION__") == [2, 12]
    plan = lakescan.table(f"{table}/name=a%20b").scan().plan()
    assert (len(plan.table), plan.report.skipped_by_partition) == (2, 4)


def test_a_partition_and_a_version_go_together(table: str) -> None:
    assert ids(f"{table}/name=a%20b@v0") == [0]


def test_a_folder_of_another_column_is_refused(table: str) -> None:
    with pytest.raises(lakescan.InvalidOption, match=r"'id', which is not a partition column.*name, day"):
        lakescan.table(f"{table}/id=3")


def test_errors_in_a_path_are_reported_plainly(table: str, tmp_path: Path) -> None:
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    (tmp_path / "plain").mkdir()
    for name, message in {
        "missing": "does not exist",
        "plain": "has no _delta_log folder",
        "empty": "_delta_log is empty",
    }.items():
        with pytest.raises(lakescan.NotATable, match=message):
            lakescan.table(str(tmp_path / name), format="delta")


def test_partitions_of_a_path_reach_spark_as_a_filter(table: str) -> None:
    options = lakescan.table(f"{table}/name=a%20b@v0").scan().to_options()
    assert (options["path"], options["versionAsOf"]) == (table, "0")
    assert "a b" in options["filter"]


@pytest.mark.spark
def test_spark_accepts_paths_with_versions_and_partitions(table: str, spark) -> None:
    assert spark.read.format("delta").load(f"{table}/name=a%20b@v0").count() == 1
