"""The time by a store's own clock, which is the one that the ages of its files are told by."""

from __future__ import annotations

import uuid
from datetime import datetime

from lakescan.errors import StorageError
from lakescan.storage.storage import Storage, join


def time_of(storage: Storage, folder: str) -> datetime:
    """The time at a store, by a file that is written to a folder of it, looked at, and removed.

    Raises `StorageError` for a store that does not tell when files were written.
    """
    location = join(folder, f".lakescan-clock-{uuid.uuid4().hex}")
    with storage.create(location) as file:
        file.write(b"the time")
    try:
        entry = storage.look_up([location])[0]
    finally:
        storage.remove([location])
    if entry is None or entry.modified is None:
        raise StorageError(f"{folder}: the store does not tell when files were written, so none is known to be old")
    return entry.modified
