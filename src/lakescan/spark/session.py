"""Registering the data sources with a session, classic or Connect. Only public session calls are used."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import tzinfo
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from lakescan.catalogs.registry import all_configurations, watch
from lakescan.errors import InvalidOption, missing_dependency
from lakescan.expressions.text_casts import zone_of_name
from lakescan.storage.errors import error_text
from lakescan.storage.locations import split_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_MOST_LISTED = 4096  # files of HDFS that the driver looks up
_MOST_IN_TURN = 8  # files of object stores
NAMES = ("iceberg", "delta", "lakescan")
LISTED_HERE, _TASKS = (f"spark.sql.sources.parallelPartitionDiscovery.{each}" for each in ("threshold", "parallelism"))
ZONE = "spark.sql.session.timeZone"
_OF_PARALLELISM = (
    *("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism", "spark.master"),
    *("spark.executor.instances", "spark.executor.cores", "spark.sql.shuffle.partitions"),
)
# The settings on which planning a scan depends: Connect asks its server for each, so a query asks for all at once.
OF_PLANNING = (ZONE, *_OF_PARALLELISM, "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing")
_KNOWN: ContextVar[Mapping[str, str | None]] = ContextVar("lakescan_known_settings")
_LOG = logging.getLogger("lakescan")
_NO_SOURCES: Mapping[str, dict[str, Any]] = {}
_SOURCES: WeakKeyDictionary[SparkSession, dict[str, dict[str, Any]]] = WeakKeyDictionary()  # by format


def register(spark: SparkSession, *, pushdown: bool = False, names: Sequence[str] = NAMES) -> None:
    """Register the formats `iceberg`, `delta` and `lakescan` with a session, for `spark.read.format(...)` and `USING`.

    Before Spark plans a query, reads of these formats are replaced by scans of Spark's own Parquet reader, over the
    files and columns that the query needs: in a classic session by an optimizer rule, on Connect by a hook of the
    client, which this call installs. Reads that this reader cannot do exactly stay in Python workers. There, filters
    are not pushed into the formats, because Spark 4.1 to 4.3 then return wrong rows (see
    `lakescan.spark.source.pushdown`): narrow such a read with the options `columns` and `where`. Times without a time
    zone, in options (`timestampAsOf`, `where`, ...), are in the session's time zone at the time of this call, and
    `spark.wap.branch` is read as it is then: call it again after changing either. Catalogs that are given to
    `lakescan.catalog` later, or again with other properties, reach the session by themselves.

    Args:
        spark: A session, classic or Connect.
        pushdown: Set `spark.sql.python.filterPushdown.enabled`, so that filters prune files.
        names: The formats to register; leave out `iceberg` or `delta` if a JAR provides that format.

    Raises:
        UnsupportedFeature: `pushdown` is set, and a trial query shows that this Spark reuses pushed filters for later
            queries.
        MissingDependency: PySpark is not installed.

    Example:
        >>> lakescan.spark.register(spark)
        >>> spark.read.format("delta").load("/lake/customers")
    """
    try:
        from lakescan.spark.session_lane import replace_reads
        from lakescan.spark.source.pushdown import enable_pushdown
        from lakescan.spark.wap import settings_of_session
        from lakescan.spark.workers import use_this_python
        from lakescan.spark.writing.arrow_batches import bound_writes
    except ImportError as error:
        raise missing_dependency("pyspark", "spark", "reading on Spark") from error
    use_this_python(spark)
    if pushdown:
        enable_pushdown(spark)
    settings: dict[str, Any] = {
        "pushdown": pushdown,
        "parallelism": parallelism(spark),
        "time_zone": zone_name(spark),
        "session": settings_of_session(spark),
    }
    _register_sources(spark, dict.fromkeys(names, settings))
    _SOURCES[spark] = {**_SOURCES.get(spark, {}), **dict.fromkeys(names, settings)}
    watch(_send_catalogs)
    bound_writes(spark)
    session = ref(spark)
    replace_reads(spark, lambda: _NO_SOURCES if (found := session()) is None else _SOURCES.get(found, _NO_SOURCES))


def formats_of(spark: SparkSession) -> Mapping[str, Mapping[str, Any]]:
    """The formats that are registered with a session, each with the settings of its data source."""
    return _SOURCES.get(spark, _NO_SOURCES)


def _register_sources(spark: SparkSession, sources: Mapping[str, dict[str, Any]]) -> None:
    """Register data sources, by format, with a session."""
    from lakescan.spark.source.data_source import source_class

    with activate_session(spark):
        for name, settings in sources.items():
            spark.dataSource.register(source_class(name, **settings, catalogs=all_configurations()))


@contextlib.contextmanager
def activate_session(spark: SparkSession) -> Iterator[None]:
    """Make a classic session the active one of this thread for a while.

    Spark refuses a data source whose name it finds, and looks for it in the active session instead of the one that the
    data source is registered with: after `newSession`, that is the first session.
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


