"""Table maintenance does not change what can be read."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lakescan
from tests.tables.support import Make, data_files, now, pairs, rows

PROCESSES = partial(ProcessPoolExecutor, mp_context=multiprocessing.get_context("spawn"))
ALL = [(n, "ab"[n % 2]) for n in range(8)]


@pytest.fixture
def many(made: Make) -> lakescan.Table:
    """Make eight commits of one row each, in two partitions."""
    made()
    for pair in ALL:
        now().append(rows(pair))
    return now()


def test_compaction_merges_the_small_files_of_a_partition(many: lakescan.Table) -> None:
    done = many.compact()
    assert (done.files, done.removed_files) == (2, 8)
    assert pairs() == ALL
    assert now().scan().plan().files.num_rows == 2
    again = now().compact()
    assert (again.files, again.removed_files) == (0, 0)


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, PROCESSES], ids=["threads", "processes"])
def test_an_executor_compacts_each_partition_separately(local: lakescan.Catalog, pool: Any) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"])
    for pair in ALL:
        now().append(rows(pair))
    with pool(2) as executor:
        done = now().compact(executor=executor)
    assert (done.files, done.removed_files) == (2, 8)
    assert pairs() == ALL


def test_a_compaction_that_fails_leaves_no_file(local: lakescan.Catalog, tmp_path: Path) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"])
    for pair in ALL:
        now().append(rows(pair))
    next(Path(tmp_path).rglob("part=b/*.parquet")).unlink()
    with pytest.raises(lakescan.MissingFile):
        now().compact()
    assert data_files(tmp_path) == 7


def test_streams_skip_a_compaction(many: lakescan.Table) -> None:
    begin = (
        {"startingVersion": 0}
        if many.format == "delta"
        else {"starting-strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"}
    )
    many.compact()
    now().append(rows((8, "a")))
    found = [n for batch in now().stream(wait=False, **begin) for n in batch["id"].to_pylist()]
    assert found == list(range(9))


def test_a_filter_limits_the_compacted_files(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"])
    for pair in ALL:
        now().append(rows(pair))
    assert now().compact(where="part = 'a'").removed_files == 4
    assert pairs() == ALL
    assert now().scan().plan().files.num_rows == 5


def test_concurrently_added_rows_stay_and_removed_files_conflict(local: lakescan.Catalog) -> None:
    from lakescan.catalogs.committer import CatalogCommitter
    from lakescan.iceberg.target import IcebergTarget
    from lakescan.maintenance import compact
    from lakescan.options.write import WriteOptions

    local.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"])
    for pair in ALL[:4]:
        now().append(rows(pair))
    before = IcebergTarget.open(CatalogCommitter(now().name), WriteOptions())  # type: ignore[arg-type]
    now().append(rows((9, "a")))
    assert compact(before, None).removed_files == 4
    assert pairs() == [*ALL[:4], (9, "a")]
    now().append(rows((10, "a")))
    before = IcebergTarget.open(CatalogCommitter(now().name), WriteOptions())  # type: ignore[arg-type]
    now().overwrite(rows(), where="part = 'a'")
    with pytest.raises(lakescan.CommitConflict, match=r"\(overwrite\) removed .*part=a.*, which this commit replaces"):
        compact(before, None)
    assert pairs() == [(1, "b"), (3, "b")]


def test_snapshots_expire_except_the_last_and_named_ones(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    for pair in ALL[:5]:
        now().append(rows(pair))
    first = now().history()["snapshot_id"].to_pylist()[0]
    local._catalog.load_table("db.t").manage_snapshots().create_tag(first, "kept").commit()
    assert int(now().expire_snapshots(datetime.now(UTC) + timedelta(days=1), retain_last=2)) == 2
    assert now().inspect("snapshots").num_rows == 3
    assert pairs() == ALL[:5]
    assert now().scan().as_of(tag="kept").count() == 1
    assert int(now().expire_snapshots(datetime.now(UTC) - timedelta(days=1))) == 0


def test_orphans_are_removed_and_referenced_files_stay(many: lakescan.Table, tmp_path: Path) -> None:
    folder = Path(many.scan().plan().files["path"][0].as_py().removeprefix("file://")).parent
    old, new = folder / "part-orphan.parquet", folder / "part-new.parquet"
    for file in (old, new):
        file.write_bytes(b"left behind")
    long_ago = (datetime.now(UTC) - timedelta(days=30)).timestamp()
    for file in (tmp_path / "lake").rglob("*"):
        if file != new:
            os.utime(file, (long_ago, long_ago))
    files = data_files(tmp_path)
    assert [Path(each).name for each in now().remove_orphans(dry_run=True)] == [old.name]
    assert old.exists()
    assert [Path(each).name for each in now().remove_orphans()] == [old.name]
    assert (old.exists(), new.exists(), data_files(tmp_path)) == (False, True, files - 1)
    assert pairs() == ALL
    assert now().history().num_rows >= many.history().num_rows
    with pytest.raises(lakescan.InvalidOption, match="less than 24 hours ago"):
        now().remove_orphans(datetime.now(UTC))


def test_old_files_are_removed_once_no_snapshot_references_them(local: lakescan.Catalog, tmp_path: Path) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    for pair in ALL:
        now().append(rows(pair))
    now().compact()
    now().expire_snapshots(datetime.now(UTC) + timedelta(days=1), clean_expired_files=False)
    long_ago = (datetime.now(UTC) - timedelta(days=30)).timestamp()
    for file in (tmp_path / "lake").rglob("*"):
        os.utime(file, (long_ago, long_ago))
    assert len([each for each in now().remove_orphans() if each.endswith(".parquet")]) == 8
    assert data_files(tmp_path) == 1
    assert pairs() == ALL


def test_each_format_has_its_own_commands(local: lakescan.Catalog) -> None:
    delta = local.create_table("db.d", "id BIGINT", format="delta")
    delta.checkpoint()
    assert (Path(delta.location.removeprefix("file://")) / "_delta_log" / "_last_checkpoint").exists()
    with pytest.raises(lakescan.UnsupportedFeature, match="snapshots of a Delta table to expire"):
        delta.expire_snapshots(datetime.now(UTC))
    with pytest.raises(lakescan.UnsupportedFeature, match="checkpoints of Iceberg tables"):
        local.create_table("db.i", "id BIGINT").checkpoint()
