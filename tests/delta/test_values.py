"""Partition values, statistics and descriptors are decoded as the protocol specifies."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.delta_deletes import encode_z85

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.delta.log.actions import VECTOR
from lakescan.delta.scan.deletion_vectors import decode_z85, delete_table
from lakescan.delta.scan.partition_values import typed_values
from lakescan.delta.scan.statistics import FileStats
from lakescan.errors import CorruptMetadata
from lakescan.planning.column_stats import ColumnStats

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("7", t.INT, 7),
        ("-128", t.BYTE, -128),
        ("1.50", t.Decimal(5, 2), Decimal("1.50")),
        ("true", t.BOOLEAN, True),
        ("1.5", t.DOUBLE, 1.5),
        ("2026-01-31", t.DATE, date(2026, 1, 31)),
        ("2026-01-31 12:00:00", t.Timestamp(), NOON),
        ("2026-01-31T13:00:00.5+01:00", t.Timestamp(), NOON.replace(microsecond=500_000)),
        ("2026-01-31T12:00:00.000001Z", t.Timestamp(), NOON.replace(microsecond=1)),
        ("2026-01-31 12:00:00.123456", t.Timestamp("us", zoned=False), datetime(2026, 1, 31, 12, 0, 0, 123456)),
        ("x y", t.STRING, "x y"),
        ("ab", t.BINARY, b"ab"),
        ("", t.INT, None),
        ("", t.STRING, None),
        (None, t.DATE, None),
        ("__HIVE_DEFAULT_PARTITION__", t.STRING, None),
    ],
)
def test_a_partition_value_is_parsed_as_its_columns_type(text: str | None, kind: t.Type, value: Any) -> None:
    assert typed_values(pa.array([text], pa.string()), t.Field(1, "p", kind)).to_pylist() == [value]


@pytest.mark.parametrize(
    ("text", "day"), [("+10183-09-21", 3_000_000), ("-0221-09-04", -800_000), ("10183-09-21", 3_000_000)]
)
def test_years_of_more_than_four_digits_are_partition_values(text: str, day: int) -> None:
    texts = pa.array([text, None, "1970-01-02"])
    dates = typed_values(texts, t.Field(1, "p", t.DATE))
    assert dates.cast(pa.int32()).to_pylist() == [day, None, 1]
    moments = typed_values(pa.array([f"{text} 00:00:01", None, "1970-01-02 00:00:00"]), t.Field(1, "p", t.Timestamp()))
    assert moments.cast(pa.int64()).to_pylist() == [day * 86_400_000_000 + 1_000_000, None, 86_400_000_000]


@pytest.mark.parametrize("text", ["+10000-13-01", "+999999-01-01 00:00:00", "+10000-01-01 25:00:00", "99999"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(CorruptMetadata, match="'p' is not timestamp"):
        typed_values(pa.array([text]), t.Field(1, "p", t.Timestamp("us", zoned=False)))


def test_a_partition_value_of_another_type_is_refused_with_the_column() -> None:
    with pytest.raises(CorruptMetadata, match="partition column 'p' is not int"):
        typed_values(pa.array(["seven"]), t.Field(1, "p", t.INT))


SCHEMA = Schema(
    (
        t.Field(1, "i", t.INT),
        t.Field(2, "at", t.Timestamp()),
        t.Field(3, "s", t.Struct((t.Field(4, "x", t.LONG, physical_name="col-x"),))),
        t.Field(5, "n", t.Decimal(6, 2)),
        t.Field(6, "f", t.DOUBLE),
    )
)


def stats(text: str | None, field_id: int) -> ColumnStats:
    found = FileStats(pa.chunked_array([[text]], pa.string()), None, SCHEMA, [SCHEMA.by_id[field_id]])
    return found.columns()[field_id]


def recorded(column: Any, **bounds: Any) -> str:
    node: dict[str, Any] = {"numRecords": 9}
    for name, value in bounds.items():
        node[name] = {column: value}
    return json.dumps(node)


def values(array: pa.Array | None) -> list[Any]:
    assert array is not None
    return array.to_pylist()


def test_bounds_and_counts_are_read_by_physical_name() -> None:
    text = json.dumps(
        {
            "numRecords": 9,
            "minValues": {"s": {"col-x": 1}},
            "maxValues": {"s": {"col-x": 5}},
            "nullCount": {"s": {"col-x": 2}},
        }
    )
    found = stats(text, 4)
    assert (values(found.lower), values(found.upper), values(found.null_count), values(found.value_count)) == (
        [1],
        [5],
        [2],
        [9],
    )


def test_an_upper_bound_of_time_allows_for_truncation_to_milliseconds() -> None:
    text = recorded("at", minValues="2026-01-31T12:00:00.000Z", maxValues="2026-01-31T12:00:00.000Z")
    found = stats(text, 2)
    assert values(found.lower) == [NOON]
    assert values(found.upper) == [NOON + timedelta(microseconds=999)]


def test_decimals_keep_their_digits() -> None:
    assert values(stats(recorded("n", minValues=12.34, maxValues=12.35), 5).lower) == [Decimal("12.34")]


@pytest.mark.parametrize("text", [None, "", "{", '{"minValues": {"i": "NaN"}}', '{"minValues": 3}', "[]"])
def test_empty_statistics_never_fail_a_read(text: str | None) -> None:
    found = stats(text, 1)
    assert found.lower is None or values(found.lower) == [None]


def test_a_bad_line_does_not_shift_the_statistics_of_other_files() -> None:
    texts = [recorded("i", minValues=1), "{}\n{}", recorded("i", minValues=3)]
    found = FileStats(pa.chunked_array([texts]), None, SCHEMA, [SCHEMA.by_id[1]]).columns()[1]
    assert values(found.lower) == [1, None, 3]


@given(st.binary(max_size=40).filter(lambda b: len(b) % 4 == 0))
def test_base85_survives_a_round_trip(data: bytes) -> None:
    assert decode_z85(encode_z85(data).encode()) == data


def padded_z85(data: bytes) -> str:
    """Encode bytes as Rust's Z85 library does: if the last group is not full, `#` precedes it."""
    whole, rest = data[: len(data) // 4 * 4], data[len(data) // 4 * 4 :]
    last = encode_z85(bytes(4 - len(rest)) + rest)[4 - len(rest) :] if rest else ""
    return encode_z85(whole) + ("#" * (4 - len(rest)) + last if rest else "")


@given(st.binary(max_size=40))
def test_base85_that_is_padded_by_its_last_group_is_decoded(data: bytes) -> None:
    assert decode_z85(padded_z85(data).encode()) == data


def test_an_inline_vector_of_a_table_of_deltas_kernel_is_decoded() -> None:
    """From `cdf-table-with-dv`: the vector of version 5 deletes row 3."""
    assert decode_z85(b"^Bg9^0rr910000000000iXQKl0rr91000005c8Xg##093")[-2:] == b"\x03\x00"


@pytest.mark.parametrize(
    "text",
    [b"abcd", b'ab"de', b"%nSc1", b"#zzzz", b"00000#zzzz", b"##zzz", b"###zz", b"####0", b"##0930", b"##09300000"],
)
def test_text_that_is_not_base85_is_refused(text: bytes) -> None:
    with pytest.raises(CorruptMetadata, match="Base85"):
        decode_z85(text)


@given(st.lists(st.tuples(st.uuids(), st.sampled_from(["", "ab", "prefix"])), min_size=1, max_size=5))
def test_descriptors_lead_to_files_named_by_their_uuid(names: list[tuple[uuid.UUID, str]]) -> None:
    rows = [
        {
            "storageType": "u",
            "pathOrInlineDv": prefix + encode_z85(name.bytes),
            "offset": 1,
            "sizeInBytes": 5,
            "cardinality": 2,
        }
        for name, prefix in names
    ]
    found = delete_table(pa.array(rows, VECTOR), "/table")
    expected = [f"/table/{p + '/' if p else ''}deletion_vector_{n}.bin" for n, p in names]
    assert found["path"].to_pylist() == expected
    assert found["length"].to_pylist() == [13] * len(names)


def test_the_protocols_own_example_of_a_descriptor() -> None:
    row = {
        "storageType": "u",
        "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 4,
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    found = delete_table(pa.array([row], VECTOR), "s3://mytable")
    assert found["path"].to_pylist() == ["s3://mytable/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"]


def test_an_absolute_vector_path_uses_the_scheme_of_the_table() -> None:
    path = "hdfs:///t/a%20b.bin"
    row = {"storageType": "p", "pathOrInlineDv": path, "offset": 4, "sizeInBytes": 40, "cardinality": 6}
    found = delete_table(pa.array([row], VECTOR), "hdfs://nn:8020/t")
    assert found["path"].to_pylist() == ["hdfs://nn:8020/t/a b.bin"]
