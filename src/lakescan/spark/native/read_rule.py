"""Replace reads of lakescan's data sources by scans of Spark's Parquet reader, in the query plans of classic sessions.

A read of a Python data source is complete and correct by itself. A rule of Spark's optimizer (`Lakescan.java`) passes
each read in a plan to `RuleAnswers`, with the columns, conditions and limit above it. The answer is a plan over the
files that the query needs. Spark evaluates all conditions again. If the plan has something unsupported, the read is
left as it is.
"""

from __future__ import annotations

import json
import logging
import pickle
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyspark
from pyspark.sql.pandas.types import from_arrow_type

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import LakescanError
from lakescan.expressions.bind import can_bind
from lakescan.expressions.inference import Inference, infer_predicate
from lakescan.expressions.predicate import TRUE, conjunction, conjuncts, has_sql
from lakescan.local.aggregates import Aggregate
from lakescan.options.session_settings import BRANCH_SETTING, ID_SETTING
from lakescan.spark.executor import SparkExecutor
from lakescan.spark.following import FOLLOW, FOLLOWING, STATES, FollowingRead
from lakescan.spark.native.file_index import RelationFiles, title_of, title_of_table
from lakescan.spark.native.lanes import choose_lanes, why_arrow
from lakescan.spark.native.packed_files import JAVA
from lakescan.spark.native.planned_frames import (
    FRAMES,
    cheapest_column,
    check_native_lane,
    frame_of_plan,
    is_planned_by_workers,
    metadata_frame,
    totals_by_metadata,
)
from lakescan.spark.optimizer_rules import INTERRUPTED, RAISED, has_rule, install_rule
from lakescan.spark.session import OF_PLANNING, cache_settings, conf, parallelism, session_zone, zone_name
from lakescan.spark.session_lane import FIELD_IDS, WITHOUT_IDS, why_arrow_session
from lakescan.spark.source.data_source import TableSource, depends_on_zone
from lakescan.spark.source.partitions import read_plan
from lakescan.spark.wap import settings_of_session, staging_of_session
from lakescan.storage.errors import error_text
from lakescan.storage.locations import split_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakescan.formats.table_format import TableFormat
    from lakescan.spark.wap import StagedReads
    from lakescan.tables.scan_spec import ScanSpec

_LOG = logging.getLogger("lakescan")
_RULE = "lakescan.Lakescan$Rule"
_MOST_SOURCES = 32
# Settings under which a relation's partition columns, or files without rows, would count as rows.
_REFUSED = {"spark.sql.optimizer.metadataOnly": "true"}
# Settings that planning reads: fetched together, since each call between Python and the JVM takes time.
_SETTINGS = (*_REFUSED, *OF_PLANNING, FIELD_IDS, WITHOUT_IDS, ID_SETTING, BRANCH_SETTING)


def install(spark: SparkSession) -> None:
    """Install the rule in a classic session, once. Raises errors of Java and py4j."""
    install_rule(spark, JAVA, _RULE, lambda: RuleAnswers(spark))
    with suppress(AttributeError, ImportError):  # without it, errors have PySpark's class, and the same text
        RAISED.install()


def is_installed(spark: SparkSession) -> bool:
    """Return whether this process has installed the rule in a classic session."""
    return has_rule(spark, _RULE)


