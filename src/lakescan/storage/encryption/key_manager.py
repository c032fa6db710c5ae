"""Key managers, which wrap and unwrap the keys of an encrypted table and return the key of each file.

>>> lakescan.table(path, key_manager=StandardKeyManager())

On Spark and in catalogs, a key manager is given by its name, `package.module:attribute`, so that each worker can import
it. A class is instantiated without arguments.
"""

from __future__ import annotations

import importlib
import io
from dataclasses import dataclass, field
from typing import Any, Protocol

import fastavro

from lakescan.errors import CorruptMetadata, InvalidOption, UnsupportedFeature


@dataclass(frozen=True)
class FileKey:
    """The encryption key of one file (16, 24 or 32 bytes), and the AAD prefix that its writer used.

    `file_length` is the size of the encrypted file in bytes, None if unknown. AES GCM streams require it.
    """

    key: bytes = field(repr=False)
    aad_prefix: bytes | None = field(default=None, repr=False)
    file_length: int | None = None

    def __repr__(self) -> str:
        return f"FileKey({len(self.key) * 8} bits)"


class KeyManager(Protocol):
    """Wraps and unwraps keys with a table's key, by a key management service; also returns the keys of files.

    Managers of encrypted tables implement `wrap_key` and `unwrap_key`, like Java's `KeyManagementClient`. Methods that
    a subclass does not override follow Iceberg's standard: `file_key` reads the standard key metadata.

    Example:
        >>> class Vault(KeyManager):
        ...     def wrap_key(self, key, wrapping_key_id):
        ...         return service.encrypt(KeyId=wrapping_key_id, Plaintext=key)["CiphertextBlob"]
        ...     def unwrap_key(self, wrapped_key, wrapping_key_id):
        ...         return service.decrypt(KeyId=wrapping_key_id, CiphertextBlob=wrapped_key)["Plaintext"]
    """

    def file_key(self, path: str, key_metadata: bytes) -> FileKey:
        """Return the key of a file.

        Args:
            path: The file's location, for messages.
            key_metadata: The file's key metadata in the table's metadata.

        Raises:
            CorruptMetadata: The key metadata is in another format.

        Example:
            >>> manager.file_key("s3://lake/t/data/1.parquet", key_metadata)
        """
        found = StandardMetadata.parse(key_metadata, path)
        return FileKey(found.key, found.aad_prefix, found.file_length)

    def wrap_key(self, key: bytes, wrapping_key_id: str) -> bytes:
        """Encrypt a key with the key `wrapping_key_id`, which never leaves its service.

        Args:
            key: 16, 24 or 32 bytes.
            wrapping_key_id: The table's property `encryption.key-id`.

        Raises:
            UnsupportedFeature: The manager cannot wrap keys.

        Example:
            >>> wrapped = manager.wrap_key(key, "keyA")
        """
        raise UnsupportedFeature(f"wrapping keys with {type(self).__name__}", "Give a key manager with wrap_key.")

    def unwrap_key(self, wrapped_key: bytes, wrapping_key_id: str) -> bytes:
        """Decrypt a key that `wrap_key` encrypted with the same key id.

        Args:
            wrapped_key: The encrypted key in the table's metadata.
            wrapping_key_id: The table's property `encryption.key-id`.

        Raises:
            UnsupportedFeature: The manager cannot unwrap keys.

        Example:
            >>> key = manager.unwrap_key(wrapped, "keyA")
        """
        raise UnsupportedFeature(f"unwrapping keys with {type(self).__name__}", "Give a key manager with unwrap_key.")


class StandardKeyManager(KeyManager):
    """Reads Iceberg's standard key metadata, which contains the file's key itself. It has no table keys."""


def named_key_manager(name: str) -> KeyManager:
    """Import the key manager `package.module:attribute`; a class is instantiated without arguments.

    Raises `InvalidOption` if it cannot be imported.
    """
    module, _, attribute = name.partition(":")
    try:
        imported: object = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InvalidOption(f"no key manager at {name!r}: write it as package.module:attribute ({error})") from error
    manager: KeyManager = imported() if isinstance(imported, type) else imported  # type: ignore[assignment]
    return manager


_VERSION = 1
_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "key_metadata",
    "fields": [
        {"name": "encryption_key", "type": "bytes"},
        {"name": "aad_prefix", "type": ["null", "bytes"]},
        {"name": "file_length", "type": ["null", "long"]},
    ],
}


@dataclass(frozen=True)
class StandardMetadata:
    """Iceberg's standard key metadata: a file's key, its AAD prefix, and the size of the encrypted file in bytes."""

    key: bytes = field(repr=False)
    aad_prefix: bytes | None = field(default=None, repr=False)
    file_length: int | None = None

    @staticmethod
    def parse(data: bytes, path: str) -> StandardMetadata:
        """Read the metadata of the file at `path`; raises `CorruptMetadata` if it is in another format."""
        try:
            if data[0] != _VERSION:
                raise ValueError(f"version {data[0]}")
            record: Any = fastavro.schemaless_reader(io.BytesIO(data[1:]), _SCHEMA, None)
        except (ValueError, EOFError, IndexError) as error:
            raise CorruptMetadata(f"{path}: its key metadata is not in Iceberg's standard format: {error}") from None
        return StandardMetadata(record["encryption_key"], record["aad_prefix"], record["file_length"])

    def encode(self) -> bytes:
        """Serialize the key metadata: the version byte, and an Avro record."""
        out = io.BytesIO(bytes([_VERSION]))
        out.seek(1)
        record = {"encryption_key": self.key, "aad_prefix": self.aad_prefix, "file_length": self.file_length}
        fastavro.schemaless_writer(out, _SCHEMA, record)
        return out.getvalue()
