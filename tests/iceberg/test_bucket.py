"""Buckets are those of the specification, and an equality filter reads only the buckets of its literals."""

from __future__ import annotations

import uuid
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakescan
from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.bind import bind
from lakescan.expressions.predicate import Comparison
from lakescan.iceberg.scan.partition_pruning import hash_value, murmur3
from tests.support.catalog import local_catalog

NOON = datetime(2017, 11, 16, 22, 31, 8)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (t.INT, 34, 2017239379),
        (t.LONG, 34, 2017239379),
        (t.Decimal(9, 2), Decimal("14.20"), -500754589),
        (t.Decimal(9, 2), Decimal("14.2"), -500754589),
        (t.DATE, date(2017, 11, 16), -653330422),
        (t.TIME, time(22, 31, 8), -662762989),
        (t.Timestamp("us", zoned=False), NOON, -2047944441),
        (t.Timestamp("us", zoned=False), NOON.replace(microsecond=1), -1207196810),
        (t.Timestamp("us", zoned=True), NOON.isoformat() + "-00:00", -2047944441),
        (t.Timestamp("us", zoned=True), "2017-11-16T14:31:08-08:00", -2047944441),
        (t.Timestamp("ns", zoned=False), "2017-11-16 22:31:08.000001001", -1207196810),
        (t.STRING, "iceberg", 1210000089),
        (t.UUID, uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), 1488055340),
        (t.Fixed(4), b"\x00\x01\x02\x03", -188683207),
        (t.BINARY, b"\x00\x01\x02\x03", -188683207),
    ],
    ids=str,
)
def test_hashes_are_those_of_appendix_b(kind: t.Type, value: Any, expected: int) -> None:
    bound = bind(Comparison("c", op="=", value=value), Schema((t.Field(1, "c", kind),)))
    assert isinstance(bound, Comparison)
    assert hash_value(bound.value, kind) == expected


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.sampled_from([0, 5, 38]))
def test_decimals_of_38_digits_have_the_hash_of_their_digits(unscaled: int, scale: int) -> None:
    value = Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
    width = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    found = hash_value(pa.scalar(value, pa.decimal128(38, scale)), t.Decimal(38, scale))
    assert found == murmur3(unscaled.to_bytes(width, "big", signed=True))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lakescan.Table:
    """Make a table of a hundred rows in eight buckets of their number, as pyiceberg computes them."""
    from pyiceberg.transforms import BucketTransform

    folder = tmp_path_factory.mktemp("buckets")
    catalog = local_catalog(folder)
    made = catalog.create_table("n.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    with made.update_spec() as update:
        update.add_field("id", BucketTransform(8), "id_bucket")
    made.append(pa.table({"id": range(100), "name": [f"n{i}" for i in range(100)]}))
    return lakescan.table(made.metadata_location)


@pytest.mark.parametrize("number", [0, 7, 34, 99])
def test_an_equality_reads_the_one_bucket_that_the_row_is_in(table: lakescan.Table, number: int) -> None:
    scan = table.scan().where(f"id = {number}")
    assert scan.to_arrow()["id"].to_pylist() == [number]
    assert scan.plan().report.skipped_by_partition == 7


def test_a_list_reads_the_buckets_of_its_values(table: lakescan.Table) -> None:
    scan = table.scan().where("id in (1, 2, 3) and name > 'n1'")
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [2, 3]
    assert scan.plan().report.skipped_by_partition >= 5


@pytest.mark.parametrize("condition", ["id != 3", "id not in (3)", "id = 3 or name = 'n5'", "id > 90", "name = 'n3'"])
def test_other_conditions_read_every_bucket_that_may_match(table: lakescan.Table, condition: str) -> None:
    scan = table.scan().where(condition)
    assert scan.plan().report.skipped_by_partition == 0
    everything = table.scan().to_arrow()
    assert scan.to_arrow().num_rows == len(everything.to_pandas().query(_pandas(condition)))


def _pandas(condition: str) -> str:
    return condition.replace(" = ", " == ").replace("not in (3)", "not in [3]")
