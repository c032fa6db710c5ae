"""The internal specification of a scan and its planning: shared by `Scan`, the engines and the writers."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, tzinfo
from functools import cached_property
from numbers import Integral, Real
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.executors import PlanningExecutor, ReadAhead
from lakescan.common.metadata_columns import DELETED, PARTITION_ID
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.common.selection import Selection, resolve_selection
from lakescan.common.timestamps import as_moment
from lakescan.common.types import Field, Struct
from lakescan.common.version import own_version
from lakescan.errors import InvalidFilter, InvalidOption
from lakescan.expressions.bind import bind
from lakescan.expressions.json_codec import from_json, to_json
from lakescan.expressions.predicate import TRUE, Predicate, conjunction, conjuncts, predicate_fields
from lakescan.expressions.sql import parse_filter
from lakescan.formats.metadata_table import MetadataTable
from lakescan.formats.table_format import FileRequest, Snapshot, SnapshotSelector, TableFormat
from lakescan.options.declaration import Group
from lakescan.options.read import ReadOptions
from lakescan.planning.candidates import Candidates, FileFilter, concat_candidates, prune_by_facts
from lakescan.planning.delete_files import DeleteKind
from lakescan.planning.file_table import FileTable
from lakescan.planning.metrics_reporters import MetricsReporter, has_reporters, report_safely, report_to_process
from lakescan.planning.plan import PackingOptions, ScanPlan, make_plan
from lakescan.planning.scan_report import ScanMetrics, ScanReport, total_report
from lakescan.planning.split import ReadProperties
from lakescan.reading.context import BATCH_SIZE, ReadContext
from lakescan.storage import Storage
from lakescan.storage.errors import redact
from lakescan.tables.time_travel import as_text, as_version, check_one_state, selector_from

_LOG = logging.getLogger("lakescan")
_PART_FILES = 10_000  # minimum files of a part of `plan_parts`, except the last
_MOST_ROWS = 2**62  # fits a signed 64-bit integer


class PlanCache:
    """The plans that one statement has made of a table: what is planned again is planned once.

    Workers get none of them. They are of one state, since a spec is equal only to specs of the same open table.
    """

    def __init__(self) -> None:
        self._made: list[tuple[ScanSpec, ScanPlan]] = []

    def __reduce__(self) -> tuple[type[PlanCache], tuple[()]]:
        return PlanCache, ()

    def find_or_make(self, spec: ScanSpec, make: Callable[[ScanSpec], ScanPlan]) -> ScanPlan:
        """Return the plan of a spec, with at least the statistics and deletes that it asks for; packed in any way."""
        if spec.prunes_deletes:
            whole = self.find_or_make(replace(spec, prunes_deletes=False), make)
            if not pc.any(pc.equal(whole.table.deletes["kind"], DeleteKind.EQUALITY.value)).as_py():
                return whole
        plain = replace(spec, stats_of=(), is_silent=True)
        for n, (other, plan) in enumerate(self._made):
            if set(spec.stats_of) <= set(other.stats_of) and replace(other, stats_of=(), is_silent=True) == plain:
                if other.is_silent and not spec.is_silent:  # the first that is reported
                    self._made[n] = replace(other, is_silent=False), plan
                    spec.report(plan.report)
                return plan
        plan = make(spec)
        self._made.append((spec, plan))
        return plan


@dataclass(frozen=True, repr=False)
class ScanSpec:
    """A read of an open table: the user's request, and what is derived from it once the snapshot is resolved.

    Immutable: every refinement returns a new spec. The snapshot, the output columns and the bound filter are resolved
    once, cached, and pickled with the spec. `keeps_deleted`: deleted rows are read, whatever columns are; see
    `reads_deleted_rows`. `pruning`: files without a row for which this is true are not read either, but rows are not
    tested.
    `prunes_deletes`: the plan need not have deletes whose rows the filter rules out; see `prune_deletes`.
    `weighs_opening`: the cost of opening files makes no more task groups than there are readers.
    `table_reporter` are the reporters of the table's catalog; `is_silent`: plans are reported to nobody. `name` is the
    table's name in its catalog; `engine`, the name and version of who runs the scan, for reports; None: lakescan.
    `file_filters`: conditions on data files; others are not read.
    `zone`: the time zone of the filter's timestamps without one: UTC in process, on Spark the session's.
    `plans`: those that the statement which reads it has made.
    """

    table: TableFormat
    storage: Storage
    location: str
    options: ReadOptions = field(default_factory=ReadOptions)
    predicate: Predicate = TRUE
    columns: tuple[str, ...] | None = None
    row_limit: int | None = None
    selector: SnapshotSelector | None = None
    reporters: tuple[MetricsReporter, ...] = ()
    table_reporter: MetricsReporter | None = None
    is_silent: bool = False
    name: str = ""
    engine: tuple[str, str] | None = None
    executor: PlanningExecutor | None = None
    stats_of: tuple[str, ...] = ()
    ignores_residuals: bool = False
    keeps_deleted: bool = False
    pruning: Predicate = TRUE
    prunes_deletes: bool = False
    file_filters: tuple[FileFilter, ...] = ()
    weighs_opening: bool = False
    state: Snapshot | None = None
    zone: tzinfo = UTC
    plans: PlanCache | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        parts = [f"{self.table.name} {self.location!r}"]
        if self.selector is not None:
            parts.append(f"as of {self.selector.describe()}")
        if self.predicate != TRUE:
            parts.append(f"where {self.predicate}")
        if self.pruning != TRUE:
            parts.append(f"pruned by {self.pruning}")
        parts += [f"of {'partitions' if e.of_partitions else 'files'} where {e.condition}" for e in self.file_filters]
        if self.columns is not None:
            parts.append(f"select {', '.join(self.columns)}")
        if self.row_limit is not None:
            parts.append(f"limit {self.row_limit}")
        return f"Scan({', '.join([*parts, *(f'{n}={v}' for n, v in self.options.values().items())])})"

    # Refinements

    def where(self, condition: str | Predicate) -> ScanSpec:
        """Return the spec with `condition` added by AND; raises `InvalidFilter`."""
        return replace(self, predicate=self.predicate & as_predicate(condition))

    def where_files(self, condition: str | Predicate, *, of_partitions: bool) -> ScanSpec:
        """Return the spec for the data files for which a condition is true; raises `InvalidFilter`."""
        found = FileFilter(as_predicate(condition), of_partitions)
        return replace(self, file_filters=(*self.file_filters, found))

    def with_condition(self, condition: Predicate) -> ScanSpec:
        """Return the spec with this filter, whatever its present one is."""
        return replace(self, predicate=condition, options=self.options.exclude(("where", "filter")))

    def select(self, *columns: str) -> ScanSpec:
        """Return the spec with these output columns (see `common.selection`), in this order."""
        return replace(self, columns=tuple(columns))

    def select_columns(self, schema: Schema) -> ScanSpec:
        """Return the spec with the columns of a schema, whatever characters are in their names."""
        return self.select(*(dotted_path([name]) for name in schema.names))

    def narrow_columns(self, names: Iterable[str]) -> ScanSpec:
        """Return the spec with only these of its output columns; other names are taken for columns of the table."""
        return replace(self.select(*self.selection.texts(names)), keeps_deleted=self.reads_deleted_rows)

    def as_of(
        self,
        *,
        version: int | str | None = None,
        timestamp: datetime | date | str | None = None,
        branch: str | None = None,
        tag: str | None = None,
    ) -> ScanSpec:
        """Return the spec for another snapshot of the table; raises `InvalidOption` unless one argument is given."""
        given = [v for v in (version, timestamp, branch, tag) if v is not None]
        if len(given) != 1:
            raise InvalidOption("as_of takes exactly one of version, timestamp, branch and tag")
        instant = None if timestamp is None else as_moment(timestamp, self.options.time_zone)
        return self.at(SnapshotSelector(None if version is None else as_version(version), instant, branch, tag=tag))

    def at(self, selector: SnapshotSelector) -> ScanSpec:
        """Return the spec for the snapshot that a selector selects."""
        return replace(self, selector=selector)

    def limit(self, rows: int) -> ScanSpec:
        """Return the spec limited to `rows` rows, or to its present limit if that is smaller."""
        if not isinstance(rows, Integral) or rows < 0:
            raise InvalidOption(f"limit takes 0 or more rows, not {rows!r}")
        rows = min(int(rows), _MOST_ROWS)
        return replace(self, row_limit=rows if self.row_limit is None else min(rows, self.row_limit))

    def with_limit(self, rows: int | None) -> ScanSpec:
        """Return the spec limited to `rows` rows, or not at all, whatever its present limit is."""
        return replace(self, row_limit=rows, options=self.options.exclude(("limit",)))

    def drop_limit(self, *columns: str) -> ScanSpec:
        """Return the spec with these output columns (none by default) and no limit, for the same rows."""
        options = self.options.exclude(("limit", "columns"))
        return replace(self, columns=columns, row_limit=None, options=options, keeps_deleted=self.reads_deleted_rows)

    def with_options(self, options: Mapping[str, object]) -> ScanSpec:
        """Return the spec with more options, which are checked; raises `InvalidOption`."""
        given = ReadOptions.parse(options)
        given.check_opened()
        merged = self.options.merge(options)
        merged.check_format(self.table.name)
        if self.selector is not None:
            check_one_state(f"a scan as of {self.selector.describe()}", given)
        return replace(self, options=merged)

    def silence_reports(self) -> ScanSpec:
        """Return the spec for plans that are reported to nobody, since they serve another one."""
        return replace(self, is_silent=True)

    def select_increment(self, table: TableFormat, state: Snapshot) -> ScanSpec:
        """Return the spec for the files of an increment (some commits), which may be many and small."""
        return replace(self, table=table, state=state)

    # Derived from the snapshot

    @cached_property
    def snapshot(self) -> Snapshot:
        """The snapshot to read; raises `NoSuchSnapshot`."""
        if self.state is not None:
            return self.state
        return self.table.snapshot(self._selector)

    @property
    def _selector(self) -> SnapshotSelector:
        return self.selector or selector_from(self.options) or SnapshotSelector()

    @property
    def output(self) -> Schema:
        """The output columns, with their field ids and types; raises what `selection` does."""
        return self.selection.output

    @cached_property
    def selection(self) -> Selection:
        """The output columns, and the fields of the table that they are.

        Raises `NoSuchColumn`, and `InvalidOption` or `UnsupportedFeature` for what cannot be selected.
        """
        texts = self.columns if self.columns is not None else self.options.columns
        if texts is None:
            return Selection.whole(self.snapshot.schema)
        return resolve_selection(self.selectable, texts, case_sensitive=self._case_sensitive)

    @cached_property
    def selectable(self) -> Schema:
        """The table's columns followed by its metadata columns."""
        return self.snapshot.schema.append_fields(self.snapshot.metadata_columns)

    @property
    def _case_sensitive(self) -> bool:
        return self.options.case_sensitive

    @cached_property
    def filter(self) -> Predicate:
        """The filter, bound to the table's schema."""
        return self._bind(self.condition)

    def _bind(self, predicate: Predicate) -> Predicate:
        return bind(predicate, self.selectable, case_sensitive=self._case_sensitive, zone=self.zone)

    @cached_property
    def _pruning_filter(self) -> Predicate:
        """The filter, and what files are pruned by besides, bound."""
        return conjunction([self.filter, self._bind(self.pruning)])

    @property
    def reads_deleted_rows(self) -> bool:
        """Whether deleted rows are among the rows: a scan that selects `_deleted`, or filters by it, returns them."""
        ids = {each.path[0].id for each in self.selection.columns} | predicate_fields(self.filter)
        return self.keeps_deleted or DELETED.id in ids

    @property
    def condition(self) -> Predicate:
        """The filter as it was given, by calls and options."""
        given = (self.options.where, self.options.filter)
        return conjunction([self.predicate, *(as_predicate(text) for text in given if text is not None)])

    @property
    def max_rows(self) -> int | None:
        """The smaller of `row_limit` and the option `limit`; None without either."""
        return min((min(n, _MOST_ROWS) for n in (self.row_limit, self.options.limit) if n is not None), default=None)

    @property
    def metadata_bytes(self) -> int:
        """Approximate bytes of metadata that planning reads without pruning."""
        return self.table.metadata_bytes(self.snapshot)

    def planning_mode(self, content: str) -> str:
        """Return the planning mode for 'data' or 'delete' files: 'auto', 'local' or 'distributed'.

        Taken from the option (`data-planning-mode`, `delete-planning-mode`), else from the table property of the same
        name prefixed with `read.`.
        """
        given = self.options.data_planning_mode if content == "data" else self.options.delete_planning_mode
        if given is not None:
            return given
        own = self._properties
        return own.data_planning_mode if content == "data" else own.delete_planning_mode

    @property
    def _properties(self) -> ReadProperties:
        """The table properties of the snapshot that reads obey."""
        return ReadProperties(self.snapshot.properties, self.table.location)

    # Planning

    def plan(self, parallelism: int | None = None) -> ScanPlan:
        """Plan the scan; see `Scan.plan`."""
        if self.plans is not None:
            return self.plans.find_or_make(self, lambda spec: replace(spec, plans=None).plan(parallelism))
        started = perf_counter()
        metrics = ScanMetrics()
        plan = self._plan(concat_candidates(list(self._candidates(metrics))), metrics, parallelism)
        metrics.total_planning_duration = perf_counter() - started
        self.report(plan.report)
        return plan

    def plan_parts(self, parallelism: int | None = None) -> Iterator[ScanPlan]:
        """Plan the scan in parts; see `Scan.plan_parts`."""
        if self.plans is not None:
            yield self.plan(parallelism)
            return
        started = perf_counter()
        metrics = ScanMetrics()
        reports = []
        try:
            for some in _merge_into_parts(self._candidates(metrics)):
                plan = self._plan(some, metrics, parallelism)
                metrics = ScanMetrics()  # counters of the first part must not count again in the next ones
                reports.append(plan.report)
                yield plan
        finally:
            if reports:
                self.report(total_report(reports, perf_counter() - started))

    def plan_of(self, plan: ScanPlan, mask: pa.Array, *, parallelism: int | None = None) -> ScanPlan:
        """Plan again only those files of `plan` (a plan of this spec) for which `mask` is true."""
        if pc.all(mask).as_py() and not self.ignores_residuals:
            return plan
        return self.plan_table(plan.table.filter(mask), parallelism=parallelism)

    def plan_table(self, table: FileTable, *, parallelism: int | None = None) -> ScanPlan:
        """Plan these files instead of the snapshot's; they have its columns, and may not be committed yet."""
        return self._plan(
            self._prune(Candidates.prune_table(table, self._pruning_filter, {})), ScanMetrics(), parallelism
        )

    def prune_deletes(self) -> ScanSpec:
        """The spec for a plan that serves nothing but reading the rows that match the filter.

        Deletes of other rows are left out of it. Who changes rows, or reads files whole, needs them.
        """
        return replace(self, prunes_deletes=not (self.ignores_residuals or self.reads_deleted_rows))

    def pack_few_groups(self) -> ScanSpec:
        """The spec for a plan whose task groups are Python tasks on Spark: one costs ten times what a JVM task does."""
        return replace(self, weighs_opening=True)

    def file_table(self) -> FileTable:
        """Return the files that may match with all deletes that the format has found, whether they apply or not."""
        return concat_candidates(list(self._candidates(ScanMetrics()))).table

    def _candidates(self, metrics: ScanMetrics) -> Iterator[Candidates]:
        """Ask the format for the files that may match."""
        request = FileRequest(
            predicate=self._pruning_filter,
            metrics=metrics,
            limit=None if self.file_filters else self.max_rows,
            stats=self._stats_fields,
            executor=self._executor,
            data_mode=self.planning_mode("data"),
            delete_mode=self.planning_mode("delete"),
            tested=self.filter if self.prunes_deletes else TRUE,
            reads=frozenset(
                {each.path[0].id for each in self.selection.columns} | predicate_fields(self._pruning_filter)
            ),
            planned_by=self.options.scan_planning_mode,
        )
        return map(self._prune, self.table.plan_files(self.snapshot, request))

    def _prune(self, candidates: Candidates) -> Candidates:
        """Prune candidates by facts of files: those in the filter, and the conditions on files."""
        found = prune_by_facts(candidates, self._pruning_filter, self.snapshot.metadata_columns)
        for each in self.file_filters:
            found = each.select(found, self._partition_fields, case_sensitive=self._case_sensitive)
        return found

    @cached_property
    def _partition_fields(self) -> tuple[Field, ...]:
        """The fields of the table's partition specs; for Delta, the partition columns."""
        for column in self.snapshot.metadata_columns:
            if column.id == PARTITION_ID and isinstance(column.type, Struct):
                return column.type.fields
        return tuple(self.snapshot.schema.field(dotted_path([name])) for name in self.table.partition_names)

    @property
    def _executor(self) -> PlanningExecutor | None:
        """Who reads metadata: the executor that was given, or as many threads as `worker-pool-size` says."""
        threads = self.options.worker_pool_size
        return ReadAhead(threads) if self.executor is None and threads is not None else self.executor

    @property
    def lane(self) -> str:
        """The option `lane`; 'arrow' for a table or a read without Spark's vectorized reader, which is its own lane.

        The option wins over `vectorization-enabled`, and that over the table's property.
        """
        if "lane" in self.options.given:
            return self.options.lane
        option = self.options.vectorization_enabled
        return "auto" if (self._properties.is_vectorized if option is None else option) else "arrow"

    @property
    def _stats_fields(self) -> frozenset[int]:
        names = self.stats_of
        if not names and self.options.include_column_stats:
            names = tuple(self.snapshot.schema.names)
        wanted = self.snapshot.schema.select(names, case_sensitive=self._case_sensitive)
        return frozenset(field.id for field in wanted.fields)

    def _plan(self, candidates: Candidates, metrics: ScanMetrics, parallelism: int | None = None) -> ScanPlan:
        if not isinstance(parallelism, Real | None):
            raise InvalidOption(f"parallelism={parallelism!r}: expected a whole number above 0")
        snapshot = self.snapshot
        return make_plan(
            candidates,
            schema=self.output,
            table_schema=snapshot.schema,
            predicate=self._pruning_filter,
            packing=self._packing(parallelism or self.options.parallelism or os.cpu_count() or 1),
            limit=self.max_rows,
            ignore_residuals=self.ignores_residuals,
            conditions=len(conjuncts(self.filter)),
            metrics=metrics,
            describe={
                "table": self.table.location,
                "format": self.table.name,
                "snapshot_id": snapshot.id,
                "snapshot_timestamp": snapshot.timestamp,
                "schema_id": snapshot.schema.id,
                "words": self.table.words,
                "named": self._selector.ref_description if self.state is None else "",
                "name": self.name,
                "metadata": self._report_metadata if self.has_reporters else {},
            },
        )

    def _packing(self, parallelism: int) -> PackingOptions:
        """Options take precedence over table properties (`read.split.*`), and those over Iceberg's defaults."""
        properties, adapts = self._properties, not self.options.infer_source_parallelism
        return PackingOptions(
            split_size=self.options.split_size,
            target_size=properties.split_size,
            lookback=self.options.lookback or properties.lookback,
            open_cost=self.options.file_open_cost or properties.open_cost,
            adaptive=properties.is_adaptive if self.options.infer_source_parallelism is None else adapts,
            parallelism=min(parallelism, self.options.infer_source_parallelism_max or parallelism),
            weighs_opening=self.weighs_opening or self.state is not None,
            in_order=self.snapshot.state.is_ordered,
        )

    @property
    def has_reporters(self) -> bool:
        """Whether anybody receives the reports of this scan's plans."""
        return not self.is_silent and bool(self.reporters or self.table_reporter is not None or has_reporters())

    @property
    def _report_metadata(self) -> dict[str, str]:
        """The engine, and the options that were given, without conditions, places and secrets."""
        engine = self.engine or ("lakescan", own_version())
        named = {"engine-name": engine[0], "engine-version": engine[1], "lakescan-version": own_version()}
        hidden = {*self.options.names_of_groups(Group.OPENING), "where", "filter"}
        return {name: str(value) for name, value in self.options.values().items() if name not in hidden} | named

    def report(self, report: ScanReport) -> None:
        """Log the report of a plan, and hand it to the reporters of the scan, the process and the catalog."""
        found = report.metrics
        _LOG.debug(
            "%s: planned %d files (%d skipped) of snapshot %s in %.3f s",
            redact(self.table.location),
            found.result_data_files,
            found.skipped_data_files,
            report.snapshot_id,
            found.total_planning_duration,
        )
        if self.is_silent:
            return
        for reporter in self.reporters:
            reporter.report(report)
        report_to_process(report)
        if self.table_reporter is not None:
            report_safely(self.table_reporter, report)

    # Reading

    def read_context(
        self, plan: ScanPlan | None = None, *, batch_size: int = BATCH_SIZE, keeps_dictionaries: bool = False
    ) -> ReadContext:
        """Return what readers need besides task groups; the option `batch-size` overrides `batch_size` (rows)."""
        return ReadContext(
            storage=self.storage,
            selection=self.selection,
            table_schema=_merge_columns(self.snapshot.all_columns, self.selectable),
            matching=self.table.matching(self.snapshot),
            residuals=() if plan is None else plan.residuals,
            batch_size=self.options.batch_size or min(batch_size, self._properties.batch_size or batch_size),
            verify=self.options.verify,
            places=self.storage.places(self.table.location),
            keeps_deleted=self.reads_deleted_rows,
            keeps_dictionaries=keeps_dictionaries,
        )

    def metadata_table(self, name: str) -> MetadataTable:
        """Return a metadata table of the snapshot; `Table.inspect` returns its rows.

        Raises `InvalidOption` for an unknown name, and if the scan has a filter or limit.
        """
        is_limited = self.row_limit is not None or self.options.limit is not None
        if self.condition != TRUE or is_limited or self.file_filters:
            raise InvalidOption(
                f"metadata table {name!r} takes no filter or limit: remove them, and filter or limit the result instead"
            )
        return self.table.metadata_table(name, self.snapshot)

    @property
    def fits_options(self) -> bool:
        """Whether `to_options` can express the whole spec: reporters, changelogs and increments have no option."""
        is_changelog = self.selector is not None and self.selector.appends is not None
        is_one_state = self.state is None and not is_changelog
        is_plain = not (self.ignores_residuals or self.has_reporters or self.keeps_deleted or self.file_filters)
        return is_one_state and is_plain and self.pruning == TRUE

    def to_options(self) -> dict[str, str]:
        """Return the spec as text options of `spark.read.format("lakescan")`, pinned to the current snapshot.

        Raises `InvalidOption` for what text cannot carry: a key manager given as an object, and conditions on files.
        """
        if self.file_filters:
            raise InvalidOption("filter_files and filter_partitions have no option: use scan.to_spark(spark)")
        self.check_for_workers()
        location, selector = self.table.pin_snapshot(self.snapshot, self._selector)
        texts = as_text(self.options, selector)
        condition = self.condition
        more = {
            "path": location,
            "format": self.table.name,
            "relocate": json.dumps(self.storage.relocate) if self.storage.relocate else None,
            "storage-options": json.dumps(self.storage.options) if self.storage.options else None,
            "columns": None if self.columns is None else json.dumps([each.text for each in self.selection.columns]),
            "limit": self.row_limit,
            "filter": None if condition == TRUE else to_json(condition),
        }
        return texts | {name: str(value) for name, value in more.items() if value is not None}

    def check_for_workers(self) -> None:
        """Raise `InvalidOption` if other processes cannot read the scan, because keys are never sent to them."""
        if self.storage.key_manager is not None and self.options.key_manager is None:
            raise InvalidOption(
                "for workers in other processes, such as Spark's, a key manager is given by name, so that they can "
                "import it: 'package.module:attribute'"
            )


def as_predicate(condition: str | Predicate) -> Predicate:
    """Parse SQL text or a JSON expression into a predicate; return predicates unchanged. Raises `InvalidFilter`."""
    if isinstance(condition, Predicate):
        return condition
    if not isinstance(condition, str):
        raise InvalidFilter(f"{condition!r} is not a filter: give SQL as text, or a predicate (lakescan.col('x') > 1)")
    return from_json(condition) if condition.lstrip().startswith("{") else parse_filter(condition)


def _merge_columns(columns: Schema, more: Schema) -> Schema:
    """Add the columns of `more` whose ids are new. Names may repeat in the result, so look up by id only."""
    known = {f.id for f in columns.fields}
    return Schema(columns.fields + tuple(f for f in more.fields if f.id not in known))


def _merge_into_parts(candidates: Iterator[Candidates]) -> Iterator[Candidates]:
    """Merge candidates into parts of at least `_PART_FILES` files; yields at least one part, which may be empty."""
    part: list[Candidates] = []
    has_yielded = False
    for each in candidates:
        part.append(each)
        if sum(len(some.table) for some in part) >= _PART_FILES:
            yield concat_candidates(part)
            part, has_yielded = [], True
    if part or not has_yielded:
        yield concat_candidates(part)
