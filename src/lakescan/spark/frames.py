"""The data frame of a scan: a read that each query narrows, on classic PySpark and on Connect, or a planned frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession

from lakescan.common.references import backquote
from lakescan.expressions.predicate import has_sql
from lakescan.planning.explain import plan_as_text
from lakescan.spark.following import FollowingRead, follows
from lakescan.spark.native.conditions import SparkFilter
from lakescan.spark.native.lanes import choose_lanes, why_arrow
from lakescan.spark.native.native_frame import describe_deletes
from lakescan.spark.native.planned_frames import (
    create_following_read,
    create_read,
    create_read_with_scan,
    is_planned_here,
    plan_now,
)
from lakescan.spark.registration import register, replaces_reads
from lakescan.spark.session import is_connect, session_zone
from lakescan.spark.session_lane import why_arrow_session
from lakescan.spark.source.data_source import depends_on_zone
from lakescan.spark.source.registry import formats_of
from lakescan.spark.wap import settings_of_session, staging_of_session
from lakescan.spark.workers import use_this_python
from lakescan.storage.locations import split_location
from lakescan.tables.wap import apply_session_reads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakescan.tables.scan_spec import ScanSpec


def frame_of(spark: SparkSession, scan: ScanSpec) -> DataFrame:
    """Return the rows of a scan as a data frame, whose later filters prune files if possible.

    The frame is a read that is replaced in each query: by Spark's optimizer in a classic session
    (`native/read_rule.py`), and by a hook of the client on Connect (`connect/hook.py`). A scan that such a read cannot
    express is planned by `plan_now`, and later filters do not prune it. Spark evaluates SQL conditions of the filter on
    the frame.
    """
    scan = replace(scan, zone=session_zone(spark))
    if has_sql(scan.condition):
        spark_filter = SparkFilter(spark, scan)
        return spark_filter.filter_frame(frame_of(spark, spark_filter.rows))
    scan.check_for_workers()
    use_this_python(spark)
    read = _create_connect_read(spark, scan) if is_connect(spark) else _create_classic_read(spark, scan)
    return plan_now(spark, scan) if read is None else read


def is_narrowed_by_spark(spark: SparkSession, scan: ScanSpec) -> bool:
    """Return whether Spark narrows the frame of a scan (`frame_of`) to the files and columns that a query needs."""
    if has_sql(scan.condition) or why_arrow_session(spark, scan.options) is not None:
        return False
    scan = replace(scan, zone=session_zone(spark))
    if not (_is_read_on_connect(scan) if is_connect(spark) else _is_planned_by_spark(scan)):
        return False
    if not replaces_reads(spark):
        register(spark, names=("lakescan",))
    return replaces_reads(spark)


def session_frame(spark: SparkSession, scan: ScanSpec) -> DataFrame:
    """Return the rows of a scan as `frame_of` does, with the session's staging settings and Iceberg options applied."""
    return frame_of(spark, apply_session_reads(scan, settings_of_session(spark)))


def following_frame(spark: SparkSession, scan: ScanSpec, metadata: str | None = None) -> DataFrame:
    """Return the rows of a scan as a frame that follows its table: each query reads the state when Spark plans it.

    The frame keeps its columns: a query raises `SchemaChanged` if one is gone or has another type. All reads of a table
    in one query read the same state. A scan that selects a snapshot, version, tag or changes is pinned to it, as by
    `session_frame`. The session's WAP branch is that of each query, so the scan must not have the option `wap-branch`.

    Args:
        spark: A session, classic or Connect.
        scan: The scan, with conditions of the user, if any.
        metadata: The name of a metadata table of the scan's table, to read it instead of the rows.
    """
    if not follows(scan):
        return session_frame(spark, scan) if metadata is None else _pinned_metadata(spark, scan, metadata)
    scan = replace(scan, zone=session_zone(spark))
    if metadata is None and has_sql(scan.condition):
        spark_filter = SparkFilter(spark, scan)
        return spark_filter.filter_frame(following_frame(spark, spark_filter.rows))
    scan.check_for_workers()
    use_this_python(spark)
    if "lakescan" not in formats_of(spark) or not replaces_reads(spark):
        register(spark, names=("lakescan",))
    shown = apply_session_reads(scan, staging_of_session(spark)) if metadata is None else scan
    read = replace(FollowingRead.of(shown, metadata), spec=scan)
    return create_following_read(spark, read)