class _Sources:
    """A cache of the most recently unpickled data sources, by the hash of their pickled bytes."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, TableSource | None] = OrderedDict()
        self._lock = Lock()

    def find(self, key: str, request: Any) -> TableSource | None:
        """Return the data source of a read, unpickled once per hash (`key`) of its bytes.

        None if it is not one of lakescan's.
        """
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        data = bytes(request.source())
        source = pickle.loads(data) if TableSource.__module__.encode() in data else None
        if not isinstance(source, TableSource):
            source = None
        with self._lock:
            self._known[key] = source
            while len(self._known) > _MOST_SOURCES:
                self._known.popitem(last=False)
        return source


def _interrupt_text(name: str) -> str:
    return f"{name}\n{INTERRUPTED}"


class RuleAnswers:
    """Answers the requests of the optimizer rule about reads in a plan; `apply` returns the answers."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._sources = _Sources()
        self._warned: set[str] = set()

    def apply(self, request: Any) -> Any:
        """Answer a request about a read: a Spark plan to replace it, or the values of its aggregates as JSON.

        None leaves the read as it is. Text reports an error that the query raises, with the data source's name in its
        first line.
        """
        name = ""
        try:
            read = json.loads(request.text())
            name = read["name"]
            spark = self._session(request.session())
            with cache_settings(json.loads(request.settings(",".join(_SETTINGS)))):
                return self._plan(spark, read, request)
        except LakescanError as error:
            return f"{name}\n\n{RAISED.text(error)}\n"
        except KeyboardInterrupt:  # in a notebook; otherwise Spark would continue
            return _interrupt_text(name)
        except Exception as error:  # a Spark that differs from the tested versions
            if "InterruptedException" in str(error):  # py4j interrupts the query's thread in the JVM
                return _interrupt_text(name)
            self._warn(
                f"a read by format({name!r}) stays in the Arrow lane: {type(error).__name__}: {error_text(error)}"
            )
            return None

    def _warn(self, text: str) -> None:
        """Log a warning, once per text."""
        if text not in self._warned:
            self._warned.add(text)
            _LOG.warning(text, exc_info=True)

    def _plan(self, spark: SparkSession, read: Mapping[str, Any], request: Any) -> Any:
        options = {str(key).lower(): str(value) for key, value in read["options"].items()}
        if FOLLOW in options:
            return self._plan_following(spark, read, request, options)
        if options.get("lane", "").lower() == "arrow" or read["has_filters"]:
            return None
        if any(conf(spark, name) == value for name, value in _REFUSED.items()):
            return None
        found = self._scan(request, options)
        if found is None:
            return None
        if read["totals"] is not None:
            return _as_json(answer_totals(spark, *found, read["totals"], read["conditions"]))
        return plan_read(
            spark, *found, read["columns"], read["conditions"], read["limit"], compares_micros=read["micros"]
        )

    def _plan_following(
        self, spark: SparkSession, read: Mapping[str, Any], request: Any, options: Mapping[str, str]
    ) -> Any:
        """Plan a read that follows its table, at the state that all reads of this planning see.

        It is always replaced, as a worker would open a state of its own. None for aggregates that need rows.
        """
        following = FOLLOWING.find(options)
        if following is None:
            source = self._sources.find(str(request.sourceHash()), request)
            following = None if source is None else source.following
            if following is None:
                return None
            FOLLOWING.keep(options, following)
        table = STATES.table(spark, read["planning"], following)
        if following.metadata is not None:
            return None if read["totals"] is not None else plan_metadata(spark, following, table, read["columns"])
        scan = following.scan_at(table, partial(staging_of_session, spark))
        is_refused = any(conf(spark, name) == value for name, value in _REFUSED.items())
        if read["totals"] is not None:
            is_limited = scan.max_rows is not None or is_refused or scan.lane == "arrow"
            return (
                None if is_limited else _as_json(answer_totals(spark, scan, None, read["totals"], read["conditions"]))
            )
        plan = partial(
            plan_following,
            spark,
            scan,
            read["columns"],
            read["conditions"],
            read["limit"],
            compares_micros=read["micros"],
        )
        try:
            return plan(by_arrow=is_refused)
        except LakescanError:
            raise
        except Exception as error:  # a Spark that differs from the tested versions
            if "InterruptedException" in str(error):
                raise
            self._warn(f"a read of {scan.table.location} stays in the Arrow lane: {type(error).__name__}")
            return plan(by_arrow=True)

    def _scan(self, request: Any, options: Mapping[str, str]) -> tuple[ScanSpec, StagedReads | None] | None:
        """Return the pinned scan of a read, and the check of the session's WAP branch (None without one).

        None as a whole for other data sources, metadata tables, and sources with filter pushdown.
        """
        if (known := FRAMES.find(options)) is not None:
            return known, None
        source = self._sources.find(str(request.sourceHash()), request)
        return None if source is None or source.pushdown else source.batch_scan

    def _session(self, java_session: Any) -> SparkSession:
        from pyspark.sql import SparkSession

        own: Any = self._spark
        return self._spark if own._jsparkSession.equals(java_session) else SparkSession(own.sparkContext, java_session)

    class Java:
        """The Java interface that the object implements for py4j."""

        implements = ("java.util.function.Function",)


