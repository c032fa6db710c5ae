"""Write-audit-publish on Spark: session settings stage the rows of all writers and select the branch to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from lakescan.spark.streams.apply_changes import upsert_sink

SETTINGS = ("spark.wap.id", "spark.wap.branch")
NAME = "sparkwap.db.t"


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[lakescan.Catalog]:
    lake = lakescan.catalog("sparkwap", warehouse=str(tmp_path / "lake"))
    lake.create_namespace("db")
    lakescan.spark.register(spark)
    yield lake
    for name in SETTINGS:
        spark.conf.unset(name)


@pytest.fixture
def table(lake: lakescan.Catalog) -> lakescan.Table:
    table = lake.create_table("db.t", "id BIGINT", properties={"write.wap.enabled": "true"})
    table.append(rows(1))
    lake.create_table("db.plain", "id BIGINT").append(rows(1))
    return table


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def ids(name: str = "t", **state: Any) -> list[int]:
    scan = lakescan.table(f"sparkwap.db.{name}").scan()
    return sorted((scan.as_of(**state) if state else scan).to_arrow()["id"].to_pylist())


def by_frame_writer(frame: Any, name: str) -> None:
    frame.write.format("iceberg").mode("append").save(name)


def by_save(frame: Any, name: str) -> None:
    lakescan.save(frame, name, mode="append")


def by_table(frame: Any, name: str) -> None:
    lakescan.table(name).append(frame)


def by_table_writer(frame: Any, name: str) -> None:
    lakescan.spark.write_to(frame, name).append()


def by_merge(frame: Any, name: str) -> None:
    lakescan.table(name).merge(frame, "t.id = s.id").when_not_matched_insert_all().execute()


def by_upsert(frame: Any, name: str) -> None:
    lakescan.table(name).upsert(frame, keys="id")


def by_insert(frame: Any, name: str) -> None:
    lakescan.spark.sql(frame.sparkSession, f"INSERT INTO {name} SELECT id FROM {{new}}", new=frame)


WRITERS = [by_frame_writer, by_save, by_table, by_table_writer, by_merge, by_upsert, by_insert]


@pytest.mark.parametrize("write", WRITERS, ids=lambda each: each.__name__)
def test_rows_of_a_session_are_staged(spark: Any, table: lakescan.Table, write: Callable[[Any, str], None]) -> None:
    spark.conf.set("spark.wap.branch", "audit")
    write(spark.range(2, 3), NAME)
    write(spark.range(2, 3), "sparkwap.db.plain")
    assert (ids(), ids(branch="audit"), ids("plain")) == ([1], [1, 2], [1, 2])
    spark.conf.unset("spark.wap.branch")
    spark.conf.set("spark.wap.id", "load-1")
    write(spark.range(3, 4), NAME)
    assert ids() == [1]
    spark.conf.unset("spark.wap.id")
    write(spark.range(4, 5), NAME)
    table.publish("load-1") if write is not by_upsert and write is not by_merge else None
    assert ids() == ([1, 3, 4] if write is not by_upsert and write is not by_merge else [1, 4])


def test_overwrites_replace_rows_of_the_branch(spark: Any, table: lakescan.Table) -> None:
    spark.conf.set("spark.wap.branch", "audit")
    by_frame_writer(spark.range(2, 4), NAME)
    spark.range(2, 3).write.format("iceberg").mode("overwrite").option("replaceWhere", "id = 2").save(NAME)
    assert (ids(), ids(branch="audit")) == ([1], [1, 2, 3])
    lakescan.table(NAME).overwrite(spark.range(7, 8))
    assert (ids(), ids(branch="audit")) == ([1], [7])


def test_streams_write_to_the_branch(spark: Any, table: lakescan.Table, tmp_path: Path) -> None:
    by_table(spark.range(5, 6), "sparkwap.db.plain")
    spark.conf.set("spark.wap.branch", "audit")
    stream = spark.readStream.format("iceberg").load("sparkwap.db.plain")
    options = {"checkpointLocation": str(tmp_path / "one")}
    stream.writeStream.format("iceberg").options(**options).trigger(availableNow=True).start(NAME).awaitTermination()
    sink = upsert_sink(NAME, keys="id")
    start = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "two"))
    start.trigger(availableNow=True).start().awaitTermination()
    assert ids() == [1]
    assert ids(branch="audit") == [1, 1, 5]


def test_streams_are_not_staged_under_a_wap_id(spark: Any, table: lakescan.Table, tmp_path: Path) -> None:
    spark.conf.set("spark.wap.id", "x")
    stream = spark.readStream.format("iceberg").load("sparkwap.db.plain")
    options = {"checkpointLocation": str(tmp_path / "one")}
    query = stream.writeStream.format("iceberg").options(**options).trigger(availableNow=True).start(NAME)
    with pytest.raises(Exception, match="wap-id is not for streams"):
        query.awaitTermination()
    assert (ids(), len(table.inspect("all_data_files"))) == ([1], 1)
    assert len(list((tmp_path / "lake" / "db" / "t" / "data").rglob("*.parquet"))) == 1


def test_a_write_option_overrides_the_session(spark: Any, table: lakescan.Table) -> None:
    spark.conf.set("spark.wap.branch", "audit")
    spark.range(2, 3).write.format("iceberg").mode("append").option("branch", "main").save(NAME)
    lakescan.save(spark.range(3, 4), NAME, mode="append", branch="mine")
    assert (ids(), ids(branch="mine"), list(lakescan.table(NAME).branches)) == ([1, 2], [1, 2, 3], ["main", "mine"])
    spark.conf.set("spark.wap.id", "load")
    lakescan.save(spark.range(4, 5), NAME, mode="append", branch="mine")  # staged, on top of the branch
    assert ids(branch="mine") == [1, 2, 3]


@pytest.mark.parametrize("write", WRITERS, ids=lambda each: each.__name__)
def test_two_settings_contradict_each_other(
    spark: Any, table: lakescan.Table, write: Callable[[Any, str], None], tmp_path: Path
) -> None:
    spark.conf.set("spark.wap.branch", "audit")
    spark.conf.set("spark.wap.id", "x")
    with pytest.raises(Exception, match=r"both spark\.wap\.id"):
        write(spark.range(2, 3), NAME)
    write(spark.range(2, 3), "sparkwap.db.plain")
    assert (ids(), ids("plain"), len(list((tmp_path / "lake" / "db" / "t" / "data").rglob("*.parquet")))) == (
        [1],
        [1, 2],
        1,
    )


def of_data_source(spark: Any, name: str) -> Any:
    lakescan.spark.register(spark)
    return spark.read.format("iceberg").load(name)


READERS = [
    lambda spark, name: lakescan.spark.table(spark, name),
    lambda spark, name: lakescan.table(name, lane="arrow").scan().to_spark(spark),
    lambda spark, name: lakescan.spark.sql(spark, f"SELECT * FROM {name}"),
    lambda spark, name: lakescan.spark.sql(spark, "SELECT * FROM given", given=lakescan.table(name)),
    of_data_source,
]


@pytest.mark.parametrize("read", READERS, ids=["table", "arrow lane", "sql", "given", "data source"])
def test_reads_use_the_branch_if_it_exists(spark: Any, table: lakescan.Table, read: Callable[[Any, str], Any]) -> None:
    def read_ids(name: str = NAME) -> list[int]:
        return sorted(row["id"] for row in read(spark, name).collect())

    spark.conf.set("spark.wap.branch", "audit")
    assert read_ids() == [1]
    by_table(spark.range(2, 3), NAME)
    lakescan.table("sparkwap.db.plain").append(rows(8), branch="audit")
    assert (read_ids(), read_ids("sparkwap.db.plain")) == ([1, 2], [1])
    spark.conf.set("spark.wap.id", "x")
    with pytest.raises(Exception, match=r"both spark\.wap\.id"):
        read_ids()
    assert read_ids("sparkwap.db.plain") == [1]
    spark.conf.unset("spark.wap.branch")
    assert read_ids() == [1]


def test_an_explicit_state_overrides_the_session(spark: Any, table: lakescan.Table) -> None:
    spark.conf.set("spark.wap.branch", "audit")
    by_table(spark.range(2, 3), NAME)
    lakescan.spark.register(spark)
    main = table.version
    frames = [
        lakescan.spark.sql(spark, f"SELECT * FROM {NAME} VERSION AS OF {main}"),
        lakescan.spark.sql(spark, f"SELECT * FROM {NAME}.branch_main"),
        lakescan.spark.table(spark, NAME, branch="main"),
        lakescan.table(NAME).scan().as_of(version=main).to_spark(spark),
        spark.read.format("iceberg").option("branch", "main").load(NAME),
        lakescan.spark.sql(spark, f"SELECT snapshot_id AS id FROM {NAME}.history LIMIT 1"),
    ]
    assert [frame.count() for frame in frames] == [1] * len(frames)
    assert lakescan.spark.sql(spark, f"SELECT count(*) FROM {NAME}.files").first()[0] == 1


def streamed(spark: Any, folder: Path, **options: str) -> list[int]:
    """Return the rows that a stream reads in one run, with the session's current settings."""
    name = f"seen_{folder.name}"
    stream = spark.readStream.format("iceberg").options(**options).load(NAME)
    query = stream.writeStream.format("memory").queryName(name).option("checkpointLocation", str(folder))
    query.trigger(availableNow=True).start().awaitTermination()
    return sorted(row["id"] for row in spark.table(name).collect())


