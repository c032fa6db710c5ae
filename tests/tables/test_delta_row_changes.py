"""DELETE, UPDATE and MERGE of Delta tables: the actions of their commits, and the rows that are read."""

from __future__ import annotations

import json
import os
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import given
from hypothesis import strategies as st
from samples.delta_deletes import commit_vectors, inline_vector

import lakescan
from lakescan.delta.commit import commit as commits
from lakescan.delta.commit.checkpoint import checkpoint_version
from lakescan.delta.commit.row_changes import mark_wide_bounds
from lakescan.delta.commit.version_checksum import read_checksum
from lakescan.delta.scan.deletion_vectors import encode_z85
from lakescan.errors import StorageError
from lakescan.storage import Storage
from lakescan.tables.row_changes import RowChanges, RowCounts, RowLevelCommand, RowLevelOperationMode
from lakescan.writing.parquet_writer import write_rows
from tests.support.delta_row_changes import (
    FEED,
    IDS,
    MAPPED,
    VECTORS,
    actions,
    changes,
    delete,
    files_to_remove,
    ids,
    images,
    mark,
    target_of,
    update,
)
from tests.support.delta_state import leave_only, newest_version, state
from tests.support.two_commits import save_in_two_commits
from tests.tables.support import rows

A, B, C, D = (1, "a"), (2, "a"), (3, "b"), (4, None)


def made(folder: Path, properties: dict[str, str] | None = None, by: str | None = None) -> Path:
    """Make a table that allows vectors, with the rows A to D in one file, or in one per partition."""
    more: dict[str, Any] = {} if by is None else {"partition_by": by}
    properties = VECTORS | (properties or {})
    save_in_two_commits(rows(A, B, C, D), folder, format="delta", properties=properties, **more)
    return folder


def read_by_deltalake(folder: Path) -> list[int]:
    query = QueryBuilder().register("t", DeltaTable(folder)).execute("SELECT id FROM t")
    return sorted(pa.table(query.read_all())["id"].to_pylist())


# How changes are recorded


@pytest.mark.parametrize(
    ("properties", "option", "mode"),
    [
        ({}, None, RowLevelOperationMode.COPY_ON_WRITE),
        (VECTORS, None, RowLevelOperationMode.MERGE_ON_READ),
        (VECTORS, "copy-on-write", RowLevelOperationMode.COPY_ON_WRITE),
        (VECTORS, "merge-on-read", RowLevelOperationMode.MERGE_ON_READ),
    ],
)
def test_vectors_are_written_if_the_table_allows_them(
    tmp_path: Path, properties: dict[str, str], option: str | None, mode: RowLevelOperationMode
) -> None:
    save_in_two_commits(rows(A), tmp_path, format="delta", properties=properties)
    target = target_of(tmp_path, **({} if option is None else {"row-change-mode": option}))
    assert {target.mode_of(each) for each in RowLevelCommand} == {mode}


def test_vectors_are_not_written_if_the_table_no_longer_allows_them(tmp_path: Path) -> None:
    made(tmp_path)
    first = tmp_path / "_delta_log" / f"{0:020d}.json"
    first.write_text(first.read_text().replace('"delta.enableDeletionVectors":"true"', '"x":"y"'))
    assert target_of(tmp_path).mode_of(RowLevelCommand.DELETE) == RowLevelOperationMode.COPY_ON_WRITE
    asked = target_of(tmp_path, **{"row-change-mode": "merge-on-read"})
    for ask in (lambda: asked.mode_of(RowLevelCommand.MERGE), lambda: asked.delete_writer("w")):
        with pytest.raises(lakescan.UnsupportedFeature, match=r"Set the table property delta\.enableDeletionVectors"):
            ask()


