"""INSERT and TRUNCATE TABLE in process: `lakescan.sql`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.common import types as t
from lakescan.errors import (
    CommitConflict,
    InvalidStatement,
    NoSuchColumn,
    NoSuchSnapshot,
    NoSuchTable,
    QueryFailed,
    SchemaMismatch,
    UnsupportedFeature,
)
from lakescan.statements.rows import insert as inserting
from lakescan.statements.rows.insert import with_defaults
from lakescan.statements.select.namespace import _CURRENT
from lakescan.writing.column_rules import ColumnRules
from tests.support.delta_rules import identity, table_with_rules

FORMATS = ("iceberg", "delta")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Path]:
    """The catalog `ins` with a namespace, and tables of both formats named after their format."""
    lakescan.catalog("ins", warehouse=str(tmp_path / "lake")).create_namespace("db")
    for name in FORMATS:
        columns = "(id BIGINT NOT NULL, name STRING, day DATE)"
        lakescan.sql(f"CREATE TABLE ins.db.{name} {columns} USING {name} PARTITIONED BY (day)")
    token = _CURRENT.set(())
    yield tmp_path / "lake"
    _CURRENT.reset(token)


def made(columns: str, format: str = "iceberg", more: str = "") -> lakescan.Table:
    lakescan.sql(f"CREATE TABLE ins.db.t ({columns}) USING {format} {more}")
    return lakescan.table("ins.db.t")


def rows(name: str = "t", order: str = "1") -> list[tuple[Any, ...]]:
    found = lakescan.sql(f"SELECT * FROM ins.db.{name} ORDER BY {order}").to_arrow()
    return [tuple(row.values()) for row in found.to_pylist()]


D1, D2 = date(2026, 1, 1), date(2026, 1, 2)


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_appended_by_position_by_list_and_by_name(lake: Path, name: str) -> None:
    result = lakescan.sql(f"INSERT INTO ins.db.{name} VALUES (1, 'a', DATE'2026-01-01'), (2, NULL, DATE'2026-01-02')")
    assert (result.rows, result.files) == (2, 2)
    lakescan.sql(f"INSERT INTO TABLE ins.db.{name} (day, ID) SELECT DATE'2026-01-01', 3")
    lakescan.sql(f"INSERT INTO ins.db.{name} BY NAME SELECT 'd' AS name, 4 AS id")
    lakescan.sql(f"WITH q AS (SELECT 5 AS id) INSERT INTO ins.db.{name} (id) SELECT id FROM q")
    lakescan.sql(f"INSERT INTO ins.db.{name} PARTITION (day = '2026-01-02') (name, id) VALUES ('f', 6)")
    assert rows(name) == [
        (1, "a", D1),
        (2, None, D2),
        (3, None, D1),
        (4, "d", None),
        (5, None, None),
        (6, "f", D2),
    ]


def test_columns_are_matched_by_position_whatever_their_names_are(lake: Path) -> None:
    made("a INT, b INT")
    lakescan.sql("INSERT INTO ins.db.t SELECT 1 AS b, 2 AS a")
    lakescan.sql("INSERT INTO ins.db.t (b, a) SELECT 3 AS b, 4 AS b")
    lakescan.sql("INSERT INTO ins.db.t BY NAME SELECT 5 AS b, 6 AS A")
    assert rows() == [(1, 2), (4, 3), (6, 5)]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("INSERT INTO ins.db.t SELECT 1", SchemaMismatch, r"1 columns \(1\) for 2 columns of the table \(a, b\)"),
        ("INSERT INTO ins.db.t SELECT 1, 2, 3", SchemaMismatch, "3 columns"),
        ("INSERT INTO ins.db.t (a) SELECT 1, 2", SchemaMismatch, "2 columns"),
        ("INSERT INTO ins.db.t (c) SELECT 1", NoSuchColumn, "no column 'c'"),
        ("INSERT INTO ins.db.t BY NAME SELECT 1 AS a, 2 AS bb", NoSuchColumn, "Did you mean 'b'"),
        ("INSERT INTO ins.db.t BY NAME SELECT 1 AS a, 2 AS A", SchemaMismatch, "occurs twice"),
        ("INSERT INTO ins.db.t (b) SELECT 1", SchemaMismatch, "column 'a' is required but missing"),
        ("INSERT INTO ins.db.t VALUES (NULL, 1)", SchemaMismatch, "'a' is required, but is null"),
        ("INSERT INTO ins.db.t VALUES (true, 1)", SchemaMismatch, "column 'a' is int, and its value boolean"),
        ("INSERT INTO ins.db.t VALUES (DATE'2026-01-01', 1)", SchemaMismatch, "and its value date"),
        ("INSERT INTO ins.db.t VALUES (3000000000, 1)", QueryFailed, "out of range"),
        ("INSERT INTO ins.db.t VALUES ('x', 1)", QueryFailed, "x"),
        ("INSERT INTO ins.db.t PARTITION (a = 1) VALUES (1)", InvalidStatement, "'a' is not one"),
        ("INSERT INTO ins.db.u VALUES (1)", NoSuchTable, "ins.db.u"),
        ("INSERT INTO ins.db.t.snapshots VALUES (1)", NoSuchTable, "snapshots"),
        ("INSERT INTO ins.db.t SELECT * FROM ins.db.nothing", NoSuchTable, "nothing"),
        ("INSERT INTO ins.db.t SELEC 1", InvalidStatement, "Did you mean 'SELECT'"),
        ("INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT 1", UnsupportedFeature, "DIRECTORY"),
    ],
)
def test_a_statement_that_fails_changes_nothing(lake: Path, text: str, error: type[Exception], message: str) -> None:
    table = made("a INT NOT NULL, b INT")
    with pytest.raises(error, match=message):
        lakescan.sql(text)
    assert table.refresh().version is None


def test_values_are_cast_to_the_column_types(lake: Path) -> None:
    made("a INT, b DECIMAL(5, 1), c STRING, d TIMESTAMP, e DOUBLE, f DATE, g BOOLEAN")
    lakescan.sql(
        "INSERT INTO ins.db.t VALUES (1.9D, 12.345, 7, DATE'2026-01-01', '2.5', TIMESTAMP'2026-01-02 03:00:00', 'true')"
    )
    [(a, b, c, d, *others)] = rows()
    assert (a, b, c, d.date(), *others) == (1, Decimal("12.3"), "7", D1, 2.5, D2, True)


@pytest.mark.parametrize("name", FORMATS)
def test_overwrites_replace_all_rows_a_partition_or_those_of_a_condition(lake: Path, name: str) -> None:
    table = f"ins.db.{name}"
    lakescan.sql(f"INSERT INTO {table} VALUES (1, 'a', DATE'2026-01-01'), (2, 'b', DATE'2026-01-02'), (3, 'c', NULL)")
    lakescan.sql(f"INSERT OVERWRITE {table} PARTITION (day = DATE'2026-01-01') SELECT 4, 'd'")
    assert rows(name) == [(2, "b", D2), (3, "c", None), (4, "d", D1)]
    lakescan.sql(f"INSERT OVERWRITE TABLE {table} PARTITION (day = NULL) (name, id) VALUES ('e', 5)")
    assert rows(name) == [(2, "b", D2), (4, "d", D1), (5, "e", None)]
    lakescan.sql(f"INSERT INTO {table} REPLACE WHERE day = :day SELECT 6, 'f', :day", args={"day": D2})
    assert rows(name) == [(4, "d", D1), (5, "e", None), (6, "f", D2)]
    with pytest.raises(SchemaMismatch, match="do not match replaceWhere"):
        lakescan.sql(f"INSERT INTO {table} REPLACE WHERE id = 4 SELECT 7, 'g', NULL")
    lakescan.sql(f"INSERT INTO {table} BY NAME REPLACE WHERE id > 4 AND id < 6 SELECT 5 AS id")
    assert rows(name) == [(4, "d", D1), (5, None, None), (6, "f", D2)]
    lakescan.sql(f"INSERT OVERWRITE {table} SELECT id, name, day FROM {table} WHERE id = 6")
    assert rows(name) == [(6, "f", D2)]
    lakescan.sql(f"TRUNCATE TABLE {table}")
    assert rows(name) == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_partition_is_truncated(lake: Path, name: str) -> None:
    lakescan.sql(f"INSERT INTO ins.db.{name} VALUES (1, 'a', DATE'2026-01-01'), (2, 'b', DATE'2026-01-02')")
    result = lakescan.sql(f"TRUNCATE TABLE ins.db.{name} PARTITION (day = '2026-01-01')")
    assert result.deleted == 1
    assert rows(name) == [(2, "b", D2)]


def test_a_query_reads_the_table_that_it_fills_in_one_state(lake: Path) -> None:
    made("a INT")
    lakescan.sql("INSERT INTO ins.db.t VALUES 1, 2")
    for _ in range(2):
        lakescan.sql("INSERT INTO ins.db.t SELECT a + 10 FROM ins.db.t WHERE a IN (SELECT max(a) FROM ins.db.t)")
    assert rows() == [(1,), (2,), (12,), (22,)]


@pytest.mark.parametrize("name", FORMATS)
def test_an_overwrite_from_the_same_table_loses_no_concurrent_rows(
    lake: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = f"ins.db.{name}"
    lakescan.sql(f"INSERT INTO {table} (id) VALUES (1)")
    write = inserting.Insertion.write

    def late(self: Any, *args: Any, **more: Any) -> Any:
        monkeypatch.undo()
        lakescan.sql(f"INSERT INTO {table} (id) VALUES (2)")
        return write(self, *args, **more)

    monkeypatch.setattr(inserting.Insertion, "write", late)
    with pytest.raises(CommitConflict):
        lakescan.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table}")
    assert [row[0] for row in rows(name)] == [1, 2]


def test_default_stands_for_a_column_s_default(lake: Path) -> None:
    columns = "id INT, n INT DEFAULT 7, text STRING DEFAULT 'it''s', day DATE DEFAULT DATE'2026-01-01'"
    made(columns, more="TBLPROPERTIES ('format-version' = '3')")
    check_defaults("ins.db.t", "it's")


def test_default_uses_the_default_of_a_delta_column(lake: Path) -> None:
    rules = {"n": "3 + 4", "text": "concat('it', 's')", "day": "DATE'2026-01-01'"}
    table_with_rules(
        lake / "d",
        {"id": "integer", "n": "integer", "text": "string", "day": "date"},
        {name: {"CURRENT_DEFAULT": text} for name, text in rules.items()},
    )
    check_defaults(f"delta.`{lake / 'd'}`", "its")


def check_defaults(table: str, text: str) -> None:
    lakescan.sql(f"INSERT INTO {table} VALUES (1, DEFAULT, default, DEFAULT), (2, 8, DEFAULT, NULL)")
    lakescan.sql(f"INSERT INTO {table} (id, n) VALUES (3, DEFAULT)")
    lakescan.sql(f"INSERT INTO {table} (text, id) SELECT DEFAULT, 4")
    lakescan.sql(f"INSERT INTO {table} BY NAME SELECT 5 AS id, 'default' AS text")
    found = lakescan.sql(f"SELECT * FROM {table} ORDER BY id").to_arrow().to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (1, 7, text, D1),
        (2, 8, text, None),
        (3, 7, text, D1),
        (4, 7, text, D1),
        (5, 7, "default", D1),
    ]
    with pytest.raises(InvalidStatement, match="not BY NAME"):
        lakescan.sql(f"INSERT INTO {table} BY NAME SELECT DEFAULT, 4")


def test_default_applies_only_to_the_rows_that_contain_it(lake: Path) -> None:
    made("id INT, n INT DEFAULT 7", more="TBLPROPERTIES ('format-version' = '3')")
    lakescan.sql("INSERT INTO ins.db.t SELECT id, default FROM frame", frame=pa.table({"id": [1], "default": [6]}))
    assert rows() == [(1, 6)]
    columns = (t.Field(1, "id", t.INT), t.Field(2, "n", t.INT, write_default=7))
    for text, expected, left_out in (
        ("VALUES (1, DEFAULT), (2, default)", "VALUES (1, NULL), (2, NULL)", {1}),
        ("VALUES (1, DEFAULT) UNION ALL SELECT 2, 3", "VALUES (1, 7) UNION ALL SELECT 2, 3", set()),
        ("SELECT 1, DEFAULT UNION ALL VALUES (4, 5)", "SELECT 1, 7 UNION ALL VALUES (4, 5)", set()),
        ("SELECT DISTINCT 1, DEFAULT WHERE true", "SELECT DISTINCT 1, NULL WHERE true", {1}),
        ("VALUES (1, `default`), (2, 'DEFAULT')", "VALUES (1, `default`), (2, 'DEFAULT')", set()),
        ("SELECT id, DEFAULT FROM s", "SELECT id, DEFAULT FROM s", set()),
    ):
        assert with_defaults(text, columns, ColumnRules()) == (expected, left_out)


def test_nulls_without_a_type_are_stored(lake: Path) -> None:
    lakescan.sql("INSERT INTO ins.db.delta SELECT 1, NULL, NULL")
    assert rows("delta") == [(1, None, None)]


def test_default_of_a_column_without_one_is_null(lake: Path) -> None:
    made("a INT NOT NULL, b INT")
    lakescan.sql("INSERT INTO ins.db.t VALUES (1, DEFAULT), (2, 3)")
    assert rows() == [(1, None), (2, 3)]
    with pytest.raises(SchemaMismatch, match="'a' is required"):
        lakescan.sql("INSERT INTO ins.db.t VALUES (DEFAULT, 1)")


def test_parameters_keep_their_order(lake: Path) -> None:
    table = made("id INT, name STRING, n INT", more="PARTITIONED BY (n)")
    lakescan.sql("INSERT INTO ins.db.t VALUES (?, 'a?', ?), (?, ?, ?)", args=[1, 2, 3, "c", 4])
    assert rows() == [(1, "a?", 2), (3, "c", 4)]
    lakescan.sql("INSERT INTO ins.db.t REPLACE WHERE n = ? SELECT ?, ?, 4", args=[4, 5, "d"])
    lakescan.sql(
        "INSERT OVERWRITE IDENTIFIER(:t) PARTITION (n = :n) SELECT :id, ':n'", args={"t": "ins.db.t", "n": 2, "id": 6}
    )
    assert rows() == [(5, "d", 4), (6, ":n", 2)]
    assert table.refresh().count() == 2


def test_tables_are_named_as_in_queries(lake: Path) -> None:
    lakescan.sql("INSERT INTO ins.db.delta (id) VALUES (1)")
    location = lakescan.table("ins.db.delta").location
    lakescan.sql(f"INSERT INTO delta.`{location}` (id) VALUES (2)")
    lakescan.sql("USE ins.db")
    lakescan.sql("INSERT INTO delta (id) SELECT 3")
    given = lakescan.table("ins.db.delta")
    lakescan.sql("INSERT INTO mine (id) SELECT * FROM frame", mine=given, frame=pa.table({"x": [4]}))
    assert given.count() == 4
    assert [row[0] for row in rows("delta")] == [1, 2, 3, 4]
    for statement in (f"INSERT INTO delta.`{location}@v1` (id) VALUES (2)", f"DELETE FROM delta.`{location}@v1`"):
        with pytest.raises(InvalidStatement, match="one version or partition of a table"):
            lakescan.sql(statement)
    with pytest.raises(InvalidStatement, match="cannot be changed"):
        lakescan.sql("INSERT INTO frame SELECT 1", frame=pa.table({"x": [4]}))


def test_branches_are_written(lake: Path) -> None:
    table = made("a INT")
    lakescan.sql("INSERT INTO ins.db.t VALUES (1)")
    with pytest.raises(NoSuchSnapshot, match="audit"):
        lakescan.sql("INSERT INTO ins.db.t.branch_audit VALUES (3)")
    table.refresh().append(pa.table({"a": pa.array([2], pa.int32())}), branch="audit")
    lakescan.sql("INSERT INTO ins.db.t.branch_audit VALUES (3)")
    assert rows() == [(1,)]
    assert rows("t.branch_audit") == [(1,), (2,), (3,)]
    lakescan.sql("INSERT OVERWRITE ins.db.t.branch_audit SELECT a + 1 FROM ins.db.t.branch_audit WHERE a > 1")
    assert rows("t.branch_audit") == [(3,), (4,)]
    assert rows() == [(1,)]


@pytest.mark.parametrize("name", FORMATS)
def test_schema_evolution_adds_columns(lake: Path, name: str) -> None:
    made("a INT", name)
    lakescan.sql("INSERT WITH SCHEMA EVOLUTION INTO ins.db.t SELECT 1, 'x' AS b")
    lakescan.sql("INSERT WITH SCHEMA EVOLUTION INTO ins.db.t BY NAME SELECT 2 AS c, 3 AS A")
    assert rows() == [(1, "x", None), (3, None, 2)]


@pytest.mark.parametrize("form", ["{0}", "ARRAY<{0}>", "MAP<STRING, {0}>", "STRUCT<inner: {0}>"])
def test_struct_members_in_another_order_require_by_name(lake: Path, form: str) -> None:
    """By position, Iceberg on Spark stores 1 in the first member, whatever its name is."""
    value = "named_struct('b', 1, 'a', 2)"
    inside = {"A": f"array({value})", "M": f"map('k', {value})", "S": f"named_struct('inner', {value})"}
    given = inside.get(form[0], value)
    made(f"id INT, s {form.format('STRUCT<a: INT, b: INT>')}")
    for text in (f"SELECT 1, {given} AS s", f"VALUES (1, {given})"):
        with pytest.raises(SchemaMismatch, match="has the members a, b, and its value b, a"):
            lakescan.sql(f"INSERT INTO ins.db.t {text}")
    with pytest.raises(SchemaMismatch, match="BY NAME"):
        lakescan.sql(f"INSERT INTO ins.db.t (id, s) SELECT 1, {given}")
    assert rows() == []
    lakescan.sql(f"INSERT INTO ins.db.t BY NAME SELECT {given} AS s, 1 AS id")
    assert "{'a': 2, 'b': 1}" in str(rows())


def test_struct_members_in_column_order_are_stored_by_position(lake: Path) -> None:
    made("id INT, s STRUCT<a: INT, b: STRING>, l ARRAY<BIGINT>")
    lakescan.sql("INSERT INTO ins.db.t SELECT 1, named_struct('A', 1, 'b', 'x'), array(1, 2)")
    assert rows() == [(1, {"a": 1, "b": "x"}, [1, 2])]


def test_delta_s_generated_and_identity_columns_are_left_out_or_default(lake: Path) -> None:
    table = table_with_rules(
        lake / "d",
        {"id": "long", "a": "integer", "twice": "integer"},
        {"id": identity(allowExplicitInsert=True), "twice": {"delta.generationExpression": "a * 2"}},
    )
    name = f"delta.`{lake / 'd'}`"
    lakescan.sql(f"INSERT INTO {name} (a) VALUES (1), (2)")
    lakescan.sql(f"INSERT INTO {name} VALUES (DEFAULT, 3, DEFAULT)")
    found = table.refresh().to_arrow().sort_by("a").to_pylist()
    assert [(row["a"], row["twice"]) for row in found] == [(1, 2), (2, 4), (3, 6)]
    assert len({row["id"] for row in found} - {None}) == 3
    with pytest.raises(UnsupportedFeature, match="DEFAULT for the computed column 'id'"):
        lakescan.sql(f"INSERT INTO {name} VALUES (DEFAULT, 3, 6), (9, 4, 8)")


ALL_DEFAULT = {
    "VALUES (DEFAULT, DEFAULT)": 1,
    "VALUES (DEFAULT, DEFAULT), (default, DEFAULT)": 2,
    "(id) VALUES (DEFAULT), (DEFAULT)": 2,
    "(text) SELECT DEFAULT": 1,
    "SELECT DEFAULT, DEFAULT WHERE 1 = 0": 0,
    "SELECT DEFAULT, DEFAULT LIMIT 1": 1,
}


@pytest.mark.parametrize("into", ["INTO", "OVERWRITE"])
@pytest.mark.parametrize("rows", ALL_DEFAULT)
@pytest.mark.parametrize("name", FORMATS)
def test_rows_of_only_defaults_are_written(lake: Path, name: str, rows: str, into: str) -> None:
    more = "TBLPROPERTIES ('format-version' = '3')" if name == "iceberg" else ""
    made("id INT DEFAULT 5, text STRING DEFAULT 'x'", name, more)
    result = lakescan.sql(f"INSERT {into} ins.db.t {rows}")
    assert result.rows == ALL_DEFAULT[rows]
    found = lakescan.table("ins.db.t").to_arrow().select(["id", "text"]).to_pylist()
    assert found == [{"id": 5, "text": "x"}] * ALL_DEFAULT[rows]


def test_rows_whose_values_are_all_computed_are_refused(tmp_path: Path) -> None:
    lake = lakescan.catalog("computed", warehouse=str(tmp_path / "computed"))
    lake.create_namespace("db")
    lakescan.sql("CREATE TABLE computed.db.t (id BIGINT GENERATED ALWAYS AS IDENTITY) USING delta")
    with pytest.raises(UnsupportedFeature, match="values are all computed: id"):
        lakescan.sql("INSERT INTO computed.db.t VALUES (DEFAULT)")
