"""Clones of Delta tables have the rows of a version without copying files, and then change independently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.delta.commit import clone as cloned
from tests.support.delta_state import newest_version, state
from tests.support.two_commits import save_in_two_commits


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "part": ["a b" if n % 2 else "c%20d" for n in ids]})


@pytest.fixture(params=[(), ("part",)], ids=["", "partitioned"])
def source(tmp_path: Path, request: pytest.FixtureRequest) -> lakescan.Table:
    """Version 1 has 1 to 4, version 2 lacks 1 and 2 (by vectors), version 3 adds 5; its folder has odd letters."""
    folder = tmp_path / "the source, 100%"
    properties = {"delta.enableDeletionVectors": "true", "owner": "me"}
    save_in_two_commits(rows(1, 2, 3, 4), folder, format="delta", partition_by=request.param, properties=properties)
    table = lakescan.table(folder)
    table.delete("id < 3")
    table.append(rows(5))
    return table


def ids(table: lakescan.Table) -> list[int]:
    return sorted(table.refresh().to_arrow()["id"].to_pylist())


def files(folder: Path) -> set[str]:
    return {str(file) for file in folder.rglob("*") if file.is_file() and "_delta_log" not in file.parts}


def test_a_clone_has_the_rows_without_copying_files(source: lakescan.Table, tmp_path: Path) -> None:
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


def test_both_tables_change_independently(source: lakescan.Table, tmp_path: Path) -> None:
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


def test_orphans_of_a_clone_are_only_its_own_files(source: lakescan.Table, tmp_path: Path) -> None:
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


def test_a_clone_can_have_other_properties(source: lakescan.Table, tmp_path: Path) -> None:
    source.clone(tmp_path / "clone", properties={"owner": "you", "delta.enableChangeDataFeed": True})
    clone = lakescan.table(tmp_path / "clone")
    assert (clone.properties["owner"], clone.properties["delta.enableChangeDataFeed"]) == ("you", "true")
    assert "changeDataFeed" in state(tmp_path / "clone")[0].features
    with pytest.raises(lakescan.InvalidOption, match="Did you mean"):
        source.clone(tmp_path / "other", properties={"delta.enableChangeDataFeeds": "true"})
    assert not (tmp_path / "other").exists()


def test_rows_of_a_clone_have_their_own_ids(source: lakescan.Table, tmp_path: Path) -> None:
    source.alter().set_properties({"delta.enableRowTracking": True, "delta.enableInCommitTimestamps": True}).commit()
    source.compact(rewrite_all=True, min_input_files=1)
    source.clone(tmp_path / "clone")
    clone = lakescan.table(tmp_path / "clone")
    clone.append(rows(8))
    found = clone.scan().select("_row_id").to_arrow()["_row_id"].to_pylist()
    assert len(set(found)) == 4
    assert None not in found


def test_clustering_columns_are_cloned(tmp_path: Path) -> None:
    save_in_two_commits(rows(1), tmp_path / "t", format="delta")
    table = lakescan.table(tmp_path / "t")
    table.alter().cluster_by("id").commit()
    table.clone(tmp_path / "clone")
    assert lakescan.table(tmp_path / "clone").inspect("detail")["clusteringColumns"].to_pylist() == [["id"]]


def test_a_folder_with_a_table_is_refused(source: lakescan.Table, tmp_path: Path) -> None:
    source.clone(tmp_path / "clone")
    with pytest.raises(lakescan.CreatedConcurrently):
        source.clone(tmp_path / "clone")


def empty(folder: Path, **properties: str) -> lakescan.Table:
    """Make an empty table that had rows of other columns, partitioned by one of them."""
    other = pa.table({"n": [1.5], "day": ["a"]})
    save_in_two_commits(other, folder, format="delta", partition_by="day", properties=properties)
    lakescan.table(folder).delete("n > 0")
    return lakescan.table(folder)


def test_a_clone_can_replace_an_empty_table(source: lakescan.Table, tmp_path: Path) -> None:
    table = empty(tmp_path / "t", owner="you", kept="no")
    identity = state(tmp_path / "t")[1].id
    result = source.clone(tmp_path / "t", replace=True)
    assert result.version == 3
    clone = lakescan.table(tmp_path / "t")
    assert ids(clone) == [3, 4, 5]
    assert (clone.schema.names, clone.partitioning) == (source.schema.names, source.partitioning)
    assert clone.properties == source.properties
    assert state(tmp_path / "t")[1].id == identity
    assert clone.history()["operation"].to_pylist()[-1] == "CLONE"
    assert table.scan().as_of(version=1).to_arrow()["n"].to_pylist() == [1.5]
    clone.append(rows(9))
    assert ids(clone) == [3, 4, 5, 9]


def test_a_clone_onto_rows_is_refused_and_changes_nothing(source: lakescan.Table, tmp_path: Path) -> None:
    save_in_two_commits(rows(1), tmp_path / "t", format="delta")
    before = newest_version(tmp_path / "t")
    with pytest.raises(lakescan.UnsupportedFeature, match="which has rows"):
        source.clone(tmp_path / "t", replace=True)
    assert newest_version(tmp_path / "t") == before


def test_concurrently_added_rows_are_not_replaced(
    source: lakescan.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty(tmp_path / "t")
    real = cloned.DeltaCommit.commit

    def late(commit: Any) -> int:
        monkeypatch.setattr(cloned.DeltaCommit, "commit", real)
        lakescan.table(tmp_path / "t").append(pa.table({"n": [2.5], "day": ["b"]}))
        return real(commit)

    monkeypatch.setattr(cloned.DeltaCommit, "commit", late)
    with pytest.raises(lakescan.CommitConflict):
        source.clone(tmp_path / "t", replace=True)
    assert lakescan.table(tmp_path / "t").to_arrow()["n"].to_pylist() == [2.5]


def test_a_clone_keeps_the_mode_of_column_mapping(source: lakescan.Table, tmp_path: Path) -> None:
    empty(tmp_path / "t", **{"delta.columnMapping.mode": "name"})
    with pytest.raises(lakescan.UnsupportedFeature, match=r"columnMapping.mode is 'name'.*Drop the table first"):
        source.clone(tmp_path / "t", replace=True)


def test_features_and_row_ids_of_the_replaced_table_are_kept(tmp_path: Path) -> None:
    """Row ids continue, and features stay; clustering columns go if the clone has none."""
    tracked = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}
    save_in_two_commits(rows(1, 2), tmp_path / "t", format="delta", properties=tracked)
    table = lakescan.table(tmp_path / "t")
    table.alter().cluster_by("id").commit()
    table.overwrite(rows().slice(0, 0))
    save_in_two_commits(rows(1, 2), tmp_path / "s", format="delta", properties={"delta.enableRowTracking": "true"})
    lakescan.table(tmp_path / "s").clone(tmp_path / "t", replace=True)
    clone = lakescan.table(tmp_path / "t")
    assert min(clone.scan().select("_row_id").to_arrow()["_row_id"].to_pylist()) >= 2
    assert {"deletionVectors", "rowTracking", "clustering"} <= state(tmp_path / "t")[0].features
    assert clone.inspect("detail")["clusteringColumns"].to_pylist() == [[]]


def test_identity_columns_continue_after_the_ids_of_both_tables(tmp_path: Path) -> None:
    columns = "(id BIGINT GENERATED ALWAYS AS IDENTITY, n BIGINT) USING delta"
    for name, count in {"s": 2, "t": 5}.items():
        lakescan.sql(f"CREATE TABLE delta.`{tmp_path / name}` {columns}")
        lakescan.table(tmp_path / name).append(pa.table({"n": list(range(count))}))
    lakescan.table(tmp_path / "t").delete("n >= 0")
    lakescan.table(tmp_path / "s").clone(tmp_path / "t", replace=True)
    lakescan.table(tmp_path / "t").append(pa.table({"n": [9]}))
    assert max(ids(lakescan.table(tmp_path / "t"))) == 6


def test_a_clone_has_a_name(source: lakescan.Table, local: lakescan.Catalog) -> None:
    clone = local.clone_table("db.clone", source, version=2)
    assert ids(clone) == [3, 4]
    assert "db.clone" in local.list_tables("db")
    with pytest.raises(lakescan.TableExists):
        local.clone_table("db.clone", source)
    assert ids(local.clone_table("db.clone", source, exist_ok=True)) == [3, 4]
    with pytest.raises(lakescan.NoSuchSnapshot):
        local.clone_table("db.other", source, version=99)
    with pytest.raises(lakescan.UnsupportedFeature, match="which has rows"):
        local.clone_table("db.clone", source, replace=True)
    clone.delete("id > 0")
    with pytest.raises(lakescan.InvalidOption, match="leave location out"):
        local.clone_table("db.clone", source, replace=True, location="/elsewhere")
    assert ids(local.clone_table("db.clone", source, replace=True)) == [3, 4, 5]
    assert ids(local.clone_table("db.new", source, replace=True)) == [3, 4, 5]
    local.create_table("db.iceberg", rows(1).schema)
    with pytest.raises(lakescan.UnsupportedFeature, match="replacing the iceberg table"):
        local.clone_table("db.iceberg", source, replace=True)


def test_an_iceberg_table_is_not_cloned(local: lakescan.Catalog, tmp_path: Path) -> None:
    table = local.create_table("db.t", rows(1).schema)
    with pytest.raises(lakescan.UnsupportedFeature, match="create_branch"):
        table.clone(tmp_path / "clone")
