"""The commits of a branch since the state that a writer read: their snapshots, and the files that they changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import CommitConflict
from lakescan.expressions.predicate import TRUE, Predicate, leaves
from lakescan.iceberg.manifests.batches import batches_of
from lakescan.iceberg.manifests.list_checks import check_specs
from lakescan.iceberg.manifests.manifest_file import DATA, DELETES, ManifestFile
from lakescan.iceberg.manifests.manifest_list import MANIFESTS, own_manifests, read_manifest_list
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata, ancestors
from lakescan.iceberg.scan.manifest_scan import ManifestScan
from lakescan.storage import Storage

# What a summary counts, and where manifest lists count the same.
_COUNTED = (
    ("added-data-files", DATA, "added_files_count"),
    ("deleted-data-files", DATA, "deleted_files_count"),
    ("added-delete-files", DELETES, "added_files_count"),
)


@dataclass(frozen=True)
class ConcurrentCommits:
    """The commits after a snapshot, oldest first. `metadata` is the table's newest, which has their snapshots."""

    snapshots: tuple[IcebergSnapshot, ...]
    metadata: TableMetadata
    storage: Storage

    @staticmethod
    def find(metadata: TableMetadata, head: int | None, start: int | None, storage: Storage) -> ConcurrentCommits:
        """The commits after the snapshot `start` (None: since the branch began) up to `head`.

        Raises `CommitConflict` if some of them are not known any more, or the branch was rolled back.
        """
        found: list[IcebergSnapshot] = []
        for each in ancestors(metadata.snapshots, head):
            if each.id == start:
                break
            found.append(each)
        since = ConcurrentCommits(tuple(reversed(found)), metadata, storage)
        at = found[-1].parent_id if found else head
        if at != start or (start is None and not since._begins_with_nothing):
            read = "the table was empty" if start is None else f"snapshot {start}"
            raise CommitConflict(
                f"{metadata.location}: the commits since {read}, which this commit read, cannot be checked: "
                f"snapshots have expired, or the branch was rolled back (it is at {head}). Read it again, and retry."
            )
        return since

    def __bool__(self) -> bool:
        return bool(self.snapshots)

    @property
    def _begins_with_nothing(self) -> bool:
        """Whether the oldest commit has no files of commits before it.

        Some writers leave out the parent of a snapshot once that has expired, as if the snapshot were the first one.
        """
        if not self.snapshots:
            return True
        manifests = read_manifest_list(self.snapshots[0], self.storage)
        is_own = pc.equal(manifests["added_snapshot_id"], self.snapshots[0].id)
        has_own_files_only = pc.and_(is_own, pc.equal(manifests["existing_files_count"], 0))
        return bool(pc.all(pc.fill_null(has_own_files_only, False)).as_py())

    @property
    def operations(self) -> Mapping[int, str]:
        """The operation of each snapshot by its id."""
        return {each.id: each.operation for each in self.snapshots}

    def added_files(self, where: Predicate, schema: Schema) -> pa.Table:
        """The data files that were added, and that may have rows that match a filter (bound to `schema`)."""
        return self._read_files(DATA, where, schema, lambda scan, some: scan.changed_files(some))

    def removed_files(self, where: Predicate, schema: Schema) -> pa.Table:
        """The data files that were removed, and that may have had rows that match a filter."""
        return self._read_files(DATA, where, schema, lambda scan, some: scan.changed_files(some), removed=True)

    def deletes(self, where: Predicate, schema: Schema) -> pa.Table:
        """The delete files that were added, and that may delete rows that match a filter, by their partitions."""
        return self._read_files(DELETES, where, schema, lambda scan, some: scan.changed_deletes(some))

    @cached_property
    def all_added(self) -> pa.Table:
        """The data files that were added."""
        return self.added_files(TRUE, self.metadata.schema)

    @cached_property
    def all_removed(self) -> pa.Table:
        """The data files that were removed."""
        return self.removed_files(TRUE, self.metadata.schema)

    @cached_property
    def all_deletes(self) -> pa.Table:
        """The delete files that were added."""
        return self.deletes(TRUE, self.metadata.schema)

    @cached_property
    def _manifests(self) -> pa.Table:
        """The manifests that the commits wrote."""
        own = own_manifests(self.snapshots, self.storage)
        manifests = pa.concat_tables(own) if own else MANIFESTS.empty_table()
        check_specs(manifests, self.metadata.specs)
        return manifests

    @cached_property
    def _entries(self) -> dict[str, dict[int, int]]:
        """The number of entries by snapshot, by the name of what summaries count."""
        changed = zip(_COUNTED, (self.all_added, self.all_removed, self.all_deletes), strict=True)
        return {
            counted[0]: {each["values"]: each["counts"] for each in files["changed_by"].value_counts().to_pylist()}
            for counted, files in changed
        }

    def check_whole(self) -> None:
        """Raise `CommitConflict` if the manifests name fewer files than a summary counts: which others is unknown.

        Some writers leave manifests out of the list, instead of writing entries of the files that they removed.
        """
        keys, names = ["added_snapshot_id", "content"], ["added_files_count", "deleted_files_count"]
        sums = self._manifests.group_by(keys).aggregate([(name, "sum") for name in names]).to_pylist()
        listed = {(each["added_snapshot_id"], each["content"]): each for each in sums}
        for snapshot in self.snapshots:
            for name, content, column in _COUNTED:
                stated = snapshot.count(name, 0) or 0
                if (listed.get((snapshot.id, content), {}).get(f"{column}_sum") or 0) < stated:
                    self._check_entries(snapshot, name, stated)  # lists may be wrong

    def _check_entries(self, snapshot: IcebergSnapshot, name: str, stated: int) -> None:
        found = self._entries[name].get(snapshot.id, 0)
        if found < stated:
            raise CommitConflict(
                f"{self.metadata.location}: snapshot {snapshot.id} ({snapshot.operation}) of another writer has "
                f"{name}={stated} in its summary, but its manifests name only {found:,}: whether this commit "
                "conflicts with it is unknown. Read the table again, and retry."
            )

    def _read_files(
        self,
        content: int,
        where: Predicate,
        schema: Schema,
        read: Callable[[ManifestScan, list[ManifestFile]], pa.Table],
        *,
        removed: bool = False,
    ) -> pa.Table:
        scan = ManifestScan(
            specs=self.metadata.specs,
            schema=schema,
            partition_names={},
            predicate=where,
            columns=_stats_columns(where, schema),
            storage=self.storage,
            changed_by=tuple(each.id for each in self.snapshots),
            removed=removed,
        )
        manifests = self._manifests.filter(pc.equal(self._manifests["content"], content))
        parts = [read(scan, batch) for batch in batches_of(manifests)]
        return (
            pa.concat_tables(parts, promote_options="permissive").combine_chunks() if parts else CHANGED.empty_table()
        )


def _stats_columns(where: Predicate, schema: Schema) -> dict[int, t.Field]:
    ids = {leaf.bound_id for leaf in leaves(where)}
    return {number: schema.by_id[number] for number in ids if number in schema.by_id}


CHANGED = pa.schema(
    [
        pa.field("file_path", pa.string()),
        pa.field("changed_by", pa.int64()),
        pa.field("spec_id", pa.int32()),
        pa.field("partition_key", pa.string()),
        pa.field("content", pa.int32()),
        pa.field("file_format", pa.string()),
        pa.field("referenced_data_file", pa.string()),
        pa.field("sequence_number", pa.int64()),
    ]
)
