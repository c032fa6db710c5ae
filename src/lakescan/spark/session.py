"""Settings of a Spark session, classic or Connect, read and changed through public calls only."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.errors import InvalidOption
from lakescan.expressions.text_casts import zone_of_name
from lakescan.storage.locations import split_location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_MOST_LISTED = 4096  # files of HDFS that the driver looks up
_MOST_IN_TURN = 8  # files of object stores
LISTED_HERE, _TASKS = (f"spark.sql.sources.parallelPartitionDiscovery.{each}" for each in ("threshold", "parallelism"))
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
ZONE = "spark.sql.session.timeZone"
_OF_PARALLELISM = (
    *("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism", "spark.master"),
    *("spark.executor.instances", "spark.executor.cores", "spark.sql.shuffle.partitions"),
)
# The settings on which planning a scan depends: Connect asks its server for each, so a query asks for all at once.
OF_PLANNING = (ZONE, *_OF_PARALLELISM, "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing")
_KNOWN: ContextVar[Mapping[str, str | None]] = ContextVar("lakescan_known_settings")


@contextlib.contextmanager
def activate_session(spark: SparkSession) -> Iterator[None]:
    """Context manager: make a classic session the active one of this thread. Nothing is done for a Connect session.

    When a data source is registered, Spark looks for one of the same name in the active session instead of the given
    one, and refuses it if found. After `newSession`, the active session is the first one.
    """
    if is_connect(spark):
        yield
        return
    session: Any = spark
    java: Any = session._jvm.org.apache.spark.sql.classic.SparkSession
    before = java.getActiveSession()
    java.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        java.setActiveSession(before.get()) if before.isDefined() else java.clearActiveSession()


def session_zone(spark: SparkSession) -> tzinfo:
    """Return the session's time zone, in which Spark reads timestamps without one.

    Raises `InvalidOption` for a name that Python's zones lack.
    """
    name = zone_name(spark)
    try:
        return zone_of_name(name)
    except ValueError:
        raise InvalidOption(f"the session's time zone {name!r} is not known here: use a name such as UTC") from None


def zone_name(spark: SparkSession) -> str:
    """Return the name of the session's time zone: the setting, else the zone of Spark's JVM, else UTC."""
    from pyspark.errors import PySparkException

    found = conf(spark, ZONE)
    if found is None:  # a default is returned only to those who ask without one
        with contextlib.suppress(PySparkException):
            found = spark.conf.get(ZONE)
    return found or "UTC"


def is_connect(spark: SparkSession) -> bool:
    """Return whether it is a Spark Connect session, whose server is a separate process."""
    return "connect" in type(spark).__module__


def parallelism(spark: SparkSession) -> int:
    """Return the number of tasks that the session runs concurrently, estimated from its settings.

    Without settings of parallelism, a local master or executors, it is the number of shuffle partitions.
    """
    for name in ("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism"):
        if (value := conf(spark, name)) and value.isdecimal():
            return int(value)
    local = re.fullmatch(r"local\[(\d+|\*)(?:,.*)?\]", conf(spark, "spark.master") or "")
    if local is not None:
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
    executors, cores = conf(spark, "spark.executor.instances"), conf(spark, "spark.executor.cores")
    if executors and executors.isdecimal():
        return int(executors) * int(cores or 1)
    return int(conf(spark, "spark.sql.shuffle.partitions") or 200)


def conf(spark: SparkSession, name: str) -> str | None:
    """Return the value of a session setting; None if it is unset or the platform hides it."""
    from pyspark.errors import PySparkException

    known = _KNOWN.get({})
    if name in known:
        return known[name]
    try:
        value: Any = spark.conf.get(name, None)
    except PySparkException:
        return None
    return None if value is None else str(value)


@contextlib.contextmanager
def cache_settings(settings: Mapping[str, str | None]) -> Iterator[None]:
    """Context manager: in this thread, `conf` returns the settings in `settings` without asking the session."""
    token = _KNOWN.set(settings)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def confs(spark: SparkSession, names: Iterable[str]) -> dict[str, str]:
    """Return the values of those session settings that are set, by name in the order of `names`.

    Connect sends all settings in one response. On classic PySpark, reading all is slower than asking for some dozens.
    """
    from pyspark.errors import PySparkException

    if is_connect(spark):
        try:
            known: Mapping[str, Any] = spark.conf.getAll
        except PySparkException:
            return {}
        return {name: str(known[name]) for name in names if name in known}
    found = {name: conf(spark, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def create_frame(spark: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Return an Arrow table as a data frame.

    PySpark's own `createDataFrame` loses the rows after an empty batch (4.1 to 4.3), so empty batches are left out.

    Args:
        spark: A session, classic or Connect.
        rows: The rows.
        schema: Their Spark schema; None to infer it.
    """
    batches = [each for each in rows.to_batches() if each.num_rows]
    if not batches:
        batches = [pa.RecordBatch.from_pylist([], schema=rows.schema)]  # PySpark needs a batch
    whole = pa.Table.from_batches(batches, schema=rows.schema)
    return spark.createDataFrame(whole) if schema is None else spark.createDataFrame(whole, schema)


