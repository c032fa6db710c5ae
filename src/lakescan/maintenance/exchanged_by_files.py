"""An exchange of rows in this process: shares wait in temporary files, so that memory holds one of them at a time."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from lakescan.common.executors import LOCAL, PlanningExecutor

T = TypeVar("T")
R = TypeVar("R")


class FileExchange:
    """An executor that exchanges rows by files in a temporary folder; what it maps, another executor runs.

    It is a context, at whose end the folder is removed.
    """

    def __init__(self, executor: PlanningExecutor | None = None) -> None:
        self._executor = executor or LOCAL
        self._folder = tempfile.TemporaryDirectory(prefix="lakescan-")
        self.folder: str = self._folder.name
        self._exchanges = 0

    def __enter__(self) -> FileExchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def map(self, work: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """Yield the result of `work` for each item, in order."""
        return self._executor.map(work, items)

    def exchange(
        self,
        split: Callable[[T], Iterable[tuple[int, pa.Table]]],
        items: Iterable[T],
        take: Callable[[Iterator[pa.Table]], R],
        shares: int,
        /,
    ) -> Iterator[R]:
        """Split each item into (share, table) pairs, then take the tables of each share one by one, in order."""
        self._exchanges += 1
        folder = Path(self.folder, str(self._exchanges))
        folder.mkdir()

        def write(numbered: tuple[int, T]) -> tuple[Path, list[int]]:
            """A file for each item: its batches, and the share of each."""
            number, item = numbered
            path, found, writer = folder / f"{number}.arrow", list[int](), None
            try:
                for share, table in split(item):
                    for batch in table.combine_chunks().to_batches():
                        if writer is None:
                            writer = pa.ipc.new_file(path, batch.schema)
                        writer.write_batch(batch)
                        found.append(share)
            finally:
                if writer is not None:
                    writer.close()
            return path, found

        batches = defaultdict[int, list[tuple[Path, list[int]]]](list)
        for path, numbers in self._executor.map(write, list(enumerate(items))):
            places = defaultdict[int, list[int]](list)
            for at, share in enumerate(numbers):
                places[share].append(at)
            for share, some in places.items():
                batches[share].append((path, some))
        yield from self._executor.map(lambda share: take(_read(batches[share])), sorted(batches))


def _read(places: list[tuple[Path, list[int]]]) -> Iterator[pa.Table]:
    for path, numbers in places:
        with pa.OSFile(str(path)) as source:
            reader = pa.ipc.open_file(source)
            yield pa.Table.from_batches([reader.get_batch(each) for each in numbers], reader.schema)
