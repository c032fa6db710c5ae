"""Polars' optimizer pushes limits and filters into a scan: the result is the same as on all rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import lakescan

QUERIES: dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]] = {
    "a filter after a limit": lambda rows: rows.head(60).filter(pl.col("id") >= 55),
    "a filter of other columns after a limit": lambda rows: rows.head(60).filter(pl.col("price") > 13).select("name"),
    "a filter that is not pushed after a limit": lambda rows: rows.head(60).filter(pl.col("name").str.contains("3")),
    "a limit between two filters": lambda rows: rows.filter(pl.col("id") > 60).head(9).filter(pl.col("id") % 2 == 0),
    "a limit after a filter": lambda rows: rows.filter(pl.col("id") >= 390).head(3),
    "a slice after a filter": lambda rows: rows.filter(pl.col("name").is_null()).slice(3, 4),
    "a filter after a slice": lambda rows: rows.slice(7, 9).filter(pl.col("price").is_null()),
    "a filter of a computed column after a limit": lambda rows: (
        rows.head(70).select(more=pl.col("id") + 1).filter(pl.col("more") < 60)
    ),
    "numbers of rows": lambda rows: rows.with_row_index("n").filter(pl.col("id") % 7 == 0).head(5),
    "a count without columns": lambda rows: rows.select(pl.len()),
    "a count of a filter": lambda rows: rows.filter(pl.col("count").is_null()).select(pl.len()),
    "a table with itself": lambda rows: rows.head(70).join(
        rows.filter(pl.col("id") > 60), on="id", maintain_order="left"
    ),
}


@pytest.mark.parametrize("engine", ["auto", "streaming"])
@pytest.mark.parametrize("query", QUERIES)
def test_a_lazy_query_has_the_answer_of_polars_on_all_rows(table: lakescan.Table, query: str, engine: Any) -> None:
    scan = table.scan()
    found = QUERIES[query](scan.to_polars(lazy=True)).collect(engine=engine)
    assert_frame_equal(found, QUERIES[query](scan.to_polars().lazy()).collect())


def test_a_filter_of_a_limit_of_a_scan_with_a_limit_is_applied_last(table: lakescan.Table) -> None:
    scan = table.scan().limit(60)
    found = scan.to_polars(lazy=True).head(58).filter(pl.col("id") >= 100).collect()
    assert_frame_equal(found, scan.to_polars().head(58).filter(pl.col("id") >= 100))
