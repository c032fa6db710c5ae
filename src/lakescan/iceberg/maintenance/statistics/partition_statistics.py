"""Count rows and files by partition and spec from manifests (specification, "Partition Statistics").

Counts are tables (`counts_schema`). `sum_counts` adds the counts of several manifests, and adds those of a change to
earlier counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.common import types as t
from lakescan.common.arrays import empty_table
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import CorruptData
from lakescan.iceberg.manifests.manifest_file import (
    ADDED,
    DATA_FILE,
    DELETED,
    EQUALITY_DELETES,
    EXISTING,
    POSITION_DELETES,
    ManifestFile,
)
from lakescan.iceberg.metadata.partition_spec import partition_numbers
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.metadata_tables.entries import table_entries
from lakescan.planning.split import NO_END
from lakescan.reading.data_file import open_data_file
from lakescan.reading.decoding_errors import decoding
from lakescan.reading.field_ids import read_fields
from lakescan.reading.projection import resolve
from lakescan.storage import Storage
from lakescan.storage.errors import storage_boundary
from lakescan.writing.partition_key import physical_values

_VECTOR = "PUFFIN"  # the file format of deletion vectors
COUNTS = (
    "data_record_count",
    "data_file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
    "dv_count",
)
UPDATED = ("last_updated_at", "last_updated_snapshot_id")
_Numbers = npt.NDArray[np.int64]


def counts_schema(partition: t.Struct) -> pa.Schema:
    """Return the Arrow columns of counts: partition (in the type of all specs), spec id, counts and last change."""
    numbers = [pa.field(name, pa.int64()) for name in (*COUNTS, *UPDATED)]
    return pa.schema([pa.field("partition", partition.arrow()), pa.field("spec_id", pa.int32()), *numbers])


@dataclass(frozen=True)
class PartitionCounts:
    """Counts the files and rows of manifests by partition; pickled for workers.

    With `changes`, added files count positively, removed files negatively, and existing files not at all. Otherwise,
    live files count. Partitions without any such files are included with zeros.
    """

    metadata: TableMetadata
    storage: Storage
    changes: bool = False

    def __call__(self, manifest: ManifestFile) -> pa.Table:
        """Return the counts of one manifest."""
        entries = table_entries(manifest, self.metadata, self.storage)
        files = pa.Table.from_struct_array(entries["data_file"].combine_chunks())
        status = entries["status"].to_numpy()
        if self.changes:
            sign = np.select([status == ADDED, status == DELETED], [1, -1], 0)
        else:
            sign = (status != DELETED).astype(np.int64)
        content = files["content"].to_numpy()
        is_vector = pc.equal(pc.utf8_upper(files["file_format"]), _VECTOR).to_numpy()
        rows, size, one = files["record_count"].to_numpy(), files["file_size_in_bytes"].to_numpy(), np.ones(len(status))
        is_data, by_position, by_key = (content == each for each in (DATA_FILE, POSITION_DELETES, EQUALITY_DELETES))
        counted = (
            (rows, is_data),
            (one, is_data),
            (size, is_data),
            (rows, by_position),
            (one, by_position & ~is_vector),
            (rows, by_key),
            (one, by_key),
            (one, by_position & is_vector),
        )
        numbers = [pa.array(np.where(which, values, 0).astype(np.int64) * sign) for values, which in counted]
        updated = self._last_updates(entries["snapshot_id"].combine_chunks(), status)
        found = [files["partition"].combine_chunks(), files["spec_id"].combine_chunks(), *numbers, *updated]
        return sum_counts(pa.table(found, schema=counts_schema(self.metadata.partition_type)))

    def _last_updates(self, snapshots: pa.Array, status: _Numbers) -> list[pa.Array]:
        """Return the commit time (in milliseconds since 1970) and the id of each entry's snapshot.

        Both are null for expired snapshots and, with `changes`, for existing files.
        """
        known = self.metadata.snapshots
        times = pa.array([each.timestamp_ms for each in known.values()], pa.int64())
        place = pc.index_in(snapshots, value_set=pa.array(list(known), pa.int64()))
        if self.changes:
            place = pc.if_else(pa.array(status != EXISTING), place, pa.scalar(None, pa.int32()))
        return [times.take(place), pc.if_else(place.is_valid(), snapshots, pa.scalar(None, pa.int64()))]


def sum_counts(counts: pa.Table) -> pa.Table:
    """Sum the rows of each partition and spec. The last change is that of the latest snapshot.

    Args:
        counts: As in `counts_schema`, with any number of rows for a partition.

    Example:
        >>> sum_counts(pa.concat_tables([before, change]))
    """
    if not counts.num_rows:
        return counts
    numbers = partition_numbers(counts)
    times = pc.fill_null(counts["last_updated_at"], np.iinfo(np.int64).min).to_numpy()
    order = np.lexsort((times, numbers))
    starts = np.searchsorted(numbers[order], np.arange(numbers.max() + 1))
    last = pa.array(order[np.append(starts[1:], len(order)) - 1])
    columns: Mapping[str, pa.Array] = {
        name: pa.array(np.add.reduceat(counts[name].to_numpy()[order], starts))
        if name in COUNTS
        else counts[name].take(last).combine_chunks()
        for name in counts.column_names
    }
    return pa.table(columns, schema=counts.schema)


_BATCH = 1 << 16
_WITH_VECTORS = 3  # the first format version that counts vectors and requires counts of deletes
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
    """Return the columns of a partition statistics file in a format version.

    `partition` is the partition type of all specs.
    """
    first = t.Field(1, "partition", partition, required=True)
    if format_version < _WITH_VECTORS:
        return Schema((first, *_FIELDS))
    fields = (replace(each, required=each.required or each.id in _DELETES) for each in _FIELDS)
    return Schema((first, *fields, _VECTORS))


def write_counts(counts: pa.Table, partition: t.Struct, format_version: int, location: str, storage: Storage) -> int:
    """Write counts (`counts_schema`) as a file sorted by partition; return its size in bytes.

    `total_record_count` is null, as in the reference implementation, because it would require reading rows.
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
    """Sort the rows by the members of their partition, nulls first, then by spec."""
    partition = counts["partition"].combine_chunks()
    keys: dict[str, pa.Array] = {}
    for number, member in enumerate(partition.flatten()):
        keys |= {f"has {number}": member.is_valid(), str(number): physical_values(member)}
    keys["spec"] = counts["spec_id"].combine_chunks()
    return counts.take(pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys]))


def read_counts(location: str, partition: t.Struct, storage: Storage) -> pa.Table:
    """Read a Parquet file as counts (see `counts_schema`), whatever partition fields its specs had.

    Raises `CorruptData` for a file that lacks counts, and `MissingFile`.
    """
    wanted = Schema((*file_schema(partition, 2).fields, replace(_VECTORS, default=0)))
    matching = FieldMatching(by_id=True)
    parts = []
    with open_data_file(storage, location, "parquet") as data, decoding(location, "its rows"):
        projection = resolve(read_fields(data.schema, matching), wanted, matching, {})
        absent = [each.target.name for each in projection.sources if each.child is None and each.target.id < 10]
        if absent:
            raise CorruptData(f"{location} lacks the column {absent[0]!r}: it is not a partition statistics file")
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
