"""Script for a separate process: on Connect, totals over all rows come from metadata if it proves them.

Its argument is a folder.
"""

from __future__ import annotations

import datetime as dt
import random
import re
import sys
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakescan
import lakescan.spark
from tests.spark.test_replaced_reads import _condition, _make_table

Query = Callable[[DataFrame], DataFrame]

KNOWN: list[Query] = [
    lambda t: t.agg(F.count("*"), F.min("id"), F.max("ID")),
    lambda t: t.groupBy().count(),
    lambda t: t.groupBy().max("id", "p"),
    lambda t: t.agg({"*": "count", "id": "max"}),
    lambda t: t.select(F.count(F.lit(1)).alias("c"), F.min("p"), F.max("d").alias("last", metadata={"a": 1})),
    lambda t: t.selectExpr("count(*)", "MAX(id)", "min(n) as n", "max(b)", "min(ts)"),
    lambda t: t.agg(F.min("id") + 1, (F.max("p") * F.lit(2)).alias("twice"), F.min("id").cast("string")),
    lambda t: t.agg(F.expr("max(id)").alias("m"), F.max("id").alias("m")),
    lambda t: t.select(F.col("id").alias("k"), "p").agg(F.max("k"), F.min("p")),
    lambda t: t.withColumnRenamed("id", "a b").agg(F.min("`a b`")),
    lambda t: t.alias("q").where("q.p = 1").agg(F.max("q.id"), F.max(t["id"])),
    lambda t: t.withColumn("z", F.col("id") * 2).where("p = 1").agg(F.count("*")),
    lambda t: t.where((F.col("p") == 1) & F.col("id").isNotNull()).agg(F.count("*")),
    lambda t: t.where("p = 0").where("id < 70").agg(F.count("*"), F.max("id")),
    lambda t: t.where("id > 1000").agg(F.count("*"), F.max("id"), F.min("s")),
    lambda t: t.drop("s").toDF("a", "b", "c", "d", "e", "f", "g").agg(F.max("a"), F.count(F.lit("x"))),
    lambda t: t.agg(F.max("id").alias("m")).union(t.groupBy().count()),
    lambda t: t.agg(F.max("id").alias("m")).select("m", F.col("m") + 1).limit(1),
]

FROM_ROWS: list[Query] = [
    lambda t: t.where("id > 60").groupBy().count(),
    lambda t: t.agg(F.count("n")),
    lambda t: t.agg(F.countDistinct("p")),
    lambda t: t.agg(F.count("*"), F.sum("id")),
    lambda t: t.groupBy("p").count().orderBy("p"),
    lambda t: t.rollup().count(),
    lambda t: t.selectExpr("count(*) FILTER (WHERE id > 3)"),
    lambda t: t.selectExpr("max(id + 1)", "max(distinct id)"),
    lambda t: t.agg(F.max(F.col("id") + 1)),
    lambda t: t.limit(7).agg(F.count("*")),
    lambda t: t.dropDuplicates(["p"]).agg(F.count("*")),
    lambda t: t.where("length(s) = 4 and hash(id) is not null").agg(F.count("*")),
    lambda t: t.select("id", F.explode(F.array(F.lit(1), F.lit(2)))).agg(F.count("*")),
    lambda t: t.where("id = p").agg(F.count("*")),
    lambda t: t.union(t).agg(F.count("*")),
    lambda t: t.join(t.select(F.col("id").alias("k")), F.col("id") == F.col("k")).agg(F.count("*")),
    lambda t: t.agg(F.max("id").alias("m")).where("max(id) > 3"),
    lambda t: t.agg(F.max("id").alias("m")).orderBy(F.min("id")),
    lambda t: t.where(F.udf(lambda value: value > 5, "boolean")("id")).agg(F.count("*")),
    lambda t: t.where(F.col("id") >= t.select(F.min("id")).scalar() + 1).agg(F.count("*")),
]