def test_streams_follow_the_branch_if_it_exists(spark: Any, table: lakescan.Table, tmp_path: Path) -> None:
    spark.conf.set("spark.wap.branch", "audit")
    lakescan.spark.register(spark)
    assert streamed(spark, tmp_path / "before") == [1]
    table.append(rows(2), branch="audit")
    assert streamed(spark, tmp_path / "there") == [1, 2]
    assert streamed(spark, tmp_path / "main", branch="main") == [1]
    spark.conf.unset("spark.wap.branch")
    with pytest.raises(Exception, match=r"lakescan\.spark\.register\(spark\) after each change"):
        streamed(spark, tmp_path / "late")
    lakescan.spark.register(spark)
    assert streamed(spark, tmp_path / "none") == [1]


def test_a_data_source_that_was_registered_for_another_branch_reads_nothing(spark: Any, table: lakescan.Table) -> None:
    """A data source gets no settings while it plans; its tasks detect that it planned the wrong state."""
    lakescan.table(NAME).append(rows(2), branch="audit")
    spark.conf.set("spark.wap.branch", "audit")
    with pytest.raises(Exception, match=r"lakescan\.spark\.register\(spark\) after each change"):
        spark.read.format("iceberg").load(NAME).collect()
    assert spark.read.format("iceberg").option("branch", "main").load(NAME).count() == 1
    spark.conf.set("spark.wap.branch", "none")
    assert spark.read.format("iceberg").load(NAME).count() == 1


