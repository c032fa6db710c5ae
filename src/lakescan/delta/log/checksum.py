"""Version checksum files: a version's number of files and bytes, beside its commit (protocol, "Version Checksum File").

Checking them is optional. A difference is logged, not refused: writers have left wrong checksums beside right commits.
"""

from __future__ import annotations

import logging

from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.delta.log.text import as_long, parse_object
from lakescan.errors import LakescanError, MissingFile
from lakescan.storage import Storage, join

_LOG = logging.getLogger("lakescan")


def check_version(location: str, version: int, files: int, size: int, storage: Storage) -> None:
    """Log a warning if a version's checksum file exists and differs from the live files (`files`, `size` in bytes)."""
    path = join(location, LOG_FOLDER, f"{version:020d}.crc")
    try:
        node = parse_object(storage.read(path), path)
    except MissingFile:
        return
    except LakescanError as error:
        _LOG.warning("%s: ignoring the checksum of version %d, which cannot be read: %s", location, version, error)
        return
    expected = as_long(node.get("numFiles")), as_long(node.get("tableSizeBytes"))
    if None in expected:
        return
    if expected != (files, size):
        _LOG.warning(
            "%s counts %s files of %s bytes, the log %d of %d bytes: one of them is damaged; the log is used",
            path,
            *expected,
            files,
            size,
        )
