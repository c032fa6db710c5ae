"""Files that another copy of an Iceberg table references stay, whichever copy removes unneeded files."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.errors import CommitConflict
from lakescan.iceberg.maintenance import tables_in_folder as neighbours
from lakescan.storage import Storage

LATER = datetime.now(UTC) + timedelta(days=2)


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": list(numbers)})


def ids(name: str) -> list[int]:
    return sorted(lakescan.table(name).to_arrow()["id"].to_pylist())


def newest(folder: Path) -> str:
    return str(sorted((folder / "metadata").glob("*.metadata.json"))[-1])


def a_month_passes(folder: Path) -> None:
    then = time.time() - 30 * 86400
    for file in folder.rglob("*"):
        os.utime(file, (then, then))


@pytest.fixture
def both(tmp_path: Path) -> tuple[str, str]:
    """Return the names of one table in two catalogs."""
    for name in ("one", "two"):
        lakescan.catalog(name, warehouse=str(tmp_path / name)).create_namespace("n")
    lakescan.catalog("one").create_table("n.t", "id BIGINT", location=str(tmp_path / "t"))
    first = lakescan.table("one.n.t")
    first.append(rows(1, 2, 3))
    lakescan.table("one.n.t").delete("id = 2")
    return "one.n.t", "two.n.t"


def copied(folder: Path) -> None:
    shutil.copytree(folder / "t", folder / "copy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lakescan.catalog("two").register_table("n.t", newest(folder / "copy"))


def registered(folder: Path) -> None:
    lakescan.catalog("two").register_table("n.t", newest(folder / "t"))


def expire(name: str) -> None:
    lakescan.table(name).expire_snapshots(older_than=LATER, retain_last=1, clean_expired_files=True)


CLEANING: dict[str, Callable[[str], Any]] = {
    "orphans": lambda name: lakescan.table(name).remove_orphans(),
    "expiry": expire,
    "expiry and orphans": lambda name: (expire(name), lakescan.table(name).remove_orphans()),
    "purge": lambda name: lakescan.catalog(name.partition(".")[0]).drop_table("n.t", purge=True),
    "compaction and expiry": lambda name: (lakescan.table(name).compact(min_input_files=1), expire(name)),
}


@pytest.mark.filterwarnings("ignore:.*copy of the table")
@pytest.mark.parametrize("cleaning", CLEANING)
@pytest.mark.parametrize("cleaned", [0, 1])
@pytest.mark.parametrize("made", [copied, registered])
def test_clean_up_of_one_copy_keeps_the_files_of_the_other(
    tmp_path: Path, both: tuple[str, str], made: Callable[[Path], None], cleaned: int, cleaning: str
) -> None:
    made(tmp_path)
    for number, name in enumerate(both):
        lakescan.table(name).append(rows(10 + number))
        lakescan.table(name).append(rows(20 + number))
    a_month_passes(tmp_path)
    CLEANING[cleaning](both[cleaned])
    other = 1 - cleaned
    assert ids(both[other]) == [1, 3, 10 + other, 20 + other]
    lakescan.table(both[other]).append(rows(99))
    assert 99 in ids(both[other])


@pytest.mark.filterwarnings("ignore:.*copy of the table")
def test_clean_up_of_a_copy_keeps_the_files_of_an_unchanged_original(tmp_path: Path, both: tuple[str, str]) -> None:
    copied(tmp_path)
    for number in range(3):
        lakescan.table(both[1]).append(rows(number))
    a_month_passes(tmp_path)
    for cleaning in ("orphans", "expiry", "purge"):
        CLEANING[cleaning](both[1])
        assert ids(both[0]) == [1, 3]


def test_metadata_of_earlier_states_does_not_count_as_a_copy(tmp_path: Path, both: tuple[str, str]) -> None:
    """It is an orphan once the metadata log no longer lists it, and keeps no files."""
    lakescan.table(both[0]).alter().set_properties({"write.metadata.previous-versions-max": "2"}).commit()
    for number in range(6):
        lakescan.table(both[0]).append(rows(number))
    expire(both[0])
    a_month_passes(tmp_path)
    removed = lakescan.table(both[0]).remove_orphans()
    assert len([each for each in removed if each.endswith(".metadata.json")]) >= 5
    assert len(list((tmp_path / "t" / "metadata").glob("*.metadata.json"))) == 3


def created_there(folder: Path) -> None:
    """Create another table at the same location that is not a copy."""
    lakescan.catalog("two").create_table("n.t", "id BIGINT", location=str(folder / "t"))


@pytest.mark.filterwarnings("ignore:.*copy of the table")
@pytest.mark.parametrize("moment", ["_uuid_of", "reachable_files"])
@pytest.mark.parametrize("made", [registered, created_there])
def test_files_of_a_table_that_replaces_its_metadata_during_the_read_stay(
    tmp_path: Path,
    both: tuple[str, str],
    made: Callable[[Path], None],
    moment: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The listed metadata, or a manifest list, is deleted before it is read; then the folder is listed again."""
    made(tmp_path)
    old_ones_go = {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}
    lakescan.table(both[1]).alter().set_properties(old_ones_go).commit()
    lakescan.table(both[0]).append(rows(4))
    for number in (10, 11, 12):
        lakescan.table(both[1]).append(rows(number))
    kept = ids(both[1])
    a_month_passes(tmp_path)
    last = connection("two").load_table("n.t").metadata_location.rpartition("/")[2]
    read, replaced = getattr(neighbours, moment), list[str]()

    def reads(what: Any, *more: Any) -> Any:
        location = what.location if moment == "_uuid_of" else what.metadata.source
        is_first = location.endswith(last) and not replaced
        found = read(what, *more)
        if is_first:
            replaced.append(location)
            for number in (20, 21):
                lakescan.table(both[1]).append(rows(number))
            lakescan.table(both[1]).expire_snapshots(older_than=LATER, retain_last=1)
        return found

    monkeypatch.setattr(neighbours, moment, reads)
    lakescan.table(both[0]).remove_orphans()
    assert len(replaced) == 1
    assert not Path(replaced[0].removeprefix("file://")).exists()
    assert ids(both[1]) == sorted([*kept, 20, 21])
    assert ids(both[0]) == [1, 3, 4]


