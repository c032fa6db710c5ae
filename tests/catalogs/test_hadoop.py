"""Catalogs of type hadoop: namespaces and tables are folders of a warehouse."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.catalogs.hadoop import HadoopCatalog
from lakescan.storage import Storage
from tests.support.s3 import KEY, REGION, SECRET, s3_server

LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(warehouse: Path, no_other_catalogs: None) -> lakescan.Catalog:
    found = lakescan.catalog("lake", type="hadoop", warehouse=warehouse)
    found.create_namespace("db")
    return found


def rows(*ids: int, part: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "part": [part] * len(ids)})


def ids(table: lakescan.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def test_namespaces_are_folders(lake: lakescan.Catalog, warehouse: Path) -> None:
    lake.create_namespace("db.inner")
    (warehouse / "other").mkdir()
    assert (lake.list_namespaces(), lake.list_namespaces("db")) == (["db", "other"], ["db.inner"])
    assert lake.namespace_properties("db") == {"location": str(warehouse / "db")}
    with pytest.raises(lakescan.TableExists, match="already exists"):
        lake.create_namespace("db")
    lake.create_namespace("db", exist_ok=True)
    lake.drop_namespace("db.inner")
    assert not (warehouse / "db/inner").exists()
    with pytest.raises(lakescan.NoSuchNamespace):
        lake.drop_namespace("db.inner")


def test_a_namespace_with_tables_is_not_dropped(lake: lakescan.Catalog) -> None:
    lake.create_table("db.t", "id BIGINT")
    with pytest.raises(lakescan.TableExists, match="has tables"):
        lake.drop_namespace("db")


def test_a_namespace_with_a_concurrently_created_table_is_not_dropped(
    lake: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = Storage.entries

    def then_a_table(self: Storage, folder: str) -> object:
        found = entries(self, folder)
        monkeypatch.setattr(Storage, "entries", entries)
        lake.create_table("db.t", "id BIGINT, part STRING").append(rows(1))
        return found

    monkeypatch.setattr(Storage, "entries", then_a_table)
    with pytest.raises(lakescan.TableExists, match="has tables"):
        lake.drop_namespace("db")
    assert ids(lake.load_table("db.t")) == [1]


def test_namespaces_have_no_properties(lake: lakescan.Catalog) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="without properties such as 'owner'"):
        lake.create_namespace("new", properties={"owner": "us"})
    with pytest.raises(lakescan.UnsupportedFeature, match="has only folders"):
        lake.update_namespace("db", {"owner": "us"})


@pytest.mark.parametrize("name", ["db.`..`", "`../x`.t", "db.`a/b`", "db.`.hidden`"])
def test_names_cannot_lead_out_of_the_warehouse(lake: lakescan.Catalog, name: str) -> None:
    with pytest.raises(lakescan.InvalidOption, match="cannot be the name of"):
        lake.create_table(name, "id BIGINT")


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_a_table_is_written_by_its_name_and_by_its_folder(
    lake: lakescan.Catalog, warehouse: Path, version: str
) -> None:
    named = lake.create_table(
        "db.t", "id BIGINT, part STRING", partition_by="part", properties={"format-version": version}
    )
    at = lakescan.table(warehouse / "db/t")
    named.append(rows(1, 2))
    at.append(rows(3, part="b"))
    at.delete("id = 1")
    named.refresh().update({"part": "'z'"}, "id = 2")
    at.refresh().overwrite(rows(5, part="b"), where="part = 'b'")
    at.merge(rows(5, 6, part="c"), on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    at.upsert(rows(6, 7, part="d"), keys="id")
    assert ids(at) == ids(lake.load_table("db.t")) == [2, 5, 6, 7]
    assert not list((warehouse / "db/t/metadata").glob("0*.json"))


def test_all_maintenance_runs_by_the_folder(lake: lakescan.Catalog, warehouse: Path) -> None:
    lake.create_table("db.t", "id BIGINT, part STRING", partition_by="part", properties={"format-version": "2"})
    at = lakescan.table(warehouse / "db/t")
    for number in range(3):
        at.append(rows(number))
    at.alter().add_column("more", "INT").add_partition_field("bucket(4, id)").set_properties({"a": "b"}).commit()
    at.create_tag("kept")
    at.create_branch("audit")
    at.append(rows(7), branch="audit")
    at.fast_forward("main", "audit")
    at.rollback(version=at.history()["snapshot_id"][0].as_py())
    at.set_current_snapshot(ref="audit")
    at.compact(min_input_files=2)
    at.rewrite_manifests()
    at.compute_statistics()
    at.compute_partition_statistics()
    assert at.expire_snapshots(older_than=LATER)
    at.remove_orphans()
    assert ids(at) == [0, 1, 2, 7]
    assert at.properties["a"] == "b"


def test_sql_changes_a_table_by_its_folder(lake: lakescan.Catalog, warehouse: Path) -> None:
    lake.create_table("db.t", "id BIGINT, part STRING")
    name = f"iceberg.`{warehouse}/db/t`"
    lakescan.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    lakescan.sql(f"DELETE FROM {name} WHERE id = 1")
    lakescan.sql(f"UPDATE {name} SET part = 'c' WHERE id = 2")
    assert lakescan.sql(f"SELECT * FROM {name}").to_arrow().to_pylist() == [{"id": 2, "part": "c"}]


def test_save_writes_to_a_folder_that_is_a_table(lake: lakescan.Catalog, warehouse: Path) -> None:
    lake.create_table("db.t", "id BIGINT, part STRING")
    lakescan.save(rows(1), warehouse / "db/t", mode="append")
    lakescan.save(rows(2), warehouse / "db/t", mode="overwrite")
    with pytest.raises(lakescan.TableExists):
        lakescan.save(rows(3), warehouse / "db/t")
    assert ids(lake.load_table("db.t")) == [2]


def test_a_table_is_made_with_its_rows_in_its_first_version(lake: lakescan.Catalog, warehouse: Path) -> None:
    lakescan.save(rows(1), "lake.db.t", partition_by="part")
    assert ids(lake.load_table("db.t")) == [1]
    assert [each.name for each in (warehouse / "db/t/metadata").glob("*.json")] == ["v1.metadata.json"]


def test_a_table_is_replaced_in_its_folder(lake: lakescan.Catalog) -> None:
    lake.create_table("db.t", "id BIGINT, part STRING").append(rows(1))
    lakescan.save(rows(2), "lake.db.t", mode="overwrite", overwrite_schema=True)
    replaced = lake.create_table("db.t", "other STRING", replace=True)
    assert replaced.schema.names == ["other"]
    assert len(replaced.history()) == 3


def test_only_one_of_several_concurrent_creators_succeeds(lake: lakescan.Catalog) -> None:
    barrier = threading.Barrier(4)

    def create(number: int) -> int | None:
        barrier.wait()
        try:
            lakescan.save(rows(number), "lake.db.t", mode="error")
        except (lakescan.CreatedConcurrently, lakescan.TableExists):
            return None
        return number

    with ThreadPoolExecutor(4) as pool:
        made = [each for each in pool.map(create, range(4)) if each is not None]
    assert len(made) == 1
    assert ids(lake.load_table("db.t")) == made


def test_a_dropped_table_is_removed_with_its_folder(lake: lakescan.Catalog, warehouse: Path) -> None:
    lake.create_table("db.t", "id BIGINT, part STRING").append(rows(1))
    lake.create_table("db.u", "id BIGINT, part STRING").append(rows(2))
    lake.drop_table("db.t")
    assert (lake.list_tables("db"), os.listdir(warehouse / "db")) == (["db.u"], ["u"])
    with pytest.raises(lakescan.NoSuchTable):
        lake.drop_table("db.t")
    lake.drop_table("db.t", missing_ok=True)
    lake.create_table("db.t", "id BIGINT")
    lake.drop_table("db.t", purge=True)
    assert os.listdir(warehouse / "db") == ["u"]


def test_a_table_that_shares_files_with_another_is_not_dropped(lake: lakescan.Catalog) -> None:
    source = lake.create_table("db.t", "id BIGINT, part STRING")
    source.append(rows(1))
    lake.create_from_files("db.copy", f"{source.folder}/data", properties={"gc.enabled": "false"})
    with pytest.raises(lakescan.UnsupportedFeature, match=r"has files of db\.copy"):
        lake.drop_table("db.t")
    assert ids(source.refresh()) == [1]


@pytest.mark.parametrize("inner", ["iceberg", "delta"])
def test_a_table_whose_folder_has_another_table_is_not_dropped(
    lake: lakescan.Catalog, warehouse: Path, inner: str
) -> None:
    lake.create_table("db.t", "id BIGINT, part STRING").append(rows(1))
    (warehouse / "db/t/more").mkdir()  # as other engines create a namespace
    if inner == "delta":
        lakescan.save(rows(2), warehouse / "db/t/more/u", format="delta")
    else:
        lake.create_table("db.t.more.u", "id BIGINT, part STRING").append(rows(2))
    with pytest.raises(lakescan.UnsupportedFeature, match=r"dropping lake.db.t, whose folder has the table at .*/u"):
        lake.drop_table("db.t")
    assert ids(lake.load_table("db.t")) == [1]
    assert ids(lakescan.table(warehouse / "db/t/more/u")) == [2]


def test_a_table_is_not_made_in_the_folder_of_a_namespace_with_tables(lake: lakescan.Catalog) -> None:
    lake.create_namespace("db.inner")
    lake.create_table("db.inner.t", "id BIGINT")
    with pytest.raises(lakescan.UnsupportedFeature, match=r"db.inner is a namespace, which has the table"):
        lake.create_table("db.inner", "id BIGINT")
    assert lake.list_tables("db.inner") == ["db.inner.t"]


def test_a_table_contains_no_namespaces(lake: lakescan.Catalog, warehouse: Path) -> None:
    lake.create_table("db.t", "id BIGINT")
    with pytest.raises(lakescan.NoSuchNamespace, match=r"db.t.inner"):
        lake.create_namespace("db.t.inner")
    assert not (warehouse / "db/t/inner").exists()


def test_a_drop_removes_a_version_committed_during_the_drop(
    lake: lakescan.Catalog, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an object store, a folder is listed before its files are deleted."""
    lake.create_table("db.t", "id BIGINT")
    late, delete = warehouse / "db/t/metadata/v2.metadata.json", HadoopCatalog._delete
    content = (warehouse / "db/t/metadata/v1.metadata.json").read_bytes()

    def deleted(self: HadoopCatalog, folder: str) -> None:
        delete(self, folder)
        if not calls:
            late.parent.mkdir(parents=True)
            late.write_bytes(content)
        calls.append(folder)

    calls: list[str] = []
    monkeypatch.setattr(HadoopCatalog, "_delete", deleted)
    lake.drop_table("db.t")
    assert (len(calls), lake.list_tables("db")) == (2, [])


