"""Functions of in-process SQL return the results of Spark 4.3."""

from __future__ import annotations

from typing import Any

import pytest

import lakescan
from tests.statements.select.recorded import IN_QUERIES, in_order, recorded


@pytest.mark.parametrize(("text", "expected"), recorded("functions"))
def test_functions_return_the_rows_of_spark(text: str, expected: list[Any]) -> None:
    found = lakescan.sql(text, **IN_QUERIES).to_arrow()
    assert in_order(zip(*(column.to_pylist() for column in found.columns), strict=True)) == in_order(expected)
