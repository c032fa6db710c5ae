"""Post-commit hooks: the version checksum, and the checkpoint and log clean-up that are due.

All of them are optional. Errors are logged, and the commit stands.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import pyarrow as pa

from lakescan.delta.commit.actions import CommitText
from lakescan.delta.commit.checkpoint import checkpoint_version, is_due
from lakescan.delta.commit.version_checksum import next_checksum, read_checksum, write_checksum
from lakescan.delta.log.catalog_managed import find_managed_table
from lakescan.delta.maintenance.log_cleanup import clean_up
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.storage import Storage

_LOG = logging.getLogger("lakescan")


def run_post_commit_hooks(
    location: str, version: int, text: CommitText, before: tuple[Protocol, Metadata] | None, storage: Storage
) -> None:
    """Write the version's checksum, and a checkpoint and log clean-up if they are due; errors are only logged.

    `text` is the commit. `before` are the protocol and metadata of the previous version, or None for a new table.
    """
    _try("checksum", location, version, lambda: _write_checksum(location, version, text, before, storage))
    metadata = text.metadata or (before[1] if before else None)
    if metadata is None or not is_due(version, metadata.properties):
        return
    done = _try("checkpoint", location, version, lambda: checkpoint_version(location, version, storage))
    if done and find_managed_table(location, storage) is None:  # otherwise the catalog cleans up
        _try("clean-up of the log", location, version, lambda: clean_up(location, storage))


def _write_checksum(
    location: str, version: int, text: CommitText, before: tuple[Protocol, Metadata] | None, storage: Storage
) -> None:
    previous = None if before is None else read_checksum(location, version - 1, storage, *before)
    files = text.files
    counted = ["size", "deletionVector"]
    gone = pa.concat_tables([files.removed.select(counted), files.replaced.select(counted)])
    checksum = next_checksum(version, previous, text.actions(), files.added, gone)
    if checksum is not None:
        write_checksum(location, version, checksum, storage)


def _try(what: str, location: str, version: int, act: Callable[[], object]) -> bool:
    try:
        act()
    except Exception as error:  # readers do not need the file
        _LOG.warning("the %s of version %d of %s failed: %s", what, version, location, error)
        return False
    return True