def test_rows_of_an_append_only_table_are_not_removed(tmp_path: Path) -> None:
    target = target_of(made(tmp_path, {"delta.appendOnly": "true"}))
    with pytest.raises(lakescan.UnsupportedFeature, match=r"delta\.appendOnly"):
        delete(target, "id = 2")
    with pytest.raises(lakescan.UnsupportedFeature, match=r"delta\.appendOnly"):
        target.change(RowChanges(RowLevelCommand.DELETE, None, removed=files_to_remove(target, "id = 2")))
    new = write_rows(target.writes, rows((5, "a")).to_batches(), "new")
    target.change(RowChanges(RowLevelCommand.MERGE, None, files=new, counts=RowCounts(inserted=1)))
    assert ids(tmp_path) == [1, 2, 3, 4, 5]


# Rows


@pytest.mark.parametrize("by", [None, "part"])
@pytest.mark.parametrize(
    "properties",
    [{}, MAPPED, IDS, FEED, {"delta.enableInCommitTimestamps": "true"}, {"delta.randomizeFilePrefixes": "true"}],
    ids=str,
)
def test_rows_are_deleted_and_changed(tmp_path: Path, properties: dict[str, str], by: str | None) -> None:
    made(tmp_path, properties, by)
    delete(target_of(tmp_path), "id = 2")
    assert ids(tmp_path) == read_by_deltalake(tmp_path) == [1, 3, 4]
    update(target_of(tmp_path), "id = 1 OR part IS NULL", rows((10, "a"), (40, "z")))
    assert ids(tmp_path) == read_by_deltalake(tmp_path) == [3, 10, 40]
    delete(target_of(tmp_path), "id > 5")
    assert ids(tmp_path) == read_by_deltalake(tmp_path) == [3]
    assert [ids(tmp_path, version) for version in (1, 2, 3, 4)] == [[1, 2, 3, 4], [1, 3, 4], [3, 10, 40], [3]]


def test_a_file_that_has_lost_all_rows_is_removed(tmp_path: Path) -> None:
    made(tmp_path)
    delete(target_of(tmp_path), "id < 3")
    delete(target_of(tmp_path), "id < 5")
    assert (len(actions(tmp_path, "remove")), actions(tmp_path, "add")) == (1, [])
    assert actions(tmp_path, "remove")[0]["deletionVector"]["cardinality"] == 2
    assert ids(tmp_path) == read_by_deltalake(tmp_path) == []
    metrics = actions(tmp_path, "commitInfo")[0]["operationMetrics"]
    assert (metrics["numRemovedFiles"], metrics["numDeletionVectorsRemoved"], metrics["numDeletedRows"]) == (
        "1",
        "1",
        "2",
    )


def test_a_commit_can_replace_files_and_add_vectors(tmp_path: Path) -> None:
    made(tmp_path, by="part")
    target = target_of(tmp_path)
    new = write_rows(target.writes, rows((30, "b")).to_batches(), "new")
    target.change(
        RowChanges(RowLevelCommand.MERGE, None, files_to_remove(target, "part = 'b'"), mark(target, "id = 1"), new)
    )
    assert ids(tmp_path) == read_by_deltalake(tmp_path) == [2, 4, 30]


def test_an_existing_vector_is_removed_with_its_exact_descriptor(tmp_path: Path) -> None:
    made(tmp_path)
    commit_vectors(tmp_path, {actions(tmp_path, "add")[0]["path"]: inline_vector([0])})
    before = actions(tmp_path, "add")[0]
    delete(target_of(tmp_path), "id = 4")
    (gone,), (now,) = actions(tmp_path, "remove"), actions(tmp_path, "add")
    assert (gone["path"], gone["deletionVector"]) == (before["path"], before["deletionVector"])
    assert (now["path"], now["deletionVector"]["cardinality"]) == (before["path"], 2)
    assert ids(tmp_path) == read_by_deltalake(tmp_path) == [2, 3]


def test_a_vector_based_on_an_outdated_one_is_not_committed(tmp_path: Path) -> None:
    made(tmp_path)
    stale = mark(target_of(tmp_path), "id = 2")
    delete(target_of(tmp_path), "id = 1")
    with pytest.raises(lakescan.CommitConflict, match="another deletion vector in version 2"):
        target_of(tmp_path).change(RowChanges(RowLevelCommand.DELETE, None, deletes=stale))
    assert ids(tmp_path) == [2, 3, 4]


