"""A table that is written to: how files are written, and how they are committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from lakescan.definition.table_definition import TableDefinition
from lakescan.scan_spec import ScanSpec
from lakescan.write.table_writes import TableWrites, WrittenFile

# Seconds between attempts at changing what a table has, while others commit to it.
WAITS = (0.05, 0.1, 0.2, 0.4, 0.8, *[1.0] * 25)


@dataclass(frozen=True)
class Removed:
    """A data file that goes: its location, its partition, its bytes."""

    location: str
    partition: Mapping[str, Any]
    size: int


@dataclass(frozen=True)
class Saved:
    """What was committed; the rows of files that deltalake wrote are not known, and 0."""

    files: int
    rows: int
    bytes: int
    removed_files: int = 0


class Target(Protocol):
    """A table in the state that it had when it was opened for a write."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    @property
    def writes(self) -> TableWrites:
        """How its files are written."""

    @property
    def scan(self) -> ScanSpec:
        """A scan of what it had."""

    @property
    def identity(self) -> str | None:
        """What tells it from another table that has its name, or is in its place."""

    @property
    def known(self) -> Any:
        """What it consisted of, for `named_since`: small, and sent to workers."""

    def named_since(self, known: Any) -> Iterator[pa.Array]:
        """The locations of all files that it has come to name since, by the table as it is now; `known` once was."""

    @property
    def begins_again(self) -> bool:
        """Whether an overwrite begins anew where others have changed what it replaces; otherwise that is a conflict."""

    @property
    def folds_deletes(self) -> bool:
        """Whether files that have deletes can be replaced by files without them."""

    def check_removable(self, deletes: pa.ChunkedArray, *, partly: bool) -> None:
        """Refuse, by name, to replace some files with so many deletes each; or `partly`, so that some rows are kept."""

    def check_removals(self, removed: Sequence[Removed]) -> None:
        """Refuse, by name, files that other readers would still have after their removal is committed."""

    def has_committed(self) -> bool:
        """Whether the transaction of the options was committed before."""

    def append(self, files: Sequence[WrittenFile]) -> None:
        """Commit more files.

        Raises `CommitConflict` where that has provably failed, `CommitStateUnknown` where it may have been made.
        """

    def replace_all(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """Commit files that replace all; `CommitConflict` where the table is not as it was any more; see `append`."""

    def replace(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """Commit files that replace others; `CommitConflict` where the table is not as it was; see `append`."""

    def rewrite(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """Commit files that have the rows of others; see `replace`."""

    def with_columns(self, new: TableDefinition) -> Target:
        """The table with more columns; raises `CommitConflict`."""

    def with_schema(self, new: TableDefinition) -> Target:
        """The table as it is to be overwritten, with other columns; raises `UnsupportedFeature`."""

    def reopened(self) -> Target:
        """The table as it is now; raises `CommitConflict` where another one is in its place."""

    def check_rules(self, before: Target) -> None:
        """Raise `CommitConflict` where files that were written for an earlier state do not fit the table any more."""
