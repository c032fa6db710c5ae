"""Find and remove orphan files, and expire snapshots with their files, in Iceberg tables of many empty data files.

One file in a hundred is an orphan. The tables show seconds, and the peak memory of the driver and of the largest
worker. The peer is Iceberg's `remove_orphan_files` on the JVM, as a dry run over as many files.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan
from benchmarks.data import FOLDER
from benchmarks.jvm import PYTHON, jvm
from lakescan.options.write import WriteOptions
from lakescan.writing.table_writes import WrittenFile

_SIZES = (100_000, 1_000_000)
_BATCH = 100_000  # files per commit
_IN_FOLDER = 1_000
_ORPHANS = 100  # one file in this many is an orphan
_LONG_AGO = 1_700_000_000

_WORK = """
import json, sys, time
import lakescan
lakescan.catalog("upkeep", warehouse=sys.argv[1])
how, what = sys.argv[3], sys.argv[4]
executor = None
if how == "Spark":
    from pyspark.sql import SparkSession
    from lakescan.spark import SparkExecutor
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "ERROR").getOrCreate()
    executor = SparkExecutor(spark)
    list(executor.map(abs, [1, 2]))  # workers are started
table = lakescan.table(sys.argv[2])
started = time.perf_counter()
if what == "expire":
    files = table.expire_snapshots("2100-01-01", clean_expired_files=True, executor=executor).removed_files
else:
    files = len(table.remove_orphans(dry_run=what == "dry run", executor=executor))
seconds = time.perf_counter() - started
def peak(pid):
    lines = open(f"/proc/{pid}/status")
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
workers = []
if how == "Spark":
    import os
    for each in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if b"pyspark" in open(f"/proc/{each}/cmdline", "rb").read() and each != str(os.getpid()):
                command = open(f"/proc/{each}/comm").read()
                if "python" in command:
                    workers.append(peak(each))
        except OSError:
            pass
print(json.dumps({"files": files, "seconds": seconds, "peak": peak("self"), "worker": max(workers, default=0)}))
"""


def run(rows: int, runs: int) -> str:
    """Return a table of measurements. The aims are 1 GB for the driver, and times proportional to the file count."""
    names = ("files", "what", "where", "seconds", "microseconds a file", "peak, MB", "of a worker, MB")
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for files in _SIZES:
        folder = (FOLDER / "maintenance").absolute()
        shutil.rmtree(folder, ignore_errors=True)
        name = _table(folder, files)
        for where in ("process", "Spark"):
            lines.append(_line(files, "dry run", where, _work(folder, name, where, "dry run", files // _ORPHANS)))
        if PYTHON.exists():
            lines.append(_line(files, "dry run", "Iceberg (JVM)", _of_jvm(folder, name, files // _ORPHANS)))
        lines.append(_line(files, "remove", "Spark", _work(folder, name, "Spark", "remove", files // _ORPHANS)))
        lakescan.table(name).overwrite(pa.table({"id": [1]}))
        lines.append(_line(files, "expire", "process", _work(folder, name, "process", "expire", files)))
        shutil.rmtree(folder, ignore_errors=True)
    return "\n".join(lines)


def _of_jvm(folder: Path, name: str, orphans: int) -> dict[str, Any]:
    """Run the JVM's dry run; its catalog, which is a folder, temporarily needs another metadata file in the table."""
    metadata = Path(lakescan.table(name).folder.removeprefix("file://"), "metadata")
    newest = max(metadata.glob("*.metadata.json"))
    own = [metadata / "v1.metadata.json", metadata / "version-hint.text"]
    shutil.copy(newest, own[0])
    own[1].write_text("1")
    with jvm() as ask:
        found: dict[str, Any] = ask({"orphans": name.partition(".")[2], "warehouse": str(folder / "warehouse")})
    for each in own:
        each.unlink()
    assert found["files"] == orphans, found
    return found


def _line(files: int, what: str, where: str, found: dict[str, Any]) -> str:
    seconds = found["seconds"]
    memory = [f"{found[each]:,.0f}" if found.get(each) else "" for each in ("peak", "worker")]
    return f"| {files:,} | {what} | {where} | {seconds:.1f} | {seconds / files * 1e6:.1f} | {' | '.join(memory)} |"


def _work(folder: Path, name: str, where: str, what: str, least: int) -> dict[str, Any]:
    command = [sys.executable, "-c", _WORK, str(folder / "warehouse"), name, where, what]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["files"] >= least, found
    return found


def _table(folder: Path, files: int) -> str:
    """Make a table of old, empty files, a thousand per folder, with orphans among them."""
    catalog = lakescan.catalog("upkeep", warehouse=folder / "warehouse")
    catalog.create_namespace("n", exist_ok=True)
    table = catalog.create_table("n.t", "id BIGINT")
    place = Path(table.folder.removeprefix("file://"))
    for start in range(0, files, _BATCH):
        names = [f"data/p={n // _IN_FOLDER}/f-{n:08}.parquet" for n in range(start, min(start + _BATCH, files))]
        for number in range(start // _IN_FOLDER, (start + len(names)) // _IN_FOLDER):
            (place / f"data/p={number}").mkdir(parents=True, exist_ok=True)
        for each in names:
            _make(place / each)
            if each.endswith("00.parquet"):
                _make(place / each.replace("f-", "orphan-"))
        table._target(WriteOptions()).append(
            [WrittenFile(f"{place}/{each}", (), 1, 500, {"spec_id": 0}) for each in names]
        )
        table = table.refresh()
    return str(table.name)


def _make(path: Path) -> None:
    os.close(os.open(path, os.O_CREAT))
    os.utime(path, (_LONG_AGO, _LONG_AGO))
