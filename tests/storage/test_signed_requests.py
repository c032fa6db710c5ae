"""S3 requests that a catalog signs: their addresses, the allowed answers, and the reuse of signatures."""

from __future__ import annotations

import time
from typing import Any

import pytest

import lakescan
from lakescan.storage import Storage
from lakescan.storage.put_if_absent import put_if_absent
from lakescan.storage.remote_signing import S3Request, Signature, Signatures
from lakescan.storage.settings import StorageOptions
from lakescan.storage.signed_s3_client import SignedBucket, keys_in, parse_xml, prefixes_in
from lakescan.storage.vended_credentials import Credential, Credentials

URI = "https://s3.eu-west-1.amazonaws.com/lake/a%20b/x%3D1/1.parquet"
AUTHORIZATION = "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host;x-own, Signature=c"


class Asked(Exception):
    """A request to a signer."""


class Raising:
    identity = "nobody"

    def sign(self, region: str, request: S3Request) -> Signature:
        raise Asked(region, request.uri)


@pytest.mark.parametrize(
    ("bucket", "options", "expected"),
    [
        ("lake", {"s3.region": "eu-west-1"}, ("eu-west-1", "https://lake.s3.eu-west-1.amazonaws.com/")),
        ("lake", {"client.region": "cn-north-1"}, ("cn-north-1", "https://lake.s3.cn-north-1.amazonaws.com.cn/")),
        ("my.lake", {"s3.region": "eu-west-1"}, ("eu-west-1", "https://s3.eu-west-1.amazonaws.com/my.lake/")),
        (
            "lake",
            {"s3.region": "eu-west-1", "s3.path-style-access": "true"},
            ("eu-west-1", "https://s3.eu-west-1.amazonaws.com/lake/"),
        ),
        ("lake", {"s3.endpoint": "http://minio:9000/"}, ("us-east-1", "http://minio:9000/lake/")),
        ("lake", {"s3.endpoint": "http://gate/s3"}, ("us-east-1", "http://gate/s3/lake/")),
        (
            "lake",
            {"s3.endpoint": "https://r2.example", "s3.path-style-access": "false", "s3.region": "auto"},
            ("auto", "https://lake.r2.example/"),
        ),
    ],
)
def test_addresses_equal_those_of_arrows_client(
    bucket: str, options: dict[str, str], expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    client = SignedBucket(bucket, StorageOptions.parse(options), Raising())
    with pytest.raises(Asked) as asked:
        client.whole("a b/x=1/ä+%2F&?#/../1", 10)
    assert asked.value.args == (expected[0], f"{expected[1]}a%20b/x%3D1/%C3%A4%2B%252F%26%3F%23/../1")


@pytest.mark.parametrize("host", ["169.254.169.254", "metadata.google.internal", "[fd00:ec2::254]"])
def test_no_request_is_sent_to_a_credential_service(host: str) -> None:
    with pytest.raises(lakescan.LocationRefused, match="hands out credentials"):
        SignedBucket("latest", StorageOptions.parse({"s3.endpoint": f"http://{host}"}), Raising())


class Answering:
    """A signer that gives the test's answer and counts requests."""

    identity = "somebody"

    def __init__(self, uri: str = URI, headers: dict[str, str] | None = None, *, kept: bool = True) -> None:
        self.uri, self.headers, self.kept, self.asked = uri, headers or {"Authorization": AUTHORIZATION}, kept, 0

    def sign(self, region: str, request: S3Request) -> Signature:
        self.asked += 1
        return Signature(self.uri, {**self.headers, **request.headers}, self.kept)


def target(uri: str, asked: str = URI) -> str:
    return Signatures(Answering(uri), "eu-west-1").sign_request(S3Request("GET", asked, {"x-own": "1"})).target


def test_an_address_may_be_encoded_in_another_way_and_have_a_signature_in_its_query() -> None:
    assert target(URI) == "/lake/a%20b/x%3D1/1.parquet"
    assert target(URI.replace("%3D", "=").replace("//s3", "//S3").replace(".com", ".com:443")) == (
        "/lake/a%20b/x=1/1.parquet"
    )
    assert target(f"{URI}?X-Amz-Signature=abc").endswith("?X-Amz-Signature=abc")
    assert target(f"{URI}?uploads=&X-Amz-Date=1", f"{URI}?uploads").endswith("?uploads=&X-Amz-Date=1")


@pytest.mark.parametrize(
    "uri",
    [
        URI.replace("https", "http"),
        URI.replace("eu-west-1", "eu-west-2"),
        URI.replace(".com", ".com:8443"),
        URI.replace("//", "//user@"),
        URI.replace("/lake/", "/pond/"),
        URI.replace("/1.parquet", "/2.parquet"),
        URI.replace("/1.parquet", "/%FF.parquet"),
        URI.replace("/lake/", "/lake/../lake/"),
        f"{URI}?versionId=7",
        f"{URI}#x",
        f"{URI}?X-Amz-Date=a b",
        f"{URI}?X-Amz-Date=a\r\nX: y",
        "https://s3.eu-west-1.amazonaws.com:x/lake",
        "",
        "/lake/a%20b/x%3D1/1.parquet",
    ],
)
def test_an_address_of_another_object_is_refused(uri: str) -> None:
    with pytest.raises(lakescan.LocationRefused, match="another address"):
        target(uri)


def test_only_headers_of_signatures_are_added() -> None:
    given = {"authorization": AUTHORIZATION, "X-Amz-Date": "d", "Cookie": "x", "Host": "elsewhere", "x-own": "changed"}
    sent = Signatures(Answering(headers=given), "r").sign_request(S3Request("GET", URI, {"x-own": "mine"})).headers
    assert sent == {"authorization": AUTHORIZATION, "x-amz-date": "d", "x-own": "mine"}
    with pytest.raises(lakescan.StorageError, match="the header x-own"):
        Signatures(Answering(headers={"Authorization": AUTHORIZATION}), "r").sign_request(S3Request("GET", URI))


def test_a_signature_is_reused_for_the_same_signed_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    signer = Answering()
    signatures = Signatures(signer, "r")

    def asked(method: str = "GET", uri: str = URI, *, fresh: bool = False, **headers: str) -> int:
        found = signatures.sign_request(S3Request(method, uri, {"x-own": "1", **headers}), fresh=fresh).headers
        assert found.get("range") == headers.get("range")
        return signer.asked

    assert [asked(range="bytes=0-1"), asked(range="bytes=2-3"), asked(), asked(range="bytes=-7")] == [1] * 4
    assert asked(fresh=True) == 2
    assert asked("HEAD") == 3
    assert asked(**{"x-own": "2"}) == 4
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 31)
    assert asked(**{"x-own": "2"}) == 5
    signer.kept = False
    assert [asked(fresh=True), asked(**{"x-own": "3"}), asked(**{"x-own": "3"})] == [6, 7, 8]


