"""Functions return Spark's answers to the examples of Spark's documentation, or are refused by name.

`scripts/spark_function_examples.py` writes `function_examples.json` from Spark 4.3.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan

_EXAMPLES = json.loads((Path(__file__).parent / "function_examples.json").read_text())
ANSWERED = [each for each in _EXAMPLES if "rows" in each]
# Their values differ from one call to the next.
VOLATILE = re.compile(
    r"\b(current_\w+|now|local\w+|curdate|rand\w*|uuid|uniform|shuffle|version|user)\b"
    r"|mode\(col, false\)|sortKeys|agg\(DISTINCT",
    re.IGNORECASE,
)
# Examples with Spark's answer, and all examples; the others are refused by name. Raise it with each new function.
LEAST_ANSWERED = 780
_PLAIN = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.date32(): "date",
    pa.null(): "void",
    pa.duration("us"): "interval",
    pa.float32(): "float",
}


def _name(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_name(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_name(kind.key_type)},{_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{each.name}:{_name(each.type)}' for each in kind)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return _PLAIN.get(kind, str(kind))


def _are_same(ours: str, sparks: str) -> bool:
    """Return whether two values are equal; doubles may differ in their last digits, as between Java and C."""
    if ours == sparks:
        return True
    try:
        return math.isclose(float(ours), float(sparks), rel_tol=1e-13)
    except ValueError:
        return False


def _answers() -> list[tuple[dict[str, Any], Any]]:
    found = []
    for each in ANSWERED:
        if VOLATILE.search(each["sql"]) or each["function"] in ("collect_set", "monotonically_increasing_id"):
            continue
        try:
            found.append((each, lakescan.sql(each["sql"]).to_arrow()))
        except lakescan.LakescanError as error:
            found.append((each, error))
    return found


@pytest.fixture(scope="module")
def answers() -> list[tuple[dict[str, Any], Any]]:
    """Return each example with the answer of in-process SQL, or its error."""
    return _answers()


def test_an_answer_has_the_values_and_types_of_spark(answers: list[tuple[dict[str, Any], Any]]) -> None:
    others = []
    for example, table in answers:
        if isinstance(table, Exception):
            continue
        rows = [[repr(column[n].as_py()) for column in table.columns] for n in range(table.num_rows)]
        same = len(rows) == len(example["rows"]) and all(
            _are_same(one, other)
            for ours, sparks in zip(sorted(rows), sorted(example["rows"]), strict=True)
            for one, other in zip(ours, sparks, strict=True)
        )
        if not same or [_name(field.type) for field in table.schema] != example["types"]:
            others.append((example["sql"], rows, example["rows"], table.schema.types, example["types"]))
    assert not others


def test_an_example_that_has_no_answer_is_refused_by_name(answers: list[tuple[dict[str, Any], Any]]) -> None:
    others = [
        (example["sql"], str(error))
        for example, error in answers
        if isinstance(error, Exception) and not isinstance(error, lakescan.UnsupportedFeature)
    ]
    assert not others


def test_most_examples_have_an_answer(answers: list[tuple[dict[str, Any], Any]]) -> None:
    assert sum(isinstance(found, pa.Table) for _, found in answers) >= LEAST_ANSWERED
