"""Sort rows that may not fit into memory: divide them into ranges on disk, and sort each range."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakescan.common.executors import ExchangingExecutor
from lakescan.maintenance.zorder import CompactionOrder, Ranking
from lakescan.planning.plan import ScanPlan, assign_groups
from lakescan.planning.task_groups import TaskGroup, TaskGroups
from lakescan.reading.context import ReadContext
from lakescan.reading.reader import read_group
from lakescan.writing.parquet_writer import write_rows
from lakescan.writing.table_writes import TableWrites, WrittenFile

Read = Callable[[Sequence[str] | None], Iterator[pa.RecordBatch]]  # the columns (None: all) -> the rows
MEMORY = 256 * 2**20  # bytes of rows that are sorted in memory
_RANGE = 64 * 2**20  # approximate bytes of a range
_RANGES = 256  # maximum number of ranges, each of which is an open file
_SAMPLE = 100_000
_SLICE = 65_536  # rows per sorted batch


def sorted_rows(
    read: Read, columns: Sequence[str], ranking: Callable[[pa.Table], Ranking], memory: int = MEMORY
) -> Iterator[pa.RecordBatch]:
    """Yield all rows in order; rows with equal keys keep the order of reading.

    `read` reads the rows, up to three times, each time the same. `ranking` returns the comparison from a sample of the
    `columns`. Holds at most about twice `memory` bytes of rows, or a 256th of all rows if that is more.
    """
    batches = read(None)
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > memory:
            break
    else:
        if held:
            rows = pa.Table.from_batches(held)
            yield from _sort_rows(rows, ranking(_sample_table(rows.select(columns))))
        return
    per_row = size / sum(each.num_rows for each in held)
    held.clear()
    del batches
    sample, count = _sample(read(columns))
    compare = ranking(sample)
    ranges = int(min(_RANGES, max(2, count * per_row // min(_RANGE, memory))))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakescan-sort-")))
        for path in _divide_rows(
            read(None), columns, compare, range_bounds(sample, compare, ranges), folder, memory // 2
        ):
            with pa.memory_map(str(path)) as file:
                rows = pa.ipc.open_file(file).read_all()
                if rows.num_rows:
                    yield from _sort_rows(rows, compare)
            path.unlink()


def _sort_rows(rows: pa.Table, compare: Ranking) -> Iterator[pa.RecordBatch]:
    order = np.lexsort(compare(rows)[::-1])
    for start in range(0, len(order), _SLICE):
        yield from rows.take(pa.array(order[start : start + _SLICE])).combine_chunks().to_batches()


def _sample_table(rows: pa.Table) -> pa.Table:
    step = -(-rows.num_rows // _SAMPLE)
    return rows if step < 2 else rows.take(pa.array(np.arange(0, rows.num_rows, step)))


def _sample(batches: Iterator[pa.RecordBatch]) -> tuple[pa.Table, int]:
    """Return a sample, every n-th row with its row number, and the total number of rows.

    The sample has at most twice `_SAMPLE` rows.
    """
    step, count = 1, 0
    kept: list[pa.Table] = []
    rows = 0
    for batch in batches:
        numbers = np.arange(count, count + batch.num_rows)
        mask = numbers % step == 0
        kept.append(add_row_numbers(pa.Table.from_batches([batch.filter(pa.array(mask))]), numbers[mask]))
        count, rows = count + batch.num_rows, rows + int(mask.sum())
        while rows > 2 * _SAMPLE:
            step *= 2
            kept = [each.filter(pa.array(each[_NUMBER].to_numpy() % step == 0)) for each in kept]
            rows = sum(each.num_rows for each in kept)
    return pa.concat_tables(kept), count


_NUMBER = "__lakescan_number"


def add_row_numbers(rows: pa.Table, numbers: np.ndarray) -> pa.Table:
    """Return rows with their row numbers as an additional column, which orders rows with equal keys."""
    return rows.append_column(_NUMBER, pa.array(numbers, pa.int64()))


def range_bounds(sample: pa.Table, compare: Ranking, ranges: int) -> pa.Table:
    """Return the rows of the sample at which sort ranges start, in order; there are at most `ranges` - 1 of them.

    `sample` has the column of `add_row_numbers`, which orders rows with equal keys.
    """
    order = np.lexsort([sample[_NUMBER].to_numpy(), *compare(sample)[::-1]])
    places = np.unique(np.linspace(0, len(order), ranges + 1).astype(np.int64)[1:-1])
    return sample.take(pa.array(order[places]))


def _divide_rows(
    batches: Iterator[pa.RecordBatch],
    columns: Sequence[str],
    compare: Ranking,
    bounds: pa.Table,
    folder: Path,
    most: int,
) -> list[Path]:
    """Write the rows of each sort range into a temporary Arrow file in `folder`; return the files in order.

    Rows are divided by `bounds` (see `range_bounds`), about `most` bytes at a time.
    """
    paths = [folder / f"{number}.arrow" for number in range(bounds.num_rows + 1)]
    first = next(batches)
    with ExitStack() as stack:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        writers = [stack.enter_context(pa.ipc.new_file(str(path), first.schema, options=options)) for path in paths]
        start = 0
        for rows in join_batches(chain([first], batches), most):
            numbers = np.arange(start, start + rows.num_rows)
            place = range_numbers(add_row_numbers(rows.select(columns), numbers), compare, bounds)
            order = np.argsort(place, kind="stable")
            ends = np.searchsorted(place[order], np.arange(len(paths)), side="right")
            begin = 0
            for writer, end in zip(writers, ends.tolist(), strict=True):
                if end > begin:
                    writer.write_table(rows.take(pa.array(order[begin:end])))
                begin = end
            start += rows.num_rows
    return paths


def join_batches(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Join whole batches into tables, each ended by the batch that brings it to `most` bytes or more."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= most:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def range_numbers(rows: pa.Table, compare: Ranking, bounds: pa.Table) -> np.ndarray:
    """Return the sort range number of each row: the number of `bounds` that do not come after it."""
    both = pa.concat_tables([bounds.select(rows.column_names), rows])
    order = np.lexsort([both[_NUMBER].to_numpy(), *compare(both)[::-1]])
    is_bound = order < bounds.num_rows
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(is_bound)
    result: np.ndarray = place[bounds.num_rows :]
    return result


# Workers first return a sample of the keys. Its quantiles are the bounds of ranges of about the target file size, one
# shard each. Workers divide rows into these shards, and sort the rows of each shard, which may be on disk.

_GROUP_SAMPLE = 100_000  # rows in the key sample of a group
_CHUNK = 32 * 2**20  # bytes of rows that are divided together
_UNKNOWN = 1_000  # every n-th row is sampled if the number of rows is not recorded


@dataclass(frozen=True)
class _GroupPart:
    """A part of a file group to sort.

    `group` is the group's number, `first` the number of its first shard, and `tasks` the files to read.
    """

    group: int
    first: int
    tasks: TaskGroup


@dataclass(frozen=True)
class _SampleKeys:
    """A worker task: samples the sort keys of a part of a group.

    It takes every n-th row, where n is in `steps` by group, and returns the group's number and the sample, None without
    rows.
    """

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
    """A worker task: divides the rows of a part by the ranges of its group, and yields them by shard number.

    `samples` and `bounds` are the sample and the range bounds of each group, None for a group without rows.
    """

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
    """A worker task: sorts the rows of a shard, and writes them to data files."""

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
    """Write the rows of a plan to new files, sorted within each group by workers that exchange rows; return the files.

    `groups` has the group number, from 0, of each file of the plan. `contexts` are the read contexts for all columns,
    and for the key columns.
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
    """Return the sampling step of each group, n for every n-th row; `groups` has the group number of each file."""
    rows = plan.files["record_count"].fill_null(-1).to_numpy()
    known = np.bincount(groups, weights=np.maximum(rows, 0))
    unknown = np.bincount(groups, weights=rows < 0) > 0
    return tuple(int(n) for n in np.where(unknown, _UNKNOWN, np.maximum(1, known // _GROUP_SAMPLE)))
