"""Reading of files that may be AES GCM streams (Iceberg specification): whole files, byte ranges, or open files.

With a key manager, a file that has key metadata must be encrypted. Without one, key metadata is ignored, as in
Iceberg's Java library, since some writers record it for plain files. Then an encrypted file is refused when detected.
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
    """Return whether a file starts with the magic bytes of an AES GCM stream. Opens it; raises `MissingFile`."""
    with storage.open(path) as file:
        return bool(file.read(len(MAGIC)) == MAGIC)


def key_of(storage: Storage, path: str, key_metadata: bytes | None, what: str) -> FileKey | None:
    """Return the key of a file; None if it has no key metadata or, without a key manager, is not encrypted.

    `what` is the plural name of such files for messages. Raises `UnsupportedFeature` for an encrypted file without a
    key manager, and the errors of `UnwrappedKeys.file_key`.
    """
    if key_metadata is None:
        return None
    if storage.unwrapped_keys is not None:
        return storage.unwrapped_keys.file_key(redact(path), key_metadata)
    if is_encrypted_stream(storage, path):
        raise missing_key_manager(what, path)
    return None


def list_key_of(storage: Storage, path: str, key: ListKey | None) -> FileKey:
    """Return the key of an encrypted manifest list; raises `CorruptMetadata` if the table's metadata lacks it.

    Raises `UnsupportedFeature` without a key manager, and the errors of `UnwrappedKeys.list_key`.
    """
    if storage.unwrapped_keys is None:
        raise missing_key_manager("manifest lists", path)
    if key is None:
        raise CorruptMetadata(
            f"{redact(path)} is encrypted, but the table's encryption-keys lack its key, or the key encryption key "
            "of that key with its timestamp: another writer removed them. Restore an earlier metadata file."
        )
    return storage.unwrapped_keys.list_key(key, redact(path))


def read_streams(storage: Storage, paths: Sequence[str], keys: Sequence[FileKey | None]) -> list[bytes]:
    """Read whole files, and decrypt those that have a key: `keys` has one for each path, None for plain files.

    Raises the errors of `Storage.read` and `decrypt_stream`.
    """
    found = storage.read_all(paths)
    return [
        data if key is None else decrypt_stream(data, key, redact(path))
        for data, path, key in zip(found, paths, keys, strict=True)
    ]


def read_part(storage: Storage, path: str, key: FileKey | None, offset: int, length: int) -> bytes:
    """Read `length` bytes from `offset` of a file's decrypted content. `key` is None for a plain file.

    Raises `CorruptMetadata` outside the file, `LimitExceeded` for more than `limits.WHOLE_FILE` bytes, and the errors
    of `Storage.open` and `GcmReader`.
    """
    if key is None:
        return storage.read(path, offset, length)
    with _open_reader(storage, path, key) as file:
        if offset < 0 or not 0 <= length <= file.size - offset:
            raise CorruptMetadata(
                f"{redact(path)} has {file.size:,} decrypted bytes, but the metadata references {length:,} bytes from "
                f"byte {offset:,}: the metadata is damaged"
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
    """Context manager: open a file for random access to its decrypted content. `key` is None for a plain file.

    Raises the errors of `Storage.open` and `GcmReader`.
    """
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
    """An open file whose read errors are `StorageError`s that name its location."""

    def __init__(self, handle: Any, path: str) -> None:
        self._handle, self._path = handle, path

    def seek(self, offset: int) -> None:
        """Move to a position in bytes."""
        self._handle.seek(offset)

    def read(self, count: int) -> bytes:
        """Read up to `count` bytes."""
        with storage_boundary("read", self._path):
            return bytes(self._handle.read(count))


def missing_key_manager(what: str, path: str) -> UnsupportedFeature:
    """Return the error for an encrypted file without a key manager. `what` is the plural name of such files."""
    return UnsupportedFeature(
        f"encrypted {what} without a key manager",
        f"{redact(path)} is encrypted: pass key_manager=, or set key-manager in the catalog's properties.",
    )
