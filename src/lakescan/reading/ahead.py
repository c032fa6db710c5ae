"""Small remote files of a task group are fetched whole, many at once, before they are read one after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pyarrow as pa

from lakescan.expressions.predicate import FALSE
from lakescan.planning.split import NO_END
from lakescan.planning.task_groups import TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.storage import Storage
from lakescan.storage.faults import read_whole, storage_boundary

_SMALL = 1 << 20  # bytes up to which a file is fetched whole, as its size is recorded
_FIRST = 16  # files fetched before the first one is read; twice as many as were read after that
_MOST_BYTES = 64 * 2**20  # of files that are fetched and not read yet


class PrefetchStorage(Storage):
    """The storage to read task groups from: it has fetched the next of the small files that it was told of.

    Other files are opened as they are. For all threads of a process.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._files: dict[str, int] = {}  # to be fetched, in order, with their sizes
        self._coming: dict[str, tuple[Future[bytes | None], int]] = {}
        self._window, self._bytes = _FIRST, 0

    def add(self, group: TaskGroup, context: ReadContext) -> None:
        """Fetch the small remote files of a group after those of the groups before it."""
        if not len(group) or not self.is_remote(group.splits["path"][0].as_py()):
            return
        columns = [group.splits[name].to_pylist() for name in ("path", "start", "stop", "length", "residual")]
        with self._lock:
            for path, start, stop, length, residual in zip(*columns, strict=True):
                is_whole = start == 0 and stop == NO_END
                is_wanted = is_whole and length <= _SMALL and context.residuals[residual] != FALSE
                if is_wanted and path not in self._coming and self.is_remote(path):
                    self._files[path] = length
            self._fetch()

    def close(self) -> None:
        """Fetch nothing more."""
        with self._lock:
            self._files.clear()
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self) -> None:
        while self._files and len(self._coming) < self._window and self._bytes <= _MOST_BYTES:
            path = next(iter(self._files))
            size = self._files.pop(path)
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.requests_at_once(path), "lakescan-ahead")
            self._coming[path] = self._pool.submit(self._read_small, path), size
            self._bytes += size

    def _read_small(self, path: str) -> bytes | None:
        """The file; None if it is not small, whatever was recorded."""
        if (data := self.read_in_one_request(path, most=2 * _SMALL)) is not None:
            return data
        with super().open(path) as file, storage_boundary("read", path):
            size = int(file.size())
            return read_whole(file, path, size) if size <= 2 * _SMALL else None

    @contextmanager
    def open(self, location: str) -> Iterator[pa.NativeFile]:
        """Open a file for random access; see `Storage.open`."""
        with self._lock:
            future, size = self._coming.pop(location, (None, 0))
            is_small = self._files.pop(location, None) is not None  # and another reader's files are fetched first
            if future is not None:
                self._bytes -= size
                self._window = min(self._window * 2, self.requests_at_once(location))
                self._fetch()
        data = None
        if future is not None and not future.cancelled():
            data = future.result()
        elif is_small:
            data = self._read_small(location)
        if data is None:
            with super().open(location) as file:
                yield file
        else:
            yield pa.BufferReader(data)
