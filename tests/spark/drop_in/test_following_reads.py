"""Frames of enabled sessions follow their table: each query reads one state, the one when Spark plans it."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import lakescan
from lakescan.errors import NotATable, SchemaChanged
from lakescan.spark.following import FOLLOWING, STATES

pytestmark = pytest.mark.spark

FORMATS = ["iceberg", "delta"]


def numbered(first: int, count: int) -> pa.Table:
    return pa.table({"id": range(first, first + count), "name": [f"n{each}" for each in range(first, first + count)]})


@pytest.fixture(params=FORMATS)
def table(enabled: Any, warehouse: Path, request: pytest.FixtureRequest) -> str:
    """A table of three rows, by the name that SQL uses."""
    lakescan.catalog("lake").create_namespace("follow", exist_ok=True)
    number = time.monotonic_ns()
    name, place = f"lake.follow.t{number}", f"lake.follow.t{number}"
    if request.param == "delta":
        place = str(warehouse / f"delta{number}")
        name = f"delta.`{place}`"
    lakescan.save(numbered(0, 3), place, format=request.param)
    return name


def opened(table: str) -> lakescan.Table:
    return lakescan.table(table.split("`")[1] if "`" in table else table)


def frame_of(spark: Any, table: str, **options: Any) -> Any:
    """Return the table's frame as a job for the JARs makes it."""
    if "`" in table:
        return spark.read.format("delta").options(**options).load(table.split("`")[1])
    return spark.read.options(**options).table(table) if options else spark.table(table)


def test_each_query_of_a_frame_sees_earlier_commits(enabled: Any, table: str) -> None:
    frame = frame_of(enabled, table)
    filtered = frame.where("id > 0").select("name")
    frame.createOrReplaceTempView("following")
    assert (frame.count(), filtered.count(), enabled.table("following").count()) == (3, 2, 3)
    opened(table).append(numbered(3, 2))
    assert (frame.count(), len(filtered.collect()), enabled.table("following").count()) == (5, 4, 5)
    assert enabled.sql("SELECT max(id), count(*), min(name) FROM following").collect() == [(4, 5, "n0")]
    opened(table).delete("id < 4")
    assert [each.id for each in enabled.table("following").where("name LIKE 'n%'").collect()] == [4]
    assert frame.where("id < 4").count() == 0


def test_reads_through_arrow_and_reads_with_limits_and_conditions_follow(enabled: Any, table: str) -> None:
    lanes = frame_of(enabled, table, lane="arrow")
    limited = frame_of(enabled, table, limit=4)
    compared = frame_of(enabled, table, where="id > 1")
    by_sql = frame_of(enabled, table, where="upper(name) > 'N1'")
    assert [each.count() for each in (lanes, limited, compared, by_sql)] == [3, 3, 1, 1]
    opened(table).append(numbered(3, 3))
    assert [each.count() for each in (lanes, limited, compared, by_sql)] == [6, 4, 4, 4]
    assert limited.where("id > 100").count() == 0
    assert sorted(each.id for each in lanes.where("id > 2").collect()) == [3, 4, 5]


def test_reads_that_select_a_version_do_not_follow(enabled: Any, table: str) -> None:
    version = opened(table).version
    option = {"versionAsOf": version} if "`" in table else {"snapshot-id": version}
    frame = frame_of(enabled, table, **option)
    opened(table).append(numbered(3, 2))
    assert (frame.count(), frame_of(enabled, table).count()) == (3, 5)


def test_branches_follow_at_their_head_and_tags_do_not(enabled: Any, table: str) -> None:
    if "`" in table:
        pytest.skip("Delta has no branches")
    enabled.sql(f"ALTER TABLE {table} CREATE BRANCH b")
    enabled.sql(f"ALTER TABLE {table} CREATE TAG g")
    branch, tag = enabled.table(f"{table}.branch_b"), enabled.table(f"{table}.tag_g")
    opened(table).append(numbered(3, 2))
    assert (branch.count(), tag.count()) == (3, 3)
    opened(table).append(numbered(3, 1), branch="b")
    assert (branch.count(), tag.count(), enabled.table(table).count()) == (4, 3, 5)


