"""Version checksums: beside a commit, how many files its version has (protocol, "Version Checksum File").

Readers may check it. A difference is reported, not refused: writers have left wrong checksums beside right commits.
"""

from __future__ import annotations

import logging

from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.delta.log.text import as_long, parse_object
from lakescan.errors import LakescanError, MissingFile
from lakescan.storage.storage import Storage, join

_LOG = logging.getLogger("lakescan")


def check_version(location: str, version: int, files: int, size: int, storage: Storage) -> None:
    """Log a warning where a version's checksum is there and does not agree with the files that the log gives."""
    path = join(location, LOG_FOLDER, f"{version:020d}.crc")
    try:
        node = parse_object(storage.read(path), path)
    except MissingFile:
        return
    except LakescanError as error:
        _LOG.warning("%s: the checksum of version %d cannot be read, and is left out: %s", location, version, error)
        return
    expected = as_long(node.get("numFiles")), as_long(node.get("tableSizeBytes"))
    if None in expected:
        return
    if expected != (files, size):
        _LOG.warning(
            "%s says %s files of %s bytes, the log gives %d of %d bytes: one of the two is damaged; the log counts",
            path,
            *expected,
            files,
            size,
        )
