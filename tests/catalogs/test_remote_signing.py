"""Tables whose catalog signs each S3 request: they work as other tables do, and the signer's answers are checked."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.storage import Storage
from tests.support.faulty_s3 import LOST, OBEYED, REFUSED
from tests.support.rest_server import TABLE, Fault, RestServer, rest_server
from tests.support.s3 import KEY, REGION, SECRET
from tests.support.signing import SignedS3, Signer, signed_s3


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[str, SignedS3]]:
    with signed_s3("lake") as found:
        yield found


@pytest.fixture
def s3(bucket: tuple[str, SignedS3], monkeypatch: pytest.MonkeyPatch) -> SignedS3:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    bucket[1].requests.clear()
    return bucket[1]


@pytest.fixture
def server(tmp_path: Path, bucket: tuple[str, SignedS3], s3: SignedS3) -> Iterator[RestServer]:
    own = {"s3.endpoint": s3.behind, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.region": REGION}
    with rest_server(tmp_path / "rest", {**own, "warehouse": f"s3://lake/{tmp_path.name}"}) as (state, uri):
        state.config["defaults"] = {"uri": uri, "s3.endpoint": bucket[0], "s3.region": REGION}
        state.table_config = {"s3.remote-signing-enabled": "true"}
        state.signer = Signer()
        yield state


@pytest.fixture
def lake(server: RestServer) -> lakescan.Catalog:
    found = lakescan.catalog("lake", type="rest", uri=server.config["defaults"]["uri"])
    found.create_namespace("db")
    return found


@pytest.fixture
def table(lake: lakescan.Catalog) -> lakescan.Table:
    made = lake.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"])
    made.append(rows(0, 1, 2))
    return made


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids, "part": ["ab"[each % 2] for each in ids]})


def ids(table: lakescan.Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def make_old(bucket: str) -> None:
    """Date all objects of moto's bucket one week back."""
    from datetime import timedelta

    from moto.s3.models import s3_backends

    for backend in s3_backends.values():
        for each in backend["aws"].buckets[bucket].keys.values():
            each.last_modified -= timedelta(days=7)


def storage_of(table: lakescan.Table) -> Storage:
    found = table.scan().spec.storage
    assert isinstance(found, Storage)
    return found


def home_of(table: lakescan.Table) -> str:
    path: str = table.scan().plan().files["path"][0].as_py()
    return path.partition("/data/")[0]


def signer_of(server: RestServer) -> Signer:
    assert isinstance(server.signer, Signer)
    return server.signer


@pytest.mark.parametrize("has_endpoint", [False, True])
def test_a_table_is_created_read_and_written_by_signed_requests(
    lake: lakescan.Catalog, server: RestServer, has_endpoint: bool
) -> None:
    if has_endpoint:
        server.endpoints = [*(server.endpoints or ()), f"POST {TABLE}/sign"]
        lake = lakescan.catalog("newer", type="rest", uri=server.config["defaults"]["uri"])
    table = lake.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"])
    table.append(rows(0, 1, 2, 3))
    first = table.refresh().snapshot_id
    table.append(rows(4, 5))
    table = table.refresh()
    assert sorted(table.scan().where("part = 'a'").to_arrow()["id"].to_pylist()) == [0, 2, 4]
    assert sorted(table.scan().where("id > 3").to_arrow()["id"].to_pylist()) == [4, 5]
    assert ids(lakescan.table(str(table.name), snapshot_id=first)) == [0, 1, 2, 3]
    table.delete("id = 0")
    table.update({"id": "id + 100"}, where="id = 1")
    table.upsert(rows(5, 6), keys="id")
    table.merge(rows(2, 7), on="t.id = s.id").when_matched_delete().when_not_matched_insert_all().execute()
    assert ids(lakescan.table(str(table.name))) == [3, 4, 5, 6, 7, 101]
    asked = signer_of(server).asked
    assert len(server.sent("tables/t/sign" if has_endpoint else "aws/s3/sign")) == len(asked) > 0
    assert {each["uri"].partition("?")[0].rpartition("/lake/")[0] for each in asked} == {
        server.config["defaults"]["s3.endpoint"]
    }


