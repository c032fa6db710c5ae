"""Filters written in Python say what the same filters as SQL text say."""

from __future__ import annotations

import pytest

import lakescan
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


MISTAKES = {
    "and": lambda v, n: (v > 2) and (n == "a"),
    "or": lambda v, n: (v > 3) or (n == "a"),
    "not": lambda v, n: not v.is_null(),
    "chained": lambda v, n: 2 < v < 4,
    "if": lambda v, n: 1 if v == 1 else 2,
    "bool": lambda v, n: bool(v.is_in([1])),
    "in": lambda v, n: v in [1, 2],
    "contains": lambda v, n: "a" in n,
    "any": lambda v, n: any([v == 1, n == "a"]),
    "column": lambda v, n: v and n,
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_filters_have_no_truth_value(mistake: str) -> None:
    with pytest.raises(lakescan.NoTruthValue, match="`") as raised:
        MISTAKES[mistake](col("v"), col("n"))
    assert isinstance(raised.value, TypeError)


def test_filters_that_were_parsed_have_no_truth_value_either() -> None:
    for text in ("true", "a = 1", "a = 1 and b = 2", "a is null", "not isnan(a)", "a in (1, 2)", "a like 'x'"):
        with pytest.raises(lakescan.NoTruthValue, match="no truth value"):
            bool(parse_filter(text))


def test_filters_are_told_apart_by_what_they_say() -> None:
    one, same, other = col("a") == 1, parse_filter("a = 1"), col("a") == 2
    assert one == same
    assert one != other
    assert len({one, same, other}) == 2
    assert [one, other].index(other) == 1
