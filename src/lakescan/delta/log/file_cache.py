"""Log files that are read twice, for a version's metadata and for its files, are requested once from remote storage."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakescan.storage import Storage

_MOST_BYTES = 32 * 2**20


class RememberingStorage(Storage):
    """A storage of one open table's log, which remembers small remote files until `forget` is called.

    Files of a log never change. Local files are not remembered: reading them again is as quick. Copies that are sent
    to other processes remember nothing.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._contents: dict[str, bytes] = {}
        self._bytes, self._lock = 0, threading.Lock()

    def forget(self) -> None:
        """Forget the contents of all files."""
        with self._lock:
            self._contents.clear()
            self._bytes = 0

    def read(self, location: str, offset: int = 0, length: int | None = None, *, size: int | None = None) -> bytes:
        """Read a file, or a part of it; see `Storage.read`."""
        if offset or length is not None or not self.is_remote(location):
            return super().read(location, offset, length, size=size)
        data = self._contents.get(location)
        if data is None or size not in (None, len(data)):  # of another size: the log of another table is there now
            data = self._remember(location, super().read(location, size=size))
        return data

    @contextmanager
    def open(self, location: str) -> Iterator[pa.NativeFile]:
        """Open a file for random access, in memory if it is small and remote; see `Storage.open`."""
        data = self._contents.get(location)
        if data is None and (data := self.read_in_one_request(location)) is not None:
            self._remember(location, data)
        if data is None:
            with super().open(location) as file:
                yield file
        else:
            yield pa.BufferReader(data)

    def _remember(self, location: str, data: bytes) -> bytes:
        with self._lock:
            more = len(data) - len(self._contents.get(location, b""))
            if self._bytes + more <= _MOST_BYTES:
                self._contents[location] = data
                self._bytes += more
        return data
