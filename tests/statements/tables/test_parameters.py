"""Parameters of statements about tables stand for literals and, in IDENTIFIER, for names; never for keywords."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import lakescan
from lakescan.errors import InvalidStatement
from lakescan.statements.select.analysis import with_collections

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
HOSTILE = 'it\'s \\ "x" `y` :z ? ; DROP TABLE local.db.t; -- /*'


def now() -> list[dict[str, Any]]:
    return lakescan.table("local.db.t").to_arrow().to_pylist()


@pytest.fixture
def table(local: lakescan.Catalog) -> lakescan.Table:
    columns = "id BIGINT, s STRING, d DATE, ts TIMESTAMP, m DECIMAL(10, 2), l ARRAY<INT>, p MAP<STRING, INT>"
    return local.create_table("db.t", columns)


def test_texts_in_definitions_are_used_unchanged(local: lakescan.Catalog) -> None:
    lakescan.sql(
        "CREATE TABLE IDENTIFIER(:t) (id BIGINT COMMENT :c) COMMENT :c TBLPROPERTIES ('a' = :c, :k = :n, 'b' = :b)",
        {"t": "local.db.new", "c": HOSTILE, "k": "k'", "n": 7, "b": True},
    )
    table = local.load_table("db.new")
    assert table.comment == HOSTILE
    assert {name: table.properties[name] for name in ("a", "k'", "b")} == {"a": HOSTILE, "k'": "7", "b": "true"}
    lakescan.sql("COMMENT ON TABLE local.db.new IS ?", [None])
    lakescan.sql("ALTER TABLE local.db.new SET TBLPROPERTIES ('a' = ?)", ["it's"])
    assert (local.load_table("db.new").comment, local.load_table("db.new").properties["a"]) == (None, "it's")


def test_names_can_be_parameters_only_in_identifier(local: lakescan.Catalog, table: lakescan.Table) -> None:
    lakescan.sql("ALTER TABLE IDENTIFIER(:t) ADD COLUMN IDENTIFIER(:c) INT", {"t": "local.db.t", "c": "new"})
    lakescan.sql("CREATE NAMESPACE IDENTIFIER(:n) COMMENT :c", {"n": "local.other", "c": HOSTILE})
    assert lakescan.sql("SHOW TABLES IN IDENTIFIER(?) LIKE ?", ["local.db", "t*"]).to_arrow()[
        "tableName"
    ].to_pylist() == ["t"]
    assert "new" in local.load_table("db.t").schema.names
    for text in (
        "DROP TABLE :t",
        "ALTER TABLE local.db.t ADD COLUMN :t INT",
        "ALTER TABLE local.db.t CREATE BRANCH :t",
    ):
        with pytest.raises(InvalidStatement, match="expected the name"):
            lakescan.sql(text, {"t": "t"})
    for name in (HOSTILE, "local.db.t; DROP TABLE local.db.t", "", 5, None):
        with pytest.raises(InvalidStatement, match="is not a constant name"):
            lakescan.sql("DROP TABLE IDENTIFIER(:t)", {"t": name})
    assert local.list_tables("db") == ["db.t"]


def test_states_can_be_parameters(table: lakescan.Table) -> None:
    for number in (1, 2):
        lakescan.sql("INSERT INTO local.db.t (id) VALUES (?)", [number])
    table.refresh()
    first = table.history()["snapshot_id"][0].as_py()
    lakescan.sql(
        "ALTER TABLE local.db.t CREATE BRANCH b AS OF VERSION :v RETAIN :n DAYS WITH SNAPSHOT RETENTION :k SNAPSHOTS",
        {"v": first, "n": 3, "k": 2},
    )
    found = lakescan.table("local.db.t").branches["b"]
    assert (found.snapshot_id, found.max_ref_age, found.min_snapshots_to_keep) == (first, timedelta(days=3), 2)
    count = "SELECT count(*) AS n FROM local.db.t "
    for text, value, expected in (
        ("VERSION AS OF :v", first, 1),
        ("VERSION AS OF :v", "b", 1),
        ("TIMESTAMP AS OF :v", datetime.now(UTC), 2),
        ("TIMESTAMP AS OF :v", date.today() + timedelta(days=2), 2),
    ):
        assert lakescan.sql(count + text, {"v": value}).to_arrow()["n"].to_pylist() == [expected]
    for text, value in (("VERSION AS OF :v", 1.5), ("TIMESTAMP AS OF :v", 7), ("VERSION AS OF :v", None)):
        with pytest.raises(InvalidStatement, match="the parameter :v is"):
            lakescan.sql(count + text, {"v": value})


VALUES: dict[str, Any] = {
    "id": 1,
    "s": HOSTILE,
    "d": date(2026, 1, 31),
    "ts": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "m": Decimal("1.50"),
    "l": [1, None, 3],
    "p": {"k'": 1, ":l": None},
}


@pytest.mark.parametrize("by_place", [False, True], ids=["names", "places"])
def test_values_of_every_type_are_written_and_found(table: lakescan.Table, by_place: bool) -> None:
    marks = ", ".join("?" if by_place else f":{name}" for name in VALUES)
    lakescan.sql(f"INSERT INTO local.db.t VALUES ({marks})", list(VALUES.values()) if by_place else VALUES)
    [row] = now()
    assert {**row, "p": dict(row["p"])} == VALUES
    assert (
        lakescan.sql("SELECT * FROM local.db.t WHERE s = :s AND m = :m AND ts = :ts", VALUES).to_arrow().num_rows == 1
    )
    lakescan.sql("UPDATE local.db.t SET l = :l, s = :s WHERE s = :old", {"l": [9], "s": None, "old": HOSTILE})
    assert [(row["l"], row["s"]) for row in now()] == [([9], None)]


def test_values_that_are_invalid_literals_are_refused(table: lakescan.Table) -> None:
    for text, value, message in (
        ("COMMENT ON TABLE local.db.t IS :v", 5, "expected the comment.*:v is 5"),
        ("ALTER TABLE local.db.t SET TBLPROPERTIES ('a' = :v)", None, ":v is None"),
        ("ALTER TABLE local.db.t CREATE BRANCH b RETAIN :v DAYS", "3 DAYS; x", ":v is '3 DAYS; x'"),
        ("ALTER TABLE local.db.t CREATE BRANCH b RETAIN :v DAYS", True, ":v is True"),
        ("ALTER TABLE local.db.t CREATE BRANCH b RETAIN :v DAYS", -1, "the parameter is -1"),
    ):
        with pytest.raises(InvalidStatement, match=message):
            lakescan.sql(text, {"v": value})
    with pytest.raises(InvalidStatement, match="the parameter :v has no value in args"):
        lakescan.sql("COMMENT ON TABLE local.db.t IS :v", {"w": 1})
    with pytest.raises(InvalidStatement, match="takes no parameters"):
        lakescan.sql("CREATE VIEW local.db.v AS SELECT * FROM local.db.t WHERE id = :v", {"v": 1})


def test_use_takes_a_name_by_identifier(local: lakescan.Catalog, table: lakescan.Table) -> None:
    for text, args in (
        ("USE IDENTIFIER(:n)", {"n": "local.db"}),
        ("USE NAMESPACE IDENTIFIER(:c || 'b')", {"c": "d"}),
        ("USE IDENTIFIER(?)", ["local.db"]),
    ):
        lakescan.sql("USE local")
        lakescan.sql(text, args)
        assert lakescan.sql("SELECT count(*) AS n FROM t").to_arrow()["n"].to_pylist() == [0]
    with pytest.raises(InvalidStatement, match=r"expected catalog\.namespace"):
        lakescan.sql("USE :n", {"n": "local.db"})
    with pytest.raises(InvalidStatement, match="is not a constant name"):
        lakescan.sql("USE IDENTIFIER(:n)", {"m": "local.db"})


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_defaults_can_be_parameters(local: lakescan.Catalog, format: str) -> None:
    version = "TBLPROPERTIES ('format-version' = '3')" if format == "iceberg" else ""
    lakescan.sql(
        f"CREATE TABLE local.db.new (id INT, n INT DEFAULT :n, s STRING DEFAULT :s) USING {format} {version}",
        {"n": -5, "s": HOSTILE},
    )
    lakescan.sql("INSERT INTO local.db.new (id) VALUES (1)")
    lakescan.sql("ALTER TABLE local.db.new ALTER COLUMN n SET DEFAULT ?", [7])
    lakescan.sql("INSERT INTO local.db.new (id) VALUES (2)")
    found = lakescan.sql("SELECT * FROM local.db.new ORDER BY id").to_arrow().to_pylist()
    assert found == [{"id": 1, "n": -5, "s": HOSTILE}, {"id": 2, "n": 7, "s": HOSTILE}]
    with pytest.raises(InvalidStatement, match="the parameter :n has no value in args"):
        lakescan.sql("ALTER TABLE local.db.new ALTER COLUMN n SET DEFAULT :n")


def test_transform_arguments_can_be_parameters(local: lakescan.Catalog) -> None:
    lakescan.sql("CREATE TABLE local.db.new (id INT, s STRING) PARTITIONED BY (bucket(:n, id))", {"n": 4})
    lakescan.sql("ALTER TABLE local.db.new ADD PARTITION FIELD truncate(?, s)", [3])
    lakescan.sql("ALTER TABLE local.db.new WRITE ORDERED BY bucket(:n, id) DESC", {"n": 8})
    table = local.load_table("db.new")
    assert (table.partitioning, table.sort_order) == ("bucket(4, id), truncate(3, s)", "bucket(8, id) desc nulls last")
    for value in ("4", HOSTILE, -1, 1.5, None):
        with pytest.raises(InvalidStatement, match="is not a partition transform"):
            lakescan.sql("ALTER TABLE local.db.new ADD PARTITION FIELD bucket(:n, id)", {"n": value})


def test_conditions_have_parameters(local: lakescan.Catalog) -> None:
    lakescan.sql("CREATE TABLE local.db.new (id INT, CONSTRAINT c CHECK (id > :n)) USING delta", {"n": 3})
    lakescan.sql("ALTER TABLE local.db.new ADD CONSTRAINT d CHECK (id < :n)", {"n": 9})
    lakescan.sql("INSERT INTO local.db.new VALUES (5)")
    for value in (3, 9):
        with pytest.raises(lakescan.SchemaMismatch, match="constraint"):
            lakescan.sql("INSERT INTO local.db.new VALUES (?)", [value])


def test_files_to_rewrite_are_chosen_by_parameters(local: lakescan.Catalog) -> None:
    lakescan.sql("CREATE TABLE local.db.new (id INT, part STRING) USING delta PARTITIONED BY (part)")
    for number in range(2):
        lakescan.sql("INSERT INTO local.db.new VALUES (?, :p), (?, 'b')".replace(":p", "?"), [number, HOSTILE, number])
    [done] = lakescan.sql("OPTIMIZE local.db.new WHERE part = :p", {"p": HOSTILE}).to_arrow().to_pylist()
    assert (done["metrics"]["numFilesRemoved"], done["metrics"]["numFilesAdded"]) == (2, 1)
    lakescan.sql("REORG TABLE local.db.new WHERE part = ? APPLY (PURGE)", ["b"])
    with pytest.raises(InvalidStatement, match="the parameter :p has no value in args"):
        lakescan.sql("OPTIMIZE local.db.new WHERE part = :p")


def test_collections_become_parameters_of_their_elements() -> None:
    text = "SELECT :a, ':a', x:a, `:a`, -- :a\n :m, struct(:a)"
    found = with_collections(text, {"a": [1, [2]], "m": {"k": "v"}, "a_0": 9})
    whole = "array(:a_0_, array(:a_1_0))"
    assert found == (
        f"SELECT {whole}, ':a', x:a, `:a`, -- :a\n map(:m_k0, :m_v0), struct({whole})",
        {"a_0": 9, "a_0_": 1, "a_1_0": 2, "m_k0": "k", "m_v0": "v"},
    )
