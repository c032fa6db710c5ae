"""The metadata tables of files: `entries`, `files`, `data_files`, `delete_files`, and their `all_...` versions.

Manifests are read and checked as by scans, but with more columns; inherited values are filled in afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.iceberg.manifests.avro import decoding, read_avro
from lakescan.iceberg.manifests.manifest import (
    as_pairs,
    as_partition_type,
    checked_rows,
    file_columns,
    inherited_row_ids,
    inherited_sequence_numbers,
    only_chunk,
    open_manifests,
    partition_values,
)
from lakescan.iceberg.manifests.manifest_checks import DELETED, check_files
from lakescan.iceberg.manifests.manifest_file import DATA, ManifestFile, manifest_files
from lakescan.iceberg.manifests.snapshot_manifests import snapshot_manifests
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.metadata_tables.readable_metrics import READABLE_METRICS, metrics_column, metrics_type
from lakescan.planning.file_table import struct_of
from lakescan.storage import Storage

PARTITION_ID = 102
_SEQUENCE_NUMBER = t.Field(3, "sequence_number", t.LONG)
_FILE_SEQUENCE_NUMBER = t.Field(4, "file_sequence_number", t.LONG)


def _map(field_id: int, name: str, key_id: int, value: t.Type, doc: str) -> t.Field:
    key = t.Field(key_id, "key", t.INT, required=True)
    return t.Field(field_id, name, t.MapOf(key, t.Field(key_id + 1, "value", value, required=True)), doc=doc)


def _list(field_id: int, name: str, element_id: int, value: t.Type, doc: str) -> t.Field:
    return t.Field(field_id, name, t.ListOf(t.Field(element_id, "element", value, required=True)), doc=doc)


def data_file_fields(partition: t.Struct) -> tuple[t.Field, ...]:
    """The columns of a data file; without `partition` for unpartitioned tables."""
    kept = (t.Field(PARTITION_ID, "partition", partition, doc="Partition values"),) if partition.fields else ()
    return (
        t.Field(134, "content", t.INT, doc="0 data, 1 position deletes, 2 equality deletes"),
        t.Field(100, "file_path", t.STRING, required=True, doc="Location of the file"),
        t.Field(101, "file_format", t.STRING, required=True, doc="PARQUET, ORC, AVRO or PUFFIN"),
        t.Field(141, "spec_id", t.INT, doc="Partition spec id"),
        *kept,
        t.Field(103, "record_count", t.LONG, required=True, doc="Records in the file"),
        t.Field(104, "file_size_in_bytes", t.LONG, required=True, doc="Size of the file"),
        _map(108, "column_sizes", 117, t.LONG, "Column id to size on disk"),
        _map(109, "value_counts", 119, t.LONG, "Column id to number of values, null and NaN included"),
        _map(110, "null_value_counts", 121, t.LONG, "Column id to number of nulls"),
        _map(137, "nan_value_counts", 138, t.LONG, "Column id to number of NaNs"),
        _map(125, "lower_bounds", 126, t.BINARY, "Column id to lower bound"),
        _map(128, "upper_bounds", 129, t.BINARY, "Column id to upper bound"),
        t.Field(131, "key_metadata", t.BINARY, doc="Encryption key metadata"),
        _list(132, "split_offsets", 133, t.LONG, "Offsets at which the file can be split"),
        _list(135, "equality_ids", 136, t.INT, "Fields that an equality delete compares"),
        t.Field(140, "sort_order_id", t.INT, doc="Sort order id"),
        t.Field(142, "first_row_id", t.LONG, doc="Row id of the first row"),
        t.Field(143, "referenced_data_file", t.STRING, doc="The data file that all deletes are about"),
        t.Field(144, "content_offset", t.LONG, doc="Offset of the content in the file"),
        t.Field(145, "content_size_in_bytes", t.LONG, doc="Size of the content in the file"),
    )


def entry_schema(partition: t.Struct) -> Schema:
    """The columns of manifest entries (specification, "Manifests")."""
    return Schema(
        (
            t.Field(0, "status", t.INT, required=True, doc="0 existing, 1 added, 2 deleted"),
            t.Field(1, "snapshot_id", t.LONG),
            _SEQUENCE_NUMBER,
            _FILE_SEQUENCE_NUMBER,
            t.Field(2, "data_file", t.Struct(data_file_fields(partition)), required=True),
        )
    )


_NAMES = {f.id: f.name for f in (*entry_schema(t.Struct(())).fields, *data_file_fields(t.Struct(())))} | {
    PARTITION_ID: "partition"
}


@dataclass(frozen=True)
class EntriesTable:
    """The manifest entries of some snapshots; with `as_files`, only live ones, shown as files.

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
        """The columns of the entry or file, then its statistics by column name (`readable_metrics`)."""
        metrics = t.Field(READABLE_METRICS, "readable_metrics", self._metrics)
        if self.as_files:
            return Schema((*data_file_fields(self.metadata.partition_type), metrics))
        return Schema((*entry_schema(self.metadata.partition_type).fields, metrics))

    @cached_property
    def _metrics(self) -> t.Struct:
        return metrics_type(self.metadata.schema)

    def parts(self) -> Sequence[ManifestFile]:
        """The manifests of the snapshots, without duplicates."""
        manifests: dict[str, ManifestFile] = {}
        for snapshot in self.snapshots:
            for manifest in manifest_files(snapshot_manifests(snapshot, self.metadata, self.storage)):
                if self.data if manifest.content == DATA else self.deletes:
                    manifests.setdefault(manifest.manifest_path, manifest)
        return list(manifests.values())

    def read(self, part: ManifestFile) -> Iterator[pa.RecordBatch]:
        """The entries of one manifest."""
        entries = read_entries(part, self.metadata, self.storage)
        if self.as_files:
            entries = entries.filter(pc.not_equal(entries["status"], DELETED))
        files = only_chunk(entries["data_file"])
        metrics = metrics_column(files, self.metadata.schema, self._metrics)
        columns = files.flatten() if self.as_files else [c.combine_chunks() for c in entries.columns]
        yield pa.RecordBatch.from_arrays([*columns, metrics], schema=self.schema.arrow())