def test_a_commit_adds_at_most_one_vector_per_file(tmp_path: Path) -> None:
    target = target_of(made(tmp_path))
    twice = [*mark(target, "id = 2"), *mark(target, "id = 3")]
    with pytest.raises(ValueError, match="two deletion vectors"):
        target.change(RowChanges(RowLevelCommand.DELETE, None, deletes=twice))
    assert ids(tmp_path) == [1, 2, 3, 4]


# File actions in the log


def kept(add: dict[str, Any]) -> dict[str, Any]:
    """Return the members that an add with another vector must keep."""
    return {name: value for name, value in add.items() if name not in ("stats", "deletionVector")}


def tagged(folder: Path) -> dict[str, Any]:
    """Give the table's file tags and a clustering provider, as other writers do; return its add action."""
    commit = folder / "_delta_log" / f"{1:020d}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        if "add" in line:
            line["add"] |= {"tags": {"k": "v", "of.it": "x y"}, "clusteringProvider": "liquid"}
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return actions(folder, "add", 1)[0]


@pytest.mark.parametrize("where", ["commit", "checkpoint", "v2 checkpoint", "checkpoint without texts"])
@pytest.mark.parametrize("properties", [{}, IDS], ids=str)
def test_a_file_keeps_its_other_members_in_the_log(tmp_path: Path, where: str, properties: dict[str, str]) -> None:
    more = {
        "v2 checkpoint": {"delta.checkpointPolicy": "v2"},
        "checkpoint without texts": {"delta.checkpoint.writeStatsAsJson": "false"},
    }
    made(tmp_path, properties | more.get(where, {}))
    before = tagged(tmp_path)
    if where != "commit":
        leave_only(tmp_path, checkpoint_version(str(tmp_path), 1, Storage()).location)
    delete(target_of(tmp_path), "id = 2")
    (now,) = actions(tmp_path, "add")
    assert kept(now) == kept(before)
    assert json.loads(now["stats"]) == json.loads(before["stats"]) | {"tightBounds": False}
    assert ids(tmp_path) == [1, 3, 4]


def test_unknown_members_of_a_file_are_kept(tmp_path: Path) -> None:
    made(tmp_path)
    commit = tmp_path / "_delta_log" / f"{1:020d}.json"
    commit.write_text(commit.read_text().replace('"add":{', '"add":{"newMember":1,'))
    with pytest.raises(lakescan.UnsupportedFeature, match=r"rows of files as deleted with the member add\.newMember"):
        delete(target_of(tmp_path), "id = 2")


def test_unknown_members_of_a_file_in_a_checkpoint_are_kept(tmp_path: Path) -> None:
    made(tmp_path)
    checkpoint = checkpoint_version(str(tmp_path), 1, Storage()).location
    leave_only(tmp_path, checkpoint)
    written = pq.read_table(checkpoint)
    add = written["add"].combine_chunks()
    members = dict(zip([each.name for each in add.type], add.flatten(), strict=True))
    members["newMember"] = pa.array([1] * len(add))
    more = pa.StructArray.from_arrays(list(members.values()), names=list(members), mask=add.is_null())
    pq.write_table(written.set_column(written.column_names.index("add"), "add", more), checkpoint)
    with pytest.raises(lakescan.UnsupportedFeature, match=r"with the member add\.newMember"):
        delete(target_of(tmp_path), "id = 2")


def test_remaining_rows_of_a_file_keep_their_ids(tmp_path: Path) -> None:
    made(tmp_path, IDS)
    scan = lambda: lakescan.table(tmp_path).scan().select("id", "_row_id", "_row_commit_version").to_arrow()  # noqa: E731
    before = {row["id"]: row for row in scan().to_pylist()}
    update(target_of(tmp_path), "id = 2", rows((20, "a")))
    after = {row["id"]: row for row in scan().to_pylist()}
    assert {each: after[each] for each in (1, 3, 4)} == {each: before[each] for each in (1, 3, 4)}
    assert (after[20]["_row_id"], after[20]["_row_commit_version"]) == (4, 2)
    assert json.loads(actions(tmp_path, "domainMetadata")[0]["configuration"]) == {"rowIdHighWaterMark": 4}
    assert actions(tmp_path, "commitInfo")[0]["tags"] == {"delta.rowTracking.preserved": "true"}


