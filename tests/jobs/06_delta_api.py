"""Tour of DeltaTable: builders, merge with schema evolution, conversions, clones, history and maintenance."""
import json
import os
import sys

from delta import *
from delta.tables import IdentityGenerator
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, expr, lit
from pyspark.sql.types import *

base = sys.argv[1]
builder = SparkSession.builder.appName("tour") \
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension") \
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog") \
    .config("spark.sql.warehouse.dir", os.path.join(base, "wh")) \
    .config("spark.sql.shuffle.partitions", "2")
spark = builder.getOrCreate()
spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", False)
spark.sparkContext.setLogLevel("ERROR")


def out(name, *values):
    print("OUT " + json.dumps([name, *values], default=str))


def rows(df):
    return sorted([list(r) for r in df.collect()], key=str)


def attempt(name, f):
    try:
        r = f()
        out(name, "ok", isinstance(r, DeltaTable))
    except Exception as e:
        out(name, type(e).__name__, getattr(e, "getCondition", lambda: None)())


# builders
path = base + "/products"
t = (DeltaTable.create(spark).tableName("products").location(path).comment("things we sell")
     .addColumn("id", "BIGINT", nullable=False)
     .addColumn("name", StringType(), comment="label")
     .addColumn("price", "DECIMAL(9,2)")
     .addColumn("gross", "DECIMAL(12,2)", generatedAlwaysAs="CAST(price * 2 AS DECIMAL(12,2))", comment="with tax")
     .addColumn("cat", "STRING").partitionedBy("cat").property("delta.appendOnly", "false").property("owner.team", "shop").execute())
out("created", type(t).__name__, t.toDF().schema.simpleString(), [f.nullable for f in t.toDF().schema], DeltaTable.isDeltaTable(spark, path), DeltaTable.isDeltaTable(spark, base))
attempt("create again", lambda: DeltaTable.create(spark).tableName("products").addColumn("id", "INT").execute())
attempt("if not exists", lambda: DeltaTable.createIfNotExists(spark).tableName("products").addColumn("id", "INT").execute())
attempt("replace nothing", lambda: DeltaTable.replace(spark).tableName("nothing").addColumn("id", "INT").execute())
attempt("no table", lambda: DeltaTable.forPath(spark, base + "/none"))
attempt("no name", lambda: DeltaTable.forName(spark, "none"))
spark.createDataFrame([(1, "pen", 1, "a"), (2, "ink", 2, "a"), (3, "cup", 3, "b"), (4, None, None, "b")], "id long, name string, price int, cat string") \
    .withColumn("price", col("price").cast("decimal(9,2)")).write.format("delta").mode("append").save(path)
ids = DeltaTable.createOrReplace(spark).tableName("ids").addColumn("k", LongType(), generatedAlwaysAs=IdentityGenerator(start=5, step=5)) \
    .addColumn("d", LongType(), generatedByDefaultAs=IdentityGenerator()).addColumns(StructType([StructField("v", StringType())])).clusterBy("v").execute()
spark.range(3).selectExpr("cast(id AS string) v").write.format("delta").mode("append").saveAsTable("ids")
out("ids", ids.toDF().selectExpr("count(distinct k) n", "sum(int(k % 5)) m", "min(d) > 0 d").first().asDict(), ids.detail().select("clusteringColumns", "name").first().asDict())

# changes
t = DeltaTable.forName(spark, "default.products")
out("update", t.update(condition=col("cat") == "a", set={"price": col("price") + 1, "name": expr("upper(name)")}))
out("update all", t.update(set={"name": "coalesce(name, 'unknown')"}))
out("delete", t.delete("id = 3"), rows(t.toDF()))
spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
src = spark.createDataFrame([(1, "PEN", 10, "a", "new"), (7, "hat", 70, "c", None)], "id long, name string, price int, cat string, extra string")
m = (t.alias("t").merge(src.alias("s"), "t.id = s.id AND t.cat = s.cat")
     .whenMatchedUpdate(set={"price": "cast(s.price AS decimal(9,2))", "extra": "s.extra"})
     .whenNotMatchedInsert(condition="s.id > 5", values={"id": "s.id", "name": "s.name", "price": "s.price", "cat": "s.cat"})
     .whenNotMatchedBySourceUpdate(condition="t.id = 2", set={"name": lit("old")})
     .whenNotMatchedBySourceDelete("t.price IS NULL").execute())
