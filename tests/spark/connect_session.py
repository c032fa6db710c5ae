"""Script for a separate process: reads, writes and streams on a Spark Connect session. Prints 'fine' on success."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from benchmarks.slow_store import SlowStore, slow_store
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import partitioning

import lakescan
import lakescan.spark


def main(orders: str, customers: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    assert "connect" in type(spark).__module__
    lakescan.spark.register(spark)
    scan = lakescan.table(orders).scan().where("quantity > 5").select("order_id", "price")
    assert scan.to_spark(spark).count() == scan.to_arrow().num_rows
    away = scan.options(data_planning_mode="distributed")
    assert away.to_spark(spark).count() == scan.to_arrow().num_rows
    shares = lakescan.table(customers, data_planning_mode="distributed").scan().to_spark(spark)
    assert shares.count() == lakescan.table(customers).scan().count()
    frame = spark.read.format("delta").option("versionAsOf", "0").load(customers).where("country = 'FR'")
    expected = lakescan.table(customers, versionAsOf=0).scan().where("country = 'FR'").to_arrow().num_rows
    assert frame.count() == expected
    spark.sql(f"CREATE TEMPORARY VIEW v USING iceberg OPTIONS (path '{orders}')")
    assert spark.sql("select count(*) from v").collect()[0][0] == lakescan.table(orders).scan().to_arrow().num_rows
    with tempfile.TemporaryDirectory() as folder:
        writes(spark, frame, folder)
    with tempfile.TemporaryDirectory() as folder:
        one_state(spark, f"{folder}/t")
    with tempfile.TemporaryDirectory() as folder:
        listing(spark, f"{folder}/t")
    with tempfile.TemporaryDirectory() as folder, slow_store(Path(folder), 0, changes=True) as store:
        object_store(spark, folder, store)
    found = lakescan.doctor(spark)
    assert found.ok, str(found)
    assert "Connect" in str(found)
    spark.stop()
    print("fine")


def one_state(spark: SparkSession, path: str) -> None:
    """Check that frames that pin a state on Connect see one state, and stay complete after being filtered."""
    rows = pa.table({"n": range(10)})
    lakescan.save(rows, path, format="delta")
    spark.sql(f"CREATE TEMPORARY VIEW one_state USING delta OPTIONS (path '{path}')")
    frames = [spark.table("one_state"), *(lakescan.spark.read(spark, path, lane=lane) for lane in ("native", "arrow"))]
    version = lakescan.table(path).history()["version"][-1].as_py()
    frames.append(spark.read.format("delta").option("versionAsOf", version).load(path))
    lakescan.table(path).append(rows)
    for frame in frames:
        part = frame.where("n < 4")
        counts = [frame.count(), part.count(), frame.count(), frame.exceptAll(part).count()]
        assert counts == [10, 4, 10, 6], counts
    assert spark.read.format("delta").option("where", "n < 4").load(path).count() == 8


def listing(spark: SparkSession, path: str) -> None:
    """Check that the driver looks up files without a job: the setting for this exists when Spark lists the files."""
    for n in range(3):
        lakescan.save(pa.table({"n": [n]}), path, format="delta", mode="append")
    name, found, analyze = "spark.sql.sources.parallelPartitionDiscovery.threshold", [], spark.client._analyze
    before = spark.conf.get(name)
    spark.conf.set(name, 2)

    def watched(method: str, **arguments: object) -> object:
        if method == "input_files":
            found.append(spark.conf.get(name))
        return analyze(method, **arguments)

    spark.client._analyze = watched
    assert sorted(lakescan.table(path).scan().to_spark(spark).collect()) == [(0,), (1,), (2,)]
    spark.client._analyze = analyze
    assert found == ["4096"], found
    assert spark.conf.get(name) == "2"
    spark.conf.set(name, before)


def object_store(spark: SparkSession, folder: str, store: SlowStore) -> None:
    """Check that session settings are compared if Connect shows them."""
    lakescan.save(pa.table({"n": range(10)}), f"{folder}/t", format="delta")
    scan = lakescan.table("s3://connected/t", storage_options=store.options).scan()
    text = lakescan.spark.explain(scan.options(lane="native"))
    assert "fs.s3a.endpoint" in text, text
    spark.conf.set("fs.s3a.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
    spark.conf.set("fs.viewfs.overload.scheme.target.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    spark.conf.set("fs.viewfs.mounttable.connected.link./t", f"file://{folder}/t")
    spark.conf.set("fs.s3a.endpoint", store.endpoint)
    spark.conf.set("fs.s3a.access.key", store.options["s3.access-key-id"])
    spark.conf.set("fs.s3a.secret.key", store.options["s3.secret-access-key"])
    text = lakescan.spark.explain(scan.options(lane="native"))
    assert "fs.s3a.access.key" in text, text  # Connect hides the session's secrets, so they do not compare equal


def writes(spark: SparkSession, frame: DataFrame, folder: str) -> None:
    """Check a frame saved and appended, then streamed from an Iceberg table into a Delta table."""
    lakescan.catalog("local", warehouse=f"{folder}/lake").create_namespace("db")
    lakescan.sql("CREATE TABLE local.db.sql (n INT, day DATE) USING delta PARTITIONED BY (day)")
    day = "DATE'2026-01-31'"
    for text in (
        "INSERT INTO local.db.sql VALUES (1, NULL), (2, NULL)",
        f"INSERT OVERWRITE local.db.sql PARTITION (day = {day}) SELECT n + 2 FROM local.db.sql",
        "UPDATE local.db.sql SET n = n * 10 WHERE day IS NULL",
        "DELETE FROM local.db.sql WHERE n = 4",
    ):
        assert lakescan.spark.sql(spark, text).columns[0] == "num_affected_rows"
    assert sorted(lakescan.table("local.db.sql").to_arrow()["n"].to_pylist()) == [3, 10, 20]
    lakescan.spark.register(spark)
    assert lakescan.save(frame, "local.db.t").rows == frame.count()
    frame.write.format("iceberg").mode("append").save("local.db.t")
    bucketed = lakescan.spark.write_to(frame, "local.db.words").using("iceberg")
    column = frame.columns[0]
    assert bucketed.partitionedBy(partitioning.bucket(2, column)).create().rows == frame.count()
    assert lakescan.table("local.db.words").partitioning == f"bucket(2, {column})"
    lakescan.spark.create_view(spark, "words", "local.db.words")
    assert lakescan.spark.save_as_table(frame, "local.db.words", mode="append").rows == frame.count()
    assert lakescan.spark.sql(spark, "SELECT * FROM words").count() == 2 * frame.count()
    by_bucket = {"partition-by": f"bucket(2, {frame.columns[0]})"}
    assert lakescan.save(frame, "local.db.parts", **by_bucket).files <= 2  # grouped by partition
    assert lakescan.table("local.db.parts").compact(executor=lakescan.spark.SparkExecutor(spark)).removed_files == 0
    stream = spark.readStream.format("iceberg").load("local.db.t").writeStream.format("delta")
    stream = stream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    stream.start(f"{folder}/copy").awaitTermination()
    assert lakescan.table(f"{folder}/copy").scan().count() == 2 * frame.count()
    stream = spark.readStream.format("iceberg").load("local.db.t").writeStream.trigger(availableNow=True)
    lakescan.spark.to_table(stream, "local.db.streamed", checkpointLocation=f"{folder}/other").awaitTermination()
    assert lakescan.table("local.db.streamed").count() == 2 * frame.count()
    upserts(spark, folder)


def upserts(spark: SparkSession, folder: str) -> None:
    """Check that this process merges a batch, and the server's Python merges a stream, identified by its checkpoint."""
    lakescan.sql("CREATE TABLE local.db.kept (n BIGINT, value STRING, seq BIGINT) USING delta")
    schema = "n long, value string, seq long"
    rows = spark.createDataFrame([(1, "b", 2), (1, "a", 1)], schema)
    sink = lakescan.spark.upsert_sink("local.db.kept", "n", sequence_by="seq", query="q")
    assert [sink(rows, 0).inserted, sink(rows, 0).inserted] == [1, 0]
    spark.createDataFrame([(1, "c", 3), (2, "a", 1)], schema).write.parquet(f"{folder}/rows")
    stream = spark.readStream.schema(schema).parquet(f"{folder}/rows")
    query = lakescan.spark.apply_changes(
        "local.db.kept", stream, "n", "seq", checkpoint=f"{folder}/kept", trigger={"availableNow": True}
    )
    query.awaitTermination()
    found = lakescan.table("local.db.kept").to_arrow().sort_by("n").to_pydict()
    assert found == {"n": [1, 2], "value": ["c", "a"], "seq": [3, 1]}, found


if __name__ == "__main__":
    main(*sys.argv[1:])
