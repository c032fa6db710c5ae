"""Scans: what users refine step by step, plan, explain and run."""

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
    """A read of a table. Every refinement returns a new scan; nothing is read before `plan` or a `to_...` call.

    Scans are made by `Table.scan`. Libraries that take Arrow streams (`__arrow_c_stream__`) take a scan as it is.

    Example:
        >>> scan = lakescan.table("/lake/orders").scan().where("price > 5").select("id", "price").limit(10)
        >>> scan.to_pandas()
    """

    spec: ScanSpec

    def __repr__(self) -> str:
        return repr(self.spec)

    def _repr_html_(self) -> str:
        """The scan as notebooks show it: what it reads, and its columns."""
        return scan_as_html(self.spec)

    def where(self, condition: str | Predicate) -> Scan:
        """Keep only the rows for which a condition is true. Several calls add up.

        Tests of columns against literals prune files. Other conditions, joined to them by AND, OR and NOT, are
        evaluated on the rows: on Spark (`to_spark`) by Spark, with all of its functions and in the session's time zone;
        in process, and by `spark.read.format(...)`, by DuckDB as Spark does in ANSI mode and UTC.

        Args:
            condition: SQL text in Spark's dialect, or a predicate (`lakescan.col("x") > 1`).

        Returns:
            A new scan.

        Raises:
            InvalidFilter: The text does not parse, or has a subquery, an aggregate, a window function or a function
                that is not deterministic.
            UnsupportedFeature: When the scan is planned in process, for a function that only Spark evaluates.
            SchemaMismatch: When rows are read in process, for a value on which the condition fails, as in Spark
                (a division by zero).

        Example:
            >>> scan.where("day >= '2026-01-01' and country in ('FR', 'NL')")
            >>> scan.where("day >= '2026-01-01' and (price * amount > 100 or length(note) > 10)")
        """
        return Scan(self.spec.where(condition))

    def filter(self, condition: str | Predicate) -> Scan:
        """The same as `where`, by the name that Spark, Polars and pyiceberg use.

        Example:
            >>> scan.filter(lakescan.col("price") > 5)
        """
        return self.where(condition)

    def filter_files(self, condition: str | Predicate) -> Scan:
        """Read only the data files for which a condition is true. Several calls add up.

        Rows are not tested. To add a test of rows, use `where`.

        Args:
            condition: SQL text, or a predicate. Its columns are facts of data files, under Iceberg's names:
                `file_path`, `file_format`, `file_size_in_bytes` (bytes), `record_count` (rows, deleted ones among
                them), `spec_id`, `sequence_number`, `first_row_id`, and the struct `partition`. A fact that is not
                recorded is null.

        Returns:
            A new scan.

        Raises:
            InvalidFilter: The text does not parse, or compares values of other types.
            NoSuchColumn: When the scan is planned, for a name that is not a fact of data files.

        Example:
            >>> scan.filter_files("file_size_in_bytes < 1000000 and partition.day = '2026-01-31'")
        """
        return Scan(self.spec.where_files(condition, of_partitions=False))

    def filter_partitions(self, condition: str | Predicate) -> Scan:
        """Read only the partitions for which a condition is true. Several calls add up.

        Args:
            condition: SQL text, or a predicate. Its columns are the partition fields of the table (`id_bucket`,
                `day`); for Delta, the partition columns. A field that a file's partition spec does not have is null.

        Returns:
            A new scan.

        Raises:
            InvalidFilter: The text does not parse, or compares values of other types.
            NoSuchColumn: When the scan is planned, for a name that is not a partition field.

        Example:
            >>> scan.filter_partitions("id_bucket = 3")
        """
        return Scan(self.spec.where_files(condition, of_partitions=True))

    def select(self, *columns: str | Column | Iterable[str | Column], **named: str | Column) -> Scan:
        """Return only these columns and members of structs, in this order.

        Only what is selected is read from data files, inside structs, too. A member is null where its struct is.

        Args:
            columns: Names, `lakescan.col(name)`, or lists of these. Metadata columns (`_file`, `_pos`, ...) may be
                among them; a scan that selects `_deleted` returns deleted rows, too.
                `address.city` is the member `city` of the column `address`, and is returned as `city`;
                `address.city as town` returns it as `town`. Names with dots are quoted: "`a.b`".
            named: Columns or members to return under other names, after `columns`.

        Returns:
            A new scan.

        Raises:
            NoSuchColumn: When the scan is planned, for a name that the table does not have.
            InvalidOption: For an argument that is no name; when the scan is planned, if two columns would have the same
                name.
            UnsupportedFeature: When the scan is planned, for members of list elements, map values and variants.

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
        """Read another state of the table. Exactly one argument is given.

        Args:
            version: A version (Delta) or a snapshot id (Iceberg).
            timestamp: The state at that time. Without an offset it is in the zone of the option `time-zone`, else UTC.
            branch: The newest state of a branch (Iceberg).
            tag: The state that a tag names (Iceberg).

        Returns:
            A new scan.

        Raises:
            InvalidOption: None or several arguments were given.
            NoSuchSnapshot: When the scan is planned, if the table does not have the state.

        Example:
            >>> scan.as_of(timestamp="2026-01-31")
        """
        return Scan(self.spec.as_of(version=version, timestamp=timestamp, branch=branch, tag=tag))

    def limit(self, rows: int) -> Scan:
        """Return at most `rows` rows; which ones is not defined. The smallest of several limits counts.

        Example:
            >>> scan.limit(10).to_pandas()
        """
        return Scan(self.spec.limit(rows))

    def options(self, **options: Unpack[ScanKeywords]) -> Scan:
        """Set options by the ecosystem's names; the page Options of the documents lists them.

        Args:
            options: `split_size="64m"`, or `**{"split-size": "64m"}`.

        Returns:
            A new scan.

        Raises:
            InvalidOption: An unknown name (the message has the nearest valid one), or a value that it does not take.

        Example:
            >>> scan.options(split_size="64m")
        """
        return Scan(self.spec.with_options(options))

    @property
    def snapshot(self) -> Snapshot:
        """The state of the table that this scan reads; raises `NoSuchSnapshot`."""
        return self.spec.snapshot

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows that the scan returns."""
        return self.spec.output.arrow()

    def plan(self, *, parallelism: int | None = None) -> ScanPlan:
        """Plan the scan: prune, match deletes, work out residuals, split and pack.

        Equality deletes whose keys the filter rules out are left out: they delete no row that the scan returns.

        Args:
            parallelism: How many readers the splits should keep busy; by default the option of that name, else the
                number of this machine's cores.

        Returns:
            The task groups, and a report of what was read and skipped.

        Example:
            >>> scan.plan().report.metrics.result_data_files
        """
        return self.spec.prune_deletes().plan(parallelism)

    def plan_parts(self, *, parallelism: int | None = None) -> Iterator[ScanPlan]:
        """Plan the scan in parts, each as soon as its manifests are read: memory is bounded by a part.

        Each part has its own groups and report. Reporters receive one report of everything that was planned, when the
        iterator ends or is closed.

        Args:
            parallelism: How many readers the splits of a part should keep busy; see `plan`.

        Example:
            >>> for part in scan.plan_parts():
            ...     print(len(part.groups))
        """
        return self.spec.prune_deletes().plan_parts(parallelism)

    def report_to(self, *reporters: MetricsReporter | Callable[[Any], object]) -> Scan:
        """Hand the report of every plan of this scan to reporters.

        Args:
            reporters: Objects with a method `report`, such as those of `lakescan.planning.metrics_reporters`, or
            functions.

        Example:
            >>> scan.report_to(lakescan.planning.metrics_reporters.LoggingReporter()).to_arrow()
        """
        return Scan(replace(self.spec, reporters=(*self.spec.reporters, *map(as_reporter, reporters))))

    def plan_with(self, executor: PlanningExecutor) -> Scan:
        """Read and prune metadata with an executor; by default a few threads do it.

        Args:
            executor: One of `concurrent.futures`, or `lakescan.spark.SparkExecutor`; see `lakescan.common.executors`.

        Example:
            >>> scan.plan_with(lakescan.spark.SparkExecutor(spark)).plan()
        """
        return Scan(replace(self.spec, executor=executor))

    def ignore_residuals(self) -> Scan:
        """Return all rows of the files that the filter leaves, for an engine that filters rows itself.

        Example:
            >>> scan.where("id = 7").ignore_residuals().to_arrow()
        """
        return Scan(replace(self.spec, ignores_residuals=True))

    def include_column_stats(self, *columns: str) -> Scan:
        """Keep the statistics of columns in plans (`ScanPlan.column_stats`); those of the filter's are kept anyway.

        Args:
            columns: Names; all columns where none is given.

        Example:
            >>> scan.include_column_stats("price").plan().column_stats
        """
        return Scan(replace(self.spec, stats_of=columns or tuple(self.spec.snapshot.schema.names)))

    def count(self) -> int:
        """The number of rows. Files whose number is exact in metadata are not read.

        It is exact for a file without a residual filter that has no deletes, or only deletion vectors.

        Example:
            >>> scan.where("country = 'FR'").count()
        """
        return count_rows(self.spec)

    def min(self, column: str) -> Any:
        """The least value of a column that is not null, or None; from metadata where its bounds are exact.

        Only files that may have a smaller value than metadata proves are read; all of them for a member of a struct.
        NaN is greater than everything. A date or time that Python cannot hold (years beyond 1 to 9999) is a
        `numpy.datetime64`.

        Args:
            column: A column, or a member of a struct (`address.zip`).

        Raises:
            InvalidOption: The scan has a limit, or values of the column have no order.

        Example:
            >>> scan.min("price")
        """
        return extreme(self.spec, column, largest=False)

    def max(self, column: str) -> Any:
        """The greatest value of a column that is not null, or None; see `min`.

        Args:
            column: A column; see `min`.

        Example:
            >>> scan.max("ordered_at")
        """
        return extreme(self.spec, column, largest=True)

    def explain(self) -> str:
        """The plan as text: what was read and pruned on the way from manifests to task groups.

        Position delete files are read, to say whether they name data files in another spelling, or none.

        Example:
            >>> print(scan.where("day = '2026-01-31'").explain())
        """
        plan = self.plan()
        return PlanText("\n".join([plan_as_text(plan), *check_delete_paths(plan, self.spec.read_context(plan))]))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, while they are read: memory is bounded by a few batches a reader.

        Example:
            >>> for batch in scan.to_batches():
            ...     print(batch.num_rows)
        """
        return scan_batches(self.spec)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table.

        Example:
            >>> scan.to_arrow().num_rows
        """
        return register_display(
            pa.Table.from_batches(scan_batches(self.spec, WHOLE_TABLE_BATCH_SIZE), schema=self.schema)
        )

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as an Arrow stream, which DuckDB, Polars and others take without a copy of the table.

        Example:
            >>> duckdb.from_arrow(scan.to_reader()).aggregate("sum(price)")
        """
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as an Arrow stream, by the PyCapsule protocol: `pl.DataFrame(scan)`, `pa.table(scan)`."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(
        self, dtype_backend: Literal["pyarrow", "numpy_nullable"] | None = None, **arguments: Any
    ) -> pandas.DataFrame:
        """The rows as a pandas data frame.

        Args:
            dtype_backend: pandas's name of its data types: `"pyarrow"` for `pandas.ArrowDtype`, or `"numpy_nullable"`.
                Both keep integers with nulls exact. By default, pandas has such a column as doubles, which round
                integers of more than 53 bits.
            arguments: Those of `pyarrow.Table.to_pandas`.

        Raises:
            InvalidOption: There is no such `dtype_backend`.
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
        """The rows as a Polars data frame, or lazy frame.

        Args:
            lazy: Return a lazy frame. When it is collected, only the columns that the query needs are read, and its
                filters prune files where they are comparisons of columns with literals.

        Raises:
            MissingDependency: Polars is not installed.
            UnsupportedFeature: The process was forked after its parent has read with Polars, whose threads it lacks.

        Example:
            >>> scan.to_polars(lazy=True).filter(pl.col("price") > 5).select("id").collect()
        """
        _require("polars", lambda: __import__("polars"))
        check_threads("to_polars()")
        return lazy_frame(self.spec) if lazy else whole_frame(self.spec)

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection | None = None, *, lazy: bool = False
    ) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation, which DuckDB's SQL finds by the name of its Python variable.

        Args:
            connection: Where the relation belongs; DuckDB's default connection without one.
            lazy: Read when the relation is queried, each time, and only the columns that the query needs. All queries
                read the state that the table has now. Filters of the query are evaluated while rows are read; those
                of the scan (`where`) also skip files. Without `lazy`, the rows are read once, into memory.

        Raises:
            MissingDependency: DuckDB is not installed.
            UnsupportedFeature: Columns, or members of a struct, have names that differ only in case: DuckDB takes them
                for one.

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
        """Plan the scan as tasks for the workers of an engine: each can be pickled, and reads its rows by itself.

        A scan with a limit is one task. There is at least one task, so that an engine learns the columns.

        Args:
            parallelism: How many tasks should be worked on at a time; see `plan`.

        Raises:
            InvalidOption: The scan has a key manager that was given as an object.

        Example:
            >>> with ProcessPoolExecutor() as pool:
            ...     tables = pool.map(lakescan.ScanTask.to_arrow, scan.tasks())
        """
        return scan_tasks(self.spec, parallelism)

    def to_ray(self, *, parallelism: int | None = None, **arguments: Any) -> ray.data.Dataset:
        """The rows as a Ray data set, read by Ray's workers, which need lakescan.

        Args:
            parallelism: How many tasks should be read at a time; see `plan`.
            arguments: Those of `ray.data.read_datasource`, such as `concurrency` and `ray_remote_args`.

        Raises:
            MissingDependency: Ray is not installed (`lakescan[ray]`).
            InvalidOption: The scan has a key manager that was given as an object.

        Example:
            >>> scan.where("day = '2026-01-31'").to_ray().map_batches(embed)
        """
        return ray_dataset(self.spec, parallelism, arguments)

    def to_dask(self, *, parallelism: int | None = None) -> dask.dataframe.DataFrame:
        """The rows as a Dask data frame, with a partition for each task and columns of Arrow types.

        Dask's optimizer reads only the columns that a query needs; the scan's `where` skips files.

        Args:
            parallelism: How many partitions should be read at a time; see `plan`.

        Raises:
            MissingDependency: Dask is not installed (`lakescan[dask]`).
            InvalidOption: The scan has a key manager that was given as an object.

        Example:
            >>> scan.to_dask().groupby("country").price.sum().compute()
        """
        return dask_frame(self.spec, parallelism)

    def to_daft(self, *, parallelism: int | None = None) -> daft.DataFrame:
        """The rows as a Daft data frame. It is planned when it is collected, with the columns that it needs.

        Args:
            parallelism: How many tasks should be read at a time; see `plan`.

        Raises:
            MissingDependency: Daft is not installed (`lakescan[daft]`).
            InvalidOption: The scan has a key manager that was given as an object.

        Example:
            >>> scan.to_daft().groupby("country").sum("price").collect()
        """
        return daft_frame(self.spec, parallelism)

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """The rows as a Spark data frame, read by Spark's workers.

        Of a table with `write.wap.enabled`, a session with `spark.wap.branch` reads that branch, if the table has it
        and the scan says no other state.

        Args:
            spark: A session, classic or Connect.

        Raises:
            InvalidOption: The scan has a key manager that was given as an object.
            UnsupportedFeature: The option `lane` is 'native', and Spark's own reader would not read all files exactly.

        Example:
            >>> scan.where("day = '2026-01-31'").to_spark(spark).groupBy("country").count()
        """
        from lakescan.spark.frames import session_frame

        frame: DataFrame = session_frame(spark, self.spec)
        return frame

    def to_options(self) -> dict[str, str]:
        """The scan as text options of `spark.read.format("lakescan")`, pinned to the state that it reads now.

        Raises:
            InvalidOption: The scan has a key manager that was given as an object: text cannot carry it.

        Example:
            >>> spark.read.format("lakescan").options(**scan.to_options()).load()
        """
        return self.spec.to_options()


def _is_list(columns: object) -> TypeGuard[Iterable[str | Column]]:
    return isinstance(columns, Iterable) and not isinstance(columns, str | bytes)


def _reference(column: object) -> str:
    """What `select` was given, as text."""
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
