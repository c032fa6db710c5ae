"""Queries that run in this process: DuckDB over the scans of their tables."""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.api.changes import Changes
from lakescan.api.scan import Scan
from lakescan.api.table import Table
from lakescan.common.arrays import cast_nulls, remove_table_offsets
from lakescan.common.distinct_names import distinct_schema, distinct_table, rename_batch, restore_names
from lakescan.common.html import arrow_as_html, pre_block, register_display, section
from lakescan.common.pandas_frames import pandas_frame
from lakescan.common.polars_columns import check_threads
from lakescan.common.types import Type
from lakescan.errors import (
    InvalidOption,
    InvalidStatement,
    LakescanError,
    LimitExceeded,
    QueryFailed,
    UnsupportedFeature,
    missing_dependency,
)
from lakescan.expressions.scalar.typed_sql import UNEQUAL, quote_text
from lakescan.expressions.scalar.udf import register, udfs_in
from lakescan.formats.metadata_table import as_table
from lakescan.local.reader import read_batches, scan_batches
from lakescan.planning.explain import PlanText, plan_as_text
from lakescan.planning.plan import ScanPlan
from lakescan.reading.context import query_batch_size
from lakescan.statements.duckdb.errors import spark_error_message
from lakescan.statements.duckdb.parquet_files import DuckDBFiles, native_files, paths_of
from lakescan.statements.duckdb.types import result_type
from lakescan.statements.select.analysis import QueryAnalysis, analyze
from lakescan.statements.select.relations import Pushdown
from lakescan.statements.select.session import GivenFrames, QuerySettings
from lakescan.statements.select.timestamps import as_microseconds, check_batches, check_years, microsecond_converter
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars

_BATCH_ROWS = 100_000
_SHOWN_ROWS = 20  # rows that notebooks show


@dataclass(frozen=True)
class JoinSettings:
    """Settings for joins in DuckDB: the rows of the right side are held in memory, and the left side is streamed.

    Without these settings, DuckDB chooses the side by row counts, which it does not have for streams. `memory` is the
    memory limit in bytes, or None for DuckDB's own limit.
    """

    memory: int | None = None


