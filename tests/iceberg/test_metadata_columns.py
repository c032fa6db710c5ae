"""Metadata columns give each row's file, its position in the file, and its lineage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from samples.iceberg_deletes import commit_deletes, local, write_position_deletes

import lakescan
from lakescan.iceberg.manifests.manifest_file import ManifestFile
from lakescan.iceberg.manifests.manifest_reader import inherited_row_ids
from tests.support.catalog import local_catalog


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Partitioned by name: {1, 2, 3} under a, {4} under b; row 2 deleted by position, in many row groups."""
    from pyiceberg.transforms import IdentityTransform

    folder = tmp_path_factory.mktemp("metadata")
    catalog = local_catalog(folder)
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    with table.update_spec() as update:
        update.add_field("name", IdentityTransform(), "name")
    table.append(pa.table({"id": [1, 2, 3, 4], "name": ["a", "a", "a", "b"]}))
    return table


@pytest.fixture(scope="module")
def location(table: Any) -> str:
    (path,) = [f["file_path"] for f in table.inspect.files().to_pylist() if f["record_count"] == 3]
    where = {"partition": {"name": "a"}, "spec_id": table.spec().spec_id}
    delete = write_position_deletes(f"{table.location()}/data/deletes.parquet", [(path, 1)], **where)
    return commit_deletes(table.metadata_location, [delete])


def rows(location: str, *columns: str, where: str = "true") -> list[dict[str, Any]]:
    found = lakescan.table(location).scan().where(where).select(*columns).to_arrow()
    return sorted(found.to_pylist(), key=lambda r: str(r.get("id")))


def test_file_and_position_point_at_the_stored_row(location: str) -> None:
    for row in rows(location, "id", "_file", "_pos"):
        stored = pq.ParquetFile(local(row["_file"])).read()
        assert stored["id"][row["_pos"]].as_py() == row["id"]


def test_positions_count_deleted_rows(location: str) -> None:
    assert [(r["id"], r["_pos"]) for r in rows(location, "id", "_pos", where="name = 'a'")] == [(1, 0), (3, 2)]


def test_spec_and_partition_are_those_of_the_file(location: str) -> None:
    found = rows(location, "id", "_spec_id", "_partition")
    assert [(r["id"], r["_spec_id"], r["_partition"]) for r in found] == [
        (1, 1, {"name": "a"}),
        (3, 1, {"name": "a"}),
        (4, 1, {"name": "b"}),
    ]


def test_selecting_the_deleted_column_returns_deleted_rows_marked(location: str) -> None:
    found = rows(location, "id", "_deleted")
    assert [(r["id"], r["_deleted"]) for r in found] == [(1, False), (2, True), (3, False), (4, False)]


def test_every_reader_of_a_scan_with_deleted_rows_returns_them(location: str) -> None:
    pl = pytest.importorskip("polars")
    scan = lakescan.table(location).scan().select("id", gone="_deleted")
    lazy = scan.to_polars(lazy=True)
    assert scan.count() == scan.to_arrow().num_rows == lazy.select(pl.len()).collect().item() == 4
    assert lazy.select("id").collect()["id"].sort().to_list() == [1, 2, 3, 4]
    assert scan.where("name = 'a' and id < 3").max("id") == 2


def test_a_filter_by_deleted_returns_the_deleted_rows_that_match_in_every_file(location: str) -> None:
    scan = lakescan.table(location).scan().where("_deleted = false or name = 'a'")  # decided by partitions
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    assert scan.count() == 4


def test_rows_are_filtered_by_metadata_columns(location: str) -> None:
    assert [r["id"] for r in rows(location, "id", where="_pos = 2")] == [3]
    assert [r["id"] for r in rows(location, "id", where="_file like '%name=b%'")] == [4]
    assert [r["id"] for r in rows(location, "id", where="_deleted")] == [2]


def test_metadata_columns_are_read_only_when_named(location: str) -> None:
    assert lakescan.table(location).scan().schema.names == ["id", "name"]


def test_row_lineage_starts_with_format_version_3(location: str) -> None:
    with pytest.raises(lakescan.NoSuchColumn, match="_row_id"):
        rows(location, "_row_id")


def test_a_table_column_takes_precedence_over_a_metadata_column(tmp_path: Path) -> None:
    catalog = local_catalog(tmp_path)
    table = catalog.create_table("n.t", pa.schema([("_pos", pa.string())]))
    table.append(pa.table({"_pos": ["mine"]}))
    assert rows(table.metadata_location, "_pos") == [{"_pos": "mine"}]


def test_files_without_a_first_row_id_inherit_it_from_the_manifest() -> None:
    own, counts = pa.array([None, 500, None, None], pa.int64()), pa.array([10, 20, 30, 40], pa.int64())
    assert inherited_row_ids(own, counts, ManifestFile("m", first_row_id=1000)).to_pylist() == [1000, 500, 1010, 1040]
    assert inherited_row_ids(own, counts, ManifestFile("m")).to_pylist() == [None, 500, None, None]


def test_columns_of_wide_tables_are_distinguished_from_partition_fields(tmp_path: Path) -> None:
    """Both may have ids from 1000 on."""
    from pyiceberg.transforms import IdentityTransform

    data = pa.table({f"c{n}": [n, n + 1] for n in range(1, 1003)})
    table = local_catalog(tmp_path).create_table("n.t", data.schema)
    with table.update_spec() as update:
        update.add_field("c1", IdentityTransform(), "part")
    table.append(data)
    scan = lakescan.table(table.metadata_location).scan()
    assert scan.where("c1000 = 1001 and c1 = 2").select("c1000", "_partition.part").to_arrow().to_pylist() == [
        {"c1000": 1001, "part": 2}
    ]
    assert scan.where("_partition.part = 1").select("c1000").to_arrow()["c1000"].to_pylist() == [1000]
