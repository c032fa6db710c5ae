"""S3 files are removed in bulk; keys that clients may encode differently, and failures, are removed one by one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lakescan.storage import Storage, bulk_removal
from tests.support.s3 import KEY, REGION, SECRET, s3_server


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server("bucket") as found:
        yield found


@pytest.fixture
def storage(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Storage:
    monkeypatch.setattr(bulk_removal, "_FAILED", set())
    return Storage({"endpoint": endpoint, "access_key": KEY, "secret_key": SECRET, "region": REGION})


def written(storage: Storage, *names: str) -> list[str]:
    locations = [f"s3://bucket/t/{name}" for name in names]
    for each in locations:
        with storage.create(each) as file:
            file.write(b"x")
    return locations


NAMES = [f"p=a/f-{number}.parquet" for number in range(25)]


def test_all_given_files_are_removed_and_others_stay(storage: Storage) -> None:
    files = written(storage, *NAMES, "p=a b/f%20.parquet", "p=a b/f .parquet", "stays.parquet")
    gone, stays = files[:-1], files[-1]
    assert list(storage.remove([*gone, "s3a://bucket/t/missing.parquet"])) == []
    assert not bulk_removal._FAILED, "the bulk requests were refused"
    assert [each.location for each in storage.walk("s3://bucket/t")] == [stays]
    storage.remove([stays])


def test_only_unambiguous_keys_are_removed_in_bulk(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def removed(bucket: str, keys: list[str], settings: object) -> bool:
        asked.extend(keys)
        return True

    monkeypatch.setattr(bulk_removal, "_delete_keys", removed)
    odd = ["a%20b", "a b", "a//b", "a/./b", "a/../b", "..", "ü", "a/"]
    left = bulk_removal.remove_in_bulk(
        [f"s3://bucket/{name}" for name in [*NAMES, *odd]],
        [f"s3://bucket/{name}" for name in [*NAMES, *odd]],
        storage_settings(storage),
    )
    assert left == [f"s3://bucket/{name}" for name in odd]
    assert asked == NAMES


def test_files_refused_in_bulk_are_removed_one_by_one(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_removal, "_delete_keys", lambda bucket, keys, settings: False)
    assert list(storage.remove(written(storage, *NAMES))) == []
    assert list(storage.walk("s3://bucket/t")) == []


def storage_settings(storage: Storage) -> bulk_removal.StorageOptions:
    return bulk_removal.StorageOptions.parse(storage.options)
