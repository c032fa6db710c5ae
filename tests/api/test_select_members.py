"""`select` takes struct members, as Spark does, in both formats, and only those members are read from data files."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from tests.support.catalog import local_catalog

ADDRESS = pa.struct(
    {"city": pa.string(), "zip": pa.int64(), "geo": pa.struct({"lat": pa.float64(), "lon": pa.float64()})}
)
SCHEMA = pa.schema({"id": pa.int64(), "address": ADDRESS, "city": pa.string(), "tags": pa.list_(ADDRESS)})


def rows(first: int) -> pa.Table:
    numbers = range(first, first + 20)
    geo = [{"lat": i / 2, "lon": None if i % 4 == 1 else float(i)} if i % 3 else None for i in numbers]
    home = [{"city": f"c{i % 4}", "zip": i, "geo": g} if i % 5 else None for i, g in zip(numbers, geo, strict=True)]
    return pa.table([numbers, home, [f"top{i}" for i in numbers], [[h] for h in home]], schema=SCHEMA)


def evolved_iceberg(folder: Path) -> str:
    """Make a table of two files; between them, members were dropped, renamed, moved, and added under a dropped name."""
    from pyiceberg.types import LongType, StringType

    table = local_catalog(folder).create_table("n.t", SCHEMA)
    table.append(rows(0).cast(table.schema().as_arrow()))
    with table.update_schema() as update:
        update.delete_column(("address", "zip"))
        update.rename_column(("address", "geo", "lat"), "latitude")
    with table.update_schema() as update:
        update.add_column(("address", "zip"), StringType())
        update.add_column(("address", "geo", "alt"), LongType())
        update.move_first(("address", "zip"))
    home = {"city": "late", "zip": "z", "geo": {"latitude": 1.0, "lon": 2.0, "alt": 3}}
    late = [{"id": 100 + i, "address": home if i else None, "city": "top", "tags": []} for i in range(3)]
    table.append(pa.Table.from_pylist(late, schema=table.schema().as_arrow()))
    return str(table.metadata_location)


def evolved_delta(folder: Path) -> str:
    """Make a table of two files; the second one has more members."""
    location = str(folder / "t")
    write_deltalake(location, rows(0))
    home = {"city": "late", "zip": 1, "geo": {"lat": 1.0, "lon": 2.0, "alt": 3}, "name": "n"}
    geo = pa.struct({**{f.name: f.type for f in ADDRESS.field("geo").type}, "alt": pa.int64()})
    address = pa.struct({"city": pa.string(), "zip": pa.int64(), "geo": geo, "name": pa.string()})
    late = [{"id": 100 + i, "address": home if i else None, "city": "top"} for i in range(3)]
    schema = pa.schema({"id": pa.int64(), "address": address, "city": pa.string()})
    write_deltalake(location, pa.Table.from_pylist(late, schema=schema), mode="append", schema_mode="merge")
    DeltaTable(location).delete("id = 7")
    return location


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("members")
    return {"iceberg": evolved_iceberg(folder), "delta": evolved_delta(folder)}


FORMATS = pytest.mark.parametrize("name", ["iceberg", "delta"])
PATHS = ["id", "city", "address", "address.city", "address.zip", "address.geo", "address.geo.lon", "address.geo.alt"]
FILTERS = [None, "address.city = 'c1'", "address.zip is null", "address.geo.lon > 5", "address.geo is null and id < 50"]


def extracted(whole: pa.Table, path: str) -> pa.ChunkedArray:
    first, *members = path.split(".")
    column = whole[first]
    return pc.struct_field(column, members) if members else column


@FORMATS
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    paths=st.lists(st.sampled_from(PATHS), min_size=1, max_size=4, unique=True),
    where=st.sampled_from(FILTERS),
)
def test_selected_members_are_those_of_the_whole_structs(
    tables: dict[str, str], name: str, paths: list[str], where: str | None
) -> None:
    scan = lakescan.table(tables[name]).scan()
    scan = scan if where is None else scan.where(where)
    whole = scan.to_arrow()
    found = scan.select(**{f"c{i}": path for i, path in enumerate(paths)})
    assert found.to_arrow().schema == found.schema
    for i, path in enumerate(paths):
        assert found.to_arrow()[f"c{i}"].to_pylist() == extracted(whole, path).to_pylist(), path
    assert found.count() == whole.num_rows


@FORMATS
def test_a_member_is_returned_under_its_own_name_or_an_alias(tables: dict[str, str], name: str) -> None:
    scan = lakescan.table(tables[name]).scan()
    assert scan.select("address", "address.city").schema.names == ["address", "city"]
    for aliased in (scan.select("id", town="address.city"), scan.select("id", "address.city AS `town`")):
        assert aliased.schema.names == ["id", "town"]
        assert aliased.to_arrow()["town"].to_pylist() == scan.select("address.city").to_arrow()["city"].to_pylist()
    by_option = lakescan.table(tables[name], columns="id, address.city as town, address.geo.lon").scan()
    assert by_option.schema.names == ["id", "town", "lon"]
    assert by_option.to_arrow().num_rows == scan.count()
    assert scan.select("_file", "address.city", "_pos").schema.names == ["_file", "city", "_pos"]


@FORMATS
def test_two_columns_of_one_name_are_refused_with_advice(tables: dict[str, str], name: str) -> None:
    scan = lakescan.table(tables[name]).scan().select("city", "address.city")
    with pytest.raises(lakescan.InvalidOption, match=r"select returns two columns named 'city'.*other_name="):
        scan.to_arrow()


@FORMATS
def test_unknown_member_names_are_refused_with_the_nearest(tables: dict[str, str], name: str) -> None:
    scan = lakescan.table(tables[name]).scan()
    with pytest.raises(lakescan.NoSuchColumn, match=r"address\.city"):
        scan.select("address.cty").to_arrow()
    for text in ("city.x", "address.city.x as y", "nothing as x"):
        with pytest.raises(lakescan.NoSuchColumn):
            scan.select(text).to_arrow()
    for text in ("tags.city", "tags.element.city", "tags.element"):
        with pytest.raises(lakescan.UnsupportedFeature, match="inside a list"):
            scan.select(text).to_arrow()


@FORMATS
def test_case_is_ignored_by_default_and_the_result_has_the_selected_spelling(tables: dict[str, str], name: str) -> None:
    scan = lakescan.table(tables[name]).scan()
    loose = scan.select("Address.CITY", "ADDRESS.geo.Lon as x", "ID").where("iD = 1 and ADDRESS.city is not null")
    assert loose.schema.names == ["CITY", "x", "ID"]
    assert loose.to_arrow().column_names == loose.to_polars().columns == ["CITY", "x", "ID"]
    for strict in (scan.options(case_sensitive=True).select("Address.CITY"), scan.options(case_sensitive=True)):
        with pytest.raises(lakescan.NoSuchColumn):
            strict.where("ID = 1").to_arrow()


@FORMATS
def test_every_reader_of_a_scan_accepts_members(tables: dict[str, str], name: str) -> None:
    table = lakescan.table(tables[name])
    scan = table.scan().select("id", "address.geo.lon", town="address.city")
    whole = scan.to_arrow()
    assert pickle.loads(pickle.dumps(scan.spec)).output == scan.spec.output
    assert pa.table(scan) == whole
    assert scan.limit(3).to_arrow().num_rows == 3
    assert [field.name for field in scan.plan().schema.fields] == ["id", "lon", "town"]
    assert "town" in scan.explain()
    assert "town" in scan._repr_html_()
    lon = [n for n in whole["lon"].to_pylist() if n is not None]
    assert (table.scan().min("address.geo.lon"), table.scan().max("address.geo.lon")) == (min(lon), max(lon))
    assert table.scan().where("id > 10").max("address.city") == "late"


@FORMATS
def test_lazy_polars_filters_mean_the_selected_member_not_the_column_of_that_name(
    tables: dict[str, str], name: str
) -> None:
    pl = pytest.importorskip("polars")
    lazy = lakescan.table(tables[name]).scan().select("id", "address.city").to_polars(lazy=True)
    found = lazy.filter(pl.col("city") == "c1").select("city").collect()
    assert found["city"].to_list() == ["c1"] * lakescan.table(tables[name]).scan().where("address.city = 'c1'").count()
    assert found.height > 0
    assert lazy.filter(pl.col("city").is_null() & (pl.col("id") < 7)).collect()["id"].to_list() == [0, 5]


def test_names_with_dots_are_reached_by_backquotes(tmp_path: Path) -> None:
    inner = pa.struct({"b": pa.int64(), "c.d": pa.int64()})
    names = {"a": inner, "a.b": pa.int64(), "x as y": pa.int64()}
    write_deltalake(
        tmp_path / "t", pa.Table.from_pylist([{"a": {"b": 1, "c.d": 2}, "a.b": 3, "x as y": 4}], pa.schema(names))
    )
    scan = lakescan.table(tmp_path / "t").scan()
    found = scan.select("a.b", "a.`c.d`", "x as y", outer="`a.b`").to_arrow()
    assert found.to_pylist() == [{"b": 1, "c.d": 2, "x as y": 4, "outer": 3}]


def test_spaces_around_a_name_belong_to_it(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    write_deltalake(tmp_path / "t", pa.table({"x": [1], "x ": [2], " x": [3], "s": pa.array([{"x ": 4}])}))
    scan = lakescan.table(tmp_path / "t").scan()
    named = scan.select(a="x", b="x ", c=" x", d="s.x ")
    assert named.to_arrow().to_pylist() == [{"a": 1, "b": 2, "c": 3, "d": 4}]
    assert scan.select("`x ` as b").to_arrow().to_pylist() == [{"b": 2}]
    for each in (named, scan.select(" x", "x "), scan.select("s.x ")):
        by_options = lakescan.table(tmp_path / "t", columns=each.to_options()["columns"])
        assert by_options.to_arrow() == each.to_arrow()
    assert named.to_polars(lazy=True).filter(pl.col("b") == 2).select("b", "d").collect().rows() == [(2, 4)]


@FORMATS
def test_select_accepts_the_column_forms_of_filters_and_refuses_others(tables: dict[str, str], name: str) -> None:
    scan = lakescan.table(tables[name]).scan()
    city = lakescan.col("address.city")
    assert scan.select("id", city).schema.names == scan.select(["id", city]).schema.names == ["id", "city"]
    assert scan.select(town=city).schema.names == ["town"]
    for wrong in (1, None, b"id", ["id", 1]):
        with pytest.raises(lakescan.InvalidOption, match="select takes names of columns"):
            scan.select(wrong)
    with pytest.raises(lakescan.InvalidOption, match="select takes names of columns"):
        scan.select(x=["id"])


@FORMATS
def test_lazy_polars_filters_apply_after_the_limit_of_the_scan(tables: dict[str, str], name: str) -> None:
    pl = pytest.importorskip("polars")
    lazy = lakescan.table(tables[name]).scan().select("id").limit(5).to_polars(lazy=True)
    ids = lazy.collect()["id"].to_list()
    for bound in (1, 3, 102):
        found = lazy.filter(pl.col("id") >= bound).collect()["id"].to_list()
        assert found == [each for each in ids if each >= bound]


def test_other_members_of_a_parquet_file_are_not_read(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", rows(0))
    (file,) = (tmp_path / "t").glob("*.parquet")
    group = pq.ParquetFile(file).metadata.row_group(0)
    content = bytearray(file.read_bytes())
    for chunk in map(group.column, range(group.num_columns)):
        if chunk.path_in_schema != "address.geo.lon":
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    file.write_bytes(content)
    scan = lakescan.table(tmp_path / "t").scan()
    assert (
        scan.select("address.geo.lon").to_arrow()["lon"].to_pylist()
        == pc.struct_field(rows(0)["address"], ["geo", "lon"]).to_pylist()
    )
    assert scan.where("address.geo.lon > 5").select("address.geo.lon").to_arrow().num_rows > 0
    for others in ("address.geo", "address.city", "address"):
        with pytest.raises(lakescan.CorruptData):
            scan.select(others).to_arrow()


def test_positions_and_equality_deletes_apply_to_selected_members(tmp_path: Path) -> None:
    from samples.iceberg_deletes import commit_deletes, local, write_equality_deletes, write_position_deletes

    table = local_catalog(tmp_path).create_table("n.t", SCHEMA)
    table.append(rows(0).cast(table.schema().as_arrow()))
    (task,) = table.scan().plan_files()
    folder = local(table.location())
    address, member = (table.schema().find_field(name).field_id for name in ("address", "address.zip"))
    keys = pa.struct([pa.field("zip", pa.int64(), metadata={"PARQUET:field_id": str(member)})])
    deleted = pa.table({"address": pa.array([{"zip": 8}], keys)})
    by_key = write_equality_deletes(f"{folder}/data/e.parquet", deleted, {"address": address})
    by_position = write_position_deletes(f"{folder}/data/p.parquet", [(task.file.file_path, 3)])
    made = [by_position, replace(by_key, equality_ids=[member])]
    scan = lakescan.table(commit_deletes(table.metadata_location, made)).scan()
    whole = scan.to_arrow()
    assert whole.num_rows == 18
    found = scan.select("address.city", "address.geo.lat").to_arrow()
    assert found["city"].to_pylist() == extracted(whole, "address.city").to_pylist()
    assert found["lat"].to_pylist() == extracted(whole, "address.geo.lat").to_pylist()


def test_rewriting_a_table_whose_names_look_like_references_keeps_its_columns(tmp_path: Path) -> None:
    data = pa.table({"id": [1, 2], "a": pa.array([{"b": 1}, {"b": 2}]), "a.b": [10, 20], "a as id": [5, 6]})
    write_deltalake(tmp_path / "t", data)
    write_deltalake(tmp_path / "t", data, mode="append")
    table = lakescan.table(tmp_path / "t")
    table.overwrite(data.slice(0, 1), where="id = 1")
    lakescan.table(tmp_path / "t").compact()
    found = lakescan.table(tmp_path / "t").scan().to_arrow().sort_by("id")
    assert found.to_pylist() == [data.to_pylist()[0], *[data.to_pylist()[1]] * 2]


def test_members_of_sparks_metadata_column_are_found_by_their_names(tmp_path: Path) -> None:
    lakescan.save(
        pa.table({"id": [1, 2, 3]}),
        str(tmp_path / "t"),
        format="delta",
        **{"table-property.delta.enableRowTracking": "true"},
    )
    scan = lakescan.table(str(tmp_path / "t")).scan()
    found = scan.select("id", "_metadata.row_id", "_metadata.ROW_INDEX", "_metadata.row_commit_version").to_arrow()
    assert found.column_names == ["id", "row_id", "ROW_INDEX", "row_commit_version"]
    assert [set(row.values()) for row in found.select([1, 2]).to_pylist()] == [{0}, {1}, {2}]
    assert scan.where("_metadata.row_id >= 1 and _metadata.row_index + 1 < 3").to_arrow()["id"].to_pylist() == [2]
