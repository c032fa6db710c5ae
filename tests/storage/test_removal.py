"""The rule of removal: a referenced file stays, however its location is spelled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakescan
from lakescan.storage import Storage
from lakescan.storage.removal import discard, remove_unreferenced_files, unreferenced_files
from tests.storage.test_locations import ROOTS


def left(files: list[str], *named: str, relocate: dict[str, str] | None = None) -> list[str]:
    return unreferenced_files(Storage(relocate=relocate or {}), files, [pa.array(named, pa.string())])


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("/t/data/f", "/t//data/f"),
        ("/t/data/f", "/t/./data/x/../f"),
        ("file:///t/data/f", "/t/data/f"),
        ("/t/data/f", "file:/t/data/f"),
        ("s3://b/t/f", "s3a://b/t/f"),
        ("s3://b/t//f", "s3n://b/t/f"),
        ("hdfs://h/t/f", "/t/f"),
        ("hdfs://h/t/f", "hdfs://H:8020/t/f"),
        ("/t/p=a b/f", "/t/p=a%20b/f"),
        ("/t/p=a%20b/f", "/t/p=a%20b/f"),
    ],
)
def test_a_referenced_file_stays_however_it_is_spelled(file: str, named: str) -> None:
    assert left([file, f"{file}2"], named) == [f"{file}2"]


@given(st.data(), st.sampled_from(sorted(ROOTS)), st.sampled_from(["f", "a b", "p%20c", "100%", "ü", "x+y#z?"]))
def test_no_live_file_is_removed_under_any_name_of_its_store(data: st.DataObject, store: str, name: str) -> None:
    """The file is kept, or the removal reports that its state is unclear."""
    listed, named = (data.draw(st.sampled_from(ROOTS[store])) for _ in range(2))
    try:
        found = left([f"{listed}/t/p=1/{name}", f"{listed}/t/p=1/other"], f"{named}/t//p=1/{name}")
    except lakescan.UnsupportedFeature:
        found = ["unclear"]
    assert found == [f"{listed}/t/p=1/other"] or (store in ("hdfs", "abfs") and found == ["unclear"])


def test_removal_of_a_file_referenced_under_another_host_is_refused() -> None:
    for file, named in (("s3://b/t/f", "s3://c/t/f"), ("hdfs://h/t/f", "hdfs://g/t/f"), ("/t/f", "s3://b/t/f")):
        with pytest.raises(lakescan.UnsupportedFeature, match="under another scheme or host"):
            left([file], named)
    assert left(["/here/f"], "s3://b/t/f", relocate={"s3://b/t": "/here"}) == []


def test_a_local_file_referenced_through_another_path_stays(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.mkdir()
    (table / "f").write_text("")
    (tmp_path / "link").symlink_to(table)
    (table / "alias").symlink_to(table / "f")
    os.link(table / "f", table / "hard")
    assert left([str(tmp_path / "link" / "f")], str(table / "f")) == []
    assert left([str(table / "f")], str(table / "alias")) == []
    assert left([str(table / "hard")], str(table / "f")) == []


def test_nothing_is_removed_if_the_table_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("")

    def look() -> list[pa.Array]:
        raise lakescan.StorageError("no answer")

    discard(Storage(), [str(file)], look)
    assert file.exists()
    with pytest.raises(lakescan.StorageError):
        remove_unreferenced_files(Storage(), [str(file)], look)
    assert file.exists()
    assert remove_unreferenced_files(Storage(), [str(file)], list) == [str(file)]
    assert not file.exists()


def test_a_referencing_file_is_removed_before_the_files_it_references(tmp_path: Path) -> None:
    names = [str(tmp_path / name) for name in ("manifest", "list")]
    for name in names:
        Path(name).write_text("")
    order = list[list[str]]()

    class Failing(Storage):
        def remove(self, locations: Sequence[str]) -> Sequence[str]:
            order.append(list(locations))
            return locations

    assert remove_unreferenced_files(Failing(), names, list, names[1:]) == []
    assert order == [names[1:]]
    assert remove_unreferenced_files(Storage(), names, list, names[1:]) == names
    assert not list(tmp_path.iterdir())
