"""Deletes apply to exactly the files that the specification defines."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.errors import CorruptMetadata
from lakescan.iceberg.scan.delete_index import DeleteIndex

STATS = pa.struct(
    [
        pa.field(n, pa.list_(pa.struct([("key", pa.int32()), ("value", pa.binary())])))
        for n in ("lower_bounds", "upper_bounds")
    ]
)
SCHEMA = pa.schema(
    [
        ("content", pa.int32()),
        ("file_path", pa.string()),
        ("file_format", pa.string()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        ("referenced_data_file", pa.string()),
        ("content_offset", pa.int64()),
        ("content_size_in_bytes", pa.int64()),
        ("sequence_number", pa.int64()),
        ("spec_id", pa.int32()),
        ("partition_key", pa.string()),
        ("equality_ids", pa.list_(pa.int32())),
        ("key_metadata", pa.binary()),
        ("stats", STATS),
    ]
)


def row(
    path: str, sequence: int, partition: str = "p1", spec: int = 1, content: int = 0, **more: Any
) -> dict[str, Any]:
    base = {"content": content, "file_path": path, "file_format": "parquet", "record_count": 1, "file_size_in_bytes": 1}
    return {**base, "sequence_number": sequence, "spec_id": spec, "partition_key": partition, **more}


def positions(path: str, sequence: int, **more: Any) -> dict[str, Any]:
    return row(path, sequence, content=1, **more)


def vector(path: str, sequence: int, of: str, **more: Any) -> dict[str, Any]:
    where = {"file_format": "puffin", "referenced_data_file": of, "content_offset": 4, "content_size_in_bytes": 9}
    return row(path, sequence, content=1, **{**where, **more})


def equality(path: str, sequence: int, **more: Any) -> dict[str, Any]:
    return row(path, sequence, content=2, **more)


def bounds(low: str, high: str) -> dict[str, Any]:
    pair = [[{"key": 2147483546, "value": v.encode()}] for v in (low, high)]
    return {"lower_bounds": pair[0], "upper_bounds": pair[1]}


def matched(data: list[dict[str, Any]], deletes: list[dict[str, Any]]) -> dict[str, list[str]]:
    index = DeleteIndex.build(pa.Table.from_pylist(deletes, schema=SCHEMA), frozenset({0}), {})
    pairs = index.match(pa.Table.from_pylist(data, schema=SCHEMA)).expand()
    names = index.table["path"].to_pylist() if deletes else []
    found: dict[str, list[str]] = {d["file_path"]: [] for d in data}
    for file, delete in zip(*(each.tolist() for each in pairs), strict=True):
        found[data[file]["file_path"]].append(names[delete])
    return found


def test_position_deletes_apply_to_their_partition_up_to_their_own_commit() -> None:
    data = [
        row("older", 1),
        row("same", 2),
        row("newer", 3),
        row("elsewhere", 1, partition="p2"),
        row("spec", 1, spec=2),
    ]
    assert matched(data, [positions("d", 2)]) == {
        "older": ["d"],
        "same": ["d"],
        "newer": [],
        "elsewhere": [],
        "spec": [],
    }


def test_position_deletes_that_name_one_file_apply_to_it_only() -> None:
    data = [row("a", 1), row("b", 1)]
    assert matched(data, [positions("d", 2, referenced_data_file="b")]) == {"a": [], "b": ["d"]}
    assert matched(data, [positions("d", 2, stats=bounds("b", "b"))]) == {"a": [], "b": ["d"]}


def test_position_deletes_of_several_files_apply_to_all_of_their_partition_whatever_their_bounds() -> None:
    """A path within the bounds may be another spelling of a file outside of them: `x/2//b` is `x/2/b`."""
    data = [row("x/1", 1), row("x/2/b", 1)]
    assert matched(data, [positions("d", 2, stats=bounds("x/1", "x/2/a"))]) == {"x/1": ["d"], "x/2/b": ["d"]}


def test_a_vector_applies_to_its_file_and_supersedes_position_deletes_there() -> None:
    data = [row("a", 1), row("b", 1)]
    assert matched(data, [positions("d", 2), vector("v", 3, of="a")]) == {"a": ["v"], "b": ["d"]}


def test_a_delete_of_a_removed_data_file_applies_to_nothing() -> None:
    assert matched([row("a", 1)], [vector("v", 3, of="gone"), positions("d", 2, referenced_data_file="gone")]) == {
        "a": []
    }


def test_two_vectors_for_one_file_are_refused() -> None:
    with pytest.raises(CorruptMetadata, match="more than one deletion vector"):
        matched([row("a", 1)], [vector("v", 2, of="a"), vector("w", 3, of="a")])


def test_equality_deletes_apply_to_older_files_of_their_partition() -> None:
    data = [row("older", 1), row("same", 2), row("elsewhere", 1, partition="p2")]
    assert matched(data, [equality("e", 2)]) == {"older": ["e"], "same": [], "elsewhere": []}


def test_equality_deletes_of_an_unpartitioned_spec_apply_everywhere() -> None:
    data = [row("a", 1), row("b", 1, partition="p2"), row("c", 1, spec=2)]
    assert matched(data, [equality("e", 2, spec=0, partition="")]) == {"a": ["e"], "b": ["e"], "c": ["e"]}


@given(
    data=st.lists(st.tuples(st.integers(0, 4), st.sampled_from("xyz"), st.integers(0, 1)), min_size=1, max_size=8),
    deletes=st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from("xyz"), st.integers(0, 1), st.integers(1, 2)), max_size=8
    ),
)
def test_bulk_matching_equals_the_rules_applied_pair_by_pair(data: list[Any], deletes: list[Any]) -> None:
    files = [row(f"f{n}", seq, partition=p, spec=s) for n, (seq, p, s) in enumerate(data)]
    index = [row(f"d{n}", seq, partition=p, spec=s, content=c) for n, (seq, p, s, c) in enumerate(deletes)]

    def applies(file: dict[str, Any], delete: dict[str, Any]) -> bool:
        inside = (file["spec_id"], file["partition_key"]) == (delete["spec_id"], delete["partition_key"])
        if delete["content"] == 1:
            return inside and file["sequence_number"] <= delete["sequence_number"]
        return (inside or delete["spec_id"] == 0) and file["sequence_number"] < delete["sequence_number"]

    expected = {f["file_path"]: {d["file_path"] for d in index if applies(f, d)} for f in files}
    found = matched(files, index)
    assert {path: set(each) for path, each in found.items()} == expected
    assert all(len(set(each)) == len(each) for each in found.values())
