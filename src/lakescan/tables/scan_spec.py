"""`ScanSpec`: the specification of a scan and its planning, shared by `Scan`, the engines and the writers."""

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
from lakescan.tables.time_travel import as_text, as_version, check_one_state, narrow_changelog, selector_from

_LOG = logging.getLogger("lakescan.planning")
_PART_FILES = 10_000  # minimum files of a part of `plan_parts`, except the last one
_MOST_ROWS = 2**62  # fits in a signed 64-bit integer


class PlanCache:
    """The plans of one table that a statement has made, so that it does not plan the same scan twice.

    Workers get an empty cache. All plans of equal specs have the same snapshot, since equal specs have the same open
    table.
    """

    def __init__(self) -> None:
        self._made: list[tuple[ScanSpec, ScanPlan]] = []

    def __reduce__(self) -> tuple[type[PlanCache], tuple[()]]:
        return PlanCache, ()

    def find_or_make(self, spec: ScanSpec, make: Callable[[ScanSpec], ScanPlan]) -> ScanPlan:
        """Return a plan of a spec: one that was made before if it can be used, else the result of `make`.

        A plan that was made before may have more statistics and deletes than the spec asks for, and any packing into
        task groups.
        """
        if spec.prunes_deletes:
            whole = self.find_or_make(replace(spec, prunes_deletes=False), make)
            if not pc.any(pc.equal(whole.table.deletes["kind"], DeleteKind.EQUALITY.value)).as_py():
                return whole
        plain = replace(spec, stats_of=(), is_silent=True)
        for n, (other, plan) in enumerate(self._made):
            if set(spec.stats_of) <= set(other.stats_of) and replace(other, stats_of=(), is_silent=True) == plain:
                if other.is_silent and not spec.is_silent:  # report the plan once
                    self._made[n] = replace(other, is_silent=False), plan
                    spec.report(plan.report)
                return plan
        plan = make(spec)
        self._made.append((spec, plan))
        return plan


