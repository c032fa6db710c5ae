"""Column statistics in manifests are used only if writers of the file format can record them correctly."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.predicate import TRUE
from lakescan.iceberg.manifests.bounds import decode_values, recorded_stats
from lakescan.iceberg.scan.manifest_scan import ManifestScan
from lakescan.planning.column_stats import ColumnStats
from lakescan.storage import Storage

MEMBER = t.Field(2, "x", t.LONG)
COLUMNS = (t.Field(1, "s", t.Struct((MEMBER,))), t.Field(3, "n", t.LONG), t.Field(4, "at", t.Timestamp()))
FORMATS = ["orc", "parquet"]
ENTRY = pa.list_(pa.struct([pa.field("key", pa.int32()), pa.field("value", pa.int64())]))


def recorded(field: t.Field) -> ColumnStats:
    """Return the statistics of an ORC file and of a Parquet file that both record no nulls for the column."""
    schema = Schema(COLUMNS)
    counts = pa.array([[{"key": field.id, "value": 0}]] * 2, ENTRY)
    stats = pa.StructArray.from_arrays([counts], ["null_value_counts"])
    files = pa.table({"file_format": FORMATS, "record_count": [5, 5], "stats": stats})
    scan = ManifestScan({}, schema, {}, TRUE, schema.by_id, Storage())
    return scan._manifest_stats(files, field)


def known(mask: pa.Array | None) -> list[Any]:
    assert mask is not None
    return mask.to_pylist()


def test_orc_does_not_count_the_members_of_structs_that_are_null() -> None:
    assert known(recorded(MEMBER).null_count) == [None, 0]
    assert known(recorded(COLUMNS[1]).null_count) == [0, 0]


@pytest.mark.parametrize("field", COLUMNS[1:])
def test_bounds_of_orc_files_are_not_exact_values(field: t.Field) -> None:
    assert known(recorded(field).exact) == [False, True]


@given(
    some=st.lists(st.integers(-(2**63) + 999, 2**63 - 1) | st.integers(-5000, 5000), min_size=1, max_size=3),
    data=st.data(),
)
def test_nanoseconds_lie_within_bounds_that_were_cut_to_microseconds(some: list[int], data: st.DataObject) -> None:
    cut = data.draw(
        st.sampled_from(
            [lambda n: n, lambda n: n // 1000 * 1000, lambda n: n // 1000 * 1000 if n >= 0 else -(-n // 1000 * 1000)]
        )
    )
    field = t.Field(1, "fine", t.Timestamp("ns", zoned=False))
    ends = [max(-(2**63), min(2**63 - 1, cut(end))) for end in (min(some), max(some))]
    entry = pa.list_(pa.struct([pa.field("key", pa.int32()), pa.field("value", pa.binary())]))
    bounds = [pa.array([[{"key": 1, "value": end.to_bytes(8, "little", signed=True)}]], entry) for end in ends]
    stats = pa.StructArray.from_arrays(bounds, ["lower_bounds", "upper_bounds"])
    files = pa.table({"file_format": ["parquet"], "record_count": [len(some)], "stats": stats})
    found = recorded_stats(files, field)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower[0].value <= min(some)
    assert found.upper[0].value >= max(some)


def test_a_decimal_bound_has_the_column_type_or_is_unknown() -> None:
    found = decode_values(pa.array([b"\x03\xe7", b"\x03\xe8", b"\xfc\x19", None]), t.Decimal(3, 1))
    assert found is not None
    assert found.type == pa.decimal128(3, 1)
    assert [None if v is None else str(v) for v in found.to_pylist()] == ["99.9", None, "-99.9", None]


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_a_day_that_times_of_64_bits_do_not_reach_is_unknown(unit: str) -> None:
    """A column that was a date has old bounds of four bytes."""
    days = pa.array([n.to_bytes(4, "little", signed=True) for n in (1, 2**31 - 1)])
    found = decode_values(days, t.Timestamp(unit, zoned=False))
    assert found is not None
    assert found.is_valid().to_pylist() == [True, False]
