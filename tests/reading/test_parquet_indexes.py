"""Row groups are skipped by Bloom filters and page statistics, but only if these exclude every row."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.reading.parquet.file import ParquetData
from lakescan.reading.parquet.indexes import BloomFilter, page_statistics, xxhash64
from tests.support.delta_rules import table_with_rules as delta_table_of

GROUP, GROUPS = 2048, 6  # DuckDB writes no smaller row groups
ROWS = GROUP * GROUPS


def values(n: int) -> dict[str, Any]:
    """Return a row. In each row group, `even`, `text`, `small` and `day` span the full range with only some values."""
    group, scattered = n // GROUP, (n * 7919) % ROWS
    return {
        "n": n,
        "even": scattered * 12 + group * 2,
        "text": f"{scattered * 6 + group:08}",
        "small": scattered * 6 + group,
        "day": date(1970, 1, 1) + timedelta(days=scattered * 6 + group),
        "half": (n % GROUP // 1024) * 1_000_000 + group * 2000 + n % 1024 if n % 7 else None,
    }


SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("even", pa.int64()),
        ("text", pa.string()),
        ("small", pa.int32()),
        ("day", pa.date32()),
        ("half", pa.int64()),
    ]
)
TABLE = pa.Table.from_pylist([values(n) for n in range(ROWS)], schema=SCHEMA)


def by_pyarrow(path: Path) -> None:
    names = ["even", "text", "small", "day"]
    options = {name: {"ndv": GROUP, "fpp": 0.0001} for name in names}
    pq.write_table(
        TABLE,
        path,
        row_group_size=GROUP,
        bloom_filter_options=options,
        write_page_index=True,
        data_page_size=500,
        write_batch_size=128,
        use_dictionary=False,
    )


def by_duckdb(path: Path) -> None:
    rows = TABLE  # noqa: F841  DuckDB finds it by name
    options = f"FORMAT PARQUET, ROW_GROUP_SIZE {GROUP}, WRITE_BLOOM_FILTER TRUE, DICTIONARY_SIZE_LIMIT 10000"
    duckdb.sql(f"COPY (SELECT * FROM rows) TO '{path}' ({options})")


def table_of(folder: Path, write: Callable[[Path], None]) -> str:
    """Make a Delta table of one file, without statistics in the log."""
    lakescan.save(TABLE.slice(0, 1), str(folder), format="delta")
    file = next(folder.glob("*.parquet"))
    write(file)
    rewritten(folder, file)
    return str(folder)


def rewritten(folder: Path, file: Path) -> None:
    """Record the new size of the table's only file in the log, without statistics."""
    log = max(folder.glob("_delta_log/*.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for add in (each["add"] for each in actions if "add" in each):
        del add["stats"]
        add["size"] = file.stat().st_size
    log.write_text("".join(json.dumps(each) + "\n" for each in actions))


@pytest.fixture(scope="module", params=[by_pyarrow, by_duckdb], ids=["pyarrow", "duckdb"])
def location(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return table_of(tmp_path_factory.mktemp("indexed") / "t", request.param)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Record the row groups that are read."""
    groups: set[int] = set()
    original = ParquetData.batches

    def batches(self: ParquetData, chunks: Any, *more: Any) -> Any:
        groups.update(chunks)
        return original(self, chunks, *more)

    monkeypatch.setattr(ParquetData, "batches", batches)
    return groups


def expected(condition: str) -> list[int]:
    rows = duckdb.from_arrow(TABLE).filter(condition).order("n").to_arrow_table()
    ids: list[int] = rows["n"].to_pylist()
    return ids


@pytest.mark.parametrize(
    "condition",
    [
        f"even = {values(5000)['even']}",
        f"text = '{values(5000)['text']}'",
        f"small = {values(5000)['small']}",
        f"day = date '{values(5000)['day']}'",
        f"even in ({values(5000)['even']}, {values(5001)['even']})",
        f"even = {values(5000)['even']} and text > '0'",
        f"even = {values(5000)['even']} or small = {values(5100)['small']}",
    ],
)
def test_row_groups_whose_bloom_filter_excludes_a_value_are_not_read(
    location: str, read: set[int], condition: str
) -> None:
    found = lakescan.table(location).scan().where(condition).to_arrow()["n"].to_pylist()
    assert found == expected(condition)
    assert read == {2}


@pytest.mark.parametrize(
    "condition", ["even = 13", "text = 'nothing'", "small = 5000000000", "day = date '2200-01-01'"]
)
def test_a_value_in_no_row_group_reads_no_row_group(location: str, read: set[int], condition: str) -> None:
    assert lakescan.table(location).scan().where(condition).to_arrow().num_rows == 0
    assert read == set()


def test_texts_of_char_are_found_whether_writers_padded_them_or_not(tmp_path: Path) -> None:
    char = {"c": {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}}
    table = delta_table_of(tmp_path / "t", {"c": "string"}, char)
    table.append(pa.table({"c": ["x"]}))
    file = next((tmp_path / "t").glob("*.parquet"))
    rows = pa.table({"c": ["a", "a  ", "b"]})
    pq.write_table(rows, file, row_group_size=1, bloom_filter_options={"c": True})
    rewritten(tmp_path / "t", file)
    for condition in ("c = 'a'", "c = 'a  '", "c IN ('a', 'x')", "c <=> 'a'"):
        assert lakescan.table(tmp_path / "t").scan().where(condition).to_arrow()["c"].to_pylist() == ["a  ", "a  "]


@pytest.mark.parametrize("condition", ["even <> 13", "not (even = 13)", "even not in (13)", "even > 13 or text = 'x'"])
def test_bloom_filters_prove_nothing_of_other_conditions(location: str, condition: str) -> None:
    assert lakescan.table(location).scan().where(condition).to_arrow()["n"].to_pylist() == expected(condition)


def test_row_groups_whose_pages_have_no_value_in_a_range_are_not_read(tmp_path: Path, read: set[int]) -> None:
    location = table_of(tmp_path / "t", by_pyarrow)
    for condition in ("half > 100000 and half < 900000", "half = 500000", "half between 4100 and 4900"):
        read.clear()
        found = lakescan.table(location).scan().where(condition).to_arrow()["n"].to_pylist()
        assert found == expected(condition)
        assert read == {n // GROUP for n in found}, condition


@settings(max_examples=80, deadline=None)
@given(
    column=st.sampled_from(["even", "small", "half", "n"]),
    op=st.sampled_from(["=", "<", ">", "<=", ">=", "<>"]),
    value=st.integers(-10, ROWS * 13) | st.sampled_from(TABLE["even"].to_pylist()[:200]),
    also=st.sampled_from(["", " and half is not null", " or text = '00000007'", " and half is null"]),
)
def test_a_filter_with_skipped_row_groups_returns_the_rows_of_a_full_scan(
    location: str, column: str, op: str, value: int, also: str
) -> None:
    condition = f"{column} {op} {value}{also}"
    assert lakescan.table(location).scan().where(condition).to_arrow()["n"].to_pylist() == expected(condition)


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_hashes_are_those_of_xxhash(data: bytes, hashed: int) -> None:
    assert xxhash64(data) == hashed


@pytest.mark.parametrize("cut", [0, 1, 5, 12, 20, 40])
def test_a_damaged_index_excludes_nothing(cut: int) -> None:
    header = bytes.fromhex("1540" + "1c1c0000" * 3 + "00")
    data = (header + bytes(32))[:cut]
    found = BloomFilter.parse(lambda start, length: data[start : start + length], (0, 0), len(data) or 1)
    assert found is None
    assert page_statistics(data, 2) is None
