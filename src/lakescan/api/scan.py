"""`Scan`: a read of a table, refined step by step, then planned, explained or run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, Unpack, overload

import pyarrow as pa

from lakescan.common.distinct_names import check_distinct
from lakescan.common.executors import PlanningExecutor
from lakescan.common.html import register_display
from lakescan.common.pandas_frames import pandas_frame
from lakescan.common.polars_columns import check_threads
from lakescan.common.selection import with_alias
from lakescan.errors import InvalidOption, missing_dependency
from lakescan.expressions.column import Column
from lakescan.expressions.predicate import Predicate
from lakescan.formats.table_format import Snapshot
from lakescan.local.aggregates import count_rows, extreme
from lakescan.local.delete_paths import check_delete_paths
from lakescan.local.integrations.daft_frames import daft_frame
from lakescan.local.integrations.dask_frames import dask_frame
from lakescan.local.integrations.ray_data import ray_dataset
from lakescan.local.polars_scan import lazy_frame, whole_frame
from lakescan.local.reader import scan_batches
from lakescan.local.scan_tasks import ScanTask, scan_tasks
from lakescan.options.keywords import ScanKeywords
from lakescan.planning.explain import PlanText, plan_as_text
from lakescan.planning.metrics_reporters import MetricsReporter, as_reporter
from lakescan.planning.plan import ScanPlan
from lakescan.reading.context import WHOLE_TABLE_BATCH_SIZE
from lakescan.tables.notebook import scan_as_html
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    import daft
    import dask.dataframe
    import duckdb
    import pandas
    import polars
    import ray.data
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, repr=False)
class Scan:
    """A read of a table. Nothing is read before a method such as `plan`, `count` or `to_arrow` is called.

    `Table.scan` creates scans. A scan does not change: `where`, `select` and the like return a new one. Libraries that
    take Arrow streams (`__arrow_c_stream__`) take a scan directly.

    Example:
        >>> scan = lakescan.table("/lake/orders").scan().where("price > 5").select("id", "price").limit(10)
        >>> scan.to_pandas()
    """

    spec: ScanSpec

    def __repr__(self) -> str:
        return repr(self.spec)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the table, filter and columns of the scan."""
        return scan_as_html(self.spec)

    def where(self, condition: str | Predicate) -> Scan:
        """Return only the rows that match a condition. Conditions of several calls are combined by AND.

        Comparisons of columns with literals also skip files. Other conditions are evaluated on the rows: with
        `to_spark` by Spark, with all of its functions and in the session's time zone; otherwise, and with
        `spark.read.format(...)`, by DuckDB, as Spark does in ANSI mode and UTC.

        Args:
            condition: SQL text in Spark's dialect, or a predicate (`lakescan.col("x") > 1`).

        Returns:
            A new scan.

        Raises:
            InvalidFilter: The text cannot be parsed, or has a subquery, an aggregate, a window function or a
                nondeterministic function.
            UnsupportedFeature: Raised when the scan is planned without Spark, for a function that only Spark evaluates.
            SchemaMismatch: Raised when rows are read without Spark, for a value on which the condition fails, such as a
                division by zero.

        Example:
            >>> scan.where("day >= '2026-01-01' and country in ('FR', 'NL')")
            >>> scan.where("day >= '2026-01-01' and (price * amount > 100 or length(note) > 10)")
        """
        return Scan(self.spec.where(condition))

    def filter(self, condition: str | Predicate) -> Scan:
        """Return only the rows that match `condition`. The same as `where`, named as in Spark and Polars.

        Example:
            >>> scan.filter(lakescan.col("price") > 5)
        """
        return self.where(condition)

    def filter_files(self, condition: str | Predicate) -> Scan:
        """Read only the data files that match a condition on files.

        Conditions of several calls are combined by AND. Rows are not filtered; `where` does that.

        Args:
            condition: SQL text, or a predicate. Its columns are named as in Iceberg's metadata tables: `file_path`,
                `file_format`, `file_size_in_bytes`, `record_count` (rows, including deleted ones), `spec_id`,
                `sequence_number`, `first_row_id`, and the struct `partition`. Values that are not recorded are null.

        Returns:
            A new scan.

        Raises:
            InvalidFilter: The text cannot be parsed, or compares values of incompatible types.
            NoSuchColumn: Raised when the scan is planned, for any other column.

        Example:
            >>> scan.filter_files("file_size_in_bytes < 1000000 and partition.day = '2026-01-31'")
        """
        return Scan(self.spec.where_files(condition, of_partitions=False))

    def filter_partitions(self, condition: str | Predicate) -> Scan:
        """Read only the partitions that match a condition. Conditions of several calls are combined by AND.

        Args:
            condition: SQL text, or a predicate. Its columns are the table's partition fields (`id_bucket`, `day`), or
                the partition columns for Delta. A field that a file's partition spec lacks is null.

        Returns:
            A new scan.

        Raises:
            InvalidFilter: The text cannot be parsed, or compares values of incompatible types.
            NoSuchColumn: Raised when the scan is planned, for a name that is not a partition field.

        Example:
            >>> scan.filter_partitions("id_bucket = 3")
        """
        return Scan(self.spec.where_files(condition, of_partitions=True))

    def select(self, *columns: str | Column | Iterable[str | Column], **named: str | Column) -> Scan:
        """Return only these columns and struct members, in this order.

        Only selected columns and members are read from data files. A member is null where its struct is null.

        Args:
            columns: Names, `lakescan.col(name)`, or lists of these. Metadata columns (`_file`, `_pos`, ...) can be
                selected, too. A scan that selects `_deleted` also returns deleted rows. `address.city` returns the
                member `city` of the column `address` as `city`, and `address.city as town` returns it as `town`. Names
                with dots need backquotes: "`a.b`".
            named: Columns or members to return under other names, after `columns`.

        Returns:
            A new scan.

        Raises:
            NoSuchColumn: Raised when the scan is planned, for a name that the table lacks.
            InvalidOption: An argument is not a name, or, raised when the scan is planned, two columns would have the
                same name.
            UnsupportedFeature: Raised when the scan is planned, for members of list elements, map values and variants.

        Example:
            >>> scan.select("id", "price")
            >>> scan.select(["id", "_file"])
            >>> scan.select("id", "address.city", home="person.address.city")
        """
        texts = [_reference(name) for each in columns for name in (each if _is_list(each) else [each])]
        return Scan(self.spec.select(*texts, *(with_alias(_reference(of), name) for name, of in named.items())))

    def as_of(
        self,
        *,
        version: int | str | None = None,
        timestamp: datetime | date | str | None = None,
        branch: str | None = None,
        tag: str | None = None,
    ) -> Scan:
        """Read another snapshot (Iceberg) or version (Delta) of the table. Give exactly one argument.

        Args:
            version: A version (Delta) or a snapshot id (Iceberg).
            timestamp: Read the snapshot or version that was current at this time. A time without an offset is in the
                time zone of the option `time-zone`, by default UTC.
            branch: Read the newest snapshot of a branch (Iceberg).
            tag: Read the snapshot of a tag (Iceberg).

        Returns:
            A new scan.

        Raises:
            InvalidOption: Not exactly one argument was given.
            NoSuchSnapshot: Raised when the scan is planned, if the snapshot or version does not exist.

        Example:
            >>> scan.as_of(timestamp="2026-01-31")
        """
        return Scan(self.spec.as_of(version=version, timestamp=timestamp, branch=branch, tag=tag))

    def limit(self, rows: int) -> Scan:
        """Return at most `rows` rows, in no defined order. The smallest limit of several calls applies.

        Example:
            >>> scan.limit(10).to_pandas()
        """
        return Scan(self.spec.limit(rows))

    def options(self, **options: Unpack[ScanKeywords]) -> Scan:
        """Set read options, under the names that Spark, Iceberg and Delta use.

        Args:
            options: Options as `split_size="64m"`, or `**{"split-size": "64m"}`. The page Options of the documentation
                lists them.

        Returns:
            A new scan.

        Raises:
            InvalidOption: An option is unknown (the message suggests the nearest valid name), or its value is invalid.

        Example:
            >>> scan.options(split_size="64m")
        """
        return Scan(self.spec.with_options(options))

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot (Iceberg) or version (Delta) that this scan reads; raises `NoSuchSnapshot`."""
        return self.spec.snapshot

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows that the scan returns."""
        return self.spec.output.arrow()

    def plan(self, *, parallelism: int | None = None) -> ScanPlan:
        """Plan the scan: prune files, find their deletes, compute residual filters, and pack splits into task groups.

        Equality deletes are left out of the plan if the filter excludes all of their keys: they delete no row of the
        result.

        Args:
            parallelism: The number of readers that the splits should keep busy. By default the option `parallelism`,
                else the number of this machine's cores.

        Returns:
            The plan, with its task groups and a report of the files read and skipped.

        Example:
            >>> scan.plan().report.metrics.result_data_files
        """
        return self.spec.prune_deletes().plan(parallelism)

    def plan_parts(self, *, parallelism: int | None = None) -> Iterator[ScanPlan]:
        """Yield plans of parts of the scan, each as soon as its manifests are read. Memory is bounded by one part.

        Each part has its own task groups and report. Metrics reporters receive one report of all parts, when the
        iterator ends or is closed.

        Args:
            parallelism: The number of readers that the splits of a part should keep busy; see `plan`.

        Example:
            >>> for part in scan.plan_parts():
            ...     print(len(part.groups))
        """
        return self.spec.prune_deletes().plan_parts(parallelism)

    def report_to(self, *reporters: MetricsReporter | Callable[[Any], object]) -> Scan:
        """Send the report of each plan of this scan to metrics reporters.

        Args:
            reporters: Functions, or objects with a method `report`, such as those of
                `lakescan.planning.metrics_reporters`.

        Returns:
            A new scan.

        Example:
            >>> scan.report_to(lakescan.planning.metrics_reporters.LoggingReporter()).to_arrow()
        """
        return Scan(replace(self.spec, reporters=(*self.spec.reporters, *map(as_reporter, reporters))))

    def plan_with(self, executor: PlanningExecutor) -> Scan:
        """Read and prune metadata with an executor instead of a few threads.

        Args:
            executor: An executor of `concurrent.futures`, or `lakescan.spark.SparkExecutor`; see
                `lakescan.common.executors`.

        Returns:
            A new scan.

        Example:
            >>> scan.plan_with(lakescan.spark.SparkExecutor(spark)).plan()
        """
        return Scan(replace(self.spec, executor=executor))

    def ignore_residuals(self) -> Scan:
        """Return all rows of the files that the filter does not rule out, for an engine that filters the rows itself.

        Example:
            >>> scan.where("id = 7").ignore_residuals().to_arrow()
        """
        return Scan(replace(self.spec, ignores_residuals=True))

    def include_column_stats(self, *columns: str) -> Scan:
        """Keep the statistics of more columns in plans, for `ScanPlan.column_stats`.

        Statistics of the filter's columns are always kept.

        Args:
            columns: The columns' names. Without names, all columns.

        Example:
            >>> scan.include_column_stats("price").plan().column_stats
        """
        return Scan(replace(self.spec, stats_of=columns or tuple(self.spec.snapshot.schema.names)))

    def count(self) -> int:
        """Return the number of rows. Files that metadata counts exactly are not read.

        Metadata counts a file exactly if no filter remains for its rows, and it has no deletes other than deletion
        vectors.

        Example:
            >>> scan.where("country = 'FR'").count()
        """
        return count_rows(self.spec)

    def min(self, column: str) -> Any:
        """Return the minimum of a column, ignoring nulls; None if all values are null.

        Files are read only if metadata cannot prove that they lack a smaller value. For a member of a struct, all files
        are read. NaN is greater than any other value. A date or time outside Python's years 1 to 9999 is returned as
        `numpy.datetime64`.

        Args:
            column: A column, or a member of a struct (`address.zip`).

        Raises:
            InvalidOption: The scan has a limit, or the column's type has no order.

        Example:
            >>> scan.min("price")
        """
        return extreme(self.spec, column, largest=False)

    def max(self, column: str) -> Any:
        """Return the maximum of a column, ignoring nulls; None if all values are null; see `min`.

        Args:
            column: A column, or a member of a struct.

        Example:
            >>> scan.max("ordered_at")
        """
        return extreme(self.spec, column, largest=True)

    def explain(self) -> str:
        """Return the plan as text: how many manifests, files, splits and rows are read and skipped at each step.

        Position delete files are read to report those that refer to a data file by another form of its path, or to no
        file.

        Example:
            >>> print(scan.where("day = '2026-01-31'").explain())
        """
        plan = self.plan()
        return PlanText("\n".join([plan_as_text(plan), *check_delete_paths(plan, self.spec.read_context(plan))]))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches while they are read. Memory is bounded by a few batches per reader.

        Example:
            >>> for batch in scan.to_batches():
            ...     print(batch.num_rows)
        """
        return scan_batches(self.spec)

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table.

        Example:
            >>> scan.to_arrow().num_rows
        """
        return register_display(
            pa.Table.from_batches(scan_batches(self.spec, WHOLE_TABLE_BATCH_SIZE), schema=self.schema)
        )

    def to_reader(self) -> pa.RecordBatchReader:
        """Return an Arrow reader of record batches, which DuckDB, Polars and others can stream.

        Example:
            >>> duckdb.from_arrow(scan.to_reader()).aggregate("sum(price)")
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Stream the rows by the Arrow PyCapsule protocol: `pl.DataFrame(scan)`, `pa.table(scan)`."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(
        self, dtype_backend: Literal["pyarrow", "numpy_nullable"] | None = None, **arguments: Any
    ) -> pandas.DataFrame:
        """Return the rows as a pandas data frame.

        Args:
            dtype_backend: The data types, as pandas names them: `"pyarrow"` for `pandas.ArrowDtype`, or
                `"numpy_nullable"`. Both keep integer columns with nulls exact. By default, pandas stores such a column
                as doubles, which round integers of more than 53 bits.
            arguments: Keyword arguments of `pyarrow.Table.to_pandas`.

        Raises:
            InvalidOption: `dtype_backend` is unknown.
            MissingDependency: pandas is not installed.

        Example:
            >>> scan.to_pandas(dtype_backend="pyarrow")
        """
        return pandas_frame(self.to_arrow(), dtype_backend, **arguments)

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> polars.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> polars.LazyFrame: ...

    def to_polars(self, *, lazy: bool = False) -> polars.DataFrame | polars.LazyFrame:
        """Return the rows as a Polars data frame or lazy frame.

        Args:
            lazy: Return a lazy frame. When it is collected, only the columns that the query needs are read, and its
                comparisons of columns with literals skip files.

        Raises:
            MissingDependency: Polars is not installed.
            UnsupportedFeature: The process was forked from one that had already used Polars, whose threads do not
                survive a fork.

        Example:
            >>> scan.to_polars(lazy=True).filter(pl.col("price") > 5).select("id").collect()
        """
        _require("polars", lambda: __import__("polars"))
        check_threads("to_polars()")
        return lazy_frame(self.spec) if lazy else whole_frame(self.spec)

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None, *, lazy: bool = False
    ) -> duckdb.DuckDBPyRelation:
        """Return the rows as a DuckDB relation, which DuckDB's SQL finds by the name of its Python variable.

        Args:
            connection: The connection that the relation belongs to. By default DuckDB's default connection.
            lazy: Read the rows each time the relation is queried, and only the columns that the query needs. All
                queries read the snapshot or version that is current now. Filters of the query are applied while rows
                are read, but only filters of the scan (`where`) skip files. By default, the rows are read once, into
                memory.

        Raises:
            MissingDependency: DuckDB is not installed.
            UnsupportedFeature: Two columns, or members of a struct, have names that differ only in case, which DuckDB
                does not distinguish.

        Example:
            >>> orders = scan.to_duckdb(lazy=True)
            >>> duckdb.sql("SELECT country, count(*) FROM orders WHERE price > 5 GROUP BY country")
        """
        module = _require("duckdb", lambda: __import__("duckdb"))
        connection = connection or module.default_connection()
        if not lazy:
            rows = self.to_arrow()
            check_distinct(rows.schema, self.spec.table.location)
            return connection.from_arrow(rows)
        from lakescan.local.duckdb_scan import lazy_relation  # pyarrow's data sets take long to import

        return lazy_relation(self.spec, connection)

    def tasks(self, *, parallelism: int | None = None) -> list[ScanTask]:
        """Plan the scan as a list of tasks for the workers of an engine.

        Each task can be pickled, and reads its rows by itself. A scan with a limit is one task. There is at least one
        task, from which an engine learns the columns.

        Args:
            parallelism: The number of workers that the tasks should keep busy; see `plan`.

        Raises:
            InvalidOption: The scan has a key manager that was given as an object.

        Example:
            >>> with ProcessPoolExecutor() as pool:
            ...     tables = pool.map(lakescan.ScanTask.to_arrow, scan.tasks())
        """
        return scan_tasks(self.spec, parallelism)

    def to_ray(self, *, parallelism: int | None = None, **arguments: Any) -> ray.data.Dataset:
        """Return the rows as a Ray data set. Ray's workers read them, and need lakescan installed.

        Args:
            parallelism: The number of workers that the tasks should keep busy; see `plan`.
            arguments: Keyword arguments of `ray.data.read_datasource`, such as `concurrency` and `ray_remote_args`.

        Raises:
            MissingDependency: Ray is not installed (`lakescan[ray]`).
            InvalidOption: The scan has a key manager that was given as an object.

        Example:
            >>> scan.where("day = '2026-01-31'").to_ray().map_batches(embed)
        """
        return ray_dataset(self.spec, parallelism, arguments)

    def to_dask(self, *, parallelism: int | None = None) -> dask.dataframe.DataFrame:
        """Return the rows as a Dask data frame, with one partition per task and columns of Arrow types.

        Dask's optimizer reads only the columns that a query needs. Only filters of the scan (`where`) skip files.

        Args:
            parallelism: The number of workers that the partitions should keep busy; see `plan`.

        Raises:
            MissingDependency: Dask is not installed (`lakescan[dask]`).
            InvalidOption: The scan has a key manager that was given as an object.

        Example:
            >>> scan.to_dask().groupby("country").price.sum().compute()
        """
        return dask_frame(self.spec, parallelism)

    def to_daft(self, *, parallelism: int | None = None) -> daft.DataFrame:
        """Return the rows as a Daft data frame. It is planned when it is collected, with the columns that it needs.

        Args:
            parallelism: The number of workers that the tasks should keep busy; see `plan`.

        Raises:
            MissingDependency: Daft is not installed (`lakescan[daft]`).
            InvalidOption: The scan has a key manager that was given as an object.

        Example:
            >>> scan.to_daft().groupby("country").sum("price").collect()
        """
        return daft_frame(self.spec, parallelism)

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """Return the rows as a Spark data frame, which Spark's workers read.

        If the table has `write.wap.enabled` and the session has `spark.wap.branch`, that branch is read, unless the
        table lacks it or the scan selects another snapshot.

        Args:
            spark: A Spark session, classic or Connect.

        Raises:
            InvalidOption: The scan has a key manager that was given as an object, which workers do not get.
            UnsupportedFeature: The option `lane` is 'native', but Spark's own reader cannot read all files correctly.

        Example:
            >>> scan.where("day = '2026-01-31'").to_spark(spark).groupBy("country").count()
        """
        from lakescan.spark.frames import session_frame

        frame: DataFrame = session_frame(spark, self.spec)
        return frame

    def to_options(self) -> dict[str, str]:
        """Return the scan as options of `spark.read.format("lakescan")`, pinned to the snapshot that it reads now.

        Raises:
            InvalidOption: The scan has a key manager that was given as an object, or conditions on files or partitions,
                which options cannot express.

        Example:
            >>> spark.read.format("lakescan").options(**scan.to_options()).load()
        """
        return self.spec.to_options()


def _is_list(columns: object) -> TypeGuard[Iterable[str | Column]]:
    return isinstance(columns, Iterable) and not isinstance(columns, str | bytes)


def _reference(column: object) -> str:
    """Return an argument of `select` (text or `lakescan.col`) as text; raises `InvalidOption` for other values."""
    if isinstance(column, Column):
        return column.name
    if not isinstance(column, str):
        raise InvalidOption(f"select takes names of columns as text, or lakescan.col(name), not {column!r}")
    return column


def _require(library: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except ImportError as error:
        raise missing_dependency(library, "frames", f"to_{library}()") from error
