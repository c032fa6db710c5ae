"""Facts about a table's maintenance from Iceberg metadata (`formats.table_format.MetadataFacts`)."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.timestamps import from_millis, to_millis
from lakescan.formats.table_format import KeptStates, ManifestFacts, MetadataFacts
from lakescan.iceberg.maintenance.rewrite_position_deletes import plan_compaction, plan_vectors
from lakescan.iceberg.manifests.manifest_list import read_manifest_list
from lakescan.iceberg.metadata.snapshot_retention import Retention
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata, ancestors
from lakescan.planning.file_table import FileTable
from lakescan.storage import Storage
from lakescan.writing.table_writes import DeleteLimits

_REMOVED = ("deleted-data-files", "removed-delete-files")
_REMOVED_BYTES = "removed-files-size"
_REPLACED = "manifests-replaced"


def metadata_facts(
    metadata: TableMetadata, snapshot: IcebergSnapshot | None, files: FileTable, storage: Storage, now: datetime
) -> MetadataFacts:
    """Return the facts of a snapshot with these files; reads its manifest list but no manifest."""
    properties = metadata.table_properties
    manifests = _manifests(metadata, snapshot, storage)
    root = storage.look_up([metadata.source])[0] if metadata.source else None
    return MetadataFacts(
        target_file_size=properties.target_file_size,
        bytes=manifests.bytes + (0 if root is None else root.size),
        kept=_snapshot_storage(metadata, now),
        manifests=manifests,
        rewritable_deletes=_rewritable_deletes(metadata, files),
        owns_files=properties.owns_files,
    )


def _manifests(metadata: TableMetadata, snapshot: IcebergSnapshot | None, storage: Storage) -> ManifestFacts:
    """Return facts about the manifests of a snapshot, with zeros for no snapshot.

    Manifests of a content (data or deletes) count as rewritable if they are more than twice as many as their size
    needs.
    """
    if snapshot is None:
        return ManifestFacts()
    listed = read_manifest_list(snapshot, storage)
    lengths = listed["manifest_length"]
    target = metadata.table_properties.manifest_size
    many = rewritten = size = 0
    ours = listed.filter(pc.equal(listed["partition_spec_id"], metadata.default_spec_id))
    for content in pc.unique(ours["content"]).to_pylist():
        some = ours.filter(pc.equal(ours["content"], content))["manifest_length"]
        total = _sum(some)
        needed = max(-(-total // target), 1)
        if len(some) > 2 * needed:
            many, rewritten, size = many + len(some), rewritten + needed, size + total
    return ManifestFacts(listed.num_rows, _sum(lengths), many, size, rewritten)


def _snapshot_storage(metadata: TableMetadata, now: datetime) -> KeptStates:
    """Return the number of snapshots, the files that only old snapshots have, and how many of these expiry would free.

    The summary of each snapshot counts the files that it removed, which its ancestors still have. Manifests that it
    replaced are counted too, without their sizes, which summaries lack, and one manifest list for each snapshot that
    expires. Statistics files are not counted, nor files that only other branches, or snapshots without summaries, have.
    """
    snapshots = metadata.snapshots
    if not snapshots:
        return KeptStates(0)
    expired: frozenset[int] = frozenset()
    if metadata.table_properties.owns_files:
        expired = (
            Retention.create(metadata.table_properties, to_millis(now), None, None).find_expiration(metadata).snapshots
        )
    line = [each for each in ancestors(snapshots, metadata.current_snapshot_id) if each.parent_id in snapshots]
    removable = [each for each in line if each.parent_id in expired]
    files, size = _removed_by(line)
    removable_files, removable_bytes = _removed_by(removable)
    lists = sum(snapshots[each].manifest_list is not None for each in expired if each in snapshots)
    removable_files += lists + sum(each.count(_REPLACED, 0) or 0 for each in removable)
    oldest = min(each.timestamp_ms for each in snapshots.values())
    return KeptStates(len(snapshots), from_millis(oldest), len(expired), files, size, removable_files, removable_bytes)


def _removed_by(snapshots: list[IcebergSnapshot]) -> tuple[int, int]:
    files = sum(each.count(name, 0) or 0 for each in snapshots for name in _REMOVED)
    return files, sum(each.count(_REMOVED_BYTES, 0) or 0 for each in snapshots)


def _rewritable_deletes(metadata: TableMetadata, files: FileTable) -> tuple[int, int]:
    """Return the number and size of delete files that `rewrite_position_deletes` would replace."""
    if metadata.format_version < 2 or not files.deletes.num_rows:
        return 0, 0
    paths = files.files["path"].combine_chunks()
    if metadata.format_version > 2:
        found = plan_vectors(files, paths)
    else:
        properties = metadata.table_properties
        by_file = properties.delete_granularity == "file"
        found = plan_compaction(files, paths, DeleteLimits(), properties.target_delete_file_size, by_file=by_file)
    return len(found.removed), found.size


def _sum(values: pa.ChunkedArray) -> int:
    return int(pc.sum(values).as_py() or 0)
