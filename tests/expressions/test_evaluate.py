"""A filter keeps the rows that DuckDB keeps: nulls, NaN and negative zero included."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import column_getter, matching_rows
from lakescan.expressions.sql import parse_filter

SCHEMA = Schema(
    (
        t.Field(1, "i", t.INT),
        t.Field(2, "f", t.DOUBLE),
        t.Field(3, "s", t.STRING),
        t.Field(4, "n", t.Decimal(6, 2)),
    )
)
FLOATS = st.sampled_from([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.5, -2.0])
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-5, 5),
            "f": st.none() | FLOATS,
            "s": st.none() | st.text("ab%_\\", max_size=4),
            "n": st.none() | st.integers(-300, 300).map(lambda v: Decimal(v) / 100),
        }
    ),
    max_size=20,
)
OPS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
LITERALS = {
    "i": st.integers(-6, 6).map(str) | st.sampled_from(["0.5", "-1.5"]),
    "f": st.sampled_from(["cast('nan' as double)", "0.0", "1.5", "-2", "cast('infinity' as double)"]),
    "s": st.text("ab", max_size=3).map(lambda v: f"'{v}'"),
    "n": st.integers(-300, 300).map(lambda v: str(Decimal(v) / 100)) | st.just("0.005"),
}


@st.composite
def leaves(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(LITERALS)))
    kind = draw(st.sampled_from(["compare", "in", "null"]))
    if kind == "null":
        return f"{column} is {draw(st.sampled_from(['', 'not ']))}null"
    if kind == "in":
        values = ", ".join(draw(st.lists(LITERALS[column] | st.just("null"), min_size=1, max_size=3)))
        return f"{column} {draw(st.sampled_from(['', 'not ']))}in ({values})"
    return f"{column} {draw(OPS)} {draw(LITERALS[column])}"


CONDITIONS = st.recursive(
    leaves(),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
        | inner.map(lambda c: f"not ({c})")
    ),
    max_leaves=5,
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=ROWS, condition=CONDITIONS)
def test_a_filter_keeps_the_rows_that_duckdb_keeps(rows: list[dict], condition: str) -> None:
    table = pa.Table.from_pylist(rows, schema=pa.schema([f.with_metadata(None) for f in SCHEMA.arrow()]))
    numbered = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
    predicate = bind(parse_filter(condition), SCHEMA)
    kept = numbered.filter(matching_rows(predicate, column_getter(table.combine_chunks(), SCHEMA), table.num_rows))
    connection = duckdb.connect()
    connection.register("numbered", numbered)
    expected = connection.sql(f"select row from numbered where {condition}").fetchall()
    assert sorted(kept["row"].to_pylist()) == sorted(r for (r,) in expected)


def test_like_supports_percent_underscore_and_backslash() -> None:
    table = pa.table({"s": ["abc", "a%c", "a_c", "xabc", None]})
    schema = Schema((t.Field(3, "s", t.STRING),))
    for pattern, kept in [("a%", 3), ("a_c", 3), ("a\\%c", 1), ("%b%", 2)]:
        predicate = bind(parse_filter(f"s like '{pattern}'".replace("\\", "\\\\")), schema)
        mask = matching_rows(predicate, column_getter(table, schema), 5)
        assert mask.to_pylist().count(True) == kept, pattern


def test_members_of_null_structs_are_null() -> None:
    schema = Schema((t.Field(1, "p", t.Struct((t.Field(2, "x", t.LONG),))),))
    table = pa.table({"p": pa.array([{"x": 1}, None, {"x": None}], pa.struct([("x", pa.int64())]))})
    mask = matching_rows(bind(parse_filter("p.x is null"), schema), column_getter(table, schema), 3)
    assert mask.to_pylist() == [False, True, True]
