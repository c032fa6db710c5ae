"""Run a streaming query that kills its own process: `tests.api.streams.killed FORMAT TABLE FOLDER POINT`.

The query streams the table into Parquet files under the folder, which also holds its checkpoint. Without a point, it
ends when it has read the available data.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition

from lakescan.spark.source.data_source import source_class
from lakescan.spark.source.stream import TableStreamReader
from tests.support.session import local_session

POINTS, NEVER = ("planned", "reading", "committed"), "never"
_TIMES = {"planned": 1, "reading": 3, "committed": 3}  # how often a point is passed


def run_killed(name: str, path: str, folder: Path, point: str) -> int:
    """Stream a table in a process that is killed at a point; return its exit code."""
    command = [sys.executable, "-m", "tests.api.streams.killed", name, path, str(folder), point]
    return subprocess.run(command, start_new_session=True, timeout=900, check=False).returncode


def _main(name: str, path: str, folder: str, point: str) -> None:
    group = os.getpgid(0)

    def reach(here: str) -> None:
        if here == point:
            with open(f"{folder}/{point}", "a") as counted:
                counted.write(".")
            if os.path.getsize(f"{folder}/{point}") == _TIMES[point]:
                os.killpg(group, signal.SIGKILL)

    class KilledReader(TableStreamReader):
        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            found = super().partitions(start, end)
            reach("planned")
            return found

        def read(self, partition: InputPartition) -> Iterator[Any]:
            for batch in super().read(partition):
                yield batch
                reach("reading")

        def commit(self, end: dict[str, Any]) -> None:
            super().commit(end)
            reach("committed")

    class KilledSource(source_class("killed", pushdown=False, parallelism=2, time_zone="UTC")):
        def streamReader(self, schema: Any) -> KilledReader:
            return KilledReader(self.open_scan()[0], schema, 2)

    # Spark pickles classes of `__main__` by value; classes of modules it pickles by name.
    spark = local_session("killed", {"spark.sql.streaming.noDataMicroBatches.enabled": "false"})
    KilledSource.format_name = "lakescan"
    spark.dataSource.register(KilledSource)
    frame = spark.readStream.format("lakescan").options(maxRowsPerTrigger="200" if point == NEVER else "2").load(path)
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    trigger: dict[str, Any] = {"availableNow": True} if point == NEVER else {"processingTime": "0 seconds"}
    writer.trigger(**trigger).start(f"{folder}/target").awaitTermination()


if __name__ == "__main__":
    _main(*sys.argv[1:])
