"""Read manifest lists: a snapshot's manifests with their partition summaries (specification, "Manifest Lists")."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.cache import CacheKind, table_size
from lakescan.errors import CorruptMetadata, MissingFile
from lakescan.iceberg.manifests.avro_decode import FILE, decoding, group_by_schema, open_container, read_avro
from lakescan.iceberg.manifests.manifest_file import DATA, DELETED, DELETES, manifest_files
from lakescan.iceberg.manifests.manifest_reader import open_manifests
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.storage import Storage
from lakescan.storage.encrypted_files import is_encrypted_stream, list_key_of, read_streams
from lakescan.storage.encryption import FileKey
from lakescan.storage.errors import redact

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

# By the identity of a storage and a snapshot (the value keeps both alive), so that the plans of one open table read a
# list once. A table that is opened again has another storage, and reads its files again.
_OPENED: CacheKind[tuple[Storage, IcebergSnapshot, pa.Table]] = CacheKind(
    "manifest lists", lambda value: table_size(value[2])
)


def read_manifest_list(snapshot: IcebergSnapshot, storage: Storage) -> pa.Table:
    """Return the manifests of a snapshot, one row each (`MANIFESTS`); v1 metadata may list the manifests itself.

    The list is cached per storage while the process's cache has room. Raises `CorruptMetadata` for a list that
    contradicts itself, or is empty although the snapshot has files.
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
    """Read the manifest lists of snapshots; consecutive lists with the same schema are decoded together."""
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
    """Return the key of a snapshot's manifest list at `path`; None for a plain list.

    Without a key manager, the file is checked, because it may be plain although the snapshot has a key id.
    """
    if snapshot.key_id is None or (storage.key_manager is None and not is_encrypted_stream(storage, path)):
        return None
    return list_key_of(storage, path, snapshot.list_key)


def own_manifests(snapshots: Sequence[IcebergSnapshot], storage: Storage) -> list[pa.Table]:
    """Return, for each snapshot, the manifests that it added itself (`MANIFESTS`).

    A version 1 list may not record who added a manifest, which is then included. Lists are read in batches to bound
    memory, because each of the last of N snapshots lists about N manifests.
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
    """Return the partition spec id in a manifest's own header; version 1 may omit it, which means 0."""
    spec_id = open_container(storage.read(manifest), manifest).metadata.get("partition-spec-id", b"0")
    if not spec_id.isdigit() or len(spec_id) > 9:
        raise fault(manifest, f"its header has the invalid partition-spec-id {spec_id[:40]!r}")
    return int(spec_id)


def _fill_columns(table: pa.Table) -> pa.Table:
    """Return the table with the columns of `MANIFESTS`.

    Columns that old versions lack are null, except content, sequence number and spec id, which are 0.
    """
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


_COUNTS = ("added_files_count", "existing_files_count", "deleted_files_count", "sequence_number", "partition_spec_id")
_SUMMARY_COUNTS = ("total-data-files", "total-delete-files", "added-data-files", "added-delete-files")


def check_manifests(manifests: pa.Table, source: str) -> None:
    """Check that each manifest is listed once, with a path, valid content and counts; raises `CorruptMetadata`."""
    paths, content = manifests["manifest_path"], manifests["content"]
    if paths.null_count:
        raise fault(source, "it has a manifest without a manifest_path")
    if len(pc.unique(paths)) < len(paths):
        counted = paths.value_counts()
        twice = counted.field("values")[pc.index(pc.greater(counted.field("counts"), 1), True).as_py()].as_py()
        raise fault(source, f"it lists the manifest {redact(twice)} more than once")
    if (place := pc.index(pc.is_in(content, value_set=pa.array([0, 1], content.type)), False).as_py()) >= 0:
        raise fault(source, f"{redact(paths[place].as_py())} has content {content[place].as_py()}, not 0 or 1")
    for name in _COUNTS:
        if (place := pc.index(pc.less(manifests[name], 0), True).as_py()) >= 0:
            raise fault(source, f"{redact(paths[place].as_py())} has {manifests[name][place].as_py()} for {name}")


def check_specs(manifests: pa.Table, specs: Collection[int]) -> None:
    """Check that each manifest has a partition spec of the table; raises `CorruptMetadata`."""
    known = pc.is_in(manifests["partition_spec_id"], value_set=pa.array(sorted(specs), pa.int32()))
    if (place := pc.index(known, False).as_py()) >= 0:
        path, spec_id = (manifests[name][place].as_py() for name in ("manifest_path", "partition_spec_id"))
        raise CorruptMetadata(
            f"manifest {redact(path)} has the partition spec {spec_id} in its manifest list, but the table has only "
            f"{sorted(specs)}. Restore the list, or open a newer metadata file of the table."
        )


