"""Script for a separate process: batches of streams and cached frames, on a classic or a Connect session.

Its arguments are a folder, `classic` or `connect`, and a table format. Prints 'fine' when all is well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakescan
import lakescan.spark
from tests.support.session import local_session

COLUMNS = "id BIGINT, name STRING"


def main(folder: str, kind: str, table_format: str) -> None:
    settings = {"spark.checkpoint.dir": f"{folder}/checkpoints"}
    if kind == "classic":
        spark = local_session("either", settings)
    else:
        builder = SparkSession.builder.remote("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    lakescan.catalog("either", warehouse=f"{folder}/lake").create_namespace("n")
    lakescan.spark.register(spark)
    batches_of_a_stream(spark, table_format, folder)
    kept_frames(spark, table_format)
    spark.stop()
    print("fine")


def new_table(name: str, table_format: str, first: int = 0, count: int = 10) -> str:
    table = lakescan.catalog("either").create_table(f"n.{name}", COLUMNS, format=table_format)
    table.append(numbered(first, count))
    return f"either.n.{name}"


def numbered(first: int, count: int, name: str = "n") -> pa.Table:
    return pa.table({"id": range(first, first + count), "name": [name] * count})


def rows_of(name: str) -> list[tuple[int, str]]:
    """Read a table's rows in process."""
    found = lakescan.table(name).to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))


# Batches of streams


def batches_of_a_stream(spark: SparkSession, table_format: str, folder: str) -> None:
    """Check that each batch reads, appends and merges tables, and that a failed batch runs again as a whole."""
    source = new_table(f"source_{table_format}", table_format)
    lakescan.table(source).append(numbered(10, 10, "later"))
    copy, merged = (new_table(f"{each}_{table_format}", table_format, 5, 1) for each in ("copy", "merged"))
    for name in (copy, merged):
        lakescan.table(name).update({"name": "'old'"})
    warehouse, failed = f"{folder}/lake", Path(folder, f"failed_{table_format}")

    def work(batch: DataFrame, number: int) -> None:
        session = batch.sparkSession
        lakescan.catalog("either", warehouse=warehouse)  # on Connect, this runs in another process
        lakescan.spark.register(session)
        seen = session.read.format(table_format).load(merged)
        assert batch.join(seen.where("id = 5"), "id", "left_semi").count() <= 1
        once = {"txnAppId": f"copy_{table_format}", "txnVersion": str(number)}
        batch.write.format(table_format).mode("append").options(**once).save(copy)
        if not failed.exists():
            failed.touch()
            raise RuntimeError("the first batch fails between two tables")
        batch.createOrReplaceTempView("changes")
        lakescan.spark.sql(
            session,
            f"MERGE INTO {merged} t USING changes s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        )

    def run(starts: int = 20) -> None:
        try:
            start()
        except Exception as error:  # a Connect server waits ten seconds for the Python of its batches
            if starts == 1 or "failed to connect back" not in str(error):
                raise
            run(starts - 1)

    def start() -> None:
        stream = spark.readStream.format(table_format).option("maxFilesPerTrigger", "1").load(source)
        writer = stream.writeStream.foreachBatch(work).option("checkpointLocation", f"{folder}/{table_format}")
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="fails between two tables"):
        run()
    assert rows_of(merged) == [(5, "old")]
    run()
    assert rows_of(merged) == rows_of(source)
    assert rows_of(copy) == sorted([*rows_of(source), (5, "old")])


# Frames that Spark keeps


def kept_frames(spark: SparkSession, table_format: str) -> None:
    """Check that a frame that Spark caches keeps the rows of its state, whatever is committed later."""
    name = new_table(f"kept_{table_format}", table_format)
    makers: list[Callable[[], DataFrame]] = [
        lambda: spark.read.format(table_format).load(name),
        lambda: lakescan.spark.table(spark, name),
        lambda: lakescan.table(name).scan().where("id < 1000").to_spark(spark),
    ]
    for number, make in enumerate(makers):
        frame, before = make(), lakescan.table(name).count()
        some = frame.where("id >= 6").withColumn("twice", F.col("id") * 2)
        count = some.count()
        assert frame.count() == before
        kept = {
            "checkpoint": some.checkpoint(),
            "local": some.localCheckpoint(),
            "total": frame.groupBy("name").count().checkpoint(),
            "cache": some.cache(),
        }
        counts = {each: 1 if each == "total" else count for each in kept}
        assert kept["cache"].count() == count
        lakescan.table(name).append(numbered(100 * (number + 1), 2))
        lakescan.table(name).delete(f"id = {number + 6}")
        assert {each: found.count() for each, found in kept.items()} == counts
        assert kept["local"].where("twice >= 12").exceptAll(kept["cache"]).count() == 0
        assert kept["checkpoint"].join(frame, "id").count() == count
        some.unpersist()
        assert (frame.count(), some.count()) == (before, count)


if __name__ == "__main__":
    main(*sys.argv[1:])