class Query:
    """A SELECT statement that DuckDB runs in this process when its rows are requested.

    Created by `lakescan.sql`, which opens the tables. Every run reads the snapshots that were current at that time.

    Example:
        >>> query = lakescan.sql("SELECT country, count(*) AS n FROM local.shop.orders GROUP BY country")
        >>> query.to_pandas()
    """

    def __init__(
        self, found: QueryAnalysis, frames: Mapping[str, pa.Table], *, joins: JoinSettings | None = None
    ) -> None:
        self._found = found
        self._frames = frames
        self._joins = joins

    def __repr__(self) -> str:
        return f"Query({' '.join(self._found.text.split())[:80]!r})"

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table.

        Raises:
            UnsupportedFeature: A function or clause cannot be translated to DuckDB with Spark's result.
            InvalidStatement: The query is not valid, such as one with an unknown column, or DuckDB rejects it.
            QueryFailed: A value cannot be computed, such as a cast that fails or an overflow.
            LimitExceeded: DuckDB runs out of memory.

        Example:
            >>> query.to_arrow().num_rows
        """
        run = _Run(self._found, self._frames, joins=self._joins)
        with run.faults():
            schema, batches = run.start()
            return register_display(pa.Table.from_batches(list(batches), schema=schema))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches while they are computed. Raises the errors of `to_arrow`.

        Example:
            >>> for batch in query.to_batches():
            ...     print(batch.num_rows)
        """
        run = _Run(self._found, self._frames, joins=self._joins)
        with run.faults():
            _, batches = run.start()
            yield from batches

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows. Raises `UnsupportedFeature` and `InvalidStatement` as `to_arrow` does.

        Example:
            >>> query.schema.names
        """
        run = _Run(self._found, self._frames, joins=self._joins)
        with run.faults():
            return run.schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as an Arrow stream, which computes them while it is read.

        Example:
            >>> polars.from_arrow(query.to_reader())
        """
        run = _Run(self._found, self._frames, joins=self._joins)
        with run.faults():
            schema = run.schema
        return pa.RecordBatchReader.from_batches(schema, _batches_of(run))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows as an Arrow stream (PyCapsule protocol) for `pl.DataFrame(query)` or `pa.table(query)`."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(
        self, dtype_backend: Literal["pyarrow", "numpy_nullable"] | None = None, **arguments: Any
    ) -> pandas.DataFrame:
        """Return the rows as a pandas data frame.

        Args:
            dtype_backend: `"pyarrow"` or `"numpy_nullable"` keep integers with nulls exact. See `Scan.to_pandas`.
            arguments: Arguments of `pyarrow.Table.to_pandas`.

        Example:
            >>> query.to_pandas(dtype_backend="numpy_nullable")
        """
        return pandas_frame(self.to_arrow(), dtype_backend, **arguments)

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a Polars data frame.

        Raises:
            MissingDependency: Polars is not installed.
            UnsupportedFeature: The process was forked after its parent used Polars, whose threads a fork does not have.

        Example:
            >>> query.to_polars()
        """
        try:
            import polars
        except ImportError as error:
            raise missing_dependency("polars", "frames", "to_polars") from error
        check_threads("to_polars()")
        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def show(self, rows: int = 20) -> None:
        """Print the first rows.

        Args:
            rows: The largest number of rows to print.

        Example:
            >>> query.show()
        """
        run = _Run(self._found, self._frames, joins=self._joins)
        with run.faults():
            run.relation.limit(rows).show(max_rows=rows)

    def _repr_html_(self) -> str:
        """Return the first 20 rows as HTML for notebooks, or the text of the error if the query fails."""
        run = _Run(self._found, self._frames, joins=self._joins)
        try:
            with run.faults():
                table = run.relation.limit(_SHOWN_ROWS + 1).to_arrow_table()
        except LakescanError as error:
            return section("Query", pre_block(str(error)))
        if table.num_rows <= _SHOWN_ROWS:
            return arrow_as_html(table)
        return arrow_as_html(table.slice(0, _SHOWN_ROWS), f"The first {_SHOWN_ROWS} rows")

    def explain(self) -> str:
        """Return the scans of the query as text: the conditions pushed into each, and the files that each reads.

        Example:
            >>> print(query.explain())
        """
        return PlanText(explain_scans(self._found))


class Explanation(Query):
    """The plan of a statement, as a query with one row and one column `plan`. It is displayed as text."""

    def __init__(self, plan: str) -> None:
        rows = {"plan": pa.table({"plan": [plan]})}
        whole = query("SELECT * FROM plan", None, rows, ())
        super().__init__(whole._found, whole._frames)
        self._plan = PlanText(plan)

    def show(self, rows: int = 20) -> None:
        """Print the plan."""
        print(self._plan)

    def _repr_html_(self) -> str:
        return self._plan._repr_html_()


def _batches_of(run: _Run) -> Iterator[pa.RecordBatch]:
    with run.faults():
        _, batches = run.start()
        yield from batches


def explain_scans(found: QueryAnalysis) -> str:
    """Return the text of `Query.explain`: the scans of a statement with their pushdowns and plans."""
    parts = []
    for each, spec in found.scans.items():
        pushed = found.pushdowns.get(each, Pushdown())
        keys = "".join(f", {note}" for note in found.join_keys.notes.get(each, ()))
        columns = "all columns" if pushed.columns is None else f"columns {', '.join(pushed.columns)}"
        limit = "" if pushed.limit is None else f", limit {pushed.limit:,}"
        head = f"{each.label}: {columns}, where {pushed.predicate}{keys}{limit}"
        if found.metadata_row is not None:
            head += ", answered from metadata"
        parts.append("\n".join([head, *(f"  {line}" for line in plan_as_text(spec.plan()).splitlines())]))
    parts += [f"{'.'.join(each.names)}: metadata table" for each in found.metadata]
    return "\n".join(parts) or "no tables"


class _Stream:
    """A scan that exports a new Arrow stream each time DuckDB reads it.

    `check` is applied to each batch, and returns it or raises an error. `error` holds the error if reading fails,
    because DuckDB reports only its text.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: Callable[[], Iterator[pa.RecordBatch]],
        check: Callable[[pa.RecordBatch], pa.RecordBatch],
    ) -> None:
        self._schema, self._make, self._check = schema, batches, check
        self.error: Exception | None = None

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._make():
                yield rename_batch(self._check(batch), self._schema)
        except Exception as error:
            self.error = error
            raise


