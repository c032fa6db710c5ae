"""Keys of encrypted files: a key manager turns each file's key metadata, from the table's metadata, into its key.

>>> lakescan.table(path, key_manager=StandardKeyManager())

A key manager is any object with `file_key`. On Spark it is given by name, `package.module:attribute`, so that each
worker can import it; a class is instantiated without arguments.
"""

from __future__ import annotations

import importlib
import io
from dataclasses import dataclass
from typing import Any, Protocol

import fastavro

from lakescan.errors import CorruptMetadata, InvalidOption

# Iceberg's standard key metadata of a file: a version byte, then this record in Avro's binary encoding.
_STANDARD: dict[str, Any] = {
    "type": "record",
    "name": "key_metadata",
    "fields": [
        {"name": "encryption_key", "type": "bytes"},
        {"name": "aad_prefix", "type": ["null", "bytes"]},
        {"name": "file_length", "type": ["null", "long"]},
    ],
}


@dataclass(frozen=True)
class FileKey:
    """The encryption key of one file (16, 24 or 32 bytes), and the AAD prefix that its writer used."""

    key: bytes
    aad_prefix: bytes | None = None

    def __repr__(self) -> str:
        return f"FileKey({len(self.key) * 8} bits)"


class KeyManager(Protocol):
    """Provides the keys of files, for example by unwrapping them with a key management service."""

    def file_key(self, path: str, key_metadata: bytes) -> FileKey:
        """Return the key of a file.

        Args:
            path: The file's location; for messages.
            key_metadata: What the table's metadata has for the file.

        Raises:
            CorruptMetadata: The key metadata is in another format.

        Example:
            >>> manager.file_key("s3://lake/t/data/1.parquet", key_metadata)
        """


class StandardKeyManager:
    """Reads Iceberg's standard key metadata, which contains the file's key itself."""

    def file_key(self, path: str, key_metadata: bytes) -> FileKey:
        """Return the key in the key metadata; raises `CorruptMetadata` for metadata in another format."""
        try:
            if key_metadata[0] != 1:
                raise ValueError(f"version {key_metadata[0]}")
            record: Any = fastavro.schemaless_reader(io.BytesIO(key_metadata[1:]), _STANDARD, None)
        except (ValueError, EOFError, IndexError) as error:
            raise CorruptMetadata(f"{path}: its key metadata is not in Iceberg's standard format: {error}") from error
        return FileKey(record["encryption_key"], record["aad_prefix"])


def named_key_manager(name: str) -> KeyManager:
    """Import the key manager `package.module:attribute`; raises `InvalidOption` if it cannot be imported."""
    module, _, attribute = name.partition(":")
    try:
        imported: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise InvalidOption(f"no key manager at {name!r}: write it as package.module:attribute ({error})") from error
    manager: KeyManager = imported() if isinstance(imported, type) else imported
    return manager
