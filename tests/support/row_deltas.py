"""Row deltas in small tables: delete files, written by `samples`, as the file changes of a commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
from samples.iceberg_deletes import (
    DeleteFile,
    write_deletion_vectors,
    write_equality_deletes,
    write_position_deletes,
)

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.common import types as t
from lakescan.iceberg.commit.commit import IcebergCommit
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.commit_snapshot import commit_snapshot
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.iceberg.commit.snapshot_producer import SnapshotProducer
from lakescan.iceberg.data_files.table_writes import IcebergWrites
from lakescan.iceberg.manifests.manifest_writer import data_file_fields
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot
from lakescan.iceberg.table import IcebergTable
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage

STORAGE = Storage()


def open_table() -> tuple[Any, IcebergTable]:
    """Return the table `local.db.t` as opened by pyiceberg and by lakescan."""
    given = connection("local").load_table(("db", "t"))
    return given, IcebergTable.open(given.metadata_location, STORAGE)


def commit_base(branch: str = "main") -> CommitBase:
    """Return the base that a commit to the table would have now."""
    given, table = open_table()
    return CommitBase(table.metadata, given.metadata, branch)


def head_snapshot() -> IcebergSnapshot:
    """Return the newest snapshot of the main branch."""
    newest = commit_base().head
    assert newest is not None
    return newest


def roll_back(snapshot: int) -> None:
    """Make an older snapshot the newest one of the main branch."""
    with connection("local").load_table(("db", "t")).manage_snapshots() as refs:
        refs.rollback_to_snapshot(snapshot)


def positions_of(where: str) -> dict[str, list[int]]:
    """Return the positions of the rows that match a filter, by data file."""
    found: dict[str, list[int]] = {}
    for row in lakescan.table("local.db.t").scan().where(where).select("_file", "_pos").to_arrow().to_pylist():
        found.setdefault(row["_file"], []).append(row["_pos"])
    return found


def position_deletes(where: str) -> list[DeleteFile]:
    """Write a position delete file for each data file with matching rows, in its partition."""
    return [
        write_position_deletes(
            _new("parquet"), [(path, each) for each in positions], referenced_data_file=path, **_partition(path)
        )
        for path, positions in positions_of(where).items()
    ]


def vectors(where: str) -> list[DeleteFile]:
    """Write a deletion vector for each data file with matching rows, in its partition."""
    return vectors_of(positions_of(where))


def vectors_of(found: Mapping[str, list[int]]) -> list[DeleteFile]:
    """Write a deletion vector of these positions for each data file."""
    return [
        each
        for path, positions in found.items()
        for each in write_deletion_vectors(_new("puffin"), {path: positions}, **_partition(path))
    ]


def equality_deletes(ids: Sequence[int], part: str | None = None) -> list[DeleteFile]:
    """Write one equality delete file for rows with these `id`, in the partition `part` (None: unpartitioned)."""
    keys = pa.table({"id": pa.array(ids, pa.int64())})
    partition = {} if part is None else {"partition": {"part": part}}
    return [write_equality_deletes(_new("parquet"), keys, {"id": 1}, **partition)]


def added_deletes(files: Sequence[DeleteFile], spec_id: int = 0) -> dict[int, pa.Table]:
    """Return delete files in the form of the member `added_deletes` of file changes."""
    partition = commit_base().writer(spec_id).partition
    values = {
        "content": [each.content for each in files],
        "file_path": [each.path for each in files],
        "file_format": [each.file_format for each in files],
        "partition": [each.partition for each in files],
        "record_count": [each.record_count for each in files],
        "file_size_in_bytes": [each.size for each in files],
        "equality_ids": [each.equality_ids for each in files],
        "referenced_data_file": [each.referenced_data_file for each in files],
        "content_offset": [each.content_offset for each in files],
        "content_size_in_bytes": [each.content_size for each in files],
    }
    columns = {
        field.name: pa.array(values.get(field.name, [None] * len(files)), _arrow(field))
        for field in data_file_fields(partition, 3)
    }
    return {spec_id: pa.table(columns)}


def _arrow(field: t.Field) -> pa.DataType:
    if isinstance(field.type, t.Struct):
        return pa.struct([(each.name, each.type.arrow()) for each in field.type.fields])
    return field.type.arrow()


def _partition(path: str) -> dict[str, Any]:
    """Return the partition of a data file as in a manifest entry."""
    files = lakescan.table("local.db.t").inspect("files").to_pylist()
    [partition] = [each.get("partition", {}) for each in files if each["file_path"] == path]
    return {"partition": partition}


def _new(ending: str) -> str:
    return f"{commit_base().metadata.location}/data/{uuid4()}.{ending}"


def commit(branch: str = "main") -> IcebergCommit:
    """Return a commit based on the current table."""
    given, table = open_table()
    return IcebergCommit(given, IcebergWrites(given.metadata, STORAGE, WriteOptions()), table, branch)


def by_position(where: str) -> list[DeleteFile]:
    """Write deletes of the matching rows by position: vectors from version 3 on, otherwise position delete files."""
    return vectors(where) if commit_base().format_version > 2 else position_deletes(where)


def publish(operation: str, changes: SnapshotChanges) -> None:
    """Commit file changes unchanged, under the name of an operation."""
    given, _ = open_table()
    producer = SnapshotProducer(commit_base(), STORAGE, operation, changes)
    assert commit_snapshot(given, producer, set(producer.base.metadata.snapshots), STORAGE) is None


def record(change: Callable[[dict[str, str]], object]) -> None:
    """Change the summary of the newest snapshot, in the table's metadata file."""
    path = Path(open_table()[0].metadata_location.removeprefix("file://"))
    document = json.loads(path.read_text())
    change(document["snapshots"][-1]["summary"])
    path.write_text(json.dumps(document))
