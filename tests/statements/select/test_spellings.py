"""Spark syntax that sqlglot does not parse: `TABLE t`, `IDENTIFIER('t')`, and errors without sqlglot."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import InvalidStatement, MissingDependency, NoSuchTable
from lakescan.statements.select.namespace import _CURRENT
from tests.support.two_commits import save_in_two_commits


@pytest.fixture(autouse=True)
def _shop(tmp_path: Path) -> Iterator[None]:
    """The catalog `words` with one table of three rows."""
    lakescan.catalog("words", warehouse=str(tmp_path)).create_namespace("db")
    save_in_two_commits(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), "words.db.t", format="delta")
    token = _CURRENT.set(())
    yield
    _CURRENT.reset(token)


def rows(text: str, args: object = None) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in lakescan.sql(text, args).to_arrow().to_pylist()]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("TABLE words.db.t", [1, 2, 3]),
        ("table words.db.t ORDER BY id DESC LIMIT 1", [3]),
        ("TABLE words.db.t UNION ALL (TABLE words.db.t)", [1, 1, 2, 2, 3, 3]),
        ("WITH q(id) AS (SELECT id FROM words.db.t WHERE id > 2) TABLE q", [3]),
        ("WITH q AS (TABLE words.db.t) SELECT * FROM q WHERE id = 2", [2]),
        ("SELECT * FROM (TABLE words.db.t) t WHERE id IN (SELECT id FROM (TABLE words.db.t))", [1, 2, 3]),
        ("FROM words.db.t SELECT id WHERE id < 3", [1, 2]),
        ("FROM words.db.t", [1, 2, 3]),
        ("SELECT * FROM IDENTIFIER('words.db.t') WHERE id = 1", [1]),
        ("SELECT t.id FROM IDENTIFIER('words.db.`t`') WHERE db.t.id > 1", [2, 3]),
        ("TABLE IDENTIFIER('words.db.t')", [1, 2, 3]),
        ("WITH t AS (SELECT 7 AS id) SELECT * FROM IDENTIFIER('t')", [7]),
        ("SELECT * FROM IDENTIFIER('words.db.t') VERSION AS OF 1 AS x", [1, 2, 3]),
        ("SELECT id AS table FROM words.db.t", [1, 2, 3]),
    ],
)
def test_every_way_to_read_a_table_gives_its_rows(text: str, ids: list[int]) -> None:
    assert sorted(row[0] for row in rows(text)) == ids


def test_a_parameter_names_the_table() -> None:
    text = "SELECT max(id) FROM IDENTIFIER(:space || '.t') WHERE id < :id"
    assert rows(text, {"space": "words.db", "id": 3}) == [(2,)]
    assert rows("SELECT max(id) FROM IDENTIFIER(?) WHERE id < ?", ["words.db.t", 3]) == [(2,)]


def test_a_table_named_by_a_text_is_narrowed() -> None:
    query = lakescan.sql("SELECT id FROM IDENTIFIER('words.db.t') WHERE id = 1")
    assert "words.db.t: columns id, where id = 1" in query.explain()


@pytest.mark.parametrize("name", ["words.db.t; x", "a b", ""])
def test_an_invalid_name_in_a_text_is_refused_with_its_position(name: str) -> None:
    with pytest.raises(InvalidStatement, match=r"is not the name of a table \(line 1, column 15\)\n.*\n {14}\^+$"):
        lakescan.sql("SELECT * FROM IDENTIFIER(:n)", {"n": name})


def test_an_unknown_table_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(NoSuchTable, match="Did you mean 't'"):
        lakescan.sql("TABLE words.db.tt")


@pytest.mark.parametrize("text", ["SELECT * FROM t@v3", "SELECT * FROM t WHERE id = ?", "TABLE t", "FROM t |> LIMIT 1"])
def test_without_sqlglot_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(MissingDependency, match=r"lakescan\[sql\]"):
        lakescan.sql(text, [1] if "?" in text else None)
