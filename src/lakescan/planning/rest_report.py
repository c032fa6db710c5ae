"""Scan reports in the JSON form of Iceberg's REST catalog specification (OpenAPI models `ScanReport`, `Expression`)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pyarrow as pa

from lakescan.expressions.codec import PredicateEncoder
from lakescan.expressions.instants import plain_value
from lakescan.expressions.predicate import ColumnComparison, In, Like, Predicate, SqlCondition
from lakescan.planning.report import OWN_METRICS, ScanMetrics, ScanReport


def as_rest(report: ScanReport) -> dict[str, Any]:
    """Return the report as values that JSON can represent."""
    return {
        "table-name": report.table,
        "snapshot-id": report.snapshot_id,
        "filter": expression(report.predicate),
        "schema-id": report.schema_id,
        "projected-field-ids": list(report.projected_field_ids),
        "projected-field-names": list(report.projected_fields),
        "metrics": metrics(report.metrics),
    }


def metrics(counters: ScanMetrics) -> dict[str, Any]:
    """Return all of Iceberg's counters with their units; the planning time in nanoseconds."""
    result: dict[str, Any] = {}
    for each in (each for each in fields(counters) if each.name not in OWN_METRICS):
        name, value = each.name.replace("_", "-"), getattr(counters, each.name)
        if each.name == "total_planning_duration":
            result[name] = {"count": 1, "time-unit": "nanoseconds", "total-duration": round(value * 1e9)}
        else:
            result[name] = {"unit": "bytes" if name.endswith("in-bytes") else "count", "value": value}
    return result


def expression(predicate: Predicate) -> Any:
    """Return a predicate as Iceberg's expression JSON; `true` if Iceberg has no such expression (`like '%x'`)."""
    return _Encoder().encode(predicate)


class _Encoder(PredicateEncoder):
    """Encodes what Iceberg's expressions have; the literals are for people to read."""

    def constant(self, value: bool | None) -> Any:
        return value is True

    def literal(self, value: Any) -> Any:
        value = plain_value(value) if isinstance(value, pa.Scalar) else value
        if isinstance(value, bytes):
            return value.hex()
        return value if isinstance(value, bool | int | float | str) else str(value)

    def values(self, predicate: In) -> list[Any]:
        return [self.literal(value) for value in predicate.values]

    def like(self, predicate: Like) -> Any:
        return super().like(predicate) if predicate.is_prefix_match else True

    def columns(self, predicate: ColumnComparison) -> Any:
        return True

    def sql(self, predicate: SqlCondition) -> Any:
        return self.encode(predicate.implied)
