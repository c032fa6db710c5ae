"""Plan a Delta table with 300,000 adds with statistics in JSON commits, against deltalake's `get_add_actions()`."""

from __future__ import annotations

from benchmarks.data import delta_log
from benchmarks.harness import Result, compare


def run(rows: int, runs: int) -> list[Result]:
    """Plan a log of 300,000 adds, whatever `rows` is."""
    import lakescan

    path = delta_log(300_000)
    lakescan.set_cache_limit(0)

    def peer() -> object:
        from deltalake import DeltaTable

        return DeltaTable(path).get_add_actions()

    task = "300,000 adds in 300 commits"
    everything = ("open and plan", lambda: lakescan.table(path).scan().plan())
    point = ("the same, one file by a filter", lambda: lakescan.table(path).scan().where("c0 = 1234560").plan())
    return [compare(task, each, ("deltalake", peer), runs=runs, aim=0.6) for each in (everything, point)]
