"""Sort groups of files on the workers of an executor: rows are exchanged by range, and each range becomes files.

Workers first return a sample of the keys. Its quantiles are the bounds of ranges of about the target file size, one
share each: workers divide rows by them, and sort the rows of each share, which may be on disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakescan.common.executors import ExchangingExecutor
from lakescan.maintenance.arrangement import CompactionOrder
from lakescan.maintenance.external_sort import (
    MEMORY,
    add_row_numbers,
    join_batches,
    range_bounds,
    range_numbers,
    sorted_rows,
)
from lakescan.planning.partition_groups import assign_groups
from lakescan.planning.plan import ScanPlan
from lakescan.planning.task_groups import TaskGroup, TaskGroups
from lakescan.reading.context import ReadContext
from lakescan.reading.reader import read_group
from lakescan.writing.partitioned_writer import write_rows
from lakescan.writing.table_writes import TableWrites, WrittenFile

_GROUP_SAMPLE = 100_000  # rows of the keys of a group
_CHUNK = 32 * 2**20  # bytes of rows that are divided at once
_UNKNOWN = 1_000  # every n-th row is sampled if the number of rows is not recorded


@dataclass(frozen=True)
class _GroupPart:
    """A part of a sorted group: the group's number, the number of its first share, and what to read."""

    group: int
    first: int
    tasks: TaskGroup


@dataclass(frozen=True)
class _SampleKeys:
    """Every `step`-th row's keys of a part. Pickled for workers."""

    context: ReadContext
    columns: tuple[str, ...]
    steps: tuple[int, ...]

    def __call__(self, part: _GroupPart) -> tuple[int, pa.Table | None]:
        step, start = self.steps[part.group], 0
        kept: list[pa.Table] = []
        for batch in read_group(part.tasks, self.context):
            numbers = np.arange(start, start + batch.num_rows)
            mask = numbers % step == 0
            rows = pa.Table.from_batches([batch]).select(self.columns).filter(pa.array(mask))
            kept.append(add_row_numbers(rows, numbers[mask]))
            start += batch.num_rows
        return part.group, pa.concat_tables(kept).combine_chunks() if kept else None


@dataclass(frozen=True)
class _DivideRows:
    """Divide the rows of a part by the ranges of its group. Pickled for workers."""

    writes: TableWrites
    arrangement: CompactionOrder
    context: ReadContext
    samples: tuple[pa.Table | None, ...]
    bounds: tuple[pa.Table | None, ...]

    def __call__(self, part: _GroupPart) -> Iterator[tuple[int, pa.Table]]:
        sample, bounds = self.samples[part.group], self.bounds[part.group]
        if sample is None or bounds is None:
            return
        compare = self.arrangement.ranking(self.writes, sample)
        columns, start = self.arrangement.columns(self.writes), 0
        for rows in join_batches(read_group(part.tasks, self.context), _CHUNK):
            numbers = np.arange(start, start + rows.num_rows)
            place = range_numbers(add_row_numbers(rows.select(columns), numbers), compare, bounds)
            for each in np.unique(place).tolist():
                yield part.first + each, rows.filter(pa.array(place == each)).combine_chunks()
            start += rows.num_rows


@dataclass(frozen=True)
class _SortShare:
    """Sort the rows of a share, and write them. Pickled for workers."""

    writes: TableWrites
    arrangement: CompactionOrder
    write_id: str

    def __call__(self, tables: Iterator[pa.Table]) -> list[WrittenFile]:
        writes, arrangement = self.writes, self.arrangement
        with tempfile.TemporaryDirectory(prefix="lakescan-sort-") as folder:
            path = Path(folder) / "share.arrow"
            _store_share(tables, path)

            def read(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
                with pa.memory_map(str(path)) as file:
                    reader = pa.ipc.open_file(file)
                    for number in range(reader.num_record_batches):
                        batch = reader.get_batch(number)
                        yield batch if columns is None else batch.select(columns)

            rows = sorted_rows(
                read, arrangement.columns(writes), lambda sample: arrangement.ranking(writes, sample), MEMORY
            )
            return write_rows(writes.keep_row_order(arrangement.terms), rows, self.write_id)


def _store_share(tables: Iterator[pa.Table], path: Path) -> None:
    first = next(tables)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(str(path), first.schema, options=options) as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def sort_by_exchange(
    writes: TableWrites,
    plan: ScanPlan,
    groups: np.ndarray,
    contexts: tuple[ReadContext, ReadContext],
    arrangement: CompactionOrder,
    executor: ExchangingExecutor,
    write_id: str,
) -> list[WrittenFile]:
    """Write the rows of a plan, sorted over each group; `groups` numbers the files of the plan from 0.

    `contexts` are those to read all columns, and to read those of the keys.
    """
    of_split = groups[plan.splits["file"].to_numpy()]
    lengths = plan.splits["length"].to_numpy()
    count = int(groups.max()) + 1
    shares = np.maximum(1, np.round(np.bincount(of_split, weights=lengths, minlength=count) / writes.target_size))
    firsts = np.concatenate([[0], np.cumsum(shares)]).astype(np.int64)
    task = assign_groups(of_split, lengths, writes.target_size)
    owner = np.zeros(int(task.max()) + 1, dtype=np.int64)
    owner[task] = of_split
    parts = [
        _GroupPart(int(owner[n]), int(firsts[owner[n]]), tasks)
        for n, tasks in enumerate(TaskGroups(plan.table, plan.splits, task))
    ]
    columns = tuple(arrangement.columns(writes))
    found: list[list[pa.Table]] = [[] for _ in range(count)]
    for group, sample in executor.map(_SampleKeys(contexts[1], columns, _sample_steps(plan, groups)), parts):
        if sample is not None:
            found[group].append(sample)
    samples = tuple(pa.concat_tables(some).combine_chunks() if some else None for some in found)
    bounds = tuple(
        None if some is None else range_bounds(some, arrangement.ranking(writes, some), int(share))
        for some, share in zip(samples, shares, strict=True)
    )
    dividing = _DivideRows(writes, arrangement, contexts[0], samples, bounds)
    taking = _SortShare(writes, arrangement, write_id)
    done = executor.exchange(dividing, parts, taking, int(firsts[-1]))
    return [file for files in done for file in files]


def _sample_steps(plan: ScanPlan, groups: np.ndarray) -> tuple[int, ...]:
    """Of how many rows of each group one is sampled."""
    rows = plan.files["record_count"].fill_null(-1).to_numpy()
    known = np.bincount(groups, weights=np.maximum(rows, 0))
    unknown = np.bincount(groups, weights=rows < 0) > 0
    return tuple(int(n) for n in np.where(unknown, _UNKNOWN, np.maximum(1, known // _GROUP_SAMPLE)))
