"""A log that is damaged is refused, with the file and the line: no row is lost, made up, or brought back in silence."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.delta.actions import ActionReader
from lakescan.delta.checkpoint_actions import checkpoint_actions
from lakescan.delta.log_text import LogText
from lakescan.delta.replay import live_files
from lakescan.errors import CorruptMetadata, LakescanError, StorageError, UnsupportedFeature
from lakescan.storage import Storage

READER = ActionReader(Storage(), ("p",))
VECTOR = {"storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1, "sizeInBytes": 4, "cardinality": 1}
ADD = {"path": "a", "partitionValues": {"p": "x"}, "size": 1, "modificationTime": 1, "dataChange": True}
MISSING = object()


def text(*lines: Any, version: int = 0) -> LogText:
    content = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    return LogText(f"{version:020d}.json", content.encode(), version)


def replaced(node: dict[str, Any], member: str, value: Any) -> dict[str, Any]:
    """The node with another value of a member, of which dots part the path; without it for `MISSING`."""
    node = copy.deepcopy(node)
    *path, last = member.split(".")
    inner = node
    for name in path:
        inner = inner[name]
    inner.pop(last, None)
    if value is not MISSING:
        inner[last] = value
    return node


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two commits of three rows each, in two partitions."""
    for start in (0, 3):
        rows = pa.table({"n": pa.array(range(start, start + 3)), "p": ["x", "x", "y"]})
        write_deltalake(tmp_path / "t", rows, partition_by=["p"], mode="append")
    return tmp_path / "t"


def commit_file(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020d}.json"


def rewrite(file: Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the parsed lines of a log file in place."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    change(lines)
    file.write_text("\n".join(json.dumps(line) for line in lines))


def change_action(name: str, member: str, value: Any) -> Callable[[list[dict[str, Any]]], None]:
    def change(lines: list[dict[str, Any]]) -> None:
        at = next(i for i, line in enumerate(lines) if name in line)
        lines[at] = replaced(lines[at], f"{name}.{member}" if member else name, value)

    return change


def read(table: Path) -> list[int]:
    found: list[int] = sorted(lakescan.table(table).scan().to_arrow()["n"].to_pylist())
    return found


# File actions of commits


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("add", "a"),
        ("add", ["a"]),
        ("add", 5),
        ("add.path", MISSING),
        ("add.path", None),
        ("add.path", ""),
        ("add.path", 5),
        ("add.path", {"path": "a"}),
        ("add.size", "many"),
        ("add.size", 2**63),
        ("add.size", 1.5),
        ("add.size", True),
        ("add.partitionValues", "x"),
        ("add.partitionValues.p", ["x"]),
        ("add.deletionVector", {}),
        ("add.deletionVector", "x"),
        ("add.deletionVector.storageType", MISSING),
        ("add.deletionVector.storageType", None),
        ("add.deletionVector.storageType", "q"),
        ("add.deletionVector.pathOrInlineDv", MISSING),
        ("add.deletionVector.pathOrInlineDv", "short"),
        ("add.deletionVector.sizeInBytes", MISSING),
        ("add.deletionVector.sizeInBytes", 2**31),
        ("add.deletionVector.cardinality", MISSING),
        ("add.deletionVector.cardinality", -1),
        ("add.deletionVector.offset", -1),
        ("remove", "a"),
        ("remove.path", MISSING),
        ("remove.path", 5),
        ("remove.deletionVector.storageType", MISSING),
        ("remove.deletionVector", []),
    ],
)
def test_a_file_action_of_another_shape_is_refused_with_its_file_and_line(member: str, value: Any) -> None:
    name = member.split(".")[0]
    whole = {name: {**ADD, "deletionVector": VECTOR}}
    commit = text({"commitInfo": {}}, replaced(whole, member, value), version=7)
    for method in (READER.commits, READER.changes):
        if method == READER.changes and member == "add.deletionVector":
            continue
        with pytest.raises(CorruptMetadata, match=r"^0{19}7\.json, line 2[: ].*Restore the file"):
            method([text({"commitInfo": {}}), commit])


