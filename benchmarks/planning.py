"""Plan an Iceberg table of 100,000 files, against Java's `planTasks()` in a warm JVM, and against pyiceberg."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.harness import Result, compare
from benchmarks.jvm import PYTHON, jvm
from benchmarks.planning_table import planning_table

# A task, lakescan's filter, and Java's filter: a method of Expressions, a column, a value.
_SCANS: list[tuple[str, str | None, list[list[Any]]]] = [
    ("everything", None, []),
    ("one day: manifests pruned", "day = '2024-11-18'", [["equal", "day", "2024-11-18"]]),
    ("a point by bounds", "c0 = 1234567", [["equal", "c0", 1234567]]),
    ("a prefix of text", "c1 like 'v00012345%'", [["startsWith", "c1", "v00012345"]]),
]


def run(rows: int, runs: int) -> list[Result]:
    """Plan 100,000 files in 100 manifests, whatever `rows` is. The JVM needs the environment of `make smoke-4.1`."""
    import lakescan
    from lakescan.common.cache import DEFAULT_LIMIT

    path = planning_table(100_000, 100)
    results = []

    def ours(condition: str | None, cache: int = 0) -> object:
        lakescan.set_cache_limit(cache)
        scan = lakescan.table(path).scan()
        return (scan if condition is None else scan.where(condition)).plan()

    if PYTHON.exists():
        with _java() as java:
            for task, condition, theirs in _SCANS:
                mine = ("open and plan", lambda c=condition: ours(c))
                peer = ("Java 1.12", lambda f=theirs: java({"table": path, "filter": f}))
                results.append(compare(task, mine, peer, runs=runs * 2, aim=1.0))
                warm = ("the same, with a warm metadata cache", lambda c=condition: ours(c, DEFAULT_LIMIT))
                results.append(compare(task, warm, peer, runs=runs, aim=0.2))
            groups = ("plan, task groups as rows for Spark", _groups)
            peer = ("Java 1.12", lambda: java({"table": path, "filter": []}))
            results.append(compare("everything", groups, peer, runs=runs, aim=1.0))
    for task, condition, _ in _SCANS:
        mine = ("open and plan", lambda c=condition: ours(c))
        results.append(compare(task, mine, ("pyiceberg", lambda c=condition: _pyiceberg(path, c)), runs=2, aim=1 / 15))
    return results


def _groups() -> object:
    """Plan all files, and make the task groups that are sent to Spark's workers."""
    import lakescan
    from lakescan.planning.task_group_rows import GroupRows

    lakescan.set_cache_limit(0)
    return GroupRows.encode_groups(lakescan.table(planning_table(100_000, 100)).scan().plan().groups)


def _pyiceberg(path: str, condition: str | None) -> object:
    from pyiceberg.table import StaticTable

    scan = StaticTable.from_metadata(f"{path}/metadata/v1.metadata.json").scan(row_filter=condition or "true")
    return len(list(scan.plan_files()))


@contextmanager
def _java() -> Iterator[Any]:
    """Yield a function that plans in a warm JVM."""
    with jvm() as ask:
        for _ in range(5):  # the JIT's warm-up
            ask({"table": planning_table(100_000, 100), "filter": []})
        yield ask
