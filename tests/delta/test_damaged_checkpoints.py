"""Damaged checkpoints are refused. A damaged pointer to one, or damage outside the rows, fails no read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lakescan
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.checkpoint_files import checkpoint_actions
from lakescan.delta.log.log_text import has_right_checksum
from lakescan.delta.table import DeltaTable
from lakescan.errors import CorruptMetadata, LakescanError, StorageError
from lakescan.formats.table_format import SnapshotSelector
from lakescan.storage import Storage
from tests.support.delta_logs import VECTOR, change_action, commit_file, read, rewrite
from tests.support.faulty import faulty_storage

READER = ActionReader(Storage(), ("p",))

UUID = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5"


def with_add(file: Path, change: Callable[[pa.StructArray], pa.Array | None]) -> None:
    """Change the column of adds in a checkpoint; None removes it."""
    rows = pq.read_table(file)
    changed = change(rows["add"].combine_chunks())
    at = rows.schema.get_field_index("add")
    pq.write_table(rows.remove_column(at) if changed is None else rows.set_column(at, "add", changed), file)


def member(adds: pa.StructArray, name: str, value: Callable[[pa.Array], pa.Array]) -> pa.StructArray:
    """Return the adds with another value of a member."""
    fields = {f.name: pc.struct_field(adds, f.name) for f in adds.type}
    fields[name] = value(fields[name])
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields), mask=adds.is_null())


def with_member(adds: pa.StructArray, name: str, values: pa.Array) -> pa.StructArray:
    """Return the adds with one more member."""
    fields = {**{f.name: pc.struct_field(adds, f.name) for f in adds.type}, name: values}
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


def in_two_parts(checkpoint: Path) -> tuple[Path, Path]:
    """Split the checkpoint into a part of files and a part of other actions, which has no column of files."""
    rows = pq.read_table(checkpoint)
    first, second = (checkpoint.with_name(f"{1:020d}.checkpoint.{n:010d}.{2:010d}.parquet") for n in (1, 2))
    pq.write_table(rows.filter(rows["add"].is_null()).drop_columns(["add", "remove"]), first)
    pq.write_table(rows.filter(rows["add"].is_valid()).select(["add"]), second)
    checkpoint.unlink()
    (checkpoint.parent / "_last_checkpoint").write_text('{"version": 1, "size": 6, "parts": 2}')
    for number in (0, 1):  # so that only the checkpoint has the state
        (checkpoint.parent / f"{number:020d}.json").unlink()
    return first, second


def test_a_part_of_a_checkpoint_needs_no_column_of_files(checkpointed: Path) -> None:
    """A test table of the Delta kernel has such parts (`parquet_row_group_skipping`)."""
    in_two_parts(checkpointed)
    table = lakescan.table(checkpointed.parents[1])
    assert read(checkpointed.parents[1]) == [0, 1, 2, 3, 4, 5]
    assert table.count() == 6
    table.append(pa.table({"n": pa.array([6]), "p": ["y"]}))
    table.checkpoint()
    assert read(checkpointed.parents[1]) == [0, 1, 2, 3, 4, 5, 6]


def test_a_part_whose_files_are_in_a_column_of_another_name_is_refused(checkpointed: Path) -> None:
    _, second = in_two_parts(checkpointed)
    pq.write_table(pq.read_table(second).rename_columns(["adds"]), second)
    with pytest.raises(CorruptMetadata, match=r"no text column add\.path"):
        read(checkpointed.parents[1])


@pytest.mark.parametrize(
    "parsed",
    [
        {"numRecords": "x", "minValues": {"n": "x"}, "maxValues": {"n": []}, "nullCount": {"n": ["x"]}},
        {"numRecords": {"a": 1}, "minValues": 5, "maxValues": "x", "nullCount": []},
        {"numRecords": -5, "minValues": {"n": b"x"}, "nullCount": {"n": -1}},
        5,
    ],
    ids=str,
)
def test_parsed_statistics_of_other_types_fail_no_read(checkpointed: Path, parsed: Any) -> None:
    with_add(checkpointed, lambda adds: with_member(adds, "stats_parsed", pa.array([parsed] * len(adds))))
    assert read(checkpointed.parents[1]) == [0, 1, 2, 3, 4, 5]
    assert lakescan.table(checkpointed.parents[1]).scan().where("n >= 0").to_arrow().num_rows == 6


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


def test_a_checkpoint_that_declares_more_rows_than_its_bytes_can_hold_is_refused(tmp_path: Path) -> None:
    nothing = pa.nulls(2_000_000, pa.struct([("path", pa.string())]))
    pq.write_table(pa.table({"add": nothing}), tmp_path / "c.parquet")
    with pytest.raises(CorruptMetadata, match=r"2,000,000 rows .* in a file of"):
        READER.checkpoint_part(str(tmp_path / "c.parquet"))


def v2_checkpoint(table: Path, *more: dict[str, Any]) -> Path:
    """Replace all commits up to version 1 by a JSON checkpoint of it."""
    lines = [json.loads(line) for v in (0, 1) for line in commit_file(table, v).read_text().splitlines()]
    kept = [line for line in lines if "commitInfo" not in line]
    file = table / "_delta_log" / f"{1:020d}.checkpoint.{UUID}.json"
    file.write_text("\n".join(json.dumps(line) for line in [{"checkpointMetadata": {"version": 1}}, *kept, *more]))
    commit_file(table, 0).unlink()
    return file


def test_a_json_checkpoint_must_name_its_version(table: Path) -> None:
    file = v2_checkpoint(table)
    assert read(table) == [0, 1, 2, 3, 4, 5]
    rewrite(file, lambda lines: lines[0]["checkpointMetadata"].update(version=2))
    with pytest.raises(CorruptMetadata, match=r"has checkpointMetadata\.version 2"):
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
        ({"path": "../00000000000000000001.json"}, "not a Parquet file"),
        ({"path": "nosuch.parquet"}, "nosuch.parquet"),
    ],
)
def test_an_incomplete_sidecar_is_refused(table: Path, sidecar: Any, fault: str) -> None:
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
def test_an_inconsistent_pointer_is_ignored(checkpointed: Path, pointer: str) -> None:
    (checkpointed.parent / "_last_checkpoint").write_text(pointer)
    assert read(checkpointed.parents[1]) == [0, 1, 2, 3, 4, 5]


def test_a_pointer_with_a_valid_checksum_counts_the_files_of_its_checkpoint(checkpointed: Path) -> None:
    node = {"version": 1, "size": 6, "numOfAddFiles": 3}
    canonical = '"numOfAddFiles"=3,"size"=6,"version"=1'
    checksum = hashlib.md5(canonical.encode(), usedforsecurity=False).hexdigest()
    pointer = checkpointed.parent / "_last_checkpoint"
    pointer.write_text(json.dumps({**node, "checksum": checksum}))
    with pytest.raises(CorruptMetadata, match=r"has 4 add actions, but _last_checkpoint, .* counts 3"):
        read(checkpointed.parents[1])
    pointer.write_text(json.dumps({**node, "checksum": "0" * 32}))  # a damaged pointer is ignored
    assert read(checkpointed.parents[1]) == [0, 1, 2, 3, 4, 5]


def test_the_protocols_example_has_its_checksum() -> None:
    inner = {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}
    node = {"k0": "'v 0'", "checksum": "6a92d155a59bf2eecbd4b4ec7fd1f875", "k1": inner}
    assert has_right_checksum(node) is True
    assert has_right_checksum({**node, "x": 1}) is False
    assert has_right_checksum({**node, "x": 1.5}) is None
    assert has_right_checksum(inner) is None


def test_a_stray_part_of_a_huge_checkpoint_does_not_count(table: Path) -> None:
    (table / "_delta_log" / f"{1:020d}.checkpoint.{1:010d}.{9999999999:010d}.parquet").write_bytes(b"x")
    assert read(table) == [0, 1, 2, 3, 4, 5]


# Damage outside the rows fails no read


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


def test_a_vector_with_more_deletes_than_rows_is_checked_before_rows_are_counted(table: Path) -> None:
    vector = {**VECTOR, "cardinality": 99}
    rewrite(commit_file(table, 1), change_action("add", "deletionVector", vector))
    with pytest.raises(StorageError):  # the vector's file, which a read of metadata would not need
        lakescan.table(table).scan().count()


@pytest.mark.parametrize("size", [2**48, 2**60, 2**63 - 1, -1])
def test_impossible_sizes_cause_no_extra_work(table: Path, size: int) -> None:
    rewrite(commit_file(table, 1), change_action("add", "size", size))
    assert lakescan.table(table).scan().plan().splits.num_rows < 100
    assert read(table) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("place", ["open", "read", "info", "list", "short", "empty"])
def test_a_storage_error_is_not_reported_as_damage(checkpointed: Path, place: str) -> None:
    location = str(checkpointed.parents[1])
    (checkpointed.parent / "_last_checkpoint").unlink()
    for after in range(8):
        storage = faulty_storage(place, TimeoutError("timed out"), after=after)
        try:
            table = DeltaTable.open(location, storage)
            snapshot = table.snapshot(SnapshotSelector())
            assert sum(b.num_rows for b in table.metadata_table("files", snapshot).read(None)) == 4
        except StorageError:
            continue


def test_an_entry_is_read_completely_or_not_at_all(table: Path) -> None:
    opened = lakescan.table(table)
    content = commit_file(table, 1).read_bytes()
    commit_file(table, 1).write_bytes(content[: content.rindex(b"\n", 0, -1)])
    with pytest.raises(StorageError, match="was listed with"):
        opened.scan().to_arrow()
