"""Caches of immutable metadata (decoded manifests, parsed commits and checkpoints), in memory and optionally on disk.

The memory cache is a least-recently-used cache, bounded in bytes and shared by all tables of the process;
`set_cache_limit(0)` switches it off. The folder cache is used if the option `cache-folder` names a folder; it outlives
the process and is shared by the processes of the machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path

import pyarrow as pa

DEFAULT_LIMIT = 256 * 2**20
DEFAULT_FOLDER_LIMIT = 4 * 2**30
_FORMAT = 3  # version of the cached tables' layout, part of each key: increase it when decoding gives other columns


class TableCache:
    """A least-recently-used cache of Arrow tables, bounded in bytes; safe to share between threads."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._tables: OrderedDict[Hashable, pa.Table] = OrderedDict()
        self._lock = threading.Lock()
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Total size of the cached tables in bytes."""
        return self._bytes

    def get(self, key: Hashable, make: Callable[[], pa.Table], folder: str | None = None) -> pa.Table:
        """Return the table cached under `key`, else call `make` and cache its result unless it exceeds the limit.

        With a folder, the folder cache is consulted before `make` is called.
        """
        with self._lock:
            if (cached := self._tables.get(key)) is not None:
                self._tables.move_to_end(key)
                return cached
        table = make() if folder is None else FolderCache(folder).get(key, make)
        size = table.nbytes
        if size <= self.limit:
            with self._lock:
                if key not in self._tables:
                    self._tables[key] = table
                    self._bytes += size
                self._make_room()
        return table

    def resize(self, limit: int) -> None:
        """Set the limit in bytes, and evict tables that exceed it."""
        with self._lock:
            self.limit = limit
            self._make_room()

    def _make_room(self) -> None:
        while self._bytes > self.limit:
            _, table = self._tables.popitem(last=False)
            self._bytes -= table.nbytes


class FolderCache:
    """A cache of Arrow tables as files in a folder, bounded in bytes; a hit is memory-mapped.

    Cached files are trusted, so only you should be able to write to the folder. Files are renamed into place when
    complete, so processes may share the folder. An unreadable file is made again; a failed write (a full disk) is
    ignored.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int = DEFAULT_FOLDER_LIMIT) -> None:
        self.folder, self.limit = Path(folder), limit
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: Hashable, make: Callable[[], pa.Table]) -> pa.Table:
        """Return the table cached under `key`, else call `make` and write its result."""
        path = self.folder / f"{hashlib.sha256(repr((_FORMAT, key)).encode()).hexdigest()}.arrow"
        with contextlib.suppress(OSError, ValueError, pa.ArrowException):
            cached = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            cached.validate()
            os.utime(path)
            return cached
        table = make()
        with contextlib.suppress(OSError):
            self._write(path, table)
            self._make_room()
        return table

    def _write(self, path: Path, table: pa.Table) -> None:
        handle, temporary = tempfile.mkstemp(dir=self.folder, suffix=".part")
        os.close(handle)
        try:
            with pa.OSFile(temporary, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def _make_room(self) -> None:
        """Remove the least recently used files until the folder is within its limit; linear in the number of files."""
        files = [(each.stat().st_mtime, each.stat().st_size, each) for each in self.folder.glob("*.arrow")]
        excess = sum(size for _, size, _ in files) - self.limit
        for _, size, path in sorted(files):
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= size


METADATA = TableCache()


def set_cache_limit(limit: int) -> None:
    """Set the maximum memory for cached metadata.

    Args:
        limit: Bytes; 256 MiB by default. 0 disables the cache.

    Example:
        >>> lakescan.set_cache_limit(64 * 1024 * 1024)
    """
    METADATA.resize(limit)
