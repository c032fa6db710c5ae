"""Script: a stream that changes rows and is killed at a point: `... FORMAT FOLDER HOW POINT`.

The folder holds the catalog with the table, the source's files and the checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import lakescan
import lakescan.spark
from lakescan.delta.target import DeltaTarget
from lakescan.iceberg.target import IcebergTarget
from tests.support.session import local_session

POINTS, NEVER = ("written", "committed"), "never"
SOURCE = "id long, value string, seq long, kind string"
_TIME = 2  # at the second micro-batch


def run_killed(folder: Path, how: str, point: str) -> int:
    """Apply changes to `local.db.t` in a process that is killed at a point; return its exit code."""
    command = [sys.executable, "-m", "tests.spark.killed_changes", str(folder), how, point]
    return subprocess.run(command, start_new_session=True, timeout=900, check=False).returncode


def _main(folder: str, how: str, point: str) -> None:
    lakescan.catalog("local", warehouse=f"{folder}/lake")
    times = []

    def reach(here: str) -> None:
        times.append(here)
        if here == point and times.count(here) == _TIME:
            os.killpg(os.getpgid(0), signal.SIGKILL)

    def killing(commit: Any) -> Any:
        def change(*written: Any, **named: Any) -> Any:
            reach("written")
            result = commit(*written, **named)
            reach("committed")
            return result

        return change

    for kind, method in ((DeltaTarget, "change"), (IcebergTarget, "change"), (IcebergTarget, "upsert")):
        setattr(kind, method, killing(getattr(kind, method)))
    spark = local_session("killed changes", {})
    stream = spark.readStream.schema(SOURCE).option("maxFilesPerTrigger", 1).parquet(f"{folder}/source")
    more: dict[str, Any] = {"equality": {"upsert_mode": "equality", "in_order": True}, "history": {"scd_type": 2}}.get(
        how, {}
    )
    lakescan.spark.apply_changes(
        "local.db.t",
        stream,
        "id",
        "seq",
        apply_as_deletes="kind = 'D'",
        checkpoint=f"{folder}/checkpoint",
        trigger={"availableNow": True},
        **more,
    ).awaitTermination()


if __name__ == "__main__":
    _main(*sys.argv[1:])
