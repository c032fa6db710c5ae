"""Decoded metadata is cached in a folder that processes share."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import lakescan
from lakescan.common.cache import CACHE
from lakescan.common.folder_cache import FolderCache
from tests.support.catalog import local_catalog

NUMBERS = pa.table({"n": range(1000)})


def never() -> pa.Table:
    raise AssertionError("it was kept")


def test_a_folder_outlives_its_cache(tmp_path: Path) -> None:
    FolderCache(tmp_path).get(("a", 1), lambda: NUMBERS)
    assert FolderCache(tmp_path).get(("a", 1), never) == NUMBERS


def test_a_folder_is_bounded(tmp_path: Path) -> None:
    cache = FolderCache(tmp_path, limit=3 * NUMBERS.nbytes)
    for key in range(10):
        cache.get(key, lambda: NUMBERS)
    assert 1 <= len(list(tmp_path.iterdir())) <= 3
    cache.get(9, never)


def test_a_damaged_cache_file_is_recreated(tmp_path: Path) -> None:
    FolderCache(tmp_path).get("a", lambda: NUMBERS)
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert FolderCache(tmp_path).get("a", lambda: NUMBERS) == NUMBERS
    assert FolderCache(tmp_path).get("a", never) == NUMBERS


def test_a_planning_finds_its_manifests_in_the_folder(tmp_path: Path) -> None:
    made = local_catalog(tmp_path).create_table("n.t", pa.schema({"n": pa.int64()}))
    made.append(pa.table({"n": [1, 2]}))
    cache = str(tmp_path / "cache")
    assert plan_anew(made.metadata_location, cache) == 1
    for manifest in (tmp_path / "n" / "t" / "metadata").glob("*-m0.avro"):
        manifest.unlink()
    assert plan_anew(made.metadata_location, cache) == 1


def test_a_planning_finds_checkpoints_in_the_folder(tmp_path: Path) -> None:
    location, cache = str(tmp_path / "t"), str(tmp_path / "cache")
    for n in range(3):
        write_deltalake(location, pa.table({"n": [n]}), mode="append")
    DeltaTable(location).create_checkpoint()
    assert plan_anew(location, cache) == 3
    kept = len(list(Path(cache).iterdir()))
    write_deltalake(location, pa.table({"n": [9]}), mode="append")
    assert plan_anew(location, cache) == 4
    assert len(list(Path(cache).iterdir())) == kept + 1  # the new commit


def plan_anew(location: str, folder: str) -> int:
    """Plan in a new process, which has nothing cached in memory, and return the number of files."""
    CACHE.clear()
    return len(lakescan.table(location, **{"cache-folder": folder}).scan().plan().table)
