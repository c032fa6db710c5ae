"""Queries over catalog views, in process."""

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
    """Orders of two countries, one file each, and customers (Delta)."""
    found = lakescan.catalog("lake", warehouse=tmp_path / "lake")
    for name in ("shop", "other"):
        found.create_namespace(name)
    orders = found.create_table("shop.orders", "id BIGINT, country STRING, price DOUBLE", partition_by=["country"])
    for country in ("FR", "DE"):
        orders.append(pa.table({"id": [1, 2, 3], "country": [country] * 3, "price": [0.5, 1.5, 2.5]}))
    found.create_table("shop.customers", "id BIGINT, name STRING", format="delta").append(
        pa.table({"id": [1, 2], "name": ["Ann", "Bob"]})
    )
    token = _CURRENT.set(())
    yield found
    _CURRENT.reset(token)


def rows(text: str, **frames: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lakescan.sql(text, **frames).to_arrow().to_pylist())


def files_read(text: str) -> int:
    return sum(spec.plan().report.metrics.result_data_files for spec in lakescan.sql(text)._found.scans.values())


def test_views_are_joined_aliased_and_qualified(lake: lakescan.Catalog) -> None:
    lake.create_view("shop.dear", "SELECT id, country FROM orders WHERE price > 2")
    text = "SELECT d.country, c.name FROM lake.shop.dear d JOIN lake.shop.customers c ON d.id = c.id + 1"
    assert rows(text) == [("DE", "Bob"), ("FR", "Bob")]
    assert rows("SELECT lake.shop.dear.id FROM lake.shop.dear WHERE shop.dear.country = 'FR'") == [(3,)]
    assert rows("WITH dear AS (SELECT 7 AS id) SELECT a.id AS x, b.id AS y FROM dear a, lake.shop.dear b") == [
        (7, 3),
        (7, 3),
    ]


def test_conditions_on_a_view_skip_files_of_its_tables(lake: lakescan.Catalog) -> None:
    lake.create_view("shop.named", "SELECT id, country FROM orders", columns=["no", "land"])
    lake.create_view("shop.whole", "SELECT * FROM orders", columns=["a", "b", "c"])
    lake.create_view("shop.nested", "SELECT * FROM named")
    for text in (
        "SELECT no FROM lake.shop.named WHERE land = 'FR'",
        "SELECT a FROM lake.shop.whole WHERE b = 'FR'",
        "SELECT no FROM lake.shop.nested WHERE land = 'FR'",
    ):
        assert files_read(text) == 1
        assert rows(text) == [(1,), (2,), (3,)]
    query = lakescan.sql("SELECT no FROM lake.shop.named")
    [spec] = query._found.scans.values()
    assert spec.output.names == ["id", "country"]


def test_nested_views_resolve_names_in_their_own_namespaces(lake: lakescan.Catalog) -> None:
    lake.create_view("shop.ids", "SELECT id AS n FROM orders")
    lakescan.sql("CREATE VIEW lake.other.most AS SELECT max(n) AS n FROM lake.shop.ids")
    lakescan.sql("USE lake.other")
    assert rows("SELECT n FROM most") == rows("SELECT n FROM other.most") == [(3,)]


def test_views_that_read_each_other_are_refused(lake: lakescan.Catalog) -> None:
    lake.create_view("shop.a", "SELECT 1 AS n")
    lake.create_view("shop.b", "SELECT n FROM a")
    with pytest.raises(lakescan.InvalidStatement, match=r"lake\.shop\.a -> lake\.shop\.b -> lake\.shop\.a"):
        lake.create_view("shop.a", "SELECT n FROM b", replace=True)
    lake.create_view("shop.c", "SELECT n FROM b")
    lake.drop_view("shop.a")
    lake.rename_view("shop.c", "shop.a")  # which reads b, which reads a
    with pytest.raises(lakescan.InvalidStatement, match="read each other"):
        lakescan.sql("SELECT * FROM lake.shop.b")


def test_a_view_keeps_its_columns_when_its_tables_get_new_ones(lake: lakescan.Catalog) -> None:
    lake.create_view("shop.all_orders", "SELECT * FROM orders")
    lake.load_table("shop.orders").alter().add_column("note", "STRING", first=True).commit()
    names = lakescan.sql("SELECT * FROM lake.shop.all_orders").schema.names
    assert names == ["id", "country", "price"]
    lake.load_table("shop.orders").alter().drop_column("price").commit()
    with pytest.raises(lakescan.LakescanError, match="price"):
        rows("SELECT * FROM lake.shop.all_orders")


def test_unnamed_columns_have_the_names_of_the_view(lake: lakescan.Catalog) -> None:
    lake.create_view("shop.counts", "SELECT country, count(*) FROM orders GROUP BY country", columns=["land", "n"])
    assert rows("SELECT land, n FROM lake.shop.counts WHERE n > 2") == [("DE", 3), ("FR", 3)]
    lake.create_view("shop.auto", "SELECT country, count(*) FROM orders GROUP BY country")
    assert rows("SELECT `count(1)` FROM lake.shop.auto") == [(3,), (3,)]


