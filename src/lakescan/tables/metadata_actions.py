"""Files beside a table's commits that its metadata names or is copied to: statistics, and copies with other paths."""

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
    """What `rewrite_paths` is asked for.

    - `source`, `target`: the prefix of all paths of the table, and what takes its place.
    - `start`, `end`: the names of metadata files: the one up to which everything is copied already, and the last one.
    - `staging`: the folder of rewritten files; None for a new one beside the metadata.
    - `lists_files`: whether to write the list of files to copy.
    """

    source: str
    target: str
    start: str | None = None
    end: str | None = None
    staging: str | None = None
    lists_files: bool = True


class MetadataFiles(Protocol):
    """What can be computed of a table's state, or of its metadata, and stored beside it."""

    def compute_statistics(
        self, columns: Sequence[str] | None, version: int | None, executor: PlanningExecutor | None
    ) -> StatisticsResult:
        """Estimate the numbers of distinct values of columns, and name the file with them in the metadata.

        Raises `NoSuchSnapshot`, `NoSuchColumn`, `UnsupportedFeature`, `CommitConflict`, `CommitStateUnknown`.
        """

    def compute_partition_statistics(self, version: int | None, executor: PlanningExecutor | None) -> StatisticsResult:
        """Count rows and files by partition, and name the file with them in the metadata.

        Raises `NoSuchSnapshot`, `UnsupportedFeature` for a table without partitions, `CommitConflict`,
        `CommitStateUnknown`.
        """

    def rewrite_paths(self, wanted: PathRewrite, executor: PlanningExecutor | None) -> PathsResult:
        """Write the metadata again with other paths, for a copy of the table; the table itself stays as it is.

        Raises `InvalidOption` for paths that do not begin with the prefix, `UnsupportedFeature`.
        """


class SnapshotManager(Protocol):
    """The branches, tags and snapshots of a table, as they are when it is opened.

    Each method makes one commit, or none if there is nothing to do. It is made again after commits of others, unless
    these moved the same branch or tag. All raise `CommitConflict` then, and `CommitStateUnknown`.
    """

    def create(
        self, kind: RefKind, name: str, at: SnapshotSelector, retention: RefRetention, if_there: IfRefExists
    ) -> RefResult:
        """Make a branch or tag of a state.

        Raises `InvalidOption` if the name is taken, or tags are to keep snapshots; `NoSuchSnapshot`.
        """

    def drop(self, kind: RefKind, name: str, *, if_exists: bool) -> RefResult:
        """Drop a branch or tag; raises `NoSuchSnapshot` if it is not there, `InvalidOption` for `main`."""

    def fast_forward(self, branch: str, to: str) -> RefResult:
        """Move a branch to a descendant of its newest snapshot, which another branch or a tag names."""

    def rollback(self, version: int | None, before: datetime | None) -> RefResult:
        """Move the current state to an ancestor: by id, or the newest one from before a time."""

    def set_current(self, at: SnapshotSelector) -> RefResult:
        """Make any state of the table the current one."""

    def cherry_pick(self, version: int) -> RefResult:
        """Apply the changes of a snapshot to the current state."""

    def publish(self, wap_id: str) -> RefResult:
        """Apply the changes of the snapshot that was staged with an id."""