def _native_files(found: QueryAnalysis) -> dict[str, tuple[ScanPlan, DuckDBFiles]]:
    """Return the plan and the files that DuckDB reads itself, by the name of the scan (`QueryAnalysis.name_of`).

    Scans of changes, and scans that the user passed, are left out: their filters are not in the statement. Empty if
    metadata answers the query.
    """
    if found.metadata_row is not None:
        return {}
    files = {}
    for each, named in found.named.items():
        name = found.name_of(each)
        value = found.names[name]
        if isinstance(value, ScanSpec) and not (named.is_given or named.is_changes):
            plan = found.join_keys.plan_of(each)
            native = native_files(value, plan, times=found.duckdb_query.computes_times)
            if native is not None:
                files[name] = native
    return files


_FOLDERS: dict[int, str] = {}  # by process id, because a forked process needs its own


def _new_folder() -> str:
    """Return a new path for DuckDB's temporary files. DuckDB creates the folder when needed, and removes it.

    Its parent folder is accessible to the current user only, since DuckDB's own folders are open to all users.
    """
    process = os.getpid()
    if not _is_own(folder := _FOLDERS.get(process, "")):  # a cleaner of temporary files may have removed it
        folder = _FOLDERS[process] = tempfile.mkdtemp(prefix="lakescan-")
        _remove_at_exit(process, folder)
    return os.path.join(folder, uuid.uuid4().hex)


def _is_own(folder: str) -> bool:
    """Return whether a path is an existing folder of the current user.

    A symbolic link or another user's folder is not.
    """
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and (os.name == "nt" or found.st_uid == os.getuid())


def _remove_at_exit(process: int, folder: str) -> None:
    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    if (parallel := sys.modules.get("multiprocessing.util")) is not None:
        parallel.Finalize(None, remove, exitpriority=0)  # processes of multiprocessing end without running `atexit`


