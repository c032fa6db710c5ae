"""A memory cache of what never changes: decoded manifests and parsed commits. Bounded in bytes.

It is shared by all tables of the process, and the longest unused make room. `set_cache_limit(0)` switches it off.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import pyarrow as pa

DEFAULT_LIMIT = 256 * 2**20


class TableCache:
    """Arrow tables by key; safe to share between threads."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._tables: OrderedDict[Hashable, pa.Table] = OrderedDict()
        self._lock = threading.Lock()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """The bytes that the cached tables take."""
        return self._bytes

    def get(self, key: Hashable, make: Callable[[], pa.Table]) -> pa.Table:
        """The table under the key, made where it is not there; one that is larger than the limit is not kept."""
        with self._lock:
            if (found := self._tables.get(key)) is not None:
                self._tables.move_to_end(key)
                return found
        made = make()
        size = made.nbytes
        if size <= self.limit:
            with self._lock:
                if key not in self._tables:
                    self._tables[key] = made
                    self._bytes += size
                self._make_room()
        return made

    def resize(self, limit: int) -> None:
        """Bound the cache by so many bytes."""
        with self._lock:
            self.limit = limit
            self._make_room()

    def _make_room(self) -> None:
        while self._bytes > self.limit:
            _, table = self._tables.popitem(last=False)
            self._bytes -= table.nbytes


METADATA = TableCache()


def set_cache_limit(limit: int) -> None:
    """Bound the memory that decoded metadata may take, in bytes (256 MiB at first); 0 keeps none."""
    METADATA.resize(limit)