def test_plans_show_which_branch_is_read(spark: Any, table: lakescan.Table) -> None:
    spark.conf.set("spark.wap.branch", "audit")
    by_table(spark.range(2, 3), NAME)
    plan = lakescan.spark.sql(spark, f"EXPLAIN SELECT * FROM {NAME}").first()[0]
    assert "(wap-branch audit)" in plan
    assert "(wap-branch audit)" in lakescan.spark.explain(lakescan.table(NAME).scan())


def test_statements_read_and_change_the_branch(spark: Any, table: lakescan.Table) -> None:
    spark.conf.set("spark.wap.branch", "audit")
    lakescan.spark.sql(spark, f"INSERT INTO {NAME} VALUES (2)")
    lakescan.spark.sql(spark, f"DELETE FROM {NAME} WHERE id = 1")
    lakescan.spark.sql(spark, f"INSERT INTO {NAME} SELECT id + 10 FROM {NAME}")
    assert (ids(), ids(branch="audit")) == ([1], [2, 12])
    lakescan.spark.sql(spark, f"UPDATE {NAME}.branch_main SET id = 7 WHERE id IN (SELECT max(id) - 11 FROM {NAME})")
    assert (ids(), ids(branch="audit")) == ([7], [2, 12])


def test_the_first_rows_of_a_table_go_to_the_branch(spark: Any, lake: lakescan.Catalog) -> None:
    lake.create_table("db.t", "id BIGINT", properties={"write.wap.enabled": "true"})
    spark.conf.set("spark.wap.branch", "audit")
    by_frame_writer(spark.range(2, 3), NAME)
    by_table(spark.range(3, 4), NAME)
    assert (ids(), ids(branch="audit")) == ([], [2, 3])
    table = lakescan.table(NAME)
    table.fast_forward("main", "audit")
    assert ids() == [2, 3]