def test_metadata_tables_follow(enabled: Any, table: str) -> None:
    name = "snapshots" if "`" not in table else "history"
    frame = enabled.table(f"{table}.{name}")
    before = frame.count()
    opened(table).append(numbered(3, 2))
    assert (frame.count(), len(frame.select(frame.columns[0]).collect())) == (before + 1, before + 1)


def test_cached_frames_keep_their_rows(enabled: Any, table: str) -> None:
    cached = frame_of(enabled, table).where("id >= 0").cache()
    try:
        assert cached.count() == 3
        opened(table).append(numbered(3, 2))
        assert (cached.count(), frame_of(enabled, table).count()) == (3, 5)
    finally:
        cached.unpersist()


def test_columns_stay_those_of_the_frame(enabled: Any, table: str) -> None:
    frame = frame_of(enabled, table)
    enabled.sql(f"ALTER TABLE {table} ADD COLUMN more INT")
    opened(table).append(pa.table({"id": [3], "name": ["n3"], "more": pa.array([7], pa.int32())}))
    assert frame.columns == ["id", "name"]
    assert (frame.count(), frame.where("id = 3").collect()) == (4, [(3, "n3")])
    assert frame_of(enabled, table).where("id = 3").collect() == [(3, "n3", 7)]


def test_members_of_structs_stay_those_of_the_frame(enabled: Any, warehouse: Path) -> None:
    place = str(warehouse / "members")
    for name in ("lake.follow.members", f"delta.`{place}`"):
        kind = "delta" if "`" in name else "iceberg"
        enabled.sql(
            f"CREATE TABLE {name} (id BIGINT, s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>) USING {kind}"
        )
        enabled.sql(f"INSERT INTO {name} VALUES (1, named_struct('a', 1, 'b', 'x'), array(named_struct('x', 1)))")
        native, by_arrow = frame_of(enabled, name), frame_of(enabled, name, lane="arrow")
        enabled.sql(f"ALTER TABLE {name} ADD COLUMN s.c INT")
        enabled.sql(f"ALTER TABLE {name} ADD COLUMN l.element.y INT")
        enabled.sql(
            f"INSERT INTO {name} "
            "VALUES (2, named_struct('a', 2, 'b', 'y', 'c', 3), array(named_struct('x', 2, 'y', 3)))"
        )
        for frame in (native, by_arrow):
            assert sorted(frame.collect()) == [(1, (1, "x"), [(1,)]), (2, (2, "y"), [(2,)])]
            assert frame.where("s.b = 'y'").select("id").collect() == [(2,)]


