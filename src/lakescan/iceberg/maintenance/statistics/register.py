"""Name statistics files in a table's metadata: a commit that changes nothing else."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.errors import CommitConflict, CommitStateUnknown
from lakescan.iceberg.commit.outcomes import commit, reload_table, wait_before_retry
from lakescan.iceberg.commit.publish import still_there
from lakescan.storage import Storage
from lakescan.storage.removal import discard

if TYPE_CHECKING:
    from pyiceberg.table import Table


def register(
    table: Table, update: Any, location: str, snapshot_id: int, storage: Storage, retries: RetryPolicy
) -> None:
    """Commit an update (pyiceberg's) that names the statistics file of a snapshot at `location`, a new one.

    Raises `CommitConflict` if the snapshot has expired meanwhile, or retries run out, and `CommitStateUnknown`. The
    file is removed if the metadata provably does not name it.
    """
    attempts, at, name = Attempts(retries), copy(table), ".".join(table.name())
    try:
        while True:
            failed = commit(
                at,
                (update,),
                tuple(still_there(at, snapshot_id)),
                storage,
                lambda now: location in now.metadata.statistics_files,
            )
            if failed is None:
                return
            if snapshot_id not in failed.now.metadata.snapshots:
                raise CommitConflict(f"{name}: snapshot {snapshot_id} has expired meanwhile") from failed.error
            wait_before_retry(attempts, name, failed)
            at = failed.table
    except CommitStateUnknown:
        raise
    except Exception:
        discard(
            storage,
            [location],
            lambda: [pa.array(reload_table(table, storage)[1].metadata.statistics_files, pa.string())],
        )
        raise
