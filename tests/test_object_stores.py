"""Google's and Azure's storage, by emulators: no commit replaces another one there; Delta tables live in Azure's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.storage import Storage
from lakescan.storage.put_if_absent import put_if_absent
from tests.support.azure import ACCOUNT, KEY, azure_server
from tests.support.google import google_server

ROWS = pa.table({"id": [1, 2, 3], "part": ["a", "b", "c d"]})
Store = tuple[str, dict[str, str]]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """The location of a container of Azure's, and the options to reach it."""
    with azure_server("lake") as authority:
        hosts = {f"adls.{kind}-storage-authority": authority for kind in ("blob", "dfs")}
        schemes = {f"adls.{kind}-storage-scheme": "http" for kind in ("blob", "dfs")}
        root = f"abfss://lake@{ACCOUNT}.dfs.core.windows.net"
        yield root, {"adls.account-name": ACCOUNT, "adls.account-key": KEY, **hosts, **schemes}


def creates_once(storage: Storage, folder: str) -> None:
    assert put_if_absent(storage, f"{folder}/f", b"first") is True
    assert put_if_absent(storage, f"{folder}/f", b"second") is False
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: put_if_absent(storage, f"{folder}/raced", b"%d" % n), range(16)))
    assert done.count(True) == 1


def test_a_file_is_created_once_in_google() -> None:
    """Tables are not tried there: Arrow waits for ever for the answer to a read through the server of the tests."""
    with google_server("lake") as address:
        options = {"gcs.service.host": f"http://{address}", "gcs.oauth2.token": "some-token"}
        creates_once(Storage(options), "gs://lake/once")


def test_a_file_is_created_once_in_azure(store: Store) -> None:
    storage, folder = Storage(store[1]), f"{store[0]}/once"
    creates_once(storage, folder)
    assert storage.read(f"{folder}/f") == b"first"
    assert sorted(each.name for each in storage.walk(folder)) == ["f", "raced"]


def ids(path: str, options: dict[str, str], **more: Any) -> list[int]:
    return sorted(lakescan.table(path, storage_options=options, **more).scan().to_arrow()["id"].to_pylist())


def test_a_delta_table_lives_there(store: Store) -> None:
    path, options = f"{store[0]}/delta", store[1]
    lakescan.save(ROWS, path, format="delta", partition_by=["part"], storage_options=options)

    def append(number: int) -> None:
        lakescan.table(path, storage_options=options).append(pa.table({"id": [number], "part": ["n"]}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(10, 18)))
    assert ids(path, options) == [1, 2, 3, *range(10, 18)]
    table = lakescan.table(path, storage_options=options)
    table.overwrite(pa.table({"id": [9], "part": ["a"]}), where="part = 'a' OR part = 'n'")
    lakescan.table(path, storage_options=options).delete(where="id = 2")
    assert ids(path, options) == [3, 9]
    assert ids(path, options, version_as_of=0) == [1, 2, 3]