def test_updated_rows_keep_their_ids_in_new_files(tmp_path: Path) -> None:
    made(tmp_path, IDS)
    target = target_of(tmp_path)
    moved = (
        rows((20, "a")).append_column("_row_id", [[1]]).append_column("_row_commit_version", pa.nulls(1, pa.int64()))
    )
    files = write_rows(target.writes.lineage_writes, moved.to_batches(), "moved")
    target.change(RowChanges(RowLevelCommand.UPDATE, None, deletes=mark(target, "id = 2"), files=files))
    read = lakescan.table(tmp_path).scan().select("id", "_row_id", "_row_commit_version").to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in read) == [(1, 0, 1), (3, 2, 1), (4, 3, 1), (20, 1, 2)]


NUMBERS = st.integers(-(2**62), 2**62) | st.decimals(allow_nan=False, allow_infinity=False, places=9)
VALUES = st.recursive(
    NUMBERS | st.text(max_size=4) | st.booleans() | st.just('x","tightBounds":true}'),
    lambda inner: st.dictionaries(st.sampled_from(["a", "tightBounds", "numRecords", 'q"']), inner, max_size=3),
    max_leaves=4,
)
STATS = st.dictionaries(st.sampled_from(["numRecords", "minValues", "nullCount", "tightBounds"]), VALUES)