class _Run:
    """One run of a query. It registers the scans in its own DuckDB connection."""

    def __init__(
        self, found: QueryAnalysis, frames: Mapping[str, pa.Table], *, joins: JoinSettings | None = None
    ) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise missing_dependency("duckdb", "sql", "SQL in this process") from error
        with ThreadPoolExecutor(1) as meanwhile:  # a new database takes as long as the plan of a small table
            connecting = meanwhile.submit(duckdb.connect)
            native = _native_files(found)
        self.connection = connecting.result()
        for setting in (
            "TimeZone = 'UTC'",
            "python_enable_replacements = false",
            f"temp_directory = {quote_text(_new_folder())}",
            f"allowed_paths = {paths_of([files for _, files in native.values()])}",
            "enable_external_access = false",
        ):
            self.connection.execute(f"SET {setting}")
        # DuckDB's own error() is volatile, which keeps DuckDB from pushing conditions below joins. A cast is not.
        self.connection.execute("CREATE TEMP MACRO error(what) AS CAST(CAST(what AS TINYINT) AS VARCHAR)")
        register(self.connection, udfs_in(found.duckdb_query.sql))
        if joins is not None:
            self.connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
            self.connection.execute("SET preserve_insertion_order = false")
            if joins.memory is not None:
                self.connection.execute(f"SET memory_limit = '{joins.memory}B'")
        self._streams: list[_Stream] = []
        self._found = found
        self._check = check_years if found.duckdb_query.computes_times else lambda batch: batch
        shown = {found.name_of(each): each.label for each in found.named}
        for name, value in found.names.items():
            if name in native and isinstance(value, ScanSpec):
                self._view(name, value, *native[name])
            else:
                self.connection.register(name, self._arrow_source(value, shown[name]))
        for name, frame in frames.items():
            try:
                rows = distinct_table(remove_table_offsets(as_microseconds(frame, name)))
                self.connection.register(name, check_batches(rows, self._check))
            except duckdb.Error as error:
                raise InvalidOption(f"DuckDB cannot read the frame {name!r}: {error}") from error
        self._relation: duckdb.DuckDBPyRelation | None = None

    def _arrow_source(self, value: Any, shown: str) -> Any:
        if not isinstance(value, ScanSpec | Changes):
            return distinct_table(as_table(value))
        if isinstance(value, Changes):
            return self._stream(value.schema, value.to_batches, shown)
        return self._stream(Scan(value).schema, lambda: scan_batches(value, query_batch_size(value.output)), shown)

    def _stream(self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]], shown: str) -> _Stream:
        if not schema.names:
            what = f"SQL in this process about {shown}, which has no columns"
            raise UnsupportedFeature(what, "Add a column with ADD COLUMN, or count rows with Table.scan().count().")
        check = self._check
        if (whole := microsecond_converter(schema, shown)) is not None:
            schema, convert = whole

            def check(batch: pa.RecordBatch) -> pa.RecordBatch:
                return self._check(convert(batch))

        stream = _Stream(distinct_schema(schema), batches, check)
        self._streams.append(stream)
        return stream

    def _view(self, name: str, spec: ScanSpec, plan: ScanPlan, native: DuckDBFiles) -> None:
        """Create the DuckDB view of a scan.

        DuckDB reads some of its files itself, and the others come as an Arrow stream.
        """
        query = native.query
        if pc.any(native.others).as_py():
            rest = spec.plan_of(plan, native.others)
            context = spec.read_context(rest, batch_size=query_batch_size(spec.output))
            stream = self._stream(spec.output.arrow(), lambda: read_batches([(rest, context)]), name)
            self.connection.register(f"{name}_others", stream)
            query += f' UNION ALL SELECT * FROM "{name}_others"'
        self.connection.execute(f'CREATE TEMP VIEW "{name}" AS {query}')

    def faults(self) -> _ErrorTranslation:
        """Return a context manager that re-raises DuckDB's errors as lakescan's.

        Errors of reading a table are raised unchanged.
        """
        return _ErrorTranslation(self._streams, self._found.text)

    @property
    def relation(self) -> duckdb.DuckDBPyRelation:
        """The query as a DuckDB relation."""
        if self._relation is None:
            self._relation = self.connection.sql(self._found.duckdb_query.sql)
        assert self._relation is not None
        return self._relation

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the result, with types as in Spark. DuckDB plans the query, but reads no rows."""
        return self._schema(self.relation.limit(0).to_arrow_reader().schema.types)

    def _schema(self, types: list[pa.DataType]) -> pa.Schema:
        columns = zip(self._found.duckdb_query.columns, types, strict=True)
        return pa.schema([pa.field(name, result_type(kind) or own) for (name, kind), own in columns])

    def start(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Start the query, and return the schema and an iterator over the batches while they are computed."""
        if (row := self._found.metadata_row) is not None:
            schema = self._schema([value.type for value in row])
            columns = [pa.array([value], value.type) for value in row]
            return schema, iter([_fit_types(pa.RecordBatch.from_arrays(columns, schema.names), schema)])
        reader = self.relation.to_arrow_reader(_BATCH_ROWS)
        schema = self._schema(reader.schema.types)
        return schema, (_fit_types(batch, schema) for batch in _read(reader))


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a result. Arrow's errors while reading are raised as `duckdb.Error`."""
    import duckdb

    try:
        yield from reader
    except (OSError, pa.ArrowException) as error:
        raise duckdb.Error(str(error)) from error


