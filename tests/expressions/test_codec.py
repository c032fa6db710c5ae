"""A filter survives its JSON form, which is sent to Spark's workers."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from lakescan.errors import InvalidFilter
from lakescan.expressions.json_codec import from_json, to_json
from lakescan.expressions.predicate import UNKNOWN, Comparison, In, IsNaN, IsNull, Predicate, starts_with

PREDICATES = [
    Comparison("a", op=">=", value=Decimal("1.50")),
    Comparison("a", op="=", value=datetime(2026, 1, 31, 12, tzinfo=UTC)),
    Comparison("a", op="!=", value=date(2026, 1, 31)),
    Comparison("a", op="<", value=b"\x00\xff"),
    Comparison("a", op="=", value=float("inf")),
    In("a", values=("x", "y"), negate=True),
    In("a", values=(1,), negate=True, has_null=True),
    UNKNOWN,
    IsNull("a") | IsNaN("b", negate=True),
    starts_with("a", "10%") & Comparison("b", op=">", value=1),
]


@pytest.mark.parametrize("predicate", PREDICATES, ids=str)
def test_a_predicate_survives_its_json_form(predicate: Predicate) -> None:
    assert from_json(to_json(predicate)) == predicate


def test_the_form_is_that_of_icebergs_rest_expressions() -> None:
    assert json.loads(to_json(Comparison("a", op="<=", value=1))) == {"type": "lt-eq", "term": "a", "value": 1}


@pytest.mark.parametrize("text", ["{", '{"type": "near", "term": "a", "value": 1}', '{"type": "eq"}'])
def test_malformed_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidFilter):
        from_json(text)
