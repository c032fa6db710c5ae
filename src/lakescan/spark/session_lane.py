"""Decide whether Spark's own reader or only the Arrow lane serves a session's reads, and give the reason.

Reads of lakescan's data sources are complete by themselves: Python workers read the rows through Arrow. On the
releases of Apache Spark that were tested, `registration.py` replaces these reads by scans of Spark's Parquet reader: in
a classic session by an optimizer rule (`native/read_rule.py`), on Connect by a hook of the client (`connect/hook.py`).
This module decides everything that depends only on the session. `native/lanes.py` decides for a table and for a file.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from lakescan.errors import InvalidOption, nearest
from lakescan.spark.session import conf, is_connect, try_set
from lakescan.spark.workers import is_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakescan.options.read import ReadOptions
    from lakescan.tables.scan_spec import ScanSpec

TRIED = ((4, 1), (4, 2), (4, 3))
FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
WITHOUT_IDS = "spark.sql.parquet.fieldId.read.ignoreMissing"
NULL_STRUCTS = "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing"
_LANE, _LANES = "LAKESCAN_SPARK_LANE", ("auto", "arrow", "native")
_NO_SPARK = "the session's server is not Apache Spark, and has another Parquet reader"
_UNTRIED = f"Spark's own reader is untested with it ({_LANE}=native uses it)"
_OF_DATABRICKS = "spark.databricks.clusterUsageTags.sparkVersion"
_RELEASE = re.compile(r"(\d+)\.(\d+)\.\d+")
_platforms: WeakKeyDictionary[SparkSession, tuple[str | None]] = WeakKeyDictionary()


def why_arrow_session(spark: SparkSession, options: ReadOptions | None = None) -> str | None:
    """Return why a session's reads use only the Arrow lane; None if Spark's own reader may serve them.

    Args:
        spark: A session, classic or Connect.
        options: The options of a read. `lane` takes precedence over the environment variable `LAKESCAN_SPARK_LANE`.

    Raises:
        InvalidOption: The environment variable has an unknown value.
    """
    if not is_spark(spark):
        return _NO_SPARK
    lane = _lane_of_environment()
    if lane == "arrow" and (options is None or "lane" not in options.given):
        return f"the environment variable {_LANE} is arrow"
    return None if lane == "native" else _why_untried(spark)


def may_replace_reads(spark: SparkSession) -> bool:
    """Return whether scans of Spark's own reader may replace a session's reads: on tested platforms, or if forced.

    Raises `InvalidOption` if the environment variable `LAKESCAN_SPARK_LANE` has an unknown value.
    """
    return is_spark(spark) and (_lane_of_environment() == "native" or _why_untried(spark) is None)


def why_session(spark: SparkSession, scan: ScanSpec) -> str | None:
    """Return why a session uses only the Arrow lane for a scan, whatever its files; None without a reason.

    Sets `spark.sql.parquet.fieldId.read.enabled` in the session if the scan's columns are found by field id.
    """
    if (reason := why_arrow_session(spark, scan.options)) is not None:
        return reason
    if scan.read_context().matching.by_id and not try_set(spark, FIELD_IDS, "true"):
        return f"the platform does not allow setting {FIELD_IDS}, which finds columns by field id"
    if scan.read_context().matching.by_id and conf(spark, WITHOUT_IDS) == "true":
        return f"{WITHOUT_IDS} is true: all columns of a file without field ids would be null"
    if conf(spark, NULL_STRUCTS) == "true":
        return f"{NULL_STRUCTS} is true: structs whose fields are all newer than the file would be null"
    return None


def _lane_of_environment() -> str:
    lane = os.environ.get("LAKESCAN_SPARK_LANE") or "auto"
    if lane not in _LANES:
        expected = f"has to be one of {', '.join(_LANES)}, not {lane!r}.{nearest(lane, _LANES)}"
        raise InvalidOption(f"the environment variable {_LANE} {expected}")
    return lane


def _why_untried(spark: SparkSession) -> str | None:
    """Return why a session's platform is untested: a vendor's Spark, or an untested version. None if it is tested.

    The result is cached for the session.
    """
    if spark not in _platforms:
        _platforms[spark] = (_platform_reason(spark),)
    (reason,) = _platforms[spark]
    return reason


def _platform_reason(spark: SparkSession) -> str | None:
    import pyspark

    server = spark.version
    if "DATABRICKS_RUNTIME_VERSION" in os.environ or conf(spark, _OF_DATABRICKS) is not None:
        return f"the platform is Databricks: {_UNTRIED}"
    if "amzn" in server:
        return f"the Spark {server} is Amazon's: {_UNTRIED}"
    versions = {"Spark": server}
    if is_connect(spark):
        versions["the client PySpark"] = pyspark.__version__
    for name, version in versions.items():
        release = _RELEASE.fullmatch(version)
        if release is None:
            return f"{name} {version} is not a release of Apache Spark, or is a vendor's: {_UNTRIED}"
        if (int(release[1]), int(release[2])) not in TRIED:
            tried = ", ".join(f"{major}.{minor}" for major, minor in TRIED)
            return f"{name} {version} is not one of the tested versions {tried}: {_UNTRIED}"
    return None
