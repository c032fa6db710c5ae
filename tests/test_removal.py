"""The one rule of removal: a file that is named stays, in whatever way it is written."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.storage import Storage
from lakescan.storage.removal import discard, remove_unnamed, unnamed


def left(files: list[str], *named: str, relocate: dict[str, str] | None = None) -> list[str]:
    return unnamed(Storage(relocate=relocate or {}), files, [pa.array(named, pa.string())])


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
def test_a_file_that_is_named_stays_however_it_is_spelled(file: str, named: str) -> None:
    assert left([file, f"{file}2"], named) == [f"{file}2"]


def test_a_file_that_is_named_under_another_host_only_is_not_removed_but_refused() -> None:
    for file, named in (("s3://b/t/f", "s3://c/t/f"), ("hdfs://h/t/f", "hdfs://g/t/f"), ("/t/f", "s3://b/t/f")):
        with pytest.raises(lakescan.UnsupportedFeature, match="under another scheme or host"):
            left([file], named)
    assert left(["/here/f"], "s3://b/t/f", relocate={"s3://b/t": "/here"}) == []


def test_a_local_file_that_is_named_by_another_way_stays(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.mkdir()
    (table / "f").write_text("")
    (tmp_path / "link").symlink_to(table)
    (table / "alias").symlink_to(table / "f")
    os.link(table / "f", table / "hard")
    assert left([str(tmp_path / "link" / "f")], str(table / "f")) == []
    assert left([str(table / "f")], str(table / "alias")) == []
    assert left([str(table / "hard")], str(table / "f")) == []


def test_nothing_is_removed_where_the_table_cannot_be_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("")

    def look() -> list[pa.Array]:
        raise lakescan.StorageError("no answer")

    discard(Storage(), [str(file)], look)
    assert file.exists()
    with pytest.raises(lakescan.StorageError):
        remove_unnamed(Storage(), [str(file)], look)
    assert file.exists()
    assert remove_unnamed(Storage(), [str(file)], list) == [str(file)]
    assert not file.exists()