def test_a_query_result_is_written_by_signed_requests(lake: lakescan.Catalog, server: RestServer) -> None:
    lake.create_table("db.made", "id INT").append(pa.table({"id": pa.array([1], pa.int32())}))
    lakescan.sql("CREATE OR REPLACE TABLE lake.db.made AS SELECT 2 AS id")
    assert ids(lake.load_table("db.made")) == [2]
    with lake.transaction() as tx:
        tx.load_table("db.made").append(pa.table({"id": pa.array([3], pa.int32())}))
    assert ids(lake.load_table("db.made")) == [2, 3]
    assert signer_of(server).asked


def test_a_query_result_is_staged_by_signed_requests(lake: lakescan.Catalog, server: RestServer) -> None:
    server.of_table["remote-signing-config"] = {"properties": {"a": "b"}}
    lakescan.sql("CREATE TABLE lake.db.made AS SELECT 1 AS id")
    assert "PUT" in {each["method"] for each in signer_of(server).asked}
    assert all(each["properties"] == {"a": "b"} for each in signer_of(server).asked)
    assert ids(lake.load_table("db.made")) == [1]


def test_maintenance_lists_and_removes_by_signed_requests(
    lake: lakescan.Catalog, table: lakescan.Table, server: RestServer, s3: SignedS3
) -> None:
    for each in range(3, 9):
        table.append(rows(each))
    table = table.refresh()
    storage, home = storage_of(table), home_of(table)
    table.compact()
    before = len(list(storage.walk(f"{home}/data")))
    table.refresh().expire_snapshots(retain_last=1, older_than="2100-01-01", clean_expired_files=True)
    assert len(list(storage.walk(f"{home}/data"))) == before - 8 == 2
    orphans = [f"{home}/data/of nobody {number} +%&<>é.parquet" for number in range(25)]
    for each in orphans:
        with storage.writing(each) as file:
            file.write(b"of nobody")
    make_old("lake")
    s3.requests.clear()
    assert sorted(table.refresh().remove_orphans()) == sorted(orphans)
    assert s3.requests["post"] == 1
    assert s3.requests["delete"] == 1  # the file that recorded the store's clock
    assert not any(map(storage.exists, orphans))
    assert ids(table.refresh()) == list(range(9))


def test_files_that_bulk_requests_leave_are_removed_one_by_one(
    table: lakescan.Table, server: RestServer, s3: SignedS3
) -> None:
    storage, home = storage_of(table.refresh()), home_of(table.refresh())
    files = [f"{home}/data/{number}" for number in range(25)]
    for each in files:
        with storage.writing(each) as file:
            file.write(b"of nobody")
    sign = signer_of(server)

    def no_bulk(wanted: dict[str, Any]) -> dict[str, Any]:
        if wanted["method"] == "POST":
            assert files[0].rpartition("/")[2] in wanted["body"]
            raise ValueError("no bulk requests")
        return sign(wanted)

    server.signer = no_bulk
    assert storage.remove(files) == []
    assert not any(map(storage.exists, files))
    assert s3.requests["delete"] == 25


