"""Read manifests: the live data files and delete files, one row each (specification, "Manifests")."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from itertools import groupby, pairwise
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import limits
from lakescan.common.arrays import empty_structs
from lakescan.common.cache import METADATA, CacheKind
from lakescan.common.folder_cache import cache_in_folder
from lakescan.iceberg.manifests.avro_decode import FILE, Container, decoding, group_by_schema, open_container, read_avro
from lakescan.iceberg.manifests.manifest_checks import (
    check_counts,
    check_files,
    check_header,
    check_once,
    check_status,
    fault,
)
from lakescan.iceberg.manifests.manifest_file import DELETED, EXISTING, ManifestFile, manifest_files
from lakescan.iceberg.metadata.partition_spec import PartitionSpec
from lakescan.storage import Storage
from lakescan.storage.encrypted_files import key_of, read_streams

STATS = {
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


def read_manifests(
    manifests: Sequence[ManifestFile],
    spec: PartitionSpec,
    storage: Storage,
    *,
    with_stats: bool,
    removed: bool = False,
) -> pa.Table:
    """Return the live (or `removed`) entries of manifests that share one spec, in order.

    The columns are those of a data file and

    - `sequence_number`: added files without one inherit the manifest's.
    - `changed_by`: the snapshot that added or removed the file; null for existing files.
    - `partition`: a struct with one member per field of the spec, in order and of its type.
    - `stats`, if `with_stats`: a struct of the key-value lists of counts and bounds.
    """
    files = open_manifests(manifests, storage)
    names = _NAMES | (STATS if with_stats else {})
    tables = []
    for same in group_by_schema(files):
        group = [files[i] for i in same]
        rows = read_avro(group, names)
        with decoding(group):
            tables.append(_entries(rows, [manifests[i] for i in same], spec, with_stats, removed))
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive").combine_chunks()


def open_manifests(manifests: Sequence[ManifestFile], storage: Storage) -> list[Container]:
    """Open manifests and check their headers against the list; raises `CorruptMetadata` or `UnsupportedFeature`."""
    paths = [manifest.manifest_path for manifest in manifests]
    keys = [key_of(storage, each.manifest_path, each.key_metadata, "manifests") for each in manifests]
    files = [open_container(data, path) for path, data in zip(paths, read_streams(storage, paths, keys), strict=True)]
    for file, manifest in zip(files, manifests, strict=True):
        check_header(file, manifest)
    return files


def checked_rows(rows: pa.Table, manifests: Sequence[ManifestFile]) -> pa.Table:
    """Return the decoded rows of manifests after checks of status, counts and duplicates; see `manifest_checks`.

    Raises `CorruptMetadata`, also for records that are not manifest entries.
    """
    if "data_file" not in rows.column_names or "status" not in rows.column_names:
        raise fault(manifests[0], "it is not a manifest: its records have no status or data_file")
    rows = rows.combine_chunks()
    status, number = only_chunk(rows["status"]), only_chunk(rows[FILE])
    if not (pa.types.is_integer(status.type) and pa.types.is_struct(rows["data_file"].type)):
        raise fault(
            manifests[0],
            f"its field status has the invalid type {status.type}, or data_file {rows['data_file'].type}",
        )
    if only_chunk(rows["data_file"]).null_count:
        raise fault(manifests[0], "it, or one that is read with it, has an entry without a data_file")
    check_status(status, number, manifests)
    check_counts(status.to_numpy(), number.to_numpy(), manifests)
    files = only_chunk(rows["data_file"])
    if files.type.get_field_index("file_path") >= 0:
        live = pc.not_equal(status, DELETED)
        check_once(files.field("file_path").filter(live), number.filter(live).to_numpy(), manifests)
    return rows


def file_columns(files: pa.StructArray, rows: int) -> dict[str, pa.Array]:
    """Return the columns of data files by name, normalized: missing content as 0, file formats in lower case.

    Members that the manifests lack are null. `rows` is the number of files.
    """
    columns = {field.name: _member(files, field.name, field.type, rows) for field in _DATA_FILE}
    columns["content"] = pc.fill_null(columns["content"], 0)
    columns["file_format"] = pc.utf8_lower(columns["file_format"])
    return columns


def _entries(
    rows: pa.Table, manifests: Sequence[ManifestFile], spec: PartitionSpec, with_stats: bool, removed: bool
) -> pa.Table:
    rows = checked_rows(rows, manifests)
    wanted = (pc.equal if removed else pc.not_equal)(rows["status"], DELETED)
    if not pc.all(wanted).as_py():
        rows = rows.filter(wanted).combine_chunks()
    files, number = only_chunk(rows["data_file"]), only_chunk(rows[FILE])
    columns = file_columns(files, len(rows))
    check_files(columns, number, manifests)
    columns["file_size_in_bytes"] = _possible_sizes(columns["file_size_in_bytes"])
    if not removed:
        columns["first_row_id"] = _row_ids(columns["first_row_id"], columns["record_count"], manifests, number)
    columns["sequence_number"] = _sequence_numbers(rows, manifests, number)
    columns["changed_by"] = _changed_by(rows, manifests, number)
    columns["spec_id"] = pa.repeat(pa.scalar(spec.id, pa.int32()), len(rows))
    columns["partition"] = partition_values(files, spec, len(rows))
    if with_stats:
        columns["stats"] = _stats(files, len(rows))
    return pa.table(columns)


def _possible_sizes(sizes: pa.Array) -> pa.Array:
    """Return file sizes, with negative and too large ones as null, because sizes are only used to balance tasks."""
    possible = pc.and_(pc.greater_equal(sizes, 0), pc.less_equal(sizes, limits.FILE_SIZE))
    return pc.if_else(possible, sizes, pa.scalar(None, sizes.type))


def _sequence_numbers(rows: pa.Table, manifests: Sequence[ManifestFile], number: pa.Array) -> pa.Array:
    """Return sequence numbers; a file without one inherits it from its manifest."""
    own = only_chunk(rows["sequence_number"]) if "sequence_number" in rows.column_names else pa.nulls(len(rows))
    inherited = pa.array([m.sequence_number for m in manifests], pa.int64()).take(number)
    return inherited_sequence_numbers(own, only_chunk(rows["status"]), inherited)


def _changed_by(rows: pa.Table, manifests: Sequence[ManifestFile], number: pa.Array) -> pa.Array:
    """Return the snapshot that added or removed each file, by its entry, else by its manifest; null for existing files.

    `number` is the manifest of each row.
    """
    own = only_chunk(rows["snapshot_id"]) if "snapshot_id" in rows.column_names else pa.nulls(len(rows))
    inherited = pa.array([m.added_snapshot_id for m in manifests], pa.int64()).take(number)
    snapshots = pc.coalesce(own.cast(pa.int64()), inherited)
    return pc.if_else(pc.equal(only_chunk(rows["status"]), EXISTING), pa.scalar(None, pa.int64()), snapshots)


def only_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column of at most one chunk as an array."""
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _member(files: pa.StructArray, name: str, kind: pa.DataType, rows: int) -> pa.Array:
    index = files.type.get_field_index(name)
    return pa.nulls(rows, kind) if index < 0 else files.field(index).cast(kind)


