"""A frame reads one state of its table for its whole life, and stays complete however often it was filtered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from lakescan.spark.session import PUSHDOWN
from lakescan.spark.source.pushdown import keeps_filters

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": range(10), "part": ["a", "b"] * 5})
MORE = pa.table({"id": range(100, 105), "part": ["a"] * 5})
# Ways to make a frame, and whether the session pushes filters into Python data sources.
LANES = [("source", "false"), ("source", "true"), ("view", "true"), ("native", "true"), ("arrow", "true")]


@pytest.fixture(params=["iceberg", "delta"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Make a table of ten rows in two partitions."""
    path = str(tmp_path / "t")
    if request.param == "iceberg":
        lakescan.catalog("states", warehouse=str(tmp_path / "warehouse")).create_namespace("db")
        path = "states.db.t"
    lakescan.save(ROWS, path, format=request.param, partition_by="part")
    return path


@pytest.fixture
def session(spark, table: str) -> Iterator[Any]:
    """The session with the table's catalog registered and filter pushdown on, as users may set it."""
    spark.conf.set(PUSHDOWN, "true")
    lakescan.spark.register(spark)
    yield spark
    spark.conf.set(PUSHDOWN, "false")


def frame_of(spark: Any, table: str, lane: str) -> Any:
    """Return all current rows of the table."""
    if lane == "source":
        return spark.read.format(lakescan.table(table).format).load(table)
    if lane == "view":
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW one_state USING lakescan OPTIONS (path '{table}')")
        return spark.table("one_state")
    return lakescan.spark.read(spark, table, lane=lane)


def answers(frame: Any) -> list[int]:
    """Return counts of queries over the whole frame, filtered, and both together: `EXPECTED` for the ten rows."""
    part = frame.where("part = 'a'")
    return [
        frame.count(),
        part.count(),
        frame.count(),
        len(frame.select("id").collect()),
        frame.exceptAll(part).count(),
        part.unionAll(frame).count(),
        frame.join(part, "id", "left_anti").count(),
        part.join(frame.where("part = 'b'").select("id"), "id").count(),
        frame.count(),
    ]


EXPECTED = [10, 5, 10, 10, 5, 15, 5, 0, 10]


@pytest.mark.parametrize(("lane", "pushdown"), LANES)
def test_a_frame_is_complete_and_keeps_its_state(session, table: str, lane: str, pushdown: str) -> None:
    session.conf.set(PUSHDOWN, pushdown)
    frame = frame_of(session, table, lane)
    lakescan.table(table).append(MORE)
    assert answers(frame) == EXPECTED
    if lane == "view":
        session.sql("REFRESH TABLE one_state")
    lakescan.table(table).append(MORE)
    assert answers(frame) == EXPECTED
    assert frame_of(session, table, lane).count() == 20


@pytest.mark.parametrize("lane", ["source", "native", "arrow"])
def test_a_cached_frame_is_complete(session, table: str, lane: str) -> None:
    frame = frame_of(session, table, lane)
    filtered = frame.where("part = 'a'").cache()
    assert filtered.count() == 5
    frame.cache()
    lakescan.table(table).append(MORE)
    assert answers(frame) == EXPECTED
    frame.unpersist()
    filtered.unpersist()
    assert frame.count() == 10


def test_two_frames_of_a_table_keep_their_own_states(session, table: str) -> None:
    old = frame_of(session, table, "source")
    lakescan.table(table).append(MORE)
    new = frame_of(session, table, "source")
    assert (new.count(), old.count(), new.exceptAll(old).count()) == (15, 10, 5)


def test_a_schema_that_a_user_gives_leaves_the_state_to_the_first_query(session, table: str) -> None:
    """With a given schema, Spark does not call the source before it plans a query."""
    frame = session.read.format("lakescan").schema("part string, id long").load(table)
    assert answers(frame) == EXPECTED
    lakescan.table(table).append(MORE)
    assert answers(frame) == EXPECTED


@pytest.mark.parametrize("name", ["history", "files"])
def test_a_frame_of_a_metadata_table_keeps_its_state(session, table: str, name: str) -> None:
    frame = session.read.format("lakescan").load(f"{table}#{name}")
    lakescan.table(table).append(MORE)
    before = frame.count()
    assert before < session.read.format("lakescan").load(f"{table}#{name}").count()
    assert frame.where("true").count() == frame.count() == before


def test_the_state_of_a_frame_is_selected_once(session, table: str) -> None:
    """With a time in the future, which acts as `latest`."""
    frame = session.read.format("lakescan").option("timestampAsOf", newest_time(table)).load(table)
    assert answers(frame) == EXPECTED


def newest_time(table: str) -> str:
    history = lakescan.table(table).history()
    column = "made_current_at" if "made_current_at" in history.column_names else "timestamp"
    return str(history[column][-1].as_py())


def test_pushdown_is_refused_if_spark_keeps_pushed_filters(spark) -> None:
    """All supported Spark versions keep it. The refusal restores the setting."""
    spark.conf.set(PUSHDOWN, "true")
    try:
        assert keeps_filters(spark)
    finally:
        spark.conf.set(PUSHDOWN, "false")
    with pytest.raises(lakescan.UnsupportedFeature, match="'columns' and 'where'"):
        lakescan.spark.register(spark, pushdown=True)
    assert spark.conf.get(PUSHDOWN) == "false"


def test_registering_leaves_the_sessions_setting_alone(spark) -> None:
    for setting in ("true", "false"):
        spark.conf.set(PUSHDOWN, setting)
        lakescan.spark.register(spark)
        assert spark.conf.get(PUSHDOWN) == setting


def test_the_doctor_explains_why_filters_are_not_pushed(spark) -> None:
    def line() -> Any:
        return next(check for check in lakescan.doctor(spark).checks if check.subject == "filter pushdown")

    assert (line().found, line().ok) == ("off", True)
    assert "reuse a pushed filter" in line().advice
    spark.conf.set(PUSHDOWN, "true")
    try:
        assert not line().ok
        assert "other Python data sources may return wrong rows" in line().advice
    finally:
        spark.conf.set(PUSHDOWN, "false")


@pytest.mark.parametrize("lane", ["native", "arrow"])
def test_an_explanation_shows_the_state_of_a_frame(table: str, lane: str) -> None:
    scan = lakescan.table(table, lane=lane).scan()
    assert str(scan.snapshot.id) in lakescan.spark.explain(scan)


def test_cached_rows_do_not_keep_statements_from_reading_files(session: Any, table: str) -> None:
    name = table if "." in table.rsplit("/", 1)[-1] else f"delta.`{table}`"
    cached = lakescan.spark.sql(session, f"SELECT * FROM {name}").cache()
    try:
        assert cached.count() == 10
        assert lakescan.spark.sql(session, f"SELECT a.id, b.part FROM {name} a JOIN {name} b USING (id)").count() == 10
        lakescan.spark.sql(session, f"UPDATE {name} SET id = id + 50 WHERE id % 2 = 0")
        assert lakescan.spark.sql(session, f"SELECT id FROM {name} WHERE id < 10").count() == 5
        assert cached.where("id < 10").count() == 10
    finally:
        cached.unpersist()
