"""A local Spark session for tests: two cores, quiet, in UTC."""

from __future__ import annotations

from typing import Any

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "4g",
    # Tests run much code only once: the JVM's second compiler and parallel collectors cost more than they save.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def local_session(name: str, settings: dict[str, str]) -> Any:
    """Start the session, with more settings."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName(name)
    for key, value in {**_SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
