"""Replaying a log in any legal chunking gives the same files, and the fast and the plain parser agree."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.json_lines import parse_log_texts
from lakescan.delta.log.log_text import LogText, single_actions
from lakescan.delta.log.replay import file_locations, reconcile, update_live_files
from lakescan.errors import CorruptMetadata
from lakescan.storage import Storage

READER = ActionReader(Storage(), ("p",))
LOOSE = frozenset({"stats", "partitionValues"})


def vector(number: int | None) -> dict[str, Any]:
    if number is None:
        return {}
    where = {"storageType": "u", "pathOrInlineDv": f"{number:020d}", "offset": 1, "sizeInBytes": 4, "cardinality": 1}
    return {"deletionVector": where}


def add(path: str, number: int | None = None) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {"p": path[0]}, "size": 1, "dataChange": True, **vector(number)}}


def remove(path: str, number: int | None = None) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True, **vector(number)}}


def commit(version: int, actions: list[dict[str, Any]]) -> LogText:
    lines = actions or [{"commitInfo": {}}]
    return LogText(f"{version}.json", "\n".join(json.dumps(a) for a in lines).encode(), version)


def live(parts: list[pa.Table]) -> set[tuple[str, str | None]]:
    found = reconcile(parts, "/table")
    vectors = found["vector"].combine_chunks().field("pathOrInlineDv") if found.num_rows else pa.array([], pa.string())
    names = [path.removeprefix("/table/") for path in found["path"].to_pylist()]
    return set(zip(names, vectors.to_pylist(), strict=True))


def replayed(commits: list[list[dict[str, Any]]]) -> set[tuple[str, str | None]]:
    """Replay the log as the protocol describes it, one action at a time."""
    state: set[tuple[str, str | None]] = set()
    for actions in commits:
        for action in sorted(actions, key=lambda a: "add" in a):
            node = action.get("add") or action["remove"]
            key = (node["path"], node.get("deletionVector", {}).get("pathOrInlineDv"))
            state = state | {key} if "add" in action else state - {key}
    return state


ACTIONS = st.builds(
    lambda make, path, number: make(path, number),
    st.sampled_from([add, remove]),
    st.sampled_from(["a", "b", "c"]),
    st.none() | st.integers(0, 2),
)
COMMITS = st.lists(
    st.lists(ACTIONS, max_size=4, unique_by=lambda a: json.dumps(next(iter(a.values()))["path"]) + str(a)), max_size=6
)


@pytest.mark.slow
@settings(max_examples=200)
@given(commits=COMMITS, cuts=st.sets(st.integers(0, 6)), checkpoint=st.integers(0, 6))
def test_any_chunking_of_the_log_gives_the_same_files(
    commits: list[list[dict[str, Any]]], cuts: set[int], checkpoint: int
) -> None:
    numbered = [commit(v, c) for v, c in enumerate(commits)]
    bounds = sorted({0, len(commits), *(c for c in cuts if c <= len(commits))})
    chunks = [READER.commits(numbered[a:b]) for a, b in itertools.pairwise(bounds)] or [READER.commits([])]
    expected = replayed(commits)
    assert live(chunks) == expected
    # A checkpoint of the first commits, then the rest.
    base = [add(path, None if n is None else int(n)) for path, n in replayed(commits[:checkpoint])]
    stored = READER.commits([commit(-1, base)])
    assert live([stored, READER.commits(numbered[checkpoint:])]) == expected


def test_an_update_of_a_vector_keeps_the_file_with_its_new_vector() -> None:
    commits = [
        commit(0, [add("a")]),
        commit(1, [remove("a"), add("a", 1)]),
        commit(2, [remove("a", 1), add("a", 2)]),
    ]
    assert live([READER.commits(commits)]) == {("a", f"{2:020d}")}


def test_two_spellings_of_an_absolute_path_are_one_file() -> None:
    commits = [commit(0, [add("file:///x/a%20b")]), commit(1, [remove("/x/a%20b")])]
    assert live([READER.commits(commits)]) == set()


@pytest.mark.parametrize(
    ("table", "spellings"),
    [
        ("hdfs://nn/t", ["f", "hdfs://nn:8020/t/f", "hdfs:///t/f", "/t/f", "hdfs://NN/t/f"]),
        ("s3://b/t", ["f", "s3a://b/t/f", "s3n://b/t/f", "s3://b/t/f"]),
        ("s3a://b/t", ["s3://other/f", "s3a://other/f", "s3n://other/f"]),
        ("gs://b/t", ["f", "gcs://b/t/f"]),
        (
            "abfss://c@a.dfs.core.windows.net/t",
            ["f", "abfs://c@a.dfs.core.windows.net/t/f", "wasbs://c@a.blob.core.windows.net/t/f"],
        ),
        ("/t", ["f", "file:/t/f", "file:///t/f", "/t/f"]),
    ],
)
def test_all_spellings_of_a_location_are_one_file(table: str, spellings: list[str]) -> None:
    for added, removed in itertools.permutations(spellings, 2):
        commits = [commit(0, [add(added), add("other")]), commit(1, [remove(removed)])]
        first, second = (READER.commits([each]) for each in commits)
        names = {path.rpartition("/")[2] for path in reconcile([first, second], table)["path"].to_pylist()}
        assert names == {"other"}
        known = reconcile([first], table)
        assert {path.rpartition("/")[2] for path in update_live_files(known, [second], table)["path"].to_pylist()} == {
            "other"
        }


def test_a_file_that_is_added_under_two_spellings_is_live_once() -> None:
    parts = [READER.commits([commit(0, [add("f")]), commit(1, [add("hdfs://nn:8020/t/f")])])]
    assert reconcile(parts, "hdfs://nn/t")["path"].to_pylist() == ["hdfs://nn/t/f"]


def test_different_keys_of_an_object_store_are_different_files() -> None:
    parts = [READER.commits([commit(0, [add("s3a://b/t//f"), add("f")]), commit(1, [remove("f")])])]
    assert reconcile(parts, "s3://b/t")["path"].to_pylist() == ["s3://b/t//f"]


def test_paths_are_uris_relative_to_the_table_or_absolute() -> None:
    paths = pa.array(["plain", "a%20b", "p=%25/x", "time%3A1.parquet", "s3://b/a%20b", "/abs/%41"])
    locations = ["/t/plain", "/t/a b", "/t/p=%/x", "/t/time:1.parquet", "s3://b/a b", "/abs/A"]
    assert file_locations(paths, "/t/").to_pylist() == locations


def with_a_blank_line(text: LogText) -> LogText:
    """Return the same actions as a text that only the plain parser accepts."""
    return LogText(text.location, b"\n" + text.content, text.version)


LINES = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "add": st.fixed_dictionaries(
                {"path": st.text(max_size=5)},
                optional={
                    "size": st.integers(-(2**63), 2**63 - 1),
                    "partitionValues": st.fixed_dictionaries({}, optional={"p": st.none() | st.text(max_size=3)}),
                    "stats": st.none() | st.text(max_size=5),
                    "tags": st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
                },
            ),
            "txn": st.just({"appId": "x", "version": 1}),
        },
    ),
    max_size=6,
)


@settings(max_examples=200)
@given(lines=LINES)
def test_the_fast_parser_and_the_plain_one_agree(lines: list[dict[str, Any]]) -> None:
    schema = READER._json_schema()
    text = commit(0, lines)
    found, blank = (parse_log_texts([each], schema, LOOSE) for each in (text, with_a_blank_line(text)))
    assert [part.rows.to_pylist() for part in found] == [part.rows.to_pylist() for part in blank]


def test_lines_that_the_fast_parser_refuses_are_read_by_the_plain_one() -> None:
    odd = {"add": {"path": "a", "size": 1, "partitionValues": {"p": 7}}}
    found = READER.commits([commit(0, [odd])])
    assert found["partition"].combine_chunks().field("p").to_pylist() == ["7"]


def test_a_line_that_is_not_json_is_refused() -> None:
    with pytest.raises(CorruptMetadata, match=r"^0\.json, line 2 is not valid JSON"):
        READER.commits([LogText("0.json", b'{"commitInfo": {}}\n{"add": {"path"\n')])


def test_single_actions_come_newest_first() -> None:
    text = commit(0, [{"metaData": {"id": "1"}}, add("a"), {"metaData": {"id": "2"}}])
    found = [(action.get("id"), action.where) for action in single_actions(text, ("metaData",))]
    assert found == [("2", "0.json, line 3"), ("1", "0.json, line 1")]


def test_a_checkpoints_adds_are_read_from_parquet(tmp_path: Path) -> None:
    kind = pa.struct(
        [
            ("path", pa.string()),
            ("partitionValues", pa.map_(pa.string(), pa.string())),
            ("size", pa.int64()),
            ("stats", pa.string()),
        ]
    )
    rows = [{"path": "a%20b", "partitionValues": [("p", "x")], "size": 3, "stats": "{}"}, None]
    pq.write_table(pa.table({"add": pa.array(rows, kind)}), tmp_path / "c.parquet")
    part = READER.checkpoint_part(str(tmp_path / "c.parquet"))
    found = reconcile([part], "/table")
    assert found["path"].to_pylist() == ["/table/a b"]
    assert found["partition"].to_pylist() == [{"p": "x"}]
