"""Google Cloud Storage and Azure: no commit replaces another one, and tables of both formats work.

Google's storage is a test server. Azure's is Azurite (`scripts/stores.sh`); without it, its tests are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.common.retries import RetryPolicy
from lakescan.delta.commit import commit_file as put
from lakescan.storage import Storage
from lakescan.storage.put_if_absent import put_if_absent
from tests.support.azure import ACCOUNT, KEY, azure_server
from tests.support.google import LOST, OBEYED, PAGE, RACED, REFUSED, armed, google_server
from tests.support.store_life import ids, make_table, run_life

FAULTS = (REFUSED, OBEYED, LOST, RACED)
Store = tuple[str, dict[str, Any], dict[str, str]]  # a root, options of lakescan, options of delta-rs


@pytest.fixture(scope="module")
def azure() -> Iterator[Store]:
    """A container in Azure's storage."""
    with azure_server("lake") as authority:
        hosts = {f"adls.{kind}-storage-authority": authority for kind in ("blob", "dfs")}
        schemes = {f"adls.{kind}-storage-scheme": "http" for kind in ("blob", "dfs")}
        options = {"adls.account-name": ACCOUNT, "adls.account-key": KEY, **hosts, **schemes}
        theirs = {"azure_storage_account_name": ACCOUNT, "azure_storage_account_key": KEY, "allow_http": "true"}
        theirs["azure_storage_endpoint"] = f"http://{authority}/{ACCOUNT}"
        yield f"abfss://lake@{ACCOUNT}.dfs.core.windows.net", options, theirs


@pytest.fixture(scope="module")
def google() -> Iterator[Store]:
    """A bucket in Google's storage."""
    with google_server("lake") as address:
        theirs = {"google_base_url": address, "google_skip_signature": "true", "allow_http": "true"}
        yield "gs://lake", {"gcs.service.host": address, "gcs.oauth2.token": "some-token"}, theirs


@pytest.fixture(params=["azure", "google"])
def store(request: pytest.FixtureRequest) -> Store:
    found: Store = request.getfixturevalue(request.param)
    return found


def test_a_file_is_created_once(store: Store) -> None:
    storage, folder = Storage(store[1]), f"{store[0]}/once"
    assert put_if_absent(storage, f"{folder}/f", b"first") is True
    assert put_if_absent(storage, f"{folder}/f", b"second") is False
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda n: put_if_absent(storage, f"{folder}/raced", b"%d" % n), range(16)))
    assert done.count(True) == 1
    assert storage.read(f"{folder}/f") == b"first"
    assert storage.read(f"{folder}/raced") == b"%d" % done.index(True)
    assert sorted(each.name for each in storage.walk(folder)) == ["f", "raced"]


@pytest.mark.slow
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_table_is_written_changed_and_maintained_in_the_store(store: Store, format: str, tmp_path: Path) -> None:
    root, options, theirs = store
    now = make_table(format, root, options, tmp_path)
    folder = now().folder

    def by_another_engine() -> list[int]:
        if format == "iceberg":
            return by_pyiceberg()
        from deltalake import DeltaTable

        found: list[int] = DeltaTable(folder, storage_options=theirs).to_pyarrow_table()["id"].to_pylist()
        return sorted(found)

    def by_pyiceberg() -> list[int]:
        from lakescan.catalogs.registry import connection

        return sorted(connection("stored").load_table("db.t").scan().to_arrow()["id"].to_pylist())

    run_life(now, Storage(options), folder, by_another_engine)


CASES = [("delta", OBEYED), ("delta", LOST), ("delta", RACED), ("delta", REFUSED), ("iceberg", LOST)]


@pytest.mark.slow
@pytest.mark.parametrize(("format", "fault"), CASES)
def test_a_fault_of_any_request_neither_loses_nor_doubles_rows(
    google: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, fault: str
) -> None:
    root, options, _ = google
    address, number, has_met = options["gcs.service.host"], 0, True
    monkeypatch.setattr(put, "PUTS", RetryPolicy(attempts=3, first=0))
    while has_met:
        (folder := tmp_path / str(number)).mkdir()
        now = make_table(format, f"{root}/{format} {FAULTS.index(fault)}", options, folder)
        opened = now()
        armed(address, fault, number)
        try:
            opened.append(pa.table({"id": [1], "part": ["a"]}))
            known: bool | None = True
        except lakescan.CommitStateUnknown:
            known = None
        except lakescan.LakescanError:
            known = False
        has_met = armed(address)
        count = now().scan().count()
        assert known in (None, bool(count))
        now().append(pa.table({"id": [2], "part": ["a"]}))
        assert ids(now()) == [1, 2][1 - count :]
        number += 1
    assert number > 1


def test_files_are_listed_page_by_page(google: Store) -> None:
    root, options, _ = google
    storage = Storage(options)
    names = [f"f {n:05}" for n in range(2 * PAGE + 1)]

    def write(name: str) -> None:
        with storage.writing(f"{root}/many/{name}") as file:
            file.write(b"")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, names))
    assert sorted(each.name for each in storage.walk(f"{root}/many")) == names
    assert sorted(each.name for each in storage.list(f"{root}/many", lambda name: True)) == names


def test_a_container_may_be_named_without_its_account(azure: Store) -> None:
    _, options, _ = azure
    lakescan.save(pa.table({"id": [1]}), "abfss://lake/short", format="delta", storage_options=options)
    assert ids(lakescan.table("abfss://lake/short", storage_options=options)) == [1]