def plan_read(
    spark: SparkSession,
    scan: ScanSpec,
    staged: StagedReads | None,
    columns: list[str],
    conditions: list[str],
    limit: int,
    *,
    compares_micros: bool,
) -> Any:
    """Plan the columns of a scan over the files that may match the conditions; return Spark's analyzed plan.

    None leaves the read as it is: if only the data source can read the scan, or if no file is for Spark's reader and
    neither columns nor files were pruned. `staged` checks the session's WAP branch. Each of the `conditions`
    is SQL text after 1 if all its arithmetic is ANSI's, else after 0. `limit` is -1 for no limit. `compares_micros`:
    see `FileColumns`.
    """
    usable = _prepare_scan(spark, scan, staged)
    if usable is None:
        return None
    scan = usable
    pruning = [_infer_predicate(spark, scan, text).predicate for text in conditions]
    is_narrowed = columns != scan.output.names
    if is_narrowed:
        scan = scan.narrow_columns(columns or [cheapest_column(scan)])
    if (reason := why_arrow(scan) or why_arrow_session(spark, scan.options)) is not None:
        check_native_lane(scan, {reason: 1})
        if not (is_narrowed or limit >= 0 or conjunction(pruning) != TRUE):
            return None
        scan = scan.pack_few_groups()
    scan = replace(scan, pruning=conjunction([scan.pruning, *pruning]), engine=("spark", pyspark.__version__))
    planned = scan if limit < 0 else scan.limit(limit)
    plan = planned.prune_deletes().plan(scan.options.parallelism or parallelism(spark))
    metrics = plan.report.metrics
    is_narrowed |= bool(metrics.skipped_data_files or metrics.skipped_data_manifests)
    if len(plan.table) and scan.options.lane != "native" and not is_narrowed:
        lanes = choose_lanes(scan, plan, spark, looks_up=False)
        if not lanes.native.any():
            return None
    else:
        lanes = None
    RAISED.note_table(scan.table.location)
    compares_micros |= scan.condition != TRUE  # the scan's own filter may also have such times
    reader = partial(RelationFiles, title=title_of(scan, plan), compares_micros=compares_micros)
    frame: Any = frame_of_plan(spark, scan, replace(plan, limit=None), reader=reader, lanes=lanes)
    return (frame if columns else frame.select())._jdf.queryExecution().analyzed()


def plan_following(
    spark: SparkSession,
    scan: ScanSpec,
    columns: list[str],
    conditions: list[str],
    limit: int,
    *,
    compares_micros: bool,
    by_arrow: bool,
) -> Any:
    """Plan a scan as `plan_read` does, but always: files that Spark's reader cannot read are read through Arrow.

    With `by_arrow`, all files are.
    """
    zone = session_zone(spark)
    if scan.max_rows is not None or (depends_on_zone(scan) and scan.zone != zone):
        conditions, limit = [], -1  # conditions apply after the scan's limit, and may be in another time zone
    else:
        scan = replace(scan, zone=zone)
    pruning = [_infer_predicate(spark, scan, text).predicate for text in conditions]
    if columns != scan.output.names:
        scan = scan.narrow_columns(columns or [cheapest_column(scan)])
    by_arrow = by_arrow or why_arrow(scan) is not None or why_arrow_session(spark, scan.options) is not None
    if by_arrow:
        scan = scan.pack_few_groups()
    scan = replace(scan, pruning=conjunction([scan.pruning, *pruning]), engine=("spark", pyspark.__version__))
    planned = scan if limit < 0 else scan.limit(limit)
    if is_planned_by_workers(planned):
        planned = replace(planned, executor=SparkExecutor(spark))
    plan = planned.prune_deletes().plan(scan.options.parallelism or parallelism(spark))
    if scan.max_rows is None:
        plan = replace(plan, limit=None)
    frame: Any
    if by_arrow:
        check_native_lane(scan, {"the session or the table allows only the Arrow lane": 1})
        frame = read_plan(spark, scan, plan)
    else:
        RAISED.note_table(scan.table.location)
        compares_micros |= scan.condition != TRUE
        reader = partial(RelationFiles, title=title_of(scan, plan), compares_micros=compares_micros)
        # Blocks of files in HDFS have hosts, which only a look-up of paths finds.
        looks_up = split_location(scan.table.location)[0] == "hdfs"
        frame = frame_of_plan(spark, scan, plan, reader=None if looks_up else reader)
    return (frame if columns else frame.select())._jdf.queryExecution().analyzed()


