"""A text literal in a filter means the same on every path and in both formats: the column's type decides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "dt": [date(2020, 2, 28), date(2020, 2, 29), date(2020, 3, 1)],
        "ts": pa.array([datetime(2020, 2, 29, 12, 0, 0, n, tzinfo=UTC) for n in range(3)], pa.timestamp("us", "UTC")),
        "price": pa.array([0.1, 0.5, 1.5]),
        "ok": [True, False, None],
    }
)
CASES = {
    "dt = '2020-02-29 12:00:00'": [2],
    "dt < '2020-02-29 12:00:00'": [1],
    "dt >= '2020-02-29 12:00:00'": [2, 3],
    "dt in (' 2020-2-29 ', '2020-03')": [2, 3],
    "dt not in ('2020-02-29T12:00')": [1, 3],
    "dt between '2020-02-28 23:00' and '2020-2-29'": [1, 2],
    "dt <=> '2020-02-29 12:00:00'": [2],
    "ts = '2020-02-29 12:00:00.0000019'": [2],
    "ts < '2020-02-29 12:00:00.0000019'": [1],
    "ts > '2020-02-29 13:00:00.000001 Europe/Paris'": [3],
    "id = ' 2 '": [2],
    "price >= '5e-1'": [2, 3],
    "ok = 't'": [1],
    "dt < '2020-02-29 12:00:00' or year(dt) = 2030": [1],
    "case when dt < '2020-02-29 12:00:00' then true else false end": [1],
}


@pytest.fixture(params=["iceberg", "delta"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> lakescan.Table:
    lake = lakescan.catalog(f"literals_{request.param}", warehouse=str(tmp_path))
    lake.create_namespace("db")
    made = lake.create_table("db.t", ROWS.schema, format=request.param)
    made.append(ROWS)
    return made


def left(table: lakescan.Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def ids(result: pa.Table) -> list[int]:
    return sorted(result["id"].to_pylist())


PATHS: dict[str, Callable[[lakescan.Table, str], list[int]]] = {
    "where": lambda table, text: ids(table.scan().where(text).to_arrow()),
    "option where": lambda table, text: ids(table.scan().options(where=text).to_arrow()),
    "polars": lambda table, text: sorted(table.scan().where(text).to_polars()["id"].to_list()),
    "count": lambda table, text: [1] * table.scan().where(text).count(),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("text", CASES)
def test_reads_keep_the_rows_that_spark_keeps(table: lakescan.Table, text: str, path: str) -> None:
    found = PATHS[path](table, text)
    assert found == ([1] * len(CASES[text]) if path == "count" else CASES[text])


@pytest.mark.parametrize("text", [text for text in CASES if "case when" not in text])
def test_a_delete_removes_the_rows_that_spark_removes(table: lakescan.Table, text: str) -> None:
    table.delete(text)
    assert left(table) == [each for each in (1, 2, 3) if each not in CASES[text]]


def test_a_text_that_is_invalid_for_the_type_is_refused_and_nothing_is_deleted(table: lakescan.Table) -> None:
    for text in ("id = '5.5'", "dt > '2020-02-30'", "ok = 'on'", "ts < '2020-02-29 12:'"):
        with pytest.raises(lakescan.InvalidFilter, match="cannot be compared with"):
            table.scan().where(text).to_arrow()
        with pytest.raises(lakescan.LakescanError):
            table.delete(text)
    assert left(table) == [1, 2, 3]


@pytest.mark.parametrize("text", CASES)
def test_sql_statements_have_the_same_meaning_in_process(table: lakescan.Table, text: str) -> None:
    found = lakescan.sql(f"SELECT id FROM {table.name} WHERE {text}").to_arrow()
    assert ids(found) == CASES[text]
    lakescan.sql(f"DELETE FROM {table.name} WHERE {text}")
    assert left(table) == [each for each in (1, 2, 3) if each not in CASES[text]]
