"""Partition values of every kind are distinguished, and are read back unchanged, or refused by name."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.common.arrays import row_numbers
from lakescan.writing.partition_key import split_by_partition

NAN = float("nan")
DAYS = [-719_162, -1, 0, 2_932_896]  # of the years 1, 1969, 1970 and 9999
FAR = [
    -800_000,
    -719_163,
    -1,
    0,
    2_932_896,
    2_932_897,
    3_000_000,
]  # days: years -221, 0, 1969, 1970, 9999, 10000, 10183
VALUES: dict[str, pa.Array] = {
    "texts": pa.array(["a", "~", "%", "=", "/", "..", " ", "a b+c", "é%2F", "\x00\x01", "null", "\U0001f600", None]),
    "dates": pa.array([*DAYS, None], pa.int32()).cast(pa.date32()),
    "far dates": pa.array([*FAR, None], pa.int32()).cast(pa.date32()),
    "times": pa.array([*(day * 86_400_000_000 + 1 for day in DAYS), None], pa.int64()).cast(pa.timestamp("us")),
    "far times": pa.array([*(day * 86_400_000_000 + 1 for day in FAR), None], pa.int64()).cast(pa.timestamp("us")),
    "instants": pa.array([*(day * 86_400_000_000 + 999_999 for day in DAYS), None], pa.timestamp("us", "UTC")),
    "far instants": pa.array([*(day * 86_400_000_000 + 999_999 for day in FAR), None], pa.timestamp("us", "UTC")),
    "doubles": pa.array([0.0, -0.0, NAN, math.inf, -math.inf, 5e-324, 0.1, 1.7976931348623157e308, None], pa.float64()),
    "floats": pa.array([0.0, -0.0, NAN, math.inf, 0.1, None], pa.float32()),
    "longs": pa.array([-(2**63), 2**63 - 1, 0, None], pa.int64()),
    "decimals": pa.array([Decimal("-" + "9" * 38), Decimal(0), Decimal("9" * 38), None], pa.decimal128(38, 0)),
    "binaries": pa.array([b"abc", "é".encode(), b"\x00", None], pa.binary()),
    "booleans": pa.array([True, False, None]),
}
ICEBERG_ALONE: dict[str, pa.Array] = {
    "no text": pa.array(["", None, "__HIVE_DEFAULT_PARTITION__"]),
    "bytes": pa.array([b"", b"\xff\x00", None], pa.binary()),
    "fixed": pa.array([b"\xff\x00", b"ab", None], pa.binary(2)),
    "of the day": pa.array([0, 86_399_999_999, None], pa.int64()).cast(pa.time64("us")),
}
CASES = [
    *[(name, values, "delta") for name, values in VALUES.items()],
    *[(name, values, "iceberg") for name, values in VALUES.items() if "far" not in name],
    *[(name, values, "iceberg") for name, values in ICEBERG_ALONE.items()],
]


def exactly(values: pa.Array) -> list[Any]:
    """Return values with the sign of zeros, and one NaN."""
    if pa.types.is_floating(values.type):
        return [None if value is None else value.hex() for value in values.to_pylist()]
    return (
        values.cast(pa.int64()).to_pylist()
        if pa.types.is_timestamp(values.type)
        else (values.cast(pa.int32()).to_pylist() if pa.types.is_date(values.type) else values.to_pylist())
    )


@pytest.mark.parametrize(("name", "values", "format"), CASES, ids=[f"{name}, {format}" for name, _, format in CASES])
def test_each_value_is_a_partition_and_is_read_back(
    name: str, values: pa.Array, format: str, local: lakescan.Catalog, tmp_path: Path
) -> None:
    rows = pa.table({"p": values, "id": pa.array(range(len(values)), pa.int32())})
    target = "local.db.t" if format == "iceberg" else str(tmp_path / "t")
    version = {"table-property.format-version": "3"} if format == "iceberg" else {}
    saved = lakescan.save(rows, target, format=format, partition_by="p", **version)
    assert saved.files == len(values)
    found = lakescan.table(target).scan().to_arrow().sort_by("id")
    assert found["p"].type == values.type
    assert exactly(found["p"].combine_chunks()) == exactly(values)
    lakescan.table(target).overwrite(rows.slice(0, 1), overwrite_mode="dynamic")
    again = lakescan.table(target).scan().to_arrow().sort_by("id")
    assert exactly(again["p"].combine_chunks()) == exactly(values)


UUIDS = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16), b"\xff" * 16, None], pa.binary(16)))


@pytest.mark.parametrize(
    ("name", "values", "format"),
    [*CASES, ("uuids", UUIDS, "iceberg")],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_each_partition_is_replaced_and_compacted_separately(
    name: str, values: pa.Array, format: str, local: lakescan.Catalog, tmp_path: Path
) -> None:
    """0.0 and -0.0 are two partitions; NaN is one, and null is one."""
    rows = pa.table({"p": values, "id": pa.array(range(len(values)), pa.int32())})
    target = "local.db.t" if format == "iceberg" else str(tmp_path / "t")
    lakescan.save(rows, target, format=format, partition_by="p")
    assert lakescan.table(target).overwrite(rows, overwrite_mode="dynamic").removed_files == len(values)
    assert sorted(lakescan.table(target).scan().to_arrow()["id"].to_pylist()) == [*range(len(values))]
    lakescan.table(target).append(rows)
    assert lakescan.table(target).compact().removed_files == 2 * len(values)
    assert sorted(lakescan.table(target).scan().to_arrow()["id"].to_pylist()) == sorted(2 * [*range(len(values))])
    lakescan.table(target).overwrite(rows.slice(0, 1))
    assert lakescan.table(target).scan().to_arrow()["id"].to_pylist() == [0]


@pytest.mark.parametrize("kind", [pa.decimal128(9, 2), pa.decimal128(19, 0), pa.decimal128(38, 10)], ids=str)
def test_decimals_that_are_too_long_once_they_are_truncated_are_refused(kind: pa.DataType, local, tmp_path) -> None:
    local.create_table("db.t", pa.schema([("d", kind)]), partition_by=["truncate(7, d)"])
    table = lakescan.table("local.db.t")
    digits = "9" * (kind.precision - kind.scale) + ("." + "9" * kind.scale if kind.scale else "")
    far, near = Decimal(f"-{digits}"), Decimal(digits)
    table.append(pa.table({"d": pa.array([near, Decimal(0), None], kind)}))
    with pytest.raises(lakescan.SchemaMismatch, match="partition 'd_trunc' would have the value"):
        table.append(pa.table({"d": pa.array([near, far], kind)}))
    assert lakescan.table("local.db.t").scan().count() == 3
    assert len(list(tmp_path.rglob("*.parquet"))) == 3


@pytest.mark.parametrize(
    "values", [pa.array(["a", ""]), pa.array(["__HIVE_DEFAULT_PARTITION__"]), pa.array([b"\xff"]), pa.array([b""])]
)
def test_values_that_deltas_log_cannot_hold_are_refused_without_leftovers(values: pa.Array, tmp_path: Path) -> None:
    table = tmp_path / "t"
    with pytest.raises(lakescan.SchemaMismatch, match="partition column 'p' has the value"):
        lakescan.save(pa.table({"p": values, "id": [1] * len(values)}), table, format="delta", partition_by="p")
    assert not list(table.rglob("*.parquet"))


@pytest.mark.parametrize("name", ["far dates", "far times", "far instants"])
def test_years_that_pyiceberg_cannot_represent_are_refused_as_partitions(name: str, local: lakescan.Catalog) -> None:
    rows = pa.table({"p": VALUES[name]})
    with pytest.raises(lakescan.UnsupportedFeature, match="years are 1 to 9999"):
        lakescan.save(rows, "local.db.t", partition_by="p")
    lakescan.save(rows, "local.db.u")
    assert exactly(lakescan.table("local.db.u").scan().to_arrow()["p"].combine_chunks()) == exactly(VALUES[name])


def test_nanoseconds_cannot_be_identity_partitions(local: lakescan.Catalog) -> None:
    nanos = pa.array([-1, 1, 1001, 2**63 - 1, None], pa.timestamp("ns"))
    rows = pa.table({"t": nanos, "id": pa.array(range(5), pa.int32())})
    third = {"table-property.format-version": "3"}
    with pytest.raises(lakescan.UnsupportedFeature, match="nanoseconds of 't'"):
        lakescan.save(rows, "local.db.t", partition_by="t", **third)
    lakescan.save(rows, "local.db.u", partition_by="hours(t)", **third)
    lakescan.table("local.db.u").overwrite(rows.slice(0, 1), overwrite_mode="dynamic")
    found = lakescan.table("local.db.u").scan().to_arrow().sort_by("id")
    assert found["t"].combine_chunks().equals(nanos)


def test_two_fields_may_be_made_of_one_column(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "t TIMESTAMP_NTZ, id INT", partition_by=["years(t)", "bucket(2, t)"])
    rows = pa.table({"t": pa.array([0, 86_400_000_000 * 400], pa.timestamp("us")), "id": pa.array([1, 2], pa.int32())})
    lakescan.table("local.db.t").append(rows)
    assert lakescan.table("local.db.t").scan().to_arrow().sort_by("id").to_pylist() == rows.to_pylist()


COLUMNS = st.lists(st.lists(st.sampled_from([0, 1, 2, None]), min_size=6, max_size=6), min_size=1, max_size=4)


@settings(max_examples=100, deadline=None)
@given(COLUMNS)
def test_rows_are_distributed_by_all_partition_values(columns: list[list[int | None]]) -> None:
    keys = [pa.array(each, pa.int64()) for each in columns]
    parts = list(split_by_partition(keys, pa.record_batch({"row": pa.array(range(6))})))
    assert {key: rows["row"].to_pylist() for key, rows in parts} == {
        key: [row for row in range(6) if tuple(each[row] for each in columns) == key]
        for key in {tuple(each[row] for each in columns) for row in range(6)}
    }


def test_many_values_in_many_columns_are_distinguished() -> None:
    """There are more combinations than 64 bits can count."""
    keys = [pa.array(np.random.default_rng(seed).permutation(70_000)) for seed in range(5)]
    assert len(np.unique(row_numbers(keys))) == 70_000


@pytest.mark.parametrize("size", [1, 700, 100_000])
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_rows_of_a_partition_keep_their_order_whatever_batches_they_come_in(
    local: lakescan.Catalog, format: str, size: int
) -> None:
    table = local.create_table("db.t", "id BIGINT, part STRING, x STRUCT<y: INT>", format=format, partition_by=["part"])
    count = 1_000 if size == 1 else 150_000  # more than are split at once
    ids = np.arange(count)
    parts, members = pa.array(ids % 3).cast(pa.string()), pa.array(ids % 5, pa.int32(), mask=ids % 7 == 0)
    rows = pa.table({"id": ids, "part": parts, "x": pa.StructArray.from_arrays([members], ["y"])})
    assert table.append(pa.Table.from_batches(rows.to_batches(max_chunksize=size))).files == 3
    found = lakescan.table("local.db.t").scan()
    assert found.to_arrow().sort_by("id").combine_chunks().equals(rows)
    for part in range(3):
        ordered = found.where(f"part = '{part}'").to_arrow()["id"].to_numpy()
        assert np.array_equal(ordered, ids[part::3])


@pytest.mark.parametrize(("format", "left"), [("delta", 0), ("iceberg", 2)])
def test_an_empty_dynamic_overwrite_of_an_unpartitioned_table_acts_as_in_its_engine(
    local: lakescan.Catalog, format: str, left: int
) -> None:
    """Delta on Spark ignores the mode for such tables; Iceberg in Java skips the commit."""
    table = local.create_table("db.t", "id BIGINT", format=format)
    table.append(pa.table({"id": [1, 2]}))
    table.overwrite(pa.table({"id": pa.array([], pa.int64())}), overwrite_mode="dynamic")
    assert table.count() == left


def test_numbers_are_written_to_deltas_log_in_javas_format(tmp_path: Path) -> None:
    """Delta on Spark compares partitions by text, also in OPTIMIZE: another format would be another partition."""
    rows = pa.table({"d": [1e10, 1e-30], "f": pa.array([0.1, 16777216], pa.float32()), "id": [1, 2]})
    lakescan.save(rows, tmp_path / "t", format="delta", partition_by=["d", "f"])
    lines = (tmp_path / "t" / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    values = [added["partitionValues"] for line in lines if (added := json.loads(line).get("add"))]
    assert sorted(values, key=lambda each: each["f"]) == [
        {"d": "1.0E10", "f": "0.1"},
        {"d": "1.0E-30", "f": "1.6777216E7"},
    ]


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_partition_column_may_begin_with_a_dot(tmp_path: Path, format: str) -> None:
    """Arrow would read such a name as a path to a nested field."""
    lake = lakescan.catalog("dotted", warehouse=str(tmp_path / "lake"))
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id BIGINT, `.x` STRING", partition_by=[".x"], format=format)
    table.append(pa.table({"id": [1, 2], ".x": ["a", "b"]}))
    assert lakescan.sql("SHOW PARTITIONS dotted.db.t PARTITION (`.x` = 'a')").to_arrow()["file_count"].to_pylist() == [
        1
    ]
    lakescan.table("dotted.db.t").update({"id": "id + 2"}, "`.x` = 'a'")
    lakescan.table("dotted.db.t").overwrite(pa.table({"id": [7], ".x": ["b"]}), where="`.x` = 'b'")
    found = lakescan.table("dotted.db.t").scan().where("`.x` <> 'c'").to_arrow()
    assert sorted(zip(found[".x"].to_pylist(), found["id"].to_pylist(), strict=True)) == [("a", 3), ("b", 7)]