@pytest.mark.parametrize("member", ["path", "partitionValues"])
def test_an_action_of_the_change_feed_of_another_shape_is_refused(member: str) -> None:
    with pytest.raises(CorruptMetadata, match=r"0\.json, line 1: cdc"):
        READER.changes([text({"cdc": replaced(ADD, member, 5)})])


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["", " \n"], "holds no action"),
        (["\n"], "holds no action"),
        (["null"], "line 1 is null"),
        (["{}", "[]"], r"line 2 is \[\]"),
        (["{}", '{"add": {"path": "a"'], "line 2 is not JSON"),
        (['{"commitInfo": {}} {"commitInfo": {}}'], "line 1 is not JSON"),
        (["{}", '{"x": ' + "[" * 10**5 + "]" * 10**5 + ', "add": 5}'], "line 2"),
        (['{"x": ' + "9" * 10**4 + ', "add": 5}'], "too many digits"),
        ([{"add": ADD, "remove": ADD}], "more than one file action"),
        (['{"add": {"path": "a", "path": "b"}}'], "line 1: add has a member more than once"),
        (['{"add": {"path": "a"}, "add": null}'], "line 1: the line has a member more than once"),
        (["{}\n" * 300_000], "less than actions take"),
    ],
)
def test_a_commit_that_is_no_json_lines_is_refused(lines: list[Any], fault: str) -> None:
    with pytest.raises(CorruptMetadata, match=fault) as raised:
        READER.commits([text(*lines)])
    assert len(str(raised.value)) < 400


def test_bytes_that_are_no_text_are_refused_with_their_line() -> None:
    with pytest.raises(CorruptMetadata, match=r"0\.json, line 2 is not JSON that can be read: byte 18 is not UTF-8"):
        READER.commits([LogText("0.json", b'{}\n{"add": {"path":"\xff"}}')])


def test_what_the_protocol_lets_writers_add_or_leave_out_is_read() -> None:
    least = {"path": "a", "partitionValues": {"p": None}}
    lines = [
        "\ufeff" + json.dumps({"commitInfo": {}, "unknown": 1}),
        "",
        {"unknown": {"path": "b"}, "add": {**least, "unknown": [1]}},
        {"add": None},
        {"remove": {"path": "z"}},
        {"add": {**ADD, "path": "c", "size": None, "stats": {"numRecords": 1}, "partitionValues": {"p": 7}}},
    ]
    found = live_files([READER.commits([text(*lines)])], "/t")
    assert found["path"].to_pylist() == ["/t/a", "/t/c"]
    assert found["partition"].to_pylist() == [{"p": None}, {"p": "7"}]
    assert found["line"].to_pylist() == [3, 6]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["path", "p", "x"]), inner, max_size=2),
    max_leaves=4,
)
MEMBERS = ["path", "partitionValues", "size", "stats", "deletionVector", "dataChange", "baseRowId", "modificationTime"]


@settings(max_examples=150)
@given(name=st.sampled_from(["add", "remove", "cdc"]), changes=st.dictionaries(st.sampled_from(MEMBERS), JSON))
def test_whatever_an_action_holds_it_is_read_or_refused(name: str, changes: dict[str, Any]) -> None:
    commit = text({name: {**ADD, **changes}})
    for method in (READER.commits, READER.changes):
        found = read_or_refused(method, commit)
        assert found is None or found["path"].to_pylist() in ([changes.get("path", "a")], [])


def read_or_refused(method: Callable[[list[LogText]], pa.Table], commit: LogText) -> pa.Table | None:
    """What a method reads of a commit of one line; None where it is refused in words that name the place."""
    try:
        return method([commit])
    except CorruptMetadata as error:
        if not str(error).startswith(f"{commit.location}, line 1"):
            raise
        return None


# What live files must say


@pytest.mark.parametrize("values", [MISSING, None, {}, {"q": "x"}])
def test_a_live_file_says_its_partition(values: Any) -> None:
    commit = text({"commitInfo": {}}, {"add": replaced(ADD, "partitionValues", values)}, version=3)
    with pytest.raises(CorruptMetadata, match=r"^0{19}3\.json, line 2 \(file /t/a\).*each partition column \(p\)"):
        live_files([READER.commits([commit])], "/t")


@pytest.mark.parametrize("name", ["p", 'a"b', "{p}", "ä", "a.b", "a\\b"])
@pytest.mark.parametrize("value", [None, "x", '{"', "}"])
def test_a_partition_column_is_found_whatever_its_name_and_value(name: str, value: str | None) -> None:
    reader = ActionReader(Storage(), ("other", name))
    lines = [
        {"add": {**ADD, "path": str(i), "partitionValues": {"other": None, **own}}}
        for i, own in enumerate([{name: value}, {}, {"x" + name: value}])
    ]
    for ascii_only in (True, False):
        commit = text(*(json.dumps(line, ensure_ascii=ascii_only) for line in lines))
        assert reader.commits([commit])["has_partition"].to_pylist() == [True, False, False]


