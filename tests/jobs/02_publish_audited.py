# Write-audit-publish for prices: changes go to a branch, are checked there, and are published or thrown away.
import json
import sys

from pyspark.sql import Row, SparkSession
from pyspark.sql.utils import AnalysisException

conf = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.local.type": "hadoop",
    "spark.sql.catalog.local.warehouse": sys.argv[1],
    "spark.sql.shuffle.partitions": "2",
}
builder = SparkSession.builder
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
sql = spark.sql


def show(title, df_or_value):
    if hasattr(df_or_value, "collect"):
        df_or_value = sorted((list(r) for r in df_or_value.collect()), key=str)
    print("OUT " + title + ": " + json.dumps(df_or_value, default=str))


def snapshots():
    return [r.snapshot_id for r in sql("SELECT snapshot_id FROM local.shop.prices.snapshots ORDER BY committed_at").collect()]


sql("CREATE TABLE local.shop.prices (sku STRING, price DECIMAL(8,2), currency STRING) USING iceberg TBLPROPERTIES ('format-version'='2', 'write.wap.enabled'='true')")
sql("INSERT INTO local.shop.prices VALUES ('a', 1.10, 'EUR'), ('b', 2.20, 'EUR'), ('c', 3.30, 'USD')")
sql("ALTER TABLE local.shop.prices CREATE TAG `2026-Q1` RETAIN 365 DAYS")
v1 = snapshots()[-1]

# 1. a branch, written by SQL and by the DataFrame API
sql("ALTER TABLE local.shop.prices CREATE BRANCH next WITH SNAPSHOT RETENTION 5 SNAPSHOTS 7 DAYS")
sql("INSERT INTO local.shop.prices.branch_next VALUES ('d', 4.40, 'EUR')")
spark.createDataFrame([Row(sku="e", price="5.5", currency="CHF")]).selectExpr("sku", "cast(price AS decimal(8,2)) price", "currency") \
    .writeTo("local.shop.prices.branch_next").append()
sql("UPDATE local.shop.prices.branch_next SET price = price * 2 WHERE currency = 'EUR'")
show("main", sql("SELECT * FROM local.shop.prices"))
show("next", sql("SELECT * FROM local.shop.prices VERSION AS OF 'next'"))
show("next by option", spark.read.option("branch", "next").table("local.shop.prices").count())
show("next by name", spark.table("local.shop.prices.branch_next").agg({"price": "sum"}))
show("tag", spark.read.option("versionAsOf", "2026-Q1").format("iceberg").load("local.shop.prices").count())
show("refs", sql("SELECT name, type, max_reference_age_in_ms, min_snapshots_to_keep, max_snapshot_age_in_ms FROM local.shop.prices.refs"))

# 2. the audit fails for a negative price: drop the branch, make a new one
sql("INSERT INTO local.shop.prices.branch_next VALUES ('f', -1, 'EUR')")
bad = sql("SELECT sku FROM local.shop.prices.branch_next WHERE price < 0")
show("bad", bad)
sql("DELETE FROM local.shop.prices.branch_next WHERE price < 0")
show("fast forward", [list(r)[0] for r in sql("CALL local.system.fast_forward('shop.prices', 'main', 'next')").collect()])
show("published", spark.table("local.shop.prices").orderBy("sku"))

# 3. staged writes with an id, published by cherry-pick
spark.conf.set("spark.wap.id", "load-17")
sql("INSERT INTO local.shop.prices VALUES ('g', 7.70, 'USD')")
spark.conf.unset("spark.wap.id")
show("not visible", spark.table("local.shop.prices").where("sku = 'g'").count())
staged = sql("SELECT snapshot_id FROM local.shop.prices.snapshots WHERE summary['wap.id'] = 'load-17'").collect()
show("staged", len(staged))
result = sql("CALL local.system.publish_changes(table => 'shop.prices', wap_id => 'load-17')")
show("publish", [result.columns, spark.table("local.shop.prices").where("sku = 'g'").count()])
spark.conf.set("spark.wap.branch", "audit")
sql("INSERT INTO local.shop.prices VALUES ('h', 8.80, 'USD')")
show("wap branch sees", spark.table("local.shop.prices").where("sku = 'h'").count())
spark.conf.unset("spark.wap.branch")
show("main sees", spark.table("local.shop.prices").where("sku = 'h'").count())

# 4. what changed between the tag and now
view = sql(f"CALL local.system.create_changelog_view(table => 'shop.prices', options => map('start-snapshot-id', '{v1}'), identifier_columns => array('sku'), changelog_view => 'price_changes')")
show("view", view)
show("changes", sql("SELECT sku, price, _change_type, _change_ordinal FROM price_changes"))
show("change columns", spark.table("price_changes").columns)
show("first", sql(f"SELECT count(*), max(sku) FROM local.shop.prices VERSION AS OF {v1}"))
show("incremental", spark.read.format("iceberg").option("start-snapshot-id", v1).option("end-snapshot-id", snapshots()[1]).load("local.shop.prices").select("sku"))

# 5. roll back to the first state, and errors
back = sql(f"CALL local.system.rollback_to_snapshot('shop.prices', {v1})")
show("rollback", [back.columns, back.first().current_snapshot_id == v1])
show("after", spark.table("local.shop.prices").count())
sql("CALL local.system.set_current_snapshot(table => 'shop.prices', ref => 'audit')")
show("set current", spark.table("local.shop.prices").count())
show("ancestors", sql("CALL local.system.ancestors_of('shop.prices')").count())
show("history", sql("SELECT is_current_ancestor, count(*) FROM local.shop.prices.history GROUP BY 1"))
sql("ALTER TABLE local.shop.prices DROP TAG `2026-Q1`")
sql("ALTER TABLE local.shop.prices DROP BRANCH IF EXISTS nothing")
for statement in ("SELECT * FROM local.shop.prices VERSION AS OF 'nope'", "SELECT * FROM local.shop.prices.branch_nope", "ALTER TABLE local.shop.prices CREATE BRANCH next",
                  "ALTER TABLE local.shop.prices DROP BRANCH main", "SELECT * FROM local.shop.nope", "CALL local.system.nope()", "SELECT nope FROM local.shop.prices",
                  "SELECT * FROM local.shop.prices TIMESTAMP AS OF '2001-01-01'", "CALL local.system.rollback_to_snapshot('shop.prices', 17)"):
    try:
        sql(statement).collect()
        show(statement, "worked")
    except AnalysisException as e:
        show(statement, ["analysis", e.getErrorClass()])
    except Exception as e:
        show(statement, type(e).__name__)
sql("ALTER TABLE local.shop.prices REPLACE BRANCH next RETAIN 2 DAYS")
show("refs", sql("SELECT name, type, max_reference_age_in_ms FROM local.shop.prices.refs"))
