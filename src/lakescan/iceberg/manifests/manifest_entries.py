"""Read manifest entries so that they can be written to another manifest: with all statistics and inherited values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.iceberg.manifests.avro_decode import FILE, Container, decoding, read_avro
from lakescan.iceberg.manifests.manifest_checks import check_counts, check_files, check_status, known_ages
from lakescan.iceberg.manifests.manifest_file import DATA, DELETED, ManifestFile
from lakescan.iceberg.manifests.manifest_reader import (
    as_pairs,
    checked_rows,
    file_columns,
    inherited_row_ids,
    inherited_sequence_numbers,
    only_chunk,
    open_manifests,
    partition_values,
)
from lakescan.iceberg.manifests.manifest_writer import data_file_fields, entry_fields
from lakescan.iceberg.metadata.partition_spec import PartitionSpec
from lakescan.storage import Storage

_READERS = 8  # manifests held in memory at once
_LATEST = 3  # entries have the fields of the latest format version; older versions leave some out
_AGES = {0: "status", 3: "sequence_number"}
_NAMES = {field.id: field.name for field in t.walk(entry_fields(t.Struct(()), _LATEST).fields)}


def entries_of(
    manifests: Sequence[ManifestFile], specs: Mapping[int, PartitionSpec], storage: Storage
) -> Iterator[pa.Table]:
    """Yield the entries of each manifest, to be written again; see `read_entries`. Threads read a few ahead.

    Raises `CorruptMetadata` for an existing file without a sequence number. Any number written for it would be trusted,
    and deletes would skip the file.
    """

    def read(manifest: ManifestFile) -> pa.Table:
        entries = read_entries(manifest, specs[manifest.partition_spec_id], storage)
        known_ages(entries["sequence_number"], manifest.manifest_path, needed=True)
        return entries

    with ThreadPoolExecutor(_READERS) as pool:
        for start in range(0, len(manifests), _READERS):
            yield from pool.map(read, manifests[start : start + _READERS])


def least_sequence_number(manifests: Sequence[ManifestFile], storage: Storage) -> int | None:
    """Return the least data sequence number of the live files of manifests, read from their entries.

    Files without a sequence number count as 0, the oldest. Returns None for manifests without live files.
    """

    def read(manifest: ManifestFile) -> int | None:
        containers = open_manifests([manifest], storage)
        rows = read_avro(containers, _AGES)
        with decoding(containers):
            status, number = only_chunk(rows["status"]).cast(pa.int32()), only_chunk(rows[FILE])
            check_status(status, number, [manifest])
            check_counts(status.to_numpy(), number.to_numpy(), [manifest])
            inherited = pa.scalar(manifest.sequence_number, pa.int64())
            ages = inherited_sequence_numbers(_numbers(rows, "sequence_number"), status, inherited)
            least: int | None = pc.min(pc.fill_null(ages.filter(pc.not_equal(status, DELETED)), 0)).as_py()
        return least

    with ThreadPoolExecutor(_READERS) as pool:
        return min((each for each in pool.map(read, manifests) if each is not None), default=None)


def read_entries(manifest: ManifestFile, spec: PartitionSpec, storage: Storage) -> pa.Table:
    """Return all entries of a manifest, as in `entry_fields`; the partition's members are the spec's fields.

    Values that entries inherit from the manifest list are filled in, so that they can move to another manifest.
    """
    (container,) = open_manifests([manifest], storage)
    return entries_in(container, manifest, spec)


def entries_in(container: Container, manifest: ManifestFile, spec: PartitionSpec) -> pa.Table:
    """Return all entries of an open manifest; see `read_entries`."""
    read = read_avro([container], _NAMES)
    with decoding([container]):
        rows = checked_rows(read, [manifest])
        status = only_chunk(rows["status"]).cast(pa.int32())
        written = only_chunk(rows["data_file"])
        inherited = pa.scalar(manifest.sequence_number, pa.int64())
        own, file = _numbers(rows, "sequence_number"), _numbers(rows, "file_sequence_number")
        columns = {
            "status": status,
            "snapshot_id": pc.fill_null(_numbers(rows, "snapshot_id"), manifest.added_snapshot_id),
            "sequence_number": inherited_sequence_numbers(own, status, inherited),
            "file_sequence_number": inherited_sequence_numbers(file, status, inherited),
            "data_file": _files(written, status, manifest, spec),
        }
        return pa.table(columns)


def _numbers(rows: pa.Table, name: str) -> pa.Array:
    if name not in rows.column_names:
        return pa.nulls(len(rows), pa.int64())
    return only_chunk(rows[name]).cast(pa.int64())


def _files(written: pa.StructArray, status: pa.Array, manifest: ManifestFile, spec: PartitionSpec) -> pa.StructArray:
    columns = file_columns(written, len(written))
    check_files(columns, pa.repeat(pa.scalar(0), len(written)), [manifest])
    columns["file_format"] = pc.utf8_upper(columns["file_format"])
    partition = partition_values(written, spec, len(written))
    names = [field.name for field in spec.fields]
    columns["partition"] = pa.StructArray.from_arrays(partition.flatten(), names=names) if names else partition
    if manifest.content == DATA:
        columns["first_row_id"] = inherited_row_ids(
            columns["first_row_id"], columns["record_count"], manifest, pc.not_equal(status, DELETED)
        )
    fields = data_file_fields(t.Struct(()), _LATEST)
    members = {
        each.name: _cast_column(columns[each.name], each) if each.name in columns else _member(written, each)
        for each in fields
    }
    return pa.StructArray.from_arrays(list(members.values()), names=list(members))


def _member(files: pa.StructArray, field: t.Field) -> pa.Array:
    """Return the member `field` of `data_file`, cast to its type; nulls if the manifest lacks it."""
    index = files.type.get_field_index(field.name)
    return pa.nulls(len(files), field.type.arrow()) if index < 0 else _cast_column(files.field(index), field)


def _cast_column(values: pa.Array, field: t.Field) -> pa.Array:
    """Cast a column to the Arrow type of its field; structs are returned unchanged.

    Unlike `Array.cast`, it also converts lists of key-value pairs to maps, and makes elements non-null.
    """
    if isinstance(field.type, t.Struct):
        return values
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
