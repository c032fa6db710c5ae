"""SQL over columns and struct members whose names differ only in case, which DuckDB treats as the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakescan
from lakescan.common.distinct_names import distinct_names, distinct_schema, distinct_table, restore_names
from lakescan.errors import InvalidStatement, NoSuchColumn, UnsupportedFeature

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
PAIR = pa.struct([("b", pa.int32()), ("B", pa.int32())])
DEEP = pa.map_(pa.string(), pa.struct([("b", pa.list_(PAIR)), ("B", pa.string())]))
COLUMNS = "id BIGINT, s STRUCT<b: INT, B: INT>, l ARRAY<STRUCT<b: INT, B: INT>>"
ONE = {"b": 10, "B": 20}
ROWS = pa.table(
    {
        "id": [1, 2],
        "s": pa.array([{"b": 10, "B": 20}, {"b": 30, "B": 40}], PAIR),
        "l": pa.array([[{"b": 1, "B": 2}], None], pa.list_(PAIR)),
    }
)


@pytest.fixture
def table(local: lakescan.Catalog) -> lakescan.Table:
    """An Iceberg table: Delta has no names that differ only in case."""
    local.create_table("db.t", COLUMNS).append(ROWS)
    return lakescan.table("local.db.t")


def _rows(text: str, **frames: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in lakescan.sql(text, **frames).to_arrow().to_pylist()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT s.b, s.B AS other FROM t ORDER BY id", [(10, 20), (30, 40)]),
        ("SELECT id FROM t WHERE s.B = 40", [(2,)]),
        ("SELECT s FROM t WHERE s.B = 20", [(ONE,)]),
        ("SELECT q.s.B AS x FROM (SELECT s FROM t) AS q ORDER BY x", [(20,), (40,)]),
        ("SELECT l[0].B AS x, l FROM t WHERE id = 1", [(2, [{"b": 1, "B": 2}])]),
        ("SELECT v.e.B AS x FROM t LATERAL VIEW explode(l) v AS e", [(2,)]),
        ("SELECT max(s.b) AS x, max(s.B) AS y FROM t", [(30, 40)]),
        ("SELECT named_struct('c', s.B, 'C', s.b) AS x FROM t WHERE id = 1", [({"c": 20, "C": 10},)]),
        ("SELECT CAST(s AS STRUCT<b: STRING, B: BIGINT>) AS x FROM t WHERE id = 1", [({"b": "10", "B": 20},)]),
        ("SELECT s FROM t WHERE id = 1 UNION ALL SELECT struct(1L AS b, 20 AS B)", [(ONE,), ({"b": 1, "B": 20},)]),
        ("SELECT s.B AS x FROM t GROUP BY s.B ORDER BY x", [(20,), (40,)]),
    ],
)  # fmt: skip
def test_names_that_differ_in_case_select_their_own_members(
    table: lakescan.Table, text: str, expected: list[tuple[Any, ...]]
) -> None:
    assert _rows(text.replace("FROM t", "FROM local.db.t")) == expected
    assert _rows(text, t=ROWS) == expected


def test_inline_makes_a_column_of_each_member(table: lakescan.Table) -> None:
    found = lakescan.sql("SELECT inline(l) FROM local.db.t").to_arrow()
    assert (found.schema.names, found.to_pylist()) == (["b", "B"], [{"b": 1, "B": 2}])


def test_columns_that_differ_only_in_case_are_kept_apart() -> None:
    rows = pa.table([[1], [2]], names=["x", "X"])
    assert _rows("SELECT * FROM t", t=rows) == [(1, 2)]
    assert _rows("SELECT q, r FROM t AS t(q, r)", t=rows) == [(1, 2)]
    with pytest.raises(InvalidStatement, match="ambiguous"):  # as in Spark
        lakescan.sql("SELECT x FROM t", t=rows).to_arrow()


def test_rows_are_changed_in_the_member_that_a_statement_names(table: lakescan.Table) -> None:
    table.update({"s.B": "s.b + 1"}, where="s.B = 20")
    lakescan.sql("UPDATE local.db.t SET s.B = s.b, s.b = s.B WHERE id = 2")
    assert _rows("SELECT id, s FROM local.db.t ORDER BY id") == [(1, {"b": 10, "B": 11}), (2, {"b": 40, "B": 30})]
    lakescan.sql(
        "MERGE INTO local.db.t AS t USING source AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s.B = s.s.B, l = s.l "
        "WHEN NOT MATCHED THEN INSERT (id, s, l) VALUES (s.id, s.s, s.l)",
        source=pa.table({"id": [2, 3], "s": pa.array([{"b": -1, "B": -2}] * 2, PAIR), "l": ROWS["l"].slice(0, 2)}),
    )
    lakescan.sql("INSERT INTO local.db.t VALUES (4, named_struct('b', 1, 'B', NULL), array())")
    lakescan.sql("DELETE FROM local.db.t WHERE s.B = 11")
    assert _rows("SELECT * FROM local.db.t ORDER BY id") == [
        (2, {"b": 40, "B": -2}, [{"b": 1, "B": 2}]),
        (3, {"b": -1, "B": -2}, None),
        (4, {"b": 1, "B": None}, []),
    ]


def test_a_member_is_set_once_and_must_be_there(table: lakescan.Table) -> None:
    with pytest.raises(InvalidStatement, match="twice"):
        table.update({"s.b": "1", "S.b": "2"})
    with pytest.raises(NoSuchColumn, match="no member 'c'"):
        table.update({"s.c": "1"})


@pytest.mark.parametrize("lazy", [False, True])
def test_duckdb_itself_gets_no_rows_that_it_would_confuse(table: lakescan.Table, lazy: bool) -> None:
    with pytest.raises(UnsupportedFeature, match=r"'s'.*differ only in case"):
        table.scan().to_duckdb(lazy=lazy)
    picked = table.scan().select("id", small="s.b", large="s.B").to_duckdb(lazy=lazy)
    assert sorted(picked.fetchall()) == [(1, 10, 20), (2, 30, 40)]


@given(st.lists(st.text(alphabet="aAbB_12", min_size=1, max_size=4)))
def test_names_are_made_distinct_only_if_necessary(names: list[str]) -> None:
    found = distinct_names(names)
    assert len({name.lower() for name in found}) == len(names)
    if len({name.lower() for name in names}) == len(names):
        assert found == names


def test_values_get_their_own_names_back_at_any_depth() -> None:
    value = [("k", {"b": [{"b": 1, "B": 2}], "B": "x"})]
    rows = pa.table({"m": pa.array([None, value, value], DEEP)}).slice(1)
    made = distinct_table(rows)
    assert made.schema == distinct_schema(rows.schema) != rows.schema
    back = restore_names(made["m"].combine_chunks(), DEEP)
    assert (back.type, back.to_pylist()) == (DEEP, [value, value])
