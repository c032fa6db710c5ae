"""Namespaces with a dot in one part: SQL catalogs store the parts as one text and would read the part as two levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakescan

STATEMENTS = [
    "CREATE NAMESPACE local.`a.b`",
    "CREATE NAMESPACE IF NOT EXISTS local.x.`a.b`",
    "DROP NAMESPACE local.`a.b` CASCADE",
    "DESCRIBE NAMESPACE local.`a.b`",
    "ALTER NAMESPACE local.`a.b` SET PROPERTIES ('k' = 'v')",
    "SHOW TABLES IN local.`a.b`",
    "SHOW NAMESPACES IN local.`a.b`",
    "USE local.`a.b`",
    "CREATE TABLE local.`a.b`.new (id INT)",
    "CREATE TABLE local.`a.b`.new USING delta AS SELECT 1 AS id",
    "CREATE VIEW local.`a.b`.v AS SELECT 1 AS id",
    "ALTER TABLE local.db.t RENAME TO local.`a.b`.t",
    "SELECT * FROM local.`a.b`.t",
    "INSERT INTO local.`a.b`.t VALUES (1)",
    "DROP TABLE local.`a.b`.t",
]
CALLS: list[Callable[[lakescan.Catalog], Any]] = [
    lambda local: local.create_namespace("`a.b`"),
    lambda local: local.drop_namespace("`a.b`"),
    lambda local: local.list_tables("`a.b`"),
    lambda local: local.create_table("`a.b`.new", "id INT"),
    lambda local: local.load_table("`a.b`.t"),
    lambda local: lakescan.save(pa.table({"id": [1]}), "local.`a.b`.new"),
]


@pytest.fixture
def lake(local: lakescan.Catalog) -> lakescan.Catalog:
    """Make a catalog with the two-level namespace that such a dot would be read as."""
    local.create_namespace("a")
    local.create_namespace("a.b")
    local.create_table("a.b.t", "id INT")
    local.create_table("db.t", "id INT")
    return local


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_refuse_namespaces_with_dots(lake: lakescan.Catalog, statement: str) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match=r"the dot in `a\.b`.*Use a name without a dot"):
        lakescan.sql(statement)
    assert (lake.list_tables("a.b"), lake.list_tables("db"), lake.list_namespaces()) == (
        ["a.b.t"],
        ["db.t"],
        ["a", "db"],
    )


@pytest.mark.parametrize("call", CALLS)
def test_calls_refuse_namespaces_with_dots(lake: lakescan.Catalog, call: Callable[[lakescan.Catalog], Any]) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match=r"the dot in `a\.b`"):
        call(lake)
    assert (lake.list_tables("a.b"), lake.list_namespaces("a")) == (["a.b.t"], ["a.b"])


def test_names_of_tables_may_have_dots(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE TABLE local.a.b.`x.y` (id INT)")
    assert lake.list_tables("a.b") == ["a.b.`x.y`", "a.b.t"]


def test_tables_whose_names_have_dots_have_metadata_tables_and_branches(lake: lakescan.Catalog) -> None:
    lake.create_table("db.`t.x`", "id INT").append(pa.table({"id": pa.array([1], pa.int32())}))
    lake.load_table("db.`t.x`").create_branch("audit")
    assert lakescan.sql("SELECT * FROM local.db.`t.x`.history").to_arrow().num_rows == 1
    assert lakescan.sql("SELECT id FROM local.db.`t.x`.branch_audit").to_arrow().num_rows == 1