def read_entries(manifest: ManifestFile, metadata: TableMetadata, storage: Storage) -> pa.Table:
    """All entries of a manifest, including deleted ones, as in `entry_schema`, with inherited values filled in."""
    containers = open_manifests([manifest], storage)
    read = read_avro(containers, _NAMES)
    with decoding(containers):
        rows = checked_rows(read, [manifest])
        schema = entry_schema(metadata.partition_type)
        status = only_chunk(rows["status"]).cast(pa.int32())
        files = _files(only_chunk(rows["data_file"]), status, manifest, metadata)
        columns = [_own(rows, each) for each in schema.fields[1:4]]
        columns[0] = pc.fill_null(columns[0], manifest.added_snapshot_id)
        columns[1:] = [inherited_sequence_numbers(each, manifest) for each in columns[1:]]
        return pa.table([status, *columns, files], schema=schema.arrow())


def _own(rows: pa.Table, field: t.Field) -> pa.Array:
    """A column of entries as stored; null if the manifest does not have it."""
    if field.name not in rows.column_names:
        return pa.nulls(len(rows), field.type.arrow())
    return only_chunk(rows[field.name]).cast(field.type.arrow())


def _files(
    written: pa.StructArray, status: pa.Array, manifest: ManifestFile, metadata: TableMetadata
) -> pa.StructArray:
    """The files in this table's columns, with the values they share or inherit from their manifest."""
    columns = file_columns(written, len(written))
    check_files(columns, pa.repeat(pa.scalar(0), len(written)), [manifest])
    columns["file_format"] = pc.utf8_upper(columns["file_format"])
    columns["spec_id"] = pa.repeat(pa.scalar(manifest.partition_spec_id, pa.int32()), len(written))
    columns["partition"] = _partitions(written, metadata, manifest.partition_spec_id)
    if manifest.content == DATA:
        columns["first_row_id"] = inherited_row_ids(
            columns["first_row_id"], columns["record_count"], manifest, pc.not_equal(status, DELETED)
        )
    fields = data_file_fields(metadata.partition_type)
    members = [_shaped(columns[f.name], f) if f.name in columns else _member(written, f) for f in fields]
    return pa.StructArray.from_arrays(members, fields=[f.arrow() for f in fields])


def _member(files: pa.StructArray, field: t.Field) -> pa.Array:
    index = files.type.get_field_index(field.name)
    return pa.nulls(len(files), field.type.arrow()) if index < 0 else _shaped(files.field(index), field)


def _shaped(values: pa.Array, field: t.Field) -> pa.Array:
    """Cast a column to the Arrow type of its field, whose lists and maps have non-null elements."""
    kind = field.type.arrow()
    if pa.types.is_map(kind):
        lists = as_pairs(values, kind.item_type)
        keys, items = lists.values.field(0), lists.values.field(1)
        return pa.MapArray.from_arrays(lists.offsets, keys, items, type=kind, mask=lists.is_null())
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(
            values.offsets, values.values.cast(kind.value_type), type=kind, mask=values.is_null()
        )
    return values.cast(kind) if values.type != kind else values


def _partitions(files: pa.StructArray, metadata: TableMetadata, spec_id: int) -> pa.StructArray:
    """Partition values in the struct type of all specs (`TableMetadata.partition_type`)."""
    values = partition_values(files, metadata.specs[spec_id], len(files))
    places = {int(f.name): i for i, f in enumerate(values.type)}
    members = {
        f.name: as_partition_type(values.field(places[f.id]), f.type.arrow())
        if f.id in places
        else pa.nulls(len(files), f.type.arrow())
        for f in metadata.partition_type.fields
    }
    return struct_of(members, len(files)).cast(metadata.partition_type.arrow())