CHANGES = [
    "ALTER TABLE {0} RENAME COLUMN name TO other",
    "ALTER TABLE {0} DROP COLUMN name",
    "ALTER TABLE {0} ALTER COLUMN id TYPE BIGINT",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_column_is_an_error(enabled: Any, table: str, change: str) -> None:
    place = table.split("`")[1] + "_" if "`" in table else f"{table}_"
    name = f"delta.`{place}`" if "`" in table else place
    mapped = " USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')"
    enabled.sql(f"CREATE TABLE {name} (id INT, name STRING){mapped if '`' in table else ' USING iceberg'}")
    enabled.sql(f"INSERT INTO {name} VALUES (1, 'a')")
    frame = frame_of(enabled, name)
    assert frame.count() == 1
    enabled.sql(change.format(name))
    for query in (frame.count, frame.select("id").collect, lambda: frame.agg({"id": "max"}).collect()):
        with pytest.raises(SchemaChanged, match="have changed since the frame was made") as raised:
            query()
        assert isinstance(raised.value, AnalysisException)
    assert frame_of(enabled, name).count() == 1


def test_a_table_that_was_created_again_is_read_by_its_columns(enabled: Any, warehouse: Path) -> None:
    for name in ("lake.follow.again", f"delta.`{warehouse / 'again'}`"):
        place, kind = name.split("`")[1] if "`" in name else name, "delta" if "`" in name else "iceberg"
        lakescan.save(numbered(0, 3), place, format=kind)
        frame = frame_of(enabled, name)
        assert frame.count() == 3
        _remove(enabled, name, place)
        with pytest.raises(NotATable):
            frame.count()
        lakescan.save(numbered(7, 1), place, format=kind)
        assert (frame.count(), frame.where("id >= 0").collect()) == (1, [(7, "n7")])
        _remove(enabled, name, place)
        lakescan.save(pa.table({"k": [1]}), place, format=kind)
        with pytest.raises(SchemaChanged):
            frame.count()


def _remove(spark: Any, name: str, place: str) -> None:
    if "`" not in name:
        spark.sql(f"DROP TABLE {name} PURGE")
        return
    shutil.rmtree(place)


def test_a_frame_can_be_written_back_to_its_table(enabled: Any, table: str) -> None:
    opened(table).append(numbered(3, 3))
    frame = frame_of(enabled, table).where("id > 2")
    opened(table).overwrite(frame)
    assert sorted(each.id for each in frame.collect()) == [3, 4, 5]
    opened(table).append(frame_of(enabled, table).selectExpr("id + 10 AS id", "name"))
    assert frame_of(enabled, table).count() == 6


def test_a_checkpoint_keeps_its_rows(enabled: Any, table: str) -> None:
    frame = frame_of(enabled, table).localCheckpoint()
    opened(table).append(numbered(3, 2))
    assert (frame.count(), frame_of(enabled, table).count()) == (3, 5)


def test_batches_of_a_stream_join_the_current_rows(enabled: Any, table: str, tmp_path: Path) -> None:
    static = frame_of(enabled, table)
    place = str(tmp_path / "source")
    lakescan.save(numbered(0, 9), place, format="delta")
    seen: list[int] = []
    stream = enabled.readStream.format("delta").load(place).select("id")
    query = (
        stream.join(static, "id")
        .writeStream.foreachBatch(lambda batch, _: seen.append(batch.count()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        query.processAllAvailable()
        opened(table).append(numbered(9, 2))
        lakescan.table(place).append(numbered(9, 2))
        query.processAllAvailable()
    finally:
        query.stop()
    assert [each for each in seen if each] == [3, 2]


@contextmanager
def committing(commit: Callable[[int], None]) -> Iterator[list[int]]:
    """Commit in a thread until the end; the list has the number of each commit that was made."""
    ended, made = threading.Event(), list[int]()

    def run() -> None:
        while not ended.wait(0.1):
            commit(len(made))
            made.append(len(made))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield made
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_one_query_reads_one_state_while_others_commit(
    enabled: Any, table: str, adaptive: str, settings: Callable[[str, str], None]
) -> None:
    settings("spark.sql.adaptive.enabled", adaptive)
    left, right = frame_of(enabled, table), frame_of(enabled, table, lane="arrow")
    left.createOrReplaceTempView("left_rows")
    right.createOrReplaceTempView("right_rows")
    counts = (
        "SELECT (SELECT count(*) FROM left_rows), (SELECT max(id) + 1 FROM right_rows), count(name), "
        "(SELECT count(DISTINCT id) FROM left_rows WHERE id >= 0) "
        "FROM right_rows WHERE id IN (SELECT id FROM left_rows)"
    )
    writer, states, until = opened(table), set[int](), time.monotonic() + 3
    with committing(lambda number: writer.append(numbered(3 + number, 1))) as made:
        while time.monotonic() < until or len(states) < 3:
            [found] = enabled.sql(counts).collect()
            assert len(set(found)) == 1, found
            states.add(found[0])
            assert left.exceptAll(right).union(right.exceptAll(left)).collect() == []
            assert left.join(right, "id", "left_anti").unionAll(right.join(left, "id", "left_anti")).count() == 0
    assert len(made) > 3


def test_threads_read_one_state_each(enabled: Any, table: str) -> None:
    frame = frame_of(enabled, table)
    wrong: list[Any] = []

    def read() -> None:
        for _ in range(4):
            found = frame.alias("a").join(frame.alias("b"), "id").agg({"*": "count", "id": "max"}).collect()[0]
            if found[0] != found[1] + 1 and found[1] != found[0] + 1:
                wrong.append(found)

    writer = opened(table)
    with committing(lambda number: writer.append(numbered(3 + number, 1))):
        threads = [threading.Thread(target=read) for _ in range(3)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert wrong == []


def test_kept_states_are_bounded(enabled: Any, table: str) -> None:
    frames = [frame_of(enabled, table, where=f"id >= {number}") for number in range(70)]
    opened(table).append(numbered(3, 1))
    assert [frames[number].count() for number in (0, 3, 69)] == [4, 1, 0]
    assert len(FOLLOWING) <= 64
    assert len(STATES) <= 128
