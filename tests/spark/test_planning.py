"""Planning on Spark gives the same plan as in process, and its rows can be read as one data frame."""

from __future__ import annotations

import pytest

import lakescan
from tests.planning.test_executors import described
from tests.support.rows import differences

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", ["orders", "customers"])
def test_sparks_workers_plan_as_threads_do(spark, shop, name: str) -> None:
    table = lakescan.table(getattr(shop, name), data_planning_mode="distributed")
    scan = table.scan().where(f"{table.schema.names[0]} > 3000")
    assert described(scan.plan_with(lakescan.spark.SparkExecutor(spark)).plan()) == described(scan.plan())


@pytest.mark.parametrize("name", ["orders", "customers"])
def test_a_scan_that_is_planned_on_spark_has_its_rows(spark, shop, name: str) -> None:
    scan = lakescan.table(getattr(shop, name)).scan().options(lane="arrow", data_planning_mode="distributed")
    frame = scan.to_spark(spark)
    assert 1 <= frame.rdd.getNumPartitions() <= 2 < len(scan.plan(parallelism=2).groups)  # a Python task costs more
    assert differences(frame.toArrow(), scan.to_arrow()) == ""


def test_a_scan_without_files_has_no_rows(spark, shop) -> None:
    scan = lakescan.table(shop.orders).scan().where("order_id < 0").options(data_planning_mode="distributed")
    assert scan.to_spark(spark).columns == scan.schema.names
    assert scan.to_spark(spark).count() == 0


@pytest.mark.parametrize("name", ["orders", "customers"])
def test_much_metadata_is_planned_by_sparks_workers(spark, shop, name: str, monkeypatch) -> None:
    scan = lakescan.table(getattr(shop, name), lane="arrow").scan()
    monkeypatch.setattr("lakescan.spark.native.planned_frames.MIN_BYTES", scan.spec.metadata_bytes + 1)
    assert "MapInArrow" not in plan_of(scan.to_spark(spark))
    monkeypatch.setattr("lakescan.spark.native.planned_frames.MIN_BYTES", scan.spec.metadata_bytes)
    assert "MapInArrow" in plan_of(scan.to_spark(spark))
    assert "MapInArrow" not in plan_of(scan.options(data_planning_mode="local").to_spark(spark))


def plan_of(frame) -> str:
    return frame._jdf.queryExecution().toString()


def test_little_metadata_is_planned_in_process(spark, shop) -> None:
    """The executor is used only if the metadata is worth a job."""
    executor = lakescan.spark.SparkExecutor(None)  # it would fail if it were used
    plan = lakescan.table(shop.orders).scan().plan_with(executor).plan()
    assert len(plan.table) > 0


def test_a_source_that_cannot_plan_on_spark_names_the_alternative(spark, shop) -> None:
    read = spark.read.format("iceberg").option("data-planning-mode", "distributed")
    with pytest.raises(Exception, match=r"Scan\.to_spark"):
        read.load(shop.orders).count()
