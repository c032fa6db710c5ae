"""Script for a separate process: reads of lakescan's formats on Connect are replaced and pinned.

Its argument is a folder.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lakescan
import lakescan.spark
from lakescan.spark.connect import hook

FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
ROWS = pa.table({"id": range(10), "part": ["a", "b"] * 5})
MORE = pa.table({"id": range(100, 105), "part": ["a"] * 5})


def main(folder: str) -> None:
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    lakescan.catalog("reads", warehouse=f"{folder}/lake").create_namespace("db")
    after_the_arrow_lane(spark, folder)
    for name, path in (("iceberg", "reads.db.t"), ("delta", f"{folder}/t")):
        lakescan.save(ROWS, path, format=name, partition_by="part")
        lakescan.spark.register(spark)
        one_state(spark, name, path)
        cached(spark, name, path)
        views(spark, name, path)
        options(spark, name, path)
        threads(spark, name, path)
        errors(spark, name, path)
        functions(spark, name, path)
        dropped_pins(spark, name, f"reads.db.dropped_{name}")
    left_alone(spark, folder)
    sessions(spark, f"{folder}/t")
    spark.stop()
    print("fine")


def after_the_arrow_lane(spark: SparkSession, folder: str) -> None:
    """Check that a frame in the Arrow lane does not keep later frames from the hook."""
    lakescan.save(ROWS, f"{folder}/first", format="delta")
    scan = lakescan.table(f"{folder}/first").scan()
    assert scan.options(lane="arrow").to_spark(spark).count() == ROWS.num_rows
    assert not hook.is_installed(spark)
    assert scan.to_spark(spark).count() == ROWS.num_rows
    assert hook.is_installed(spark)


def load(spark: SparkSession, name: str, path: str, **more: str) -> Any:
    return spark.read.format(name).options(**more).load(path)


def replaced(spark: SparkSession) -> int:
    """Return how many reads were replaced."""
    return sum(each.replaced for each in spark.client._session_hooks)


def plan_of(frame: Any) -> str:
    text: str = frame._explain_string()
    return text


def one_state(spark: SparkSession, name: str, path: str) -> None:
    """Check that the first request that names a read pins its state, even a request for the schema."""
    old, never_seen = load(spark, name, path), load(spark, name, path)
    assert old.columns == ["id", "part"]
    lakescan.table(path).append(MORE)
    before = replaced(spark)
    assert (never_seen.count(), old.count(), never_seen.exceptAll(old).count()) == (15, 10, 5)
    assert replaced(spark) == before + 4
    part = old.where("part = 'a'")
    lakescan.table(path).append(MORE)
    counts = [old.count(), part.count(), old.exceptAll(part).count(), old.join(part, "id", "left_anti").count()]
    assert counts == [10, 5, 5, 5], counts
    assert "FileScan parquet" in plan_of(old)
    assert len(part.inputFiles()) < len(old.inputFiles())


def cached(spark: SparkSession, name: str, path: str) -> None:
    """Check that a cached frame is found again, also below other operators, but not after it was unpersisted."""
    frame = load(spark, name, path)
    whole, some = frame.count(), frame.where("id > 7 and part = 'a'").cache()
    expected = some.count()
    frame.cache()
    lakescan.table(path).append(MORE)
    assert "InMemoryTableScan" in plan_of(some.where("id > 8"))
    assert "InMemoryTableScan" in plan_of(frame.groupBy("part").count())
    assert (frame.count(), some.count(), frame.exceptAll(some).count()) == (whole, expected, whole - expected)
    assert frame.storageLevel.useMemory
    frame.unpersist()
    some.unpersist()
    assert not frame.storageLevel.useMemory
    assert "InMemoryTableScan" not in plan_of(some) + plan_of(frame)
    assert frame.count() == whole


def views(spark: SparkSession, name: str, path: str) -> None:
    """Check that a view keeps the state of its creation, and finds columns by id whatever the session sets later."""
    frame = load(spark, name, path)
    expected = frame.agg(F.count("*"), F.sum("id")).collect()
    frame.createOrReplaceTempView("seen")
    lakescan.table(path).append(MORE)
    spark.conf.unset(FIELD_IDS)
    assert spark.sql("SELECT count(*), sum(id) FROM seen").collect() == expected
    assert spark.sql("SELECT count(*), sum(id) FROM {t}", t=frame).collect() == expected
    frame.createOrReplaceGlobalTempView("for_all")  # from other sessions, with other settings
    assert "Python" in plan_of(spark.sql("SELECT * FROM global_temp.for_all"))


def options(spark: SparkSession, name: str, path: str) -> None:
    """Check that a filter above a read's limit applies after it, and that the read's own filter and columns count."""
    assert load(spark, name, path, limit="3").where("id >= 0").count() == 3
    some = load(spark, name, path, where="id > 5", columns="id")
    assert sorted(row[0] for row in some.where("id < 8").collect()) == [6, 7]
    frame = spark.read.format(name).schema("part string, id long").load(path)
    assert frame.columns == ["part", "id"]
    assert frame.where("id = 3").collect() == [("b", 3)]
    assert load(spark, "lakescan", f"{path}#history").count() > 1
    assert load(spark, name, path).where("id = 3").limit(5).select(F.upper("part").alias("p")).collect() == [("B",)]
    lane = load(spark, name, path, lane="arrow")
    before = replaced(spark)
    assert lane.where("id = 3").count() == 1
    assert replaced(spark) == before


def threads(spark: SparkSession, name: str, path: str) -> None:
    frame, wrong = load(spark, name, path), []

    def work(n: int) -> None:
        if frame.where(F.col("id") == n).count() != 1:
            wrong.append(n)

    all_of_them = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for each in all_of_them:
        each.start()
    for each in all_of_them:
        each.join()
    assert not wrong, wrong


def errors(spark: SparkSession, name: str, path: str) -> None:
    """Check that planning errors are lakescan's, and name errors are Spark's, listing all columns of the table."""
    frame = load(spark, name, path)
    with pytest.raises(AnalysisException, match=r"(?s)`id`.*`part`|`part`.*`id`"):
        frame.where("id = 1").select("idd").collect()
    file = frame.where("id = 1").inputFiles()[0].removeprefix("file://").removeprefix("file:")
    os.rename(file, f"{file}.moved")
    try:
        with pytest.raises(lakescan.MissingFile, match=os.path.basename(file)):
            frame.where("id < 3").select("part").collect()
    finally:
        os.rename(f"{file}.moved", file)


def left_alone(spark: SparkSession, folder: str) -> None:
    """Check that the server handles reads that this process cannot open or that resolve elsewhere on the server."""
    before = replaced(spark)
    for path in (os.path.relpath(f"{folder}/t"), f"{folder}/none"):
        with pytest.raises(AnalysisException, match=r"NotATable|NoSuchTable"):
            load(spark, "delta", path).count()
    assert replaced(spark) == before


def functions(spark: SparkSession, name: str, path: str) -> None:
    """Check that a function registered before lakescan under a built-in name prunes as Spark resolves it."""
    other = spark.cloneSession()
    other.udf.register("startswith", lambda text, prefix: True, "boolean")
    lakescan.spark.register(other)
    counts = [load(other, name, path, lane=lane).where("startswith(part, 'z')").count() for lane in ("auto", "arrow")]
    assert counts[0] == counts[1], counts
    other.client.close()  # while the server runs: a channel closed later would wait for an answer


def dropped_pins(spark: SparkSession, name: str, path: str) -> None:
    """Check that a frame whose scan was evicted reads its pinned state, or fails if that state is gone."""
    for each in (path, f"{path}_other"):
        lakescan.save(ROWS, each, format=name)
    before, hook._MOST_PINS = hook._MOST_PINS, 2
    try:
        frames = [load(spark, name, path), load(spark, name, path, where="id < 4", columns="id")]
        frames += [lakescan.spark.table(spark, path), load(spark, name, f"{path}_other"), load(spark, name, path)]
        assert [frame.count() for frame in frames] == [10, 4, 10, 10, 10]
        lakescan.table(path).append(MORE)
        lakescan.sql(f"ALTER TABLE {path} ADD COLUMN more INT")
        assert [len(frame.first()) for frame in frames] == [2, 1, 2, 2, 2]
        counts = [frame.where("id >= 2").count() for frame in frames]
        assert counts == [8, 2, 8, 8, 8], counts
        assert frames[0].union(frames[2]).union(frames[3]).union(frames[4]).exceptAll(frames[0]).count() == 30
        assert load(spark, name, path).columns == ["id", "part", "more"]
        (own,) = (each for each in spark.client._session_hooks if each.session_id == spark.session_id)
        assert len(own._pins) == 2
        shutil.rmtree(lakescan.table(f"{path}_other").scan().spec.table.location.removeprefix("file://"))
        assert frames[0].count() == 10
        with pytest.raises(lakescan.LakescanError, match="_other"):
            frames[3].count()
        assert frames[1].count() == 4
    finally:
        hook._MOST_PINS = before


def sessions(spark: SparkSession, path: str) -> None:
    """Check that a hook ignores requests of other sessions: sessions cloned from each other share the list of hooks."""
    lakescan.spark.register(spark)
    hook = next(each for each in spark.client._session_hooks if each.session_id == spark.session_id)
    request = spark.client._execute_plan_request_with_metadata()
    request.plan.root.CopyFrom(load(spark, "delta", path)._plan.plan(spark.client))
    read = request.plan.SerializeToString()
    request.session_id = "another"
    assert hook.on_execute_plan(request).plan.SerializeToString() == read
    request.session_id = spark.session_id
    assert hook.on_execute_plan(request).plan.SerializeToString() != read


if __name__ == "__main__":
    main(sys.argv[1])
