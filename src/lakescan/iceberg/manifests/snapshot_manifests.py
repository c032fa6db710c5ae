"""The manifests of a snapshot, with the manifest list validated against the table's metadata.

A list truncated at a block boundary is still a valid Avro file. The loss shows only in the totals of the snapshot's
summary. Some writers get totals wrong, so they are trusted only if they follow from the parent's manifests.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import CorruptMetadata, MissingFile
from lakescan.iceberg.manifests.avro import read_avro
from lakescan.iceberg.manifests.codes import DELETED
from lakescan.iceberg.manifests.list_checks import check_specs, fault
from lakescan.iceberg.manifests.manifest import open_manifests
from lakescan.iceberg.manifests.manifest_file import DATA, DELETES, manifest_files
from lakescan.iceberg.manifests.manifest_list import read_manifest_list
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.storage import Storage

# By content: the summary's keys for the total, added and removed files.
_COUNTED = {
    DATA: ("total-data-files", "added-data-files", "deleted-data-files"),
    DELETES: ("total-delete-files", "added-delete-files", "removed-delete-files"),
}


def snapshot_manifests(snapshot: IcebergSnapshot, metadata: TableMetadata, storage: Storage) -> pa.Table:
    """The manifests of a snapshot (`MANIFESTS`); raises `CorruptMetadata` for a list that definitely lost some."""
    manifests = read_manifest_list(snapshot, storage)
    check_specs(manifests, metadata.specs)
    for content in _COUNTED:
        expected, live = snapshot.count(_COUNTED[content][0], 0), _live_files(manifests, content)
        if expected is not None and live is not None and live < expected:
            _check_complete(manifests, content, expected, snapshot, metadata, storage)
    return manifests


def _check_complete(
    manifests: pa.Table,
    content: int,
    expected: int,
    snapshot: IcebergSnapshot,
    metadata: TableMetadata,
    storage: Storage,
) -> None:
    """Raise if the summary's total (`expected`) follows from the parent, but the manifests have fewer live files."""
    total, added, removed = _COUNTED[content]
    before = _files_before(snapshot, metadata, storage, content)
    more, less = snapshot.count(added, 0), snapshot.count(removed, 0)
    if before is None or more is None or less is None or expected != before + more - less:
        return
    if _removed_files(manifests, content, snapshot) > less:
        return
    if (actual := _live_entries(manifests, content, storage)) < expected:
        raise fault(
            snapshot.manifest_list or metadata.source,
            f"its manifests have {actual:,} live files, but the summary of snapshot {snapshot.id} says "
            f"{total}={expected}: the {before:,} of its parent and its own changes. Manifests are missing",
        )


def _files_before(snapshot: IcebergSnapshot, metadata: TableMetadata, storage: Storage, content: int) -> int | None:
    """The number of live files in the parent, if its list and summary agree on it; 0 for a first snapshot."""
    if snapshot.parent_id is None:
        return 0
    parent = metadata.snapshots.get(snapshot.parent_id)
    if parent is None or parent is snapshot:
        return None
    try:
        live = _live_files(read_manifest_list(parent, storage), content)
    except (MissingFile, CorruptMetadata):
        return None
    return live if live == parent.count(_COUNTED[content][0], None) else None


def _live_files(manifests: pa.Table, content: int) -> int | None:
    """The number of live files in the manifests of one content by the list's counts; None if one is missing."""
    counts = _filter_content(manifests, content).select(["added_files_count", "existing_files_count"])
    if any(column.null_count for column in counts.columns):
        return None
    return sum(pc.sum(column.cast(pa.int64())).as_py() or 0 for column in counts.columns)


def _live_entries(manifests: pa.Table, content: int, storage: Storage) -> int:
    """The number of live entries in the manifests themselves, which exceeds the list's counts after manual edits."""
    listed = manifest_files(_filter_content(manifests, content))
    files = (file for manifest in listed for file in open_manifests([manifest], storage))
    live = (pc.not_equal(read_avro([file], {0: "status"})["status"], DELETED) for file in files)
    return sum(pc.sum(each).as_py() or 0 for each in live)


def _removed_files(manifests: pa.Table, content: int, snapshot: IcebergSnapshot) -> int:
    """The number of removed files in the snapshot's own manifests, by the list's counts."""
    own = manifests.filter(pc.equal(manifests["added_snapshot_id"], snapshot.id))
    return pc.sum(_filter_content(own, content)["deleted_files_count"].cast(pa.int64())).as_py() or 0


def _filter_content(manifests: pa.Table, content: int) -> pa.Table:
    return manifests.filter(pc.equal(manifests["content"], content))