def test_files_of_another_partitioning_may_be_in_the_log_as_long_as_they_are_gone() -> None:
    old = {"add": {**ADD, "path": "old", "partitionValues": {"q": "x"}}}
    commits = [text(old), text({"remove": {"path": "old"}}, {"add": ADD}, version=1)]
    assert live_files([READER.commits(commits)], "/t")["path"].to_pylist() == ["/t/a"]


def test_a_file_is_there_once_whatever_its_deletion_vectors() -> None:
    again = {"add": {**ADD, "deletionVector": VECTOR}}
    with pytest.raises(CorruptMetadata, match=r"file /t/a twice.*0\.json, line 1.*1\.json, line 1"):
        live_files([READER.commits([text({"add": ADD}), text(again, version=1)])], "/t")
    removed = text({"remove": {"path": "a"}}, again, version=1)
    assert live_files([READER.commits([text({"add": ADD}), removed])], "/t").num_rows == 1


def test_a_partition_value_of_another_type_is_refused_with_its_file_and_line(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"n": [1, 2, 3], "p": [1, 2, 3]}), partition_by=["p"])
    rewrite(commit_file(tmp_path, 0), change_action("add", "partitionValues.p", "seven"))
    with pytest.raises(CorruptMetadata, match=r'0\.json, line \d \(file .*the value "seven" of partition column'):
        read(tmp_path)


# Tables, end to end


def test_a_commit_that_was_cut_to_nothing_is_not_an_empty_one(table: Path) -> None:
    commit_file(table, 1).write_bytes(b"")
    with pytest.raises(CorruptMetadata, match=r"1\.json holds no action"):
        read(table)


@pytest.mark.parametrize("change", [("add", "path", MISSING), ("add", "", "x"), ("add", "partitionValues", MISSING)])
def test_no_way_of_reading_goes_past_a_damaged_action(table: Path, change: tuple[str, str, Any]) -> None:
    rewrite(commit_file(table, 1), change_action(*change))
    opened = lakescan.table(table)
    ways: list[Callable[[], Any]] = [
        opened.scan().to_arrow,
        opened.scan().count,
        lambda: opened.inspect("files").num_rows,
        lambda: opened.inspect("detail").num_rows,
        opened.scan().where("n > 100").to_arrow,
    ]
    for way in ways:
        with pytest.raises(CorruptMetadata, match=r"1\.json, line \d"):
            way()
    assert lakescan.table(table, versionAsOf=0).scan().count() == 3


def test_a_stray_commit_far_ahead_is_a_gap(table: Path) -> None:
    shutil.copy(commit_file(table, 1), commit_file(table, 10**9))
    with pytest.raises(CorruptMetadata, match=r"commit 2 .* is missing for version 1000000000"):
        read(table)


def test_a_version_beyond_all_versions_is_refused(table: Path) -> None:
    shutil.copy(commit_file(table, 1), table / "_delta_log" / ("9" * 20 + ".json"))
    with pytest.raises(CorruptMetadata, match="no table can have"):
        read(table)


def test_what_commits_say_of_themselves_fails_no_history(table: Path) -> None:
    node = {"operationMetrics": [], "operationParameters": "x", "readVersion": "x", "isBlindAppend": 5, "userId": {}}
    rewrite(commit_file(table, 1), lambda lines: lines.append({"commitInfo": {**node, "timestamp": 10**17}}))
    rewrite(commit_file(table, 1), lambda lines: lines.__delitem__(0) if "commitInfo" in lines[0] else None)
    assert lakescan.table(table).history()["readVersion"].to_pylist()[-1] is None


# Protocol and metadata


