"""Rewrite groups of files with their rows sorted over each whole group, so that new files cover disjoint ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakescan.common.executors import ExchangingExecutor, PlanningExecutor
from lakescan.maintenance.arrangement import Arrangement
from lakescan.maintenance.exchanged_sort import exchange_sorted
from lakescan.maintenance.external_sort import sorted_rows
from lakescan.planning.plan import ScanPlan
from lakescan.planning.task_groups import TaskGroup, TaskGroups
from lakescan.reading.context import ReadContext
from lakescan.reading.reader import read_group
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.partitioned_writer import new_write_id, remove_written, write_rows
from lakescan.writing.table_writes import TableWrites, WrittenFile


@dataclass(frozen=True)
class _Sorting:
    """Write the rows of a group, sorted. Pickled for workers."""

    writes: TableWrites
    arrangement: Arrangement
    context: ReadContext
    of_keys: ReadContext
    write_id: str

    def __call__(self, group: TaskGroup) -> list[WrittenFile]:
        writes, arrangement = self.writes, self.arrangement

        def read(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
            return read_group(group, self.context if columns is None else self.of_keys)

        rows = sorted_rows(read, arrangement.columns(writes), lambda sample: arrangement.ranking(writes, sample))
        return write_rows(writes.of_sorted_rows(arrangement.terms), rows, self.write_id)


def rewrite_sorted(
    writes: TableWrites,
    scan: ScanSpec,
    plan: ScanPlan,
    groups: np.ndarray,
    arrangement: Arrangement,
    executor: PlanningExecutor | None,
) -> list[WrittenFile]:
    """Write the rows of a plan, sorted over each group; `groups` has the group number of each file of the plan.

    Groups are sorted one after the other in this process, with bounded memory and files in the temporary folder. An
    executor has a task for each; if it can exchange rows, as Spark can, workers share groups. All new files are removed
    on failure.
    """
    if not len(plan.table):
        return []
    numbers = np.unique(groups, return_inverse=True)[1].reshape(-1)
    context, of_keys = scan.read_context(plan), scan.narrowed(arrangement.columns(writes)).read_context(plan)
    write_id = new_write_id()
    try:
        if isinstance(executor, ExchangingExecutor):
            return exchange_sorted(writes, plan, numbers, (context, of_keys), arrangement, executor, write_id)
        tasks = TaskGroups(plan.table, plan.splits, numbers[plan.splits["file"].to_numpy()])
        work = _Sorting(writes, arrangement, context, of_keys, write_id)
        done = map(work, tasks) if executor is None else executor.map(work, tasks)
        return [file for files in done for file in files]
    except BaseException:
        remove_written(writes, write_id)
        raise
