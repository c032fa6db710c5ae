"""Make the data frame of a plan: Spark's own Parquet reader reads files if it is exact, Arrow reads the others."""

from __future__ import annotations

import logging
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakescan.common import types as t
from lakescan.errors import LakescanError, UnsupportedFeature
from lakescan.expressions.predicate import has_sql
from lakescan.formats.metadata_table import MetadataTable
from lakescan.local.aggregates import Aggregate, aggregates_by_metadata
from lakescan.planning.plan import ScanPlan
from lakescan.spark.executor import MIN_BYTES, SparkExecutor
from lakescan.spark.following import FOLLOW, FOLLOWING, FollowingRead
from lakescan.spark.native.conditions import SparkFilter
from lakescan.spark.native.file_index import RelationFiles, title_of
from lakescan.spark.native.lanes import Lanes, choose_lanes, why_arrow
from lakescan.spark.native.native_frame import NativeFrame, native_frame
from lakescan.spark.native.packed_files import java_class
from lakescan.spark.optimizer_rules import RAISED
from lakescan.spark.session import create_frame, is_connect, parallelism, session_zone
from lakescan.spark.session_lane import why_session
from lakescan.spark.source.data_source import FollowingSource, ScanSource
from lakescan.spark.source.partitions import read_plan
from lakescan.spark.source.registry import register_sources
from lakescan.spark.types import arrow_schema, schema_of
from lakescan.spark.workers import is_spark, use_this_python
from lakescan.storage.errors import redact
from lakescan.storage.locations import split_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakescan.tables.scan_spec import ScanSpec

_LOG = logging.getLogger("lakescan")


def plan_now(spark: SparkSession, scan: ScanSpec) -> DataFrame:
    """Return the rows of a scan without SQL conditions as a frame that later filters do not narrow.

    If the native lane may read the scan, it is planned now, by Spark's workers or the scan's executor. Other scans
    become a read that a single worker plans when Spark plans the query. They are also planned now if the planning mode,
    the scan's executor, secrets, or the size of the metadata require it, or if the server is not Apache Spark, which
    may read another snapshot in each query of a frame.

    Raises `UnsupportedFeature` for lane=native if the native lane cannot read every file.
    """
    scan = replace(scan, zone=session_zone(spark))
    scan.check_for_workers()
    use_this_python(spark)
    reason = why_arrow(scan) or why_session(spark, scan)
    if reason is not None:
        check_native_lane(scan, {reason: 1})
        plans_here = not is_spark(spark) or scan.storage.has_secrets or is_planned_here(scan)
        return _plan_and_read(spark, scan) if plans_here else _source_frame(spark, scan)
    return frame_of_plan(spark, scan, _plan(spark, scan.prune_deletes()))


def plan_frame(spark: SparkSession, scan: ScanSpec, *, numbers_files: bool) -> tuple[DataFrame, ScanPlan]:
    """Plan a scan now, whatever its planning mode, and return a frame of its rows and the plan.

    SQL conditions are evaluated by Spark on the frame. For `numbers_files`, see `frame_of_plan`. Raises
    `UnsupportedFeature` for lane=native if the native lane cannot read every file.
    """
    scan = replace(scan, zone=session_zone(spark))
    if has_sql(scan.condition):
        spark_filter = SparkFilter(spark, scan)
        frame, plan = plan_frame(spark, spark_filter.rows, numbers_files=numbers_files)
        return spark_filter.filter_frame(frame), plan
    scan.check_for_workers()
    use_this_python(spark)
    if (reason := why_arrow(scan) or why_session(spark, scan)) is not None:
        check_native_lane(scan, {reason: 1})
    plan = _plan(spark, scan)
    return frame_by_relation(spark, scan, plan, numbers_files=numbers_files), plan


def frame_by_relation(spark: SparkSession, scan: ScanSpec, plan: ScanPlan, *, numbers_files: bool) -> DataFrame:
    """Make a plan's frame as `frame_of_plan` does, but without a look-up of the files in a classic session.

    On Connect, for tables in HDFS, or if this Spark does not allow it, Spark gets the paths of the files and looks them
    up.
    """
    # Blocks of files in HDFS have hosts, which only a look-up of paths finds.
    if not is_connect(spark) and split_location(scan.table.location)[0] != "hdfs":
        try:
            java_class(spark)
            RAISED.install()
            RAISED.note_table(scan.table.location)
            reader = partial(RelationFiles, title=title_of(scan, plan), compares_micros=True)
            return frame_of_plan(spark, scan, plan, numbers_files=numbers_files, reader=reader)
        except LakescanError:
            raise
        except Exception as error:  # a Spark that differs from the tested versions
            _LOG.debug("Spark looks up the files of %s: %s", redact(scan.location), type(error).__name__)
    return frame_of_plan(spark, scan, plan, numbers_files=numbers_files)


