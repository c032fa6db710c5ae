"""Iceberg's Java planner, asked over a pipe: a line of JSON in, the seconds that it took out.

Runs in the environment of PySpark 4.1, with the runtime's JAR: see `scripts/spark41_env.sh`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"


def main() -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.jars.packages", ICEBERG)
    for name, value in {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": "4g"}.items():
        builder = builder.config(name, value)
    session: Any = builder.getOrCreate()
    jvm: Any = session._jvm
    tables = jvm.org.apache.iceberg.hadoop.HadoopTables(session._jsc.hadoopConfiguration())
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        started = time.perf_counter()
        scan = tables.load(asked["table"]).newScan()
        for name, column, value in asked["filter"]:
            scan = scan.filter(getattr(jvm.org.apache.iceberg.expressions.Expressions, name)(column, value))
        tasks = scan.planTasks()
        count = jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size(tasks)
        tasks.close()
        print(json.dumps({"seconds": time.perf_counter() - started, "groups": count}), flush=True)


if __name__ == "__main__":
    main()
