"""A plan in parts equals the whole plan, with memory bounded by one part; options select the statistics to keep."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakescan
import lakescan.api.scan
from lakescan.planning.metrics_reporters import InMemoryReporter
from tests.support.catalog import local_catalog


@pytest.fixture
def table(tmp_path: Path) -> lakescan.Table:
    """Make an Iceberg table of six files in as many manifests, ten numbers each."""
    made = local_catalog(tmp_path).create_table("n.t", pa.schema({"n": pa.int64(), "s": pa.string()}))
    for start in range(0, 60, 10):
        made.append(pa.table({"n": range(start, start + 10), "s": [f"text {i}" for i in range(start, start + 10)]}))
    return lakescan.table(made.metadata_location)


def paths(*plans: lakescan.ScanPlan) -> list[str]:
    return [path for plan in plans for path in plan.files["path"].to_pylist()]


def test_parts_have_every_file_once(table: lakescan.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakescan.tables.scan_spec._PART_FILES", 2)
    monkeypatch.setattr("lakescan.iceberg.manifests.manifest_reader._BATCH_MANIFESTS", 1)
    reports = InMemoryReporter()
    scan = table.scan().where("n >= 20").report_to(reports)
    parts = list(scan.plan_parts())
    assert [len(part.table) for part in parts] == [2, 2, 0]  # the last one reports the skipped files
    whole = scan.plan()
    assert sorted(paths(*parts)) == sorted(paths(whole))
    in_parts, at_once = reports.reports
    assert in_parts.records == at_once.records == 40
    assert in_parts.skipped_by_stats == at_once.skipped_by_stats == 2
    assert in_parts.metrics.total_data_manifests == at_once.metrics.total_data_manifests == 6
    assert sorted(scan.to_arrow()["n"].to_pylist()) == list(range(20, 60))


def test_closing_the_parts_reports_the_planned_files(table: lakescan.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakescan.tables.scan_spec._PART_FILES", 1)
    monkeypatch.setattr("lakescan.iceberg.manifests.manifest_reader._BATCH_MANIFESTS", 1)
    reports = InMemoryReporter()
    parts = table.scan().report_to(reports).plan_parts()
    next(parts)
    parts.close()
    assert [report.metrics.result_data_files for report in reports.reports] == [1]


def test_a_table_without_files_has_one_part_without_any(tmp_path: Path) -> None:
    made = local_catalog(tmp_path).create_table("n.t", pa.schema({"n": pa.int64()}))
    scan = lakescan.table(made.metadata_location).scan()
    assert [len(plan.table) for plan in scan.plan_parts()] == [0]
    assert scan.to_arrow().num_rows == 0


def test_deletes_of_parts_keep_their_files(shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakescan.tables.scan_spec._PART_FILES", 1)
    monkeypatch.setattr("lakescan.iceberg.manifests.manifest_reader._BATCH_MANIFESTS", 1)
    scan = lakescan.table(shop.orders).scan()
    parts = list(scan.plan_parts())
    assert len(parts) > 1
    assert scan.to_arrow().num_rows == lakescan.table(shop.orders).scan().count()


def test_residuals_are_omitted_if_the_engine_filters(table: lakescan.Table) -> None:
    scan = table.scan().where("n = 25")
    assert scan.to_arrow()["n"].to_pylist() == [25]
    assert sorted(scan.ignore_residuals().to_arrow()["n"].to_pylist()) == list(range(20, 30))


def test_statistics_of_the_filter_and_requested_columns_are_kept(table: lakescan.Table) -> None:
    assert table.scan().plan().column_stats.num_columns == 0
    assert table.scan().where("n < 10").plan().column_stats.column_names == ["n"]
    kept = table.scan().where("n < 10").include_column_stats("s").plan().column_stats
    assert kept["n"].to_pylist() == [{"lower": 0, "upper": 9, "null_count": 0, "nan_count": None, "value_count": 10}]
    assert kept["s"][0]["lower"].as_py() == "text 0"
    assert table.scan().include_column_stats().plan().column_stats.column_names == ["n", "s"]
    assert table.scan().options(**{"include-column-stats": "true"}).plan().column_stats.column_names == ["n", "s"]


def test_statistics_of_delta_tables_are_kept_too(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"n": [1, 2], "s": ["a", None]}))
    kept = lakescan.table(tmp_path / "t").scan().include_column_stats().plan().column_stats
    assert kept["s"].to_pylist() == [{"lower": "a", "upper": "a", "null_count": 1, "nan_count": None, "value_count": 2}]


def test_a_plan_reports_how_many_readers_it_can_use(table: lakescan.Table) -> None:
    scan = table.scan().options(split_size=1, file_open_cost=1)
    assert scan.plan().parallelism == len(scan.plan().groups) > 3
    assert scan.limit(2).plan().parallelism <= 2


def test_locality_is_refused_with_the_reason(table: lakescan.Table) -> None:
    table.scan().options(locality="false")
    with pytest.raises(lakescan.UnsupportedFeature, match="hosts"):
        table.scan().options(locality="true")
