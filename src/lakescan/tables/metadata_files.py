"""Files beside a table's commits that its metadata names or is copied to: statistics, and copies with other paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lakescan.common.executors import PlanningExecutor
from lakescan.tables.results import PathsResult, StatisticsResult


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
