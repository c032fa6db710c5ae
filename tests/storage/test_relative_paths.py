"""A table named by a relative path stays the same table after the working directory changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.storage.locations import absolute

pytestmark = pytest.mark.usefixtures("no_other_catalogs")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "part": ["a", "b"][: len(ids)] or []})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a Delta table `delta` and the Iceberg table `lake/db/t`."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    lakescan.save(rows(1, 2), "delta", format="delta", partition_by="part")
    lake = lakescan.catalog("lake", type="hadoop", warehouse="lake")
    lake.create_namespace("db")
    lakescan.save(rows(1, 2), "lake.db.t")
    return tmp_path / "here"


def count(path: Any, **options: Any) -> int:
    return lakescan.table(path, **options).count()


@pytest.mark.parametrize("path", ["delta", "./delta", "x/../delta", "file:delta", "lake/db/t", Path("lake/db/t")])
def test_an_open_table_stays_where_it_was(here: Path, monkeypatch: pytest.MonkeyPatch, path: Any) -> None:
    table = lakescan.table(path)
    monkeypatch.chdir("/")
    assert table.count() == table.refresh().count() == 2
    table.append(rows(3))
    assert table.count() == 3
    assert table.location == str(here / str(path).removeprefix("file:").removeprefix("x/../"))


def test_all_recorded_paths_of_a_table_are_absolute(here: Path) -> None:
    assert lakescan.table("delta").folder == f"{here}/delta"
    assert lakescan.table("lake/db/t").folder == f"{here}/lake/db/t"
    assert lakescan.table("delta").scan().to_options()["path"] == f"{here}/delta"
    assert all(each.startswith(str(here)) for each in lakescan.table("delta").scan().plan().files["path"].to_pylist())


WRITES: dict[str, Callable[[], Any]] = {
    "save": lambda: lakescan.save(rows(1, 2), "new", format="delta"),
    "sql": lambda: lakescan.sql("CREATE TABLE delta.`new` (id BIGINT, part STRING)"),
    "ctas": lambda: lakescan.sql("CREATE TABLE delta.`new` AS SELECT * FROM delta.`delta`"),
    "clone": lambda: lakescan.table("delta").clone("new"),
    "clone in sql": lambda: lakescan.sql("CREATE TABLE delta.`new` SHALLOW CLONE delta.`delta`"),
    "catalog": lambda: sql_catalog().create_table("db.new", "id BIGINT", format="delta", location="new"),
    "location": lambda: (
        sql_catalog() and lakescan.sql("CREATE TABLE here.db.new (id BIGINT) USING delta LOCATION 'new'")
    ),
    "iceberg": lambda: sql_catalog().create_table("db.new", "id BIGINT", location="new"),
}


def sql_catalog() -> lakescan.Catalog:
    catalog = lakescan.catalog("here", warehouse="sql")
    catalog.create_namespace("db")
    return catalog


@pytest.mark.parametrize("write", WRITES)
def test_a_new_table_is_in_the_working_directory(here: Path, monkeypatch: pytest.MonkeyPatch, write: str) -> None:
    WRITES[write]()
    monkeypatch.chdir("/")
    made = (
        lakescan.table("here.db.new") if write in ("catalog", "location", "iceberg") else lakescan.table(here / "new")
    )
    assert made.folder == f"{here}/new"
    made.append(pa.table({"id": pa.array([7], pa.int32())}))
    assert 7 in made.to_arrow()["id"].to_pylist()


def test_a_relative_relocation_target_stays(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree("lake/db/t", "copies/t")
    shutil.rmtree("lake")
    table = lakescan.table("copies/t", relocate={f"{here}/lake/db/t": "copies/t"})
    monkeypatch.chdir("/")
    assert table.count() == 2


@pytest.mark.parametrize("warehouse", ["sql", "./sql"])
@pytest.mark.parametrize("kind", ["embedded", "sql", "in-memory"])
def test_a_relative_warehouse_stays(here: Path, monkeypatch: pytest.MonkeyPatch, warehouse: str, kind: str) -> None:
    more = {"embedded": {}, "sql": {"type": "sql", "uri": f"sqlite:///{here}/c.db"}, "in-memory": {"type": "in-memory"}}
    catalog = lakescan.catalog("other", warehouse=warehouse, **more[kind])
    catalog.create_namespace("db")
    monkeypatch.chdir("/")
    table = catalog.create_table("db.t", "id BIGINT, part STRING")
    table.append(rows(1))
    assert table.folder.removeprefix("file://") == f"{here}/sql/db/t"


def test_only_local_paths_become_absolute(here: Path) -> None:
    for location in ("s3://b/t", "hdfs:///t", "abfss://c@a.dfs.core.windows.net/t", "/t", "file:///t"):
        assert absolute(location) == location
    assert absolute("a/../t/") == f"{here}/t"


def test_the_name_of_a_table_in_a_catalog_is_not_a_path(here: Path) -> None:
    assert count("lake.db.t") == 2
    assert lakescan.table("lake.db.t").name is not None
