"""HR reports. The default catalog is an Iceberg catalog, so nothing in here names it."""
import json
import sys
from decimal import Decimal

import pyspark.sql.functions as F
import pyspark.sql.types as T
from pyspark.sql import SparkSession, Window

spark = (SparkSession.builder
         .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
         .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
         .config("spark.sql.catalog.ice.type", "hadoop")
         .config("spark.sql.catalog.ice.warehouse", sys.argv[1] + "/ice")
         .config("spark.sql.catalog.archive", "org.apache.iceberg.spark.SparkCatalog")
         .config("spark.sql.catalog.archive.type", "hadoop")
         .config("spark.sql.catalog.archive.warehouse", sys.argv[1] + "/archive")
         .config("spark.sql.defaultCatalog", "ice")
         .config("spark.sql.warehouse.dir", sys.argv[1] + "/spark")
         .config("spark.sql.shuffle.partitions", 2)
         .config("spark.sql.session.timeZone", "UTC")
         .getOrCreate())


def out(**kwargs):
    for name, value in kwargs.items():
        if isinstance(value, list) and value and isinstance(value[0], T.Row):
            value = [list(row) for row in value]
        print("OUT", name, json.dumps(value, default=str))


out(catalog=spark.catalog.currentCatalog(), database=spark.catalog.currentDatabase())
try:
    spark.sql("CREATE DATABASE IF NOT EXISTS hr COMMENT 'people' WITH DBPROPERTIES ('team'='hr')")
except Exception as e:
    out(comment=type(e).__name__)  # a hadoop catalog keeps no properties of namespaces
    spark.sql("CREATE DATABASE IF NOT EXISTS hr")
spark.sql("USE hr")
out(now=spark.sql("SELECT current_catalog(), current_schema()").collect(), db=spark.catalog.currentDatabase())

# tables by saveAsTable, CTAS and VALUES
people = spark.createDataFrame(
    [(1, "Ann", "dev", Decimal("5000.00"), None), (2, "Bob", "dev", Decimal("4200.50"), 1), (3, "Cid", "ops", Decimal("3900.00"), 1),
     (4, "Dan", "ops", Decimal("3900.00"), 3), (5, "Eve", None, Decimal("7000.00"), None)],
    T.StructType([T.StructField("id", T.IntegerType(), False), T.StructField("name", T.StringType(), False), T.StructField("dept", T.StringType()),
                  T.StructField("salary", T.DecimalType(10, 2)), T.StructField("boss", T.IntegerType())]))
people.write.format("iceberg").saveAsTable("people")
spark.sql("CREATE TABLE depts USING iceberg PARTITIONED BY (site) AS SELECT * FROM VALUES ('dev', 'Kyiv', 10), ('ops', 'Lviv', 20), ('law', 'Kyiv', 30) AS t(dept, site, floor)")
spark.sql("CREATE TABLE IF NOT EXISTS bonus (id INT, year INT, amount DECIMAL(8,2))")
spark.range(4).select(F.col("id").cast("int"), F.lit(2025), (F.col("id") * 10).cast("decimal(8,2)")).write.insertInto("bonus")
spark.range(1, 3).select(F.col("id").cast("int"), F.lit(2026), F.lit(7).cast("decimal(8,2)")).write.insertInto("hr.bonus", overwrite=False)
out(schema=spark.table("people").schema.simpleString(), nullable=[f.nullable for f in spark.table("people").schema.fields])
out(tables=sorted((t.name, t.catalog, t.namespace, t.tableType, t.isTemporary) for t in spark.catalog.listTables()))
out(databases=sorted((d.name, d.catalog) for d in spark.catalog.listDatabases()), catalogs=sorted(c.name for c in spark.catalog.listCatalogs()))
out(columns=[(c.name, c.dataType, c.nullable, c.isPartition) for c in spark.catalog.listColumns("depts")])
out(get=spark.catalog.getTable("people").name, kind=spark.catalog.getTable("hr.people").tableType)
out(exists=[spark.catalog.tableExists(n) for n in ("people", "hr.people", "ice.hr.people", "archive.hr.people", "nobody")],
    dbs=[spark.catalog.databaseExists(n) for n in ("hr", "ice.hr", "nope")])

