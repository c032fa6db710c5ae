"""Executors for planning: any object with a method `map(work, items)` that returns results in order.

The thread and process pools of `concurrent.futures` and `lakescan.spark.SparkExecutor` are executors. Functions, items
and results must be picklable.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R")


class PlanningExecutor(Protocol):
    """Runs a function over items: scans use it to read manifests or log files and to prune their entries.

    An executor may have an attribute `min_bytes`. Scans with fewer bytes of metadata are planned by local threads
    instead.
    """

    def map(self, work: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """Yield the result of `work` for each item, in order."""


@runtime_checkable
class ShufflingExecutor(PlanningExecutor, Protocol):
    """An executor that can also shuffle: it splits items by key and merges the tables of each key."""

    def shuffle(
        self,
        split: Callable[[T], Iterable[tuple[int, pa.Table]]],
        items: Iterable[T],
        merge: Callable[[list[pa.Table]], R],
        /,
    ) -> Iterator[R]:
        """Split each item into (key, table) pairs with `split`, then call `merge` with all tables of a key.

        Yields one result per key, in the order of the keys.
        """


@runtime_checkable
class ExchangingExecutor(PlanningExecutor, Protocol):
    """An executor that can also exchange rows: workers split items into shards, and one worker takes each shard."""

    def exchange(
        self,
        split: Callable[[T], Iterable[tuple[int, pa.Table]]],
        items: Iterable[T],
        take: Callable[[Iterator[pa.Table]], R],
        shares: int,
        /,
    ) -> Iterator[R]:
        """Split each item into (shard, table) pairs, then call `take` once per shard with an iterator over its tables.

        Unlike `ShufflingExecutor.shuffle`, no worker holds all tables of a shard at once. `shares` is the number of
        shards, numbered from 0. The results come in any order.
        """


class ReadAhead:
    """A thread pool that works only a few items ahead of the consumer of its results, so that memory is bounded."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def map(self, work: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """Yield the result of `work` for each item, in order. An error of `work` is raised at the result of its item.

        A single item is processed in the calling thread.
        """
        rest = iter(items)
        first = list(islice(rest, 2))
        if len(first) < 2:
            yield from map(work, first)
            return
        waiting: deque[Future[R]] = deque()
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                for item in chain(first, rest):
                    waiting.append(pool.submit(work, item))
                    if len(waiting) > self._threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()


LOCAL = ReadAhead(min(8, max(2, os.cpu_count() or 1)))


def executor_for(given: PlanningExecutor | None, mode: str, size: int) -> PlanningExecutor:
    """Choose the executor for planning a scan with `size` bytes of metadata.

    `mode` is an Iceberg planning mode: auto, local or distributed. `given` is the user's executor, if any. It is used
    unless the mode is local, or the mode is auto and `size` is below the executor's `min_bytes`. Otherwise `LOCAL`, a
    pool of local threads, is used. A given `ReadAhead` is always used.
    """
    if isinstance(given, ReadAhead):
        return given
    if given is None or mode == "local" or (mode == "auto" and size < getattr(given, "min_bytes", 0)):
        return LOCAL
    return given
