"""Statistics of an Iceberg table, and copies of its metadata with other paths: implements `MetadataFiles`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakescan.common.executors import LOCAL, PlanningExecutor
from lakescan.common.retries import RetryPolicy
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.maintenance.compute_statistics import (
    StatisticsTarget,
    compute_partition_statistics,
    compute_statistics,
)
from lakescan.iceberg.maintenance.rewrite_table_path.rewrite import rewrite_paths
from lakescan.iceberg.table import IcebergTable
from lakescan.tables.committer import Committer
from lakescan.tables.metadata_actions import PathRewrite
from lakescan.tables.results import PathsResult, StatisticsResult
from lakescan.tables.scan_spec import ScanSpec


@dataclass(frozen=True)
class IcebergMetadataFiles:
    """A named table: `table` is pyiceberg's, `opened` and `scan` the same table as read by lakescan."""

    committer: Committer
    table: Any
    opened: IcebergTable
    scan: ScanSpec
    retries: RetryPolicy

    @property
    def _statistics_target(self) -> StatisticsTarget:
        if self.opened.metadata.table_properties.is_encrypted:
            raise UnsupportedFeature(
                f"statistics files of the encrypted table {self.committer.identifier}", "They would not be encrypted."
            )
        return StatisticsTarget(self.table, self.scan, self.opened.metadata, self.opened.storage, self.retries)

    def compute_statistics(
        self, columns: Sequence[str] | None, version: int | None, executor: PlanningExecutor | None
    ) -> StatisticsResult:
        """Estimate the numbers of distinct values of columns, as theta sketches in a Puffin file."""
        with self.committer.translate_errors():
            return compute_statistics(self._statistics_target, columns, version, executor)

    def compute_partition_statistics(self, version: int | None, executor: PlanningExecutor | None) -> StatisticsResult:
        """Count rows and files by partition, in a Parquet file."""
        with self.committer.translate_errors():
            return compute_partition_statistics(self._statistics_target, version, executor)

    def rewrite_paths(self, wanted: PathRewrite, executor: PlanningExecutor | None) -> PathsResult:
        """Write a copy of the metadata with other paths into a staging folder; see `Table.rewrite_paths`.

        Raises `InvalidOption` for invalid prefixes and versions.
        """
        done = rewrite_paths(
            self.opened,
            (wanted.source, wanted.target),
            (wanted.start, wanted.end),
            executor or LOCAL,
            wanted.staging,
            lists_files=wanted.lists_files,
        )
        return PathsResult(done.latest_version, done.file_list, done.staging, done.manifests, done.delete_files)
