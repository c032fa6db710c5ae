"""Reports of scans and commits, with all counters of Iceberg's ScanMetrics, and their JSON for REST catalogs.

For Delta, a "manifest" is a log file: a commit, a checkpoint part or a sidecar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.html import facts_table, name_list, section
from lakescan.expressions.json_codec import PredicateEncoder
from lakescan.expressions.predicate import TRUE, ColumnComparison, In, Like, Predicate, SqlCondition
from lakescan.expressions.sanitize import sanitize_list, sanitize_literal
from lakescan.planning.delete_files import DeleteKind
from lakescan.planning.file_table import FileTable

OWN_METRICS = ("respelled_delete_files", "dangling_delete_files")  # not in Iceberg's ScanMetrics


@dataclass
class ScanMetrics:
    """Counters of one planning, named as in Iceberg. For Delta, a manifest is a log file.

    The last two are lakescan's own. For them, a delete file of several data files is judged by its manifest entry. With
    a filter, `dangling_delete_files` is 0, since the data file may have been pruned.

    Attributes:
        total_planning_duration: The planning time in seconds.
        total_data_manifests: Data manifests of the snapshot.
        total_delete_manifests: Delete manifests of the snapshot.
        scanned_data_manifests: Data manifests that were read.
        scanned_delete_manifests: Delete manifests that were read.
        skipped_data_manifests: Data manifests that were skipped by partition summaries.
        skipped_delete_manifests: Delete manifests that were skipped.
        result_data_files: Data files to read.
        result_delete_files: Deletes of these files; a delete file counts once per data file that it applies to.
        skipped_data_files: Data files that were skipped.
        skipped_delete_files: Delete files that were skipped.
        indexed_delete_files: Delete files and vectors that were matched to data files.
        equality_delete_files: Equality delete files among them.
        positional_delete_files: Position delete files among them.
        dvs: Deletion vectors among them.
        total_file_size_in_bytes: The size of the data files to read.
        total_delete_file_size_in_bytes: The size of their deletes, counted like `result_delete_files`.
        respelled_delete_files: Delete files that refer to a data file only by another form of its path.
        dangling_delete_files: Delete files that refer to no data file of the table.
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
        """Add the deletes that are matched to data files, one `DeleteKind` each, to the counters of indexed deletes."""
        self.indexed_delete_files += len(kinds)
        self.equality_delete_files += _count(kinds, DeleteKind.EQUALITY)
        self.positional_delete_files += _count(kinds, DeleteKind.POSITION)
        self.dvs += _count(kinds, DeleteKind.VECTOR)

    def count_result(self, table: FileTable) -> None:
        """Set the counters and sizes of the data files of the final plan, and of their deletes."""
        self.result_data_files = len(table)
        self.total_file_size_in_bytes = pc.sum(table.files["size"]).as_py() or 0
        references = table.references
        self.result_delete_files = int(references.counts.sum())
        sizes = pc.fill_null(table.deletes["size"], 0).to_numpy()
        self.total_delete_file_size_in_bytes = int(references.sums(sizes).sum())

    def __add__(self, other: ScanMetrics) -> ScanMetrics:
        return ScanMetrics(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class FormatTerms:
    """A format's own terms: `state` for a snapshot, `metadata_files` for the files that list data files."""

    state: str = "snapshot"
    metadata_files: str = "manifests"


@dataclass(frozen=True)
class ScanReport:
    """The report of a plan: the request, the result, and the numbers of manifests, files, splits and groups on the way.

    Attributes:
        table: The table's location.
        format: 'iceberg' or 'delta'.
        snapshot_id: The snapshot id (Iceberg) or version (Delta); None for an empty table.
        snapshot_timestamp: When the snapshot or version was committed.
        schema_id: The id of the schema that was read.
        filter: The filter as text.
        projected_fields: The names of the output columns.
        metrics: Counters, sizes and the planning time.
        predicate: The bound filter.
        projected_field_ids: The field ids of the output columns.
        skipped_by_partition: The number of files skipped by partition values.
        skipped_by_stats: The number of files skipped by column statistics.
        skipped_by_limit: The number of files skipped because other files have enough rows.
        splits: The number of splits.
        groups: The number of task groups.
        records: The number of rows in the files to read, before deletes and filter; None if unknown.
        words: The format's terms.
        named: The branch or tag that was read; empty without one.
        name: The table's name in its catalog; empty without one.
        metadata: The engine and its version, and the scan's options.
    """

    table: str
    format: str
    snapshot_id: int | None
    snapshot_timestamp: datetime | None
    schema_id: int
    filter: str
    projected_fields: tuple[str, ...]
    metrics: ScanMetrics
    predicate: Predicate = TRUE
    projected_field_ids: tuple[int, ...] = ()
    skipped_by_partition: int = 0
    skipped_by_stats: int = 0
    skipped_by_limit: int = 0
    splits: int = 0
    groups: int = 0
    records: int | None = None
    words: FormatTerms = FormatTerms()
    named: str = ""
    name: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the request, and the numbers of files read and skipped."""
        metrics, state = self.metrics, "none" if self.snapshot_id is None else str(self.snapshot_id)
        state += self.named and f" ({self.named})"
        facts = {
            "format": self.format,
            self.words.state: state,
            "filter": self.filter,
            "columns": name_list(self.projected_fields),
            f"skipped {self.words.metadata_files}": f"{metrics.skipped_data_manifests:,}",
            "files to read": f"{metrics.result_data_files:,} ({metrics.total_file_size_in_bytes:,} bytes)",
            "files skipped": self._skip_summary(),
            "deletes to apply": f"{metrics.result_delete_files:,}",
            "rows": "unknown" if self.records is None else f"at most {self.records:,}",
            "splits": f"{self.splits:,} in {self.groups:,} groups",
        }
        return section(f"Plan of {self.table}", facts_table(facts))

    def _skip_summary(self) -> str:
        """Return how many files are skipped, and why."""
        reasons = {
            "partition": self.skipped_by_partition,
            "statistics": self.skipped_by_stats,
            "limit": self.skipped_by_limit,
        }
        why = ", ".join(f"{count:,} by {reason}" for reason, count in reasons.items() if count)
        return f"{self.metrics.skipped_data_files:,}" + (why and f" ({why})")

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, with counters under the hyphenated names of Iceberg's ScanMetrics."""
        counters = {f.name.replace("_", "-"): getattr(self.metrics, f.name) for f in fields(self.metrics)}
        shown = [f.name for f in fields(self) if f.name not in ("metrics", "predicate", "words", "metadata")]
        own = {name.replace("_", "-"): getattr(self, name) for name in shown}
        timestamp = None if self.snapshot_timestamp is None else self.snapshot_timestamp.isoformat()
        return {**own, "snapshot-timestamp": timestamp, "metrics": counters, "metadata": dict(self.metadata)}


@dataclass(frozen=True)
class CommitReport:
    """The report of a commit to an Iceberg table, like Iceberg's `CommitReport`.

    Attributes:
        table: The table's name in its catalog.
        snapshot_id: The id of the snapshot that was committed.
        sequence_number: The snapshot's sequence number.
        operation: 'append', 'overwrite', 'replace' or 'delete'.
        attempts: The number of attempts; more than one after concurrent commits.
        duration: The time that the commit took, in seconds.
        summary: The snapshot's summary, with Iceberg's counters as text.
        metadata: The engine and its version.
    """

    table: str
    snapshot_id: int
    sequence_number: int
    operation: str
    attempts: int
    duration: float
    summary: Mapping[str, str]
    metadata: Mapping[str, str] = field(default_factory=dict)


def total_report(parts: Sequence[ScanReport], duration: float) -> ScanReport:
    """Combine the reports of the parts of a plan; `duration` is the total planning time in seconds.

    Numbers are added up, and everything else is that of the first part. `records` is None if it is unknown for a part.
    """
    metrics = sum((part.metrics for part in parts), ScanMetrics())
    metrics.total_planning_duration = duration
    added = ("skipped_by_partition", "skipped_by_stats", "skipped_by_limit", "splits", "groups")
    totals = {name: sum(getattr(part, name) for part in parts) for name in added}
    known = [part.records for part in parts if part.records is not None]
    return replace(parts[0], metrics=metrics, records=sum(known) if len(known) == len(parts) else None, **totals)


def _count(kinds: pa.ChunkedArray, kind: str) -> int:
    return int(pc.sum(pc.equal(kinds, kind)).as_py() or 0)


# The counters of Iceberg's `CommitMetricsResult`, and those with other names in snapshot summaries.
_COMMIT_COUNTERS = frozenset(
    f"{what}-{of}"
    for what in ("added", "removed", "total")
    for of in (
        "data-files",
        "delete-files",
        "equality-delete-files",
        "positional-delete-files",
        "dvs",
        "records",
        "files-size-bytes",
        "equality-deletes",
        "positional-deletes",
    )
)
_COMMIT_NAMES = {
    "deleted-data-files": "removed-data-files",
    "deleted-records": "removed-records",
    "added-files-size": "added-files-size-bytes",
    "removed-files-size": "removed-files-size-bytes",
    "total-files-size": "total-files-size-bytes",
    "added-position-delete-files": "added-positional-delete-files",
    "removed-position-delete-files": "removed-positional-delete-files",
    "added-position-deletes": "added-positional-deletes",
    "removed-position-deletes": "removed-positional-deletes",
    "total-position-deletes": "total-positional-deletes",
}


def as_rest(report: ScanReport | CommitReport) -> dict[str, Any]:
    """Return the report as a dictionary for the JSON of REST catalogs.

    Literals are sanitized (`expressions.sanitize`).
    """
    if isinstance(report, CommitReport):
        return {
            "table-name": report.table,
            "snapshot-id": report.snapshot_id,
            "sequence-number": report.sequence_number,
            "operation": report.operation,
            "metrics": commit_metrics(report),
            "metadata": dict(report.metadata),
        }
    return {
        "table-name": report.name or report.table,
        "snapshot-id": report.snapshot_id,
        "filter": expression(report.predicate),
        "schema-id": report.schema_id,
        "projected-field-ids": list(report.projected_field_ids),
        "projected-field-names": list(report.projected_fields),
        "metrics": metrics(report.metrics),
        "metadata": dict(report.metadata),
    }


def commit_metrics(report: CommitReport) -> dict[str, Any]:
    """Return Iceberg's counters of a commit, from its duration, its attempts and the snapshot's summary."""
    counters = {_COMMIT_NAMES.get(name, name): value for name, value in report.summary.items()}
    known = {name: int(value) for name, value in counters.items() if name in _COMMIT_COUNTERS and value.isdigit()}
    return {
        "total-duration": _duration(report.duration),
        "attempts": {"unit": "count", "value": report.attempts},
        **{name: {"unit": _unit(name), "value": value} for name, value in known.items()},
    }


def metrics(counters: ScanMetrics) -> dict[str, Any]:
    """Return all of Iceberg's counters with their units, as its JSON has them. The planning time is in nanoseconds."""
    result: dict[str, Any] = {}
    for each in (each for each in fields(counters) if each.name not in OWN_METRICS):
        name, value = each.name.replace("_", "-"), getattr(counters, each.name)
        if each.name == "total_planning_duration":
            result[name] = _duration(value)
        else:
            result[name] = {"unit": _unit(name), "value": value}
    return result


def _duration(seconds: float) -> dict[str, Any]:
    return {"count": 1, "time-unit": "nanoseconds", "total-duration": round(seconds * 1e9)}


def _unit(name: str) -> str:
    return "bytes" if name.endswith("-bytes") else "count"


def expression(predicate: Predicate) -> Any:
    """Return a predicate as Iceberg's expression JSON; `true` if Iceberg has no such expression (`like '%x'`)."""
    return _Encoder().encode(predicate)


class _Encoder(PredicateEncoder):
    """Encodes predicates that Iceberg's expressions can represent, with sanitized literals; others as true."""

    def constant(self, value: bool | None) -> Any:
        return value is True

    def literal(self, value: Any) -> Any:
        return sanitize_literal(value)

    def values(self, predicate: In) -> list[Any]:
        return sanitize_list(list(predicate.values))

    def like(self, predicate: Like) -> Any:
        if not predicate.is_prefix_match:
            return True
        kind = "not-starts-with" if predicate.negate else "starts-with"
        return {"type": kind, "term": predicate.column, "value": sanitize_literal(predicate.prefix)}

    def columns(self, predicate: ColumnComparison) -> Any:
        return True

    def sql(self, predicate: SqlCondition) -> Any:
        return self.encode(predicate.implied)
