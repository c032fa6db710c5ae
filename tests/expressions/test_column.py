"""Filters written in Python say what the same filters as SQL text say."""

from __future__ import annotations

import pytest

from lakescan import InvalidFilter, col
from lakescan.expressions.predicate import Predicate
from lakescan.expressions.sql import parse_filter


@pytest.mark.parametrize(
    ("python", "sql"),
    [
        (col("a") == 1, "a = 1"),
        ((col("a") != 1) & (col("b") < 2), "a != 1 and b < 2"),
        ((col("a") >= 1) | ~(col("s.x") > 2), "a >= 1 or not s.x > 2"),
        (col("a").between(1, 3), "a between 1 and 3"),
        (col("a").is_in([1, None]), "a in (1, null)"),
        (~col("a").is_null(), "a is not null"),
        (~col("a").is_nan(), "not isnan(a)"),
        (col("a").starts_with("x_"), "startswith(a, 'x_')"),
        (col("a").like("x%"), "a like 'x%'"),
    ],
    ids=str,
)
def test_python_and_sql_make_the_same_predicate(python: Predicate, sql: str) -> None:
    assert python == parse_filter(sql)


@pytest.mark.parametrize("value", [None, col("b")])
def test_a_column_is_compared_with_a_literal(value: object) -> None:
    with pytest.raises(InvalidFilter, match="literal"):
        col("a") == value  # noqa: B015
