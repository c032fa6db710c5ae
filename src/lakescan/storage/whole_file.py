"""Publish small metadata files whole: readers see the complete file or none, also when its write is interrupted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa

from lakescan.storage import Storage
from lakescan.storage.faults import storage_boundary

_WITH_RENAMES = ("local", "hdfs")  # file systems where files are seen while they are written, and renamed at once


@contextmanager
def replace_file(storage: Storage, location: str) -> Iterator[pa.NativeFile]:
    """A stream whose content becomes the file at `location` at the end, replacing one that is there.

    It is written under a hidden name beside it first, because closing an interrupted upload would publish its
    beginning. If the body raises, `location` is left as it was. Raises `StorageError`.
    """
    folder, _, name = location.rpartition("/")
    hidden = f"{folder}/.{name}.{uuid.uuid4()}.tmp"
    try:
        with storage.writing(hidden) as stream:
            yield stream
        _move(storage, hidden, location)
    except BaseException:
        with suppress(Exception):
            storage.remove([hidden])
        raise


def publish(storage: Storage, location: str, content: bytes) -> None:
    """Write a small file, replacing one that is there; raises `StorageError`."""
    if storage.resolve(location)[0].type_name in _WITH_RENAMES:
        with replace_file(storage, location) as stream:
            stream.write(content)
        return
    with storage_boundary("written", location), storage.create(location) as stream:
        stream.write(content)  # an object appears when it is closed


def _move(storage: Storage, source: str, target: str) -> None:
    filesystem, old = storage.resolve(source)
    new = storage.resolve(target)[1]
    with storage_boundary("published", target):
        if filesystem.type_name == "hdfs":
            storage.remove([target])  # its renames do not replace
        elif filesystem.type_name == "local":
            folder, _, name = target.rpartition("/")
            storage.remove([f"{folder}/.{name}.crc"])  # Hadoop's checksum of the file that is replaced
        if filesystem.type_name in _WITH_RENAMES:
            filesystem.move(old, new)
            return
        filesystem.copy_file(old, new)
        filesystem.delete_file(old)
