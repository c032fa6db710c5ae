"""Write, stream, read and maintain one table of each format, and see that memory and open files stay flat.

python -m tests.soak --minutes 60
python -m tests.soak --minutes 1 --leak 100000    each append keeps so many bytes: it must be found

What was measured is printed; the exit code says whether anything grew or failed.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import pyarrow as pa

import lakescan
from tests.soak.slope import Growth, growth
from tests.soak.work import described, works

CACHE = 8 * 2**20  # bytes; small, so that a full cache is not taken for growth
MAY_GROW = {"memory, MB": 48.0, "open files": 6.0, "threads": 6.0}
SECONDS = 0.5  # between measurements


def main() -> int:
    """Work and measure; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--leak", type=int, default=0)
    given = parser.parse_args()
    lakescan.set_cache_limit(CACHE)
    with tempfile.TemporaryDirectory() as folder:
        running = works(folder, given.leak)
        for each in running:
            each.start()
        found = measured(60 * given.minutes)
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


def measured(seconds: float) -> list[Growth]:
    """The growth of each measure within that time."""
    began, times = time.monotonic(), list[float]()
    values: dict[str, list[float]] = {name: [] for name in MAY_GROW}
    while (now := time.monotonic() - began) < seconds:
        gc.collect()
        pa.default_memory_pool().release_unused()
        times.append(now)
        for name, value in _levels().items():
            values[name].append(value)
        time.sleep(SECONDS)
    return [growth(name, times, values[name], allowed) for name, allowed in MAY_GROW.items()]


def _levels() -> dict[str, float]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "memory, MB": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "open files": float(len(os.listdir("/proc/self/fd"))),
        "threads": float(threading.active_count()),
    }


if __name__ == "__main__":
    sys.exit(main())
