"""`history`, `detail` and `files` of Delta tables; row tracking; mismatching checksums are reported."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from samples.delta_deletes import commit_vectors, inline_vector

import lakescan
from tests.support.rows import differences


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a table of two files in two partitions by two commits; a third commit deletes one row of the first file."""
    folder = tmp_path_factory.mktemp("tables") / "t"
    for name in ("a", "b"):
        rows = pa.table({"id": [1, 2, 3], "p": [name] * 3})
        write_deltalake(folder, rows, mode="append", partition_by=["p"], name="shop", description="what it is for")
    path = next(u for u in DeltaTable(folder).file_uris() if "p=a" in u)
    commit_vectors(folder, {"p=a/" + path.rsplit("/", 1)[1]: inline_vector([1])})
    return folder


def test_history_has_the_oldest_commit_first_and_is_the_tables_history(table: Path) -> None:
    found = lakescan.table(str(table)).inspect("history")
    assert found.equals(lakescan.table(str(table)).history())
    rows = found.to_pylist()
    assert [r["version"] for r in rows] == [0, 1, 2]
    assert rows[1]["operation"] == "WRITE"
    assert dict(rows[1]["operationParameters"])["mode"] == "Append"


def test_history_names_jobs_and_notebooks_as_databricks_records_them(table: Path) -> None:
    file = table / "_delta_log" / f"{2:020d}.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    actions = [each for each in actions if "commitInfo" not in each]
    job = {"jobId": "7", "jobName": "load", "other": 1}
    info = {"timestamp": 0, "operation": "WRITE", "job": job, "notebook": {"notebookId": "9"}}
    file.write_text("\n".join(map(json.dumps, [{"commitInfo": info}, *actions])))
    rows = lakescan.table(table).history().to_pylist()
    absent = dict.fromkeys(("jobRunId", "runId", "jobOwnerId", "triggerType"))
    assert rows[2]["job"] == {"jobId": "7", "jobName": "load", **absent}
    assert [row["notebook"] for row in rows] == [None, None, {"notebookId": "9"}]


def test_detail_is_one_row_about_the_table(table: Path) -> None:
    (row,) = lakescan.table(str(table)).inspect("detail").to_pylist()
    assert (row["format"], row["name"], row["description"]) == ("delta", "shop", "what it is for")
    assert (row["partitionColumns"], row["clusteringColumns"], row["numFiles"]) == (["p"], [], 2)
    assert row["sizeInBytes"] == sum(f.stat().st_size for f in table.glob("p=*/*.parquet"))
    assert (row["minReaderVersion"], "deletionVectors" in row["tableFeatures"]) == (3, True)


def test_detail_has_all_properties_including_column_mapping(tmp_path: Path) -> None:
    given = {"delta.columnMapping.mode": "name", "own": "1"}
    lakescan.save(pa.table({"id": [1], "b": ["x"]}), tmp_path / "t", format="delta", properties=given)
    (row,) = lakescan.table(tmp_path / "t").inspect("detail").to_pylist()
    assert dict(row["properties"]) == {**given, "delta.columnMapping.maxColumnId": "2"}


def test_clustering_columns_are_references_and_optimize_takes_them(tmp_path: Path) -> None:
    rows = pa.table({"a.b": [2, 1], "s": [{"x y": 1}, {"x y": 2}], "1st": [1, 2], "plain": [1, 2]})
    lakescan.save(rows, tmp_path / "t", format="delta", properties={"delta.columnMapping.mode": "name"})
    table = lakescan.table(tmp_path / "t")
    table.alter().cluster_by("`a.b`", "s.`x y`", "1st", "plain").commit()
    assert table.inspect("detail")["clusteringColumns"].to_pylist() == [["`a.b`", "s.`x y`", "`1st`", "plain"]]
    table.append(rows)
    lakescan.sql(f"OPTIMIZE delta.`{tmp_path / 't'}`").to_arrow()
    assert lakescan.table(tmp_path / "t").count() == 4


def test_files_lists_the_files_of_the_version(table: Path) -> None:
    opened = lakescan.table(str(table))
    rows = {r["partition"]["p"]: r for r in opened.inspect("files").to_pylist()}
    assert {p: r["deleted_record_count"] for p, r in rows.items()} == {"a": 1, "b": 0}
    assert json.loads(rows["b"]["stats"])["numRecords"] == 3
    assert opened.inspect("files", version=0).num_rows == 1


def test_partitions_count_files_records_and_deletes(table: Path) -> None:
    opened = lakescan.table(str(table))
    files = {r["partition"]["p"]: r for r in opened.inspect("files").to_pylist()}
    assert opened.inspect("partitions").to_pylist() == [
        {
            "partition": {"p": p},
            "record_count": 3,
            "file_count": 1,
            "total_data_file_size_in_bytes": files[p]["size_in_bytes"],
            "position_delete_record_count": deleted,
            "position_delete_file_count": deleted,
        }
        for p, deleted in (("b", 0), ("a", 1))
    ]
    assert opened.inspect("partitions", version=0)["partition"].to_pylist() == [{"p": "a"}]


