"""Manifests: live data and delete files, one row each (specification, "Manifests")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.encrypted_stream import is_encrypted_stream
from lakescan.errors import CorruptMetadata, UnsupportedFeature
from lakescan.iceberg.avro import FILE, read_avro
from lakescan.iceberg.avro_container import of_one_schema, open_container
from lakescan.iceberg.partition_spec import PartitionSpec
from lakescan.storage import Storage

_STATS = {
    109: "value_counts",
    110: "null_value_counts",
    137: "nan_value_counts",
    125: "lower_bounds",
    128: "upper_bounds",
}
_NAMES = {
    0: "status",
    1: "snapshot_id",
    3: "sequence_number",
    2: "data_file",
    134: "content",
    100: "file_path",
    101: "file_format",
    102: "partition",
    103: "record_count",
    104: "file_size_in_bytes",
    131: "key_metadata",
    132: "split_offsets",
    135: "equality_ids",
    142: "first_row_id",
    143: "referenced_data_file",
    144: "content_offset",
    145: "content_size_in_bytes",
}
_DATA_FILE = pa.schema(
    [
        pa.field("content", pa.int32()),  # 0 data, 1 position deletes, 2 equality deletes
        pa.field("file_path", pa.string()),
        pa.field("file_format", pa.string()),
        pa.field("record_count", pa.int64()),
        pa.field("file_size_in_bytes", pa.int64()),
        pa.field("key_metadata", pa.binary()),
        pa.field("split_offsets", pa.list_(pa.int64())),
        pa.field("equality_ids", pa.list_(pa.int32())),
        pa.field("first_row_id", pa.int64()),
        pa.field("referenced_data_file", pa.string()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size_in_bytes", pa.int64()),
    ]
)
EXISTING, DELETED = 0, 2


def read_manifests(
    manifests: Sequence[Mapping[str, Any]],
    spec: PartitionSpec,
    storage: Storage,
    *,
    with_stats: bool,
    removed: bool = False,
) -> pa.Table:
    """The live entries of some manifests (rows of a manifest list) of one spec, in order; or those `removed`.

    Columns are those of a data file, `sequence_number` (inherited from the manifest where the entry has none),
    `changed_by` (the snapshot that added or removed the file, null where it is of an earlier one), `partition` (a
    struct with a member a field of the spec, in order and of its type) and, with `with_stats`, `stats` (a struct of
    the key-value lists of counts and bounds).
    """
    for manifest in manifests:
        refuse_encrypted(manifest, storage)
    paths = [manifest["manifest_path"] for manifest in manifests]
    files = [open_container(data, path) for path, data in zip(paths, storage.read_all(paths), strict=True)]
    names = _NAMES | (_STATS if with_stats else {})
    tables = []
    for same in of_one_schema(files):
        rows = read_avro([files[i] for i in same], names)
        tables.append(_entries(rows, [manifests[i] for i in same], spec, with_stats, removed))
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def _entries(
    rows: pa.Table, manifests: Sequence[Mapping[str, Any]], spec: PartitionSpec, with_stats: bool, removed: bool
) -> pa.Table:
    if "data_file" not in rows.column_names or "status" not in rows.column_names:
        raise CorruptMetadata(f"{manifests[0]['manifest_path']} is not a manifest: it has no status or data_file")
    wanted = (pc.equal if removed else pc.not_equal)(rows["status"], DELETED)
    if not pc.all(wanted).as_py():
        rows = rows.filter(wanted)  # in order
    rows = rows.combine_chunks()
    files = only_chunk(rows["data_file"])
    columns: dict[str, pa.Array] = {
        field.name: _member(files, field.name, field.type, len(rows)) for field in _DATA_FILE
    }
    columns["content"] = pc.fill_null(columns["content"], 0)
    columns["file_format"] = pc.utf8_lower(columns["file_format"])
    number = only_chunk(rows[FILE])
    if not removed:
        columns["first_row_id"] = _row_ids(columns["first_row_id"], columns["record_count"], manifests, number)
    own = only_chunk(rows["sequence_number"]) if "sequence_number" in rows.column_names else pa.nulls(len(rows))
    inherited = pa.array([m["sequence_number"] or 0 for m in manifests], pa.int64()).take(number)
    columns["sequence_number"] = pc.coalesce(own.cast(pa.int64()), inherited)
    columns["changed_by"] = _changed_by(rows, manifests, number)
    columns["spec_id"] = pa.repeat(pa.scalar(spec.id, pa.int32()), len(rows))
    columns["partition"] = _partition(files, spec, len(rows))
    if with_stats:
        columns["stats"] = _stats(files, len(rows))
    return pa.table(columns)


def _changed_by(rows: pa.Table, manifests: Sequence[Mapping[str, Any]], number: pa.Array) -> pa.Array:
    """The snapshot that added or removed each file, where the entry says so; it may inherit its manifest's."""
    own = only_chunk(rows["snapshot_id"]) if "snapshot_id" in rows.column_names else pa.nulls(len(rows))
    inherited = pa.array([m.get("added_snapshot_id") for m in manifests], pa.int64()).take(number)
    found = pc.coalesce(own.cast(pa.int64()), inherited)
    return pc.if_else(pc.equal(only_chunk(rows["status"]), EXISTING), pa.scalar(None, pa.int64()), found)


