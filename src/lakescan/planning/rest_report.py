"""Reports as JSON, as Iceberg's REST catalog takes them (OpenAPI: `ScanReport`, `CommitReport`, `Expression`)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from lakescan.expressions.codec import PredicateEncoder
from lakescan.expressions.predicate import ColumnComparison, In, Like, Predicate, SqlCondition
from lakescan.expressions.sanitize import sanitize_list, sanitize_literal
from lakescan.planning.report import OWN_METRICS, CommitReport, ScanMetrics, ScanReport

# Members of Iceberg's `CommitMetricsResult`, and those that a snapshot's summary has under other names.
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
    """Return the report as values that JSON can represent. Literals are sanitized (`expressions.sanitize`)."""
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
    """Return Iceberg's counters of a commit, from its duration, its attempts and the summary of its snapshot."""
    counters = {_COMMIT_NAMES.get(name, name): value for name, value in report.summary.items()}
    known = {name: int(value) for name, value in counters.items() if name in _COMMIT_COUNTERS and value.isdigit()}
    return {
        "total-duration": _duration(report.duration),
        "attempts": {"unit": "count", "value": report.attempts},
        **{name: {"unit": _unit(name), "value": value} for name, value in known.items()},
    }


def metrics(counters: ScanMetrics) -> dict[str, Any]:
    """Return all of Iceberg's counters with their units; the planning time in nanoseconds."""
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
    """Encodes what Iceberg's expressions have, without the literals."""

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
