"""Removal stays within the table's own folder, whatever the table references."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import LocationRefused
from lakescan.storage import Storage
from lakescan.storage.allowed_locations import AllowedLocations

MONTH = 30 * 24 * 3600


def old(folder: Path) -> None:
    then = time.time() - MONTH
    for path in folder.rglob("*"):
        os.utime(path, (then, then), follow_symlinks=False)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Make a Delta table with an orphan, and a folder next to it with a foreign file."""
    table, victim = tmp_path / "lake" / "t", tmp_path / "lake" / "victim"
    lakescan.save(pa.table({"a": [1, 2]}), str(table), format="delta")
    victim.mkdir()
    (victim / "kept.parquet").write_bytes(b"of others")
    (victim / "a\nb.parquet").write_bytes(b"of others")
    (table / "orphan.parquet").write_bytes(b"x")
    return table, victim


def remove_actions(table: Path, *paths: str) -> None:
    removes = [
        {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True, "size": 9, "partitionValues": {}}}
        for path in paths
    ]
    (table / "_delta_log" / f"{1:020d}.json").write_text("".join(json.dumps(each) + "\n" for each in removes))


@pytest.mark.parametrize("how", ["listed", "lite", "inventory"])
def test_vacuum_removes_no_outside_files_named_in_the_log(places: tuple[Path, Path], how: str) -> None:
    table, victim = places
    (table / "link").symlink_to(victim)
    (table / "file.parquet").symlink_to(victim / "kept.parquet")
    named = [
        str(victim / "kept.parquet"), (victim / "kept.parquet").as_uri(), "../victim/kept.parquet",
        "%2e%2e/victim/kept.parquet", "x/../../victim/kept.parquet", "link/kept.parquet", "file.parquet",
        "..%2Fvictim%2Fkept.parquet", "../victim/a%0Ab.parquet", "./../victim/kept.parquet", "orphan.parquet",
    ]  # fmt: skip
    remove_actions(table, *named)
    old(table.parent)
    opened = lakescan.table(str(table))
    inventory = pa.table(
        {
            "path": named,
            "length": [9] * len(named),
            "isDir": [False] * len(named),
            "modificationTime": [int(1000 * (time.time() - MONTH))] * len(named),
        }
    )
    opened.remove_orphans(lite=how == "lite", inventory=inventory if how == "inventory" else None)
    assert sorted(each.name for each in victim.iterdir()) == ["a\nb.parquet", "kept.parquet"]
    assert lakescan.table(str(table)).scan().count() == 2
    assert not (table / "orphan.parquet").exists()


def test_files_outside_of_allowed_locations_are_not_removed(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "kept").write_text("x")
    storage = Storage(allowed=AllowedLocations().at(str(tmp_path / "t"), []))
    for spelled in (str(tmp_path / "kept"), f"{tmp_path}/t/../kept", f"file://{tmp_path}/kept"):
        assert list(storage.remove([spelled])) == [spelled]
    with pytest.raises(LocationRefused):
        storage.create(str(tmp_path / "new"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["kept", "t"]
