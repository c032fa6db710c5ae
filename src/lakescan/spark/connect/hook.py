"""Replace the reads of lakescan's formats in the requests of a Spark Connect session by frames of narrowed scans.

A Spark Connect client keeps a data frame as a tree of protobuf messages, and sends the whole tree with each action.
PySpark passes each such request to `SparkSession.Hook.on_execute_plan` before sending it. There, each read of
lakescan's formats is planned with the conditions, columns and limit above it (`narrowing.py`). The relation of the
planned frame replaces the read, under the read's plan id. The conditions stay in the tree, so Spark evaluates them
again.

A read is also complete by itself: if this module does not support a plan, the Python data source reads the table.

The first request with a read pins the snapshot or version of its table, and all later requests read the same one. The
scans of the most recent reads are kept. For other reads, only the options that select the pinned version are kept, and
the scan is opened again by them.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as s
from pyspark.sql.pandas.types import from_arrow_type

from lakescan.catalogs.registry import all_configurations, is_known
from lakescan.common import types as t
from lakescan.common.identifiers import split_name as parts_of_name
from lakescan.common.metadata_columns import RESERVED_IDS
from lakescan.common.references import backquote
from lakescan.errors import LakescanError
from lakescan.expressions.bind import bind
from lakescan.expressions.inference import Inference, infer_predicate
from lakescan.expressions.predicate import (
    ColumnComparison,
    IsNull,
    Predicate,
    conjunction,
    conjuncts,
    has_sql,
    leaves,
)
from lakescan.formats.metadata_table import MetadataTable
from lakescan.local.aggregates import Aggregate
from lakescan.options.declaration import Group
from lakescan.spark.connect.expressions import find_functions
from lakescan.spark.connect.narrowing import NarrowedRead, ReadColumn, Totals, all_relations, narrow_reads, relations_of
from lakescan.spark.following import FOLLOW, FOLLOWING, LATE, STATES, FollowingRead, planning
from lakescan.spark.native.file_index import title_of_table
from lakescan.spark.native.planned_frames import cheapest_column, metadata_frame, plan_now, totals_by_metadata
from lakescan.spark.session import LISTED_HERE, OF_PLANNING, cache_settings
from lakescan.spark.session_lane import FIELD_IDS, why_arrow_session
from lakescan.spark.source.data_source import depends_on_zone, source_class
from lakescan.spark.types import schema_of, spark_schema
from lakescan.spark.wap import staging_of_session
from lakescan.spark.workers import is_on_this_machine
from lakescan.storage.errors import error_text, redact
from lakescan.storage.locations import split_location
from lakescan.tables.scan_spec import ScanSpec
from lakescan.tables.wap import apply_session_reads, is_audited

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger("lakescan")
_ZONE, _ANSI, _CASE = "spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive"
# Settings that change the meaning of SQL text.
_SYNTAX = (
    "spark.sql.ansi.doubleQuotedIdentifiers",
    "spark.sql.parser.escapedStringLiterals",
    "spark.sql.legacy.consecutiveStringLiterals.enabled",
    "spark.sql.parser.quotedRegexColumnNames",
)
_TIMESTAMPS = "spark.sql.timestampType"
_FUNCTION = re.compile(r"\bfunction\s+(?:if\s+not\s+exists\s+)?(?:[\w`]+\.)*`?(\w+)", re.IGNORECASE)
_COMPARED = (*t.INTEGRAL, *t.FLOATING, t.BOOLEAN, t.DATE, t.STRING, t.BINARY)
_MOST_PINS = 64
_MOST_STATES = 10_000  # about 1 KiB each
_SPARKS_FUNCTIONS = "org.apache.spark.sql.catalyst.expressions."
_MOST_KEPT = 16  # replaced relations, for actions that need the same data of a read
_PLANS = ("schema", "explain", "tree_string", "is_local", "is_streaming", "input_files", "semantic_hash")
_CACHED = ("persist", "unpersist", "get_storage_level")


def install(spark: SparkSession, sources: Callable[[], Mapping[str, Mapping[str, Any]]]) -> None:
    """Install the replacement of reads in a session, once: a hook for queries, and a wrapper of its client's analysis.

    Args:
        spark: A Connect session of Apache Spark.
        sources: Returns the settings of the data sources that are registered with the session, by format.

    Raises:
        AttributeError: This PySpark's client lacks a name that the replacement needs.
    """
    client = getattr(spark, "client", None)
    hooks = getattr(client, "_session_hooks", None)
    names = ("_analyze", "get_configs", "get_config_with_defaults")
    if client is None or not isinstance(hooks, list) or not all(hasattr(client, name) for name in names):
        raise AttributeError("the client of the session has no _session_hooks, _analyze or get_configs")
    if not hasattr(type(spark), "Hook") or not hasattr(getattr(spark.range(0), "_plan", None), "plan"):
        raise AttributeError("the session has no Hook, or its frames have no plan")
    if not is_installed(spark):
        hooks.append(ReadReplacement(spark, sources))


def is_installed(spark: SparkSession) -> bool:
    """Return whether the replacement of reads is installed in a session."""
    return _find_hook(spark) is not None


def create_read(spark: SparkSession, scan: ScanSpec) -> DataFrame | None:
    """Return a scan's rows as a read that is replaced when a query is sent.

    None if the replacement is not installed, or cannot replace a read of this scan.
    """
    hook = _find_hook(spark)
    return None if hook is None else hook.create_read(scan)


def _find_hook(spark: SparkSession) -> ReadReplacement | None:
    """Return the hook of this session, as sessions created from each other share the list; None without one."""
    hooks = getattr(getattr(spark, "client", None), "_session_hooks", None) or ()
    own = (each for each in hooks if isinstance(each, ReadReplacement) and each.session_id == spark.session_id)
    return next(own, None)


@dataclass
class _Pin:
    """The pinned snapshot or version of a read's table.

    - `lock`: held while a thread opens the scan.
    - `is_known`: whether the scan was opened or found to be unsupported.
    - `scan`: the scan of the pinned version; None if the data source has to read it.
    - `columns`: the output columns of the scan.
    - `following`: the read, if it follows its table and is pinned for one request. `metadata`: the metadata table that
      it reads instead of the scan.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    is_known: bool = False
    scan: ScanSpec | None = None
    columns: tuple[ReadColumn, ...] = ()
    following: FollowingRead | None = None
    metadata: MetadataTable | None = None

    @property
    def is_replaced(self) -> bool:
        """Whether the read is replaced; else the data source reads it."""
        return self.scan is not None or self.metadata is not None

    @property
    def state(self) -> dict[str, str] | None:
        """The options that select the pinned version; None without a scan, or if options cannot describe it."""
        try:
            return self.scan.to_options() if self.scan is not None and self.scan.fits_options else None
        except LakescanError:  # a key manager without a name cannot be an option
            return None


