"""Old Parquet folders go to Delta and to Iceberg, in place where possible; then the copies are compared and cleaned."""
import json
import os
import sys

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ROOT = os.path.abspath(sys.argv[1])
spark = (
    SparkSession.builder
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.catalog.new", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.new.type", "hadoop")
    .config("spark.sql.catalog.new.warehouse", f"{ROOT}/new")
    .config("spark.sql.warehouse.dir", f"{ROOT}/wh")
    .config("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2").config("spark.sql.session.timeZone", "UTC").getOrCreate())


def out(key, *value):
    print("OUT", json.dumps({key: value[0] if len(value) == 1 else value}, default=str))


def check(key, run):
    try:
        df = run()
        out(key, df.columns if df is not None else None)
    except Exception as e:
        out(key, type(e).__name__)


def digest(df):
    return list(df.agg(F.count("*"), F.sum("id"), F.sum("amount"), F.max("day"), F.countDistinct("shop")).first())


# the old world: a partitioned folder, a plain folder, a Parquet table and a CSV folder
old = spark.range(40).select("id", (F.col("id") % 7).cast("int").alias("shop"), (F.col("id") * 3 % 11).cast("decimal(8,2)").alias("amount"),
                             F.date_add(F.lit("2026-02-27").cast("date"), (F.col("id") % 4).cast("int")).alias("day"))
old.write.partitionBy("day").parquet(f"{ROOT}/old/by_day")
old.coalesce(1).write.parquet(f"{ROOT}/old/plain")
old.where("id < 10").write.saveAsTable("old_table")
old.coalesce(1).write.option("header", True).csv(f"{ROOT}/old/csv")
truth = digest(old)
out("truth", truth)

# Delta in place
spark.sql(f"CONVERT TO DELTA parquet.`{ROOT}/old/by_day` PARTITIONED BY (day DATE)")
DeltaTable.convertToDelta(spark, f"parquet.`{ROOT}/old/plain`")
check("convert table", lambda: spark.sql("CONVERT TO DELTA old_table"))
check("convert csv", lambda: spark.sql(f"CONVERT TO DELTA csv.`{ROOT}/old/csv`"))
check("convert wrong", lambda: spark.sql(f"CONVERT TO DELTA parquet.`{ROOT}/old/nothing`"))
for name in ("by_day", "plain"):
    d = DeltaTable.forPath(spark, f"{ROOT}/old/{name}")
    out(name, digest(d.toDF()) == truth, d.history(1).first().operation, d.detail().first().partitionColumns, d.toDF().schema.simpleString())
out("old_table", spark.table("old_table").count(), DeltaTable.forName(spark, "old_table").history().count(), spark.catalog.getTable("old_table").tableType)

# Iceberg: files of a Parquet folder are added, without a copy
old.where("id >= 20").sortWithinPartitions("day").coalesce(1).write.partitionBy("day").parquet(f"{ROOT}/old/second")
spark.sql("CREATE TABLE new.db.by_day (id BIGINT, shop INT, amount DECIMAL(8,2), day DATE) USING iceberg PARTITIONED BY (day)")
added = spark.sql(f"CALL new.system.add_files(table => 'db.by_day', source_table => '`parquet`.`{ROOT}/old/second`')")
out("add_files", added.columns, added.first().added_files_count, spark.table("new.db.by_day").count())
check("add again", lambda: spark.sql(f"CALL new.system.add_files(table => 'db.by_day', source_table => '`parquet`.`{ROOT}/old/second`')"))
spark.sql("CREATE TABLE new.db.some USING iceberg PARTITIONED BY (day) AS SELECT * FROM new.db.by_day WHERE false")
some = spark.sql(f"CALL new.system.add_files(table => 'db.some', source_table => '`parquet`.`{ROOT}/old/second`', partition_filter => map('day', '2026-03-01'))")
out("add part", some.first().asDict(), [str(r[0]) for r in spark.sql("SELECT DISTINCT day FROM new.db.some").collect()])
spark.range(3).select("id").write.saveAsTable("pq")
check("migrate", lambda: spark.sql("CALL new.system.migrate('spark_catalog.default.pq')"))
check("snapshot", lambda: spark.sql("CALL new.system.snapshot('spark_catalog.default.pq', 'new.db.pq')"))
check("snapshot named", lambda: spark.sql("CALL new.system.snapshot(source_table => 'default.nothing', table => 'db.x')"))
files = spark.table("new.db.by_day.files")
out("in place", files.where(F.col("file_path").contains("/old/second/")).count() == files.count(), files.agg(F.sum("record_count")).first()[0])

