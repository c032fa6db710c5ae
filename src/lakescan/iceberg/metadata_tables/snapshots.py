"""The metadata tables that need only the metadata file: `snapshots`, `history`, `refs`, `metadata_log_entries`."""

from __future__ import annotations

from typing import Any

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.common.timestamps import from_millis
from lakescan.formats.metadata_table import InMemoryMetadataTable
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata

_SUMMARY = t.MapOf(t.Field(7, "key", t.STRING, required=True), t.Field(8, "value", t.STRING, required=True))
SNAPSHOTS = Schema(
    (
        t.Field(1, "committed_at", t.Timestamp(), required=True),
        t.Field(2, "snapshot_id", t.LONG, required=True),
        t.Field(3, "parent_id", t.LONG),
        t.Field(4, "operation", t.STRING),
        t.Field(5, "manifest_list", t.STRING),
        t.Field(6, "summary", _SUMMARY),
    )
)
HISTORY = Schema(
    (
        t.Field(1, "made_current_at", t.Timestamp(), required=True),
        t.Field(2, "snapshot_id", t.LONG, required=True),
        t.Field(3, "parent_id", t.LONG),
        t.Field(4, "is_current_ancestor", t.BOOLEAN, required=True),
    )
)
# The columns of `Table.history`: the history plus the operation and summary of each snapshot.
COMMITS = Schema((*HISTORY.fields, t.Field(5, "operation", t.STRING), t.Field(6, "summary", _SUMMARY)))
REFS = Schema(
    (
        t.Field(1, "name", t.STRING, required=True),
        t.Field(2, "type", t.STRING, required=True),
        t.Field(3, "snapshot_id", t.LONG, required=True),
        t.Field(4, "max_reference_age_in_ms", t.LONG),
        t.Field(5, "min_snapshots_to_keep", t.INT),
        t.Field(6, "max_snapshot_age_in_ms", t.LONG),
    )
)
METADATA_LOG = Schema(
    (
        t.Field(1, "timestamp", t.Timestamp(), required=True),
        t.Field(2, "file", t.STRING, required=True),
        t.Field(3, "latest_snapshot_id", t.LONG),
        t.Field(4, "latest_schema_id", t.INT),
        t.Field(5, "latest_sequence_number", t.LONG),
    )
)


def snapshots_table(metadata: TableMetadata) -> InMemoryMetadataTable:
    """Return the `snapshots` table: all snapshots in the metadata."""
    return InMemoryMetadataTable(SNAPSHOTS, tuple(_snapshot(s) for s in metadata.snapshots.values()))


def _snapshot(snapshot: IcebergSnapshot) -> dict[str, Any]:
    return {
        "committed_at": from_millis(snapshot.timestamp_ms),
        "snapshot_id": snapshot.id,
        "parent_id": snapshot.parent_id,
        "operation": snapshot.operation or None,
        "manifest_list": snapshot.manifest_list,
        "summary": _summary(snapshot),
    }


def _summary(snapshot: IcebergSnapshot) -> list[tuple[str, str]]:
    return [(name, value) for name, value in snapshot.summary.items() if name != "operation"]


def history_table(metadata: TableMetadata) -> InMemoryMetadataTable:
    """Return the `history` table: when each snapshot became current, oldest first.

    Raises `CorruptMetadata` if the snapshot log is damaged.
    """
    metadata.check_log("snapshot-log")
    return InMemoryMetadataTable(HISTORY, snapshot_log(metadata).rows)


def snapshot_log(metadata: TableMetadata) -> InMemoryMetadataTable:
    """Return when each snapshot became current, with its operation and summary.

    If the log is missing or damaged, all snapshots are returned by commit time. If the branch `main` has no snapshot,
    the result is empty, because no snapshot was ever current.
    """
    log = metadata.snapshot_log
    if not log and metadata.current_snapshot_id is not None:
        log = tuple(sorted(((s.timestamp_ms, s.id) for s in metadata.snapshots.values()), key=lambda each: each[0]))
    return InMemoryMetadataTable(COMMITS, tuple(_logged_snapshot(metadata, at, snapshot_id) for at, snapshot_id in log))


def _logged_snapshot(metadata: TableMetadata, at: int, snapshot_id: int) -> dict[str, Any]:
    """Return a row for an entry of the snapshot log; an expired snapshot has only its id and the time."""
    known = metadata.snapshots.get(snapshot_id)
    return {
        "made_current_at": from_millis(at),
        "snapshot_id": snapshot_id,
        "parent_id": known.parent_id if known else None,
        "is_current_ancestor": snapshot_id in metadata.current_ancestors,
        "operation": known.operation or None if known else None,
        "summary": _summary(known) if known else None,
    }


def refs_table(metadata: TableMetadata) -> InMemoryMetadataTable:
    """Return the `refs` table: branches and tags with their retention settings."""
    rows = (
        {
            "name": name,
            "type": reference.kind.upper(),
            "snapshot_id": reference.snapshot_id,
            "max_reference_age_in_ms": reference.retention.get("max-ref-age-ms"),
            "min_snapshots_to_keep": reference.retention.get("min-snapshots-to-keep"),
            "max_snapshot_age_in_ms": reference.retention.get("max-snapshot-age-ms"),
        }
        for name, reference in metadata.refs.items()
    )
    return InMemoryMetadataTable(REFS, tuple(rows))


def metadata_log_table(metadata: TableMetadata) -> InMemoryMetadataTable:
    """Return the `metadata_log_entries` table: metadata files, the current one last.

    Each row also has the snapshot that was current when the file was written. Raises `CorruptMetadata` if the metadata
    log or the snapshot log is damaged.
    """
    metadata.check_log("metadata-log")
    metadata.check_log("snapshot-log")
    log = [*metadata.metadata_log, (metadata.last_updated_ms, metadata.source)]
    return InMemoryMetadataTable(METADATA_LOG, tuple(_metadata_log_entry(metadata, at, file) for at, file in log))


def _metadata_log_entry(metadata: TableMetadata, at: int, file: str) -> dict[str, Any]:
    earlier = [snapshot_id for when, snapshot_id in metadata.snapshot_log if when <= at]
    known = metadata.snapshots.get(earlier[-1]) if earlier else None
    return {
        "timestamp": from_millis(at),
        "file": file,
        "latest_snapshot_id": earlier[-1] if earlier else None,
        "latest_schema_id": known.schema_id if known else None,
        "latest_sequence_number": known.sequence_number if known else None,
    }
