"""ORC stripes are skipped by the statistics in the file's footer, but only if these exclude every row."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.iceberg_deletes import commit_deletes, local, write_position_deletes
from samples.iceberg_table import write_table

import lakescan
from lakescan.reading import orc_footer
from lakescan.reading.orc import OrcData
from lakescan.reading.orc_footer import StripeStatistics, _statistics

STRIPE, STRIPES = 1000, 8
NAN = float("nan")
TYPES: dict[str, tuple[str, pa.DataType]] = {
    "n": ("long", pa.int64()),
    "i": ("int", pa.int32()),
    "d": ("double", pa.float64()),
    "f": ("float", pa.float32()),
    "s": ("string", pa.string()),
    "day": ("date", pa.date32()),
    "ts": ("timestamp", pa.timestamp("us")),
    "tz": ("timestamptz", pa.timestamp("us", "UTC")),
    "dec": ("decimal(9, 2)", pa.decimal128(9, 2)),
    "b": ("boolean", pa.bool_()),
    "empty": ("long", pa.int64()),
}


def row(n: int) -> list[Any]:
    """Return a row: all columns ascend with n, but stripe 3 has a NaN and nulls, and stripe 5 has only nulls."""
    stripe = n // STRIPE
    at = datetime(1969, 12, 31, 23, 59) + timedelta(milliseconds=n * 17, microseconds=n % 1000)
    if stripe == 5:
        return [n] + [None] * 10
    dirty = stripe == 3 and n % 100 == 0
    number = NAN if dirty else n / 4
    decimal = Decimal(n - 4000) / 100
    return [
        *(n, None if dirty else n - 4000, number, number, f"{n:06}", date(1970, 1, 1) + timedelta(days=n - 4000)),
        *(at, at, decimal, stripe > 2, None),
    ]


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> str:
    rows = [row(n) for n in range(STRIPE * STRIPES)]
    fields = [{"id": n, "name": k, "required": False, "type": t} for n, (k, (t, _)) in enumerate(TYPES.items(), 1)]
    schema = pa.schema(
        [pa.field(k, t, metadata={"PARQUET:field_id": str(n)}) for n, (k, (_, t)) in enumerate(TYPES.items(), 1)]
    )
    columns = [pa.array([each[n] for each in rows], field.type) for n, field in enumerate(schema)]
    writing = {"stripe_size": 64, "batch_size": STRIPE}
    folder = tmp_path_factory.mktemp("orc") / "t"
    return write_table(folder, fields, [pa.table(columns, schema=schema)], file_format="orc", writing=writing)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the stripes that are read."""
    stripes: list[int] = []
    original = OrcData._read
    monkeypatch.setattr(
        OrcData, "_read", lambda self, stripe, fields: stripes.append(stripe) or original(self, stripe, fields)
    )
    return stripes


CONDITIONS = {
    "n = 2500": {2},
    "n < 1000": {0},
    "n >= 7000": {7},
    "n in (10, 6500)": {0, 6},
    "i = -3999": {0},
    "i is null": {3, 5},
    "i is not null": {0, 1, 2, 3, 4, 6, 7},
    "d = 100": {0, 3},  # a NaN may have replaced the bounds
    "d < 100": {0, 3},
    "s = '002500'": {2},
    "s like '0061%'": {6},
    "day = date '1970-01-01'": {4},
    "ts < timestamp_ntz '1970-01-01 00:00:00'": {3, 0, 1, 2},
    "tz > timestamp '1970-01-01 00:01:40'": {6, 7},
    "dec = -39.99": {0},
    "dec > 39.98": {7},
    "b = false": {0, 1, 2},
    "b": {3, 4, 6, 7},
    "n = 2500 or s = '006500'": {2, 6},
    "empty = 1": set(),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_stripes_without_a_matching_row_are_not_read(location: str, read: list[int], condition: str) -> None:
    whole = lakescan.table(location).scan().to_arrow()
    read.clear()
    found = lakescan.table(location).scan().where(condition).select("n", "_pos").to_arrow()
    expected = _expected(whole, condition)
    assert found["n"].to_pylist() == expected
    assert found["_pos"].to_pylist() == expected
    assert set(read) <= CONDITIONS[condition] | {n // STRIPE for n in expected}
    assert {n // STRIPE for n in expected} <= set(read)


def _expected(whole: pa.Table, condition: str) -> list[int]:
    """Return the numbers of the rows that match in DuckDB, which formats zoned timestamps differently."""
    condition = condition.replace("timestamp_ntz", "timestamp").replace(
        "tz > timestamp '1970-01-01 00:01:40'", "epoch_us(tz) > 100000000"
    )
    rows = duckdb.from_arrow(whole).filter(condition).order("n").to_arrow_table()
    ids: list[int] = rows["n"].to_pylist()
    return ids


@settings(max_examples=60, deadline=None)
@given(
    column=st.sampled_from(["n", "i", "d", "f", "dec"]),
    op=st.sampled_from(["<", "<=", "=", ">=", ">", "<>"]),
    value=st.integers(-5000, 9000),
    also=st.sampled_from(["", " and i is not null", " or s = '001000'", " and not b"]),
)
def test_a_filter_with_skipped_stripes_returns_the_rows_of_a_full_scan(
    location: str, column: str, op: str, value: int, also: str
) -> None:
    condition = f"({column} {op} {value / 4 if column in 'df' else value}){also}"
    whole = lakescan.table(location).scan().to_arrow()
    assert lakescan.table(location).scan().where(condition).to_arrow()["n"].to_pylist() == _expected(whole, condition)


def test_deleted_positions_stay_those_of_the_file(tmp_path: Path, location: str, read: list[int]) -> None:
    data = lakescan.table(location).scan().plan().files["path"][0].as_py()
    deletes = write_position_deletes(f"file://{tmp_path}/d.parquet", [(data, n) for n in range(6500, 6510)])
    numbered = location.replace("v1.metadata.json", "00001-a.metadata.json")
    local(numbered).write_bytes(local(location).read_bytes())
    deleted = commit_deletes(numbered, [deletes])
    found = lakescan.table(deleted).scan().where("n between 6495 and 6515").to_arrow()
    assert found["n"].to_pylist() == [*range(6495, 6500), *range(6510, 6516)]
    assert set(read) == {6}


def test_statistics_of_untrusted_writers_skip_nothing(
    location: str, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orc_footer, "can_trust_orc", lambda writer, version: False)
    assert lakescan.table(location).scan().where("n = 2500").to_arrow()["n"].to_pylist() == [2500]
    assert set(read) == set(range(STRIPES))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ({1: 0, 10: 1}, StripeStatistics(None, None, 9)),  # only nulls
        ({1: 4, 10: 1}, StripeStatistics(None, None, None)),
        ({1: 9, 10: 0}, StripeStatistics(None, None, 0)),
        ({1: 9}, StripeStatistics(None, None, None)),  # an old writer that does not record nulls
    ],
)
def test_null_counts_are_known_if_there_are_none_or_only_nulls(column: Any, expected: StripeStatistics) -> None:
    assert _statistics(column, pa.int64(), 9) == expected
