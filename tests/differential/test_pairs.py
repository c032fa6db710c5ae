"""Two ways to compute one answer: whatever statements made a table, each pair of ways gives the same rows.

The statements and queries also run in DuckDB, over its own rows: it shares no code with planning, writing or reading.
`make differential` runs this for any length of time.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.common.cache import DEFAULT_LIMIT
from tests.planning.test_executors import Counting, described
from tests.support.rows import bag
from tests.support.workers import Workers
from tests.tables.support import NAME, maker, now

pytestmark = pytest.mark.usefixtures("no_other_catalogs")


SCHEMA = pa.schema([("k", pa.int64()), ("part", pa.string()), ("n", pa.int32()), ("x", pa.float64())])
MERGE_ON_READ = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
KINDS: dict[str, dict[str, str]] = {
    "iceberg": {},
    "iceberg version 2": MERGE_ON_READ,
    "iceberg version 3": MERGE_ON_READ,
    "delta": {"delta.enableChangeDataFeed": "true"},
    "delta, vectors": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
}

_numbers = st.one_of(st.none(), st.integers(-2, 6))
_parts = st.sampled_from(["a", "ab", "b", "", "%", None])
_floats = st.sampled_from([None, 0.0, -0.0, 1.5, -1.5, math.nan, math.inf])
_rows = st.lists(st.tuples(_numbers, _parts, _numbers, _floats), min_size=1, max_size=8)
_simple = st.one_of(
    st.builds(
        "{} {} {}".format, st.sampled_from("kn"), st.sampled_from(["<", "<=", "=", "<>", ">="]), st.integers(-2, 6)
    ),
    st.builds("x {} {}".format, st.sampled_from(["<", ">", "=", "<=", "<>"]), st.sampled_from(["0", "1.5", "-1.5"])),
    st.builds("{} IS {}NULL".format, st.sampled_from(["k", "part", "n", "x"]), st.sampled_from(["", "NOT "])),
    st.builds("part {} '{}'".format, st.sampled_from(["=", "<", ">=", "<>"]), st.sampled_from(["a", "ab", "", "%"])),
    st.sampled_from(
        [
            "part IN ('a', 'b')",
            "part NOT IN ('a', 'b')",
            "part LIKE 'a%'",
            "k + n > 4",
            "k = n",
            "coalesce(n, 0) = 0",
            "k BETWEEN 1 AND 4",
            "upper(part) = 'AB'",
            "n IN (1, NULL)",
        ]
    ),
)
CONDITIONS = st.recursive(
    _simple,
    lambda inner: st.one_of(
        st.builds("({} OR {})".format, inner, inner),
        st.builds("({} AND {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=4,
)
_MATCHED = ["UPDATE SET n = s.n", "UPDATE SET part = s.part, x = s.x", "DELETE"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), _rows),
        st.tuples(st.just("insert"), _rows),
        st.tuples(st.just("delete"), CONDITIONS),
        st.tuples(st.just("update"), st.sampled_from(["n = n + 1", "part = 'b'", "x = NULL", "k = n"]), CONDITIONS),
        st.tuples(st.just("merge"), _rows, st.sampled_from(_MATCHED), st.booleans()),
        st.tuples(st.just("compact")),
    ),
    min_size=1,
    max_size=6,
)
QUERIES = (
    "SELECT * FROM t WHERE {0}",
    "SELECT part, count(*) AS c, CAST(sum(n) AS BIGINT) AS s, min(k) AS l, max(n) AS h FROM t WHERE {0} GROUP BY part",
    "SELECT count(*) AS c, count(x) AS d, count(DISTINCT part) AS e FROM t WHERE {0}",
    "SELECT DISTINCT part, n FROM t WHERE {0}",
    "SELECT a.k, b.n FROM (SELECT * FROM t WHERE {0}) a JOIN t b ON a.k = b.n",
    "SELECT a.k, b.part FROM t a LEFT JOIN (SELECT * FROM t WHERE {0}) b ON a.k = b.k",
    "SELECT k, n FROM t WHERE {0} EXCEPT SELECT k, n FROM t WHERE {1}",
    "SELECT * FROM t WHERE k = (SELECT max(k) FROM t WHERE {0}) OR {1}",
    "SELECT k, part FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.n = t.k) AND {0}",
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_few_histories_are_the_same_both_ways(kind: str) -> None:
    check_law(kind, 4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_histories_are_the_same_both_ways(kind: str) -> None:
    check_law(kind, 25)


def check_law(kind: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STEPS, st.lists(CONDITIONS, min_size=2, max_size=2), st.sampled_from([(), ("part",)]))
    def check(steps: list[tuple[Any, ...]], conditions: list[str], partition_by: tuple[str, ...]) -> None:
        with tempfile.TemporaryDirectory() as folder, duckdb.connect() as other:
            other.execute("CREATE TABLE t (k BIGINT, part VARCHAR, n INTEGER, x DOUBLE)")
            local = lakescan.catalog("local", warehouse=folder)
            local.create_namespace("db")
            columns = "k BIGINT, part STRING, n INT, x DOUBLE"
            maker(kind.split(",")[0], local)(columns, partition_by=partition_by, properties=KINDS[kind])
            follow(_storable(steps) if "delta" in kind and partition_by else steps, other)
            same_both_ways(other, *conditions)

    check()


def _storable(steps: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the steps without the empty text: Delta's log cannot hold it as a partition value."""
    return [
        (step[0], [(k, part or None, n, x) for k, part, n, x in step[1]], *step[2:])
        if step[0] in ("insert", "merge")
        else step
        for step in steps
    ]


