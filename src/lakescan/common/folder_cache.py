"""A cache of decoded metadata on disk, for tables opened with the option `cache-folder`.

It outlives the process, and all processes of a machine can share it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Hashable
from pathlib import Path

import pyarrow as pa

DEFAULT_LIMIT = 4 * 2**30
_FORMAT = 3  # version of the cached tables' layout, part of each key: increase it when decoding gives other columns


def cache_in_folder(folder: str | None, key: Hashable, make: Callable[[], pa.Table]) -> Callable[[], pa.Table]:
    """Return a function that returns the table cached under `key` in `folder`, else calls `make` and caches its result.

    Return `make` itself if `folder` is None.
    """
    return make if folder is None else lambda: FolderCache(folder).get(key, make)


class FolderCache:
    """A cache of Arrow tables as files in a folder, bounded in bytes. Cached tables are memory-mapped.

    Cached files are trusted, so only you should be able to write to the folder. Files are renamed into place when
    complete, so processes may share the folder. An unreadable file is replaced. A failed write (such as on a full disk)
    is ignored.
    """

    def __init__(self, folder: str | os.PathLike[str], limit: int = DEFAULT_LIMIT) -> None:
        self.folder: Path = Path(folder)
        self.limit = limit
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, key: Hashable, make: Callable[[], pa.Table]) -> pa.Table:
        """Return the table cached under `key`, else call `make`, write its result to the folder and return it.

        `repr(key)` has to be the same in every process. Old files are removed if the folder exceeds its limit.
        """
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