@pytest.mark.parametrize(
    ("name", "member", "value"),
    [
        ("protocol", "", 5),
        ("protocol", "", []),
        ("protocol", "minReaderVersion", MISSING),
        ("protocol", "minReaderVersion", "x"),
        ("protocol", "minReaderVersion", 2.7),
        ("protocol", "minReaderVersion", [1]),
        ("protocol", "minReaderVersion", 3),
        ("protocol", "readerFeatures", "deletionVectors"),
        ("protocol", "readerFeatures", [1]),
        ("protocol", "writerFeatures", {"a": 1}),
        ("metaData", "", True),
        ("metaData", "schemaString", MISSING),
        ("metaData", "schemaString", 5),
        ("metaData", "schemaString", "x"),
        ("metaData", "schemaString", "[]"),
        ("metaData", "partitionColumns", MISSING),
        ("metaData", "partitionColumns", None),
        ("metaData", "partitionColumns", "p"),
        ("metaData", "partitionColumns", ["p", "p"]),
        ("metaData", "partitionColumns", [5]),
        ("metaData", "partitionColumns", ["nosuch"]),
        ("metaData", "configuration", "x"),
        ("metaData", "configuration", [["a", "b"]]),
        ("metaData", "configuration", {"delta.columnMapping.mode": "nosuch"}),
        ("metaData", "configuration", {"delta.columnMapping.mode": 5}),
        ("metaData", "format", 5),
    ],
)
def test_a_protocol_or_metadata_of_another_shape_is_refused(table: Path, name: str, member: str, value: Any) -> None:
    rewrite(commit_file(table, 0), change_action(name, member, value))
    with pytest.raises(CorruptMetadata, match=r"0\.json, line \d+: ") as raised:
        read(table)
    assert "Error" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "member", "value", "feature"),
    [
        ("protocol", "minReaderVersion", 99, "reader version 99"),
        ("protocol", "readerFeatures", ["nosuch"], "nosuch"),
        ("metaData", "format", {"provider": "orc"}, "orc"),
    ],
)
def test_what_this_version_does_not_know_is_unsupported(
    table: Path, name: str, member: str, value: Any, feature: str
) -> None:
    rewrite(commit_file(table, 0), change_action(name, member, value))
    with pytest.raises(UnsupportedFeature, match=feature):
        read(table)


@pytest.mark.parametrize("name", ["protocol", "metaData"])
def test_a_version_has_one_protocol_and_one_metadata(table: Path, name: str) -> None:
    def twice(lines: list[dict[str, Any]]) -> None:
        lines.append(copy.deepcopy(next(line for line in lines if name in line)))

    rewrite(commit_file(table, 0), twice)
    assert read(table) == [0, 1, 2, 3, 4, 5]  # the same line twice says the same
    other = {"protocol": {"minReaderVersion": 2}, "metaData": {"schemaString": '{"type":"struct","fields":[]}'}}[name]
    rewrite(commit_file(table, 0), lambda lines: lines[-1][name].update(other))
    with pytest.raises(CorruptMetadata, match=rf"a second {name} action"):
        read(table)


def test_properties_may_be_null_numbers_and_booleans(table: Path) -> None:
    properties = {"delta.columnMapping.mode": None, "delta.enableChangeDataFeed": False, "x": 5}
    rewrite(commit_file(table, 0), change_action("metaData", "configuration", properties))
    assert read(table) == [0, 1, 2, 3, 4, 5]
    assert lakescan.table(table).properties == {"delta.enableChangeDataFeed": "false", "x": "5"}


# Checkpoints


@pytest.fixture
def checkpointed(table: Path) -> Path:
    DeltaTable(table).create_checkpoint()
    return next((table / "_delta_log").glob("*.checkpoint.parquet"))


def with_add(file: Path, change: Callable[[pa.StructArray], pa.Array | None]) -> None:
    """Change the column of adds of a checkpoint; None takes it out."""
    rows = pq.read_table(file)
    changed = change(rows["add"].combine_chunks())
    at = rows.schema.get_field_index("add")
    pq.write_table(rows.remove_column(at) if changed is None else rows.set_column(at, "add", changed), file)


def member(adds: pa.StructArray, name: str, value: Callable[[pa.Array], pa.Array]) -> pa.StructArray:
    """The adds with another value of a member."""
    fields = {f.name: pc.struct_field(adds, f.name) for f in adds.type}
    fields[name] = value(fields[name])
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=adds.is_null())


@pytest.mark.parametrize(
    "change",
    [
        lambda adds: None,
        lambda adds: pa.nulls(len(adds), pa.int64()),
        lambda adds: member(adds, "path", lambda paths: pa.nulls(len(paths), pa.string())),
        lambda adds: member(adds, "path", lambda paths: pa.array(range(len(paths)))),
        lambda adds: member(adds, "partitionValues", lambda values: pa.nulls(len(values), values.type)),
        lambda adds: member(adds, "partitionValues", lambda values: pa.array(range(len(values)))),
        lambda adds: member(adds, "size", lambda sizes: pa.array(["x"] * len(sizes))),
    ],
    ids=["no adds", "numbers", "no path", "paths of numbers", "no values", "values of numbers", "sizes of text"],
)
def test_a_checkpoint_of_other_columns_is_refused(
    checkpointed: Path, change: Callable[[pa.StructArray], pa.Array | None]
) -> None:
    with_add(checkpointed, change)
    with pytest.raises(CorruptMetadata, match="checkpoint"):
        read(checkpointed.parents[1])


