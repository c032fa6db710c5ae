"""Orphans found by workers are those that one process finds, for all kinds of tables and any division of the work."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.maintenance import folder_search
from lakescan.maintenance import unreferenced_files as compared_by_workers
from lakescan.storage import Storage
from lakescan.storage.listing import list_files
from tests.support.workers import Workers
from tests.tables.aged import LONG_AGO, folder_of, make_old, write_stray_files
from tests.tables.support import Make, now, pairs, rows


@pytest.fixture(autouse=True)
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared_by_workers, "_CHUNK", 2)


def written(table: lakescan.Table) -> Path:
    """Make three commits, one of them replaced, then stray files at several depths; all files are old."""
    for number in range(3):
        table.append(rows((number, "a"), (10 + number, "b")))
    now().overwrite(rows((5, "a")), where="part = 'a'")
    folder = folder_of(now().folder)
    write_stray_files(folder / "data" / "stray.parquet", folder / "data" / "part=a" / "deep" / "stray 1%20.parquet")
    write_stray_files(folder / "data" / "part=b" / "s2.parquet", folder / "data" / "part=b" / "_hidden" / "s3.parquet")
    write_stray_files(folder / "metadata" / "stray.avro")
    make_old(folder)
    return folder


def test_workers_remove_the_same_orphans_as_one_process(made: Make) -> None:
    folder = written(made())
    before = pairs()
    expected = sorted(now().remove_orphans(dry_run=True))
    assert len(expected) >= 3
    found = now().remove_orphans(dry_run=True, executor=Workers())
    assert sorted(found) == expected
    assert found.bytes == now().remove_orphans(dry_run=True).bytes
    removed = now().remove_orphans(executor=Workers())
    assert sorted(removed) == expected
    assert not list(folder.rglob("stray*"))
    assert pairs() == before
    assert list(now().remove_orphans(executor=Workers())) == []


def test_one_partition_and_many_find_the_same_orphans(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    written(made())
    expected = sorted(now().remove_orphans(dry_run=True))
    monkeypatch.setattr(compared_by_workers, "_MOST_SHARES", 1)
    monkeypatch.setattr(folder_search, "_DEPTH", 0)
    assert sorted(now().remove_orphans(dry_run=True, executor=Workers())) == expected


def test_files_of_branches_tags_and_other_spellings_stay(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    now().append(rows((1, "a")))
    now().create_tag("first")
    now().overwrite(rows((2, "b")))
    now().create_branch("audit")
    now().append(rows((3, "c")), branch="audit")
    make_old(folder_of(now().folder))
    assert list(now().remove_orphans(executor=Workers())) == []
    assert now().scan().as_of(tag="first").count() == 1
    assert now().scan().as_of(branch="audit").count() == 2


def test_concurrently_committed_files_stay(local: lakescan.Catalog) -> None:
    """An old file is listed as a candidate; another writer adds it to the table before it is removed."""
    local.create_table("db.t", "id BIGINT, part STRING").append(rows((1, "a")))
    folder = folder_of(now().folder)
    late, stays = folder / "data" / "late.parquet", folder / "data" / "late too.parquet"
    for file in (late, stays):
        pq.write_table(rows((2, "b")), file)
    make_old(folder)
    assert len(now().remove_orphans(dry_run=True, executor=Workers())) == 2

    def adopt() -> None:
        connection("local").load_table("db.t").add_files([str(late)])

    assert [Path(each).name for each in now().remove_orphans(executor=Workers(adopt))] == [stays.name]
    assert (late.exists(), stays.exists()) == (True, False)
    assert pairs() == [(1, "a"), (2, "b")]


def test_other_tables_inside_are_left_alone(local: lakescan.Catalog) -> None:
    made = local.create_table("db.t", "id BIGINT, part STRING")
    made.append(rows((1, "a")))
    inside = folder_of(now().folder) / "data" / "inner"
    lakescan.save(rows((2, "b")), str(inside), format="delta")
    write_stray_files(inside / "stray.parquet")
    make_old(folder_of(now().folder))
    assert list(now().remove_orphans(executor=Workers())) == []
    assert lakescan.table(str(inside)).count() == 1


def test_files_that_are_reached_by_links_stay(local: lakescan.Catalog, tmp_path: Path) -> None:
    made = local.create_table("db.t", "id BIGINT, part STRING")
    made.append(rows((1, "a")))
    data = folder_of(now().folder) / "data"
    (file,) = data.rglob("*.parquet")
    os.link(file, data / "another name.parquet")
    os.utime(file, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    assert list(now().remove_orphans(executor=Workers())) == []


def test_nothing_is_removed_if_the_owner_of_a_file_is_unclear(
    local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(local.create_table("db.t", "id BIGINT, part STRING"))
    before = sorted(folder.rglob("*"))
    moved = compared_by_workers.FileComparison.split

    def elsewhere(self: Any, item: Any) -> Iterator[tuple[int, pa.Table]]:
        """Yield the metadata's references to files in a bucket."""
        for share, table in moved(self, item):
            names = pa.array([f"s3://bucket{each}" for each in table["location"].to_pylist()])
            yield share, table if not table["named"][0].as_py() else table.set_column(0, "location", names)

    elsewhere.__name__ = "split"  # it is sent by its name
    monkeypatch.setattr(compared_by_workers.FileComparison, "split", elsewhere)
    with pytest.raises(lakescan.UnsupportedFeature, match="under another scheme or host"):
        now().remove_orphans(executor=Workers())
    assert sorted(folder.rglob("*")) == before


