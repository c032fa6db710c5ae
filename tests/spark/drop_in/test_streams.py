"""Streams from and to lakescan's tables by Spark's own methods, in an enabled session."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

_NUMBERS = count()


def numbers(spark: Any, first: int, end: int) -> Any:
    return spark.range(first, end, numPartitions=1).selectExpr("id", "cast(id AS STRING) AS s")


def ids(frame: Any) -> list[int]:
    return sorted(row.id for row in frame.collect())


def run(frame: Any, start: Callable[[Any], Any], checkpoint: Path, **options: Any) -> Any:
    """Run a stream until nothing is new."""
    writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(checkpoint))
    query = start(writer.options(**options))
    query.awaitTermination()
    return query


def in_memory(spark: Any, frame: Any, mode: str = "append") -> list[tuple[Any, ...]]:
    """Run a stream into a memory sink and return its rows."""
    name = f"memory_{next(_NUMBERS)}"
    writer = frame.writeStream.format("memory").queryName(name).outputMode(mode).trigger(availableNow=True)
    writer.start().awaitTermination()
    return sorted(map(tuple, spark.table(name).collect()))


@pytest.fixture(scope="module")
def source(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Delta table with the ids 0 to 4, as two versions; no test changes it."""
    path = f"{tmp_path_factory.mktemp('source')}/delta"
    numbers(enabled, 0, 3).write.format("delta").save(path)
    numbers(enabled, 3, 5).write.format("delta").mode("append").save(path)
    return path


def test_a_stream_by_path_is_exactly_once_after_a_restart(enabled: Any, tmp_path: Path) -> None:
    source, target = f"{tmp_path}/a", f"{tmp_path}/b"
    numbers(enabled, 0, 3).write.format("delta").save(source)
    for first, end in ((3, 5), (5, 5)):
        query = run(
            enabled.readStream.format("delta").load(source), lambda w: w.format("delta").start(target), tmp_path / "c"
        )
        assert query.exception() is None
        assert not query.isActive
        assert ids(enabled.read.format("delta").load(target)) == list(range(first))
        numbers(enabled, first, end).write.format("delta").mode("append").save(source)
    history = enabled.sql(f"DESCRIBE HISTORY delta.`{target}`").orderBy("version").collect()
    assert [row.operation for row in history] == ["STREAMING UPDATE"] * 2
    assert [row.operationParameters["epochId"] for row in history] == ["0", "1"]


def test_progress_counts_the_rows_of_each_micro_batch(enabled: Any, source: str, tmp_path: Path) -> None:
    frame = enabled.readStream.format("delta").option("maxFilesPerTrigger", 1).load(source)
    query = run(frame, lambda w: w.queryName("counted").format("delta").start(f"{tmp_path}/t"), tmp_path / "c")
    assert query.name == "counted"
    assert [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]] == [3, 2]
    assert "numInputRows" in json.loads(query.lastProgress.json)


def test_the_path_may_be_an_option_and_arguments_may_be_given_to_start(
    enabled: Any, source: str, tmp_path: Path
) -> None:
    frame = enabled.readStream.format("delta").option("path", source).load()
    assert frame.isStreaming
    run(frame, lambda w: w.format("delta").option("path", f"{tmp_path}/a").start(), tmp_path / "c1")
    assert enabled.read.format("delta").load(f"{tmp_path}/a").count() == 5
    query = run(
        frame,
        lambda w: w.start(f"{tmp_path}/b", format="delta", outputMode="append", partitionBy="s", queryName="named"),
        tmp_path / "c2",
    )
    assert query.name == "named"
    assert enabled.sql(f"DESCRIBE DETAIL delta.`{tmp_path}/b`").first().partitionColumns == ["s"]


def test_complete_mode_replaces_the_rows(enabled: Any, tmp_path: Path) -> None:
    source, target = f"{tmp_path}/a", f"{tmp_path}/b"
    for first, end in ((0, 3), (3, 5)):
        numbers(enabled, first, end).write.format("delta").mode("append").save(source)
        frame = enabled.readStream.format("delta").load(source).groupBy().count()
        run(frame, lambda w: w.format("delta").outputMode("complete").start(target), tmp_path / "c")
    assert [tuple(row) for row in enabled.read.format("delta").load(target).collect()] == [(5,)]


