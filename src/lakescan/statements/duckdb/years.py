"""Dates and timestamps that DuckDB's timestamps cannot hold, or that are infinite there."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import UnsupportedFeature
from lakescan.expressions.scalar.computed import FIRST_DAY, LAST_DAY

_OF_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def check_batches(rows: pa.Table, check: Callable[[pa.RecordBatch], pa.RecordBatch]) -> pa.Table:
    """The rows; raises what `check` raises for them."""
    for batch in rows.to_batches():
        check(batch)
    return rows


def check_years(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch; raises `UnsupportedFeature` if a time in it is beyond the years -290000 to 290000."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_date32(column.type):
            least, most, number = FIRST_DAY, LAST_DAY, pa.int32()
        elif pa.types.is_timestamp(column.type):
            per_day = 86_400 * _OF_SECOND[column.type.unit]
            least, most, number = (
                max(FIRST_DAY * per_day, -(2**63)),
                min((LAST_DAY + 1) * per_day, 2**63) - 1,
                pa.int64(),
            )
        else:
            continue
        found = pc.min_max(column.cast(number))
        if found["min"].is_valid and not (least <= found["min"].as_py() and found["max"].as_py() <= most):
            raise UnsupportedFeature(
                f"a time beyond the years -290000 to 290000 in the column {name!r}, with which the query computes,",
                "DuckDB, which runs SQL in this process, has no such times. Run the statement with lakescan.spark.sql.",
            )
    return batch
