"""A change feed has the rows that each version inserted, deleted and updated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.delta_deletes import commit_vectors, inline_vector, stored_vector

import lakescan

FEED = {"delta.enableChangeDataFeed": "true"}
SETTINGS = {"readChangeFeed": True, "startingVersion": 0}
Change = tuple[int, str, int]


def changes(path: Path | str, where: str = "true", **options: Any) -> list[Change]:
    """Return (version, type, id) of each change."""
    scan = lakescan.table(str(path), **{**SETTINGS, **options}).scan().where(where)
    rows = scan.select("_commit_version", "_change_type", "id").to_arrow().to_pylist()
    return sorted((r["_commit_version"], r["_change_type"], r["id"]) for r in rows)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Partitioned: 0 inserts 1 to 4, 1 updates 2, 2 deletes 3, 3 adds 5 and a column, 4 removes all of partition b."""
    folder = tmp_path_factory.mktemp("feed") / "t"
    rows = pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "a", "b"]})
    write_deltalake(folder, rows, partition_by=["p"], configuration=FEED)
    DeltaTable(folder).update({"id": "id * 10"}, predicate="id = 2")
    DeltaTable(folder).delete("id = 3")
    more = pa.table({"id": [5], "p": ["a"], "note": ["n"]})
    write_deltalake(folder, more, mode="append", schema_mode="merge")
    DeltaTable(folder).delete("p = 'b'")
    return folder


EXPECTED = [
    (0, "insert", 1),
    (0, "insert", 2),
    (0, "insert", 3),
    (0, "insert", 4),
    (1, "update_postimage", 20),
    (1, "update_preimage", 2),
    (2, "delete", 3),
    (3, "insert", 5),
    (4, "delete", 4),
]


def test_every_change_has_its_version(table: Path) -> None:
    assert changes(table) == EXPECTED


@pytest.mark.parametrize("options", [{}, {"split_size": 2_000, "file_open_cost": 1}], ids=["", "small splits"])
def test_the_oldest_commit_comes_first_and_its_deletes_before_its_inserts(tmp_path: Path, options: Any) -> None:
    for number, rows in enumerate([1, 10_000, 2, 10_000, 3, 1]):
        new = pa.table({"id": range(rows), "p": ["a"] * rows})
        write_deltalake(tmp_path, new, mode="overwrite" if number % 2 else "append", configuration=FEED)
    DeltaTable(tmp_path).delete("id = 0")
    opened = lakescan.table(tmp_path)
    stream = opened.stream(wait=False, readChangeFeed=True, startingVersion=0, **options)
    for found in (opened.changes(**options).to_arrow(), pa.Table.from_batches(stream)):
        order = list(zip(found["_commit_version"].to_pylist(), found["_change_type"].to_pylist(), strict=True))
        assert order == sorted(order)
        assert (order[0][0], order[-1][0]) == (0, 6)


def test_rows_have_the_newest_columns_and_those_of_the_feed(table: Path) -> None:
    scan = lakescan.table(str(table), **SETTINGS).scan()
    assert scan.schema.names == ["id", "p", "note", "_change_type", "_commit_version", "_commit_timestamp"]
    rows = {r["id"]: r for r in scan.to_arrow().to_pylist()}
    assert (rows[5]["note"], rows[4]["note"], rows[4]["p"]) == ("n", None, "b")
    history = lakescan.table(str(table)).history().to_pylist()
    assert rows[5]["_commit_timestamp"] == history[3]["timestamp"]


@pytest.mark.parametrize(("start", "end"), [(1, None), (2, 3), (4, 4), (0, 99)])
def test_a_range_includes_both_ends(table: Path, start: int, end: int | None) -> None:
    wanted = {"startingVersion": start} | ({} if end is None else {"endingVersion": end})
    last = 4 if end is None else end
    assert changes(table, **wanted) == [c for c in EXPECTED if start <= c[0] <= last]


