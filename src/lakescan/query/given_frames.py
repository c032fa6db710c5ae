"""Data that the user gives to a statement by name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lakescan.errors import InvalidOption
from lakescan.transaction.frames import of_pandas, reader_of


def arrow_table(name: str, frame: Any) -> pa.Table:
    """The rows of Arrow, pandas, Polars, DuckDB or Spark data; raises `InvalidOption` for data without rows."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if hasattr(frame, "index") and hasattr(frame, "columns"):
        return of_pandas(frame)
    if hasattr(frame, "sparkSession"):
        return frame.toArrow()
    if hasattr(frame, "collect") and not hasattr(frame, "__arrow_c_stream__"):  # a lazy frame of Polars
        frame = frame.collect()
    if hasattr(frame, "__arrow_c_stream__"):
        return reader_of(frame).read_all()
    raise InvalidOption(
        f"{name}={type(frame).__name__} holds no rows: give a table, a scan, or Arrow, pandas, Polars or DuckDB data"
    )
