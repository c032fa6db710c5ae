"""compute_table_stats and compute_partition_stats: the content of their files, and references in the metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.errors import CommitStateUnknown, NoSuchColumn, NoSuchSnapshot, UnsupportedFeature
from tests.statements.procedures.conftest import Called
from tests.support.workers import Workers
from tests.tables.support import maker, now, rows


def metadata() -> Any:
    """Return the table's metadata from its catalog."""
    return connection("local").load_table("db.t").metadata


def path_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def footer_of(location: str) -> tuple[dict[str, Any], bytes]:
    """Return the footer of a Puffin file, and the whole file."""
    data = path_of(location).read_bytes()
    size = int.from_bytes(data[-12:-8], "little")
    return json.loads(data[-12 - size : -12]), data


def test_numbers_of_distinct_values_are_in_the_metadata(table: lakescan.Table, call: Called) -> None:
    table.delete("id = 1")
    table.append(rows((2, "b"), (3, None)))
    (row,) = call("compute_table_stats", "db.t").to_pylist()
    (file,) = metadata().statistics
    assert row == {"statistics_file": file.statistics_path}
    assert file.snapshot_id == now().version
    assert [(each.fields, each.properties) for each in file.blob_metadata] == [([1], {"ndv": "2"}), ([2], {"ndv": "2"})]
    footer, data = footer_of(file.statistics_path)
    assert (len(data), file.file_size_in_bytes) == (file.file_size_in_bytes, len(data))
    assert data[-file.file_footer_size_in_bytes :][:4] == b"PFA1"
    blob = footer["blobs"][0]
    assert blob["compression-codec"] == "zstd"
    assert blob["snapshot-id"] == now().version
    assert now().compute_statistics(["id"]).distinct_values == {"id": 2}
    assert len(metadata().statistics) == 1  # a snapshot has one file


def test_statistics_can_be_of_an_earlier_snapshot_and_of_members(local: lakescan.Catalog, call: Called) -> None:
    table = local.create_table("db.t", "id BIGINT, s STRUCT<`a.b`: INT, l ARRAY<INT>>")
    assert call("compute_table_stats", "db.t").num_rows == 0
    table.append(pa.table({"id": [1, 2], "s": [{"a.b": 5, "l": [1]}] * 2}))
    first = table.version
    table.append(pa.table({"id": [3], "s": [None]}))
    result = table.compute_statistics(["s.`a.b`", "id"], version=first)
    assert result.distinct_values == {"s.`a.b`": 1, "id": 2}
    assert str(result) == "distinct values: s.`a.b` 1, id 2"
    assert [each.snapshot_id for each in metadata().statistics] == [first]
    for columns, error in ((["s"], UnsupportedFeature), (["s.l.element"], UnsupportedFeature), (["x"], NoSuchColumn)):
        with pytest.raises(error):
            call("compute_table_stats", table="db.t", columns=columns)
    with pytest.raises(NoSuchSnapshot):
        call("compute_table_stats", "db.t", 7)


def test_parts_made_by_workers_are_merged(local: lakescan.Catalog) -> None:
    """Sketches are the same in whatever parts they are made, even with more values than they hold."""
    table = local.create_table("db.t", "id BIGINT, part STRING", partition_by=("part",))
    for start in (0, 4000, 8000):
        table.append(pa.table({"id": range(start, start + 5000), "part": [str(start)] * 5000}))
    here = table.compute_statistics()
    assert abs(here.distinct_values["id"] - 13000) < 800
    assert table.compute_statistics(executor=Workers()).distinct_values == here.distinct_values
    counted = [table.compute_partition_statistics(executor=each).location for each in (Workers(), None)]
    assert counted[0] == counted[1]


