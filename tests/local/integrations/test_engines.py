"""Other engines read the rows that the scan itself reads, from tables with every kind of delete."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import MissingDependency
from tests.local.integrations.test_tasks import in_order


@pytest.mark.slow
def test_ray_reads_a_scan(table: lakescan.Table, ray_session: object) -> None:
    scan = table.scan().where("id >= 100")
    data = scan.to_ray()
    assert data.columns() == scan.schema.names
    rows = pa.concat_tables(ray_session.get(data.to_arrow_refs()))  # type: ignore[attr-defined]
    assert in_order(rows).equals(in_order(scan.to_arrow()))
    assert data.count() == scan.count()
    empty = table.scan().where("id < 0").to_ray()
    assert (empty.count(), empty.columns()) == (0, scan.schema.names)


def test_dask_reads_a_scan(table: lakescan.Table) -> None:
    pytest.importorskip("dask.dataframe")
    scan = table.scan().where("id >= 100")
    frame = scan.to_dask(parallelism=4)
    rows = pa.Table.from_pandas(frame.compute(scheduler="sync"), preserve_index=False)
    assert in_order(rows.cast(scan.schema)).equals(in_order(scan.to_arrow()))
    assert (frame.dtypes == frame.compute(scheduler="sync").dtypes).all()
    assert len(frame) == scan.count()
    assert frame["price"].sum().compute(scheduler="sync") == pytest.approx(
        pa.compute.sum(scan.to_arrow()["price"]).as_py()
    )
    assert len(table.scan().where("id < 0").to_dask()) == 0


def test_dask_reads_the_columns_that_a_query_needs(table: lakescan.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dask.dataframe")
    selected: list[list[str]] = []
    select = lakescan.ScanTask.select

    def selecting(task: lakescan.ScanTask, columns: list[str]) -> lakescan.ScanTask:
        selected.append(list(columns))
        return select(task, columns)

    monkeypatch.setattr(lakescan.ScanTask, "select", selecting)
    frame = table.scan().to_dask()
    found = frame[frame["id"] >= 350][["name"]].compute(scheduler="sync")
    assert len(found) == 50
    assert {frozenset(columns) for columns in selected} == {frozenset({"id", "name"})}


def test_daft_reads_a_scan(table: lakescan.Table) -> None:
    daft = pytest.importorskip("daft")
    scan = table.scan().where("id >= 100")
    frame = scan.to_daft()
    assert in_order(frame.to_arrow().cast(scan.schema)).equals(in_order(scan.to_arrow()))
    assert frame.count_rows() == scan.count()
    found = frame.where(daft.col("id") < 120).select("name").to_arrow()
    assert sorted(found["name"].to_pylist(), key=str) == sorted(
        scan.where("id < 120").select("name").to_arrow()["name"].to_pylist(), key=str
    )
    assert frame.select("price").limit(7).to_arrow().num_rows == 7
    assert table.scan().where("id < 0").to_daft().count_rows() == 0


def test_polars_scans_a_table_by_its_path_or_name(table: lakescan.Table) -> None:
    source = table.name or table.folder
    found = lakescan.polars.scan(source).filter(pl.col("id") >= 390).select("id", "tags").collect()
    expected = table.scan().where("id >= 390").select("id", "tags").to_arrow()
    assert in_order(found.to_arrow().cast(expected.schema)).equals(in_order(expected))


def test_duckdb_finds_a_lazy_relation_by_its_variable(table: lakescan.Table) -> None:
    orders = table.scan().to_duckdb(lazy=True)
    assert orders.columns == table.scan().schema.names
    by_name = duckdb.sql(
        "SELECT name, count(*) AS n FROM orders WHERE price > 5 AND id < 300 GROUP BY name ORDER BY name"
    )
    everything = table.scan().to_arrow()
    expected = duckdb.sql(
        "SELECT name, count(*) AS n FROM everything WHERE price > 5 AND id < 300 GROUP BY name ORDER BY name"
    )
    assert by_name.fetchall() == expected.fetchall()
    assert duckdb.sql("SELECT count(*) FROM orders").fetchall() == [(len(everything),)]


@pytest.mark.parametrize(
    "condition",
    [
        "price > 50",
        "price IS NULL",
        "name IN ('n1', 'n2')",
        "name = 'n1' OR price < 20",
        "place.zip >= 200",
        "place.city = 'c1' AND count IS NOT NULL",
        "\"at\" >= TIMESTAMPTZ '1970-01-01 00:05:00+00'",
        "len(tags) = 2",
        "name IS DISTINCT FROM 'n1'",
    ],
)
def test_duckdb_filters_a_lazy_relation_as_it_filters_rows(table: lakescan.Table, condition: str) -> None:
    rows = table.scan().to_arrow()
    lazy = table.scan().to_duckdb(lazy=True)
    of_rows = duckdb.sql(f"SELECT id, place, tags FROM rows WHERE {condition} ORDER BY id").fetchall()
    assert lazy.filter(condition).project("id, place, tags").order("id").fetchall() == of_rows
    assert rows.num_rows


@pytest.mark.parametrize("condition", ["x > 2", "x < 2", "x = 'nan'::DOUBLE", "x <> 1.5", "NOT (x > 2)", "x >= 'nan'"])
def test_nan_is_greater_than_all_numbers_in_a_lazy_relation(tmp_path: Path, condition: str) -> None:
    rows = pa.table({"x": [1.5, 2.5, float("nan"), None, -0.0]})
    lakescan.save(rows, tmp_path / "t", format="delta")
    lazy = lakescan.table(tmp_path / "t").scan().to_duckdb(lazy=True)
    of_rows = duckdb.sql(f"SELECT count(*) FROM rows WHERE {condition}").fetchall()
    assert lazy.filter(condition).aggregate("count(*)").fetchall() == of_rows


def test_a_lazy_relation_stays_at_the_state_that_the_table_had(tmp_path: Path) -> None:
    lakescan.save(pa.table({"x": [1]}), tmp_path / "t", format="delta")
    table = lakescan.table(tmp_path / "t")
    lazy = table.scan().to_duckdb(lazy=True)
    table.append(pa.table({"x": [2]}))
    assert lazy.fetchall() == [(1,)]
    assert table.scan().to_duckdb(lazy=True).aggregate("sum(x)").fetchall() == [(3,)]


def test_a_process_ends_cleanly_after_a_partially_read_lazy_relation(tmp_path: Path) -> None:
    for number in range(4):
        lakescan.save(pa.table({"x": range(number, 200_000)}), tmp_path / "t", format="delta", mode="append")
    code = (
        "import lakescan, sys, duckdb; r = lakescan.table(sys.argv[1]).scan().to_duckdb(lazy=True);"
        "print(len(r.limit(3).fetchall()), len(duckdb.sql('SELECT * FROM r WHERE x > 5 LIMIT 2').fetchall()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "t")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "3 2\n"), done.stderr


@pytest.mark.parametrize("library", ["ray", "dask", "daft"])
def test_an_engine_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    lakescan.save(pa.table({"x": [1]}), tmp_path / "t", format="delta")
    for name in (library, "ray.data", "dask.dataframe"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingDependency, match=rf"pip install 'lakescan\[{library}\]'"):
        getattr(lakescan.table(tmp_path / "t").scan(), f"to_{library}")()
