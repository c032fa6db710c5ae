"""Whatever statistics and partitions record, a filter keeps the rows that a full scan and the filter would keep.

Covers every type with its extremes, every transform and metrics mode, and tables of both formats, written by lakescan,
deltalake and pyiceberg. Plain Python computes the expected rows (`tests.support.extremes`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.expressions.predicate import Comparison, In, IsNull, Like, Predicate
from tests.support import extremes as e

NO_SUCH_IN_DELTA = ("fine", "clock")
DATA = e.table()
COLUMNS = [name for name in DATA.column_names if name not in ("k", "pair")]
KEYS = {name: e.as_numbers(DATA[name]) for name in COLUMNS}

_BY_DAY = ["years({})", "months({})", "days({})"]
TRANSFORMS: dict[str, list[str]] = {
    "i": ["{}", "truncate(10, {})", "bucket(4, {})"],
    "l": ["{}", "truncate(10, {})", "bucket(4, {})"],
    "f": ["{}"],
    "g": ["{}"],
    "b": ["{}"],
    "d9": ["{}", "bucket(4, {})"],
    "d20": ["{}", "bucket(4, {})"],
    "d38": ["{}", "bucket(4, {})"],
    "price": ["{}", "truncate(10, {})", "truncate(1000, {})", "bucket(4, {})"],
    "whole": ["{}", "bucket(4, {})"],
    "day": ["{}", "bucket(4, {})", *_BY_DAY],
    "wall": ["{}", "bucket(4, {})", *_BY_DAY, "hours({})"],
    "instant": ["{}", "bucket(4, {})", *_BY_DAY, "hours({})"],
    "fine": [*_BY_DAY, "hours({})"],
    "s": ["{}", "truncate(2, {})", "truncate(17, {})", "bucket(4, {})"],
    "x": ["{}", "truncate(2, {})", "bucket(4, {})"],
}
MODES = ["none", "counts", "truncate(1)", "truncate(16)", "full"]


class Made:
    """The tables, each made on first use."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._name = folder, f"law{abs(hash(folder))}"
        self._catalog = lakescan.catalog(self._name, warehouse=str(folder / "warehouse"))
        self._catalog.create_namespace("s")
        self._count = 0
        self.partitioned = cache(self._partitioned)
        self.with_metrics = cache(self._with_metrics)
        self.by_pyiceberg = cache(self._by_pyiceberg)
        self.delta = cache(self._delta)

    def _new(self, columns: list[str], partition_by: list[str], properties: dict[str, str]) -> lakescan.Table:
        self._count += 1
        version = {"format-version": "3"} if "fine" in columns else {}
        rows = DATA.select(["k", "pair", *columns])
        name = f"s.t{self._count}"
        self._catalog.create_table(name, rows.schema, partition_by=partition_by, properties={**version, **properties})
        table = lakescan.table(f"{self._name}.{name}")
        table.append(rows)
        return lakescan.table(f"{self._name}.{name}")

    def _partitioned(self, column: str, transform: str) -> lakescan.Table:
        """Make a table partitioned by a transform of the column, without other statistics of it."""
        return self._new([column], [transform.format(column)], {"write.metadata.metrics.default": "none"})

    def _with_metrics(self, mode: str) -> lakescan.Table:
        return self._new(COLUMNS, ["pair"], {"write.metadata.metrics.default": mode})

    def _by_pyiceberg(self) -> lakescan.Table:
        from tests.support.catalog import local_catalog

        rows = DATA.select(
            [n for n in DATA.column_names if n != "fine"]
        )  # of version 3, which pyiceberg does not write
        made = local_catalog(self._folder).create_table("n.t", rows.schema)
        for pair in range(e.ROWS // 2):
            made.append(rows.slice(pair * 2, 2))
        return lakescan.table(made.metadata_location)

    def _delta(self, writer: str) -> lakescan.Table:
        location = str(self._folder / writer)
        rows = DATA.select([n for n in DATA.column_names if n not in NO_SUCH_IN_DELTA])
        if writer == "deltalake":
            write_deltalake(location, rows, partition_by=["pair"])
        else:
            lakescan.save(rows, location, format="delta", partition_by="pair")
        return lakescan.table(location)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("law"))


Test = tuple[Predicate, Callable[[int], bool | None]]


