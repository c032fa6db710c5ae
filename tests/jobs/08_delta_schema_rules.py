# What the writers of our Delta tables may do and what they may not: each rule is tried.
import json
import sys
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import *
from pyspark.sql.types import *

folder = sys.argv[1]
T = f"{folder}/t"
spark = SparkSession.builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension") \
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog") \
    .config("spark.sql.sources.partitionOverwriteMode", "static").config("spark.sql.shuffle.partitions", "2") \
    .config("spark.sql.session.timeZone", "UTC").config("spark.sql.warehouse.dir", f"{folder}/wh").getOrCreate()


def out(*a):
    print("OUT", json.dumps(a, default=str))


@contextmanager
def rule(name):
    try:
        yield
        out(name, "allowed")
    except AnalysisException as e:
        out(name, "AnalysisException", e.getCondition())
    except PySparkException as e:
        out(name, type(e).__name__)
    except Exception as e:
        out(name, type(e).__name__)


def df(text, schema="id INT, region STRING, amount DOUBLE"):
    data = [tuple(None if v == "-" else v for v in line.split(",")) for line in text.split()]
    names = [f.name for f in StructType.fromDDL(schema)] if hasattr(StructType, "fromDDL") else schema
    raw = spark.createDataFrame(data, ", ".join(f"`{n}` STRING" for n in names)).coalesce(1)
    return raw.select([col(f"`{f.name}`").cast(f.dataType).alias(f.name) for f in StructType.fromDDL(schema)])


def read(path=T, **options):
    return spark.read.format("delta").options(**options).load(path)


def dump(path=T):
    out("rows", read(path).schema.simpleString(), sorted((list(r) for r in read(path).collect()), key=str))