def test_partitions_are_compared_by_value_and_unknown_counts_are_null(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    for n in (1, 2, None):
        write_deltalake(folder, pa.table({"id": [1], "n": pa.array([n], pa.int64())}), mode="append", partition_by="n")
    add = {"path": "n=01/x.parquet", "partitionValues": {"n": "01"}, "size": 7, "modificationTime": 0}
    (folder / "_delta_log" / f"{3:020d}.json").write_text(json.dumps({"add": {**add, "dataChange": True}}))
    rows = {r["partition"]["n"]: r for r in lakescan.table(str(folder)).inspect("partitions").to_pylist()}
    assert {n: (r["file_count"], r["record_count"]) for n, r in rows.items()} == {1: (2, None), 2: (1, 1), None: (1, 1)}


def test_an_unpartitioned_table_has_one_partition_if_it_has_files(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    DeltaTable.create(folder, pa.schema([("id", pa.int64())]))
    assert lakescan.table(str(folder)).inspect("partitions").num_rows == 0
    for _ in range(2):
        write_deltalake(folder, pa.table({"id": [1, 2]}), mode="append")
    (row,) = lakescan.table(str(folder)).inspect("partitions").to_pylist()
    assert (row["record_count"], row["file_count"], "partition" in row) == (4, 2, False)


def test_clustering_columns_come_from_the_domain_metadata(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": [1], "k": [2]}))
    configuration = json.dumps({"clusteringColumns": [["k"]]})
    domain = {"domainMetadata": {"domain": "delta.clustering", "configuration": configuration, "removed": False}}
    (folder / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(domain))
    assert lakescan.table(str(folder)).inspect("detail")["clusteringColumns"].to_pylist() == [["k"]]


def test_an_unknown_name_is_refused_with_the_nearest(table: Path) -> None:
    with pytest.raises(lakescan.InvalidOption, match="Did you mean 'detail'"):
        lakescan.table(str(table)).inspect("details")


@pytest.mark.spark
@pytest.mark.parametrize("name", ["history", "detail", "files", "partitions"])
def test_spark_reads_metadata_tables_by_path_and_name(table: Path, spark: Any, name: str) -> None:
    found = spark.read.format("delta").load(f"{table}#{name}").toArrow()
    assert differences(found, lakescan.table(str(table)).inspect(name)) == ""


@pytest.mark.parametrize(("count", "warned"), [(1, False), (2, True)])
def test_a_checksum_that_disagrees_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int, warned: bool
) -> None:
    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": [1]}))
    (file,) = folder.glob("*.parquet")
    checksum = {"tableSizeBytes": file.stat().st_size, "numFiles": count, "numMetadata": 1, "numProtocol": 1}
    (folder / "_delta_log" / f"{0:020d}.crc").write_text(json.dumps(checksum))
    with caplog.at_level(logging.WARNING, "lakescan"):
        assert lakescan.table(str(folder)).scan().to_arrow().num_rows == 1
    assert ("one of them is damaged" in caplog.text) == warned


def test_tracked_rows_keep_their_ids_and_versions(tmp_path: Path) -> None:
    """Without materialized ids, a file's rows count from its base id. Materialized ids apply unless null."""
    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": [1, 2, 3]}))
    log = folder / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    names = {"delta.rowTracking.materializedRowIdColumnName": "_row-id-x"}
    names |= {"delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-y"}
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"] = {"delta.enableRowTracking": "true", **names}
        if "add" in action:
            action["add"] |= {"baseRowId": 10, "defaultRowCommitVersion": 0}
    log.write_text("\n".join(json.dumps(a) for a in actions))
    ids, versions = pa.array([7, None], pa.int64()), pa.array([None, 1], pa.int64())
    moved = pa.table({"id": [4, 5], "_row-id-x": ids, "_row-commit-version-y": versions})
    pq.write_table(moved, folder / "moved.parquet")
    add = {"path": "moved.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
    add |= {"baseRowId": 20, "defaultRowCommitVersion": 2}
    (folder / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"add": add}))
    rows = lakescan.table(str(folder)).scan().select("id", "_row_id", "_row_commit_version").to_arrow().to_pylist()
    found = {r["id"]: (r["_row_id"], r["_row_commit_version"]) for r in rows}
    assert found == {1: (10, 0), 2: (11, 0), 3: (12, 0), 4: (7, 2), 5: (21, 1)}


def test_metadata_columns_give_the_file_and_position_of_rows(table: Path) -> None:
    rows = lakescan.table(str(table)).scan().where("p = 'a'").select("id", "_file", "_pos").to_arrow().to_pylist()
    assert [(r["id"], r["_pos"]) for r in rows] == [(1, 0), (3, 2)]
    assert all("p=a" in r["_file"] for r in rows)


def test_files_without_ids_are_refused_where_columns_are_mapped_by_id(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": [1]}))
    log = folder / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][0]["metadata"] = {
                "delta.columnMapping.id": 1,
                "delta.columnMapping.physicalName": "id",
            }
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "id"}
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
    log.write_text("\n".join(json.dumps(a) for a in actions))
    with pytest.raises(lakescan.CorruptMetadata, match="no field ids"):
        lakescan.table(str(folder)).scan().to_arrow()
