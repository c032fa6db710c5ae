"""A commit writes nothing outside the allowed locations, even where pyiceberg writes instead of lakescan."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.catalogs.registry import allowed_locations, forget_transaction, location_limits, register_transaction
from lakescan.errors import LocationRefused

CHANGES: dict[str, Callable[[lakescan.Table], Any]] = {
    "rows": lambda table: table.append(pa.table({"id": [2]})),
    "rows deleted": lambda table: table.delete("id = 1"),
    "a property": lambda table: table.alter().set_properties({"a": "b"}).commit(),
    "a column": lambda table: table.alter().add_column("c", "INT").commit(),
    "a branch": lambda table: table.create_branch("b"),
    "statistics": lambda table: table.compute_statistics(),
}


@pytest.fixture
def leading_out(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that makes a table whose metadata directs writes to `outside`, in one of two ways."""
    lake = tmp_path / "lake"
    settings = {"type": "sql", "warehouse": str(lake)}
    free = lakescan.catalog("free", uri=f"sqlite:///{tmp_path}/free.db", **settings)
    limits = {"allowed-locations": str(lake)}
    lakescan.catalog("limited", uri=f"sqlite:///{tmp_path}/limited.db", **settings, **limits)

    def made(how: str) -> str:
        free.create_namespace("db", exist_ok=True)
        table = free.create_table("db.t", "id BIGINT")
        table.append(pa.table({"id": [1]}))
        file = max((lake / "db" / "t" / "metadata").glob("*.metadata.json"))
        said = json.loads(file.read_text())
        outside = str(tmp_path / "outside")
        if how == "location":
            said["location"] = outside
        else:
            said["properties"]["write.metadata.path"] = outside
        hostile = file.with_name("00009-hostile.metadata.json")
        hostile.write_text(json.dumps(said))
        limited = lakescan.catalog("limited")
        limited.create_namespace("db", exist_ok=True)
        limited.register_table("db.t", str(hostile))
        return "limited.db.t"

    return made


@pytest.mark.parametrize("how", ["location", "write.metadata.path"])
@pytest.mark.parametrize("change", CHANGES)
def test_no_change_writes_outside_of_allowed_locations(
    leading_out: Callable[[str], str], tmp_path: Path, how: str, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    name = leading_out(how)
    with caplog.at_level(logging.WARNING), pytest.raises(LocationRefused, match="allowed-locations"):
        CHANGES[change](lakescan.table(name))
    assert not (tmp_path / "outside").exists()
    assert lakescan.table(name).scan().to_arrow()["id"].to_pylist() == [1]
    assert "not removed" not in caplog.text


def test_a_change_that_moves_a_table_outside_is_refused(leading_out: Callable[[str], str], tmp_path: Path) -> None:
    name = leading_out("write.metadata.path")
    inside, outside = str(tmp_path / "lake" / "m"), str(tmp_path / "elsewhere")
    lakescan.table(name).alter().set_properties({"write.metadata.path": inside}).commit()
    with pytest.raises(LocationRefused):
        lakescan.table(name).alter().set_properties({"write.metadata.path": outside}).commit()
    assert not Path(outside).exists()
    assert lakescan.table(name).count() == 1


@pytest.fixture
def limited(tmp_path: Path) -> lakescan.Catalog:
    """A catalog whose tables must stay in the folder `lake`."""
    (tmp_path / "outside").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "outside" / "rows.parquet")
    lakescan.save(pa.table({"id": [1]}), str(tmp_path / "outside" / "delta"), format="delta")
    lake, uri = str(tmp_path / "lake"), f"sqlite:///{tmp_path}/made.db"
    made = lakescan.catalog("made", type="sql", uri=uri, warehouse=lake, **{"allowed-locations": lake})
    made.create_namespace("db")
    return made


OUT: dict[str, Callable[[lakescan.Catalog, str], Any]] = {
    "at a location": lambda lake, out: lake.create_table("db.new", "id INT", location=f"{out}/new"),
    "of version 3": lambda lake, out: lake.create_table(
        "db.new", "id INT", location=f"{out}/new", properties={"format-version": "3"}
    ),
    "of Delta": lambda lake, out: lake.create_table("db.new", "id INT", location=f"{out}/new", format="delta"),
    "by write.metadata.path": lambda lake, out: lake.create_table(
        "db.new", "id INT", properties={"write.metadata.path": f"{out}/new"}
    ),
    "by its namespace": lambda lake, out: (
        lake.create_namespace("new", properties={"location": f"{out}/new"}) or lake.create_table("new.new", "id INT")
    ),
    "of a query": lambda lake, out: lakescan.sql(
        f"CREATE TABLE made.db.new USING iceberg LOCATION '{out}/new' AS SELECT 1 AS id"
    ),
    "of rows": lambda lake, out: lakescan.save(
        pa.table({"id": [1]}), "made.db.new", properties={"write.metadata.path": f"{out}/new"}
    ),
    "of files": lambda lake, out: lake.create_from_files("db.new", out, files=[f"{out}/rows.parquet"]),
    "as a clone": lambda lake, out: lake.clone_table("db.new", f"{out}/delta"),
    "as a view": lambda lake, out: lake.create_view(
        "db.new", "SELECT 1 AS id", properties={"write.metadata.path": f"{out}/new"}
    ),
}


@pytest.mark.parametrize("how", OUT)
def test_nothing_is_created_outside_of_a_catalogs_allowed_locations(
    limited: lakescan.Catalog, tmp_path: Path, how: str
) -> None:
    outside = tmp_path / "outside"
    before = sorted(outside.rglob("*"))
    with pytest.raises(LocationRefused, match="allowed-locations"):
        OUT[how](limited, str(outside))
    assert sorted(outside.rglob("*")) == before
    names = [name for space in limited.list_namespaces() for name in limited.list_tables(space)]
    assert (names, limited.list_views("db")) == ([], [])


def test_tables_inside_of_allowed_locations_are_created(limited: lakescan.Catalog, tmp_path: Path) -> None:
    for number, kind in enumerate(("iceberg", "delta")):
        limited.create_table(f"db.t{number}", "id BIGINT", format=kind, location=f"{tmp_path}/lake/x{number}")
        lakescan.table(f"made.db.t{number}").append(pa.table({"id": [1]}))
        assert lakescan.table(f"made.db.t{number}").count() == 1
    limited.create_table("db.t0", "id BIGINT", replace=True)
    assert lakescan.table("made.db.t0").count() == 0


def test_a_replaced_table_is_written_within_its_limits(leading_out: Callable[[str], str], tmp_path: Path) -> None:
    name = leading_out("location")
    with pytest.raises(LocationRefused):
        lakescan.catalog("limited").create_table("db.t", "id BIGINT", replace=True)
    assert not (tmp_path / "outside").exists()
    assert lakescan.table(name).count() == 1


def test_a_transaction_has_the_limits_of_its_catalog() -> None:
    lakescan.catalog("rested", type="in-memory", warehouse="s3://lake/", **{"allowed-locations": "s3://lake/"})
    name = register_transaction("rested", lambda alias: alias)
    try:
        assert allowed_locations(name) == ("s3://lake/",)
        with pytest.raises(LocationRefused):
            location_limits(name, "s3://lake/t/metadata/1.metadata.json").check("s3://other/f")
    finally:
        forget_transaction(name)
