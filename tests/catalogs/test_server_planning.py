"""Scans planned by the catalog's server have the same rows, files and deletes as scans planned locally."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan import limits
from lakescan.iceberg.scan.server_side_planning import server_filter
from tests.support.rest_server import Fault, Request, RestServer, rest_server

SERVER = {"scan_planning_mode": "server"}
FILTERS = (
    "id > 30",
    "id <= 5 OR id IN (7, 9, 41)",
    "id NOT IN (1, 2)",
    "id IN (NULL) OR id = 3",
    "id <> 3 AND day = '2026-01-02'",
    "day < '2026-01-03' AND name LIKE 'n1%'",
    "at >= '2026-01-03T00:00:00Z'",
    "x > 3 AND id < 20",
    "x = 'nan'",
    "d = 0.25",
    "name IS NULL",
    "name IS NOT NULL AND length(name) > 2",
    "id = x * 2",
    "nested.inner > 4",
    "id IS NULL",
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "rest") as (state, uri):
        state.config["defaults"] = {"uri": uri}
        yield state


@pytest.fixture
def lake(server: RestServer) -> lakescan.Catalog:
    found = lakescan.catalog("lake", type="rest", uri=server.config["defaults"]["uri"])
    found.create_namespace("db")
    return found


def rows(start: int, stop: int) -> pa.Table:
    ids = range(start, stop)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "day": [date(2026, 1, 1 + n % 4) for n in ids],
            "name": [None if n % 7 == 0 else f"n{n % 3}ab" for n in ids],
            "at": [datetime(2026, 1, 1 + n % 5, n % 24, tzinfo=UTC) for n in ids],
            "x": [float("nan") if n % 11 == 0 else n / 2 for n in ids],
            "d": pa.array([Decimal(n % 2) / 4 for n in ids], pa.decimal128(9, 2)),
            "nested": [{"inner": n % 6} for n in ids],
        }
    )


def read(scan: lakescan.Scan) -> str:
    """Return the rows in order, as text, so that NaN equals NaN."""
    return repr(scan.to_arrow().sort_by("id").to_pylist())


COLUMNS = "id BIGINT, day DATE, name STRING, at TIMESTAMP, x DOUBLE, d DECIMAL(9,2), nested STRUCT<inner: INT>"


def made(lake: lakescan.Catalog, version: int, partition_by: tuple[str, ...]) -> lakescan.Table:
    """Make a table with every kind of delete that its format version has."""
    properties = {"format-version": str(version)}
    if version > 1:
        properties |= {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
    table = lake.create_table("db.t", COLUMNS, partition_by=partition_by, properties=properties)
    for start in (0, 20, 40):
        table.append(rows(start, start + 20))
    table.delete("id IN (7, 8, 25)")
    if version > 1 and not partition_by:
        for start in (3, 30, 42):
            table.upsert(rows(start, start + 3), "id", upsert_mode="equality")
        table.append(rows(60, 70))
    table.delete("id = 41")
    return lake.load_table("db.t")


def paths(plan: lakescan.ScanPlan) -> list[list[str]]:
    """Return the data files of each task group."""
    return [sorted(task.path for task in group.tasks()) for group in plan.groups]


LAYOUTS = list(itertools.product((1, 2, 3), ((), ("day",), ("days(at)", "truncate(2, name)", "bucket(3, id)"))))


@pytest.mark.slow
@pytest.mark.parametrize(("version", "partition_by"), LAYOUTS)
def test_a_server_plan_has_the_rows_and_files_of_a_local_plan(
    lake: lakescan.Catalog, server: RestServer, version: int, partition_by: tuple[str, ...]
) -> None:
    table = made(lake, version, partition_by)
    for number, where in enumerate((None, *FILTERS)):
        server.page = number % 3
        scan = table.scan() if where is None else table.scan().where(where)
        served = scan.options(**SERVER)
        assert read(served) == read(scan), where
        one, other = served.plan(), scan.plan()
        assert set(one.table.state()) == set(other.table.state()), where
        assert sorted(paths(one)) == sorted(paths(other)), where
    assert server.sent("tables/t/plan")


def test_an_asynchronous_plan_is_waited_for(lake: lakescan.Catalog, server: RestServer) -> None:
    table = made(lake, 2, ())
    server.looks, server.page = 3, 2
    expected = read(table.scan())
    server.requests.clear()
    assert read(table.scan().options(**SERVER)) == expected
    assert len([each for each in server.requests if each.method == "GET" and "/plan/" in each.path]) == 3
    assert not [each for each in server.requests if each.method == "DELETE"]


def test_a_plan_that_takes_too_long_is_cancelled(lake: lakescan.Catalog, server: RestServer) -> None:
    table = made(lake, 2, ())
    server.looks = 10**6
    server.config["defaults"]["rest-scan-planning.poll-timeout-ms"] = "200"
    other = lakescan.catalog("other", type="rest", uri=server.config["defaults"]["uri"])
    assert table.count() > 0
    with pytest.raises(lakescan.StorageError, match=r"not planned the scan within 0\.2 s"):
        other.load_table("db.t").scan().options(**SERVER).to_arrow()
    assert [each for each in server.requests if each.method == "DELETE" and "/plan/" in each.path]


def test_a_plan_with_endless_plan_tasks_is_refused(
    lake: lakescan.Catalog, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, more = made(lake, 2, ()), itertools.count()
    server.of_plan = {"plan-tasks": ["first"]}

    def endless(request: Request) -> Any:
        return (200, {"plan-tasks": [f"task {next(more)}"]}) if request.path.endswith("/tasks") else None

    server.before = endless
    monkeypatch.setattr(limits, "PLAN_TASKS", 20)
    with pytest.raises(lakescan.LimitExceeded, match=r"more than 20 plan tasks.*lakescan\.limits\.PLAN_TASKS"):
        table.scan().options(**SERVER).to_arrow()


def test_the_unneeded_rest_of_a_plan_is_cancelled(lake: lakescan.Catalog, server: RestServer) -> None:
    table = made(lake, 2, ())
    server.page = 1
    parts = table.scan().options(**SERVER).spec._candidates(lakescan.ScanMetrics())
    next(iter(parts))
    del parts
    assert [each for each in server.requests if each.method == "DELETE" and "/plan/" in each.path]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ({"status": "failed", "error": {"message": "too hard", "type": "X", "code": 500}}, "StorageError", "too hard"),
        ({"status": "failed"}, "StorageError", "failed"),
        ({"status": "cancelled"}, "StorageError", "cancelled"),
        ({"status": "else"}, "CorruptMetadata", "'else'"),
        ({}, "CorruptMetadata", "None"),
        ([], "CorruptMetadata", r"POST http.*/tables/t/plan: the answer is not a JSON object"),
        ({"status": "failed", "error": "too hard"}, "StorageError", "failed: too hard"),
        ({"status": "completed", "file-scan-tasks": ""}, "CorruptMetadata", "file-scan-tasks is not a list"),
        ({"status": "completed", "file-scan-tasks": {}}, "CorruptMetadata", "file-scan-tasks is not a list"),
        ({"status": "completed", "delete-files": 0}, "CorruptMetadata", "delete-files is not a list"),
        ({"status": "completed", "plan-tasks": "ab"}, "CorruptMetadata", "plan tasks are not a list of strings"),
        ({"status": "completed", "plan-tasks": [None]}, "CorruptMetadata", "plan tasks are not a list of strings"),
        ({"status": "completed", "storage-credentials": [{}]}, "CorruptMetadata", "storage-credentials"),
        ({"status": "completed", "file-scan-tasks": [{}]}, "CorruptMetadata", "file scan tasks cannot be read"),
        (
            {"status": "completed", "file-scan-tasks": [{"data-file": {"spec-id": 7}}]},
            "CorruptMetadata",
            "partition spec 7",
        ),
    ],
)
def test_an_invalid_plan_answer_is_reported_as_such(
    lake: lakescan.Catalog, server: RestServer, answer: Any, error: str, message: str
) -> None:
    table = made(lake, 2, ())
    server.before = lambda request: (200, answer) if request.what.endswith("/plan") else None
    with pytest.raises(getattr(lakescan, error), match=message):
        table.scan().options(**SERVER).to_arrow()


@pytest.mark.parametrize("reference", [-1, 500])
def test_a_reference_to_a_missing_delete_file_is_an_error(
    lake: lakescan.Catalog, server: RestServer, reference: int
) -> None:
    table = made(lake, 2, ())
    planned = server._answered

    def wrong(request: Any) -> Any:
        if not request.what.endswith("/plan"):
            return None
        status, found = planned(request)
        found["file-scan-tasks"][0]["delete-file-references"] = [reference]
        return status, found

    server.before = wrong
    with pytest.raises(lakescan.CorruptMetadata, match="cannot be read"):
        table.scan().options(**SERVER).to_arrow()


def test_extra_files_of_the_server_are_pruned_and_rows_are_filtered_locally(
    lake: lakescan.Catalog, server: RestServer
) -> None:
    table = made(lake, 2, ())
    planned = server._answered

    def all_files(request: Any) -> Any:
        if not request.what.endswith("/plan"):
            return None
        request.body.pop("filter", None)
        status, found = planned(request)
        for task in found["file-scan-tasks"]:
            task["residual-filter"] = {"type": "true"}
        return status, found

    server.before = all_files
    scan = table.scan().where("id > 50")
    assert read(scan.options(**SERVER)) == read(scan)
    assert len(scan.options(**SERVER).plan().table) == len(scan.plan().table)


def test_only_predicates_with_the_same_meaning_in_the_specification_are_sent(
    lake: lakescan.Catalog, server: RestServer
) -> None:
    table = made(lake, 2, ())

    def sent(where: str) -> Any:
        spec = table.scan().where(where).spec
        return server_filter(spec.filter, spec.snapshot.schema)

    assert sent("id > 3") == {"type": "gt", "term": "id", "value": 3}
    assert sent("nested.inner = 3")["term"] == "nested.inner"
    assert sent("day = '2026-01-02'")["value"] == "2026-01-02"
    assert sent("at < '2026-01-02'")["value"] == "2026-01-02T00:00:00.000000+00:00"
    assert sent("d = 0.5")["value"] == "0.50"
    assert sent("name LIKE 'a%'") == {"type": "starts-with", "term": "name", "value": "a"}
    for where in (
        "id IN (NULL)",
        "id NOT IN (1, NULL)",
        "x > 3",
        "x = 'nan'",
        "name LIKE '%a'",
        "name NOT LIKE 'a%'",
        "id > 3 OR x > 3",
    ):
        assert sent(where) is None
    assert sent("id > 3 AND x > 3") == sent("id > 3")


def test_the_request_names_columns_and_their_statistics(lake: lakescan.Catalog, server: RestServer) -> None:
    table = made(lake, 2, ())
    table.scan().where("id > 3").select("name", "nested.inner").options(**SERVER).to_arrow()
    (sent,) = server.sent("tables/t/plan")
    assert sent.body["select"] == ["id", "name", "nested"]
    assert sent.body["stats-fields"] == ["id"]
    assert sent.body["snapshot-id"] == table.version
    assert not sent.body["use-snapshot-schema"]


def test_an_earlier_state_is_planned_with_its_own_columns(lake: lakescan.Catalog, server: RestServer) -> None:
    table = made(lake, 2, ())
    before = table.version
    table.alter().rename_column("name", "called").commit()
    table.append(rows(100, 101).rename_columns(["id", "day", "called", "at", "x", "d", "nested"]))
    old = lake.load_table("db.t", version_as_of=before).scan().where("name = 'n1ab'")
    assert read(old.options(**SERVER)) == read(old)
    assert server.sent("tables/t/plan")[-1].body["use-snapshot-schema"]


def test_the_catalog_decides_who_plans_and_readers_cannot_override_it(
    lake: lakescan.Catalog, server: RestServer
) -> None:
    table = made(lake, 2, ())
    table.to_arrow()
    assert not server.sent("tables/t/plan")
    server.table_config["scan-planning-mode"] = "server"
    lake.load_table("db.t").to_arrow()
    assert len(server.sent("tables/t/plan")) == 1
    with pytest.raises(lakescan.InvalidOption, match="demands 'server'"):
        lake.load_table("db.t").scan().options(scan_planning_mode="client").to_arrow()
    server.table_config["scan-planning-mode"] = "client"
    with pytest.raises(lakescan.InvalidOption, match="demands 'client'"):
        lake.load_table("db.t").scan().options(**SERVER).to_arrow()
    server.table_config.clear()
    mine = lakescan.catalog("mine", type="rest", uri=server.config["defaults"]["uri"], scan_planning_mode="server")
    mine = lakescan.catalog(
        {"name": "mine", "type": "rest", "uri": server.config["defaults"]["uri"], "scan-planning-mode": "server"}
    )
    mine.load_table("db.t").to_arrow()
    assert len(server.sent("tables/t/plan")) == 2


def test_a_server_without_planning_is_reported_as_such(
    lake: lakescan.Catalog, server: RestServer, tmp_path: Path
) -> None:
    table = made(lake, 2, ())
    server.endpoints = [each for each in server.endpoints or () if not each.endswith("/plan")]
    other = lakescan.catalog("other", type="rest", uri=server.config["defaults"]["uri"])
    with pytest.raises(lakescan.UnsupportedFeature, match=r"POST /v1/\{prefix\}/namespaces/\{namespace\}"):
        other.load_table("db.t").scan().options(**SERVER).to_arrow()
    embedded = lakescan.catalog("embedded", warehouse=tmp_path / "embedded")
    embedded.create_namespace("db")
    embedded.create_table("db.t", "id INT").append(pa.table({"id": pa.array([1], pa.int32())}))
    with pytest.raises(lakescan.UnsupportedFeature, match="Only catalogs of type rest"):
        embedded.load_table("db.t").scan().options(**SERVER).to_arrow()
    with pytest.raises(lakescan.UnsupportedFeature, match="opened by its location"):
        lakescan.table(table.folder).scan().options(**SERVER).to_arrow()


def test_row_lineage_is_refused_if_the_tasks_lack_it(lake: lakescan.Catalog) -> None:
    table = made(lake, 3, ())
    for column in ("_row_id", "_last_updated_sequence_number"):
        with pytest.raises(lakescan.UnsupportedFeature, match="row lineage"):
            table.scan().select("id", column).options(**SERVER).to_arrow()


def test_plan_tasks_are_fetched_by_other_processes(lake: lakescan.Catalog, server: RestServer) -> None:
    table = made(lake, 2, ())
    server.page = 1
    expected = read(table.scan())
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert read(table.scan().options(**SERVER).plan_with(pool)) == expected


def test_a_failed_plan_task_fails_the_scan(lake: lakescan.Catalog, server: RestServer) -> None:
    table = made(lake, 2, ())
    server.page = 1
    server.faults.append(Fault("tables/t/tasks", 500))
    with pytest.raises(lakescan.StorageError, match="as the test says"):
        table.scan().options(**SERVER).to_arrow()


@pytest.mark.parametrize("partition_by", [(), ("part",)])
def test_equality_deletes_of_many_upserts_are_distinguished_with_every_page_size(
    lake: lakescan.Catalog, server: RestServer, partition_by: tuple[str, ...]
) -> None:
    keys = ["id", "part"]
    table = lake.create_table(
        "db.t", "id BIGINT NOT NULL, part STRING NOT NULL, n BIGINT", primary_key=keys, partition_by=partition_by
    )
    upserts = ([1, 2, 3], [2, 3], [3, 4], [1, 4], [2], [5, 1], [3])
    for number, ids in enumerate(upserts):
        written = {"id": pa.array(ids, pa.int64()), "part": ["ab"[n % 2] for n in ids], "n": [number] * len(ids)}
        table.upsert(pa.table(written), upsert_mode="equality")
    scan = lake.load_table("db.t").scan()
    expected = read(scan)
    assert len(scan.plan().deletes) >= len(upserts) - 1
    assert scan.count() == 5
    for page in range(4):
        server.page = page
        assert read(scan.options(**SERVER)) == expected, page
