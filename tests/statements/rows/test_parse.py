"""Statements that change rows, parsed: `statements.syntax.parse_dml`."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.errors import InvalidStatement, UnsupportedFeature
from lakescan.statements.syntax.dml import (
    Assignment,
    Clause,
    Delete,
    DmlStatement,
    Insert,
    Merge,
    MergeAction,
    Update,
    When,
)
from lakescan.statements.syntax.parse import StatementKind, statement_of
from lakescan.statements.syntax.parse_dml import parse
from lakescan.statements.syntax.text import Sql, TableName, tokens

# From the documentation of Spark, Delta and Iceberg, and other forms of Spark's grammar.
TAKEN = [
    "DELETE FROM events WHERE date < '2017-01-01'",
    "DELETE FROM delta.`/tmp/delta/people-10m` WHERE birthDate < '1955-01-01'",
    "DELETE FROM prod.db.orders AS t1 WHERE NOT EXISTS (SELECT oid FROM returned_orders WHERE t1.oid = oid)",
    "DELETE FROM t x WHERE x.limit = 3 AND x.from = 2 AND values = 2",
    "DELETE FROM t",
    "UPDATE prod.db.table SET c1 = 'update_c1', c2 = 'update_c2' WHERE ts >= '2020-05-01 00:00:00' and ts < '2020-06'",
    "UPDATE events SET eventType = DEFAULT WHERE eventType == 'clck'",
    "UPDATE t SET address.city = upper(address.city), b = a IS DISTINCT FROM c",
    "UPDATE t SET case = 1, a = end, b = CASE WHEN end THEN CASE WHEN x THEN 1 END ELSE 2 END WHERE a = 1",
    "MERGE INTO prod.db.target t USING (SELECT * FROM s) s ON t.id = s.id "
    "WHEN MATCHED AND s.op = 'delete' THEN DELETE WHEN MATCHED AND t.count IS NULL AND s.op = 'increment' THEN UPDATE "
    "SET t.count = 0 WHEN MATCHED AND s.op = 'increment' THEN UPDATE SET t.count = t.count + 1 "
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET status = 'invalid'",
    "MERGE INTO people10m USING people10mupdates ON people10m.id = people10mupdates.id WHEN MATCHED THEN UPDATE SET "
    "id = people10mupdates.id, ssn = people10mupdates.ssn WHEN NOT MATCHED THEN INSERT (id, ssn) VALUES "
    "(people10mupdates.id, people10mupdates.ssn)",
    "MERGE WITH SCHEMA EVOLUTION INTO target USING source ON source.key = target.key "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "MERGE INTO t USING (VALUES (1, 2) AS v(a, b)) s ON t.a = s.a WHEN ! MATCHED BY TARGET AND s.b THEN INSERT *",
    "MERGE INTO t USING s ON a = b WHEN MATCHED AND CASE WHEN a THEN b WHEN c THEN d END THEN DELETE",
    "WITH q AS (SELECT 1 AS a) MERGE INTO t USING q ON t.a = q.a WHEN MATCHED THEN DELETE",
    "INSERT INTO students VALUES ('Amy Smith', '123 Park Ave, San Jose', 111111), ('Bob', DEFAULT, 2)",
    "INSERT INTO TABLE students PARTITION (student_id = 444444) SELECT name, address FROM persons WHERE name = 'Dora'",
    "INSERT INTO students TABLE visiting_students",
    "INSERT INTO students (address, name, student_id) VALUES ('Hangzhou, China', 'Kent Yao', 11215016)",
    "INSERT INTO students PARTITION (student_id = 11215017, b) (address, name) VALUES ('Hangzhou', 'Kent Yao Jr.')",
    "INSERT INTO t PARTITION (a = -1, b = DATE'2020-01-01', c = 'x', d = 1L, e = NULL, f = 1.5BD) SELECT 1",
    "INSERT INTO target BY NAME SELECT named_struct('a', 1) AS x",
    "INSERT INTO persons REPLACE WHERE ssn = 123456789 SELECT * FROM persons2",
    "INSERT INTO t REPLACE WHERE a IN (SELECT 1) AND b IS DISTINCT FROM 3 (SELECT 1)",
    "INSERT INTO t REPLACE WHERE a = 1 WITH q AS (SELECT 1) SELECT * FROM q",
    "INSERT INTO t (SELECT 1)",
    "INSERT INTO t FROM s SELECT a",
    "INSERT OVERWRITE students PARTITION (student_id = 222222) SELECT name, address FROM persons",
    "INSERT OVERWRITE prod.my_app.logs SELECT uuid, first(level) FROM logs WHERE cast(ts as date) = '2020-07-01'",
    "WITH q AS (SELECT 1), r (a) AS (SELECT 2) INSERT INTO t SELECT * FROM q",
    "WITH q AS (SELECT 1 AS a) DELETE FROM t WHERE a IN (SELECT a FROM q)",
    "WITH q AS (SELECT 1 AS a) UPDATE t SET a = 2 WHERE a IN (SELECT a FROM q)",
    "INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1",
    "INSERT OVERWRITE directory SELECT 1",
    "TRUNCATE TABLE Student",
    "TRUNCATE TABLE Student PARTITION (age = 10)",
]
# Statements that Spark refuses, too.
REFUSED = [
    ("DELETE t WHERE a = 1", "expected FROM, not 't'", "t"),
    ("DELETE FROM t WERE a = 1", "expected WHERE, not 'WERE'. Did you mean 'WHERE'?", "WERE"),
    ("DELETE FROM t x (a) WHERE x.a = 1", "an alias cannot have a column list", "(a)"),
    ("DELETE FROM t VERSION AS OF 3", "an earlier state of a table cannot be changed", "VERSION"),
    ("DELETE FROM t WHERE a = 1, b = 2", "',' cannot occur within the condition", ","),
    ("DELETE FROM t WHERE a = 1 LIMIT 3", "'LIMIT' cannot occur within the condition", "LIMIT"),
    ("DELETE FROM t WHERE a = (1", "this '(' is not closed", "("),
    ("DELETE FROM t WHERE a = 1)", "nothing opens this ')'", ")"),
    ("DELETE FROM t WHERE a = 1; DELETE FROM t", "one statement at a time: call sql for each", ";"),
    ("UPDATE t SET", "expected a column, and the text ends", ""),
    ("UPDATE t STE a = 1", "Did you mean 'SET'?", "STE"),
    ("UPDATE t SET a", "expected =, and the text ends", ""),
    ("UPDATE t SET a = ", "the value is missing", ""),
    ("UPDATE t SET a = 1 FROM s WHERE t.a = s.a", "'FROM' cannot occur within the value", "FROM"),
    ("UPDATE t SET a = 1 AS x", "'AS' cannot occur within the value", "AS"),
    ("MERGE INTO t USNG s ON a = b WHEN MATCHED THEN DELETE", "Did you mean 'USING'?", "USNG"),
    ("MERGE INTO t USING s ON a = b", "expected WHEN MATCHED or WHEN NOT MATCHED", ""),
    ("MERGE INTO t USING s ON a = b WHEN MACHED THEN DELETE", "Did you mean 'MATCHED'?", "MACHED"),
    ("MERGE INTO t USING s ON a = b WHEN MATCHED TEN DELETE", "Did you mean 'THEN'?", "TEN"),
    ("MERGE INTO t USING s ON a = b WHEN MATCHED THEN DELTE", "Did you mean 'DELETE'?", "DELTE"),
    ("MERGE INTO t USING s ON a = b WHEN MATCHED THEN INSERT *", "takes UPDATE SET or DELETE, not INSERT", "INSERT"),
    ("MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN DELETE", "takes INSERT, not DELETE", "DELETE"),
    ("MERGE INTO t USING s ON a = b WHEN NOT MATCHED THEN INSERT (a) VALUES (1, 2)", "1 columns and 2 values", None),
    ("MERGE INTO t USING s ON a = b WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "has no source row", "*"),
    (
        "MERGE INTO t USING s ON a = b WHEN MATCHED THEN DELETE WHEN MATCHED AND x THEN UPDATE SET *",
        "must be the last of its kind",
        "WHEN MATCHED AND",
    ),
    (
        "MERGE INTO t USING (SELECT 1 AS a) s (x) ON a = b WHEN MATCHED THEN DELETE",
        "an alias cannot have a column list",
        "(x)",
    ),
    ("INSERT t SELECT 1", "expected INTO or OVERWRITE", "t"),
    ("INSERT INOT t SELECT 1", "Did you mean 'INTO'?", "INOT"),
    ("INSERT INTO t x SELECT 1", "not 'x'", "x"),
    ("INSERT INTO t", "and the text ends", ""),
    ("INSERT INTO t (a.b) SELECT 1", "not members of structs", "a.b"),
    ("INSERT INTO t PARTITION (a = x) SELECT 1", "a literal, not x", "x"),
    ("INSERT INTO t PARTITION (a = DEFAULT) SELECT 1", "a literal, not DEFAULT", "DEFAULT"),
    ("INSERT INTO TABLE t IF NOT EXISTS SELECT 1", "is for INSERT OVERWRITE", "IF NOT EXISTS"),
    ("TRUNCATE t", "expected TABLE", "t"),
    ("TRUNCATE TABLE t PARTITION (a)", "a value for each column", None),
]
_SQL = Sql("")


def sql(text: str) -> Sql:
    return Sql(text)


def plain(value: Any) -> Any:
    """Convert a statement to a form without positions, with its expressions as words."""
    match value:
        case Sql():
            return tuple(each.text.upper() for each in tokens(value.text))
        case TableName():
            return value.parts, value.alias
        case tuple():
            return tuple(plain(each) for each in value)
        case Assignment() | Clause() | Delete() | Update() | Merge() | Insert():
            return type(value), *(plain(each) for each in vars(value).values())
    return value


def parsed(text: str) -> DmlStatement:
    found = parse(text)
    assert found is not None
    return found


@pytest.mark.parametrize("text", TAKEN)
def test_statements_of_the_documentation_are_parsed(text: str) -> None:
    found = parsed(text)
    assert statement_of(text).kind.changes_rows
    assert text[found.target.start : found.target.end].replace("`", "") == ".".join(found.target.parts)


@pytest.mark.parametrize(("text", "message", "marked"), REFUSED)
def test_mistakes_are_underlined(text: str, message: str, marked: str | None) -> None:
    with pytest.raises(InvalidStatement, match=re.escape(message)) as raised:
        parse(text)
    _, line, marks = str(raised.value).split("\n")
    assert line == text
    if marked is not None:
        at = marks.index("^")
        assert text[at:].startswith(marked)


def test_a_merge_is_parsed_into_its_parts() -> None:
    text = """MERGE INTO local.db.t AS x USING (SELECT 1 AS id /* ) */) s ON x.id = s.id
        WHEN MATCHED AND CASE WHEN s.id > 1 THEN true END THEN UPDATE SET x.id = s.id + 1, name = DEFAULT
        WHEN NOT MATCHED THEN INSERT (id, `a.b`) VALUES (s.id, concat('a, b', (1)))
        WHEN NOT MATCHED BY SOURCE AND x.id = 3 THEN DELETE;"""
    found = parsed(text)
    assert isinstance(found, Merge)
    assert (found.target.parts, found.target.alias) == (("local", "db", "t"), "x")
    assert (found.source.text, found.source_alias) == ("(SELECT 1 AS id /* ) */)", "s")
    assert text[found.on.start :].startswith("x.id = s.id")
    assert plain(found.clauses) == plain(
        (
            Clause(
                When.MATCHED,
                MergeAction.UPDATE,
                sql("CASE WHEN s.id > 1 THEN true END"),
                (Assignment(("x", "id"), sql("s.id + 1")), Assignment(("name",), sql("DEFAULT"))),
            ),
            Clause(
                When.NOT_MATCHED,
                MergeAction.INSERT,
                None,
                (Assignment(("id",), sql("s.id")), Assignment(("a.b",), sql("concat('a, b', (1))"))),
            ),
            Clause(When.NOT_MATCHED_BY_SOURCE, MergeAction.DELETE, sql("x.id = 3"), ()),
        )
    )


@pytest.mark.parametrize(
    ("source", "text", "alias"),
    [
        ("s", "s", "s"),
        ("local.db.s", "local.db.s", "s"),
        ("s AS y", "s", "y"),
        ("s y", "s", "y"),
        ("local.db.s@v3 y", "local.db.s@v3", "y"),
        ("s VERSION AS OF 3", "s VERSION AS OF 3", "s"),
        ("s FOR SYSTEM_VERSION AS OF 3 AS y", "s FOR SYSTEM_VERSION AS OF 3", "y"),
        ("s TIMESTAMP AS OF '2026-01-01' y", "s TIMESTAMP AS OF '2026-01-01'", "y"),
        (
            "s TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY",
            "s TIMESTAMP AS OF current_timestamp() - INTERVAL 1 DAY",
            "s",
        ),
        (
            "s TIMESTAMP AS OF now() - INTERVAL 1 DAY y",
            "s TIMESTAMP AS OF now() - INTERVAL 1 DAY",
            "y",
        ),
        ("delta.`/lake/on` y", "delta.`/lake/on`", "y"),
        ("table_changes('a.b.c', 1) y", "table_changes('a.b.c', 1)", "y"),
        ("(SELECT 1 AS on)", "(SELECT 1 AS on)", None),
    ],
)
def test_the_source_of_a_merge_and_its_alias_are_parsed(source: str, text: str, alias: str | None) -> None:
    found = parsed(f"MERGE INTO t USING {source} ON a = b WHEN MATCHED THEN DELETE")
    assert isinstance(found, Merge)
    assert (found.source.text, found.source_alias, found.on.text) == (text, alias, "a = b")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("t", ("t",)),
        ("cat.db.t", ("cat", "db", "t")),
        ("`a``b`.`c.d`", ("a`b", "c.d")),
        ("delta.`/lake/orders`", ("delta", "/lake/orders")),
        ("local.db.t.branch_audit", ("local", "db", "t", "branch_audit")),
        ("table.date.1b", ("table", "date", "1b")),
        ("IDENTIFIER('cat.' || :name)", ("cat", "db", "t")),
    ],
)
def test_names_of_targets_are_parsed(name: str, parts: tuple[str, ...]) -> None:
    for text in (f"DELETE FROM {name} WHERE a", f"INSERT INTO {name} SELECT 1", f"TRUNCATE TABLE {name}"):
        found = parse(text, {"name": "db.t"})
        assert found is not None
        assert found.target.parts == parts


def test_inserts_are_parsed_into_their_parts() -> None:
    found = parsed("WITH q AS (SELECT 1) INSERT OVERWRITE t PARTITION (a = 1, `b c`) (x, y) SELECT * FROM q")
    assert plain(found) == plain(
        Insert(
            TableName(("t",)),
            sql("SELECT * FROM q"),
            ("x", "y"),
            overwrite=True,
            partition=(("a", sql("1")), ("b c", None)),
            with_clause=sql("WITH q AS (SELECT 1)"),
        )
    )
    found = parsed("INSERT INTO t BY NAME REPLACE WHERE a = (SELECT 1) VALUES (1, 2)")
    assert isinstance(found, Insert)
    assert found.overwrite
    assert found.by_name
    assert found.replace_where == Sql("a = (SELECT 1)", 36)
    assert found.query == Sql("VALUES (1, 2)", 51)


def test_with_is_allowed_for_deletes_and_updates() -> None:
    found = parsed("WITH q AS (SELECT 1 AS a) DELETE FROM t WHERE a IN (SELECT a FROM q)")
    clause = sql("WITH q AS (SELECT 1 AS a)")
    assert plain(found) == plain(Delete(TableName(("t",)), sql("a IN (SELECT a FROM q)"), clause))
    found = parsed("WITH q AS (SELECT 1 AS a) UPDATE t SET b = 2")
    assert plain(found) == plain(Update(TableName(("t",)), (Assignment(("b",), sql("2")),), None, clause))


def test_truncate_deletes_all_rows_or_those_of_a_partition() -> None:
    assert plain(parsed("TRUNCATE TABLE a.b")) == plain(Delete(TableName(("a", "b"))))
    found = parsed("TRUNCATE TABLE t PARTITION (a = 1, `b``c` = NULL)")
    assert isinstance(found, Delete)
    assert found.where == Sql("`a` <=> 1 AND `b``c` <=> NULL")


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("FROM s INSERT INTO t SELECT a INSERT INTO u SELECT b", "FROM ... INSERT"),
        ("INSERT INTO t REPLACE USING (a) SELECT 1", "REPLACE USING"),
        ("INSERT INTO t REPLACE ON a = 1 SELECT 1", "REPLACE ON"),
        ("INSERT OVERWRITE t PARTITION (a = 1) IF NOT EXISTS SELECT 1", "IF NOT EXISTS"),
        (
            "WITH q AS (SELECT 1 AS a) MERGE INTO t USING q ON t.a = q.a AND EXISTS (SELECT 1 FROM q) "
            "WHEN MATCHED THEN DELETE",
            "the query 'q' of WITH",
        ),
        ("MERGE INTO t USING s ON a = b WHEN MATCHED THEN UPDATE SET * EXCEPT (a)", "* EXCEPT"),
    ],
)
def test_statements_of_other_engines_are_refused_by_name(text: str, feature: str) -> None:
    with pytest.raises(UnsupportedFeature, match=re.escape(feature)):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'insert into t'",
        "WITH q AS (SELECT 1 AS insert) SELECT * FROM q",
        "FROM t SELECT a.insert, `insert` into",
        "INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT 1",
        "INSERT OVERWRITE LOCAL DIRECTORY USING parquet SELECT 1",
        "CREATE TABLE a.b.c (update INT)",
        "USE a.b",
    ],
)
def test_other_statements_are_not_parsed(text: str) -> None:
    assert parse(text) is None


def test_a_column_is_assigned_once() -> None:
    for text in ("UPDATE t SET a = 1, a = 2", "UPDATE t SET a.b = 1, `a`.b = 2"):
        with pytest.raises(InvalidStatement, match="is assigned twice"):
            parse(text)
    with pytest.raises(InvalidStatement, match="is listed twice"):
        parse("INSERT INTO t (a, a) SELECT 1, 2")


def test_kinds_of_statements_are_recognized() -> None:
    kinds = [
        statement_of(text).kind for text in ("/* x */ delete from t", "-- y\nWITH q AS (SELECT 1) UPDATE t SET a=1")
    ]
    assert kinds == [StatementKind.DELETE, StatementKind.UPDATE]
    assert statement_of("FROM t INSERT INTO s SELECT 1").kind is StatementKind.INSERT
    assert statement_of("WITH insert AS (SELECT 1) SELECT * FROM insert").kind is StatementKind.QUERY


_GAPS = st.sampled_from([" ", "\n", "\t ", " /* ; ) WHEN 'x */ ", " -- THEN ( `\n", "/**/"])
_NAMES = {"t", "s", "x", "db", "events", "students", "people10m", "target", "source", "prod"}


@given(st.sampled_from(TAKEN), st.data())
def test_spaces_comments_case_and_quotes_do_not_matter(text: str, data: st.DataObject) -> None:
    words = [(each.start, each.end + 1) for each in tokens(text)]
    written = ""
    for n, (start, end) in enumerate(words):
        if n and words[n - 1] == (start, end):  # a literal such as 1L has several tokens
            continue
        word = text[start:end]
        if n and words[n - 1][1] < start:
            written += data.draw(_GAPS)
        if word in _NAMES and data.draw(st.booleans()):
            word = f"`{word}`"
        elif word.isupper() and word.isalpha() and data.draw(st.booleans()):
            word = word.lower()
        written += word
    closed = written + data.draw(st.sampled_from(["", ";", " ; -- x", "\n;;"]))
    assert _upper(plain(parse(closed))) == _upper(plain(parse(text)))


def _upper(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_upper, value))
    return value.upper() if isinstance(value, str) else value
