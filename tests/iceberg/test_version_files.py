"""Commits without a catalog follow Iceberg's file system protocol, and lose nothing to writers that rename."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import lakescan
from lakescan.iceberg.commit import hadoop_table_operations as version_files

pytestmark = pytest.mark.usefixtures("no_other_catalogs")


@pytest.fixture
def lake(tmp_path: Path, no_other_catalogs: None) -> lakescan.Catalog:
    catalog = lakescan.catalog("lake", type="hadoop", warehouse=tmp_path / "lake")
    catalog.create_namespace("db")
    catalog.create_table("db.t", "id BIGINT", properties={"commit.retry.num-retries": "50"})
    return catalog


@pytest.fixture
def folder(lake: lakescan.Catalog, tmp_path: Path) -> Path:
    return tmp_path / "lake/db/t"


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(folder: Path) -> list[int]:
    return sorted(lakescan.table(folder).to_arrow()["id"].to_pylist())


def versions(folder: Path) -> list[str]:
    return sorted(each.name for each in (folder / "metadata").glob("*.metadata.json*"))


def hint(folder: Path) -> str:
    return (folder / "metadata/version-hint.text").read_text()


class Java:
    """A writer that commits as Java does: write a draft, check that the name is free, and rename over any file."""

    def __init__(self, folder: Path, version: int) -> None:
        self.draft = folder / f"metadata/{uuid4()}.metadata.json"
        self.target = folder / f"metadata/v{version}.metadata.json"

    def look(self, based_on: bytes) -> None:
        self.draft.write_bytes(based_on)
        assert not self.target.exists()

    def rename(self) -> bool:
        try:
            os.rename(self.draft, self.target)
        except FileNotFoundError:
            return False
        return True


def around_creation(monkeypatch: pytest.MonkeyPatch, before: Callable[[], None], after: Callable[[], None]) -> None:
    """Run functions just before and just after a commit creates its file."""
    create, calls = version_files.put_if_absent, []

    def created(*arguments: Any) -> bool:
        is_first = not calls
        calls.append(arguments)
        if is_first:
            before()
        done = create(*arguments)
        if is_first:
            after()
        return done

    monkeypatch.setattr(version_files, "put_if_absent", created)


def test_a_commit_creates_the_next_version_and_then_the_hint(folder: Path) -> None:
    lakescan.table(folder).append(rows(1))
    assert versions(folder) == ["v1.metadata.json", "v2.metadata.json"]
    assert hint(folder) == "2"


@pytest.mark.slow
def test_concurrent_writers_commit_once_each(folder: Path) -> None:
    def work(first: int) -> None:
        table = lakescan.table(folder)
        for number in range(first, first + 10):
            table.append(rows(number))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, 100 * each) for each in range(4)]:
            done.result()
    assert ids(folder) == [100 * each + number for each in range(4) for number in range(10)]
    assert len(versions(folder)) == 41
    assert hint(folder) == "41"


def test_a_rename_that_replaced_the_new_version_is_a_conflict(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java checked before and renamed after lakescan created the file: Java's commit stands, and ours is retried."""
    lakescan.table(folder).append(rows(1))
    theirs = _their_next(folder, rows(7))
    java = Java(folder, 3)
    around_creation(monkeypatch, lambda: java.look(theirs), lambda: _replaced(java))
    lakescan.table(folder).append(rows(2))
    assert ids(folder) == [1, 2, 7]


