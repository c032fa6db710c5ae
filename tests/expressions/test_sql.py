"""Filters written as SQL say what SQL says, and what they cannot say is refused by name."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from lakescan.errors import InvalidFilter
from lakescan.expressions.predicate import (
    TRUE,
    UNKNOWN,
    And,
    Comparison,
    In,
    IsNaN,
    IsNull,
    Like,
    Or,
)
from lakescan.expressions.sql import parse_filter


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a = 1", Comparison("a", op="=", value=1)),
        ("1 < a", Comparison("a", op=">", value=1)),
        ("a <> -1", Comparison("a", op="!=", value=-1)),
        ("a >= 1.50", Comparison("a", op=">=", value=Decimal("1.50"))),
        ("a < 1e3", Comparison("a", op="<", value=1000.0)),
        ("a = X'00ff'", Comparison("a", op="=", value=b"\x00\xff")),
        ("a = date '2026-01-31'", Comparison("a", op="=", value=date(2026, 1, 31))),
        ("a is null", IsNull("a")),
        ("a is not null", IsNull("a", negate=True)),
        ("a <=> null", IsNull("a")),
        ("not (a <=> 1)", Or(IsNull("a"), Comparison("a", op="!=", value=1))),
        ("a is not true", Or(IsNull("a"), Comparison("a", op="!=", value=True))),
        ("isnan(a)", IsNaN("a")),
        ("a like 'x%'", Like("a", pattern="x%")),
        ("not a like 'x%'", Like("a", pattern="x%", negate=True)),
        ("a not like 'x%'", Like("a", pattern="x%", negate=True)),
        ("not a not like 'x%'", Like("a", pattern="x%")),
        ("startswith(a, '10%')", Like("a", pattern="10\\%%")),
        ("a in (1, 2)", In("a", values=(1, 2))),
        ("a not in (1, 2)", In("a", values=(1, 2), negate=True)),
        ("`odd name` = 1", Comparison("odd name", op="=", value=1)),
        ("address.city = 'Paris'", Comparison("address.city", op="=", value="Paris")),
        ("flag", Comparison("flag", op="=", value=True)),
        ("true", TRUE),
        ("a = null", UNKNOWN),
        ("not (a = null)", UNKNOWN),
    ],
)
def test_a_condition_becomes_its_predicate(text: str, predicate: object) -> None:
    assert parse_filter(text) == predicate


def test_and_binds_tighter_than_or() -> None:
    a, b, c = (Comparison(n, op="=", value=1) for n in "abc")
    assert parse_filter("a = 1 or b = 1 and c = 1") == Or(a, And(b, c))


def test_between_includes_both_ends() -> None:
    assert parse_filter("a between 1 and 3") == parse_filter("a >= 1 and a <= 3")


def test_not_is_pushed_down_to_the_comparisons() -> None:
    assert parse_filter("not (a < 1 or b is null)") == parse_filter("a >= 1 and b is not null")


def test_a_null_in_a_list_is_remembered() -> None:
    assert parse_filter("a in (1, null)") == In("a", values=(1,), has_null=True)
    assert parse_filter("not (a in (1, null))") == In("a", values=(1,), negate=True, has_null=True)


@pytest.mark.parametrize(
    "text",
    [
        "a = b",
        "a + 1 = 2",
        "upper(a) = 'X'",
        "a in (select 1)",
        "exists(select 1)",
        "a between symmetric 2 and 1",
        "a not rlike 'x'",
    ],
)
def test_more_than_tests_of_single_columns_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilter, match="filter"):
        parse_filter(text)


def test_text_that_is_not_sql_is_refused_with_the_text() -> None:
    with pytest.raises(InvalidFilter, match="a = = 1"):
        parse_filter("a = = 1")
