"""Row-level changes on nested data, the same for merge-on-read and copy-on-write tables."""
import datetime as dt
import json
import os
import sys
from decimal import Decimal

from pyspark.sql import SparkSession
from pyspark.sql.types import *  # noqa: F403

root = os.path.abspath(sys.argv[1])
spark = SparkSession.builder.appName("row-level").getOrCreate()
# the catalog is configured on the running session, as in notebooks
spark.conf.set("spark.sql.catalog.nb", "org.apache.iceberg.spark.SparkCatalog")
spark.conf.set("spark.sql.catalog.nb.type", "hadoop")
spark.conf.set("spark.sql.catalog.nb.warehouse", root)
spark.conf.set("spark.sql.session.timeZone", "America/New_York")
spark.conf.set("spark.sql.shuffle.partitions", "1")

schema = StructType([
    StructField("id", LongType(), False),
    StructField("person", StructType([StructField("name", StringType()), StructField("address", StructType([StructField("city", StringType()), StructField("zip", IntegerType())]))])),
    StructField("tags", ArrayType(StringType())),
    StructField("scores", MapType(StringType(), DecimalType(12, 4))),
    StructField("at", TimestampNTZType()),
    StructField("seen", TimestampType()),
    StructField("born", DateType()),
    StructField("raw", BinaryType()),
    StructField("ratio", FloatType()),
    StructField("ok", BooleanType()),
])


def make(i):
    if i % 4 == 3:
        return (i, None, None, None, None, None, None, None, None, None)
    return (i, (f"p{i}", None if i % 4 == 2 else ("Oslo", 100 + i)), ["a", None, f"t{i}"][: i % 4 + 1], {"x": Decimal(i) / 8, "y": None},
            dt.datetime(2026, 3, 29, 2, 30) + dt.timedelta(hours=i), dt.datetime(2026, 3, 29, 0, 30, tzinfo=dt.timezone.utc) + dt.timedelta(hours=i),
            dt.date(1999, 12, 31) - dt.timedelta(days=i * 400), bytes([i, 255]), float("nan") if i == 4 else i / 3, i % 2 == 0)


def out(*values):
    print("OUT", json.dumps(values, default=str, ensure_ascii=False))


def dump(table, where="true"):
    text = spark.sql(f"SELECT id, to_json(struct(*), map('ignoreNullFields', 'false')) AS j FROM {table} WHERE {where} ORDER BY id").collect()
    return [r.j for r in text]


for mode in ("merge-on-read", "copy-on-write"):
    t = "nb.db." + mode.replace("-", "_")
    spark.sql(f"""
        CREATE TABLE {t} (id BIGINT NOT NULL, person STRUCT<name: STRING, address: STRUCT<city: STRING, zip: INT>>, tags ARRAY<STRING>,
          scores MAP<STRING, DECIMAL(12,4)>, at TIMESTAMP_NTZ, seen TIMESTAMP, born DATE, raw BINARY, ratio FLOAT, ok BOOLEAN)
        USING iceberg PARTITIONED BY (truncate(4, id))
        TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='{mode}', 'write.update.mode'='{mode}', 'write.merge.mode'='{mode}', 'write.target-file-size-bytes'='1000000')""")
    spark.createDataFrame([make(i) for i in range(12)], schema).coalesce(1).writeTo(t).append()
    out(mode, spark.table(t).schema == schema, spark.table(t).schema.simpleString())
    out("all", dump(t))

    spark.sql(f"UPDATE {t} SET person.address.city = upper(person.address.city), scores = map('z', 1.23456), tags = array_append(tags, 'upd') WHERE id IN (1, 2)")
    spark.sql(f"UPDATE {t} SET ratio = NULL, at = at + INTERVAL 1 DAY WHERE isnan(ratio) OR born < DATE'1995-01-01'")
    out("updated", dump(t, "id IN (1, 2, 4) OR ratio IS NULL"))
    spark.sql(f"DELETE FROM {t} WHERE person IS NULL AND id > 4")
    spark.sql(f"DELETE FROM {t} WHERE scores['x'] > 1.0 AND array_contains(tags, 't10')")
    spark.sql(f"DELETE FROM {t} WHERE id IN (SELECT max(id) FROM {t})")
    out("left", [r.id for r in spark.table(t).select("id").orderBy("id").collect()])

    source = [(1, ("merged", ("Rome", 1)), None), (3, None, ["was", "null"]), (50, ("new", None), []), (5, None, None)]
    spark.createDataFrame(source, "id bigint, person struct<name: string, address: struct<city: string, zip: int>>, tags array<string>").createOrReplaceTempView("src")
    merged = spark.sql(f"""
        MERGE INTO {t} AS t USING (SELECT * FROM src) AS s ON t.id = s.id
        WHEN MATCHED AND s.tags IS NULL AND s.person IS NULL THEN DELETE
        WHEN MATCHED AND s.person.name = 'merged' THEN UPDATE SET t.person.name = s.person.name, t.person.address.zip = t.person.address.zip + s.person.address.zip
        WHEN MATCHED THEN UPDATE SET tags = s.tags, seen = TIMESTAMP'2026-01-01 00:00:00', at = TIMESTAMP_NTZ'2026-01-01 00:00:00'
        WHEN NOT MATCHED AND s.id < 100 THEN INSERT (id, person, tags, ok) VALUES (s.id, s.person, s.tags, true)
        WHEN NOT MATCHED BY SOURCE AND t.id = 6 THEN UPDATE SET ok = NOT t.ok
        WHEN NOT MATCHED BY SOURCE AND t.id = 8 THEN DELETE""")
    out("merge result", merged.columns, merged.count())
    out("merged", dump(t))
    out("operations", [r[0] for r in spark.sql(f"SELECT operation FROM {t}.snapshots ORDER BY committed_at").collect()])
    out("delete files", spark.table(f"{t}.delete_files").count() > 0, sorted({r.content for r in spark.table(f"{t}.all_files").select("content").collect()}))
    out("by city", [list(r) for r in spark.table(t).groupBy("person.address.city").count().orderBy("city").collect()])
    out("exploded", [list(r) for r in spark.sql(f"SELECT id, pos, col FROM {t} LATERAL VIEW posexplode(tags) e AS pos, col ORDER BY id, pos").collect()])

    for bad in (f"UPDATE {t} SET id = NULL WHERE id = 0", f"UPDATE {t} SET nothing = 1", f"INSERT INTO {t} (person) VALUES (NULL)", f"UPDATE {t} SET id = 'x' WHERE id = 0", f"DELETE FROM {t} WHERE nothing = 1",
                f"MERGE INTO {t} t USING (SELECT 1L AS id UNION ALL SELECT 1L) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET ok = false", f"INSERT INTO {t} SELECT 1"):
        try:
            spark.sql(bad)
            out("worked", bad.replace(t, "T"))
        except Exception as e:
            out("failed", bad.replace(t, "T"), type(e).__name__)
    out("still", spark.table(t).count(), spark.table(t).where("ok").count())

same = dump("nb.db.merge_on_read") == dump("nb.db.copy_on_write")
out("same", same, spark.sql("SELECT * FROM nb.db.merge_on_read EXCEPT SELECT m.* FROM nb.db.merge_on_read m JOIN nb.db.copy_on_write c ON m.id = c.id AND m.ok <=> c.ok").count() if False else None)
row = spark.table("nb.db.merge_on_read").where("id = 0").first()
out("types", {k: type(v).__name__ for k, v in row.asDict().items()}, row.person.address.zip, str(row.seen), row.scores["x"])
