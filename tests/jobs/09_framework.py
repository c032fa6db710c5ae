#!/usr/bin/env python
"""A small ingestion framework as many teams have one: sources and sinks by configuration, both table formats."""
from __future__ import annotations

import argparse
import json
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Callable, Iterator

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

log = logging.getLogger("framework")

CONFIG: dict[str, Any] = {
    "spark": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lh": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lh.type": "hadoop",
        "spark.sql.catalog.lh.warehouse": "{root}/lh",
        "spark.sql.catalog.lh.cache-enabled": "false",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.warehouse.dir": "{root}/wh",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    },
    "pipelines": [
        {"name": "readings", "source": {"type": "generated", "rows": 20}, "sinks": [
            {"type": "table", "format": "iceberg", "table": "lh.iot.readings", "mode": "append", "partition_by": ["day"]},
            {"type": "path", "format": "delta", "path": "{root}/delta/readings", "mode": "append", "partition_by": ["day"]}],
         "transforms": ["with_day", "drop_bad"]},
        {"name": "daily", "source": {"type": "table", "format": "iceberg", "table": "lh.iot.readings"}, "transforms": ["per_day"], "sinks": [
            {"type": "upsert", "format": "delta", "table": "daily", "keys": ["day"]},
            {"type": "table", "format": "iceberg", "table": "lh.iot.daily", "mode": "overwrite", "partition_by": []}]},
        {"name": "compare", "source": {"type": "path", "format": "delta", "path": "{root}/delta/readings"}, "transforms": [], "sinks": [
            {"type": "table", "format": "iceberg", "table": "lh.iot.compared", "mode": "overwrite", "partition_by": []}]},
        {"name": "broken", "source": {"type": "table", "format": "iceberg", "table": "lh.iot.missing"}, "transforms": [], "sinks": []},
    ],
}


@dataclass
class Result:
    pipeline: str
    rows: int = 0
    error: str | None = None
    sinks: list[str] = field(default_factory=list)


class Source(ABC):
    kinds: dict[str, type[Source]] = {}

    def __init_subclass__(cls, kind: str, **kwargs: Any) -> None:
        Source.kinds[kind] = cls

    def __init__(self, spark: SparkSession, **options: Any) -> None:
        self.spark, self.options = spark, options

    @abstractmethod
    def read(self) -> DataFrame: ...


class Generated(Source, kind="generated"):
    def read(self) -> DataFrame:
        return self.spark.range(self.options["rows"]).select(
            "id", (F.col("id") % 3).cast("string").alias("sensor"), (F.col("id") * 1.5).alias("value"),
            F.timestamp_seconds(F.lit(1767225600) + F.col("id") * 7200).alias("at"))


class TableSource(Source, kind="table"):
    def read(self) -> DataFrame:
        return self.spark.read.format(self.options["format"]).table(self.options["table"])


class PathSource(Source, kind="path"):
    def read(self) -> DataFrame:
        return self.spark.read.format(self.options["format"]).load(self.options["path"])


TRANSFORMS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "with_day": lambda df: df.withColumn("day", F.to_date("at")),
    "drop_bad": lambda df: df.filter(~F.col("value").between(3, 4)),
    "per_day": lambda df: df.groupBy("day").agg(F.count(F.lit(1)).alias("n"), F.round(F.avg("value"), 2).alias("mean"), F.collect_set("sensor").alias("sensors"))
    .withColumn("sensors", F.array_sort("sensors")),
}


def write(df: DataFrame, sink: dict[str, Any]) -> str:
    spark, fmt = df.sparkSession, sink["format"]
    if sink["type"] == "path":
        df.write.format(fmt).mode(sink["mode"]).partitionBy(*sink["partition_by"]).save(sink["path"])
        return sink["path"].rsplit("/", 1)[-1]
    name = sink["table"]
    if sink["type"] == "table":
        writer = df.write.format(fmt).mode(sink["mode"])
        (writer.partitionBy(*sink["partition_by"]) if sink["partition_by"] else writer).saveAsTable(name)
        return name
    if not spark.catalog.tableExists(name):
        df.limit(0).writeTo(name).using(fmt).create()
    df.createOrReplaceTempView("upsert_source")
    on = " AND ".join(f"t.{k} <=> s.{k}" for k in sink["keys"])
    spark.sql(f"MERGE INTO {name} t USING upsert_source s ON {on} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    return name


class Runner:
    def __init__(self, spark: SparkSession, config: dict[str, Any], root: str) -> None:
        self.spark = spark
        self.pipelines = json.loads(json.dumps(config["pipelines"]).replace("{root}", root))

    def __iter__(self) -> Iterator[Result]:
        for p in self.pipelines:
            log.info("pipeline %s", p["name"])
            result = Result(p["name"])
            try:
                source = dict(p["source"])
                df = reduce(lambda d, t: d.transform(TRANSFORMS[t]), p["transforms"], Source.kinds[source.pop("type")](self.spark, **source).read()).cache()
                result.rows = df.count()
                result.sinks = [write(df, s) for s in p["sinks"]]
                df.unpersist()
            except Exception as e:  # noqa: BLE001
                log.warning("failed: %s", type(e).__name__)
                result.error = f"{type(e).__name__}/{e.getCondition() if hasattr(e, 'getCondition') else ''}"
            yield result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    builder = SparkSession.builder.appName("framework")
    for key, value in CONFIG["spark"].items():
        builder = builder.config(key, value.format(root=args.root))
    with builder.getOrCreate() as spark:
        for run in range(args.runs):
            for result in Runner(spark, CONFIG, args.root):
                print("OUT", run, json.dumps(vars(result)))
        for table in ("lh.iot.daily", "daily", "lh.iot.readings", "lh.iot.compared"):
            df = spark.table(table)
            print("OUT", table, df.schema.simpleString(), json.dumps([list(r) for r in df.orderBy(df.columns[0]).limit(4).collect()], default=str))
            print("OUT", table, df.count(), [f.nullable for f in df.schema], spark.catalog.getTable(table).tableType, spark.catalog.getTable(table).namespace)
        print("OUT same", spark.table("lh.iot.daily").exceptAll(spark.table("spark_catalog.default.daily")).isEmpty())
        print("OUT", [r.operation for r in spark.table("lh.iot.daily.snapshots").orderBy("committed_at").collect()],
              [r.operation for r in spark.sql("DESCRIBE HISTORY daily").orderBy("version").collect()],
              [r.operation for r in spark.table("lh.iot.compared.snapshots").orderBy("committed_at").collect()])
        print("OUT", sorted(r.tableName for r in spark.sql("SHOW TABLES IN lh.iot").collect()), sorted(r.tableName for r in spark.sql("SHOW TABLES").collect() if not r.isTemporary))


if __name__ == "__main__":
    main()