def test_large_files_are_sent_in_parts_and_read_by_ranges(
    table: lakescan.Table, s3: SignedS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, location = storage_of(table.refresh()), f"{home_of(table.refresh())}/data/large"
    data = bytes(range(256)) * 80_000  # 20 MB: two parts and a remainder
    for fault, at in ((None, -1), (LOST, 0), (LOST, 4), (OBEYED, 0), (OBEYED, 4)):  # of 5: begin, 3 parts, complete
        with s3.armed(fault or "", at), storage.writing(location) as file:
            for start in range(0, len(data), 3_000_000):
                file.write(data[start : start + 3_000_000])
        assert fault is None or s3.has_met
        assert storage.read(location, 8 * 2**20 - 5, 10) == data[8 * 2**20 - 5 :][:10]
        assert storage.read(location) == data
    with storage.open(location) as file:
        assert [file.read_at(7, at) for at in (0, 19_999_999, len(data) - 3)] == [
            data[:7],
            data[19_999_999:][:7],
            data[-3:],
        ]
    with storage.writing(f"{location}.empty") as file:
        pass
    with storage.open(f"{location}.empty") as file:
        assert file.read() == b""


@pytest.mark.parametrize("fault", [REFUSED, OBEYED, LOST])
def test_a_failed_request_is_retried(table: lakescan.Table, s3: SignedS3, fault: str) -> None:
    for at in range(3):
        with s3.armed(fault, at):
            table.append(rows(10 + at))
            assert ids(table.refresh())[3:] == list(range(10, 11 + at))
            assert s3.has_met


@pytest.mark.parametrize("status", [None, 503, 500, 429])
def test_a_failed_signing_is_retried(table: lakescan.Table, server: RestServer, status: int | None) -> None:
    server.faults.append(fault := Fault("aws/s3/sign", status, times=2))
    assert ids(table.refresh()) == [0, 1, 2]
    assert fault.times == 0


def test_a_refusal_of_the_signer_is_reported_with_the_request(
    lake: lakescan.Catalog, table: lakescan.Table, server: RestServer
) -> None:
    server.faults.append(Fault("aws/s3/sign", 403, times=99))
    with pytest.raises(
        lakescan.StorageError, match=r"'lake' does not sign GET http.*/lake/.* for db\.t: as the test says"
    ):
        ids(lake.load_table("db.t"))


def test_an_unsigned_write_fails_and_leaves_the_table_unchanged(
    lake: lakescan.Catalog, table: lakescan.Table, server: RestServer
) -> None:
    sign = signer_of(server)

    def refusing(wanted: dict[str, Any]) -> dict[str, Any]:
        if wanted["method"] in ("PUT", "POST"):
            raise ValueError("nothing is written")
        return sign(wanted)

    storage, large = storage_of(table.refresh()), f"{home_of(table.refresh())}/data/large"
    server.signer = refusing
    with pytest.raises(lakescan.StorageError, match=r"does not sign PUT .*nothing is written"):
        table.append(rows(7))
    refused = pytest.raises(lakescan.StorageError, match=r"does not sign POST .*nothing is written")
    with refused, storage.writing(large) as file:
        file.write(b"x" * 20_000_000)
    server.signer = sign
    assert not storage.exists(large)
    assert ids(lake.load_table("db.t")) == [0, 1, 2]


def test_a_token_that_has_expired_is_renewed(server: RestServer) -> None:
    server.token = "first"
    uri = server.config["defaults"]["uri"]
    found = lakescan.catalog("lake", type="rest", uri=uri, credential="id:secret")
    found.create_namespace("db")
    table = found.create_table("db.t", "id BIGINT, part STRING")
    table.append(rows(0, 1))
    table = table.refresh()
    server.token = "second"
    assert ids(table) == [0, 1]
    assert {each.headers["authorization"] for each in server.sent("/sign")} == {"Bearer first", "Bearer second"}


@pytest.mark.parametrize(
    "change",
    [
        {"uri": "http://169.254.169.254/latest/meta-data"},
        {"uri": "http://elsewhere.example/lake/x"},
        {"uri": "x"},
        {"uri": 5},
        {"uri": "http://127.0.0.1:1/lake"},
        {"headers": "x"},
        {"headers": {"Authorization": ["a\r\nX: y"]}},
        {"headers": {"Authorization": ["AWS4-HMAC-SHA256 Credential=a, SignedHeaders=host;cookie, Signature=b"]}},
    ],
)
def test_an_answer_about_another_request_is_an_error(
    table: lakescan.Table, server: RestServer, s3: SignedS3, change: dict[str, Any]
) -> None:
    table = table.refresh()
    s3.requests.clear()
    signer_of(server).change = change
    with pytest.raises(lakescan.StorageError, match=r"sign"):
        ids(table)
    assert not s3.requests


@pytest.mark.parametrize("config", [5, [], {"properties": 5, "headers": 5}, {"headers": {"X": [5]}}])
def test_an_invalid_configuration_is_ignored(
    lake: lakescan.Catalog, table: lakescan.Table, server: RestServer, config: Any
) -> None:
    server.of_table["remote-signing-config"] = config
    assert ids(lake.load_table("db.t")) == [0, 1, 2]


def test_cached_states_are_not_shared_with_other_credentials(
    lake: lakescan.Catalog, table: lakescan.Table, server: RestServer
) -> None:
    uri = server.config["defaults"]["uri"]
    other = lakescan.catalog("other", type="rest", uri=uri, **{"header.X-User": "another"})
    one, same, another = (storage_of(each.load_table("db.t")).identity for each in (lake, lake, other))
    assert one == same != another


@pytest.mark.parametrize("name", ["signer.uri", "s3.signer.uri"])
def test_another_server_gets_no_token_unless_the_reader_names_it(
    lake: lakescan.Catalog, table: lakescan.Table, server: RestServer, name: str
) -> None:
    uri = server.config["defaults"]["uri"]
    other = uri.replace("127.0.0.1", "localhost")
    server.table_config |= {name: other}
    with pytest.raises(lakescan.LocationRefused, match=r"another server would get the catalog's token"):
        lake.load_table("db.t")
    assert ids(lakescan.catalog("trusting", type="rest", uri=uri, **{name: other}).load_table("db.t")) == [0, 1, 2]


def test_the_headers_that_the_catalog_requests_are_sent(lake: lakescan.Catalog, server: RestServer) -> None:
    server.of_table["remote-signing-config"] = {"properties": {"a": "b"}, "headers": {"X-Own": ["c"]}}
    table = lake.create_table("db.t", "id BIGINT, part STRING")
    table.append(rows(1))
    assert ids(lake.load_table("db.t")) == [1]
    assert {each.headers["x-own"] for each in server.sent("/sign")} == {"c"}
    assert all(each["properties"] == {"a": "b"} for each in signer_of(server).asked)


def test_signatures_are_cached_if_the_catalog_allows_it(
    lake: lakescan.Catalog, table: lakescan.Table, server: RestServer
) -> None:
    def asked() -> int:
        storage = storage_of(lake.load_table("db.t"))
        signer_of(server).asked.clear()
        with storage.writing(location := "s3://lake/kept") as file:
            file.write(b"x" * 200_000)
        for at in (0, 7, 70_000):
            assert storage.read(location, at, 100) == b"x" * 100
        assert storage.read(location) == b"x" * 200_000
        return len(signer_of(server).asked)

    assert asked() == 2  # a PUT and a GET
    server.of_signatures = {"Cache-Control": "no-cache"}
    uncached = asked()
    assert uncached == 1 + 3 * 2 + 1  # a PUT, three times the end of the file and what is before it, all of it
    server.of_signatures = {"Cache-Control": "private"}
    signer_of(server).unsigned = set()  # and now each range is signed
    assert asked() == uncached


def place_of(server: RestServer) -> dict[str, str]:
    """Return the store's endpoint and region. A client with its own keys ignores the endpoint that the server sends."""
    return {"s3.endpoint": server.config["defaults"]["s3.endpoint"], "s3.region": REGION}


def test_a_scan_sends_no_more_requests_than_with_keys(
    lake: lakescan.Catalog, table: lakescan.Table, server: RestServer, s3: SignedS3
) -> None:
    large = pa.table({"id": range(300_000), "part": ["a"] * 300_000})
    table.append(large)
    keys = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET, **place_of(server)}
    keyed = lakescan.catalog("keyed", type="rest", uri=server.config["defaults"]["uri"], **keys)
    s3.checks, counts = False, dict[str, int]()
    try:
        for catalog in (lake, keyed):
            s3.requests.clear()
            signer_of(server).asked.clear()
            assert catalog.load_table("db.t").scan().to_arrow().num_rows == 300_003
            counts[catalog.name] = sum(s3.requests.values())
            if catalog is lake:
                assert len(signer_of(server).asked) <= counts["lake"]
    finally:
        s3.checks = True
    assert counts["lake"] <= counts["keyed"]


