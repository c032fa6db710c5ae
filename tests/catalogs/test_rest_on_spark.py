"""REST catalogs on Spark: plan tasks and credentials on workers, data frames in transactions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from tests.support.rest_server import RestServer, rest_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "rest") as (state, uri):
        state.config["defaults"] = {"uri": uri}
        yield state


@pytest.fixture
def lake(server: RestServer, spark: Any) -> lakescan.Catalog:
    found = lakescan.catalog("lake", type="rest", uri=server.config["defaults"]["uri"])
    found.create_namespace("db")
    for name in ("one", "two"):
        properties = {"write.delete.mode": "merge-on-read"}
        table = found.create_table(f"db.{name}", "id BIGINT, part STRING", properties=properties)
        for start in (0, 10, 20):
            table.append(pa.table({"id": range(start, start + 10), "part": ["a", "b"] * 5}))
        table.delete("id = 13")
    lakescan.spark.register(spark)
    return found


def ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def test_workers_fetch_plan_tasks_and_the_rows_equal_those_of_a_local_plan(
    lake: lakescan.Catalog, server: RestServer, spark: Any
) -> None:
    server.page = 1
    expected = [each for each in range(30) if each != 13]
    scan = lake.load_table("db.one").scan().options(scan_planning_mode="server")
    planned = scan.plan_with(lakescan.spark.SparkExecutor(spark))
    assert sorted(planned.to_arrow()["id"].to_pylist()) == expected
    assert ids(scan.to_spark(spark)) == expected
    by_name = spark.read.format("iceberg").option("scan-planning-mode", "server").load("lake.db.one")
    assert ids(by_name.where("id > 20")) == expected[-9:]
    assert len(server.sent("tables/one/plan")) >= 3
    assert len(server.sent("tables/one/tasks")) >= 3 + 3 + 1  # the condition of the last read reaches the server


def test_frames_and_statements_of_spark_are_part_of_a_transaction(
    lake: lakescan.Catalog, server: RestServer, spark: Any
) -> None:
    server.requests.clear()
    with lake.transaction() as tx:
        tx.load_table("db.one").append(spark.range(100, 103).selectExpr("id", "'c' AS part"))
        two = tx.load_table("db.two")
        two.overwrite(spark.range(5).selectExpr("id", "'a' AS part"), where="part = 'a'")
        assert ids(tx.load_table("db.one").scan().to_spark(spark))[-3:] == [100, 101, 102]
        two.delete("id = 2")
        assert lake.load_table("db.one").count() == 29
    assert len(server.sent("transactions/commit")) == 1
    assert lake.load_table("db.one").count() == 32
    assert sorted(lake.load_table("db.two").to_arrow()["id"].to_pylist())[:4] == [0, 1, 1, 3]
