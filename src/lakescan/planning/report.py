"""The scan report: what planning read, what it skipped and how long it took; every counter of Iceberg's ScanMetrics.

For Delta, a "manifest" is a file of the log: a commit, a checkpoint part or a sidecar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.expressions.predicate import TRUE, Predicate
from lakescan.planning.file_table import EQUALITY, POSITION, VECTOR, FileTable, delete_counts

OWN_METRICS = ("respelled_delete_files", "dangling_delete_files")  # which Iceberg's ScanMetrics does not have


@dataclass
class ScanMetrics:
    """Counters of one planning; sizes are in bytes, the duration in seconds. Names are Iceberg's, in snake case.

    The last two are our own. `respelled_delete_files` name a data file of the table only in another spelling of its
    path; `dangling_delete_files` name none. A delete file that names several files is known by what its manifest says
    of it. With a filter, files that were left out may be those named, and none counts as dangling.
    """

    total_planning_duration: float = 0.0
    total_data_manifests: int = 0
    total_delete_manifests: int = 0
    scanned_data_manifests: int = 0
    scanned_delete_manifests: int = 0
    skipped_data_manifests: int = 0
    skipped_delete_manifests: int = 0
    result_data_files: int = 0
    result_delete_files: int = 0
    skipped_data_files: int = 0
    skipped_delete_files: int = 0
    indexed_delete_files: int = 0
    equality_delete_files: int = 0
    positional_delete_files: int = 0
    dvs: int = 0
    total_file_size_in_bytes: int = 0
    total_delete_file_size_in_bytes: int = 0
    respelled_delete_files: int = 0
    dangling_delete_files: int = 0

    def count_indexed(self, kinds: pa.ChunkedArray) -> None:
        """Count the delete files that the delete index holds, by their kinds."""
        self.indexed_delete_files += len(kinds)
        self.equality_delete_files += _count(kinds, EQUALITY)
        self.positional_delete_files += _count(kinds, POSITION)
        self.dvs += _count(kinds, VECTOR)

    def count_result(self, table: FileTable) -> None:
        """Count the files of the finished plan and the deletes that they name.

        As in Iceberg, a delete file counts once for each data file that it applies to.
        """
        self.result_data_files = len(table)
        self.total_file_size_in_bytes = pc.sum(table.files["size"]).as_py() or 0
        self.result_delete_files = pc.sum(delete_counts(table.files)).as_py() or 0
        referenced = table.files["deletes"].combine_chunks().flatten()
        sizes = table.deletes["size"].take(referenced)
        self.total_delete_file_size_in_bytes = pc.sum(sizes).as_py() or 0

    def __add__(self, other: ScanMetrics) -> ScanMetrics:
        return ScanMetrics(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class ScanReport:
    """The finished report of a plan: what was asked for, what it found, and the funnel from manifests to groups."""

    table: str
    format: str
    snapshot_id: int | None
    snapshot_timestamp: datetime | None
    schema_id: int
    filter: str
    projected_fields: tuple[str, ...]
    metrics: ScanMetrics
    predicate: Predicate = TRUE  # the filter itself
    projected_field_ids: tuple[int, ...] = ()
    skipped_by_partition: int = 0
    skipped_by_stats: int = 0
    skipped_by_limit: int = 0
    splits: int = 0
    groups: int = 0
    records: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values; counters under the hyphenated names of Iceberg's ScanMetrics."""
        counters = {f.name.replace("_", "-"): getattr(self.metrics, f.name) for f in fields(self.metrics)}
        shown = [f.name for f in fields(self) if f.name not in ("metrics", "predicate")]
        own = {name.replace("_", "-"): getattr(self, name) for name in shown}
        moment = None if self.snapshot_timestamp is None else self.snapshot_timestamp.isoformat()
        return {**own, "snapshot-timestamp": moment, "metrics": counters}


def total_report(parts: Sequence[ScanReport], duration: float) -> ScanReport:
    """The report of a plan that was made in parts, in so many seconds."""
    metrics = sum((part.metrics for part in parts), ScanMetrics())
    metrics.total_planning_duration = duration
    added = ("skipped_by_partition", "skipped_by_stats", "skipped_by_limit", "splits", "groups")
    totals = {name: sum(getattr(part, name) for part in parts) for name in added}
    known = [part.records for part in parts if part.records is not None]
    return replace(parts[0], metrics=metrics, records=sum(known) if len(known) == len(parts) else None, **totals)


def _count(kinds: pa.ChunkedArray, kind: str) -> int:
    return int(pc.sum(pc.equal(kinds, kind)).as_py() or 0)
