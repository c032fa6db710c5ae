"""Reading many manifests: some at a time, what was decoded before from the cache.

Batches are formed from the end of the manifest list: writers put new manifests first, so what older snapshots had
falls into the same batches again, and is found in the cache.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from lakescan.common.cache import METADATA
from lakescan.iceberg.manifests.manifest import read_manifests
from lakescan.iceberg.metadata.partition_spec import PartitionSpec
from lakescan.storage.storage import Storage

_BATCH_BYTES, _BATCH_MANIFESTS = 1 << 22, 16
Manifest = Mapping[str, Any]  # a row of a manifest list


def read_batch(
    batch: Sequence[Manifest], spec: PartitionSpec, storage: Storage, *, with_stats: bool, removed: bool = False
) -> pa.Table:
    """The live entries of some manifests of one spec, in order, or those `removed`; see `read_manifests`."""
    if removed:
        return read_manifests(batch, spec, storage, with_stats=with_stats, removed=True)
    key = _key(batch, spec, storage, with_stats)
    return METADATA.get(key, lambda: read_manifests(batch, spec, storage, with_stats=with_stats), storage.cache_folder)


def _key(batch: Sequence[Manifest], spec: PartitionSpec, storage: Storage, with_stats: bool) -> Hashable:
    """What a decoded batch depends on: the files, what they inherit, and where they are read from."""
    names = (
        *("manifest_path", "manifest_length", "content", "sequence_number", "first_row_id", "added_snapshot_id"),
        *("added_files_count", "existing_files_count", "deleted_files_count"),
    )
    return (tuple(tuple(m.get(n) for n in names) for m in batch), spec, with_stats, storage.identity)


def batches_of(manifests: pa.Table) -> list[list[Manifest]]:
    """Rows of a manifest list that are decoded together: of one spec, some megabytes at a time. One step a manifest."""
    rows = manifests.drop_columns(["partitions"]).to_pylist()
    found: list[list[Manifest]] = []
    for _, same in groupby(reversed(rows), key=lambda m: m["partition_spec_id"]):
        batch: list[Manifest] = []
        size = 0
        for manifest in same:
            batch.insert(0, manifest)
            size += manifest["manifest_length"] or _BATCH_BYTES
            if size >= _BATCH_BYTES or len(batch) == _BATCH_MANIFESTS:
                found.append(batch)
                batch, size = [], 0
        if batch:
            found.append(batch)
    return found[::-1]
