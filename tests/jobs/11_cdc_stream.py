"""Debezium-like change events -> Iceberg: raw log, current state (mergeInto), history as SCD2, all from one stream."""
import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.functions import array, coalesce, col, explode, expr, lag, lead, lit, row_number, struct, when

root = Path(sys.argv[1]).resolve()
CATALOG = "cdc"
spark = (
    SparkSession.Builder().appName("cdc").master("local[2]")
    .config(map={"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
                 f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
                 f"spark.sql.catalog.{CATALOG}.type": "hadoop",
                 f"spark.sql.catalog.{CATALOG}.warehouse": root.as_uri() + "/warehouse",
                 f"spark.sql.catalog.{CATALOG}.cache-enabled": "false",
                 f"spark.sql.catalog.{CATALOG}.table-default.write.delete.mode": "merge-on-read",
                 f"spark.sql.catalog.{CATALOG}.default-namespace": "app",
                 "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"})
    .getOrCreate()
)
SCHEMA = "op string, lsn long, at timestamp, before struct<id: long, name: string, level: int>, after struct<id: long, name: string, level: int>"
spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.app")
spark.sql(f"CREATE TABLE {CATALOG}.app.log (op STRING, lsn BIGINT, at TIMESTAMP, before STRUCT<id: BIGINT, name: STRING, level: INT>, after STRUCT<id: BIGINT, name: STRING, level: INT>) USING iceberg PARTITIONED BY (hours(at))")
spark.sql(f"CREATE TABLE {CATALOG}.app.users (id BIGINT, name STRING, level INT, lsn BIGINT) USING iceberg PARTITIONED BY (bucket(2, id)) TBLPROPERTIES ('write.merge.mode'='merge-on-read', 'write.update.mode'='merge-on-read')")
spark.sql(f"CREATE TABLE {CATALOG}.app.users_history (id BIGINT, name STRING, level INT, valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN) USING iceberg")


def out(tag: str, *values: object) -> None:
    print(f"OUT [{tag}]", json.dumps(values, default=str))


def user(id: int, name: str, level: int) -> dict:
    return {"id": id, "name": name, "level": level}


def arrive(name: str, *events: tuple) -> None:
    (root / "in").mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"op": o, "lsn": n, "at": f"2026-07-01T{n // 10:02d}:{n % 10}0:00Z", "before": b, "after": a}) for o, n, b, a in events]
    (root / "in" / f"{name}.json").write_text("\n".join(lines))


def to_state(batch: DataFrame) -> None:
    last = Window.partitionBy("id").orderBy(col("lsn").desc())
    changes = (batch.withColumn("id", coalesce("after.id", "before.id")).withColumn("rn", row_number().over(last)).where("rn = 1")
               .select("id", col("after.name").alias("name"), col("after.level").alias("level"), "lsn", (col("op") == "d").alias("gone")))
    (changes.alias("s").mergeInto(f"{CATALOG}.app.users", expr(f"{CATALOG}.app.users.id = s.id"))
     .whenMatched(col("s.gone")).delete()
     .whenMatched(expr(f"s.lsn > {CATALOG}.app.users.lsn")).update({"name": col("s.name"), "level": col("s.level"), "lsn": col("s.lsn")})
     .whenNotMatched(~col("s.gone")).insert({"id": col("s.id"), "name": col("s.name"), "level": col("s.level"), "lsn": col("s.lsn")})
     .merge())


def to_history(batch: DataFrame, batch_id: int) -> None:
    w = Window.partitionBy("id").orderBy("lsn")
    steps = (batch.withColumn("id", coalesce("after.id", "before.id"))
             .select("id", "after.name", "after.level", "lsn", col("at").alias("valid_from"), lead("at").over(w).alias("valid_to"), (col("op") == "d").alias("gone"), row_number().over(w).alias("rn")))
    steps.createOrReplaceTempView("steps")
    s = batch.sparkSession
    s.sql(f"""MERGE INTO {CATALOG}.app.users_history h USING (SELECT id, valid_from FROM steps WHERE rn = 1) s ON h.id = s.id AND h.is_current
              WHEN MATCHED THEN UPDATE SET is_current = false, valid_to = s.valid_from""")
    s.sql(f"INSERT INTO {CATALOG}.app.users_history SELECT id, name, level, valid_from, valid_to, valid_to IS NULL FROM steps WHERE NOT gone")


