"""Rows from pandas, Polars and DuckDB are written as they are, or refused by name."""

from __future__ import annotations

from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakescan


def saved(data: Any, path: Path) -> list[dict[str, Any]]:
    """Save rows as a new Delta table and return the rows read back."""
    lakescan.save(data, path / "t", format="delta")
    return lakescan.table(path / "t").scan().to_arrow().to_pylist()


FRAME = pd.DataFrame({"id": [1, 2], "v": [1.5, 2.5]})


def test_an_index_with_a_name_is_a_column(tmp_path: Path) -> None:
    assert saved(FRAME.groupby("id").sum(), tmp_path) == FRAME.to_dict("records")
    lakescan.table(tmp_path / "t").append(FRAME.set_index("id"))
    assert lakescan.table(tmp_path / "t").scan().count() == 4
    assert not lakescan.table(tmp_path / "t").scan().where("id is null").count()


def test_each_level_of_an_index_is_a_column(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 1], "b": ["x", "y"], "v": [True, False]})
    assert saved(frame.set_index(["a", "b"]), tmp_path) == frame.to_dict("records")


@pytest.mark.parametrize(
    "frame",
    [FRAME, FRAME.iloc[1:], FRAME.sort_values("id", ascending=False), pd.concat([FRAME, FRAME]), FRAME.iloc[:0]],
)
def test_a_default_index_is_left_out(frame: pd.DataFrame, tmp_path: Path) -> None:
    assert saved(frame, tmp_path) == frame.to_dict("records")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (FRAME.set_index("id", drop=False), "the name 'id' occurs twice"),
        (FRAME.set_index(pd.Index(["a", "b"])), "values of type object, and no name"),
        (FRAME.set_index(pd.DatetimeIndex(["2026-01-01", "2026-01-02"])), "no name: name it"),
        (FRAME.set_index(pd.MultiIndex.from_tuples([(1, 2), (3, 4)])), "several levels"),
        (FRAME.set_index(pd.MultiIndex.from_tuples([(1, 2), (3, 4)], names=["a", None])), "name all of them"),
        (pd.DataFrame({("a", "b"): [1]}), "the columns have several levels"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Duplicate column names"),
        (pd.DataFrame({"v": [1, "a"]}), "cannot be converted to Arrow"),
        (pd.DataFrame({"v": [1j]}), "cannot be converted to Arrow"),
        (pd.DataFrame({"v": pd.arrays.SparseArray([0, 1])}), "cannot be converted to Arrow"),
    ],
)
def test_frames_that_cannot_be_kept_are_refused(frame: pd.DataFrame, message: str, tmp_path: Path) -> None:
    with pytest.raises(lakescan.SchemaMismatch, match=message):
        lakescan.save(frame, tmp_path / "t", format="delta")
    assert not (tmp_path / "t").exists()


PANDAS = {
    "times of nanoseconds": (
        pd.Series(pd.to_datetime(["2026-01-01 00:00:00.000001", None])),
        datetime(2026, 1, 1, microsecond=1),
    ),
    "times with a zone": (
        pd.Series(pd.to_datetime(["2026-01-01T00:00+02:00", None]).tz_convert("Europe/Berlin")),
        datetime(2025, 12, 31, 22, tzinfo=UTC),
    ),
    "categories": (pd.Series(["a", None], dtype="category"), "a"),
    "whole numbers": (pd.Series([1, None], dtype="Int64"), 1),
    "decimals": (pd.Series([Decimal("1.50"), None]), Decimal("1.50")),
    "lists": (pd.Series([np.array([1, 2]), None]), [1, 2]),
    "texts": (pd.Series(["a", None], dtype="string[pyarrow]"), "a"),
    "truths": (pd.Series([True, None], dtype="boolean"), True),
}


@pytest.mark.parametrize("name", PANDAS)
def test_columns_of_pandas_are_kept(name: str, tmp_path: Path) -> None:
    column, first = PANDAS[name]
    assert saved(pd.DataFrame({"c": column}), tmp_path) == [{"c": first}, {"c": None}]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([pd.Timedelta(1)]),
        pd.Series(pd.period_range("2026", periods=1, freq="D")),
        pd.cut(pd.Series([1, 2]), 2),
    ],
    ids=["duration", "period", "interval"],
)
def test_columns_of_pandas_that_tables_cannot_hold_are_refused(column: pd.Series, tmp_path: Path) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="column 'c' of Arrow type"):
        lakescan.save(pd.DataFrame({"c": column}), tmp_path / "t", format="delta")


def test_whole_numbers_that_pandas_made_doubles_fit_whole_numbers(tmp_path: Path) -> None:
    table = tmp_path / "t"
    lakescan.save(pa.table({"i": [1], "n": [[2]]}), table, format="delta")
    lakescan.table(table).append(pd.DataFrame({"i": [3, None], "n": [[4.0], None]}))
    assert lakescan.table(table).scan().to_arrow().sort_by("i").to_pylist() == [
        {"i": 1, "n": [2]},
        {"i": 3, "n": [4]},
        {"i": None, "n": None},
    ]
    rounded, unfit = "'i' holds integers, .* which may be a rounded value", "'i' is long, and a value does not fit"
    for wrong, problem in (([1.5], unfit), ([2.0**63], rounded), ([float("inf")], f"{unfit}|{rounded}")):
        with pytest.raises(lakescan.SchemaMismatch, match=problem):
            lakescan.table(table).append(pd.DataFrame({"i": wrong}))
    with pytest.raises(lakescan.SchemaMismatch, match="'i' is long in the table and double in the rows"):
        lakescan.table(table).append(pa.table({"i": [1.0]}))


