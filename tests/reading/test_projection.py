"""Files written with other schemas are read with the table's: by id, by name mapping, by name, by position."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import CorruptMetadata
from lakescan.reading.field_ids import read_fields
from lakescan.reading.projection import prune_members, resolve
from lakescan.reading.record_batches import batch_of
from lakescan.reading.type_promotion import cast_leaf

BY_ID = FieldMatching(by_id=True)


def with_id(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})


def read(
    file: pa.Table,
    fields: list[t.Field],
    matching: FieldMatching = BY_ID,
    constants: dict[int, pa.Scalar] | None = None,
) -> list[dict[str, Any]]:
    schema = Schema(tuple(fields))
    projection = resolve(read_fields(file.schema, matching), schema, matching, constants or {})
    whole = file.combine_chunks().to_batches()[0]
    columns = [prune_members(whole.column(field.index), field) for field in projection.read]
    read = pa.schema([pa.field(field.name, array.type) for field, array in zip(projection.read, columns, strict=True)])
    batch = batch_of(columns, read, whole.num_rows)
    return pa.table(projection.apply(batch), schema=schema.arrow()).to_pylist()


def test_columns_are_found_by_id_whatever_their_names_and_order() -> None:
    file = pa.table([[1], ["x"]], schema=pa.schema([with_id("old", pa.int64(), 2), with_id("b", pa.string(), 1)]))
    assert read(file, [t.Field(1, "a", t.STRING), t.Field(2, "new", t.LONG)]) == [{"a": "x", "new": 1}]


def test_a_column_dropped_and_added_again_under_its_name_is_another_column() -> None:
    file = pa.table([[1]], schema=pa.schema([with_id("a", pa.int64(), 1)]))
    assert read(file, [t.Field(7, "a", t.LONG)]) == [{"a": None}]


def test_a_missing_column_is_null_or_its_default_or_its_partition_value() -> None:
    file = pa.table([[1, 2]], schema=pa.schema([with_id("a", pa.int64(), 1)]))
    fields = [t.Field(2, "none", t.LONG), t.Field(3, "default", t.STRING, default="d"), t.Field(4, "part", t.DATE)]
    day = pa.scalar(date(2026, 1, 31), pa.date32())
    rows = read(file, [t.Field(1, "a", t.LONG), *fields], constants={4: day})
    assert rows[1] == {"a": 2, "none": None, "default": "d", "part": date(2026, 1, 31)}


def test_changes_inside_structs_lists_and_maps_are_followed() -> None:
    old = pa.struct([with_id("x", pa.int32(), 11), with_id("gone", pa.string(), 12)])
    file = pa.table(
        {
            "s": pa.array([{"x": 1, "gone": "g"}, None], old),
            "l": pa.array([[{"x": 2, "gone": "g"}, None], None], pa.list_(with_id("element", old, 20))),
            "m": pa.array(
                [[("k", {"x": 3, "gone": "g"})], None],
                pa.map_(with_id("key", pa.string(), 31).with_nullable(False), with_id("value", old, 32)),
            ),
        }
    )
    file = file.cast(pa.schema([with_id(n, file.schema.field(n).type, i) for i, n in enumerate("slm", 1)]))
    new = t.Struct((t.Field(13, "added", t.STRING, default="new"), t.Field(11, "renamed", t.LONG)))
    fields = [
        t.Field(1, "s", new),
        t.Field(2, "l", t.ListOf(t.Field(20, "element", new))),
        t.Field(3, "m", t.MapOf(t.Field(31, "key", t.STRING, required=True), t.Field(32, "value", new))),
    ]
    first, second = read(file, fields)
    assert first["s"] == {"added": "new", "renamed": 1}
    assert first["l"] == [{"added": "new", "renamed": 2}, None]
    assert first["m"] == [("k", {"added": "new", "renamed": 3})]
    assert second == {"s": None, "l": None, "m": None}


@pytest.mark.parametrize(
    ("stored", "kind", "expected"),
    [
        (pa.array([1], pa.int32()), t.LONG, 1),
        (pa.array([0.5], pa.float32()), t.DOUBLE, 0.5),
        (pa.array([Decimal("1.20")], pa.decimal128(4, 2)), t.Decimal(10, 2), Decimal("1.20")),
        (pa.array([7], pa.int64()), t.Decimal(5, 0), Decimal(7)),
        (pa.array([date(2026, 1, 31)]), t.Timestamp("us", zoned=False), datetime(2026, 1, 31)),
        (pa.array([datetime(2026, 1, 31)], pa.timestamp("ms")), t.Timestamp(), datetime(2026, 1, 31, tzinfo=UTC)),
        (pa.array([1999], pa.timestamp("ns")), t.Timestamp("us", zoned=False), datetime(1970, 1, 1, 0, 0, 0, 1)),
        (
            pa.array([-1], pa.timestamp("ns")),
            t.Timestamp("us", zoned=False),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
        ),
        (pa.array([b"x"]), t.STRING, "x"),
        (pa.array(["x", "x"]).dictionary_encode(), t.STRING, "x"),
        (pa.array(["x"], pa.large_string()), t.STRING, "x"),
    ],
)
def test_values_are_promoted_to_the_columns_type(stored: pa.Array, kind: t.Type, expected: object) -> None:
    file = pa.table([stored], schema=pa.schema([with_id("a", stored.type, 1)]))
    assert read(file, [t.Field(1, "a", kind)])[0]["a"] == expected


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (pa.array(["x"]), t.LONG),
        (pa.array([2**40]), t.INT),
        (pa.array([True]), t.LONG),
        (pa.array([1]), t.Struct((t.Field(2, "x", t.LONG),))),
    ],
)
def test_a_file_of_another_type_is_refused_with_column_and_types(stored: pa.Array, kind: t.Type) -> None:
    file = pa.table([stored], schema=pa.schema([with_id("a", stored.type, 1)]))
    with pytest.raises(CorruptMetadata, match="'a' is"):
        read(file, [t.Field(1, "a", kind)])


def test_a_file_without_ids_gets_them_from_the_name_mapping() -> None:
    file = pa.table({"old_a": [1], "s": [{"inner": 2}]})
    matching = FieldMatching(by_id=True, name_mapping={("old_a",): 1, ("s",): 2, ("s", "inner"): 3})
    fields = [t.Field(1, "a", t.LONG), t.Field(2, "s", t.Struct((t.Field(3, "renamed", t.LONG),)))]
    assert read(file, fields, matching) == [{"a": 1, "s": {"renamed": 2}}]


def test_without_ids_and_mapping_columns_are_found_by_position() -> None:
    matching = FieldMatching(by_id=True, by_position=True)
    assert read(pa.table({"x": [1], "y": [2]}), [t.Field(2, "b", t.LONG), t.Field(1, "a", t.LONG)], matching) == [
        {"b": 2, "a": 1}
    ]


def test_without_ids_mapping_and_position_columns_are_found_by_their_physical_name() -> None:
    fields = [t.Field(5, "a", t.LONG, physical_name="col-5")]
    assert read(pa.table({"x": [1], "col-5": [2]}), fields) == [{"a": 2}]


def test_by_name_the_physical_name_is_used() -> None:
    file = pa.table({"col-1": [1], "a": [2]})
    fields = [t.Field(1, "a", t.LONG, physical_name="col-1")]
    assert read(file, fields, FieldMatching()) == [{"a": 1}]


def test_by_name_case_is_ignored_only_where_nothing_matches_exactly() -> None:
    file = pa.table({"A": [1], "a": [2], "B": [3]})
    assert read(file, [t.Field(1, "a", t.LONG), t.Field(2, "b", t.LONG)], FieldMatching()) == [{"a": 2, "b": 3}]


@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**63), 2000 - 2**63) | st.integers(-2000, 2000))
def test_all_nanoseconds_are_rounded_down_to_microseconds(nanos: int) -> None:
    column = pa.array([nanos, None], pa.int64()).cast(pa.timestamp("ns"))
    assert cast_leaf(column, t.Timestamp("us", zoned=False), "c").cast(pa.int64()).to_pylist() == [nanos // 1000, None]
