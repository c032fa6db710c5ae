"""Features for a model, by people who think in pandas: pandas UDFs, Arrow, and pandas API on Spark over tables."""
import json
import os
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import pandas_udf

warnings.filterwarnings("ignore")
root = os.path.abspath(sys.argv[1])
spark = (SparkSession.builder.appName("features")
         .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
         .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
         .config("spark.sql.catalog.feat", "org.apache.iceberg.spark.SparkCatalog").config("spark.sql.catalog.feat.type", "hadoop")
         .config("spark.sql.catalog.feat.warehouse", f"{root}/feat").config("spark.sql.warehouse.dir", f"{root}/wh")
         .config("spark.sql.execution.arrow.pyspark.enabled", "true").config("spark.sql.shuffle.partitions", "2")
         .config("spark.sql.session.timeZone", "UTC").config("spark.sql.ansi.enabled", "false").getOrCreate())


def out(title, *values):
    print("OUT", title, *[json.dumps(v, default=str) for v in values])


# pandas -> tables
pdf = pd.DataFrame({
    "user": np.arange(12, dtype="int64"),
    "group": ["abc"[i % 3] for i in range(12)],
    "x": np.linspace(0, 11, 12),
    "n": pd.array([None if i == 5 else i for i in range(12)], dtype="Int32"),
    "when": pd.date_range("2026-01-01 12:00", periods=12, freq="36h"),
    "flag": [i % 4 == 0 for i in range(12)],
})
users = spark.createDataFrame(pdf)
users.writeTo("feat.ml.users").partitionedBy(F.col("group")).create()
users.write.format("delta").partitionBy("group").saveAsTable("users")
for name in ("feat.ml.users", "users"):
    back = spark.table(name).orderBy("user").toPandas()
    out(name, list(back.columns), [str(t) for t in back.dtypes], back.shape, back["x"].sum(), str(back["when"].max()), int(back["n"].isna().sum()))
    out(name, spark.table(name).schema.simpleString(), spark.table(name).describe("x", "n").collect()[1].asDict())


# pandas UDFs: scalar, iterator, grouped aggregate, grouped map, cogrouped, mapInPandas, mapInArrow
@pandas_udf("double")
def scaled(x: pd.Series) -> pd.Series:
    return (x * 2).round(3)


@pandas_udf("double")
def spread(x: pd.Series) -> float:
    return float(x.max() - x.min())


def standardize(g: pd.DataFrame) -> pd.DataFrame:
    return g.assign(x=(g.x - g.x.mean()).round(4))[["user", "group", "x"]]


def only_even(batches):
    for b in batches:
        yield b[b.user % 2 == 0][["user", "x"]]


def arrow_counts(batches):
    for b in batches:
        yield pa.RecordBatch.from_pydict({"rows": [b.num_rows], "columns": [b.num_columns]})


ice, dl = spark.table("feat.ml.users"), spark.read.table("default.users")
out("scalar", [r[0] for r in ice.orderBy("user").select(scaled("x")).collect()][:4])
out("aggregate", [list(r) for r in dl.groupBy("group").agg(spread("x")).orderBy("group").collect()], dl.groupBy("group").agg(spread("x")).columns)
std = ice.groupBy("group").applyInPandas(standardize, "user long, group string, x double")
std.write.mode("overwrite").format("delta").save(f"{root}/std")
out("grouped", [list(r) for r in spark.read.format("delta").load(f"{root}/std").orderBy("user").limit(5).collect()])
out("mapInPandas", dl.mapInPandas(only_even, "user long, x double").agg(F.sum("x"), F.count("*")).first().asDict())
out("mapInArrow", ice.coalesce(1).mapInArrow(arrow_counts, "rows long, columns long").agg(F.sum("rows")).first()[0])
out("cogroup", ice.groupBy("group").cogroup(dl.groupBy("group")).applyInPandas(lambda a, b: pd.DataFrame({"g": [a.group.iloc[0]], "same": [len(a) == len(b)]}), "g string, same boolean").orderBy("g").toPandas().to_dict("records"))
spark.udf.register("scaled", scaled)
spark.sql("MERGE INTO feat.ml.users t USING (SELECT user, scaled(x) AS x FROM users WHERE flag) s ON t.user = s.user WHEN MATCHED THEN UPDATE SET x = s.x")
spark.sql("UPDATE users SET x = -1 WHERE n IS NULL")
out("merged", [list(r) for r in spark.table("feat.ml.users").where("x > 11 OR flag").select("user", "x").orderBy("user").collect()], spark.sql("SELECT user FROM users WHERE x < 0").toPandas()["user"].tolist())

# Arrow
table = spark.table("feat.ml.users").select("user", "group", "when").orderBy("user").toArrow()
out("arrow", table.num_rows, [str(f.type) for f in table.schema], table.schema.names, table.column("group").to_pylist()[:3])
spark.createDataFrame(table.slice(0, 2)).write.format("delta").mode("append").save(f"{root}/from_arrow")
out("arrow to delta", spark.read.format("delta").load(f"{root}/from_arrow").schema.simpleString(), spark.read.format("delta").load(f"{root}/from_arrow").count())

# pandas API on Spark
import pyspark.pandas as ps  # noqa: E402

ps.set_option("compute.default_index_type", "distributed-sequence")
psdf = ps.read_table("feat.ml.users")
out("ps iceberg", psdf.shape, sorted(psdf.columns), float(psdf["x"].mean()), psdf.groupby("group")["user"].sum().sort_index().to_dict())
pd2 = ps.read_table("users", index_col="user")
out("ps delta", pd2.shape, pd2.loc[3, "group"], {k: int(v) for k, v in pd2["group"].value_counts().sort_index().items()})
ps.read_delta(f"{root}/std").sort_values("user").head(3).to_delta(f"{root}/std_head", mode="overwrite")
out("ps to_delta", ps.read_delta(f"{root}/std_head").shape, ps.read_delta(f"{root}/std", version="0").shape)
psdf[["user", "x"]].to_table("small", format="delta", mode="overwrite")
psdf[["user", "group"]].to_table("feat.ml.small", format="iceberg", mode="overwrite", partition_cols="group")
out("ps to_table", spark.table("small").count(), spark.table("feat.ml.small").count(), spark.table("feat.ml.small").columns)
out("ps sql", ps.sql("SELECT group, max(x) AS m FROM {t} GROUP BY group ORDER BY group", t=psdf).to_dict("list"))
psdf["y"] = psdf["x"].apply(lambda v: v + 0.5)
out("ps apply", sorted(psdf["y"].to_numpy().tolist())[:3], psdf.to_spark().columns)
psdf.spark.frame().where("user < 2").drop("y").write.format("delta").mode("append").saveAsTable("users")
out("ps spark frame", spark.table("users").count(), [r.operation for r in spark.sql("DESCRIBE HISTORY users").orderBy("version").collect()])
joined = ps.read_table("feat.ml.small").merge(ps.read_table("small"), on="user", how="inner").sort_values("user")
out("ps merge", joined.shape, joined.head(2).to_dict("records"), list(joined.dtypes.astype(str)))
spark.stop()
