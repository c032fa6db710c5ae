"""The target of a write: the protocol that each table format implements to write files and to commit them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from lakescan.definition.table_definition import TableDefinition
from lakescan.scan_spec import ScanSpec
from lakescan.transaction.results import WriteResult as WriteResult
from lakescan.write.table_writes import TableWrites, WrittenFile


@dataclass(frozen=True)
class Removed:
    """A data file to remove: its location, its partition values, its size in bytes."""

    location: str
    partition: Mapping[str, Any]
    size: int


class Target(Protocol):
    """A table opened for a write, at the snapshot or version that was current then (its base)."""

    @property
    def name(self) -> str:
        """The table's name in messages."""

    @property
    def writes(self) -> TableWrites:
        """How to write data files for the table."""

    @property
    def scan(self) -> ScanSpec:
        """A scan of the base."""

    @property
    def identity(self) -> str | None:
        """The table's id, which differs from that of another table with the same name or location."""

    @property
    def base_state(self) -> Any:
        """The base, for `files_added_since`: a version, or a set of snapshot ids. Small: it is sent to workers."""

    def files_added_since(self, base: Any) -> Iterator[pa.Array]:
        """Reopen the table; return the locations of all files added since `base`, an earlier `base_state`."""

    @property
    def retries_overwrites(self) -> bool:
        """Whether an overwrite is retried after a concurrent change of the files it replaces; else `CommitConflict`."""

    @property
    def compacts_deletes(self) -> bool:
        """Whether files that have deletes can be replaced by files to which the deletes were applied."""

    def check_removable(self, deletes: pa.ChunkedArray, *, partly: bool) -> None:
        """Raise `UnsupportedFeature` if these files cannot be replaced.

        `deletes` is the number of deletes of each file. With `partly`, some of the rows of the files are kept.
        """

    def check_removals(self, removed: Sequence[Removed]) -> None:
        """Raise `UnsupportedFeature` for files that other readers would still see after their removal."""

    def has_committed(self) -> bool:
        """Whether the transaction that the options name was already committed."""

    def append(self, files: Sequence[WrittenFile]) -> None:
        """Commit an append.

        Raises `CommitConflict` if the commit definitely failed, `CommitStateUnknown` if its outcome is unknown.
        """

    def replace_all(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """Commit files that replace the whole table; raises `CommitConflict` if the base changed; see `append`."""

    def replace(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """Commit files that replace others; raises `CommitConflict` if the base changed; see `append`."""

    def rewrite(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """Commit files that hold the same rows as those they replace; see `replace`."""

    def with_columns(self, new: TableDefinition) -> Target:
        """Add columns, in a commit of its own, and reopen the table; raises `CommitConflict`."""

    def with_schema(self, new: TableDefinition) -> Target:
        """The target of an overwrite that also replaces the columns; raises `UnsupportedFeature`."""

    def reopened(self) -> Target:
        """Reopen the table at its current state; raises `CommitConflict` if another table has replaced it."""

    def check_rules(self, before: Target) -> None:
        """Raise `CommitConflict` if files written for the target `before` no longer fit the table."""