def test_workers_sign_for_themselves(table: lakescan.Table, server: RestServer) -> None:
    storage = storage_of(table.refresh())
    path = table.refresh().scan().plan().files["path"][0].as_py()
    assert pickle.loads(pickle.dumps(storage)).identity == storage.identity
    server.requests.clear()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(size_of, storage, path).result() > 0
    assert server.sent("/sign")


def size_of(storage: Storage, path: str) -> int:
    return len(storage.read(path))


def test_keys_of_the_reader_take_precedence(table: lakescan.Table, server: RestServer, s3: SignedS3) -> None:
    keys = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET, **place_of(server)}
    uri = server.config["defaults"]["uri"]
    signer_of(server).asked.clear()
    s3.checks = False  # pyarrow's client signs headers that this server does not support
    try:
        assert ids(lakescan.catalog("keyed", type="rest", uri=uri, **keys).load_table("db.t")) == [0, 1, 2]
        assert ids(lakescan.table("lake.db.t", storage_options=keys)) == [0, 1, 2]
    finally:
        s3.checks = True
    assert not signer_of(server).asked


def test_no_text_shows_secrets(
    lake: lakescan.Catalog, table: lakescan.Table, server: RestServer, s3: SignedS3, caplog: Any
) -> None:
    with caplog.at_level(logging.DEBUG, "lakescan"):
        scan = lake.load_table("db.t").scan()
        scan.to_arrow()
        storage = scan.spec.storage
        shown = [repr(each) for each in (scan, scan.spec, storage, storage.vended, storage.vended.signer, scan.plan())]
        shown += [str(scan.explain())]
        with s3.armed(REFUSED, 0, lasting=True), pytest.raises(lakescan.StorageError) as failure:
            ids(lake.load_table("db.t"))
    shown += [str(failure.value), repr(failure.value.__cause__), caplog.text]
    assert "503" in str(failure.value)
    for text in shown:
        assert SECRET not in text
        assert "Signature=" not in text
        assert KEY not in text


