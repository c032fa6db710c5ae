import sys, json
from pyspark.sql import SparkSession
root = sys.argv[1]
spark = (SparkSession.builder.appName("files")
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.type", "hadoop")
    .config("spark.sql.catalog.lake.warehouse", root + "/wh")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.sql.warehouse.dir", root + "/spark")
    .getOrCreate())
def out(*a): print("OUT", json.dumps(a, default=str, sort_keys=True))
def facts(t, kind):
    if kind == "delta":
        d = spark.sql(f"DESCRIBE DETAIL {t}").first()
        h = spark.sql(f"DESCRIBE HISTORY {t} LIMIT 1").first()
        return [d.numFiles, h.operation, {k: v for k, v in h.operationMetrics.items() if k.startswith("num") and "Bytes" not in k}]
    f = spark.sql(f"SELECT content, count(*) c FROM {t}.files GROUP BY content ORDER BY content").collect()
    s = spark.sql(f"SELECT operation, summary FROM {t}.snapshots ORDER BY committed_at DESC LIMIT 1").first()
    return [[list(r) for r in f], s.operation, {k: v for k, v in s.summary.items() if ("files" in k or "records" in k) and "size" not in k}]
n = 0
for kind, props in (("iceberg", "'format-version'='2'"), ("iceberg", "'format-version'='2','write.delete.mode'='merge-on-read','write.update.mode'='merge-on-read','write.merge.mode'='merge-on-read'"), ("delta", "'delta.enableDeletionVectors'='false'"), ("delta", "'delta.enableDeletionVectors'='true'")):
    for part in ("", "PARTITIONED BY (cat)"):
        n += 1
        t = f"lake.db.t{n}" if kind == "iceberg" else f"t{n}"
        spark.sql(f"CREATE TABLE {t} (id BIGINT, cat STRING, v DOUBLE) USING {kind} {part} TBLPROPERTIES ({props})")
        rows = [(i, "ab"[i % 2], i * 1.5) for i in range(12)]
        df = spark.createDataFrame(rows, "id long, cat string, v double")
        if kind == "iceberg": df.writeTo(t).append()
        else: df.write.format("delta").mode("append").saveAsTable(t)
        out(n, kind, part, props[:40], "append", *facts(t, kind))
        for text in (f"INSERT INTO {t} VALUES (100, 'a', 1.0), (101, 'b', 2.0), (102, 'c', 3.0)",
                     f"UPDATE {t} SET v = v + 1 WHERE id IN (1, 4)",
                     f"UPDATE {t} SET v = v + 1 WHERE id = 12345",
                     f"DELETE FROM {t} WHERE id = 2",
                     f"DELETE FROM {t} WHERE id = 98765",
                     f"DELETE FROM {t} WHERE cat = 'c'",
                     f"MERGE INTO {t} t USING (SELECT * FROM VALUES (3L, 'b', 9.0D), (500L, 'a', 9.0D), (501L, 'd', 9.0D) AS s(id, cat, v)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
                     f"MERGE INTO {t} t USING (SELECT 777L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
                     f"INSERT OVERWRITE {t} SELECT id, cat, v FROM VALUES (1L, 'a', 1.0D), (2L, 'b', 2.0D) AS s(id, cat, v)"):
            spark.sql(text)
            out(n, text.split()[0], text[-40:], *facts(t, kind))
