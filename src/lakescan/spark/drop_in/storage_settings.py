"""Hadoop's settings of an enabled session as storage options of tables by path, as the JARs use them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import ref

from lakescan.spark.drop_in.sessions import has_stopped
from lakescan.spark.session import hadoop_settings, is_connect
from lakescan.storage.settings.hadoop_defaults import use_hadoop_defaults

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Jobs set these in Hadoop's configuration itself, of which Spark's settings know nothing.
_OF_CONFIGURATION = tuple(
    f"fs.s3a.{name}"
    for name in ("access.key", "secret.key", "session.token", "endpoint", "endpoint.region", "path.style.access")
)


def use_hadoop_settings(spark: SparkSession) -> None:
    """Use a session's Hadoop settings for tables by path that have no storage options of their own."""
    session = ref(spark)

    def read() -> Mapping[str, str]:
        found = session()
        return {} if found is None or has_stopped(found) else {**hadoop_settings(found), **_configuration(found)}

    use_hadoop_defaults(read)


def _configuration(spark: Any) -> dict[str, str]:
    """Return the settings of S3 in Hadoop's configuration of a classic session; empty if it has only defaults."""
    if is_connect(spark):
        return {}
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    found = {name: value for name in _OF_CONFIGURATION if (value := hadoop.get(name))}
    return found if "fs.s3a.access.key" in found or "fs.s3a.endpoint" in found else {}
