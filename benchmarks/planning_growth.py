"""Plan 10,000 to 10,000,000 Iceberg files, each in its own process: time and peak memory.

`whole` is one plan of all files, and `parts` are plans of some manifests each. A filter by bounds leaves 100 of
10,000,000 files (100 copies of 100,000): `one in 100,000`, in process and by two of Spark's workers, whose memory is
not counted.
"""

from __future__ import annotations

import statistics

from benchmarks.harness import in_own_process
from benchmarks.planning_table import copied_table, planning_table

_PLAN = """
import json, sys, time
import lakescan
lakescan.set_cache_limit(0)
started = time.perf_counter()
scan = lakescan.table(sys.argv[1]).scan()
if sys.argv[2].startswith("one in"):
    scan = scan.where("c0 = 1234567")
if sys.argv[2].endswith("on Spark"):
    import lakescan.spark
    from examples.demo import session
    spark = session()
    scan = scan.plan_with(lakescan.spark.SparkExecutor(spark))
    list(scan.where("c0 = -1 and day = '1970-01-01'").plan().groups)  # starts the workers
    started = time.perf_counter()
plans = scan.plan_parts() if sys.argv[2] == "parts" else [scan.plan()]
files = sum(len(plan.table) for plan in plans)
seconds = time.perf_counter() - started
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"files": files, "seconds": seconds, "peak": peak / 1024}))
"""
_SIZES = (10_000, 100_000, 1_000_000)


def run(rows: int, runs: int) -> str:
    """Return a table of measurements. The aims are 1.5 GB for a million files, and times proportional to the count."""
    lines = ["| files | plan | seconds | microseconds a file | peak memory, MB |", "|---|---|---|---|---|"]
    for files in _SIZES:
        path = planning_table(files, files // 1000)
        for how in ("whole", "parts"):
            found = [in_own_process(_PLAN, path, how) for _ in range(min(runs, 3))]
            assert all(each["files"] == files for each in found)
            seconds = statistics.median(each["seconds"] for each in found)
            peak = max(each["peak"] for each in found)
            lines.append(_line(files, how, seconds, peak))
    path = copied_table(100_000, 100)
    for how in ("parts", "one in 100,000", "one in 100,000, on Spark"):
        once = in_own_process(_PLAN, path, how)
        lines.append(_line(10_000_000, how, once["seconds"], once["peak"]))
    return "\n".join(lines)


def _line(files: int, how: str, seconds: float, peak: float) -> str:
    return f"| {files:,} | {how} | {seconds:.2f} | {seconds / files * 1e6:.1f} | {peak:,.0f} |"
