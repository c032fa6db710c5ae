"""Purging a table removes its files, except files that another table references."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.catalogs.registry import connection

ROWS = pa.table({"id": [1, 2]})


def files(folder: Path) -> int:
    return sum(1 for file in folder.rglob("*") if file.is_file() and file.name != "catalog.db")


@pytest.fixture
def table(local: lakescan.Catalog) -> lakescan.Table:
    """Make a table of three snapshots, one of them tagged."""
    made = local.create_table("db.t", "id BIGINT")
    for _ in range(2):
        made.append(ROWS)
    loaded = connection("local").load_table("db.t")
    loaded.manage_snapshots().create_tag(loaded.metadata.current_snapshot_id, "kept").commit()
    local.load_table("db.t").overwrite(ROWS)
    return local.load_table("db.t")


def test_all_files_of_a_table_are_removed(table: lakescan.Table, local: lakescan.Catalog, tmp_path: Path) -> None:
    local.drop_table("db.t", purge=True)
    assert (local.table_exists("db.t"), files(tmp_path)) == (False, 0)


def test_a_table_inside_another_table_stays(table: lakescan.Table, local: lakescan.Catalog, tmp_path: Path) -> None:
    inner = Path(table.scan().spec.table.location.removeprefix("file://")) / "data" / "inner"
    local.create_table("db.inner", "id BIGINT", location=str(inner)).append(ROWS)
    local.drop_table("db.t", purge=True)
    assert local.load_table("db.inner").scan().to_arrow().num_rows == 2
    assert files(tmp_path) == files(inner)


def test_a_table_over_the_files_of_another_keeps_them(table: lakescan.Table, local: lakescan.Catalog) -> None:
    """Iceberg's snapshot procedure makes such tables. The files stay, whichever of the two tables is purged."""
    snapshot = local.create_table("db.snapshot", "id BIGINT", properties={"gc.enabled": "false"})
    source = connection("local").load_table("db.t")
    with (
        connection("local").load_table("db.snapshot").transaction() as transaction,
        transaction.update_snapshot().fast_append() as append,
    ):
        for task in source.scan().plan_files():
            append.append_data_file(task.file)
    with pytest.raises(lakescan.UnsupportedFeature, match=r"gc\.enabled is not true"):
        local.drop_table("db.snapshot", purge=True)
    local.drop_table("db.t", purge=True)
    assert local.load_table("db.snapshot").scan().to_arrow().num_rows == 2
    assert snapshot.format == "iceberg"


def test_tables_that_share_a_folder_of_data_keep_the_files_that_they_reference(local, tmp_path: Path) -> None:
    shared = {"write.data.path": str(tmp_path / "pool")}
    local.create_table("db.t", "id BIGINT", properties=shared).append(ROWS)
    local.create_table("db.other", "id BIGINT", properties=shared)
    connection("local").load_table("db.other").add_files([str(file) for file in tmp_path.rglob("*.parquet")])
    local.drop_table("db.t", purge=True)
    assert local.load_table("db.other").scan().to_arrow() == ROWS


def test_a_table_registered_under_another_name_is_not_purged(table: lakescan.Table, local: lakescan.Catalog) -> None:
    local.create_namespace("other")
    local.register_table("other.again", table.scan().to_options()["path"])
    with pytest.raises(lakescan.UnsupportedFeature, match=r"also registered as other\.again"):
        local.drop_table("db.t", purge=True)
    assert local.load_table("other.again").scan().to_arrow().num_rows == 2
    assert local.load_table("db.t").scan().to_arrow().num_rows == 2


def test_a_table_whose_files_are_unknown_is_not_dropped(table, local: lakescan.Catalog, tmp_path: Path) -> None:
    next(tmp_path.rglob("snap-*.avro")).write_bytes(b"damaged")
    with pytest.raises(lakescan.CorruptMetadata):
        local.drop_table("db.t", purge=True)
    assert local.table_exists("db.t")
    with pytest.raises(lakescan.NoSuchTable):
        local.drop_table("db.nothing", purge=True)
    local.drop_table("db.nothing", purge=True, missing_ok=True)


def test_files_that_were_added_from_other_folders_stay(local: lakescan.Catalog, tmp_path: Path, caplog) -> None:
    """They may belong to another table, such as a Hive table. The log reports that they are kept."""
    theirs = tmp_path / "theirs" / "f.parquet"
    theirs.parent.mkdir()
    pq.write_table(ROWS, theirs)
    made = local.create_table("db.t", "id BIGINT")
    made.append(ROWS)
    connection("local").load_table("db.t").add_files([str(theirs)])
    with caplog.at_level("WARNING", logger="lakescan"):
        local.drop_table("db.t", purge=True)
    assert f"1 files in other folders were added from there and are kept, {theirs}" in caplog.text
    assert (files(tmp_path), theirs.exists()) == (1, True)