# the rest by a copy; then rows are corrected in both worlds and compared
spark.read.format("delta").load(f"{ROOT}/old/by_day").where("id < 20").writeTo("new.db.by_day").append()
out("complete", digest(spark.table("new.db.by_day")) == truth)
for target in ("new.db.by_day", f"delta.`{ROOT}/old/by_day`"):
    spark.sql(f"UPDATE {target} SET amount = amount + 1 WHERE shop = 3")
    spark.sql(f"DELETE FROM {target} WHERE day = DATE'2026-02-28' AND id > 30")
    spark.sql(f"MERGE INTO {target} t USING old_table s ON t.id = s.id WHEN MATCHED AND s.id < 3 THEN DELETE WHEN NOT MATCHED THEN INSERT *")
a, b = spark.table("new.db.by_day"), spark.read.format("delta").load(f"{ROOT}/old/by_day")
out("same", a.schema == b.schema, a.exceptAll(b).count(), b.exceptAll(a).count(), digest(a))
joined = spark.sql(f"""
    SELECT p.shop, count(*) n, sum(i.amount) - sum(d.amount) diff, count(o.id) old
    FROM new.db.by_day i JOIN delta.`{ROOT}/old/by_day` d USING (id) JOIN (SELECT id, shop FROM parquet.`{ROOT}/old/second`) p USING (id) LEFT JOIN old_table o USING (id)
    GROUP BY p.shop ORDER BY p.shop""")
out("joined", joined.schema.simpleString(), [[str(v) for v in r] for r in joined.collect()])
out("union", [list(r) for r in a.select("day").union(b.select("day")).union(spark.table("old_table").select("day")).groupBy("day").count().orderBy("day").collect()])

# housekeeping
out("optimize", spark.sql(f"OPTIMIZE delta.`{ROOT}/old/by_day`").select("metrics.numFilesRemoved").first()[0] > 2, DeltaTable.forPath(spark, f"{ROOT}/old/by_day").vacuum(0).count())
before = a.count()
rw = spark.sql("CALL new.system.rewrite_data_files(table => 'db.by_day', options => map('min-input-files', '2'))").first()
out("rewrite", rw.rewritten_data_files_count > 0, spark.sql("CALL new.system.expire_snapshots(table => 'new.db.by_day', retain_last => 1, older_than => now())").columns, a.count() == before)
orphans = spark.sql("CALL new.system.remove_orphan_files(table => 'db.by_day', dry_run => true)")
out("orphans", orphans.columns, orphans.count())
meta = spark.sql("CALL new.system.rewrite_manifests('db.by_day')").columns
out("files left", spark.table("new.db.by_day.all_data_files").select("file_path").distinct().count() == spark.table("new.db.by_day.files").count(), meta)
check("register", lambda: spark.sql("CALL new.system.register_table('db.again', '/nowhere/v1.metadata.json')"))
check("rename", lambda: spark.sql("ALTER TABLE new.db.some RENAME TO new.db.other"))
spark.sql("ALTER TABLE old_table RENAME TO legacy")
out("tables", sorted(r.tableName for r in spark.sql("SHOW TABLES IN new.db").collect()), sorted(r.tableName for r in spark.sql("SHOW TABLES").collect()))
out("delta history", [r.operation for r in DeltaTable.forName(spark, "legacy").history().orderBy("version").collect()], [r.operation for r in b.sparkSession.sql(f"DESCRIBE HISTORY delta.`{ROOT}/old/by_day`").orderBy("version").collect()])
spark.sql("DROP TABLE legacy")
check("dropped", lambda: spark.table("legacy"))
check("spark csv", lambda: spark.read.option("header", True).csv(f"{ROOT}/old/csv").where("id > 3"))