def test_tables_cannot_be_renamed_registered_or_located_elsewhere(lake: lakescan.Catalog, tmp_path: Path) -> None:
    made = lake.create_table("db.t", "id BIGINT")
    with pytest.raises(lakescan.UnsupportedFeature, match="cannot be renamed"):
        lake.rename_table("db.t", "db.u")
    with pytest.raises(lakescan.UnsupportedFeature, match="found by their folders"):
        lake.register_table("db.u", made.folder)
    with pytest.raises(lakescan.UnsupportedFeature, match="cannot have the location"):
        lake.create_table("db.u", "id BIGINT", location=tmp_path / "elsewhere")


def test_a_catalog_needs_its_warehouse(no_other_catalogs: None) -> None:
    with pytest.raises(lakescan.InvalidOption, match="needs its warehouse"):
        lakescan.catalog("lake", type="hadoop")


def test_a_relative_warehouse_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_other_catalogs: None
) -> None:
    monkeypatch.chdir(tmp_path)
    lake = lakescan.catalog("lake", type="hadoop", warehouse="lake")
    lake.create_namespace("db")
    lake.create_table("db.t", "id BIGINT, part STRING")
    monkeypatch.chdir("/")
    lake.load_table("db.t").append(rows(1))
    assert lake.load_table("db.t").folder == f"{tmp_path}/lake/db/t"