def test_times_pick_the_commits_between_them(table: Path) -> None:
    times = lakescan.table(str(table)).history()["timestamp"].to_pylist()
    wanted = {"startingVersion": 0, "endingTimestamp": str(times[2])}
    assert changes(table, **wanted) == [c for c in EXPECTED if c[0] <= 2]
    scan = lakescan.table(str(table), readChangeFeed=True, startingTimestamp=str(times[3])).scan()
    assert sorted(set(scan.to_arrow()["_commit_version"].to_pylist())) == [3, 4]


@pytest.mark.parametrize(
    "condition",
    ["_change_type = 'insert'", "_commit_version >= 3", "p = 'b'", "id > 3", "_change_type like 'update%' and id = 20"],
)
def test_filters_keep_the_matching_changes(table: Path, condition: str) -> None:
    everything = lakescan.table(str(table), **SETTINGS).scan().to_arrow()
    import duckdb

    query = f"select _commit_version, _change_type, id from everything where {condition}"
    expected = duckdb.sql(query).fetchall() if everything.num_rows else []
    assert changes(table, condition) == sorted(expected)


def test_versions_prune_files(table: Path) -> None:
    plan = lakescan.table(str(table), **SETTINGS).scan().where("_commit_version = 3").plan()
    assert len(plan.table) == 1


def test_the_change_feed_agrees_with_delta_rs(table: Path) -> None:
    theirs = pa.table(DeltaTable(table).load_cdf(starting_version=0).read_all())
    rows = zip(*(theirs[n].to_pylist() for n in ("_commit_version", "_change_type", "id")), strict=True)
    assert changes(table) == sorted(rows)


POSITIONS = st.sets(st.integers(0, 5), min_size=1)


@settings(max_examples=15)
@given(steps=st.lists(POSITIONS, min_size=1, max_size=4))
def test_changed_vectors_give_deleted_and_restored_rows(
    tmp_path_factory: pytest.TempPathFactory, steps: list[set[int]]
) -> None:
    folder = tmp_path_factory.mktemp("vectors") / "t"
    write_deltalake(folder, pa.table({"id": list(range(6))}), configuration=FEED)
    (path,) = DeltaTable(folder).file_uris()
    expected = [(0, "insert", i) for i in range(6)]
    gone: set[int] = set()
    for number, step in enumerate(steps):
        make = inline_vector(sorted(step)) if number % 2 else stored_vector(folder, sorted(step))
        version = commit_vectors(folder, {path.rsplit("/", 1)[1]: make})
        expected += [(version, "delete", i) for i in step - gone] + [(version, "insert", i) for i in gone - step]
        gone = step
    assert changes(folder) == sorted(expected)


def append_commit(folder: Path, version: int, *actions: dict[str, Any]) -> None:
    text = "\n".join(json.dumps(a) for a in actions)
    (folder / "_delta_log" / f"{version:020d}.json").write_text(text)


