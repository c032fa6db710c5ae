"""Views of catalogs in Python: created, inspected, changed and dropped."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest
import sqlalchemy

import lakescan


@pytest.fixture
def lake(local: lakescan.Catalog) -> lakescan.Catalog:
    local.create_table("db.orders", "id BIGINT, country STRING").append(
        pa.table({"id": [1, 2, 3], "country": ["FR", "DE", "FR"]})
    )
    return local


def files(view: lakescan.View) -> list[Path]:
    return sorted((Path(view.location.removeprefix("file://")) / "metadata").iterdir())


def ids(text: str) -> list[object]:
    return sorted(lakescan.sql(text).to_arrow()[0].to_pylist())


def test_a_view_has_the_rows_of_its_query(lake: lakescan.Catalog) -> None:
    view = lake.create_view("db.french", "SELECT id FROM orders WHERE country = 'FR'", comment="of France")
    assert ids("SELECT * FROM local.db.french") == [1, 3]
    lake.load_table("db.orders").append(pa.table({"id": [4], "country": ["FR"]}))
    assert ids("SELECT * FROM local.db.french") == [1, 3, 4]
    assert str(view.name) == "local.db.french"
    assert view.comment == "of France"
    assert view.query == "SELECT id FROM orders WHERE country = 'FR'"
    assert view.default_namespace == ("local", "db")
    assert (view.schema.names, view.schema.types) == (["id"], [pa.int64()])


def test_views_are_listed_apart_from_tables(lake: lakescan.Catalog) -> None:
    lake.create_view("db.one", "SELECT 1 AS n")
    assert lake.list_views("db") == ["db.one"]
    assert lake.list_tables("db") == ["db.orders"]
    assert lake.view_exists("db.one")
    assert not lake.view_exists("db.orders")
    assert not lake.table_exists("db.one")
    with pytest.raises(lakescan.NoSuchNamespace, match="nope"):
        lake.list_views("nope")


def test_a_view_is_replaced_and_keeps_its_versions_and_properties(lake: lakescan.Catalog) -> None:
    first = lake.create_view("db.v", "SELECT 1 AS n", properties={"owner": "sales", "version.history.num-entries": "2"})
    for number in (2, 3):
        lake.create_view("db.v", f"SELECT {number} AS n", replace=True)
    found = lake.load_view("db.v")
    assert (found.uuid, found.properties["owner"]) == (first.uuid, "sales")
    assert [each.queries["spark"] for each in found.versions] == ["SELECT 2 AS n", "SELECT 3 AS n"]
    assert found.version == 3
    assert ids("SELECT * FROM local.db.v") == [3]
    again = lake.create_view("db.v", "SELECT 2 AS n", replace=True)  # the same as the version before, so no new version
    assert (again.version, len(again.versions)) == (2, 2)


def test_a_view_that_exists_is_kept_or_refused(lake: lakescan.Catalog) -> None:
    lake.create_view("db.v", "SELECT 1 AS n")
    with pytest.raises(lakescan.TableExists, match="replace=True"):
        lake.create_view("db.v", "SELECT 2 AS n")
    assert lake.create_view("db.v", "SELECT 2 AS n", if_not_exists=True).query == "SELECT 1 AS n"
    with pytest.raises(lakescan.InvalidOption, match="one of them"):
        lake.create_view("db.v", "SELECT 2 AS n", if_not_exists=True, replace=True)


def test_a_name_belongs_to_a_table_or_a_view(lake: lakescan.Catalog) -> None:
    lake.create_view("db.v", "SELECT 1 AS n")
    lake.create_table("db.delta", "id INT", format="delta")
    for name in ("db.orders", "db.delta"):
        with pytest.raises(lakescan.TableExists, match="is a table"):
            lake.create_view(name, "SELECT 1 AS n", replace=True)
        with pytest.raises(lakescan.TableExists, match="is a table"):
            lake.rename_view("db.v", name)
    for format in ("iceberg", "delta"):
        with pytest.raises(lakescan.TableExists, match="is a view"):
            lake.create_table("db.v", "id INT", format=format, replace=True)
        with pytest.raises(lakescan.IsAView):
            lakescan.save(pa.table({"id": [1]}), "local.db.v", format=format, mode="overwrite")
    with pytest.raises(lakescan.TableExists, match="is a view"):
        lake.register_table("db.v", lake.load_table("db.orders").location)
    with pytest.raises(lakescan.TableExists, match="is a view"):
        lake.rename_table("db.orders", "db.v")
    with pytest.raises(lakescan.IsAView, match="change the rows of its tables"):
        lake.load_table("db.v")
    with pytest.raises(lakescan.NoSuchTable, match="is a table, not a view"):
        lake.load_view("db.orders")


def test_a_view_can_be_renamed_into_another_namespace(lake: lakescan.Catalog) -> None:
    lake.create_namespace("other")
    lake.create_view("db.v", "SELECT id FROM orders")
    assert str(lake.rename_view("db.v", "other.w").name) == "local.other.w"
    assert ids("SELECT * FROM local.other.w") == [1, 2, 3]  # its short names still resolve in db
    assert lake.list_views("db") == []
    with pytest.raises(lakescan.NoSuchTable):
        lake.rename_view("db.v", "db.x")
    with pytest.raises(lakescan.NoSuchNamespace):
        lake.rename_view("other.w", "nope.w")


def test_a_view_is_dropped_and_its_tables_stay(lake: lakescan.Catalog) -> None:
    lake.create_view("db.v", "SELECT id FROM orders")
    with pytest.raises(lakescan.TableExists, match=r"has the view db\.v"):
        lake.drop_namespace("db")
    lake.drop_view("db.v")
    assert lake.table_exists("db.orders")
    lake.drop_view("db.v", missing_ok=True)
    with pytest.raises(lakescan.NoSuchTable, match="has no view"):
        lake.drop_view("db.v")
    with pytest.raises(lakescan.NoSuchTable, match="is a table"):
        lake.drop_view("db.orders")


def test_an_unknown_view_is_refused_with_the_nearest(lake: lakescan.Catalog) -> None:
    lake.create_view("db.french", "SELECT 1 AS n")
    with pytest.raises(lakescan.NoSuchTable, match="Did you mean 'french'"):
        lake.load_view("db.frensh")


def test_properties_are_set_and_removed(lake: lakescan.Catalog) -> None:
    lake.create_view("db.v", "SELECT 1 AS n", properties={"a": "1"})
    found = lake.update_view("db.v", {"b": "2", "comment": "new"}, removed=["a", "never"])
    assert (found.properties.get("a"), found.properties["b"], found.comment) == (None, "2", "new")
    assert len(found.versions) == 1
    with pytest.raises(lakescan.InvalidOption, match="num-entries"):
        lake.update_view("db.v", {"version.history.num-entries": "none"})


def test_queries_are_checked_before_they_are_stored(lake: lakescan.Catalog) -> None:
    for query, error, message in (
        ("SELECT * FROM nope", lakescan.NoSuchTable, "nope"),
        ("SELECT nope FROM orders", lakescan.LakescanError, "nope"),
        ("DELETE FROM orders", lakescan.InvalidStatement, "is not a query"),
        ("SELECT :n AS n", lakescan.InvalidStatement, "parameters"),
        ("SELECT ? AS n", lakescan.InvalidStatement, "parameters"),
        ("SELECT NULL AS n", lakescan.UnsupportedFeature, "no type"),
        ("SELECT 1 AS n, 2 AS N", lakescan.InvalidStatement, "two columns"),
        ("SELECT * FROM v", lakescan.NoSuchTable, "v"),
    ):
        with pytest.raises(error, match=message):
            lake.create_view("db.v", query)
    with pytest.raises(lakescan.InvalidStatement, match="names 2 columns"):
        lake.create_view("db.v", "SELECT id FROM orders", columns=["a", "b"])
    assert lake.list_views("db") == []


def test_view_metadata_files_follow_the_specification(lake: lakescan.Catalog) -> None:
    view = lake.create_view("db.v", "SELECT id, country FROM orders", columns=["a", "b"])
    lake.create_view("db.v", "SELECT 1 AS n", replace=True, properties={"location": "ignored when it is there"})
    first, second = files(view)
    assert (first.name[:6], second.name[:6]) == ("00000-", "00001-")
    node = json.loads(first.read_text())
    assert (node["format-version"], node["current-version-id"]) == (1, 1)
    [version] = node["versions"]
    assert version["default-namespace"] == ["db"]
    assert "default-catalog" not in version  # the namespace that has the view
    assert version["representations"] == [{"type": "sql", "sql": "SELECT id, country FROM orders", "dialect": "spark"}]
    [schema] = node["schemas"]
    assert [(each["name"], each["type"]) for each in schema["fields"]] == [("a", "long"), ("b", "string")]
    assert node["properties"]["spark.query-column-names"] == "id,country"
    assert [each["version-id"] for each in json.loads(second.read_text())["version-log"]] == [1, 2]


def test_views_of_other_dialects_are_not_lost_or_misread(lake: lakescan.Catalog) -> None:
    view = lake.create_view("db.v", "SELECT id FROM orders")
    [path] = files(view)
    node = json.loads(path.read_text())
    node["versions"][0]["representations"][0]["dialect"] = "trino"
    path.write_text(json.dumps(node))
    with pytest.raises(lakescan.UnsupportedFeature, match="with queries only in trino"):
        lakescan.sql("SELECT * FROM local.db.v")
    with pytest.raises(lakescan.UnsupportedFeature, match=r"replace\.drop-dialect\.allowed"):
        lake.create_view("db.v", "SELECT 1 AS n", replace=True)
    allowed = {"replace.drop-dialect.allowed": "true"}
    assert lake.create_view("db.v", "SELECT 1 AS n", replace=True, properties=allowed).query == "SELECT 1 AS n"


def test_a_table_that_has_the_name_of_a_dropped_view_is_opened_by_its_folder(lake: lakescan.Catalog) -> None:
    view = lake.create_view("db.v", "SELECT 1 AS n")
    lake.drop_view("db.v")
    table = lake.create_table("db.v", "id INT")
    assert lakescan.table(table.folder).schema.names == ["id"]
    with pytest.raises(lakescan.NotATable, match="metadata of a view"):
        lakescan.table(view.location)


def test_a_damaged_view_is_reported_as_damaged(lake: lakescan.Catalog) -> None:
    view = lake.create_view("db.v", "SELECT id FROM orders")
    [path] = files(view)
    whole = json.loads(path.read_text())
    for change in ({"current-version-id": 7}, {"versions": []}, {"schemas": []}, {"view-uuid": None}):
        path.write_text(json.dumps({**whole, **change}))
        with pytest.raises(lakescan.CorruptMetadata):
            lake.load_view("db.v")
    path.write_text(json.dumps({**whole, "format-version": 2}))
    with pytest.raises(lakescan.UnsupportedFeature, match="view format version 2"):
        lake.load_view("db.v")


def test_concurrent_replacements_of_a_view_lose_no_version(lake: lakescan.Catalog) -> None:
    lake.create_view("db.v", "SELECT 0 AS n", properties={"version.history.num-entries": "100"})
    failures: list[Exception] = []

    def write(number: int) -> None:
        try:
            lake.create_view("db.v", f"SELECT {number} AS n", replace=True)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    kept = [each.queries["spark"] for each in lake.load_view("db.v").versions]
    assert sorted(kept) == [f"SELECT {number} AS n" for number in range(5)]


def test_a_catalog_whose_database_has_no_entry_types_has_no_views(lake: lakescan.Catalog, tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/lake/catalog.db")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type"))
    old = lakescan.catalog(
        "local", warehouse=tmp_path / "lake", uri=f"sqlite:///{tmp_path}/lake/catalog.db", type="sql"
    )
    assert ids("SELECT id FROM local.db.orders") == [1, 2, 3]
    assert old.list_views("db") == []
    with pytest.raises(lakescan.UnsupportedFeature, match="schema_version='v1'"):
        old.create_view("db.v", "SELECT 1 AS n")