def test_delta_tables_are_not_committed_to_by_signed_requests() -> None:
    signed = {"s3.remote-signing-enabled": "true", "s3.region": "eu-west-1"}
    storage = Storage(io_properties=signed, vended=Credentials([Credential("", signed)], None, Raising()))
    with pytest.raises(lakescan.UnsupportedFeature, match="Signed requests only work for Iceberg tables"):
        put_if_absent(storage, "s3://lake/t/_delta_log/00000000000000000000.json", b"{}")
    assert storage.is_issued


def test_lists_of_keys_are_decoded() -> None:
    page = parse_xml(
        b"<ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><EncodingType>url</EncodingType>"
        b"<Contents><Key>a+b/%C3%A4%2B</Key><Size>7</Size><LastModified>2026-01-02T03:04:05.678Z</LastModified>"
        b"</Contents><CommonPrefixes><Prefix>c+d/</Prefix></CommonPrefixes></ListBucketResult>",
        "ListBucketResult",
    )
    (found,) = keys_in(page)
    assert (found.key, found.size, found.modified.isoformat()) == ("a b/ä+", 7, "2026-01-02T03:04:05+00:00")
    assert prefixes_in(page) == ["c d/"]


@pytest.mark.parametrize(
    "data", [b"", b"x", b"<a>", b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", b"<a" * 100_000, b"<html/>"]
)
def test_an_invalid_list_answer_is_an_error(data: bytes) -> None:
    with pytest.raises(OSError, match="the store's answer"):
        parse_xml(data, "a")


def test_a_list_with_invalid_sizes_is_an_error() -> None:
    wrong: Any = parse_xml(b"<L><Contents><Key>a</Key><Size>x</Size></Contents></L>", "L")
    with pytest.raises(OSError, match="list of keys"):
        keys_in(wrong)
