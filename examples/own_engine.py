"""A minimal engine over scan tasks: a count by group, in several processes, without any other library.

`python -m examples.own_engine TABLE COLUMN` counts the rows of each value of a column. An engine needs three things of
lakescan: `Scan.tasks()`, which plans; `ScanTask.to_batches()`, which reads on a worker; and `ScanTask.select`, for the
columns that are enough. Deletes, filters, schema changes, encodings and credentials are in the task.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import lakescan


class Engine:
    """Run one function for each task of a scan on `workers` processes, and add up the results."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def count_by(self, scan: lakescan.Scan, column: str) -> Counter[Any]:
        """Count the rows for each value of a column."""
        tasks = [task.select([column]) for task in scan.tasks(parallelism=self._workers)]
        tasks.sort(key=lambda task: -task.num_bytes)  # the largest first, so that all workers end together
        total: Counter[Any] = Counter()
        with ProcessPoolExecutor(self._workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            for counts in pool.map(_counts, tasks):
                total += counts
        return total


def _counts(task: lakescan.ScanTask) -> Counter[Any]:
    """Count the values in one task, on a worker: memory is bounded by a batch."""
    counts: Counter[Any] = Counter()
    for batch in task.to_batches():
        for each in batch.column(0).value_counts():
            counts[each["values"].as_py()] += each["counts"].as_py()
    return counts


def main(path: str, column: str) -> None:
    """Print the values of a column and how often they occur."""
    for value, count in Engine(workers=2).count_by(lakescan.table(path).scan(), column).most_common():
        print(f"{value}: {count:,}")


if __name__ == "__main__":
    main(*sys.argv[1:])
