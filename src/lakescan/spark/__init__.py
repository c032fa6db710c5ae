"""The Spark engine: tables as Python data sources, task groups as Spark partitions, Arrow batches as rows.

>>> lakescan.spark.register(spark)
>>> spark.read.format("iceberg").option("versionAsOf", 3).load("/lake/events")
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Unpack

from lakescan import engines
from lakescan.opening import table
from lakescan.options.keywords import OpenKeywords
from lakescan.scan import Scan
from lakescan.spark.executor import SparkExecutor
from lakescan.spark.session import register

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkExecutor", "explain", "read", "read_scan", "register"]


def read(spark: SparkSession, path: str | os.PathLike[str], **options: Unpack[OpenKeywords]) -> DataFrame:
    """Read a table as a data frame: `lakescan.table(path, **options).scan().to_spark(spark)`.

    Args:
        spark: A session, classic or Connect.
        path: A folder or URI, or a name in a catalog; see `lakescan.table`.
        options: Arguments and options of `lakescan.table`.

    Returns:
        A data frame of the state that the table has now.

    Raises:
        NotATable, NoSuchTable, UnsupportedFeature, InvalidOption: See `lakescan.table` and `Scan.to_spark`.

    Example:
        >>> lakescan.spark.read(spark, "/lake/orders", where="day = '2026-01-31'").show()
    """
    return table(path, **options).scan().to_spark(spark)


def read_scan(spark: SparkSession, scan: Scan) -> DataFrame:
    """Deprecated alias of `Scan.to_spark`."""
    warnings.warn(
        "use scan.to_spark(spark) instead of lakescan.spark.read_scan(spark, scan)", DeprecationWarning, stacklevel=2
    )
    return scan.to_spark(spark)


def explain(scan: Scan) -> str:
    """The plan of a scan as text, with the lane (native or Arrow) of its files on Spark and the reason for it.

    Args:
        scan: The scan; it is planned, not read.

    Returns:
        Text of several lines.

    Example:
        >>> print(lakescan.spark.explain(orders.scan().where("price > 5")))
    """
    text: str = engines.load("spark").explained(scan.spec)
    return text