def as_text(value: Any) -> str:
    """Convert to JSON with all digits of decimals."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{as_text(each)}" for name, each in value.items()) + "}"
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value)


@given(st.lists(st.none() | STATS, max_size=4), st.integers(0, 10**12))
def test_statistics_keep_their_bounds_and_row_counts(stats: list[dict[str, Any] | None], count: int) -> None:
    texts = pa.array([None if each is None else as_text(each) for each in stats], pa.string())
    wide = mark_wide_bounds(texts, pa.array([count] * len(stats), pa.int64()))
    read = [json.loads(text, parse_float=Decimal) for text in wide.to_pylist()]
    assert read == [(each or {}) | {"numRecords": count, "tightBounds": False} for each in stats]


@pytest.mark.parametrize(
    ("text", "wide"),
    [
        ('{"numRecords":3,"tightBounds":true}', '{"numRecords":4,"tightBounds":false}'),
        ('{"numRecords":3,"maxValues":{"x":1.10}}', '{"numRecords":4,"maxValues":{"x":1.10},"tightBounds":false}'),
        ('{"maxValues":{"x":1.10}}', '{"maxValues": {"x": 1.10}, "numRecords": 4, "tightBounds": false}'),
        ("no JSON", '{"numRecords": 4, "tightBounds": false}'),
    ],
)
def test_statistics_are_written_with_all_digits(text: str, wide: str) -> None:
    assert mark_wide_bounds(pa.array([text]), pa.array([4])).to_pylist() == [wide]


# Operations


def words(folder: Path) -> tuple[Any, Any, Any]:
    info = actions(folder, "commitInfo")[0]
    metrics = {name: int(value) for name, value in info["operationMetrics"].items() if value != "0"}
    return info["operation"], info["operationParameters"], metrics


def test_a_delete_is_described_as_by_delta(tmp_path: Path) -> None:
    made(tmp_path)
    delete(target_of(tmp_path), "id = 2")
    delete(target_of(tmp_path), "id = 3")
    metrics = {"numDeletedRows": 1}
    metrics |= {f"numDeletionVectors{name}": 1 for name in ("Added", "Removed", "Updated")}
    assert words(tmp_path) == ("DELETE", {"predicate": '["id = 3"]'}, metrics)
    assert actions(tmp_path, "commitInfo")[0]["isBlindAppend"] is False


def test_an_update_is_described_as_by_delta(tmp_path: Path) -> None:
    made(tmp_path, FEED)
    target = target_of(tmp_path)
    kinds = ("update_preimage", rows(B)), ("update_postimage", rows((20, "a")))
    update(target, "id = 2", rows((20, "a")), change_files=images(target, *kinds))
    size = actions(tmp_path, "add")[-1]["size"]
    metrics = {"numUpdatedRows": 1, "numAddedFiles": 1, "numAddedBytes": size, "numAddedChangeFiles": 1}
    metrics["numRemovedFiles"] = 1  # the file with another vector
    assert words(tmp_path) == ("UPDATE", {"predicate": "[]"}, {**metrics, "numDeletionVectorsAdded": 1})


def test_a_merge_is_described_as_by_delta(tmp_path: Path) -> None:
    made(tmp_path, by="part")
    target = target_of(tmp_path)
    gone = files_to_remove(target, "part = 'b'")
    size = Path(gone[0].location).stat().st_size
    new = write_rows(target.writes, rows((20, "a"), (5, "a")).to_batches(), "new")
    clauses = {"matchedPredicates": '[{"actionType":"update"}]'}
    counts = RowCounts(inserted=1, updated=1, deleted=1, source=7)
    target.change(
        RowChanges(
            RowLevelCommand.MERGE,
            None,
            gone,
            mark(target, "id = 2"),
            new,
            counts=counts,
            parameters={"predicate": "t.id = s.id", **clauses},
        )
    )
    others = {"notMatchedPredicates": "[]", "notMatchedBySourcePredicates": "[]"}
    assert words(tmp_path) == (
        "MERGE",
        {"predicate": '["t.id = s.id"]', **others, **clauses},
        {
            "numSourceRows": 7,
            "numTargetRowsInserted": 1,
            "numTargetRowsUpdated": 1,
            "numTargetRowsMatchedUpdated": 1,
            "numTargetRowsDeleted": 1,
            "numTargetRowsMatchedDeleted": 1,
            "numOutputRows": 2,
            "numTargetFilesAdded": 1,
            "numTargetFilesRemoved": 1,
            "numTargetBytesAdded": sum(each.size for each in new),
            "numTargetBytesRemoved": size,
            "numTargetDeletionVectorsAdded": 1,
        },
    )


def test_a_transaction_is_committed_with_its_changes(tmp_path: Path) -> None:
    made(tmp_path)
    delete(target_of(tmp_path, txnAppId="app", txnVersion=7), "id = 2")
    assert actions(tmp_path, "txn")[0]["version"] == 7
    assert target_of(tmp_path, txnAppId="app", txnVersion=7).has_committed()


# The change data feed


def test_the_change_feed_has_the_rows_of_change_files(tmp_path: Path) -> None:
    made(tmp_path, FEED)
    target = target_of(tmp_path)
    kinds = ("update_preimage", rows(B)), ("update_postimage", rows((20, "a")))
    update(target, "id = 2", rows((20, "a")), change_files=images(target, *kinds))
    assert changes(tmp_path) == [("update_postimage", 20), ("update_preimage", 2)]
    theirs = pa.table(DeltaTable(tmp_path).load_cdf(starting_version=newest_version(tmp_path)))
    assert sorted(theirs["_change_type"].to_pylist()) == ["update_postimage", "update_preimage"]


@pytest.mark.parametrize("by", [None, "part"])
@pytest.mark.parametrize("properties", [FEED, FEED | MAPPED | IDS], ids=["by name", "mapped, ids"])
def test_the_feed_is_read_from_vectors_without_change_files(
    tmp_path: Path, properties: dict[str, str], by: str | None
) -> None:
    made(tmp_path, properties, by)
    delete(target_of(tmp_path), "id = 2")
    assert changes(tmp_path) == [("delete", 2)]
    update(target_of(tmp_path), "id = 1", rows((10, "a")))
    assert changes(tmp_path) == [("delete", 1), ("insert", 10)]
    delete(target_of(tmp_path), "id > 2")
    assert changes(tmp_path) == [("delete", 3), ("delete", 4), ("delete", 10)]


def test_unchanged_rewritten_files_are_not_in_the_change_feed(tmp_path: Path) -> None:
    made(tmp_path, FEED)
    target = target_of(tmp_path)
    same = write_rows(target.writes, rows(A, B, C, D).to_batches(), "same")
    target.change(
        RowChanges(RowLevelCommand.UPDATE, None, files_to_remove(target, "id = 2"), files=same, change_files=[])
    )
    assert changes(tmp_path) == []
    assert ids(tmp_path) == [1, 2, 3, 4]


def test_deletes_without_change_files_are_in_the_change_feed(tmp_path: Path) -> None:
    made(tmp_path, FEED)
    delete(target_of(tmp_path), "id = 2", change_files=[])
    assert changes(tmp_path) == [("delete", 2)]


# After the commit


def test_checkpoints_and_checksums_have_the_vectors(tmp_path: Path) -> None:
    made(tmp_path)
    delete(target_of(tmp_path), "id = 2")
    update(target_of(tmp_path), "id = 1", rows((10, "a")))
    expected = state(tmp_path)
    version = newest_version(tmp_path)
    checksum = read_checksum(str(tmp_path), version, Storage(), *expected[:2])
    assert checksum is not None
    sizes = [row["size"] for row in expected[2]]
    assert (checksum["numFiles"], checksum["tableSizeBytes"]) == (len(sizes), sum(sizes))
    leave_only(tmp_path, checkpoint_version(str(tmp_path), version, Storage()).location)
    assert state(tmp_path) == expected
    assert ids(tmp_path) == read_by_deltalake(tmp_path) == [3, 4, 10]
    delete(target_of(tmp_path), "id = 3")
    assert ids(tmp_path) == read_by_deltalake(tmp_path) == [4, 10]


@pytest.mark.parametrize("properties", [{}, {"delta.randomizeFilePrefixes": "true"}], ids=str)
def test_only_vectors_that_no_version_needs_are_orphans(tmp_path: Path, properties: dict[str, str]) -> None:
    made(tmp_path, properties)
    left = mark(target_of(tmp_path), "id = 1")
    for number in (2, 3):
        delete(target_of(tmp_path), f"id = {number}")
    for file in tmp_path.rglob("*.bin"):
        os.utime(file, (0, 0))
    lakescan.table(tmp_path).remove_orphans()
    assert not Path(left[0].location).exists()
    assert (ids(tmp_path), ids(tmp_path, 2)) == ([1, 4], [1, 3, 4])
    of_old_version = actions(tmp_path, "remove")[0]["deletionVector"]["pathOrInlineDv"]
    found = lakescan.table(tmp_path).remove_orphans(older_than="2100-01-01", dry_run=True)
    (orphan,) = [Path(each) for each in found if each.endswith(".bin")]
    assert encode_z85(uuid.UUID(orphan.stem.removeprefix("deletion_vector_")).bytes) == of_old_version[-20:]


# Failures


def test_a_commit_whose_answer_was_lost_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, real, calls = target_of(made(tmp_path)), commits.put_commit, []

    def lost(*arguments: Any) -> bool:
        calls.append(real(*arguments))
        return False

    monkeypatch.setattr(commits, "put_commit", lost)
    delete(target, "id = 2")
    assert (calls, newest_version(tmp_path), ids(tmp_path)) == ([True], 2, [1, 3, 4])


def test_failed_vector_writes_leave_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, create = target_of(made(tmp_path)), Storage.create
    before = sorted(tmp_path.rglob("*"))

    def fails(self: Storage, location: str) -> Any:
        create(self, location).close()
        raise StorageError("no space")

    monkeypatch.setattr(Storage, "create", fails)
    with pytest.raises(StorageError, match="no space"):
        delete(target, "id = 2")
    assert sorted(tmp_path.rglob("*")) == before
