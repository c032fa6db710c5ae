"""Row changes of the table `local.db.t` through the internal API: find rows, write files, and commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

import lakescan
from lakescan.expressions.sql import parse_filter
from lakescan.options.write import WriteOptions
from lakescan.planning.file_table import FileTable
from lakescan.tables.row_changes import RemovedFile, RowChanges, RowLevelCommand, RowLevelOperationMode
from lakescan.writing.parquet_writer import write_rows
from lakescan.writing.table_writes import WrittenDeletes
from tests.support import row_deltas
from tests.tables.support import NAME, Row, rows

MERGE_ON_READ = {f"write.{each}.mode": "merge-on-read" for each in RowLevelCommand}
COPY_ON_WRITE = "copy-on-write"


def planned_files(target: Any, paths: Sequence[str]) -> FileTable:
    """Return these data files of the base, with their deletes."""
    table = target.scan.plan().table
    numbers = pa.array([table.files["path"].to_pylist().index(path) for path in paths], pa.int64())
    return FileTable(table.files.take(numbers), table.deletes)


def positions_of(where: str, branch: str) -> dict[str, list[int]]:
    """Return the positions of a branch's matching rows, by data file."""
    found: dict[str, list[int]] = {}
    scan = lakescan.table(NAME, branch=branch).scan().where(where).select("_file", "_pos")
    for row in scan.to_arrow().to_pylist():
        found.setdefault(row["_file"], []).append(row["_pos"])
    return found


def begin_change(
    statement: str,
    where: str | None,
    new: Sequence[Row] = (),
    *,
    read: str | None = None,
    removes_whole: bool = True,
    **options: Any,
) -> Callable[[], None]:
    """Begin a statement that deletes the rows that match `where` and adds `new` ones; the returned function commits it.

    `read` is the condition of the rows that it read, by default `where`. With `removes_whole`, files that lose all rows
    are removed.
    """
    parsed = WriteOptions.parse(options, "iceberg")
    target = lakescan.table(NAME)._target(parsed)
    kind = RowLevelCommand(statement)
    found = {} if where is None else positions_of(where, parsed.branch)
    live = positions_of("true", parsed.branch)
    is_rewriting = target.mode_of(kind) is RowLevelOperationMode.COPY_ON_WRITE
    whole = [path for path in found if is_rewriting or (removes_whole and len(found[path]) == len(live[path]))]
    others = [path for path in found if path not in whole]
    copied = remaining_rows(where, whole, parsed.branch) if is_rewriting and where is not None else []
    deletes: Sequence[WrittenDeletes] = ()
    if others:
        bitmaps = [BitMap64(found[path]) for path in others]
        deletes = target.delete_writer("deletes").write(planned_files(target, others), bitmaps)
    written = write_rows(target.writes, rows(*copied, *new).to_batches(), "rows") if copied or new else []
    predicate = None if (read or where) is None else parse_filter(read or where or "")
    changes = RowChanges(kind, predicate, [RemovedFile(path, {}, 0) for path in whole], deletes, written)
    return lambda: target.change(changes)


def remaining_rows(where: str, paths: Sequence[str], branch: str) -> list[Row]:
    """Return the rows of data files that do not match."""
    scan = lakescan.table(NAME, branch=branch).scan().where(f"NOT ({where})").select("id", "part", "_file")
    return [(row["id"], row["part"]) for row in scan.to_arrow().to_pylist() if row["_file"] in paths]


def change(statement: str, where: str | None, new: Sequence[Row] = (), **options: Any) -> None:
    """Run a statement; see `begin_change`."""
    begin_change(statement, where, new, **options)()


def upgrade() -> None:
    """Raise the table's format version to 3, in its metadata file."""
    path = Path(row_deltas.open_table()[0].metadata_location.removeprefix("file://"))
    document = json.loads(path.read_text())
    document |= {"format-version": 3, "next-row-id": 1000}
    path.write_text(json.dumps(document))
