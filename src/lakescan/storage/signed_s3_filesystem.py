"""An Arrow filesystem of an S3 bucket whose requests a catalog signs.

Opening a file takes one request, which returns its size and its last bytes (the footer of Parquet and ORC files). Each
other read is a request. A written file appears when it is closed. Large files are uploaded in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyarrow import fs as pafs

from lakescan.errors import UnsupportedFeature
from lakescan.storage.signed_s3_client import S3Object, SignedBucket

_TAIL = 64 * 1024  # bytes that Arrow reads at the end of a Parquet file first
_PART = 8 * 2**20  # bytes of a part; S3's minimum is 5 MiB
_LARGER_AFTER = 1000  # parts grow by `_PART` after so many parts, since S3 accepts at most 10,000
_AT_ONCE = 4  # parts of a file that are uploaded concurrently


class SignedFiles(pafs.FileSystemHandler):
    """An Arrow filesystem of the objects of a bucket. As in `S3FileSystem`, paths start with the bucket's name."""

    def __init__(self, bucket: SignedBucket) -> None:
        self.bucket = bucket

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SignedFiles) and other.bucket is self.bucket

    __hash__: None = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        """Return "s3-signed", the type name of this filesystem."""
        return "s3-signed"

    def normalize_path(self, path: str) -> str:
        """Return the path unchanged: keys are compared byte by byte."""
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        """Look up files and folders by one request each, or two for a path without an object.

        A missing one has the type NotFound.
        """
        return [self._info(each) for each in paths]

    def _info(self, path: str) -> pafs.FileInfo:
        key = self._key(path)
        if not key:  # signers have no permissions for whole buckets
            return pafs.FileInfo(path, pafs.FileType.Directory)
        with suppress(FileNotFoundError):
            if not key.endswith("/"):
                headers = self.bucket.head(key).headers
                return _file(path, int(headers.get("content-length", 0)), _time(headers.get("last-modified")))
        keys, prefixes = next(self.bucket.pages(f"{key.rstrip('/')}/", "/"), ([], []))
        is_folder = bool(keys or prefixes)
        return pafs.FileInfo(path, pafs.FileType.Directory if is_folder else pafs.FileType.NotFound)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        """List the files and folders of a folder, or all files below it if recursive.

        Raises `FileNotFoundError` for a missing folder, unless the selector allows it.
        """
        folder = selector.base_dir.rstrip("/")
        prefix = f"{self._key(folder)}/".lstrip("/")
        found, is_there = list[pafs.FileInfo](), False
        for keys, prefixes in self.bucket.pages(prefix, "" if selector.recursive else "/"):
            is_there |= bool(keys or prefixes)
            found += [
                _file(f"{self.bucket.name}/{each.key}", each.size, each.modified) for each in keys if _is_file(each)
            ]
            found += [
                pafs.FileInfo(f"{self.bucket.name}/{each.rstrip('/')}", pafs.FileType.Directory) for each in prefixes
            ]
        if not is_there and not selector.allow_not_found and prefix:
            raise FileNotFoundError(f"{folder} does not exist")
        return found

    def create_dir(self, path: str, recursive: bool) -> None:
        """Do nothing: folders only exist in the names of keys."""

    def delete_file(self, path: str) -> None:
        """Delete an object; does nothing if it does not exist."""
        self.bucket.delete(self._key(path))

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Open an object for random access; raises `FileNotFoundError`."""
        return pa.PythonFile(SignedInput(self.bucket, self._key(path)), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        """Open an object for reading from its start; raises `FileNotFoundError`."""
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any = None) -> pa.PythonFile:
        """Open an object for writing; it appears when the file is closed. `metadata` is ignored."""
        return pa.PythonFile(SignedOutput(self.bucket, self._key(path)), mode="w")

    def open_append_stream(self, path: str, metadata: Any = None) -> pa.PythonFile:
        """Raise `UnsupportedFeature`: objects are immutable."""
        raise self._lacking("appending to an object")

    def move(self, src: str, dest: str) -> None:
        """Raise `UnsupportedFeature`: objects cannot be moved by signed requests here."""
        raise self._lacking("moving an object")

    def copy_file(self, src: str, dest: str) -> None:
        """Raise `UnsupportedFeature`: objects cannot be copied by signed requests here."""
        raise self._lacking("copying an object")

    def delete_dir(self, path: str) -> None:
        """Raise `UnsupportedFeature`: files are deleted individually."""
        raise self._lacking("removing a folder")

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Raise `UnsupportedFeature`; see `delete_dir`."""
        raise self._lacking("removing a folder")

    def delete_root_dir_contents(self) -> None:
        """Raise `UnsupportedFeature`; see `delete_dir`."""
        raise self._lacking("removing a folder")

    def _key(self, path: str) -> str:
        bucket, _, key = path.partition("/")
        assert bucket == self.bucket.name
        return key

    def _lacking(self, what: str) -> UnsupportedFeature:
        return UnsupportedFeature(f"{what} in {self.bucket.name} by requests that its catalog signs")


