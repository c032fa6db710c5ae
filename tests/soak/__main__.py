"""Write, stream, read and maintain one table of each format, and check that memory and open files stay flat.

python -m tests.soak --minutes 60 python -m tests.soak --minutes 1 --leak 100000 each append leaks that many bytes; the
leak must be found

Prints the measurements; the exit code is 1 if anything grew or failed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

import lakescan
from tests.soak.slope import Growth, growth
from tests.soak.work import described, works
from tests.support.allocated import allocated_bytes

CACHE = 2 * 2**20  # bytes; small, so that the cache is full before the second half begins
# Leaks are searched for in the allocated bytes, which vary with the objects that threads hold at the time. Resident
# pages prove nothing: allocators keep free pages, in one arena per thread.
MAY_GROW = {
    "allocated, MB": 4.0,
    "Python blocks, thousands": 15.0,
    "resident, MB": 24.0,
    "open files": 6.0,
    "threads": 6.0,
}
SECONDS = 0.5  # between measurements


def main() -> int:
    """Work and measure; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--leak", type=int, default=0)
    parser.add_argument("--log", help="write each measurement to this file, as CSV")
    given = parser.parse_args()
    lakescan.set_cache_limit(CACHE)
    with tempfile.TemporaryDirectory() as folder:
        running = works(folder, given.leak)
        for each in running:
            each.start()
        try:
            found = measured(60 * given.minutes, given.log)
        finally:  # otherwise working threads would keep the process alive
            for each in running:
                each.end()
        for each in running:
            each.check()
            print(described(each), flush=True)
    for one in found:
        print(one, flush=True)
    failures = [text for each in running for text in each.failed]
    print("\n".join(failures), end="\n" if failures else "", flush=True)
    return 1 if failures or not all(one.is_flat for one in found) else 0


def measured(seconds: float, log: str | None = None) -> list[Growth]:
    """Return the growth of each measure within that time."""
    began, times = time.monotonic(), list[float]()
    values: dict[str, list[float]] = {name: [] for name in MAY_GROW}
    while (now := time.monotonic() - began) < seconds:
        pa.default_memory_pool().release_unused()
        times.append(now)
        for name, value in _levels().items():
            values[name].append(value)
        time.sleep(SECONDS)
    if log is not None:
        table = pa.table({"seconds": times, **values})
        pa.csv.write_csv(table, log)
    return [growth(name, times, values[name], allowed) for name, allowed in MAY_GROW.items()]


def _levels() -> dict[str, float]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "allocated, MB": allocated_bytes() / 1e6,
        "Python blocks, thousands": sys.getallocatedblocks() / 1e3,
        "resident, MB": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "open files": float(len(os.listdir("/proc/self/fd"))),
        "threads": float(threading.active_count()),
    }


if __name__ == "__main__":
    sys.exit(main())