def test_a_missing_file_and_bucket_are_reported(table: lakescan.Table) -> None:
    storage = storage_of(table.refresh())
    with pytest.raises(lakescan.MissingFile):
        storage.read("s3://lake/nothing here")
    with pytest.raises(lakescan.MissingFile), storage.open("s3://lake/nothing here"):
        pass
    assert not storage.exists("s3://lake/nothing here")
    assert list(storage.list("s3://lake/nothing here")) == []
    with pytest.raises(lakescan.StorageError, match="bucket or container does not exist"):
        storage.read("s3://no-bucket/x")


def test_without_a_signer_signed_requests_are_refused_by_name() -> None:
    for asked in ({"s3.remote-signing-enabled": "true"}, {"s3.signer": "S3V4RestSigner"}):
        with pytest.raises(lakescan.UnsupportedFeature, match="requests that a catalog signs"):
            Storage(io_properties={**asked, "s3.region": REGION}).resolve("s3://lake/1")
        with_keys = {**asked, "s3.region": REGION, "s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
        assert Storage(io_properties=with_keys).resolve("s3://lake/1")[1] == "lake/1"


@pytest.mark.spark
def test_workers_of_spark_read_and_append(table: lakescan.Table, server: RestServer, spark: Any) -> None:
    import lakescan.spark

    lakescan.spark.register(spark)
    table.append(spark.range(10, 13).selectExpr("id", "'c' AS part"))
    frame = spark.read.format("iceberg").load("lake.db.t")
    assert sorted(row["id"] for row in frame.collect()) == [0, 1, 2, 10, 11, 12]