def frame_of_plan(
    spark: SparkSession,
    scan: ScanSpec,
    plan: ScanPlan,
    *,
    numbers_files: bool = False,
    reader: Callable[..., NativeFrame] | None = None,
    lanes: Lanes | None = None,
) -> DataFrame:
    """Return the rows of a scan's plan, without SQL conditions: native files and files of the Arrow lane as one frame.

    With `numbers_files`, the column `_file` is the number of the file in the plan, which is smaller than its path.
    `reader` is as in `native_frame`. `lanes` are the lanes if they are already chosen. Raises `UnsupportedFeature` for
    lane=native if the native lane cannot read every file.
    """
    scan = replace(scan, zone=session_zone(spark))
    paths = plan.table.files["path"].combine_chunks() if numbers_files else None
    reason = why_arrow(scan) or why_session(spark, scan)
    if reason is not None:
        return read_plan(spark, scan, plan, paths)
    lanes = lanes or choose_lanes(scan, plan, spark, looks_up=reader is None)
    check_native_lane(scan, lanes.reasons)
    frames = []
    if lanes.native.any():
        frames.append(native_frame(spark, scan, plan, lanes, paths, reader))
    if not lanes.native.all() or not frames:
        others = plan.table.filter(pa.array(~lanes.native))
        rest = scan.pack_few_groups().plan_table(others, parallelism=_parallelism(spark, scan))
        frames.append(read_plan(spark, scan, rest, paths))
    frame = frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
    return frame if plan.limit is None else frame.limit(plan.limit)


def cheapest_column(scan: ScanSpec) -> str:
    """Return the name of the column that is cheapest to read, for a query that needs none.

    Arrow needs one to have rows.
    """
    fields = scan.output.fields
    plain = (each for each in fields if each.type in (t.BOOLEAN, *t.INTEGRAL, t.DATE, *t.FLOATING))
    return next(plain, fields[0]).name


def totals_by_metadata(scan: ScanSpec, wanted: Sequence[Aggregate]) -> list[pa.Scalar] | None:
    """Return the values of aggregates as Spark computes them, if metadata alone proves all of them; else None."""
    if any(field.width for field in t.walk(scan.output.fields)):  # CHAR(n) is padded
        return None
    values = aggregates_by_metadata(scan, wanted, with_times=True)
    # Parquet bounds have one sign for zeros, whatever sign the rows have.
    if values is None or any(pa.types.is_floating(each.type) and each.as_py() == 0 for each in values):
        return None
    return values


def check_native_lane(scan: ScanSpec, reasons: dict[str, int]) -> None:
    """Raise `UnsupportedFeature` if the option `lane` is native and there are `reasons` for the Arrow lane."""
    if reasons and scan.options.lane == "native":
        raise UnsupportedFeature("the native lane for this scan", f"{next(iter(reasons))}. Use lane=auto to read it.")


def is_planned_here(scan: ScanSpec) -> bool:
    """Return whether the driver plans the scan now, instead of a Python data source when Spark plans the query.

    This is so for a scan with an executor, with large metadata, with distributed planning, or that options cannot
    describe.
    """
    data, deletes = scan.planning_mode("data"), scan.planning_mode("delete")
    # A data source gets a scan as text options, which cannot express every scan.
    if scan.executor is not None or not scan.fits_options or "distributed" in (data, deletes):
        return True
    return data == "auto" and scan.metadata_bytes >= MIN_BYTES


def is_planned_by_workers(scan: ScanSpec) -> bool:
    """Return whether Spark's workers plan a scan: with distributed planning, or with large metadata."""
    data, deletes = scan.planning_mode("data"), scan.planning_mode("delete")
    return "distributed" in (data, deletes) or (data == "auto" and scan.metadata_bytes >= MIN_BYTES)


