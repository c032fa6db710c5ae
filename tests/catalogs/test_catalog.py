"""Catalogs: namespaces and tables by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakescan

COLUMNS = "id BIGINT NOT NULL, at TIMESTAMP, name STRING"


def test_a_folder_is_enough_for_a_catalog(tmp_path: Path) -> None:
    catalog = lakescan.catalog("local", warehouse=tmp_path / "lake")
    catalog.create_namespace("db")
    catalog.create_namespace("db", exist_ok=True)
    assert catalog.list_namespaces() == ["db"]
    with pytest.raises(lakescan.TableExists, match=r"namespace 'db' already exists .*: exist_ok=True"):
        catalog.create_namespace("db")
    catalog.drop_namespace("db")
    assert catalog.list_namespaces() == []
    with pytest.raises(lakescan.NoSuchNamespace):
        catalog.drop_namespace("db")
    catalog.drop_namespace("db", missing_ok=True)


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_tables_are_made_opened_renamed_and_dropped_by_name(local: lakescan.Catalog, format: str) -> None:
    made = local.create_table("db.events", COLUMNS, format=format)
    assert repr(made) == f"Table({format} 'local.db.events')"
    assert made.schema.names == ["id", "at", "name"]
    assert made.scan().to_arrow().num_rows == 0
    assert local.list_tables("db") == ["db.events"]
    assert lakescan.table("local.db.events").format == format
    assert local.rename_table("db.events", "db.old").format == format
    assert local.list_tables("db") == ["db.old"]
    with pytest.raises(lakescan.TableExists, match="has tables"):
        local.drop_namespace("db")
    local.drop_table("db.old")
    assert local.list_tables("db") == []
    with pytest.raises(lakescan.NoSuchTable):
        local.load_table("db.old")
    with pytest.raises(lakescan.NoSuchTable):
        local.drop_table("db.old")
    local.drop_table("db.old", missing_ok=True)


@pytest.mark.parametrize("leave", ["DROP TABLE local.db.t", "ALTER TABLE local.db.t RENAME TO u"])
@pytest.mark.parametrize(
    "create",
    [
        "CREATE TABLE local.db.t (id INT) USING delta",
        "CREATE TABLE IF NOT EXISTS local.db.t (id INT) USING delta",
        "CREATE OR REPLACE TABLE local.db.t (id INT) USING delta",
        "CREATE TABLE local.db.t USING delta AS SELECT CAST(7 AS INT) AS id",
        "CREATE OR REPLACE TABLE local.db.t USING delta AS SELECT CAST(7 AS INT) AS id",
        "CREATE TABLE local.db.t SHALLOW CLONE local.db.other",
        "save",
    ],
)
def test_a_name_is_free_after_drop_and_rename_although_the_files_stay(local: lakescan.Catalog, leave, create) -> None:
    for name, row in (("t", 1), ("other", 2)):
        local.create_table(f"db.{name}", "id INT", format="delta").append(pa.table({"id": pa.array([row], pa.int32())}))
    folder = local.load_table("db.t").folder
    lakescan.sql(leave)
    if create == "save":
        lakescan.save(pa.table({"id": pa.array([7], pa.int32())}), "local.db.t", format="delta")
    else:
        lakescan.sql(create)
    found = local.load_table("db.t")
    expected = [2] if "CLONE" in create else [7] if "AS SELECT" in create or create == "save" else []
    assert (found.format, found.to_arrow()["id"].to_pylist()) == ("delta", expected)
    assert found.folder.startswith(f"{folder}-")
    assert lakescan.table(folder).to_arrow()["id"].to_pylist() == [1]


def test_an_unknown_name_is_refused_with_the_nearest(local: lakescan.Catalog) -> None:
    local.create_table("db.events", COLUMNS)
    with pytest.raises(lakescan.NoSuchTable, match=r"no table 'db\.event'\. Did you mean 'events'"):
        lakescan.table("local.db.event")
    with pytest.raises(lakescan.NoSuchTable):
        lakescan.table("local.nothing.events")
    with pytest.raises(lakescan.NoSuchNamespace):
        local.create_table("nothing.events", COLUMNS)
    with pytest.raises(lakescan.NoSuchCatalog, match=r"no catalog 'locale' is known\. Did you mean 'local'"):
        lakescan.catalog("locale")
    with pytest.raises(lakescan.NotATable, match="no catalog 'prod' is known: see lakescan"):
        lakescan.table("prod.db.events")


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_an_existing_table_is_not_created_again_by_default(local: lakescan.Catalog, format: str) -> None:
    local.create_table("db.t", COLUMNS, format=format)
    with pytest.raises(lakescan.TableExists, match=r"local\.db\.t already exists"):
        local.create_table("db.t", "other INT", format=format)
    assert local.create_table("db.t", "other INT", format=format, exist_ok=True).schema.names == ["id", "at", "name"]
    replaced = local.create_table("db.t", "id STRING, other INT", format=format, replace=True)
    assert replaced.schema.names == ["id", "other"]
    assert replaced.schema.field("id").type == pa.string()
    assert replaced.scan().to_arrow().num_rows == 0


def test_a_concurrently_created_table_raises_its_own_error(local, monkeypatch) -> None:
    local.create_table("db.t", COLUMNS)
    monkeypatch.setattr(lakescan.Catalog, "table_exists", lambda self, name: False)
    with pytest.raises(lakescan.CreatedConcurrently, match="another writer created"):
        local.create_table("db.t", COLUMNS)


def test_rows_written_through_the_catalog_are_read_by_name(local: lakescan.Catalog) -> None:
    local.create_table("db.t", COLUMNS)
    opened = lakescan.table("local.db.t")
    rows = pa.table({"id": [1, 2], "at": pa.nulls(2, pa.timestamp("us", "UTC")), "name": ["a", "b"]})
    rows = rows.cast(pa.schema([pa.field("id", pa.int64(), nullable=False), *list(rows.schema)[1:]]))
    local._catalog.load_table("db.t").append(rows)
    assert opened.scan().to_arrow().num_rows == 0
    assert lakescan.table("local.db.t").scan().to_arrow()["id"].to_pylist() == [1, 2]
    assert lakescan.table("local.db.t").inspect("snapshots").num_rows == 1
    assert [b["id"].to_pylist() for b in opened.stream(wait=False)] == [[1, 2]]


def test_the_catalog_decides_which_metadata_is_current(local: lakescan.Catalog) -> None:
    """A writer's metadata file that was not committed is ignored."""
    table = local.create_table("db.t", COLUMNS)
    folder = Path(table.scan().to_options()["path"].removeprefix("file://")).parent
    (folder / "00009-0000.metadata.json").write_text("{}")
    assert lakescan.table("local.db.t").scan().to_arrow().num_rows == 0


