"""Delta on Spark reads rows that lakescan deleted and changed, and continues; and the other way round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.delta_row_changes import actions, delete, files_to_remove, found, images, mark, target_of, update
from tests.support.delta_state import newest_version
from tests.support.rows import differences

import lakescan
from interop.test_change_files import lineage
from interop.test_delta import written
from interop.test_delta_commits import checked, forget
from lakescan.delta.commit.checkpoint import checkpoint_version
from lakescan.expressions.sql import parse_filter
from lakescan.storage import Storage
from lakescan.tables.row_changes import RowChanges, RowCounts, RowLevelCommand
from lakescan.writing.parquet_writer import write_rows

FEED, IDS = "delta.enableChangeDataFeed", "delta.enableRowTracking"
BY_PART = "PARTITIONED BY (part)"
KINDS: list[tuple[dict[str, str], str]] = [
    ({}, ""),
    ({}, BY_PART),
    ({"delta.columnMapping.mode": "id"}, BY_PART),
    ({"delta.columnMapping.mode": "name", IDS: "true", FEED: "true"}, ""),
    ({"delta.enableInCommitTimestamps": "true", "delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"}, ""),
    ({"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "5", FEED: "true"}, BY_PART),
    ({"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpointInterval": "2"}, "CLUSTER BY (id)"),
]


def made(jvm: Any, warehouse: Path, name: str, properties: dict[str, str], by: str = "") -> tuple[str, Path]:
    """Make a Delta table: ids 0 to 9 in the partition `a`, 10 to 19 in the null partition, without 3 and 12 by vectors."""
    given = ", ".join(f"'{n}'='{v}'" for n, v in {"delta.enableDeletionVectors": "true", **properties}.items())
    statements = [
        f"CREATE TABLE {{t}} (id BIGINT, text STRING, part STRING) USING delta {by} TBLPROPERTIES ({given})",
        "INSERT INTO {t} SELECT id, concat('n', id), 'a' FROM range(0, 10, 1, 1)",
        "INSERT INTO {t} SELECT id, concat('n', id), null FROM range(10, 20, 1, 1)",
        "DELETE FROM {t} WHERE id IN (3, 12)",
    ]
    identifier, location = written(jvm, warehouse, f"{name} {properties} {by}", statements)
    return identifier, Path(location)


def rows(*values: tuple[int, str, str | None]) -> pa.Table:
    names = ("id", "text", "part")
    kinds = pa.schema([("id", pa.int64()), ("text", pa.string()), ("part", pa.string())])
    return pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in values], kinds)


def both_read(jvm: Any, identifier: str, folder: Path) -> list[int]:
    """Return the ids, after checking that both sides read the same rows."""
    forget(jvm)
    theirs, mine = jvm.sql(f"SELECT * FROM {identifier}").toArrow(), lakescan.table(folder).scan().to_arrow()
    assert differences(mine, theirs) == ""
    return sorted(mine["id"].to_pylist())


@pytest.mark.parametrize(("properties", "by"), KINDS, ids=str)
def test_lakescan_and_delta_continue_from_each_other(
    jvm: Any, warehouse: Path, properties: dict[str, str], by: str
) -> None:
    identifier, folder = made(jvm, warehouse, "in turn", properties, by)
    left = [each for each in range(20) if each not in (3, 12)]
    delete(target_of(folder), "id IN (2, 15)")
    left = [each for each in left if each not in (2, 15)]
    assert both_read(jvm, identifier, folder) == left
    assert checked(jvm, str(folder))
    jvm.sql(f"DELETE FROM {identifier} WHERE id IN (0, 16)")
    jvm.sql(f"UPDATE {identifier} SET id = id + 100 WHERE id = 1")
    update(target_of(folder), "id = 14", rows((114, "new", None)))
    left = [each for each in left if each not in (0, 1, 14, 16)] + [101, 114]
    assert both_read(jvm, identifier, folder) == left
    checkpoint_version(str(folder), newest_version(folder), Storage())
    delete(target_of(folder), "part IS NULL AND id < 30")
    jvm.sql(
        f"MERGE INTO {identifier} t USING (SELECT explode(array(4, 101, 500)) AS id) s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 4 THEN DELETE WHEN MATCHED THEN UPDATE SET text = 'merged' "
        "WHEN NOT MATCHED THEN INSERT (id, text) VALUES (s.id, 'inserted')"
    )
    assert both_read(jvm, identifier, folder) == [5, 6, 7, 8, 9, 101, 114, 500]
    assert checked(jvm, str(folder))
    jvm.sql(f"OPTIMIZE {identifier}")
    jvm.sql(f"REORG TABLE {identifier} APPLY (PURGE)")
    assert both_read(jvm, identifier, folder) == [5, 6, 7, 8, 9, 101, 114, 500]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
@pytest.mark.parametrize(("properties", "by"), [({FEED: "true", IDS: "true"}, BY_PART), KINDS[2]], ids=str)
def test_delta_reads_rows_changed_by_lakescan(
    jvm: Any, warehouse: Path, properties: dict[str, str], by: str, mode: str
) -> None:
    identifier, folder = made(jvm, warehouse, f"statements {mode}", properties, by)
    first = newest_version(folder) + 1
    lakescan.table(folder).delete("id IN (2, 15)", row_change_mode=mode)
    lakescan.table(folder).update({"text": "concat(text, '!')"}, where="id IN (4, 16)", row_change_mode=mode)
    source = rows((5, "five", "a"), (17, "gone", None), (30, "new", "b"))
    merge = lakescan.table(folder).merge(source, "t.id = s.id", row_change_mode=mode)
    merge = merge.when_matched_delete("s.text = 'gone'").when_matched_update_all().when_not_matched_insert_all()
    merge.execute()
    left = [each for each in range(20) if each not in (2, 3, 12, 15, 17)] + [30]
    assert both_read(jvm, identifier, folder) == left
    assert checked(jvm, str(folder))
    if FEED in properties:
        reader = jvm.read.format("delta").option("readChangeFeed", "true").option("startingVersion", first)
        theirs = reader.load(str(folder)).toArrow()
        mine = lakescan.table(folder, readChangeFeed=True, startingVersion=first).scan().to_arrow()
        assert differences(mine, theirs) == ""
        kinds = [(row["_change_type"], row["id"]) for row in mine.to_pylist() if row["_commit_version"] == first + 2]
        images = [(f"update_{each}image", 5) for each in ("post", "pre")]
        assert sorted(kinds) == [("delete", 17), ("insert", 30), *images]
    jvm.sql(f"DELETE FROM {identifier} WHERE id IN (4, 30)")
    assert both_read(jvm, identifier, folder) == [each for each in left if each not in (4, 30)]


@pytest.mark.parametrize("by", ["", BY_PART])
def test_both_read_the_same_changes(jvm: Any, warehouse: Path, by: str) -> None:
    identifier, folder = made(jvm, warehouse, "feed", {FEED: "true"}, by)
    first = newest_version(folder) + 1
    delete(target_of(folder), "id IN (2, 15)")  # read from vectors
    target = target_of(folder)
    before, after = rows((4, "n4", "a")), rows((4, "new", "a"))
    kinds = ("update_preimage", before), ("update_postimage", after)
    update(target, "id = 4", after, change_files=images(target, *kinds))
    target = target_of(folder)
    delete(target, "id = 5", change_files=images(target, ("delete", rows((5, "n5", "a")))))
    update(target_of(folder), "id = 6", rows((6, "new", "b")))  # read from files: a delete and an insert
    delete(target_of(folder), "part IS NULL")
    forget(jvm)
    jvm.sql(f"UPDATE {identifier} SET text = 'theirs' WHERE id = 7")
    jvm.sql(f"DELETE FROM {identifier} WHERE id = 8")
    reader = jvm.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    theirs = reader.load(str(folder)).toArrow()
    mine = lakescan.table(folder, readChangeFeed=True, startingVersion=0).scan().to_arrow()
    assert differences(mine, theirs) == ""
    found = [(row["_commit_version"] - first, row["_change_type"], row["id"]) for row in mine.to_pylist()]
    null = [(4, "delete", each) for each in (10, 11, 13, 14, 16, 17, 18, 19)]
    assert sorted(each for each in found if 0 <= each[0] < 5) == [
        (0, "delete", 2),
        (0, "delete", 15),
        (1, "update_postimage", 4),
        (1, "update_preimage", 4),
        (2, "delete", 5),
        (3, "delete", 6),
        (3, "insert", 6),
        *null,
    ]


def test_remaining_rows_keep_their_ids_for_delta(jvm: Any, warehouse: Path) -> None:
    identifier, folder = made(jvm, warehouse, "ids", {IDS: "true"})
    before = lineage(jvm, identifier)
    update(target_of(folder), "id IN (2, 15)", rows((200, "new", "a")))
    forget(jvm)
    after = lineage(jvm, identifier)
    assert {each: after[each] for each in after if each != 200} == {
        each: before[each] for each in before if each not in (2, 15)
    }
    assert after[200] == (max(row_id for row_id, _ in before.values()) + 1, newest_version(folder))
    jvm.sql(f"INSERT INTO {identifier} VALUES (300, 'more', 'a')")
    assert lineage(jvm, identifier)[300][0] > after[200][0]


def test_updated_rows_keep_their_ids_for_delta(jvm: Any, warehouse: Path) -> None:
    identifier, folder = made(jvm, warehouse, "moved ids", {IDS: "true"})
    before, target = lineage(jvm, identifier), target_of(folder)
    moved = rows((200, "new", "a")).append_column("_row_id", [[before[2][0]]])
    moved = moved.append_column("_row_commit_version", pa.nulls(1, pa.int64()))
    files = write_rows(target.writes.lineage_writes, moved.to_batches(), "moved")
    target.change(RowChanges(RowLevelCommand.UPDATE, None, deletes=mark(target, "id = 2"), files=files))
    forget(jvm)
    assert lineage(jvm, identifier) == {n: ids for n, ids in before.items() if n != 2} | {
        200: (before[2][0], newest_version(folder))
    }


def test_a_vacuum_of_delta_keeps_the_vectors(jvm: Any, warehouse: Path) -> None:
    identifier, folder = made(jvm, warehouse, "vacuum", {"delta.randomizeFilePrefixes": "true"})
    left = mark(target_of(folder), "id = 1")
    delete(target_of(folder), "id = 2")
    delete(target_of(folder), "id IN (4, 13)")
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    jvm.conf.set(check, "false")
    try:
        jvm.sql(f"VACUUM {identifier} RETAIN 0 HOURS")
    finally:
        jvm.conf.unset(check)
    assert not Path(left[0].location).exists()
    assert both_read(jvm, identifier, folder) == [n for n in range(20) if n not in (2, 3, 4, 12, 13)]


# Metrics of lakescan's and Delta's statements for the same change. lakescan records no times; file sizes differ.
_TIMES = {"executionTimeMs", "scanTimeMs", "rewriteTimeMs", "materializeSourceTimeMs"}
_SIZES = {"numAddedBytes", "numRemovedBytes", "numTargetBytesAdded", "numTargetBytesRemoved"}


def metrics(folder: Path) -> dict[str, str]:
    info = actions(folder, "commitInfo")[0]
    return {name: value for name, value in info["operationMetrics"].items() if name not in _TIMES | _SIZES}


@pytest.mark.parametrize("mode", ["true", "false"], ids=["vectors", "copies"])
@pytest.mark.parametrize("what", ["DELETE", "UPDATE", "MERGE"])
def test_operations_are_described_alike(jvm: Any, warehouse: Path, what: str, mode: str) -> None:
    properties = {"delta.enableDeletionVectors": mode}
    (theirs, folder), (_, own) = (made(jvm, warehouse, f"{each} {what}", properties) for each in ("their", "our"))
    sql = {
        "DELETE": f"DELETE FROM {theirs} WHERE id = 2",
        "UPDATE": f"UPDATE {theirs} SET text = 'new' WHERE id = 2",
        "MERGE": f"MERGE INTO {theirs} t USING (SELECT explode(array(2, 50)) AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET text = 'new' WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)",
    }
    jvm.sql(sql[what])
    target = target_of(own)
    new = {"DELETE": [], "UPDATE": [(2, "new", "a")], "MERGE": [(2, "new", "a"), (50, None, None)]}[what]
    others = found(target, "id < 10 AND id <> 2").select(["id", "text", "part"]) if mode == "false" else rows()
    files = write_rows(target.writes, pa.concat_tables([rows(*new), others]).to_batches(), "new")
    counts = RowCounts(
        inserted=int(what == "MERGE"),
        updated=int(what != "DELETE"),
        deleted=int(what == "DELETE"),
        copied=others.num_rows,
        source=2,
    )
    gone, deletes = (files_to_remove(target, "id = 2"), []) if mode == "false" else ([], mark(target, "id = 2"))
    words = {"predicate": "(id = 2)"}
    target.change(
        RowChanges(RowLevelCommand(what.lower()), parse_filter("id = 2"), gone, deletes, files, None, counts, words)
    )
    mine, expected = (actions(each, "commitInfo")[0] for each in (own, folder))
    assert mine["operation"] == expected["operation"]
    assert mine["operationParameters"].keys() == expected["operationParameters"].keys()
    assert mine["isBlindAppend"] == expected["isBlindAppend"]
    assert mine["isolationLevel"] == expected["isolationLevel"]
    ours = metrics(own)
    assert ours == metrics(folder)