def test_another_type_of_catalog_keeps_its_tables(lake: lakescan.Catalog, tmp_path: Path) -> None:
    """Metadata files of catalog tables are named differently from those of tables without a catalog."""
    sql = lakescan.catalog("other", warehouse=tmp_path / "sql")
    sql.create_namespace("db")
    owned = sql.create_table("db.t", "id BIGINT, part STRING")
    for path in (owned.folder, owned.folder.removeprefix("file://")):
        with pytest.raises(lakescan.UnsupportedFeature, match="was written by a catalog"):
            lakescan.table(path).append(rows(1))
    owned.append(rows(2))
    assert ids(lakescan.table(owned.folder)) == [2]


@pytest.mark.slow
def test_tables_in_an_object_store(no_other_catalogs: None) -> None:
    with s3_server("bucket") as endpoint:
        names = ("s3.endpoint", "s3.access-key-id", "s3.secret-access-key", "s3.region")
        settings = dict(zip(names, (endpoint, KEY, SECRET, REGION), strict=True))
        lake = lakescan.catalog({"name": "store", "type": "hadoop", "warehouse": "s3://bucket/lake", **settings})
        lake.create_namespace("db")
        lake.create_table("db.t", "id BIGINT, part STRING", properties={"commit.retry.num-retries": "50"})
        assert (lake.list_namespaces(), lake.list_tables("db")) == (["db"], ["db.t"])

        def append(number: int) -> None:
            lakescan.table("s3a://bucket/lake/db/t", storage_options=settings).append(rows(number))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(append, range(9)))
        lake.load_table("db.t").delete("id = 0")
        assert ids(lake.load_table("db.t")) == list(range(1, 9))
        lake.drop_table("db.t")
        assert lake.list_tables("db") == []
