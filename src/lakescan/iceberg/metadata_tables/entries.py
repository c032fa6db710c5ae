"""The tables about files: `entries`, `files`, `data_files`, `delete_files`, and `all_...` of each.

A manifest is an Avro file with field ids, so it is read as any data file is: projected onto the table's columns. What
entries inherit from their manifest is filled in after that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan import types as t
from lakescan.iceberg.manifest import (
    DELETED,
    inherited_row_ids,
    inherited_sequence_numbers,
    only_chunk,
    refuse_encrypted,
)
from lakescan.iceberg.manifest_list import DATA, read_manifest_list
from lakescan.iceberg.metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.metadata_tables.readable_metrics import READABLE_METRICS, metrics_column, metrics_type
from lakescan.planning.split import NO_END
from lakescan.reading.avro import open_avro
from lakescan.reading.file_schema import read_fields
from lakescan.reading.projection import resolve
from lakescan.schema import FieldMatching, Schema
from lakescan.storage import Storage

_BY_ID = FieldMatching(by_id=True)
_WHOLE_MANIFEST = 1 << 31
PARTITION_ID = 102
_SEQUENCE_NUMBER = t.Field(3, "sequence_number", t.LONG)
_FILE_SEQUENCE_NUMBER = t.Field(4, "file_sequence_number", t.LONG)


def _map(field_id: int, name: str, key_id: int, value: t.Type, doc: str) -> t.Field:
    key = t.Field(key_id, "key", t.INT, required=True)
    return t.Field(field_id, name, t.MapOf(key, t.Field(key_id + 1, "value", value, required=True)), doc=doc)


def _list(field_id: int, name: str, element_id: int, value: t.Type, doc: str) -> t.Field:
    return t.Field(field_id, name, t.ListOf(t.Field(element_id, "element", value, required=True)), doc=doc)


def data_file_fields(partition: t.Struct) -> tuple[t.Field, ...]:
    """The columns of a data file; without a partition where the table has none."""
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
    """The columns of a manifest's entries (specification, "Manifests")."""
    return Schema(
        (
            t.Field(0, "status", t.INT, required=True, doc="0 existing, 1 added, 2 deleted"),
            t.Field(1, "snapshot_id", t.LONG),
            _SEQUENCE_NUMBER,
            _FILE_SEQUENCE_NUMBER,
            t.Field(2, "data_file", t.Struct(data_file_fields(partition)), required=True),
        )
    )


@dataclass(frozen=True)
class EntriesTable:
    """Entries of the manifests of some snapshots; with `as_files`, only live ones, shown as files."""

    metadata: TableMetadata
    storage: Storage
    snapshots: tuple[IcebergSnapshot, ...]
    data: bool
    deletes: bool
    as_files: bool

    @cached_property
    def schema(self) -> Schema:
        """A row's columns: the entry or the file, then its statistics by column name."""
        metrics = t.Field(READABLE_METRICS, "readable_metrics", metrics_type(self.metadata.schema))
        if self.as_files:
            return Schema((*data_file_fields(self.metadata.partition_type), metrics))
        return Schema((*entry_schema(self.metadata.partition_type).fields, metrics))

    def parts(self) -> Sequence[Mapping[str, Any]]:
        """The manifests, each once, whatever number of snapshots has it."""
        found: dict[str, Mapping[str, Any]] = {}
        for snapshot in self.snapshots:
            for manifest in read_manifest_list(snapshot, self.storage).drop_columns(["partitions"]).to_pylist():
                if self.data if manifest["content"] == DATA else self.deletes:
                    found.setdefault(manifest["manifest_path"], manifest)
        return list(found.values())

    def read(self, part: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """The entries of one manifest."""
        entries = read_entries(part, self.metadata, self.storage)
        if self.as_files:
            entries = entries.filter(pc.not_equal(entries["status"], DELETED))
        files = only_chunk(entries["data_file"])
        metrics = metrics_column(files, self.metadata.schema)
        columns = files.flatten() if self.as_files else [c.combine_chunks() for c in entries.columns]
        yield pa.RecordBatch.from_arrays([*columns, metrics], schema=self.schema.arrow())


def read_entries(manifest: Mapping[str, Any], metadata: TableMetadata, storage: Storage) -> pa.Table:
    """All entries of a manifest, deleted ones too, with what they inherit from it, as `entry_schema` has them."""
    refuse_encrypted(manifest, storage)
    schema = entry_schema(metadata.partition_type)
    with open_avro(storage, manifest["manifest_path"]) as data:
        projection = resolve(read_fields(data.schema, _BY_ID), schema, _BY_ID, {})
        batches = [
            pa.RecordBatch.from_arrays(projection.apply(batch), schema=_nullable(schema))
            for _, batch in data.batches(data.chunks(0, NO_END), projection, _WHOLE_MANIFEST)
        ]
    read = pa.Table.from_batches(batches, schema=_nullable(schema)).combine_chunks()
    files = _completed(only_chunk(read["data_file"]), read["status"].combine_chunks(), manifest)
    numbers = [inherited_sequence_numbers(read[f.name], manifest) for f in (_SEQUENCE_NUMBER, _FILE_SEQUENCE_NUMBER)]
    snapshot_ids = pc.fill_null(read["snapshot_id"], manifest["added_snapshot_id"])
    return pa.table([read["status"], snapshot_ids, *numbers, files], schema=schema.arrow())


def _completed(files: pa.StructArray, status: pa.Array, manifest: Mapping[str, Any]) -> pa.StructArray:
    """Files with what their manifest says for all of them."""
    columns = dict(zip([f.name for f in files.type], files.flatten(), strict=True))
    columns["content"] = pc.fill_null(columns["content"], 0)
    columns["file_format"] = pc.utf8_upper(columns["file_format"])
    columns["spec_id"] = pa.repeat(pa.scalar(manifest["partition_spec_id"], pa.int32()), len(files))
    if manifest["content"] == DATA:
        columns["first_row_id"] = inherited_row_ids(
            columns["first_row_id"], columns["record_count"], manifest, pc.not_equal(status, DELETED)
        )
    return pa.StructArray.from_arrays(list(columns.values()), fields=list(files.type))


def _nullable(schema: Schema) -> pa.Schema:
    """The Arrow schema while columns that old writers leave out are still to be filled."""
    return pa.schema([f.with_nullable(True) for f in schema.arrow()])