def _row_ids(own: pa.Array, record_count: pa.Array, manifests: Sequence[ManifestFile], number: pa.Array) -> pa.Array:
    """Fill in missing first row ids manifest by manifest; `number` is the manifest of each row."""
    if all(manifest.first_row_id is None for manifest in manifests):
        return own
    bounds = np.searchsorted(number.to_numpy(), np.arange(len(manifests) + 1)).tolist()
    slices = [(a, b - a) for a, b in pairwise(bounds)]
    pieces = zip(manifests, slices, strict=True)
    return pa.concat_arrays([inherited_row_ids(own.slice(*s), record_count.slice(*s), m) for m, s in pieces])


def inherited_row_ids(
    own: pa.Array, record_count: pa.Array, manifest: ManifestFile, live: pa.Array | None = None
) -> pa.Array:
    """Fill in missing first row ids from the manifest (specification, "First Row ID Inheritance").

    A file without one gets the manifest's first row id, plus the rows of preceding live files that also have none.
    Files that are not `live` inherit nothing.
    """
    start = manifest.first_row_id
    if start is None:
        return own
    inherits = pc.is_null(own) if live is None else pc.and_(pc.is_null(own), live)
    rows = pc.if_else(inherits, record_count, 0)
    preceding = pc.subtract(pc.cumulative_sum(rows), rows)
    return pc.if_else(inherits, pc.add(preceding, start), own)


