"""Version checksums: beside a commit, how many files its version has (protocol, "Version Checksum File").

Readers may check it. A difference is reported, not refused: writers have left wrong checksums beside right commits.
"""

from __future__ import annotations

import json
import logging

from lakescan.delta.log_segment import LOG_FOLDER
from lakescan.errors import StorageError
from lakescan.storage import Storage, join

_LOG = logging.getLogger("lakescan")


def check_version(location: str, version: int, files: int, size: int, storage: Storage) -> None:
    """Log a warning where a version's checksum is there and does not agree with the files that the log gives."""
    path = join(location, LOG_FOLDER, f"{version:020d}.crc")
    try:
        node = json.loads(storage.read(path))
        expected = int(node["numFiles"]), int(node["tableSizeBytes"])
    except (StorageError, ValueError, KeyError, TypeError):
        return
    if expected != (files, size):
        _LOG.warning(
            "%s says %d files of %d bytes, the log gives %d of %d bytes: one of the two is damaged; the log counts",
            path,
            *expected,
            files,
            size,
        )