def test_view_queries_keep_their_own_clauses(lake: lakescan.Catalog) -> None:
    lake.create_view(
        "shop.top", "WITH t AS (SELECT * FROM orders) SELECT id, country FROM t ORDER BY price DESC LIMIT 2"
    )
    assert [row[0] for row in rows("SELECT id FROM lake.shop.top")] == [3, 3]
    lake.create_view("shop.both", "SELECT id FROM orders UNION ALL SELECT id FROM customers -- all of them")
    assert rows("SELECT count(*) FROM lake.shop.both WHERE id = 1") == [(3,)]
    lake.create_view("shop.listed", "VALUES (1, 'a'), (2, 'b')", columns=["n", "t"])
    assert rows("SELECT t FROM lake.shop.listed WHERE n = 2") == [("b",)]
    lake.create_view("shop.plain", "VALUES (1, 'a'), (2, 'b');")
    assert rows("SELECT col2 FROM lake.shop.plain WHERE col1 = 2") == [("b",)]
    lake.create_view("shop.renamed", "SELECT id FROM customers", columns=["ID"])
    assert lakescan.sql("SELECT * FROM lake.shop.renamed").schema.names == ["ID"]
    lake.create_view("shop.unnested", "SELECT posexplode(array(7, 8))")
    assert rows("SELECT pos, col FROM lake.shop.unnested") == [(0, 7), (1, 8)]
    lake.create_view("shop.within", "SELECT id FROM customers WHERE id IN (SELECT id FROM orders WHERE price > 1)")
    assert rows("SELECT * FROM lake.shop.within") == [(2,)]


def test_views_can_read_earlier_states_but_have_none_themselves(lake: lakescan.Catalog) -> None:
    lake.create_view("shop.before", "SELECT count(*) AS n FROM customers VERSION AS OF 1")
    lake.load_table("shop.customers").append(pa.table({"id": [3], "name": ["Cid"]}))
    assert rows("SELECT n FROM lake.shop.before") == [(2,)]
    lake.create_view("shop.states", "SELECT version FROM lake.shop.customers.history")
    assert rows("SELECT max(version) FROM lake.shop.states") == [(2,)]
    with pytest.raises(lakescan.InvalidStatement, match="time travel is only for tables"):
        lakescan.sql("SELECT * FROM lake.shop.before VERSION AS OF 1")
    with pytest.raises(lakescan.InvalidStatement, match="table_changes is only for tables"):
        lakescan.sql("SELECT * FROM table_changes('lake.shop.before', 1)")
    with pytest.raises(lakescan.InvalidStatement, match="has no 'history'"):
        lakescan.sql("SELECT * FROM lake.shop.before.history")


def test_a_table_is_read_in_one_state_under_its_name_and_in_a_view(lake: lakescan.Catalog) -> None:
    lake.create_view("shop.v", "SELECT id FROM orders")
    query = lakescan.sql("SELECT (SELECT count(*) FROM lake.shop.v), (SELECT count(*) FROM lake.shop.orders)")
    lake.load_table("shop.orders").append(pa.table({"id": [9], "country": ["FR"], "price": [1.0]}))
    assert query.to_arrow().to_pylist() == [dict(zip(query.schema.names, (6, 6), strict=True))]


def test_a_view_of_a_missing_table_is_an_error(lake: lakescan.Catalog) -> None:
    lake.create_view("shop.v", "SELECT id FROM orders")
    lake.rename_table("shop.orders", "shop.old_orders")
    with pytest.raises(lakescan.NoSuchTable, match=r"the view lake\.shop\.v reads lake\.shop\.orders"):
        lakescan.sql("SELECT * FROM lake.shop.v")


def test_views_are_sources_of_statements_that_change_rows(lake: lakescan.Catalog) -> None:
    lake.create_view("shop.changes", "SELECT id, upper(name) AS name FROM customers WHERE id = 2")
    lakescan.sql(
        "MERGE INTO lake.shop.customers t USING lake.shop.changes s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name"
    )
    lakescan.sql("INSERT INTO lake.shop.customers SELECT id + 10, name FROM lake.shop.changes")
    lakescan.sql("DELETE FROM lake.shop.customers WHERE id IN (SELECT id - 1 FROM lake.shop.changes)")
    assert rows("SELECT * FROM lake.shop.customers") == [(2, "BOB"), (12, "BOB")]


def test_queries_over_views_take_parameters(lake: lakescan.Catalog) -> None:
    lake.create_view("shop.v", "SELECT id, country FROM orders")
    found = lakescan.sql("SELECT id FROM lake.shop.v WHERE country = ? AND id > ?", ["FR", 1]).to_arrow()
    assert sorted(found["id"].to_pylist()) == [2, 3]


def test_an_unregistered_catalog_of_a_view_is_named(lake: lakescan.Catalog) -> None:
    view = lake.create_view("shop.v", "SELECT id FROM orders")
    for path in (Path(view.location.removeprefix("file://")) / "metadata").iterdir():
        path.write_text(
            path.read_text().replace('"default-namespace"', '"default-catalog": "prod", "default-namespace"')
        )
    with pytest.raises(lakescan.NoSuchCatalog, match="no catalog is registered as 'prod'"):
        lakescan.sql("SELECT * FROM lake.shop.v")
