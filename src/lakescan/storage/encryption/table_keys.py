"""The keys in a table's metadata: key encryption keys, and the encrypted key metadata of manifest lists.

The key manager wraps key encryption keys (KEKs) with the table key. They are used for two years (NIST SP 800-57), as in
Java. The key metadata of a manifest list is encrypted with a KEK, and the KEK's timestamp is the AAD. So a KEK's
lifetime cannot be extended by changing its timestamp.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from lakescan.errors import CorruptMetadata, LakescanError, StorageError, UnsupportedFeature
from lakescan.storage.encryption.gcm_stream import KEY_LENGTHS, Cipher, TagMismatch, new_key
from lakescan.storage.encryption.key_manager import FileKey, KeyManager, StandardMetadata

TIMESTAMP = "KEY_TIMESTAMP"  # the property of a KEK with its creation time, in ms
_LIFESPAN_MS = 730 * 24 * 60 * 60 * 1000
_AAD_BYTES = _ID_BYTES = 16


@dataclass(frozen=True)
class EncryptedKey:
    """An entry of `encryption-keys`: a wrapped KEK, or the encrypted key metadata of a manifest list.

    `encrypted` are the entry's encrypted bytes. `encrypted_by` is the id of the key that encrypted them: the table key
    for a KEK, a KEK for a manifest list.
    """

    id: str
    encrypted: bytes = field(repr=False)
    encrypted_by: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def document(self) -> dict[str, object]:
        """The entry as JSON, as in the table's metadata."""
        found: dict[str, object] = {
            "key-id": self.id,
            "encrypted-key-metadata": base64.b64encode(self.encrypted).decode(),
        }
        if self.encrypted_by is not None:
            found["encrypted-by-id"] = self.encrypted_by
        if self.properties:
            found["properties"] = dict(self.properties)
        return found


@dataclass(frozen=True)
class ListKey:
    """The encrypted key metadata of a snapshot's manifest list (`own`), and the wrapped KEK for it (`kek`).

    Neither is secret.
    """

    own: EncryptedKey
    kek: EncryptedKey

    @staticmethod
    def find(key_id: str, keys: Mapping[str, EncryptedKey]) -> ListKey | None:
        """Look up a snapshot's `key-id` in `keys`, the entries by id.

        None if an entry is missing, or the KEK has no encrypting key or timestamp.
        """
        own = keys.get(key_id)
        kek = None if own is None or own.encrypted_by is None else keys.get(own.encrypted_by)
        if own is None or kek is None or kek.encrypted_by is None or TIMESTAMP not in kek.properties:
            return None
        return ListKey(own, kek)


@contextmanager
def translate_key_errors(what: str) -> Iterator[None]:
    """Context manager: re-raise a key manager's errors as `StorageError`; lakescan errors pass through.

    `what` is the failed action, such as "cannot wrap a new key".
    """
    try:
        yield
    except LakescanError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise StorageError(
            f"the key manager {what}: {said}. Check that it has the keys of this table, and that its service responds."
        ) from error


class UnwrappedKeys:
    """Unwraps KEKs by a key manager, and caches them in memory, so that each is requested only once."""

    def __init__(self, manager: KeyManager) -> None:
        self._manager = manager
        self._known: dict[tuple[str, bytes], bytes] = {}

    def __repr__(self) -> str:
        return f"UnwrappedKeys({len(self._known)})"

    def kek(self, key: EncryptedKey) -> bytes:
        """Unwrap a KEK; raises `UnsupportedFeature` if the manager cannot unwrap keys, `StorageError` if it fails."""
        known = key.id, key.encrypted
        if known not in self._known:
            unwrap = getattr(self._manager, "unwrap_key", None)
            if unwrap is None:
                raise UnsupportedFeature(
                    "encrypted manifest lists with a key manager without unwrap_key",
                    "Pass one that unwraps keys with the table's key (lakescan.KeyManager).",
                )
            with translate_key_errors(
                f"cannot unwrap key {key.id!r} of the table's encryption-keys with {key.encrypted_by!r}"
            ):
                self._known[known] = bytes(unwrap(key.encrypted, str(key.encrypted_by)))
        return self._known[known]

    def add(self, key: EncryptedKey, plain: bytes) -> None:
        """Cache a KEK that this process created: `plain` is the unwrapped key."""
        self._known[key.id, key.encrypted] = plain

    def file_key(self, path: str, key_metadata: bytes) -> FileKey:
        """Return the key of a file from its key metadata, by the manager's `file_key` if it has one.

        Raises `CorruptMetadata` for key metadata in another format, and `StorageError` if the manager fails.
        """
        own = getattr(self._manager, "file_key", None)
        if own is None:
            return KeyManager.file_key(self._manager, path, key_metadata)
        with translate_key_errors(f"has no key of {path}"):
            found: FileKey = own(path, key_metadata)
        return found

    def list_key(self, key: ListKey, path: str) -> FileKey:
        """Return the key of a manifest list; raises `CorruptMetadata` if its key metadata is not authentic.

        Also raises the errors of `kek`.
        """
        aad = key.kek.properties[TIMESTAMP].encode()
        try:
            kek = self.kek(key.kek)
        except StorageError as error:
            raise StorageError(f"{path}: {error}") from error
        try:
            plain = Cipher(kek).decrypt(key.own.encrypted, aad)
        except TagMismatch:
            raise CorruptMetadata(
                f"{path}: the key metadata of this manifest list, {key.own.id!r} in the table's encryption-keys, is "
                "not authentic: it was changed, or the key manager has another key"
            ) from None
        found = StandardMetadata.parse(plain, path)
        return FileKey(found.key, found.aad_prefix, found.file_length)


