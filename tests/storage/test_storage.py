"""Locations lead to files: URIs, plain paths, relocated prefixes."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from lakescan import limits
from lakescan.errors import CorruptMetadata, InvalidOption, LakescanError, LimitExceeded, MissingFile, StorageError
from lakescan.storage import Storage
from lakescan.storage.locations import split_location
from tests.support.faulty import faulty_storage


@pytest.mark.parametrize(
    ("location", "parts"),
    [
        ("/a/b", ("file", "", "/a/b")),
        ("a/b c%20", ("file", "", "a/b c%20")),
        ("file:/a", ("file", "", "/a")),
        ("file:///a", ("file", "", "/a")),
        ("s3://bucket/a/b", ("s3", "bucket", "/a/b")),
        ("hdfs://host:8020/a", ("hdfs", "host:8020", "/a")),
    ],
)
def test_a_location_has_a_scheme_an_authority_and_a_raw_path(location: str, parts: tuple[str, str, str]) -> None:
    assert split_location(location) == parts


@pytest.mark.parametrize(
    ("location", "moved"),
    [
        ("s3://old/t/data/f", "/new/data/f"),
        ("s3://old/t", "/new"),
        ("s3://old/table/f", "s3://old/table/f"),
        ("s3://old/t/deep/f", "/elsewhere/f"),
        ("hdfs://host/warehouse/f", "/w/f"),
        ("/warehouse/f", "/w/f"),
    ],
)
def test_the_longest_matching_prefix_is_replaced_at_a_slash(location: str, moved: str) -> None:
    storage = Storage(relocate={"s3://old/t": "/new", "s3://old/t/deep/": "/elsewhere/", "/warehouse": "/w"})
    assert storage.current_location(location) == moved


def test_a_missing_file_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    storage = Storage(relocate={"s3://old": str(tmp_path)})
    with pytest.raises(MissingFile, match=f"s3://old/f .looked up at {tmp_path}/f"):
        storage.read("s3://old/f")


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=str(tmp_path)):
        Storage().read(str(tmp_path))


def test_parts_of_a_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    assert Storage().read(f"file://{tmp_path}/f", 3, 4) == b"3456"


def test_a_missing_folder_lists_nothing(tmp_path: Path) -> None:
    assert list(Storage().list(str(tmp_path / "nowhere"))) == []


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidOption, match="supported are file, s3, gs, abfs, hdfs"):
        Storage().read("dbfs:/x")


def test_storage_is_sent_to_workers(tmp_path: Path) -> None:
    storage = Storage({"region": "x"}, {"a": "b"})
    storage.exists(str(tmp_path))
    copy = pickle.loads(pickle.dumps(storage))
    assert (copy.options, copy.relocate) == (storage.options, storage.relocate)


def _pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (_pipe, "a named pipe"),
        (Path.mkdir, "a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
        (lambda path: path.symlink_to(path), "symbolic link"),
    ],
)
def test_pipes_and_devices_are_refused_before_they_are_opened(
    tmp_path: Path, make: Callable[[Path], None], kind: str
) -> None:
    path = tmp_path / "00000.json"
    make(path)
    with pytest.raises(StorageError, match=kind):
        Storage().read(str(path))


@pytest.mark.parametrize("make", [_pipe, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_an_entry_with_the_name_of_a_file_is_listed_whatever_its_type(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """Omitting a commit because it is a pipe would mean reading an older table."""
    make(tmp_path / "00000.json")
    assert [entry.name for entry in Storage().list(str(tmp_path))] == ["00000.json"]


@pytest.mark.parametrize("location", ["a\0b", "a\ud800b", "x" * 5000, "hdfs://h:port/x", "nosuch://x/y", "C:\\x"])
@pytest.mark.parametrize(
    "use",
    [
        lambda storage, location: storage.read(location),
        lambda storage, location: storage.sizes([location]),
        lambda storage, location: list(storage.list(location + "/x")) or storage.read(location),
    ],
)
def test_an_invalid_location_is_a_short_lakescan_error(location: str, use: Callable[[Storage, str], object]) -> None:
    with pytest.raises(LakescanError) as raised:
        use(Storage(), location)
    assert 0 < len(str(raised.value)) < 1200


def test_a_read_does_not_request_more_bytes_than_the_file_has(tmp_path: Path) -> None:
    """A deletion vector of 2**31 bytes is not allocated."""
    (tmp_path / "f").write_bytes(b"0123456789")
    for offset, length in [(3, 2**31), (11, 0), (-1, 2), (0, -1), (2**62, 2**62)]:
        with pytest.raises(CorruptMetadata, match="has 10 bytes"):
            Storage().read(str(tmp_path / "f"), offset, length)


def test_a_file_that_is_too_large_is_not_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WHOLE_FILE", 9)
    (tmp_path / "f").write_bytes(b"0123456789")
    with pytest.raises(LimitExceeded, match="WHOLE_FILE"):
        Storage().read(str(tmp_path / "f"))
    assert Storage().read(str(tmp_path / "f"), 3, 4) == b"3456"


def test_a_missing_size_in_a_listing_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(StorageError, match="0 bytes, but was listed with 7"):
        Storage().read(str(tmp_path / "f"), size=7)


_FAULTS = [
    OSError(errno.EIO, "input/output error"),
    TimeoutError("timed out"),
    PermissionError(errno.EACCES, "permission denied"),
    ConnectionResetError("connection reset"),
    ValueError("something in a client library"),
]


@pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("place", ["open", "read", "close", "info", "list"])
def test_whatever_a_filesystem_raises_is_a_storage_error_with_the_location(
    tmp_path: Path, place: str, fault: Exception
) -> None:
    (tmp_path / "f.json").write_bytes(b"0123456789")
    storage = faulty_storage(place, fault)

    def use_all() -> None:
        storage.exists(str(tmp_path / "f.json"))
        list(storage.list(str(tmp_path)))
        storage.read(str(tmp_path / "f.json"))

    with pytest.raises(StorageError, match=str(tmp_path)) as raised:
        use_all()
    assert not isinstance(raised.value, MissingFile)


def test_a_short_read_is_continued(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    assert faulty_storage("short").read(str(tmp_path / "f")) == b"0123456789"


def test_an_empty_read_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    with pytest.raises(StorageError, match="returned 0 of 10 bytes"):
        faulty_storage("empty").read(str(tmp_path / "f"))


def test_files_that_cannot_be_deleted_are_reported_whatever_is_raised(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x")
    storage = faulty_storage("delete", ValueError("something in a client library"))
    assert storage.remove([str(tmp_path / "f"), "a\0b"]) == [str(tmp_path / "f"), "a\0b"]
    assert Storage().remove([str(tmp_path / "f"), str(tmp_path / "g")]) == []


def test_a_folder_is_listed_by_the_names_that_are_wanted(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "c.avro"):
        (tmp_path / name).write_text("x")
    storage = Storage()
    wanted = [entry for entry in storage.list(str(tmp_path)) if entry.name.endswith(".json")]
    assert list(storage.list(str(tmp_path), lambda name: name.endswith(".json"))) == wanted
    assert [entry.name for entry in wanted] == ["a.json", "b.json"]
    assert not list(storage.list(str(tmp_path / "none"), lambda name: True))
