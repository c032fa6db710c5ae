"""Iceberg's standard key metadata of a file: a version byte, then one record in Avro's binary encoding."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

import fastavro

from lakescan.errors import CorruptMetadata

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
    """A file's key, the AAD prefix of its blocks, and the size of the encrypted file in bytes."""

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
        """The metadata as bytes."""
        out = io.BytesIO(bytes([_VERSION]))
        out.seek(1)
        record = {"encryption_key": self.key, "aad_prefix": self.aad_prefix, "file_length": self.file_length}
        fastavro.schemaless_writer(out, _SCHEMA, record)
        return out.getvalue()
