"""`IN (SELECT ...)` with nulls returns Spark 4.3's answers in process, wherever it occurs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import InvalidStatement
from tests.statements.select.recorded import IN_QUERIES, in_order, recorded

pytestmark = pytest.mark.usefixtures("no_other_catalogs")


@pytest.mark.parametrize(("text", "expected"), recorded("in_queries"))
def test_in_queries_return_the_rows_of_spark(text: str, expected: list[Any]) -> None:
    found = lakescan.sql(text, **IN_QUERIES).to_arrow()
    assert in_order(zip(*(column.to_pylist() for column in found.columns), strict=True)) == in_order(expected)


def test_conditions_of_statements_that_change_rows_follow_the_same_rules(local: lakescan.Catalog) -> None:
    def remaining(statement: str) -> list[int | None]:
        local.create_table("db.t", "k INT", replace=True).append(IN_QUERIES["a"])
        lakescan.sql(statement, **{name: IN_QUERIES[name] for name in "bef"})
        return sorted(lakescan.table("local.db.t").scan().to_arrow()["k"].to_pylist(), key=repr)

    assert remaining("DELETE FROM local.db.t WHERE k NOT IN (SELECT k FROM b)") == [1, 9, None]
    assert remaining("DELETE FROM local.db.t WHERE k NOT IN (SELECT k FROM f)") == [1, None]
    assert remaining("DELETE FROM local.db.t WHERE (k IN (SELECT k FROM b)) IS FALSE") == [1]
    assert remaining("UPDATE local.db.t SET k = CASE WHEN k IN (SELECT k FROM b) THEN 0 ELSE 5 END") == [0, 5, 5]


def test_values_and_columns_of_in_have_the_same_number() -> None:
    with pytest.raises(InvalidStatement, match="IN compares 1 values with a query of 2 columns"):
        lakescan.sql("SELECT k FROM a WHERE k IN (SELECT k, j FROM b2)", **IN_QUERIES).to_arrow()


def test_a_subquery_may_be_a_key_of_group_by() -> None:
    rows = {"t": pa.table({"k": [1, 2, 2]}), "s": pa.table({"k": [2]})}
    text = "SELECT k IN (SELECT k FROM s) AS g, count(*) AS n FROM t GROUP BY k IN (SELECT k FROM s) ORDER BY g"
    assert lakescan.sql(text, **rows).to_arrow().to_pylist() == [{"g": False, "n": 1}, {"g": True, "n": 2}]
