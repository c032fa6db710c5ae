"""Row changes of Delta tables made through the internal API: find rows, then write deletes and files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

import lakescan
from lakescan.delta.target import DeltaTarget
from lakescan.expressions.sql import parse_filter
from lakescan.options.write import WriteOptions
from lakescan.tables.row_changes import RemovedFile, RowChanges, RowCounts, RowLevelCommand
from lakescan.writing.parquet_writer import write_rows
from lakescan.writing.table_writes import WrittenDeletes
from tests.support.delta_state import newest_version

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
IDS = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}


def target_of(folder: Path, **options: Any) -> DeltaTarget:
    """Return the table as a target, at its current version."""
    target = lakescan.table(folder)._target(WriteOptions.parse(options, "delta"))
    assert isinstance(target, DeltaTarget)
    _ = target.scan.snapshot
    return target


def found(target: DeltaTarget, where: str) -> pa.Table:
    """Return the rows that match, with their files and positions."""
    scan = lakescan.table(target.location, versionAsOf=target.base_state).scan().where(where)
    return scan.select(*target.writes.schema.names, "_file", "_pos").to_arrow()


def mark(target: DeltaTarget, where: str, write_id: str = "write") -> list[WrittenDeletes]:
    """Write deletion vectors for the rows that match."""
    positions: dict[str, list[int]] = {}
    for row in found(target, where).to_pylist():
        positions.setdefault(row["_file"], []).append(row["_pos"])
    table = target.scan.plan().table
    at = [each for each, path in enumerate(table.files["path"].to_pylist()) if path in positions]
    files = table.take(pa.array(at, pa.int64()))
    bitmaps = [BitMap64(positions[path]) for path in files.files["path"].to_pylist()]
    return list(target.delete_writer(write_id).write(files, bitmaps))


def delete(target: DeltaTarget, where: str, **more: Any) -> None:
    """DELETE the rows that match a condition, by deletion vectors."""
    deletes = mark(target, where)
    counts = RowCounts(deleted=sum(each.rows for each in deletes))
    words = {"predicate": where}
    target.change(
        RowChanges(
            RowLevelCommand.DELETE, parse_filter(where), deletes=deletes, counts=counts, parameters=words, **more
        )
    )


def update(target: DeltaTarget, where: str, new: pa.Table, **more: Any) -> None:
    """UPDATE by deletion vectors: delete the rows that match, and write the new rows to other files."""
    deletes, files = mark(target, where), write_rows(target.writes, new.to_batches(), "new")
    counts = RowCounts(updated=sum(each.rows for each in deletes))
    target.change(
        RowChanges(RowLevelCommand.UPDATE, parse_filter(where), deletes=deletes, files=files, counts=counts, **more)
    )


def files_to_remove(target: DeltaTarget, where: str) -> list[RemovedFile]:
    """Return the files with matching rows, to be removed whole."""
    paths = dict.fromkeys(found(target, where)["_file"].to_pylist())
    return [RemovedFile(path, {}, 0) for path in paths]


def images(target: DeltaTarget, *changes: tuple[str, pa.Table]) -> Any:
    """Write change files of rows by their kind of change."""
    assert target.change_files is not None
    return write_rows(target.change_files.writes, _tagged(changes), "images")


def _tagged(changes: tuple[tuple[str, pa.Table], ...]) -> Iterator[pa.RecordBatch]:
    for kind, rows in changes:
        yield from rows.append_column("_change_type", pa.array([kind] * rows.num_rows)).to_batches()


def actions(folder: Path, name: str, version: int | None = None) -> list[dict[str, Any]]:
    """Return the actions of a name in a commit, by default the newest."""
    number = newest_version(folder) if version is None else version
    lines = (folder / "_delta_log" / f"{number:020d}.json").read_text().splitlines()
    return [json.loads(line)[name] for line in lines if name in json.loads(line)]


def ids(folder: Path, version: int | None = None) -> list[int]:
    """Return the column `id` of a version, by default the newest, sorted."""
    options = {} if version is None else {"versionAsOf": version}
    rows = lakescan.table(folder, **options).scan().to_arrow()
    return sorted(rows["id"].to_pylist())


def changes(folder: Path) -> list[tuple[str, int]]:
    """Return the kind and the id of each row change of the newest version."""
    version = newest_version(folder)
    read = lakescan.table(folder).changes(start=version - 1, end=version).to_arrow()
    return sorted((row["_change_type"], row["id"]) for row in read.to_pylist())
