"""Caches of what never changes: decoded manifests, parsed commits and checkpoints. In memory, and in a folder if asked.

The memory cache is shared by all tables of the process and bounded in bytes: the longest unused make room.
`set_cache_limit(0)` switches it off. A folder is used where the option `cache-folder` names one: what is in it outlives
the process, and other processes on the machine share it.
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
_FORMAT = 3  # of what is decoded: another version of the program may decode to other columns


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

    def get(self, key: Hashable, make: Callable[[], pa.Table], folder: str | None = None) -> pa.Table:
        """The table under the key, made where it is not there; one that is larger than the limit is not kept.

        With a folder, it is looked for there too before it is made.
        """
        with self._lock:
            if (found := self._tables.get(key)) is not None:
                self._tables.move_to_end(key)
                return found
        made = make() if folder is None else FolderCache(folder).get(key, make)
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


class FolderCache:
    """Arrow tables by key as files in a folder, bounded in bytes, mapped into memory when they are asked for again.

    Anyone who may write there decides what is read: use a folder of your own. A file is complete when it has its name:
    processes may share the folder. What cannot be read is made anew; what cannot be written (a full disk) is not kept.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int = DEFAULT_FOLDER_LIMIT) -> None:
        self.folder, self.limit = Path(folder), limit
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: Hashable, make: Callable[[], pa.Table]) -> pa.Table:
        """The table under the key, made and written where it is not there."""
        path = self.folder / f"{hashlib.sha256(repr((_FORMAT, key)).encode()).hexdigest()}.arrow"
        with contextlib.suppress(OSError, ValueError, pa.ArrowException):
            found = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            found.validate()
            os.utime(path)
            return found
        made = make()
        with contextlib.suppress(OSError):
            self._write(path, made)
            self._make_room()
        return made

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
        """Remove the files that were unused for longest; one step a file."""
        files = [(each.stat().st_mtime, each.stat().st_size, each) for each in self.folder.glob("*.arrow")]
        excess = sum(size for _, size, _ in files) - self.limit
        for _, size, path in sorted(files):
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= size


METADATA = TableCache()


def set_cache_limit(limit: int) -> None:
    """Bound the memory that decoded metadata may take, in bytes (256 MiB at first); 0 keeps none."""
    METADATA.resize(limit)