def metadata_frame(spark: SparkSession, table: MetadataTable, read: FollowingRead, columns: Sequence[str]) -> DataFrame:
    """Return columns of a metadata table as a frame with the types of `read`; without columns, the first one.

    The driver reads a few parts, and Spark's workers read many.
    """
    names = list(columns) or read.schema.names[:1]
    schema = StructType([read.schema[name] for name in names])
    narrow = read.narrow_metadata(table, names)

    def lakescan_metadata(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column(0).to_pylist():
                yield from map(narrow, table.read(pickle.loads(data)))

    parts = table.parts()
    if len(parts) > _MOST_READ_HERE:
        sent = pa.table({"part": pa.array([pickle.dumps(each, protocol=5) for each in parts], pa.binary())})
        tasks = min(len(parts), 4 * parallelism(spark))
        return create_frame(spark, sent).coalesce(1).repartition(tasks).mapInArrow(lakescan_metadata, schema)
    found = [narrow(batch) for part in parts for batch in table.read(part)]
    rows = pa.Table.from_batches(found, schema=arrow_schema(schema))
    return create_frame(spark, rows, schema) if len(rows) else spark.createDataFrame([], schema)


def _plan(spark: SparkSession, scan: ScanSpec) -> ScanPlan:
    scan = replace(scan, engine=("spark", spark.version))
    planner = scan if scan.executor is not None else replace(scan, executor=SparkExecutor(spark))
    return planner.plan(_parallelism(spark, scan))


def _parallelism(spark: SparkSession, scan: ScanSpec) -> int:
    """Return the number of concurrent tasks to split for: the scan's option, else the session's parallelism."""
    return scan.options.parallelism or parallelism(spark)


def _plan_and_read(spark: SparkSession, scan: ScanSpec) -> DataFrame:
    return read_plan(spark, scan, _plan(spark, scan.pack_few_groups().prune_deletes()))


def _source_frame(spark: SparkSession, scan: ScanSpec) -> DataFrame:
    """Return a read of the scan by the data source `lakescan`, registered again with the session's current settings."""
    register_sources(spark, ("lakescan",))
    return create_read(spark, scan)


def create_read(spark: SparkSession, scan: ScanSpec) -> DataFrame:
    """Return a read of the scan by the data source `lakescan`, with its schema, so Spark starts no worker."""
    options = scan.to_options()
    FRAMES.keep(options, scan)
    frame = spark.read.format("lakescan").schema(schema_of(scan)).options(**options).load()
    if not is_connect(spark):
        with suppress(Exception):  # in a Spark that differs, only this session can read it
            java_class(spark).findSource(frame._jdf)
    return frame


def create_read_with_scan(spark: SparkSession, scan: ScanSpec) -> DataFrame | None:
    """Return a read whose data source is pickled with the scan, for scans whose options would show secrets in plans.

    None if the scan cannot be pickled, or if this Spark cannot take the data source.
    """
    options = {"scan": uuid4().hex}
    try:
        pickled = CloudPickleSerializer().dumps(ScanSource(scan, _parallelism(spark, scan)))
        frame = spark.read.format("lakescan").schema(schema_of(scan)).options(**options).load()
        java_class(spark).giveSource(frame._jdf, bytearray(pickled))
    except Exception as error:
        _LOG.debug("a frame of %s is planned at its creation: %s", redact(scan.location), type(error).__name__)
        return None
    FRAMES.keep(options, scan)
    return frame


def create_following_read(spark: SparkSession, read: FollowingRead) -> DataFrame:
    """Return a read by the data source `lakescan` that follows its table.

    The optimizer rule plans it. Where it is not installed, the data source opens the table when Spark plans the read.
    If its options would show secrets in plans, the data source is pickled with the read instead. Raises
    `UnsupportedFeature` if that is impossible.
    """
    options = {FOLLOW: uuid4().hex} if read.has_secrets else read.to_options()
    frame = spark.read.format("lakescan").schema(read.schema).options(**options).load()
    if not is_connect(spark):
        _give_source(spark, frame, read)
    FOLLOWING.keep(options, read)
    return frame


def _give_source(spark: SparkSession, frame: Any, read: FollowingRead) -> None:
    """Give a frame its data source; raises `UnsupportedFeature` if that is needed to hide secrets, and fails."""
    try:
        if read.has_secrets:
            pickled = CloudPickleSerializer().dumps(FollowingSource(read, _parallelism(spark, read.spec)))
            java_class(spark).giveSource(frame._jdf, bytearray(pickled))
        else:
            java_class(spark).findSource(frame._jdf)
    except Exception as error:  # in a Spark that differs, only this session can read it
        if read.has_secrets:
            raise UnsupportedFeature(
                f"a frame that follows {read.spec.name or redact(read.spec.location)} on this Spark",
                f"Its storage settings cannot be hidden ({type(error).__name__}). Read a fixed version of it.",
            ) from error


class ScanCache:
    """The scans of the most recent frames, by the options of their reads, for the optimizer rule.

    The options select one snapshot or version of a table, or contain a unique id of a frame.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[frozenset[tuple[str, str]], ScanSpec] = OrderedDict()
        self._lock = Lock()

    def keep(self, options: Mapping[str, str], scan: ScanSpec) -> None:
        """Store the scan of a frame with these options, and remove the least recent ones above a limit."""
        with self._lock:
            self._known[_key(options)] = scan
            self._known.move_to_end(_key(options))
            while len(self._known) > _MOST_FRAMES:
                self._known.popitem(last=False)

    def find(self, options: Mapping[str, str]) -> ScanSpec | None:
        """Return the scan of a frame with these options; None if it is not in the cache."""
        with self._lock:
            return self._known.get(_key(options))


def _key(options: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((name.lower(), value) for name, value in options.items())


_MOST_FRAMES = 64
_MOST_READ_HERE = 32  # parts of a metadata table
FRAMES = ScanCache()
