"""Where planning runs its work: anything with `map(work, items)` that gives results in order.

An executor of `concurrent.futures` is one, threads or processes; so is `lakescan.spark.SparkExecutor`. Work and results
can be pickled.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa

T = TypeVar("T")
R = TypeVar("R")


class PlanningExecutor(Protocol):
    """Runs a function over items: reading manifests and files of a log, and pruning what is in them.

    One may have an attribute `min_bytes`: less metadata is not worth its while, and is planned by local threads.
    """

    def map(self, work: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """The results, in the order of the items."""


@runtime_checkable
class ShufflingExecutor(PlanningExecutor, Protocol):
    """One that can also bring together, from what items are split into, all that belongs together."""

    def shuffle(
        self,
        split: Callable[[T], Iterable[tuple[int, pa.Table]]],
        items: Iterable[T],
        merge: Callable[[list[pa.Table]], R],
        /,
    ) -> Iterator[R]:
        """Split items into tables with numbers, and merge those of each number, wherever they came from."""


class ReadAhead:
    """A few threads that stay a few items ahead of what is taken: memory is bounded by those."""

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def map(self, work: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """The results, in the order of the items."""
        waiting: deque[Future[R]] = deque()
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                for item in items:
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
    """The executor for `size` bytes of metadata: `mode` is auto, local or distributed, as Iceberg's planning modes are.

    An executor that was given is used unless the mode is local, or it is auto and the size is below its `min_bytes`.
    """
    if given is None or mode == "local" or (mode == "auto" and size < getattr(given, "min_bytes", 0)):
        return LOCAL
    return given
