"""A file is pruned only when it provably has no matching row, and a filter dropped only when every row matches."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import column_getter, matching_rows
from lakescan.expressions.sql import parse_filter
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.prune import might_match, must_match

SCHEMA = Schema((t.Field(1, "i", t.LONG), t.Field(2, "f", t.DOUBLE), t.Field(3, "s", t.STRING), t.Field(4, "j", t.INT)))


def stats_of(rows: list[dict], known: frozenset[str], cut: int) -> dict[int, ColumnStats]:
    """Return the statistics that a writer would record for one file; any may be missing, and text bounds are cut."""
    found = {}
    for field in SCHEMA.fields:
        values = [r[field.name] for r in rows]
        present = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
        low, high = (min(present), max(present)) if present and "bounds" in known else (None, None)
        if field.type == t.STRING and high is not None:
            low, high = low[:cut], high if len(high) <= cut else high[:cut] + "\U0010ffff"
        nans = sum(isinstance(v, float) and math.isnan(v) for v in values)
        found[field.id] = ColumnStats(
            pa.array([low], field.type.arrow()),
            pa.array([high], field.type.arrow()),
            pa.array([values.count(None) if "nulls" in known else None], pa.int64()),
            pa.array([nans if "nans" in known else None], pa.int64()) if field.type == t.DOUBLE else None,
            pa.array([len(values)], pa.int64()),
        )
    return found


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-3, 3),
            "f": st.none() | st.sampled_from([float("nan"), 0.0, -0.0, 1.0, -1.0, float("inf")]),
            "s": st.none() | st.text("ab", max_size=4),
            "j": st.none() | st.integers(-3, 3),
        }
    ),
    min_size=1,
    max_size=5,
)
KNOWN = st.frozensets(st.sampled_from(["bounds", "nulls", "nans"]))
OPS = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
LEAVES = st.one_of(
    st.tuples(st.just("i"), OPS, st.integers(-4, 4).map(str)).map(" ".join),
    OPS.map(lambda op: f"i {op} j"),
    OPS.map(lambda op: f"not (j {op} i)"),
    st.tuples(st.just("f"), OPS, st.sampled_from(["0.0", "1", "-1", "cast('nan' as double)"])).map(" ".join),
    st.tuples(st.just("s"), OPS, st.text("ab", max_size=3).map(lambda v: f"'{v}'")).map(" ".join),
    st.tuples(st.sampled_from(["", "not "]), st.text("ab", min_size=1, max_size=2)).map(
        lambda p: f"{p[0]}s like '{p[1]}%'"
    ),
    st.tuples(st.sampled_from(["", "not "]), st.lists(st.integers(-4, 4), min_size=1, max_size=3)).map(
        lambda p: f"i {p[0]}in ({', '.join(map(str, p[1]))})"
    ),
    st.sampled_from(["i is null", "f is not null", "isnan(f)", "not isnan(f)", "s is null"]),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda c: st.tuples(c, st.sampled_from(["and", "or"]), c).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
    max_leaves=4,
)


@pytest.mark.slow
@settings(max_examples=500)
@given(rows=ROWS, known=KNOWN, cut=st.integers(1, 4), condition=CONDITIONS)
def test_statistics_never_contradict_the_rows(
    rows: list[dict], known: frozenset[str], cut: int, condition: str
) -> None:
    predicate = bind(parse_filter(condition), SCHEMA)
    table = pa.Table.from_pylist(rows, schema=pa.schema([f.with_metadata(None) for f in SCHEMA.arrow()]))
    matches = matching_rows(predicate, column_getter(table.combine_chunks().to_batches()[0], SCHEMA), len(rows))
    stats = stats_of(rows, known, cut)
    if pc.any(matches).as_py():
        assert might_match(predicate, stats, 1).to_pylist() == [True]
    if not pc.all(matches).as_py():
        assert must_match(predicate, stats, 1).to_pylist() == [False]


def one_file(lower: object, upper: object, kind: t.Type, **counts: int) -> dict[int, ColumnStats]:
    arrow = kind.arrow()
    known = {name: pa.array([value], pa.int64()) for name, value in {"value_count": 10, **counts}.items()}
    return {1: ColumnStats(pa.array([lower], arrow), pa.array([upper], arrow), **known)}


@pytest.mark.parametrize(
    ("condition", "might", "must"),
    [
        ("i < 10", False, False),
        ("i <= 10", True, False),
        ("i > 20", False, False),
        ("i >= 10", True, True),
        ("i = 9", False, False),
        ("i != 9", True, True),
        ("i in (1, 2, 30)", False, False),
        ("i in (1, 15)", True, False),
        ("i not in (1, 30)", True, True),
        ("i is null", False, False),
        ("i is not null", True, True),
    ],
)
def test_bounds_decide_comparisons(condition: str, might: bool, must: bool) -> None:
    schema = Schema((t.Field(1, "i", t.LONG),))
    predicate, stats = bind(parse_filter(condition), schema), one_file(10, 20, t.LONG, null_count=0)
    assert might_match(predicate, stats, 1).to_pylist() == [might]
    assert must_match(predicate, stats, 1).to_pylist() == [must]


@pytest.mark.parametrize(
    ("text", "may"),
    [
        *[("f = 1", False), ("f < 1", False), ("f <= 1", False), ("f in (1, 2)", False)],
        *[("f > 1", True), ("f >= 1", True), ("f != 1", True), ("f not in (1, 2)", True), ("isnan(f)", True)],
    ],
)
@pytest.mark.parametrize(("nulls", "nans"), [(0, 3), (2, 1)])
def test_a_file_of_only_nan_and_nulls_matches_no_number(text: str, may: bool, nulls: int, nans: int) -> None:
    """NaN equals no number, and is greater than all."""
    counts = [pa.array([each], pa.int64()) for each in (nulls, nans, 3)]
    unknown = pa.nulls(1, pa.float64())
    stats = {2: ColumnStats(unknown, unknown, *counts)}
    assert might_match(bind(parse_filter(text), SCHEMA), stats, 1).to_pylist() == [may]


def test_an_upper_bound_of_floats_proves_nothing_while_there_may_be_nan() -> None:
    schema = Schema((t.Field(1, "f", t.DOUBLE),))
    predicate = bind(parse_filter("f > 100"), schema)
    assert might_match(predicate, one_file(1.0, 2.0, t.DOUBLE), 1).to_pylist() == [True]
    assert might_match(predicate, one_file(1.0, 2.0, t.DOUBLE, nan_count=0), 1).to_pylist() == [False]


def test_unknown_statistics_prune_nothing() -> None:
    schema = Schema((t.Field(1, "i", t.LONG),))
    for condition in ("i = 1", "i is null", "i in (1)"):
        assert might_match(bind(parse_filter(condition), schema), {}, 3).to_pylist() == [True] * 3


@pytest.mark.parametrize(
    ("condition", "might"),
    [
        ("i < j", False),
        ("i <= j", True),
        ("i = j", True),
        ("i > j", True),
        ("j >= i", True),
        ("j > i", False),
        ("not (i >= j)", False),
        ("i = k", False),
        ("k = i", False),
        ("i < k", True),
        ("i != j", True),
    ],
)
def test_bounds_of_two_columns_decide_comparisons(condition: str, might: bool) -> None:
    schema = Schema((t.Field(1, "i", t.LONG), t.Field(2, "j", t.INT), t.Field(3, "k", t.LONG)))
    bounds = {1: (10, 20, t.LONG), 2: (5, 10, t.INT), 3: (21, 30, t.LONG)}
    stats = {n: one_file(*each)[1] for n, each in bounds.items()}
    assert might_match(bind(parse_filter(condition), schema), stats, 1).to_pylist() == [might]
    unknown = stats | {2: ColumnStats(), 3: ColumnStats()}
    assert might_match(bind(parse_filter(condition), schema), unknown, 1).to_pylist() == [True]


@pytest.mark.parametrize("kind", [t.INT, t.LONG])
def test_long_lists_prune_by_each_of_their_values(kind: t.Type) -> None:
    schema = Schema((t.Field(1, "i", kind),))
    predicate = bind(parse_filter(f"i in ({', '.join(map(str, range(0, 1000, 2)))})"), schema)
    bounds = [(3, 3, False), (3, 4, True), (998, 1005, True), (999, 1005, False), (None, -1, False), (999, None, False)]
    for lower, upper, might in bounds:
        assert might_match(predicate, one_file(lower, upper, kind), 1).to_pylist() == [might]