def hide_columns(spark: SparkSession, frame: DataFrame, shown: Sequence[str]) -> DataFrame:
    """Return the first columns of a frame; the others can be selected by name, like Spark's own metadata columns.

    `*` and the schema leave them out. Only in a classic session.

    Args:
        spark: The session.
        frame: The frame, whose first columns are those in `shown`.
        shown: The names of the columns that are not hidden.
    """
    found = frame.select(*map(backquote, shown))
    assert spark._jvm is not None
    plans = spark._jvm.org.apache.spark.sql.catalyst.plans.logical
    hidden = frame._jdf.queryExecution().analyzed().output().drop(len(shown))
    found._jdf.queryExecution().analyzed().setTagValue(plans.Project.hiddenOutputTag(), hidden)
    return found


def _pinned_metadata(spark: SparkSession, scan: ScanSpec, metadata: str) -> DataFrame:
    register(spark, names=("lakescan",))
    options = scan.to_options()
    path = f"{options.pop('path')}#{metadata}"
    return spark.read.format("lakescan").options(**options).load(path)


def explain_scan(scan: ScanSpec) -> str:
    """Return a scan's plan as text, with the lanes of its files and how deletes are applied on Spark.

    Settings are those of the active session, if there is one.
    """
    if (spark := SparkSession.getActiveSession()) is not None:
        scan = replace(apply_session_reads(scan, settings_of_session(spark)), zone=session_zone(spark))
    if has_sql(scan.condition):
        spark_filter = SparkFilter(SparkSession.getActiveSession(), scan)
        conditions = [f"  on Spark: rows are filtered by {text}" for text in spark_filter.texts]
        return "\n".join([explain_scan(spark_filter.rows), *conditions])
    plan = scan.plan()
    if spark is not None and (reason := why_arrow_session(spark, scan.options)) is not None:
        return f"{plan_as_text(plan)}\n  on Spark: {len(plan.table):,} files in the Arrow lane: {reason}"
    looks_up = spark is None or is_connect(spark) or not _is_planned_by_spark(scan)
    lanes = choose_lanes(scan, plan, spark, looks_up=looks_up)
    by_name = f", {lanes.files_by_name:,} of them by the names of their columns" if lanes.files_by_name else ""
    lines = [plan_as_text(plan), f"  on Spark: {lanes.native.sum():,} files in the native lane{by_name}"]
    lines += [f"  on Spark: {count:,} files in the Arrow lane: {reason}" for reason, count in lanes.reasons.items()]
    return "\n".join(lines + describe_deletes(scan.plan_of(plan, pa.array(lanes.native))))


def _create_classic_read(spark: SparkSession, scan: ScanSpec) -> DataFrame | None:
    """Return a read of a scan that the optimizer rule replaces; None if the rule is missing or cannot replace it."""
    if not _is_planned_by_spark(scan) or why_arrow_session(spark, scan.options) is not None:
        return None
    register(spark, names=("lakescan",))
    if not replaces_reads(spark):
        return None
    return create_read_with_scan(spark, scan) if scan.storage.has_secrets else create_read(spark, scan)


def _create_connect_read(spark: SparkSession, scan: ScanSpec) -> DataFrame | None:
    """Return a read of a scan that the client's hook replaces; None if the hook is missing or cannot replace it."""
    from lakescan.spark.connect import hook  # needs Connect's libraries

    if not _is_read_on_connect(scan):
        return None
    if why_arrow_session(spark, scan.options) is not None:
        return None
    # The Arrow lane registers the data source alone, without the hook.
    if "lakescan" not in formats_of(spark) or not replaces_reads(spark):
        register(spark, names=("lakescan",))
    return hook.create_read(spark, scan)


def _is_read_on_connect(scan: ScanSpec) -> bool:
    """Return whether options of a read can express the scan, so that the client's hook may replace the read."""
    return scan.lane == "auto" and not scan.storage.has_secrets and not is_planned_here(scan)


def _is_planned_by_spark(scan: ScanSpec) -> bool:
    """Return whether the optimizer rule may replace a read of the scan.

    Options must describe the scan, apart from secrets. They contain no time zone, so the filter must not depend on one.
    """
    if scan.lane != "auto" or scan.max_rows is not None or is_planned_here(scan) or depends_on_zone(scan):
        return False
    # Blocks of files in HDFS have hosts, which only a look-up of paths finds.
    return split_location(scan.table.location)[0] != "hdfs" and why_arrow(scan) is None
