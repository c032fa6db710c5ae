"""An earlier state of an Iceberg table becomes the current one again: its snapshot, for the branch main."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import NoSuchSnapshot
from lakescan.formats.table_format import SnapshotSelector
from lakescan.iceberg.commit.snapshots import IcebergSnapshots
from lakescan.tables.results import RestoreResult
from lakescan.tables.scan_spec import ScanSpec


def restore(
    scan: ScanSpec, snapshots: IcebergSnapshots, version: int | str | None, timestamp: datetime | None
) -> RestoreResult:
    """Set main to a state, and count the files that come back and go; `scan` is of the current state.

    Commits nothing if it is the current state. Raises `NoSuchSnapshot`, also for a table without a snapshot, and
    `CommitConflict` if another writer commits.
    """
    earlier = scan.as_of(version=version, timestamp=timestamp)
    wanted = earlier.snapshot.id
    if wanted is None:
        raise NoSuchSnapshot(f"{snapshots.identifier} has no snapshot to restore")
    after, before = _files(earlier), _files(scan)
    back = after.filter(pc.invert(pc.is_in(after["path"], value_set=before["path"].combine_chunks())))
    gone = before.filter(pc.invert(pc.is_in(before["path"], value_set=after["path"].combine_chunks())))
    if wanted != scan.snapshot.id:
        snapshots.set_current(SnapshotSelector(version=wanted))
    return RestoreResult(
        wanted,
        _bytes(after),
        len(after),
        len(gone),
        len(back),
        removed_files_size=_bytes(gone),
        restored_files_size=_bytes(back),
    )


def _files(scan: ScanSpec) -> pa.Table:
    return scan.file_table().files.select(["path", "size"])


def _bytes(files: pa.Table) -> int:
    return pc.sum(files["size"]).as_py() or 0
