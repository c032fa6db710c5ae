"""The public API: handles that see their own writes, catalogs with pyiceberg's names, streams, lazy frames."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import lakescan


@pytest.fixture
def rows() -> pa.Table:
    number = 40
    return pa.table(
        {
            "id": range(number),
            "name": [f"n{i % 3}" for i in range(number)],
            "x": [None if i % 5 == 0 else float("nan") if i % 7 == 0 else i / 2 for i in range(number)],
            "day": [date(2026, 1, 1 + i % 28) for i in range(number)],
            "at": pa.array(
                [datetime(2026, 1, 1, i % 24, tzinfo=UTC) for i in range(number)], pa.timestamp("us", "UTC")
            ),
            "a.b": range(number),
            "small": pa.array([i / 10 for i in range(number)], pa.float32()),
            "exact": pa.array([Decimal(i) / 10 for i in range(number)], pa.decimal128(5, 2)),
        }
    )


@pytest.fixture(params=["delta", "iceberg"])
def table(request, tmp_path: Path, rows: pa.Table) -> lakescan.Table:
    if request.param == "delta":
        lakescan.save(rows, tmp_path / "t", format="delta")
        return lakescan.table(tmp_path / "t")
    catalog = lakescan.catalog("api", warehouse=tmp_path)
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", rows.schema)
    made.append(rows)
    return made


def test_a_table_sees_its_own_writes_and_scans_keep_their_state(table: lakescan.Table, rows: pa.Table) -> None:
    before, version = table.scan(), table.version
    table.append(rows)
    assert table.count() == 2 * len(rows)
    assert table.version != version
    assert table.version == table.snapshot_id == table.scan().snapshot.id
    assert before.count() == len(rows)
    table.overwrite(rows.slice(0, 3))
    assert table.to_arrow().num_rows == 3
    assert [b.num_rows for b in table.stream(wait=False, on_change="added-rows")]


def test_a_refreshed_table_sees_the_writes_of_others(table: lakescan.Table, rows: pa.Table) -> None:
    other = lakescan.table(str(table.name) if table.name else table.location)
    assert table.count() == len(rows)
    other.append(rows)
    assert table.count() == len(rows)
    assert table.refresh() is table
    assert table.count() == 2 * len(rows)
    assert table.version == other.version


def test_a_write_succeeds_even_if_its_table_cannot_be_reloaded(tmp_path: Path, monkeypatch) -> None:
    lakescan.save(pa.table({"id": [1]}), tmp_path / "t", format="delta")
    table = lakescan.table(tmp_path / "t")

    def fails(*_: object) -> None:
        raise lakescan.StorageError("the network is away")

    with monkeypatch.context() as patch:
        patch.setattr("lakescan.delta.table.DeltaTable.reopen", fails)
        assert table.append(pa.table({"id": [2]})).rows == 1
        with pytest.raises(lakescan.StorageError, match="network"):
            table.count()
    assert table.count() == 2


def test_a_table_object_does_not_continue_with_a_recreated_table(table: lakescan.Table, rows: pa.Table) -> None:
    table.append(rows)
    if table.format == "iceberg":
        catalog = lakescan.catalog("api")
        catalog.drop_table("db.t")
        catalog.create_table("db.t", rows.schema)
    else:
        shutil.rmtree(table.location)
        lakescan.save(rows, table.location, format="delta")
    with pytest.raises(lakescan.CommitConflict, match="recreated"):
        table.count()
    with pytest.raises(lakescan.CommitConflict, match="open it again"):
        table.append(rows)
    assert table.refresh().count() in (0, len(rows))  # asked for


def test_a_table_whose_columns_were_replaced_is_the_same_table(tmp_path: Path, rows: pa.Table) -> None:
    lakescan.save(rows, tmp_path / "t", format="delta")
    table = lakescan.table(tmp_path / "t")
    table.overwrite(pa.table({"other": [1]}), overwriteSchema=True)
    assert table.to_arrow().to_pydict() == {"other": [1]}


def test_filter_is_where(table: lakescan.Table) -> None:
    scan = table.scan()
    assert scan.filter("id > 30").to_arrow().equals(scan.where("id > 30").to_arrow())
    assert scan.filter(lakescan.col("id") > 30).count() == 9


def test_select_takes_names_and_lists(table: lakescan.Table) -> None:
    assert table.scan().select(["id", "name"]).schema.names == ["id", "name"]
    assert table.scan().select("id", ["name"], "day").schema.names == ["id", "name", "day"]


def test_tables_have_shortcuts_of_scans(table: lakescan.Table, rows: pa.Table) -> None:
    assert table.count() == len(rows)
    assert table.head(3).num_rows == 3
    assert table.to_arrow().num_rows == len(table.to_pandas()) == table.to_polars().height == len(rows)
    assert table.to_polars(lazy=True).collect().equals(table.to_polars())


def test_tables_scans_and_changes_are_arrow_streams(table: lakescan.Table, rows: pa.Table) -> None:
    assert pa.table(table).num_rows == len(rows)
    assert pl.DataFrame(table.scan().where("id < 5")).height == 5
    if table.format == "iceberg":
        assert pa.table(table.changes()).num_rows == len(table.changes().to_pandas()) == len(rows)


FILTERS = [
    pl.col("id") > 30,
    (pl.col("id") > 3) & (pl.col("name") == "n1"),
    (pl.col("id") > 3) | (pl.col("name") == "n1"),
    pl.col("id").is_in([1, 2]),
    pl.col("x").is_null(),
    pl.col("x").is_not_null() & (pl.col("x") >= 4.5),
    pl.col("x") < 3,
    pl.col("x") != 4.5,
    ~(pl.col("id") < 30),
    pl.col("day") >= date(2026, 1, 20),
    pl.col("at") < datetime(2026, 1, 1, 5, tzinfo=UTC),
    pl.col("a.b") == 7,
    pl.col("id") > 10.5,
    pl.col("id").cast(pl.String) == "7",
    pl.col("name").str.starts_with("n2"),
    pl.col("small") == 0.1,
    pl.col("exact") <= 0.3,
    pl.col("id") == float(2**53),
    pl.col("exact").cast(pl.Float64) > 0.25,
]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(FILTERS)))
def test_lazy_frames_have_the_rows_of_eager_frames(table: lakescan.Table, number: int) -> None:
    condition = FILTERS[number]
    lazy, whole = table.scan().to_polars(lazy=True), table.to_polars()
    found = lazy.filter(condition).select("name", "id").collect().sort("id")
    assert found.equals(whole.filter(condition).select("name", "id").sort("id"))
    assert lazy.filter(condition).head(2).collect().height == min(2, found.height)


def test_lazy_frames_push_columns_and_filters_down(table: lakescan.Table) -> None:
    reports: list[lakescan.ScanReport] = []

    class Reporter:
        def report(self, report: lakescan.ScanReport) -> None:
            reports.append(report)

    lazy = table.scan().report_to(Reporter()).to_polars(lazy=True)
    assert lazy.filter((pl.col("id") > 1000) & pl.col("name").str.contains("n")).select("id").collect().height == 0
    (report,) = reports
    assert report.metrics.result_data_files == 0


def test_catalogs_have_pyicebergs_names_and_the_old_ones_warn(tmp_path: Path) -> None:
    catalog = lakescan.catalog("names", warehouse=tmp_path)
    catalog.create_namespace("db")
    assert catalog.namespace_exists("db")
    assert not catalog.namespace_exists("other")
    made = catalog.create_table_if_not_exists("db.t", "id BIGINT")
    assert catalog.create_table_if_not_exists("db.t", "id BIGINT").version == made.version
    assert catalog.list_namespaces() == ["db"]
    assert catalog.list_tables("db") == ["db.t"]
    assert catalog.table_exists("db.t")
    assert catalog.load_table("db.t").format == "iceberg"


def test_saves_take_partitions_and_properties(tmp_path: Path, rows: pa.Table) -> None:
    lakescan.catalog("saves", warehouse=tmp_path).create_namespace("db")
    lakescan.save(rows, "saves.db.t", partition_by=["days(at)", "bucket(2, id)"], properties={"format-version": "3"})
    table = lakescan.table("saves.db.t")
    assert table.partitioning == "day(at), bucket(2, id)"
    assert "_row_id" in table.scan().select("_row_id").schema.names


def test_notebooks_show_tables_and_scans(table: lakescan.Table, tmp_path: Path) -> None:
    shown = table._repr_html_()
    assert "<td>id</td>" in shown
    assert str(table.version) in shown
    assert "id &gt; 7" in table.scan().where("id > 7")._repr_html_()
    assert "no column" in table.scan().select("<b>")._repr_html_().lower()
    assert "<b>nothing" not in table.scan().select("<b>nothing")._repr_html_()


def test_notebooks_show_plans(table: lakescan.Table) -> None:
    plan = table.scan().where("id > 7").select("id", "a.b").plan()
    shown = plan._repr_html_()
    assert shown == plan.report._repr_html_()
    assert f"<td>{plan.report.metrics.result_data_files:,} (" in shown
    assert "id &gt; 7" in shown
    assert "<i>" not in replace(plan.report, table="/lake/<i>&", filter="<i>")._repr_html_()


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'BatchStraem'"):
        _ = lakescan.BatchStraem
