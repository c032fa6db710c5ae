"""A table folder's current metadata is found as Iceberg's file system catalog finds it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakescan.errors import NotATable
from lakescan.iceberg.metadata.metadata_location import current_metadata
from lakescan.storage import Storage


def found(folder: Path, *names: str, hint: str | None = None) -> str:
    (folder / "metadata").mkdir()
    for age, name in enumerate(reversed(names)):
        (folder / "metadata" / name).write_text("{}")
        os.utime(folder / "metadata" / name, (1_000_000 - age, 1_000_000 - age))
    if hint is not None:
        (folder / "metadata" / "version-hint.text").write_text(hint)
    return current_metadata(str(folder), Storage()).rsplit("/", 1)[1]


def test_the_hint_selects_the_version(tmp_path: Path) -> None:
    assert found(tmp_path, "v1.metadata.json", "v2.metadata.json", "v9.metadata.json", hint="2\n") == "v2.metadata.json"


def test_versions_after_the_hint_are_found(tmp_path: Path) -> None:
    assert found(tmp_path, "v1.metadata.json", "v2.metadata.json", "v3.metadata.json", hint="1") == "v3.metadata.json"


def test_a_hint_may_be_a_name(tmp_path: Path) -> None:
    names = ("00001-aa.metadata.json", "00002-bb.metadata.json")
    assert found(tmp_path, *names, hint="00001-aa") == "00001-aa.metadata.json"


def test_a_hint_to_a_missing_version_is_ignored(tmp_path: Path) -> None:
    assert found(tmp_path, "v1.metadata.json", "v2.metadata.json", hint="7") == "v2.metadata.json"


def test_without_a_hint_the_highest_version_wins(tmp_path: Path) -> None:
    assert found(tmp_path, "00010-a.metadata.json", "00009-b.metadata.json") == "00010-a.metadata.json"


def test_the_newest_file_of_a_version_wins(tmp_path: Path) -> None:
    assert found(tmp_path, "00002-a.metadata.json", "00002-b.metadata.json") == "00002-b.metadata.json"


def test_gzip_metadata_files_are_found(tmp_path: Path) -> None:
    assert found(tmp_path, "v1.metadata.json", "v2.gz.metadata.json", hint="2") == "v2.gz.metadata.json"


def test_a_folder_without_metadata_is_not_a_table(tmp_path: Path) -> None:
    with pytest.raises(NotATable, match="has no"):
        found(tmp_path)
