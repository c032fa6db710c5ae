"""Expire snapshots and delete the files that only expired snapshots referenced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from lakescan.common.executors import ExchangingExecutor, PlanningExecutor
from lakescan.maintenance.listing import Listing
from lakescan.maintenance.unreferenced_files import (
    ExpiredSnapshotFiles,
    remove_files,
    run_with_exchange,
    select_unreferenced_files,
)
from lakescan.storage.listing import list_files
from lakescan.storage.locations import normal
from lakescan.tables.base import Target
from lakescan.tables.capabilities import OrphanRemoval, SnapshotExpiry, require
from lakescan.tables.results import ExpireResult


def expire_with_files(
    target: Target,
    older_than: datetime | None,
    retain_last: int | None,
    snapshots: Sequence[int] = (),
    executor: PlanningExecutor | None = None,
) -> tuple[ExpireResult, Mapping[str, int]]:
    """Expire snapshots, then delete the files that no snapshot references any more; see `SnapshotExpiry.expire`.

    Files stay that other tables with metadata in the same folder reference. So do files outside the table's own
    folders: they were added from there, and may belong to others. Returns the result of the expiry, and the number of
    deleted files of each kind (`SnapshotFiles`). Files that could not be deleted stay as orphans. An executor that
    exchanges rows, as Spark's does, reads manifests, compares and deletes on its workers.
    """
    expiry = require(target, SnapshotExpiry)
    result = expiry.expire(older_than, retain_last, snapshots=snapshots)
    if not result.snapshots:
        return result, {}
    now, rules = datetime.now().astimezone(), require(target, OrphanRemoval).file_rules()
    storage = target.storage
    listing = Listing(normal(storage.current_location(rules.location)), rules.partition_names)
    folders = sorted({rules.clock_folder, rules.metadata_folder})
    parts = (part for folder in folders for part in list_files(storage, folder, deep=False))
    others = [each for part in parts for each in listing.metadata_files(part)]

    def remove(exchange: ExchangingExecutor) -> pa.Table:
        candidates = [
            ExpiredSnapshotFiles(each, tuple(rules.owned), storage)
            for each in expiry.files_of_snapshots(result.snapshots)
        ]
        return remove_files(storage, select_unreferenced_files(target, candidates, now, others, exchange), exchange)

    return result, Counter(run_with_exchange(executor, remove)["kind"].to_pylist())