def test_every_file_is_listed_once_however_folders_are_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        for name in ("f", "sub/f", "sub/sub/sub/f"):
            file = tmp_path / f"p={number}" / name.replace("sub/f", "sub/g")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("")
    storage = Storage()
    everything = sorted(each.location for each in storage.walk(str(tmp_path)))
    for most, depth in ((1, 1), (2, 4), (1000, 1), (1000, 9), (1000, 0)):
        monkeypatch.setattr(folder_search, "_FOLDERS", most)
        monkeypatch.setattr(folder_search, "_DEPTH", depth)
        found = []
        folders = folder_search.folders_to_list(storage, [str(tmp_path), str(tmp_path / "p=1")])
        for folder in [each for task in folder_search.folder_tasks(folders) for each in task]:
            for part in list_files(storage, folder.location, deep=folder.is_deep):
                found += part["location"].to_pylist()
        assert sorted(found) == everything


@pytest.mark.parametrize("executor", [None, Workers()])
def test_expiry_by_workers_removes_what_only_expired_snapshots_had(
    local: lakescan.Catalog, executor: Workers | None
) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", properties={"write.delete.mode": "merge-on-read"})
    now().append(rows((1, "a")))
    now().create_tag("first")
    now().overwrite(rows((2, "b"), (3, "c")))
    now().delete("id = 3")
    now().overwrite(rows((4, "d")))
    folder = folder_of(now().folder)
    before = {each for each in folder.rglob("*") if each.is_file()}
    result = now().expire_snapshots("2100-01-01", clean_expired_files=True, executor=executor)
    after = {each for each in folder.rglob("*") if each.is_file()}
    assert (int(result), result.removed_files) == (2, len(before - after))
    assert len([each for each in before - after if each.parent.name == "data"]) == 2  # rows 2 and 3, and the delete
    assert len([each for each in before - after if each.name.startswith("snap-")]) == 2
    assert pairs() == [(4, "d")]
    assert now().scan().as_of(tag="first").to_arrow()["id"].to_pylist() == [1]
    make_old(folder)
    assert list(now().remove_orphans()) == []


@pytest.mark.parametrize("executor", [None, Workers()])
def test_expiry_keeps_files_that_were_added_from_elsewhere(
    local: lakescan.Catalog, tmp_path: Path, executor: Workers | None
) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    theirs = tmp_path / "theirs.parquet"
    pq.write_table(rows((7, "x")), theirs)
    connection("local").load_table("db.t").add_files([str(theirs)])
    now().overwrite(rows((8, "y")))
    assert now().expire_snapshots("2100-01-01", clean_expired_files=True, executor=executor).removed_files > 0
    assert theirs.exists()


