"""A table that is dropped and recreated under its name or in its folder during a stream: old and new rows never mix."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan

FORMATS = pytest.mark.parametrize("form", ["delta", "iceberg"])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


class Life:
    """A table in a folder (Delta) or in a catalog (Iceberg) that can be dropped and recreated."""

    def __init__(self, folder: Path, form: str) -> None:
        self.form, self.folder = form, folder / "t"
        self.name = str(self.folder) if form == "delta" else "recreated.db.t"
        if form == "iceberg":
            self.lake = lakescan.catalog("recreated", warehouse=folder)
            self.lake.create_namespace("db")

    def make(self) -> None:
        if self.form == "delta":
            lakescan.save(rows(), self.folder, format="delta")
        else:
            self.lake.create_table("db.t", "id BIGINT")

    def drop(self) -> None:
        if self.form == "delta":
            shutil.rmtree(self.folder)
        else:
            self.lake.drop_table("db.t")

    def append(self, *ids: int) -> None:
        for each in ids:
            lakescan.table(self.name).append(rows(each))


@pytest.fixture
def life(tmp_path: Path) -> Callable[[str], Life]:
    return lambda form: Life(tmp_path, form)


@FORMATS
@pytest.mark.parametrize("first", [(), (1, 2)], ids=["one commit was read", "three were read"])
def test_a_waiting_stream_reports_that_its_table_was_recreated(
    life: Callable[[str], Life], form: str, first: tuple[int, ...]
) -> None:
    table = life(form)
    table.make()
    stream = lakescan.table(table.name).stream(monitor_interval="10ms")
    table.append(*first, 3)
    seen: list[int] = []
    while len(seen) <= len(first):
        seen += next(stream)["id"].to_pylist()
    table.drop()
    table.make()
    table.append(7, 8, 9, 10, 11)
    with pytest.raises(lakescan.InvalidOption, match="recreated"):
        next(stream)


@FORMATS
def test_a_stream_that_has_not_begun_reports_that_its_table_was_recreated(
    life: Callable[[str], Life], form: str
) -> None:
    table = life(form)
    table.make()
    stream = lakescan.table(table.name).stream(wait=False)
    table.drop()
    table.make()
    table.append(7, 8)
    with pytest.raises(lakescan.InvalidOption, match="recreated"):
        next(stream)


@FORMATS
def test_an_offset_of_the_earlier_table_is_refused(life: Callable[[str], Life], form: str) -> None:
    table = life(form)
    table.make()
    table.append(1)
    stream = lakescan.table(table.name).stream(wait=False)
    assert len(list(stream)) == 1
    table.drop()
    table.make()
    table.append(7, 8)
    with pytest.raises(lakescan.InvalidOption, match="recreated"):
        lakescan.table(table.name).stream(start=stream.offset, wait=False)


def test_a_stream_continues_after_log_cleanup_of_the_commits_it_read(life: Callable[[str], Life]) -> None:
    """Log cleanup after a checkpoint removes commits in this way."""
    table = life("delta")
    table.make()
    stream = lakescan.table(table.name).stream(monitor_interval="10ms")
    table.append(1)
    assert next(stream)["id"].to_pylist() == [1]
    lakescan.table(table.name).checkpoint()
    for version in (0, 1):
        (table.folder / "_delta_log" / f"{version:020}.json").unlink()
    table.append(2)
    assert next(stream)["id"].to_pylist() == [2]


@pytest.mark.slow
@FORMATS
def test_a_running_query_on_spark_reports_that_its_table_was_recreated(
    spark: Any, life: Callable[[str], Life], form: str, tmp_path: Path
) -> None:
    import lakescan.spark

    table = life(form)
    table.make()
    table.append(1, 2)
    lakescan.spark.register(spark)
    stream = spark.readStream.format(form).load(table.name)
    seen: list[int] = []
    query = (
        stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .foreachBatch(lambda frame, _: seen.extend(row["id"] for row in frame.collect()))
        .start()
    )
    try:
        query.processAllAvailable()
        assert sorted(seen) == [1, 2]
        table.drop()
        table.make()
        table.append(7, 8, 9, 10, 11)
        with pytest.raises(Exception, match="recreated"):
            query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(seen) == [1, 2]
