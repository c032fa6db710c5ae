"""Requests to a REST catalog: idempotency keys, retries, tokens and signatures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import lakescan
from lakescan.catalogs import rest_session as rest_adapter
from tests.support.rest_server import Fault, RestServer, rest_server

COMMIT, TRANSACTION = "POST namespaces/db/tables/t", "POST transactions/commit"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "rest") as (state, uri):
        state.config["defaults"] = {"uri": uri}
        yield state


def connected(server: RestServer, **properties: Any) -> lakescan.Catalog:
    """Connect to a server that has the table `db.t`, and clear its record of requests."""
    uri = server.config["defaults"]["uri"]
    lake = lakescan.catalog({"name": "lake", "type": "rest", "uri": uri, **properties})
    lake.create_namespace("db")
    lake.create_table("db.t", "id BIGINT")
    server.requests.clear()
    return lake


def with_keys(server: RestServer) -> lakescan.Catalog:
    server.config["idempotency-key-lifetime"] = "PT30M"
    return connected(server)


def append(lake: lakescan.Catalog, number: int = 1) -> None:
    lake.load_table("db.t").append(pa.table({"id": [number]}))


def ids(lake: lakescan.Catalog) -> list[int]:
    return sorted(lake.load_table("db.t").to_arrow()["id"].to_pylist())


def keys(server: RestServer, what: str) -> list[str | None]:
    return [each.headers.get("idempotency-key") for each in server.sent(what)]


def test_each_change_has_its_own_idempotency_key_if_the_server_supports_keys(server: RestServer) -> None:
    lake = with_keys(server)
    append(lake)
    append(lake)
    with lake.transaction() as tx:
        tx.load_table("db.t").append(pa.table({"id": [1]}))
    found = [*keys(server, COMMIT), *keys(server, TRANSACTION)]
    assert len(set(found)) == len(found) == 3
    assert {UUID(each or "").version for each in found} == {7}
    assert not [each for each in server.requests if each.method == "GET" and "idempotency-key" in each.headers]


def test_a_server_that_does_not_declare_it_gets_no_keys(server: RestServer) -> None:
    append(connected(server))
    assert keys(server, COMMIT) == [None]


@pytest.mark.parametrize("answer", [[], "x", None, {"endpoints": 5}, {"endpoints": [[]]}], ids=str)
def test_an_invalid_configuration_answer_is_reported_with_the_request(server: RestServer, answer: Any) -> None:
    asked: list[bool] = []  # pyiceberg asks first

    def second(request: Any) -> Any:
        if request.what != "GET config":
            return None
        asked.append(True)
        return (200, answer) if len(asked) > 1 else None

    server.before = second
    lake = lakescan.catalog("lake", type="rest", uri=server.config["defaults"]["uri"])
    with pytest.raises(lakescan.CorruptMetadata, match=r"GET http://.*/v1/config"):
        lake.transaction()


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refused_connection_is_reported_as_such(server: RestServer, status: int) -> None:
    server.before = lambda request: (status, {"error": {"message": "not you", "type": "X", "code": status}})
    with pytest.raises(lakescan.StorageError, match=r"'lake'.* GET v1/config.*not you"):
        connected(server)


def test_an_unreadable_configuration_is_reported_as_such(server: RestServer) -> None:
    server.before = lambda request: (200, {"defaults": [1]})
    with pytest.raises(lakescan.CorruptMetadata, match="GET v1/config cannot be read: defaults: Input should") as found:
        connected(server)
    assert "For further information" not in str(found.value)


@pytest.mark.parametrize(
    "answer",
    [
        {"overrides": None},
        {"defaults": None},
        {"overrides": {"prefix": [5]}},
        {"overrides": {"uri": {"host": 7}}},
        {"overrides": {"namespace-separator": 5}},
        {"endpoints": [5]},
    ],
    ids=str,
)
def test_configuration_members_of_wrong_types_are_reported_as_such(server: RestServer, answer: dict[str, Any]) -> None:
    server.before = lambda request: (200, {"defaults": {}, "overrides": {}, **answer})
    with pytest.raises(lakescan.CorruptMetadata, match=r"'lake' cannot be opened.* GET v1/config cannot be read: "):
        connected(server)


def test_null_in_a_configuration_is_unset_and_a_number_is_text(server: RestServer) -> None:
    said = {"prefix": None, "uri": None, "s3.connect-timeout": 5, "rest-metrics-reporting-enabled": False}
    server.config["defaults"] |= {"warehouse": None}
    server.config["overrides"] = said
    assert connected(server).list_namespaces() == ["db"]


@pytest.mark.parametrize("status", [405, 412, 419, 422, 429, 501])
def test_a_refused_commit_changes_nothing_and_leaves_no_data_files(server: RestServer, status: int) -> None:
    lake = connected(server)
    before = _files(server)
    server.faults.append(Fault(COMMIT, status, times=20))
    with pytest.raises(lakescan.UnsupportedFeature, match="refused it, and nothing was changed"):
        append(lake)
    assert _files(server) == before


def test_a_table_without_a_metadata_file_is_reported_as_such(server: RestServer) -> None:
    lake = connected(server)
    server.of_table["metadata-location"] = None
    with pytest.raises(lakescan.CorruptMetadata, match=r"'lake' returned no 'metadata-location' for lake\.db\.t"):
        lake.load_table("db.t")


def _files(server: RestServer) -> set[Path]:
    return {each for each in server.folder.rglob("*") if each.is_file() and "rest.db" not in each.name}


CHANGES: dict[str, Callable[[lakescan.Table], Any]] = {
    "append": lambda table: table.append(pa.table({"id": [3]})),
    "delete": lambda table: table.delete("id = 1"),
    "alter": lambda table: table.alter().set_comment("x").commit(),
    "branch": lambda table: table.create_branch("b"),
    "tag": lambda table: table.create_tag("b"),
    "expire": lambda table: table.expire_snapshots(older_than="2100-01-01"),
    "statistics": lambda table: table.compute_statistics(),
}


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 401, 403])
@pytest.mark.parametrize("change", CHANGES)
def test_a_finally_refused_commit_is_not_retried(server: RestServer, status: int, change: str) -> None:
    lake = connected(server)
    append(lake, 1)
    append(lake, 2)
    table, kept = lake.load_table("db.t"), _files(server)
    server.requests.clear()
    server.faults.append(Fault(COMMIT, status, times=100))
    kinds = (lakescan.UnsupportedFeature, lakescan.StorageError)  # the latter: of a change of columns, as before
    with pytest.raises(kinds, match=r"db\.t.*as the test says"):
        CHANGES[change](table)
    assert len(server.sent(COMMIT)) <= 2  # repeated with another token
    assert _files(server) == kept
    assert ids(lake) == [1, 2]


def test_a_commit_that_lost_a_race_is_retried_whatever_error_the_server_uses(server: RestServer) -> None:
    lake = connected(server)
    late: list[bool] = []

    def too_late(request: Any) -> Any:
        if request.what != COMMIT or late:
            return None
        late.append(True)
        server.catalog.load_table("db.t").append(pa.table({"id": [1]}))
        return 400, {"error": {"message": "the sequence number is taken", "type": "X", "code": 400}}

    table = lake.load_table("db.t")
    server.before = too_late
    table.append(pa.table({"id": [2]}))
    assert ids(lake) == [1, 2]


def test_idempotency_keys_are_in_time_order() -> None:
    first = rest_adapter.uuid7()
    time.sleep(0.01)
    second = rest_adapter.uuid7()
    assert first < second
    assert (first.version, first.variant) == (7, UUID(int=0x8 << 60).variant)


@pytest.mark.parametrize("status", [500, 502, 504, None])
@pytest.mark.parametrize("is_done", [True, False])
def test_a_retried_change_with_a_key_has_one_effect(server: RestServer, status: int | None, is_done: bool) -> None:
    lake = with_keys(server)
    for what in (COMMIT, TRANSACTION):
        server.faults.append(Fault(what, status, is_done=is_done))
    append(lake)
    with lake.transaction() as tx:
        tx.load_table("db.t").append(pa.table({"id": [2]}))
    assert ids(lake) == [1, 2]
    for what in (COMMIT, TRANSACTION):
        first, second = keys(server, what)
        assert first == second is not None


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 408, 409, 410])
@pytest.mark.parametrize("knows_keys", [False, True])
def test_a_commit_that_was_made_and_then_refused_counts_as_made(
    server: RestServer, status: int, knows_keys: bool
) -> None:
    lake = (with_keys if knows_keys else connected)(server)
    server.faults.append(Fault(COMMIT, status, is_done=True))
    append(lake)
    assert ids(lake) == [1]


@pytest.mark.parametrize("status", [400, 403, 404, 410])
def test_a_commit_that_may_still_arrive_keeps_its_files_even_if_its_retry_is_refused(
    server: RestServer, status: int
) -> None:
    lake = with_keys(server)
    append(lake, 1)
    before = _files(server)
    server.faults += [Fault(COMMIT, 504), Fault(COMMIT, status)]
    with pytest.raises(lakescan.CommitStateUnknown, match="files are kept"):
        append(lake, 2)
    assert _files(server) > before
    assert ids(lake) == [1]


@pytest.mark.parametrize("status", [429, 503])
def test_a_rejected_request_is_retried_when_the_server_asks_for_it(
    server: RestServer, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = connected(server)
    waits: list[float] = []
    monkeypatch.setattr(rest_adapter.time, "sleep", waits.append)
    for asked in ("7", formatdate(time.time() + 20, usegmt=True), "some day"):
        server.faults.append(Fault(COMMIT, status, headers={"Retry-After": asked}))
    append(lake)
    assert ids(lake) == [1]
    assert len(server.sent(COMMIT)) == 4
    seconds = [round(each) for each in waits if each > 5]
    assert seconds[0] == 7
    assert 17 <= seconds[1] <= 20


def test_a_too_long_wait_is_left_to_the_caller(server: RestServer) -> None:
    lake = connected(server)
    server.faults.append(Fault(COMMIT, 503, headers={"Retry-After": "3600"}))
    with pytest.raises(lakescan.CommitStateUnknown):
        append(lake)
    assert len(server.sent(COMMIT)) == 1
    assert ids(lake) == []


@pytest.mark.parametrize("status", [502, 503, 504, None])
def test_reads_are_retried(server: RestServer, status: int | None) -> None:
    lake = connected(server)
    server.faults.append(Fault("GET namespaces/db/tables/t", status, times=2))
    assert ids(lake) == []


def test_a_change_without_a_key_is_looked_up_instead_of_retried(server: RestServer) -> None:
    lake = connected(server)
    server.faults.append(Fault(COMMIT, 504, is_done=True))
    append(lake)
    assert len(server.sent(COMMIT)) == 1
    assert ids(lake) == [1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_token_that_has_expired_is_renewed(server: RestServer) -> None:
    server.token = "first"
    lake = connected(server, credential="me:secret")
    assert not server.sent("oauth/tokens")
    server.token = "second"
    append(lake)
    server.token = "third"
    tx = lake.transaction()
    tx.load_table("db.t").append(pa.table({"id": [2]}))
    server.token = "fourth"
    tx.commit()
    assert ids(lake) == [1, 2]
    assert {each.body["client_id"][0] for each in server.sent("oauth/tokens")} == {"me"}
    assert server.sent(TRANSACTION)[-1].headers["authorization"] == "Bearer fourth"
    server.token = "fifth"
    table = lake.load_table("db.t")
    server.token = "sixth"
    assert len(table.scan().options(scan_planning_mode="server").to_arrow()) == 2


def test_requests_are_signed(server: RestServer) -> None:
    server.config["idempotency-key-lifetime"] = "PT30M"
    signing = {"rest.sigv4-enabled": "true", "rest.signing-region": "us-east-1", "rest.signing-name": "glue"}
    lake = connected(server, **signing, **{"client.access-key-id": "KEY", "client.secret-access-key": "SECRET"})
    server.faults.append(Fault(TRANSACTION, 503))
    with lake.transaction() as tx:
        tx.load_table("db.t").append(pa.table({"id": [2]}))
    for each in server.requests:
        assert each.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=KEY/")
        assert "/us-east-1/glue/" in each.headers["authorization"]
    first, second = server.sent(TRANSACTION)
    assert "idempotency-key" in first.headers["authorization"]
    assert first.headers.keys() == second.headers.keys()


def test_scan_reports_are_sent_to_the_catalog_and_a_lost_report_fails_no_scan(
    server: RestServer, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    lake = connected(server)
    append(lake)
    scan = lake.load_table("db.t").scan().where("id > 0").report_to(lake.reporter("db.t"))
    assert len(scan.to_arrow()) == 1
    (sent,) = server.sent("tables/t/metrics")
    assert (sent.body["report-type"], sent.body["table-name"]) == ("scan-report", "lake.db.t")
    assert sent.body["filter"] == {"type": "gt", "term": "id", "value": "(1-digit-int)"}
    assert sent.body["metrics"]["result-data-files"] == {"unit": "count", "value": 1}
    server.faults.append(Fault("tables/t/metrics", 500))
    assert len(scan.to_arrow()) == 1
    assert "refused a report" in caplog.text
    with pytest.raises(lakescan.UnsupportedFeature, match="reports of scans"):
        lakescan.catalog("embedded", warehouse=tmp_path / "embedded").reporter("db.t")


def test_new_schemas_include_the_last_column_id_for_older_servers(server: RestServer) -> None:
    lake = connected(server)
    lake.load_table("db.t").alter().add_column("inner", "STRUCT<a: ARRAY<INT>>").add_column("gone", "INT").commit()
    lake.load_table("db.t").alter().drop_column("gone").commit()
    bodies = [each.body for each in server.sent(COMMIT)]
    added = [update for body in bodies for update in body["updates"] if update["action"] == "add-schema"]
    assert [each["last-column-id"] for each in added] == [5, 5]  # the id of a dropped column is not given again


def test_operations_without_an_endpoint_are_refused_by_name(server: RestServer) -> None:
    lake = connected(server)
    with pytest.raises(lakescan.UnsupportedFeature, match=r"'lake' on lake\.db\.t.*POST /v1/\{prefix\}/tables/rename"):
        lake.rename_table("db.t", "db.u")
    assert lake.list_tables("db") == ["db.t"]
