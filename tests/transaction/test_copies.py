"""Files that another copy of an Iceberg table references stay, whichever copy removes what it does not need."""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.errors import CommitConflict
from lakescan.iceberg.scan import neighbours

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
    """The names of a table in two catalogs."""
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
def test_clean_up_of_one_copy_leaves_the_other(
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
def test_clean_up_of_a_copy_leaves_an_original_that_nobody_wrote_since(tmp_path: Path, both: tuple[str, str]) -> None:
    copied(tmp_path)
    for number in range(3):
        lakescan.table(both[1]).append(rows(number))
    a_month_passes(tmp_path)
    for cleaning in ("orphans", "expiry", "purge"):
        CLEANING[cleaning](both[1])
        assert ids(both[0]) == [1, 3]


def test_metadata_of_earlier_states_is_no_copy(tmp_path: Path, both: tuple[str, str]) -> None:
    """It is an orphan once the metadata log has forgotten it, and keeps no files."""
    lakescan.table(both[0]).alter().set_properties({"write.metadata.previous-versions-max": "2"}).commit()
    for number in range(6):
        lakescan.table(both[0]).append(rows(number))
    expire(both[0])
    a_month_passes(tmp_path)
    removed = lakescan.table(both[0]).remove_orphans()
    assert len([each for each in removed if each.endswith(".metadata.json")]) >= 5
    assert len(list((tmp_path / "t" / "metadata").glob("*.metadata.json"))) == 3


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


def test_a_table_at_a_new_location_is_no_copy(tmp_path: Path, both: tuple[str, str]) -> None:
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
        patched.setattr(neighbours, "named_files", unavailable)
        with pytest.raises(lakescan.StorageError, match="SERVICE_UNAVAILABLE"):
            lakescan.table(both[0]).remove_orphans()
    assert ids(both[1]) == [1, 3, 4]
