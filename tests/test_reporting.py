"""Reports of plans reach those who ask for them, in the form that Iceberg's REST catalogs take."""

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
from lakescan.planning.rest_report import as_rest, expression
from lakescan.reporting import InMemoryReporter, LoggingReporter
from tests.support.catalog import local_catalog


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
    assert node["filter"] == {"type": "eq", "term": "quantity", "value": 1}
    assert (node["projected-field-ids"], node["projected-field-names"]) == ([1], ["order_id"])
    assert node["metrics"]["result-data-files"]["value"] > 0
    assert node["metrics"]["total-planning-duration"]["time-unit"] == "nanoseconds"
    assert node["metrics"]["total-file-size-in-bytes"]["unit"] == "bytes"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a < 3 and not b >= 'x'", {"type": "and", "left": {"type": "lt", "term": "a", "value": 3},
                                    "right": {"type": "lt", "term": "b", "value": "x"}}),
        ("a in (1, 2) or b is null", {"type": "or", "left": {"type": "in", "term": "a", "values": [1, 2]},
                                      "right": {"type": "is-null", "term": "b"}}),
        ("b like 'x%'", {"type": "starts-with", "term": "b", "value": "x"}),
        ("b not like 'x%'", {"type": "not-starts-with", "term": "b", "value": "x"}),
        ("b like '%x'", True),
        ("isnan(a)", {"type": "is-nan", "term": "a"}),
    ],
)  # fmt: skip
def test_expressions_are_icebergs(condition: str, expected: Any) -> None:
    from lakescan.expressions.sql import parse_filter

    assert expression(parse_filter(condition)) == expected


def test_a_report_survives_json(shop) -> None:
    report = lakescan.table(shop.orders).scan().where("ordered_at >= '2026-03-01'").plan().report
    assert json.loads(json.dumps(as_rest(report)))["snapshot-id"] == report.snapshot_id


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Three files of ten numbers; rows 3 and 4 of the first deleted by a vector."""
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
def test_a_count_is_that_of_the_rows(numbers: Path, condition: str, rows: int) -> None:
    scan = lakescan.table(str(numbers)).scan().where(condition)
    assert scan.count() == scan.to_arrow().num_rows == rows
    assert scan.limit(5).count() == min(5, rows)


def test_a_count_reads_no_file_of_which_it_is_known(numbers: Path) -> None:
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


def test_a_limit_needs_no_more_manifests_than_it_takes(tmp_path: Path) -> None:
    catalog = local_catalog(tmp_path)
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64())]))
    for start in range(40):
        table.append(pa.table({"id": [start]}))
    scan = lakescan.table(table.metadata_location).scan()
    assert scan.limit(1).to_arrow().num_rows == 1
    assert len(scan.limit(1).plan().table) == 1
    assert scan.limit(35).to_arrow().num_rows == 35
    assert scan.count() == 40
