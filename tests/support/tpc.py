"""TPC-H and TPC-DS for tests: their tables in both formats, and comparison of query results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from samples.tpc import LAYOUTS, Tpc, Unavailable, tpc, write_tables

import lakescan
from lakescan.errors import QueryFailed, UnsupportedFeature
from lakescan.statements.select.namespace import _CURRENT

# At smaller scales of TPC-DS, more queries return no rows.
SCALES = {"tpch": 0.01, "tpcds": 0.05}
QUERIES = [("tpch", n) for n in range(1, 23)] + [("tpcds", n) for n in range(1, 31)]
CATALOG = "tpctests"

Row = tuple[Any, ...]


@cache
def benchmark_data(name: str) -> Tpc:
    """Return the rows and queries of a benchmark; skip the test if its generator cannot be installed."""
    try:
        return tpc(name, SCALES[name])
    except Unavailable as error:
        pytest.skip(f"the generators of TPC-H and TPC-DS cannot be installed (is there a network?): {error}")


def make_tables(folder: Path, name: str, format_name: str) -> str:
    """Make the tables of a benchmark in a catalog in a folder, once; return their namespace."""
    lakescan.catalog(CATALOG, warehouse=str(folder))  # each test begins without catalogs
    return _write_once(folder, name, format_name)


@cache
def _write_once(folder: Path, name: str, format_name: str) -> str:
    catalog = lakescan.catalog(CATALOG, warehouse=str(folder))
    return f"{CATALOG}.{write_tables(benchmark_data(name), format_name, catalog, LAYOUTS[name, format_name])}"


@contextmanager
def using_namespace(namespace: str) -> Iterator[None]:
    """Resolve short names of in-process SQL in a namespace."""
    token = _CURRENT.set(tuple(namespace.split(".")))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def rows_unless_refused(query: lakescan.Query, may_be_refused: bool) -> list[Row]:
    """Return the rows of an in-process query; if `may_be_refused`, a refusal is an expected failure."""
    try:
        found = query.to_arrow()
    except (UnsupportedFeature, QueryFailed) as refused:
        if not may_be_refused:
            raise
        pytest.xfail(str(refused))
    return [tuple(row.values()) for row in found.to_pylist()]


def ordering(text: str, columns: Sequence[str]) -> list[int]:
    """Return the positions of the columns in a query's ORDER BY, up to the first key that is not a column."""
    import sqlglot
    from sqlglot import exp

    order = sqlglot.parse_one(text, dialect="spark").args.get("order")
    names, found = [each.lower() for each in columns], []
    for each in order.expressions if order is not None else ():
        key = each.this
        if isinstance(key, exp.Literal):
            found.append(int(key.name) - 1)
        elif isinstance(key, exp.Column) and not key.table and names.count(key.name.lower()) == 1:
            found.append(names.index(key.name.lower()))
        else:
            break
    return found


def assert_same(found: Sequence[Row], expected: Sequence[Row], order: Sequence[int], *, tolerance: float = 0.0) -> None:
    """Check that rows agree: sort keys in the same order, all rows in any order.

    Doubles depend on the order of addition; `tolerance` is the allowed difference of decimals. Rows whose keys all
    equal the last row's are left out, because a limit may have cut off any of them.
    """
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert _equal(_keys(ours, order), _keys(theirs, order), tolerance), "rows are in another order"
    if order and expected:
        last = _keys(expected[-1], order)
        found, expected = ([row for row in rows if _keys(row, order) != last] for rows in (found, expected))
    for ours, theirs in zip(sorted(found, key=_sortable), sorted(expected, key=_sortable), strict=True):
        assert _equal(ours, theirs, tolerance), f"{ours} is not {theirs}"


def _keys(row: Row, order: Sequence[int]) -> Row:
    return tuple(row[n] for n in order)


def _equal(one: Row, other: Row, tolerance: float) -> bool:
    return len(one) == len(other) and all(_same(a, b, tolerance) for a, b in zip(one, other, strict=True))


def _same(one: Any, other: Any, tolerance: float) -> bool:
    if one is None or other is None or isinstance(one, str) or isinstance(other, str):
        return bool(one == other)
    if isinstance(one, float) or isinstance(other, float) or tolerance:
        if not hasattr(one, "__float__") or not hasattr(other, "__float__"):
            return bool(one == other)
        return math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=max(tolerance, 1e-9))
    return bool(one == other)


def _sortable(row: Row) -> tuple[str, ...]:
    """Return a sort key with exact values first, so that rounding of the rest hardly moves rows."""
    exact = [str(each) for each in row if not hasattr(each, "__float__")]
    return (*exact, *(f"{float(each):.3e}" for each in row if hasattr(each, "__float__")))