def refuse_encrypted(manifest: Mapping[str, Any], storage: Storage) -> None:
    """Raise `UnsupportedFeature` for a manifest that is encrypted itself: keys are for data and delete files.

    One that has key metadata and is plain is read, as by the reference.
    """
    if manifest.get("key_metadata") is not None and is_encrypted_stream(storage, manifest["manifest_path"]):
        raise UnsupportedFeature("encrypted manifests", f"{manifest['manifest_path']} is one.")


def only_chunk(column: pa.ChunkedArray) -> pa.Array:
    """The array of a column that has at most one chunk."""
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _member(files: pa.StructArray, name: str, kind: pa.DataType, rows: int) -> pa.Array:
    index = files.type.get_field_index(name)
    return pa.nulls(rows, kind) if index < 0 else files.field(index).cast(kind)


def _row_ids(
    own: pa.Array, record_count: pa.Array, manifests: Sequence[Mapping[str, Any]], number: pa.Array
) -> pa.Array:
    """First row ids, inherited manifest by manifest; `number` says which row is of which manifest."""
    if all(manifest.get("first_row_id") is None for manifest in manifests):
        return own
    bounds = np.searchsorted(number.to_numpy(), np.arange(len(manifests) + 1)).tolist()
    slices = [(a, b - a) for a, b in pairwise(bounds)]
    pieces = zip(manifests, slices, strict=True)
    return pa.concat_arrays([inherited_row_ids(own.slice(*s), record_count.slice(*s), m) for m, s in pieces])


def inherited_row_ids(
    own: pa.Array, record_count: pa.Array, manifest: Mapping[str, Any], live: pa.Array | None = None
) -> pa.Array:
    """Files without a first row id take theirs from the manifest (specification, "First Row ID Inheritance").

    It is the manifest's, plus the rows of the live files before that have none either. Files that are not `live` have
    none to inherit.
    """
    start = manifest.get("first_row_id")
    if start is None:
        return own
    inherits = pc.is_null(own) if live is None else pc.and_(pc.is_null(own), live)
    rows = pc.if_else(inherits, record_count, 0)
    preceding = pc.subtract(pc.cumulative_sum(rows), rows)
    return pc.if_else(inherits, pc.add(preceding, start), own)


def inherited_sequence_numbers(own: pa.Array, manifest: Mapping[str, Any]) -> pa.Array:
    """Entries without a sequence number take their manifest's (specification, "Sequence Number Inheritance")."""
    return pc.fill_null(own.cast(pa.int64()), manifest["sequence_number"] or 0)


def _partition(files: pa.StructArray, spec: PartitionSpec, rows: int) -> pa.StructArray:
    """Partition values by the field ids of the spec, else by name, else by position."""
    found = files.field("partition") if files.type.get_field_index("partition") >= 0 else None
    written = [] if found is None else list(found.type)
    members = []
    for position, each in enumerate(spec.fields):
        index = _place(written, each.id, each.name, position)
        kind = each.type.arrow().storage_type if isinstance(each.type.arrow(), pa.ExtensionType) else each.type.arrow()
        if found is None or index is None:
            members.append(pa.nulls(rows, kind))
        else:
            members.append(_as_partition_type(found.field(index), kind))
    if not members:
        return pa.array([{}] * rows, pa.struct([]))
    return pa.StructArray.from_arrays(members, names=[str(f.id) for f in spec.fields])


def _place(written: list[pa.Field], field_id: int, name: str, position: int) -> int | None:
    ids = [int((f.metadata or {}).get(b"PARQUET:field_id", -1)) for f in written]
    if field_id in ids:
        return ids.index(field_id)
    names = [f.name for f in written]
    if name in names:
        return names.index(name)
    return position if position < len(written) and -1 in ids else None


def _as_partition_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if values.type == kind:
        return values
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp(values.type.unit)).cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_date(kind) and pa.types.is_integer(values.type):
        return values.cast(pa.int32()).cast(kind)
    if pa.types.is_integer(kind) and pa.types.is_date(values.type):
        return values.cast(pa.int32()).cast(kind)
    return values.cast(kind)


def _stats(files: pa.StructArray, rows: int) -> pa.StructArray:
    """The key-value lists, in one shape whatever the writer and the decoder: lists of (key, value)."""
    members = []
    for name in _STATS.values():
        kind = pa.binary() if name.endswith("bounds") else pa.int64()
        index = files.type.get_field_index(name)
        members.append(pa.nulls(rows, _pairs_of(kind)) if index < 0 else _as_pairs(files.field(index), kind))
    return pa.StructArray.from_arrays(members, names=list(_STATS.values()))


def _pairs_of(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([pa.field("key", pa.int32()), pa.field("value", kind)]))


def _as_pairs(lists: pa.ListArray | pa.MapArray, kind: pa.DataType) -> pa.ListArray:
    if pa.types.is_map(lists.type):
        keys, values = lists.keys, lists.items
    else:
        keys, values = lists.values.field(0), lists.values.field(1)
    pairs = pa.StructArray.from_arrays([keys.cast(pa.int32()), values.cast(kind)], names=["key", "value"])
    mask = lists.is_null() if lists.null_count else None
    return pa.ListArray.from_arrays(lists.offsets, pairs, type=_pairs_of(kind), mask=mask)