def test_partition_columns_that_the_map_of_a_checkpoint_leaves_out_are_refused(checkpointed: Path) -> None:
    def renamed(values: pa.MapArray) -> pa.MapArray:
        keys = pa.array(["q"] * len(values.keys))
        return pa.MapArray.from_arrays(values.offsets, keys, values.items, mask=values.is_null())

    with_add(checkpointed, lambda adds: member(adds, "partitionValues", renamed))
    with pytest.raises(CorruptMetadata, match=r"row \d of a checkpoint .* each partition column \(p\)"):
        read(checkpointed.parents[1])


@pytest.mark.parametrize(
    "work",
    [
        READER.checkpoint_part,
        READER.sidecars,
        lambda location: list(checkpoint_actions(location, Storage(), ("protocol", "metaData"))),
    ],
)
@pytest.mark.parametrize("at", [0.3, 0.6, 0.9])
def test_a_checkpoint_that_was_cut_off_is_refused(checkpointed: Path, work: Callable[[str], Any], at: float) -> None:
    content = checkpointed.read_bytes()
    checkpointed.write_bytes(content[: int(len(content) * at)])
    with pytest.raises(CorruptMetadata, match=checkpointed.name):
        work(str(checkpointed))


def test_a_checkpoint_without_content_is_passed_over_for_the_commits(checkpointed: Path) -> None:
    checkpointed.write_bytes(b"")
    assert read(checkpointed.parents[1]) == [0, 1, 2, 3, 4, 5]


def test_a_checkpoint_that_says_more_rows_than_its_bytes_can_hold_is_refused(tmp_path: Path) -> None:
    nothing = pa.nulls(2_000_000, pa.struct([("path", pa.string())]))
    pq.write_table(pa.table({"add": nothing}), tmp_path / "c.parquet")
    with pytest.raises(CorruptMetadata, match=r"2,000,000 rows .* in a file of"):
        READER.checkpoint_part(str(tmp_path / "c.parquet"))


UUID = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"


def v2_checkpoint(table: Path, *more: dict[str, Any]) -> Path:
    """A JSON checkpoint of version 1 in the place of all commits up to it."""
    lines = [json.loads(line) for v in (0, 1) for line in commit_file(table, v).read_text().splitlines()]
    kept = [line for line in lines if "commitInfo" not in line]
    file = table / "_delta_log" / f"{1:020d}.checkpoint.{UUID}.json"
    file.write_text("\n".join(json.dumps(line) for line in [{"checkpointMetadata": {"version": 1}}, *kept, *more]))
    commit_file(table, 0).unlink()
    return file


def test_a_json_checkpoint_says_of_which_version_it_is(table: Path) -> None:
    file = v2_checkpoint(table)
    assert read(table) == [0, 1, 2, 3, 4, 5]
    rewrite(file, lambda lines: lines[0]["checkpointMetadata"].update(version=2))
    with pytest.raises(CorruptMetadata, match="says that it is of version 2"):
        read(table)
    rewrite(file, lambda lines: lines.pop(0))
    with pytest.raises(CorruptMetadata, match="has no checkpointMetadata"):
        read(table)


@pytest.mark.parametrize(
    ("sidecar", "fault"),
    [
        ("x", "line 7: sidecar is "),
        ({"sizeInBytes": 1}, "line 7: sidecar.path is missing"),
        ({"path": None}, "line 7: sidecar.path is missing"),
        ({"path": "../00000000000000000001.json"}, "sidecars are Parquet files"),
        ({"path": "nosuch.parquet"}, "nosuch.parquet"),
    ],
)
def test_a_sidecar_that_is_not_whole_is_refused(table: Path, sidecar: Any, fault: str) -> None:
    file = v2_checkpoint(table, {"sidecar": sidecar})
    place = len(file.read_text().splitlines())
    with pytest.raises(LakescanError, match=fault.replace("line 7", f"line {place}")):
        read(table)


