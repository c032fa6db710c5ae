"""The commit that expires snapshots, branches and tags; which ones: `metadata/expired_snapshots.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakescan.iceberg.commit.outcomes import FailedCommit, commit
from lakescan.iceberg.maintenance.expired_snapshots import Expiration
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.metadata.transactions import move_records
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.table import Table


def commit_expiry(table: Table, now: IcebergTable, expired: Expiration, storage: Storage) -> FailedCommit | None:
    """Remove snapshots and refs, provided that the table is still as in `now`. Returns None on success."""
    from pyiceberg.table.update import (
        AssertRefSnapshotId,
        RemovePartitionStatisticsUpdate,
        RemovePropertiesUpdate,
        RemoveSnapshotRefUpdate,
        RemoveSnapshotsUpdate,
        SetPropertiesUpdate,
    )

    refs = now.metadata.refs
    updates: tuple[Any, ...] = tuple(RemoveSnapshotRefUpdate(ref_name=name) for name in sorted(expired.refs))
    counted = [each.snapshot_id for each in table.metadata.partition_statistics]
    gone = sorted(expired.snapshots.intersection(counted))  # pyiceberg forgets only the other statistics
    updates = (*updates, *(RemovePartitionStatisticsUpdate(snapshot_id=each) for each in gone))
    kept, forgotten = move_records(now.metadata, expired.snapshots, expired.refs)
    updates = (*updates, *([SetPropertiesUpdate(updates=dict(kept))] if kept else []))
    updates = (*updates, *([RemovePropertiesUpdate(removals=forgotten)] if forgotten else []))
    if expired.snapshots:
        updates = (*updates, RemoveSnapshotsUpdate(snapshot_ids=sorted(expired.snapshots)))
    heads = tuple(AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in refs.items())

    def is_done(later: IcebergTable) -> bool:
        left = later.metadata
        return expired.snapshots.isdisjoint(left.snapshots) and expired.refs.isdisjoint(left.refs)

    return commit(table, updates, (*heads, *_refs_requirement(table, now.metadata)), storage, is_done)


def _refs_requirement(table: Table, metadata: TableMetadata) -> tuple[Any, ...]:
    """The requirement that the set of refs is unchanged, for pyiceberg's own catalogs, which evaluate it in process.

    REST has no such requirement, so a concurrently created ref goes unnoticed there: the commit asserts only the known
    refs, and callers reload the table just before.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import AssertTableUUID

    if not isinstance(table.catalog, MetastoreCatalog):
        return ()
    heads = {name: ref.snapshot_id for name, ref in metadata.refs.items()}

    class AssertRefs(AssertTableUUID):
        """Requires exactly these refs."""

        def validate(self, base_metadata: Any) -> None:
            super().validate(base_metadata)
            if {name: ref.snapshot_id for name, ref in base_metadata.refs.items()} != heads:
                raise CommitFailedException("Requirement failed: branches or tags have changed")

    return (AssertRefs(uuid=table.metadata.table_uuid),)