def _fit_types(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [
        cast_nulls(restore_names(column, field.type), field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class _ErrorTranslation:
    def __init__(self, streams: list[_Stream], text: str) -> None:
        self._streams, self._text = streams, text

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, LakescanError | GeneratorExit):
            return
        for each in self._streams:
            if each.error is not None:
                raise each.error from None
        import duckdb

        if isinstance(error, duckdb.Error):
            what = str(error).split("\n\nLINE")[0].strip()
            static = duckdb.BinderException | duckdb.CatalogException | duckdb.ParserException
            if isinstance(error, duckdb.OutOfMemoryException):
                raise LimitExceeded(
                    f"DuckDB, which runs SQL in this process, ran out of memory: {what.splitlines()[0]}. For a "
                    "statement that changes rows, raise the option memory-limit"
                ) from error
            if isinstance(error, static | duckdb.NotImplementedException):
                raise InvalidStatement(f"DuckDB, which runs SQL in this process, rejects the query: {what}") from error
            said = spark_error_message(what)
            if said is None:
                raise QueryFailed(f"DuckDB, which runs SQL in this process, failed: {what}") from error
            _, unequal, value = said.partition(UNEQUAL)
            if unequal:
                raise QueryFailed(
                    f"{value}: Spark may compute another value than this process, or fail. Correct the value, or "
                    "run the statement with lakescan.spark.sql"
                ) from None
            raise QueryFailed(said) from None


def query(
    text: str,
    arguments: Any,
    frames: Mapping[str, Any],
    within: tuple[str, ...],
    *,
    joins: JoinSettings | None = None,
    pinned: ScanSpec | None = None,
) -> Query:
    """Return a query to run in this process, and open its tables.

    - `arguments`: the values of the statement's parameters.
    - `frames`: tables, scans and rows that the user passed by name.
    - `within`: the catalog and namespace of short names.
    - `pinned`: a scan whose snapshot is read wherever the statement names its table.

    Raises `NoSuchTable` for an unknown name, `InvalidStatement`, and the errors of opening tables.
    """
    tables = {name: each for name, each in frames.items() if isinstance(each, Table | Scan)}
    others = {name: each for name, each in frames.items() if name not in tables}
    views = GivenFrames(others)
    found = analyze(text, arguments, tables, within, QuerySettings(), views, pinned)
    for each in found.unknown:
        if len(each.names) > 1 or not views.has(each.names[0]):
            raise found.tables.not_found_error(each, lambda: list(others))
        found.tables.refuse_changes(each)
    rows = {name: views.table(name) for name in others}
    return Query(replace(found, frames=rows), rows, joins=joins)


def columns_of(query: Query) -> Sequence[tuple[str, Type]]:
    """Return the names of a query's columns with their types in Spark, without reading rows."""
    return query._found.duckdb_query.columns


def scan_of(query: Query, name: str) -> ScanSpec:
    """Return the scan of a table that was passed by name, narrowed by the statement's conditions.

    The statement must read the table.
    """
    return next(spec for each, spec in query._found.scans.items() if each.names == (name,))


def most_rows(query: Query, besides: str) -> int:
    """Return the number of rows of the largest table or frame that a query reads, except the table passed as `besides`.

    Rows are counted in the plan of each scan. A table with an unknown number of rows counts as 0.
    """
    scans = [spec for each, spec in query._found.scans.items() if each.names != (besides,)]
    planned = [spec.plan().report.records or 0 for spec in scans]
    return max([*planned, *(frame.num_rows for frame in query._frames.values())], default=0)


def reads_table(query: Query, location: str) -> bool:
    """Return whether a query reads a table with exactly this location."""
    return query._found.reads_table(location)
