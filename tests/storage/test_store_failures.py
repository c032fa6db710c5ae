"""An unreachable store fails at once, naming the setting; a commit that was never sent counts as not made."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import lakescan
from lakescan.common import retries
from lakescan.common.retries import RetryPolicy
from lakescan.delta.commit import commit_file as put_commit
from lakescan.delta.commit.commit_file import put_commit as commit
from lakescan.errors import CommitStateUnknown, InvalidOption, MissingDependency, StorageError
from lakescan.storage import Storage, object_clients, reachable
from lakescan.storage.errors import advice
from lakescan.storage.put_if_absent import NotCreated, NotSent, put_if_absent
from tests.support.recorded import Recorded, recording_server
from tests.support.s3 import KEY, REGION, SECRET, s3_server

ROWS = pa.table({"id": [1, 2, 3]})
KEYS = {"key": KEY, "secret": SECRET, "region": REGION}
GOOGLE, AZURE = "gs://lake/t", "abfss://lake@acc.dfs.core.windows.net/t"
VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AZURE_STORAGE_ACCOUNT_KEY"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST", "GOOGLE_BEARER_TOKEN", "GCE_METADATA_ROOT"),
    *("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # no az
    monkeypatch.setattr(reachable, "_REACHED", set())
    object_clients._client.cache_clear()


@pytest.fixture(scope="module")
def closed() -> Iterator[str]:
    """Yield an address that refuses connections."""
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # not listening
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture(scope="module")
def server() -> Iterator[Recorded]:
    with recording_server() as found:
        yield found


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server("lake") as endpoint:
        yield {**KEYS, "endpoint": endpoint}


@pytest.fixture
def unresolved(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Simulate a missing network; record the addresses that were tried."""
    tried: list[tuple[str, int]] = []

    def connect(address: tuple[str, int], **_: Any) -> None:
        tried.append(address)
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(reachable.socket, "create_connection", connect)
    return tried


@pytest.mark.parametrize(
    ("location", "options", "host", "says"),
    [
        (GOOGLE, {}, "storage.googleapis.com", "gcs.service.host"),
        (GOOGLE, {"token": "t"}, "storage.googleapis.com", "gcs.service.host"),
        (GOOGLE, {"anon": True, "endpoint": "https://other:8443"}, "other", "gcs.service.host"),
        (AZURE, {"account_key": "a2V5"}, "acc.blob.core.windows.net", "account in the location"),
        (AZURE, {"endpoint": "https://acc.blob.local", "account_key": "a2V5"}, "acc.blob.local", "adls.blob-storage"),
    ],
)
def test_an_unknown_host_is_reported_before_the_client_tries(
    location: str, options: dict[str, Any], host: str, says: str, unresolved: list[tuple[str, int]]
) -> None:
    words = rf"{location}/_delta_log cannot be reached: {host}:\d+ cannot be resolved"
    with pytest.raises(StorageError, match=words) as e:
        lakescan.table(location, storage_options=options)
    assert says in str(e.value)
    assert "s3." not in str(e.value)
    assert [each for each, _ in unresolved] == [host]


@pytest.mark.parametrize("location", [GOOGLE, AZURE])
def test_a_port_that_refuses_connections_is_reported(location: str, closed: str) -> None:
    with pytest.raises(StorageError, match=f"{closed} does not respond .*refused"):
        Storage({"endpoint": f"http://{closed}", "anonymous": True}).exists(location)


def test_a_host_that_has_answered_is_not_checked_again(server: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"endpoint": server.url, "token": "t"}
    assert not Storage(options).exists(f"{GOOGLE}/f")
    monkeypatch.setattr(reachable.socket, "create_connection", None)
    assert not Storage(options).exists(f"{GOOGLE}/f")