def test_a_delete_in_the_source_fails_the_query_until_an_option_skips_it(enabled: Any, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    source, target = f"{tmp_path}/a", f"{tmp_path}/b"
    numbers(enabled, 0, 3).write.format("delta").save(source)

    def copy(**options: Any) -> Any:
        frame = enabled.readStream.format("delta").options(**options).load(source)
        return run(frame, lambda w: w.format("delta").start(target), tmp_path / "c")

    copy()
    enabled.sql(f"DELETE FROM delta.`{source}` WHERE id = 1")
    with pytest.raises(StreamingQueryException):
        copy()
    numbers(enabled, 7, 8).write.format("delta").mode("append").save(source)
    copy(skipChangeCommits="true")
    assert ids(enabled.read.format("delta").load(target)) == [0, 1, 2, 7]


def test_options_of_the_start_and_the_change_feed(enabled: Any, source: str, tmp_path: Path) -> None:
    def read(**options: Any) -> list[int]:
        frame = enabled.readStream.format("delta").options(**options).load(source).select("id")
        return [row[0] for row in in_memory(enabled, frame)]

    assert read(startingVersion=1) == [3, 4]
    assert read(startingVersion="latest") == []
    assert read(startingTimestamp="2001-01-01") == [0, 1, 2, 3, 4]
    changed = f"{tmp_path}/feed"
    enabled.sql(
        f"CREATE TABLE delta.`{changed}` (id BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    enabled.range(2).write.format("delta").mode("append").save(changed)
    enabled.sql(f"DELETE FROM delta.`{changed}` WHERE id = 1")
    frame = (
        enabled.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(changed)
    )
    assert in_memory(enabled, frame.select("id", "_change_type")) == [(0, "insert"), (1, "delete"), (1, "insert")]


def test_to_table_creates_an_iceberg_table_before_the_first_rows(enabled: Any, source: str, tmp_path: Path) -> None:
    frame = enabled.readStream.format("delta").load(source)
    nothing = frame.where("id < 0")
    run(nothing, lambda w: w.format("iceberg").partitionBy("s").toTable("lake.streams.created"), tmp_path / "c1")
    table = enabled.table("lake.streams.created")
    assert (table.columns, table.count()) == (["id", "s"], 0)
    assert all(field.nullable for field in table.schema)
    run(frame, lambda w: w.toTable("lake.streams.created"), tmp_path / "c2")
    assert ids(enabled.table("lake.streams.created")) == [0, 1, 2, 3, 4]


def test_iceberg_streams_by_name(enabled: Any, source: str, tmp_path: Path) -> None:
    enabled.sql("CREATE TABLE lake.streams.a (id BIGINT, s STRING) USING iceberg PARTITIONED BY (bucket(2, id))")
    frame = enabled.readStream.format("delta").load(source)
    run(frame, lambda w: w.format("iceberg").outputMode("append").start("lake.streams.a"), tmp_path / "c1")
    for frame in (
        enabled.readStream.format("iceberg").load("lake.streams.a"),
        enabled.readStream.table("lake.streams.a"),
        enabled.readStream.format("iceberg").option("stream-from-timestamp", "0").load("lake.streams.a"),
    ):
        assert [row[0] for row in in_memory(enabled, frame.select("id"))] == [0, 1, 2, 3, 4]
    enabled.sql("USE lake.streams")
    try:
        assert len(in_memory(enabled, enabled.readStream.table("a"))) == 5
    finally:
        enabled.sql("USE spark_catalog.default")


def test_delta_tables_of_spark_stream_by_name(enabled: Any, source: str, tmp_path: Path) -> None:
    frame = enabled.readStream.format("delta").load(source)
    try:
        run(frame, lambda w: w.format("delta").toTable("streamed_delta"), tmp_path / "c1")
        assert ids(enabled.table("streamed_delta")) == [0, 1, 2, 3, 4]
        assert len(in_memory(enabled, enabled.readStream.table("default.streamed_delta"))) == 5
    finally:
        enabled.sql("DROP TABLE IF EXISTS streamed_delta")


def test_a_batch_function_merges_in_the_session_of_its_batch(enabled: Any, source: str, tmp_path: Path) -> None:
    enabled.sql("CREATE TABLE lake.streams.state (id BIGINT, s STRING) TBLPROPERTIES ('format-version' = '2')")
    numbers(enabled, 4, 7).writeTo("lake.streams.state").append()
    log, merge = (
        f"{tmp_path}/log",
        (
            "MERGE INTO lake.streams.state t USING batch b ON t.id = b.id "
            "WHEN MATCHED THEN UPDATE SET s = 'old' WHEN NOT MATCHED THEN INSERT *"
        ),
    )

    def upsert(batch: Any, number: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(merge)
        batch.write.format("delta").mode("append").option("txnAppId", "a").option("txnVersion", number).save(log)

    def from_java(batch: Any, number: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch._jdf.sparkSession().sql(merge)
        assert batch._jdf.sparkSession().sql("SELECT count(*) FROM batch").count() == 1

    frame = enabled.readStream.format("delta").load(source)
    run(frame, lambda w: w.foreachBatch(upsert).start(), tmp_path / "c1")
    found = {row.id: row.s for row in enabled.table("lake.streams.state").collect()}
    assert found == {0: "0", 1: "1", 2: "2", 3: "3", 4: "old", 5: "5", 6: "6"}
    run(frame, lambda w: w.foreachBatch(upsert).start(), tmp_path / "c2")  # the same transaction again
    assert enabled.read.format("delta").load(log).count() == 5
    run(frame, lambda w: w.foreachBatch(from_java).start(), tmp_path / "c3")
    assert {row.s for row in enabled.table("lake.streams.state").where("id < 5").collect()} == {"old"}


def test_an_error_of_a_batch_function_fails_the_query(enabled: Any, source: str, tmp_path: Path) -> None:
    from pyspark.errors import StreamingQueryException

    def fail(batch: Any, number: int) -> None:
        raise ValueError("mine")

    frame = enabled.readStream.format("delta").load(source)
    with pytest.raises(StreamingQueryException, match="mine"):
        run(frame, lambda w: w.foreachBatch(fail).start(), tmp_path / "c")


def test_other_sinks_joins_and_aggregations_over_a_stream(enabled: Any, source: str, tmp_path: Path) -> None:
    frame = enabled.readStream.format("delta").load(source)
    folder = f"{tmp_path}/each"
    os.makedirs(folder)
    run(frame, lambda w: w.foreach(lambda row: open(f"{folder}/{row.id}", "w").close()).start(), tmp_path / "c")
    assert sorted(os.listdir(folder)) == ["0", "1", "2", "3", "4"]
    static = enabled.read.format("delta").load(source).withColumnRenamed("s", "t")
    assert len(in_memory(enabled, frame.join(static, "id"))) == 5
    times = frame.selectExpr("timestamp_seconds(id) AS at").withWatermark("at", "1 second")
    assert in_memory(enabled, times.groupBy().count(), "complete") == [(5,)]
    frame.createOrReplaceTempView("stream_view")
    assert in_memory(enabled, enabled.sql("SELECT count(*) FROM stream_view"), "complete") == [(5,)]


@pytest.mark.parametrize("trigger", [{"once": True}, {"processingTime": "1 second"}])
def test_triggers(enabled: Any, source: str, tmp_path: Path, trigger: dict[str, Any]) -> None:
    writer = enabled.readStream.format("delta").load(source).writeStream.format("delta").trigger(**trigger)
    query = writer.option("checkpointLocation", f"{tmp_path}/c").start(f"{tmp_path}/t")
    query.processAllAvailable()
    query.stop()
    assert enabled.read.format("delta").load(f"{tmp_path}/t").count() == 5
    assert query.exception() is None


def test_the_checkpoint_may_be_in_the_folder_of_the_session(enabled: Any, source: str, tmp_path: Path) -> None:
    enabled.conf.set("spark.sql.streaming.checkpointLocation", f"{tmp_path}/all")
    try:
        writer = enabled.readStream.format("delta").load(source).writeStream.format("delta").queryName("kept")
        writer.trigger(availableNow=True).start(f"{tmp_path}/t").awaitTermination()
    finally:
        enabled.conf.unset("spark.sql.streaming.checkpointLocation")
    assert enabled.read.format("delta").load(f"{tmp_path}/t").count() == 5
    assert os.path.exists(f"{tmp_path}/all/kept/metadata")


def test_streams_of_other_formats_run_on_spark(enabled: Any, tmp_path: Path) -> None:
    enabled.range(3).write.parquet(f"{tmp_path}/p")
    frame = enabled.readStream.schema("id long").parquet(f"{tmp_path}/p")
    run(frame, lambda w: w.format("parquet").start(f"{tmp_path}/q"), tmp_path / "c")
    assert enabled.read.parquet(f"{tmp_path}/q").count() == 3
