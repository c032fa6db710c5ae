"""Detect conflicts between a commit and the concurrent commits made since the snapshot that it read.

The rules are those of Iceberg's `MergingSnapshotProducer` and its subclasses. The files that a concurrent commit added
or removed are tables of manifest entries (`CHANGED`), and `Validation` decides which of them are conflicts. This module
does no I/O itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import CommitConflict
from lakescan.expressions.predicate import TRUE, Predicate, leaves
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.manifests.manifest_file import DATA, DELETES, EQUALITY_DELETES, POSITION_DELETES, ManifestFile
from lakescan.iceberg.manifests.manifest_list import MANIFESTS, check_specs, own_manifests, read_manifest_list
from lakescan.iceberg.manifests.manifest_reader import batches_of
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata, ancestors
from lakescan.iceberg.metadata.table_properties import SERIALIZABLE
from lakescan.iceberg.scan.delete_index import DeleteIndex
from lakescan.iceberg.scan.file_names import FileNames
from lakescan.iceberg.scan.manifest_scan import ManifestScan
from lakescan.storage import Storage
from lakescan.storage.locations import LocationMatcher

_SAME_ROWS = "replace"  # the operation of commits that change files but not rows
_DELETE = "delete"
_PUFFIN = "puffin"


@dataclass(frozen=True)
class Validation:
    """The data that a commit read, and the changes of concurrent commits that conflict with it.

    - `start`: the id of the snapshot that was read; None for a branch without snapshots.
    - `where`: the filter of the rows that were read, bound to `schema`; None if only the removed files were read.
    - `partitions`: instead of a filter, the partitions that are replaced: tables of `spec_id` and `partition_key`.
    - `isolation`: `serializable` (no concurrent commit may have added rows that match the filter) or `snapshot`.
    - `checks_removed`: no concurrent commit may have removed data files that may have had such rows.
    - `checks_deletes`: no concurrent commit may have added delete files that may apply to such rows.
    - `referenced`: data files that the commit's delete files refer to; they must still exist.
    - `ignores_deletes`: referenced files may have been removed by commits with the operation `delete` that added no
      files, because then all their rows are deleted.
    - `vectors`: data files that get a deletion vector from the commit; no concurrent commit may have added one.
    - `all_deleted`: the rows of the removed files are deleted and none is rewritten. Concurrent deletes then do not
      matter, unless their commits also added rows, which may be changed versions of the deleted ones.
    - `same_rows`: the removed files are rewritten. Concurrent equality deletes still apply to new files that keep the
      old sequence number, so they are no conflict.
    """

    start: int | None
    schema: Schema
    where: Predicate | None = None
    partitions: pa.Table | None = None
    isolation: str = SERIALIZABLE
    checks_removed: bool = False
    checks_deletes: bool = False
    referenced: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    ignores_deletes: bool = False
    vectors: pa.Array = field(default_factory=lambda: pa.array([], pa.string()))
    all_deleted: bool = False
    same_rows: bool = False

    @staticmethod
    def create(base: CommitBase, **more: Any) -> Validation:
        """Return the validation of a commit that read the newest snapshot of `base`; `more` are other attributes."""
        start = None if base.head is None else base.head.id
        return Validation(**{"start": start, "schema": base.metadata.schema, **more})

    @property
    def _filter(self) -> Predicate | None:
        return TRUE if self.partitions is not None else self.where

    def check(self, since: ConcurrentCommits, replaced: pa.Array, places: LocationMatcher) -> None:
        """Raise `CommitConflict` if one of the concurrent commits `since` conflicts with the data that was read.

        `replaced` are the data files that the commit removes; `places` compares locations.
        """
        if not since:
            return
        since.check_whole()
        if len(replaced):
            gone = since.all_removed.filter(_is_same_location(since.all_removed["file_path"], replaced, places))
            self._refuse(since, gone, "removed", "which this commit replaces")
        if self._filter is not None:
            self._check_rows(since, self._filter)
        if len(self.referenced):
            removed = _exclude_pure_deletes(since, since.all_removed) if self.ignores_deletes else since.all_removed
            missing = removed.filter(_is_same_location(removed["file_path"], self.referenced, places))
            self._refuse(since, missing, "removed", "to which delete files of this commit refer")
        if len(self.vectors):
            is_vector = pc.equal(since.all_deletes["file_format"], _PUFFIN)
            by_position = pc.equal(since.all_deletes["content"], POSITION_DELETES)
            hidden = since.all_deletes.filter(pc.and_not(by_position, is_vector))
            self._refuse(since, hidden, "added", "position deletes, which the vectors that this commit adds would hide")
            vectors = since.all_deletes.filter(is_vector)
            doubled = vectors.filter(_is_same_location(vectors["referenced_data_file"], self.vectors, places))
            self._refuse(since, doubled, "added", "a deletion vector of a data file for which this commit adds one")

    def _check_rows(self, since: ConcurrentCommits, where: Predicate) -> None:
        if self.isolation == SERIALIZABLE:
            added = _relevant_files(self._inside(since.added_files(where, self.schema)), since, {_SAME_ROWS})
            self._refuse(since, added, "added", f"which may have {self._description}")
        if self.checks_removed:
            removed = self._inside(since.removed_files(where, self.schema))
            self._refuse(since, removed, "removed", f"which may have had {self._description}")
        if self.checks_deletes:
            deletes = _relevant_files(self._inside(since.deletes(where, self.schema)), since, {_SAME_ROWS})
            self._refuse(since, deletes, "added", f"which may delete {self._description}")

    def _inside(self, files: pa.Table) -> pa.Table:
        """Return the files that are in `partitions`; all files if only a filter limits the data that was read."""
        if self.partitions is None:
            return files
        return files.filter(pc.is_in(_partition(files), value_set=_partition(self.partitions).combine_chunks()))

    @property
    def _description(self) -> str:
        if self.partitions is not None:
            return "rows of a partition that this commit replaces"
        return "rows, all of which this commit replaces" if self.where == TRUE else f"rows that match {self.where}"

    def _refuse(self, since: ConcurrentCommits, files: pa.Table, did: str, why: str) -> None:
        if not files.num_rows:
            return
        path, by = files["file_path"][0].as_py(), files["changed_by"][0].as_py()
        raise CommitConflict(
            f"{since.metadata.location}: another writer changed rows that this commit read: its snapshot {by} "
            f"({since.operations[by] or 'no operation'}) {did} {path}, {why}. Read them again, and retry."
        )

    def check_deletes(
        self, since: ConcurrentCommits, removed: pa.Table, specs: Collection[int], places: LocationMatcher
    ) -> bool:
        """Raise `CommitConflict` if concurrently added delete files apply to data files that the commit removes.

        `removed` are these data files: the columns of `CHANGED`, `file_format`, `record_count` and `stats`. `specs` are
        the partition specs of the files that replace them. Returns whether the new files must keep an old sequence
        number, so that concurrent equality deletes apply to them too.
        """
        added = _exclude_pure_deletes(since, since.all_deletes) if self.all_deleted else since.all_deletes
        deletes = _newest_vectors(_relevant_files(added, since, {_SAME_ROWS}))
        if not deletes.num_rows or not removed.num_rows:
            return False
        unpartitioned = frozenset(each.id for each in since.metadata.specs.values() if each.is_unpartitioned)
        index = DeleteIndex.build(deletes, unpartitioned, since.metadata.all_fields, places)
        names = FileNames(pc.unique(removed["file_path"]), places)
        applied = index.match(removed, names).reference_mask(index.entries.num_rows)
        hits = index.entries.filter(pa.array(applied))
        is_equality = pc.equal(hits["content"], EQUALITY_DELETES)
        others = hits.filter(pc.invert(is_equality)) if self.same_rows else hits
        self._refuse(since, others, "added", "which may delete rows of data files that this commit replaces")
        if hits.num_rows and not set(removed["spec_id"].unique().to_pylist()) <= set(specs):
            # Equality deletes apply only to files of their own spec, unless it is unpartitioned.
            everywhere = pc.is_in(deletes["spec_id"], value_set=pa.array(sorted(unpartitioned), pa.int32()))
            scoped = deletes.filter(pc.and_(pc.equal(deletes["content"], EQUALITY_DELETES), pc.invert(everywhere)))
            why = "which deletes rows of one partition spec, while this commit rewrites rows in another spec"
            self._refuse(since, scoped, "added", why)
        return hits.num_rows > 0


@dataclass(frozen=True)
class Rebase:
    """A commit's validation against the concurrent commits `since`, which it is based on if they do not conflict."""

    validation: Validation
    since: ConcurrentCommits
    places: LocationMatcher

    @staticmethod
    def create(validation: Validation, base: CommitBase, storage: Storage) -> Rebase:
        """Find the concurrent commits from the validation's `start` to the branch's newest snapshot in `base`.

        Raises `CommitConflict` if some of them have expired, or the branch was rolled back.
        """
        head = None if base.head is None else base.head.id
        since = ConcurrentCommits.find(base.metadata, head, validation.start, storage)
        return Rebase(validation, since, storage.places(base.metadata.location))

    def check(self, replaced: pa.Array) -> None:
        """Raise `CommitConflict` if a concurrent commit conflicts with the data that this commit read or replaces."""
        self.validation.check(self.since, replaced, self.places)

    def deleted_whole(self, files: pa.Array) -> pa.Array:
        """Return a mask of the data files that a concurrent `delete` commit without added data files removed.

        All their rows are deleted then.
        """
        if not self.since:
            return pa.repeat(pa.scalar(False), len(files))
        others = _exclude_pure_deletes(self.since, self.since.all_removed)["file_path"].combine_chunks()
        gone = self.since.all_removed["file_path"].combine_chunks()
        return _is_same_location(files, gone.filter(pc.invert(pc.is_in(gone, value_set=others))), self.places)

    @property
    def needs_removed(self) -> bool:
        """Whether `removed` must be passed to `sequence_number`, because concurrent commits added delete files."""
        return bool(self.since) and self.since.all_deletes.num_rows > 0

    def sequence_number(self, removed: pa.Table, specs: Collection[int]) -> int | None:
        """Return the sequence number of files that replace `removed`, with the given specs; None for the commit's own.

        The number is older than the concurrent commits if their equality deletes apply to the rewritten rows. Raises
        `CommitConflict`; see `Validation.check_deletes`.
        """
        if not self.validation.check_deletes(self.since, removed, specs, self.places):
            return None
        return self.since.snapshots[0].sequence_number - 1


