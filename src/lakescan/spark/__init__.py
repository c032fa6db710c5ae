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

__all__ = [
    "SparkExecutor",
    "create_view",
    "explain",
    "read",
    "read_scan",
    "refresh_view",
    "register",
    "sql",
    "table",
]


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


def create_view(spark: SparkSession, name: str, source: str, *, replace: bool = True) -> None:
    """Create a temporary view of a table, or of a query over tables, that sees their newest states.

    Each `lakescan.spark.sql` that names the view reads its tables as they are then, one state a statement, narrowed by
    what the statement needs, with columns that were added meanwhile. Spark itself keeps the plan of a temporary view,
    and Python cannot change that: `spark.sql` and `spark.table` read the states that the tables had at `create_view`,
    or at the last `refresh_view`. The view is of this session, and goes when it is dropped or replaced in Spark.

    Args:
        spark: A session, classic or Connect.
        name: The name of the view; one part.
        source: The name of a table, as in `lakescan.spark.sql`, or a query without parameters. Its short names are
            those of the present `USE`, its views those that there are now.
        replace: Replace a temporary view of that name. Without, it is an error of Spark's.

    Raises:
        InvalidStatement, NoSuchTable: See `sql`.
        InvalidOption: The name has several parts, or two columns have one name.

    Example:
        >>> lakescan.spark.create_view(spark, "orders", "local.shop.orders")
        >>> lakescan.spark.sql(spark, "SELECT count(*) FROM orders").show()
    """
    engines.load("spark").make_view(spark, name, source, replace=replace)


def refresh_view(spark: SparkSession, name: str) -> None:
    """Let Spark's own statements see the newest states of the tables of a view, and columns that were added.

    Frames that were made of the view before keep their states.

    Args:
        spark: The session.
        name: A view that `create_view` made.

    Raises:
        NoSuchTable: There is no such view; the message names the nearest.

    Example:
        >>> lakescan.spark.refresh_view(spark, "orders")
        >>> spark.sql("SELECT count(*) FROM orders").show()
    """
    engines.load("spark").renew_view(spark, name)


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
