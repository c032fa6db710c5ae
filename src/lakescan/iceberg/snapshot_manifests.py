"""The manifests of a snapshot, its list held against the table's metadata.

A list that was cut where a block ends is a whole Avro file. What it has lost shows in the totals of the snapshot's
summary, which some writers get wrong; so these are believed only where they follow from the parent's manifests.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.iceberg.list_checks import check_specs, fault
from lakescan.iceberg.manifest_list import DATA, DELETES, read_manifest_list
from lakescan.iceberg.metadata import IcebergSnapshot, TableMetadata
from lakescan.storage import Storage

# By content: the totals of a summary, what it counts as added and as removed.
_COUNTED = {
    DATA: ("total-data-files", "added-data-files", "deleted-data-files"),
    DELETES: ("total-delete-files", "added-delete-files", "removed-delete-files"),
}


def snapshot_manifests(snapshot: IcebergSnapshot, metadata: TableMetadata, storage: Storage) -> pa.Table:
    """The manifests of a snapshot (`MANIFESTS`); raises `CorruptMetadata` for a list that provably lost some."""
    manifests = read_manifest_list(snapshot, storage)
    check_specs(manifests, metadata.specs)
    for content, (total, added, removed) in _COUNTED.items():
        said, live = _number(snapshot, total, 0), _live_files(manifests, content)
        if said is None or live is None or live >= said:
            continue
        before = _files_before(snapshot, metadata, storage, content)
        changes = [_number(snapshot, name, 0) for name in (added, removed)]
        follows = before is not None and None not in changes and said == before + changes[0] - changes[1]  # type: ignore[operator]
        if follows and _removed_files(manifests, content, snapshot) <= (changes[1] or 0):
            raise fault(
                snapshot.manifest_list or metadata.source,
                f"it counts {live:,} live files where the summary of snapshot {snapshot.id} says {total}={said}, which "
                f"the {before:,} of the snapshot before it and its own changes add up to: manifests are missing",
            )
    return manifests


def _files_before(snapshot: IcebergSnapshot, metadata: TableMetadata, storage: Storage, content: int) -> int | None:
    """The live files of the snapshot's parent, if its list and its summary agree on them; 0 for a first snapshot."""
    if snapshot.parent_id is None:
        return 0
    parent = metadata.snapshots.get(snapshot.parent_id)
    if parent is None or parent is snapshot:
        return None
    live = _live_files(read_manifest_list(parent, storage), content)
    return live if live == _number(parent, _COUNTED[content][0], None) else None


def _live_files(manifests: pa.Table, content: int) -> int | None:
    """The live files of manifests of a content, None where the list does not say."""
    counts = _of(manifests, content).select(["added_files_count", "existing_files_count"])
    if any(column.null_count for column in counts.columns):
        return None
    return sum(pc.sum(column.cast(pa.int64())).as_py() or 0 for column in counts.columns)


def _removed_files(manifests: pa.Table, content: int, snapshot: IcebergSnapshot) -> int:
    """The files that the snapshot's own manifests say it removed."""
    own = manifests.filter(pc.equal(manifests["added_snapshot_id"], snapshot.id))
    return pc.sum(_of(own, content)["deleted_files_count"].cast(pa.int64())).as_py() or 0


def _of(manifests: pa.Table, content: int) -> pa.Table:
    return manifests.filter(pc.equal(manifests["content"], content))


def _number(snapshot: IcebergSnapshot, name: str, missing: int | None) -> int | None:
    text = snapshot.summary.get(name)
    if text is None:
        return missing
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None