@st.composite
def leaves(draw: st.DrawFn, column: str) -> Test:
    """Draw a test of the column and its expected result for each row."""
    keys, values = KEYS[column], DATA[column].combine_chunks().drop_null()

    def literal() -> pa.Scalar:
        return values[draw(st.integers(0, len(values) - 1))]

    form = draw(
        st.sampled_from(["compared", "compared", "in", "null", "between", *(["like"] if column == "s" else [])])
    )
    if form == "compared":
        op, value = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="])), literal()
        return Comparison(column, op=op, value=value), lambda n: e.sql_comparison(op, keys[n], e.key(value))
    if form == "between":
        low, high = literal(), literal()
        test = Comparison(column, op=">=", value=low) & Comparison(column, op="<=", value=high)
        return test, lambda n: e.both(
            e.sql_comparison(">=", keys[n], e.key(low)), e.sql_comparison("<=", keys[n], e.key(high))
        )
    if form == "in":
        listed, has_null = [literal() for _ in range(draw(st.integers(1, 3)))], draw(st.booleans())
        wanted = [e.key(value) for value in listed]

        def found(n: int) -> bool | None:
            if keys[n] is None or (has_null and keys[n] not in wanted):
                return None
            return keys[n] in wanted

        return In(column, values=tuple(listed), has_null=has_null), found
    if form == "like":
        pattern = draw(st.sampled_from(["a%", "%a", "%", "a" * 16 + "%", "%\ud7ff%", r"\%\_\\%", "a" * 40 + "_", "_"]))
        return Like(column, pattern=pattern), lambda n: e.sql_like(keys[n], pattern)
    return IsNull(column), lambda n: keys[n] is None


def negated(test: Test) -> Test:
    return ~test[0], lambda n: e.sql_not(test[1](n))


def conjunction(tests: tuple[Test, Test]) -> Test:
    (one, first), (other, second) = tests
    return one & other, lambda n: e.both(first(n), second(n))


def filters(column: str) -> st.SearchStrategy[Test]:
    return st.recursive(
        leaves(column),
        lambda inner: inner.map(negated) | st.tuples(inner, inner).map(conjunction),
        max_leaves=3,
    )


def check(table: lakescan.Table, column: str, test: Test) -> None:
    """Check the matching rows, their count, and the column's extremes among them."""
    predicate, holds = test
    expected = [n for n in range(e.ROWS) if holds(n)]
    scan = table.scan().where(predicate)
    assert sorted(scan.to_arrow()["k"].to_pylist()) == expected
    assert scan.count() == len(expected)
    known = [KEYS[column][n] for n in expected if KEYS[column][n] is not None]
    for name, extreme in (("min", min), ("max", max)):
        assert e.same(getattr(scan, name)(column), extreme(known, default=None), DATA.schema.field(column).type)


LAW = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@pytest.mark.parametrize("column", TRANSFORMS)
@LAW
@given(data=st.data())
def test_pruning_by_transforms_of_every_type_loses_no_row(made: Made, column: str, data: st.DataObject) -> None:
    transform = data.draw(st.sampled_from(TRANSFORMS[column]))
    check(made.partitioned(column, transform), column, data.draw(filters(column)))


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
@settings(LAW, max_examples=12)
@given(column=st.sampled_from(COLUMNS), data=st.data())
def test_pruning_by_bounds_of_every_type_and_metrics_mode_loses_no_row(
    made: Made, mode: str, column: str, data: st.DataObject
) -> None:
    check(made.with_metrics(mode), column, data.draw(filters(column)))


@pytest.mark.slow
@settings(LAW, max_examples=30)
@given(column=st.sampled_from(COLUMNS), data=st.data())
def test_pruning_by_bounds_of_pyiceberg_loses_no_row(made: Made, column: str, data: st.DataObject) -> None:
    assume(column != "fine")
    check(made.by_pyiceberg(), column, data.draw(filters(column)))


@pytest.mark.slow
@pytest.mark.parametrize("writer", ["lakescan", "deltalake"])
@settings(LAW, max_examples=30)
@given(column=st.sampled_from(COLUMNS), data=st.data())
def test_pruning_by_delta_statistics_loses_no_row(made: Made, writer: str, column: str, data: st.DataObject) -> None:
    assume(column not in NO_SUCH_IN_DELTA)
    check(made.delta(writer), column, data.draw(filters(column)))


@pytest.mark.parametrize("column", [c for c in COLUMNS if c not in NO_SUCH_IN_DELTA])
@settings(LAW, max_examples=1)
@given(data=st.data())
def test_an_overwrite_removes_just_the_rows_that_match(
    column: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With rows written by deltalake: its bounds were doubles, and files whose rows do not match were removed."""
    predicate, holds = data.draw(filters(column))
    rows = DATA.select(["k", "pair", column])
    location = str(tmp_path_factory.mktemp("overwritten") / "t")
    write_deltalake(location, rows, partition_by=["pair"])
    lakescan.table(location).overwrite(rows.slice(0, 0), where=predicate)
    left = lakescan.table(location).scan().to_arrow()["k"].to_pylist()
    assert sorted(left) == [n for n in range(e.ROWS) if not holds(n)]
