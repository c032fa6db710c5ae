"""The manifests of the snapshot that a commit is based on, with all values that a new manifest list requires."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.manifests.manifest_entries import entries_of, read_entries
from lakescan.iceberg.manifests.manifest_file import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EQUALITY_DELETES,
    EXISTING,
    manifest_files,
)
from lakescan.iceberg.manifests.manifest_list import MANIFESTS, fault, snapshot_manifests
from lakescan.storage import Storage
from lakescan.storage.errors import redact

_COUNTS = {"added": ADDED, "existing": EXISTING, "deleted": DELETED}


def listed_manifests(base: CommitBase, storage: Storage) -> pa.Table:
    """Return the manifests of the branch's newest snapshot (`MANIFESTS`), with all counts that new lists require.

    Version 1 may omit counts and sequence numbers. Counts are then read from the manifests, and sequence numbers are 0.
    Raises `UnsupportedFeature` for a snapshot without a manifest list, `CorruptMetadata` for a list that lacks a length
    or a snapshot id.
    """
    head = base.head
    if head is None:
        return MANIFESTS.empty_table()
    if head.manifest_list is None:
        raise UnsupportedFeature(
            f"committing to {base.metadata.location}, whose snapshot {head.id} lists its manifests in the metadata",
            "Rewrite its metadata with Iceberg's Java library first.",
        )
    manifests = snapshot_manifests(head, base.metadata, storage)
    _check_required_columns(manifests, head.manifest_list)
    manifests = _set_column(
        manifests, "partitions", _discard_partial_summaries(manifests["partitions"].combine_chunks())
    )
    numbers = pc.fill_null(manifests["min_sequence_number"], 0)
    manifests = _set_column(manifests, "min_sequence_number", numbers)
    return _fill_counts(manifests, base, storage) if base.format_version > 1 else manifests


def _check_required_columns(manifests: pa.Table, source: str) -> None:
    """Raise `CorruptMetadata` for a manifest without a length or the id of the snapshot that added it.

    Every manifest list requires both. `source` is the manifest list in the message.
    """
    for name in ("manifest_length", "added_snapshot_id"):
        if (place := pc.index(pc.is_null(manifests[name]), True).as_py()) >= 0:
            raise fault(
                source, f"it has no {name} for the manifest {redact(manifests['manifest_path'][place].as_py())}"
            )


def _discard_partial_summaries(summaries: pa.ListArray) -> pa.Array:
    """Return partition summaries, with null (unknown) for manifests that lack `contains_null` in a summary."""
    unknown = pc.is_null(summaries.flatten().field("contains_null"))
    lacking = pc.unique(pc.list_parent_indices(summaries).filter(unknown))
    rows = pa.array(np.arange(len(summaries)))
    return pc.if_else(pc.is_in(rows, value_set=lacking.cast(rows.type)), pa.scalar(None, summaries.type), summaries)


def _fill_counts(manifests: pa.Table, base: CommitBase, storage: Storage) -> pa.Table:
    """Fill in missing counts from the manifests themselves."""
    names = [f"{name}_{what}_count" for name in _COUNTS for what in ("files", "rows")]
    if not any(manifests[name].null_count for name in names):
        return manifests
    counted: dict[str, list[int | None]] = {name: manifests[name].to_pylist() for name in names}
    for place, manifest in enumerate(manifest_files(manifests)):
        if all(counted[name][place] is not None for name in names):
            continue
        entries = read_entries(manifest, base.metadata.specs[manifest.partition_spec_id], storage)
        rows = pc.struct_field(entries["data_file"].combine_chunks(), "record_count")
        for name, status in _COUNTS.items():
            of_status = pc.equal(entries["status"], status)
            counted[f"{name}_files_count"][place] = pc.sum(of_status).as_py() or 0
            counted[f"{name}_rows_count"][place] = pc.sum(pc.if_else(of_status, rows, 0)).as_py() or 0
    for name, values in counted.items():
        manifests = _set_column(manifests, name, pa.array(values, manifests[name].type))
    return manifests


def _set_column(manifests: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return manifests.set_column(manifests.column_names.index(name), MANIFESTS.field(name), values)


def find_live_files(locations: pa.Array, base: CommitBase, storage: Storage) -> pa.Array:
    """Return those of the locations that are live data files of the branch, however they are spelled.

    The search stops at the first manifest that has any of them, so the result may be incomplete.
    """
    places = storage.places(base.metadata.location)
    wanted = places.canonicalize(locations)
    listed = listed_manifests(base, storage)
    data = manifest_files(listed.filter(pc.equal(listed["content"], DATA)))
    for entries in entries_of(data, base.metadata.specs, storage):
        live = entries.filter(pc.not_equal(entries["status"], DELETED))["data_file"].combine_chunks()
        there = pc.is_in(wanted, value_set=places.canonicalize(live.field("file_path").cast(pa.string())))
        if pc.any(there).as_py():
            return locations.filter(there)
    return locations.slice(0, 0)


def equality_delete_files(base: CommitBase, storage: Storage) -> list[str]:
    """Return the locations of the equality delete files of a branch's newest snapshot."""
    manifests = listed_manifests(base, storage)
    of_deletes = manifests.filter(pc.equal(manifests["content"], DELETES))
    found: list[str] = []
    for entries in entries_of(manifest_files(of_deletes), base.metadata.specs, storage):
        files = entries["data_file"].combine_chunks()
        is_equality = pc.equal(files.field("content"), EQUALITY_DELETES)
        is_live = pc.not_equal(entries["status"].combine_chunks().cast(pa.int32()), DELETED)
        found += files.field("file_path").filter(pc.and_(is_equality, is_live)).to_pylist()
    return found