@dataclass(frozen=True)
class NewKey:
    """The new key, and the AAD prefix, of a file that is being written."""

    key: bytes = field(repr=False)
    aad_prefix: bytes = field(repr=False)

    @staticmethod
    def random(length: int) -> NewKey:
        """Create a random key of `length` bytes, with a random AAD prefix."""
        return NewKey(new_key(length), new_key(_AAD_BYTES))

    @property
    def file_key(self) -> FileKey:
        """The key and AAD prefix as a `FileKey`, without a file length."""
        return FileKey(self.key, self.aad_prefix)

    def metadata(self, length: int) -> bytes:
        """Return Iceberg's standard key metadata, serialized, of the file, whose encrypted size is `length` bytes."""
        return StandardMetadata(self.key, self.aad_prefix, length).encode()


class SnapshotKeys:
    """The keys of a snapshot that is being written. `added` are the entries that its commit adds to the metadata.

    `table_key` is the id of the table key, `key_length` the bytes of new keys, and `keys` are the metadata's entries by
    id.
    """

    def __init__(
        self,
        manager: KeyManager,
        unwrapped: UnwrappedKeys,
        table_key: str,
        key_length: int,
        keys: Mapping[str, EncryptedKey],
    ) -> None:
        self._manager, self._unwrapped, self._table_key = manager, unwrapped, table_key
        self._length, self._keys = key_length, keys
        self.added: list[EncryptedKey] = []

    def new_key(self) -> NewKey:
        """Create the key of a new file, of the length of the table's data keys."""
        return NewKey.random(self._length)

    def add_list(self, key: NewKey, length: int) -> str:
        """Encrypt the key of a manifest list of `length` bytes; return the entry's id, the snapshot's `key-id`.

        Raises `UnsupportedFeature` if the manager cannot wrap keys, `StorageError` if it fails.
        """
        kek = self._kek()
        encrypted = Cipher(self._unwrapped.kek(kek)).encrypt(key.metadata(length), kek.properties[TIMESTAMP].encode())
        own = EncryptedKey(_new_id(), encrypted, kek.id)
        self.added.append(own)
        return own.id

    def _kek(self) -> EncryptedKey:
        """Return the entry of a KEK within its lifetime, or create one; raises the errors of `add_list`."""
        now = int(time.time() * 1000)
        for each in (*self._keys.values(), *self.added):
            made = each.properties.get(TIMESTAMP, "")
            if each.encrypted_by == self._table_key and made.isdecimal() and now - int(made) < _LIFESPAN_MS:
                return each
        wrap = getattr(self._manager, "wrap_key", None)
        if wrap is None:
            raise UnsupportedFeature(
                "writing encrypted tables with a key manager without wrap_key",
                "Pass one that wraps keys with the table's key (lakescan.KeyManager).",
            )
        plain = new_key(self._length)
        with translate_key_errors(f"cannot wrap a new key with the table's encryption.key-id {self._table_key!r}"):
            wrapped = bytes(wrap(plain, self._table_key))
        made_now = EncryptedKey(_new_id(), wrapped, self._table_key, {TIMESTAMP: str(now)})
        self._unwrapped.add(made_now, plain)
        self.added.append(made_now)
        return made_now


def parse_key_length(text: str) -> int:
    """Parse the length of data keys in bytes (16, 24 or 32); raises `ValueError` for other texts.

    The text of the error lists the expected values.
    """
    if text.strip() not in map(str, KEY_LENGTHS):
        raise ValueError("16, 24 or 32 bytes")
    return int(text)


def _new_id() -> str:
    return base64.b64encode(new_key(_ID_BYTES)).decode()
