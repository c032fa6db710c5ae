"""The Spark engine: tables as Python data sources, task groups as Spark partitions, Arrow batches as rows.

>>> lakescan.spark.register(spark)
>>> spark.read.format("iceberg").option("versionAsOf", 3).load("/lake/events")
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Unpack

from lakescan import engines
from lakescan.opening import table as open_table
from lakescan.options.keywords import OpenKeywords
from lakescan.query.statement import Arguments
from lakescan.scan import Scan
from lakescan.spark.executor import SparkExecutor
from lakescan.spark.session import register

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkExecutor", "explain", "read", "read_scan", "register", "sql", "table"]


def table(spark: SparkSession, name: str | os.PathLike[str], **options: Unpack[OpenKeywords]) -> DataFrame:
    """The rows of a table as a data frame, by its name in a catalog or its path: what `spark.table` is for Spark's own.

    Args:
        spark: A session, classic or Connect.
        name: `catalog.namespace.table`, a folder or a URI; see `lakescan.table`.
        options: Arguments and options of `lakescan.table`.

    Returns:
        A data frame of the state that the table has now.

    Raises:
        NotATable, NoSuchTable, UnsupportedFeature, InvalidOption: See `lakescan.table` and `Scan.to_spark`.

    Example:
        >>> lakescan.spark.table(spark, "local.shop.orders").groupBy("country").count().show()
    """
    return open_table(name, **options).scan().to_spark(spark)


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
    return open_table(path, **options).scan().to_spark(spark)


def sql(spark: SparkSession, text: str, args: Arguments = None, **frames: Any) -> Any:
    """Run one SQL statement on Spark, over tables by name or by path, without JARs.

    Spark runs the text itself, so that everything is there that its SELECT has. Each place that names a table becomes
    a scan of only the columns and files that the statement needs there. Names are those of `lakescan.sql`; temporary
    views and Spark's own tables keep theirs. Other statements than queries, `EXPLAIN`, `USE` and those that make,
    rename or drop tables of catalogs are handed to `spark.sql` as they are.

    Args:
        spark: A session, classic or Connect.
        text: One statement.
        args: Values of the text's parameters: a dictionary for `:name`, a list for `?`.
        frames: Data frames, tables and scans by the names that the text has for them: `orders`, or `{orders}`.

    Returns:
        A data frame for queries and Spark's own statements; a table that was created or renamed; else None.

    Raises:
        InvalidStatement: The text is not valid SQL; the message underlines the place.
        NoSuchTable: A table is not there; the message names the nearest.

    Example:
        >>> lakescan.spark.sql(spark, "SELECT country, sum(price) FROM local.shop.orders GROUP BY country").show()
    """
    return engines.load("spark").run_sql(spark, text, args, **frames)


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
