"""Spark's errors about statements quote the user's own text, and no internal names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import lakescan
from lakescan.spark.statements.queries import translate_message

SELECT = "SELECT id FROM own.db.t AS a JOIN own.db.u AS b USING (id)\nWHERE {} = 1"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> None:
    catalog = lakescan.catalog("own", warehouse=Path(tmp_path_factory.mktemp("own")))
    catalog.create_namespace("db")
    for name in ("t", "u"):
        catalog.create_table(f"db.{name}", "id INT, v INT")


def _error(spark: Any, text: str) -> str:
    with pytest.raises(PySparkException) as raised:
        lakescan.spark.sql(spark, text).collect()
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT id FROM own.db.t WHERE nope = 1", "nope"),
        ("SELECT own.db.t.id, nope FROM own.db.t", "nope"),
        ("SELECT id FROM own.db.t WITH ('split-size' = 1000) AS a WHERE a.nope = 1", "a.nope"),
        (SELECT.format("b.nope"), "b.nope"),
        ("SELECT no_such(id) FROM own.db.t", "no_such"),
        ("DELETE FROM own.db.t WHERE nope = 1", "nope"),
        ("UPDATE own.db.t SET v = nope + 1", "nope"),
        ("INSERT INTO own.db.t SELECT nope, 1 FROM own.db.u", "nope"),
    ],
)
def test_the_error_position_is_underlined_in_the_users_text(spark: Any, tables: None, text: str, place: str) -> None:
    message = _error(spark, text)
    *_, shown, marks = message.rstrip().split("\n")
    start = marks.index("^")
    assert shown[start : start + len(place)] == place
    assert shown in text
    assert not any(each in message for each in ("_pyspark_", "__lakescan", "_pos", "SubqueryAlias"))


def test_a_message_without_a_position_is_unchanged() -> None:
    assert translate_message("[SOME_ERROR] what is wrong. SQLSTATE: 42000", "SELECT 1", ()) == (
        "[SOME_ERROR] what is wrong. SQLSTATE: 42000"
    )
