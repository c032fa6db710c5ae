"""Web events in Iceberg: first load, daily partitions, a new partitioning, and the monthly maintenance."""
import json
import sys
from datetime import datetime, timedelta

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, expr, lit
from pyspark.sql.functions import partitioning as p

warehouse = f"{sys.argv[1]}/warehouse"
spark = (
    SparkSession.builder.appName("web-events")
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .config("spark.sql.catalog.prod", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.prod.type", "hadoop")
    .config("spark.sql.catalog.prod.warehouse", warehouse)
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)
T = "prod.web.events"


def out(what, *values):
    print("OUT", what, json.dumps(values, default=str))


def collect(df, *keys):
    return [tuple(r) for r in df.orderBy(*keys).collect()]


def events(first_day, n_days, per_day, kind="view"):
    start = datetime(2026, 1, 1) + timedelta(days=first_day)
    data = [(d * 100 + i, kind, f"u{i % 3}", start + timedelta(days=d, hours=i)) for d in range(n_days) for i in range(per_day)]
    return spark.createDataFrame(data, "id bigint, kind string, user string, ts timestamp").coalesce(1)


def last_summary(*keys):
    r = spark.table(f"{T}.snapshots").orderBy(col("committed_at").desc()).first()
    return [r.operation] + [r.summary.get(k) for k in keys]


# create, and what create means for a table that exists
writer = events(0, 3, 4).sortWithinPartitions("ts").writeTo(T).using("iceberg").partitionedBy(p.days("ts"))
writer.tableProperty("format-version", "2").tableProperty("comment", "clicks and views").create()
out("created", spark.table(T).count(), spark.table(T).schema.simpleString(), [f.nullable for f in spark.table(T).schema])
try:
    writer.create()
except Exception as e:
    out("again", type(e).__name__, e.getCondition())
try:
    events(0, 1, 1).writeTo("prod.web.nothing").append()
except Exception as e:
    out("append to nothing", type(e).__name__, e.getCondition())

# append by name: order of the columns does not matter, missing or unknown columns do
events(3, 1, 2).select("ts", "user", "kind", "id").writeTo(T).append()
out("append", *last_summary("added-records", "total-records", "added-data-files", "changed-partition-count"))
for bad in (events(0, 1, 1).withColumn("zzz", lit(1)), events(0, 1, 1).withColumn("id", col("id").cast("string"))):
    try:
        bad.writeTo(T).append()
        out("accepted", bad.columns)
    except Exception as e:
        out("refused", type(e).__name__)

# overwrites: dynamic, and by condition
events(2, 2, 3, "fixed").writeTo(T).overwritePartitions()
out("dynamic", *last_summary("added-records", "deleted-records", "total-records"))
out("per day", collect(spark.table(T).groupBy(expr("date(ts) AS day"), "kind").count(), "day", "kind"))
events(0, 1, 1, "reset").writeTo(T).overwrite(col("ts") < lit("2026-01-02").cast("timestamp"))
out("overwrite", *last_summary("added-records", "deleted-records", "total-records", "replace-partitions"))
try:
    events(0, 1, 1, "reset").writeTo(T).overwrite(col("user") == "u1")
except Exception as e:
    out("half a file", type(e).__name__)

# evolution of schema and partitioning
spark.sql(f"ALTER TABLE {T} ADD COLUMNS (device STRUCT<os: STRING, version: INT> COMMENT 'since 2026', score FLOAT AFTER kind)")
spark.sql(f"ALTER TABLE {T} ALTER COLUMN score TYPE DOUBLE")
spark.sql(f"ALTER TABLE {T} RENAME COLUMN user TO user_id")
spark.sql(f"ALTER TABLE {T} ADD COLUMN device.vendor STRING")
spark.sql(f"ALTER TABLE {T} ADD PARTITION FIELD bucket(4, user_id) AS user_bucket")
spark.sql(f"ALTER TABLE {T} REPLACE PARTITION FIELD days(ts) WITH months(ts) AS month")
spark.sql(f"ALTER TABLE {T} WRITE ORDERED BY kind, ts DESC")
spark.sql(f"ALTER TABLE {T} SET TBLPROPERTIES ('history.expire.min-snapshots-to-keep'='1', 'team'='web')")
out("columns", [(r.col_name, r.data_type, r.comment) for r in spark.sql(f"DESCRIBE TABLE {T}").collect()])
spark.sql(f"INSERT INTO {T} SELECT id + 1000, 'click', 0.5, user_id, ts, named_struct('os', 'linux', 'version', 7, 'vendor', NULL) FROM {T} WHERE id < 3")
out("clicks", collect(spark.table(T).where("device.os = 'linux'").select("id", "score", "device", "device.version"), "id"))
out("spec ids", collect(spark.table(f"{T}.files").groupBy("spec_id").agg(expr("sum(record_count) AS n")), "spec_id"))
out("partition type", spark.table(f"{T}.partitions").schema["partition"].dataType.simpleString())
out("properties", sorted((r.key, r.value) for r in spark.sql(f"SHOW TBLPROPERTIES {T}").collect() if r.key in ("team", "comment", "sort-order", "write.distribution-mode")))

# maintenance
r = spark.sql(f"CALL prod.system.rewrite_data_files(table => 'web.events', options => map('rewrite-all','true'))")
out("rewrite", r.columns, r.first().rewritten_data_files_count > 1, r.first().failed_data_files_count)
out("after rewrite", *last_summary("total-records"), collect(spark.table(f"{T}.files").select("spec_id").distinct(), "spec_id"))
m = spark.sql("CALL prod.system.rewrite_manifests('web.events')")
out("manifests", m.columns, m.first().added_manifests_count)
before = spark.table(f"{T}.snapshots").count()
x = spark.sql("CALL prod.system.expire_snapshots(table => 'web.events', older_than => TIMESTAMP '2099-01-01 00:00:00', retain_last => 2)")
out("expire", before, x.columns, x.first().deleted_data_files_count > 5, x.first().deleted_manifest_lists_count)
out("left", spark.table(f"{T}.snapshots").count(), spark.table(f"{T}.history").columns, spark.table(f"{T}.refs").select("name", "type").collect())
for name in ("entries", "files", "manifests", "snapshots", "all_data_files", "metadata_log_entries"):
    out(name, spark.table(f"{T}.{name}").columns)
out("total", spark.table(T).count(), spark.table(T).agg({"id": "max"}).collect())
spark.sql(f"DROP TABLE {T} PURGE")
out("gone", spark.catalog.tableExists(T), spark.sql("SHOW TABLES IN prod.web").count())
spark.stop()
