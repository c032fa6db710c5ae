"""The time by the clock of a file store, which is the clock of its files' modification times."""

from __future__ import annotations

import uuid
from datetime import datetime

from lakescan.errors import StorageError
from lakescan.storage import Storage, join


def time_of(storage: Storage, folder: str) -> datetime:
    """The current time of a store: the modification time of a file that is written to `folder` and removed again.

    Raises `StorageError` for a store that does not return modification times.
    """
    location = join(folder, f".lakescan-clock-{uuid.uuid4().hex}")
    with storage.writing(location) as file:
        file.write(b"the time")
    try:
        entry = storage.look_up([location])[0]
    finally:
        storage.remove([location])
    if entry is None or entry.modified is None:
        raise StorageError(
            f"{folder}: the store does not return modification times, so the age of its files is unknown"
        )
    return entry.modified
