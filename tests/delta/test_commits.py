"""Commits to Delta logs: their text, and conflicts with concurrent commits.

The matrix is that of Delta on Spark ("Concurrency control"), where changes of metadata conflict with everything.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakescan
from lakescan.api.rows import as_rows
from lakescan.definition.table_changes import AddColumn
from lakescan.definition.table_definition import TableDefinition, assign_ids
from lakescan.delta.commit.creation import create_table, replace_table
from lakescan.delta.commit.json_texts import json_texts
from lakescan.expressions.sql import parse_filter
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from lakescan.tables.base import OverwriteScope, Target
from lakescan.tables.copy_on_write import files_to_replace
from lakescan.writing.parquet_writer import new_write_id
from lakescan.writing.table_writes import WrittenFile
from tests.support.delta_state import newest_version
from tests.support.two_commits import save_in_two_commits

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
MEMBERS = {
    "path": (pa.string(), TEXTS),
    "size": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "dataChange": (pa.bool_(), st.booleans()),
    "partitionValues": (pa.map_(pa.string(), pa.string()), st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3)),
    "deletionVector": (pa.struct([("offset", pa.int32())]), st.fixed_dictionaries({"offset": st.integers(0, 9)})),
}
KIND = pa.struct([(name, kind) for name, (kind, _) in MEMBERS.items()])
ACTIONS = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in MEMBERS.items()})


@given(st.lists(st.none() | ACTIONS, max_size=6), st.integers(0, 3))
def test_actions_are_valid_json(actions: list[dict[str, Any] | None], start: int) -> None:
    texts = json_texts(pa.array([_as_arrow(each) for each in actions], KIND).slice(start))
    read = [None if text is None else json.loads(text) for text in texts.to_pylist()]
    assert read == [_without_nulls(each) for each in actions[start:]]


def _as_arrow(action: dict[str, Any] | None) -> dict[str, Any] | None:
    if action is None or action["partitionValues"] is None:
        return action
    return {**action, "partitionValues": list(action["partitionValues"].items())}


def _without_nulls(action: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if action is None else {name: value for name, value in action.items() if value is not None}


# A table has the rows (1, a), (2, a), (3, b), one file per row, partitioned by `part`. Both writers open it, then one
# commits before the other.
Write = Callable[[Target], object]


def rows(*pairs: tuple[int, str]) -> pa.Table:
    return pa.table({"id": [i for i, _ in pairs], "part": [p for _, p in pairs]})


def written(target: Target, *pairs: tuple[int, str]) -> Sequence[WrittenFile]:
    return as_rows(rows(*pairs)).write(target.writes, new_write_id(), None)


def append(target: Target) -> None:
    target.append(written(target, (9, "a")))


def replaces(where: str) -> Write:
    def replace(target: Target) -> None:
        rule = parse_filter(where)
        target.replace(files_to_replace(target, [], rule, dynamic=False).files_to_remove, [], OverwriteScope(rule))

    return replace


def compacts(where: str, *same: tuple[int, str]) -> Write:
    def rewrite(target: Target) -> None:
        removed = files_to_replace(target, [], parse_filter(where), dynamic=False).files_to_remove
        target.rewrite(removed, written(target, *same))

    return rewrite


def overwrite(target: Target) -> None:
    target.replace_all([], written(target, (8, "c")))


def adds_column(target: Target) -> None:
    new = target.writes.columns_for(pa.schema([("more", pa.int64())]))
    target.with_columns([AddColumn((), column) for column in new]).commit_columns()


WRITES: dict[str, Write] = {
    "append": append,
    "replace a": replaces("part = 'a'"),
    "replace b": replaces("part = 'b'"),
    "compact a": compacts("part = 'a'", (1, "a"), (2, "a")),
    "overwrite": overwrite,
    "add column": adds_column,
}
AFTER: dict[str, Callable[[list[int]], list[int]]] = {
    "append": lambda ids: [*ids, 9],
    "replace a": lambda ids: [each for each in ids if each not in (1, 2)],
    "replace b": lambda ids: [each for each in ids if each != 3],
    "compact a": lambda ids: ids,
    "overwrite": lambda ids: [8],
    "add column": lambda ids: ids,
}
FITS_AFTER = {
    "append": {"append", "replace a", "replace b", "compact a", "overwrite"},
    "replace a": {"replace b"},
    "replace b": {"append", "replace a", "compact a"},
    "compact a": {"append", "replace b"},
    "overwrite": set(),
    "add column": {"append", "replace a", "replace b", "compact a", "overwrite"},
}


@pytest.mark.parametrize("own", WRITES)
@pytest.mark.parametrize("other", WRITES)
def test_a_commit_is_rebased_on_those_that_do_not_conflict(other: str, own: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for pair in ((1, "a"), (2, "a"), (3, "b")):
        save_in_two_commits(rows(pair), path, format="delta", mode="append", partition_by="part")
    table = lakescan.table(path)
    first, second = table._target(WriteOptions()), table._target(WriteOptions())
    _ = (first.scan.snapshot, second.scan.snapshot)  # both are at the same version
    WRITES[other](first)
    ids = AFTER[other]([1, 2, 3])
    if other in FITS_AFTER[own]:
        WRITES[own](second)
        ids = AFTER[own](ids)
    else:
        with pytest.raises(lakescan.CommitConflict, match="the concurrent commit of version"):
            WRITES[own](second)
    assert sorted(lakescan.table(path).scan().to_arrow()["id"].to_pylist()) == sorted(ids)
    assert sorted(deltalake.DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == sorted(ids)


def test_a_conflict_names_the_commit_and_what_both_touched(tmp_path: Path) -> None:
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta", mode="append")
    target = lakescan.table(tmp_path)._target(WriteOptions())
    removed = files_to_replace(target, [], parse_filter("id = 1"), dynamic=False).files_to_remove
    lakescan.table(tmp_path).overwrite(rows((2, "a")))
    with pytest.raises(lakescan.CommitConflict) as raised:
        target.rewrite(removed, [])
    said = str(raised.value)
    assert "the concurrent commit of version 2 (WRITE) removed or changed" in said
    assert removed[0].location.removeprefix("file://") in said


def actions_of(folder: Path, version: int, name: str) -> list[dict[str, Any]]:
    lines = (folder / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [json.loads(line)[name] for line in lines if name in json.loads(line)]


def test_in_commit_timestamps_increase_whatever_the_clock_shows(tmp_path: Path, monkeypatch) -> None:
    from lakescan.delta.commit import commit

    properties = {"delta.enableInCommitTimestamps": "true"}
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta", properties=properties)
    monkeypatch.setattr(commit.time, "time", lambda: 1.0)  # 1970
    for number in (2, 3):
        save_in_two_commits(rows((number, "a")), tmp_path, mode="append")
    infos = [actions_of(tmp_path, version, "commitInfo")[0] for version in range(4)]
    times = [info["inCommitTimestamp"] for info in infos]
    assert times == sorted(set(times))
    assert all(next(iter(info)) == "inCommitTimestamp" for info in infos)
    assert lakescan.table(tmp_path).scan().as_of(version=2).count() == 2


def test_rows_of_tables_with_row_tracking_have_unique_ids(tmp_path: Path) -> None:
    save_in_two_commits(
        rows((1, "a"), (2, "b")), tmp_path, format="delta", properties={"delta.enableRowTracking": "true"}
    )
    table = lakescan.table(tmp_path)
    first, second = table._target(WriteOptions()), table._target(WriteOptions())
    _ = second.scan.snapshot
    append(first)
    append(second)  # is rebased: its ids follow those of the first commit
    ids = [actions_of(tmp_path, version, "add")[0]["baseRowId"] for version in (1, 2, 3)]
    marks = [json.loads(actions_of(tmp_path, v, "domainMetadata")[0]["configuration"]) for v in (1, 2, 3)]
    assert ids == [0, 2, 3]
    assert [mark["rowIdHighWaterMark"] for mark in marks] == [1, 2, 3]
    assert [actions_of(tmp_path, v, "add")[0]["defaultRowCommitVersion"] for v in (1, 2, 3)] == [1, 2, 3]
    found = lakescan.table(tmp_path).scan().select("id", "_row_id").to_arrow()
    assert sorted(found["_row_id"].to_pylist()) == [0, 1, 2, 3]


def test_a_log_has_checkpoints_and_checksums_as_commits_are_made(tmp_path: Path) -> None:
    save_in_two_commits(rows((0, "a")), tmp_path, format="delta", properties={"delta.checkpointInterval": "3"})
    for number in range(1, 8):
        save_in_two_commits(rows((number, "a")), tmp_path, mode="append")
    names = {each.name for each in (tmp_path / "_delta_log").iterdir()}
    assert {n.split(".")[0].lstrip("0") for n in names if "checkpoint.parquet" in n} == {"3", "6"}
    assert sum(name.endswith(".crc") for name in names) == 9
    checksum = json.loads((tmp_path / "_delta_log" / f"{8:020d}.crc").read_text())
    assert checksum["numFiles"] == 8
    for version in range(6):
        (tmp_path / "_delta_log" / f"{version:020d}.json").unlink()
    assert sorted(lakescan.table(tmp_path).scan().to_arrow()["id"].to_pylist()) == list(range(8))
    assert len(deltalake.DeltaTable(tmp_path).file_uris()) == 8


def test_a_table_is_not_created_over_a_log_whose_first_commit_was_cleaned_up(tmp_path: Path) -> None:
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta")
    lakescan.table(tmp_path).checkpoint()
    (tmp_path / "_delta_log" / f"{0:020d}.json").unlink()
    columns = lakescan.table(tmp_path)._target(WriteOptions()).writes.schema.fields
    with pytest.raises(lakescan.TableExists, match="already exists"):
        create_table(str(tmp_path), TableDefinition(columns), Storage())
    assert lakescan.table(tmp_path).scan().count() == 1


def test_the_first_row_of_a_table_keeps_its_row_id(tmp_path: Path) -> None:
    save_in_two_commits(
        rows((0, "a")).slice(1), tmp_path, format="delta", properties={"delta.enableRowTracking": "true"}
    )
    table = lakescan.table(tmp_path)
    first, second = table._target(WriteOptions()), table._target(WriteOptions())
    _ = second.scan.snapshot
    append(first)  # its row has the id 0
    append(second)
    assert [actions_of(tmp_path, version, "add")[0]["baseRowId"] for version in (1, 2)] == [0, 1]


def test_new_columns_do_not_replace_columns_of_concurrently_added_rows(tmp_path: Path) -> None:
    save_in_two_commits(rows((0, "a")).slice(1), tmp_path, format="delta")
    target = lakescan.table(tmp_path)._target(WriteOptions())
    other = TableDefinition(assign_ids(target.writes.columns_for(pa.schema([("other", pa.string())]))))
    lakescan.table(tmp_path).append(rows((1, "a")))
    with pytest.raises(lakescan.CommitConflict, match="whose rows this commit may depend on"):
        target.with_schema(other).replace_all([], [])  # the first commit had nothing to remove
    assert lakescan.table(tmp_path).to_arrow().to_pylist() == [{"id": 1, "part": "a"}]


def replaces_table(folder: Path, properties: dict[str, str]) -> None:
    columns = lakescan.table(folder)._target(WriteOptions()).writes.schema.fields
    replace_table(str(folder), TableDefinition(columns, properties=properties), Storage())


def test_a_replaced_table_records_since_when_its_commits_have_timestamps(tmp_path: Path) -> None:
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta")  # versions 0 and 1
    before = tmp_path / "_delta_log" / f"{1:020d}.json"
    os.utime(before, (4e9, 4e9))  # written by a machine whose clock is ahead
    for _ in range(2):  # the second time, the table has timestamps already
        replaces_table(tmp_path, {"delta.enableInCommitTimestamps": "true"})
        lakescan.table(tmp_path).append(rows((2, "a")))
    since = actions_of(tmp_path, 2, "commitInfo")[0]["inCommitTimestamp"]
    assert since == 4_000_000_000_001
    for version in (2, 4):
        configuration = actions_of(tmp_path, version, "metaData")[0]["configuration"]
        assert configuration["delta.inCommitTimestampEnablementVersion"] == "2"
        assert configuration["delta.inCommitTimestampEnablementTimestamp"] == str(since)
    times = lakescan.table(tmp_path).history()["timestamp"].to_pylist()
    assert len(times) == 6
    assert times == sorted(set(times))


def test_ids_of_new_columns_are_new_even_if_the_highest_was_not_kept(tmp_path: Path) -> None:
    mapping = {"delta.columnMapping.mode": "name"}
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta", properties=mapping)
    first = tmp_path / "_delta_log" / f"{0:020d}.json"
    first.write_text(first.read_text().replace('"delta.columnMapping.maxColumnId":"2"', '"x":""'))
    lakescan.table(tmp_path).append(rows((2, "a")).append_column("more", [[3]]), merge_schema=True)
    metadata = actions_of(tmp_path, 2, "metaData")[0]
    ids = [each["metadata"]["delta.columnMapping.id"] for each in json.loads(metadata["schemaString"])["fields"]]
    assert ids == [1, 2, 3]
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "3"
    assert sorted(lakescan.table(tmp_path).to_arrow()["more"].to_pylist(), key=str) == [3, None]


@pytest.mark.parametrize(
    ("columns", "why"),
    [({"part": ["a"]}, "by all of its columns"), ({"id": [1], "part": [{"a": 1}]}, "'part' of type struct")],
)
def test_partition_columns_have_texts_and_leave_a_column_for_the_rows(
    columns: dict[str, list[Any]], why: str, tmp_path: Path
) -> None:
    with pytest.raises(lakescan.UnsupportedFeature, match=why):
        save_in_two_commits(pa.table(columns), tmp_path / "new", format="delta", partition_by="part")
    assert not (tmp_path / "new").exists()
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta", partition_by="part")
    with pytest.raises(lakescan.UnsupportedFeature, match=why):
        lakescan.table(tmp_path).overwrite(pa.table(columns), overwrite_schema=True)


def test_rows_without_a_column_for_data_files_are_refused(tmp_path: Path) -> None:
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta", partition_by="part")
    first = tmp_path / "_delta_log" / f"{0:020d}.json"
    first.write_text(first.read_text().replace('"partitionColumns":["part"]', '"partitionColumns":["id","part"]'))
    with pytest.raises(lakescan.UnsupportedFeature, match="no columns for data files"):
        lakescan.table(tmp_path).append(rows((2, "b")))


def test_user_properties_do_not_replace_delta_members_of_a_commit(tmp_path: Path) -> None:
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta")
    table = lakescan.table(tmp_path)
    for name in ("inCommitTimestamp", "isBlindAppend", "txnId"):
        with pytest.raises(lakescan.InvalidOption, match=f"snapshot-property.{name}: Delta's commits already have"):
            table.append(rows((2, "a")), **{f"snapshot-property.{name}": "x"})
    table.append(rows((2, "a")), **{"snapshot-property.job.name": "nightly"})
    assert actions_of(tmp_path, 2, "commitInfo")[0]["job.name"] == "nightly"
    assert len(list(tmp_path.glob("*.parquet"))) == 2


def test_column_names_of_the_change_feed_are_reserved(tmp_path: Path) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    named = rows((1, "a")).append_column("_Commit_version", [[7]])
    with pytest.raises(lakescan.UnsupportedFeature, match="'_Commit_version' of a Delta table with a change data feed"):
        save_in_two_commits(named, tmp_path, format="delta", properties=feed)
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta", properties=feed)
    for write in (
        lambda: lakescan.table(tmp_path).append(named, merge_schema=True),
        lambda: lakescan.table(tmp_path).overwrite(named, overwrite_schema=True),
    ):
        with pytest.raises(lakescan.UnsupportedFeature, match="'_Commit_version'"):
            write()
    assert lakescan.table(tmp_path).version == 1


def test_unreadable_metadata_is_not_committed(tmp_path: Path) -> None:
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta", properties={"delta.columnMapping.mode": "name"})
    first = tmp_path / "_delta_log" / f"{0:020d}.json"
    first.write_text(first.read_text().replace('maxColumnId":"2"', f'maxColumnId":"{2**31 - 1}"'))
    with pytest.raises(lakescan.CorruptMetadata, match=r"columnMapping\.id"):  # the next id is too large
        lakescan.table(tmp_path).append(rows((2, "a")).append_column("more", [[3]]), merge_schema=True)
    assert lakescan.table(tmp_path).to_arrow().to_pylist() == [{"id": 1, "part": "a"}]


def test_metadata_of_other_writers_is_kept_when_columns_change(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, rows((1, "a")), name="orders", description="of shops")
    first = tmp_path / "_delta_log" / f"{0:020d}.json"
    first.write_text(first.read_text().replace('"options":{}', '"options":{"k":"v"}'))
    before = actions_of(tmp_path, 0, "metaData")[0]
    lakescan.table(tmp_path).append(rows((2, "a")).append_column("more", [[3]]), merge_schema=True)
    after = actions_of(tmp_path, 1, "metaData")[0]
    assert before["format"]["options"] == {"k": "v"}
    assert {**after, "schemaString": ""} == {**before, "schemaString": ""}


def test_a_constraint_keeps_its_columns(tmp_path: Path) -> None:
    deltalake.write_deltalake(tmp_path, rows((1, "a")))
    deltalake.DeltaTable(tmp_path).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(lakescan.UnsupportedFeature, match=r"'positive' .*, id > 0, without one of its columns"):
        lakescan.table(tmp_path).overwrite(pa.table({"part": ["a"]}), overwrite_schema=True)


def test_a_commit_made_during_the_conflict_check_is_checked_as_well(tmp_path: Path) -> None:
    """Three concurrent commits: the lookup of the second came too early, the lookup of the third did not."""
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta", partition_by="part")
    target = lakescan.table(tmp_path)._target(WriteOptions())
    read = target.scan.snapshot.id
    other = lakescan.table(tmp_path)
    other.append(rows((2, "b")))
    other.overwrite(rows((3, "a")), where="part = 'a'")
    other.append(rows((4, "b")))
    look_up, hidden = Storage.look_up, [f"{read + 2:020d}.json"]

    def too_early(storage: Storage, locations: Sequence[str]) -> list[Any]:
        found, names = look_up(storage, locations), [each.rpartition("/")[2] for each in locations]
        if hidden and hidden[0] in names and len(names) > 1:
            found[names.index(hidden.pop())] = None
        return found

    with patch.object(Storage, "look_up", too_early), pytest.raises(lakescan.CommitConflict, match=f"{read + 2} "):
        target.rewrite(files_to_replace(target, [], parse_filter("part = 'a'"), dynamic=False).files_to_remove, [])
    assert not hidden


def _checkpointed(folder: Path, value: int) -> None:
    lakescan.save(pa.table({"n": [value]}), str(folder), format="delta")
    lakescan.table(str(folder)).checkpoint()


def _rows_after(change: Callable[[], object]) -> pa.RecordBatchReader:
    """Return rows that are read after the table is opened and after another writer's change."""
    rows = pa.table({"n": [2]})

    def batches() -> Iterator[pa.RecordBatch]:
        change()
        yield from rows.to_batches()

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


