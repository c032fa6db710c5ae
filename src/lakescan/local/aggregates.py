"""Compute count, minimum and maximum of a scan: from metadata where it is exact, else by reading the other files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.errors import InvalidOption
from lakescan.expressions.literals import plain_value
from lakescan.local.reader import default_readers, read_batches
from lakescan.planning.metadata_aggregates import ORDERED, Extreme, extreme_by_metadata, extreme_of, rows_by_metadata
from lakescan.planning.plan import ScanPlan
from lakescan.tables.scan_spec import ScanSpec


def count_rows(spec: ScanSpec) -> int:
    """Count the rows of a scan, at most its limit: from metadata where that is exact, else by reading.

    See `Scan.count`.
    """
    whole = spec.drop_limit()
    plan = whole.prune_deletes().plan(default_readers())
    # Metadata counts live rows only.
    count, unknown = (0, pa.repeat(True, len(plan.table))) if whole.reads_deleted_rows else rows_by_metadata(plan)
    count += sum(batch.num_rows for batch in _batches_of(whole, plan, unknown))
    return count if spec.max_rows is None else min(count, spec.max_rows)


def extreme(spec: ScanSpec, column: str, *, largest: bool) -> Any:
    """Return the minimum, or with `largest` the maximum, of a column as a Python value; see `Scan.min`.

    None without non-null values. Raises `InvalidOption` for a scan with a limit, and for types without an order.
    """
    if spec.max_rows is not None:
        raise InvalidOption("min and max are computed over all rows: remove the limit")
    whole = spec.drop_limit(column)
    field = whole.output.fields[0]
    if not isinstance(field.type, t.Decimal | t.Timestamp) and field.type not in ORDERED:
        raise InvalidOption(f"column {column!r} has type {field.type}, whose values have no order")
    path = whole.selection.columns[0].path
    if len(path) > 1:  # metadata has no usable bounds of struct members
        plan = whole.prune_deletes().plan(default_readers())
        by_metadata = Extreme(None, pa.repeat(True, len(plan.table)))
    else:
        plan = replace(whole, stats_of=(path[0].name,)).prune_deletes().plan(default_readers())
        by_metadata = extreme_by_metadata(plan, field, largest=largest)
    values = [by_metadata.value] if by_metadata.value is not None else []
    for batch in _batches_of(whole, plan, by_metadata.unknown):
        if (value := extreme_of(batch.column(0), largest=largest)) is not None:
            values.append(value)
    best = extreme_of(pa.array(values, field.type.arrow()), largest=largest) if values else None
    return None if best is None else plain_value(best)


@dataclass(frozen=True)
class Aggregate:
    """An aggregate over all rows of a scan.

    `kind` is 'count' (of rows), 'min' or 'max'. `column` is None for 'count'.
    """

    kind: str
    column: str | None = None


def aggregates_by_metadata(
    spec: ScanSpec, wanted: Sequence[Aggregate], *, with_times: bool = False
) -> list[pa.Scalar] | None:
    """Return the values of the `wanted` aggregates, in their order, if metadata alone proves all of them, else None.

    Columns of timestamps in microseconds are supported only `with_times`. Columns of other timestamps, and of types
    without an order, make the result None.
    """
    names = tuple(dict.fromkeys(each.column for each in wanted if each.column is not None))
    whole = spec.drop_limit()
    if spec.max_rows is not None or whole.reads_deleted_rows:
        return None
    plan = replace(whole.silence_reports(), stats_of=names).prune_deletes().plan(default_readers())
    count, unknown = rows_by_metadata(plan)
    values = []
    for each in wanted:
        if each.column is None:
            values.append(pa.scalar(count, pa.int64()))
            missing = unknown
        else:
            field = whole.snapshot.schema.field(each.column)
            is_time = with_times and isinstance(field.type, t.Timestamp) and field.type.unit == "us"
            if not is_time and not isinstance(field.type, t.Decimal) and field.type not in ORDERED:
                return None
            found = extreme_by_metadata(plan, field, largest=each.kind == "max")
            values.append(pa.scalar(None, field.type.arrow()) if found.value is None else found.value)
            missing = found.unknown
        if pc.any(missing).as_py():
            return None
    return values


def _batches_of(spec: ScanSpec, plan: ScanPlan, mask: pa.Array) -> Iterator[pa.RecordBatch]:
    """Yield the rows of those files of a plan that `mask` selects, as record batches."""
    to_read = spec.plan_of(plan, mask, parallelism=default_readers())
    return read_batches([(to_read, spec.read_context(to_read))])
