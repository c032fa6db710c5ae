"""Write rows of data files into other files: each partition separately, on an executor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.executors import LOCAL, PlanningExecutor
from lakescan.common.metadata_columns import CHANGE_TYPE
from lakescan.expressions.evaluate import column_getter, matching_rows
from lakescan.expressions.predicate import Predicate
from lakescan.planning.partition_groups import groups_by_partition
from lakescan.planning.plan import ScanPlan
from lakescan.planning.task_groups import TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.reading.deletes.equality import EqualityDeletes
from lakescan.reading.reader import read_group
from lakescan.writing.parquet import GROUP_ROWS
from lakescan.writing.partitioned_writer import new_write_id, remove_written, write_rows
from lakescan.writing.table_writes import TableWrites, WrittenFile

_SHARED_ROWS = 1 << 18  # of a row group


@dataclass(frozen=True)
class _Rewrite:
    """Write the rows of a task group, as `rewrite_rows` does. Pickled for workers."""

    writes: TableWrites
    context: ReadContext
    write_id: str
    without: Predicate | None
    change: str | None
    equality: EqualityDeletes | None = None
    group_rows: int = GROUP_ROWS

    def __call__(self, group: TaskGroup) -> list[WrittenFile]:
        return write_rows(self.writes, self._rows(group), self.write_id, self.group_rows)

    def _rows(self, group: TaskGroup) -> Iterator[pa.RecordBatch]:
        schema = self.context.table_schema
        for batch in read_group(group, self.context, self.equality):
            if self.without is not None:
                hit = matching_rows(self.without, column_getter(batch, schema), batch.num_rows)
                batch = batch.filter(pc.invert(hit))
            if self.change is not None:
                batch = batch.append_column(CHANGE_TYPE.name, pa.repeat(self.change, batch.num_rows))
            yield batch


def rewrite_rows(
    writes: TableWrites,
    plan: ScanPlan,
    context: ReadContext,
    executor: PlanningExecutor | None,
    *,
    without: Predicate | None = None,
    change: str | None = None,
    least_size: int | None = None,
) -> list[WrittenFile]:
    """Write the rows of a plan, except those that match the bound filter `without`; remove all new files on failure.

    The first columns of the plan must be all columns of the table. With `change`, the files are change files, and all
    rows have this kind of change. Without an executor, threads write; an executor may run in other processes.
    With `least_size` (bytes), files of that size at least are written where all threads have something to do then.
    """
    if not len(plan.table):
        return []
    size = writes.target_size
    if least_size is not None:
        share = (pc.sum(plan.splits["length"]).as_py() or 0) // (os.cpu_count() or 1)
        size = min(size, max(least_size, share))
    groups, write_id = groups_by_partition(plan, size), new_write_id()
    local_deletes = EqualityDeletes(context, plan.deletes, groups.tasks) if executor is None else None
    # Threads of one process hold a row group each: where they share the work, these are smaller.
    group_rows = _SHARED_ROWS if executor is None and least_size is not None else GROUP_ROWS
    work = _Rewrite(writes, context, write_id, without, change, local_deletes, group_rows)
    try:
        return [file for files in (executor or LOCAL).map(work, groups) for file in files]
    except BaseException:
        remove_written(writes, write_id)
        raise
