"""Conditions on metadata columns of data files prune files: in the row filter, and as a file filter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakescan
from lakescan.errors import InvalidOption, NoSuchColumn

ROWS = pa.table({"id": pa.array(range(40), pa.int64()), "day": ["a", "b", "c", None] * 10})


def made(tmp_path: Path, format: str) -> lakescan.Table:
    """Make a table of partitions and two commits; the Iceberg table's spec changes between the commits."""
    lake = lakescan.catalog(f"facts_{tmp_path.name}", warehouse=str(tmp_path / "w"))
    lake.create_namespace("n")
    by = "day" if format == "delta" else "bucket(4, id), day"
    table = lake.create_table("n.t", "id BIGINT, day STRING", partition_by=by, format=format)
    table.append(ROWS.slice(0, 20))
    if format == "iceberg":
        table.alter().drop_partition_field("day").commit()
    table.append(ROWS.slice(20))
    return lake.load_table("n.t")


def planned(scan: lakescan.Scan) -> tuple[int, int]:
    """Return the number of planned files, and of planned files without a residual filter."""
    plan = scan.plan()
    free = [str(plan.residuals[each]) == "true" for each in plan.splits["residual"].to_pylist()]
    return len(plan.files), sum(free)


def ids(table: Any) -> list[int]:
    return sorted(table["id"].to_pylist())


