"""The boundary of storage: whatever a filesystem raises becomes a `StorageError` with the location and what to do.

A fault of storage says nothing of the table: it is never taken for damage, and damage never for a fault.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakescan.errors import LakescanError, MissingFile, StorageError
from lakescan.storage.advice import advice

_MOST_WORDS = 400  # characters of what a filesystem said
_MOST_LOCATION = 300
# What object stores' clients say through Arrow, which has no number for it; and ORC, of what Arrow's file raised.
_CLIENT = re.compile(r"AWS Error|google::cloud::Status|Azure Error|RequestFailedException|HDFS .* failed|Arrow error: ")
# Numbers that Arrow gives for an offset that a damaged file told it.
_OF_CONTENT = {errno.EINVAL, errno.EOVERFLOW}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


@contextmanager
def storage_boundary(
    done: str, location: str, missing: str | None = None, *, passing: type[Exception] = LakescanError
) -> Iterator[None]:
    """Turn what a filesystem raises within into `StorageError`: `location` cannot be `done` (read, listed).

    With `missing`, a file that is not there is a `MissingFile` of that text. What is `passing` is not storage's.
    """
    try:
        yield
    except (LakescanError, MemoryError, passing):
        raise
    except FileNotFoundError as error:
        if missing is None:
            raise storage_error(done, location, error) from error
        raise MissingFile(missing) from error
    except Exception as error:  # clients of object stores raise what they like
        raise storage_error(done, location, error) from error


def storage_error(done: str, location: str, error: BaseException) -> StorageError:
    """The error for a location that cannot be `done`, with what the filesystem said and what to do."""
    return StorageError(f"{shown(location)} cannot be {done}: {told(error)}. {advice(error)}")


def is_storage_fault(error: BaseException) -> bool:
    """Whether an error that Arrow raised while decoding a file came from storage, not from what is in the file."""
    if isinstance(error, StorageError | ConnectionError | TimeoutError | PermissionError):
        return True
    number = error.errno if isinstance(error, OSError) else None
    return (number is not None and number not in _OF_CONTENT) or _CLIENT.search(str(error)) is not None


def check_regular(location: str, path: str) -> None:
    """Raise `StorageError` unless the local path is a file, `FileNotFoundError` where there is nothing.

    To open a pipe is to wait for its writer; a device has no end.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "not a file")
        raise StorageError(f"{shown(location)} is {kind} where a file belongs. Put the file back, or correct its path.")


def shown(location: str) -> str:
    """A location as messages have it: cut where it is long, quoted where it has what does not print."""
    text = location if location and location.isprintable() else repr(location)
    return text if len(text) <= _MOST_LOCATION else f"{text[:_MOST_LOCATION]}... ({len(location):,} characters)"


def told(error: BaseException) -> str:
    """What an error says, on one line, cut where it is long."""
    said = _COLOURS.sub("", str(error)).partition(" Detail: Python exception")[0]
    text = " ".join(said.split()) or type(error).__name__
    return (text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}...").rstrip(".")


class WholeFile:
    """A Python filesystem's file, read-only, whose reads give all bytes that the file has, or raise `StorageError`.

    Arrow takes a read of fewer bytes for the end of the file. Its own filesystems read on by themselves.
    """

    closed = False

    def __init__(self, file: pa.NativeFile, location: str) -> None:
        self._file, self._location = file, location
        with storage_boundary("read", location):
            self._size = int(file.size())

    def read(self, length: int = -1) -> bytes:
        """The next `length` bytes, or all that are left."""
        with storage_boundary("read", self._location):
            left = max(0, self._size - int(self._file.tell()))
            return read_whole(self._file, self._location, left if length < 0 else min(length, left))

    def seek(self, position: int, whence: int = 0) -> int:
        """Go to a position."""
        with storage_boundary("read", self._location):
            return int(self._file.seek(position, whence))

    def tell(self) -> int:
        """The position."""
        with storage_boundary("read", self._location):
            return int(self._file.tell())

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        with storage_boundary("closed", self._location):
            self._file.close()


def read_whole(file: pa.NativeFile, location: str, length: int) -> bytes:
    """The next `length` bytes, which the file is known to have; raises `StorageError` where fewer come."""
    data: bytes = file.read(length)
    while len(data) < length:
        more = file.read(length - len(data))
        if not more:
            raise StorageError(
                f"{shown(location)} gave {len(data):,} of {length:,} bytes that it says it has. "
                "Try again, and check the storage if it stays."
            )
        data += more
    return data