def plan_metadata(spark: SparkSession, following: FollowingRead, table: TableFormat, columns: list[str]) -> Any:
    """Plan a read of a metadata table in a state of its table; return Spark's analyzed plan."""
    frame: Any = metadata_frame(spark, following.metadata_at(table), following, columns)
    return (frame if columns else frame.select())._jdf.queryExecution().analyzed()


def answer_totals(
    spark: SparkSession, scan: ScanSpec, staged: StagedReads | None, totals: list[str], conditions: list[str]
) -> tuple[str, list[pa.Scalar]] | None:
    """Return a title for `explain`, and the values of aggregates over the rows that match all conditions.

    `totals` are `count`, `min COLUMN` and `max COLUMN`; `conditions` and `staged` are as in `plan_read`. None if rows
    must be read for a value.
    """
    usable = _prepare_scan(spark, scan, staged)
    if usable is None or why_arrow_session(spark, scan.options) is not None:
        return None
    found = [_infer_predicate(spark, usable, text) for text in conditions]
    if not all(each.exact for each in found):
        return None
    columns = _same_columns(usable)
    wanted = [Aggregate(kind, name or None) for kind, _, name in (each.partition(" ") for each in totals)]
    if any(each.column is not None and each.column not in columns for each in wanted):
        return None
    scan = usable.where(conjunction([each.predicate for each in found]))
    values = totals_by_metadata(scan, wanted)
    return None if values is None else (f"{title_of_table(scan)}, metadata: ", values)


def _as_json(found: tuple[str, list[pa.Scalar]] | None) -> bytes | None:
    """Serialize the result of `answer_totals` as JSON for `Totals` of `Lakescan.java`; None for None."""
    if found is None:
        return None
    title, values = found
    types = [from_arrow_type(each.type, prefer_timestamp_ntz=True).simpleString() for each in values]
    return json.dumps({"title": title, "types": types, "values": [_encode_value(each) for each in values]}).encode()


def _encode_value(value: pa.Scalar) -> int | str | None:
    """Encode a value for `Files.decoded` of `Lakescan.java`.

    Strings, decimals and binaries become Base64, other values numbers; floats are their bits. Null is None.
    """
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_string(kind) or pa.types.is_decimal(kind):
        return b64encode(str(value.as_py()).encode()).decode()
    if pa.types.is_binary(kind):
        return b64encode(value.as_py()).decode()
    if pa.types.is_floating(kind):
        size = 4 if kind == pa.float32() else 8
        return int(np.array([value.as_py()], f"<f{size}").view(f"<i{size}")[0])
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return int(value.cast(pa.int32() if pa.types.is_date(kind) else pa.int64()).as_py())
    return int(value.as_py())


def _prepare_scan(spark: SparkSession, scan: ScanSpec, staged: StagedReads | None) -> ScanSpec | None:
    """Return the scan in the session's time zone; None if the data source has to read it.

    That concerns SQL conditions, limits, distributed planning, and filters that depend on another time zone. Raises
    `InvalidOption` if the session's staging settings changed since the read was planned (`staged`).
    """
    zone = session_zone(spark)
    if has_sql(scan.condition) or scan.max_rows is not None or (depends_on_zone(scan) and scan.zone != zone):
        return None
    if "distributed" in (scan.planning_mode("data"), scan.planning_mode("delete")):
        return None
    if staged is not None:
        staged.check(settings_of_session(spark))
    return replace(scan, zone=zone)


def _same_columns(scan: ScanSpec) -> dict[str, t.Field]:
    """Return the output columns that are columns of the table under their own names, as the table's fields by name."""
    return {e.name: e.path[0] for e in scan.selection.columns if len(e.path) == 1 and e.path[0].name == e.name}


def _infer_predicate(spark: SparkSession, scan: ScanSpec, condition: str) -> Inference:
    """Infer the predicate on columns of the table that a condition of `plan_read` implies, and whether it is exact."""
    schema = Schema(tuple(_same_columns(scan).values()))
    found = infer_predicate(
        condition[1:],
        schema,
        time_zone=zone_name(spark),
        case_sensitive=True,
        ansi=condition[0] == "1",
    )
    parts = conjuncts(found.predicate)
    usable = [each for each in parts if can_bind(each, schema, zone=scan.zone, case_sensitive=True)]
    return Inference(conjunction(usable), found.exact and len(usable) == len(parts))
