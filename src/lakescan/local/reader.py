"""The in-process engine: threads read a plan's task groups into Arrow record batches, in plan order."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from functools import partial

import pyarrow as pa

from lakescan.planning.plan import ScanPlan
from lakescan.planning.task_groups import TaskGroup
from lakescan.reading.context import BATCH_SIZE, ReadContext
from lakescan.reading.deletes.equality_deletes import EqualityDeletes
from lakescan.reading.reader import PrefetchStorage, read_group
from lakescan.tables.scan_spec import ScanSpec

_MANY = 1 << 30
_GROUPS_AHEAD = 64  # groups whose small files are fetched before they are read
_AHEAD = 4  # batches that each reader may buffer ahead of the consumer


def default_readers() -> int:
    """Return the default number of groups that are read concurrently: one per core, at most eight."""
    return min(8, os.cpu_count() or 1)


def read_batches(
    plans: Iterable[tuple[ScanPlan, ReadContext]], *, limit: int | None = None, readers: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of plans as record batches in plan order, at most `limit` rows; plans are consumed lazily.

    `readers` is the number of groups that are read concurrently. Memory is bounded by a few batches per reader,
    whatever the table's size. Closing the iterator stops the readers.
    """
    remaining = limit
    if remaining == 0:
        return
    readers = min(readers or default_readers(), limit or _MANY)
    with ExitStack() as stack:
        for batch in _batches(_sources(plans, readers, stack), readers):
            if remaining is not None:
                batch = batch.slice(0, remaining)
                remaining -= batch.num_rows
            if batch.num_rows:
                yield batch
            if remaining == 0:
                return


def _sources(
    plans: Iterable[tuple[ScanPlan, ReadContext]], readers: int, stack: ExitStack
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Yield an iterator of batches for each task group, not started, and fetch small remote files of the next groups.

    `stack` closes the storage that fetches them.
    """
    storage, ahead = None, None  # shared by all plans of a scan, since it has threads
    for plan, context in plans:
        groups = plan.groups.merge_groups(readers).join_splits()
        equality = EqualityDeletes(context, plan.deletes, groups.tasks)
        if ahead is None or context.storage is not storage:
            storage, ahead = context.storage, stack.enter_context(closing(PrefetchStorage.copy_from(context.storage)))
        waiting: deque[TaskGroup] = deque()
        for group in groups:
            ahead.add(group, context)
            waiting.append(group)
            if len(waiting) > _GROUPS_AHEAD:
                yield read_group(waiting.popleft(), context, equality, ahead)
        while waiting:
            yield read_group(waiting.popleft(), context, equality, ahead)


def _batches(sources: Iterator[Iterator[pa.RecordBatch]], readers: int) -> Iterator[pa.RecordBatch]:
    first = list(itertools.islice(sources, 2))
    if readers == 1 or len(first) < 2:
        yield from itertools.chain.from_iterable(itertools.chain(first, sources))
        return
    stopped = threading.Event()
    running: list[_Reader] = []
    sources = itertools.chain(first, sources)
    try:
        while True:
            while len(running) < readers and (source := next(sources, None)) is not None:
                running.append(_Reader(source, stopped))
            if not running:
                return
            yield from running.pop(0).batches()
    finally:
        stopped.set()


class _Reader:
    """Reads the batches of one task group, `source`, in its own thread into a bounded queue, until `stopped` is set."""

    _END = object()

    def __init__(self, source: Iterator[pa.RecordBatch], stopped: threading.Event) -> None:
        self._queue: queue.Queue[object] = queue.Queue(_AHEAD)
        self._stopped = stopped
        threading.Thread(target=self._run, args=(source,), daemon=True).start()

    def batches(self) -> Iterator[pa.RecordBatch]:
        while (item := self._queue.get()) is not self._END:
            if isinstance(item, BaseException):
                raise item
            yield item

    def _run(self, source: Iterator[pa.RecordBatch]) -> None:
        last: object = self._END
        try:
            for batch in source:
                if not self._put(batch):
                    return
        except BaseException as error:  # passed to the consumer, which raises it
            last = error
        self._put(last)

    def _put(self, item: object) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False


_FEW = 4_096  # rows; the minimum of a batch under a limit


def scan_batches(
    spec: ScanSpec, batch_size: int = BATCH_SIZE, *, keeps_dictionaries: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan as record batches of at most `batch_size` rows, while the rest is planned.

    With `keeps_dictionaries`, columns of strings and binaries may be dictionary arrays in some batches.
    """
    if spec.max_rows is not None:  # a batch is decoded as a whole
        batch_size = min(batch_size, max(spec.max_rows, _FEW))
    plans = spec.prune_deletes().plan_parts(default_readers())
    read = partial(spec.read_context, batch_size=batch_size, keeps_dictionaries=keeps_dictionaries)
    contexts = ((plan, read(plan)) for plan in plans)
    return read_batches(contexts, limit=spec.max_rows)
