"""The Spark engine: tables as Python data sources, their task groups as Spark partitions, Arrow batches as rows.

>>> lakescan.spark.register(spark)
>>> spark.read.format("iceberg").option("versionAsOf", 3).load("/lake/events")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakescan.spark.executor import SparkExecutor
from lakescan.spark.session import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakescan.scan import Scan

__all__ = ["SparkExecutor", "read_scan", "register"]


def read_scan(spark: SparkSession, scan: Scan) -> DataFrame:
    """A scan as a Spark data frame, pinned to the state that the scan sees now.

    It is planned when the query is, by one worker. A scan whose planning mode is "distributed", or "auto" with more
    metadata than one worker should read, or that has an executor, is planned now: its task groups are the frame's rows.
    The schema goes along, so that Spark need not start a worker to ask for it.
    """
    from lakescan.spark.planned import is_planned_here, read_planned
    from lakescan.spark.types import schema_of

    register(spark, pushdown=None, names=("lakescan",))
    if is_planned_here(scan):
        return read_planned(spark, scan)
    return spark.read.format("lakescan").schema(schema_of(scan)).options(**scan.to_options()).load()
