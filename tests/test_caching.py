"""Decoded metadata is kept: in memory bounded in bytes, and in a folder that other processes share."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakescan
from lakescan.common.cache import FolderCache, TableCache
from tests.support.catalog import local_catalog

NUMBERS = pa.table({"n": range(1000)})


def never() -> pa.Table:
    raise AssertionError("it was kept")


def test_what_was_made_is_found_again() -> None:
    cache = TableCache()
    assert cache.get("a", lambda: NUMBERS) is cache.get("a", never)


def test_the_longest_unused_makes_room() -> None:
    cache = TableCache(limit=2 * NUMBERS.nbytes)
    for key in ("a", "b"):
        cache.get(key, lambda: NUMBERS)
    cache.get("a", never)
    cache.get("c", lambda: NUMBERS)
    cache.get("a", never)
    assert cache.nbytes <= cache.limit
    with pytest.raises(AssertionError):
        cache.get("b", never)


def test_a_folder_outlives_the_memory(tmp_path: Path) -> None:
    TableCache().get(("a", 1), lambda: NUMBERS, str(tmp_path))
    assert TableCache().get(("a", 1), never, str(tmp_path)) == NUMBERS


def test_a_folder_is_bounded(tmp_path: Path) -> None:
    cache = FolderCache(tmp_path, limit=3 * NUMBERS.nbytes)
    for key in range(10):
        cache.get(key, lambda: NUMBERS)
    assert 1 <= len(list(tmp_path.iterdir())) <= 3
    cache.get(9, never)


def test_a_damaged_file_is_made_anew(tmp_path: Path) -> None:
    FolderCache(tmp_path).get("a", lambda: NUMBERS)
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:100])
    assert FolderCache(tmp_path).get("a", lambda: NUMBERS) == NUMBERS
    assert FolderCache(tmp_path).get("a", never) == NUMBERS


def test_a_planning_finds_its_manifests_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = local_catalog(tmp_path).create_table("n.t", pa.schema({"n": pa.int64()}))
    made.append(pa.table({"n": [1, 2]}))
    cache = str(tmp_path / "cache")
    assert plan_anew(made.metadata_location, cache, monkeypatch) == 1
    for manifest in (tmp_path / "n" / "t" / "metadata").glob("*-m0.avro"):
        manifest.unlink()
    assert plan_anew(made.metadata_location, cache, monkeypatch) == 1


def test_a_planning_finds_checkpoints_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location, cache = str(tmp_path / "t"), str(tmp_path / "cache")
    for n in range(3):
        write_deltalake(location, pa.table({"n": [n]}), mode="append")
    DeltaTable(location).create_checkpoint()
    assert plan_anew(location, cache, monkeypatch) == 3
    kept = len(list(Path(cache).iterdir()))
    write_deltalake(location, pa.table({"n": [9]}), mode="append")
    assert plan_anew(location, cache, monkeypatch) == 4
    assert len(list(Path(cache).iterdir())) == kept + 1  # the new commit


def plan_anew(location: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of files of a plan in a process that has nothing in memory."""
    for module in ("iceberg.manifests.batches", "delta.log.pieces"):
        monkeypatch.setattr(f"lakescan.{module}.METADATA", TableCache())
    return len(lakescan.table(location, **{"cache-folder": folder}).scan().plan().table)
