"""A bound filter keeps the rows that its literal selects, whatever the column's type can hold."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.errors import InvalidFilter, NoSuchColumn
from lakescan.expressions.bind import bind
from lakescan.expressions.column import col
from lakescan.expressions.evaluate import matching_rows
from lakescan.expressions.json_codec import from_json, to_json
from lakescan.expressions.predicate import FALSE, TRUE, Comparison, In, IsNull
from lakescan.expressions.sql import parse_filter

SCHEMA = Schema(
    (
        t.Field(1, "n", t.INT),
        t.Field(2, "d", t.DATE),
        t.Field(3, "at", t.Timestamp("us", zoned=True)),
        t.Field(4, "wall", t.Timestamp("us", zoned=False)),
        t.Field(5, "name", t.STRING),
        t.Field(6, "s", t.Struct((t.Field(7, "x", t.LONG),))),
        t.Field(8, "items", t.ListOf(t.Field(9, "element", t.LONG))),
        t.Field(10, "a.b", t.LONG),
        t.Field(11, "Name2", t.STRING),
        t.Field(12, "fine", t.Timestamp("ns", zoned=False)),
    )
)


def bound(text: str, **arguments: bool) -> object:
    return bind(parse_filter(text), SCHEMA, **arguments)


def test_a_literal_takes_the_type_of_its_column() -> None:
    found = bound("d = '2026-01-31'")
    assert found == Comparison("d", 2, "=", pa.scalar(date(2026, 1, 31), pa.date32()))


@pytest.mark.parametrize(
    ("text", "same_as"),
    [
        ("n < 5.5", "n <= 5"),
        ("n <= 5.5", "n <= 5"),
        ("n > 5.5", "n > 5"),
        ("n >= 5.5", "n > 5"),
        ("n > -0.5", "n > -1"),
        ("n != 5.5", "n is not null"),
        ("n < 99999999999999999999", "n is not null"),
        ("n >= -99999999999999999999", "n is not null"),
        ("n in (1, 2.5)", "n in (1)"),
        ("n not in (2.5)", "n is not null"),
        ("d < timestamp '2026-01-31 12:00:00'", "d <= '2026-01-31'"),
        ("d >= timestamp '2026-01-31 12:00:00'", "d > '2026-01-31'"),
        ("d = timestamp '2026-01-31 00:00:00'", "d = '2026-01-31'"),
        ("wall > '2026-01-31 12:00:00.1234567'", "wall > '2026-01-31 12:00:00.123456'"),
    ],
)
def test_a_literal_between_two_values_is_rewritten_to_keep_the_same_rows(text: str, same_as: str) -> None:
    assert bound(text) == bound(same_as)


@pytest.mark.parametrize(
    "text", ["n = 5.5", "n > 99999999999999999999", "n in (0.5)", "n = null", "not (n = null)", "n not in (1, null)"]
)
def test_a_literal_that_no_value_equals_keeps_no_row(text: str) -> None:
    assert bound(text) == FALSE


def test_a_time_without_offset_is_utc_where_the_column_is_an_instant() -> None:
    found = bound("at = '2026-01-31 12:00:00'")
    assert isinstance(found, Comparison)
    assert found.value.as_py() == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert bound("at = '2026-01-31 13:00:00+01:00'") == found


def test_nanoseconds_are_kept_where_the_column_has_them() -> None:
    found = bound("fine = '2026-01-31 12:00:00.123456789'")
    assert isinstance(found, Comparison)
    assert found.value.value % 1000 == 789


FAR = {3_000_000: "+10183-09-21", -800_000: "-0221-09-04", 0: "1970-01-01"}


@pytest.mark.parametrize("day", FAR)
@pytest.mark.parametrize("written", ["text", "cast", "numpy", "arrow"])
def test_years_beyond_those_of_python_are_literals_too(day: int, written: str) -> None:
    literals = {
        "text": col("d") >= FAR[day],
        "cast": parse_filter(f"d >= cast('{FAR[day]}' as date)"),
        "numpy": col("d") >= np.datetime64(day, "D"),
        "arrow": col("d") >= pa.scalar(day, pa.int32()).cast(pa.date32()),
    }
    predicate = literals[written]
    for each in (predicate, from_json(to_json(predicate))):
        found = bind(each, SCHEMA)
        assert isinstance(found, Comparison)
        assert found.value.value == day
        assert str(found).startswith("d >= ")
    kept = matching_rows(bind(predicate, SCHEMA), lambda _: pa.array([-800_001, day], pa.int32()).cast(pa.date32()), 2)
    assert kept.to_pylist() == [False, True]


@given(micros=st.integers(-(2**62), 2**62), finer=st.integers(0, 999))
@pytest.mark.parametrize("column", ["wall", "at", "fine"])
def test_a_time_is_the_same_in_every_notation(column: str, micros: int, finer: int) -> None:
    nanos = micros // 1000 * 1000 + finer
    literal = np.datetime64(nanos, "ns")
    for value in (literal, f"{literal}", pd.Timestamp(nanos), pa.scalar(nanos, pa.timestamp("ns"))):
        for predicate in (col(column) <= value, from_json(to_json(col(column) <= value))):
            found = bind(predicate, SCHEMA)
            assert isinstance(found, Comparison)
            assert found.value.value == (nanos if column == "fine" else nanos // 1000)


def test_a_time_that_the_column_cannot_hold_is_beyond_all_of_its_values() -> None:
    assert bind(col("fine") < "2300-01-01", SCHEMA) == IsNull("fine", SCHEMA.field("fine").id, negate=True)
    assert bind(col("fine") < "1600-01-01", SCHEMA) == FALSE
    assert bind(col("wall") > np.datetime64("300000-01-01"), SCHEMA) == FALSE


@pytest.mark.parametrize(
    "text", ["n = 'five'", "d = 'soon'", "name = 5", "wall > '+300000-01-01'", "s = 1", "n like 'x%'"]
)
def test_a_literal_of_another_kind_is_refused_with_column_and_type(text: str) -> None:
    with pytest.raises(InvalidFilter, match=text.split()[0]):
        bound(text)


def test_members_of_structs_are_reached_by_dotted_names() -> None:
    assert bound("s.x is null") == IsNull("s.x", 7)


def test_a_column_whose_name_has_a_dot_is_found_whole() -> None:
    assert bound("`a.b` in (1)") == In("`a.b`", 10, (pa.scalar(1),))
    assert bind(col("a.b").is_in([1]), SCHEMA) == In("a.b", 10, (pa.scalar(1),))


MEMBER = t.Field(1, "a", t.Struct((t.Field(2, "b", t.LONG), t.Field(3, "B.c", t.LONG))))
DOTTED = t.Field(4, "a.b", t.LONG)


@pytest.mark.parametrize("fields", [(MEMBER, DOTTED), (DOTTED, MEMBER)], ids=["member first", "column first"])
@pytest.mark.parametrize(
    ("name", "field_id"),
    [("a.b", 2), ("`a`.`b`", 2), ("`a.b`", 4), ("a.`B.c`", 3), ("a.B.c", 3), ("A.B", 2), ("`A.B`", 4), ("a.`b.C`", 3)],
)
def test_a_dotted_name_is_the_members_and_in_backquotes_the_columns(
    fields: tuple[t.Field, ...], name: str, field_id: int
) -> None:
    schema = Schema(fields)
    for predicate in (parse_filter(f"{name} = 1"), col(name) == 1, from_json(to_json(col(name) == 1))):
        found = bind(predicate, schema, case_sensitive=False)
        assert isinstance(found, Comparison)
        assert found.field_id == field_id
    assert schema.select(["a.b"]).fields == (DOTTED,)


NAMES = st.text("a.`B \n", min_size=1, max_size=4)


@given(column=NAMES, member=NAMES, others=st.lists(NAMES, max_size=3))
def test_every_field_is_found_by_its_path(column: str, member: str, others: list[str]) -> None:
    inner = t.Field(2, member, t.LONG)
    names = [column, *dict.fromkeys(name for name in others if name != column)]
    outer = t.Field(1, column, t.Struct((inner,)))
    schema = Schema((outer, *(t.Field(10 + n, name, t.LONG) for n, name in enumerate(names[1:]))))
    assert schema.field(dotted_path([column, member])) is inner
    for field in schema.fields:
        assert schema.field(dotted_path([field.name])) is field
        assert schema.column(field.name) is field


def test_a_name_that_may_be_two_members_is_refused() -> None:
    fields = (
        t.Field(1, "a.b", t.Struct((t.Field(2, "c", t.LONG),))),
        t.Field(3, "a", t.Struct((t.Field(4, "b.c", t.LONG),))),
    )
    with pytest.raises(NoSuchColumn, match="ambiguous"):
        bind(col("a.b.c") == 1, Schema(fields))


def test_elements_of_lists_cannot_be_compared() -> None:
    with pytest.raises(InvalidFilter, match="inside a list"):
        bound("items.element = 1")


def test_an_unknown_column_is_refused_with_the_nearest() -> None:
    with pytest.raises(NoSuchColumn, match="Did you mean 'name'"):
        bound("nam = 'x'")


def test_names_of_another_case_are_found_unless_case_matters() -> None:
    assert bound("name2 is null") == IsNull("name2", 11)
    with pytest.raises(NoSuchColumn):
        bound("name2 = 'x'", case_sensitive=True)


def test_an_exact_name_wins_and_two_names_that_differ_in_case_are_ambiguous() -> None:
    schema = Schema((t.Field(1, "ab", t.INT), t.Field(2, "aB", t.INT)))
    assert bind(parse_filter("aB is null"), schema) == IsNull("aB", 2)
    with pytest.raises(NoSuchColumn, match="ambiguous when case is ignored"):
        bind(parse_filter("AB is null"), schema)


_OPERATORS = {"<": lt, "<=": le, ">": gt, ">=": ge, "=": eq, "!=": ne}
_DECIMALS = [Decimal("-9.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("1.23"), Decimal("9.99")]


@given(
    number=st.decimals(allow_nan=False, allow_infinity=False, min_value=-20, max_value=20, places=4),
    op=st.sampled_from(["<", "<=", ">", ">=", "=", "!="]),
)
def test_decimals_compare_with_numbers_of_more_digits_than_they_have(number: Decimal, op: str) -> None:
    """Also if both together have more digits than a decimal can hold."""
    for precision in (3, 38):
        schema = Schema((t.Field(1, "n", t.Decimal(precision, 2)),))
        bound = bind(Comparison("n", op=op, value=number), schema)
        column = pa.array(_DECIMALS, pa.decimal128(precision, 2))
        found = matching_rows(bound, lambda _, column=column: column, len(_DECIMALS)).to_pylist()

        assert found == [_OPERATORS[op](each, number) for each in _DECIMALS]


@pytest.mark.parametrize("rows", [[0, 2, 1499, 1500], [7]])
def test_chains_of_conditions_may_have_any_length(rows: list[int]) -> None:
    schema = Schema((t.Field(1, "a", t.LONG),))
    column = pa.array(rows, pa.int64())
    wanted = [row for row in rows if row < 1500]
    chain = col("a") == 0
    for number in range(1, 1500):
        chain |= col("a") == number
    text = " or ".join(f"a = {number}" for number in range(1500))
    for predicate in (chain, parse_filter(text), parse_filter(f"not ({text.replace('=', '!=').replace('or', 'and')})")):
        bound = bind(predicate, schema)
        found = column.filter(matching_rows(bound, lambda _: column, len(column)))
        assert found.to_pylist() == wanted


def test_a_filter_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(InvalidFilter, match="nested too deep"):
        parse_filter("(" * 5000 + "a = 1" + ")" * 5000)


def test_no_value_is_in_an_empty_list_not_even_null() -> None:
    assert bind(col("a.b").is_in([]), SCHEMA) == FALSE
    assert bind(~col("a.b").is_in([]), SCHEMA) == TRUE
    assert bind(~col("a.b").is_in([None]), SCHEMA) == FALSE
    assert bind(~col("a.b").is_in([1.5]), SCHEMA) == IsNull("a.b", 10, negate=True)
