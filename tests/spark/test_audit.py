"""Write, audit, publish on Spark: the session's settings stage the rows of statements, in tables that are audited."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakescan
import lakescan.spark
from lakescan.errors import InvalidOption

SETTINGS = ("spark.wap.id", "spark.wap.branch")


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Iterator[lakescan.Table]:
    lake = lakescan.catalog("sparkwap", warehouse=str(tmp_path / "lake"))
    lake.create_namespace("db")
    table = lake.create_table("db.t", "id BIGINT", properties={"write.wap.enabled": "true"})
    lakescan.spark.sql(spark, "INSERT INTO sparkwap.db.t VALUES (1)")
    lake.create_table("db.plain", "id BIGINT")
    yield table
    for name in SETTINGS:
        spark.conf.unset(name)


def ids(name: str = "t", **state: Any) -> list[int]:
    scan = lakescan.table(f"sparkwap.db.{name}").scan()
    return sorted((scan.as_of(**state) if state else scan).to_arrow()["id"].to_pylist())


def test_statements_and_writers_stage_rows(spark: Any, table: lakescan.Table) -> None:
    spark.conf.set("spark.wap.id", "one")
    lakescan.spark.sql(spark, "INSERT INTO sparkwap.db.t VALUES (2)")
    lakescan.spark.sql(spark, "INSERT INTO sparkwap.db.plain VALUES (7)")
    spark.conf.set("spark.wap.id", "two")
    lakescan.spark.write_to(spark.range(3, 4), "sparkwap.db.t").append()
    assert (ids(), ids("plain")) == ([1], [7])
    spark.conf.unset("spark.wap.id")
    table.publish("two")
    table.publish("one")
    assert ids() == [1, 2, 3]


def test_changes_go_to_the_audited_branch(spark: Any, table: lakescan.Table) -> None:
    spark.conf.set("spark.wap.branch", "audit")
    lakescan.spark.sql(spark, "INSERT INTO sparkwap.db.t VALUES (2)")
    lakescan.spark.sql(spark, "DELETE FROM sparkwap.db.t WHERE id = 1")
    lakescan.spark.write_to(spark.range(9, 10), "sparkwap.db.t").option("branch", "mine").append()
    assert (ids(), ids(branch="audit"), ids(branch="mine")) == ([1], [2], [1, 9])
    spark.conf.set("spark.wap.id", "both")
    with pytest.raises(InvalidOption, match="both"):
        lakescan.spark.sql(spark, "INSERT INTO sparkwap.db.t VALUES (3)")
