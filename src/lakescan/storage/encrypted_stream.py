"""Detect encrypted streams (Iceberg specification, "AES GCM Stream") by their magic bytes.

Key metadata alone does not prove encryption: some writers record it for plain files.
"""

from __future__ import annotations

from lakescan.storage import Storage

MAGIC = b"AGS1"


def is_encrypted_stream(storage: Storage, path: str) -> bool:
    """Whether a file starts with the magic of an encrypted stream; reads it. Raises `MissingFile`."""
    with storage.open(path) as file:
        return bool(file.read(len(MAGIC)) == MAGIC)