def _is_same_location(paths: pa.Array | pa.ChunkedArray, names: pa.Array, places: LocationMatcher) -> pa.Array:
    """Return a mask of the paths that are the location of one of the names, however it is spelled."""
    return pc.is_in(places.canonicalize(paths), value_set=pc.unique(places.canonicalize(names)))


def _relevant_files(files: pa.Table, since: ConcurrentCommits, ignored: set[str]) -> pa.Table:
    """Return the files (`CHANGED`) changed by snapshots whose operation is not in `ignored`."""
    ids = [number for number, operation in since.operations.items() if operation not in ignored]
    return files.filter(pc.is_in(files["changed_by"], value_set=pa.array(ids, pa.int64())))


def _exclude_pure_deletes(since: ConcurrentCommits, files: pa.Table) -> pa.Table:
    """Return the files without those changed by commits with the operation `delete` that added no data files.

    Some writers also use the operation `delete` when they rewrite the other rows of the files.
    """
    deleting = pa.array([number for number, operation in since.operations.items() if operation == _DELETE], pa.int64())
    by_deletes = pc.is_in(files["changed_by"], value_set=deleting)
    by_rewriting = pc.is_in(files["changed_by"], value_set=pc.unique(since.all_added["changed_by"]))
    return files.filter(pc.or_(pc.invert(by_deletes), by_rewriting))


