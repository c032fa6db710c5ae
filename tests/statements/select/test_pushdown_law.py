"""Law: a statement over the results of its scans returns the same rows as over the whole tables."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import column_getter, matching_rows
from lakescan.statements.duckdb.translate import QueryTable, translate_query
from lakescan.statements.select.pushdown import find_pushdowns
from lakescan.statements.select.relations import Pushdown
from lakescan.statements.select.session import QuerySettings
from lakescan.statements.select.table_references import Occurrence, occurrences
from lakescan.statements.syntax.parse import parse_tree

_NAMES = ("a", "b", "c")
_COLUMNS = ("k", "v", "w")
_JOINS = ("", "LEFT ", "RIGHT ", "FULL ", "LEFT SEMI ", "LEFT ANTI ")
_SCHEMA = Schema(tuple(t.Field(n, name, t.LONG) for n, name in enumerate(_COLUMNS, 1)))
_values = st.one_of(st.none(), st.integers(0, 3))
_tables = st.lists(st.tuples(*[_values] * 3), max_size=8).map(
    lambda rows: pa.table({name: pa.array([row[n] for row in rows], pa.int64()) for n, name in enumerate(_COLUMNS)})
)


def _conditions(names: list[str]) -> st.SearchStrategy[str]:
    """Draw conditions on the columns of sources, by name."""
    column = st.builds("{}.{}".format, st.sampled_from(names), st.sampled_from(_COLUMNS))
    simple = st.one_of(
        st.builds("{} {} {}".format, column, st.sampled_from(["=", "<", ">=", "<>", "<=>"]), st.integers(0, 3)),
        st.builds("{} IS {}NULL".format, column, st.sampled_from(["", "NOT "])),
        st.builds("{} IN ({}, {})".format, column, st.integers(0, 3), st.integers(0, 3)),
        st.builds("coalesce({}, 1) = {}".format, column, st.integers(0, 2)),
        st.builds("{} + 1 > {}".format, column, st.integers(0, 3)),
        st.builds("{} = {}".format, column, column),
    )
    return st.recursive(
        simple,
        lambda inner: st.one_of(
            st.builds("({} OR {})".format, inner, inner),
            st.builds("({} AND {})".format, inner, inner),
            st.builds("NOT ({})".format, inner),
        ),
        max_leaves=3,
    )


@st.composite
def _sources(draw: st.DrawFn, depth: int) -> str:
    """Draw a FROM item with the columns k, v and w."""
    kind = draw(st.sampled_from(["table"] * 3 + ["query", "union", "group", "distinct", "limited"] * (depth > 0)))
    if kind == "table":
        return draw(st.sampled_from(_NAMES))
    inner = draw(queries(depth - 1))
    if kind == "union":
        word = draw(st.sampled_from(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]))
        return f"({inner} {word} {draw(queries(depth - 1))})"
    if kind == "group":
        return f"(SELECT k, max(v) AS v, count(w) AS w FROM ({inner}) i GROUP BY k)"
    if kind == "distinct":
        return f"(SELECT DISTINCT v AS k, k AS v, w FROM ({inner}) i)"
    if kind == "limited":
        return f"(SELECT * FROM ({inner}) i ORDER BY k, v, w LIMIT 2)"
    return f"({inner})"


@st.composite
def _links(draw: st.DrawFn, names: list[str], name: str) -> str:
    """Draw a join condition with earlier sources: any condition, or equal columns."""
    kind = draw(st.sampled_from(["any", "equal", "both", "using"]))
    column, other = (draw(st.sampled_from(_COLUMNS)) for _ in range(2))
    if kind == "using" and len(names) == 1:
        return f"USING ({column})"
    condition = draw(_conditions([*names, name])) if kind in ("any", "both") else None
    equal = None if kind == "any" else f"{draw(st.sampled_from(names))}.{column} = {name}.{other}"
    return "ON " + " AND ".join(each for each in (equal, condition) if each is not None)


def _subqueries() -> st.SearchStrategy[str]:
    """Draw conditions on s0 with subqueries, correlated or not."""
    column = st.sampled_from(_COLUMNS)
    inner = st.builds("FROM c AS c0 WHERE c0.{} = s0.{} AND c0.w < {}".format, column, column, st.integers(0, 3))
    return st.one_of(
        st.builds("s0.{} {} (SELECT v FROM c AS c0 WHERE c0.w = 1)".format, column, st.sampled_from(["IN", "NOT IN"])),
        st.builds("{} (SELECT 1 {})".format, st.sampled_from(["EXISTS", "NOT EXISTS"]), inner),
        st.builds("EXISTS (SELECT {} {})".format, st.sampled_from(["max(c0.v)", "count(*)"]), inner),
        st.builds("s0.v >= (SELECT {}(c0.v) {})".format, st.sampled_from(["max", "count"]), inner),
        st.builds("(s0.w = 1 OR EXISTS (SELECT 1 {}))".format, inner),
    )


READERS = (
    "SELECT q.k, q.v FROM q WHERE q.k = 1 OR q.v = 2",
    "SELECT x.k, y.v FROM q AS x JOIN q AS y ON x.k = y.v WHERE x.k = 1 AND y.w < 3",
    "SELECT x.k, y.v FROM q AS x LEFT JOIN q AS y ON x.k = y.v AND y.k > 0 WHERE x.v = 1",
    "SELECT k, v FROM q WHERE k = 1 UNION ALL SELECT v, w FROM q WHERE k + 1 = v OR v = 2",
    "SELECT k, v FROM q WHERE k = 1 UNION ALL SELECT v, w FROM q",
    "SELECT x.k, d.w FROM q AS x JOIN a AS d ON x.v = d.k WHERE d.v = 1 AND x.k IN (SELECT v FROM q WHERE w = 1)",
    "SELECT r.k, b.v FROM (SELECT k, v FROM q UNION SELECT v, w FROM a AS u) AS r JOIN b USING (k) WHERE k < 2",
)


@st.composite
def queries(draw: st.DrawFn, depth: int = 2) -> str:
    """Draw a query with the columns k, v and w."""
    text, names = f"{draw(_sources(depth))} AS s0", ["s0"]
    for n in range(1, draw(st.integers(1, 3))):
        name = f"s{n}"
        kind = draw(
            st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
        )
        text += f" {kind} {draw(_sources(depth))} AS {name} {draw(_links(names, name))}"
        if "SEMI" not in kind and "ANTI" not in kind:
            names.append(name)
    columns = [f"{draw(st.sampled_from(names))}.{draw(st.sampled_from(_COLUMNS))} AS {name}" for name in _COLUMNS]
    where = f" WHERE {draw(_conditions(names))}" if draw(st.booleans()) else ""
    if where and draw(st.booleans()):
        where += f" AND {draw(_subqueries())}"
    return f"SELECT {', '.join(columns)} FROM {text}{where}"


def _narrowed(rows: pa.Table, pushed: Pushdown) -> pa.Table:
    """Return the rows that satisfy a scan's condition."""
    batch = rows.combine_chunks()
    mask = matching_rows(bind(pushed.predicate, _SCHEMA), column_getter(batch, _SCHEMA), batch.num_rows)
    return batch.filter(mask)