def follow(steps: list[tuple[Any, ...]], other: Any) -> None:
    """Run the steps on both: the rows agree after each step, and the changes lead from each state to the next."""
    start: dict[str, Any] | None = None
    for step in steps:
        event(step[0])
        before, version = of(other, "SELECT * FROM t"), now().version
        run(step, other)
        rows = of(other, "SELECT * FROM t")
        assert bag(now().scan().to_arrow()) == bag(rows), ("a statement", step)
        if version is not None and now().version != version:
            assert applied(bag(before), now().changes(start=version).to_arrow()) == bag(rows), ("changes", step)
        follower = now().stream(start=start, wait=False, **{"on-change": "skip"})
        streamed = pa.Table.from_batches(follower, follower.schema)
        if step[0] == "insert" and start is not None:
            assert bag(streamed) == bag(table_of(step[1])), ("a stream", step)
        start = follower.offset


def run(step: tuple[Any, ...], other: Any) -> None:
    """Run one step on the table and in DuckDB."""
    match step:
        case ("insert", rows):
            now().append(table_of(rows))
            other.register("new", table_of(rows))
            other.execute("INSERT INTO t SELECT * FROM new")
        case ("delete", condition):
            both(other, f"DELETE FROM {{}} WHERE {condition}")
        case ("update", values, condition):
            both(other, f"UPDATE {{}} SET {values} WHERE {condition}")
        case ("merge", rows, matched, inserts):
            found = table_of(list({row[0]: row for row in rows}.values()))  # each key once, or the merge is ambiguous
            text = f"MERGE INTO {{}} AS t USING new AS s ON t.k = s.k WHEN MATCHED THEN {matched}"
            if inserts:
                text += " WHEN NOT MATCHED THEN INSERT (k, part, n, x) VALUES (s.k, s.part, s.n, s.x)"
            lakescan.sql(text.format(NAME), new=found)
            other.register("new", found)
            other.execute(text.format("t"))
        case _:
            now().compact()


def both(other: Any, text: str) -> None:
    lakescan.sql(text.format(NAME))
    other.execute(text.format("t"))


def same_both_ways(other: Any, one: str, two: str) -> None:
    """Check that each pair of ways to read the table, with a filter, agrees."""
    expected = of(other, f"SELECT * FROM t WHERE {one}")
    scan = now().scan().where(one)
    rows = scan.to_arrow()
    assert bag(rows) == bag(expected), ("a filter", one)
    assert scan.count() == rows.num_rows, ("a count", one)
    assert now().scan().count() == of(other, "SELECT * FROM t").num_rows, "a count of all"
    assert bag(pa.Table.from_batches(scan.to_batches(), scan.schema)) == bag(expected), ("batches", one)
    assert bag(pa.concat_tables([task.to_arrow() for task in scan.tasks()] or [rows])) == bag(expected), ("tasks", one)
    assert bag(scan.to_polars().to_arrow().select(SCHEMA.names)) == bag(expected), ("Polars", one)
    assert scan.limit(3).to_arrow().num_rows == min(3, rows.num_rows), ("a limit", one)
    for name in ("k", "n", "part"):
        ends = of(other, f"SELECT min({name}) AS lo, max({name}) AS hi FROM t").to_pylist()[0]
        whole = now().scan()
        assert {"lo": whole.min(name), "hi": whole.max(name)} == ends, ("min and max", name)
    with ThreadPoolExecutor(2) as pool:
        for executor in (Counting(), Workers(), pool):
            away = scan.plan_with(executor).options(**{"data-planning-mode": "distributed"})
            assert described(away.plan()) == described(scan.plan()), ("a distributed plan", one)
            assert bag(away.to_arrow()) == bag(expected), ("a distributed plan's rows", one)
    with without_cache():
        cold = now().scan().where(one)
        assert bag(cold.to_arrow()) == bag(expected), ("without a cache", one)
        assert described(cold.plan()) == described(scan.plan()), ("a plan without a cache", one)
    for text in QUERIES:
        query = text.format(one, two)
        if query.startswith("SELECT k, part FROM t WHERE EXISTS"):
            query = text.format("n IS NOT NULL", two)
        found = lakescan.sql(query, t=now().scan()).to_arrow()
        assert bag(found) == bag(of(other, query)), ("a query", query)


def applied(before: Counter[str], changes: pa.Table) -> Counter[str]:
    """Apply changes to the rows of a state."""
    found = Counter(before)
    for kind in set(changes.column("_change_type").to_pylist()):
        of_kind = changes.filter(pa.compute.equal(changes["_change_type"], kind)).select(SCHEMA.names)
        if kind.lower() in ("insert", "update_postimage", "update_after"):
            found.update(bag(of_kind))
        else:
            found.subtract(bag(of_kind))
    assert all(count >= 0 for count in found.values()), "a change removes a row that does not exist"
    return +found


@contextmanager
def without_cache() -> Iterator[None]:
    lakescan.set_cache_limit(0)
    try:
        yield
    finally:
        lakescan.set_cache_limit(DEFAULT_LIMIT)


def of(other: Any, text: str) -> pa.Table:
    return other.execute(text).to_arrow_table()


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)
