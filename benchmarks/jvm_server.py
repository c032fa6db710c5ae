"""Iceberg's Java planner, and both formats' readers on Spark, called over a pipe with one JSON line each way.

Runs in the environment of PySpark 4.1, with the runtime's JAR: see `scripts/spark41_env.sh`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from typing import Any

JARS = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,io.delta:delta-spark_4.1_2.13:4.4.0"
_SETTINGS = {
    "spark.jars.packages": JARS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "4g",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


_sessions: dict[str, Any] = {}


def _read(session: Any, form: str, path: str, what: str, key: int) -> None:
    """Read and discard all rows and columns, or compute a count, a key's row, or a sum of one column by another."""
    frame = session.read.format(form).load(path)
    if what == "all":  # Delta 4.4 refuses to write a table with deletion vectors to noop
        frame._jdf.queryExecution().toRdd().count()
    elif what == "count":
        frame.agg({"*": "count"}).collect()
    elif what == "total":
        frame.agg({"*": "count", "amount": "sum"}).collect()
    elif what == "point":
        frame.where(f"id = {key}").collect()
    else:
        frame.groupBy("kind").sum("amount").collect()


def _sql(session: Any, form: str, views: dict[str, str], text: str) -> None:
    """Run a query over tables, each of which becomes a view once."""
    own = _sessions.get(form)
    if own is None:
        own = _sessions[form] = session.newSession()
        for name, path in views.items():
            own.read.format(form).load(path).createOrReplaceTempView(name)
    own.sql(text).collect()


def _stream(session: Any, form: str, path: str, options: dict[str, str]) -> None:
    """Read all available rows as a stream and discard them."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = session.readStream.format(form).options(**options).load(path).writeStream.format("noop")
        writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def _write(session: Any, form: str, parquet: str, folder: str, partition: str | None) -> None:
    """Write all rows to a new table; an Iceberg table is partitioned by a column if one is given."""
    place = f"{folder}/{form}_{time.time_ns()}"
    frame = session.read.parquet(parquet)
    if form == "delta":
        frame.write.format("delta").save(place)
        return
    name = f"bench.n.t{time.time_ns()}"
    session.conf.set("spark.sql.catalog.bench", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set("spark.sql.catalog.bench.type", "hadoop")
    session.conf.set("spark.sql.catalog.bench.warehouse", folder)
    writer = frame.writeTo(name).using("iceberg")
    if partition is not None:
        writer = writer.partitionedBy(frame[partition])
    writer.create()


def _change(session: Any, asked: dict[str, Any]) -> float:
    """Return the seconds of a statement on a new table of all rows."""
    session.read.parquet(asked["source"]).createOrReplaceTempView("changes")
    frame, mode = session.read.parquet(asked["parquet"]), asked["mode"]
    if asked["format"] == "delta":
        table = f"delta.`{asked['folder']}/delta_{time.time_ns()}`"
        place = table.split("`")[1]
        vectors = "true" if mode == "merge-on-read" else "false"
        frame.write.format("delta").option("delta.enableDeletionVectors", vectors).save(place)
    else:
        table = f"bench.n.t{time.time_ns()}"
        session.conf.set("spark.sql.catalog.bench", "org.apache.iceberg.spark.SparkCatalog")
        session.conf.set("spark.sql.catalog.bench.type", "hadoop")
        session.conf.set("spark.sql.catalog.bench.warehouse", asked["folder"])
        writer = frame.writeTo(table).using("iceberg").tableProperty("format-version", asked["version"])
        for each in ("delete", "update", "merge"):
            writer = writer.tableProperty(f"write.{each}.mode", mode)
        writer.create()
    started = time.perf_counter()
    session.sql(asked["change"].format(table=table)).collect()
    return time.perf_counter() - started


def _commit(jvm: Any, tables: Any, folder: str, commits: int) -> None:
    """Make an Iceberg table in a folder, and append to it files that exist in name only, one per commit."""
    types, place = jvm.org.apache.iceberg.types.Types, f"{folder}/jvm_{time.time_ns()}"
    schema = jvm.org.apache.iceberg.Schema([types.NestedField.optional(1, "id", types.LongType.get())])
    spec = jvm.org.apache.iceberg.PartitionSpec.unpartitioned()
    table = tables.create(schema, spec, place)
    for number in range(commits):
        file = jvm.org.apache.iceberg.DataFiles.builder(spec).withPath(f"{place}/data/f{number}.parquet")
        table.newAppend().appendFile(file.withFileSizeInBytes(500).withRecordCount(1).build()).commit()


def _orphans(session: Any, table: str, warehouse: str) -> dict[str, float]:
    """Return the seconds of a dry run of `remove_orphan_files` on a table of a hadoop catalog."""
    session.conf.set("spark.sql.catalog.upkeep", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set("spark.sql.catalog.upkeep.type", "hadoop")
    session.conf.set("spark.sql.catalog.upkeep.warehouse", warehouse)
    started = time.perf_counter()
    found = session.sql(f"CALL upkeep.system.remove_orphan_files(table => '{table}', dry_run => true)").count()
    return {"seconds": time.perf_counter() - started, "files": found}


def main() -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    session: Any = builder.getOrCreate()
    jvm: Any = session._jvm
    tables = jvm.org.apache.iceberg.hadoop.HadoopTables(session._jsc.hadoopConfiguration())
    print("ready", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        started = time.perf_counter()
        if "sql" in asked:
            _sql(session, asked["format"], asked["views"], asked["sql"])
            print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)
            continue
        if "write" in asked:
            _write(session, asked["format"], asked["write"], asked["folder"], asked.get("partition"))
            print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)
            continue
        if "change" in asked:
            print(json.dumps({"seconds": _change(session, asked)}), flush=True)
            continue
        if "commits" in asked:
            _commit(jvm, tables, asked["folder"], asked["commits"])
            print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)
            continue
        if "orphans" in asked:
            print(json.dumps(_orphans(session, asked["orphans"], asked["warehouse"])), flush=True)
            continue
        if "stream" in asked:
            _stream(session, asked["format"], asked["path"], asked["stream"])
            print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)
            continue
        if "what" in asked:
            _read(session, asked["format"], asked["path"], asked["what"], asked.get("key", 0))
            print(json.dumps({"seconds": time.perf_counter() - started}), flush=True)
            continue
        scan = tables.load(asked["table"]).newScan()
        for name, column, value in asked["filter"]:
            scan = scan.filter(getattr(jvm.org.apache.iceberg.expressions.Expressions, name)(column, value))
        tasks = scan.planTasks()
        count = jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size(tasks)
        tasks.close()
        print(json.dumps({"seconds": time.perf_counter() - started, "groups": count}), flush=True)


if __name__ == "__main__":
    main()
