"""Produce a snapshot: file changes applied to a branch's newest snapshot -> manifests, manifest list and summary.

Manifests without changed files are kept. Manifests with removed files are rewritten, and small ones are merged. See the
specification, "Manifests", "Manifest Lists" and "Snapshots".
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.iceberg.commit.base_manifests import listed_manifests
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.conflicts import Rebase
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.iceberg.commit.manifest_drafts import ManifestDraft, ManifestDrafts
from lakescan.iceberg.commit.manifest_filter import (
    DeleteRemoval,
    FilterResult,
    RemovedFiles,
    all_true,
    carry_over_entries,
    check_found,
    remove_files,
)
from lakescan.iceberg.commit.snapshot_summary import SummaryCounters
from lakescan.iceberg.data_files.encryption import snapshot_keys
from lakescan.iceberg.manifests.manifest_entries import entries_of, least_sequence_number
from lakescan.iceberg.manifests.manifest_file import ADDED, DATA, DELETES, manifest_files
from lakescan.iceberg.manifests.manifest_writer import assign_sequence_numbers, manifest_list_file
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.storage import Storage
from lakescan.storage.encryption.table_keys import EncryptedKey, SnapshotKeys


@dataclass(frozen=True)
class NewSnapshot:
    """A snapshot whose files are stored, but which is not committed yet.

    `key_id` is the id of the manifest list's encryption key, and `new_keys` must be added to the metadata.
    `first_row_id` and `added_rows` are None before format version 3.
    """

    snapshot_id: int
    parent_id: int | None
    sequence_number: int
    manifest_list: str
    operation: str
    summary: Mapping[str, str]
    schema_id: int
    first_row_id: int | None
    added_rows: int | None
    key_id: str | None = None  # the key of the manifest list, in an encrypted table
    new_keys: tuple[EncryptedKey, ...] = ()


@dataclass
class SnapshotProducer:
    """Produces one snapshot for one attempt to commit.

    - `operation`: append, replace, overwrite or delete, for the summary, to which `properties` are added.
    - `changes`: the files to add and remove.
    - `rebase`: the validation against concurrent commits; None if none can conflict.
    """

    base: CommitBase
    storage: Storage
    operation: str
    changes: SnapshotChanges
    properties: Mapping[str, str] = field(default_factory=dict)
    rebase: Rebase | None = None
    snapshot_id: int = field(default_factory=lambda: secrets.randbits(62) + 1)

    def __post_init__(self) -> None:
        properties = self.base.metadata.table_properties
        self._policy = MergePolicy.create(properties)
        self.keys: SnapshotKeys | None = snapshot_keys(self.base.metadata, self.storage)
        self._drafts = ManifestDrafts(self.base, self.storage, self.snapshot_id, self._policy.target_size, self.keys)
        self._counters = SummaryCounters(properties.partitions_in_summary)
        self._replaced = 0

    @property
    def summary(self) -> Mapping[str, str]:
        """The snapshot's summary, available once the snapshot is produced."""
        head = self.base.head
        return self._counters.summary(None if head is None else head.summary, self.properties, self.base.partition_path)

    @property
    def stored_locations(self) -> list[str]:
        """The locations of manifests and manifest list that are, or may be, stored."""
        return self._drafts.stored

    @property
    def lists(self) -> list[str]:
        """The location of the manifest list if it is, or may be, stored; empty before."""
        return self._drafts.lists

    def produce(self) -> NewSnapshot:
        """Store the snapshot's manifests and manifest list.

        Raises `CommitConflict` if a file to remove is missing, or a concurrent commit conflicts.
        """
        if self.rebase is not None:
            self.rebase.check(self.changes.removed)
        before = listed_manifests(self.base, self.storage)
        data = before.filter(pc.equal(before["content"], DATA))
        deletes = before.filter(pc.equal(before["content"], DELETES))
        kept_data = self._remove_data_files(data)
        kept_deletes = self._remove_delete_files(deletes, data, kept_data)
        new_data = self._draft_files(self.changes.added, DATA, self.changes.sequence_number)
        new_deletes = self._draft_files(self.changes.added_deletes, DELETES, self.changes.deletes_sequence_number)
        manifests = pa.concat_tables(
            [
                self._merge_manifests(
                    new_data + kept_data.rewritten, data.take(pa.array(kept_data.kept, pa.int64())), DATA
                ),
                self._merge_manifests(
                    new_deletes + kept_deletes.rewritten, deletes.take(pa.array(kept_deletes.kept, pa.int64())), DELETES
                ),
            ]
        )
        return self._snapshot(manifests)

    def _remove_data_files(self, manifests: pa.Table) -> FilterResult:
        paths, everything, counters = self.changes.removed, self.changes.removes_all, self._counters

        def is_removed(files: pa.StructArray, numbers: pa.Array) -> pa.Array:
            return all_true(files) if everything else pc.is_in(files.field("file_path"), value_set=paths)

        found: list[pa.Array] = []
        removed: list[pa.Table] = []

        def see(some: RemovedFiles) -> None:
            found.append(some.files.field("file_path"))
            if self.rebase is not None and self.rebase.needs_removed:
                removed.append(some.as_table())

        may_have = everything or len(paths) > 0
        result = remove_files(manifests, lambda _: may_have, is_removed, self._drafts, counters, see)
        check_found(self.base, paths, paths, found, "data files")
        if self.rebase is not None and removed:
            number = self.rebase.sequence_number(pa.concat_tables(removed).combine_chunks(), self.changes.added)
            if number is not None:
                self.changes = replace(self.changes, sequence_number=number)
        self._replaced += len(result.rewritten)
        return result

    def _remove_delete_files(self, manifests: pa.Table, data: pa.Table, kept: FilterResult) -> FilterResult:
        """Remove delete files: as requested, those of removed data files only, and those older than all data."""
        stay = manifest_files(data.take(pa.array(kept.kept, pa.int64())))
        removal = DeleteRemoval(
            self.changes,
            self.base,
            self._least_sequence_number(data, kept),
            lambda: least_sequence_number(stay, self.storage),
        )
        result = remove_files(
            manifests, removal.may_have, removal.is_removed, self._drafts, self._counters, removal.see
        )
        removal.check_found()
        self._replaced += len(result.rewritten)
        return result

    def _least_sequence_number(self, data: pa.Table, kept: FilterResult) -> int:
        """Return the least data sequence number of the data files after the commit, by the manifest lists.

        It is at most the sequence number of the last snapshot.
        """
        numbers = [*data["min_sequence_number"].take(pa.array(kept.kept, pa.int64())).to_pylist()]
        numbers += [each.listed["min_sequence_number"] for each in kept.rewritten]
        if self.changes.added and self.changes.sequence_number is not None:
            numbers.append(self.changes.sequence_number)
        known = [number for number in numbers if number is not None]
        return min([*known, max(self.base.sequence_number - 1, 0)])

    def _draft_files(
        self, files: Mapping[int, pa.Table], content: int, sequence_number: int | None
    ) -> list[ManifestDraft]:
        drafts: list[ManifestDraft] = []
        for spec_id, rows in files.items():
            if not rows.num_rows:
                continue
            struct = pa.StructArray.from_arrays([column.combine_chunks() for column in rows.columns], rows.column_names)
            self._counters.add(struct, spec_id)
            entries = pa.table(
                {
                    "status": pa.array(np.full(len(struct), ADDED, np.int32)),
                    "snapshot_id": pa.array(np.full(len(struct), self.snapshot_id)),
                    "sequence_number": pa.repeat(pa.scalar(sequence_number, pa.int64()), len(struct)),
                    "file_sequence_number": pa.nulls(len(struct), pa.int64()),
                    "data_file": struct,
                }
            )
            drafts += self._drafts.drafts(entries, spec_id, content)
        return drafts

    def _merge_manifests(self, drafts: list[ManifestDraft], kept: pa.Table, content: int) -> pa.Table:
        """Merge manifests, new ones first, and store those that result; return their rows of the manifest list.

        Manifests keep their order. If a merged one moved ahead of others, each commit would find other groups to merge.
        """
        specs = [each.listed["partition_spec_id"] for each in drafts] + kept["partition_spec_id"].to_pylist()
        sizes = [len(each.data) for each in drafts] + kept["manifest_length"].to_pylist()
        stay: list[ManifestDraft] = []
        places: list[tuple[bool, int]] = []  # for each manifest, whether it is kept, and its number among those
        for group in self._bins(specs, sizes):
            known = [place - len(drafts) for place in group if place >= len(drafts)]
            if len(group) > 1:
                parts = [drafts[place].entries for place in group if place < len(drafts)]
                places.append((False, len(stay)))
                stay.append(
                    self._drafts.draft(
                        self._merge_entries(parts, kept.take(pa.array(known, pa.int64()))), specs[group[0]], content
                    )
                )
                self._replaced += len(known)
            elif known:
                places += [(True, place) for place in known]
            else:
                places.append((False, len(stay)))
                stay.append(drafts[group[0]])
        rows = [place + len(stay) * is_kept for is_kept, place in places]
        return pa.concat_tables([self._drafts.store(stay), kept]).take(pa.array(rows, pa.int64()))

    def _bins(self, specs: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
        """Group manifests to merge, as indexes; `specs` and `sizes` are their spec ids and sizes in bytes.

        Manifests of a spec whose source column no schema has any more are not merged, because the type of their
        partition values is unknown.
        """
        known = self.base.metadata.specs
        typeless = {each.id for each in known.values() if any(field.type == t.UNKNOWN for field in each.fields)}
        groups = self._policy.bins(specs, sizes)
        return [part for each in groups for part in ([[p] for p in each] if specs[each[0]] in typeless else [each])]

    def _merge_entries(self, parts: list[pa.Table], manifests: pa.Table) -> pa.Table:
        parts += entries_of(manifest_files(manifests), self.base.metadata.specs, self.storage)
        moved = [carry_over_entries(each, self.snapshot_id) for each in parts]
        return pa.concat_tables(moved, promote_options="permissive").combine_chunks()

    def _snapshot(self, manifests: pa.Table) -> NewSnapshot:
        base, head = self.base, self.base.head
        own = pc.sum(pc.equal(manifests["added_snapshot_id"], self.snapshot_id)).as_py() or 0
        self._counters.manifests(created=own, kept=len(manifests) - own, replaced=self._replaced)
        manifests, next_row_id = assign_sequence_numbers(manifests, base.sequence_number, base.next_row_id)
        parent = None if head is None else head.id
        data = manifest_list_file(
            manifests, base.format_version, self.snapshot_id, parent, base.sequence_number, base.next_row_id
        )
        location, key_id = self._drafts.store_list(data)
        added_rows = None if next_row_id is None or base.next_row_id is None else next_row_id - base.next_row_id
        return NewSnapshot(
            self.snapshot_id,
            parent,
            base.sequence_number,
            location,
            self.operation,
            self.summary,
            base.metadata.current_schema_id,
            base.next_row_id,
            added_rows,
            key_id,
            () if self.keys is None else tuple(self.keys.added),
        )


@dataclass(frozen=True)
class MergePolicy:
    """The settings for merging manifests, from the table properties `commit.manifest*`.

    These are `commit.manifest-merge.enabled`, `commit.manifest.target-size-bytes` and
    `commit.manifest.min-count-to-merge`.
    """

    enabled: bool
    target_size: int
    min_count: int

    @staticmethod
    def create(properties: IcebergProperties) -> MergePolicy:
        """Return the merge policy of a table."""
        return MergePolicy(properties.merges_manifests, properties.manifest_size, properties.min_manifests_to_merge)

    def bins(self, specs: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
        """Group manifests (as indexes) to merge; a group of one is kept.

        New manifests come first. They are merged only in groups of at least `min_count`, so that not every commit
        rewrites the newest group. Groups are filled from the end, so that the first group, which the next commit may
        merge, is the smallest.
        """
        if not self.enabled or not specs:
            return [[place] for place in range(len(specs))]
        grouped: list[list[int]] = []
        for spec in sorted(set(specs), reverse=True):
            packed = self._pack([place for place, each in enumerate(specs) if each == spec], sizes)
            for group in packed:
                if 0 in group and len(group) < self.min_count:
                    grouped += [[place] for place in group]
                else:
                    grouped.append(group)
        return grouped

    def _pack(self, places: list[int], sizes: Sequence[int]) -> list[list[int]]:
        packed: list[list[int]] = []
        left = 0
        for place in reversed(places):
            if not packed or sizes[place] > left:
                packed.append([])
                left = self.target_size
            packed[-1].append(place)
            left -= sizes[place]
        return [group[::-1] for group in reversed(packed)]
