"""List all files that an Iceberg table's metadata references, so that none is mistaken for an orphan file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.iceberg.manifests.manifest_entries import read_entries
from lakescan.iceberg.manifests.manifest_file import DELETED, ManifestFile, manifest_files
from lakescan.iceberg.manifests.manifest_list import read_manifest_list
from lakescan.iceberg.metadata.metadata_location import HINT
from lakescan.iceberg.metadata.partition_spec import PartitionSpec
from lakescan.iceberg.metadata.table_metadata_parser import STATISTICS
from lakescan.iceberg.metadata_tables.entries import table_entries
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage, join

_PART_BYTES = 32 << 20  # bytes of manifests that one worker reads one after another


def reachable_files(table: IcebergTable) -> Iterator[pa.Array]:
    """Yield the locations of all files that a table's metadata references, in batches.

    They cover every snapshot in the metadata, whether a branch or tag reaches it or not (staged): data files, delete
    files, manifests and manifest lists. They also include statistics files, the metadata file and its predecessors in
    the metadata log.
    """
    yield pa.array(metadata_locations(table), pa.string())
    yield from _manifest_locations(table, known=())


@dataclass(frozen=True)
class ManifestsPart:
    """Some of a table's manifests, for a worker that lists their live files."""

    manifests: tuple[ManifestFile, ...]
    specs: Mapping[int, PartitionSpec]
    storage: Storage

    def locations(self) -> Iterator[pa.Array]:
        """Yield the locations of the manifests and their live files, one manifest at a time."""
        yield pa.array([each.manifest_path for each in self.manifests], pa.string())
        for manifest in self.manifests:
            entries = read_entries(manifest, self.specs[manifest.partition_spec_id], self.storage)
            live = entries.filter(pc.not_equal(entries["status"], DELETED))
            yield pc.struct_field(live["data_file"].combine_chunks(), "file_path").cast(pa.string())


def manifest_parts(table: IcebergTable) -> list[ManifestsPart]:
    """Return the manifests of all snapshots, each once, in groups of similar size; reads the manifest lists."""
    found: dict[str, ManifestFile] = {}
    for snapshot in table.metadata.snapshots.values():
        for manifest in manifest_files(read_manifest_list(snapshot, table.storage)):
            found.setdefault(manifest.manifest_path, manifest)
    parts, some, size = list[ManifestsPart](), list[ManifestFile](), 0
    for manifest in found.values():
        some.append(manifest)
        size += manifest.manifest_length or 0
        if size >= _PART_BYTES:
            parts.append(ManifestsPart(tuple(some), table.metadata.specs, table.storage))
            some, size = [], 0
    return [*parts, ManifestsPart(tuple(some), table.metadata.specs, table.storage)] if some else parts


def metadata_locations(table: IcebergTable) -> list[str]:
    """Return the locations that the metadata file itself references, and its own.

    These are the version hint, the metadata log's files, the manifest lists and the statistics files. Raises
    `CorruptMetadata` for a damaged metadata log or statistics list.
    """
    metadata = table.metadata
    for name in ("metadata-log", *STATISTICS):
        metadata.check_log(name)
    lists = [each.manifest_list for each in metadata.snapshots.values() if each.manifest_list is not None]
    log = [file for _, file in metadata.metadata_log]
    return [metadata.source, join(metadata.location, "metadata", HINT), *log, *lists, *metadata.statistics_files]


def files_since(table: IcebergTable, known: Collection[int]) -> Iterator[pa.Array]:
    """Yield the locations of all files that snapshots other than the known ones (ids) reference.

    These are manifest lists, manifests, and live data and delete files. Manifests that a known snapshot added are left
    out, and so are the files in them. A file that was written after the known snapshots were read is therefore yielded,
    or no snapshot references it.
    """
    new = [each for each in table.metadata.snapshots.values() if each.id not in known]
    yield pa.array([each.manifest_list for each in new if each.manifest_list is not None], pa.string())
    yield from _manifest_locations(table, known)


def snapshot_files(table: IcebergTable, snapshots: Collection[int]) -> Iterator[pa.Array]:
    """Yield the locations of the files that these snapshots themselves added, with their manifests and lists."""
    mine = pa.array(list(snapshots), pa.int64())
    for snapshot in (table.metadata.snapshots[each] for each in snapshots):
        yield pa.array([] if snapshot.manifest_list is None else [snapshot.manifest_list], pa.string())
        listed = read_manifest_list(snapshot, table.storage)
        own = listed.filter(pc.equal(listed["added_snapshot_id"], snapshot.id))
        yield own["manifest_path"].combine_chunks().cast(pa.string())
        for manifest in manifest_files(own):
            entries = table_entries(manifest, table.metadata, table.storage)
            added = entries.filter(pc.is_in(entries["snapshot_id"], value_set=mine))
            live = added.filter(pc.not_equal(added["status"], DELETED))
            yield pc.struct_field(live["data_file"].combine_chunks(), "file_path")


def _manifest_locations(table: IcebergTable, known: Collection[int]) -> Iterator[pa.Array]:
    """Yield the live files of manifests that no known snapshot (id) added, and finally those manifests, each once."""
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots.values():
        if snapshot.id in known:
            continue
        listed = read_manifest_list(snapshot, table.storage)
        if known:
            added = pc.is_in(listed["added_snapshot_id"], value_set=pa.array(list(known), pa.int64()))
            listed = listed.filter(pc.invert(added))
        for manifest in manifest_files(listed):
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                entries = table_entries(manifest, table.metadata, table.storage)
                live = entries.filter(pc.not_equal(entries["status"], DELETED))
                yield pc.struct_field(live["data_file"].combine_chunks(), "file_path")
    yield pa.array(sorted(seen), pa.string())
