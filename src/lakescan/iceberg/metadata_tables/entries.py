"""The metadata tables of files: `entries`, `files`, `data_files`, `delete_files`, and their `all_...` versions.

Manifests are read and checked as in scans, but with more columns. Inherited values are filled in afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.iceberg.manifests import manifest_writer
from lakescan.iceberg.manifests.avro_decode import decoding_file
from lakescan.iceberg.manifests.bounds import decode_values
from lakescan.iceberg.manifests.manifest_entries import read_entries
from lakescan.iceberg.manifests.manifest_file import DATA, DELETED, ManifestFile, manifest_files
from lakescan.iceberg.manifests.manifest_list import snapshot_manifests
from lakescan.iceberg.manifests.manifest_reader import as_partition_type, only_chunk
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.planning.file_table import struct_of
from lakescan.storage import Storage
from lakescan.storage.errors import redact

PARTITION_ID = 102
_LATEST = 3
_SPEC_ID = t.Field(141, "spec_id", t.INT, doc="Partition spec id")


def data_file_fields(partition: t.Struct) -> tuple[t.Field, ...]:
    """Return the columns of a data file: its members in manifests, the spec id, and `partition` if partitioned."""
    stored = manifest_writer.data_file_fields(partition, _LATEST)
    fields = [replace(each, required=False) if each.id in (134, PARTITION_ID) else each for each in stored]
    fields.insert(3, _SPEC_ID)
    return tuple(each for each in fields if each.id != PARTITION_ID or partition.fields)


def entry_schema(partition: t.Struct) -> Schema:
    """Return the columns of manifest entries (specification, "Manifests")."""
    return Schema(
        (
            t.Field(0, "status", t.INT, required=True, doc="0 existing, 1 added, 2 deleted"),
            t.Field(1, "snapshot_id", t.LONG),
            t.Field(3, "sequence_number", t.LONG),
            t.Field(4, "file_sequence_number", t.LONG),
            t.Field(2, "data_file", t.Struct(data_file_fields(partition)), required=True),
        )
    )


@dataclass(frozen=True)
class EntriesTable:
    """The manifest entries of some snapshots; with `as_files`, only live entries, shown as files.

    `data` and `deletes` select data manifests and delete manifests.
    """

    metadata: TableMetadata
    storage: Storage
    snapshots: tuple[IcebergSnapshot, ...]
    data: bool
    deletes: bool
    as_files: bool

    @cached_property
    def schema(self) -> Schema:
        """The columns of the entry or file, followed by its statistics by column name (`readable_metrics`)."""
        metrics = t.Field(READABLE_METRICS, "readable_metrics", self._metrics)
        if self.as_files:
            return Schema((*data_file_fields(self.metadata.partition_type), metrics))
        return Schema((*entry_schema(self.metadata.partition_type).fields, metrics))

    @cached_property
    def _metrics(self) -> t.Struct:
        return metrics_type(self.metadata.schema)

    def parts(self) -> Sequence[ManifestFile]:
        """Return the manifests of the snapshots, without duplicates."""
        manifests: dict[str, ManifestFile] = {}
        for snapshot in self.snapshots:
            for manifest in manifest_files(snapshot_manifests(snapshot, self.metadata, self.storage)):
                if self.data if manifest.content == DATA else self.deletes:
                    manifests.setdefault(manifest.manifest_path, manifest)
        return list(manifests.values())

    def read(self, part: ManifestFile) -> Iterator[pa.RecordBatch]:
        """Yield the entries of one manifest.

        `key_metadata` is null for encrypted tables, because it contains the keys of the files.
        """
        entries = table_entries(part, self.metadata, self.storage)
        if self.metadata.table_properties.is_encrypted:
            entries = _clear_keys(entries)
        if self.as_files:
            entries = entries.filter(pc.not_equal(entries["status"], DELETED))
        files = only_chunk(entries["data_file"])
        metrics = metrics_column(files, self.metadata.schema, self._metrics)
        columns = files.flatten() if self.as_files else [c.combine_chunks() for c in entries.columns]
        yield pa.RecordBatch.from_arrays([*columns, metrics], schema=self.schema.arrow())


def table_entries(manifest: ManifestFile, metadata: TableMetadata, storage: Storage) -> pa.Table:
    """Return all entries of a manifest as in `entry_schema`, deleted ones included, with inherited values filled in."""
    spec_id = manifest.partition_spec_id
    entries = read_entries(manifest, metadata.specs[spec_id], storage)
    with decoding_file(redact(manifest.manifest_path)):
        files = only_chunk(entries["data_file"])
        columns = {field.name: column for field, column in zip(files.type, files.flatten(), strict=True)}
        columns["spec_id"] = pa.repeat(pa.scalar(spec_id, pa.int32()), len(files))
        columns["partition"] = _partitions(columns["partition"], metadata, spec_id)
        fields = data_file_fields(metadata.partition_type)
        shaped = pa.StructArray.from_arrays([columns[f.name] for f in fields], fields=[f.arrow() for f in fields])
        own = [only_chunk(entries[name]) for name in entries.column_names if name != "data_file"]
        return pa.table([*own, shaped], schema=entry_schema(metadata.partition_type).arrow())


def _clear_keys(entries: pa.Table) -> pa.Table:
    files = only_chunk(entries["data_file"])
    members = [
        pa.nulls(len(files), field.type) if field.name == "key_metadata" else column
        for field, column in zip(files.type, files.flatten(), strict=True)
    ]
    place = entries.column_names.index("data_file")
    return entries.set_column(
        place, entries.schema.field(place), pa.StructArray.from_arrays(members, fields=list(files.type))
    )


def _partitions(values: pa.StructArray, metadata: TableMetadata, spec_id: int) -> pa.StructArray:
    """Convert partition values of one spec to the struct type of all specs (`TableMetadata.partition_type`).

    Fields that the spec lacks are null.
    """
    places = {field.id: place for place, field in enumerate(metadata.specs[spec_id].fields)}
    members = {
        f.name: as_partition_type(values.field(places[f.id]), f.type.arrow())
        if f.id in places
        else pa.nulls(len(values), f.type.arrow())
        for f in metadata.partition_type.fields
    }
    return struct_of(members, len(values)).cast(metadata.partition_type.arrow())


READABLE_METRICS = 1_000_000  # the first field id of the metrics, above the ids of all columns
_COUNTS = {
    "column_size": "column_sizes",
    "value_count": "value_counts",
    "null_value_count": "null_value_counts",
    "nan_value_count": "nan_value_counts",
}
_BOUNDS = {"lower_bound": "lower_bounds", "upper_bound": "upper_bounds"}


def _leaves(schema: Schema) -> list[tuple[str, t.Field]]:
    """Return the columns of primitive types, also inside nested types, with their full names, sorted by name."""
    named = sorted((path, schema.by_id[i]) for i, path in schema.path_of.items())
    return [(path, f) for path, f in named if not t.children(f.type) and f.type not in (t.VARIANT, t.UNKNOWN)]


def metrics_type(schema: Schema) -> t.Struct:
    """Return a struct type with one struct per column: counts, and bounds in the column's type."""
    columns, next_id = [], READABLE_METRICS + 1
    for path, field in _leaves(schema):
        kinds = [*((n, t.LONG) for n in _COUNTS), *((n, field.type) for n in _BOUNDS)]
        members = tuple(t.Field(next_id + 1 + i, name, kind) for i, (name, kind) in enumerate(kinds))
        columns.append(t.Field(next_id, path, t.Struct(members)))
        next_id += 1 + len(members)
    return t.Struct(tuple(columns))


