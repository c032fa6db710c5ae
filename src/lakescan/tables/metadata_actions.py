"""Interfaces for statistics files, relocated copies of metadata, and branches, tags and snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from lakescan.common.executors import PlanningExecutor
from lakescan.formats.snapshot_refs import IfRefExists, RefKind, RefRetention
from lakescan.formats.table_format import SnapshotSelector
from lakescan.tables.results import PathsResult, RefResult, StatisticsResult


@dataclass(frozen=True)
class PathRewrite:
    """The arguments of `rewrite_paths`.

    - `source`, `target`: the prefix of all paths of the table, and the prefix that replaces it.
    - `start`, `end`: the names of metadata files. Files up to `start` are already copied; `end` is the last one to
      copy.
    - `staging`: the folder of rewritten files; None for a new one next to the metadata.
    - `lists_files`: whether to write the list of files to copy.
    """

    source: str
    target: str
    start: str | None = None
    end: str | None = None
    staging: str | None = None
    lists_files: bool = True


class MetadataFiles(Protocol):
    """Operations that write statistics files or relocated copies of metadata."""

    def compute_statistics(
        self, columns: Sequence[str] | None, version: int | None, executor: PlanningExecutor | None
    ) -> StatisticsResult:
        """Estimate the numbers of distinct values of columns, and add the statistics file to the table's metadata.

        `columns` None stands for all columns of primitive types, and `version` None for the current snapshot. Raises
        `NoSuchSnapshot`, `NoSuchColumn`, `UnsupportedFeature`, `CommitConflict`, `CommitStateUnknown`.
        """

    def compute_partition_statistics(self, version: int | None, executor: PlanningExecutor | None) -> StatisticsResult:
        """Count rows and files by partition, and add the statistics file to the table's metadata.

        Raises `NoSuchSnapshot`, `UnsupportedFeature` for a table without partitions, `CommitConflict`,
        `CommitStateUnknown`.
        """

    def rewrite_paths(self, wanted: PathRewrite, executor: PlanningExecutor | None) -> PathsResult:
        """Write a copy of the metadata with other paths, for a copy of the table. The table itself does not change.

        Raises `InvalidOption` for paths that do not begin with the prefix, and `UnsupportedFeature`.
        """


class SnapshotManager(Protocol):
    """Operations on the branches, tags and snapshots of an open table.

    Each method makes one commit, or none if there is nothing to do. It is retried after concurrent commits, unless
    these moved the same branch or tag: then it raises `CommitConflict`. All methods may raise `CommitStateUnknown`.
    """

    def create(
        self, kind: RefKind, name: str, at: SnapshotSelector, retention: RefRetention, if_there: IfRefExists
    ) -> RefResult:
        """Create a branch or tag at a snapshot; `if_there` decides what to do if it exists.

        Raises `InvalidOption` if the name is taken or the retention does not apply to tags, and `NoSuchSnapshot`.
        """

    def drop(self, kind: RefKind, name: str, *, if_exists: bool) -> RefResult:
        """Drop a branch or tag.

        Raises `NoSuchSnapshot` if it does not exist, unless `if_exists`, and `InvalidOption` for `main`.
        """

    def fast_forward(self, branch: str, to: str) -> RefResult:
        """Move a branch to the snapshot of `to`, another branch or a tag.

        Raises `NoSuchSnapshot` if `to` does not exist, and `UnsupportedFeature` if its snapshot is not a descendant of
        the branch's newest one.
        """

    def rollback(self, version: int | None, before: datetime | None) -> RefResult:
        """Make an ancestor of the current snapshot the current one: by its id, or the newest before a time.

        Raises `NoSuchSnapshot`, and `UnsupportedFeature` for a snapshot that is not an ancestor.
        """

    def set_current(self, at: SnapshotSelector) -> RefResult:
        """Make any snapshot of the table the current one; raises `NoSuchSnapshot`."""

    def cherry_pick(self, version: int) -> RefResult:
        """Apply the changes of the snapshot with the id `version` to the current one, as a new snapshot."""

    def publish(self, wap_id: str) -> RefResult:
        """Apply the changes of the snapshot that was staged with this `wap-id`, as a new snapshot."""
