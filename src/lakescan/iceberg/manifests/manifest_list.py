"""Read manifest lists: a snapshot's manifests with their partition summaries (specification, "Manifest Lists")."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.cache import CacheKind, table_size
from lakescan.iceberg.manifests.avro import FILE, decoding, read_avro
from lakescan.iceberg.manifests.avro_container import group_by_schema, open_container
from lakescan.iceberg.manifests.list_checks import check_manifests, check_whole, fault
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot
from lakescan.storage import Storage
from lakescan.storage.encrypted_stream import is_encrypted_stream, list_key_of, read_streams
from lakescan.storage.encryption import FileKey

_NAMES = {
    500: "manifest_path",
    501: "manifest_length",
    502: "partition_spec_id",
    517: "content",
    515: "sequence_number",
    516: "min_sequence_number",
    503: "added_snapshot_id",
    504: "added_files_count",
    505: "existing_files_count",
    506: "deleted_files_count",
    512: "added_rows_count",
    513: "existing_rows_count",
    514: "deleted_rows_count",
    507: "partitions",
    509: "contains_null",
    518: "contains_nan",
    510: "lower_bound",
    511: "upper_bound",
    519: "key_metadata",
    520: "first_row_id",
}
_SUMMARY = pa.list_(
    pa.struct(
        [
            pa.field("contains_null", pa.bool_()),
            pa.field("contains_nan", pa.bool_()),
            pa.field("lower_bound", pa.binary()),
            pa.field("upper_bound", pa.binary()),
        ]
    )
)
MANIFESTS = pa.schema(
    [
        pa.field("manifest_path", pa.string()),
        pa.field("manifest_length", pa.int64()),
        pa.field("partition_spec_id", pa.int32()),
        pa.field("content", pa.int32()),  # 0 data, 1 deletes
        pa.field("sequence_number", pa.int64()),
        pa.field("min_sequence_number", pa.int64()),
        pa.field("added_snapshot_id", pa.int64()),
        pa.field("added_files_count", pa.int32()),
        pa.field("existing_files_count", pa.int32()),
        pa.field("deleted_files_count", pa.int32()),
        pa.field("added_rows_count", pa.int64()),
        pa.field("existing_rows_count", pa.int64()),
        pa.field("deleted_rows_count", pa.int64()),
        pa.field("key_metadata", pa.binary()),
        pa.field("first_row_id", pa.int64()),
        pa.field("partitions", _SUMMARY),
    ]
)
_LISTS = 32  # lists decoded together

# By the identity of a storage and a snapshot, which the value keeps: plans of one open table read a list once. A table
# that is opened again has a storage of its own, and reads its files again.
_OPENED: CacheKind[tuple[Storage, IcebergSnapshot, pa.Table]] = CacheKind(
    "manifest lists", lambda value: table_size(value[2])
)


def read_manifest_list(snapshot: IcebergSnapshot, storage: Storage) -> pa.Table:
    """The manifests of a snapshot, one row each (`MANIFESTS`); a v1 snapshot may list them in the metadata itself.

    The list is read once for each storage, as far as the process's cache has room. Raises `CorruptMetadata` for a list
    that contradicts itself, or is empty although the snapshot has files.
    """
    return _OPENED.get((id(storage), id(snapshot)), lambda: (storage, snapshot, _load_manifests(snapshot, storage)))[2]


def _load_manifests(snapshot: IcebergSnapshot, storage: Storage) -> pa.Table:
    if snapshot.manifest_list is None:
        paths = pa.array(snapshot.manifests, pa.string())
        specs = [_spec_of(path, storage) for path in snapshot.manifests]
        manifests = _fill_columns(pa.table({"manifest_path": paths, "partition_spec_id": pa.array(specs, pa.int32())}))
    else:
        [manifests] = _read([snapshot], storage)
    check_whole(manifests, snapshot)
    return manifests


def _read(snapshots: Sequence[IcebergSnapshot], storage: Storage) -> list[pa.Table]:
    """The manifest lists of snapshots; consecutive lists with one schema are decoded together."""
    paths = [str(each.manifest_list) for each in snapshots]
    keys = [_key(each, path, storage) for each, path in zip(snapshots, paths, strict=True)]
    files = [open_container(data, path) for path, data in zip(paths, read_streams(storage, paths, keys), strict=True)]
    tables: list[pa.Table] = []
    for same in group_by_schema(files):
        group = [files[i] for i in same]
        rows = read_avro(group, _NAMES)
        with decoding(group):
            if "manifest_path" not in rows.column_names:
                raise fault(group[0].source, "it is not a manifest list: its records have no manifest_path")
            bounds = np.searchsorted(rows[FILE].to_numpy(), np.arange(len(group) + 1)).tolist()
            lists = _fill_columns(rows)
            tables += [lists.slice(low, high - low) for low, high in pairwise(bounds)]
    for listed, path in zip(tables, paths, strict=True):
        check_manifests(listed, path)
    return tables


def _key(snapshot: IcebergSnapshot, path: str, storage: Storage) -> FileKey | None:
    """The key of a snapshot's manifest list; None for a plain one, as which it may prove if there is no key manager."""
    if snapshot.key_id is None or (storage.key_manager is None and not is_encrypted_stream(storage, path)):
        return None
    return list_key_of(storage, path, snapshot.list_key)


def own_manifests(snapshots: Sequence[IcebergSnapshot], storage: Storage) -> list[pa.Table]:
    """The manifests that each snapshot added itself, or may have added: version 1 lists may not record this.

    Lists are read in batches to bound memory: with N snapshots, each of the last ones has N manifests.
    """
    own: list[pa.Table] = []
    for start in range(0, len(snapshots), _LISTS):
        some = snapshots[start : start + _LISTS]
        inline = any(each.manifest_list is None for each in some)
        lists = [read_manifest_list(each, storage) for each in some] if inline else _read(some, storage)
        for snapshot, each in zip(some, lists, strict=True):
            check_whole(each, snapshot)
            own.append(_filter_own(each, pa.scalar(snapshot.id)))
    return own


def _filter_own(manifests: pa.Table, snapshot: pa.Scalar) -> pa.Table:
    return manifests.filter(pc.fill_null(pc.equal(manifests["added_snapshot_id"], snapshot), True))


def _spec_of(manifest: str, storage: Storage) -> int:
    """The partition spec id in a manifest's own header; version 1 may omit it, which means 0."""
    spec_id = open_container(storage.read(manifest), manifest).metadata.get("partition-spec-id", b"0")
    if not spec_id.isdigit() or len(spec_id) > 9:
        raise fault(manifest, f"its header has the invalid partition-spec-id {spec_id[:40]!r}")
    return int(spec_id)


def _fill_columns(table: pa.Table) -> pa.Table:
    """The table with all columns: those that old versions lack are null, or 0 as implied by version 1."""
    columns = {}
    for field in MANIFESTS:
        if field.name in table.column_names:
            columns[field.name] = _cast(table[field.name], field)
        else:
            columns[field.name] = pa.nulls(table.num_rows, field.type)
    for name in ("content", "sequence_number", "partition_spec_id"):
        columns[name] = pc.fill_null(columns[name], 0)
    return pa.table(columns, schema=MANIFESTS)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    array = column.combine_chunks()
    if field.name != "partitions":
        return array.cast(field.type)
    items = array.flatten()
    present = [f.name for f in items.type]
    members = [items.field(f.name) if f.name in present else pa.nulls(len(items), f.type) for f in _SUMMARY.value_type]
    rebuilt = pa.StructArray.from_arrays(members, fields=list(_SUMMARY.value_type))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, rebuilt, mask=array.is_null() if array.null_count else None)
