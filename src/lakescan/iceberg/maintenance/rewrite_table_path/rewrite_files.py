"""Rewrite manifests, manifest lists and delete files with other paths, and keep everything else in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.common import types as t
from lakescan.errors import CorruptData, InvalidOption, UnsupportedFeature
from lakescan.iceberg.manifests.avro_decode import open_container
from lakescan.iceberg.manifests.bounds import value_of_key
from lakescan.iceberg.manifests.manifest_entries import entries_in
from lakescan.iceberg.manifests.manifest_file import DELETED, DELETES, POSITION_DELETES, ManifestFile
from lakescan.iceberg.manifests.manifest_reader import as_pairs, open_manifests
from lakescan.iceberg.manifests.manifest_writer import ManifestWriter, manifest_list_file
from lakescan.iceberg.metadata.partition_spec import PartitionSpec
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot
from lakescan.reading.decoding_errors import decoding
from lakescan.reading.deletes.position_deletes import DELETED_PATH
from lakescan.reading.parquet.file import open_parquet
from lakescan.storage import Storage
from lakescan.storage.errors import redact, storage_boundary
from lakescan.writing.puffin import MAGIC

_NO_DELETES: tuple[pa.Array, pa.Array] = (pa.nulls(0, pa.string()), pa.nulls(0, pa.int64()))
COPIES = pa.schema([pa.field("source", pa.string()), pa.field("target", pa.string())])


@dataclass(frozen=True)
class ManifestMove:
    """Rewrites manifests into the staging prefix; pickled for workers.

    `new` are the ids of the snapshots whose files must be copied; None for all files, including those of expired
    snapshots. `sizes` are the paths of rewritten delete files, and their new sizes.
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
        """Return a writer for the format version, schema and spec of the manifest."""
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
        """Return the bound of the paths in each delete file, with the target prefix, as binary.

        It is null unless both bounds are the path of one data file. Other bounds are not rewritten.
        """
        lower, upper = (value_of_key(files, name, DELETED_PATH.id) for name in ("lower_bounds", "upper_bounds"))
        if lower is None or upper is None:
            return pa.nulls(len(files), pa.binary())
        one = pc.fill_null(pc.equal(lower, upper), False)
        paths = pc.if_else(one, lower, pa.scalar(None, pa.binary())).cast(pa.string())
        return self.prefixes.move_all(paths, "the data file").cast(pa.binary())

    def _copies(self, entries: pa.Table, files: pa.StructArray, moved: pa.StructArray) -> pa.Table:
        """Return the live files that the snapshots `new` added, as files to copy (`COPIES`).

        Position delete files, which were rewritten, are copied from the staging folder.
        """
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
        """Return the live position deletes of one delete manifest."""
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
    """Return a snapshot's manifest list with other paths; `sizes` are those of rewritten manifests, by path."""
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
    """Return the format version of a list from its header, or the least version that its contents need."""
    given = int(header.get("format-version", b"1"))
    if manifests["first_row_id"].null_count < len(manifests):
        return max(given, 3)
    needs_2 = pc.or_(pc.greater(manifests["sequence_number"], 0), pc.equal(manifests["content"], DELETES))
    return max(given, 2) if pc.any(needs_2).as_py() else given


