"""Expressions of statements that change rows: each is parsed on its own, and messages quote it as written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import InvalidStatement, LakescanError
from tests.tables.support import maker, now, pairs, rows

pytestmark = pytest.mark.usefixtures("no_other_catalogs")


@pytest.fixture
def table(local: lakescan.Catalog) -> lakescan.Table:
    maker("iceberg", local)().append(rows((1, "a"), (2, "b")))
    return now()


def merge(on: str = "t.id = s.id") -> Any:
    return now().merge(pa.table({"id": [1, 9]}), on)


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        ("id = 1) OR (1 = 1", "nothing opens this ')' (line 1, column 7)"),
        ("abs(id) = (1", "this parenthesis is not closed (line 1, column 11)"),
        ("", "an expression is empty"),
        ("-- all", "an expression is empty"),
    ],
)
def test_an_expression_must_be_complete(table: lakescan.Table, where: str, wrong: str) -> None:
    statements = [
        lambda: now().delete(where),
        lambda: now().update({"part": "'z'"}, where),
        lambda: now().update({"part": where}),
        lambda: merge(where).when_matched_delete().execute(),
        lambda: merge().when_matched_delete(where).execute(),
        lambda: merge().when_not_matched_insert({"id": where}).execute(),
    ]
    for each in statements:
        with pytest.raises(InvalidStatement) as error:
            each()
        assert wrong in str(error.value)
    assert pairs() == [(1, "a"), (2, "b")]


def test_parentheses_in_texts_and_comments_are_ignored(table: lakescan.Table) -> None:
    table.update({"part": "'(' /* ) */"}, "id = 1 OR part = ')' -- (")
    assert pairs() == [(1, "("), (2, "b")]


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (lambda: now().delete("id > 0 AND\nabs(nope) = 1"), "(line 2, column 5)\nabs(nope) = 1\n    ^^^^"),
        (lambda: now().update({"part": "concat(nope, 1)"}), "(line 1, column 8)\nconcat(nope, 1)\n       ^^^^"),
        (lambda: now().update({"part": "1 +"}), "(line 1, column 3)\n1 +\n  ^"),
        (lambda: merge("t.id = s.nope").when_matched_delete().execute(), "\nt.id = s.nope\n       ^^^^^^"),
        (lambda: merge().when_matched_delete("s.nope").execute(), "\ns.nope\n^^^^^^"),
        (
            lambda: lakescan.sql("DELETE FROM local.db.t WHERE id IN (SELECT id FROM local.db.nope)"),
            "\nid IN (SELECT id FROM local.db.nope)\n                      ^^^^^^^^^^^^^",
        ),
        (
            lambda: lakescan.sql(
                "MERGE INTO local.db.t AS t USING (SELECT nope AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
            ),
            "\n(SELECT nope AS id)\n        ^^^^",
        ),
        (lambda: now().update({"part": "max(part)"}), "aggregate functions cannot be used in a statement"),
    ],
)
def test_messages_quote_the_written_text(table: lakescan.Table, change: Any, shown: str) -> None:
    with pytest.raises(LakescanError) as error:
        change()
    assert shown in str(error.value)
    assert "__lakescan" not in str(error.value)
    assert "_pos" not in str(error.value)


def test_clauses_cannot_read_columns_of_a_missing_side(table: lakescan.Table) -> None:
    """In Spark, columns of the other side cannot be resolved there; here they would be null."""
    with pytest.raises(InvalidStatement, match="rows that are not matched cannot read columns of t"):
        merge().when_not_matched_insert({"id": "s.id", "part": "t.part"}).execute()
    with pytest.raises(InvalidStatement, match="rows that are not matched by source cannot read columns of s"):
        merge().when_not_matched_by_source_delete("s.id IS NULL").execute()
    assert pairs() == [(1, "a"), (2, "b")]


def test_columns_can_be_qualified_with_longer_table_names(table: lakescan.Table) -> None:
    lakescan.sql("DELETE FROM local.db.t WHERE local.db.t.id = 1 AND abs(db.t.id) = T.ID")
    assert pairs() == [(2, "b")]
    lakescan.sql("UPDATE local.db.t SET part = concat(db.t.part, (SELECT count(*) FROM local.db.t)) WHERE db.t.id = 2")
    assert pairs() == [(2, "b1")]
