"""Damaged commits are refused with file and line: no row is lost, invented or restored silently."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.log_text import LogText
from lakescan.delta.log.replay import live_files
from lakescan.errors import CorruptMetadata
from lakescan.storage import Storage
from tests.support.delta_logs import ADD, MISSING, VECTOR, change_action, commit_file, read, rewrite, text, with_member

READER = ActionReader(Storage(), ("p",))


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
    commit = text({"commitInfo": {}}, with_member(whole, member, value), version=7)
    for method in (READER.commits, READER.changes):
        if method == READER.changes and member == "add.deletionVector":
            continue
        with pytest.raises(CorruptMetadata, match=r"^0{19}7\.json, line 2[: ].*Restore the file"):
            method([text({"commitInfo": {}}), commit])


@pytest.mark.parametrize("member", ["path", "partitionValues"])
def test_an_action_of_the_change_feed_of_another_shape_is_refused(member: str) -> None:
    with pytest.raises(CorruptMetadata, match=r"0\.json, line 1: cdc"):
        READER.changes([text({"cdc": with_member(ADD, member, 5)})])


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["", " \n"], "has no actions"),
        (["\n"], "has no actions"),
        (["null"], "line 1 is null"),
        (["{}", "[]"], r"line 2 is \[\]"),
        (["{}", '{"add": {"path": "a"'], "line 2 is not valid JSON"),
        (['{"commitInfo": {}} {"commitInfo": {}}'], "line 1 is not valid JSON"),
        (["{}", '{"x": ' + "[" * 10**5 + "]" * 10**5 + ', "add": 5}'], "line 2"),
        (['{"x": ' + "9" * 10**4 + ', "add": 5}'], "too many digits"),
        ([{"add": ADD, "remove": ADD}], "more than one file action"),
        (['{"add": {"path": "a", "path": "b"}}'], "line 1: add has a member more than once"),
        (['{"add": {"path": "a"}, "add": null}'], "line 1: the line has a member more than once"),
        (["{}\n" * 300_000], "too short to be actions"),
    ],
)
def test_a_commit_that_is_not_json_lines_is_refused(lines: list[Any], fault: str) -> None:
    with pytest.raises(CorruptMetadata, match=fault) as raised:
        READER.commits([text(*lines)])
    assert len(str(raised.value)) < 400


def test_bytes_that_are_not_text_are_refused_with_their_line() -> None:
    with pytest.raises(CorruptMetadata, match=r"0\.json, line 2 is not valid JSON: byte 18 is not UTF-8"):
        READER.commits([LogText("0.json", b'{}\n{"add": {"path":"\xff"}}')])


def test_optional_and_extra_members_allowed_by_the_protocol_are_read() -> None:
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


@pytest.mark.slow
@settings(max_examples=150)
@given(name=st.sampled_from(["add", "remove", "cdc"]), changes=st.dictionaries(st.sampled_from(MEMBERS), JSON))
def test_whatever_an_action_holds_it_is_read_or_refused(name: str, changes: dict[str, Any]) -> None:
    commit = text({name: {**ADD, **changes}})
    for method in (READER.commits, READER.changes):
        found = read_or_refused(method, commit)
        assert found is None or found["path"].to_pylist() in ([changes.get("path", "a")], [])


def read_or_refused(method: Callable[[list[LogText]], pa.Table], commit: LogText) -> pa.Table | None:
    """Return the rows that a method reads from a one-line commit; None if it refuses the commit and names the file."""
    try:
        return method([commit])
    except CorruptMetadata as error:
        if not str(error).startswith(f"{commit.location}, line 1"):
            raise
        return None


# Required members of live files


@pytest.mark.parametrize("values", [MISSING, None, {}, {"q": "x"}])
def test_a_live_file_must_have_partition_values(values: Any) -> None:
    commit = text({"commitInfo": {}}, {"add": with_member(ADD, "partitionValues", values)}, version=3)
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


def test_removed_files_may_have_another_partitioning() -> None:
    old = {"add": {**ADD, "path": "old", "partitionValues": {"q": "x"}}}
    commits = [text(old), text({"remove": {"path": "old"}}, {"add": ADD}, version=1)]
    assert live_files([READER.commits(commits)], "/t")["path"].to_pylist() == ["/t/a"]


def test_a_file_is_live_once_whatever_its_deletion_vectors() -> None:
    again = {"add": {**ADD, "deletionVector": VECTOR}}
    with pytest.raises(CorruptMetadata, match=r"file /t/a is live twice.*0\.json, line 1.*1\.json, line 1"):
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
    with pytest.raises(CorruptMetadata, match=r"1\.json has no actions"):
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
    with pytest.raises(CorruptMetadata, match=r"version 1000000000 cannot be read: commit 2 .* is missing"):
        read(table)


def test_a_version_beyond_all_versions_is_refused(table: Path) -> None:
    shutil.copy(commit_file(table, 1), table / "_delta_log" / ("9" * 20 + ".json"))
    with pytest.raises(CorruptMetadata, match="exceeds the largest possible"):
        read(table)


def test_a_damaged_commit_info_fails_no_history(table: Path) -> None:
    node = {"operationMetrics": [], "operationParameters": "x", "readVersion": "x", "isBlindAppend": 5, "userId": {}}
    node |= {"job": "x", "notebook": []}
    rewrite(commit_file(table, 1), lambda lines: lines.append({"commitInfo": {**node, "timestamp": 10**17}}))
    rewrite(commit_file(table, 1), lambda lines: lines.__delitem__(0) if "commitInfo" in lines[0] else None)
    assert lakescan.table(table).history()["readVersion"].to_pylist()[-1] is None