def test_expiry_that_ended_before_its_files_were_removed_is_finished_by_the_next_clean_up(
    local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(*arguments: Any) -> None:
        raise KeyboardInterrupt

    local.create_table("db.t", "id BIGINT, part STRING")
    now().append(rows((1, "a")))
    now().overwrite(rows((2, "b")))
    with monkeypatch.context() as patched:
        patched.setattr(compared_by_workers.Storage, "remove", ends)
        with pytest.raises(KeyboardInterrupt):
            now().expire_snapshots("2100-01-01", clean_expired_files=True, executor=Workers())
    assert len(now().inspect("snapshots")) == 1
    make_old(folder_of(now().folder))
    removed = now().remove_orphans(executor=Workers())
    assert [Path(each).suffix for each in removed].count(".parquet") == 1
    assert pairs() == [(2, "b")]


@pytest.mark.parametrize("executor", [None, Workers()])
def test_a_removal_that_is_interrupted_is_finished_by_the_next(
    made: Make, monkeypatch: pytest.MonkeyPatch, executor: Workers | None
) -> None:
    folder = written(made())
    before, expected = pairs(), len(now().remove_orphans(dry_run=True))
    removes, calls = Storage.remove, list[str]()

    def ends(self: Storage, locations: Any) -> Any:
        calls.extend(["stray"] * any("stray" in each or "s2" in each for each in locations))
        if len(calls) > 1:
            raise KeyboardInterrupt
        return removes(self, locations)

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "remove", ends)
        with pytest.raises(KeyboardInterrupt):
            now().remove_orphans(executor=executor)
    left = len(now().remove_orphans(dry_run=True))
    assert 0 < left < expected
    assert len(now().remove_orphans(executor=executor)) == left
    assert not list(folder.rglob("stray*"))
    assert pairs() == before


@pytest.mark.parametrize("executor", [None, Workers()])
def test_the_newest_action_of_a_delta_log_decides_whether_a_file_is_needed(
    local: lakescan.Catalog, executor: Workers | None
) -> None:
    """In the checkpoint, and in commits before and after it: removed and old, just removed, and restored."""
    local.create_table("db.t", "id BIGINT, part STRING", format="delta")
    properties = {"delta.deletedFileRetentionDuration": "interval 1 days", "delta.enableDeletionVectors": "true"}
    now().alter().set_properties(properties).commit()
    folder = folder_of(now().folder)

    def append(*pairs: tuple[int, str]) -> set[str]:
        before = {each.name for each in folder.glob("*.parquet")}
        now().append(rows(*pairs))
        return {each.name for each in folder.glob("*.parquet")} - before

    restored = append((1, "a"))
    version = now().version
    now().overwrite(rows((2, "b")))
    gone = {each.name for each in folder.glob("*.parquet")} - restored
    now().restore(version)
    now().checkpoint()
    kept = append((3, "c"), (4, "d"))
    now().delete("id = 4")  # by a deletion vector
    late = append((5, "e"))
    now().delete("id = 5")
    make_old(folder)
    long_ago(folder / "_delta_log", removed=gone | late)
    found = {Path(each).name for each in now().remove_orphans(dry_run=True, executor=executor)}
    assert found == gone | late
    now().remove_orphans(executor=executor)
    assert pairs() == [(1, "a"), (3, "c")]
    assert restored | kept <= {each.name for each in folder.glob("*.parquet")}


def long_ago(log: Path, removed: set[str]) -> None:
    """Date removed files far back, in the log and its checkpoint."""
    moment = int(LONG_AGO.timestamp() * 1000)
    for file in log.glob("*.json"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            if "remove" in line and Path(line["remove"]["path"]).name in removed:
                line["remove"]["deletionTimestamp"] = moment
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        os.utime(file, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    for file in log.glob("*.checkpoint.parquet"):
        table = pq.read_table(file)
        column = table["remove"].combine_chunks()
        members = {name: column.field(name) for name in [each.name for each in column.type]}
        mine = [each is not None and Path(each).name in removed for each in members["path"].to_pylist()]
        times = [moment if own else at for own, at in zip(mine, members["deletionTimestamp"].to_pylist(), strict=True)]
        members["deletionTimestamp"] = pa.array(times, pa.int64())
        changed = pa.StructArray.from_arrays(list(members.values()), list(members), mask=column.is_null())
        pq.write_table(table.set_column(table.schema.get_field_index("remove"), "remove", changed), file)
        os.utime(file, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
