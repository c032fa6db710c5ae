"""Manifests and manifest lists with other paths. Their entries stay as they are in all else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.iceberg.maintenance.rewrite_table_path.prefixes import Prefixes
from lakescan.iceberg.manifests.avro_container import open_container
from lakescan.iceberg.manifests.bounds import value_of_key
from lakescan.iceberg.manifests.codes import DELETED, POSITION_DELETES
from lakescan.iceberg.manifests.entries import entries_in
from lakescan.iceberg.manifests.manifest import as_pairs, open_manifests
from lakescan.iceberg.manifests.manifest_file import DELETES, ManifestFile
from lakescan.iceberg.manifests.manifest_list_writer import manifest_list_file
from lakescan.iceberg.manifests.manifest_writer import ManifestWriter
from lakescan.iceberg.metadata.partition_spec import PartitionSpec
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot
from lakescan.reading.deletes.positions import DELETED_PATH
from lakescan.storage import Storage

_NO_DELETES: tuple[pa.Array, pa.Array] = (pa.nulls(0, pa.string()), pa.nulls(0, pa.int64()))
COPIES = pa.schema([pa.field("source", pa.string()), pa.field("target", pa.string())])


@dataclass(frozen=True)
class ManifestMove:
    """Writes manifests again, below the staging prefix; pickled for workers.

    `new` are the ids of the snapshots whose files are to be copied; None for all files: some are of snapshots that have
    expired. `sizes` are the paths of delete files that were rewritten, and their new sizes.
    """

    prefixes: Prefixes
    staging: Prefixes
    specs: Mapping[int, PartitionSpec]
    storage: Storage
    new: frozenset[int] | None
    sizes: tuple[pa.Array, pa.Array] = field(default=_NO_DELETES)

    def __call__(self, manifest: ManifestFile) -> tuple[str, int, pa.Table]:
        """Rewrite a manifest; return its path, its new size in bytes, and the files to copy (`COPIES`)."""
        spec = self.specs[manifest.partition_spec_id]
        (container,) = open_manifests([manifest], self.storage)
        entries = entries_in(container, manifest, spec)
        files = entries["data_file"].combine_chunks()
        moved = self._move_files(files, manifest.content)
        place = entries.schema.get_field_index("data_file")
        data = self._writer(container.metadata, manifest, spec).write(entries.set_column(place, "data_file", moved))
        location = self.staging.move(manifest.manifest_path, "the manifest")
        with self.storage.writing(location) as sink:
            sink.write(data)
        return manifest.manifest_path, len(data), self._copies(entries, files, moved)

    def _writer(self, header: Mapping[str, bytes], manifest: ManifestFile, spec: PartitionSpec) -> ManifestWriter:
        """Writes in the format version, and with the schema and spec, that the manifest has."""
        return ManifestWriter(
            int(header.get("format-version", b"1")),
            header["schema"].decode(),
            int(header.get("schema-id", b"0")),
            manifest.partition_spec_id,
            header["partition-spec"].decode(),
            t.Struct(tuple(t.Field(each.id, each.name, each.type) for each in spec.fields)),
            manifest.content,
        )

    def _move_files(self, files: pa.StructArray, content: int) -> pa.StructArray:
        columns = dict(zip((each.name for each in files.type), files.flatten(), strict=True))
        columns["file_path"] = self.prefixes.move_all(columns["file_path"], "the file")
        if content == DELETES:
            columns["referenced_data_file"] = self.prefixes.move_all(columns["referenced_data_file"], "the data file")
            known = pc.index_in(files.field("file_path"), value_set=self.sizes[0])
            columns["file_size_in_bytes"] = pc.coalesce(self.sizes[1].take(known), columns["file_size_in_bytes"])
            paths = self._path_bounds(files)
            for name in ("lower_bounds", "upper_bounds"):
                columns[name] = replace_map_value(columns[name], DELETED_PATH.id, paths)
        return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))

    def _path_bounds(self, files: pa.StructArray) -> pa.Array:
        """The bound of the path in each file of deletes of one data file; null for others, whose bounds say nothing."""
        lower, upper = (value_of_key(files, name, DELETED_PATH.id) for name in ("lower_bounds", "upper_bounds"))
        if lower is None or upper is None:
            return pa.nulls(len(files), pa.binary())
        one = pc.fill_null(pc.equal(lower, upper), False)
        paths = pc.if_else(one, lower, pa.scalar(None, pa.binary())).cast(pa.string())
        return self.prefixes.move_all(paths, "the data file").cast(pa.binary())

    def _copies(self, entries: pa.Table, files: pa.StructArray, moved: pa.StructArray) -> pa.Table:
        """The live files that the new snapshots added: those that were rewritten from where they are staged."""
        chosen = pc.not_equal(entries["status"], DELETED)
        if self.new is not None:
            is_new = pc.is_in(entries["snapshot_id"], value_set=pa.array(sorted(self.new), pa.int64()))
            chosen = pc.and_(chosen, is_new)
        chosen = chosen.combine_chunks()
        files, moved = files.filter(chosen), moved.filter(chosen)
        source = files.field("file_path")
        staged = pc.equal(files.field("content"), POSITION_DELETES)
        source = pc.if_else(staged, self.staging.move_all(source, "the file"), source)
        return pa.table([source, moved.field("file_path")], schema=COPIES)


@dataclass(frozen=True)
class PositionDeletes:
    """Lists the live position deletes of manifests: their paths, formats and offsets; pickled for workers."""

    specs: Mapping[int, PartitionSpec]
    storage: Storage

    def __call__(self, manifest: ManifestFile) -> pa.Table:
        """Those of one manifest of deletes."""
        (container,) = open_manifests([manifest], self.storage)
        entries = entries_in(container, manifest, self.specs[manifest.partition_spec_id])
        live = entries.filter(pc.not_equal(entries["status"], DELETED))
        files = pa.Table.from_struct_array(live["data_file"].combine_chunks())
        return files.filter(pc.equal(files["content"], POSITION_DELETES)).select(
            ["file_path", "file_format", "content_offset", "key_metadata"]
        )


def move_manifest_list(
    snapshot: IcebergSnapshot, manifests: pa.Table, sizes: Mapping[str, int], prefixes: Prefixes, storage: Storage
) -> bytes:
    """The manifest list of a snapshot with other paths; `sizes` are those of manifests that were rewritten, by path."""
    path = str(snapshot.manifest_list)
    header = open_container(storage.read(path), path).metadata
    paths = manifests["manifest_path"].combine_chunks()
    known = pc.index_in(paths, value_set=pa.array(list(sizes), pa.string()))
    lengths = pc.coalesce(pa.array(list(sizes.values()), pa.int64()).take(known), manifests["manifest_length"])
    changed = {"manifest_path": prefixes.move_all(paths, "the manifest"), "manifest_length": lengths}
    columns = [changed.get(name, manifests[name]) for name in manifests.column_names]
    first_row_id = header.get("first-row-id", b"null")
    return manifest_list_file(
        pa.table(columns, schema=manifests.schema),
        _list_version(header, manifests),
        snapshot.id,
        snapshot.parent_id,
        snapshot.sequence_number,
        None if first_row_id == b"null" else int(first_row_id),
    )


def _list_version(header: Mapping[str, bytes], manifests: pa.Table) -> int:
    """The format version of a list; what it holds tells the least one, if its header does not say."""
    given = int(header.get("format-version", b"1"))
    if manifests["first_row_id"].null_count < len(manifests):
        return max(given, 3)
    needs_2 = pc.or_(pc.greater(manifests["sequence_number"], 0), pc.equal(manifests["content"], DELETES))
    return max(given, 2) if pc.any(needs_2).as_py() else given


def replace_map_value(maps: pa.MapArray, key: int, values: pa.Array) -> pa.MapArray:
    """Maps by field id whose value of a key is replaced, in each row that has it; a null leaves the key out.

    `values` has a value for each row.
    """
    lists = as_pairs(maps, pa.binary())
    rows = pc.list_parent_indices(lists).to_numpy()
    pairs = lists.flatten()
    keys, items = pairs.field(0), pairs.field(1)
    new = pc.if_else(pc.equal(keys, key), values.take(pa.array(rows)), items)
    kept = new.is_valid()
    counts = np.bincount(rows[kept.to_numpy(zero_copy_only=False)], minlength=len(maps))
    ends = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    mask = maps.is_null() if maps.null_count else None
    return pa.MapArray.from_arrays(ends, keys.filter(kept), new.filter(kept), type=maps.type, mask=mask)
