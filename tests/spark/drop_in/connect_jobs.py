"""Script for a separate process: an enabled Spark Connect session. Prints 'fine' on success."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakescan.spark

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"


def main(folder: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    configure(spark, "lake", f"{folder}/lake")
    before = vars(type(spark)).copy()
    found = lakescan.spark.enable(spark)
    assert found.catalogs == {"lake": f"{folder}/lake"}, found
    assert spark.conf.get("spark.sql.catalog.lake") == ICEBERG
    tables(spark, folder)
    later(spark, folder)
    streams(spark, folder)
    batches(spark, folder)
    lakescan.spark.disable(spark)
    assert {name: value is before[name] for name, value in vars(type(spark)).items()} == dict.fromkeys(before, True)
    assert spark.conf.get("spark.sql.catalog.lake") == ICEBERG
    spark.stop()
    print("fine")


def configure(spark: SparkSession, name: str, warehouse: str) -> None:
    spark.conf.set(f"spark.sql.catalog.{name}", ICEBERG)
    spark.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", warehouse)


def tables(spark: SparkSession, folder: str) -> None:
    """Check reads, writes and statements."""
    spark.sql("CREATE TABLE lake.db.t (id BIGINT, s STRING) USING iceberg TBLPROPERTIES ('format-version' = '2')")
    numbers(spark, 0, 3).writeTo("lake.db.t").append()
    numbers(spark, 0, 3).write.format("delta").save(f"{folder}/d")
    numbers(spark, 3, 5).write.format("delta").mode("append").save(f"{folder}/d")
    spark.sql("DELETE FROM lake.db.t WHERE id = 1")
    assert ids(spark.table("lake.db.t")) == [0, 2]
    assert ids(spark.read.format("delta").load(f"{folder}/d")) == [0, 1, 2, 3, 4]
    assert ids(spark.sql(f"SELECT t.id FROM lake.db.t JOIN delta.`{folder}/d` d USING (id)")) == [0, 2]


def later(spark: SparkSession, folder: str) -> None:
    """Check a catalog that is configured after the session was enabled."""
    configure(spark, "late", f"{folder}/late")
    numbers(spark, 0, 2).writeTo("late.db.t").create()
    assert ids(spark.table("late.db.t")) == [0, 1]


def streams(spark: SparkSession, folder: str) -> None:
    """Check streams from and to tables by name and by path, with a restart."""
    for expected in ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 9]):
        source = spark.readStream.format("delta").load(f"{folder}/d")
        query = source.writeStream.format("iceberg").trigger(availableNow=True)
        query.option("checkpointLocation", f"{folder}/one").toTable("lake.db.copy").awaitTermination()
        assert ids(spark.table("lake.db.copy")) == expected
        if 9 not in expected:
            numbers(spark, 9, 10).write.format("delta").mode("append").save(f"{folder}/d")
    query = spark.readStream.table("lake.db.copy").writeStream.format("delta").trigger(availableNow=True)
    query.option("checkpointLocation", f"{folder}/two").start(f"{folder}/back").awaitTermination()
    assert spark.read.format("delta").load(f"{folder}/back").count() == 6


def batches(spark: SparkSession, folder: str) -> None:
    """Check that the session of `foreachBatch`, in a process of the server, is enabled."""

    def upsert(batch: Any, batch_id: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(
            "MERGE INTO lake.db.t t USING batch b ON t.id = b.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        batch.write.format("delta").mode("append").option("txnAppId", "a").option("txnVersion", batch_id).save(
            f"{folder}/log"
        )

    for n in range(2):
        query = spark.readStream.format("delta").load(f"{folder}/d").withColumn("s", F.lit("new")).writeStream
        query = query.foreachBatch(upsert).option("checkpointLocation", f"{folder}/three{n}").trigger(availableNow=True)
        query.start().awaitTermination()
        assert ids(spark.table("lake.db.t").where("s = 'new'")) == [0, 1, 2, 3, 4, 9]
        assert spark.read.format("delta").load(f"{folder}/log").count() == 6


def numbers(spark: SparkSession, first: int, end: int) -> Any:
    return spark.range(first, end).withColumn("s", F.col("id").cast("string"))


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.collect())


if __name__ == "__main__":
    main(*sys.argv[1:])