def test_a_rewritten_checkpoint_does_not_make_another_table(tmp_path: Path) -> None:
    _checkpointed(tmp_path, 1)
    (file,) = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")

    def rewrite() -> None:
        pq.write_table(pq.read_table(file), file, compression="gzip")

    lakescan.table(str(tmp_path)).append(_rows_after(rewrite))
    assert sorted(lakescan.table(str(tmp_path)).scan().to_arrow()["n"].to_pylist()) == [1, 2]


def test_a_table_that_replaces_one_with_a_checkpoint_gets_none_of_its_rows(tmp_path: Path) -> None:
    _checkpointed(tmp_path, 1)

    def recreate() -> None:
        shutil.rmtree(tmp_path)
        _checkpointed(tmp_path, 7)

    with pytest.raises(lakescan.CommitConflict, match="dropped and recreated"):
        lakescan.table(str(tmp_path)).append(_rows_after(recreate))
    assert lakescan.table(str(tmp_path)).scan().to_arrow()["n"].to_pylist() == [7]


def test_writes_that_change_no_data_are_marked_and_no_stream_shows_them(tmp_path: Path) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    save_in_two_commits(rows((1, "a"), (2, "b")), tmp_path, format="delta", partition_by="part", properties=feed)
    table, before = lakescan.table(tmp_path), newest_version(tmp_path)
    stream = table.stream(wait=False)
    assert sum(batch.num_rows for batch in stream) == 2
    table.overwrite(rows((1, "a"), (2, "b")), dataChange=False)
    table.overwrite(rows((1, "a")), where="part = 'a'", dataChange="false")
    table.overwrite(rows((2, "b")), where="id = 2", dataChange="false")
    table.append(rows((9, "a")).slice(0, 0), dataChange=False)
    table.append(rows((3, "c")), dataChange=False)
    for version in range(before + 1, newest_version(tmp_path) + 1):
        for name in ("add", "remove"):
            assert not any(each["dataChange"] for each in actions_of(tmp_path, version, name))
        assert actions_of(tmp_path, version, "cdc") == []
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert [batch.num_rows for batch in lakescan.table(tmp_path).stream(start=stream.offset, wait=False)] == []
    assert table.changes(start=before).to_arrow().num_rows == 0
    table.append(rows((4, "c")), dataChange=True)
    assert actions_of(tmp_path, newest_version(tmp_path), "add")[0]["dataChange"]


@pytest.mark.parametrize(
    "write",
    [
        lambda table, new: table.append(new, dataChange=False, mergeSchema=True),
        lambda table, new: table.overwrite(new, dataChange=False, overwriteSchema=True),
        lambda table, new: table.delete("id = 1", dataChange=False),
        lambda table, new: lakescan.save(new, f"{table.location}/new", format="delta", dataChange=False),
    ],
)
def test_only_writes_that_move_rows_may_change_no_data(tmp_path: Path, write: Any) -> None:
    save_in_two_commits(rows((1, "a")), tmp_path, format="delta")
    before = newest_version(tmp_path)
    with pytest.raises(lakescan.InvalidOption, match="dataChange"):
        write(lakescan.table(tmp_path), rows((2, "b")).append_column("more", [[3]]))
    assert newest_version(tmp_path) == before
    assert not (tmp_path / "new").exists()
