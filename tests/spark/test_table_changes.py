"""`table_changes(...)` in Spark SQL returns the rows that it returns in process."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import lakescan
import lakescan.spark
from lakescan.errors import InvalidStatement, NoSuchTable
from tests.statements.select.test_table_changes import make_feed, states

TABLES = ("sparkfeed.db.delta", "sparkfeed.db.iceberg")


@pytest.fixture(scope="module", autouse=True)
def _feed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    make_feed(str(tmp_path_factory.mktemp("lake")), "sparkfeed")
    lakescan.spark.register(spark)


def rows(spark: Any, text: str, args: Any = None, **frames: Any) -> Counter[tuple[object, ...]]:
    return Counter(map(tuple, lakescan.spark.sql(spark, text, args, **frames).collect()))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM table_changes('{t}', {a}, {b})",
        "SELECT id, _change_type FROM table_changes('{t}', {a}) AS c WHERE c.country = 'FR' AND c.id < 5",
        "SELECT count(*) FROM table_changes('{t}', {b}) WHERE lower(_change_type) = 'insert'",
        "WITH c AS (SELECT * FROM table_changes('{t}', {a})) SELECT t.id FROM {t} t JOIN c USING (id) WHERE c.id > 4",
    ],
)
def test_changes_on_spark_equal_those_in_process(spark: Any, table: str, text: str) -> None:
    _, second, third = states(table)
    filled = text.format(t=table, a=second, b=third)
    expected = Counter(tuple(row.values()) for row in lakescan.sql(filled).to_arrow().to_pylist())
    found = Counter(
        tuple(row.values()) for row in lakescan.spark.sql(spark, filled).toArrow().to_pylist()
    )  # Arrow's times have a zone, like those in process
    assert found == expected
    assert expected


def test_parameters_and_given_tables_work(spark: Any) -> None:
    _, _, third = states("sparkfeed.db.delta")
    text = "SELECT id FROM table_changes(:name, :start) WHERE id > :least"
    found = rows(spark, text, {"name": "sparkfeed.db.delta", "start": third, "least": 6})
    assert found == {(7,): 1}
    table = lakescan.table("sparkfeed.db.iceberg")
    start = states("sparkfeed.db.iceberg")[2]
    assert rows(spark, f"SELECT id FROM table_changes('given', {start})", given=table) == {(6,): 1, (7,): 1}


def test_an_argument_that_is_not_a_table_is_reported_with_its_position(spark: Any) -> None:
    with pytest.raises(InvalidStatement, match=r"rows is a frame \(line 1, column 15\)\n.*\n {14}\^+$"):
        rows(spark, "SELECT * FROM table_changes('rows', 1)", rows=spark.range(2))
    with pytest.raises(NoSuchTable, match=r"no table 'nowhere'(?s:.*)\n {14}\^+$"):
        rows(spark, "SELECT * FROM table_changes('nowhere', 1)")
