"""Remove files from manifests: rewrite the manifests that contain them, and keep all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from operator import not_

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.errors import CommitConflict
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.iceberg.commit.manifest_drafts import ManifestDraft, ManifestDrafts
from lakescan.iceberg.commit.row_delta import added_vectors
from lakescan.iceberg.commit.snapshot_summary import SummaryCounters
from lakescan.iceberg.manifests.bounds import decode_values, value_of_key
from lakescan.iceberg.manifests.manifest_entries import entries_of
from lakescan.iceberg.manifests.manifest_file import ADDED, DELETED, EXISTING, ManifestFile, manifest_files
from lakescan.iceberg.manifests.manifest_reader import STATS
from lakescan.iceberg.metadata.partition_spec import add_partition_key
from lakescan.reading.deletes.position_deletes import DELETED_PATH

IsRemoved = Callable[[pa.StructArray, pa.Array], pa.Array]  # data files and their sequence numbers -> removed or not


@dataclass(frozen=True)
class RemovedFiles:
    """Removed files of one manifest: rows of `data_file`, their sequence numbers, and their partition spec."""

    files: pa.StructArray
    sequence_numbers: pa.Array
    spec_id: int

    def as_table(self) -> pa.Table:
        """Return the files with the columns that `Validation.check_deletes` needs.

        These are paths, formats, sequence numbers, partitions, record counts and statistics.
        """
        stats = [name for name in STATS.values() if self.files.type.get_field_index(name) >= 0]
        columns = {name: self.files.field(name) for name in ("file_path", "partition", "record_count")}
        columns["file_format"] = pc.utf8_lower(self.files.field("file_format"))
        columns["sequence_number"] = pc.fill_null(self.sequence_numbers, 0)
        columns["spec_id"] = pa.repeat(pa.scalar(self.spec_id, pa.int32()), len(self.files))
        columns["stats"] = pa.StructArray.from_arrays([self.files.field(name) for name in stats], names=stats)
        return add_partition_key(pa.table(columns)).drop_columns(["partition"])


@dataclass
class FilterResult:
    """The manifests after a removal: row numbers of the kept ones in the given table, and the rewritten ones."""

    kept: list[int] = field(default_factory=list)
    rewritten: list[ManifestDraft] = field(default_factory=list)


def remove_files(
    manifests: pa.Table,
    may_have: Callable[[ManifestFile], bool],
    is_removed: IsRemoved,
    drafts: ManifestDrafts,
    counters: SummaryCounters,
    see: Callable[[RemovedFiles], None],
) -> FilterResult:
    """Remove the live files for which `is_removed` is true; drop manifests that no longer have live files.

    Only two kinds of manifests are read: those that `may_have` such files, and those without live files by the counts
    of the manifest list, because readers may read entries beyond these counts. `see` is called with the removed files
    of each manifest.
    """
    result = FilterResult()
    listed = list(enumerate(manifest_files(manifests)))
    is_searched = [may_have(manifest) or not _has_live_files(manifest) for _, manifest in listed]
    result.kept += [place for place, _ in compress(listed, map(not_, is_searched))]
    searched = list(compress(listed, is_searched))
    specs = drafts.base.metadata.specs
    entries_of_all = entries_of([manifest for _, manifest in searched], specs, drafts.storage)
    for (place, manifest), entries in zip(searched, entries_of_all, strict=True):
        entries = entries.filter(pc.not_equal(entries["status"], DELETED)).combine_chunks()
        if not entries.num_rows:
            continue
        files = entries["data_file"].combine_chunks()
        numbers = entries["sequence_number"].combine_chunks()
        removed = is_removed(files, numbers)
        if not pc.any(removed).as_py():
            result.kept.append(place)
            continue
        gone = files.filter(removed)
        counters.remove(gone, manifest.partition_spec_id)
        see(RemovedFiles(gone, numbers.filter(removed), manifest.partition_spec_id))
        rewritten = _set_status(entries, removed, drafts.snapshot_id)
        result.rewritten.append(drafts.draft(rewritten, manifest.partition_spec_id, manifest.content))
    result.kept.sort()
    return result


def _has_live_files(manifest: ManifestFile) -> bool:
    """Return whether a manifest may have live files by its list; unknown counts mean that it may."""
    counts = manifest.added_files_count, manifest.existing_files_count
    return any(count is None or count > 0 for count in counts)


def _set_status(entries: pa.Table, removed: pa.Array, snapshot_id: int) -> pa.Table:
    """Return live entries as entries of a new manifest: removed ones deleted by this snapshot, others existing."""
    status = pc.if_else(removed, pa.scalar(DELETED, pa.int32()), pa.scalar(EXISTING, pa.int32()))
    snapshots = pc.if_else(removed, pa.scalar(snapshot_id, pa.int64()), entries["snapshot_id"])
    columns = {name: entries[name] for name in entries.column_names}
    return pa.table({**columns, "status": status, "snapshot_id": snapshots})


def carry_over_entries(entries: pa.Table, snapshot_id: int) -> pa.Table:
    """Return the entries of a manifest for merging into another; only those of this snapshot stay added or deleted."""
    own = pc.equal(entries["snapshot_id"], snapshot_id)
    status = entries["status"]
    kept = pc.or_(pc.not_equal(status, DELETED), own)
    is_added = pc.and_(pc.equal(status, ADDED), own)
    moved = pc.if_else(pc.or_(is_added, pc.equal(status, DELETED)), status, pa.scalar(EXISTING, pa.int32()))
    columns = {name: entries[name] for name in entries.column_names}
    return pa.table({**columns, "status": moved}).filter(kept)


_PUFFIN = "PUFFIN"


@dataclass
class DeleteRemoval:
    """Selects delete files to remove: as requested, those of removed data files only, and those older than all data.

    `least` is the least sequence number of the data that stays, by the manifest list. It may be too high, so
    `least_in_entries` reads it from the manifests before a delete counts as older.
    """

    changes: SnapshotChanges
    base: CommitBase
    least: int
    least_in_entries: Callable[[], int | None]
    _found: list[pa.Array] = field(default_factory=list)

    @cached_property
    def _gone(self) -> pa.Array:
        return _keys_of(pa.concat_tables([self.changes.removed_deletes, self.changes.unused_deletes]))

    @cached_property
    def _vectors(self) -> pa.Array:
        return added_vectors(self.changes)

    @cached_property
    def _least_sequence_number(self) -> int:
        number = self.least_in_entries()
        return self.least if number is None else min(self.least, number)

    def may_have(self, manifest: ManifestFile) -> bool:
        """Return whether a manifest may have delete files to remove, or vectors of data files that get a new vector."""
        names_some = len(self._gone) or len(self.changes.removed) or len(self._vectors)
        return self.changes.removes_all or bool(names_some) or (manifest.min_sequence_number or 0) < self.least

    def is_removed(self, files: pa.StructArray, numbers: pa.Array) -> pa.Array:
        """Return a mask of the delete files to remove; `numbers` are their sequence numbers.

        Raises `CommitConflict` if a data file would have a vector in addition to its new one.
        """
        if self.changes.removes_all:
            return all_true(files)
        keys = _keys(files.field("file_path"), files.field("content_offset"))
        named = pc.is_in(keys, value_set=self._gone)
        is_vector, referenced = pc.equal(files.field("file_format"), _PUFFIN), files.field("referenced_data_file")
        dangling = pc.is_in(self._data_files_of(files), value_set=self.changes.removed)
        goes = pc.or_(pc.or_(named, dangling), self._is_old(numbers))
        doubled = pc.and_(pc.and_(is_vector, pc.invert(goes)), pc.is_in(referenced, value_set=self._vectors))
        if (place := pc.index(doubled, True).as_py()) >= 0:
            raise CommitConflict(
                f"{self.base.metadata.location}: {referenced[place].as_py()} already has a deletion vector, which the "
                "new one does not replace. Merge the two, and remove the old one in the same commit."
            )
        return goes

    def _data_files_of(self, files: pa.StructArray) -> pa.Array:
        """Return the one data file that each delete file applies to; null if there are several or it is unknown.

        Equality deletes have no bounds of `DELETED_PATH`, because no table column has its field id.
        """
        referenced = files.field("referenced_data_file")
        if not len(self.changes.removed) or not referenced.null_count:
            return referenced
        lower, upper = (value_of_key(files, name, DELETED_PATH.id) for name in ("lower_bounds", "upper_bounds"))
        if lower is None or upper is None:
            return referenced
        paths = decode_values(pc.if_else(pc.equal(lower, upper), lower, pa.scalar(None, lower.type)), t.STRING)
        return referenced if paths is None else pc.coalesce(referenced, paths)

    def _is_old(self, numbers: pa.Array) -> pa.Array:
        known = pc.fill_null(numbers, 0)
        old = pc.and_(pc.greater(known, 0), pc.less(known, self.least))
        return pc.and_(old, pc.less(known, self._least_sequence_number)) if pc.any(old).as_py() else old

    def see(self, some: RemovedFiles) -> None:
        """Record removed delete files of one manifest, for `check_found`."""
        self._found.append(_keys(some.files.field("file_path"), some.files.field("content_offset")))

    def check_found(self) -> None:
        """Raise `CommitConflict` if a delete file to remove was in no manifest.

        With `replaces_positions`, only deletion vectors are checked.
        """
        removed = self.changes.removed_deletes
        paths, gone = removed["path"].combine_chunks(), _keys_of(removed)
        if self.changes.replaces_positions:
            is_vector = pc.is_valid(removed["content_offset"].combine_chunks())
            paths, gone = paths.filter(is_vector), gone.filter(is_vector)
        check_found(self.base, gone, paths, self._found, "delete files")


def check_found(base: CommitBase, keys: pa.Array, paths: pa.Array, found: Sequence[pa.Array], what: str) -> None:
    """Raise `CommitConflict` if one of the files to remove is not among those that were found.

    `keys` identify the files to remove, and `paths` are their locations; `found` has the keys of found files, and
    `what` names the kind of files in the message.
    """
    known = pa.concat_arrays(found) if found else pa.array([], pa.string())
    missing = paths.filter(pc.invert(pc.is_in(keys, value_set=known)))
    if len(missing):
        raise CommitConflict(
            f"{base.metadata.location}: {len(missing):,} of the {what} to remove are not in the branch "
            f"{base.branch!r}, among them {missing[0].as_py()}: another commit removed them"
        )


def all_true(files: pa.StructArray) -> pa.Array:
    """Return a mask that is true for each file."""
    return pa.repeat(pa.scalar(True), len(files))


def _keys_of(deletes: pa.Table) -> pa.Array:
    return _keys(deletes["path"].combine_chunks(), deletes["content_offset"].combine_chunks())


def _keys(paths: pa.Array, offsets: pa.Array) -> pa.Array:
    """Return each delete file's path with the offset of a vector, to distinguish the vectors of a Puffin file."""
    return pc.binary_join_element_wise(pc.fill_null(offsets.cast(pa.string()), ""), paths, "|")