WRONG: list[Query] = [
    lambda t: t.where("nothing = 3").agg(F.count("*")),
    lambda t: t.select("nothing").agg(F.count("*")),
    lambda t: t.withColumn("z", F.col("id") + F.col("b")).agg(F.count("*")),
    lambda t: t.agg(F.count("*"), F.max("nothing")),
    lambda t: t.agg(F.count("*"), F.upper(F.max("id")) + F.min("b")),
    lambda t: t.where("d = true").agg(F.count("*")),
    lambda t: t.agg((F.max("id") + F.lit(2**62) * F.lit(2)).alias("large")),
]


def main(folder: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    lakescan.catalog("totals", warehouse=f"{folder}/lake").create_namespace("n")
    lakescan.spark.register(spark)
    for kind in ("iceberg", "delta"):
        table = numbers(kind)
        frames = [spark.read.format(kind).option("lane", lane).load(table) for lane in ("auto", "arrow")]
        for ansi in ("true", "false"):
            spark.conf.set("spark.sql.ansi.enabled", ansi)
            values(kind, *frames)
            rows(*frames)
        spark.conf.set("spark.sql.ansi.enabled", "true")
        errors(*frames)
        deleted(spark, kind)
        kept(spark, frames[0])
        limited(spark, kind, table)
    zeros(spark)
    for seed in range(3):
        random_totals(spark, seed)
    functions(spark, table)
    spark.stop()
    print("fine")


def numbers(kind: str) -> str:
    """Make a table of two partitions without deletes."""
    columns = "id BIGINT, s STRING, d DATE, ts TIMESTAMP, n DECIMAL(9,2), x DOUBLE, b BOOLEAN, p INT"
    table = lakescan.catalog("totals").create_table(f"n.{kind}", columns, format=kind, partition_by=["p"])
    days = [dt.date(2024, 1, 1) + dt.timedelta(n) for n in range(100)]
    rows = {
        "id": range(100),
        "s": [f"s{n:03d}" for n in range(100)],
        "d": days,
        "ts": [dt.datetime(day.year, day.month, day.day, 3, 4, 5) for day in days],
        "n": pa.array([None if n < 3 else n for n in range(100)], pa.decimal128(9, 2)),
        "x": [n / 2 + 1 for n in range(100)],
        "b": [None] * 100,
        "p": pa.array([n // 50 for n in range(100)], pa.int32()),
    }
    table.append(pa.table(rows).cast(table.scan().schema))
    return f"totals.n.{kind}"


def plan_of(frame: DataFrame) -> str:
    text: str = frame._explain_string(extended=True)
    return text


def is_known(frame: DataFrame) -> bool:
    """Return whether the values come from metadata, without reading a file."""
    logical, physical = plan_of(frame).split("== Physical Plan ==")
    is_read = any(each in physical for each in ("FileScan", "BatchScan"))
    return not is_read and re.search("SubqueryAlias `lakescan .*, metadata`", logical) is not None


def same(mine: DataFrame, plain: DataFrame) -> None:
    assert mine.collect() == plain.collect()
    assert mine.columns == plain.columns
    assert mine.schema == plain.schema
    assert mine.toArrow().schema == plain.toArrow().schema


def values(kind: str, mine: DataFrame, plain: DataFrame) -> None:
    for number, query in enumerate(KNOWN):
        # Delta rounds bounds of times.
        expected = kind == "iceberg" or "ts" not in query(mine).columns[-1]
        assert is_known(query(mine)) == expected, number
        same(query(mine), query(plain))
    assert (mine.count(), mine.where("p = 1").count(), mine.where("p = 7").count()) == (100, 50, 0)


def rows(mine: DataFrame, plain: DataFrame) -> None:
    for number, query in enumerate(FROM_ROWS):
        assert not is_known(query(mine)), number
        same(query(mine), query(plain))


def errors(mine: DataFrame, plain: DataFrame) -> None:
    """Check that queries that Spark refuses are refused with the same message."""
    for number, query in enumerate(WRONG):
        found = []
        for frame in (mine, plain):
            with pytest.raises(PySparkException) as caught:
                query(frame).collect()
            found.append(caught.value.getCondition())
        assert found[0] == found[1], number


def deleted(spark: SparkSession, kind: str) -> None:
    """Check that rows deleted by vectors count neither in counts nor in extremes."""
    properties = {"format-version": "3", "write.delete.mode": "merge-on-read", "delta.enableDeletionVectors": "true"}
    own = {name: value for name, value in properties.items() if name.startswith("delta.") == (kind == "delta")}
    table = lakescan.catalog("totals").create_table(f"n.{kind}_deleted", "id BIGINT", format=kind, properties=own)
    table.append(pa.table({"id": range(100)}))
    table.delete("id < 10 OR id > 95")
    frame = spark.read.format(kind).load(f"totals.n.{kind}_deleted")
    assert is_known(frame.groupBy().count())
    assert frame.count() == 86
    ends = frame.agg(F.min("id"), F.max("id"))
    assert not is_known(ends)
    assert tuple(ends.first()) == (10, 95)


def kept(spark: SparkSession, frame: DataFrame) -> None:
    """Check a cached total, one in a view, and one that is written."""
    total = frame.agg(F.max("id").alias("m")).cache()
    assert total.collect() == [(99,)]
    assert total.where("m > 3").collect() == [(99,)]
    total.unpersist()
    total.createOrReplaceTempView("totals_view")
    assert spark.sql("SELECT m + 1 FROM totals_view").collect() == [(100,)]
    assert spark.sql("SELECT m FROM {f}", f=total).collect() == [(99,)]
    assert total["m"] is not None
    assert total.select(total["m"]).join(frame, F.col("m") == frame["id"]).count() == 1
    assert frame.where(F.col("id") == frame.select(F.max("id")).scalar()).select("id").collect() == [(99,)]


def limited(spark: SparkSession, kind: str, table: str) -> None:
    """Check that totals of a read with the option `limit` are those of its rows."""
    frame = spark.read.format(kind).option("limit", 3).load(table)
    assert not is_known(frame.groupBy().count())
    assert frame.count() == 3
    assert lakescan.spark.sql(spark, "SELECT count(*) FROM {t}", t=lakescan.table(table, limit=3)).collect() == [(3,)]


def zeros(spark: SparkSession) -> None:
    """Check that a zero of doubles has the sign that it has in the rows."""
    lakescan.save(pa.table({"x": [0.0, 1.0]}), "totals.n.zero", format="iceberg")
    frame = spark.read.format("iceberg").load("totals.n.zero")
    assert str(frame.agg(F.min("x")).first()[0]) == "0.0"
    assert is_known(frame.agg(F.max("x")))


def random_totals(spark: SparkSession, seed: int) -> None:
    """Check that totals of a random table equal those computed through the data source."""
    some = random.Random(seed)
    kind = some.choice(["iceberg", "delta"])
    name = f"totals.n.random{seed}"
    _make_table(lakescan.catalog("totals"), name, kind, some)
    mine, plain = (spark.read.format(kind).option("lane", lane).load(name) for lane in ("auto", "arrow"))
    plain = spark.createDataFrame(plain.toArrow(), plain.schema)
    names = [each for each in plain.columns if each not in ("st", "xs")]
    known = 0
    for _ in range(25):
        spark.conf.set("spark.sql.ansi.enabled", some.choice(["true", "false"]))
        column, other = some.choice(names), some.choice(names)
        wanted = some.choice([["count(*)"], [f"min({column})"], [f"min({column})", f"max({other})", "count(1)"]])
        where = some.choice(["true", f"i > {some.randint(-3, 11)}"]) if "i" in names else "true"
        where = where if some.random() < 0.4 else _condition(some, plain.columns)
        found = []
        for frame in (mine, plain):
            try:
                found.append(repr(frame.where(where).selectExpr(*wanted).collect()))
            except PySparkException as error:
                found.append(str(error.getCondition()))
        assert found[0] == found[1], (seed, kind, wanted, where, found)
        if "Row(" in found[0]:
            known += is_known(mine.where(where).selectExpr(*wanted))
    assert known, seed
    spark.conf.set("spark.sql.ansi.enabled", "true")


def functions(spark: SparkSession, table: str) -> None:
    """Check that a session function with the name of an aggregate is called."""
    spark.udf.register("max", lambda value: -1, "long")
    frame = spark.read.format("delta").load(table)
    assert {row[0] for row in frame.agg(F.count("*")).collect()} == {100}
    assert not is_known(frame.selectExpr("max(id)"))


if __name__ == "__main__":
    main(sys.argv[1])
