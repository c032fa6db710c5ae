"""Credentials vended by a catalog: the longest prefix wins, they are renewed in time, and never shown."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.storage import Storage
from lakescan.storage.vended_credentials import Credential, Credentials
from tests.support.rest_server import RestServer, rest_server
from tests.support.s3 import KEY, REGION, SECRET, s3_server

HOUR = 3600


def credential(prefix: str, token: str, seconds: float | None = None) -> Credential:
    """Make a credential that expires in `seconds`."""
    expires = {} if seconds is None else {"s3.session-token-expires-at-ms": str(round((time.time() + seconds) * 1000))}
    keys = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.session-token": token}
    return Credential(prefix, {**keys, **expires})


class Source:
    """A source of credentials that returns the given ones, or fails."""

    def __init__(self, *found: Credential, fails: bool = False) -> None:
        self.found, self.fails, self.asked = found, fails, 0

    def fetch(self) -> tuple[Credential, ...]:
        self.asked += 1
        if self.fails:
            raise lakescan.StorageError("no more")
        return self.found


def token(credentials: Credentials, location: str) -> str | None:
    found = credentials.at(location)
    return None if found is None else found.properties["s3.session-token"]


def test_the_longest_prefix_of_a_location_wins() -> None:
    by_prefix = {"s3": "any", "s3://lake/": "lake", "s3://lake/t/": "t"}
    all_of_it = Credentials([credential(prefix, name) for prefix, name in by_prefix.items()])
    for location, expected in (
        ("s3://lake/t/data/1.parquet", "t"),
        ("s3a://lake/t/data/1.parquet", "t"),
        ("s3://lake/t", "t"),
        ("s3://lake/table/1.parquet", "lake"),
        ("s3://other/1.parquet", "any"),
        ("gs://lake/t/1.parquet", None),
    ):
        assert token(all_of_it, location) == expected


@pytest.mark.parametrize("said", ["9" * 400, "9" * 5000, "-1", "soon", "1e3", "\u0663", ""])
def test_an_invalid_expiry_time_is_ignored(said: str) -> None:
    assert Credential("", {"s3.session-token-expires-at-ms": said}).expires_at is None


def test_a_credential_is_renewed_before_it_expires() -> None:
    source = Source(credential("s3://lake/", "new", HOUR))
    credentials = Credentials([credential("s3://lake/", "old", 60), credential("s3://other/", "another-token")], source)
    assert [token(credentials, "s3://lake/1") for _ in range(3)] == ["new"] * 3
    assert token(credentials, "s3://other/1") == "another-token"
    assert source.asked == 1


def test_a_credential_that_does_not_expire_soon_is_not_renewed() -> None:
    source = Source(credential("s3://lake/", "new", HOUR))
    for seconds in (HOUR, None):
        assert token(Credentials([credential("s3://lake/", "old", seconds)], source), "s3://lake/1") == "old"
    assert source.asked == 0


def test_a_renewal_that_fails_is_an_error_only_once_the_credential_has_expired(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source(fails=True)
    credentials = Credentials([credential("s3://lake/", "old", 60)], source)
    with caplog.at_level(logging.WARNING, "lakescan"):
        assert [token(credentials, "s3://lake/1") for _ in range(3)] == ["old"] * 3
    assert source.asked == 1
    assert "not renewed yet" in caplog.text
    with pytest.raises(lakescan.StorageError, match="no more"):
        Credentials([credential("s3://lake/", "old", -1)], source).at("s3://lake/1")
    with pytest.raises(lakescan.StorageError, match="no new credentials"):
        Credentials([credential("s3://lake/", "old", -1)], Source(credential("s3://x/", "new"))).at("s3://lake/1")


def test_connections_are_reopened_with_a_renewed_credential() -> None:
    source = Source(credential("s3://lake/", "new", HOUR))
    storage = Storage(io_properties={"s3.region": REGION}, vended=Credentials([], source))

    def connected(location: str) -> Any:
        return storage.resolve(location)[0].__reduce__()[1][0]["session_token"]

    storage.use([credential("s3://lake/", "first", HOUR), credential("s3://lake/deep/", "deep", HOUR)])
    assert [connected(f"s3://lake/{each}") for each in ("1", "deep/1", "2")] == ["first", "deep", "first"]
    storage.use([credential("s3://lake/", "old", 60)])
    assert connected("s3://lake/1") == "new"
    assert connected("s3://lake/deep/1") == "deep"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server("lake") as found:
        yield found


@pytest.fixture
def server(tmp_path: Path, endpoint: str) -> Iterator[RestServer]:
    own = {"s3.endpoint": endpoint, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": REGION}
    with rest_server(tmp_path / "rest", {**own, "warehouse": f"s3://lake/{tmp_path.name}"}) as (state, uri):
        state.config["defaults"] = {"uri": uri, "s3.endpoint": endpoint, "s3.region": REGION}
        yield state


def handed_out(*credentials: Credential) -> list[dict[str, Any]]:
    return [{"prefix": each.prefix, "config": dict(each.properties)} for each in credentials]


@pytest.fixture
def lake(server: RestServer) -> lakescan.Catalog:
    found = lakescan.catalog("lake", type="rest", uri=server.config["defaults"]["uri"])
    found.create_namespace("db")
    server.of_table["storage-credentials"] = handed_out(credential("s3://lake/", "first", HOUR))
    server.credentials = handed_out(credential("s3://lake/", "renewed", HOUR))
    table = found.create_table("db.t", "id BIGINT")
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    server.requests.clear()
    return found


def ids(table: lakescan.Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def test_a_long_job_renews_the_credentials_of_its_table(lake: lakescan.Catalog, server: RestServer) -> None:
    table = lake.load_table("db.t")
    assert ids(table) == [0, 1, 2]
    assert not server.sent("credentials")
    server.of_table["storage-credentials"] = handed_out(credential("s3://lake/", "short", 60))
    table = lake.load_table("db.t")
    assert ids(table) == ids(table) == [0, 1, 2]
    assert len(server.sent("credentials")) == 1
    assert "renewed" in str(table.scan().spec.storage.vended.at("s3://lake/1").properties)


def test_workers_renew_credentials_themselves(lake: lakescan.Catalog, server: RestServer) -> None:
    server.of_table["storage-credentials"] = handed_out(credential("s3://lake/", "short", 60))
    path = lake.load_table("db.t").scan().plan().files["path"][0].as_py()
    storage = lake.load_table("db.t").scan().spec.storage
    storage.use([credential("s3://lake/", "short", 60)])  # renewed concurrently, but about to expire
    server.requests.clear()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(size_of, storage, path).result() > 0
    assert len(server.sent("credentials")) == 1


def size_of(storage: Storage, path: str) -> int:
    return len(storage.read(path))


def test_a_transaction_renews_credentials(lake: lakescan.Catalog, server: RestServer) -> None:
    server.of_table["storage-credentials"] = handed_out(credential("s3://lake/", "short", 60))
    with lake.transaction() as tx:
        tx.load_table("db.t").append(pa.table({"id": [7]}))
        assert ids(tx.load_table("db.t")) == [0, 1, 2, 7]
    assert server.sent("credentials")
    assert ids(lake.load_table("db.t")) == [0, 1, 2, 7]


def test_configured_credentials_with_an_expiry_are_renewed(lake: lakescan.Catalog, server: RestServer) -> None:
    server.of_table.clear()
    server.table_config = dict(credential("", "short", 60).properties)
    table = lake.load_table("db.t")
    assert ids(table) == [0, 1, 2]
    assert len(server.sent("credentials")) == 1


def test_the_credentials_of_a_plan_are_used_for_its_files(lake: lakescan.Catalog, server: RestServer) -> None:
    server.of_plan["storage-credentials"] = handed_out(credential("s3://lake/", "of the plan", 60))
    server.page = 1
    scan = lake.load_table("db.t").scan().options(scan_planning_mode="server")
    assert len(scan.to_arrow()) == 3
    (asked,) = server.sent("credentials")
    assert asked.query["planId"][0].startswith("plan ")


def test_no_text_shows_secrets(lake: lakescan.Catalog, server: RestServer, caplog: Any, capsys: Any) -> None:
    secrets = ("first", "renewed", SECRET, KEY)
    with caplog.at_level(logging.DEBUG, "lakescan"):
        table = lake.load_table("db.t")
        scan = table.scan().where("id > 0").options(scan_planning_mode="server")
        scan.to_arrow()
        with lake.transaction() as tx:
            tx.load_table("db.t").append(pa.table({"id": [9]}))
            shown = [repr(each) for each in (tx, table, scan, scan.spec, scan.spec.storage, scan.plan())]
        shown += [str(scan.explain()), str(scan.spec.to_options()), repr(scan.spec.storage.vended)]
        server.of_table["storage-credentials"] = handed_out(credential("s3://lake/", "first", -1))
        server.endpoints = None
        server.credentials = []
        with pytest.raises(lakescan.LakescanError) as failure:
            lake.load_table("db.t").to_arrow()
    shown += [str(failure.value), caplog.text, *capsys.readouterr()]
    assert not [each for each in shown for secret in secrets if secret in each]


def test_a_catalog_without_the_endpoint_renews_nothing(server: RestServer, lake: lakescan.Catalog) -> None:
    server.endpoints = [each for each in server.endpoints or () if not each.endswith("credentials")]
    server.of_table["storage-credentials"] = handed_out(credential("s3://lake/", "short", 60))
    other = lakescan.catalog("other", type="rest", uri=server.config["defaults"]["uri"])
    assert ids(other.load_table("db.t")) == [0, 1, 2]
    assert not server.sent("credentials")


@pytest.mark.parametrize(
    "answer", [[], "x", {"storage-credentials": 5}, {"storage-credentials": [{"prefix": "s3://lake/", "config": None}]}]
)
def test_an_answer_without_credentials_is_a_failed_renewal(
    lake: lakescan.Catalog, server: RestServer, answer: Any
) -> None:
    server.before = lambda request: (200, answer) if request.what.endswith("/credentials") else None
    server.of_table["storage-credentials"] = handed_out(credential("s3://lake/", "short", 60))
    assert ids(lake.load_table("db.t")) == [0, 1, 2]
    server.of_table["storage-credentials"] = handed_out(credential("s3://lake/", "expired", -1))
    with pytest.raises(lakescan.StorageError, match=r"credentials"):
        lake.load_table("db.t").to_arrow()