# views, common table expressions, subqueries, windows
spark.table("people").where("dept IS NOT NULL").createOrReplaceTempView("staff")
spark.sql("CREATE OR REPLACE TEMPORARY VIEW kyiv AS SELECT p.*, d.floor FROM people p JOIN depts d USING (dept) WHERE d.site = 'Kyiv'")
people.limit(1).createOrReplaceGlobalTempView("first_of_all")
out(views=sorted((t.name, t.isTemporary) for t in spark.catalog.listTables() if t.isTemporary), all=sorted(r.tableName for r in spark.sql("SHOW TABLES").collect()))
out(kyiv=spark.sql("SELECT id, name, floor FROM kyiv ORDER BY id").collect(), glob=spark.sql("SELECT count(*) FROM global_temp.first_of_all").collect())
out(chain=spark.sql("""
    WITH paid AS (SELECT id, sum(amount) AS bonus FROM bonus GROUP BY id),
         top AS (SELECT dept, max(salary) AS best FROM people GROUP BY dept)
    SELECT p.name, coalesce(b.bonus, 0) AS bonus, p.salary = t.best AS best, (SELECT name FROM people x WHERE x.id = p.boss) AS boss
    FROM people p LEFT JOIN paid b ON b.id = p.id JOIN top t ON t.dept <=> p.dept
    WHERE EXISTS (SELECT 1 FROM depts d WHERE d.dept = p.dept) OR p.dept IS NULL ORDER BY p.id""").collect())
w = Window.partitionBy("dept").orderBy(F.desc("salary"), "id")
out(ranks=people.sparkSession.table("ice.hr.people").select("name", F.rank().over(w).alias("r"), F.dense_rank().over(w).alias("d"),
                                                             F.lag("name").over(w).alias("above"), F.sum("salary").over(w).alias("run")).orderBy("name").collect())


@F.udf(returnType="string")
def grade(salary):
    return "A" if salary >= 5000 else "B"


spark.udf.register("shout", lambda s: s.upper() + "!", "string")
out(udf=spark.sql("SELECT shout(name) AS s FROM staff ORDER BY 1").collect(), grades=spark.table("people").groupBy(grade("salary").alias("g")).count().orderBy("g").collect())
spark.sql("DELETE FROM people WHERE shout(name) = 'EVE!'")
spark.sql("UPDATE people SET salary = salary + :plus WHERE dept = :dept", args={"plus": 100, "dept": "ops"})
out(args=spark.sql("SELECT name, salary FROM people WHERE salary > ? ORDER BY name", args=[3999]).collect(), view_follows=spark.table("staff").count())
out(frames=spark.sql("SELECT p.name FROM {p} p JOIN {extra} e ON p.id = e.id", p=spark.table("people"), extra=spark.range(2, 4)).orderBy("name").collect())

# two catalogs, and back
spark.sql("CREATE TABLE archive.hr.people USING iceberg AS SELECT * FROM ice.hr.people WHERE id < 3")
spark.catalog.setCurrentCatalog("archive")
out(after=[spark.catalog.currentCatalog(), spark.catalog.currentDatabase()], found=spark.sql("SELECT count(*) FROM hr.people").collect())
spark.catalog.setCurrentDatabase("hr")
out(both=spark.sql("SELECT id FROM people EXCEPT SELECT id FROM ice.hr.people WHERE id = 1").collect())
spark.sql("USE ice.hr")
for text in ("SELECT * FROM nobody", "SELECT salry FROM people", "INSERT INTO people VALUES (1, 'x')", "CREATE TABLE people (id INT) USING iceberg", "DROP TABLE nobody", "USE nocatalog.x", "DROP NAMESPACE hr"):
    try:
        spark.sql(text).collect()
        out(**{text: "fine"})
    except Exception as e:
        out(**{text: [type(e).__name__, e.getCondition() if hasattr(e, "getCondition") else None]})
out(dropped=[spark.catalog.dropTempView("staff"), spark.catalog.dropTempView("staff"), spark.catalog.dropGlobalTempView("first_of_all")])
spark.sql("DROP TABLE bonus")
out(rest=[r.tableName for r in spark.sql("SHOW TABLES IN ice.hr LIKE '*e*'").orderBy("tableName").collect()], create=spark.sql("SHOW CREATE TABLE depts").columns,
    namespace=[list(r) for r in spark.sql("DESCRIBE NAMESPACE hr").collect() if r[0] in ("Catalog Name", "Namespace Name")])
