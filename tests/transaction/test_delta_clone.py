"""Clones of Delta tables: they have the rows of a version, no file is copied, and both tables go on alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from tests.support import own_catalog
from tests.support.delta_state import state

local, no_other_catalogs = own_catalog.local, own_catalog.no_other_catalogs


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "part": ["a b" if n % 2 else "c%20d" for n in ids]})


@pytest.fixture(params=[(), ("part",)], ids=["", "partitioned"])
def source(tmp_path: Path, request: pytest.FixtureRequest) -> lakescan.Table:
    """Version 1 has 1 to 4, version 2 has no 1 and 2 (by vectors), version 3 also has 5; its folder has odd letters."""
    folder = tmp_path / "the source, 100%"
    properties = {"delta.enableDeletionVectors": "true", "owner": "me"}
    lakescan.save(rows(1, 2, 3, 4), folder, format="delta", partition_by=request.param, properties=properties)
    table = lakescan.table(folder)
    table.delete("id < 3")
    table.append(rows(5))
    return table


def ids(table: lakescan.Table) -> list[int]:
    return sorted(table.refresh().to_arrow()["id"].to_pylist())


def files(folder: Path) -> set[str]:
    return {str(file) for file in folder.rglob("*") if file.is_file() and "_delta_log" not in file.parts}


def test_a_clone_has_the_rows_and_no_file(source: lakescan.Table, tmp_path: Path) -> None:
    result = source.clone(tmp_path / "clone")
    clone = lakescan.table(tmp_path / "clone")
    assert clone.to_arrow().sort_by("id") == source.to_arrow().sort_by("id")
    assert files(tmp_path / "clone") == set()
    assert (result.version, result.source_num_of_files) == (3, len(state(Path(source.location))[2]))
    assert clone.properties == source.properties
    assert clone.partitioning == source.partitioning
    assert state(tmp_path / "clone")[1].id != state(Path(source.location))[1].id


@pytest.mark.parametrize(("version", "expected"), [(1, [1, 2, 3, 4]), (2, [3, 4]), (0, [])])
def test_a_clone_may_be_of_an_earlier_version(
    source: lakescan.Table, tmp_path: Path, version: int, expected: list[int]
) -> None:
    source.clone(tmp_path / "clone", version=version)
    assert ids(lakescan.table(tmp_path / "clone")) == expected


def test_both_tables_go_on_alone(source: lakescan.Table, tmp_path: Path) -> None:
    source.clone(tmp_path / "clone")
    clone = lakescan.table(tmp_path / "clone")
    clone.delete("id = 3")
    clone.append(rows(7))
    assert (ids(clone), ids(source)) == ([4, 5, 7], [3, 4, 5])
    source.delete("id = 4")
    source.compact(rewrite_all=True, min_input_files=1)
    assert (ids(clone), ids(source)) == ([4, 5, 7], [3, 5])
    clone.update({"id": "id + 10"}, where="id = 4")
    clone.compact(purge=True, min_input_files=1)
    assert ids(clone) == [5, 7, 14]
    clone.restore(0)
    assert ids(clone) == [3, 4, 5]
    clone.checkpoint()
    assert ids(lakescan.table(tmp_path / "clone")) == [3, 4, 5]


def test_orphans_of_a_clone_are_its_own_files_alone(source: lakescan.Table, tmp_path: Path) -> None:
    source.clone(tmp_path / "clone")
    clone = lakescan.table(tmp_path / "clone")
    clone.append(rows(7))
    before = files(Path(source.location))
    clone.remove_orphans()
    assert files(Path(source.location)) == before
    assert ids(clone) == [3, 4, 5, 7]


def test_a_clone_of_a_clone_reads_the_first_ones_files(source: lakescan.Table, tmp_path: Path) -> None:
    source.clone(tmp_path / "one")
    lakescan.table(tmp_path / "one").append(rows(7))
    lakescan.table(tmp_path / "one").clone(tmp_path / "two")
    assert ids(lakescan.table(tmp_path / "two")) == [3, 4, 5, 7]


def test_properties_of_the_clone(source: lakescan.Table, tmp_path: Path) -> None:
    source.clone(tmp_path / "clone", properties={"owner": "you", "delta.enableChangeDataFeed": True})
    clone = lakescan.table(tmp_path / "clone")
    assert (clone.properties["owner"], clone.properties["delta.enableChangeDataFeed"]) == ("you", "true")
    assert "changeDataFeed" in state(tmp_path / "clone")[0].features
    with pytest.raises(lakescan.InvalidOption, match="Did you mean"):
        source.clone(tmp_path / "other", properties={"delta.enableChangeDataFeeds": "true"})
    assert not (tmp_path / "other").exists()


def test_rows_of_a_clone_have_ids_of_their_own(source: lakescan.Table, tmp_path: Path) -> None:
    source.alter().set_properties({"delta.enableRowTracking": True, "delta.enableInCommitTimestamps": True}).commit()
    source.compact(rewrite_all=True, min_input_files=1)
    source.clone(tmp_path / "clone")
    clone = lakescan.table(tmp_path / "clone")
    clone.append(rows(8))
    found = clone.scan().select("_row_id").to_arrow()["_row_id"].to_pylist()
    assert len(set(found)) == 4
    assert None not in found


def test_clustering_columns_are_cloned(tmp_path: Path) -> None:
    lakescan.save(rows(1), tmp_path / "t", format="delta")
    table = lakescan.table(tmp_path / "t")
    table.alter().cluster_by("id").commit()
    table.clone(tmp_path / "clone")
    assert lakescan.table(tmp_path / "clone").inspect("detail")["clusteringColumns"].to_pylist() == [["id"]]


def test_a_folder_with_a_table_is_refused(source: lakescan.Table, tmp_path: Path) -> None:
    source.clone(tmp_path / "clone")
    with pytest.raises(lakescan.CreatedConcurrently):
        source.clone(tmp_path / "clone")


def test_a_clone_has_a_name(source: lakescan.Table, local: lakescan.Catalog) -> None:
    clone = local.clone_table("db.clone", source, version=2)
    assert ids(clone) == [3, 4]
    assert "db.clone" in local.list_tables("db")
    with pytest.raises(lakescan.TableExists):
        local.clone_table("db.clone", source)
    assert ids(local.clone_table("db.clone", source, exist_ok=True)) == [3, 4]
    with pytest.raises(lakescan.NoSuchSnapshot):
        local.clone_table("db.other", source, version=99)


def test_an_iceberg_table_is_not_cloned(local: lakescan.Catalog, tmp_path: Path) -> None:
    table = local.create_table("db.t", rows(1).schema)
    with pytest.raises(lakescan.UnsupportedFeature, match="create_branch"):
        table.clone(tmp_path / "clone")
