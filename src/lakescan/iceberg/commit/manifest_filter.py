"""Remove files from manifests: manifests that have them are rewritten, all others are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import compress
from operator import not_

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.iceberg.commit.drafts import ManifestDraft, ManifestDrafts
from lakescan.iceberg.commit.summary import SummaryCounters
from lakescan.iceberg.manifests.codes import ADDED, DELETED, EXISTING
from lakescan.iceberg.manifests.entries import entries_of
from lakescan.iceberg.manifests.manifest import STATS
from lakescan.iceberg.manifests.manifest_file import ManifestFile, manifest_files
from lakescan.iceberg.scan.partition_key import add_partition_key

IsRemoved = Callable[[pa.StructArray, pa.Array], pa.Array]  # data files and their sequence numbers -> removed or not


@dataclass(frozen=True)
class RemovedFiles:
    """Removed files of one manifest: rows of `data_file`, their sequence numbers, and their partition spec."""

    files: pa.StructArray
    sequence_numbers: pa.Array
    spec_id: int

    def as_table(self) -> pa.Table:
        """What deletes are matched on: paths, ages, partitions and statistics."""
        stats = [name for name in STATS.values() if self.files.type.get_field_index(name) >= 0]
        columns = {name: self.files.field(name) for name in ("file_path", "partition", "record_count")}
        columns["file_format"] = pc.utf8_lower(self.files.field("file_format"))
        columns["sequence_number"] = pc.fill_null(self.sequence_numbers, 0)
        columns["spec_id"] = pa.repeat(pa.scalar(self.spec_id, pa.int32()), len(self.files))
        columns["stats"] = pa.StructArray.from_arrays([self.files.field(name) for name in stats], names=stats)
        return add_partition_key(pa.table(columns)).drop_columns(["partition"])


@dataclass
class FilterResult:
    """The manifests after a removal: `kept` are places in the given table."""

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
    """Remove the live files for which `is_removed`; manifests that no longer have live files are dropped.

    Only manifests that `may_have` such files are read, and those without live files by the counts of the manifest list:
    readers may read entries beyond these counts. `see` is called with the removed files of each manifest.
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
    """Whether a manifest has live files by its list; unknown counts mean that it may."""
    counts = manifest.added_files_count, manifest.existing_files_count
    return any(count is None or count > 0 for count in counts)


def _set_status(entries: pa.Table, removed: pa.Array, snapshot_id: int) -> pa.Table:
    """Live entries as entries of a new manifest: removed ones deleted by this snapshot, the others existing."""
    status = pc.if_else(removed, pa.scalar(DELETED, pa.int32()), pa.scalar(EXISTING, pa.int32()))
    snapshots = pc.if_else(removed, pa.scalar(snapshot_id, pa.int64()), entries["snapshot_id"])
    columns = {name: entries[name] for name in entries.column_names}
    return pa.table({**columns, "status": status, "snapshot_id": snapshots})


def carry_over_entries(entries: pa.Table, snapshot_id: int) -> pa.Table:
    """Entries of a manifest that is merged into another: only those of this snapshot stay added or deleted."""
    own = pc.equal(entries["snapshot_id"], snapshot_id)
    status = entries["status"]
    kept = pc.or_(pc.not_equal(status, DELETED), own)
    is_added = pc.and_(pc.equal(status, ADDED), own)
    moved = pc.if_else(pc.or_(is_added, pc.equal(status, DELETED)), status, pa.scalar(EXISTING, pa.int32()))
    columns = {name: entries[name] for name in entries.column_names}
    return pa.table({**columns, "status": moved}).filter(kept)
