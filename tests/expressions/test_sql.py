"""Filters written as SQL keep SQL's meaning; SQL that a filter cannot express is refused by name."""

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
    SqlCondition,
)
from lakescan.expressions.sql import NotColumnTests, parse_column_tests, parse_filter


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


def test_a_null_end_of_between_excludes_no_row() -> None:
    assert parse_filter("a not between null and 1") == parse_filter("a < null or a > 1")
    assert parse_filter("a between null and 1") == parse_filter("a >= null and a <= 1")


def test_not_is_pushed_down_to_the_comparisons() -> None:
    assert parse_filter("not (a < 1 or b is null)") == parse_filter("a >= 1 and b is not null")


def test_a_null_in_a_list_is_kept() -> None:
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
def test_conditions_on_several_columns_are_recognized(text: str) -> None:
    with pytest.raises(NotColumnTests, match="more than tests of columns against literals"):
        parse_column_tests(text)


def test_text_that_is_not_sql_is_refused_with_the_text() -> None:
    with pytest.raises(InvalidFilter, match="a = = 1"):
        parse_filter("a = = 1")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a = cast('12' as int)", 12),
        ("a = -3L", -3),
        ("a = cast(1.2 as decimal(3,1))", Decimal("1.2")),
        ("a = 0.1F", float.fromhex("0x1.99999ap-4")),  # the nearest float
        ("a = 0.1D", 0.1),
        ("a = cast('x' as string)", "x"),
        ("a = X'fff'", b"\x0f\xff"),
    ],
)
def test_a_cast_constant_is_the_value_that_spark_casts_it_to(text: str, value: object) -> None:
    assert parse_filter(text) == Comparison("a", op="=", value=value)


@pytest.mark.parametrize("constant", ["cast('1.5' as int)", "cast('a' as double)", "1.5e400", "X'zz'"])
def test_an_invalid_constant_is_refused(constant: str) -> None:
    with pytest.raises(InvalidFilter):
        parse_filter(f"a = {constant}")


@pytest.mark.parametrize(
    "constant",
    [
        "cast(3.7 as int)",
        "cast(300 as tinyint)",
        "cast(true as int)",
        "cast(true as double)",
        "cast(1.25 as decimal(3,1))",
        "cast(1.5 as decimal)",
        "cast(12 as string)",
        "cast(20240229 as date)",
        "cast('5' as decimal(3,1))",
        "-'3'",
        "-true",
    ],
)
def test_a_constant_that_would_change_in_a_cast_is_left_to_the_engine(constant: str) -> None:
    assert parse_filter(f"a = {constant}") == SqlCondition(f"a = {constant}")


def test_a_pattern_is_a_text_or_null() -> None:
    for text in ("a like null", "a not like null", "a ilike null", "startswith(a, null)", "a = -null"):
        assert parse_filter(text) == UNKNOWN
    for text in ("a like 12", "startswith(a, true)", "a like b"):
        assert parse_filter(text) == SqlCondition(text)
    with pytest.raises(InvalidFilter):
        parse_filter("a like '1' escape null")


@pytest.mark.parametrize("text", ["", "id ="])
def test_an_incomplete_filter_is_explained_in_words(text: str) -> None:
    with pytest.raises(InvalidFilter) as error:
        parse_column_tests(text)
    assert "<class" not in str(error.value)
