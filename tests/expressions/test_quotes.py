"""Doubled quotes in SQL text are read as Spark 4 reads them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.predicate import Comparison
from lakescan.expressions.row_condition import RowCondition
from lakescan.expressions.scalar.parse import escape_doubled_quotes
from lakescan.expressions.sql import parse_filter


@pytest.mark.parametrize(
    ("text", "value"),
    [("'it''s'", "it's"), ("''''", "'"), ("'a'''", "a'"), ("'a''''b'", "a''b"), ('"a""b"', 'a"b'), ("'a\\'b'", "a'b")],
)
def test_a_doubled_quote_is_a_quote(text: str, value: str) -> None:
    assert parse_filter(f"s = {text}") == Comparison("s", op="=", value=value)


@pytest.mark.parametrize("text", ["'a' 'b'", "''", "r'a''b'", "'a'\"b\"", "`a``b`"])
def test_other_quotes_stay(text: str) -> None:
    assert escape_doubled_quotes(text) == text


def test_conditions_in_expressions_support_doubled_quotes() -> None:
    schema = Schema((t.Field(1, "s", t.STRING),), 0)
    rows = pa.record_batch({"s": ["it's", "its"]})
    assert RowCondition.parse("upper(s) = 'IT''S'", schema).holds(rows).to_pylist() == [True, False]
