"""Partition statistics files: Parquet with a row for each partition and spec (specification, "Partition Statistics
File")."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.common import types as t
from lakescan.common.arrays import empty_table
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import CorruptData
from lakescan.iceberg.maintenance.statistics.partition_counts import COUNTS, counts_schema
from lakescan.planning.split import NO_END
from lakescan.reading.data_file import open_data_file
from lakescan.reading.decoding import decoding
from lakescan.reading.file_schema import read_fields
from lakescan.reading.projection import resolve
from lakescan.storage import Storage
from lakescan.storage.faults import storage_boundary
from lakescan.writing.partition_key import physical_values

_BATCH = 1 << 16
_WITH_VECTORS = 3  # the format version from which on vectors are counted, and counts of deletes are required
_DELETES = (6, 7, 8, 9)
_FIELDS = (
    t.Field(2, "spec_id", t.INT, required=True),
    t.Field(3, "data_record_count", t.LONG, required=True),
    t.Field(4, "data_file_count", t.INT, required=True),
    t.Field(5, "total_data_file_size_in_bytes", t.LONG, required=True),
    t.Field(6, "position_delete_record_count", t.LONG),
    t.Field(7, "position_delete_file_count", t.INT),
    t.Field(8, "equality_delete_record_count", t.LONG),
    t.Field(9, "equality_delete_file_count", t.INT),
    t.Field(10, "total_record_count", t.LONG),
    t.Field(11, "last_updated_at", t.LONG),
    t.Field(12, "last_updated_snapshot_id", t.LONG),
)
_VECTORS = t.Field(13, "dv_count", t.INT, required=True)


def file_schema(partition: t.Struct, format_version: int) -> Schema:
    """The columns of a file, for the partition type of all specs."""
    first = t.Field(1, "partition", partition, required=True)
    if format_version < _WITH_VECTORS:
        return Schema((first, *_FIELDS))
    fields = (replace(each, required=each.required or each.id in _DELETES) for each in _FIELDS)
    return Schema((first, *fields, _VECTORS))


def write_counts(counts: pa.Table, partition: t.Struct, format_version: int, location: str, storage: Storage) -> int:
    """Write counts (see `counts_schema`) as a file, in the order of their partitions; return its size in bytes.

    `total_record_count` is null, as the reference implementation leaves it: it would need the rows.
    """
    schema = file_schema(partition, format_version)
    ordered = _sort_partitions(counts)
    columns = [
        ordered[each.name].cast(each.type.arrow())
        if each.name in ordered.column_names and each.id != 1
        else ordered["partition"]
        if each.id == 1
        else pa.nulls(len(ordered), each.type.arrow())
        for each in schema.fields
    ]
    table = pa.table(columns, schema=schema.arrow())
    with storage.create(location) as file, storage_boundary("written", location, passing=pa.ArrowException):
        pq.write_table(table, file, compression="zstd", store_schema=False, store_decimal_as_integer=True)
        return int(file.tell())


def _sort_partitions(counts: pa.Table) -> pa.Table:
    """The rows in ascending order of their partition's members, nulls first; then of their specs."""
    partition = counts["partition"].combine_chunks()
    keys: dict[str, pa.Array] = {}
    for number, member in enumerate(partition.flatten()):
        keys |= {f"has {number}": member.is_valid(), str(number): physical_values(member)}
    keys["spec"] = counts["spec_id"].combine_chunks()
    return counts.take(pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys]))


def read_counts(location: str, partition: t.Struct, storage: Storage) -> pa.Table:
    """Read a Parquet file as counts (see `counts_schema`), whatever partition fields its specs had.

    Raises `CorruptData` for a file that lacks counts, `MissingFile`.
    """
    wanted = Schema((*file_schema(partition, 2).fields, replace(_VECTORS, default=0)))
    matching = FieldMatching(by_id=True)
    parts = []
    with open_data_file(storage, location, "parquet") as data, decoding(location, "its rows"):
        projection = resolve(read_fields(data.schema, matching), wanted, matching, {})
        absent = [each.target.name for each in projection.sources if each.child is None and each.target.id < 10]
        if absent:
            raise CorruptData(f"{location} lacks the column {absent[0]!r}: it is no partition statistics file")
        for _, batch in data.batches(data.chunks(0, NO_END), projection, _BATCH):
            parts.append(pa.table(projection.apply(batch), names=wanted.names))
    found = pa.concat_tables(parts) if parts else empty_table(wanted.arrow())
    schema = counts_schema(partition)
    columns = [_cast_column(found[field.name].combine_chunks(), field) for field in schema]
    if any(column.null_count for column, field in zip(columns, schema, strict=True) if field.name in COUNTS):
        raise CorruptData(f"{location} has partitions without counts")
    return pa.table(columns, schema=schema)


def _cast_column(values: pa.Array, field: pa.Field) -> pa.Array:
    return values if field.name == "partition" else values.cast(field.type)
