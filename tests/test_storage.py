"""Locations lead to files: URIs, plain paths, relocated prefixes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from lakescan.errors import InvalidOption, MissingFile, StorageError
from lakescan.storage import Storage, _s3_arguments, split_location


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
    assert storage.relocated(location) == moved


def test_a_missing_file_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    storage = Storage(relocate={"s3://old": str(tmp_path)})
    with pytest.raises(MissingFile, match=f"s3://old/f .looked for at {tmp_path}/f"):
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
    with pytest.raises(InvalidOption, match="known are file, s3, gs, abfs, hdfs"):
        Storage().read("dbfs:/x")


def test_storage_travels_to_workers(tmp_path: Path) -> None:
    storage = Storage({"region": "x"}, {"a": "b"})
    storage.exists(str(tmp_path))
    copy = pickle.loads(pickle.dumps(storage))
    assert (copy.options, copy.relocate) == (storage.options, storage.relocate)


@pytest.mark.parametrize("key", ["s3.access-key-id", "AWS_ACCESS_KEY_ID", "access_key"])
def test_s3_settings_are_known_by_the_ecosystems_names(key: str) -> None:
    assert _s3_arguments({key: "k"}) == {"access_key": "k"}


def test_a_plain_http_endpoint_sets_the_scheme() -> None:
    found = _s3_arguments({"s3.endpoint": "http://127.0.0.1:5000"})
    assert found == {"endpoint_override": "http://127.0.0.1:5000", "scheme": "http"}
