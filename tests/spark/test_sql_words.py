"""SELECT keywords on Spark that sqlglot does not parse; frames combined with WITH queries."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from tests.support.two_commits import save_in_two_commits


@pytest.fixture(scope="module", autouse=True)
def _shop(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The catalog `sparkwords` with one table of three rows."""
    lakescan.catalog("sparkwords", warehouse=str(tmp_path_factory.mktemp("lake"))).create_namespace("db")
    save_in_two_commits(pa.table({"id": [1, 2, 3]}), "sparkwords.db.t", format="delta")


def ids(spark: Any, text: str, args: Any = None, **frames: Any) -> list[int]:
    return sorted(row[0] for row in lakescan.spark.sql(spark, text, args, **frames).collect())


@pytest.mark.parametrize(
    ("text", "args", "expected"),
    [
        ("TABLE sparkwords.db.t", None, [1, 2, 3]),
        ("WITH q AS (TABLE sparkwords.db.t) TABLE q ORDER BY id LIMIT 2", None, [1, 2]),
        ("TABLE sparkwords.db.t |> WHERE id > 2", None, [3]),
        ("FROM sparkwords.db.t SELECT id WHERE id > 1", None, [2, 3]),
        ("SELECT t.id FROM IDENTIFIER(:name) WHERE db.t.id = 1", {"name": "sparkwords.db.t"}, [1]),
        ("SELECT id FROM IDENTIFIER(?) VERSION AS OF 1 WHERE id < ?", ["sparkwords.db.t", 3], [1, 2]),
        ("TABLE IDENTIFIER('words_view')", None, [8, 9]),
    ],
)
def test_every_way_to_read_a_table_gives_its_rows(spark: Any, text: str, args: Any, expected: list[int]) -> None:
    spark.range(8, 10).createOrReplaceTempView("words_view")
    assert ids(spark, text, args) == expected


@pytest.mark.parametrize("given", ["frame", "table"])
def test_a_name_in_braces_is_the_frame_whatever_queries_of_with_are_called(spark: Any, given: str) -> None:
    t = spark.range(1, 4) if given == "frame" else lakescan.table("sparkwords.db.t")
    assert ids(spark, "WITH t AS (SELECT 7 AS id) SELECT id FROM {t} WHERE id > 1", t=t) == [2, 3]
    assert ids(spark, "WITH T(id) AS (SELECT id + 10 FROM {t}) SELECT id FROM t", t=t) == [11, 12, 13]
    assert ids(spark, "WITH q AS (SELECT id FROM {t}) SELECT t.id FROM {t} JOIN q ON q.id = t.id", t=t) == [1, 2, 3]