def reason_for_young_files(spark: SparkSession) -> str | None:
    """Return why VACUUM may delete files within the retention: the session's setting allows it. None if not."""
    return f"{_RETENTION_CHECK}=false" if (conf(spark, _RETENTION_CHECK) or "true").lower() == "false" else None


def try_set(spark: SparkSession, name: str, value: str) -> bool:
    """Set a session setting; return whether it has the value then, as some platforms do not allow changes."""
    from pyspark.errors import PySparkException

    if conf(spark, name) == value:
        return True
    with contextlib.suppress(PySparkException), cache_settings({}):
        spark.conf.set(name, value)
        return conf(spark, name) == value
    return False


@contextlib.contextmanager
def look_up_on_driver(spark: SparkSession, paths: Sequence[str]) -> Iterator[None]:
    """Context manager: the driver looks up paths itself. From 33 paths on, Spark would run a job with a task per path.

    The driver looks them up one after the other: 100,000 local files in 11 s, where such a job took 75 s. Of HDFS, it
    looks up at most some thousand. In object stores, each file takes two round trips: a job looks them up, with as many
    tasks as run concurrently.
    """
    settings = _listing_settings(spark, paths)
    before = {name: conf(spark, name) for name in settings}
    if _looks_up_here(paths, before):
        yield
        return
    changed = [name for name, value in settings.items() if try_set(spark, name, str(value))]
    try:
        yield
    finally:
        for name in changed:
            if (old := before[name]) is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _looks_up_here(paths: Sequence[str], settings: Mapping[str, str | None]) -> bool:
    """Return whether the driver already looks up these paths itself, given the session's `settings`."""
    value = settings.get(LISTED_HERE)
    is_few = value is not None and value.isdecimal() and len(paths) <= int(value)
    return is_few and all(split_location(path)[0] in ("file", "hdfs") for path in paths)


def _listing_settings(spark: SparkSession, paths: Sequence[str]) -> Mapping[str, int]:
    """Return the session settings for the fastest look-up of these paths, with their values; empty for no changes."""
    if any(split_location(path)[0] not in ("file", "hdfs") for path in paths):
        return {LISTED_HERE: _MOST_IN_TURN, _TASKS: parallelism(spark)}
    is_for_job = len(paths) > _MOST_LISTED and not all(path.startswith("file:") for path in paths)
    return {} if is_for_job else {LISTED_HERE: max(_MOST_LISTED, len(paths))}


def hadoop_settings(spark: SparkSession) -> Mapping[str, str]:
    """Return Hadoop's settings that the session's own settings contain; files such as `core-site.xml` may set others.

    They hold secrets. Those of the session itself (`fs.s3a.endpoint`) override those that Spark was started with
    (`spark.hadoop.fs.s3a.endpoint`). Empty if the platform hides them.
    """
    from pyspark.errors import PySparkException

    try:
        own: dict[str, str] = dict(spark.conf.getAll)
    except PySparkException:
        return {}
    # In a classic session, settings of that name have no effect once Spark runs, although the session keeps them.
    started = own if is_connect(spark) else dict(spark.sparkContext.getConf().getAll())
    prefix = "spark.hadoop."
    of_start = {name.removeprefix(prefix): each for name, each in started.items() if name.startswith(prefix)}
    return {**of_start, **own}
