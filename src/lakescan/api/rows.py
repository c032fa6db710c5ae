"""Convert data that a user passes to a write: Arrow, pandas, Polars, DuckDB, or a Spark data frame."""

from __future__ import annotations

from typing import Any

from lakescan.options.session_settings import NO_SESSION, SessionSettings
from lakescan.tables.rows import Rows, arrow_rows, library_of


def as_rows(data: Any) -> Rows:
    """Return Arrow, pandas, Polars (a lazy frame is collected), DuckDB or Spark data as `Rows` to write; `Rows` as is.

    Raises `InvalidOption` for data without rows, `SchemaMismatch` and `UnsupportedFeature` for values that Arrow cannot
    represent.
    """
    if library_of(data) == "pyspark" and hasattr(data, "mapInArrow"):
        from lakescan.spark.writing.write import SparkRows

        return SparkRows(data)
    if hasattr(data, "write_newest"):
        found: Rows = data
        return found
    return arrow_rows(data)


def session_settings_of(data: Any) -> SessionSettings:
    """Return the settings of a Spark data frame's session for staging writes (write-audit-publish).

    Returns `NO_SESSION` for other data.
    """
    if library_of(data) == "pyspark" and hasattr(data, "sparkSession"):
        from lakescan.spark.wap import settings_of_session

        return settings_of_session(data.sparkSession)
    return NO_SESSION
