"""Rows converted to fit a table stay the same rows, even if they are slices of other arrays."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.common.schema import Schema
from lakescan.definition.arrow_schema import columns_of
from lakescan.definition.table_definition import assign_ids
from lakescan.writing.conform import Fit, retype

TEXTS = st.one_of(st.none(), st.text(max_size=3))
MEMBERS = st.one_of(st.none(), st.fixed_dictionaries({"x": st.one_of(st.none(), st.integers(-9, 9)), "t": TEXTS}))
ROWS = st.fixed_dictionaries(
    {
        "a": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
        "s": MEMBERS,
        "l": st.one_of(st.none(), st.lists(MEMBERS, max_size=3)),
        "m": st.one_of(st.none(), st.dictionaries(st.text(max_size=2), st.lists(TEXTS, max_size=2), max_size=3)),
    }
)
MEMBER = pa.struct([("x", pa.int32()), ("t", pa.string())])
GIVEN = pa.schema(
    [("a", pa.int32()), ("s", MEMBER), ("l", pa.list_(MEMBER)), ("m", pa.map_(pa.string(), pa.list_(pa.string())))]
)
WIDER = pa.struct([("T", pa.string()), ("x", pa.int64()), ("new", pa.date32())])
WANTED = pa.schema(
    [
        ("m", pa.map_(pa.string(), pa.list_(pa.string()))),
        ("L", pa.list_(WIDER)),
        ("A", pa.int64()),
        ("s", WIDER),
        ("z", pa.int8()),
    ]
)


def schema_of(schema: pa.Schema) -> Schema:
    return Schema(assign_ids(columns_of(schema)))


def widened(member: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if member is None else {"T": member["t"], "x": member["x"], "new": None}


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(ROWS, max_size=8), st.integers(0, 4), st.integers(0, 8))
def test_rows_stay_the_same_at_any_depth_and_in_any_slice(rows: list[dict[str, Any]], start: int, count: int) -> None:
    made = [{**row, "m": None if row["m"] is None else list(row["m"].items())} for row in rows]
    batch = pa.RecordBatch.from_pylist(made, GIVEN).slice(start, count)
    found = Fit.match_columns(schema_of(WANTED), GIVEN).apply(batch)
    found.validate(full=True)
    expected = [
        {
            "m": row["m"],
            "L": None if row["l"] is None else [widened(each) for each in row["l"]],
            "A": row["a"],
            "s": widened(row["s"]),
            "z": None,
        }
        for row in made[start : start + count]
    ]
    assert found.to_pylist() == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(ROWS, max_size=8), st.integers(0, 4))
def test_renaming_changes_only_names(rows: list[dict[str, Any]], start: int) -> None:
    made = [{**row, "m": None if row["m"] is None else list(row["m"].items())} for row in rows]
    batch = pa.RecordBatch.from_pylist(made, GIVEN).slice(start)
    member = pa.struct([("col-1", pa.int32()), ("col-2", pa.string())])
    kinds = [pa.int32(), member, pa.list_(pa.field("item", member)), GIVEN.field("m").type]
    for column, kind in zip(batch.columns, kinds, strict=True):
        found = retype(column, kind)
        found.validate(full=True)
        assert found.type == kind
        assert str(found.to_pylist()).replace("col-1", "x").replace("col-2", "t") == str(column.to_pylist())


@pytest.mark.parametrize(
    ("given", "wanted", "message"),
    [
        (pa.float64(), pa.float32(), "is float in the table and double in the rows"),
        (pa.int64(), pa.float64(), "is double in the table and long in the rows"),
        (pa.string(), pa.int64(), "is long in the table and string in the rows"),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), "is timestamptz in the table and timestamp in the rows"),
        (pa.decimal128(9, 3), pa.decimal128(9, 2), "is decimal"),
        (pa.list_(pa.string()), pa.list_(pa.int32()), "'c.element' is int"),
        (
            pa.struct([("x", pa.int32()), ("y", pa.int32())]),
            pa.struct([("x", pa.int32())]),
            "'c.y' is not in the table",
        ),
    ],
)
def test_types_that_would_lose_something_do_not_fit(given: pa.DataType, wanted: pa.DataType, message: str) -> None:
    with pytest.raises(lakescan.SchemaMismatch, match=message):
        Fit.match_columns(schema_of(pa.schema([("c", wanted)])), pa.schema([("c", given)]))


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array([1, None], pa.int8()), pa.int64()),
        (pa.array([1, None], pa.int64()), pa.int32()),
        (pa.array([1.5, None], pa.float32()), pa.float64()),
        (pa.array(["a", None]).dictionary_encode(), pa.string()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array([None, None]), pa.date32()),
        (pa.array([1, None], pa.timestamp("s", "Europe/Berlin")), pa.timestamp("us", "UTC")),
        (pa.array(["1.5", None]).cast(pa.decimal128(5, 2)), pa.decimal128(9, 3)),
    ],
)
def test_types_that_lose_nothing_fit(values: pa.Array, wanted: pa.DataType) -> None:
    schema = pa.schema([("c", wanted)])
    found = Fit.match_columns(schema_of(schema), pa.schema([("c", values.type)])).apply(pa.record_batch({"c": values}))
    assert found.column(0).type == wanted
    assert found.column(0).to_pylist() == values.cast(wanted).to_pylist()


def test_members_that_are_required_may_be_missing_where_their_struct_is_null() -> None:
    wanted = pa.schema([("s", pa.struct([pa.field("x", pa.int32(), nullable=False)]))])
    given = pa.schema([("s", pa.struct([("x", pa.int32())]))])
    fit = Fit.match_columns(schema_of(wanted), given)
    batch = pa.RecordBatch.from_pylist([{"s": None}, {"s": {"x": 1}}], given)
    assert fit.apply(batch).to_pylist() == [{"s": None}, {"s": {"x": 1}}]
    with pytest.raises(lakescan.SchemaMismatch, match=r"column 's\.x' is required"):
        fit.apply(pa.RecordBatch.from_pylist([{"s": {"x": None}}], given))


@pytest.mark.parametrize("given", [{"id": [1]}, {"id": [1], "s": [{"x": 1, "t": None}]}, {"id": [1], "s": [None]}])
def test_null_structs_with_required_members_are_written_at_any_depth(
    local: lakescan.Catalog, given: dict[str, list[Any]]
) -> None:
    table = local.create_table("db.t", "id BIGINT, s STRUCT<x: INT NOT NULL, t: STRUCT<y: STRING NOT NULL>>")
    table.append(pa.table(given))
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "s": given.get("s", [None])[0]}]
