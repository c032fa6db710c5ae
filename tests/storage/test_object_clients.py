"""obstore's clients use Arrow's endpoints and keys, whatever the environment sets, and are not reused after a fork."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import boto3
import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import UnsupportedFeature
from lakescan.storage import Storage, object_clients
from lakescan.storage.put_if_absent import put_if_absent
from tests.support.faulty_s3 import FaultyS3, faulty_s3
from tests.support.s3 import KEY, REGION, SECRET

VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


class Server:
    """A store with a bucket; `identities` are the keys and session tokens of obstore's requests."""

    def __init__(self, endpoint: str, counted: FaultyS3) -> None:
        self.endpoint, self.counted = endpoint, counted
        self.identities = set[tuple[str | None, str | None]]()
        keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": REGION}
        self.client = boto3.client("s3", endpoint_url=endpoint, **keys)

    def options(self, **more: str) -> dict[str, str]:
        return {"endpoint": self.endpoint, "access_key": KEY, "secret_key": SECRET, "region": REGION, **more}

    def put(self, key: str, data: bytes) -> str:
        self.client.put_object(Bucket="bucket", Key=key, Body=data)
        return f"s3://bucket/{key}"

    def keys(self, prefix: str) -> list[str]:
        listed = self.client.list_objects_v2(Bucket="bucket", Prefix=prefix)
        return [each["Key"] for each in listed.get("Contents", [])]


@pytest.fixture(scope="module")
def two_servers() -> Iterator[tuple[Server, Server]]:
    with faulty_s3("bucket") as one, faulty_s3("bucket") as other:
        yield Server(*one), Server(*other)


@pytest.fixture
def server(two_servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch) -> Server:
    server, handle = two_servers[0], FaultyS3.handle

    def noted(faulty: FaultyS3, handler: BaseHTTPRequestHandler) -> None:
        if handler.headers.get("User-Agent", "").startswith("object_store"):
            key = re.search("Credential=([^/]*)/", handler.headers.get("Authorization", ""))
            server.identities.add((key and key[1], handler.headers.get("X-Amz-Security-Token")))
        handle(faulty, handler)

    monkeypatch.setattr(FaultyS3, "handle", noted)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    server.identities.clear()
    return server


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_an_endpoint_in_the_settings_overrides_one_in_the_environment(
    server: Server, two_servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    other = two_servers[1]
    location = server.put("both/x", b"right")
    monkeypatch.setenv(variable, other.endpoint)
    storage = Storage(server.options())
    assert storage.read(location) == b"right"
    pages = storage.names_after("s3://bucket/both", "a")
    assert pages is not None
    assert [each.name for page in pages for each in page] == ["x"]
    where = f"s3://bucket/saved-{variable}"
    lakescan.save(pa.table({"n": [1]}), where, format="delta", storage_options=server.options())
    assert storage.remove([f"s3://bucket/both/{n}" for n in range(30)] + [location]) == []
    assert not other.counted.requests


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_a_commit_to_an_endpoint_that_reading_does_not_use_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, server.endpoint)
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    storage = Storage({"access_key": KEY, "secret_key": SECRET, "region": REGION})
    with pytest.raises(UnsupportedFeature, match="an endpoint in the environment that reading does not use"):
        put_if_absent(storage, "s3://bucket/refused", b"x")
    assert not server.keys("refused")


def test_keys_are_read_from_the_current_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    location = server.put("some", b"0123456789")
    for number in ("1", "2"):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.setenv(name, name + number)
        server.identities.clear()
        storage = Storage({"endpoint": server.endpoint, "region": REGION})
        assert storage.read(location) == b"0123456789"
        assert put_if_absent(storage, f"s3://bucket/new{number}", b"x")
        assert server.identities == {(f"AWS_ACCESS_KEY_ID{number}", f"AWS_SESSION_TOKEN{number}")}


def test_keys_in_the_settings_are_not_combined_with_a_token_of_the_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "another-identity")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    location = server.put("some", b"0123456789")
    storage = Storage(server.options())
    assert storage.read(location) == b"0123456789"
    assert put_if_absent(storage, "s3://bucket/own-token", b"x")
    assert server.identities == {(KEY, None)}


def test_settings_of_other_stores_are_left_out(server: Server) -> None:
    options = server.options(**{"adls.account-key": "a2V5", "adls.account-name": "account"})
    assert put_if_absent(Storage(options), "s3://bucket/of-several-stores", b"x")
    location = server.put("some", b"0123456789")
    server.identities.clear()
    assert Storage({"endpoint": server.endpoint, "anonymous": "true"}).settings.values[("gcs", "anonymous")] is True
    Storage({"endpoint": server.endpoint, "anonymous": "true"}).read_in_one_request(location)
    assert server.identities == {(None, None)}


def test_a_forked_process_does_not_wait_for_threads_of_its_parent(server: Server) -> None:
    location = server.put("some", b"0123456789")
    options = server.options()
    assert Storage(options).read(location) == b"0123456789"
    assert not object_clients.is_forked()
    assert object_clients.is_usable()
    forked = multiprocessing.get_context("fork").Process(target=_use, args=(options, location))
    forked.start()
    forked.join(60)
    if forked.exitcode is None:
        forked.kill()
    assert forked.exitcode == 0


def _use(options: dict[str, str], location: str) -> None:
    storage = Storage(options)
    assert storage.read(location) == b"0123456789"
    with pytest.raises(UnsupportedFeature, match="in a forked process"):
        put_if_absent(storage, "s3://bucket/forked", b"x")
    assert storage.remove([f"s3://bucket/forked/{n}" for n in range(30)]) == []