def ops(path=T):
    out("ops", [[r.operation, r.operationParameters.get("mode")] for r in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").orderBy("version").collect()])


first = df("1,eu,1.5 2,eu,2.5 3,us,3.5 4,-,4.5")
with rule("default mode, new path"):
    first.write.format("delta").partitionBy("region").save(T)
with rule("default mode, again"):
    first.write.format("delta").save(T)
with rule("ignore"):
    df("9,zz,9").write.format("delta").mode("ignore").save(T)
dump()

# appends: types, columns, cases
with rule("append, same"):
    df("5,eu,5").write.format("delta").mode("append").save(T)
with rule("append, other order and case"):
    df("6,us,6").select("amount", col("ID"), "region").toDF("AMOUNT", "Id", "region").write.format("delta").mode("append").save(T)
with rule("append, missing column"):
    df("7,us,7").drop("amount").write.format("delta").mode("append").save(T)
with rule("append, int for double"):
    df("8,us,8").withColumn("amount", col("amount").cast("int")).write.format("delta").mode("append").save(T)
with rule("append, long for int"):
    df("9,us,9").withColumn("id", col("id").cast("long")).write.format("delta").mode("append").save(T)
with rule("append, string for double"):
    df("10,us,1").withColumn("amount", lit("12.5")).write.format("delta").mode("append").save(T)
with rule("append, new column"):
    df("11,us,1").withColumn("note", lit("n")).write.format("delta").mode("append").save(T)
with rule("append, new column, mergeSchema"):
    df("12,us,1").withColumn("note", struct(lit("n").alias("a"))).write.format("delta").mode("append").option("mergeSchema", "true").save(T)
with rule("append, new nested column, mergeSchema"):
    df("13,us,1").withColumn("note", struct(lit("n").alias("a"), lit(1).alias("b"))).write.format("delta").mode("append").option("mergeSchema", True).save(T)
with rule("append, other type, mergeSchema"):
    df("14,us,1").withColumn("note", lit(1)).write.format("delta").mode("append").option("mergeSchema", "true").save(T)
with rule("append, other partitioning"):
    df("15,us,1").write.format("delta").mode("append").partitionBy("id").save(T)
with rule("append, column twice"):
    df("16,us,1").select("id", "region", "amount", col("id").alias("ID")).write.format("delta").mode("append").save(T)
with rule("name with a space"):
    df("17,us,1").withColumnRenamed("amount", "the amount").write.format("delta").save(f"{folder}/spaces")
with rule("void column"):
    df("18,us,1").withColumn("v", lit(None)).write.format("delta").save(f"{folder}/void")
dump()

# overwrites of parts
with rule("replaceWhere"):
    df("20,eu,20 21,eu,21").write.format("delta").mode("overwrite").option("replaceWhere", "region = 'eu'").save(T)
with rule("replaceWhere, violated"):
    df("22,eu,1 23,us,1").write.format("delta").mode("overwrite").option("replaceWhere", "region = 'eu'").save(T)
with rule("replaceWhere, data column"):
    df("30,us,300").write.format("delta").mode("overwrite").option("replaceWhere", "id >= 12 AND id < 20").save(T)
with rule("replaceWhere, in two"):
    df("40,us,1").write.format("delta").mode("append").option("replaceWhere", "region = 'us'").save(T)
with rule("dynamic by option"):
    df("50,-,50 51,asia,51").write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(T)
dump()
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
with rule("dynamic by setting"):
    df("60,asia,60").write.format("delta").mode("overwrite").save(T)
out("counts", [list(r) for r in read().groupBy("region").count().orderBy("region").collect()])
spark.conf.set("spark.sql.sources.partitionOverwriteMode", "static")

# overwrites of everything
with rule("overwrite, other schema"):
    df("1,x", "k INT, v STRING").write.format("delta").mode("overwrite").save(T)
with rule("overwrite, mergeSchema"):
    df("70,eu,70").withColumn("more", current_date() > "2020-01-01").write.format("delta").mode("overwrite").option("mergeSchema", "true").save(T)
dump()
with rule("overwriteSchema"):
    df("1,x 2,y", "k INT, v STRING").write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(T)
with rule("overwriteSchema, partitioned"):
    df("1,x 2,y", "k INT, v STRING").write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("v").save(T)
dump()
ops()

# reads
with rule("version too high"):
    read(versionAsOf=1000).count()
with rule("version and timestamp"):
    read(versionAsOf=1, timestampAsOf="2026-01-01").count()
with rule("timestamp too early"):
    read(timestampAsOf="2001-01-01").count()
with rule("no table"):
    read(f"{folder}/none").count()
with rule("schema given"):
    spark.read.format("delta").schema("k INT").load(T).count()
with rule("unknown column"):
    read().select("nope")
with rule("sql syntax"):
    spark.sql("SELEC 1")
with rule("version 0"):
    out("first version", read(versionAsOf="0").count(), read(f"{T}@v0").count())

# tables of the catalog
first.write.format("delta").saveAsTable("facts")
with rule("saveAsTable again"):
    first.write.format("delta").saveAsTable("facts")
with rule("saveAsTable append parquet"):
    first.write.format("parquet").mode("append").saveAsTable("facts")
with rule("insertInto by position"):
    df("80,eu,80").toDF("a", "b", "c").write.insertInto("facts")
with rule("insertInto, fewer"):
    df("81,eu,80").select("id").write.insertInto("facts")
with rule("writeTo replace"):
    df("1,x", "k INT, v STRING").writeTo("facts").using("delta").createOrReplace()
with rule("writeTo create"):
    df("1,x", "k INT, v STRING").writeTo("facts").using("delta").create()
with rule("writeTo append"):
    df("2,x", "k INT, v STRING").writeTo("facts").append()
with rule("writeTo overwrite"):
    df("5,z", "k INT, v STRING").writeTo("facts").overwrite(col("v") == "x")
out("facts", spark.table("facts").schema.simpleString(), sorted(list(r) for r in spark.table("facts").collect()))
for c in ("NOT NULL", "CHECK"):
    spark.sql(f"CREATE OR REPLACE TABLE checked (id INT NOT NULL, v INT) USING delta")
    spark.sql("ALTER TABLE checked ADD CONSTRAINT vpos CHECK (v > 0)")
    with rule(c):
        df("-,1" if c == "NOT NULL" else "1,-1", "id INT, v INT").write.format("delta").mode("append").saveAsTable("checked")
out("checked", spark.table("checked").count(), [[r.key, r.value] for r in spark.sql("SHOW TBLPROPERTIES checked").collect() if "constraints" in r.key])
