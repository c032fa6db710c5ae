"""Read tables with 100 million deleted positions in 200 million rows, or 20 million deleted keys in 40 million rows.

The delete files are too large for one task. Each read runs in its own process. The tables show seconds, and the peak
memory of the driver and of any worker. The aim is memory that does not grow with the deletes, so it has no peer.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from samples.iceberg_deletes import POSITIONS, DeleteFile, commit_deletes, local, write_equality_deletes

import lakescan
from benchmarks.data import FOLDER
from benchmarks.harness import in_own_process

_FILES = 8
_READ = """
import json, os, sys, threading, time
import lakescan, pyarrow as pa
from tests.support.session import local_session
path, lane = sys.argv[1:]

def most(pid):
    try:
        return next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM")) / 1024
    except (OSError, StopIteration):
        return 0

peaks = {}
def watch():
    while True:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = open(f"/proc/{pid}/cmdline").read()
            except OSError:
                continue
            if "pyspark.daemon" in command or "pyspark/daemon" in command:
                peaks[pid] = most(pid)
        time.sleep(0.2)

scan = lakescan.table(path).scan()
if lane == "in process":
    started = time.perf_counter()
    rows = sum(batch.num_rows for batch in scan.to_batches())
else:
    spark = local_session("huge", {})
    spark.range(1).count()
    threading.Thread(target=watch, daemon=True).start()
    started = time.perf_counter()
    rows = scan.options(lane=lane).to_spark(spark).agg({"id": "count"}).collect()[0][0]
seconds = time.perf_counter() - started
print(json.dumps({"rows": rows, "seconds": seconds, "driver": most("self"), "worker": max(peaks.values(), default=0)}))
"""


def run(rows: int, runs: int) -> str:
    """Read each table once; the tables have fixed sizes."""
    lines = ["| deletes | read | seconds | driver's Python, MB | a worker, MB |", "|---|---|---|---|---|"]
    for name, path, live in (("100M positions", *_positions()), ("20M keys", *_keys())):
        for lane in ("native", "arrow", "in process"):
            found = in_own_process(_READ, path, lane)
            assert found["rows"] == live, (name, lane, found, live)
            worker = f"{found['worker']:,.0f}" if found["worker"] else ""
            lines.append(f"| {name} | {lane} | {found['seconds']:.1f} | {found['driver']:,.0f} | {worker} |")
    return "\n".join(lines)


def _positions() -> tuple[str, int]:
    """Make a table whose single delete file deletes every second row; return it with the number of remaining rows."""
    rows = 200_000_000
    folder = FOLDER / "huge_positions"
    if not (folder / "table").exists():
        location = _numbers(folder, rows)
        names = ("path", "record_count")
        files = sorted(zip(*(lakescan.table(location).scan().plan().files[n].to_pylist() for n in names), strict=True))
        ids = {"file_path": b"2147483546", "pos": b"2147483545"}
        kinds = {"file_path": pa.string(), "pos": pa.int64()}
        schema = pa.schema([pa.field(n, k, False, {b"PARQUET:field_id": ids[n]}) for n, k in kinds.items()])
        path = f"file://{folder}/deletes.parquet"
        with pq.ParquetWriter(local(path), schema) as writer:
            for file, count in files:
                for start in range(0, count, 2_000_000):
                    places = np.arange(start, min(start + 2_000_000, count), 2)
                    names_of = pa.DictionaryArray.from_arrays(np.zeros(len(places), np.int32), [file]).cast(pa.string())
                    writer.write_table(pa.table([names_of, places], schema=schema))
        delete = DeleteFile(POSITIONS, path, "PARQUET", rows // 2, local(path).stat().st_size)
        (folder / "table").write_text(commit_deletes(location, [delete]))
    return (folder / "table").read_text(), rows // 2


def _keys() -> tuple[str, int]:
    """Make a table whose single delete file deletes every second key, unordered; return it with the remaining row
    count.
    """
    rows = 40_000_000
    folder = FOLDER / "huge_keys"
    if not (folder / "table").exists():
        location = _numbers(folder, rows)
        keys = np.random.default_rng(0).permutation(np.arange(0, rows, 2))
        delete = write_equality_deletes(f"file://{folder}/deletes.parquet", pa.table({"id": keys}), {"id": 1})
        (folder / "table").write_text(commit_deletes(location, [delete]))
    return (folder / "table").read_text(), rows // 2


def _numbers(folder: Path, rows: int) -> str:
    """Make an Iceberg table of the numbers up to `rows`, in eight files."""
    from pyiceberg.catalog.sql import SqlCatalog

    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace_if_not_exists("n")
    table = catalog.create_table("n.t", pa.schema({"id": pa.int64()}))
    for start in range(0, rows, rows // _FILES):
        table.append(pa.table({"id": np.arange(start, start + rows // _FILES)}))
    return str(table.metadata_location)
