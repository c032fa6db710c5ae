"""Plan and read tables on an object store that takes 50 ms for each answer.

The tables are one of 1,000 Iceberg manifests, a Delta log of 5,000 commits, the same log with a checkpoint 100 commits
before its end, and 1,000 small files of 100 rows. The store speaks S3 in its own process, and nothing is cached.
`needed` counts the round trips that the format requires one after the other. The aim is three times their seconds.
`chain` counts the round trips that did follow each other. The peers' clients have their own settings.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.slow_store import Requests, SlowStore, slow_store
from benchmarks.store_tables import BUCKET, bucket

_DELAY = 0.05
_AIM = 3


@dataclass(frozen=True)
class _Task:
    """A task: its name, the round trips that it needs, and its contenders."""

    name: str
    needed: int
    contenders: dict[str, Callable[[], object]]


def run(rows: int, runs: int) -> str:
    """Run all tasks at most three times; the tables have fixed sizes."""
    from lakescan.common.cache import CACHE

    lines = [
        "| task | by | seconds | of needed round trips | requests | needed | chain | at once |",
        "|---|---|---|---|---|---|---|---|",
    ]
    with slow_store(bucket(), _DELAY) as store:
        for task in _tasks(store):
            for name, work in task.contenders.items():
                seconds, requests = [], Requests({}, 0, 0)
                for _ in range(min(runs, 3)):
                    CACHE.clear()
                    time.sleep(0.5)  # lets work left by the previous run end
                    store.requests()
                    started = time.perf_counter()
                    work()
                    seconds.append(time.perf_counter() - started)
                    requests = store.requests()
                median = statistics.median(seconds)
                ratio = median / (task.needed * _DELAY)
                shown = f"{ratio:.1f}" + (f" (aim <= {_AIM})" if name == "**lakescan**" else "")
                lines.append(
                    f"| {task.name} | {name} | {median:.2f} | {shown} | {requests} | {task.needed} | "
                    f"{requests.chain} | {requests.at_once} |"
                )
    return "\n".join(lines)


def _tasks(store: SlowStore) -> list[_Task]:
    from deltalake import DeltaTable
    from pyiceberg.table import StaticTable

    import lakescan

    def ours(name: str) -> Any:
        return lakescan.table(f"s3://{BUCKET}/{name}", storage_options=store.options).scan()

    def iceberg(name: str) -> Any:
        return StaticTable.from_metadata(f"s3://{BUCKET}/{name}/metadata/v1.metadata.json", store.options).scan()

    def delta(name: str) -> DeltaTable:
        return DeltaTable(f"s3://{BUCKET}/{name}", storage_options=store.delta_rs)

    def both(name: str, needed: int, mine: Callable[[], object], peer: str, theirs: Callable[[], object]) -> _Task:
        return _Task(name, needed, {"**lakescan**": mine, peer: theirs})

    # Iceberg by folder: listing, hint, metadata, manifest list, manifests; pyiceberg gets the metadata file.
    # Delta: `_last_checkpoint`, listing (a thousand names each), commits and checkpoint.
    return [
        both(
            "plan 1,000 manifests",
            5,
            lambda: ours("manifests").plan(),
            "pyiceberg",
            lambda: list(iceberg("manifests").plan_files()),
        ),
        both(
            "plan 5,000 commits",
            8,
            lambda: ours("commits").plan(),
            "deltalake",
            lambda: delta("commits").get_add_actions(),
        ),
        both(
            "plan 100 commits after a checkpoint",
            3,
            lambda: ours("checkpoint").plan(),
            "deltalake",
            lambda: delta("checkpoint").get_add_actions(),
        ),
        both(
            "count of small files, Iceberg",
            5,
            lambda: ours("small_iceberg").count(),
            "pyiceberg",
            lambda: iceberg("small_iceberg").count(),
        ),
        both(
            "first 5 rows of small files, Iceberg",
            6,
            lambda: ours("small_iceberg").limit(5).to_arrow(),
            "pyiceberg",
            lambda: (
                StaticTable.from_metadata(f"s3://{BUCKET}/small_iceberg/metadata/v1.metadata.json", store.options)
                .scan(limit=5)
                .to_arrow()
            ),
        ),
        both(
            "all small files, Iceberg",
            6,
            lambda: ours("small_iceberg").to_arrow(),
            "pyiceberg",
            lambda: iceberg("small_iceberg").to_arrow(),
        ),
        both(
            "first 5 rows of small files, Delta",
            4,
            lambda: ours("small_delta").limit(5).to_arrow(),
            "deltalake",
            lambda: delta("small_delta").to_pyarrow_dataset().head(5),
        ),
        both(
            "all small files, Delta",
            4,
            lambda: ours("small_delta").to_arrow(),
            "deltalake",
            lambda: delta("small_delta").to_pyarrow_table(),
        ),
    ]