@pytest.mark.slow
def test_a_file_that_the_metadata_does_not_name_is_removed(table: lakescan.Table, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import ValidationException

    with patch.object(SqlCatalog, "commit_table", side_effect=ValidationException("no")):
        table.alter().set_properties({"commit.retry.num-retries": "0"})
        with pytest.raises(lakescan.LakescanError):
            lakescan.table("local.db.t").compute_statistics()
    assert list(tmp_path.rglob("*.stats")) == []


def test_a_file_of_a_commit_whose_answer_was_lost_stays(table: lakescan.Table, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    original = SqlCatalog.commit_table

    def lost(self: Any, *arguments: Any) -> Any:
        original(self, *arguments)
        raise OSError("the connection broke")

    with patch.object(SqlCatalog, "commit_table", lost):
        result = table.compute_statistics()
    assert path_of(str(result.location)).exists()
    with (
        patch.object(SqlCatalog, "commit_table", side_effect=OSError("broke before")),
        pytest.raises(CommitStateUnknown),
    ):
        table.compute_statistics()
    assert len(list(tmp_path.rglob("*.stats"))) == 2


def test_statistics_are_removed_with_their_snapshot(table: lakescan.Table, call: Called, tmp_path: Path) -> None:
    call("compute_table_stats", "db.t")
    call("compute_partition_stats", "db.t")
    table.append(rows((9, "z")))
    result = call("expire_snapshots", "db.t", "2100-01-01").to_pylist()[0]
    assert result["deleted_statistics_files_count"] == 2
    assert (metadata().statistics, metadata().partition_statistics) == ([], [])
    assert [*tmp_path.rglob("*.stats"), *tmp_path.rglob("partition-stats-*")] == []


@pytest.mark.parametrize("kind", ["iceberg version 2", "iceberg version 3"])
def test_partitions_are_counted(local: lakescan.Catalog, call: Called, kind: str) -> None:
    table = maker(kind, local)(properties={"write.delete.mode": "merge-on-read"})
    table.append(rows((1, "a"), (2, "a"), (3, None)))
    first = table.version
    table.delete("id = 1")
    (row,) = call("compute_partition_stats", "db.t").to_pylist()
    (file,) = metadata().partition_statistics
    assert row == {"partition_statistics_file": file.statistics_path}
    assert file.file_size_in_bytes == path_of(file.statistics_path).stat().st_size
    found = pq.read_table(path_of(file.statistics_path))
    vectors = {"dv_count": 1} if kind.endswith("3") else {}
    assert found.select([name for name in found.column_names if "last" not in name and "size" not in name])[
        1:
    ].to_pylist() == [
        {
            "partition": {"part": "a"},
            "spec_id": 0,
            "data_record_count": 2,
            "data_file_count": 1,
            "position_delete_record_count": 1,
            "position_delete_file_count": 0 if vectors else 1,
            "equality_delete_record_count": 0,
            "equality_delete_file_count": 0,
            "total_record_count": None,
            **vectors,
        }
    ]
    assert found["partition"][0].as_py() == {"part": None}  # nulls are first
    assert found["last_updated_snapshot_id"].to_pylist() == [first, table.version]
    assert call("compute_partition_stats", "db.t").to_pylist() == [row]  # the statistics exist already


def test_partitions_of_uuids_are_counted(local: lakescan.Catalog) -> None:
    columns = pa.schema([("key", pa.uuid()), ("id", pa.int64())])
    table = local.create_table("db.keys", columns, partition_by=["key"])
    keys = [bytes([number]) * 16 for number in (1, 2, 2)]
    table.append(pa.table({"key": pa.array(keys, pa.uuid()), "id": [1, 2, 3]}))
    counts = whole(table.compute_partition_statistics().location)
    assert sorted(counts["data_record_count"].to_pylist()) == [1, 2]


def whole(location: str | None) -> pa.Table:
    return pq.read_table(path_of(str(location))).drop_columns(["last_updated_at"])


def test_partition_counts_are_updated_incrementally(local: lakescan.Catalog) -> None:
    """Incremental counts equal those of all manifests, whatever the commits did."""
    table = maker("iceberg version 3", local)(properties={"write.delete.mode": "merge-on-read"})
    table.append(rows((1, "a"), (2, "a"), (3, "b")))
    table.compute_partition_statistics()
    table.delete("id = 1")
    table.append(rows((4, "c"), (5, "c")))
    table.alter().add_partition_field("bucket(2, id)").commit()
    table.append(rows((6, "c")))
    table.rewrite_manifests()
    table.delete("part = 'b'")
    table.compact(rewrite_all=True)
    with patch("lakescan.iceberg.maintenance.compute_statistics.snapshot_manifests", side_effect=AssertionError):
        added = whole(table.compute_partition_statistics().location)
    for each in metadata().partition_statistics:
        path_of(each.statistics_path).unlink()
    table.append(rows((7, "a")))
    table.delete("id = 7")
    assert live(whole(table.compute_partition_statistics().location)) == live(added)


def live(counts: pa.Table) -> list[dict[str, Any]]:
    """Return the partitions with data files. Others may have zeros, as long as manifests list their removed files."""
    names = [name for name in counts.column_names if name.endswith(("count", "bytes", "partition", "spec_id"))]
    return [row for row in counts.select(names).to_pylist() if row["data_file_count"]]


def test_counts_that_contradict_the_commits_are_ignored(local: lakescan.Catalog) -> None:
    table = maker("iceberg version 2", local)()
    table.append(rows((1, "a"), (2, "b")))
    location = path_of(str(table.compute_partition_statistics().location))
    wrong = pq.read_table(location)
    place = wrong.schema.get_field_index("data_file_count")
    pq.write_table(wrong.set_column(place, wrong.schema.field(place), pa.array([0, 0], pa.int32())), location)
    table.delete("part = 'a'")
    found = whole(table.compute_partition_statistics().location)
    assert found["data_file_count"].to_pylist() == [0, 1]


def test_tables_without_partitions_or_of_another_format_are_refused(local: lakescan.Catalog, call: Called) -> None:
    local.create_table("db.flat", "id BIGINT").append(pa.table({"id": [1]}))
    with pytest.raises(UnsupportedFeature, match="not partitioned"):
        call("compute_partition_stats", "db.flat")
    local.create_table("db.delta", "id BIGINT", format="delta")
    for name in ("compute_table_stats", "compute_partition_stats"):
        with pytest.raises(UnsupportedFeature, match="Delta table"):
            call(name, "db.delta")