class SignedInput:
    """An object opened for reading, as a Python file. Its last 64 KiB are kept in memory.

    Reads raise `OSError`, also if the object was replaced.
    """

    def __init__(self, bucket: SignedBucket, key: str) -> None:
        self._bucket, self._key = bucket, key
        self._size, self._tail = bucket.tail(key, _TAIL)
        self._at = 0
        self.closed: bool = False

    def read(self, length: int = -1) -> bytes:
        """Read the next `length` bytes, or all remaining ones."""
        start = min(self._at, self._size)
        end = self._size if length < 0 else min(start + length, self._size)
        kept_from = self._size - len(self._tail)
        data = self._tail[max(start, kept_from) - kept_from : max(end, kept_from) - kept_from]
        if start < kept_from:
            data = self._bucket.read(self._key, start, min(end, kept_from) - start, self._size) + data
        self._at = end
        return data

    def seek(self, position: int, whence: int = 0) -> int:
        """Move to a position, and return it; `whence` as in Python files."""
        self._at = position + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        """Return the current position."""
        return self._at

    def close(self) -> None:
        """Free the memory of the last bytes."""
        self.closed, self._tail = True, b""


class SignedOutput:
    """An object opened for writing, as a Python file.

    It is uploaded by one request or, from 8 MiB on, by concurrent uploads of parts. It appears when it is closed.
    """

    def __init__(self, bucket: SignedBucket, key: str) -> None:
        self._bucket, self._key = bucket, key
        self._waiting, self._at = bytearray(), 0
        self.closed: bool = False
        self._upload: str | None = None
        self._failure: BaseException | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._parts: list[Future[str]] = []

    def write(self, data: Any) -> int:
        """Buffer bytes, and upload a part when there are enough; return the number of bytes. Raises `OSError`."""
        self._waiting += data
        self._at += len(data)
        try:
            while len(self._waiting) >= (size := _PART * (1 + len(self._parts) // _LARGER_AFTER)):
                part = bytes(memoryview(self._waiting)[:size])
                del self._waiting[:size]
                self._send(part)
        except BaseException as error:
            self._failure = error
            raise
        return len(data)

    def flush(self) -> None:
        """Do nothing: an object only appears as a whole."""

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._at

    def close(self) -> None:
        """Create the object; raises the errors of `write`, and `OSError`, after which it may or may not exist.

        After an error of `write`, no object is created.
        """
        if self.closed:
            return
        self.closed = True
        if self._upload is None and self._failure is None:
            self._bucket.put(self._key, bytes(self._waiting))
            return
        try:
            if self._failure is not None:  # do not create a truncated object
                raise self._failure
            assert self._upload is not None
            if self._waiting:
                self._send(bytes(self._waiting))
            tags = [each.result() for each in self._parts]
            self._bucket.complete(self._key, self._upload, tags, self._at)
        except BaseException:
            self._give_up()
            raise
        finally:
            self._waiting.clear()
            if self._pool is not None:
                self._pool.shutdown()

    def _send(self, part: bytes) -> None:
        if self._upload is None:
            self._upload = self._bucket.begin(self._key)
            self._pool = ThreadPoolExecutor(_AT_ONCE)
        assert self._pool is not None
        if len(self._parts) >= _AT_ONCE:
            self._parts[-_AT_ONCE].result()  # limits the parts in memory
        number = len(self._parts) + 1
        self._parts.append(self._pool.submit(self._bucket.put_part, self._key, self._upload, number, part))

    def _give_up(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        if self._upload is not None:
            with suppress(Exception):
                self._bucket.abort(self._key, self._upload)


def _file(path: str, size: int, modified: datetime | None) -> pafs.FileInfo:
    return pafs.FileInfo(path, pafs.FileType.File, size=size, mtime=modified)


def _is_file(each: S3Object) -> bool:
    """Return whether a key is a file, not a folder marker, whose key ends with a slash."""
    return not each.key.endswith("/")


def _time(text: str | None) -> datetime | None:
    from email.utils import parsedate_to_datetime

    try:
        return None if text is None else parsedate_to_datetime(text)
    except ValueError:
        return None