out("merge", m.columns, rows(m), spark.read.format("delta").load(path).columns, rows(spark.table("products")))
spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
wide = spark.createDataFrame([(2, 5, "red"), (8, 8, "blue")], "id long, weight int, color string").withColumn("cat", lit("a"))
attempt("merge strict", lambda: DeltaTable.forPath(spark, path).alias("t").merge(wide.alias("s"), "t.id = s.id").whenMatchedUpdate(set={"weight": "s.weight"}).execute())
DeltaTable.forPath(spark, path).alias("t").merge(wide.alias("s"), "t.id = s.id").withSchemaEvolution().whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
out("evolved", spark.table("products").schema.simpleString(), rows(spark.table("products").select("id", "weight", "color", "gross")))
attempt("bad condition", lambda: t.alias("t").merge(src.alias("s"), "t.nope = s.id").whenMatchedDelete().execute())
attempt("no clause", lambda: t.alias("t").merge(src.alias("s"), "t.id = s.id").execute())
attempt("bad column", lambda: t.update(set={"nope": "1"}))
attempt("generated", lambda: DeltaTable.forPath(spark, path).update("id = 1", {"gross": "1"}))

# history, detail, restore
out("history", [[r.version, r.operation, r.operationMetrics.get("numOutputRows"), r.readVersion, r.isBlindAppend] for r in t.history().orderBy("version").collect()])
out("parameters", [sorted(r.operationParameters) for r in t.history(2).orderBy("version").collect()], t.history().columns)
out("detail", t.detail().select("format", "name", "description", "partitionColumns", "properties", "numFiles").first().asDict())
restored = t.restoreToVersion(1)
out("restored", restored.columns, rows(t.toDF().select("id")), rows(spark.table("products").select("id")))
attempt("restore", lambda: t.restoreToVersion(99))

# conversions and clones
pq = base + "/pq"
spark.range(6).selectExpr("id", "cast(id % 2 AS int) AS part").write.partitionBy("part").parquet(pq)
c = DeltaTable.convertToDelta(spark, f"parquet.`{pq}`", "part int")
out("converted", rows(c.toDF()), c.history().first().operation, c.detail().first().partitionColumns)
attempt("convert again", lambda: DeltaTable.convertToDelta(spark, f"parquet.`{pq}`", "part int"))
c.generate("symlink_format_manifest")
out("manifests", sorted(os.listdir(pq + "/_symlink_format_manifest")))
attempt("generate", lambda: c.generate("other"))
shallow = os.path.abspath(base) + "/shallow"
c.clone(shallow, isShallow=True)
attempt("deep clone", lambda: c.clone(shallow + "2", False))
attempt("clone again", lambda: c.clone(shallow, isShallow=True))
DeltaTable.forPath(spark, shallow).delete("part = 1")
out("clone", rows(spark.read.format("delta").load(shallow)), c.toDF().count(), DeltaTable.forPath(spark, shallow).history().orderBy("version").first().operation)

# maintenance
for i in range(3):
    spark.createDataFrame([(50 + i, 0)], "id long, part int").write.format("delta").mode("append").save(pq)
done = c.optimize().where("part = 0").executeCompaction()
out("optimize", done.columns, done.select("metrics.numFilesAdded", "metrics.numFilesRemoved", "metrics.partitionsOptimized").first().asDict())
attempt("zorder", lambda: c.optimize().executeZOrderBy("part"))
out("zorder by id", c.optimize().executeZOrderBy(["id"]).columns, c.toDF().count())
out("vacuum", c.vacuum(0).count(), c.toDF().count(), [r.operation for r in c.history(2).collect()])
c.upgradeTableProtocol(1, 3)
c.addFeatureSupport("deletionVectors")
out("protocol", c.detail().select("minReaderVersion", "minWriterVersion").first().asDict(), sorted(c.detail().first().tableFeatures))
out("deleted", c.delete("id = 50"), c.toDF().count(), c.toDF().where("id = 50").count(), c.history(1).first().operationMetrics.get("numDeletionVectorsAdded"))
attempt("unknown feature", lambda: c.addFeatureSupport("telepathy"))
spark.sql("DROP TABLE products")
out("external", DeltaTable.isDeltaTable(spark, path), spark.catalog.tableExists("products"))
