"""Partitions of the data source: the read context is sent to the tasks once, not with each partition."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakescan
import lakescan.spark
from lakescan.spark.source.data_source import FilteringReader, TableReader
from lakescan.spark.types import schema_of

COLUMNS = 400


@pytest.fixture
def wide(tmp_path: Path) -> str:
    """Make a table of 400 columns in six files."""
    path = str(tmp_path / "wide")
    for n in range(6):
        rows = {f"column_{i}": pa.array([n], pa.int64()) for i in range(COLUMNS)}
        lakescan.save(pa.table(rows), path, format="delta", mode="append")
    return path


def reader(path: str, kind: type[TableReader] = TableReader, **options: Any) -> TableReader:
    spec = lakescan.table(path).scan().options(split_size="1", **options).spec
    return kind(spec, schema_of(spec), 2, None)


def rows_of(worker: TableReader, partitions: list[Any]) -> list[int]:
    found = [pickle.loads(pickle.dumps(each)) for each in partitions]
    return sorted(n for each in found for batch in worker.read(each) for n in batch.column(0).to_pylist())


def test_partitions_do_not_grow_with_the_columns_of_the_table(wide: str) -> None:
    planner = reader(wide)
    command = cloudpickle.dumps(planner)
    partitions = list(planner.partitions())
    assert len(partitions) > 1
    assert all(f"column_{COLUMNS - 1}".encode() not in pickle.dumps(each) for each in partitions)
    assert max(len(pickle.dumps(each)) for each in partitions) < 6_000
    assert rows_of(pickle.loads(command), partitions) == list(range(6))


def test_partitions_that_are_made_before_the_reader_is_pickled_carry_the_context(wide: str) -> None:
    planner = reader(wide)
    partitions = list(planner.partitions())
    assert rows_of(pickle.loads(cloudpickle.dumps(planner)), partitions) == list(range(6))
    assert max(len(pickle.dumps(each)) for each in partitions) < 20_000


def test_filters_that_arrive_after_the_reader_was_pickled_are_obeyed(wide: str) -> None:
    from pyspark.sql.datasource import GreaterThan

    planner = reader(wide, FilteringReader)
    early = pickle.loads(cloudpickle.dumps(planner))
    list(planner.pushFilters([GreaterThan(("column_0",), 3)]))
    late = pickle.loads(cloudpickle.dumps(planner))
    partitions = list(planner.partitions())
    assert rows_of(late, partitions) == [4, 5]
    with pytest.raises(RuntimeError, match="different plans"):
        rows_of(early, partitions)


def test_an_error_of_planning_is_raised_when_spark_asks_for_partitions(tmp_path: Path) -> None:
    lakescan.catalog("local", warehouse=str(tmp_path)).create_namespace("db")
    lakescan.save(pa.table({"column_0": [1]}), "local.db.t", format="iceberg")
    planner = reader("local.db.t")
    for manifest in tmp_path.rglob("*-m0.avro"):
        manifest.unlink()
    pickle.loads(cloudpickle.dumps(planner))
    with pytest.raises(lakescan.errors.MissingFile, match=r"-m0\.avro"):
        planner.partitions()


def test_a_filter_of_an_unknown_column_is_refused_before_planning(wide: str) -> None:
    with pytest.raises(lakescan.errors.NoSuchColumn, match="nothing"):
        reader(wide, where="nothing = 1")


@pytest.mark.parametrize("limit", [None, 3])
def test_spark_reads_all_rows(spark: SparkSession, wide: str, limit: int | None) -> None:
    lakescan.spark.register(spark)
    options = {"split-size": "1", "lane": "arrow"} | ({} if limit is None else {"limit": str(limit)})
    frame = spark.read.format("lakescan").options(**options).load(wide)
    assert len(frame.select("column_0", "column_9").collect()) == (limit or 6)
