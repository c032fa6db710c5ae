"""Views of REST and SQL catalogs: created by lakescan and the JVM in turn, and read by both."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakescan


@pytest.fixture(scope="module")
def orders(rest: lakescan.Catalog) -> lakescan.Catalog:
    rest.create_namespace("shop")
    rest.create_table("shop.orders", "id BIGINT, country STRING").append(
        pa.table({"id": [1, 2, 3], "country": ["FR", "DE", "FR"]})
    )
    return rest


def here(text: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lakescan.sql(text).to_arrow().to_pylist())


def java(jvm: Any, text: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in jvm.sql(text).collect())


def test_a_view_of_lakescan_is_read_replaced_and_dropped_by_the_jvm(orders: lakescan.Catalog, jvm: Any) -> None:
    orders.create_view("shop.french", "SELECT id FROM orders WHERE country = 'FR'", comment="of France", columns=["no"])
    assert java(jvm, "SELECT * FROM rest.shop.french") == [(1,), (3,)]
    described = {row[0]: row[1] for row in jvm.sql("DESCRIBE TABLE EXTENDED rest.shop.french").collect()}
    assert described["no"] == "bigint"
    assert described["Comment"] == "of France"
    assert described["View Query Output Columns"] == "[id]"
    jvm.sql(
        "CREATE OR REPLACE VIEW rest.shop.french AS SELECT id + 10 AS no FROM rest.shop.orders WHERE country = 'FR'"
    )
    assert here("SELECT * FROM rest.shop.french") == [(11,), (13,)]
    assert len(orders.load_view("shop.french").versions) == 2
    jvm.sql("DROP VIEW rest.shop.french")
    assert not orders.view_exists("shop.french")


def test_a_view_of_the_jvm_is_read_replaced_renamed_and_dropped_by_lakescan(orders: lakescan.Catalog, jvm: Any) -> None:
    jvm.sql("USE rest.shop")
    try:
        jvm.sql(
            "CREATE VIEW german (n COMMENT 'its number') TBLPROPERTIES ('k'='v') AS SELECT id FROM orders WHERE country = 'DE'"
        )
    finally:
        jvm.sql("USE spark_catalog.default")
    assert orders.list_views("shop") == ["shop.german"]
    view = orders.load_view("shop.german")
    assert (view.query, view.default_namespace) == ("SELECT id FROM orders WHERE country = 'DE'", ("rest", "shop"))
    assert here("SELECT n FROM rest.shop.german") == [(2,)]
    lakescan.sql(
        "CREATE OR REPLACE VIEW rest.shop.german AS SELECT id AS n, 'DE' AS code FROM rest.shop.orders WHERE country = 'DE'"
    )
    assert java(jvm, "SELECT * FROM rest.shop.german") == [(2, "DE")]
    lakescan.sql("ALTER VIEW rest.shop.german SET TBLPROPERTIES ('team' = 'sales')")
    lakescan.sql("ALTER VIEW rest.shop.german UNSET TBLPROPERTIES ('k')")
    found = {row[0]: row[1] for row in jvm.sql("SHOW TBLPROPERTIES rest.shop.german").collect()}
    assert found["team"] == "sales"
    assert "k" not in found
    lakescan.sql("ALTER VIEW rest.shop.german RENAME TO deutsch")
    assert java(jvm, "SELECT n FROM rest.shop.deutsch") == [(2,)]
    before = orders.load_view("shop.deutsch").versions
    lakescan.sql(
        "CREATE OR REPLACE VIEW rest.shop.deutsch AS SELECT id AS n, 'DE' AS code FROM rest.shop.orders WHERE country = 'DE'"
    )
    assert orders.load_view("shop.deutsch").versions == before  # repeating it makes no new version
    lakescan.sql("DROP VIEW rest.shop.deutsch")
    with pytest.raises(lakescan.NoSuchTable):
        orders.load_view("shop.deutsch")


def test_a_name_belongs_to_a_table_or_a_view(orders: lakescan.Catalog, jvm: Any) -> None:
    lakescan.sql("CREATE VIEW rest.shop.taken AS SELECT 1 AS one")
    with pytest.raises(lakescan.TableExists, match="is a view"):
        orders.create_table("shop.taken", "id INT")
    with pytest.raises(lakescan.TableExists, match="already exists"):
        orders.create_view("shop.taken", "SELECT 2 AS two")
    with pytest.raises(lakescan.TableExists, match="is a table"):
        orders.create_view("shop.orders", "SELECT 2 AS two")
    with pytest.raises(lakescan.NoSuchNamespace):
        orders.create_view("nope.v", "SELECT 2 AS two")
    with pytest.raises(lakescan.IsAView):
        lakescan.table("rest.shop.taken")
    orders.drop_view("shop.taken")


def test_views_of_the_server_and_of_sql_catalogs_are_the_same(
    orders: lakescan.Catalog, jvm: Any, rest_folder: Any
) -> None:
    """The server stores views in the database of pyiceberg's SQL catalog: each reads the other's."""
    behind = lakescan.catalog(
        "rest_backend", type="sql", uri=f"sqlite:///{rest_folder}/rest.db", warehouse=f"{rest_folder}/warehouse"
    )
    jvm.sql("CREATE VIEW rest.shop.theirs AS SELECT id AS n FROM rest.shop.orders")
    assert behind.load_view("shop.theirs").query == "SELECT id AS n FROM rest.shop.orders"
    assert here("SELECT * FROM rest_backend.shop.theirs") == [(1,), (2,), (3,)]
    behind.create_view("shop.ours", "SELECT count(*) AS n FROM rest.shop.orders")
    assert java(jvm, "SELECT * FROM rest.shop.ours") == [(3,)]
    behind.create_view("shop.ours", "SELECT max(id) AS n FROM rest.shop.orders", replace=True)
    jvm.sql("CREATE OR REPLACE VIEW rest.shop.ours AS SELECT min(id) AS n FROM rest.shop.orders")
    assert here("SELECT * FROM rest_backend.shop.ours") == [(1,)]
    assert len(behind.load_view("shop.ours").versions) == 3
    behind.drop_view("shop.ours")
    behind.drop_view("shop.theirs")
    assert orders.list_views("shop") == []
