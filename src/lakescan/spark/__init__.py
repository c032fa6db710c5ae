"""The Spark engine: tables as Python data sources, their task groups as Spark partitions, Arrow batches as rows.

>>> lakescan.spark.register(spark)
>>> spark.read.format("iceberg").option("versionAsOf", 3).load("/lake/events")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakescan.spark.executor import SparkExecutor
from lakescan.spark.session import register

if TYPE_CHECKING:
    import os
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession

    from lakescan.scan import Scan

__all__ = ["SparkExecutor", "explain", "read", "read_scan", "register"]


def read(spark: SparkSession, path: str | os.PathLike[str], **options: Any) -> DataFrame:
    """A table as a data frame: `lakescan.table(path, **options)` as `Scan.to_spark` reads it."""
    from lakescan.table import table

    return read_scan(spark, table(path, **options).scan())


def read_scan(spark: SparkSession, scan: Scan) -> DataFrame:
    """A scan as a Spark data frame, pinned to the state that the scan sees now; see `Scan.to_spark`."""
    from lakescan.spark.frames import frame_of

    return frame_of(spark, scan)


def explain(scan: Scan) -> str:
    """The plan of a scan as text, with the lane of its files on Spark, and why."""
    from lakescan.spark.frames import explained

    return explained(scan)
