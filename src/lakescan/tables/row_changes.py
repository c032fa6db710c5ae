"""What a statement that changes rows (DELETE, UPDATE, MERGE) commits, and how deletes by position are written.

A statement finds rows of the base by their data file and position. In merge-on-read, a `DeleteWriter` of the format
records them as deleted, in a worker for each group of files; in copy-on-write, the files are rewritten without them.
New and changed rows are in data files of their own. `RowLevelChanges.change` commits all of it at once.
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
    """The kinds of statements that change rows; the isolation level and the mode depend on it."""

    DELETE = "delete"
    UPDATE = "update"
    MERGE = "merge"


class RowLevelOperationMode(StrEnum):
    """How changed rows are recorded, by the names of the table properties."""

    MERGE_ON_READ = "merge-on-read"
    COPY_ON_WRITE = "copy-on-write"


@dataclass(frozen=True)
class RowCounts:
    """How many rows a statement inserted, updated and deleted, and how many others it wrote again (copied).

    - `updated_alone`, `deleted_alone`: those of the updated and deleted rows that matched no row of a MERGE's source.
    - `source`: the rows of a MERGE's source, None where they were not counted.
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
    """How long a statement took, in seconds: until it commits, to find rows, to write files again; None if unknown."""

    execution: float
    scan: float | None = None
    rewrite: float | None = None


@dataclass(frozen=True)
class RowChanges:
    """One commit of a statement that changes rows.

    - `read`: the rows of the base that the statement read, as a predicate that is not bound; None for all. Rows that
      others add or change since are a conflict if they may match, as far as the isolation level says so.
    - `removed`: data files that have no rows any more: all are deleted, or written again (copy-on-write).
    - `deletes`: deletes of rows of files that stay.
    - `files`: data files with new, changed and copied rows.
    - `change_files`: files that record the changes (`Overwrites.change_files`); None where readers infer them from the
      other files.
    - `parameters`: the statement's own words for the table's history: `predicate`, a condition in SQL; of a MERGE also
      `matchedPredicates`, `notMatchedPredicates` and `notMatchedBySourcePredicates`, each a list as JSON text, such as
      `[{"predicate":"s.gone","actionType":"delete"}]`.
    - `times`: how long it took, for the table's history.
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

    def __bool__(self) -> bool:
        return bool(self.removed or self.deletes or self.files)


@dataclass(frozen=True)
class RemovedFile:
    """A data file to remove: its location, its partition values, its size in bytes."""

    location: str
    partition: Mapping[str, Any]
    size: int