def test_existing_tables_can_be_registered(local: lakescan.Catalog, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "d", pa.table({"id": [1]}))
    assert local.register_table("db.d", tmp_path / "d").scan().to_arrow()["id"].to_pylist() == [1]
    made = local.create_table("db.t", COLUMNS)
    location = made.scan().to_options()["path"]
    local.drop_table("db.t")
    assert local.register_table("db.again", location).schema.names == ["id", "at", "name"]
    with pytest.raises(lakescan.TableExists):
        local.register_table("db.d", location)
    with pytest.raises(lakescan.NotATable):
        local.register_table("db.x", tmp_path / "nothing")


def test_a_table_is_opened_by_its_own_identifier(local: lakescan.Catalog) -> None:
    for name in ("db.t", "db.`a.b`"):
        made = local.create_table(name, COLUMNS)
        lakescan.save(pa.table({"id": [1]}), made.name, mode="append")
        assert lakescan.table(made.name).scan().count() == 1


def test_names_with_dots_are_quoted(local: lakescan.Catalog) -> None:
    local.create_table("db.`a.b`", COLUMNS)
    assert str(lakescan.table("local.db.`a.b`").name) == "local.db.`a.b`"


def test_catalogs_of_pyicebergs_configuration_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg import catalog as theirs
    from pyiceberg.utils.config import Config

    monkeypatch.setenv("PYICEBERG_CATALOG__CONFIGURED__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__CONFIGURED__URI", f"sqlite:///{tmp_path}/c.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__CONFIGURED__WAREHOUSE", f"file://{tmp_path}")
    monkeypatch.setattr(theirs, "_ENV_CONFIG", Config())
    catalog = lakescan.catalog("configured")
    catalog.create_namespace("db")
    catalog.create_table("db.t", COLUMNS)
    assert lakescan.table("configured.db.t").schema.names == ["id", "at", "name"]


def test_messages_and_plans_contain_no_secrets(tmp_path: Path) -> None:
    catalog = lakescan.catalog(
        {"name": "kept", "warehouse": str(tmp_path / "lake"), "s3.secret-access-key": "SECRET", "s3.region": "x"}
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", COLUMNS)
    scan = table.scan()
    told = [repr(catalog), repr(table), repr(scan), str(scan.explain()), repr(scan.spec.storage), repr(scan.plan())]
    with pytest.raises(lakescan.NoSuchTable) as error:
        catalog.load_table("db.nothing")
    assert scan.spec.storage.has_secrets
    assert not [text for text in [*told, str(error.value), str(scan.to_options())] if "SECRET" in text]


def test_delta_tables_of_a_catalog_are_plain_delta_tables(local: lakescan.Catalog) -> None:
    table = local.create_table("db.d", COLUMNS, format="delta", partition_by=["name"], comment="events")
    assert DeltaTable(table.location).metadata().description == "events"
    assert table.partitioning == "name"
    with pytest.raises(lakescan.UnsupportedFeature, match="primary key of a Delta table"):
        local.create_table("db.e", COLUMNS, format="delta", primary_key=["id"])
    with pytest.raises(lakescan.UnsupportedFeature, match="partitioning a Delta table by"):
        local.create_table("db.e", COLUMNS, format="delta", partition_by=["days(at)"])
    assert not local.table_exists("db.e")
