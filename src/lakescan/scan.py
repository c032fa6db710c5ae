"""Scans: an immutable description of what to read, refined step by step, planned, explained and run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from functools import cached_property
from numbers import Integral
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.option_values import planning_mode
from lakescan.common.schema import Schema
from lakescan.common.timestamps import as_moment
from lakescan.errors import InvalidOption, missing_dependency
from lakescan.executors import PlanningExecutor
from lakescan.expressions.bind import bind
from lakescan.expressions.codec import from_json, to_json
from lakescan.expressions.instants import plain_value
from lakescan.expressions.predicate import TRUE, Predicate, conjunction
from lakescan.expressions.sql import parse_filter
from lakescan.formats.metadata_table import MetadataTable
from lakescan.formats.table_format import FileRequest, Snapshot, SnapshotSelector, TableFormat
from lakescan.local.reader import default_readers, read_batches
from lakescan.options.read import Options
from lakescan.planning.candidates import Candidates, concatenated
from lakescan.planning.count import rows_by_metadata
from lakescan.planning.min_max import ORDERED, extreme_by_metadata, extreme_of
from lakescan.planning.pack import LOOKBACK, OPEN_COST
from lakescan.planning.plan import PackingOptions, ScanPlan, make_plan
from lakescan.planning.report import ScanMetrics, ScanReport, total_report
from lakescan.planning.split import TARGET_SIZE
from lakescan.reading.context import BATCH_SIZE, WHOLE_TABLE_BATCH_SIZE, ReadContext
from lakescan.reporting import MetricsReporter
from lakescan.storage.storage import Storage
from lakescan.time_travel import as_text, check_one_state, selector_from

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    from pyspark.sql import DataFrame, SparkSession


_PART_FILES = 10_000
_MOST_ROWS = 2**62  # what 64 bits count


@dataclass(frozen=True, repr=False)
class Scan:
    """A read of a table. Every refinement returns a new scan; nothing is read before `plan` or a `to_...` call."""

    _format: TableFormat
    _storage: Storage
    _location: str
    _options: Options = field(default_factory=Options)
    _predicate: Predicate = TRUE
    _columns: tuple[str, ...] | None = None
    _limit: int | None = None
    _selector: SnapshotSelector | None = None
    _reporters: tuple[MetricsReporter, ...] = ()
    _executor: PlanningExecutor | None = None
    _with_stats: tuple[str, ...] = ()
    _ignore_residuals: bool = False
    _state: Snapshot | None = None

    def __repr__(self) -> str:
        parts = [f"{self._format.name} {self._location!r}"]
        if self._selector is not None:
            parts.append(f"as of {self._selector.describe()}")
        if self._predicate != TRUE:
            parts.append(f"where {self._predicate}")
        if self._columns is not None:
            parts.append(f"select {', '.join(self._columns)}")
        if self._limit is not None:
            parts.append(f"limit {self._limit}")
        return f"Scan({', '.join([*parts, *(f'{n}={v}' for n, v in self._options.items())])})"

    def where(self, condition: str | Predicate) -> Scan:
        """Keep only rows for which `condition` is true: SQL text (Spark's dialect), or a predicate (`col("x") > 1`).

        Several `where` calls add up. Raises `InvalidFilter` for text that is not tests of columns against literals.
        """
        return replace(self, _predicate=self._predicate & as_predicate(condition))

    def select(self, *columns: str) -> Scan:
        """Return only these columns, in this order; metadata columns (`_file`, `_pos`, ...) may be among them."""
        return replace(self, _columns=tuple(columns))

    def as_of(
        self,
        *,
        version: int | str | None = None,
        timestamp: datetime | date | str | None = None,
        branch: str | None = None,
        tag: str | None = None,
    ) -> Scan:
        """Read an earlier state: exactly one of a version (Delta) or snapshot id (Iceberg), a time, a branch, a tag.

        A time without an offset is of the option `time-zone`, else UTC.
        """
        given = [v for v in (version, timestamp, branch, tag) if v is not None]
        if len(given) != 1:
            raise InvalidOption("as_of takes exactly one of version, timestamp, branch and tag")
        moment = None if timestamp is None else as_moment(timestamp, self._options.get("time-zone", UTC))
        return replace(self, _selector=SnapshotSelector(version, moment, branch, tag))

    def limit(self, rows: int) -> Scan:
        """Return at most so many rows."""
        if not isinstance(rows, Integral) or rows < 0:
            raise InvalidOption(f"limit takes 0 or more rows, not {rows!r}")
        rows = min(int(rows), _MOST_ROWS)
        return replace(self, _limit=rows if self._limit is None else min(rows, self._limit))

    def options(self, **options: Any) -> Scan:
        """Set options by the ecosystem's names, e.g. `options(**{"split-size": "64m"})` or `options(split_size="64m")`.

        Raises `InvalidOption` for unknown names, with the nearest valid one.
        """
        merged = self._options.merged(options)
        merged.check_format(self._format.name)
        if self._selector is not None:
            check_one_state(f"a scan as of {self._selector.describe()}", Options(options))
        return replace(self, _options=merged)

    @property
    def all_options(self) -> Options:
        """The options of the scan and of the table that it is of."""
        return self._options

    @property
    def table_format(self) -> TableFormat:
        """The open table."""
        return self._format

    def with_options(self, options: Options) -> Scan:
        """The same scan with these options instead of its own."""
        return replace(self, _options=options)

    @property
    def is_as_of(self) -> bool:
        """Whether `as_of`, or the table's path, says which state to read."""
        return self._selector is not None

    def selecting(self, selector: SnapshotSelector) -> Scan:
        """The same scan of another state of the table."""
        return replace(self, _selector=selector)

    def reading(self, table: TableFormat, state: Snapshot) -> Scan:
        """The same scan of some commits of a table, whose files may be many and small."""
        return replace(self, _format=table, _state=state)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The state of the table that this scan reads; raises `NoSuchSnapshot`."""
        if self._state is not None:
            return self._state
        return self._format.snapshot(self._selector_given)

    @property
    def _selector_given(self) -> SnapshotSelector:
        return self._selector or selector_from(self._options) or SnapshotSelector()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows that the scan returns."""
        return self.projected.arrow()

    @cached_property
    def projected(self) -> Schema:
        """The columns that the scan returns, with their field ids and types."""
        names = self._columns if self._columns is not None else self._options.get("columns")
        if names is None:
            return self.snapshot.schema
        return self._selectable.select(names, case_sensitive=self._case_sensitive)

    @cached_property
    def _selectable(self) -> Schema:
        """The table's columns and its metadata columns."""
        return self.snapshot.schema.extended(self.snapshot.metadata_columns)

    @property
    def _case_sensitive(self) -> bool:
        return bool(self._options.get("case-sensitive", True))

    @cached_property
    def filter(self) -> Predicate:
        """The condition of the rows, bound to the table's columns."""
        return bind(self._full_predicate, self._selectable, case_sensitive=self._case_sensitive)

    def plan(self, *, parallelism: int | None = None) -> ScanPlan:
        """Plan the scan: prune, find deletes and residuals, split and pack.

        `parallelism` is how many readers splits should keep busy: the option of that name, else this machine's cores.
        """
        started = perf_counter()
        metrics = ScanMetrics()
        plan = self._planned(concatenated(list(self._candidates(metrics))), metrics, parallelism)
        metrics.total_planning_duration = perf_counter() - started
        self._report(plan.report)
        return plan

    def plan_parts(self, *, parallelism: int | None = None) -> Iterator[ScanPlan]:
        """The plan in parts, each as soon as its manifests are read: memory is bounded by a part, not by the table.

        Each has its own groups and report. Reporters are told of the whole when the last part was taken, or the
        iterator is closed: of what was planned until then.
        """
        started = perf_counter()
        metrics = ScanMetrics()
        reports = []
        try:
            for some in _in_parts(self._candidates(metrics)):
                plan = self._planned(some, metrics, parallelism)
                metrics = ScanMetrics()  # what was counted once is in the first part's
                reports.append(plan.report)
                yield plan
        finally:
            if reports:
                self._report(total_report(reports, perf_counter() - started))

    def _candidates(self, metrics: ScanMetrics) -> Iterator[Candidates]:
        """The files to plan, as the format finds them."""
        return self._format.plan_files(
            self.snapshot,
            FileRequest(
                predicate=self.filter,
                metrics=metrics,
                limit=self._most_rows,
                stats=self._stats_fields,
                executor=self._executor,
                data_mode=self.planning_mode("data"),
                delete_mode=self.planning_mode("delete"),
            ),
        )

    @property
    def metadata_bytes(self) -> int:
        """The bytes of metadata that planning may have to read, before any of it is pruned, about."""
        return self._format.metadata_bytes(self.snapshot)

    def planning_mode(self, content: str) -> str:
        """Where metadata of data files, or of delete files, is read: 'auto', 'local' or 'distributed'.

        By option (`data-planning-mode`, `delete-planning-mode`), else by the table's property (`read.` before it).
        """
        name = f"{content}-planning-mode"
        given = self._options.get(name)
        return planning_mode(self.snapshot.properties.get(f"read.{name}", "auto")) if given is None else str(given)

    def _report(self, report: ScanReport) -> None:
        for reporter in self._reporters:
            reporter.report(report)

    def _planned(self, candidates: Candidates, metrics: ScanMetrics, parallelism: int | None = None) -> ScanPlan:
        snapshot = self.snapshot
        return make_plan(
            candidates,
            schema=self.projected,
            table_schema=snapshot.schema,
            predicate=self.filter,
            packing=self._packing(parallelism or self._options.get("parallelism") or os.cpu_count() or 1),
            limit=self._most_rows,
            ignore_residuals=self._ignore_residuals,
            metrics=metrics,
            describe={
                "table": self._format.location,
                "format": self._format.name,
                "snapshot_id": snapshot.id,
                "snapshot_timestamp": snapshot.timestamp,
                "schema_id": snapshot.schema.id,
            },
        )

    @property
    def _most_rows(self) -> int | None:
        return min((n for n in (self._limit, self._options.get("limit")) if n is not None), default=None)

    def report_to(self, *reporters: MetricsReporter) -> Scan:
        """Hand the report of every plan of this scan to these, too (see `lakescan.reporting`)."""
        return replace(self, _reporters=self._reporters + reporters)

    @property
    def executor(self) -> PlanningExecutor | None:
        """What the scan is planned with, where it was told."""
        return self._executor

    def plan_with(self, executor: PlanningExecutor) -> Scan:
        """Read and prune metadata with this executor: one of `concurrent.futures`, or `lakescan.spark.SparkExecutor`.

        Without one, a few threads do it. See `lakescan.executors` for what makes an executor.
        """
        return replace(self, _executor=executor)

    def ignore_residuals(self) -> Scan:
        """Return all rows of the files that the filter leaves, for an engine that filters rows itself."""
        return replace(self, _ignore_residuals=True)

    def include_column_stats(self, *columns: str) -> Scan:
        """Keep the statistics of these columns in plans (`ScanPlan.column_stats`); of all columns where none is named.

        Those of the filter's columns are kept anyway.
        """
        return replace(self, _with_stats=columns or tuple(self.snapshot.schema.names))

    @property
    def _stats_fields(self) -> frozenset[int]:
        names = self._with_stats
        if not names and self._options.get("include-column-stats"):
            names = tuple(self.snapshot.schema.names)
        wanted = self.snapshot.schema.select(names, case_sensitive=self._case_sensitive)
        return frozenset(field.id for field in wanted.fields)

    def count(self) -> int:
        """The number of rows, from metadata where that is exact; only files of which it is not known are read.

        It is known of a file that no filter has to run on, and that has no deletes or only deletion vectors.
        """
        scan = self._unlimited()
        plan = scan.plan(parallelism=default_readers())
        found, unknown = rows_by_metadata(plan)
        found += sum(batch.num_rows for batch in scan._batches_of(plan, unknown))
        return found if self._most_rows is None else min(found, self._most_rows)

    def min(self, column: str) -> Any:
        """The least value of a column that is not null, from metadata where that is exact; None where there is none.

        Only files that may have a smaller value than metadata proves are read. NaN is greater than everything. A date
        or time that Python cannot hold (years beyond 1 to 9999) is a `numpy.datetime64`.
        """
        return self._extreme(column, largest=False)

    def max(self, column: str) -> Any:
        """The greatest value of a column that is not null; see `min`."""
        return self._extreme(column, largest=True)

    def _extreme(self, column: str, *, largest: bool) -> Any:
        if self._most_rows is not None:
            raise InvalidOption("min and max are of all rows: leave the limit out")
        scan = self._unlimited(column)
        field = scan.projected.fields[0]
        if not isinstance(field.type, t.Decimal | t.Timestamp) and field.type not in ORDERED:
            raise InvalidOption(f"column {column!r} is of type {field.type}: its values have no order")
        plan = replace(scan, _with_stats=(column,)).plan(parallelism=default_readers())
        found = extreme_by_metadata(plan, field, largest=largest)
        values = [found.value] if found.value is not None else []
        for batch in scan._batches_of(plan, found.unknown):
            if (value := extreme_of(batch.column(0), largest=largest)) is not None:
                values.append(value)
        best = extreme_of(pa.array(values, field.type.arrow()), largest=largest) if values else None
        return None if best is None else plain_value(best)

    def _unlimited(self, *columns: str) -> Scan:
        """The scan of these columns of all its rows."""
        return replace(self.select(*columns), _limit=None, _options=self._options.without(("limit", "columns")))

    def _batches_of(self, plan: ScanPlan, mask: pa.Array) -> Iterator[pa.RecordBatch]:
        """The rows of some files of a plan."""
        to_read = self.plan_of(plan, mask, parallelism=default_readers())
        return read_batches([(to_read, self.read_context(to_read))])

    def plan_of(self, plan: ScanPlan, mask: pa.Array, *, parallelism: int | None = None) -> ScanPlan:
        """A plan of some of the files of a plan of this scan: those where the mask is true."""
        if pc.all(mask).as_py() and not self._ignore_residuals:
            return plan
        some = Candidates.pruned(plan.table.filter(mask), self.filter, {})
        return self._planned(some, ScanMetrics(), parallelism)

    def _packing(self, parallelism: int) -> PackingOptions:
        """Options over table properties (`read.split.*`) over defaults, as Iceberg has them."""
        properties = self.snapshot.properties
        return PackingOptions(
            split_size=self._options.get("split-size"),
            target_size=int(properties.get("read.split.target-size", TARGET_SIZE)),
            lookback=self._options.get("lookback") or int(properties.get("read.split.planning-lookback", LOOKBACK)),
            open_cost=self._options.get("file-open-cost")
            or int(properties.get("read.split.open-file-cost", OPEN_COST)),
            adaptive=properties.get("read.split.adaptive-size.enabled", "true").lower() == "true",
            parallelism=parallelism,
            weighs_opening=self._state is not None,
        )

    def metadata_table(self, name: str) -> MetadataTable:
        """One of the table's metadata tables, of the state that this scan reads; `Table.inspect` gives its rows.

        Raises `InvalidOption` for a name that the format does not have, and for options that rows are chosen by.
        """
        if self._full_predicate != TRUE or self._limit is not None or "limit" in self._options:
            raise InvalidOption(f"metadata table {name!r}: filter and limit what comes back, not the scan")
        return self._format.metadata_table(name, self.snapshot)

    def option(self, name: str, default: Any = None) -> Any:
        """The value of an option, by its canonical name, where the scan was given it."""
        return self._options.get(name, default)

    def read_context(self, plan: ScanPlan | None = None, *, batch_size: int = BATCH_SIZE) -> ReadContext:
        """What readers need beside the task groups of a plan of this scan; the option `batch-size` goes first."""
        return ReadContext(
            storage=self._storage,
            output=self.projected,
            table_schema=_by_id(self.snapshot.all_columns, self._selectable),
            matching=self._format.matching(self.snapshot),
            residuals=() if plan is None else plan.residuals,
            batch_size=self._options.get("batch-size", batch_size),
            verify=self._options.get("verify", False),
            places=self._storage.places(self._format.location),
        )

    def explain(self) -> str:
        """The plan as text: what was read and pruned on the way from manifests to groups.

        Position deletes are looked into, to say whether they name data files in another spelling, or none.
        """
        from lakescan.explain import deleted_names, plan_as_text

        plan = self.plan()
        return "\n".join([plan_as_text(plan), *deleted_names(plan, self.read_context(plan))])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, while they are read: memory is bounded by a few batches a reader."""
        return self._batches(BATCH_SIZE)

    def _batches(self, batch_size: int) -> Iterator[pa.RecordBatch]:
        plans = self.plan_parts(parallelism=default_readers())
        contexts = ((plan, self.read_context(plan, batch_size=batch_size)) for plan in plans)
        return read_batches(contexts, limit=self._most_rows)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return pa.Table.from_batches(self._batches(WHOLE_TABLE_BATCH_SIZE), schema=self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as an Arrow stream, which DuckDB, Polars and others take without a copy of the table."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_pandas(self, **arguments: Any) -> pandas.DataFrame:
        """The rows as a pandas data frame; `arguments` go to `pyarrow.Table.to_pandas`."""
        _require("pandas", lambda: __import__("pandas"))
        return self.to_arrow().to_pandas(**arguments)

    def to_polars(self) -> polars.DataFrame:
        """The rows as a Polars data frame."""
        module = _require("polars", lambda: __import__("polars"))
        return module.from_arrow(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation, on the default connection or the one given."""
        module = _require("duckdb", lambda: __import__("duckdb"))
        return (connection or module.default_connection()).from_arrow(self.to_arrow())

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """The rows as a Spark data frame, read by Spark's workers; the session may be classic or Connect."""
        from lakescan.spark import read_scan

        return read_scan(spark, self)

    @property
    def is_said_by_options(self) -> bool:
        """Whether `to_options` says all of it: not who is told of plans, nor of which commits of a stream it is."""
        return self._state is None and not self._ignore_residuals and not self._reporters

    def to_options(self) -> dict[str, str]:
        """The scan as text options of `spark.read.format("lakescan")`, pinned to the state that it reads now.

        Raises `InvalidOption` for a key manager that was given as an object: text cannot carry it.
        """
        self.check_for_workers()
        location, selector = self._format.pinned(self.snapshot, self._selector_given)
        texts = as_text(self._options, selector)
        more = {
            "path": location,
            "format": self._format.name,
            "relocate": json.dumps(self._storage.relocate) if self._storage.relocate else None,
            "storage-options": json.dumps(self._storage.options) if self._storage.options else None,
            "columns": None if self._columns is None else json.dumps(self._columns),
            "limit": self._limit,
            "filter": None if self._full_predicate == TRUE else to_json(self._full_predicate),
        }
        return texts | {name: str(value) for name, value in more.items() if value is not None}

    @property
    def storage(self) -> Storage:
        """How the files of the table are reached."""
        return self._storage

    def check_for_workers(self) -> None:
        """Raise `InvalidOption` where other processes cannot read the scan: keys are not sent about with it."""
        if self._storage.key_manager is not None and "key-manager" not in self._options:
            raise InvalidOption(
                "on Spark a key manager is named, so that workers import it: 'package.module:attribute'"
            )

    @property
    def _full_predicate(self) -> Predicate:
        given = (self._options.get(name) for name in ("where", "filter"))
        return conjunction([self._predicate, *(as_predicate(text) for text in given if text is not None)])


def as_predicate(condition: str | Predicate) -> Predicate:
    """A predicate from SQL text, from an expression as JSON, or as it is."""
    if isinstance(condition, Predicate):
        return condition
    return from_json(condition) if condition.lstrip().startswith("{") else parse_filter(condition)


def _by_id(columns: Schema, more: Schema) -> Schema:
    """Columns and those of `more` with other ids: some may share a name, so they are looked up by id only."""
    known = {f.id for f in columns.fields}
    return Schema(columns.fields + tuple(f for f in more.fields if f.id not in known))


def _in_parts(found: Iterator[Candidates]) -> Iterator[Candidates]:
    """Candidates put together until they are worth a plan; one without files at least."""
    some: list[Candidates] = []
    made = False
    for each in found:
        some.append(each)
        if sum(len(part.table) for part in some) >= _PART_FILES:
            yield concatenated(some)
            some, made = [], True
    if some or not made:
        yield concatenated(some)


def _require(library: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except ImportError as error:
        raise missing_dependency(library, "frames", f"to_{library}()") from error