def _partition(files: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(files["spec_id"].cast(pa.string()), files["partition_key"], "/")


def _newest_vectors(deletes: pa.Table) -> pa.Table:
    """Return the delete files with only the newest vector of each data file, as later vectors replace others."""
    if not deletes.num_rows:
        return deletes
    is_vector = pc.equal(deletes["file_format"], _PUFFIN).to_numpy()
    order = np.argsort(-deletes["sequence_number"].to_numpy(), kind="stable")
    vectors = order[is_vector[order]]
    names = deletes["referenced_data_file"].take(pa.array(vectors)).combine_chunks().dictionary_encode()
    _, first = np.unique(names.indices.to_numpy(), return_index=True)
    kept = np.sort(np.concatenate([np.flatnonzero(~is_vector), vectors[first]]))
    return deletes.take(pa.array(kept))


# The counts of a summary, and the manifest list columns that count the same.
_COUNTED = (
    ("added-data-files", DATA, "added_files_count"),
    ("deleted-data-files", DATA, "deleted_files_count"),
    ("added-delete-files", DELETES, "added_files_count"),
)


@dataclass(frozen=True)
class ConcurrentCommits:
    """The commits after a snapshot, oldest first; `metadata` is the table's newest metadata, which lists them."""

    snapshots: tuple[IcebergSnapshot, ...]
    metadata: TableMetadata
    storage: Storage

    @staticmethod
    def find(metadata: TableMetadata, head: int | None, start: int | None, storage: Storage) -> ConcurrentCommits:
        """Return the commits after the snapshot `start` up to `head`; with None, all since the branch began.

        Raises `CommitConflict` if some of them have expired, or the branch was rolled back.
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
        """Whether the oldest commit contains no files of earlier commits.

        Some writers drop the parent id of a snapshot when the parent expires, as if the snapshot were the first.
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
        """Return the added data files that may have rows that match a filter (bound to `schema`)."""
        return self._read_files(DATA, where, schema, lambda scan, some: scan.changed_files(some))

    def removed_files(self, where: Predicate, schema: Schema) -> pa.Table:
        """Return the removed data files that may have had rows that match a filter."""
        return self._read_files(DATA, where, schema, lambda scan, some: scan.changed_files(some), removed=True)

    def deletes(self, where: Predicate, schema: Schema) -> pa.Table:
        """Return the added delete files that may delete rows that match a filter, by their partitions."""
        return self._read_files(DELETES, where, schema, lambda scan, some: scan.changed_deletes(some))

    @cached_property
    def all_added(self) -> pa.Table:
        """All data files that were added, as table of `CHANGED`."""
        return self.added_files(TRUE, self.metadata.schema)

    @cached_property
    def all_removed(self) -> pa.Table:
        """All data files that were removed, as table of `CHANGED`."""
        return self.removed_files(TRUE, self.metadata.schema)

    @cached_property
    def all_deletes(self) -> pa.Table:
        """All delete files that were added, as table of `CHANGED`."""
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
        """The number of changed files in manifests, by summary counter (such as `added-data-files`) and snapshot id."""
        changed = zip(_COUNTED, (self.all_added, self.all_removed, self.all_deletes), strict=True)
        return {
            counted[0]: {each["values"]: each["counts"] for each in files["changed_by"].value_counts().to_pylist()}
            for counted, files in changed
        }

    def check_whole(self) -> None:
        """Raise `CommitConflict` if manifests name fewer files than a summary counts, so that some changes are unknown.

        Some writers leave manifests out of the list instead of writing entries of the files that they removed.
        """
        keys, names = ["added_snapshot_id", "content"], ["added_files_count", "deleted_files_count"]
        sums = self._manifests.group_by(keys).aggregate([(name, "sum") for name in names]).to_pylist()
        listed = {(each["added_snapshot_id"], each["content"]): each for each in sums}
        for snapshot in self.snapshots:
            for name, content, column in _COUNTED:
                stated = snapshot.count(name, 0) or 0
                if (listed.get((snapshot.id, content), {}).get(f"{column}_sum") or 0) < stated:
                    self._check_entries(snapshot, name, stated)  # the counts of lists may be wrong

    def _check_entries(self, snapshot: IcebergSnapshot, name: str, stated: int) -> None:
        found = self._entries[name].get(snapshot.id, 0)
        if found < stated:
            raise CommitConflict(
                f"{self.metadata.location}: snapshot {snapshot.id} ({snapshot.operation}) of another writer has "
                f"{name}={stated} in its summary, but its manifests name only {found:,}, so it is unknown whether this "
                "commit conflicts with it. Read the table again, and retry."
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