def test_metadata_that_names_missing_files_stops_the_clean_up(tmp_path: Path, both: tuple[str, str]) -> None:
    created_there(tmp_path)
    lakescan.table(both[1]).append(rows(10))
    a_month_passes(tmp_path)
    snapshot = connection("two").load_table("n.t").current_snapshot()
    assert snapshot is not None
    Path(snapshot.manifest_list.removeprefix("file://")).unlink()
    with pytest.raises(lakescan.UnsupportedFeature, match="which another table uses or used"):
        lakescan.table(both[0]).remove_orphans()


@pytest.mark.filterwarnings("ignore:.*copy of the table")
@pytest.mark.parametrize("is_old", [False, True])
def test_the_log_suggests_removing_only_metadata_older_than_a_day(
    tmp_path: Path, both: tuple[str, str], is_old: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Younger metadata may belong to a commit in progress."""
    registered(tmp_path)
    lakescan.table(both[1]).append(rows(10))
    if is_old:
        a_month_passes(tmp_path)
    lakescan.table(both[0]).remove_orphans()
    found = [each for each in caplog.messages if "If neither exists any more, remove the metadata file." in each]
    assert len(found) == int(is_old)
    assert ids(both[1]) == [1, 3, 10]


def test_a_failed_commit_removes_its_manifest_list_before_its_manifests(
    both: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill in between leaves no metadata that references missing manifests, which would stop a later clean-up."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException

    removed = list[str]()
    remove = Storage.remove

    def recorded(storage: Storage, locations: Sequence[str]) -> Sequence[str]:
        removed.extend(["-m" if "-m" in Path(each).name else Path(each).name[:5] for each in locations])
        return remove(storage, locations)

    def refuse(*_: Any, **__: Any) -> None:
        raise CommitFailedException("another writer was first")

    lakescan.table(both[0]).alter().set_properties({"commit.retry.num-retries": "0"}).commit()
    monkeypatch.setattr(Storage, "remove", recorded)
    monkeypatch.setattr(SqlCatalog, "commit_table", refuse)
    with pytest.raises(CommitConflict):
        lakescan.table(both[0]).append(rows(4))
    assert [each for each in removed if each in ("snap-", "-m")] == ["snap-", "-m"]


@pytest.mark.slow
def test_a_failed_commit_leaves_no_metadata_that_looks_like_a_copy(
    tmp_path: Path, both: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.serializers import ToOutputFile

    before = set((tmp_path / "t" / "metadata").iterdir())
    write = ToOutputFile.table_metadata

    def refuse(*arguments: Any) -> None:
        write(*arguments)
        raise CommitFailedException("another writer was first")

    lakescan.table(both[0])
    connection("one")
    monkeypatch.setattr(ToOutputFile, "table_metadata", staticmethod(refuse))
    with pytest.raises(CommitConflict):
        lakescan.table(both[0]).alter().set_properties({"a": "b", "commit.retry.num-retries": "0"}).commit()
    monkeypatch.undo()
    assert set((tmp_path / "t" / "metadata").iterdir()) == before


def test_registering_and_writing_a_copy_warns(tmp_path: Path, both: tuple[str, str]) -> None:
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    with pytest.warns(UserWarning, match="this is a copy of the table at"):
        lakescan.catalog("two").register_table("n.t", newest(tmp_path / "copy"))
    with pytest.warns(UserWarning, match="gc.enabled"):
        lakescan.table(both[1]).append(rows(9))


def test_a_table_at_a_new_location_is_not_a_copy(tmp_path: Path, both: tuple[str, str]) -> None:
    lakescan.table(both[0]).alter().set_location(str(tmp_path / "elsewhere")).commit()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lakescan.table(both[0]).append(rows(9))
    assert ids(both[0]) == [1, 3, 9]


@pytest.mark.filterwarnings("ignore:.*copy of the table")
def test_a_store_that_fails_while_a_copy_is_read_says_nothing_about_the_copy(
    tmp_path: Path, both: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(tmp_path)
    lakescan.table(both[1]).append(rows(4))
    a_month_passes(tmp_path)

    def unavailable(table: Any) -> Any:
        raise lakescan.StorageError("AWS Error SERVICE_UNAVAILABLE: try again")

    with monkeypatch.context() as patched:
        patched.setattr(neighbours, "reachable_files", unavailable)
        with pytest.raises(lakescan.StorageError, match="SERVICE_UNAVAILABLE"):
            lakescan.table(both[0]).remove_orphans()
    assert ids(both[1]) == [1, 3, 4]
