"""Keys of encrypted files: a table's metadata has key metadata for each, and a key manager turns it into a key.

>>> lakescan.table(path, key_manager=StandardKeyManager())

A key manager is any object with `file_key`. On Spark it is named, as `package.module:attribute`, so that each worker
can import it; a class is called without arguments.
"""

from __future__ import annotations

import importlib
import io
from dataclasses import dataclass
from typing import Any, Protocol

import fastavro

from lakescan.errors import CorruptMetadata, InvalidOption

# The key metadata that Iceberg's own writer keeps for a file: a version byte, then this record in Avro's binary form.
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
    """The key of one file, 16, 24 or 32 bytes, and the prefix that its writer authenticated with it."""

    key: bytes
    aad_prefix: bytes | None = None

    def __repr__(self) -> str:
        return f"FileKey({len(self.key) * 8} bits)"


class KeyManager(Protocol):
    """What unlocks files: for example a client of a key management service that unwraps keys."""

    def file_key(self, path: str, key_metadata: bytes) -> FileKey:
        """The key of the file at `path`, from what the table's metadata has of it."""


class StandardKeyManager:
    """Reads the key metadata of Iceberg's own writer, which holds the file's key itself."""

    def file_key(self, path: str, key_metadata: bytes) -> FileKey:
        """The key in the metadata; raises `CorruptMetadata` for metadata of another form."""
        try:
            if key_metadata[0] != 1:
                raise ValueError(f"version {key_metadata[0]}")
            found: Any = fastavro.schemaless_reader(io.BytesIO(key_metadata[1:]), _STANDARD, None)
        except (ValueError, EOFError, IndexError) as error:
            raise CorruptMetadata(f"{path}: its key metadata is not Iceberg's standard one: {error}") from error
        return FileKey(found["encryption_key"], found["aad_prefix"])


def named_key_manager(name: str) -> KeyManager:
    """The key manager at `package.module:attribute`; raises `InvalidOption` where there is none."""
    module, _, attribute = name.partition(":")
    try:
        found: Any = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidOption(f"no key manager at {name!r}: it is written package.module:attribute ({error})") from error
    manager: KeyManager = found() if isinstance(found, type) else found
    return manager
