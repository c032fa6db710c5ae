"""Planning runs on the given executor, and gives the same plan on each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.common.executors import LOCAL, ReadAhead, executor_for
from lakescan.delta.log.partitioned_replay import shares_of
from lakescan.planning.scan_report import ScanMetrics


class Counting:
    """A local executor that counts its calls, and can shuffle."""

    min_bytes = 1 << 40

    def __init__(self) -> None:
        self.runs = 0

    def map(self, work: Callable[[Any], Any], items: Iterable[Any], /) -> Iterator[Any]:
        for item in items:
            self.runs += 1
            yield work(item)

    def shuffle(
        self,
        split: Callable[[Any], Iterable[tuple[int, pa.Table]]],
        items: Iterable[Any],
        merge: Callable[[list[pa.Table]], Any],
        /,
    ) -> Iterator[Any]:
        shares: dict[int, list[pa.Table]] = {}
        for item in items:
            for number, table in split(item):
                shares.setdefault(number, []).append(table)
        for tables in shares.values():
            self.runs += 1
            yield merge(tables)


def described(plan: lakescan.ScanPlan) -> tuple[Any, ...]:
    """Return the content of a plan, in an order that does not depend on its files' order."""
    tasks = [task for group in plan.groups for task in group.tasks()]
    deletes = {t.path: sorted((d.path or "", d.offset or 0) for d in t.deletes) for t in tasks}
    residuals = {t.path: str(plan.residuals[t.residual]) for t in tasks}
    metrics = plan.report.metrics
    return deletes, residuals, metrics.result_data_files, metrics.skipped_data_files, plan.report.records


@pytest.fixture(params=["orders", "customers"])
def table(request, shop) -> lakescan.Table:
    return lakescan.table(getattr(shop, request.param))


@pytest.mark.slow
@pytest.mark.parametrize("least", [0, 3000])
def test_a_distributed_plan_is_the_local_plan(table: lakescan.Table, least: int) -> None:
    """Iceberg's manifests are mapped; Delta's log is split by path and reconciled by partition."""
    scan = table.scan().where(f"{table.schema.names[0]} > {least}")
    executor = Counting()
    away = scan.plan_with(executor).options(**{"data-planning-mode": "distributed"})
    assert described(away.plan()) == described(scan.plan())
    assert executor.runs > 0


def test_processes_plan_as_threads_do(table: lakescan.Table) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        assert described(table.scan().plan_with(pool).plan()) == described(table.scan().plan())


def test_the_mode_decides_whether_an_executor_is_used() -> None:
    executor = Counting()
    assert executor_for(executor, "local", 1 << 50) is LOCAL
    assert executor_for(executor, "auto", 1) is LOCAL
    assert executor_for(executor, "auto", 1 << 50) is executor
    assert executor_for(executor, "distributed", 1) is executor
    assert executor_for(None, "distributed", 1) is LOCAL


def test_the_mode_of_the_table_applies_if_the_scan_has_none(shop) -> None:
    scan = lakescan.table(shop.orders).scan()
    assert scan.spec.planning_mode("data") == "auto"
    assert scan.options(data_planning_mode="local").spec.planning_mode("data") == "local"
    with pytest.raises(lakescan.InvalidOption, match="auto, local or distributed"):
        scan.options(delete_planning_mode="remote")


def test_reading_ahead_keeps_the_order_and_stays_a_few_ahead() -> None:
    started: list[int] = []
    lock = threading.Lock()

    def work(n: int) -> int:
        with lock:
            started.append(n)
        return n * n

    results = ReadAhead(2).map(work, range(100))
    assert [next(results) for _ in range(3)] == [0, 1, 4]
    assert max(started) <= 6
    assert list(results) == [n * n for n in range(3, 100)]


def test_a_failure_of_the_work_is_the_plans_failure() -> None:
    def work(n: int) -> int:
        raise lakescan.CorruptMetadata(f"manifest {n}")

    with pytest.raises(lakescan.CorruptMetadata, match="manifest 0"):
        list(ReadAhead(2).map(work, range(5)))


def test_all_actions_of_a_path_are_in_one_partition() -> None:
    paths = [f"/t/part-{n:05d}-{n * 7919:x}.parquet" for n in range(5000)] + ["é", "x"]
    together = shares_of(pa.array(paths), 16)
    assert [shares_of(pa.array([p]), 16)[0] for p in paths[:50] + paths[-2:]] == [*together[:50], *together[-2:]]
    assert min((together == share).sum() for share in range(16)) > 200
    assert shares_of(pa.array(["", "a"]).slice(1), 16)[0] == shares_of(pa.array(["a"]), 16)[0]
    assert len(shares_of(pa.array([], pa.string()), 16)) == 0


def test_metrics_of_parts_add_up() -> None:
    one, other = ScanMetrics(result_data_files=2, dvs=1), ScanMetrics(result_data_files=3)
    assert one + other == ScanMetrics(result_data_files=5, dvs=1)
