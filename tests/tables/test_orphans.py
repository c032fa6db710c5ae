"""Orphans of Iceberg tables: unreferenced files are removed; referenced files stay, however they are named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.maintenance import orphans
from lakescan.maintenance.folder_search import FolderSearch
from tests.tables.aged import folder_of, make_old, write_stray_files
from tests.tables.support import now, pairs, rows

A, B, C = (1, "a"), (2, "b"), (3, "c")


@pytest.fixture
def table(local: lakescan.Catalog) -> lakescan.Table:
    """Two snapshots."""
    made = local.create_table("db.t", "id BIGINT, part STRING")
    made.append(rows(A))
    now().append(rows(B))
    return now()


def place(name: str = "db.t") -> Path:
    return folder_of(connection("local").load_table(name).metadata.location)


def removed(folder: Path, **options: Any) -> list[str]:
    make_old(folder)
    listed = now().remove_orphans(dry_run=True, **options)
    found = now().remove_orphans(**options)
    assert sorted(found) == sorted(listed)
    return sorted(Path(each).name for each in found)


def test_every_snapshot_stays_complete(table: lakescan.Table, tmp_path: Path) -> None:
    """Also snapshots of branches and tags, and staged ones outside of all branches."""
    loaded = connection("local").load_table("db.t")
    first, second = (each.snapshot_id for each in loaded.metadata.snapshots)
    loaded.manage_snapshots().create_branch(first, "branch").create_tag(second, "tag").commit()
    now().append(rows(C), branch="branch")
    with connection("local").load_table("db.t").transaction() as transaction:
        transaction.append(rows(C).cast(pa.schema([("id", pa.int64()), ("part", pa.string())])), branch=None)
    now().overwrite(rows((9, "z")))
    write_stray_files(place() / "data" / "stray.parquet", place() / "metadata" / "stray.avro")
    assert removed(tmp_path) == ["stray.avro", "stray.parquet"]
    for snapshot in now().inspect("snapshots")["snapshot_id"].to_pylist():
        assert now().scan().as_of(version=snapshot).to_arrow().num_rows > 0
    assert now().scan().as_of(branch="branch").count() == 2


def test_files_behind_a_symbolic_link_stay(table: lakescan.Table, tmp_path: Path) -> None:
    """It does not belong to the table: a link may lead anywhere."""
    elsewhere = tmp_path / "elsewhere"
    write_stray_files(elsewhere / "kept", elsewhere / "deep" / "kept too", place() / "data" / "stray")
    (place() / "data" / "folder").symlink_to(elsewhere)
    (place() / "data" / "file").symlink_to(elsewhere / "kept")
    assert removed(tmp_path) == ["stray"]
    assert removed(tmp_path, location=str(place() / "data")) == []
    assert sorted(each.name for each in elsewhere.rglob("*")) == ["deep", "kept", "kept too"]
    assert (place() / "data" / "file").is_symlink()


@pytest.mark.parametrize("spelling", ["{}", "file://{}/", "{}/x/.."])
def test_nothing_is_removed_from_a_location_above_the_table_s_folder(
    table: lakescan.Table, tmp_path: Path, spelling: str
) -> None:
    above = spelling.format(place().parent.parent)
    write_stray_files(place().parent / "report.csv", place() / "data" / "stray")
    with pytest.raises(lakescan.InvalidOption, match="next to the table"):
        removed(tmp_path, location=above)
    assert (place().parent / "report.csv").exists()
    listed = {path.rpartition("/")[2] for path in now().remove_orphans(location=above, dry_run=True)}
    assert listed >= {"report.csv", "stray"}


@pytest.mark.parametrize("above", ["hdfs:///wh", "/wh", "hdfs://10.0.0.1:9000/", "hdfs://lake/wh"])
def test_a_parent_location_is_recognized_by_each_name_of_its_cluster(above: str) -> None:
    with pytest.raises(lakescan.InvalidOption, match="next to the table"):
        orphans._check_not_above(above, "hdfs://lake/wh/t")
    orphans._check_not_above("hdfs:///wh/t", "hdfs://lake/wh/t")


def test_hidden_folders_of_another_location_stay(table: lakescan.Table, tmp_path: Path) -> None:
    shared = tmp_path / ".shared" / "lake"
    write_stray_files(shared / "stray", shared / ".venv" / "bin" / "kept", shared / "x" / "_hidden" / "kept")
    assert removed(tmp_path, location=str(shared)) == ["stray"]
    assert len([each for each in shared.rglob("kept") if each.is_file()]) == 2


def test_files_that_were_added_under_other_spellings_stay(table: lakescan.Table, tmp_path: Path) -> None:
    files = [place() / "data" / f"added {n}%20.parquet" for n in range(3)]
    for file in files:
        pq.write_table(rows(C), file)
    odd = [f"{place()}//data/{files[0].name}", f"{place()}/data/./{files[1].name}", f"file:{files[2]}"]
    connection("local").load_table("db.t").add_files(odd)
    assert removed(tmp_path) == []
    assert now().scan().to_arrow().num_rows == 5


def test_statistics_and_the_log_of_metadata_stay(table: lakescan.Table, tmp_path: Path) -> None:
    from pyiceberg.table.statistics import StatisticsFile

    named = place() / "metadata" / "stats.puffin"
    named.write_bytes(b"x")
    loaded = connection("local").load_table("db.t")
    file = StatisticsFile(
        snapshot_id=loaded.metadata.current_snapshot_id,
        statistics_path=f"file://{named}",
        file_size_in_bytes=1,
        file_footer_size_in_bytes=1,
        blob_metadata=[],
    )
    with loaded.update_statistics() as update:
        update.set_statistics(file)
    (place() / "metadata" / "version-hint.text").write_text("1")
    assert removed(tmp_path) == []


def test_snapshots_that_the_catalog_does_not_show_keep_their_files(table, tmp_path: Path, monkeypatch) -> None:
    """A REST catalog may load only the referenced snapshots."""
    from pyiceberg.catalog.sql import SqlCatalog

    load, first = SqlCatalog.load_table, now().inspect("snapshots")["snapshot_id"][0].as_py()

    def refs_only(self: Any, name: Any) -> Any:
        found = load(self, name)
        heads = {ref.snapshot_id for ref in found.metadata.refs.values()}
        few = [each for each in found.metadata.snapshots if each.snapshot_id in heads]
        found.metadata = found.metadata.model_copy(update={"snapshots": few})
        return found

    monkeypatch.setattr(SqlCatalog, "load_table", refs_only)
    assert removed(tmp_path) == []
    assert now().scan().as_of(version=first).to_arrow().num_rows == 1


@pytest.mark.parametrize("name", ["write.data.path", "write.metadata.path"])
def test_other_folders_are_searched_on_request(local, tmp_path: Path, name: str) -> None:
    shared = tmp_path / "shared"
    for table in ("db.t", "db.other"):
        local.create_table(table, "id BIGINT, part STRING", properties={name: f"file://{shared}"})
        local.load_table(table).append(rows(A))
    assert removed(tmp_path) == []
    assert local.load_table("db.other").scan().to_arrow().num_rows == 1
    write_stray_files(shared / "stray")
    assert removed(tmp_path, location=shared) == ["stray"]
    for table in ("db.t", "db.other"):
        assert local.load_table(table).scan().to_arrow().num_rows == 1


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_folders_of_an_object_store_layout_are_searched(local, tmp_path: Path, elsewhere: bool) -> None:
    folder = tmp_path / "store"
    path = {"write.data.path": f"file://{folder}"} if elsewhere else {}
    properties = {"write.object-storage.enabled": "true", **path}
    local.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"], properties=properties)
    now().append(rows(A, B))
    partition = next(tmp_path.rglob("part=a"))
    entropy = partition.parts[-7:-3] if elsewhere else partition.parts[-5:-1]
    assert [len(step) for step in entropy] == [4, 4, 4, 8]
    write_stray_files(partition / "stray.parquet")
    assert removed(tmp_path, **({"location": folder} if elsewhere else {})) == ["stray.parquet"]
    assert pairs() == [A, B]


def test_other_tables_within_the_folders_stay(table: lakescan.Table, local: lakescan.Catalog, tmp_path: Path) -> None:
    inner = place() / "data" / "inner"
    local.create_table("db.inner", "id BIGINT, part STRING", location=str(inner / "i")).append(rows(A))
    lakescan.save(rows(A), inner / "d", format="delta")
    write_stray_files(inner / "i" / "data" / "not-ours", place() / "data" / "ours", place() / "data" / "_hidden" / "x")
    assert removed(tmp_path) == ["ours"]
    assert local.load_table("db.inner").scan().to_arrow().num_rows == 1
    assert lakescan.table(inner / "d").scan().to_arrow().num_rows == 1


def test_a_table_at_the_same_location_keeps_its_files(table: lakescan.Table, local: lakescan.Catalog, tmp_path) -> None:
    local.create_table("db.twin", "id BIGINT, part STRING", location=str(place())).append(rows(C))
    write_stray_files(place() / "data" / "stray")
    assert removed(tmp_path) == ["stray"]
    assert local.load_table("db.twin").scan().to_arrow().num_rows == 1
    assert pairs() == [A, B]


@pytest.mark.parametrize("looked", ["in its folder of data", "by an inventory of data"])
def test_a_table_at_the_same_location_keeps_its_files_without_a_search_of_its_metadata(
    table: lakescan.Table, local: lakescan.Catalog, tmp_path: Path, looked: str
) -> None:
    local.create_table("db.twin", "id BIGINT, part STRING", location=str(place())).append(rows(C))
    data = place() / "data"
    write_stray_files(data / "stray")
    make_old(tmp_path)
    files = [each for each in data.rglob("*") if each.is_file()]
    columns = {
        "path": list(map(str, files)),
        "length": [each.stat().st_size for each in files],
        "isDir": [False] * len(files),
        "modificationTime": [0] * len(files),
    }
    options = {"location": str(data)} if "folder" in looked else {"inventory": pa.table(columns)}
    assert removed(tmp_path, **options) == ["stray"]
    assert local.load_table("db.twin").scan().to_arrow().num_rows == 1
    assert pairs() == [A, B]


@pytest.mark.parametrize("outside", [False, True])
def test_a_folder_of_another_table_is_not_searched(table: lakescan.Table, tmp_path: Path, outside: bool) -> None:
    other = (tmp_path / "elsewhere" if outside else place() / "data") / "other"
    lakescan.save(rows(A), other, format="delta", partition_by=["part"])
    (folder,) = other.glob("part=*")
    assert removed(tmp_path, location=str(folder)) == []
    assert lakescan.table(other).scan().to_arrow().num_rows == 1


def test_the_age_of_files_is_computed_by_the_clock_of_the_store(table: lakescan.Table, monkeypatch) -> None:
    """The local clock may be wrong: with a clock one year ahead, all files would be old."""

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(days=365)

    (place() / "data" / "of-a-writer-at-work").write_bytes(b"")
    monkeypatch.setattr(orphans, "datetime", Later)
    assert list(now().remove_orphans()) == []
    with pytest.raises(lakescan.InvalidOption, match="less than 24 hours ago, by the clock of the store"):
        now().remove_orphans(datetime.now(UTC) + timedelta(days=300))
    assert not list(place().rglob(".lakescan-clock*"))


def test_files_committed_during_the_listing_stay(table: lakescan.Table, tmp_path, monkeypatch) -> None:
    """A file written long ago is committed between the listing and the check of the table."""
    late = place() / "data" / "late.parquet"
    pq.write_table(rows(C), late)
    make_old(tmp_path)
    look, looked = FolderSearch.list_folders, list[Any]()

    def listed(self: FolderSearch, folders: Any) -> Any:
        looked.append(look(self, folders))
        if late.exists() and len(looked) == 1:
            connection("local").load_table("db.t").add_files([str(late)])
        return looked[-1]

    monkeypatch.setattr(FolderSearch, "list_folders", listed)
    assert list(now().remove_orphans()) == []
    assert now().scan().to_arrow().num_rows == 3


def test_a_table_whose_files_may_be_another_tables_loses_none(table: lakescan.Table, local, tmp_path: Path) -> None:
    with connection("local").load_table("db.t").transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    write_stray_files(place() / "data" / "stray")
    for refused in (
        lambda: now().remove_orphans(),
        lambda: now().remove_orphans(dry_run=True),
        lambda: now().expire_snapshots(datetime.now(UTC)),
        lambda: local.drop_table("db.t", purge=True),
    ):
        with pytest.raises(lakescan.UnsupportedFeature, match=r"gc\.enabled is not true"):
            refused()
    assert (place() / "data" / "stray").exists()
    local.drop_table("db.t")
    assert not local.table_exists("db.t")
    assert lakescan.table(folder_of(table.scan().spec.table.location)).scan().count() == 2


def after_the_listing(monkeypatch: pytest.MonkeyPatch, happen: Any) -> None:
    """Run something after the folders are listed and before the table is checked."""
    look, first = FolderSearch.list_folders, Lock()

    def listed(self: FolderSearch, folders: Any) -> Any:
        found = look(self, folders)
        if first.acquire(blocking=False):
            happen()
        return found

    monkeypatch.setattr(FolderSearch, "list_folders", listed)


def test_commits_may_remove_old_metadata_files_while_folders_are_listed(local, tmp_path, monkeypatch) -> None:
    kept = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    local.create_table("db.t", "id BIGINT, part STRING", properties=kept)
    for row in (A, B, C):
        now().append(rows(row))
    write_stray_files(place() / "data" / "stray.parquet")
    make_old(tmp_path)
    after_the_listing(monkeypatch, lambda: [now().append(rows(A)) for _ in range(3)])
    orphans = now().remove_orphans()
    assert [Path(each).name for each in orphans if not each.endswith(".metadata.json")] == ["stray.parquet"]
    assert now().scan().to_arrow().num_rows == 6


def test_files_of_a_table_in_the_same_folder_stay_although_its_metadata_is_replaced(
    table: lakescan.Table, local, tmp_path, monkeypatch
) -> None:
    """All of its listed metadata files are deleted; a newer one references its files."""
    files = {Path(each) for each in place().rglob("*.parquet")}
    before = sorted((place() / "metadata").glob("*.metadata.json"))
    local.drop_table("db.t")
    local.create_table("db.t", "id BIGINT, part STRING")
    make_old(tmp_path)

    def replaced() -> None:
        before[-1].rename(before[-1].with_name("00009-newer.metadata.json"))
        for each in before[:-1]:
            each.unlink()

    after_the_listing(monkeypatch, replaced)
    orphans = now().remove_orphans()
    assert files
    assert all(each.exists() for each in files)
    assert not [each for each in orphans if each.endswith((".parquet", ".avro"))]