def metrics_column(files: pa.StructArray, schema: Schema, kind: t.Struct) -> pa.StructArray:
    """Return the statistics of files by column, as the struct type `kind` from `metrics_type`.

    `files` has the statistics maps of manifest entries, by field id. Statistics that a file lacks are null.
    """
    leaves = _leaves(schema)
    ids = np.array([field.id for _, field in leaves], dtype=np.int64)
    counts = [_Values.read(files, name, ids) for name in _COUNTS.values()]
    bounds = [_Values.read(files, name, ids) for name in _BOUNDS.values()]
    columns = {}
    for place, (target, (path, field)) in enumerate(zip(kind.fields, leaves, strict=True)):
        members = [*(each.at(place) for each in counts), *(_bound(each, place, field.type) for each in bounds)]
        columns[path] = pa.StructArray.from_arrays(members, fields=list(target.type.arrow()))
    if not columns:
        return struct_of(columns, len(files))
    return pa.StructArray.from_arrays(list(columns.values()), fields=list(kind.arrow()))


@dataclass(frozen=True)
class _Values:
    """One statistic (a map by field id) of files, with its values sorted by field id.

    - `rows`, `values`: the file and the value of each map entry.
    - `low`, `high`: the entries of the n-th wanted field id are `low[n]` to `high[n]` (exclusive).
    - `files`: the number of files.
    """

    rows: np.ndarray
    values: pa.Array
    low: np.ndarray
    high: np.ndarray
    files: int

    @staticmethod
    def read(files: pa.StructArray, name: str, keys: np.ndarray) -> _Values:
        maps = files.field(name)
        owner = pc.list_parent_indices(pa.ListArray.from_arrays(maps.offsets, maps.keys)).to_numpy()
        start = maps.offsets[0].as_py() if len(maps) else 0
        own, values = (each.slice(start, len(owner)) for each in (maps.keys, maps.items))
        order = np.argsort(own.to_numpy(), kind="stable")
        ordered = own.to_numpy()[order]
        low, high = (np.searchsorted(ordered, keys, side=side) for side in ("left", "right"))
        return _Values(owner[order], values.take(pa.array(order)), low, high, len(files))

    def has(self, place: int) -> bool:
        """Return whether any file has a value for the field id number `place` of the wanted ids."""
        return bool(self.low[place] < self.high[place])

    def at(self, place: int) -> pa.Array:
        """Return each file's value, or null, for the field id number `place` of the wanted ids."""
        if not self.has(place):
            return pa.nulls(self.files, self.values.type)
        index = np.full(self.files, -1, dtype=np.int64)
        index[self.rows[self.low[place] : self.high[place]]] = np.arange(self.low[place], self.high[place])
        return self.values.take(pa.array(index, mask=index < 0))


def _bound(statistic: _Values, place: int, kind: t.Type) -> pa.Array:
    arrow = kind.arrow()
    if not statistic.has(place):
        return pa.nulls(statistic.files, arrow)
    serialized = statistic.at(place)
    if kind == t.UUID:
        return pa.ExtensionArray.from_storage(arrow, serialized.cast(pa.binary(16)))
    if isinstance(kind, t.Geospatial):
        return serialized
    decoded = decode_values(serialized, kind)
    return pa.nulls(len(serialized), arrow) if decoded is None else decoded.cast(arrow)
