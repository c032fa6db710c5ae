"""RESTORE a Delta table: commit the files and the metadata of an earlier version."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from lakescan.delta.commit.commit import DeltaCommit, Operation
from lakescan.delta.commit.conflicts import Reads
from lakescan.delta.commit.restore import RestoredFiles, restored_domains, restored_metadata
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.metadata.features import Support
from lakescan.delta.table import DeltaTable
from lakescan.errors import NoSuchSnapshot
from lakescan.formats.table_format import SnapshotSelector
from lakescan.storage import Storage
from lakescan.tables.results import RestoreResult
from lakescan.tables.scan_spec import ScanSpec


def restore(
    scan: ScanSpec,
    now: DeltaVersion,
    storage: Storage,
    version: int | str | None,
    timestamp: datetime | None,
    check_removable: Callable[[], None],
) -> RestoreResult:
    """Commit an earlier version's state to the table of a scan, whose newest version is `now`; see `Target.restore`.

    Commits nothing if the version is the newest one.
    """
    location, newest = now.segment.location, now.segment.version
    now.protocol.check_supports(Support.WRITE, "restoring", location)
    earlier = _version(scan, version, timestamp)
    wanted = earlier.segment.version
    earlier.protocol.check_readable(location)
    earlier.protocol.check_supports(Support.WRITE, f"restoring version {wanted} of", location)
    files = RestoredFiles.compare(now, earlier, storage)
    if files.gone.num_rows:
        check_removable()
    files.check_present(wanted, location, storage)
    if wanted != newest:
        metadata, protocol = restored_metadata(now.metadata, earlier.metadata), now.protocol
        upgraded = protocol.with_features(earlier.protocol.features)
        shown = None if timestamp is None else timestamp.strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0").rstrip(".")
        parameters = {"version": None if timestamp is not None else wanted, "timestamp": shown}
        DeltaCommit(
            now,
            storage,
            Operation("RESTORE", parameters, files.metrics),
            files.changes(earlier, storage),
            Reads.whole_table(),
            metadata,
            None if upgraded == protocol else upgraded,
            domains=restored_domains(now, earlier, storage),
        ).commit()
    counts = files.metrics
    return RestoreResult(
        wanted,
        counts["tableSizeAfterRestore"],
        counts["numOfFilesAfterRestore"],
        counts["numRemovedFiles"],
        counts["numRestoredFiles"],
        counts["removedFilesSize"],
        counts["restoredFilesSize"],
    )


def _version(scan: ScanSpec, version: int | str | None, timestamp: datetime | None) -> DeltaVersion:
    """The version that is meant; a time after the newest one means that, as in Delta on Spark."""
    table = scan.table
    assert isinstance(table, DeltaTable)
    try:
        snapshot = table.snapshot(SnapshotSelector(version=version, timestamp=timestamp))
    except NoSuchSnapshot:
        current = scan.snapshot
        if timestamp is None or current.timestamp is None or timestamp <= current.timestamp:
            raise
        snapshot = current
    return table.version_of(snapshot)