def process(batch: DataFrame, batch_id: int) -> None:
    batch.persist()
    if not batch.isEmpty():
        batch.writeTo(f"{CATALOG}.app.log").append()
        to_state(batch)
        to_history(batch, batch_id)
    batch.unpersist()


def run() -> int:
    q = (spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).option("latestFirst", False).json(str(root / "in"))
         .writeStream.queryName("cdc").option("checkpointLocation", str(root / "checkpoint")).foreachBatch(process).trigger(availableNow=True).start())
    q.awaitTermination()
    return len([p for p in q.recentProgress if p["numInputRows"] > 0])


def show(step: str) -> None:
    out(step, [list(r) for r in spark.table(f"{CATALOG}.app.users").orderBy("id").collect()])
    out(step, [[r.id, r.name, str(r.valid_from)[11:16], str(r.valid_to)[11:16], r.is_current] for r in spark.table(f"{CATALOG}.app.users_history").orderBy("id", "valid_from").collect()])


arrive("1", ("c", 1, None, user(1, "ann", 1)), ("c", 2, None, user(2, "bob", 1)), ("u", 3, user(1, "ann", 1), user(1, "ann", 2)), ("c", 4, None, user(3, "cid", 1)), ("d", 5, user(3, "cid", 1), None))
out("run", run())
show("first")
arrive("2", ("u", 11, user(2, "bob", 1), user(2, "rob", 5)), ("c", 12, None, user(4, "dan", 0)))
out("run", run())
arrive("3", ("d", 21, user(1, "ann", 2), None), ("u", 22, user(4, "dan", 0), user(4, "dan", 9)), ("u", 20, user(4, "dan", 0), user(4, "dan", 8)))
out("run", run(), run())
show("last")

# the log as an Iceberg stream of its own: rate limits, metrics, a start in the past, a sink by name
src = spark.readStream.format("iceberg").option("streaming-max-rows-per-micro-batch", "4").load(f"{CATALOG}.app.log")
counts = spark.sql(f"CREATE TABLE {CATALOG}.app.ops (op STRING, n BIGINT) USING iceberg")
q = (src.groupBy("op").count().withColumnRenamed("count", "n").writeStream.format("iceberg").outputMode("complete").trigger(availableNow=True)
     .option("checkpointLocation", str(root / "cp_ops")).toTable(f"{CATALOG}.app.ops"))
q.awaitTermination()
out("ops", [list(r) for r in spark.table(f"{CATALOG}.app.ops").orderBy("op").collect()], sum(p["numInputRows"] for p in q.recentProgress), q.exception())
q = src.select("op", "lsn").writeStream.format("memory").queryName("mem").outputMode("append").trigger(once=True).start()
q.awaitTermination()
out("memory", spark.table("mem").count(), q.lastProgress["sources"][0]["numInputRows"])
try:
    spark.readStream.format("iceberg").load(f"{CATALOG}.app.users").writeStream.format("noop").option("checkpointLocation", str(root / "cp_bad")).trigger(availableNow=True).start().awaitTermination()
    out("overwrites", "read")
except Exception as e:
    out("overwrites", type(e).__name__)
for table in ("log", "users", "users_history"):
    snaps = spark.sql(f"SELECT operation, summary['added-position-delete-files'] IS NOT NULL AS mor FROM {CATALOG}.app.{table}.snapshots ORDER BY committed_at").collect()
    out(table, [r.operation for r in snaps], any(r.mor for r in snaps))
out("hours", [list(r) for r in spark.sql(f"SELECT partition.at_hour, sum(record_count) FROM {CATALOG}.app.log.partitions GROUP BY 1 ORDER BY 1").collect()])
out("names", spark.sql(f"USE {CATALOG}").count(), spark.catalog.currentDatabase(), spark.table("users").count(), spark.catalog.tableExists("ops"))
r = spark.sql("CALL cdc.system.rewrite_position_delete_files('app.users')")
out("rewrite deletes", r.columns)
for stream in spark.streams.active:
    stream.stop()
