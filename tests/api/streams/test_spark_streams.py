"""Streams on Spark read every row once, whatever happens to the query between planning, reading and committing."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import lakescan
from lakescan.spark.source.stream import TableStreamReader
from lakescan.spark.types import schema_of
from tests.api.streams.killed import NEVER, POINTS, run_killed
from tests.api.streams.support import Growing

pytestmark = pytest.mark.spark


@pytest.fixture(params=["iceberg", "delta"])
def growing(request: pytest.FixtureRequest, tmp_path: Path) -> Growing:
    return Growing(request.param, tmp_path)


class Query:
    """A query that streams a table into a folder of Parquet files, with a checkpoint."""

    def __init__(self, spark: Any, growing: Growing, folder: Path, **options: Any) -> None:
        self.spark, self.growing, self.options = spark, growing, options
        self.target, self.checkpoint = str(folder / "target"), folder / "checkpoint"

    def frame(self) -> Any:
        reader = self.spark.readStream.format(self.growing.name)
        return reader.options(**self.options).load(self.growing.path)

    def run(self) -> Any:
        """Read all available data and return the finished query."""
        writer = self.frame().writeStream.format("parquet").option("checkpointLocation", str(self.checkpoint))
        query = writer.trigger(availableNow=True).start(self.target)
        query.awaitTermination(120)
        return query

    def rows(self) -> list[int]:
        return sorted(row["id"] for row in self.spark.read.parquet(self.target).collect())

    def offsets(self) -> list[dict[str, Any]]:
        """Return the offset of each batch, as recorded in the checkpoint."""
        files = sorted((self.checkpoint / "offsets").glob("[0-9]*"), key=lambda f: int(f.name))
        return [json.loads(file.read_text().splitlines()[-1]) for file in files]


def test_a_restarted_query_reads_the_added_rows(spark, growing: Growing, tmp_path: Path) -> None:
    growing.append(1, 2)
    growing.append(3)
    query = Query(spark, growing, tmp_path)
    query.run()
    assert query.rows() == [1, 2, 3]
    growing.append(4)
    query.run()
    query.run()
    assert query.rows() == [1, 2, 3, 4]


def test_limits_make_batches_and_offsets_can_be_read(spark, growing: Growing, tmp_path: Path) -> None:
    growing.append(1, 2, 3)
    growing.append(4, 5)
    query = Query(spark, growing, tmp_path, maxFilesPerTrigger=2)
    query.run()
    assert query.rows() == [1, 2, 3, 4, 5]
    names = {
        "iceberg": {"snapshot-id", "position", "scan-all-files"},
        "delta": {"version", "index", "initial-snapshot"},
    }
    offsets = query.offsets()
    assert len(offsets) == 3
    assert all(set(offset) == names[growing.name] | {"table"} for offset in offsets[1:])
    assert set(offsets[0]) == names[growing.name] | {"table", "from"}  # the first also records the stream's start


def test_the_first_batch_does_not_change_when_the_table_grows(growing: Growing) -> None:
    """Spark asks for the initial offset again, for the partitions and after a crash."""
    growing.append(1, 2)

    def reader() -> TableStreamReader:
        spec = lakescan.table(growing.path).scan().options(maxRowsPerTrigger=1).spec
        return TableStreamReader(spec, schema_of(lakescan.table(growing.path).scan().spec), 2)

    first = reader()
    end = first.latestOffset(first.initialOffset(), None)
    growing.append(3)
    for each in (first, reader()):
        partitions = each.partitions(each.initialOffset(), end)
        found = [n for p in partitions for batch in each.read(p) for n in batch["id"].to_pylist()]
        assert len(found) == 1
        assert set(found) <= {1, 2}


@pytest.mark.parametrize("name", ["iceberg", "delta"])
def test_a_query_that_is_killed_reads_every_row_once(spark, name: str, tmp_path: Path) -> None:
    """The query is killed while a batch is planned, read or committed, and a writer continues at the same time.

    Because a process takes long to start, Delta is killed only at the last point.
    """
    growing = Growing(name, tmp_path)
    growing.append(0, 1, 2)
    stopped = threading.Event()
    written = [0, 1, 2]

    def write() -> None:
        while not stopped.wait(0.5):
            some = [len(written), len(written) + 1]
            growing.append(*some)
            written.extend(some)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for point in POINTS if name == "iceberg" else POINTS[-1:]:
            assert run_killed(name, growing.path, tmp_path, point) == -signal.SIGKILL
    finally:
        stopped.set()
        writer.join()
    assert run_killed(name, growing.path, tmp_path, NEVER) == 0
    assert sorted(row["id"] for row in spark.read.parquet(str(tmp_path / "target")).collect()) == written
