"""Integers held as floats, as pandas does next to nulls: exact ones are stored, rounded ones refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import InvalidOption, QueryFailed, SchemaMismatch

BIG = 2**53 + 1
ROUNDED = pd.DataFrame({"id": [float(BIG), None]})
EXACT = pd.DataFrame({"id": [float(2**53 - 1), None]})


@pytest.fixture(params=["iceberg", "delta"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lakescan.Table:
    lake = lakescan.catalog("local", warehouse=str(tmp_path / "lake"))
    lake.create_namespace("db")
    lakescan.sql(f"CREATE TABLE local.db.t (id BIGINT, n ARRAY<BIGINT>, s STRUCT<a: BIGINT>) USING {request.param}")
    return lakescan.table("local.db.t")


def sql(text: str, frame: Any) -> Any:
    return lakescan.sql(text, frame=frame)


WRITES: dict[str, Any] = {
    "append": lambda table, frame: table.append(frame),
    "overwrite": lambda table, frame: table.overwrite(frame),
    "INSERT": lambda _, frame: sql("INSERT INTO local.db.t (id) SELECT id FROM frame", frame),
    "INSERT BY NAME": lambda _, frame: sql("INSERT INTO local.db.t BY NAME SELECT * FROM frame", frame),
    "MERGE": lambda _, frame: sql(
        "MERGE INTO local.db.t t USING frame s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)", frame
    ),
    "a member of a struct": lambda _, frame: sql(
        "INSERT INTO local.db.t SELECT NULL, NULL, named_struct('a', CAST(max(id) AS BIGINT)) FROM frame", frame
    ),
}


@pytest.mark.parametrize("way", [way for way in WRITES if way != "a member of a struct"])
def test_floats_that_may_be_rounded_integers_are_refused(table: lakescan.Table, way: str) -> None:
    with pytest.raises((SchemaMismatch, QueryFailed), match="rounded"):
        WRITES[way](table, ROUNDED)
    assert lakescan.table("local.db.t").count() == 0


@pytest.mark.parametrize("way", WRITES)
def test_floats_of_exact_integers_are_stored(table: lakescan.Table, way: str) -> None:
    WRITES[way](table, EXACT)
    stored = lakescan.table("local.db.t").to_arrow().to_pylist()
    assert 2**53 - 1 in [value for row in stored for value in (row["id"], (row["s"] or {}).get("a"))]


def test_an_upsert_refuses_a_key_that_may_be_rounded(table: lakescan.Table) -> None:
    with pytest.raises(SchemaMismatch, match="would store as another value"):
        table.upsert(ROUNDED.dropna(), ["id"])


def test_polars_floats_are_refused_alike(table: lakescan.Table) -> None:
    with pytest.raises(QueryFailed, match="rounded"):
        sql("INSERT INTO local.db.t (id) SELECT id FROM frame", pl.DataFrame({"id": [float(BIG)]}))


def test_floats_of_32_bits_are_exact_up_to_24_bits(table: lakescan.Table) -> None:
    for value, fits in ((2**24 - 1, True), (2**24, False)):
        frame = pd.DataFrame({"id": pd.Series([value], dtype="float32")})
        if fits:
            table.append(frame)
        else:
            with pytest.raises(SchemaMismatch, match="16,777,216"):
                table.append(frame)


def test_an_explicit_cast_is_accepted(table: lakescan.Table) -> None:
    sql("INSERT INTO local.db.t (id) SELECT CAST(id AS BIGINT) FROM frame", ROUNDED)
    assert sorted(lakescan.table("local.db.t").to_arrow()["id"].to_pylist(), key=str) == [2**53, None]


def test_statements_without_frames_store_doubles_as_spark_does(table: lakescan.Table) -> None:
    lakescan.sql("INSERT INTO local.db.t (id) VALUES (CAST(1e18 AS DOUBLE))")
    assert table.refresh().to_arrow()["id"].to_pylist() == [10**18]


@pytest.mark.parametrize("backend", ["pyarrow", "numpy_nullable"])
def test_nullable_types_of_pandas_bring_integers_back_exactly(table: lakescan.Table, backend: Any) -> None:
    rows = pa.table({"id": pa.array([BIG, None]), "n": pa.array([[BIG, None], None]), "s": [{"a": BIG}, None]})
    table.append(rows)
    table = lakescan.table("local.db.t")
    query = lakescan.sql("SELECT * FROM local.db.t")
    for frame in (table.to_pandas(backend), table.scan().to_pandas(dtype_backend=backend), query.to_pandas(backend)):
        table.overwrite(frame)
        assert sorted(map(str, table.refresh().to_arrow().to_pylist())) == sorted(map(str, rows.to_pylist()))


@pytest.mark.parametrize("backend", ["pyarrow", "numpy_nullable"])
def test_changes_support_the_same_pandas_types(table: lakescan.Table, backend: Any) -> None:
    if table.format == "delta":
        lakescan.sql("ALTER TABLE local.db.t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    table = lakescan.table("local.db.t")
    start = table.version if table.format == "delta" else None
    table.append(pa.table({"id": pa.array([BIG, None])}))
    changes = lakescan.table("local.db.t").changes(start=start).to_pandas(backend)
    assert changes["id"].dropna().tolist() == [BIG]


def test_an_unknown_pandas_backend_is_refused(table: lakescan.Table) -> None:
    with pytest.raises(InvalidOption, match="Did you mean 'numpy_nullable'"):
        table.to_pandas("nullable")  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="types_mapper"):
        table.to_pandas("pyarrow", types_mapper=pd.ArrowDtype)
