"""SQL expressions refuse by name where DuckDB gives other values than Spark, or accepts what Spark does not."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

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
        ScalarExpression.of(text, SCHEMA)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("extract(second from z)", "SECOND FROM z"),  # a decimal, other than second(z)
        ("extract(length from s)", "LENGTH FROM s"),
        ("-o", r"operator - of decimal\(38, 38\)"),  # Spark rounds such decimals to 34 digits
        ("abs(o)", r"function abs\(\) of decimal\(38, 38\)"),
        ("1e400", "the number 1e400"),
        ("z > '2024-01-01 24:00:00'", "the text '2024-01-01 24:00:00'"),
        ("timestamp'2024-01-01 23:60:00'", "the text '2024-01-01 23:60:00'"),
        ("i is X'01'", "i IS "),
        ("+s = '5.0'", "operator \\+ of string"),
    ],
)
def test_parts_that_engines_read_otherwise_are_refused(text: str, named: str) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match=named):
        ScalarExpression.of(text, SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "cast(date_add(d, 1) as string)",
        "cast(cast(date_add(d, 1) as timestamp) as string)",
        "cast(date_sub(date'0001-01-01', i) as string)",
        "cast(s as timestamp)",
    ],
)
def test_values_that_engines_write_otherwise_are_refused(text: str) -> None:
    one = {"p": [True], "q": [True], "i": [1], "s": ["2024-01-01 24:00:00"], "d": [date(9999, 12, 31)], "z": [None]}
    arrays = [pa.array({**one, "o": [Decimal(0)]}[name], kind.arrow()) for name, kind in _TYPES.items()]
    with pytest.raises(lakescan.UnsupportedFeature, match="Only Spark itself evaluates it"):
        ScalarExpression.of(text, SCHEMA).evaluate(pa.RecordBatch.from_arrays(arrays, names=list(_TYPES)))