# A child of a fork shares the sockets of its parent, and must not send anything to the parent's sessions.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_SOURCES.clear)


def _has_ended(spark: SparkSession) -> bool:
    if is_connect(spark):
        return bool(getattr(spark, "is_stopped", False))
    session: Any = spark
    return bool(session._jsparkSession.sparkContext().isStopped())


def _send_catalogs() -> None:
    """Register the formats again with the sessions that have them: a source is sent with the catalogs of its time."""
    for spark, sources in list(_SOURCES.items()):
        try:
            if _has_ended(spark):
                del _SOURCES[spark]
                continue
            _register_sources(spark, sources)
        except Exception as error:  # the session has ended, or its server does not answer
            del _SOURCES[spark]
            _LOG.warning(
                "a Spark session did not get the new properties of a catalog, and reads and writes with the earlier "
                "ones. If it goes on, call lakescan.spark.register for it: %s",
                error_text(error),
            )


def session_zone(spark: SparkSession) -> tzinfo:
    """Return the session's time zone, in which Spark reads timestamps without one; raises `InvalidOption`."""
    name = zone_name(spark)
    try:
        return zone_of_name(name)
    except ValueError:
        raise InvalidOption(f"the session's time zone {name!r} is not known here: use a name such as UTC") from None


def zone_name(spark: SparkSession) -> str:
    """Return the name of the session's time zone: the setting, else the zone of Spark's JVM."""
    from pyspark.errors import PySparkException

    found = conf(spark, ZONE)
    if found is None:  # a default is returned only to those who ask without one
        with contextlib.suppress(PySparkException):
            found = spark.conf.get(ZONE)
    return found or "UTC"


def is_connect(spark: SparkSession) -> bool:
    """Whether it is a Connect session, whose server is a separate process that was started before."""
    return "connect" in type(spark).__module__


def parallelism(spark: SparkSession) -> int:
    """The number of tasks that the session runs concurrently, as far as its settings tell."""
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
    """The value of a session setting; None if it is unset or the platform hides it."""
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
    """Context manager: `conf` returns these settings of the session without asking its server again."""
    token = _KNOWN.set(settings)
    try:
        yield
    finally:
        _KNOWN.reset(token)


def confs(spark: SparkSession, names: Iterable[str]) -> dict[str, str]:
    """The values of those session settings that are set, in the order of their names.

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


def try_set(spark: SparkSession, name: str, value: str) -> bool:
    """Set a session setting; return whether it has the value now, as some platforms do not allow changes."""
    from pyspark.errors import PySparkException

    if conf(spark, name) == value:
        return True
    with contextlib.suppress(PySparkException), cache_settings({}):
        spark.conf.set(name, value)
        return conf(spark, name) == value
    return False


@contextlib.contextmanager
def look_up_on_driver(spark: SparkSession, paths: Sequence[str]) -> Iterator[None]:
    """Let the driver look up paths itself: from 33 paths on, Spark would run a job with a task per path.

    The driver does so one after the other, 100,000 local files in 11 s; such a job took 75 s. Of HDFS, it looks up some
    thousand at most. In object stores, each file takes two round trips: a job looks them up, with as many tasks as run
    at once.
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
    """Whether the driver looks up these paths with the settings of the session as they are."""
    value = settings.get(LISTED_HERE)
    is_few = value is not None and value.isdecimal() and len(paths) <= int(value)
    return is_few and all(split_location(path)[0] in ("file", "hdfs") for path in paths)


def _listing_settings(spark: SparkSession, paths: Sequence[str]) -> Mapping[str, int]:
    """The settings of a session by which it looks up these paths."""
    if any(split_location(path)[0] not in ("file", "hdfs") for path in paths):
        return {LISTED_HERE: _MOST_IN_TURN, _TASKS: parallelism(spark)}
    is_for_job = len(paths) > _MOST_LISTED and not all(path.startswith("file:") for path in paths)
    return {} if is_for_job else {LISTED_HERE: max(_MOST_LISTED, len(paths))}


def hadoop_settings(spark: SparkSession) -> Mapping[str, str]:
    """Hadoop's settings as far as the session's own tell; files of the cluster (`core-site.xml`) may set others.

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
