"""The in-memory cache of a process for data decoded from immutable files.

It holds decoded manifests, parsed parts of Delta logs, deleted rows and other kinds of values. All kinds share one
limit in bytes, which `set_cache_limit` sets. The least recently used values are evicted first. A module declares what
it caches as a `CacheKind`. `common.folder_cache` keeps decoded tables on disk as well.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Generic, TypeVar, cast

import pyarrow as pa

from lakescan.errors import InvalidOption

T = TypeVar("T")

DEFAULT_LIMIT = 384 * 2**20
ENTRY = 512  # approximate bytes of an entry without its key and value
_NODE = 900  # approximate bytes of an Arrow field and its array without buffers; measured: 640 to 1,200


def table_size(table: pa.Table) -> int:
    """Return the approximate size of a table in memory, in bytes.

    The size counts whole buffers plus a fixed overhead per Arrow array. Most metadata tables have few rows, and for
    those the overhead is ten times the size of the values.
    """
    objects = sum(_nodes(column.type) * max(1, column.num_chunks) for column in table.columns)
    return int(table.get_total_buffer_size()) + _NODE * objects


def _nodes(type_: pa.DataType) -> int:
    """Count an Arrow type and all types nested in it; a dictionary type counts its value type."""
    if pa.types.is_dictionary(type_):
        return 1 + _nodes(type_.value_type)
    return 1 + sum(_nodes(type_.field(number).type) for number in range(type_.num_fields))


def entry_size(key: Hashable) -> int:
    """Return the approximate size of a cache entry without its value, in bytes.

    Keys may be long: some name each file of a batch.
    """
    return ENTRY + _key_size(key)


def _key_size(key: object) -> int:
    members = sum(map(_key_size, key)) if isinstance(key, tuple) else 0
    return sys.getsizeof(key) + members


@dataclass(eq=False)
class _Computation:
    """A value that a thread is computing while other threads wait for it.

    - `thread`: the id of the computing thread.
    - `value`: the computed value in a tuple of one; None until it is computed, and if the computation failed.
    - `done`: set when the computation has ended, with or without a value.
    """

    thread: int
    value: tuple[Any] | None = None
    done: threading.Event = field(default_factory=threading.Event)


class Cache:
    """A least-recently-used cache bounded in bytes and shared by all threads of a process.

    Threads that ask for the same key at the same time compute its value once.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit: int = limit
        self._entries: OrderedDict[Hashable, tuple[tuple[Any], int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()  # never held while a value is computed
        self._computations: dict[Hashable, _Computation] = {}
        self._waiting: dict[int, _Computation] = {}  # by waiting thread

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """The approximate size of all entries in bytes."""
        return self._bytes

    def get(self, key: Hashable, make: Callable[[], T], size_of: Callable[[T], int]) -> T:
        """Return the value cached under `key`, else call `make` and cache its result.

        A value larger than the limit is returned, but not cached. If another thread is computing the value, wait for
        it. If that thread fails, each waiting thread computes the value itself, because the cause may concern only the
        failed thread (an interrupt). `make` may call `get` for other keys.

        Args:
            key: Everything that the value depends on.
            make: Computes the value. If it raises, the error propagates and nothing is cached.
            size_of: Returns the size of the value in bytes.
        """
        with self._lock:
            found = self._lookup(key)
        if found is None:
            own = _Computation(threading.get_ident())
            try:
                found = self._find_or_wait(key, own)
                if found is None:
                    found = own.value = (make(),)
                    self._keep(key, found, size_of(found[0]) + entry_size(key))
            finally:
                self._end(key, own)
        return cast(T, found[0])

    def find(self, key: Hashable) -> tuple[Any] | None:
        """Return the value cached under `key` in a tuple of one; None if the key is not cached."""
        with self._lock:
            return self._lookup(key)

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Cache a value of `size` bytes under `key`, replacing the previous value; drop it if it exceeds the limit."""
        with self._lock:
            _, before = self._entries.pop(key, ((None,), 0))
            self._bytes -= before
        self._keep(key, (value,), size + entry_size(key))

    def resize(self, limit: int) -> None:
        """Set the limit in bytes, and evict entries until the cache is within it."""
        with self._lock:
            self.limit = limit
            self._make_room()

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _lookup(self, key: Hashable) -> tuple[Any] | None:
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def _find_or_wait(self, key: Hashable, own: _Computation) -> tuple[Any] | None:
        """Return the value in a tuple of one, if it is cached or another thread computes it; None if the caller has to.

        The caller also has to compute it if the other thread failed, or if waiting for it would deadlock. If no thread
        is computing the value, register `own` as its computation.
        """
        with self._lock:
            if (found := self._lookup(key)) is not None:
                return found
            other = self._computations.setdefault(key, own)
            if self._waits_for(other, own.thread):
                return None
            self._waiting[own.thread] = other
        try:
            other.done.wait()
        finally:
            with self._lock:
                self._waiting.pop(own.thread, None)
        return other.value

    def _end(self, key: Hashable, own: _Computation) -> None:
        with self._lock:
            if self._computations.get(key) is own:
                del self._computations[key]
        own.done.set()

    def _waits_for(self, computation: _Computation | None, thread: int) -> bool:
        """Return whether `computation` belongs to `thread` or waits, directly or through others, for one that does.

        Then `thread` would deadlock by waiting for `computation`.
        """
        while computation is not None and computation.thread != thread:
            computation = self._waiting.get(computation.thread)
        return computation is not None

    def _keep(self, key: Hashable, value: tuple[Any], size: int) -> None:
        with self._lock:
            if size <= self.limit and key not in self._entries:
                self._entries[key] = (value, size)
                self._bytes += size
                self._make_room()

    def _make_room(self) -> None:
        while self._bytes > self.limit:
            _, (_, size) = self._entries.popitem(last=False)
            self._bytes -= size

    def _before_fork(self) -> None:
        self._lock.acquire()

    def _after_fork(self) -> None:
        self._lock.release()

    def _reset_child(self) -> None:
        """Forget computations and waiting threads in a forked process, which has only the forking thread."""
        self._computations.clear()
        self._waiting.clear()
        self._lock.release()


CACHE = Cache()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=CACHE._before_fork, after_in_parent=CACHE._after_fork, after_in_child=CACHE._reset_child)


class CacheKind(Generic[T]):
    """One kind of cached values, whose keys are kept apart from those of other kinds by its name.

    Args:
        name: A name that no other kind has.
        size_of: Returns the approximate size of a value in bytes.
    """

    def __init__(self, name: str, size_of: Callable[[T], int]) -> None:
        self.name = name
        self._size_of = size_of

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value cached under `key`, else call `make` and cache its result; see `Cache.get`."""
        return CACHE.get((self.name, key), make, self._size_of)

    def find(self, key: Hashable) -> T | None:
        """Return the value cached under `key`; None if the key is not cached, or if the cached value is None."""
        found = CACHE.find((self.name, key))
        return None if found is None else cast(T, found[0])

    def put(self, key: Hashable, value: T) -> None:
        """Cache a value under `key`, replacing the previous one. Use it for data that grows, such as a log."""
        CACHE.put((self.name, key), value, self._size_of(value))


# Tables decoded from metadata files.
METADATA: CacheKind[pa.Table] = CacheKind("metadata", table_size)


def set_cache_limit(limit: int) -> None:
    """Set the memory limit of the cache of decoded metadata and deletes, which all tables of the process share.

    The least recently used entries are evicted first.

    Args:
        limit: Bytes; 384 MiB by default. 0 disables the cache.

    Raises:
        InvalidOption: The limit is negative or not a whole number.

    Example:
        >>> lakescan.set_cache_limit(64 * 1024 * 1024)
    """
    if not isinstance(limit, Integral) or limit < 0:
        raise InvalidOption(f"the cache limit is a number of bytes, not {limit!r}: set 0 to disable the cache")
    CACHE.resize(int(limit))
