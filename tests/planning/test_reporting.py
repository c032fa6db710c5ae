"""Scan reports reach the registered reporters, in the form that Iceberg's REST catalogs accept."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from samples.delta_deletes import commit_vectors, stored_vector

import lakescan
from lakescan.expressions.sanitize import sanitize_literal
from lakescan.planning.metrics_reporters import InMemoryReporter, LoggingReporter
from lakescan.planning.scan_report import as_rest, expression
from tests.support.catalog import local_catalog

X, INT = sanitize_literal("x"), "(1-digit-int)"


def test_every_plan_is_reported(shop) -> None:
    reports = InMemoryReporter()
    scan = lakescan.table(shop.orders).scan().report_to(reports)
    plan = scan.where("price > 20").plan()
    scan.to_arrow()
    assert [r.filter for r in reports.reports] == ["price > 20.0", "true"]
    assert reports.reports[0] is plan.report


def test_a_report_is_one_line_of_the_rest_model(shop, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "lakescan.metrics"):
        lakescan.table(shop.orders).scan().where("quantity = 1").select("order_id").report_to(LoggingReporter()).plan()
    node = json.loads(caplog.records[0].message)
    assert node["filter"] == {"type": "eq", "term": "quantity", "value": "(1-digit-int)"}
    assert (node["projected-field-ids"], node["projected-field-names"]) == ([1], ["order_id"])
    assert node["metrics"]["result-data-files"]["value"] > 0
    assert node["metrics"]["total-planning-duration"]["time-unit"] == "nanoseconds"
    assert node["metrics"]["total-file-size-in-bytes"]["unit"] == "bytes"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a < 3 and not b >= 'x'", {"type": "and", "left": {"type": "lt", "term": "a", "value": "(1-digit-int)"},
                                    "right": {"type": "lt", "term": "b", "value": X}}),
        ("a in (1, 2) or b is null", {"type": "or", "left": {"type": "in", "term": "a", "values": [INT] * 2},
                                      "right": {"type": "is-null", "term": "b"}}),
        ("b like 'x%'", {"type": "starts-with", "term": "b", "value": X}),
        ("b not like 'x%'", {"type": "not-starts-with", "term": "b", "value": X}),
        ("b like '%x'", True),
        ("isnan(a)", {"type": "is-nan", "term": "a"}),
    ],
)  # fmt: skip
def test_expressions_have_icebergs_form(condition: str, expected: Any) -> None:
    from lakescan.expressions.sql import parse_filter

    assert expression(parse_filter(condition)) == expected


def test_a_report_survives_json(shop) -> None:
    report = lakescan.table(shop.orders).scan().where("ordered_at >= '2026-03-01'").plan().report
    assert json.loads(json.dumps(as_rest(report)))["snapshot-id"] == report.snapshot_id


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Make three files of ten numbers; a vector deletes rows 3 and 4 of the first."""
    folder = tmp_path / "numbers"
    for start in (0, 10, 20):
        write_deltalake(folder, pa.table({"n": list(range(start, start + 10))}), mode="append")
    first = next(p for p in DeltaTable(folder).file_uris() if 0 in pq_numbers(p))
    commit_vectors(folder, {first.rsplit("/", 1)[1]: stored_vector(folder, [3, 4])})
    return folder


def pq_numbers(path: str) -> list[int]:
    import pyarrow.parquet as pq

    return pq.read_table(path)["n"].to_pylist()


@pytest.mark.parametrize(
    ("condition", "rows"),
    [("true", 28), ("n >= 10", 20), ("n > 12", 17), ("n < 5", 3), ("n = 99", 0), ("n is null", 0)],
)
def test_a_count_equals_the_number_of_rows(numbers: Path, condition: str, rows: int) -> None:
    scan = lakescan.table(str(numbers)).scan().where(condition)
    assert scan.count() == scan.to_arrow().num_rows == rows
    assert scan.limit(5).count() == min(5, rows)


def test_a_count_reads_no_file_with_a_known_count(numbers: Path) -> None:
    for file in numbers.glob("*.parquet"):
        file.unlink()
    table = lakescan.table(str(numbers))
    assert table.scan().count() == 28
    assert table.scan().where("n >= 10").count() == 20
    with pytest.raises(lakescan.MissingFile):
        table.scan().where("n >= 15").count()


def test_a_count_of_an_iceberg_table_with_position_deletes_is_exact(shop) -> None:
    scan = lakescan.table(shop.orders).scan()
    assert scan.count() == scan.to_arrow().num_rows


def test_a_limit_reads_no_more_manifests_than_needed(tmp_path: Path) -> None:
    catalog = local_catalog(tmp_path)
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64())]))
    for start in range(40):
        table.append(pa.table({"id": [start]}))
    scan = lakescan.table(table.metadata_location).scan()
    assert scan.limit(1).to_arrow().num_rows == 1
    assert len(scan.limit(1).plan().table) == 1
    assert scan.limit(35).to_arrow().num_rows == 35
    assert scan.count() == 40


