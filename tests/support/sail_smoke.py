"""Check the claims of docs/guides/sail.md on a Sail server in this process: `python -m tests.support.sail_smoke`.

Runs without pytest and the JVM, in the environment of scripts/smoke_sail.sh. Ends with an error if a claim does not
hold.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan
import lakescan.spark
from lakescan.errors import UnsupportedFeature

ROWS = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "name": [None if n % 7 == 0 else f"n{n}" for n in range(1000)],
        "day": [dt.date(2026, 1, 1 + n % 28) for n in range(1000)],
        "at": pa.array([n * 10**9 + 1 for n in range(1000)], pa.timestamp("us", tz="UTC")),
        "tags": [[str(n), None] for n in range(1000)],
        "point": [{"x": n / 3, "y": None} for n in range(1000)],
    },
    schema=pa.schema(
        {
            "id": pa.int64(),
            "name": pa.string(),
            "day": pa.date32(),
            "at": pa.timestamp("us", tz="UTC"),
            "tags": pa.list_(pa.string()),
            "point": pa.struct({"x": pa.float64(), "y": pa.int32()}),
        }
    ),
)
DELETES = {
    "iceberg": {"format-version": "3", "write.delete.mode": "merge-on-read", "write.merge.mode": "merge-on-read"},
    "delta": {"delta.enableDeletionVectors": "true"},
}


def main() -> None:
    """Check all claims for both formats."""
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer()
    server.start(background=True)
    spark = SparkSession.builder.remote(f"sc://localhost:{server.listening_address[1]}").getOrCreate()
    try:
        with tempfile.TemporaryDirectory() as folder:
            catalog = lakescan.catalog(
                "local", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=f"file://{folder}"
            )
            catalog.create_namespace("shop")
            lakescan.spark.register(spark, names=("lakescan",))
            for name, form in (("local.shop.orders", "iceberg"), (str(Path(folder) / "orders"), "delta")):
                properties = {f"table-property.{key}": value for key, value in DELETES[form].items()}
                lakescan.save(ROWS, name, format=form, **properties)
                try_table(spark, name, name if form == "iceberg" else f"delta.`{name}`")
                print(f"{form}: all promises hold", flush=True)
            by_name(spark)
            equality_deletes(spark)
            for name in ("local.shop.parts", str(Path(folder) / "parts")):
                partitions_and_states(spark, name)
            stored_views(spark)
            refused(spark)
            failing(spark, Path(folder))
            print("names, partitions, states, views, refusals: all promises hold", flush=True)
    finally:
        spark.stop()
        server.stop()


def same(spark: Any, name: str) -> None:
    """Check that every way to read returns the rows of the in-process engine."""
    expected = lakescan.table(name).scan().to_arrow().sort_by("id").to_pylist()
    scan = lakescan.table(name).scan()
    for frame in (spark.read.format("lakescan").load(name), scan.to_spark(spark), lakescan.spark.read(spark, name)):
        assert frame.toArrow().sort_by("id").to_pylist() == expected, f"other rows of {name}"


def try_table(spark: Any, name: str, in_sql: str) -> None:
    """Read, write and change one table."""
    table = lakescan.table(name)
    same(spark, name)
    table.delete("id % 10 = 3")
    same(spark, name)
    assert "not Apache Spark" in lakescan.spark.explain(lakescan.table(name).scan())
    frame = lakescan.table(name).scan().where("id < 100").to_spark(spark)
    renumbered = frame.selectExpr("id + 5000 AS id", "name", "day", "at", "tags", "point").repartition(5)
    renumbered.write.format("lakescan").mode("append").save(name)
    moved = renumbered.selectExpr("id + 1000 AS id", "name", "day", "at", "tags", "point")
    assert lakescan.table(name).append(moved).rows == 90
    assert lakescan.table(name).scan().to_arrow().num_rows == 900 + 180
    assert frame.count() == 90, "a frame keeps its state"
    same(spark, name)

    changes = renumbered.selectExpr("id + 50 AS id", "'new' AS name", "day", "at", "tags", "point")
    done = lakescan.table(name).upsert(changes, ["id"])
    assert (done.updated, done.inserted) == (45, 45), done
    same(spark, name)
    lakescan.spark.sql(spark, f"UPDATE {in_sql} SET name = 'u' WHERE id % 3 = 0")
    lakescan.spark.sql(spark, f"DELETE FROM {in_sql} WHERE length(name) = 4")
    names = lakescan.table(name).scan().to_arrow()
    assert all(row["name"] == "u" for row in names.to_pylist() if row["id"] % 3 == 0)
    assert not any(len(row["name"] or "") == 4 for row in names.to_pylist())
    same(spark, name)
    sums = f"SELECT count(*) AS n, sum(id) AS s FROM {in_sql} WHERE name = 'u'"
    expected = lakescan.sql(sums).to_arrow().to_pylist()
    assert [row.asDict() for row in lakescan.spark.sql(spark, sums).collect()] == expected
    renumbered.write.format("lakescan").mode("overwrite").save(name)
    assert lakescan.table(name).scan().to_arrow().num_rows == 90
    same(spark, name)


def by_name(spark: Any) -> None:
    """Check tables and views by name."""
    lakescan.spark.save_as_table(spark.range(9), "local.shop.numbers")
    lakescan.spark.write_to(spark.range(9, 12), "local.shop.numbers").append()
    lakescan.spark.sql(spark, "INSERT INTO local.shop.numbers SELECT 77")
    lakescan.spark.sql(spark, "CREATE TABLE local.shop.doubled AS SELECT id * 2 AS id FROM local.shop.numbers")
    lakescan.spark.create_view(spark, "numbers", "local.shop.numbers")
    assert lakescan.spark.sql(spark, "SELECT sum(id) FROM numbers").collect()[0][0] == 66 + 77
    assert lakescan.table("local.shop.doubled").scan().to_arrow()["id"].to_numpy().sum() == 2 * (66 + 77)


def ids(spark: Any, name: str, **options: Any) -> list[int]:
    """Return the ids that Sail reads, after comparing them with those of the in-process engine."""
    frame = spark.read.format("lakescan").options(**options).load(name)
    found = sorted(row["id"] for row in frame.select("id").collect())
    assert found == sorted(lakescan.table(name, **options).scan().to_arrow()["id"].to_pylist()), f"other rows of {name}"
    return found


def equality_deletes(spark: Any) -> None:
    """Check rows that are replaced by key."""
    numbers = pa.table({"id": pa.array(range(9), pa.int64()), "n": pa.array(range(9), pa.int32())})
    lakescan.save(numbers, "local.shop.keyed", format="iceberg")
    lakescan.table("local.shop.keyed").upsert(numbers.slice(3, 2), keys="id", upsert_mode="equality")
    assert ids(spark, "local.shop.keyed") == list(range(9))


def partitions_and_states(spark: Any, name: str) -> None:
    """Check that partitions are replaced, rows merged, and earlier states read."""
    form = "delta" if "/" in name else "iceberg"
    in_sql = f"delta.`{name}`" if form == "delta" else name
    rows = pa.table({"id": [1, 2, 3], "part": ["a", "b", "b"], "n": pa.array([1, 2, 3], pa.int32())})
    lakescan.save(
        rows, name, format=form, partition_by="part", **{f"table-property.{k}": v for k, v in DELETES[form].items()}
    )
    first = lakescan.table(name).version
    frame = spark.createDataFrame([(10, "a", 1)], "id long, part string, n int")
    writer = frame.write.format("lakescan").mode("overwrite")
    writer.option("partitionOverwriteMode", "dynamic").save(name)
    assert ids(spark, name) == [2, 3, 10]
    other = frame.selectExpr("id + 10 AS id", "'b' AS part", "n")
    other.write.format("lakescan").mode("overwrite").option("replaceWhere", "part = 'b'").save(name)
    assert ids(spark, name) == [10, 20]
    lakescan.table(name).overwrite(other.selectExpr("id + 1 AS id", "part", "n"), where="part = 'b'")
    assert ids(spark, name) == [10, 21]
    lakescan.spark.write_to(frame.selectExpr("id + 1 AS id", "part", "n"), in_sql).overwritePartitions()
    assert ids(spark, name) == [11, 21]
    insert = f"INSERT OVERWRITE {in_sql} PARTITION (part = 'a') SELECT id + 1 AS id, n FROM {in_sql} WHERE id = 11"
    lakescan.spark.sql(spark, insert)
    assert ids(spark, name) == [12, 21]
    merge = (
        f"MERGE INTO {in_sql} t USING (SELECT CAST(12 AS BIGINT) AS id, 'a' AS part, 5 AS n) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *"
    )
    lakescan.spark.sql(spark, merge)
    lakescan.spark.sql(spark, f"UPDATE {in_sql} SET n = 7L WHERE id = 21")
    assert sorted(lakescan.table(name).scan().to_arrow()["n"].to_pylist()) == [5, 7]
    lakescan.spark.sql(spark, f"INSERT INTO {in_sql} VALUES (1, 'a', 2)")
    assert ids(spark, name) == [1, 12, 21]
    assert ids(spark, name, version_as_of=first) == [1, 2, 3]
    at_first = lakescan.spark.sql(spark, f"SELECT count(*) FROM {in_sql} VERSION AS OF {first}")
    assert at_first.collect()[0][0] == 3
    lakescan.spark.sql(spark, f"ALTER TABLE {in_sql} ADD COLUMN more STRING")
    assert spark.read.format("lakescan").load(name).where("more IS NULL").count() == 3


def stored_views(spark: Any) -> None:
    """Check views of a catalog."""
    lakescan.spark.sql(spark, "CREATE VIEW local.shop.few AS SELECT id FROM local.shop.parts WHERE id > 11")
    joined = "SELECT count(*) FROM local.shop.few f JOIN local.shop.parts p ON f.id = p.id"
    assert lakescan.spark.sql(spark, joined).collect()[0][0] == 2
    lakescan.spark.sql(spark, "DROP VIEW local.shop.few")


def failing(spark: Any, folder: Path) -> None:
    """Check that operations that fail with Sail's own errors change nothing; the documents warn of them."""
    merge = "MERGE INTO local.shop.parts t USING local.shop.parts s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = "
    streamed = spark.readStream.format("rate").load()
    to_table = streamed.selectExpr("value AS id", "'a' AS part", "CAST(value AS INT) AS n", "'' AS more").writeStream
    to_table = to_table.format("lakescan").option("checkpointLocation", str(folder / "checkpoint"))
    before = lakescan.table("local.shop.parts").version
    for kind, work in (
        ("AnalysisException", lambda: lakescan.spark.sql(spark, f"{merge} s.n + 1")),
        ("AnalysisException", lambda: to_table.start("local.shop.parts").awaitTermination(20)),
        ("IllegalArgumentException", lambda: streamed.writeStream.foreachBatch(lambda *_: None).start()),
    ):
        found = "nothing"
        try:
            work()
        except Exception as error:
            found = type(error).__name__
        assert found == kind, f"{found}, not {kind}: see docs/guides/sail.md"
    assert lakescan.table("local.shop.parts").version == before


def refused(spark: Any) -> None:
    """Check that operations that Sail does not support are refused by name."""
    for work in (
        lambda: lakescan.spark.register(spark, pushdown=True),
        lambda: lakescan.table("local.shop.numbers").scan().options(lane="native").to_spark(spark),
    ):
        try:
            work()
        except UnsupportedFeature:
            continue
        raise AssertionError("it was not refused")


if __name__ == "__main__":
    main()