def _among(rows: dict[Occurrence, pa.Table], each: Occurrence, pushed: Pushdown) -> pa.Table:
    """Return the rows of a scan that have keys of the scans that it is joined with."""
    found = rows[each]
    for (column,), among in pushed.among:
        keys = pa.concat_arrays([rows[v.occurrence][v.path[0]].combine_chunks() for v in among]).drop_null()
        found = found.filter(pc.is_in(found[column], value_set=keys))
    return found


@pytest.mark.slow
@settings(max_examples=400)
@given(
    query=queries(),
    data=st.tuples(_tables, _tables, _tables),
    reader=st.sampled_from([None, *READERS]),
    order=st.randoms(use_true_random=False),
)
def test_narrowed_scans_change_no_result(
    query: str, data: tuple[pa.Table, ...], reader: str | None, order: Random
) -> None:
    text = query if reader is None else f"WITH q AS ({query}) {reader}"
    tree = parse_tree(text)
    found = occurrences(tree, text)
    pushed = find_pushdowns(tree, dict.fromkeys(found, _SCHEMA), {}, QuerySettings())
    rows = {each: _narrowed(data[_NAMES.index(each.names[0])], pushed[each]) for each in found}
    for each in order.sample(found, len(found)) if found else ():
        rows[each] = _among(rows, each, pushed[each])
    places = {each.start: n for n, each in enumerate(found)}
    names = [pushed[each].columns or _COLUMNS for each in found]

    def whole(table: Any) -> QueryTable:
        return QueryTable(table.name, [(name, t.LONG) for name in _COLUMNS], frozenset({(table.name,)}))

    def narrow(table: Any) -> QueryTable:
        n = places[table.parts[0].meta["start"]]
        return QueryTable(f"t{n}", [(name, t.LONG) for name in names[n]], frozenset({(table.name,)}))

    with duckdb.connect() as connection:
        for name, whole_rows in zip(_NAMES, data, strict=True):
            connection.register(name, whole_rows)
        for n, each in enumerate(found):
            connection.register(f"t{n}", rows[each].select(list(names[n])))
        results = [connection.sql(translate_query(text, tables, {}).sql).fetchall() for tables in (whole, narrow)]
    assert Counter(results[0]) == Counter(results[1])