@pytest.fixture(params=["iceberg", "delta"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lakescan.Table:
    return made(tmp_path, request.param)


CONDITIONS = [
    "_partition.id_bucket = 3",
    "_partition.id_bucket in (0, 2)",
    "_partition.id_bucket > 1 and id > 5",
    "not (_partition.id_bucket = 3)",
    "_partition.day = 'b'",
    "_partition.day is null",
    "_partition.day is not null or _partition.id_bucket = 1",
    "_partition.day like 'c%'",
    "_spec_id = 0",
    "_spec_id > 0 and _partition.id_bucket = 2",
    "_pos < 0",
    "_pos >= 2",
    "_pos >= 1000",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_on_metadata_columns_prune_the_files_without_a_matching_row(tmp_path: Path, condition: str) -> None:
    import duckdb

    table = made(tmp_path, "iceberg")
    names = ["id", "_file", "_pos", "_spec_id", "_partition"]
    every = table.scan().select(*names).to_arrow()
    expected = duckdb.from_arrow(every).filter(condition).to_arrow_table()
    scan = table.scan().where(condition)
    assert ids(scan.to_arrow()) == ids(expected)
    assert scan.count() == expected.num_rows
    files = set(expected["_file"].to_pylist())
    plan = scan.plan()
    assert set(plan.files["path"].to_pylist()) >= files
    if "id >" not in condition and "_pos" not in condition:
        assert set(plan.files["path"].to_pylist()) == files
        assert {str(each) for each in plan.residuals} <= {"true"}
    metrics = plan.report.metrics
    assert metrics.result_data_files + metrics.skipped_data_files + metrics.skipped_data_manifests >= len(files)


def test_a_condition_on_a_partition_skips_manifests(tmp_path: Path) -> None:
    table = made(tmp_path, "iceberg")
    metrics = table.scan().where("_partition.day = 'nothing'").plan().report.metrics
    assert (metrics.result_data_files, metrics.skipped_data_manifests) == (0, 1)


def test_conditions_on_the_file_path_prune(table: lakescan.Table) -> None:
    every = table.scan().select("id", "_file").to_arrow()
    path = every["_file"][0].as_py()
    expected = ids(every.filter(pc.equal(every["_file"], path)))
    scan = table.scan().where(lakescan.col("_file") == path)
    assert planned(scan) == (1, 1)
    assert ids(scan.to_arrow()) == expected
    assert scan.count() == len(expected)
    assert planned(table.scan().where(f"_file in ('{path}', 'other') and id >= 0"))[0] == 1
    assert planned(table.scan().where("_file like '%nothing%'"))[0] in (0, len(table.scan().plan().files))


def test_files_are_filtered_by_their_metadata(table: lakescan.Table) -> None:
    files = table.scan().plan().files
    path, size = files["path"][0].as_py(), files["size"][0].as_py()
    for condition, kept in {
        lakescan.col("file_path") == path: files["path"].to_pylist().count(path),
        f"file_size_in_bytes = {size}": files["size"].to_pylist().count(size),
        "record_count > 3": sum(each > 3 for each in files["record_count"].to_pylist()),
        "file_format = 'parquet'": len(files),
        "file_format <> 'parquet'": 0,
        "partition.day = 'a' or partition.day is null": sum(
            each.get("day") in ("a", None) for each in files["partition"].to_pylist()
        ),
        "length(file_path) > 5": len(files),
    }.items():
        scan = table.scan().filter_files(condition)
        plan = scan.plan()
        assert len(plan.files) == kept, str(condition)
        assert plan.report.metrics.skipped_data_files == len(files) - kept
        rows = sum(plan.files["record_count"].to_pylist())
        assert scan.count() == rows
        assert scan.to_arrow().num_rows == rows


def test_partitions_are_filtered_by_their_fields(table: lakescan.Table) -> None:
    scan = table.scan().filter_partitions("day = 'b'")
    every = table.scan().plan().files["partition"].to_pylist()
    assert len(scan.plan().files) == sum(each.get("day") == "b" for each in every)
    assert set(scan.to_arrow()["day"].to_pylist()) == {"b"}


def test_a_limit_counts_the_rows_of_filtered_files(table: lakescan.Table) -> None:
    last = table.scan().plan().files["path"].to_pylist()[-1]
    for scan in (table.scan().limit(1), table.scan().limit(1).where("id >= 0")):
        assert scan.filter_files(lakescan.col("file_path") == last).to_arrow().num_rows == 1


def test_file_filters_are_combined_and_sent_with_tasks(table: lakescan.Table) -> None:
    import pickle

    scan = table.scan().filter_partitions("day = 'a'").filter_files("record_count > 0").where("id > 4")
    expected = ids(scan.to_arrow())
    assert expected
    assert len(scan.filter_files("record_count < 0").plan().files) == 0
    tasks = pickle.loads(pickle.dumps(scan.tasks()))
    assert ids(pa.concat_tables([each.to_arrow() for each in tasks])) == expected
    assert "partitions where day" in repr(scan)


def test_other_columns_in_a_file_filter_are_refused(table: lakescan.Table) -> None:
    for scan in (table.scan().filter_files("id = 1"), table.scan().filter_partitions("file_path = 'x'")):
        with pytest.raises(NoSuchColumn):
            scan.plan()
    with pytest.raises(InvalidOption, match="filter_files"):
        table.scan().filter_files("record_count > 1").to_options()


def test_equality_deletes_of_other_partitions_apply_to_the_rows_of_a_partition(tmp_path: Path) -> None:
    """A delete file of an unpartitioned spec has no partition value, and applies to all partitions."""
    lake = lakescan.catalog(f"global_{tmp_path.name}", warehouse=str(tmp_path / "v"))
    lake.create_namespace("n")
    table = lake.create_table("n.k", "id BIGINT NOT NULL, day STRING, PRIMARY KEY (id)", partition_by="day")
    table.append(pa.table({"id": [1, 2], "day": ["a", "b"]}, schema=table.scan().schema))
    table.alter().drop_partition_field("day").commit()
    lake.load_table("n.k").upsert(
        pa.table({"id": [1], "day": ["z"]}, schema=table.scan().schema), upsert_mode="equality"
    )
    found = lake.load_table("n.k").scan()
    assert ids(found.where("_partition.day = 'a'").to_arrow()) == []
    assert ids(found.filter_partitions("day = 'a'").to_arrow()) == []
    assert ids(found.filter_partitions("day = 'b'").to_arrow()) == [2]
