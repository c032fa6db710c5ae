"""Decoded deletes, kept for the next task of the process: a delete file is decoded once an executor.

Delete files are never written again. What is kept is compressed bitmaps and sorted keys, bounded in bytes; the longest
unused make room.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from pyroaring import BitMap64

T = TypeVar("T")

LIMIT = 128 * 2**20
_BITMAP = 200  # bytes that an empty bitmap takes, about

# Deleted rows by the name of their data file; a deletion vector's are under the empty name.
Deletes = dict[str, BitMap64]


class DeleteCache(Generic[T]):
    """Decoded deletes by what they were decoded from, at most `limit` bytes of them; safe to share between threads."""

    def __init__(self, size_of: Callable[[T], int], limit: int = LIMIT) -> None:
        self.limit, self._size_of = limit, size_of
        self._found: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[Hashable, threading.Lock] = {}
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """The bytes that are kept, about."""
        return self._bytes

    def get(self, key: Hashable, load: Callable[[], T]) -> T:
        """The deletes under a key, loaded where they are not kept: by one thread, for which the others wait."""
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            with self._lock:
                if key in self._found:
                    self._found.move_to_end(key)
                    return self._found[key][0]
            try:
                loaded = load()
                self._keep(key, loaded)
            finally:
                with self._lock:
                    self._loading.pop(key, None)
        return loaded

    def _keep(self, key: Hashable, loaded: T) -> None:
        size = self._size_of(loaded)
        if size > self.limit:
            return
        with self._lock:
            if key not in self._found:
                self._found[key] = (loaded, size)
                self._bytes += size
            while self._bytes > self.limit:
                self._bytes -= self._found.popitem(last=False)[1][1]


def size_of_all(deletes: Deletes) -> int:
    """The bytes that bitmaps by data file take, about."""
    return sum(size_of(bitmap) + len(path) for path, bitmap in deletes.items())


def size_of(bitmap: BitMap64) -> int:
    """The bytes that a bitmap takes, about."""
    found = bitmap.get_statistics()
    containers = (
        found["n_bytes_array_containers"] + found["n_bytes_run_containers"] + found["n_bytes_bitset_containers"]
    )
    return _BITMAP + int(containers)


DELETES: DeleteCache[Deletes] = DeleteCache(size_of_all)
