"""SQL catalogs where one name is both a Delta table and an Iceberg table: other clients do not see Delta names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import CorruptMetadata, InvalidOption, TableExists, UnsupportedFeature

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def lake(tmp_path: Path) -> lakescan.Catalog:
    lake = lakescan.catalog("lake", warehouse=str(tmp_path))
    lake.create_namespace("n")
    lake.create_table("n.t", "id BIGINT", format="delta").append(ROWS)
    return lake


@pytest.fixture
def other(tmp_path: Path) -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")


def test_a_name_of_two_tables_is_an_error_that_names_both(lake: lakescan.Catalog, other: Any) -> None:
    iceberg = other.create_table("n.t", schema=pa.schema([("id", pa.int64())]))
    for use in (
        lambda: lakescan.table("lake.n.t"),
        lambda: lakescan.sql("SELECT * FROM lake.n.t"),
        lambda: lake.table_exists("n.t"),
        lambda: lake.drop_table("n.t"),
        lambda: lake.rename_table("n.t", "n.u"),
        lambda: lake.create_table("n.t", "id BIGINT", exist_ok=True),
        lambda: lakescan.sql("INSERT INTO lake.n.t VALUES (1)"),
    ):
        with pytest.raises(CorruptMetadata, match=r"n\.t is the name of two tables") as refused:
            use()
        assert iceberg.metadata_location in str(refused.value)
    assert lake.list_tables("n") == ["n.t"]
    delta = str(refused.value).partition("Delta table at ")[2].partition(",")[0]
    assert lakescan.table(delta, format="delta").scan().to_arrow().num_rows == 3
    assert lakescan.table(iceberg.metadata_location, format="iceberg").scan().to_arrow().num_rows == 0
    other.drop_table("n.t")
    assert lakescan.table("lake.n.t").scan().to_arrow().num_rows == 3


def test_a_namespace_that_another_client_dropped_keeps_its_delta_tables(lake: lakescan.Catalog, other: Any) -> None:
    with pytest.raises(TableExists):
        lake.drop_namespace("n")
    lake.create_namespace("n.below")
    lake.create_table("n.below.u", "id BIGINT", format="delta")
    other.drop_namespace("n.below")
    other.drop_namespace("n")
    assert lake.list_namespaces() == ["n"]
    assert lake.list_namespaces("n") == ["n.below"]
    assert lake.namespace_exists("n")
    assert not lake.namespace_exists("belo")
    assert lake.list_tables("n") == ["n.t"]
    assert lakescan.table("lake.n.t").scan().to_arrow().num_rows == 3
    with pytest.raises(TableExists):
        lake.drop_namespace("n")


def test_opening_a_table_queries_delta_names_once(lake: lakescan.Catalog) -> None:
    from sqlalchemy import event

    from lakescan.catalogs.registry import connection

    lake.create_table("n.i", "id BIGINT")
    lakescan.table("lake.n.i")
    asked: list[str] = []
    engine: Any = connection("lake")
    event.listen(engine.engine, "before_cursor_execute", lambda _c, _s, statement, *_: asked.append(statement))
    lakescan.table("lake.n.i")
    assert len([each for each in asked if "lakescan_delta_tables" in each]) == 1


def test_a_namespace_with_surrounding_white_space_is_a_different_one(lake: lakescan.Catalog) -> None:
    assert not lake.namespace_exists("` n`")
    with pytest.raises(UnsupportedFeature, match="white space"):
        lake.create_namespace("` n`")
    with pytest.raises(UnsupportedFeature, match="white space"):
        lakescan.table("lake.` n`.t")


@pytest.mark.parametrize("uri", ["http://[::1", "http://[nothing]/x", "http://]"])
def test_a_unity_uri_with_a_wrong_ipv6_host_is_refused_by_name(uri: str) -> None:
    with pytest.raises(InvalidOption, match="needs a uri"):
        lakescan.catalog("main", type="unity", uri=uri)
