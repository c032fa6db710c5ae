"""Write `_last_checkpoint`, which leads readers to the newest checkpoint (protocol, "Last Checkpoint File")."""

from __future__ import annotations

import json
from typing import Any

from lakescan.delta.commit.checkpoint_writer import CheckpointResult
from lakescan.delta.log.json_checksum import CHECKSUM, checksum_of
from lakescan.delta.log.segment import LAST_CHECKPOINT, LOG_FOLDER, end_of_log
from lakescan.storage import Storage, join
from lakescan.storage.whole_file import publish


def point_to(checkpoint: CheckpointResult, location: str, storage: Storage) -> None:
    """Name a checkpoint in the table's `_last_checkpoint`, unless that names a newer one; raises `StorageError`."""
    listing = end_of_log(location, storage)
    if listing is not None and any(each.version > checkpoint.version for each in listing.checkpoints):
        return
    node: dict[str, Any] = {
        "version": checkpoint.version,
        "size": checkpoint.actions,
        "sizeInBytes": checkpoint.size,
        "numOfAddFiles": checkpoint.adds,
        **checkpoint.details,
    }
    text = json.dumps({**node, CHECKSUM: checksum_of(node)}, separators=(",", ":"))
    publish(storage, join(location, LOG_FOLDER, LAST_CHECKPOINT), text.encode())
