"""Cherry-pick: apply the changes of one snapshot to the current snapshot (Java's `CherryPickOperation`).

If the snapshot's parent is the current snapshot, the table moves to the snapshot itself. Otherwise, a new snapshot is
committed. This is possible for appends, and for dynamic overwrites whose partitions have not changed.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.errors import CorruptMetadata, InvalidOption, NoSuchSnapshot, UnsupportedFeature
from lakescan.iceberg.commit.base_manifests import find_live_files
from lakescan.iceberg.commit.commit import REPLACES_PARTITIONS, STAGED_ID
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.commit_snapshot import commit_snapshot, still_there
from lakescan.iceberg.commit.conflicts import Rebase, Validation
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.iceberg.commit.outcomes import FailedCommit, wait_before_retry
from lakescan.iceberg.commit.snapshot_producer import SnapshotProducer
from lakescan.iceberg.commit.snapshot_refs import commit_move, set_current_move
from lakescan.iceberg.manifests.manifest_entries import entries_of
from lakescan.iceberg.manifests.manifest_file import ADDED, DATA, DELETED, DELETES, ManifestFile, manifest_files
from lakescan.iceberg.manifests.manifest_list import own_manifests
from lakescan.iceberg.metadata.partition_spec import add_partition_key
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata, ancestors
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.table import Table

PUBLISHED_ID, SOURCE = "published-wap-id", "source-snapshot-id"
_APPEND, _OVERWRITE = "append", "overwrite"


def cherry_pick(
    table: Table,
    opened: IcebergTable,
    version: int,
    storage: Storage,
    retries: RetryPolicy,
    check_rows: Callable[[IcebergTable, int], None],
) -> tuple[int | None, int]:
    """Apply a snapshot's changes to the current snapshot; return the ids of the current snapshots before and after.

    `check_rows` raises for rows of the snapshot that the table can no longer have. The commit is retried after
    concurrent commits that do not conflict with it.

    Raises `NoSuchSnapshot`. Raises `InvalidOption` for a snapshot that the current snapshot already includes, or whose
    wap-id is published, `UnsupportedFeature` for changes that are neither an append nor a dynamic overwrite, and
    `CommitConflict` if partitions that it replaces have changed.
    """
    known, attempts = set(opened.metadata.snapshots), Attempts(retries)
    at, now = copy(table), opened
    while True:
        picked = find_pickable_snapshot(now.metadata, version)
        check_rows(now, version)
        before = now.metadata.current_snapshot_id
        failed: FailedCommit | None
        if picked.parent_id == before:
            failed, after = commit_move(at, set_current_move(now.metadata, version), storage), version
        else:
            base = CommitBase(now.metadata, at.metadata)
            producer = cherry_pick_producer(picked, base, storage)
            _check_new(picked, producer.changes, base, storage)
            there = still_there(at, version)
            failed = commit_snapshot(at, producer, known, storage, requirements=there)
            after = producer.snapshot_id
        if failed is None:
            return before, after
        wait_before_retry(attempts, ".".join(table.name()), failed)
        at, now = failed.table, failed.now


def find_pickable_snapshot(metadata: TableMetadata, version: int) -> IcebergSnapshot:
    """Return the snapshot to cherry-pick; see `cherry_pick` for the errors."""
    picked, where = metadata.snapshots.get(version), metadata.location
    if picked is None:
        raise NoSuchSnapshot(f"{where} has no snapshot {version} to cherry-pick: see Table.inspect('snapshots')")
    line = list(ancestors(metadata.snapshots, metadata.current_snapshot_id))
    if version in {each.id for each in line}:
        raise InvalidOption(f"{where}: the current snapshot already includes snapshot {version}")
    again = [each.id for each in line if each.summary.get(SOURCE) == str(version)]
    if again:
        raise InvalidOption(f"{where}: snapshot {version} was already cherry-picked, as snapshot {again[0]}")
    wap_id = picked.summary.get(STAGED_ID)
    published = [each.id for each in line if wap_id in (each.summary.get(STAGED_ID), each.summary.get(PUBLISHED_ID))]
    if wap_id and published:
        raise InvalidOption(
            f"{where}: snapshot {version} has the wap-id {wap_id!r}, whose changes snapshot {published[0]} already "
            "published"
        )
    if picked.parent_id == metadata.current_snapshot_id:
        return picked
    if picked.operation != _APPEND and not _replaces_partitions(picked):
        raise UnsupportedFeature(
            f"cherry-picking snapshot {version} of {where}, whose operation is {picked.operation or 'not recorded'}",
            "Only appends and dynamic overwrites can be cherry-picked; other snapshots only if their parent "
            f"({picked.parent_id}) is the current snapshot ({metadata.current_snapshot_id}). Make the change again, or "
            "make the snapshot the current one with Table.set_current_snapshot.",
        )
    if _replaces_partitions(picked) and picked.parent_id not in (None, *(each.id for each in line)):
        raise UnsupportedFeature(
            f"cherry-picking snapshot {version} of {where}, which replaced partitions of a snapshot that is not an "
            "ancestor of the current one",
            "Overwrite the partitions again.",
        )
    return picked


def _check_new(picked: IcebergSnapshot, changes: SnapshotChanges, base: CommitBase, storage: Storage) -> None:
    """Raise `InvalidOption` if the table already has a file of the snapshot, whose rows would be duplicated."""
    added = [each["file_path"].cast(pa.string()) for each in changes.added.values()]
    there = find_live_files(pa.chunked_array(added, pa.string()).combine_chunks(), base, storage)
    if len(there):
        raise InvalidOption(
            f"{base.metadata.location}: the current snapshot already has {there[0].as_py()}, which snapshot "
            f"{picked.id} added: its rows would be duplicated"
        )


def cherry_pick_producer(picked: IcebergSnapshot, base: CommitBase, storage: Storage) -> SnapshotProducer:
    """Return the producer of a snapshot that applies the changes of `picked` to a base."""
    changes = snapshot_changes(picked, base.metadata, storage)
    wap_id = picked.summary.get(STAGED_ID)
    summary = {SOURCE: str(picked.id)} | ({PUBLISHED_ID: wap_id} if wap_id else {})
    operation, rebase = picked.operation, None
    if operation == _OVERWRITE:
        operation = _OVERWRITE if base.head is not None else _APPEND
        read = Validation(start=picked.parent_id, schema=base.metadata.schema, partitions=_partitions(changes))
        rebase = Rebase.create(replace(read, checks_deletes=True, checks_removed=True), base, storage)
    return SnapshotProducer(base, storage, operation, changes, summary, rebase)


def snapshot_changes(picked: IcebergSnapshot, metadata: TableMetadata, storage: Storage) -> SnapshotChanges:
    """Return the data files that a snapshot added and removed.

    Raises `UnsupportedFeature` for a snapshot with delete files, `CorruptMetadata` if its manifests lack files that its
    summary counts.
    """
    own = manifest_files(pa.concat_tables(own_manifests([picked], storage)))
    if any(each.content == DELETES for each in own):
        raise UnsupportedFeature(
            f"cherry-picking snapshot {picked.id} of {metadata.location}, which has delete files",
            "Delete the rows again.",
        )
    added: dict[int, list[pa.Table]] = {}
    removed = [pa.array([], pa.string())]
    for manifest, entries in _entries(own, metadata, storage):
        mine = entries.filter(pc.equal(entries["snapshot_id"], picked.id))
        new = mine.filter(pc.equal(mine["status"], ADDED))["data_file"].combine_chunks()
        added.setdefault(manifest.partition_spec_id, []).append(_clear_row_ids(new))
        gone = mine.filter(pc.equal(mine["status"], DELETED))["data_file"].combine_chunks()
        removed.append(gone.field("file_path").cast(pa.string()))
    tables = {spec: pa.concat_tables(each) for spec, each in added.items()}
    changes = SnapshotChanges({spec: each for spec, each in tables.items() if each.num_rows}, pa.concat_arrays(removed))
    _check_whole(picked, changes, metadata)
    return changes


def _entries(
    manifests: list[ManifestFile], metadata: TableMetadata, storage: Storage
) -> list[tuple[ManifestFile, pa.Table]]:
    data = [each for each in manifests if each.content == DATA]
    return list(zip(data, entries_of(data, metadata.specs, storage), strict=True))


def _clear_row_ids(files: pa.StructArray) -> pa.Table:
    """Return data files without their first row ids, so that the commit assigns new ones."""
    table = pa.Table.from_arrays(files.flatten(), names=[each.name for each in files.type])
    place = table.column_names.index("first_row_id")
    return table.set_column(place, "first_row_id", pa.nulls(len(table), pa.int64()))


def _check_whole(picked: IcebergSnapshot, changes: SnapshotChanges, metadata: TableMetadata) -> None:
    found = {
        "added-data-files": sum(each.num_rows for each in changes.added.values()),
        "deleted-data-files": len(changes.removed),
    }
    for name, number in found.items():
        stated = picked.count(name, number)
        if stated is not None and stated > number:
            raise CorruptMetadata(
                f"{metadata.location}: snapshot {picked.id} has {name}={stated} in its summary, but its manifests name "
                f"only {number:,}, so the changes to cherry-pick are unknown. Restore its manifests"
            )


def _partitions(changes: SnapshotChanges) -> pa.Table:
    """Return the partitions of the files that `changes` adds, one row per file: `partition_key` and `spec_id`."""
    kinds = pa.schema([pa.field("partition_key", pa.string()), pa.field("spec_id", pa.int32())])
    parts = [
        add_partition_key(each.select(["partition"]))
        .select(["partition_key"])
        .append_column("spec_id", pa.repeat(pa.scalar(spec_id, pa.int32()), each.num_rows))
        for spec_id, each in changes.added.items()
    ]
    return pa.concat_tables([kinds.empty_table(), *parts])


def _replaces_partitions(picked: IcebergSnapshot) -> bool:
    return picked.operation == _OVERWRITE and picked.summary.get(REPLACES_PARTITIONS, "").lower() == "true"
