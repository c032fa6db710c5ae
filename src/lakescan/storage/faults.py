"""The storage boundary: whatever a filesystem raises becomes a `StorageError` with the location and what to do.

A storage error says nothing about the table: it is never reported as file damage, nor damage as a storage error.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from lakescan.common.secrets import hide_error_secrets, hide_secrets
from lakescan.errors import LakescanError, MissingFile, StorageError
from lakescan.storage.advice import advice

_MOST_WORDS = 400  # maximum characters quoted from a filesystem's message
# What a location must not have, but is given: `//name:password@host`, and the values of a signed address's query.
_PASSWORD = re.compile(r"((?:^|//|[\s'\"])[^/@:\s'\"]+:)[^/@\s]+@")
_SIGNATURE = re.compile(r"([?&](?:sig|token|password|X-Amz-(?:Signature|Credential|Security-Token))=)[^&\s/'\"]+", re.I)
_MOST_LOCATION = 300  # maximum characters of a location in a message
# Messages of object store clients, for which Arrow sets no errno; and of ORC, when Arrow's file raised.
_CLIENT = re.compile(r"AWS Error|google::cloud::Status|Azure Error|RequestFailedException|HDFS .* failed|Arrow error: ")
# The errnos that Arrow raises for an invalid offset read from a damaged file: damage, not a storage error.
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
    """Turn what a filesystem raises in the block into `StorageError`: `location` cannot be `done` (read, listed).

    With `missing`, a file that does not exist raises `MissingFile` with that text. Errors of the type `passing` do not
    come from storage and pass through unchanged.
    """
    try:
        yield
    except (LakescanError, MemoryError, passing):
        raise
    except FileNotFoundError as error:
        if missing is None:
            raise storage_error(done, location, error) from error
        raise MissingFile(missing) from error
    except Exception as error:  # object store clients raise arbitrary types
        raise storage_error(done, location, error) from error


def storage_error(done: str, location: str, error: BaseException) -> StorageError:
    """The error for a location that cannot be `done`, with the filesystem's message and what to do."""
    hide_error_secrets(error)
    return StorageError(f"{redact(location)} cannot be {done}: {error_text(error)}. {advice(error, location)}")


def is_storage_fault(error: BaseException) -> bool:
    """Whether an error that Arrow raised while decoding a file came from storage, not from the file's contents."""
    if isinstance(error, StorageError | ConnectionError | TimeoutError | PermissionError):
        return True
    number = error.errno if isinstance(error, OSError) else None
    return (number is not None and number not in _OF_CONTENT) or _CLIENT.search(str(error)) is not None


def check_regular(location: str, path: str) -> None:
    """Raise `StorageError` unless the local path is a regular file, `FileNotFoundError` if it does not exist.

    Opening a pipe would block until it has a writer, and a device has no end.
    """
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "not a file")
        raise StorageError(f"{redact(location)} is {kind}, not a file. Restore the file, or correct its path.")


def redact(location: str) -> str:
    """A location for a message: truncated if long, quoted if it has unprintable characters, without secrets."""
    text = _mask_secrets(location if location and location.isprintable() else repr(location))
    return text if len(text) <= _MOST_LOCATION else f"{text[:_MOST_LOCATION]}... ({len(location):,} characters)"


def _mask_secrets(text: str) -> str:
    """The text without the passwords and signatures that somebody has written into its locations."""
    return _SIGNATURE.sub(r"\1***", _PASSWORD.sub(r"\1***@", text))


def error_text(error: BaseException) -> str:
    """An error's message on one line, truncated if long."""
    message = _COLOURS.sub("", str(error)).partition(" Detail: Python exception")[0]
    text = hide_secrets(_mask_secrets(" ".join(message.split()))) or type(error).__name__
    return (text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}...").rstrip(".")


class WholeFile:
    """A read-only file of a Python filesystem whose reads return all bytes asked for, or raise `StorageError`.

    Arrow takes a short read for the end of the file. Its own filesystems complete short reads themselves.
    """

    closed: bool = False

    def __init__(self, file: pa.NativeFile, location: str) -> None:
        self._file, self._location = file, location
        with storage_boundary("read", location):
            self._size = int(file.size())

    def read(self, length: int = -1) -> bytes:
        """Read the next `length` bytes, or all remaining ones."""
        with storage_boundary("read", self._location):
            left = max(0, self._size - int(self._file.tell()))
            return read_whole(self._file, self._location, left if length < 0 else min(length, left))

    def seek(self, position: int, whence: int = 0) -> int:
        """Move to a position and return it."""
        with storage_boundary("read", self._location):
            return int(self._file.seek(position, whence))

    def tell(self) -> int:
        """The current position."""
        with storage_boundary("read", self._location):
            return int(self._file.tell())

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        with storage_boundary("closed", self._location):
            self._file.close()


def read_whole(file: pa.NativeFile, location: str, length: int) -> bytes:
    """Read the next `length` bytes, which the file is known to have; raises `StorageError` on a short read."""
    data: bytes = file.read(length)
    while len(data) < length:
        more = file.read(length - len(data))
        if not more:
            raise StorageError(
                f"{redact(location)}: storage returned {len(data):,} of {length:,} bytes that the file should have. "
                "Try again, and check the storage if the error persists."
            )
        data += more
    return data
