"""What follows a commit: the checkpoint that is due. It is optional, so its faults are logged; the commit stands."""

from __future__ import annotations

import logging

from lakescan.delta.commit.checkpoint import checkpoint_version, is_due
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.storage import Storage

_LOG = logging.getLogger("lakescan")


def after_commit(location: str, version: int, properties: DeltaProperties, storage: Storage) -> None:
    """Write the checkpoint of a version that was just committed, if it is due."""
    try:
        if is_due(version, properties):
            checkpoint_version(location, version, storage)
    except Exception as error:  # readers replay the commits instead
        _LOG.warning("the checkpoint of version %d of %s was not written: %s", version, location, error)
