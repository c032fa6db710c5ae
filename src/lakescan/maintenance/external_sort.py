"""Sort rows that may not fit into memory: they are divided into ranges on disk, and each range is sorted by itself."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from lakescan.maintenance.arrangement import Ranking

Read = Callable[[Sequence[str] | None], Iterator[pa.RecordBatch]]  # the columns (None: all) -> the rows
MEMORY = 256 * 2**20  # bytes of rows that are sorted in memory
_RANGE = 64 * 2**20  # bytes of a range, about
_RANGES = 256  # at most: each is an open file
_SAMPLE = 100_000
_SLICE = 65_536  # rows of a batch of sorted rows


def sorted_rows(
    read: Read, columns: Sequence[str], ranking: Callable[[pa.Table], Ranking], memory: int = MEMORY
) -> Iterator[pa.RecordBatch]:
    """Yield all rows in order. Rows with equal keys stay in the order in which they are read.

    `read` reads the rows, up to three times, each time the same. `ranking` makes how they are compared from a sample of
    the `columns`. At most about twice `memory` bytes of rows are held, or a 256th of all of them if that is more.
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
    """Every n-th row, with its number, so that up to twice `_SAMPLE` are kept; and how many rows there are."""
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
    """Rows with their numbers, which divide those with equal keys."""
    return rows.append_column(_NUMBER, pa.array(numbers, pa.int64()))


def range_bounds(sample: pa.Table, compare: Ranking, ranges: int) -> pa.Table:
    """The rows of the sample at which ranges begin. Numbers of rows divide those with equal keys."""
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
    """Write the rows of each range into a file; return the files in order."""
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
    """Join batches into tables of up to `most` bytes, or one batch."""
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
    """The number of the range of each row: how many bounds are not above it."""
    both = pa.concat_tables([bounds.select(rows.column_names), rows])
    order = np.lexsort([both[_NUMBER].to_numpy(), *compare(both)[::-1]])
    is_bound = order < bounds.num_rows
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(is_bound)
    result: np.ndarray = place[bounds.num_rows :]
    return result
