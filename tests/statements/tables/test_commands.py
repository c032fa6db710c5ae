"""CALL of procedures, and Delta's commands, in SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakescan


@pytest.fixture
def lake(tmp_path: Path) -> lakescan.Catalog:
    catalog = lakescan.catalog("lake", warehouse=tmp_path / "lake")
    catalog.create_namespace("shop")
    return catalog


@pytest.fixture
def orders(lake: lakescan.Catalog) -> lakescan.Table:
    made = lake.create_table("shop.orders", "id BIGINT")
    for number in range(3):
        made.append(pa.table({"id": [number]}))
    return made


@pytest.fixture
def events(tmp_path: Path) -> str:
    folder = f"{tmp_path}/events"
    lakescan.sql(f"CREATE TABLE delta.`{folder}` (id BIGINT, k STRING)")
    for number in range(3):
        lakescan.sql(f"INSERT INTO delta.`{folder}` VALUES ({number}, 'a'), ({number + 10}, 'b')")
    return folder


def rows(text: str, **arguments: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lakescan.sql(text, **arguments).to_arrow().to_pylist()
    return found


def test_a_procedure_is_called_by_position_and_by_name(orders: lakescan.Table) -> None:
    first, *_, last = orders.history()["snapshot_id"].to_pylist()
    found = rows(f"CALL lake.system.rollback_to_snapshot('shop.orders', {first})")
    assert found == [{"previous_snapshot_id": last, "current_snapshot_id": first}]
    assert orders.refresh().count() == 1
    rows("CALL lake.system.set_current_snapshot(snapshot_id => :id, table => 'shop.orders')", args={"id": last})
    assert orders.refresh().count() == 3


def test_files_are_rewritten_by_a_procedure(orders: lakescan.Table) -> None:
    [found] = rows("CALL lake.system.rewrite_data_files(table => 'shop.orders', options => map('rewrite-all', 'true'))")
    assert (found["rewritten_data_files_count"], found["added_data_files_count"]) == (3, 1)


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("CALL lake.system.rolback_to_snapshot('shop.orders', 1)", lakescan.InvalidOption, "Did you mean"),
        ("CALL lake.system.rollback_to_snapshot('shop.orders')", lakescan.InvalidOption, "snapshot_id"),
        ("CALL nope.system.expire_snapshots('shop.orders')", lakescan.NoSuchCatalog, "CALL catalog.system"),
        ("CALL lake.system.migrate('shop.orders')", lakescan.UnsupportedFeature, "migrate"),
    ],
)
def test_invalid_calls_are_refused_with_the_reason(
    orders, statement: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lakescan.sql(statement)


def test_optimize_compacts_and_sorts_along_a_curve(events: str) -> None:
    [found] = rows(f"OPTIMIZE delta.`{events}` ZORDER BY (k, id)")
    assert (found["metrics"]["numFilesRemoved"], found["metrics"]["numFilesAdded"]) == (3, 1)
    assert [row["operation"] for row in rows(f"DESCRIBE HISTORY '{events}' LIMIT 1")] == ["OPTIMIZE"]
    with pytest.raises(lakescan.InvalidStatement, match="FULL is for clustered tables"):
        lakescan.sql(f"OPTIMIZE delta.`{events}` FULL")


@pytest.mark.parametrize("command", ["OPTIMIZE {} WHERE {}", "REORG TABLE {} WHERE {} APPLY (PURGE)"])
def test_commands_of_delta_accept_only_partition_filters(tmp_path: Path, command: str) -> None:
    name = f"delta.`{tmp_path}/parts`"
    lakescan.sql(f"CREATE TABLE {name} (id BIGINT, Part STRING) PARTITIONED BY (Part)")
    for number in range(2):
        lakescan.sql(f"INSERT INTO {name} VALUES ({number}, 'a'), ({number}, 'b')")
    for where, column in (("id = 1", "id"), ("Part = 'a' AND id + 1 > 2", "id"), ("nope = 1", "nope")):
        with pytest.raises(lakescan.InvalidStatement, match=f"refers to '{column}', which is not a partition column"):
            lakescan.sql(command.format(name, where))
    assert lakescan.table(f"{tmp_path}/parts").history().num_rows == 3
    rows(command.format(name, "Part = 'a'"))
    assert lakescan.table(f"{tmp_path}/parts").compact(where="id >= 0").removed_files > 0


def test_commands_of_delta_refuse_filters_without_partitions(events: str) -> None:
    with pytest.raises(lakescan.InvalidStatement, match=r"'id', .* Partition columns: none"):
        lakescan.sql(f"OPTIMIZE delta.`{events}` WHERE id = 1")
    lakescan.sql(f"ALTER TABLE delta.`{events}` CLUSTER BY (k)")
    with pytest.raises(lakescan.InvalidStatement, match="clustered by k: leave WHERE out"):
        lakescan.sql(f"OPTIMIZE delta.`{events}` WHERE k = 'a'")


def test_optimize_of_iceberg_accepts_any_filter(orders: lakescan.Table) -> None:
    [found] = rows("OPTIMIZE lake.shop.orders WHERE id < 2")
    assert found["metrics"]["numFilesRemoved"] == 2


def test_optimize_of_a_clustered_table_clusters_it(events: str) -> None:
    lakescan.sql(f"ALTER TABLE delta.`{events}` CLUSTER BY (k)")
    [found] = rows(f"OPTIMIZE delta.`{events}` FULL")
    assert found["metrics"]["numFilesAdded"] == 1
    with pytest.raises(lakescan.InvalidStatement, match="clustered by k: leave ZORDER BY out"):
        lakescan.sql(f"OPTIMIZE delta.`{events}` ZORDER BY (id)")


def test_reorg_writes_files_without_their_deleted_rows(events: str) -> None:
    lakescan.sql(f"ALTER TABLE delta.`{events}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    lakescan.sql(f"DELETE FROM delta.`{events}` WHERE id = 11")
    [found] = rows(f"REORG TABLE delta.`{events}` APPLY (PURGE)")
    assert found["metrics"]["numFilesRemoved"] == 1
    assert lakescan.table(events).count() == 5


def test_restore_restores_an_earlier_version(events: str) -> None:
    [found] = rows(f"RESTORE TABLE delta.`{events}` TO VERSION AS OF 1")
    assert (found["num_of_files_after_restore"], found["num_removed_files"]) == (1, 2)
    assert lakescan.table(events).count() == 2


def test_vacuum_lists_what_it_would_remove(events: str) -> None:
    assert rows(f"VACUUM delta.`{events}` DRY RUN") == []
    assert rows(f"VACUUM '{events}' RETAIN 200 HOURS") == [{"path": lakescan.table(events).folder}]
    with pytest.raises(lakescan.InvalidOption, match="Retain at least 24 hours"):
        lakescan.sql(f"VACUUM delta.`{events}` RETAIN 0 HOURS")


def test_vacuum_can_use_the_log_or_an_inventory(events: str) -> None:
    assert rows(f"VACUUM delta.`{events}` LITE DRY RUN") == []
    old = {"path": [f"{events}/old.parquet"], "length": [4], "isDir": [False], "modificationTime": [0]}
    Path(f"{events}/old.parquet").write_bytes(b"PAR1")
    found = rows(f"VACUUM delta.`{events}` USING INVENTORY (SELECT * FROM files) DRY RUN", files=pa.table(old))
    assert [row["path"].rpartition("/")[2] for row in found] == ["old.parquet"]


def test_symlink_manifests_are_generated(events: str) -> None:
    lakescan.sql(f"GENERATE symlink_format_manifest FOR TABLE delta.`{events}`")
    [manifest] = Path(events, "_symlink_format_manifest").glob("manifest")
    assert len(manifest.read_text().split()) == 3


def test_a_folder_of_parquet_files_becomes_a_delta_table(tmp_path: Path) -> None:
    (tmp_path / "old" / "day=2026-01-31").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "old" / "day=2026-01-31" / "a.parquet")
    made = lakescan.sql(f"CONVERT TO DELTA parquet.`{tmp_path}/old` PARTITIONED BY (day DATE)")
    assert (made.partitioning, made.count()) == ("day", 2)
    with pytest.raises(lakescan.UnsupportedFeature, match="Name the folder of Parquet files"):
        lakescan.sql("CONVERT TO DELTA lake.shop.t")


def test_a_table_is_cloned_in_an_earlier_version(lake: lakescan.Catalog, events: str, tmp_path: Path) -> None:
    made = lakescan.sql(f"CREATE TABLE lake.shop.clone SHALLOW CLONE delta.`{events}` VERSION AS OF 2")
    assert (made.format, made.count()) == ("delta", 4)
    lakescan.sql("INSERT INTO lake.shop.clone VALUES (7, 'c')")
    assert (lakescan.table("lake.shop.clone").count(), lakescan.table(events).count()) == (5, 6)
    folder = lakescan.sql(f"CREATE TABLE delta.`{tmp_path}/other` SHALLOW CLONE '{events}' TBLPROPERTIES ('a' = 'b')")
    assert (folder.count(), folder.properties["a"]) == (6, "b")
    with pytest.raises(lakescan.TableExists):
        lakescan.sql(f"CREATE TABLE lake.shop.clone SHALLOW CLONE delta.`{events}`")
    with pytest.raises(lakescan.InvalidStatement, match=r"'main' is neither\. Branches and tags cannot be cloned"):
        lakescan.sql(f"CREATE TABLE lake.shop.named SHALLOW CLONE delta.`{events}` VERSION AS OF 'main'")
    assert lakescan.sql(f"CREATE TABLE IF NOT EXISTS lake.shop.clone SHALLOW CLONE delta.`{events}`").count() == 5
    with pytest.raises(lakescan.UnsupportedFeature, match="which has rows"):
        lakescan.sql(f"CREATE OR REPLACE TABLE lake.shop.clone SHALLOW CLONE delta.`{events}`")
    for name in ("lake.shop.clone", f"delta.`{tmp_path}/other`"):
        lakescan.sql(f"DELETE FROM {name} WHERE true")
        text = f"REPLACE TABLE {name} SHALLOW CLONE delta.`{events}` VERSION AS OF 2 TBLPROPERTIES ('a' = 'c')"
        replaced = lakescan.sql(text)
        assert (replaced.count(), replaced.properties["a"]) == (4, "c")
    with pytest.raises(lakescan.NoSuchTable):
        lakescan.sql(f"REPLACE TABLE lake.shop.none SHALLOW CLONE delta.`{events}`")
    with pytest.raises(lakescan.NoSuchTable):
        lakescan.sql(f"REPLACE TABLE delta.`{tmp_path}/none` SHALLOW CLONE delta.`{events}`")
    assert lakescan.sql(f"CREATE OR REPLACE TABLE lake.shop.none SHALLOW CLONE delta.`{events}`").count() == 6
    with pytest.raises(lakescan.InvalidStatement, match="leave LOCATION out"):
        lakescan.sql(f"CREATE TABLE delta.`{tmp_path}/x` SHALLOW CLONE delta.`{events}` LOCATION '/elsewhere'")
    with pytest.raises(lakescan.InvalidStatement, match="only TBLPROPERTIES and LOCATION"):
        lakescan.sql(f"CREATE TABLE lake.shop.x SHALLOW CLONE delta.`{events}` COMMENT 'no'")


@pytest.mark.parametrize("words", ["CLONE", "DEEP CLONE"])
def test_clones_that_copy_files_are_refused_by_name(events: str, words: str) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match="DEEP CLONE"):
        lakescan.sql(f"CREATE TABLE lake.shop.copy {words} delta.`{events}`")


def test_arguments_of_call_may_be_expressions_without_columns(orders: lakescan.Table) -> None:
    rows("CALL lake.system.expire_snapshots(table => 'shop.orders', retain_last => 1, older_than => now())")
    assert len(orders.refresh().history()) == 1
    with pytest.raises(lakescan.errors.InvalidStatement, match=r"id \+ 1 is not a constant"):
        rows("CALL lake.system.expire_snapshots(table => 'shop.orders', retain_last => id + 1)")


def test_rewrites_record_their_files_as_delta_does(events: str) -> None:
    lakescan.sql(f"OPTIMIZE delta.`{events}`").to_arrow()
    last = lakescan.table(events).history().to_pylist()[-1]
    metrics = dict(last["operationMetrics"])
    assert (last["operation"], metrics["numRemovedFiles"], metrics["numAddedFiles"]) == ("OPTIMIZE", "3", "1")
    assert metrics["minFileSize"] == metrics["p50FileSize"] == metrics["maxFileSize"] == metrics["numAddedBytes"]
    lakescan.sql(f"ALTER TABLE delta.`{events}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    lakescan.sql(f"DELETE FROM delta.`{events}` WHERE id = 1")
    lakescan.sql(f"REORG TABLE delta.`{events}` APPLY (PURGE)").to_arrow()
    last = lakescan.table(events).history().to_pylist()[-1]
    assert (last["operation"], dict(last["operationParameters"])["applyPurge"]) == ("REORG", "true")
    assert dict(last["operationMetrics"])["numDeletionVectorsRemoved"] == "1"


def test_procedures_are_listed(lake: lakescan.Catalog) -> None:
    found = rows("SHOW PROCEDURES IN lake.system LIKE 'rollback*'")
    assert [each["procedure_name"] for each in found] == ["rollback_to_snapshot", "rollback_to_timestamp"]
    assert found[0]["namespace"] == ["system"]
    assert rows("SHOW PROCEDURES IN lake.shop") == []


def test_vacuum_records_its_start_and_end_as_delta_does(events: str) -> None:
    lakescan.sql(f"VACUUM delta.`{events}` DRY RUN")
    lakescan.sql(f"VACUUM delta.`{events}`")
    history = rows(f"DESCRIBE HISTORY delta.`{events}`")
    assert [each["operation"] for each in history[:3]] == ["VACUUM END", "VACUUM START", "WRITE"]
    assert dict(history[0]["operationParameters"]) == {"status": "COMPLETED"}
    assert dict(history[1]["operationMetrics"]) == {"numFilesToDelete": "0", "sizeOfDataToDelete": "0"}


@pytest.mark.parametrize("command", ["CREATE OR REPLACE TABLE", "REPLACE TABLE"])
def test_a_replaced_delta_table_records_the_command(lake: lakescan.Catalog, command: str) -> None:
    lakescan.sql("CREATE TABLE lake.shop.d (id BIGINT) USING delta")
    lakescan.sql(f"{command} lake.shop.d USING delta AS SELECT 1 AS id")
    history = rows("DESCRIBE HISTORY lake.shop.d")
    assert [each["operation"] for each in history] == [f"{command} AS SELECT", "CREATE TABLE"]
    assert history[1]["isBlindAppend"]
