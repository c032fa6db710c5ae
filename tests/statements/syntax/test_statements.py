"""Parsing of statements about tables, namespaces and views."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

import lakescan
from lakescan.common import types as t
from lakescan.definition.table_changes import (
    FIRST,
    AddColumn,
    ChangeColumn,
    ColumnPosition,
    DropColumn,
    RenameColumn,
    SetOrder,
    TableChange,
)
from lakescan.definition.table_definition import SortTerm, Term
from lakescan.statements.syntax.alter_table import ACTIONS, AlterTable, CreateRef
from lakescan.statements.syntax.commands import Call, Optimize, Restore, Vacuum
from lakescan.statements.syntax.grammar import FORMS, parse_statement
from lakescan.statements.syntax.namespaces import Show, ShowKind
from lakescan.statements.syntax.tables_and_views import CreateTable


def changes(action: str) -> tuple[TableChange, ...]:
    found = parse_statement(f"ALTER TABLE lake.shop.t {action}")
    assert isinstance(found, AlterTable)
    return found.changes


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.keywords)
def test_each_form_reads_its_example(form: Any) -> None:
    assert form.example.upper().startswith(form.keywords)
    assert parse_statement(form.example) is not None
    assert parse_statement(f"{form.example};") == parse_statement(form.example)


@pytest.mark.parametrize("form", ACTIONS, ids=lambda form: form.keywords)
def test_each_action_of_alter_table_reads_its_example(form: Any) -> None:
    assert form.example.upper().startswith(form.keywords)
    assert parse_statement(f"ALTER TABLE lake.shop.t {form.example}") is not None


@pytest.mark.parametrize(
    "form",
    [each for each in (*FORMS, *ACTIONS) if " AS SELECT" not in each.example],  # the rest of these is the query's
    ids=lambda form: form.keywords,
)
def test_an_example_with_an_extra_word_is_refused(form: Any) -> None:
    text = f"{form.example} , )"
    with pytest.raises(lakescan.InvalidStatement):
        parse_statement(f"ALTER TABLE t {text}" if form in ACTIONS else text)


def test_a_flink_create_table_with_a_primary_key_is_parsed() -> None:
    found = parse_statement(
        "CREATE TABLE IF NOT EXISTS cat.db.sink6 (order_id INTEGER COMMENT 'unique id', order_date DATE, order_time "
        "TIMESTAMP(3), quantity INT, product_id INT, purchaser STRING, PRIMARY KEY (order_id) NOT ENFORCED) "
        "WITH ('format-version' = '2')"
    )
    assert isinstance(found, CreateTable)
    assert found.table.parts == ("cat", "db", "sink6")
    assert (found.if_not_exists, found.properties, found.columns.key) == (True, {"format-version": "2"}, ("order_id",))
    first = found.columns.columns[0]
    assert (first.name, first.type, first.required, first.doc) == ("order_id", t.INT, True, "unique id")
    assert found.columns.columns[2].type == t.Timestamp(zoned=False)


def test_clauses_of_create_table_come_in_any_order() -> None:
    found = parse_statement(
        "CREATE TABLE t (id BIGINT, ts TIMESTAMP) COMMENT 'orders' TBLPROPERTIES (a.b-c = 5, 'x' = true) LOCATION "
        "'/lake/t' PARTITIONED BY (days(ts), bucket(4, id)) WRITE LOCALLY ORDERED BY id DESC USING ICEBERG"
    )
    assert isinstance(found, CreateTable)
    assert (found.comment, found.location, found.format) == ("orders", "/lake/t", "iceberg")
    assert found.properties == {"a.b-c": "5", "x": "true"}
    assert found.partition_by == (Term("ts", "day"), Term("id", "bucket", 4))
    assert found.order == SetOrder((SortTerm(Term("id"), True, False),), "none")


def test_columns_with_types_in_partitioned_by_are_new_columns() -> None:
    found = parse_statement("CREATE TABLE t (id BIGINT) PARTITIONED BY (day DATE, hour INT)")
    assert isinstance(found, CreateTable)
    assert [each.name for each in found.columns.columns] == ["id", "day", "hour"]
    assert found.partition_by == (Term("day"), Term("hour"))


def test_several_columns_are_added_with_their_positions() -> None:
    assert changes("ADD COLUMNS (a INT FIRST, p.b STRING COMMENT 'x' AFTER c)") == (
        AddColumn((), t.Field(0, "a", t.INT), None, FIRST),
        AddColumn(("p",), t.Field(0, "b", t.STRING, doc="x"), None, ColumnPosition("c")),
    )
    assert changes("DROP COLUMN IF EXISTS a, p.b") == (DropColumn(("a",), True), DropColumn(("p", "b"), True))


def test_several_columns_are_changed() -> None:
    assert changes("ALTER COLUMN a TYPE BIGINT COMMENT 'x' FIRST, b DROP NOT NULL, c DROP DEFAULT") == (
        ChangeColumn(("a",), t.LONG, "x", place=FIRST),
        ChangeColumn(("b",), required=False),
        ChangeColumn(("c",), default=None),
    )
    assert changes("CHANGE a b BIGINT") == (ChangeColumn(("a",), t.LONG), RenameColumn(("a",), "b"))


@pytest.mark.parametrize(
    ("action", "distribution", "terms"),
    [
        ("WRITE ORDERED BY a, b DESC", "range", 2),
        ("WRITE LOCALLY ORDERED BY a", "none", 1),
        ("WRITE DISTRIBUTED BY PARTITION", "hash", 0),
        ("WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY (a, b)", "hash", 2),
        ("WRITE UNORDERED", "none", 0),
    ],
)
def test_the_distribution_mode_follows_from_the_keywords(action: str, distribution: str, terms: int) -> None:
    [change] = changes(action)
    assert isinstance(change, SetOrder)
    assert (change.distribution, len(change.terms or ())) == (distribution, terms)


def test_the_retention_of_a_branch_is_parsed() -> None:
    found = parse_statement(
        "ALTER TABLE t CREATE OR REPLACE BRANCH `a-b` AS OF VERSION 5 RETAIN 7 DAYS WITH SNAPSHOT RETENTION 3 "
        "SNAPSHOTS 2 HOURS"
    )
    assert isinstance(found, CreateRef)
    assert (found.kind, found.name, found.version, found.replaces) == ("branch", "a-b", 5, True)
    day = 86_400_000
    assert (found.max_ref_age_ms, found.min_snapshots_to_keep, found.max_snapshot_age_ms) == (7 * day, 3, day // 12)


def test_procedure_arguments_are_parsed() -> None:
    found = parse_statement(
        "CALL lake.system.f('shop.t', -3, ts => TIMESTAMP '2026-01-31 00:00:00', o => map('a', 'b'), x => array(1, 2), "
        "p => :p, q => true)",
        {"p": 7},
    )
    assert found == Call(
        ("lake", "system", "f"),
        ("shop.t", -3),
        {"ts": datetime(2026, 1, 31), "o": {"a": "b"}, "x": [1, 2], "p": 7, "q": True},
    )


def test_commands_of_delta_are_parsed() -> None:
    optimize = parse_statement("OPTIMIZE '/lake/t' WHERE day = 'x' ZORDER BY a, b.c")
    assert isinstance(optimize, Optimize)
    assert (optimize.table.parts, str(optimize.where), optimize.zorder_by) == (
        ("delta", "/lake/t"),
        "day = 'x'",
        ("a", "b.c"),
    )
    vacuum = parse_statement("VACUUM t LITE RETAIN 12.5 HOURS DRY RUN")
    assert isinstance(vacuum, Vacuum)
    assert (vacuum.hours, vacuum.lite, vacuum.dry_run) == (12.5, True, True)
    restore = parse_statement("RESTORE t TO TIMESTAMP AS OF '2026-01-31'")
    assert isinstance(restore, Restore)
    assert restore.state.timestamp == "2026-01-31"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("SHOW TABLES", ShowKind.TABLES),
        ("SHOW DATABASES LIKE 'a*'", ShowKind.NAMESPACES),
        ("DESCRIBE history.t", ShowKind.TABLE),
        ("DESC HISTORY t LIMIT 5", ShowKind.HISTORY),
        ("DESCRIBE DETAIL '/lake/t'", ShowKind.DETAIL),
        ("DESCRIBE NAMESPACE EXTENDED lake.shop", ShowKind.NAMESPACE),
        ("SHOW COLUMNS IN t IN lake.shop", ShowKind.COLUMNS),
    ],
)
def test_show_statements_are_parsed(text: str, what: ShowKind) -> None:
    found = parse_statement(text)
    assert isinstance(found, Show)
    assert found.what is what


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ALTER TABLE t ADD COLUM x INT", "not 'COLUM'. Did you mean 'COLUMN'"),
        ("ALTER TABLE t FOO", "expected ADD, ALTER, CHANGE"),
        ("ALTER TABLE t ALTER COLUMN a", "expected TYPE, COMMENT"),
        ("CREATE TABLE t (a INT) COMMENT 'x' COMMENT 'y'", "COMMENT occurs twice"),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS t (a INT)", "exclude each other"),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('a' = 'b', 'a' = 'c')", "the property 'a' is set twice"),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('a' = -)", "expected the value of 'a', not"),
        ("CALL c.system.f(a => 1, 2)", "positional arguments come before named arguments"),
        ("CALL c.system.f(a => 1, A => 2)", "the parameter 'a' is given twice"),
        ("CALL c.system.f(a + 2)", "a \\+ 2 is not a constant"),
        ("CALL c.system.f(:p)", "the parameter :p has no value"),
        ("RESTORE t", "expected VERSION AS OF or TIMESTAMP AS OF"),
        ("DROP TABLE", "expected the name of a table, and the text ends"),
    ],
)
def test_errors_are_underlined(text: str, message: str) -> None:
    with pytest.raises(lakescan.InvalidStatement, match=message) as raised:
        parse_statement(text)
    assert "^" in str(raised.value)


@pytest.mark.parametrize("text", ["SELECT 1", "ANALYZE TABLE t COMPUTE STATISTICS", "create", ""])
def test_other_statements_are_not_parsed(text: str) -> None:
    assert parse_statement(text) is None
