"""Commit the expiration of snapshots, branches and tags (which ones: see `metadata/snapshot_retention.py`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.iceberg.commit.outcomes import FailedCommit, commit
from lakescan.iceberg.manifests.manifest_entries import read_entries
from lakescan.iceberg.manifests.manifest_file import (
    DATA_FILE,
    DELETED,
    EQUALITY_DELETES,
    POSITION_DELETES,
    ManifestFile,
    manifest_files,
)
from lakescan.iceberg.manifests.manifest_list import read_manifest_list
from lakescan.iceberg.metadata.application_transactions import move_records
from lakescan.iceberg.metadata.partition_spec import PartitionSpec
from lakescan.iceberg.metadata.snapshot_retention import Expiration
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.table import Table


def commit_expiry(table: Table, now: IcebergTable, expired: Expiration, storage: Storage) -> FailedCommit | None:
    """Remove snapshots and refs if the table is still as in `now`. Returns None on success, else the failed commit."""
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
    gone = sorted(expired.snapshots.intersection(counted))  # pyiceberg removes only the other statistics
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
    """Return the requirement that the set of refs is unchanged, for pyiceberg's own catalogs.

    REST has no such requirement, so a concurrently created ref goes unnoticed there. The commit asserts only the known
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


FILES = pa.schema([pa.field("path", pa.string()), pa.field("kind", pa.string())])
_PART_BYTES = 32 << 20  # bytes of manifests that one worker reads one after another
_KINDS = {DATA_FILE: "data", POSITION_DELETES: "position deletes", EQUALITY_DELETES: "equality deletes"}


@dataclass(frozen=True)
class ExpiredPart:
    """One part of the files of expired snapshots, for a worker.

    `known` are files (`FILES`) that need no reading, and `manifests` are those whose live files have yet to be read.
    """

    known: pa.Table
    manifests: tuple[ManifestFile, ...]
    specs: Mapping[int, PartitionSpec]
    storage: Storage

    def files(self) -> Iterator[pa.Table]:
        """Yield the path and kind of files (`FILES`): the known ones, then the live files of one manifest at a time."""
        yield self.known
        for manifest in self.manifests:
            entries = read_entries(manifest, self.specs[manifest.partition_spec_id], self.storage)
            files = entries.filter(pc.not_equal(entries["status"], DELETED))["data_file"].combine_chunks()
            for content, kind in _KINDS.items():
                mine = files.filter(pc.equal(files.field("content"), content))
                yield _file_rows(mine.field("file_path").cast(pa.string()), kind)


def split_expired_files(table: IcebergTable, snapshots: Collection[int]) -> list[ExpiredPart]:
    """Return the files (`FILES`) of snapshots: manifest lists, manifests of no other snapshot, and their live files.

    They are split into parts, whose manifests workers read. The manifest lists of all snapshots are read here. Files
    may also be in other manifests. The statistics files are those of the whole table, because only the new metadata
    shows which of them stay.
    """
    metadata, storage, ids = table.metadata, table.storage, frozenset(snapshots)
    known = [metadata.snapshots[each] for each in ids if each in metadata.snapshots]
    lists = _file_rows([each.manifest_list for each in known if each.manifest_list is not None], "manifest list")
    manifests = _own_manifests(table, ids)
    paths = _file_rows([each.manifest_path for each in manifests], "manifest")
    first = pa.concat_tables([lists, _file_rows(list(metadata.statistics_files), "statistics"), paths])
    parts, some, size = [ExpiredPart(first, (), metadata.specs, storage)], list[ManifestFile](), 0
    for number, manifest in enumerate(manifests, 1):
        some.append(manifest)
        size += manifest.manifest_length or 0
        if size >= _PART_BYTES or number == len(manifests):
            parts.append(ExpiredPart(FILES.empty_table(), tuple(some), metadata.specs, storage))
            some, size = [], 0
    return parts


def _own_manifests(table: IcebergTable, ids: frozenset[int]) -> list[ManifestFile]:
    """Return the manifests that only snapshots with these ids list, each once."""
    kept, listed = set[str](), dict[str, ManifestFile]()
    for snapshot in table.metadata.snapshots.values():
        found = read_manifest_list(snapshot, table.storage)
        if snapshot.id in ids:
            listed |= {each.manifest_path: each for each in manifest_files(found)}
        else:
            kept.update(found["manifest_path"].to_pylist())
    return [listed[path] for path in sorted(listed.keys() - kept)]


def _file_rows(paths: list[str] | pa.Array, kind: str) -> pa.Table:
    column = paths if isinstance(paths, pa.Array) else pa.array(paths, pa.string())
    return pa.table([column, pa.repeat(pa.scalar(kind), len(column))], schema=FILES)
