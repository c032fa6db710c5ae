"""Registering the data sources with a session, classic or Connect. Only public session calls are used."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lakescan.catalogs.registry import given
from lakescan.errors import missing_dependency

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_MOST_LISTED = 4096
NAMES = ("iceberg", "delta", "lakescan")


def register(spark: SparkSession, *, pushdown: bool = False, names: Sequence[str] = NAMES) -> None:
    """Make `iceberg`, `delta` and `lakescan` formats of a session, for `spark.read.format(...)` and `USING ...`.

    Filters of a query are not pushed into these formats, whatever the session's setting: Spark 4.1 to 4.3 give wrong
    rows then (see `lakescan.spark.pushdown`). The options `columns` and `where` narrow a read. With `pushdown`,
    `spark.sql.python.filterPushdown.enabled` is switched on and filters prune files: raises `UnsupportedFeature` where
    a trial shows that this Spark keeps them for later queries.

    The session's time zone, which times without an offset are of (`timestampAsOf`, ...), is noted now: call this again
    after changing it. `names` are the formats to register; leave `iceberg` or `delta` out where a JAR of theirs should
    keep the name.
    """
    try:
        from lakescan.spark.pushdown import switch_on
        from lakescan.spark.source import source_class
        from lakescan.spark.workers import use_this_python
    except ImportError as error:
        raise missing_dependency("pyspark", "spark", "reading on Spark") from error
    use_this_python(spark)
    if pushdown:
        switch_on(spark)
    zone = conf(spark, "spark.sql.session.timeZone") or "UTC"
    for name in names:
        source = source_class(name, pushdown=pushdown, parallelism=parallelism(spark), time_zone=zone, catalogs=given())
        spark.dataSource.register(source)


def is_connect(spark: SparkSession) -> bool:
    """Whether it is a Connect session, whose server runs elsewhere and before it."""
    return "connect" in type(spark).__module__


def parallelism(spark: SparkSession) -> int:
    """How many tasks the session runs at once, as far as its settings tell; what splits should keep busy."""
    for name in ("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism"):
        if (value := conf(spark, name)) and value.isdigit():
            return int(value)
    local = re.fullmatch(r"local\[(\d+|\*)(?:,.*)?\]", conf(spark, "spark.master") or "")
    if local is not None:
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
    executors, cores = conf(spark, "spark.executor.instances"), conf(spark, "spark.executor.cores")
    if executors and executors.isdigit():
        return int(executors) * int(cores or 1)
    return int(conf(spark, "spark.sql.shuffle.partitions") or 200)


def conf(spark: SparkSession, name: str) -> str | None:
    """A session setting; None where it is unset, or the platform hides it."""
    from pyspark.errors import PySparkException

    try:
        value: Any = spark.conf.get(name, None)
    except PySparkException:
        return None
    return None if value is None else str(value)


def try_set(spark: SparkSession, name: str, value: str) -> bool:
    """Set a session setting, and say whether it has the value now: some platforms keep theirs."""
    from pyspark.errors import PySparkException

    if conf(spark, name) != value:
        with contextlib.suppress(PySparkException):
            spark.conf.set(name, value)
    return conf(spark, name) == value


@contextlib.contextmanager
def listing_here(spark: SparkSession, paths: int) -> Iterator[None]:
    """Have the driver look up some thousand paths itself: Spark's rule is a job of a task a path from 33 paths on."""
    name = "spark.sql.sources.parallelPartitionDiscovery.threshold"
    before = conf(spark, name)
    if paths > _MOST_LISTED or not try_set(spark, name, str(_MOST_LISTED)):
        yield
        return
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
