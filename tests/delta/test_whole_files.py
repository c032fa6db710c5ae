"""Log files are published atomically: a reader sees the whole new file or the previous one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakescan.errors import StorageError
from lakescan.storage import Storage
from lakescan.storage.put_if_absent import publish, replace_file
from tests.support.s3 import KEY, REGION, SECRET, s3_server


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "log" / "file"
    with replace_file(Storage(), str(target)) as stream:
        stream.write(b"content")
        assert not target.exists()
    assert target.read_bytes() == b"content"
    assert list(target.parent.iterdir()) == [target]


def interrupted(storage: Storage, location: str) -> None:
    with replace_file(storage, location) as stream:
        stream.write(b"ne")
        raise KeyboardInterrupt


def test_an_interrupted_write_keeps_the_previous_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    publish(Storage(), str(target), b"old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(Storage(), str(target))
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_is_replaced(tmp_path: Path) -> None:
    for content in (b"old", b"new"):
        publish(Storage(), str(tmp_path / "file"), content)
    assert (tmp_path / "file").read_bytes() == b"new"


def test_hadoops_checksum_of_the_replaced_file_is_removed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / ".file.crc").write_bytes(b"of old")
    publish(Storage(), str(tmp_path / "file"), b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_file_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("not a folder")
    with pytest.raises(StorageError, match=r"folder/\.file"):
        publish(Storage(), str(tmp_path / "folder" / "file"), b"x")


def test_object_stores_publish_whole_files(tmp_path: Path) -> None:
    with s3_server("lake") as endpoint:
        names = ("s3.endpoint", "s3.access-key-id", "s3.secret-access-key", "s3.region")
        options = dict(zip(names, (endpoint, KEY, SECRET, REGION), strict=True))
        storage, target = Storage(options), "s3://lake/t/_delta_log/file"
        publish(storage, target, b"old")
        with pytest.raises(KeyboardInterrupt):
            interrupted(storage, target)
        assert storage.read(target) == b"old"
        with replace_file(storage, target) as stream:
            stream.write(b"new")
        assert storage.read(target) == b"new"
        assert [each.name for each in storage.list("s3://lake/t/_delta_log")] == ["file"]