def replace_map_value(maps: pa.MapArray, key: int, values: pa.Array) -> pa.MapArray:
    """Return maps by field id with the value of one key replaced in each row that has it; null removes the key.

    `values` has one value for each row.
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


@dataclass(frozen=True)
class Prefixes:
    """The prefix of source paths, and the prefix that replaces it; trailing slashes make no difference.

    Example:
        >>> Prefixes("s3://lake/t", "s3://other/t/").move("s3://lake/t/data/1.parquet", "the data file")
        's3://other/t/data/1.parquet'
    """

    source: str
    target: str

    def move(self, path: str, what: str) -> str:
        """Return the path with the target prefix; raises `InvalidOption` if it lacks the source prefix.

        `what` names the kind of path in the message.
        """
        (found,) = self.move_all(pa.array([path], pa.string()), what).to_pylist()
        return str(found)

    def move_all(self, paths: pa.Array, what: str) -> pa.Array:
        """Return many paths with the target prefix, like `move`; nulls stay."""
        source, target = self.source.rstrip("/"), self.target.rstrip("/")
        is_below = pc.or_(pc.starts_with(paths, f"{source}/"), pc.equal(paths, source))
        if (place := pc.index(is_below, False).as_py()) >= 0:
            raise InvalidOption(
                f"source_prefix={self.source!r}: {what} {paths[place].as_py()} does not begin with it. Give the prefix "
                "that all paths in the table's metadata have, spelled as in the metadata"
            )
        rest = pc.utf8_slice_codeunits(paths, len(source))
        return pc.binary_join_element_wise(pa.scalar(target), rest, "")


_WHAT = "a deleted row's data file"
_TAIL = 12  # bytes of a Puffin footer after its payload (the payload's size, flags, magic)
_REFERENCED = "referenced-data-file"


@dataclass(frozen=True)
class DeleteFileMove:
    """Rewrites delete files into the staging prefix; pickled for workers."""

    prefixes: Prefixes
    staging: Prefixes
    storage: Storage

    def __call__(self, file: tuple[str, str]) -> tuple[str, int]:
        """Rewrite a file, given by its path and format; return its path and new size in bytes.

        Raises `UnsupportedFeature` for formats other than Puffin and Parquet.
        """
        path, file_format = file
        location = self.staging.move(path, "the delete file")
        if file_format == "puffin":
            data = move_vectors(self.storage.read(path), path, self.prefixes)
            with self.storage.create(location) as sink:
                sink.write(data)
            return path, len(data)
        if file_format == "parquet":
            return path, self._parquet(path, location)
        raise UnsupportedFeature(
            f"rewriting the paths of position deletes in {file_format} files",
            f"{path} is one. Convert them to Parquet files with Table.rewrite_position_deletes(rewrite_all=True), and "
            "expire the snapshots that have it.",
        )

    def _parquet(self, path: str, location: str) -> int:
        """Rewrite the paths in a Parquet file, one row group at a time, and return its new size; other columns stay."""
        with open_parquet(self.storage, path) as data, decoding(path, "its position deletes"):
            file = data.file
            schema = file.schema_arrow
            place = _path_column(schema, path)
            field = schema.field(place).with_type(pa.dictionary(pa.int32(), pa.string()))
            schema = schema.set(place, field).remove_metadata()
            written = {name: value for name, value in (file.metadata.metadata or {}).items() if name != b"ARROW:schema"}
            with (
                self.storage.create(location) as sink,
                storage_boundary("written", location, passing=pa.ArrowException),
            ):
                with pq.ParquetWriter(sink, schema, compression="zstd", store_schema=False) as writer:
                    for number in range(file.num_row_groups):
                        writer.write_table(self._move_paths(file.read_row_group(number), place, schema))
                    writer.add_key_value_metadata(written)
                return int(sink.tell())

    def _move_paths(self, rows: pa.Table, place: int, schema: pa.Schema) -> pa.Table:
        paths = rows.column(place).cast(pa.string()).combine_chunks().dictionary_encode()
        names = self.prefixes.move_all(paths.dictionary, _WHAT)
        moved = pa.DictionaryArray.from_arrays(paths.indices, names)
        columns = [moved if number == place else column for number, column in enumerate(rows.columns)]
        return pa.table(columns, schema=schema)


def _path_column(schema: pa.Schema, path: str) -> int:
    ids = [(field.metadata or {}).get(b"PARQUET:field_id") for field in schema]
    wanted = str(DELETED_PATH.id).encode()
    place = ids.index(wanted) if wanted in ids else schema.get_field_index(DELETED_PATH.name)
    if place < 0:
        raise CorruptData(f"{redact(path)} lacks the column 'file_path': it was replaced by another file. Restore it.")
    return place


def move_vectors(data: bytes, path: str, prefixes: Prefixes) -> bytes:
    """Return a Puffin file whose blobs reference other data files; the blobs stay at their offsets.

    Raises `CorruptData` for a file that is not a Puffin file, `UnsupportedFeature` for a compressed footer.
    """
    size = int.from_bytes(data[-_TAIL : 4 - _TAIL], "little") if len(data) >= _TAIL + 8 else -1
    start = len(data) - _TAIL - size - len(MAGIC)
    if size < 0 or start < len(MAGIC) or {data[:4], data[-4:], data[start : start + 4]} != {MAGIC}:
        raise CorruptData(f"{redact(path)} is not a Puffin file: restore it")
    flags = data[4 - _TAIL : -4]
    if flags[0] & 1:
        raise UnsupportedFeature("Puffin files with a compressed footer", f"{path} is one.")
    try:
        footer = json.loads(data[start + 4 : start + 4 + size])
        blobs = [_move_blob(each, prefixes) for each in footer.get("blobs", [])]
    except (ValueError, AttributeError, TypeError) as error:
        raise CorruptData(f"{redact(path)} has a footer that is not a JSON object of blobs: restore it") from error
    payload = json.dumps({**footer, "blobs": blobs}, ensure_ascii=False).encode()
    return data[:start] + MAGIC + payload + len(payload).to_bytes(4, "little") + flags + MAGIC


def _move_blob(blob: dict[str, Any], prefixes: Prefixes) -> dict[str, Any]:
    properties = blob.get("properties") or {}
    if _REFERENCED not in properties:
        return blob
    return {**blob, "properties": {**properties, _REFERENCED: prefixes.move(properties[_REFERENCED], _WHAT)}}
