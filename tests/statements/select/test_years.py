"""In-process SQL computes with dates and timestamps of any year, as Spark 4.3 does."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import UnsupportedFeature
from tests.statements.select.recorded import FAR_YEARS, in_order, recorded


@pytest.mark.parametrize(("text", "expected"), recorded("years"))
def test_far_years_return_the_rows_of_spark(text: str, expected: list[Any]) -> None:
    found = lakescan.sql(text, **FAR_YEARS).to_arrow()
    assert in_order(zip(*(column.to_pylist() for column in found.columns), strict=True)) == in_order(expected)


def test_a_year_that_timestamps_of_duckdb_cannot_have_is_refused() -> None:
    rows = pa.table({"d": pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32())})
    with pytest.raises(UnsupportedFeature, match="a time beyond the years -290000 to 290000 in the column 'd'"):
        lakescan.sql("SELECT year(d) AS y FROM t", t=rows).to_arrow()
