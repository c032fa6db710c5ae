"""Statistics that a writer is known to record wrongly prune no file and prove no filter.

Each test names the fault; its source is in `planning.corrupt_statistics`.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.delta.scan.statistics import FileStats
from lakescan.expressions.predicate import Comparison, IsNull
from lakescan.iceberg.manifests.bounds import encode_value, recorded_stats
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.corrupt_statistics import can_trust_footer, can_trust_orc, drop_contradictions
from lakescan.planning.prune import might_match, must_match
from lakescan.reading.parquet.footer import ChunkStatistics, decode_bounds

LONG = t.Field(1, "n", t.LONG)
NUMBERS = pa.int64()


def of_manifest(
    kind: t.Type, file_format: str, rows: int, *, member: bool = False, nulls: int | None = None, **more: Any
) -> ColumnStats:
    """Return the statistics of one file as a manifest entry records them: `lower`, `upper`, `values`."""
    names = {"lower": "lower_bounds", "upper": "upper_bounds", "values": "value_counts"}
    members = {names[key]: value for key, value in more.items()}
    if nulls is not None:
        members["null_value_counts"] = nulls
    columns = []
    for name, value in members.items():
        stored = encode_value(value, kind) if name.endswith("bounds") else value
        item = pa.binary() if name.endswith("bounds") else pa.int64()
        pair = pa.list_(pa.struct([pa.field("key", pa.int32()), pa.field("value", item)]))
        columns.append(pa.array([[{"key": 1, "value": stored}]], pair))
    stats = pa.StructArray.from_arrays(columns, list(members))
    files = pa.table({"file_format": [file_format], "record_count": [rows], "stats": stats})
    return recorded_stats(files, t.Field(1, "c", kind), is_member=member)


def of_delta(field: t.Field, **stats: Any) -> ColumnStats:
    """Return the statistics of one file as a Delta file action records them."""
    texts = pa.chunked_array([pa.array([json.dumps({"numRecords": 4, **stats})])])
    return FileStats(texts, None, Schema((field,)), [field]).columns()[field.id]


def known(values: pa.Array | None) -> Any:
    return None if values is None else values[0].as_py()


def is_skipped(stats: ColumnStats, predicate: Any) -> bool:
    return not might_match(predicate, {1: stats}, 1)[0].as_py()


# Any writer


def test_a_lower_bound_above_the_upper_bound_skips_no_file() -> None:
    stats = ColumnStats(pa.array([9], NUMBERS), pa.array([1], NUMBERS), pa.array([0]), None, pa.array([3]))
    for op in ("<", "<=", "=", ">", ">=", "!="):
        test = Comparison("n", 1, op, pa.scalar(5))
        assert not is_skipped(stats, test)
        assert not must_match(test, {1: stats}, 1)[0].as_py()


@pytest.mark.parametrize("count", [-1, 4])
def test_an_impossible_null_count_is_unknown(count: int) -> None:
    assert (
        known(drop_contradictions(ColumnStats(null_count=pa.array([count]), value_count=pa.array([3]))).null_count)
        is None
    )


def test_a_file_with_a_bound_has_a_value_that_is_not_null() -> None:
    stats = ColumnStats(pa.array([7], NUMBERS), pa.array([7], NUMBERS), pa.array([2]), None, pa.array([2]))
    assert not is_skipped(stats, Comparison("n", 1, "=", pa.scalar(7)))
    assert not is_skipped(stats, IsNull("n", 1, negate=True))


# Iceberg manifests


@pytest.mark.parametrize("zoned", [True, False])
def test_bounds_of_nanoseconds_in_orc_files_may_be_microseconds(zoned: bool) -> None:
    kind, micros = t.Timestamp("ns", zoned=zoned), 1_700_000_000_000_000
    found = of_manifest(kind, "orc", 3, lower=micros, upper=micros)
    assert (known(found.lower), known(found.upper)) == (None, None)
    assert of_manifest(kind, "parquet", 3, lower=micros * 1000, upper=micros * 1000).lower.is_valid()[0].as_py()


def test_a_value_count_without_nulls_does_not_make_a_file_all_null() -> None:
    found = of_manifest(t.LONG, "parquet", 4, nulls=2, values=2)
    assert not is_skipped(found, IsNull("c", 1, negate=True))


def test_members_of_null_structs_in_orc_files_may_be_null() -> None:
    found = of_manifest(t.LONG, "orc", 4, nulls=0, values=3, member=True)
    assert not is_skipped(found, IsNull("c", 1))
    assert is_skipped(of_manifest(t.LONG, "orc", 4, nulls=0), IsNull("c", 1))


# Delta's log


ARRAY = t.Field(1, "c", t.ListOf(t.Field(2, "element", t.LONG)))


def test_the_null_count_of_an_array_may_count_its_elements() -> None:
    assert not is_skipped(of_delta(ARRAY, nullCount={"c": 4}), IsNull("c", 1, negate=True))
    assert is_skipped(of_delta(ARRAY, nullCount={"c": 0}), IsNull("c", 1))


def test_an_upper_bound_without_a_lower_bound_may_be_too_small() -> None:
    assert not is_skipped(of_delta(LONG, maxValues={"n": 5}), Comparison("n", 1, "=", pa.scalar(9)))


def test_dates_before_the_year_400_may_be_counted_from_the_year_1() -> None:
    field = t.Field(1, "d", t.DATE)
    found = of_delta(field, minValues={"d": "0051-01-01"}, maxValues={"d": "0051-02-01"})
    assert (known(found.lower), known(found.upper)) == (None, None)
    sentinel = of_delta(field, minValues={"d": "0001-01-01"}, maxValues={"d": "2020-02-01"})
    assert known(sentinel.lower).year == 1


@pytest.mark.parametrize("precision", range(19, 36))
@pytest.mark.parametrize("value", [5, -5])
def test_decimals_may_be_multiplied_by_a_power_of_two(precision: int, value: int) -> None:
    taken = next(n for n in range(1, 17) if 10**precision - 1 < 2 ** (8 * n - 1))
    wrong = value * 2 ** (8 * (16 - taken)) / 100
    found = of_delta(t.Field(1, "d", t.Decimal(precision, 2)), minValues={"d": wrong}, maxValues={"d": wrong})
    assert (known(found.lower), known(found.upper)) == (None, None)
    right = of_delta(t.Field(1, "d", t.Decimal(precision, 2)), minValues={"d": 1.05}, maxValues={"d": 7.25})
    assert (known(right.lower), known(right.upper)) == (Decimal("1.05"), Decimal("7.25"))


def test_a_bound_of_zero_in_a_file_with_nulls_need_not_be_a_value() -> None:
    zero = {"minValues": {"n": 0}, "maxValues": {"n": 3}}
    assert not known(of_delta(LONG, **zero, nullCount={"n": 1}).exact)
    assert known(of_delta(LONG, **zero, nullCount={"n": 0}).exact)
    assert known(of_delta(LONG, minValues={"n": 1}, maxValues={"n": 3}, nullCount={"n": 1}).exact)


# Parquet footers

TEXT, UNSIGNED, WIDE = pa.string(), pa.uint32(), pa.decimal128(38, 2)


@pytest.mark.parametrize(
    ("created_by", "physical", "kind", "trusted"),
    [
        ("parquet-mr version 1.9.0 (build x)", "BYTE_ARRAY", TEXT, False),
        ("parquet-mr version 1.9.0 (build x)", "INT32", UNSIGNED, False),
        ("parquet-mr version 1.9.0 (build x)", "INT32", pa.int32(), True),
        ("parquet-mr version 1.10.0 (build x)", "BYTE_ARRAY", TEXT, True),
        ("parquet-mr compatible Photon version 0.2 (build 16.4)", "BYTE_ARRAY", TEXT, True),
        ("parquet-cpp version 1.2.8", "BYTE_ARRAY", TEXT, False),
        ("parquet-cpp version 1.5.1-SNAPSHOT", "BYTE_ARRAY", TEXT, True),
        ("parquet-cpp version 1.5.1-SNAPSHOT", "FIXED_LEN_BYTE_ARRAY", WIDE, False),
        ("parquet-cpp-arrow version 3.0.0", "FIXED_LEN_BYTE_ARRAY", WIDE, False),
        ("parquet-cpp-arrow version 4.0.0", "FIXED_LEN_BYTE_ARRAY", WIDE, True),
        ("parquet-rs version 5.1.0", "BYTE_ARRAY", TEXT, False),
        ("parquet-rs version 55.0.0", "BYTE_ARRAY", TEXT, True),
        ("parquet-rs version 55.0.0", "BYTE_ARRAY", WIDE, False),
        ("parquet-rs version 55.0.0", "FIXED_LEN_BYTE_ARRAY", WIDE, True),
        ("Polars", "FIXED_LEN_BYTE_ARRAY", WIDE, False),
        ("Polars (python) version 2.0.9 (build 7f90)", "FIXED_LEN_BYTE_ARRAY", WIDE, False),
        ("Polars (python) version 2.1.0 (build 7f90)", "FIXED_LEN_BYTE_ARRAY", WIDE, True),
        ("Polars", "INT64", pa.decimal128(18, 2), True),
        ("ClickHouse v25.3.2.1", "FIXED_LEN_BYTE_ARRAY", WIDE, False),
        ("cudf", "INT64", pa.decimal128(18, 2), False),
        ("hyparquet", "INT32", pa.decimal128(9, 2), False),
        ("DuckDB version v2.0.0 (build d54)", "BYTE_ARRAY", TEXT, True),
        ("impala version 2.8.0-cdh5", "INT64", pa.int64(), True),
        (None, "BYTE_ARRAY", TEXT, True),
    ],
)
def test_bounds_in_footers_are_trusted_by_writer_version_and_type(
    created_by: str | None, physical: str, kind: pa.DataType, trusted: bool
) -> None:
    assert can_trust_footer(created_by, physical, kind) is trusted


def test_bounds_of_bytes_without_a_declared_order_are_not_read() -> None:
    chunk = ChunkStatistics(6, b"a", b"b", 0, ordered=False)
    values = decode_bounds([chunk], "lower", "BYTE_ARRAY", pa.string(), "parquet-mr version 1.12.0 (build x)")
    assert values is not None
    assert values.null_count == 1


@pytest.mark.parametrize(("writer", "found"), [(b"version 3.0.0", 1), (b"version 9.0.0", 0)])
def test_row_groups_are_not_skipped_by_bounds_of_a_writer_that_records_wrong_ones(
    tmp_path: Path, writer: bytes, found: int
) -> None:
    """The footer's upper bound is -2, but the greatest value is 2."""
    rows = pa.table({"d": pa.array([Decimal(-3), Decimal(2)], pa.decimal128(38, 2))})
    lakescan.save(rows, str(tmp_path / "t"), format="delta")
    path = next(tmp_path.glob("t/*.parquet"))
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    right, wrong = (n.to_bytes(16, "big", signed=True) for n in (200, -200))
    footer = data[start:].replace(right, wrong)
    version = f"version {pa.__version__}".encode()
    assert version in footer
    path.write_bytes(data[:start] + footer.replace(version, writer.ljust(len(version), b" ")))
    log = next(tmp_path.glob("t/_delta_log/*00.json"))
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for add in (each["add"] for each in actions if "add" in each):
        del add["stats"]
    log.write_text("".join(json.dumps(each) + "\n" for each in actions))
    assert lakescan.table(str(tmp_path / "t")).scan().where("d > 1.5").to_arrow().num_rows == found


# ORC footers


@pytest.mark.parametrize(
    ("writer", "version", "trusted"),
    [(0, 9, True), (None, 6, True), (0, 0, False), (1, 0, True), (2, 0, True), (4, None, True), (5, 0, False)],
)
def test_statistics_of_stripes_are_trusted_by_writer(writer: int | None, version: int | None, trusted: bool) -> None:
    assert can_trust_orc(writer, version) is trusted
