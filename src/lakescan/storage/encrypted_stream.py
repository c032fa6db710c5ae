"""Whether a file is an encrypted stream (Iceberg's AES GCM stream): its first bytes say so.

Metadata may have key metadata of files that are plain, since some writers record what no encryption stands behind.
"""

from __future__ import annotations

from lakescan.storage.storage import Storage

MAGIC = b"AGS1"


def is_encrypted_stream(storage: Storage, path: str) -> bool:
    """Whether a file begins as an encrypted stream does; its first bytes are read. Raises `MissingFile`."""
    with storage.open(path) as file:
        return bool(file.read(len(MAGIC)) == MAGIC)