class Kept:
    """A reporter that keeps the JSON form of reports. `made` is a reporter that catalogs name."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def report(self, report: Any) -> None:
        self.bodies.append(as_rest(report))


made = Kept()


def of_catalog(tmp_path: Path, reporter: Any) -> lakescan.Table:
    name = f"reports_{tmp_path.name}"
    lake = lakescan.catalog(name, warehouse=str(tmp_path / "w"), metrics_reporter_impl=reporter)
    lake.create_namespace("d")
    table = lake.create_table("d.t", "ssn STRING, n BIGINT")
    table.append(pa.table({"ssn": ["078-05-1120", "x"], "n": pa.array([1, 2], pa.int64())}))
    return lakescan.table(f"{name}.d.t")


CONDITIONS = [
    "ssn = '078-05-1120'",
    "ssn in ('078-05-1120', 'x')",
    "ssn not in ('078-05-1120')",
    "ssn like '078-05-1120%'",
    "ssn not like '078-05-1120%'",
    "ssn like '%078-05-1120'",
    "upper(ssn) = '078-05-1120'",
    "ssn > '078-05-1120' or n = 1",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_reports_hold_no_literal(tmp_path: Path, condition: str, caplog: pytest.LogCaptureFixture) -> None:
    keep = Kept()
    with caplog.at_level(logging.INFO, logger="lakescan.metrics"):
        of_catalog(tmp_path, keep).scan().where(condition).report_to(
            lakescan.planning.metrics_reporters.LoggingReporter()
        ).to_arrow()
    assert "078-05" not in caplog.text
    assert keep.bodies
    assert "078-05" not in json.dumps(keep.bodies)


def test_a_report_names_the_table_the_engine_and_the_options(tmp_path: Path) -> None:
    keep = Kept()
    table = of_catalog(tmp_path, keep)
    table.scan().options(split_size="32m", where="ssn = 'secret'").to_arrow()
    body = keep.bodies[-1]
    assert body["table-name"] == f"reports_{tmp_path.name}.d.t"
    assert body["metadata"]["engine-name"] == "lakescan"
    assert body["metadata"]["engine-version"] == lakescan.__version__
    assert "split_size" in body["metadata"] or "split-size" in body["metadata"]
    assert "secret" not in json.dumps(body)


@pytest.mark.parametrize("given", ["object", "function", "name"])
def test_the_reporter_of_a_catalog_receives_scans_queries_and_commits(tmp_path: Path, given: str) -> None:
    keep = made if given == "name" else Kept()
    keep.bodies.clear()
    forms = {"object": keep, "function": keep.report, "name": "tests.planning.test_reporting:made"}
    table = of_catalog(tmp_path, forms[given])
    commit = keep.bodies.pop()
    assert (commit["operation"], commit["snapshot-id"]) == ("append", table.snapshot_id)
    assert commit["metrics"]["attempts"] == {"unit": "count", "value": 1}
    assert commit["metrics"]["added-records"] == {"unit": "count", "value": 2}
    assert commit["metrics"]["total-duration"]["count"] == 1
    for read in (
        lambda: table.scan().to_arrow(),
        lambda: table.scan().where("n = 1").count(),
        lambda: lakescan.sql(f"SELECT * FROM reports_{tmp_path.name}.d.t WHERE n > 1").to_arrow(),
        lambda: table.scan().to_polars(lazy=True).collect(),
    ):
        before = len(keep.bodies)
        read()
        assert len(keep.bodies) == before + 1
        assert keep.bodies[-1]["table-name"] == f"reports_{tmp_path.name}.d.t"
    table.delete("n = 1")
    assert keep.bodies[-1]["operation"] in ("delete", "overwrite")


def test_the_reporters_of_the_process_receive_the_reports_of_all_tables(shop, tmp_path: Path) -> None:
    keep = Kept()
    lakescan.planning.metrics_reporters.add_reporter(keep)
    lakescan.planning.metrics_reporters.add_reporter(keep.report)
    try:
        lakescan.table(shop.orders).scan().to_arrow()
        assert len(keep.bodies) == 2
        of_catalog(tmp_path, None)
        assert "operation" in keep.bodies[-1]
    finally:
        lakescan.planning.metrics_reporters.remove_reporter(keep)
        lakescan.planning.metrics_reporters.remove_reporter(keep.report)
    count = len(keep.bodies)
    lakescan.table(shop.orders).scan().to_arrow()
    assert len(keep.bodies) == count


def test_a_reporter_of_a_catalog_that_fails_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def failing(report: Any) -> None:
        raise OSError("the collector is down")

    assert of_catalog(tmp_path, failing).scan().to_arrow().num_rows == 2
    assert "the collector is down" in caplog.text


@pytest.mark.parametrize("given", ["nothing.here:x", "no colon", 5])
def test_an_invalid_reporter_is_refused(tmp_path: Path, given: Any) -> None:
    with pytest.raises(lakescan.errors.InvalidOption, match="metrics reporter"):
        of_catalog(tmp_path, given)
