"""An LRU cache of decoded deletes, shared by the tasks of a process: each executor decodes a delete file once.

Delete files are immutable, so entries never expire. It holds compressed bitmaps and sorted keys, bounded in bytes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from pyroaring import BitMap64

T = TypeVar("T")

LIMIT = 128 * 2**20
_BITMAP = 200  # approximate bytes of an empty bitmap

# Deleted positions by the location of their data file; those of a deletion vector have the empty location.
Deletes = dict[str, BitMap64]


class DeleteCache(Generic[T]):
    """Decoded deletes by the file they were decoded from, at most `limit` bytes; thread-safe."""

    def __init__(self, size_of: Callable[[T], int], limit: int = LIMIT) -> None:
        self.limit, self._size_of = limit, size_of
        self._entries: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[Hashable, threading.Lock] = {}
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """The approximate number of bytes in the cache."""
        return self._bytes

    def get(self, key: Hashable, load: Callable[[], T]) -> T:
        """The deletes under a key. If they are not cached, one thread loads them while the others wait."""
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            with self._lock:
                if key in self._entries:
                    self._entries.move_to_end(key)
                    return self._entries[key][0]
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
            if key not in self._entries:
                self._entries[key] = (loaded, size)
                self._bytes += size
            while self._bytes > self.limit:
                self._bytes -= self._entries.popitem(last=False)[1][1]


def size_of_all(deletes: Deletes) -> int:
    """The approximate bytes of bitmaps by data file."""
    return sum(size_of(bitmap) + len(path) for path, bitmap in deletes.items())


def size_of(bitmap: BitMap64) -> int:
    """The approximate bytes of a bitmap."""
    stats = bitmap.get_statistics()
    containers = (
        stats["n_bytes_array_containers"] + stats["n_bytes_run_containers"] + stats["n_bytes_bitset_containers"]
    )
    return _BITMAP + int(containers)


DELETES: DeleteCache[Deletes] = DeleteCache(size_of_all)