@dataclass(frozen=True)
class _SessionSettings:
    """The settings of a session that the meaning of expressions and the plan of a scan depend on.

    - `ansi`, `case_sensitive`: `spark.sql.ansi.enabled` and `spark.sql.caseSensitive`.
    - `reads_as_default`: whether SQL text and the type TIMESTAMP have Spark's default meaning; False if hidden.
    - `known`: the values of the settings that planning reads, by name; None for unset ones.
    """

    time_zone: str
    ansi: bool
    case_sensitive: bool
    reads_as_default: bool
    known: Mapping[str, str | None]  # the settings that planning depends on


class ReadReplacement:
    """A hook of a session (`SparkSession.Hook`) that replaces reads in its requests."""

    def __init__(self, spark: SparkSession, sources: Callable[[], Mapping[str, Mapping[str, Any]]]) -> None:
        self.session_id: str = spark.session_id
        self.replaced = 0  # number of reads
        self._spark, self._sources = ref(spark), sources
        # By the serialized read; the most recently used are at the end.
        self._pins: OrderedDict[bytes, _Pin] = OrderedDict()
        self._states: OrderedDict[bytes, dict[str, str]] = OrderedDict()
        self._lock = threading.Lock()
        self._cached: dict[int, Any] = {}  # persisted relations in the form that was sent, by plan id
        self._kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._has_views = False
        self._own_functions: frozenset[str] = frozenset()
        self._asked_functions: set[str] = set()
        self._local: bool | None = None
        self._busy = threading.local()
        analyze, hook = spark.client._analyze, ref(self)

        def analyze_replaced_plan(method: str, **arguments: Any) -> Any:
            own = hook()
            return analyze(method, **(arguments if own is None else own.replace_in_analysis(method, arguments)))

        spark.client._analyze = analyze_replaced_plan

    def on_execute_plan(self, request: Any) -> Any:
        """Replace the reads in a request in place, before it is sent, and return it.

        Requests of other sessions are unchanged.
        """
        if (
            request.session_id == self.session_id and not self._is_busy
        ):  # sessions of `newSession` share the list of hooks
            with self.working():
                self._note_functions(request.plan)
                self._replace_in(request.plan)
        return request

    def replace_in_analysis(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the client's analysis `method` with replaced reads, for methods that need them.

        These are `explain`, `input_files`, and persisting. Other analyses of a plan, such as that of the schema, only
        pin the versions of its reads.
        """
        if self._is_busy or method not in (*_PLANS, *_CACHED):
            return arguments
        with self.working():
            if method in _CACHED:
                return {**arguments, "relation": self._replace_in_persist(method, arguments["relation"])}
            plan = type(arguments["plan"])()
            plan.CopyFrom(arguments["plan"])
            _unpack(plan)
            if method not in ("explain", "input_files"):
                for each in all_relations(relations_of(plan)):
                    if not _is_following(each):
                        self._columns_of(each)
                return arguments
            self._replace_in(plan)
            return {**arguments, "plan": plan}

    @property
    def _is_busy(self) -> bool:
        return getattr(self._busy, "value", False)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Context manager: replace no reads in requests that this thread sends, and use the same pins until the end."""
        self._busy.value = True
        self._busy.pins = {}
        self._busy.leaves = False
        try:
            with planning() as self._busy.planning:
                yield
        finally:
            self._busy.value = False
            self._busy.pins = {}

    @property
    def _session(self) -> SparkSession:
        spark = self._spark()
        assert spark is not None  # alive, as its client called the hook
        return spark

    def _note_functions(self, plan: Any) -> None:
        """Record the names of the functions that a command registers, directly or by CREATE FUNCTION in SQL."""
        if plan.WhichOneof("op_type") != "command":
            return
        kind, names = plan.command.WhichOneof("command_type"), []
        if kind == "register_function":
            names = [plan.command.register_function.function_name]
        elif kind == "sql_command":
            texts = (plan.command.sql_command.sql, plan.command.sql_command.input.sql.query)
            names = [name for text in texts for name in _FUNCTION.findall(text)]
        if names:
            self._own_functions |= {name.lower() for name in names}

    def _ask_functions(self, roots: list[Any]) -> None:
        """Record which functions of the relations `roots` are not Spark's own; the server is asked once per name.

        Before `register`, the session may have registered a function under the name of a Spark function. A function
        that the server does not find counts as the session's own.
        """
        with self._lock:
            for name in sorted(find_functions(roots) - self._asked_functions):
                try:
                    kind = str(self._session.catalog.getFunction(backquote(name)).className)
                except PySparkException:  # unknown or hidden
                    kind = ""
                if not kind.startswith(_SPARKS_FUNCTIONS):
                    self._own_functions |= {name}
                self._asked_functions.add(name)

    def _replace_in(self, plan: Any) -> None:
        """Replace the reads in the message of a query or command, in place.

        Views and streams get reads that remain valid.
        """
        _unpack(plan)
        roots = relations_of(plan)
        command = plan.command.WhichOneof("command_type")
        is_view = command == "create_dataframe_view"
        if self._has_views and not is_view:
            self._enable_field_ids()
        lasts = is_view or command == "write_stream_operation_start"
        self._busy.leaves = lasts
        if lasts:
            for each in all_relations(roots):
                if _is_following(each) and self._has_path(each):
                    each.read.data_source.options[LATE] = "true"
        self._replace(roots, lasts=lasts)
        self._has_views |= is_view

    def _replace_in_persist(self, method: str, relation: Any) -> Any:
        """Return a relation to persist or unpersist with its reads replaced; unchanged without reads.

        Spark finds cached relations by their form, so the form that is persisted is recorded by plan id and sent again
        in later requests until `unpersist`.
        """
        result, node = type(relation)(), relation.common.plan_id
        result.CopyFrom(relation)
        if not self._replace([result], lasts=True):
            return relation
        if method == "persist" and relation.common.HasField("plan_id"):
            self._cached[node] = result
        elif method == "unpersist":
            self._cached.pop(node, None)
        return result

    def _replace(self, roots: list[Any], *, lasts: bool) -> bool:
        """Replace the reads below relations in place, and persisted relations by the form that was sent.

        Return if any existed. With `lasts`, the server keeps the result for later queries, when settings of the session
        may have changed. Then metadata answers no aggregates, and conditions are interpreted without time zone and ANSI
        mode.
        """
        every = all_relations(roots)
        cached = [each for each in every if self._is_cached(each)]
        reads = [each for each in every if each.WhichOneof("rel_type") == "read" and self._columns_of(each) is not None]
        if not reads and not cached:
            return False
        session = self._read_settings()
        self._ask_functions(roots)
        found = narrow_reads(
            roots,
            self._columns_of,
            self._is_cached,
            case_sensitive=session.case_sensitive,
            own_functions=self._own_functions,
        )
        if lasts:
            session = replace(session, time_zone="", ansi=False)
        # Whether conditions raise errors depends on settings, which may change for a result that lasts.
        changes = [
            (None if lasts else self._answer_by_metadata(e, session)) or (e.relation, self._relation(e, session))
            for e in found
        ]
        if cached:
            self._enable_field_ids()
        for each in cached:
            changes.append((each, self._cached[each.common.plan_id]))
        for old, new in changes:
            old.CopyFrom(new)
        self.replaced += len(changes)
        return True

    def _is_cached(self, relation: Any) -> bool:
        return relation.common.HasField("plan_id") and relation.common.plan_id in self._cached

    def _read_settings(self) -> _SessionSettings:
        names, client = (_ZONE, _ANSI, _CASE, _TIMESTAMPS, *_SYNTAX, LISTED_HERE), self._session.client
        try:
            values = dict(zip(names, client.get_configs(*names), strict=True))
            known = client.get_config_with_defaults(*((name, None) for name in OF_PLANNING))
        except PySparkException:  # the platform hides them
            return _SessionSettings("", ansi=False, case_sensitive=False, reads_as_default=False, known={})
        is_default = not any((values[each] or "").lower() == "true" for each in _SYNTAX)
        return _SessionSettings(
            values[_ZONE] or "",
            (values[_ANSI] or "").lower() == "true",
            (values[_CASE] or "").lower() == "true",
            is_default and (values[_TIMESTAMPS] or "").upper() in ("", "TIMESTAMP_LTZ"),
            {**dict(zip(OF_PLANNING, known, strict=True)), _ZONE: values[_ZONE], LISTED_HERE: values[LISTED_HERE]},
        )

    def _enable_field_ids(self) -> None:
        """Set `spark.sql.parquet.fieldId.read.enabled`, on which relations that were already planned rely."""
        if self._session.client.get_configs(FIELD_IDS)[0] != "true":
            self._session.conf.set(FIELD_IDS, "true")

    # The pinned version of a table

    def _columns_of(self, relation: Any) -> tuple[ReadColumn, ...] | None:
        """Return the output columns of a read that is replaced, and pin its version.

        None for relations that are not replaced.
        """
        if relation.WhichOneof("rel_type") != "read" or self._is_cached(relation):
            return None
        pin = self._pin(relation)
        return None if pin is None or not pin.is_replaced else pin.columns

    def _pin(self, relation: Any) -> _Pin | None:
        read = relation.read
        if read.WhichOneof("read_type") != "data_source" or read.is_streaming:
            return None
        if read.data_source.format not in self._sources() or not relation.common.HasField("plan_id"):
            return None
        if _is_following(relation) and self._busy.leaves and self._has_path(relation):
            return None  # the server plans it later, again and again
        key = relation.SerializeToString(deterministic=True)
        pins: dict[bytes, _Pin] = self._busy.pins
        if key in pins:
            return pins[key]
        if _is_following(relation):
            pins[key] = self._follow(read.data_source)
            return pins[key]
        with self._lock:
            pin = self._pins.setdefault(key, _Pin())
            self._pins.move_to_end(key)
            state = self._states.get(key)
        try:
            with pin.lock:
                if not pin.is_known:
                    data_source = read.data_source
                    pin.scan = self._open_scan(data_source) if state is None else self._reopen(data_source, state)
                    pin.columns = () if pin.scan is None else _columns(pin.scan)
                    pin.is_known = True
        except BaseException:
            with self._lock:
                self._pins.pop(key, None)
            raise
        pins[key] = pin
        self._drop_pins()
        return pin

    @staticmethod
    def _has_path(relation: Any) -> bool:
        """Return whether the data source can open the table of a following read: not if its options are secret."""
        return "path" in {name.lower() for name in relation.read.data_source.options}

    def _follow(self, data_source: Any) -> _Pin:
        """Return the pin of a following read for this request; raises the errors of opening its table."""
        options = {name.lower(): value for name, value in data_source.options.items()}
        read = FOLLOWING.find(options)
        if read is None:
            settings = self._sources()[data_source.format]
            read = source_class(data_source.format, **settings, catalogs=all_configurations())(options).following
            assert read is not None
            FOLLOWING.keep(options, read)
        table = STATES.table(self._session, self._busy.planning, read)
        if split_location(table.location)[0] == "file" and not self._is_local:
            return _Pin(is_known=True)
        if read.metadata is not None:
            columns = tuple(ReadColumn(name, None, "") for name in read.schema.names)
            return _Pin(is_known=True, columns=columns, following=read, metadata=read.metadata_at(table))
        scan = read.scan_at(table, partial(staging_of_session, self._session))
        return _Pin(is_known=True, scan=scan, columns=_columns(scan), following=read)

    def _drop_pins(self) -> None:
        """Drop the least recently used scans above a limit.

        Of these, keep only the options that select their versions.
        """
        with self._lock:
            known = [key for key, pin in self._pins.items() if pin.is_known]  # others are being opened by threads
            for key in known[: max(0, len(known) - _MOST_PINS)]:
                state = self._pins.pop(key).state
                if state is not None:
                    self._states[key] = state
                    self._states.move_to_end(key)
            while len(self._states) > _MOST_STATES:
                self._states.popitem(last=False)

    def _reopen(self, read: Any, state: dict[str, str]) -> ScanSpec:
        """Open the scan of a dropped pin again, by the options (`state`) that select its version.

        Raises the errors of opening it, as another version would have other rows.
        """
        settings = self._sources()[read.format]
        scan, _ = source_class("lakescan", **settings, catalogs=all_configurations())(state).open_scan()
        scan.snapshot  # noqa: B018  resolves the snapshot, which the scan caches
        return scan

    def _open_scan(self, read: Any) -> ScanSpec | None:
        """Open the scan of a read.

        None if the data source has to read it, or if it cannot be opened in this process.
        """
        options = {name.lower(): value for name, value in read.options.items()}
        paths = [*read.paths, *([options["path"]] if "path" in options else [])]
        if len(paths) != 1 or read.predicates or "paths" in options or not _is_absolute(paths[0]):
            return None
        settings = self._sources()[read.format]
        try:
            source = source_class(read.format, **settings, catalogs=all_configurations())({**options, "path": paths[0]})
            scan, metadata_table = source.open_scan()
            if metadata_table is not None or is_audited(
                scan
            ):  # the tasks of a staged read check the session's settings
                return None
            scan = apply_session_reads(scan, settings["session"])
            scan.snapshot  # noqa: B018  resolves the snapshot, which the scan caches
            found = _apply_schema(scan, read.schema)
            if found is None or found.lane == "arrow" or not self._is_replaced(found):
                return None
            return None if why_arrow_session(self._session, found.options) is not None else found
        except Exception as error:  # the server may have access where this process has none, or raises the same error
            _LOG.debug("the data source reads %s, which cannot be opened here: %s", redact(paths[0]), error_text(error))
            return None

    def create_read(self, scan: ScanSpec) -> DataFrame | None:
        """Return a read of a scan, pinned to the snapshot or version that the scan resolves to now.

        None if the session cannot replace a read of this scan.
        """
        if self._is_busy or "lakescan" not in self._sources() or not self._is_replaced(scan):
            return None
        reader = self._session.read.format("lakescan").schema(schema_of(scan)).options(**scan.to_options())
        frame: DataFrame = reader.load()
        relation = frame._plan.plan(self._session.client)
        key = relation.SerializeToString(deterministic=True)
        with self._lock:
            self._pins[key] = _Pin(is_known=True, scan=scan, columns=_columns(scan))
        self._drop_pins()
        return frame

    def _is_replaced(self, scan: ScanSpec) -> bool:
        """Return whether reads of a scan are replaced in requests; else the data source or a planned frame reads it."""
        if _is_for_source(scan) or any(each.width for each in t.walk(scan.output.fields)):
            return False
        return split_location(scan.table.location)[0] != "file" or self._is_local

    @property
    def _is_local(self) -> bool:
        """Whether Spark's workers share this process's file system; a small job finds out, once."""
        if self._local is None:
            self._local = is_on_this_machine(self._session)
        return self._local

    # The replacement of a read

    def _relation(self, read: NarrowedRead, session: _SessionSettings) -> Any:
        """Return the relation of the planned frame that replaces a narrowed read; the most recent ones are cached."""
        pin = self._pin(read.relation)
        assert pin is not None
        if pin.following is not None:
            with cache_settings(session.known):
                return self._as_relation(read, self._following_frame(pin, pin.following, read, session))
        assert pin.scan is not None
        scan = _narrow_scan(pin.scan, read, session)
        key = (read.relation.SerializeToString(deterministic=True), repr(scan.pruning), scan.columns, scan.row_limit)
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None:
            self._enable_field_ids()
            return kept
        with cache_settings(session.known):
            frame = _add_comments(plan_now(self._session, scan), scan)
        relation = self._as_relation(read, frame)
        with self._lock:
            self._kept[key] = relation
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return relation

    def _as_relation(self, read: NarrowedRead, frame: Any) -> Any:
        """Return the relation of a frame that replaces a read, under the read's plan id."""
        relation = type(read.relation)()
        relation.CopyFrom(frame._plan.plan(self._session.client))
        relation.common.plan_id = read.relation.common.plan_id  # columns of the user's frame refer to it
        return relation

    def _following_frame(
        self, pin: _Pin, following: FollowingRead, read: NarrowedRead, session: _SessionSettings
    ) -> DataFrame:
        """Return a frame of the state that this request reads; files that Spark cannot read are read through Arrow."""
        if pin.metadata is not None:
            names = [each for each in following.schema.names if read.columns is None or each in read.columns]
            return metadata_frame(self._session, pin.metadata, following, names)
        assert pin.scan is not None
        is_narrowed = pin.scan.max_rows is None and not depends_on_zone(pin.scan)
        scan = _narrow_scan(pin.scan, read, session) if is_narrowed else pin.scan
        return _add_comments(plan_now(self._session, scan), scan)

    def _answer_by_metadata(self, read: NarrowedRead, session: _SessionSettings) -> tuple[Any, Any] | None:
        """Return the aggregate above a read, and the relation of its values to replace it, if metadata proves them.

        None without an aggregate, or if a value or a condition needs rows.
        """
        pin, totals = self._pin(read.relation), read.totals
        if totals is None or pin is None or pin.scan is None or pin.scan.max_rows is not None:
            return None
        scan = pin.scan
        found = [_infer_predicate(each, scan, session) for each in totals.conditions]
        parts = conjuncts(conjunction([each.predicate for each in found]))
        is_exact = all(each.exact for each in found) and all(_is_exact(each, scan) for each in parts)
        paths = [path for _, path in totals.wanted.values() if path is not None]
        if not (session.reads_as_default and is_exact) or any(len(path) > 1 for path in paths):
            return None
        wanted = [Aggregate(kind, None if path is None else path[0]) for kind, path in totals.wanted.values()]
        values = totals_by_metadata(scan.where(conjunction(parts)), wanted)
        fields = None if values is None else self._fields(totals.relation, read.relation, scan)
        if values is None or fields is None:
            return None
        return totals.relation, _values_relation(totals, fields, values, title_of_table(scan))

    def _fields(self, relation: Any, read: Any, scan: ScanSpec) -> list[s.StructField] | None:
        """Return the columns of `relation`, analyzed by the server with an empty local relation instead of the read.

        None if the server reports an error, which the query then raises, too.
        """
        from pyspark.sql.connect.proto import Plan

        empty = type(relation)()
        empty.CopyFrom(relation)
        for each in all_relations([empty]):
            if each == read:
                each.local_relation.schema = schema_of(scan).json()
        try:
            return list(self._session.client.schema(Plan(root=empty)).fields)
        except PySparkException:  # the query raises it, too
            return None


def _values_relation(totals: Totals, fields: list[s.StructField], values: list[pa.Scalar], title: str) -> Any:
    """Build the relation that replaces an aggregate: one row of the values of its totals, and expressions over it.

    `fields` are the aggregate's columns as Spark names them, `values` are in the order of `totals.wanted`, and
    `explain` shows the `title`.
    """
    result = type(totals.relation)()
    result.common.CopyFrom(totals.relation.common)
    alias = result.project.input.subquery_alias  # shown by `explain`
    alias.alias = f"{title}, metadata"
    known = list(zip(totals.wanted.items(), values, strict=True))
    schema = pa.schema([pa.field(name, each.type, nullable=kind != "count") for (name, (kind, _)), each in known])
    kinds = [s.StructField(e.name, from_arrow_type(e.type, prefer_timestamp_ntz=True), e.nullable) for e in schema]
    alias.input.local_relation.schema = s.StructType(kinds).json()
    with pa.BufferOutputStream() as out:
        with pa.ipc.new_stream(out, schema) as writer:
            writer.write_batch(pa.record_batch([pa.array([each], each.type) for each in values], schema=schema))
        alias.input.local_relation.data = out.getvalue().to_pybytes()
    for each, column in zip(totals.expressions, fields, strict=True):
        expression = result.project.expressions.add()
        if each.WhichOneof("expr_type") == "alias":
            expression.CopyFrom(each)
        else:
            expression.alias.expr.CopyFrom(each)
            expression.alias.name.append(column.name)
    return result


def _is_following(relation: Any) -> bool:
    """Return whether a relation is a read of lakescan's data source that follows its table."""
    if relation.WhichOneof("rel_type") != "read" or relation.read.WhichOneof("read_type") != "data_source":
        return False
    return any(name.lower() == FOLLOW for name in relation.read.data_source.options)


def _unpack(plan: Any) -> None:
    """Decompress, in place, a plan that PySpark compressed because it is large."""
    packed = plan.compressed_operation
    if not packed.data:
        return
    import zstandard

    names = {packed.OP_TYPE_RELATION: "root", packed.OP_TYPE_COMMAND: "command"}
    name, data = names.get(packed.op_type), zstandard.decompress(packed.data)
    if name is not None:
        unpacked = type(getattr(plan, name)).FromString(data)
        getattr(plan, name).CopyFrom(unpacked)


def _is_absolute(path: str) -> bool:
    """Return whether a path refers to the same table from any folder: an absolute path, URI or catalog name."""
    parts = parts_of_name(path)
    return path.startswith(("/", "file:/")) or "://" in path or (parts is not None and is_known(parts[0]))


def _is_for_source(scan: ScanSpec) -> bool:
    """Return whether only the Python data source or a planned frame can read a scan.

    This concerns changelogs, streams, deleted rows, SQL conditions, the planning mode 'distributed', issued
    credentials, and scans whose tasks check the session's time zone or staging settings.
    """
    options = scan.options
    selects_changes = options.changes or options.stream_options or options.names_of_groups(Group.RANGE)
    is_special = scan.reads_deleted_rows or has_sql(scan.condition) or is_audited(scan) or scan.storage.is_issued
    modes = (options.data_planning_mode, options.delete_planning_mode)
    return bool(selects_changes or is_special or depends_on_zone(scan) or "distributed" in modes)


def _apply_schema(scan: ScanSpec, schema: str) -> ScanSpec | None:
    """Return the scan with the columns of the schema that the user gave as JSON; unchanged if it is empty.

    None if the schema is invalid, or if a column is missing or has another type.
    """
    if not schema:
        return scan
    try:
        given_schema = s.StructType.fromJson(json.loads(schema))
    except (ValueError, KeyError, TypeError):
        return None
    own = {each.name: each.dataType.simpleString() for each in schema_of(scan).fields}
    wanted = {each.name: each.dataType.simpleString() for each in given_schema.fields}
    if not wanted or any(own.get(name) != kind for name, kind in wanted.items()):
        return None
    names = given_schema.names
    if names == scan.output.names:
        return scan
    result = scan.narrow_columns(names)
    return result if result.output.names == names else None


def _columns(scan: ScanSpec) -> tuple[ReadColumn, ...]:
    """Return the output columns of a scan, each with its column in the table if conditions may test it."""
    return tuple(
        ReadColumn(each.name, _path(each.path) if scan.max_rows is None else None, str(each.path[-1].type))
        for each in scan.selection.columns
    )


def _path(path: tuple[t.Field, ...]) -> tuple[str, ...] | None:
    kind = path[-1].type
    is_known = kind in _COMPARED or isinstance(kind, t.Decimal | t.Struct) or _is_time(kind)
    return tuple(each.name for each in path) if is_known and path[0].id not in RESERVED_IDS else None


def _is_time(kind: t.Type) -> bool:
    return isinstance(kind, t.Timestamp) and kind.unit == "us"


def _narrow_scan(scan: ScanSpec, read: NarrowedRead, session: _SessionSettings) -> ScanSpec:
    """Return a scan that reads at least the columns and rows that the plan needs of a read.

    Unchanged if the session's settings give SQL another meaning (`reads_as_default`).
    """
    if not session.reads_as_default:
        return scan
    result = replace(scan, pruning=_pruning(scan, read, session))
    if read.columns is not None:
        names = [each for each in scan.output.names if each in read.columns] or [cheapest_column(scan)]
        if names != scan.output.names:
            result = result.narrow_columns(names)
    if read.limit is not None and not read.conditions:
        result = result.limit(read.limit)
    return result


def _pruning(scan: ScanSpec, read: NarrowedRead, session: _SessionSettings) -> Predicate:
    """Return the predicate that a read's conditions imply for its rows, without tests that Spark does differently."""
    found = [part for each in read.conditions for part in conjuncts(_infer_predicate(each, scan, session).predicate)]
    return conjunction([each for each in found if _is_exact(each, scan)])


def _infer_predicate(condition: Any, scan: ScanSpec, session: _SessionSettings) -> Inference:
    """Infer the predicate that a condition, a tree over columns of the table, implies in a session."""
    return infer_predicate(
        condition,
        scan.selectable,
        time_zone=session.time_zone,
        case_sensitive=scan.options.case_sensitive,
        ansi=session.ansi,
    )


def _is_exact(predicate: Predicate, scan: ScanSpec) -> bool:
    """Return whether a predicate binds to the scan's columns, and Spark compares their values in the same way."""
    schema = scan.selectable
    try:
        bound = bind(predicate, schema, case_sensitive=scan.options.case_sensitive, zone=scan.zone)
    except LakescanError:
        return False
    for leaf in leaves(bound):
        ids = leaf.bound_ids if isinstance(leaf, ColumnComparison) else (leaf.bound_id,)
        kinds = [schema.by_id[each].type for each in ids]
        if not isinstance(leaf, IsNull) and not all(
            k in _COMPARED or isinstance(k, t.Decimal) or _is_time(k) for k in kinds
        ):
            return False
    return True


def _add_comments(frame: Any, scan: ScanSpec) -> Any:
    """Return the frame with the metadata of its columns in Spark (comments, CHAR lengths), as the data source has."""
    fields = spark_schema(scan.output).fields
    if not any(each.metadata for each in fields):
        return frame
    return frame.select(*(F.col(backquote(e.name)).alias(e.name, metadata=e.metadata or {}) for e in fields))
