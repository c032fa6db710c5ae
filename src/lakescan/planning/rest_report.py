"""Scan reports in the JSON form of Iceberg's REST catalog specification (OpenAPI models `ScanReport`, `Expression`)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pyarrow as pa

from lakescan.expressions.instants import plain_value
from lakescan.expressions.predicate import And, Comparison, Constant, In, IsNaN, IsNull, Leaf, Like, Or, Predicate
from lakescan.planning.report import OWN_METRICS, ScanMetrics, ScanReport

_OPERATIONS = {"<": "lt", "<=": "lt-eq", ">": "gt", ">=": "gt-eq", "=": "eq", "!=": "not-eq"}


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
    match predicate:
        case Constant(value):
            return value is True
        case And(left, right) | Or(left, right):
            kind = "and" if isinstance(predicate, And) else "or"
            return {"type": kind, "left": expression(left), "right": expression(right)}
        case Comparison(op=op, value=value):
            return _test(predicate, _OPERATIONS[op], value=_plain(value))
        case In(values=values, negate=negate):
            return _test(predicate, "not-in" if negate else "in", values=[_plain(v) for v in values])
        case IsNull(negate=negate):
            return _test(predicate, "not-null" if negate else "is-null")
        case IsNaN(negate=negate):
            return _test(predicate, "not-nan" if negate else "is-nan")
        case Like(negate=negate) if predicate.is_prefix_match:
            return _test(predicate, "not-starts-with" if negate else "starts-with", value=predicate.prefix)
    return True


def _test(leaf: Leaf, kind: str, **literals: Any) -> dict[str, Any]:
    return {"type": kind, "term": leaf.column, **literals}


def _plain(value: Any) -> Any:
    value = plain_value(value) if isinstance(value, pa.Scalar) else value
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, bool | int | float | str) else str(value)
