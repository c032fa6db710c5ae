"""SQL expressions are refused by name if DuckDB's values differ from Spark's, or if Spark does not accept them."""

from __future__ import annotations

import pickle
from datetime import date

import pyarrow as pa
import pytest

import lakescan
from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.scalar.expression import ScalarExpression

_TYPES = {"p": t.BOOLEAN, "q": t.BOOLEAN, "i": t.INT, "s": t.STRING, "d": t.DATE, "z": t.Timestamp()}
_TYPES["o"] = t.Decimal(38, 38)
SCHEMA = Schema(tuple(t.Field(place, name, kind) for place, (name, kind) in enumerate(_TYPES.items(), 1)))


@pytest.mark.parametrize(
    "text",
    [
        "p = q < p",
        "p <=> q < p",
        "p is distinct from q < p",
        "p = s like 'a%'",
        "s like 'a!%' escape '!' = p",
        "p = not q",
        "p = i in (1, 2)",
        "i in (1) = p",
        "i between 0 and 5 = p",
        "p = s not like 'a'",
    ],
)
def test_conditions_that_are_compared_need_parentheses(text: str) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="a condition as an operand of"):
        ScalarExpression.parse(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("extract(length from s)", "the part LENGTH"),
        ("-o", r"operator - of decimal\(38, 38\)"),  # Spark rounds such decimals to 34 digits
        ("abs(o)", r"function abs\(\) of decimal\(38, 38\)"),
        ("1e400", "the number 1e400"),
        ("i is X'01'", "i IS "),
    ],
)
def test_expressions_that_engines_read_differently_are_refused(text: str, named: str) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match=named):
        ScalarExpression.parse(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("cast(date_add(d, 1) as string)", "+10000-01-01"),
        ("cast(cast(date_add(d, 1) as timestamp) as string)", "+10000-01-01 00:00:00"),
        ("cast(date_sub(date'0001-01-01', i) as string)", "0000-12-31"),
        ("cast(s as timestamp) = timestamp'2024-01-01 22:00:00'", True),
        ("+s2 = 5", True),
    ],
)
def test_texts_and_years_that_duckdb_reads_differently_are_read_as_in_spark(text: str, value: object) -> None:
    kinds = {"i": t.INT, "s": t.STRING, "d": t.DATE, "s2": t.STRING}
    schema = Schema(tuple(t.Field(place, name, kind) for place, (name, kind) in enumerate(kinds.items(), 1)))
    rows = pa.RecordBatch.from_pydict(
        {"i": [1], "s": ["2024-1-2 0:00:00 +02:00"], "d": [date(9999, 12, 31)], "s2": [" 5.0"]}
    )
    rows = rows.set_column(0, "i", rows["i"].cast(pa.int32()))
    expression = pickle.loads(pickle.dumps(ScalarExpression.parse(text, schema)))
    assert expression.evaluate(rows).to_pylist() == [value]


@pytest.mark.parametrize("text", ["2024-01-01 24:00:00", "2024-01-01 23:60:00", "2024-13-01", "x", ""])
def test_invalid_timestamp_texts_fail(text: str) -> None:
    schema = Schema((t.Field(1, "s", t.STRING),))
    rows = pa.RecordBatch.from_pydict({"s": [text]})
    with pytest.raises(lakescan.SchemaMismatch, match=f"CAST_INVALID_INPUT: the text '{text}' is no TIMESTAMP"):
        ScalarExpression.parse("cast(s as timestamp)", schema).evaluate(rows)
    assert ScalarExpression.parse("try_cast(s as timestamp)", schema).evaluate(rows).to_pylist() == [None]
