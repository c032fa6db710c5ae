"""Script: a stream into a table that is killed at a point: `... FORMAT FOLDER POINT`.

The folder holds the catalog with the source and the sink, and the checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakescan
import lakescan.spark
from lakescan.spark.source.data_source import source_class
from lakescan.spark.types import arrow_schema
from lakescan.spark.writing.sink import MicroBatchWriter
from tests.support.session import local_session

POINTS, NEVER = ("written", "committing", "committed"), "never"
_TIME = 2  # at the second micro-batch of a run


def run_killed(name: str, folder: Path, point: str) -> int:
    """Stream `local.db.source` into `local.db.t` in a process that is killed at a point; return its exit code."""
    command = [sys.executable, "-m", "tests.tables.killed_sink", name, str(folder), point]
    return subprocess.run(command, start_new_session=True, timeout=900, check=False).returncode


def _main(name: str, folder: str, point: str) -> None:
    group = os.getpgid(0)
    lakescan.catalog("local", warehouse=f"{folder}/lake")
    catalogs = {"local": lakescan.catalogs.registry.all_configurations()["local"]}

    def reach(here: str) -> None:
        if here == point:
            with open(f"{folder}/{point}", "a") as counted:
                counted.write(".")
            if os.path.getsize(f"{folder}/{point}") == _TIME:
                os.killpg(group, signal.SIGKILL)

    class KilledWriter(MicroBatchWriter):
        def write(self, iterator: Iterator[Any]) -> Any:
            done = super().write(iterator)
            reach("written")
            return done

        def commit(self, messages: Any, batchId: int) -> None:
            reach("committing")
            super().commit(messages, batchId)
            reach("committed")

    class KilledSink(source_class("killed", pushdown=False, parallelism=2, time_zone="UTC", catalogs=catalogs)):
        def streamWriter(self, schema: Any, overwrite: bool) -> KilledWriter:
            return KilledWriter(self._sink(), arrow_schema(schema), overwrite)

    # Spark pickles classes of `__main__` by value; classes of modules it pickles by name.
    KilledSink.format_name = "lakescan"
    spark = local_session("killed sink", {})
    lakescan.spark.register(spark, names=(name,))
    spark.dataSource.register(KilledSink)
    stream = spark.readStream.format(name).option("maxFilesPerTrigger", 1).load("local.db.source")
    writer = stream.writeStream.format("lakescan").option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start("local.db.t").awaitTermination()


if __name__ == "__main__":
    _main(*sys.argv[1:])