def check_whole(manifests: pa.Table, snapshot: IcebergSnapshot) -> None:
    """Raise `CorruptMetadata` if a list is empty although the summary of its snapshot counts files."""
    if manifests.num_rows:
        return
    for name in _SUMMARY_COUNTS:
        count = snapshot.summary.get(name, "0")
        if count.strip("0"):
            problem = f"it lists no manifest, but the summary of snapshot {snapshot.id} has {name}={count[:40]}"
            raise fault(snapshot.manifest_list or "the table's metadata", problem)


def fault(source: str, problem: str) -> CorruptMetadata:
    """Return the error for a damaged manifest list, with a remedy."""
    return CorruptMetadata(f"manifest list {redact(source)}: {problem}. Restore the file, or read an older snapshot.")


# A list truncated at a block boundary is still a valid Avro file. The loss shows only in the totals of the snapshot's
# summary. Some writers get totals wrong, so totals are trusted only if they follow from the parent's manifests.

# The summary's keys for the total, added and removed files, by manifest content.
_COUNTED = {
    DATA: ("total-data-files", "added-data-files", "deleted-data-files"),
    DELETES: ("total-delete-files", "added-delete-files", "removed-delete-files"),
}


def snapshot_manifests(snapshot: IcebergSnapshot, metadata: TableMetadata, storage: Storage) -> pa.Table:
    """Return the manifests of a snapshot (`MANIFESTS`); raises `CorruptMetadata` for a list that provably lost some."""
    manifests = read_manifest_list(snapshot, storage)
    check_specs(manifests, metadata.specs)
    for content in _COUNTED:
        expected, live = snapshot.count(_COUNTED[content][0], 0), _live_files(manifests, content)
        if expected is not None and live is not None and live < expected:
            _check_complete(manifests, content, expected, snapshot, metadata, storage)
    return manifests


def _check_complete(
    manifests: pa.Table,
    content: int,
    expected: int,
    snapshot: IcebergSnapshot,
    metadata: TableMetadata,
    storage: Storage,
) -> None:
    """Raise `CorruptMetadata` if the manifests of a content have fewer live files than the summary's total, `expected`.

    The total is trusted only if it is the parent's total plus the snapshot's own changes. Otherwise nothing is checked.
    """
    total, added, removed = _COUNTED[content]
    before = _files_before(snapshot, metadata, storage, content)
    more, less = snapshot.count(added, 0), snapshot.count(removed, 0)
    if before is None or more is None or less is None or expected != before + more - less:
        return
    if _removed_files(manifests, content, snapshot) > less:
        return
    if (actual := _live_entries(manifests, content, storage)) < expected:
        raise fault(
            snapshot.manifest_list or metadata.source,
            f"its manifests have {actual:,} live files, but the summary of snapshot {snapshot.id} has "
            f"{total}={expected}, the {before:,} of its parent plus its own changes. Manifests are missing",
        )


def _files_before(snapshot: IcebergSnapshot, metadata: TableMetadata, storage: Storage, content: int) -> int | None:
    """Return the number of live files of a content in the parent; 0 for a first snapshot.

    Returns None if the parent has expired, or if its manifest list and its summary do not agree on the number.
    """
    if snapshot.parent_id is None:
        return 0
    parent = metadata.snapshots.get(snapshot.parent_id)
    if parent is None or parent is snapshot:
        return None
    try:
        live = _live_files(read_manifest_list(parent, storage), content)
    except (MissingFile, CorruptMetadata):
        return None
    return live if live == parent.count(_COUNTED[content][0], None) else None


def _live_files(manifests: pa.Table, content: int) -> int | None:
    """Return the number of live files in manifests of one content by the list's counts; None if a count is missing."""
    counts = _filter_content(manifests, content).select(["added_files_count", "existing_files_count"])
    if any(column.null_count for column in counts.columns):
        return None
    return sum(pc.sum(column.cast(pa.int64())).as_py() or 0 for column in counts.columns)


def _live_entries(manifests: pa.Table, content: int, storage: Storage) -> int:
    """Return the number of live entries in the manifests of a content, read from the manifests themselves.

    They can be more than the list counts, after manual edits.
    """
    listed = manifest_files(_filter_content(manifests, content))
    files = (file for manifest in listed for file in open_manifests([manifest], storage))
    live = (pc.not_equal(read_avro([file], {0: "status"})["status"], DELETED) for file in files)
    return sum(pc.sum(each).as_py() or 0 for each in live)


def _removed_files(manifests: pa.Table, content: int, snapshot: IcebergSnapshot) -> int:
    """Return the number of removed files in the snapshot's own manifests, by the list's counts."""
    own = manifests.filter(pc.equal(manifests["added_snapshot_id"], snapshot.id))
    return pc.sum(_filter_content(own, content)["deleted_files_count"].cast(pa.int64())).as_py() or 0


def _filter_content(manifests: pa.Table, content: int) -> pa.Table:
    return manifests.filter(pc.equal(manifests["content"], content))
