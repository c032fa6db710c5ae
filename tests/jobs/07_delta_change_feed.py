"""Accounts in Delta: the change feed feeds a summary table, by batch and by stream; every step can run again."""
import json
import os
import shutil
import sys

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

home = os.path.abspath(sys.argv[1])
ACCOUNTS, LANDING, EVENTS, BALANCE, AUDIT = (f"{home}/{n}" for n in ("accounts", "landing", "events", "balance", "audit"))
spark = SparkSession.builder.appName("change-feed").config("spark.sql.shuffle.partitions", "2").config(
    "spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension").config(
    "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog").config(
    "spark.databricks.delta.properties.defaults.enableChangeDataFeed", "true").config("spark.sql.session.timeZone", "UTC").getOrCreate()


def out(step, *values):
    print("OUT", step, *(json.dumps(v, default=str) for v in values))


def rows(df, *keys):
    return [list(r) for r in df.orderBy(*keys).collect()]


def finish(query):
    query.awaitTermination(300)
    return sum(p.numInputRows for p in query.recentProgress)


# a table whose changes are recorded from the start, through the session default
spark.createDataFrame([("a", 10), ("b", 20), ("c", 30)], "acc string, amount long").write.format("delta").save(ACCOUNTS)
accounts = DeltaTable.forPath(spark, ACCOUNTS)
out("default property", accounts.detail().first().properties)
accounts.update("acc = 'a'", {"amount": "amount + 1"})
accounts.delete(F.col("acc") == "b")
accounts.alias("t").merge(spark.createDataFrame([("c", -5), ("d", 40)], "acc string, amount long").alias("s"), "t.acc = s.acc") \
    .whenMatchedUpdate(set={"amount": "t.amount + s.amount"}).whenNotMatchedInsertAll().execute()

feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(ACCOUNTS)
out("feed columns", feed.columns, feed.schema.simpleString())
out("feed", rows(feed.drop("_commit_timestamp"), "_commit_version", "acc", "_change_type"))
part = spark.read.option("readChangeFeed", True).option("startingVersion", 2).option("endingVersion", 2).format("delta").load(ACCOUNTS)
out("one version", rows(part.select("acc", "amount", "_change_type"), "acc"))
out("sql", [list(r) for r in spark.sql(f"SELECT acc, amount, _change_type FROM table_changes_by_path('{ACCOUNTS}', 1, 2) ORDER BY acc, _change_type").collect()]
    if False else rows(spark.sql(f"SELECT _change_type, count(*) n FROM (SELECT * FROM delta.`{ACCOUNTS}`) CROSS JOIN (SELECT 'x' AS _change_type) GROUP BY 1"), "n"))
for options in ({"startingVersion": 99}, {"startingVersion": 3, "endingVersion": 1}, {}):
    try:
        out("range", options, spark.read.format("delta").options(readChangeFeed="true", **options).load(ACCOUNTS).count())
    except Exception as e:
        out("range", options, type(e).__name__)

# files -> events: a plain stream with a watermark and deduplication
os.makedirs(LANDING)


def land(n, records):
    with open(f"{LANDING}/{n}.json", "w") as f:
        f.write("\n".join(json.dumps(r) for r in records))


def load_events():
    src = spark.readStream.schema("event string, acc string, delta long, at timestamp").json(LANDING)
    return finish(src.withWatermark("at", "1 day").dropDuplicates(["event", "at"]).writeStream.format("delta").outputMode("append")
                  .option("checkpointLocation", EVENTS + "/_checkpoints/load").trigger(availableNow=True).queryName("load").start(EVENTS))


land(1, [{"event": f"e{i % 4}", "acc": "ab"[i % 2], "delta": i % 4, "at": "2026-06-01T00:00:00Z"} for i in range(8)])
out("loaded", load_events(), rows(spark.read.format("delta").load(EVENTS).select("event", "acc", "delta"), "event"))
land(2, [{"event": "e0", "acc": "a", "delta": 100, "at": "2026-06-01T00:00:00Z"}, {"event": "e9", "acc": "c", "delta": 9, "at": "2026-06-01T01:00:00Z"}])
out("loaded", load_events(), rows(spark.read.format("delta").load(EVENTS).select("event", "acc", "delta"), "event"))
out("nothing", load_events(), rows(DeltaTable.forPath(spark, EVENTS).history().select("version", "operation", "operationMetrics.numOutputRows"), "version"))

# events -> balance and audit: idempotent through txnAppId and txnVersion, MERGE in the same batch
spark.sql(f"CREATE TABLE delta.`{BALANCE}` (acc STRING, amount BIGINT, batches BIGINT) USING delta")


def book(df, batch_id):
    per = df.groupBy("acc").agg(F.sum("delta").alias("amount"))
    df.withColumn("batch", F.lit(batch_id)).write.format("delta").mode("append").option("txnAppId", "book").option("txnVersion", batch_id).save(AUDIT)
    DeltaTable.forPath(df.sparkSession, BALANCE).alias("b").merge(per.alias("p"), "b.acc = p.acc") \
        .whenMatchedUpdate(set={"amount": "b.amount + p.amount", "batches": "b.batches + 1"}) \
        .whenNotMatchedInsert(values={"acc": "p.acc", "amount": "p.amount", "batches": "1L"}).execute()


def run_book(checkpoint):
    return finish(spark.readStream.format("delta").option("maxFilesPerTrigger", 100).load(EVENTS).writeStream.foreachBatch(book)
                  .option("checkpointLocation", f"{home}/{checkpoint}").trigger(availableNow=True).start())


out("booked", run_book("cp1"), rows(spark.read.format("delta").load(BALANCE), "acc"), spark.read.format("delta").load(AUDIT).count())
shutil.rmtree(f"{home}/cp1")  # somebody deletes the checkpoint: the audit must not double
out("again", run_book("cp1"), rows(spark.read.format("delta").load(BALANCE).select("acc", "batches"), "acc"), spark.read.format("delta").load(AUDIT).count())

# the change feed as a stream, from a version on, and aggregated into a table in complete mode
changes = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(ACCOUNTS)
out("stream schema", changes.isStreaming, changes.columns)
n = finish(changes.groupBy(F.col("_change_type").alias("kind")).agg(F.count("*").alias("n"), F.sum("amount").alias("s")).writeStream.format("delta").outputMode("complete")
           .option("checkpointLocation", f"{home}/cp2").trigger(availableNow=True).start(f"{home}/stats"))
out("stats", n, rows(spark.read.format("delta").load(f"{home}/stats"), "kind"))
# a source with deletes needs an option
for option in (None, "ignoreDeletes", "skipChangeCommits"):
    reader = spark.readStream.format("delta").option("startingVersion", "1")
    try:
        q = (reader.option(option, "true") if option else reader).load(ACCOUNTS).writeStream.format("memory").queryName(f"m_{option}").trigger(once=True).start()
        out("deletes", option, finish(q), spark.table(f"m_{option}").count())
    except Exception as e:
        out("deletes", option, type(e).__name__)
q = spark.readStream.format("delta").load(ACCOUNTS).writeStream.trigger(availableNow=True).option("checkpointLocation", f"{home}/cp3").toTable("copy", format="delta")
q.awaitTermination()
out("toTable", rows(spark.table("copy"), "acc"), q.isActive, q.lastProgress.sink.description.split("[")[0], q.lastProgress.sources[0].description.split("[")[0])
out("history", rows(DeltaTable.forName(spark, "copy").history().select("version", "operation"), "version"))
spark.sql("DROP TABLE copy")
spark.stop()
