"""Orphans of Delta tables: the newest version's files stay; earlier versions' files stay until the retention ends."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from samples.delta_deletes import commit_vectors, stored_vector

import lakescan
from tests.support.two_commits import save_in_two_commits
from tests.tables.aged import make_old, write_stray_files
from tests.tables.support import rows

A, B, C = (1, "a"), (2, "b"), (3, "c")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make a table of two commits."""
    found = tmp_path / "t"
    save_in_two_commits(rows(A), found, format="delta")
    lakescan.table(found).append(rows(B))
    return found


def commit(folder: Path, *actions: dict[str, Any]) -> None:
    version = len(list((folder / "_delta_log").glob("*.json")))
    text = "\n".join(json.dumps(each) for each in actions)
    (folder / "_delta_log" / f"{version:020d}.json").write_text(text)


def removed(folder: Path, **options: Any) -> list[str]:
    make_old(folder)
    listed = lakescan.table(folder, format="delta").remove_orphans(dry_run=True, **options)
    found = lakescan.table(folder, format="delta").remove_orphans(**options)
    assert sorted(found) == sorted(listed)
    return sorted(str(Path(each.removeprefix("file://")).relative_to(folder)) for each in found)


def test_versions_stay_complete_until_the_retention_ends(folder: Path) -> None:
    lakescan.table(folder).overwrite(rows(C))
    lakescan.table(folder).compact()
    write_stray_files(folder / "stray.parquet", folder / "part=x" / "stray")
    assert removed(folder) == ["part=x/stray", "stray.parquet"]
    for version in (1, 2, 3):
        assert lakescan.table(folder, versionAsOf=version).scan().to_arrow().num_rows == min(version, 2 - version // 3)


@pytest.mark.parametrize(("ago", "goes"), [(timedelta(days=8), True), (timedelta(days=6), False), (None, False)])
def test_removed_files_are_deleted_with_their_tombstones(folder: Path, ago: timedelta | None, goes: bool) -> None:
    path = next(each.name for each in folder.glob("*.parquet"))
    when = {} if ago is None else {"deletionTimestamp": int((time.time() - ago.total_seconds()) * 1000)}
    commit(folder, {"remove": {"path": path, "dataChange": True, **when}})
    assert removed(folder) == ([path] if goes else [])
    assert lakescan.table(folder).scan().to_arrow().num_rows == 1


def test_tombstones_in_a_checkpoint_are_used(folder: Path) -> None:
    lakescan.table(folder).overwrite(rows(C))
    lakescan.table(folder).checkpoint()
    for log in (folder / "_delta_log").glob("*.json"):
        log.unlink()
    assert removed(folder) == []
    assert lakescan.table(folder).scan().to_arrow()["id"].to_pylist() == [3]


@pytest.mark.parametrize("place", ["", "ab", "absolute"])
def test_deletion_vectors_stay(folder: Path, place: str) -> None:
    lakescan.table(folder).overwrite(rows(A, B, C))
    path = Path(lakescan.table(folder).scan().plan().files["path"][0].as_py()).name
    vector = stored_vector(folder, [0], place if place == "ab" else "")
    if place == "absolute":
        file = next(folder.glob("*.bin"))
        vector |= {"storageType": "p", "pathOrInlineDv": f"file://{file}"}
    commit_vectors(folder, {path: vector})
    assert len(list(folder.rglob("*.bin"))) == 1
    write_stray_files(folder / "deletion_vector_00000000-0000-0000-0000-000000000000.bin")
    assert removed(folder) == ["deletion_vector_00000000-0000-0000-0000-000000000000.bin"]
    assert lakescan.table(folder).scan().to_arrow()["id"].to_pylist() == [2, 3]


@pytest.mark.parametrize("is_checkpointed", [False, True])
@pytest.mark.parametrize(("ago", "goes"), [(timedelta(days=8), True), (timedelta(days=6), False)])
def test_change_files_are_deleted_after_the_retention_of_their_commit(
    folder: Path, ago: timedelta, goes: bool, is_checkpointed: bool
) -> None:
    names = ("cdc-kept.parquet", "cdc-orphan.parquet")
    write_stray_files(*(folder / "_change_data" / name for name in names))
    cdc = {"path": f"_change_data/{names[0]}", "partitionValues": {}, "size": 1, "dataChange": False}
    commit(folder, {"cdc": cdc}, {"commitInfo": {"timestamp": 0}})
    recorded = max((folder / "_delta_log").glob("*.json"))
    if is_checkpointed:
        lakescan.table(folder).append(rows(C))
        lakescan.table(folder).checkpoint()
    make_old(folder)
    committed = time.time() - ago.total_seconds()
    os.utime(recorded, (committed, committed))
    found = lakescan.table(folder).remove_orphans()
    assert sorted(each.rpartition("/")[2] for each in found) == [*(names[:1] if goes else []), names[1]]


def test_hidden_files_other_tables_and_iceberg_metadata_stay(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    save_in_two_commits(pa.table({"a": [1], "_p": ["x"]}), folder, format="delta", partition_by="_p")
    save_in_two_commits(rows(A), folder / "inner", format="delta")
    write_stray_files(folder / "metadata" / "v1.metadata.json", folder / "metadata" / "snap.avro")
    write_stray_files(
        folder / "_checkpoints" / "offsets", folder / ".hidden" / "x", folder / "_lake_note", folder / ".part.crc"
    )
    write_stray_files(folder / "inner" / "stray", folder / "_p=x" / "stray")
    assert removed(folder) == ["_p=x/stray"]


def test_files_outside_and_unusual_spellings_are_recognized(tmp_path: Path, folder: Path) -> None:
    """Files of a shallow clone, and paths that are not URL-encoded."""
    clone = tmp_path / "clone"
    (clone / "_delta_log").mkdir(parents=True)
    log = (folder / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    head = [json.loads(line) for line in log if '"protocol"' in line or '"metaData"' in line]
    data = next(folder.glob("*.parquet"))
    odd = clone / "odd%41 name.parquet"
    odd.write_bytes(data.read_bytes())
    add = {"partitionValues": {}, "size": data.stat().st_size, "modificationTime": 0, "dataChange": True}
    spelled = (f"file://{data}", f"{clone}//./odd%2541%20name.parquet")
    commit(clone, *head, *({"add": {"path": path, **add}} for path in spelled))
    assert removed(clone) == []
    assert data.exists()
    assert lakescan.table(clone).scan().to_arrow().num_rows == 2


def test_the_retention_of_the_table_is_obeyed(folder: Path) -> None:
    path = next(each.name for each in folder.glob("*.parquet"))
    log = folder / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    metadata = next(each for each in actions if "metaData" in each)["metaData"]
    metadata["configuration"]["delta.deletedFileRetentionDuration"] = "interval 30 days"
    ten_days_ago = int((time.time() - 10 * 86400) * 1000)
    commit(folder, {"metaData": metadata}, {"remove": {"path": path, "deletionTimestamp": ten_days_ago}})
    assert removed(folder) == []
    with pytest.raises(lakescan.InvalidOption, match="deletedFileRetentionDuration"):
        lakescan.table(folder).remove_orphans(datetime.now(UTC) - timedelta(days=9))
    metadata["configuration"]["delta.deletedFileRetentionDuration"] = "a while"
    commit(folder, {"metaData": metadata})
    with pytest.raises(lakescan.UnsupportedFeature, match="'a while'"):
        lakescan.table(folder).remove_orphans()


def test_tables_with_unknown_features_lose_nothing(folder: Path) -> None:
    write_stray_files(folder / "stray")
    commit(folder, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["catalogManaged"]}})
    with pytest.raises(lakescan.UnsupportedFeature, match="'catalogManaged'"):
        lakescan.table(folder).remove_orphans()
    assert (folder / "stray").exists()


def test_a_log_that_cannot_be_understood_keeps_all_files(folder: Path) -> None:
    write_stray_files(folder / "stray")
    commit(folder, {"add": {"partitionValues": {}, "size": 1, "dataChange": True}})
    with pytest.raises(lakescan.CorruptMetadata):
        lakescan.table(folder).remove_orphans()
    assert (folder / "stray").exists()