@pytest.mark.parametrize(
    ("location", "variable", "says"),
    [
        (GOOGLE, "GCE_METADATA_ROOT", "GOOGLE_APPLICATION_CREDENTIALS"),
        (AZURE, "AZURE_POD_IDENTITY_AUTHORITY_HOST", "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_without_credentials_and_metadata_service_nothing_is_sent(
    location: str, variable: str, says: str, server: Recorded, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.requests.clear()
    monkeypatch.setenv(variable, closed if variable.startswith("GCE") else f"http://{closed}")
    with pytest.raises(StorageError, match=rf"no credentials were found, and 127\.0\.0\.1.*{says}"):
        Storage({"endpoint": server.url}).exists(location)
    assert not server.requests


def test_behind_a_proxy_hosts_are_not_checked(
    unresolved: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    Storage({"token": "t"}).resolve(GOOGLE)
    monkeypatch.setenv("no_proxy", "storage.googleapis.com")
    with pytest.raises(StorageError, match="cannot be resolved"):
        Storage({"token": "t"}).resolve(GOOGLE)
    assert [host for host, _ in unresolved] == ["storage.googleapis.com"]


@pytest.mark.parametrize(
    ("location", "has", "has_not"),
    [
        ("s3://b/t", ["s3.endpoint", "AWS_ENDPOINT_URL"], ["adls", "gcs."]),
        ("gs://b/t", ["gcs.service.host"], ["s3.", "adls"]),
        (
            "abfss://c@a.dfs.core.windows.net/t",
            ["account in the location", "adls.blob-storage-"],
            ["s3.", "gcs."],
        ),
        ("hdfs://name/t", ["HADOOP_CONF_DIR"], ["s3.", "adls", "gcs."]),
    ],
)
def test_advice_fits_the_store(location: str, has: list[str], has_not: list[str]) -> None:
    told = advice(OSError("curlCode: 7, Could not connect to server"), location)
    assert all(each in told for each in has)
    assert not any(each in told for each in has_not)


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("s3a://b/t", "AWS_ACCESS_KEY_ID"),
        ("gs://b/t", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("wasbs://c@a.blob.core.windows.net/t", "AZURE_STORAGE_ACCOUNT_KEY"),
    ],
)
def test_advice_on_credentials_fits_the_store(location: str, says: str) -> None:
    assert says in advice(OSError("HTTP response code: 403 Forbidden"), location)
    assert says in advice(PermissionError(13, "Status(PERMISSION_DENIED: ...)"), location)
    assert says in advice(OSError("GET http://169.254.169.254/latest"), location)


@pytest.fixture
def no_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if the outcome of a commit is looked up: nothing was sent."""

    def looked(*_: Any, **__: Any) -> None:
        raise AssertionError("the outcome was looked up")

    monkeypatch.setattr(put_commit, "outcome_of", looked)
    monkeypatch.setattr(put_commit, "UNSENT", RetryPolicy(attempts=2, first=0))


@pytest.mark.usefixtures("no_second_look")
@pytest.mark.parametrize("location", ["s3://lake/t", GOOGLE, AZURE])
def test_a_commit_without_a_connection_was_not_made(location: str, closed: str) -> None:
    secret = {"account_key": "a2V5"} if location == AZURE else {**KEYS, "token": "t"}
    options = {**secret, "endpoint": f"http://{closed}"}
    with pytest.raises(NotSent, match="does not respond"):
        commit(Storage(options), location, 0, b"{}", "id")


@pytest.mark.usefixtures("no_second_look")
def test_a_commit_without_credentials_was_not_made(server: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    server.requests.clear()
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", server.url)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(NotSent):
        commit(Storage({"endpoint": server.url, "region": REGION}), "s3://lake/t", 0, b"{}", "id")
    assert {each.path for each in server.requests} == {"/latest/api/token"}


@pytest.mark.usefixtures("no_second_look")
def test_a_commit_whose_profile_has_no_credentials_was_not_made(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[profile lab]\nregion = eu-1\n")
    with pytest.raises(InvalidOption, match="'lab' has no credentials"):
        Storage({"profile": "lab"}).exists("s3://lake/t")
    with pytest.raises(InvalidOption, match="'lab' has no credentials"):
        commit(Storage({"profile": "lab"}), "s3://lake/t", 0, b"{}", "id")


@pytest.mark.usefixtures("no_second_look")
def test_a_commit_with_settings_that_no_client_takes_was_not_made() -> None:
    with pytest.raises(NotSent, match="cannot be created"):
        commit(Storage({**KEYS, "copy_if_not_exists": "some"}), "s3://lake/t", 0, b"{}", "id")
    with pytest.raises(InvalidOption, match=r"tls_ca_file_path, /none\.pem, cannot be read"):
        commit(Storage({**KEYS, "verify": "/none.pem"}), "s3://lake/t", 0, b"{}", "id")
    with patch.dict("sys.modules", {"obstore": None}), pytest.raises(MissingDependency):
        commit(Storage(KEYS), "s3://lake/t", 0, b"{}", "id")
    with pytest.raises(InvalidOption, match="'retry_timeout' is not supported"):
        commit(Storage({**KEYS, "retry_timeout": 5}), "s3://lake/t", 0, b"{}", "id")


def test_a_commit_is_sent_once_the_store_can_be_connected_to(s3: dict[str, str], closed: str) -> None:
    storages = [Storage({**s3, "endpoint": f"http://{closed}"}), Storage(s3)]

    def put(_: Storage, location: str, data: bytes) -> bool:
        return put_if_absent(storages.pop(0), location, data)

    quick = RetryPolicy(attempts=2, first=0)
    with patch.object(put_commit, "put_if_absent", put), patch.object(put_commit, "UNSENT", quick):
        assert commit(Storage(s3), "s3://lake/later", 0, b"{}", "id")
    assert Storage(s3).exists("s3://lake/later/_delta_log/00000000000000000000.json")


def test_a_busy_store_is_retried_as_long_as_for_commits(s3: dict[str, str]) -> None:
    with recording_server(503) as busy:
        storage = Storage({**s3, "endpoint": busy.url})
        quick, none = RetryPolicy(attempts=3, first=0), RetryPolicy(attempts=1, first=0)
        policies = patch.multiple(put_commit, PUTS=quick, UNSENT=none)
        with policies, pytest.raises(NotSent):
            commit(storage, "s3://lake/busy", 0, b"{}", "id")
        assert sum(each.method == "PUT" for each in busy.requests) == 3  # the probe fails, and the commit is not sent


def test_a_new_table_on_a_store_that_refuses_commits_does_not_exist(s3: dict[str, str], closed: str) -> None:
    """Its files are removed."""
    storage = Storage(s3)

    def unsent(*_: Any) -> Any:
        return put_if_absent(Storage({**s3, "endpoint": f"http://{closed}"}), "s3://lake/new/_delta_log/0.json", b"x")

    quick = patch.object(put_commit, "UNSENT", RetryPolicy(attempts=2, first=0))
    with quick, patch.object(put_commit, "put_if_absent", unsent), pytest.raises(NotSent):
        lakescan.save(ROWS, "s3://lake/new", format="delta", storage_options=s3)
    assert not [*storage.walk("s3://lake/new")]
    lakescan.save(ROWS, "s3://lake/new", format="delta", storage_options=s3)
    with patch.object(put_commit, "put_if_absent", unsent), pytest.raises(NotSent):
        lakescan.save(ROWS, "s3://lake/new", mode="append", storage_options=s3)
    assert lakescan.table("s3://lake/new", storage_options=s3).count() == 3
    assert len(storage.find("s3://lake/new", ".parquet")) == 1


class Silent:
    """A server whose answer is lost: it reads the request and closes the connection."""

    def __enter__(self) -> str:
        self._socket = socket.create_server(("127.0.0.1", 0))
        from threading import Thread

        Thread(target=self._serve, daemon=True).start()
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.recv(65536)

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def test_a_request_with_a_lost_answer_counts_as_sent() -> None:
    from lakescan.storage import put_if_absent as module

    with Silent() as url, patch.object(module, "_probe"):
        storage = Storage({**KEYS, "endpoint": url})
        with pytest.raises(StorageError) as raised:
            put_if_absent(storage, "s3://lake/t/_delta_log/0.json", b"x")
        assert not isinstance(raised.value, NotCreated)
        quick = RetryPolicy(attempts=2, first=0)
        with patch.object(put_commit, "PUTS", quick), pytest.raises(CommitStateUnknown):
            commit(storage, "s3://lake/t", 0, b"{}", "id")


def test_a_server_message_does_not_prove_that_nothing_was_sent() -> None:
    from lakescan.storage.put_if_absent import _is_unsent

    words = "HttpError {\n    kind: Connect,\n\nDebug source:\nHttpError {\n kind: Connect,"
    details = f'uri: Some(\n http://h/b/t/0%20.json,\n) body: Some("{words!r}")'
    sent = Exception(f"500: {words}\n\nDebug source:\n{details}")
    assert not _is_unsent(sent, "t/0 .json")
    assert _is_unsent(sent, "t/1.json")
    assert not _is_unsent(Exception("some error"), "t/0.json")


def test_an_iceberg_commit_whose_metadata_cannot_be_written_was_not_made(s3: dict[str, str], tmp_path: Path) -> None:
    from pyiceberg.io.pyarrow import PyArrowFile

    of_store = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": REGION}
    where = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": "s3://lake/wh"}
    lake = lakescan.catalog("lake", **where, **of_store, **{"s3.endpoint": s3["endpoint"]})
    lake.create_namespace("n")
    table = lake.create_table("n.t", ROWS.schema)
    table.append(ROWS)
    files = {each.location for each in Storage(s3).walk("s3://lake/wh/n/t")}

    def gone(*_: Any, **__: Any) -> Any:
        raise OSError("AWS Error NETWORK_CONNECTION: curlCode: 7, Could not connect to server")

    looks = patch.object(retries, "LOOKS", None)  # the outcome is not looked up
    with patch.object(PyArrowFile, "create", gone), looks:
        with pytest.raises(StorageError, match=r"metadata\.json cannot be written.*s3\.endpoint") as raised:
            table.append(ROWS)
        assert not isinstance(raised.value, CommitStateUnknown)
        for version in ("2", "3"):
            with pytest.raises(NotCreated, match=r"metadata\.json cannot be written"):
                lake.create_table("n.other", ROWS.schema, properties={"format-version": version})
    assert {each.location for each in Storage(s3).walk("s3://lake/wh/n/t")} == files
    assert lake.load_table("n.t").count() == 3
    assert not lake.table_exists("n.other")