def test_a_later_rename_fails(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, java = _their_next(folder, rows(7)), Java(folder, 2)
    around_creation(monkeypatch, lambda: java.look(theirs), lambda: None)
    lakescan.table(folder).append(rows(2))
    assert not java.rename()
    assert ids(folder) == [2]


def test_a_draft_that_is_still_empty_stays(folder: Path) -> None:
    """Its writer checks the name later, and would fail without its file."""
    draft = folder / f"metadata/{uuid4()}.metadata.json"
    draft.write_bytes(b"")
    lakescan.table(folder).append(rows(1))
    assert draft.exists()


def test_a_version_removed_by_others_is_not_recreated(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow writer creates a version that others had made and removed as an old one: it must commit again."""
    table = lakescan.table(folder)
    table.alter().set_properties(
        {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    ).commit()

    around_creation(monkeypatch, lambda: append_others(folder, 4), lambda: None)
    lakescan.table(folder).append(rows(1))
    assert ids(folder) == [1, 10, 11, 12, 13]
    assert versions(folder) == ["v6.metadata.json", "v7.metadata.json"]


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_a_commit_missing_from_the_metadata_log_is_recognized_by_its_snapshot(
    folder: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """More commits than the log keeps were made between the commit and its check of later versions."""
    table, folder = _forgetful(folder.parent / "few", version)

    around_creation(monkeypatch, lambda: None, lambda: append_others(folder, 3))
    table.append(rows(1))
    assert ids(folder) == [1, 10, 11, 12]
    assert "v2.metadata.json" in versions(folder)


def test_of_two_versions_of_one_millisecond_the_one_with_the_snapshot_counts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers with slow clocks all choose the millisecond after the last commit."""
    table, folder = _forgetful(folder.parent / "few")
    monkeypatch.setattr("time.time", lambda: 1_000_000_000.0)

    def others() -> None:
        append_others(folder, 2)
        (folder / "metadata/v2.metadata.json").unlink()

    around_creation(monkeypatch, others, lambda: None)
    table.append(rows(1))
    assert ids(folder) == [1, 10, 11]


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_commit_without_any_trace_has_an_unknown_outcome_and_keeps_its_files(
    folder: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """Its snapshot has expired, and the metadata log does not reach back to it."""
    table, folder = _forgetful(folder.parent / "few", version)

    def others() -> None:
        append_others(folder, 3)
        lakescan.table(folder).expire_snapshots(retain_last=1, older_than=datetime.now(UTC) + timedelta(days=1))

    around_creation(monkeypatch, lambda: None, others)
    with pytest.raises(lakescan.CommitStateUnknown, match="neither their snapshots nor their metadata log"):
        table.append(rows(1))
    assert ids(folder) == [1, 10, 11, 12]


def test_a_property_change_without_any_trace_has_an_unknown_outcome(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, folder = _forgetful(folder.parent / "few")
    draft = table.alter().set_properties({"a": "b"})

    def others() -> None:
        lakescan.table(folder).alter().unset_properties("a").commit()
        for number in range(2):
            lakescan.table(folder).append(rows(10 + number))

    before = len(versions(folder))
    around_creation(monkeypatch, lambda: None, others)
    with pytest.raises(lakescan.CommitStateUnknown, match="neither their snapshots nor their metadata log"):
        draft.commit()
    assert len(versions(folder)) == before + 4


def test_all_writers_of_a_version_create_the_same_name(folder: Path) -> None:
    """The codec is that of the previous version, so that a commit that changes it still meets the others."""
    table = lakescan.table(folder)
    table.alter().set_properties({"write.metadata.compression-codec": "gzip"}).commit()
    table.append(rows(1))
    assert versions(folder) == ["v1.metadata.json", "v2.metadata.json", "v3.gz.metadata.json"]
    assert ids(folder) == [1]


def test_a_version_under_another_codec_is_a_conflict(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java names a commit that changes the codec after the new codec."""
    import gzip

    theirs = gzip.compress(_their_next(folder, rows(7)))
    path = folder / "metadata/v2.gz.metadata.json"
    around_creation(monkeypatch, lambda: path.write_bytes(theirs) and None, lambda: None)
    lakescan.table(folder).append(rows(2))
    assert ids(folder) == [2, 7]


@pytest.mark.parametrize("name", ["v1.gz.metadata.json", "v1.metadata.json.gz"])
def test_compressed_versions_are_continued(folder: Path, name: str) -> None:
    import gzip

    first = folder / "metadata/v1.metadata.json"
    (folder / "metadata" / name).write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    lakescan.table(folder).append(rows(1))
    assert ids(folder) == [1]
    assert versions(folder) == sorted([name, "v2.metadata.json"])


def test_a_commit_without_a_hint_continues_the_newest_version(folder: Path) -> None:
    lakescan.table(folder).append(rows(1))
    (folder / "metadata/version-hint.text").unlink()
    lakescan.table(folder).append(rows(2))
    assert (ids(folder), hint(folder)) == ([1, 2], "3")


def test_a_hint_never_goes_back(folder: Path) -> None:
    (folder / "metadata/version-hint.text").write_text("9")
    lakescan.table(folder).append(rows(1))
    assert hint(folder) == "9"
    assert ids(folder) == [1]


def test_the_hadoop_checksum_of_a_hint_is_removed_with_it(folder: Path) -> None:
    (folder / "metadata/.version-hint.text.crc").write_bytes(b"crc")
    (folder / "metadata/.v2.metadata.json.crc").write_bytes(b"crc")
    lakescan.table(folder).append(rows(1))
    assert not list((folder / "metadata").glob(".*.crc"))


def test_a_lost_answer_is_looked_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = version_files.put_if_absent

    def lost(*arguments: Any) -> bool:
        create(*arguments)
        monkeypatch.setattr(version_files, "put_if_absent", create)
        raise lakescan.StorageError("no answer")

    monkeypatch.setattr(version_files, "put_if_absent", lost)
    lakescan.table(folder).append(rows(1))
    assert ids(folder) == [1]
    assert len(versions(folder)) == 2


def test_files_of_a_commit_that_was_not_sent_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakescan.storage.put_if_absent import NotSent

    def unsent(*_: Any) -> bool:
        raise NotSent("no connection")

    before = sorted(folder.rglob("*"))
    monkeypatch.setattr(version_files, "put_if_absent", unsent)
    with pytest.raises(lakescan.StorageError, match="no connection"):
        lakescan.table(folder).append(rows(1))
    assert [each for each in sorted(folder.rglob("*")) if each.is_file() and each not in before] == []


def test_a_store_that_cannot_create_exclusively_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> bool:
        raise lakescan.UnsupportedFeature("committing to a table", "Its filesystem has no hard links.")

    monkeypatch.setattr(version_files, "put_if_absent", refused)
    with pytest.raises(lakescan.UnsupportedFeature, match="no hard links"):
        lakescan.table(folder).append(rows(1))
    assert not list(folder.rglob("*.parquet"))
    assert not list(folder.rglob("*.avro"))


def test_a_table_that_a_catalog_owns_is_refused(folder: Path) -> None:
    first = folder / "metadata/v1.metadata.json"
    (folder / f"metadata/00002-{uuid4()}.metadata.json").write_bytes(first.read_bytes())
    with pytest.raises(lakescan.UnsupportedFeature, match="was written by a catalog"):
        lakescan.table(folder).append(rows(1))


def test_a_draft_is_not_a_version(folder: Path) -> None:
    """Its name may begin with digits."""
    (folder / "metadata/version-hint.text").unlink()
    draft = folder / "metadata/99999999-0000-4000-8000-000000000000.metadata.json"
    draft.write_text("{}")
    lakescan.table(folder).append(rows(1))
    assert ids(folder) == [1]


def test_a_metadata_file_is_not_written_to(folder: Path) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="by its metadata file"):
        lakescan.table(folder / "metadata/v1.metadata.json").append(rows(1))


def test_a_copy_is_not_written_to(folder: Path, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(folder, tmp_path / "copy")
    with pytest.raises(lakescan.UnsupportedFeature, match="records the location"):
        lakescan.table(tmp_path / "copy").append(rows(1))
    with pytest.raises(lakescan.UnsupportedFeature, match="relocate"):
        lakescan.table(tmp_path / "copy", relocate={str(folder): str(tmp_path / "copy")}).append(rows(1))


def test_a_table_can_be_written_by_any_spelling_of_its_folder(folder: Path, tmp_path: Path) -> None:
    os.symlink(folder, tmp_path / "link")
    for number, path in enumerate((f"{folder}/", f"file://{folder}", f"{folder}/../t", tmp_path / "link")):
        lakescan.table(path).append(rows(number))
    assert ids(folder) == [0, 1, 2, 3]


@pytest.mark.parametrize("change", ["location", "metadata path"])
def test_a_commit_moves_neither_the_table_nor_its_metadata(folder: Path, tmp_path: Path, change: str) -> None:
    draft, elsewhere = lakescan.table(folder).alter(), str(tmp_path / "elsewhere")
    if change == "location":
        draft = draft.set_location(elsewhere)
    else:
        draft = draft.set_properties({"write.metadata.path": elsewhere})
    with pytest.raises(lakescan.UnsupportedFeature, match=r"records the location|write\.metadata\.path"):
        draft.commit()
    assert versions(folder) == ["v1.metadata.json"]


def test_orphan_removal_keeps_the_hint_and_the_versions(folder: Path) -> None:
    table = lakescan.table(folder)
    table.append(rows(1))
    orphan = folder / "data/orphan.parquet"
    orphan.write_bytes(b"x")
    for each in folder.rglob("*"):
        os.utime(each, (1_000_000, 1_000_000))
    table.remove_orphans()
    assert not orphan.exists()
    assert hint(folder) == "2"
    assert ids(folder) == [1]


def append_others(folder: Path, count: int) -> None:
    """Append the rows 10, 11, ... as other writers do."""
    for number in range(count):
        lakescan.table(folder).append(rows(10 + number))


def _forgetful(folder: Path, version: str = "2") -> tuple[lakescan.Table, Path]:
    """Make a table whose metadata log keeps a single version; return it with its folder."""
    properties = {"format-version": version, "write.metadata.previous-versions-max": "1"}
    lakescan.catalog("lake").create_table(f"db.{folder.name}", "id BIGINT", properties=properties)
    table = lakescan.table(folder)
    return table, folder


def _their_next(folder: Path, more: pa.Table) -> bytes:
    """Return the metadata that another writer would commit next, by making a commit and removing its version again."""
    before = set((folder / "metadata").glob("v*.json"))
    kept = hint(folder)
    lakescan.table(folder).append(more)
    (new,) = set((folder / "metadata").glob("v*.json")) - before
    data = new.read_bytes()
    new.unlink()
    (folder / "metadata/version-hint.text").write_text(kept)
    return data


def _replaced(java: Java) -> None:
    assert java.rename()


@pytest.mark.parametrize("then", ["dropped", "made again", "made again, with as many versions"])
def test_a_commit_to_a_concurrently_dropped_table_fails(
    lake: lakescan.Catalog, folder: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    table = lakescan.table(folder)
    for number in range(3):
        table.append(rows(number))

    def drop() -> None:
        lake.drop_table("db.t")
        if then != "dropped":
            made = lake.create_table("db.t", "id BIGINT")
            for number in range(3 if "versions" in then else 1):
                made.append(rows(70 + number))

    around_creation(monkeypatch, drop, lambda: None)
    with pytest.raises(lakescan.NoSuchTable if then == "dropped" else lakescan.CommitConflict, match="was dropped"):
        table.append(rows(9))
    if then == "dropped":
        assert lake.list_tables("db") == []
    else:
        assert ids(folder) == ([70, 71, 72] if "versions" in then else [70])


def test_a_commit_based_on_a_replaced_version_is_retried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's late rename replaces another writer's version, on which this commit was already based."""
    table = lakescan.table(folder)
    theirs, java = _their_next(folder, rows(7)), Java(folder, 2)
    java.look(theirs)
    draft = java.draft.read_bytes()
    table.append(rows(1))  # removes the draft; the rename must come before that
    java.draft.write_bytes(draft)
    around_creation(monkeypatch, lambda: _replaced(java), lambda: None)
    lakescan.table(folder).append(rows(2))
    assert ids(folder) == [2, 7]