def test_files_that_only_move_rows_are_not_changes(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    for start in (0, 3):
        write_deltalake(folder, pa.table({"id": [start, start + 1]}), mode="append", configuration=FEED)
    DeltaTable(folder).optimize.compact()
    assert len(changes(folder)) == 4


@pytest.mark.parametrize("values", [{}, {"p": "a"}, None], ids=["no null", "a value", "none"])
def test_a_removed_file_of_the_null_partition_may_leave_its_null_out(
    tmp_path: Path, values: dict[str, str] | None
) -> None:
    """Delta's own writer does that. An action without any partition values does not record the file's partition."""
    folder = tmp_path / "t"
    rows = pa.table({"id": [1, 2], "p": pa.array(["a", None])})
    write_deltalake(folder, rows, partition_by=["p"], configuration=FEED)
    first = [json.loads(x) for x in (folder / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
    part = None if values == {} else "a"
    (add,) = (a["add"] for a in first if "add" in a and (a["add"]["partitionValues"]["p"] == part))
    partition = {} if values is None else {"partitionValues": values}
    remove = {"path": add["path"], "dataChange": True, "extendedFileMetadata": True, "size": add["size"], **partition}
    append_commit(folder, 1, {"commitInfo": {"timestamp": 1}}, {"remove": remove})
    if values is None:
        with pytest.raises(lakescan.CorruptMetadata, match="needs a value for each partition column"):
            changes(folder)
        return
    assert changes(folder) == [(0, "insert", 1), (0, "insert", 2), (1, "delete", 1 if values else 2)]
    assert changes(folder, "p IS NULL") == ([(0, "insert", 2)] if values else [(0, "insert", 2), (1, "delete", 2)])


def test_a_merge_that_changed_no_row_is_not_a_change(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": [1]}), configuration=FEED)
    first = [json.loads(x) for x in (folder / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
    add = next(action for action in first if "add" in action)
    metrics = dict.fromkeys(("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"), "0")
    info = {"commitInfo": {"operation": "MERGE", "operationMetrics": metrics, "timestamp": 1}}
    remove = {"remove": {"path": add["add"]["path"], "dataChange": True, "partitionValues": {}, "size": 1}}
    append_commit(folder, 1, info, remove, add)
    assert changes(folder) == [(0, "insert", 1)]


def test_a_version_that_did_not_record_changes_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": [1]}))
    DeltaTable(folder).alter.set_table_properties(FEED)
    write_deltalake(folder, pa.table({"id": [2]}), mode="append")
    with pytest.raises(lakescan.UnsupportedFeature, match="did not record changes at version 0"):
        changes(folder)
    assert changes(folder, startingVersion=1) == [(2, "insert", 2)]


def test_a_column_that_changed_its_type_or_went_away_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    write_deltalake(folder, pa.table({"id": [1], "x": ["a"]}), configuration=FEED)
    write_deltalake(folder, pa.table({"id": [1], "x": [1.5]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(
        lakescan.UnsupportedFeature, match=r"version 0 has a column 'x' of type string, which is double"
    ):
        changes(folder)
    write_deltalake(folder, pa.table({"id": [1]}), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(lakescan.UnsupportedFeature, match="version 1 has a column 'x' that the read schema lacks"):
        changes(folder, startingVersion=1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"startingVersion": 9}, lakescan.NoSuchSnapshot, "the newest version is 4"),
        ({"startingVersion": 3, "endingVersion": 1}, lakescan.InvalidOption, "before its start"),
        ({"endingTimestamp": "2001-01-01"}, lakescan.NoSuchSnapshot, "no commit at or before"),
        (
            {"endingVersion": 1, "endingTimestamp": "2026-01-01"},
            lakescan.InvalidOption,
            "set the same end of the range",
        ),
        ({"versionAsOf": 1}, lakescan.InvalidOption, "remove option 'versionAsOf'"),
        ({"readChangeFeed": False}, lakescan.InvalidOption, "set readChangeFeed to true"),
    ],
)
def test_an_invalid_range_is_refused_with_the_reason(table: Path, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        changes(table, **options)


def test_a_feed_needs_a_start(table: Path) -> None:
    with pytest.raises(lakescan.InvalidOption, match="needs a start"):
        lakescan.table(str(table), readChangeFeed=True).scan().plan()
    with pytest.raises(lakescan.NoSuchSnapshot, match="no commit at or after"):
        lakescan.table(str(table), readChangeFeed=True, startingTimestamp="2101-01-01").scan().plan()


def test_two_times_between_two_commits_have_no_changes(table: Path) -> None:
    times = lakescan.table(str(table)).history()["timestamp"].to_pylist()
    between = {"startingTimestamp": str(times[0] + (times[1] - times[0]) / 2)}
    scan = lakescan.table(str(table), readChangeFeed=True, **between, endingTimestamp=between["startingTimestamp"])
    found = scan.scan().to_arrow()
    assert (found.num_rows, found.column_names[-1]) == (0, "_commit_timestamp")


@pytest.mark.spark
def test_spark_reads_the_same_changes(table: Path, spark: Any) -> None:
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    found = reader.option("startingVersion", 1).load(str(table)).collect()
    rows = sorted((r["_commit_version"], r["_change_type"], r["id"]) for r in found)
    assert rows == [c for c in EXPECTED if c[0] >= 1]
    scan = lakescan.table(str(table), **SETTINGS).scan().where("id > 3")
    assert scan.to_spark(spark).count() == scan.to_arrow().num_rows
