"""Keep the commit times in table metadata increasing, whatever the clocks of the writers show.

Java's `TableMetadata` refuses metadata in which the snapshot log, the metadata log or `last-updated-ms` goes back by
more than a minute. This module does no I/O; metadata, snapshots and updates are pyiceberg's objects.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Any

_LOG = logging.getLogger("lakescan")
_TOLERANCE_MS = 60_000  # the difference of clocks that Java accepts


def latest_time(metadata: Any) -> int:
    """Return the latest time in a table's metadata: last update, logs and snapshots, in milliseconds since 1970."""
    logs = (metadata.snapshot_log, metadata.metadata_log, metadata.snapshots)
    return max([int(metadata.last_updated_ms or 0), *(int(each.timestamp_ms) for log in logs for each in log)])


def next_time(metadata: Any) -> int:
    """Return the time of the next commit, in milliseconds since 1970: now, or 1 ms after the latest time recorded.

    Logs a warning if the table is more than a minute ahead of this machine's clock.
    """
    now, latest = int(time.time() * 1000), latest_time(metadata)
    if latest - now > _TOLERANCE_MS:
        _LOG.warning(
            "%s: the last commit is %d s ahead of this machine's clock, so the next one is recorded 1 ms after it. "
            "Check the clocks of the machines that write the table.",
            metadata.location,
            (latest - now) // 1000,
        )
    return max(now, latest + 1)


def advance_snapshot_times(updates: Iterable[Any], metadata: Any) -> tuple[Any, ...]:
    """Return the updates with each new snapshot later than all times in the metadata and the snapshots before it."""
    from pyiceberg.table.update import AddSnapshotUpdate

    latest, later = latest_time(metadata), list[Any]()
    for update in updates:
        if not isinstance(update, AddSnapshotUpdate):
            later.append(update)
            continue
        latest = max(latest + 1, int(update.snapshot.timestamp_ms))
        snapshot = update.snapshot.model_copy(update={"timestamp_ms": latest})
        later.append(update.model_copy(update={"snapshot": snapshot}))
    return tuple(later)


def order_commit_times(base: Any, updated: Any) -> Any:
    """Return the metadata that a commit made from `base`, with ordered logs and a later time than `base`.

    Log entries out of order take the time of the entry before them. If the commit expires a snapshot, the snapshot log
    begins after that snapshot, as in Java: across a gap, a timestamp would select the wrong snapshot.
    """
    if updated.last_updated_ms == base.last_updated_ms and updated.metadata_log == base.metadata_log:
        return updated  # no update changed anything, so the catalog writes nothing
    latest = latest_time(base)
    at = max(int(updated.last_updated_ms), latest + 1)
    added = {each.snapshot_id for each in updated.snapshots} - {each.snapshot_id for each in base.snapshots}
    log = _trim_snapshot_log(base, updated)
    if log and log[-1:] != base.snapshot_log[-1:] and log[-1].snapshot_id not in added:
        log[-1] = log[-1].model_copy(update={"timestamp_ms": at})  # an earlier snapshot becomes current now
    changes = {
        "last_updated_ms": at,
        "snapshot_log": _order_log(log),
        "metadata_log": _order_log(updated.metadata_log),
    }
    return updated.model_copy(update=changes)


def _trim_snapshot_log(base: Any, updated: Any) -> list[Any]:
    left = {each.snapshot_id for each in updated.snapshots}
    if left.issuperset(each.snapshot_id for each in base.snapshots):
        return list(updated.snapshot_log)
    before = list(base.snapshot_log)
    new = updated.snapshot_log[sum(each.snapshot_id in left for each in before) :]
    gone = [place for place, each in enumerate(before) if each.snapshot_id not in left]
    return [*before[gone[-1] + 1 if gone else 0 :], *new]


def _order_log(log: Sequence[Any]) -> list[Any]:
    ordered, latest = list[Any](), 0
    for each in log:
        latest = max(latest, int(each.timestamp_ms))
        ordered.append(each if each.timestamp_ms == latest else each.model_copy(update={"timestamp_ms": latest}))
    return ordered