def inherited_sequence_numbers(own: pa.Array, status: pa.Array, inherited: pa.Array | pa.Scalar) -> pa.Array:
    """Fill in missing sequence numbers from the manifest (specification, "Sequence Number Inheritance").

    If the manifest's number is 0, as in tables upgraded from version 1, all its entries inherit it. Otherwise, an
    existing file without a number stays without one.
    """
    inherits = pc.or_(pc.equal(inherited, 0), pc.not_equal(status, EXISTING))
    return pc.coalesce(own.cast(pa.int64()), pc.if_else(inherits, inherited, pa.scalar(None, pa.int64())))


def partition_values(files: pa.StructArray, spec: PartitionSpec, rows: int) -> pa.StructArray:
    """Return partition values as a struct in spec order, whose members are named by field id.

    Members are found by field id, else by name, else by position; one that the manifest lacks is null.
    """
    partition = files.field("partition") if files.type.get_field_index("partition") >= 0 else None
    written = [] if partition is None else list(partition.type)
    members = []
    for position, each in enumerate(spec.fields):
        index = _place(written, each.id, each.name, position)
        kind = each.type.arrow().storage_type if isinstance(each.type.arrow(), pa.ExtensionType) else each.type.arrow()
        if partition is None or index is None:
            members.append(pa.nulls(rows, kind))
        else:
            members.append(as_partition_type(partition.field(index), kind))
    if not members:
        return empty_structs(rows)
    return pa.StructArray.from_arrays(members, names=[str(f.id) for f in spec.fields])


def _place(written: list[pa.Field], field_id: int, name: str, position: int) -> int | None:
    ids = [int((f.metadata or {}).get(b"PARQUET:field_id", -1)) for f in written]
    if field_id in ids:
        return ids.index(field_id)
    names = [f.name for f in written]
    if name in names:
        return names.index(name)
    return position if position < len(written) and -1 in ids else None


