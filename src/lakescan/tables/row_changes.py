"""The commit of a statement that changes rows (DELETE, UPDATE, MERGE).

A statement finds rows of the base by their data file and position. In merge-on-read, a `DeleteWriter` of the format
records them as deleted, in one worker per group of files. In copy-on-write, the files are rewritten without them. New
and changed rows are written to separate data files. `RowLevelChanges.change` commits everything at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lakescan.expressions.predicate import Predicate
from lakescan.writing.table_writes import DeleteWriter as DeleteWriter
from lakescan.writing.table_writes import WrittenDeletes, WrittenFile


class RowLevelCommand(StrEnum):
    """The statements that change rows. The isolation level and the mode depend on the statement."""

    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"


class RowLevelOperationMode(StrEnum):
    """How changed rows are recorded, named as in the table properties."""

    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"


@dataclass(frozen=True)
class RowCounts:
    """The numbers of rows that a statement inserted, updated and deleted, and that it copied unchanged to new files.

    - `source`: the number of rows of a MERGE's source; None if not counted.
    - `updated_alone`, `deleted_alone`: the updated and deleted rows that matched no row of a MERGE's source.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    copied: int = 0
    source: int | None = None
    updated_alone: int = 0
    deleted_alone: int = 0


@dataclass(frozen=True)
class OperationTimes:
    """The times that a statement took, in seconds; None if unknown.

    `execution` is the time before the commit, `scan` the time to find rows, `rewrite` the time to rewrite files.
    """

    execution: float
    scan: float | None = None
    rewrite: float | None = None


@dataclass(frozen=True)
class RowChanges:
    """One commit of a statement that changes rows.

    - `read`: the rows of the base that the statement read, as an unbound predicate; None for all. Depending on the
      isolation level, concurrent commits that add or change matching rows are conflicts.
    - `removed`: data files without remaining rows: all rows are deleted, or were rewritten (copy-on-write).
    - `deletes`: deletes of rows in files that stay.
    - `files`: data files with new, changed and copied rows.
    - `change_files`: files that record the changes (`Overwrites.change_files`); None if readers infer the changes from
      the other files.
    - `parameters`: the statement's conditions for the table's history: `predicate` in SQL, and for a MERGE
      `matchedPredicates`, `notMatchedPredicates` and `notMatchedBySourcePredicates`, each a list as JSON text, such as
      `[{"predicate":"s.gone","actionType":"delete"}]`.
    - `times`: the times that the statement took, for the table's history.
    - `reads_rows`: whether it read rows to find those to change; False if metadata was enough.
    """

    statement: RowLevelCommand
    read: Predicate | None
    removed: Sequence[RemovedFile] = ()
    deletes: Sequence[WrittenDeletes] = ()
    files: Sequence[WrittenFile] = ()
    change_files: Sequence[WrittenFile] | None = None
    counts: RowCounts = field(default_factory=RowCounts)
    parameters: Mapping[str, str] = field(default_factory=dict)
    times: OperationTimes | None = None
    reads_rows: bool = True

    def __bool__(self) -> bool:
        return bool(self.removed or self.deletes or self.files)


@dataclass(frozen=True)
class RemovedFile:
    """A data file to remove: its location, partition values and size in bytes."""

    location: str
    partition: Mapping[str, Any]
    size: int
