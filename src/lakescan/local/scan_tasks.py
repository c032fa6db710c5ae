"""Scan tasks: picklable parts of a scan for workers in other processes and for other engines."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from lakescan.errors import InvalidOption
from lakescan.planning.task_groups import TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.reading.reader import read_group
from lakescan.tables.scan_spec import ScanSpec


@dataclass(frozen=True, repr=False)
class ScanTask:
    """The part of a scan that one worker reads: splits of data files, their deletes, and the remaining filter.

    Made by `Scan.tasks`. A task can be pickled and sent to another process. That process needs lakescan and access to
    the storage. The pickle contains the storage settings with their secrets; `repr` does not show them.

    Attributes:
        groups: The task groups of the plan that the task reads, in order.
        context: The columns, filters and storage for reading them.
        row_limit: The maximum number of rows that the task returns; None without a limit.

    Example:
        >>> task = lakescan.table("/lake/orders").scan().tasks()[0]
        >>> task.to_arrow().num_rows
    """

    groups: tuple[TaskGroup, ...]
    context: ReadContext
    row_limit: int | None = None

    def __repr__(self) -> str:
        return f"ScanTask({len(self.paths)} files, {self.num_bytes:,} bytes)"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        return self.context.output.arrow()

    @property
    def paths(self) -> list[str]:
        """The paths of the data files that the task reads, whole or in part."""
        return list(dict.fromkeys(path for group in self.groups for path in group.splits["path"].to_pylist()))

    @property
    def num_bytes(self) -> int:
        """The stored size of the data files' splits in bytes."""
        return sum(sum(group.splits["length"].to_pylist()) for group in self.groups)

    def select(self, columns: str | Iterable[str]) -> ScanTask:
        """Return the task with only some of its columns, in this order. Filter and deletes still apply.

        Args:
            columns: Names of columns of `schema`, or one of them.

        Raises:
            KeyError: A name is not in `schema`.
            InvalidOption: A name is given twice.

        Example:
            >>> task.select(["order_id"]).to_arrow()
        """
        names = [columns] if isinstance(columns, str) else list(columns)
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise InvalidOption(f"select returns two columns named {twice[0]!r}: name each column once")
        known = self.context.selection
        selection = replace(known, columns=tuple(known.columns_by_name[name] for name in names))
        return replace(self, context=replace(self.context, selection=selection))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as record batches, while they are read.

        Example:
            >>> for batch in task.to_batches():
            ...     print(batch.num_rows)
        """
        left = self.row_limit
        for group in self.groups if left != 0 else ():
            for batch in read_group(group, self.context):
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                if batch.num_rows:
                    yield batch
                if left == 0:
                    return

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table.

        Example:
            >>> task.to_arrow().num_rows
        """
        return pa.Table.from_batches(self.to_batches(), schema=self.schema)


def scan_tasks(spec: ScanSpec, parallelism: int | None = None) -> list[ScanTask]:
    """Plan a scan and return its tasks, one per task group; see `Scan.tasks`.

    A scan with a limit or without files has a single task. `parallelism` is the number of workers; by default the
    scan's option, else the number of cores.
    """
    spec.check_for_workers()
    readers = parallelism or spec.options.parallelism or os.cpu_count() or 1
    plan = spec.pack_few_groups().prune_deletes().plan(readers)
    context = spec.read_context(plan)
    groups = list(plan.groups.merge_groups(readers).join_splits())
    if plan.limit is not None or not groups:
        return [ScanTask(tuple(groups), context, plan.limit)]
    return [ScanTask((group,), context) for group in groups]