@pytest.mark.parametrize(
    "pointer",
    [
        "",
        "[]",
        "[" * 10**5,
        '{"version": null}',
        '{"version": -1}',
        '{"version": 1e400}',
        '{"version": 1, "parts": 2000000000}',
        '{"version": 1, "parts": "x"}',
        '{"version": 1, "v2Checkpoint": 5}',
        '{"version": 1, "v2Checkpoint": {"path": null}}',
        '{"version": 0, "v2Checkpoint": {"path": "00000000000000000000.json"}}',
        '{"version": 7, "v2Checkpoint": {"path": "00000000000000000001.checkpoint.parquet"}}',
        '{"version": ' + "1" * 5000 + "}",
    ],
)
def test_a_pointer_that_makes_no_sense_is_as_if_there_were_none(checkpointed: Path, pointer: str) -> None:
    (checkpointed.parent / "_last_checkpoint").write_text(pointer)
    assert read(checkpointed.parents[1]) == [0, 1, 2, 3, 4, 5]


def test_a_stray_part_of_a_huge_checkpoint_does_not_count(table: Path) -> None:
    (table / "_delta_log" / f"{1:020d}.checkpoint.{1:010d}.{9999999999:010d}.parquet").write_bytes(b"x")
    assert read(table) == [0, 1, 2, 3, 4, 5]


# What says nothing of rows fails no read


@pytest.mark.parametrize(
    "checksum", ["", "[]", "[" * 10**5, '{"numFiles": "x", "tableSizeBytes": 1e400}', '{"numFiles": 9}']
)
def test_a_damaged_checksum_fails_no_read(table: Path, checksum: str) -> None:
    (table / "_delta_log" / f"{1:020d}.crc").write_text(checksum)
    assert read(table) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "stats",
    [
        "",
        "null",
        "x",
        "[" * 10**5,
        '{"numRecords": "x"}',
        '{"numRecords": 1e400}',
        '{"numRecords": ' + "9" * 5000 + "}",
        '{"numRecords": ROWS, "minValues": []}',
        '{"numRecords": ROWS, "minValues": {"n": "\\ud800"}}',
        '{"numRecords": ROWS}\n{"numRecords": ROWS}',
        5,
        {"numRecords": None},
    ],
)
def test_damaged_statistics_fail_no_read(table: Path, stats: Any) -> None:
    adds = [line for line in commit_file(table, 1).read_text().splitlines() if "add" in json.loads(line)]
    rows = json.loads(json.loads(adds[0])["add"]["stats"])["numRecords"]
    if isinstance(stats, str):
        stats = stats.replace("ROWS", str(rows))
    rewrite(commit_file(table, 1), change_action("add", "stats", stats))
    assert read(table) == [0, 1, 2, 3, 4, 5]
    assert lakescan.table(table).scan().where("n >= 0").to_arrow().num_rows == 6


def test_a_vector_that_deletes_more_than_the_file_has_is_looked_at_before_rows_are_counted(table: Path) -> None:
    vector = {**VECTOR, "cardinality": 99}
    rewrite(commit_file(table, 1), change_action("add", "deletionVector", vector))
    with pytest.raises(StorageError):  # the vector's file, which the metadata alone would not need
        lakescan.table(table).scan().count()


@pytest.mark.parametrize("size", [2**48, 2**60, 2**63 - 1, -1])
def test_sizes_that_cannot_be_make_no_more_work(table: Path, size: int) -> None:
    rewrite(commit_file(table, 1), change_action("add", "size", size))
    assert lakescan.table(table).scan().plan().splits.num_rows < 100
    assert read(table) == [0, 1, 2, 3, 4, 5]


def test_a_fault_of_storage_is_not_taken_for_damage(checkpointed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise StorageError("timed out")

    monkeypatch.setattr(Storage, "open", fail)
    with pytest.raises(StorageError, match="timed out"):
        READER.checkpoint_part(str(checkpointed))
    with pytest.raises(StorageError, match="timed out"):
        READER.commits([LogText("x", Storage().read(str(checkpointed)))])


def test_an_entry_is_read_whole_or_not_at_all(table: Path) -> None:
    opened = lakescan.table(table)
    content = commit_file(table, 1).read_bytes()
    commit_file(table, 1).write_bytes(content[: content.rindex(b"\n", 0, -1)])
    with pytest.raises(StorageError, match="listing said"):
        opened.scan().to_arrow()
