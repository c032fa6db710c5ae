"""Read files that may be encrypted streams (Iceberg specification, "AES GCM Stream"): whole, a part, or open.

With a key manager, a file that has key metadata must be encrypted. Without one, key metadata is ignored, as in
Iceberg's Java library, since some writers record it for plain files; what proves to be encrypted is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakescan import limits
from lakescan.errors import CorruptMetadata, LimitExceeded, UnsupportedFeature
from lakescan.storage.encryption.gcm_stream import MAGIC, GcmReader, decrypt_stream
from lakescan.storage.encryption.key_manager import FileKey
from lakescan.storage.encryption.table_keys import ListKey
from lakescan.storage.errors import redact, storage_boundary
from lakescan.storage.files import Storage


def is_encrypted_stream(storage: Storage, path: str) -> bool:
    """Whether a file starts with the magic of an encrypted stream; reads it. Raises `MissingFile`."""
    with storage.open(path) as file:
        return bool(file.read(len(MAGIC)) == MAGIC)


def key_of(storage: Storage, path: str, key_metadata: bytes | None, what: str) -> FileKey | None:
    """The key of a file; None if it is not encrypted.

    `what` names such files in the plural. Raises `UnsupportedFeature` for one that is encrypted if there is no key
    manager.
    """
    if key_metadata is None:
        return None
    if storage.unwrapped_keys is not None:
        return storage.unwrapped_keys.file_key(redact(path), key_metadata)
    if is_encrypted_stream(storage, path):
        raise missing_key_manager(what, path)
    return None


def list_key_of(storage: Storage, path: str, key: ListKey | None) -> FileKey:
    """The key of an encrypted manifest list; raises `CorruptMetadata` if the table's metadata does not have it."""
    if storage.unwrapped_keys is None:
        raise missing_key_manager("manifest lists", path)
    if key is None:
        raise CorruptMetadata(
            f"{redact(path)} is encrypted, but its key, or the key encryption key of that with its timestamp, is "
            "not among the table's encryption-keys: another writer removed them. Restore an earlier metadata file."
        )
    return storage.unwrapped_keys.list_key(key, redact(path))


def read_streams(storage: Storage, paths: Sequence[str], keys: Sequence[FileKey | None]) -> list[bytes]:
    """Read whole files, and decrypt those that have a key."""
    found = storage.read_all(paths)
    return [
        data if key is None else decrypt_stream(data, key, redact(path))
        for data, path, key in zip(found, paths, keys, strict=True)
    ]


def read_part(storage: Storage, path: str, key: FileKey | None, offset: int, length: int) -> bytes:
    """Read a part of a file by its decrypted bytes; raises `CorruptMetadata` for a range outside the file."""
    if key is None:
        return storage.read(path, offset, length)
    with _open_reader(storage, path, key) as file:
        if offset < 0 or not 0 <= length <= file.size - offset:
            raise CorruptMetadata(
                f"{redact(path)} has {file.size:,} bytes once it is decrypted, but {length:,} are to be read from byte "
                f"{offset:,}: the metadata that points into it is damaged"
            )
        if length > limits.WHOLE_FILE:
            raise LimitExceeded(
                f"{redact(path)}: {length:,} bytes are to be read at once, and the limit is {limits.WHOLE_FILE:,}. "
                "If the size is legitimate, raise lakescan.limits.WHOLE_FILE."
            )
        file.seek(offset)
        return file.read(length)


@contextmanager
def open_stream(storage: Storage, path: str, key: FileKey | None) -> Iterator[pa.NativeFile]:
    """Open a file for random access to its decrypted bytes; see `Storage.open`."""
    if key is None:
        with storage.open(path) as plain:
            yield plain
        return
    with _open_reader(storage, path, key) as file, pa.PythonFile(file, mode="r") as opened:
        yield opened


@contextmanager
def _open_reader(storage: Storage, path: str, key: FileKey) -> Iterator[GcmReader]:
    with storage.open(path) as handle:
        with storage_boundary("read", path):
            size = int(handle.size())
        yield GcmReader(_NamedFile(handle, path), size, key, redact(path))


class _NamedFile:
    """An open file whose faults name it."""

    def __init__(self, handle: Any, path: str) -> None:
        self._handle, self._path = handle, path

    def seek(self, offset: int) -> None:
        """Move to a byte."""
        self._handle.seek(offset)

    def read(self, count: int) -> bytes:
        """Read up to so many bytes."""
        with storage_boundary("read", self._path):
            return bytes(self._handle.read(count))


def missing_key_manager(what: str, path: str) -> UnsupportedFeature:
    """The error for an encrypted file without a key manager."""
    return UnsupportedFeature(
        f"encrypted {what} without a key manager",
        f"{redact(path)} is one: pass key_manager=, or set key-manager in the catalog's properties.",
    )