def as_partition_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast partition values to the Arrow type of their field.

    If that is null, because the field's type is unknown, values are cast to text, and binary ones stay.
    """
    if pa.types.is_null(kind):  # no schema has the source column any more, but its values still distinguish files
        return values if pa.types.is_binary(values.type) else values.cast(pa.string())
    if values.type == kind:
        return values
    if values.null_count == len(values):  # a dropped (void) field, whose values have the type of the source
        return pa.nulls(len(values), kind)
    if pa.types.is_timestamp(kind) and pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp(values.type.unit)).cast(pa.timestamp(kind.unit)).cast(kind)
    if pa.types.is_date(kind) and pa.types.is_integer(values.type):
        return values.cast(pa.int32()).cast(kind)
    if pa.types.is_integer(kind) and pa.types.is_date(values.type):
        return values.cast(pa.int32()).cast(kind)
    return values.cast(kind)


def _stats(files: pa.StructArray, rows: int) -> pa.StructArray:
    """Return the statistics as a struct of lists of (key, value), in the same form for all writers and both decoders.

    Statistics that the manifests lack are null.
    """
    members = []
    for name in STATS.values():
        kind = pa.binary() if name.endswith("bounds") else pa.int64()
        index = files.type.get_field_index(name)
        members.append(pa.nulls(rows, _pairs_of(kind)) if index < 0 else as_pairs(files.field(index), kind))
    return pa.StructArray.from_arrays(members, names=list(STATS.values()))


def _pairs_of(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([pa.field("key", pa.int32()), pa.field("value", kind)]))


def as_pairs(lists: pa.ListArray | pa.MapArray, kind: pa.DataType) -> pa.ListArray:
    """Return a map by column id as a list of (key, value), with values cast to `kind`."""
    if pa.types.is_map(lists.type):
        keys, values = lists.keys, lists.items
    else:
        keys, values = lists.values.field(0), lists.values.field(1)
    pairs = pa.StructArray.from_arrays([keys.cast(pa.int32()), values.cast(kind)], names=["key", "value"])
    mask = lists.is_null() if lists.null_count else None
    return pa.ListArray.from_arrays(lists.offsets, pairs, type=_pairs_of(kind), mask=mask)


# Batches are formed from the end of the manifest list. Writers put new manifests first, so the manifests of older
# snapshots form the same batches again and hit the cache. The first batch grows with each commit. If it ends with a
# cached batch, only the manifests before that are read.

_BATCH_BYTES, _BATCH_MANIFESTS = 1 << 22, 64

_OF_MANIFEST = attrgetter(
    *("manifest_path", "manifest_length", "content", "sequence_number", "first_row_id", "added_snapshot_id"),
    *("added_files_count", "existing_files_count", "deleted_files_count"),
)

# By the last manifest of a batch, the number of manifests in the newest batch that ends with it.
_NEWEST: CacheKind[int] = CacheKind("newest batches of manifests", lambda count: 8)


def read_batch(
    batch: Sequence[ManifestFile], spec: PartitionSpec, storage: Storage, *, with_stats: bool, removed: bool = False
) -> pa.Table:
    """Return the live (or `removed`) entries of manifests that share one spec, in order, cached.

    See `read_manifests`.
    """
    if removed:
        return read_manifests(batch, spec, storage, with_stats=with_stats, removed=True)
    key = batch_key(batch, spec, storage, with_stats)
    read = partial(_read, batch, spec, storage, with_stats)
    if storage.key_manager is not None and any(each.key_metadata is not None for each in batch):
        return METADATA.get((key, "decrypted"), read)  # never on disk, and only for readers with a key manager
    return METADATA.get(key, cache_in_folder(storage.cache_folder, key, read))


def _read(batch: Sequence[ManifestFile], spec: PartitionSpec, storage: Storage, with_stats: bool) -> pa.Table:
    """Return the live entries of manifests; if the last ones are cached together, only the others are read.

    An earlier snapshot lists fewer manifests, which are the last of a newer list.
    """
    ending = batch_key(batch[-1:], spec, storage, with_stats)
    new = len(batch) - (_NEWEST.find(ending) or 0)
    known = METADATA.find(batch_key(batch[new:], spec, storage, with_stats)) if 0 < new < len(batch) else None
    if new > 0:
        _NEWEST.put(ending, len(batch))
    if known is None:
        return read_manifests(batch, spec, storage, with_stats=with_stats)
    entries = read_manifests(batch[:new], spec, storage, with_stats=with_stats)
    return pa.concat_tables([entries, known], promote_options="permissive").combine_chunks()


def batch_key(batch: Sequence[ManifestFile], spec: PartitionSpec, storage: Storage, with_stats: bool) -> Hashable:
    """Return a cache key of everything a decoded batch depends on: files, inherited values, spec and storage."""
    return (tuple(map(_OF_MANIFEST, batch)), spec, with_stats, storage.identity)


def batches_of(manifests: pa.Table) -> list[list[ManifestFile]]:
    """Group the manifests of a list, in order, into batches to decode together.

    A batch has one partition spec, and a limited size and number of manifests. Batches are filled from the last
    manifest backwards, so that they stay the same, and cached, when new manifests come first.
    """
    batches: list[list[ManifestFile]] = []
    for _, same in groupby(reversed(manifest_files(manifests)), key=lambda m: m.partition_spec_id):
        batch: list[ManifestFile] = []
        size = 0
        for manifest in same:
            batch.insert(0, manifest)
            size += manifest.manifest_length or _BATCH_BYTES
            if size >= _BATCH_BYTES or len(batch) == _BATCH_MANIFESTS:
                batches.append(batch)
                batch, size = [], 0
        if batch:
            batches.append(batch)
    return batches[::-1]