POLARS = {
    "categories": pl.Series(["a", None], dtype=pl.Categorical),
    "enums": pl.Series(["a", None], dtype=pl.Enum(["b", "a"])),
    "lists of categories": pl.Series([["a", None], None], dtype=pl.List(pl.Categorical)),
    "structs of enums": pl.Series([{"e": "a"}, None], dtype=pl.Struct({"e": pl.Enum(["b", "a"])})),
    "arrays": pl.Series([[1, None], None], dtype=pl.Array(pl.Int8, 2)),
    "arrays of arrays": pl.Series([[["a"], None], None], dtype=pl.Array(pl.Array(pl.String, 1), 2)),
    "texts": pl.Series(["a" * 30, None]),
    "binaries": pl.Series([b"a" * 30, None]),
    "decimals": pl.Series([Decimal("1.50"), None]),
    "unsigned": pl.Series([2**64 - 1, None], dtype=pl.UInt64),
}


@pytest.mark.parametrize("name", POLARS)
def test_columns_of_polars_are_kept(name: str, tmp_path: Path) -> None:
    column = POLARS[name]
    assert saved(pl.DataFrame({"c": column}), tmp_path) == [{"c": value} for value in column.to_list()]
    lakescan.table(tmp_path / "t").append(pl.LazyFrame({"c": column}))
    assert lakescan.table(tmp_path / "t").scan().count() == 4


@pytest.mark.parametrize(
    ("column", "path"),
    [
        (pl.Series([object()], dtype=pl.Object), "c"),
        (pl.Series([1], dtype=pl.Int128), "c"),
        (pl.Series([[{"x": 1}]], dtype=pl.List(pl.Struct({"x": pl.UInt128}))), r"c\.element\.x"),
    ],
)
def test_columns_of_polars_that_arrow_lacks_are_refused(column: pl.Series, path: str, tmp_path: Path) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match=f"column '{path}' of Polars type"):
        lakescan.save(pl.DataFrame({"c": column}), tmp_path / "t", format="delta")


DUCKDB = {
    "'a'::ENUM('b', 'a')": "a",
    "12::HUGEINT": Decimal(12),
    "18446744073709551615::UBIGINT": Decimal(2**64 - 1),
    "'b5f8f1b0-6b0a-4b1e-8f0e-0d0c5f3e8a11'::UUID": "b5f8f1b0-6b0a-4b1e-8f0e-0d0c5f3e8a11",
    "[1, NULL]::INT[2]": [1, None],
    "MAP {'a': [1]}": [("a", [1])],
    "{'x': 'a'::ENUM('a')}": {"x": "a"},
    "1.5::DECIMAL(38, 2)": Decimal("1.50"),
    "TIMESTAMP_NS '2026-01-01 00:00:00.000001'": datetime(2026, 1, 1, microsecond=1),
    "TIMESTAMPTZ '2026-01-01 00:00:00+02'": datetime(2025, 12, 31, 22, tzinfo=UTC),
    "'{}'::JSON": "{}",
}


@pytest.mark.parametrize("value", DUCKDB)
def test_values_of_duckdb_are_kept(value: str, tmp_path: Path) -> None:
    assert saved(duckdb.sql(f"SELECT {value} AS c"), tmp_path) == [{"c": DUCKDB[value]}]


@pytest.mark.parametrize(
    "value",
    [
        "1::UHUGEINT",
        "'12:00:00+02'::TIMETZ",
        "'101'::BIT",
        "INTERVAL 1 DAY",
        "union_value(a := 1)",
        "1::BIGNUM",
        "1::VARIANT",
        "[{'x': MAP {'k': '101'::BIT}}]",
        "TIME '12:00:00'",
    ],
)
def test_values_of_duckdb_that_tables_cannot_hold_are_refused(value: str, tmp_path: Path) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="column 'c"):
        lakescan.save(duckdb.sql(f"SELECT {value} AS c"), tmp_path / "t", format="delta")


def test_integers_of_duckdb_of_39_digits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(lakescan.SchemaMismatch, match="more digits"):
        lakescan.save(duckdb.sql(f"SELECT {2**127 - 1}::HUGEINT AS c"), tmp_path / "t", format="delta")


def test_sums_of_duckdb_fit_whole_numbers(tmp_path: Path) -> None:
    lakescan.save(pa.table({"i": [1]}), tmp_path / "t", format="delta")
    lakescan.table(tmp_path / "t").append(duckdb.sql("SELECT sum(x) AS i FROM (VALUES (1), (2)) AS v(x)"))
    assert sorted(lakescan.table(tmp_path / "t").scan().to_arrow()["i"].to_pylist()) == [1, 3]


def test_times_of_day_are_supported_only_by_iceberg(local: lakescan.Catalog) -> None:
    lakescan.save(duckdb.sql("SELECT TIME '12:00:00.000001' AS c"), "local.db.t")
    assert lakescan.table("local.db.t").scan().to_arrow()["c"].to_pylist() == [time(12, microsecond=1)]


@pytest.mark.parametrize("data", [[1], "rows", pd.Series([1]), pl.Series([1]), pa.array([1]), {"a": [1]}])
def test_objects_that_are_not_tables_are_refused(data: Any, tmp_path: Path) -> None:
    with pytest.raises(lakescan.InvalidOption, match="holds no rows to save"):
        lakescan.save(data, tmp_path / "t", format="delta")
