"""Orphans without a listing: from the log only (LITE), and from an inventory."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from tests.support.two_commits import save_in_two_commits
from tests.tables.aged import make_old, write_stray_files
from tests.tables.support import rows

A, B, C = (1, "a"), (2, "b"), (3, "c")
ON = {"delta.deletedFileRetentionDuration": "interval 0 days", "delta.enableDeletionVectors": "true"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a table whose first two files were replaced by a third, with the retention over, and a stray file."""
    found = tmp_path / "the table, 100%"
    save_in_two_commits(rows(A), found, format="delta", properties=ON)
    lakescan.table(found).append(rows(B))
    lakescan.table(found).overwrite(rows(C))
    write_stray_files(found / "stray.parquet")
    return found


def aged(folder: Path) -> None:
    """Change the log so that all of its actions are old."""
    make_old(folder)
    past = int((datetime.now(UTC) - timedelta(days=30)).timestamp() * 1000)
    for log in (folder / "_delta_log").glob("*.json"):
        text = log.read_text()
        log.write_text(re.sub(r'"deletionTimestamp":\d+', f'"deletionTimestamp":{past}', text))
    make_old(folder)


def names(files: Any) -> list[str]:
    return sorted(Path(each).name for each in files)


def data(folder: Path) -> set[str]:
    return {file.name for file in folder.glob("*.parquet")}


def inventory(folder: Path, **changes: Any) -> pa.Table:
    files = [file for file in folder.rglob("*") if "_delta_log" not in file.parts]
    return pa.table(
        {
            "path": [str(file) for file in files],
            "length": [file.stat().st_size for file in files],
            "isDir": [file.is_dir() for file in files],
            "modificationTime": [int(file.stat().st_mtime * 1000) for file in files],
            **changes,
        }
    )


def test_lite_removes_only_files_that_the_log_removed(folder: Path) -> None:
    aged(folder)
    live = {Path(each).name for each in lakescan.table(folder).scan().plan().files["path"].to_pylist()}
    gone = data(folder) - live - {"stray.parquet"}
    assert names(lakescan.table(folder).remove_orphans(lite=True, dry_run=True)) == sorted(gone)
    assert names(lakescan.table(folder).remove_orphans(lite=True)) == sorted(gone)
    assert data(folder) == {*live, "stray.parquet"}
    assert lakescan.table(folder).to_arrow()["id"].to_pylist() == [3]
    assert names(lakescan.table(folder).remove_orphans()) == ["stray.parquet"]


def test_lite_keeps_files_within_the_retention(folder: Path) -> None:
    lakescan.table(folder).alter().set_properties({"delta.deletedFileRetentionDuration": "interval 7 days"}).commit()
    make_old(folder)
    assert names(lakescan.table(folder).remove_orphans(lite=True)) == []


def test_lite_keeps_files_that_are_live_again(folder: Path) -> None:
    lakescan.table(folder).restore(2)
    aged(folder)
    lakescan.table(folder).remove_orphans(lite=True)
    assert sorted(lakescan.table(folder).to_arrow()["id"].to_pylist()) == [1, 2]


def test_lite_removes_vectors_that_were_replaced(folder: Path) -> None:
    table = lakescan.table(folder)
    table.append(rows(*((n, "x") for n in range(10, 20))))
    table.delete("id = 10")
    table.delete("id = 11")
    aged(folder)
    before = {file.name for file in folder.glob("*.bin")}
    removed = names(lakescan.table(folder).remove_orphans(lite=True))
    assert len(before) == 2
    assert len([name for name in removed if name.endswith(".bin")]) == 1
    assert lakescan.table(folder).count() == 9


def test_files_of_the_source_of_a_clone_stay(folder: Path, tmp_path: Path) -> None:
    lakescan.table(folder).clone(tmp_path / "clone")
    clone = lakescan.table(tmp_path / "clone")
    clone.overwrite(rows(A))
    aged(tmp_path / "clone")
    make_old(folder)
    before = data(folder)
    assert names(clone.refresh().remove_orphans(lite=True)) == []
    assert names(clone.remove_orphans(inventory=inventory(folder))) == []
    assert data(folder) == before


def test_an_inventory_replaces_the_listing(folder: Path) -> None:
    aged(folder)
    write_stray_files(folder / "later.parquet")
    listed = inventory(folder).filter(pa.array([f.name != "later.parquet" for f in _listed(folder)]))
    make_old(folder)
    removed = lakescan.table(folder).remove_orphans(inventory=listed)
    assert "stray.parquet" in names(removed)
    assert len(removed) == 3
    assert "later.parquet" in data(folder)
    assert lakescan.table(folder).to_arrow()["id"].to_pylist() == [3]


def _listed(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if "_delta_log" not in file.parts]


def test_paths_of_an_inventory_may_be_within_the_folder(folder: Path) -> None:
    aged(folder)
    old = [int((time.time() - 30 * 86400) * 1000)]
    listed = pa.table({"path": ["stray.parquet"], "length": [1], "isDir": [False], "modificationTime": old})
    outside = pa.table({"path": ["../x"], "length": [1], "isDir": [False], "modificationTime": old})
    assert names(lakescan.table(folder).remove_orphans(inventory=outside)) == []
    assert names(lakescan.table(folder).remove_orphans(inventory=listed)) == ["stray.parquet"]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"lite": True, "location": "/x"}, "takes one of"),
        ({"inventory": 5}, "the inventory is int, not a table"),
        ({"inventory": pa.table({"paths": ["x"], "length": [1]})}, "Did you mean 'paths'"),
    ],
)
def test_an_invalid_inventory_is_refused(folder: Path, options: dict[str, Any], part: str) -> None:
    with pytest.raises(lakescan.InvalidOption, match=part):
        lakescan.table(folder).remove_orphans(dry_run=True, **options)


def test_lite_is_refused_for_iceberg(tmp_path: Path) -> None:
    lake = lakescan.catalog("lite", warehouse=str(tmp_path))
    lake.create_namespace("db")
    with pytest.raises(lakescan.UnsupportedFeature, match="without lite"):
        lake.create_table("db.t", "id BIGINT").remove_orphans(lite=True, dry_run=True)
