"""Views in SQL: CREATE, ALTER, DROP, SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.statements.select.namespace import _CURRENT


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[lakescan.Catalog]:
    found = lakescan.catalog("lake", warehouse=tmp_path / "lake")
    found.create_namespace("shop")
    found.create_namespace("other")
    found.create_table("shop.orders", "id BIGINT, price DOUBLE").append(
        pa.table({"id": [1, 2, 3], "price": [0.5, 1.5, 2.5]})
    )
    token = _CURRENT.set(())
    yield found
    _CURRENT.reset(token)


def rows(text: str, **frames: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in lakescan.sql(text, **frames).to_arrow().to_pylist()]


def test_a_view_has_names_comments_and_properties(lake: lakescan.Catalog) -> None:
    made = lakescan.sql(
        "CREATE VIEW lake.shop.dear (no COMMENT 'its number', price) COMMENT 'it''s dear' TBLPROPERTIES ('k' = 'v') "
        "AS SELECT id, price FROM lake.shop.orders WHERE price > 1"
    )
    assert isinstance(made, lakescan.View)
    assert (made.schema.names, made.comment, made.properties["k"]) == (["no", "price"], "it's dear", "v")
    assert sorted(rows("SELECT no FROM lake.shop.dear")) == [(2,), (3,)]
    assert rows("DESCRIBE TABLE lake.shop.dear") == [("no", "bigint", "its number"), ("price", "double", "")]
    assert rows("SHOW VIEWS IN lake.shop") == [("shop", "dear", False)]
    assert rows("SHOW TABLES IN lake.shop") == [("shop", "orders", False)]
    assert ("k", "v") in rows("SHOW TBLPROPERTIES lake.shop.dear")
    assert rows("SHOW COLUMNS IN lake.shop.dear") == [("no",), ("price",)]
    details = {name: value for name, value, _ in rows("DESCRIBE TABLE EXTENDED lake.shop.dear")}
    assert details["View Catalog and Namespace"] == "lake.shop"
    assert details["View Query Output Columns"] == "[id, price]"


def test_show_create_of_a_view_recreates_it(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE VIEW lake.shop.v (`a b` COMMENT 'it''s') COMMENT 'c' AS SELECT id FROM lake.shop.orders")
    [(text,)] = rows("SHOW CREATE TABLE lake.shop.v")
    before = lake.load_view("shop.v")
    lake.drop_view("shop.v")
    lakescan.sql(text)
    after = lake.load_view("shop.v")
    assert (after.query, after.schema, after.comment) == (before.query, before.schema, before.comment)


def test_short_names_in_a_view_resolve_in_the_namespace_of_its_creation(lake: lakescan.Catalog) -> None:
    lakescan.sql("USE lake.shop")
    lakescan.sql("CREATE VIEW lake.other.v AS SELECT count(*) AS n FROM orders")
    lakescan.sql("USE lake.other")
    assert rows("SELECT n FROM v") == [(3,)]
    assert lake.load_view("other.v").default_namespace == ("lake", "shop")


def test_without_use_short_names_resolve_in_the_namespace_of_the_view(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE VIEW lake.shop.v AS SELECT count(*) AS n FROM orders")
    assert rows("SELECT n FROM lake.shop.v") == [(3,)]


def test_a_view_is_made_once_replaced_and_dropped(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE VIEW lake.shop.v AS SELECT 1 AS n")
    with pytest.raises(lakescan.TableExists, match="OR REPLACE"):
        lakescan.sql("CREATE VIEW lake.shop.v AS SELECT 2 AS n")
    lakescan.sql("CREATE VIEW IF NOT EXISTS lake.shop.v AS SELECT 2 AS n")
    assert rows("SELECT * FROM lake.shop.v") == [(1,)]
    lakescan.sql("CREATE OR REPLACE VIEW lake.shop.v AS SELECT 3 AS n")
    assert rows("SELECT * FROM lake.shop.v") == [(3,)]
    lakescan.sql("DROP VIEW lake.shop.v")
    lakescan.sql("DROP VIEW IF EXISTS lake.shop.v")
    with pytest.raises(lakescan.NoSuchTable, match="no view"):
        lakescan.sql("DROP VIEW lake.shop.v")


def test_a_view_is_altered(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE VIEW lake.shop.v COMMENT 'first' AS SELECT 1 AS n")
    lakescan.sql("ALTER VIEW lake.shop.v SET TBLPROPERTIES ('a' = '1', 'b' = '2')")
    lakescan.sql("ALTER VIEW lake.shop.v UNSET TBLPROPERTIES ('a')")
    lakescan.sql("ALTER VIEW lake.shop.v AS SELECT 'two' AS m")
    found = lakescan.sql("ALTER VIEW lake.shop.v RENAME TO w")
    assert str(found.name) == "lake.shop.w"
    assert (found.comment, found.properties.get("a"), found.properties["b"]) == ("first", None, "2")
    assert rows("SELECT m FROM lake.shop.w") == [("two",)]
    with pytest.raises(lakescan.NoSuchTable):
        lakescan.sql("ALTER VIEW lake.shop.v AS SELECT 1 AS n")  # ALTER does not create a view


def test_statements_about_tables_refuse_views(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE VIEW lake.shop.v AS SELECT id, price FROM lake.shop.orders")
    for statement in (
        "INSERT INTO lake.shop.v VALUES (1, 1.0)",
        "DELETE FROM lake.shop.v WHERE id = 1",
        "UPDATE lake.shop.v SET price = 0",
        "MERGE INTO lake.shop.v t USING lake.shop.orders s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE lake.shop.v",
        "ALTER TABLE lake.shop.v ADD COLUMN n INT",
        "ALTER TABLE lake.shop.v RENAME TO w",
        "DROP TABLE lake.shop.v",
    ):
        with pytest.raises(lakescan.IsAView, match=r"lake\.shop\.v is a view"):
            lakescan.sql(statement)
    for statement in ("DESCRIBE HISTORY lake.shop.v", "SHOW PARTITIONS lake.shop.v", "DESCRIBE TABLE lake.shop.v id"):
        with pytest.raises(lakescan.InvalidStatement, match="is a view: the statement takes a table"):
            lakescan.sql(statement)
    for statement in (
        "CREATE TABLE lake.shop.v (id INT)",
        "CREATE TABLE IF NOT EXISTS lake.shop.v (id INT)",
        "CREATE OR REPLACE TABLE lake.shop.v AS SELECT 1 AS id",
        "CREATE TABLE lake.shop.v USING delta AS SELECT 1 AS id",
    ):
        with pytest.raises(lakescan.TableExists, match="is a view"):
            lakescan.sql(statement)
    assert rows("SELECT count(*) FROM lake.shop.v") == [(3,)]


def test_statements_about_views_refuse_tables(lake: lakescan.Catalog) -> None:
    for statement in ("DROP VIEW lake.shop.orders", "ALTER VIEW lake.shop.orders RENAME TO v"):
        with pytest.raises(lakescan.NoSuchTable, match="is a table, not a view"):
            lakescan.sql(statement)
    with pytest.raises(lakescan.TableExists, match="is a table"):
        lakescan.sql("CREATE OR REPLACE VIEW lake.shop.orders AS SELECT 1 AS n")
    with pytest.raises(lakescan.InvalidStatement, match="path"):
        lakescan.sql("CREATE VIEW delta.`/lake/v` AS SELECT 1 AS n")


def test_a_view_cannot_read_objects_of_a_session(lake: lakescan.Catalog) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="'frame', which exists only in this session"):
        lakescan.sql("CREATE VIEW lake.shop.v AS SELECT * FROM frame", frame=pa.table({"n": [1]}))


def test_a_namespace_is_dropped_with_its_views(lake: lakescan.Catalog) -> None:
    lakescan.sql("CREATE VIEW lake.other.v AS SELECT 1 AS n")
    with pytest.raises(lakescan.TableExists, match=r"other\.v"):
        lakescan.sql("DROP NAMESPACE lake.other")
    lakescan.sql("DROP NAMESPACE lake.other CASCADE")
    assert lake.list_namespaces() == ["shop"]
