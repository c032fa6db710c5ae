"""The Spark engine: tables are Python data sources, task groups are Spark partitions, and rows are Arrow batches.

>>> lakescan.spark.register(spark)
>>> spark.read.format("iceberg").option("versionAsOf", 3).load("/lake/events")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from lakescan.api.open import table as open_table
from lakescan.api.scan import Scan
from lakescan.errors import InvalidOption
from lakescan.options.keywords import OpenKeywords
from lakescan.planning.explain import PlanText
from lakescan.spark.drop_in.settings import Enabled
from lakescan.spark.executor import SparkExecutor
from lakescan.spark.registration import register
from lakescan.spark.streams.apply_changes import apply_changes, change_rows, history_sink, upsert_sink
from lakescan.spark.streams.histories import HistorySink
from lakescan.spark.streams.upserts import UpsertSink
from lakescan.spark.writing.table_writer import TableWriter
from lakescan.statements.syntax.parse import Arguments
from lakescan.tables.results import WriteResult

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

__all__ = [
    "Enabled",
    "HistorySink",
    "SparkExecutor",
    "TableWriter",
    "UpsertSink",
    "apply_changes",
    "change_rows",
    "create_view",
    "disable",
    "enable",
    "explain",
    "history_sink",
    "read",
    "refresh_view",
    "register",
    "save_as_table",
    "sql",
    "table",
    "to_table",
    "upsert_sink",
    "write_to",
]


def table(spark: SparkSession, name: str | os.PathLike[str], **options: Unpack[OpenKeywords]) -> DataFrame:
    """Read a table as a data frame, by its name in a catalog or its path, like `spark.table` for Spark's own catalogs.

    Args:
        spark: A session, classic or Connect.
        name: `catalog.namespace.table`, a folder or a URI; see `lakescan.table`.
        options: Arguments and options of `lakescan.table`.

    Returns:
        A data frame of the table's current snapshot or version.

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
        A data frame of the table's current snapshot or version, unless the options select another one.

    Raises:
        NotATable, NoSuchTable, UnsupportedFeature, InvalidOption: See `lakescan.table` and `Scan.to_spark`.

    Example:
        >>> lakescan.spark.read(spark, "/lake/orders", where="day = '2026-01-31'").show()
    """
    return open_table(path, **options).scan().to_spark(spark)


def enable(spark: SparkSession) -> Enabled:
    """Let PySpark's own methods and `spark.sql` reach Iceberg and Delta tables in a session, as with their JARs.

    The session's settings for the JARs are understood: catalogs (`spark.sql.catalog.NAME` and its properties),
    `DeltaCatalog`, extensions and packages. Afterwards `spark.sql`, `spark.table`, `spark.read`, `df.write`,
    `df.writeTo`, `spark.readStream`, `df.writeStream` and `spark.catalog` work with these tables. Calls that do not
    concern them run on Spark, unchanged. `lakescan run job.py` enables every session of a job.

    Args:
        spark: A session, classic or Connect. Sessions that Spark derives from it are enabled, too.

    Returns:
        The catalogs that were found, with their warehouses.

    Raises:
        InvalidOption: A catalog's properties are not supported.

    Example:
        >>> lakescan.spark.enable(spark)
        >>> spark.sql("MERGE INTO lake.shop.orders USING fixes ON ...")
    """
    from lakescan.spark.drop_in.enable import enable as enable_session

    return enable_session(spark)


def disable(spark: SparkSession) -> None:
    """Undo `enable` for a session: its settings, and PySpark's methods if no other session is enabled.

    Args:
        spark: A session. One that is not enabled is left as it is.

    Example:
        >>> lakescan.spark.disable(spark)
    """
    from lakescan.spark.drop_in.enable import disable as disable_session

    disable_session(spark)


def sql(spark: SparkSession, text: str, args: Arguments = None, **frames: Any) -> Any:
    """Run one SQL statement on Spark, over tables by name or by path, without JARs.

    Spark runs the text itself, so all of Spark's SELECT syntax is available. Each table reference becomes a scan of
    only the columns and files that the statement needs from it. Table names are those of `lakescan.sql`. Temporary
    views keep their names, and so do Spark's own tables: unqualified names refer to them until `USE` names a namespace
    of a lakescan catalog, and again after `USE spark_catalog.default`. Statements other than queries, `EXPLAIN`, `USE`
    and those that create, rename or drop tables of catalogs are passed to `spark.sql` unchanged.

    Args:
        spark: A session, classic or Connect.
        text: One statement.
        args: Values of the text's parameters: a dictionary for `:name`, a list for `?`.
        frames: Data frames, tables and scans, by the names that the text uses for them: `orders`, or `{orders}`.

    Returns:
        A data frame for queries and Spark's own statements, a table if one was created or renamed, else None.

    Raises:
        InvalidStatement: The text is not valid SQL; the message underlines the place.
        NoSuchTable: A table does not exist; the message suggests the most similar name.

    Example:
        >>> lakescan.spark.sql(spark, "SELECT country, sum(price) FROM local.shop.orders GROUP BY country").show()
    """
    from lakescan.spark.statements.sql import run_sql

    return run_sql(spark, text, args, **frames)


def create_view(spark: SparkSession, name: str, source: str, *, replace: bool = True) -> None:
    """Create a temporary view of a table, or of a query over tables, that follows new commits.

    Each `lakescan.spark.sql` statement that names the view reads the current snapshots of its tables, one per table and
    statement, with only the data that the statement needs and with added columns. Spark itself keeps the plan of a
    temporary view, and Python cannot change that: `spark.sql` and `spark.table` read the snapshots of the time of
    `create_view` or of the last `refresh_view`. The view belongs to this session until it is dropped or replaced.

    Args:
        spark: A session, classic or Connect.
        name: The name of the view, without a catalog or namespace.
        source: The name of a table, as in `lakescan.spark.sql`, or a query without parameters. Its unqualified names
            are resolved with the current `USE`, and its views are those that exist now.
        replace: Replace a temporary view of that name. If false, an existing view is an error of Spark's.

    Raises:
        InvalidStatement, NoSuchTable: See `sql`.
        InvalidOption: The name has several parts, or two columns have the same name.

    Example:
        >>> lakescan.spark.create_view(spark, "orders", "local.shop.orders")
        >>> lakescan.spark.sql(spark, "SELECT count(*) FROM orders").show()
    """
    from lakescan.spark.statements.queries import make_view

    make_view(spark, name, source, replace=replace)


def refresh_view(spark: SparkSession, name: str) -> None:
    """Update a view of `create_view` so that Spark's own statements see new commits and added columns of its tables.

    `REFRESH TABLE name` in `lakescan.spark.sql` does the same. Existing frames over the view keep their snapshots.

    Args:
        spark: The session.
        name: A view made by `create_view`.

    Raises:
        NoSuchTable: There is no such view; the message suggests the most similar name.

    Example:
        >>> lakescan.spark.refresh_view(spark, "orders")
        >>> spark.sql("SELECT count(*) FROM orders").show()
    """
    from lakescan.spark.statements.queries import renew_view

    renew_view(spark, name)


def write_to(frame: DataFrame, name: str) -> TableWriter:
    """Return a writer to a table by name with the methods of `df.writeTo(name)`, which needs catalogs with JARs.

    Args:
        frame: A data frame, classic or Connect.
        name: `catalog.namespace.table`, an unqualified name after `USE`, or ``delta.`/path` ``.

    Returns:
        A writer with `using`, `option`, `options`, `tableProperty`, `partitionedBy`; and `create`, `replace`,
        `createOrReplace`, `append`, `overwrite(condition)`, `overwritePartitions`, which write.

    Raises:
        InvalidOption: The frame is a stream, or the name is not a table name.
        NoSuchTable: The name does not begin with a known catalog.

    Example:
        >>> lakescan.spark.write_to(frame, "local.shop.sales").append()
    """
    return TableWriter(frame, name, _namespace(frame.sparkSession))


def save_as_table(
    frame: DataFrame,
    name: str,
    format: str | None = None,
    mode: str | None = None,
    partitionBy: str | list[str] | None = None,
    **options: Any,
) -> WriteResult:
    """Save a frame as a table by name, like `df.write.saveAsTable` for Spark's own catalogs.

    Args:
        frame: A data frame, classic or Connect.
        name: `catalog.namespace.table`, or an unqualified name after `USE`.
        format: 'iceberg' (by default) or 'delta' for a new table.
        mode: If the table exists: 'error' (by default) or 'errorifexists' raises, 'append' adds the rows, 'ignore' does
            nothing. 'overwrite' replaces the rows in one commit, and keeps columns, partitions and properties; with
            `partitionBy` it replaces the table.
        partitionBy: The partitioning of a new table: columns and Iceberg's transforms.
        options: Write options; the page Options of the documentation lists them.

    Returns:
        The numbers of files, rows and bytes that were written.

    Raises:
        TableExists: `mode` is 'error' and the table exists.
        SchemaMismatch, CommitConflict, CommitStateUnknown, UnsupportedFeature: See `Table.append`.

    Example:
        >>> lakescan.spark.save_as_table(frame, "local.shop.sales", mode="append", partitionBy="country")
    """
    from lakescan.spark.writing.table_writer import save_as_table as save

    return save(frame, name, format, mode, partitionBy, _namespace(frame.sparkSession), options)


def to_table(
    stream: DataStreamWriter | DataFrame,
    name: str,
    format: str | None = None,
    outputMode: str | None = None,
    partitionBy: str | list[str] | None = None,
    queryName: str | None = None,
    **options: Any,
) -> StreamingQuery:
    """Start a stream into a table by name, like `df.writeStream.toTable` for Spark's own catalogs.

    Args:
        stream: `df.writeStream`, with its trigger and options, or the streaming frame.
        name: `catalog.namespace.table`, an unqualified name after `USE`, or ``delta.`/path` ``. The table is created if
            it does not exist.
        format: 'iceberg' or 'delta' for a new table.
        outputMode: 'append'.
        partitionBy: The partitioning of a new table.
        queryName: The name of the query.
        options: Options of the stream. `checkpointLocation` is required.

    Returns:
        The running query.

    Raises:
        InvalidOption: The name is not a table name, the frame is not a stream, or no session is active.

    Example:
        >>> lakescan.spark.to_table(stream.writeStream, "local.shop.sales", checkpointLocation="/lake/checkpoint")
    """
    from pyspark.sql import SparkSession

    from lakescan.spark.writing.table_writer import to_table as start

    if hasattr(stream, "isStreaming") and not stream.isStreaming:
        raise InvalidOption("to_table takes a stream; the rows of another frame are written by save_as_table")
    session = getattr(stream, "sparkSession", None) or SparkSession.getActiveSession()
    if session is None:
        raise InvalidOption("no Spark session is active: give the streaming frame instead of its writer")
    register(session, names=("lakescan",))
    return start(stream, name, format, outputMode, partitionBy, queryName, _namespace(session), options)


def _namespace(spark: SparkSession) -> tuple[str, ...]:
    """Return the catalog and namespace in which a session resolves unqualified names."""
    from lakescan.spark.statements.names import current_namespace

    found: tuple[str, ...] = current_namespace(spark)
    return found


def explain(scan: Scan) -> str:
    """Return the plan of a scan as text, with the lane of its files on Spark (native or Arrow) and the reason for it.

    Args:
        scan: The scan. It is planned, but not read.

    Returns:
        Text of several lines.

    Example:
        >>> print(lakescan.spark.explain(orders.scan().where("price > 5")))
    """
    from lakescan.spark.frames import explain_scan

    return PlanText(explain_scan(scan.spec))
