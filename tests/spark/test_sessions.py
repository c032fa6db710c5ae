"""Several sessions of one Spark: each has its own registrations, settings and replaced reads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from tests.spark.test_connect import run_script

pytestmark = [pytest.mark.spark, pytest.mark.replaced]


@pytest.fixture
def table(tmp_path: Path) -> str:
    lakescan.save(pa.table({"id": range(10)}), f"{tmp_path}/t", format="delta")
    return f"{tmp_path}/t"


def check_reads(spark: Any, table: str) -> None:
    """Check that a session reads a table as a frame and as its own view, with Spark's reader."""
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW own USING delta OPTIONS (path '{table}')")
    for frame in (spark.read.format("delta").load(table), spark.table("own")):
        some = frame.where("id > 5")
        assert "FileScan parquet lakescan" in str(some._jdf.queryExecution().toString())
        assert some.count() == 4


def in_thread(work: Callable[[], None]) -> None:
    """Run work in a separate thread, to its end."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert not failures, failures


def test_a_new_session_has_its_own_registrations(spark: Any, table: str) -> None:
    active = spark.getActiveSession()
    new = spark.newSession()
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        new.read.format("delta").load(table)
    for _ in range(2):
        lakescan.spark.register(new, names=("delta",))
    assert spark.getActiveSession() is active
    for each in (new, spark):
        check_reads(each, table)
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        new.read.format("iceberg").load(table)
    assert spark.getActiveSession() is active


def test_sessions_that_are_made_and_used_in_threads_read_by_themselves(spark: Any, table: str) -> None:
    made: list[Any] = []

    def make() -> None:
        made.append(spark.newSession())
        lakescan.spark.register(made[0])
        check_reads(made[0], table)

    in_thread(make)
    check_reads(made[0], table)
    in_thread(lambda: check_reads(spark, table))


def test_a_clone_has_the_sources_and_the_rule_of_its_session(spark: Any, table: str) -> None:
    from pyspark.sql import SparkSession

    lakescan.spark.register(spark)
    clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    check_reads(clone, table)
    lakescan.spark.register(clone)
    check_reads(clone, table)


def test_settings_of_one_session_do_not_reach_another(spark: Any, tmp_path: Path) -> None:
    """A condition on times prunes in the zone of the session that runs the query."""
    lakescan.sql(f"CREATE TABLE delta.`{tmp_path}/times` (ts TIMESTAMP) USING delta")
    table = lakescan.table(tmp_path / "times")
    for hour in (0, 12):
        lakescan.sql(f"INSERT INTO delta.`{tmp_path}/times` VALUES (TIMESTAMP'2026-01-01 {hour:02}:00:00Z')")
    new = spark.newSession()
    new.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    lakescan.spark.register(new)
    counts = []
    for each in (spark, new, spark):
        frame = each.read.format("delta").load(table.location)
        counts.append(frame.where("ts >= TIMESTAMP'2026-01-01 10:00:00'").count())
    assert counts == [1, 1, 1]
    frames = [each.read.format("delta").load(table.location) for each in (spark, new)]
    assert [each.where("ts >= TIMESTAMP'2026-01-01 09:00:00'").count() for each in frames] == [1, 2]


def test_later_catalogs_reach_all_active_sessions(spark: Any, tmp_path: Path) -> None:
    new = spark.newSession()
    for each in (spark, new):
        lakescan.spark.register(each)
    lakescan.catalog("later", warehouse=str(tmp_path)).create_namespace("n")
    lakescan.save(pa.table({"id": range(3)}), "later.n.t", format="iceberg")
    assert [each.read.format("iceberg").load("later.n.t").count() for each in (spark, new)] == [3, 3]


def test_interrupts_forks_lost_callbacks_and_restarts_leave_reads_right(tmp_path: Path) -> None:
    """No query hangs, and each returns its rows; in a separate process."""
    found = run_script("classic_process.py", str(tmp_path))
    assert found.stdout.strip().endswith("fine"), found.stdout + found.stderr[-3000:]


@pytest.mark.parametrize(
    ("kind", "table_format"), [("classic", "iceberg"), ("classic", "delta"), ("connect", "iceberg")]
)
def test_batches_of_streams_and_kept_frames_are_right_on_both_kinds_of_sessions(
    tmp_path: Path, kind: str, table_format: str
) -> None:
    """Each has the rows of one state, and a failed batch is not written twice; in a separate process."""
    found = run_script("either_session.py", str(tmp_path), kind, table_format)
    assert found.stdout.strip().endswith("fine"), found.stdout + found.stderr[-3000:]