@dataclass(frozen=True, repr=False)
class ScanSpec:
    """A read of an open table: the user's request, and values derived from it and from the snapshot.

    Immutable: every refinement returns a new spec. The snapshot, the output columns and the bound filter are resolved
    once, cached, and pickled with the spec.

    - `is_silent`: plans are not reported. `reporters` are those of the scan, `table_reporter` that of the table's
      catalog.
    - `name`: the table's name in its catalog.
    - `engine`: name and version of the engine that runs the scan, for reports; None for lakescan.
    - `executor`: reads metadata; None for this process.
    - `stats_of`: the columns whose statistics the plan has, in addition to those of the filter.
    - `ignores_residuals`: read all rows of the planned files, since the filter only selects files.
    - `keeps_deleted`: deleted rows are read, even without the column `_deleted`; see `reads_deleted_rows`.
    - `pruning`: files without a row that matches this are not read, but rows are not filtered by it.
    - `prunes_deletes`: the plan may omit deletes of rows that do not match the filter; see `prune_deletes`.
    - `file_filters`: conditions on data files; only matching files are read.
    - `weighs_opening`: the cost of opening files does not make more task groups than there are readers.
    - `state`: the snapshot to read, if it is not selected by `selector` or options.
    - `zone`: the time zone of timestamps without one in the filter: UTC in process, the session's on Spark.
    - `plans`: the plans that the statement has already made.
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
        """Return the spec restricted to the data files that match a condition on their metadata, such as `file_path`.

        With `of_partitions`, the condition is on the table's partition fields. Raises `InvalidFilter`.
        """
        found = FileFilter(as_predicate(condition), of_partitions)
        return replace(self, file_filters=(*self.file_filters, found))

    def with_condition(self, condition: Predicate) -> ScanSpec:
        """Return the spec with the filter `condition` instead of its current one, including that of its options."""
        return replace(self, predicate=condition, options=self.options.exclude(("where", "filter")))

    def select(self, *columns: str) -> ScanSpec:
        """Return the spec with these output columns, in this order (see `common.selection`)."""
        return replace(self, columns=tuple(columns))

    def select_columns(self, schema: Schema) -> ScanSpec:
        """Return the spec with the columns of a schema; their names may have special characters."""
        return self.select(*(dotted_path([name]) for name in schema.names))

    def narrow_columns(self, names: Iterable[str]) -> ScanSpec:
        """Return the spec with only these of its output columns, and the same rows.

        Names that are not among the output columns are columns of the table.
        """
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
        """Return the spec with this selector of its snapshot, which is looked up later, by `snapshot`."""
        return replace(self, selector=selector)

    def limit(self, rows: int) -> ScanSpec:
        """Return the spec limited to `rows` rows, or to its current, smaller limit; raises `InvalidOption`."""
        if not isinstance(rows, Integral) or rows < 0:
            raise InvalidOption(f"limit takes 0 or more rows, not {rows!r}")
        rows = min(int(rows), _MOST_ROWS)
        return replace(self, row_limit=rows if self.row_limit is None else min(rows, self.row_limit))

    def with_limit(self, rows: int | None) -> ScanSpec:
        """Return the spec limited to `rows` rows (None: unlimited) instead of its current limit."""
        return replace(self, row_limit=rows, options=self.options.exclude(("limit",)))

    def drop_limit(self, *columns: str) -> ScanSpec:
        """Return the spec without a limit and with these output columns (none by default), and the same filter.

        Whether deleted rows are read stays the same.
        """
        options = self.options.exclude(("limit", "columns"))
        return replace(self, columns=columns, row_limit=None, options=options, keeps_deleted=self.reads_deleted_rows)

    def with_options(self, options: Mapping[str, object]) -> ScanSpec:
        """Return the spec with more options; raises `InvalidOption`."""
        given = ReadOptions.parse(options)
        given.check_opened()
        merged = self.options.merge(options)
        merged.check_format(self.table.name)
        selector = self.selector
        if selector is not None:
            selector = narrow_changelog(selector, given)
            if selector is not self.selector:
                ends = given.names_of_groups(Group.RANGE)
                given, merged = given.exclude(ends), merged.exclude(ends)
            check_one_state(f"a scan as of {selector.describe()}", given)
        return replace(self, options=merged, selector=selector)

    def silence_reports(self) -> ScanSpec:
        """Return the spec for plans that are not reported, because they serve another plan."""
        return replace(self, is_silent=True)

    def select_increment(self, table: TableFormat, state: Snapshot) -> ScanSpec:
        """Return the spec for the files of an increment, which are those of some commits, with the snapshot `state`."""
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
        """The output columns, with field ids and types; raises the errors of `selection`."""
        return self.selection.output

    @cached_property
    def selection(self) -> Selection:
        """The output columns, and the fields of the table that they come from.

        Raises `NoSuchColumn`, and `InvalidOption` or `UnsupportedFeature` for columns that cannot be selected.
        """
        texts = self.columns if self.columns is not None else self.options.columns
        if texts is None:
            return Selection.whole(self.snapshot.schema)
        return resolve_selection(self.selectable, texts, case_sensitive=self._case_sensitive)

    @cached_property
    def selectable(self) -> Schema:
        """The columns that can be selected: the table's columns, then its metadata columns."""
        return self.snapshot.schema.append_fields(self.snapshot.metadata_columns)

    @property
    def _case_sensitive(self) -> bool:
        return self.options.case_sensitive

    @cached_property
    def filter(self) -> Predicate:
        """The filter, bound to the table's columns and metadata columns; raises `InvalidFilter` and `NoSuchColumn`."""
        return self._bind(self.condition)

    def _bind(self, predicate: Predicate) -> Predicate:
        return bind(predicate, self.selectable, case_sensitive=self._case_sensitive, zone=self.zone)

    @cached_property
    def _pruning_filter(self) -> Predicate:
        """The bound filter that prunes files: the scan's filter AND `pruning`."""
        return conjunction([self.filter, self._bind(self.pruning)])

    @property
    def reads_deleted_rows(self) -> bool:
        """Whether the scan returns deleted rows, as it does if it selects `_deleted` or filters by it."""
        ids = {each.path[0].id for each in self.selection.columns} | predicate_fields(self.filter)
        return self.keeps_deleted or DELETED.id in ids

    @property
    def condition(self) -> Predicate:
        """The unbound filter: the conditions of `where` and of the options `where` and `filter`, combined by AND."""
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

        It is the option `data-planning-mode` or `delete-planning-mode`, else the table property of that name with the
        prefix `read.`.
        """
        given = self.options.data_planning_mode if content == "data" else self.options.delete_planning_mode
        if given is not None:
            return given
        own = self._properties
        return own.data_planning_mode if content == "data" else own.delete_planning_mode

    @property
    def _properties(self) -> ReadProperties:
        """The table properties of the snapshot that affect reads."""
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
        """Return a plan of only those files of `plan` that `mask` selects.

        `plan` must be a plan of this spec, or of one with other output columns.
        """
        if pc.all(mask).as_py() and not self.ignores_residuals:
            return plan
        return self.plan_table(plan.table.filter(mask), parallelism=parallelism)

    def plan_table(self, table: FileTable, *, parallelism: int | None = None) -> ScanPlan:
        """Plan these files instead of those of the snapshot.

        They must have the snapshot's columns, and need not be committed.
        """
        return self._plan(
            self._prune(Candidates.prune_table(table, self._pruning_filter, {})), ScanMetrics(), parallelism
        )

    def prune_deletes(self) -> ScanSpec:
        """Return the spec for a plan that is only used to read the rows that match the filter.

        The plan omits deletes of other rows. Changes of rows, and reads of whole files, need these deletes.
        """
        return replace(self, prunes_deletes=not (self.ignores_residuals or self.reads_deleted_rows))

    def pack_few_groups(self) -> ScanSpec:
        """Return the spec for a plan with few task groups (`weighs_opening`): Python tasks on Spark are expensive."""
        return replace(self, weighs_opening=True)

    def file_table(self) -> FileTable:
        """Return the files that may have matching rows, with all deletes that the format found.

        These include deletes that apply to none of the files.
        """
        return concat_candidates(list(self._candidates(ScanMetrics()))).table

    def _candidates(self, metrics: ScanMetrics) -> Iterator[Candidates]:
        """Yield the files that may have matching rows, as the format plans them; `metrics` counts its reads."""
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
        """Prune candidate files by metadata columns in the filter, such as `_file`, and by the conditions on files."""
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
        """The executor that reads metadata: the given one, else as many threads as the option `worker-pool-size`."""
        threads = self.options.worker_pool_size
        return ReadAhead(threads) if self.executor is None and threads is not None else self.executor

    @property
    def lane(self) -> str:
        """The option `lane`, which selects the reader on Spark.

        It takes precedence over the option `vectorization-enabled`, and that over the table property. The lane is
        'arrow' if these turn off Spark's vectorized reader.
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
        """Return the packing options: options of the scan, else table properties, else Iceberg's defaults."""
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
        """Whether the plans of this scan are reported to any reporter."""
        return not self.is_silent and bool(self.reporters or self.table_reporter is not None or has_reporters())

    @property
    def _report_metadata(self) -> dict[str, str]:
        """The metadata of scan reports: the engine's and lakescan's versions, and the scan's options.

        Conditions, locations and secrets are left out.
        """
        engine = self.engine or ("lakescan", own_version())
        named = {"engine-name": engine[0], "engine-version": engine[1], "lakescan-version": own_version()}
        hidden = {*self.options.names_of_groups(Group.OPENING), "where", "filter"}
        return {name: str(value) for name, value in self.options.values().items() if name not in hidden} | named

    def report(self, report: ScanReport) -> None:
        """Log the report of a plan, and pass it to the reporters of the scan, the process and the catalog."""
        found = report.metrics
        _LOG.debug(
            "%s: planned %d files (%d skipped) of snapshot %s in %.3f s",
            redact(self.table.location),
            found.result_data_files,
            found.skipped_data_files,
            report.snapshot_id,
            found.total_planning_duration,
        )
        _LOG.debug(
            "%s: %d of %d %s read; files skipped by partition: %d, by statistics: %d, by limit: %d; delete files: %d",
            redact(self.table.location),
            found.scanned_data_manifests + found.scanned_delete_manifests,
            found.total_data_manifests + found.total_delete_manifests,
            report.words.metadata_files,
            report.skipped_by_partition,
            report.skipped_by_stats,
            report.skipped_by_limit,
            found.result_delete_files,
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
        """Return the context that readers need in addition to task groups.

        The option `batch-size` overrides `batch_size` (rows).
        """
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
        """Whether `to_options` can express the whole spec. Reporters, changelogs and increments have no options."""
        is_changelog = self.selector is not None and self.selector.appends is not None
        is_one_state = self.state is None and not is_changelog
        is_plain = not (self.ignores_residuals or self.has_reporters or self.keeps_deleted or self.file_filters)
        return is_one_state and is_plain and self.pruning == TRUE

    def to_options(self) -> dict[str, str]:
        """Return the spec as options of `spark.read.format("lakescan")`, pinned to the current snapshot.

        Raises `InvalidOption` for a key manager that was given as an object, and for conditions on files.
        """
        location, selector = self.table.pin_snapshot(self.snapshot, self._selector)
        return self._options_of(location, selector)

    def to_following_options(self) -> dict[str, str]:
        """Return the spec as `to_options` does, but not pinned: they open the newest snapshot or version."""
        return self._options_of(self.name or self.location, self._selector)

    def _options_of(self, location: str, selector: SnapshotSelector) -> dict[str, str]:
        if self.file_filters:
            raise InvalidOption("filter_files and filter_partitions have no option: use scan.to_spark(spark)")
        self.check_for_workers()
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
        """Raise `InvalidOption` if other processes cannot read the scan: a key manager object is never sent to them."""
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
    """Return the columns with those of `more` whose ids are new. Names may repeat, so look up columns by id only."""
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
