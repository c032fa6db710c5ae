"""`lakescan.spark.register`: the data sources of a session, and the replacement of their reads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from lakescan.errors import missing_dependency
from lakescan.spark import session_lane
from lakescan.spark.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("lakescan")
_failures: WeakKeyDictionary[SparkSession, str] = WeakKeyDictionary()
NAMES = ("iceberg", "delta", "lakescan")


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
        from lakescan.spark.source.pushdown import enable_pushdown
        from lakescan.spark.source.registry import formats_of, register_sources
        from lakescan.spark.workers import use_this_python
        from lakescan.spark.writing.arrow_batches import bound_writes
    except ImportError as error:
        raise missing_dependency("pyspark", "spark", "reading on Spark") from error
    use_this_python(spark)
    if pushdown:
        enable_pushdown(spark)
    register_sources(spark, names, pushdown=pushdown)
    bound_writes(spark)
    session = ref(spark)
    _replace_reads(spark, lambda: {} if (found := session()) is None else formats_of(found))


def _replace_reads(spark: SparkSession, sources: Callable[[], Mapping[str, Mapping[str, Any]]]) -> None:
    """Install the rule or hook that replaces a session's reads, unless the session can only use the Arrow lane.

    If the installation fails, reads stay with the data source, and `describe_reads` reports the reason.

    Args:
        spark: A session, classic or Connect.
        sources: Returns the settings of the data sources that are registered with the session, by format.
    """
    if not session_lane.may_replace_reads(spark):
        return
    try:
        if is_connect(spark):
            from lakescan.spark.connect import hook

            hook.install(spark, sources)
        else:
            from lakescan.spark.native import read_rule as rule

            rule.install(spark)
        _failures.pop(spark, None)
    except Exception as error:  # from Java, py4j, or a client without a name that the hook needs
        _LOG.debug("reads stay with the data source: the replacement cannot be installed", exc_info=True)
        _failures[spark] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error) else ''}"


def replaces_reads(spark: SparkSession) -> bool:
    """Return whether a session's reads are replaced, that is whether `register` has installed the rule or the hook."""
    if is_connect(spark):
        from lakescan.spark.connect import hook

        return hook.is_installed(spark)
    from lakescan.spark.native import read_rule as rule

    return rule.is_installed(spark)


def describe_reads(spark: SparkSession) -> str:
    """Describe in one line how a session reads rows, with the reason for the Arrow lane."""
    if (reason := session_lane.why_arrow_session(spark)) is not None:
        return f"in the Arrow lane: {reason}"
    if replaces_reads(spark):
        means = "a hook of the client" if is_connect(spark) else "an optimizer rule"
        return f"replaced by scans of Spark's Parquet reader, by {means}"
    if (failure := _failures.get(spark)) is not None:
        return f"in the Arrow lane: the replacement cannot be installed ({failure})"
    return "not replaced yet: lakescan.spark.register(spark) was not called"
