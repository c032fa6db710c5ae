"""Read manifests in batches, through the cache of decoded metadata.

Batches are formed from the end of the manifest list. Writers put new manifests first, so the manifests of older
snapshots form the same batches again and hit the cache. The first batch grows with each commit: of one that ends like a
cached batch, only the manifests in front of that are read.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter

import pyarrow as pa

from lakescan.common.cache import METADATA, CacheKind
from lakescan.common.folder_cache import cache_in_folder
from lakescan.iceberg.manifests.manifest import read_manifests
from lakescan.iceberg.manifests.manifest_file import ManifestFile, manifest_files
from lakescan.iceberg.metadata.partition_spec import PartitionSpec
from lakescan.storage import Storage

_BATCH_BYTES, _BATCH_MANIFESTS = 1 << 22, 64

_OF_MANIFEST = attrgetter(
    *("manifest_path", "manifest_length", "content", "sequence_number", "first_row_id", "added_snapshot_id"),
    *("added_files_count", "existing_files_count", "deleted_files_count"),
)

# How many manifests had the batch that was read last, of those that end with one manifest.
_NEWEST: CacheKind[int] = CacheKind("newest batches of manifests", lambda count: 8)


def read_batch(
    batch: Sequence[ManifestFile], spec: PartitionSpec, storage: Storage, *, with_stats: bool, removed: bool = False
) -> pa.Table:
    """The live (or `removed`) entries of manifests that share one spec, in order; see `read_manifests`."""
    if removed:
        return read_manifests(batch, spec, storage, with_stats=with_stats, removed=True)
    key = batch_key(batch, spec, storage, with_stats)
    read = partial(_read, batch, spec, storage, with_stats)
    if storage.key_manager is not None and any(each.key_metadata is not None for each in batch):
        return METADATA.get((key, "decrypted"), read)  # never on disk, and for readers with a key manager alone
    return METADATA.get(key, cache_in_folder(storage.cache_folder, key, read))


def _read(batch: Sequence[ManifestFile], spec: PartitionSpec, storage: Storage, with_stats: bool) -> pa.Table:
    """The live entries of manifests, of which the last ones may be cached as the batch of an earlier snapshot."""
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
    """Everything that a decoded batch depends on: the files, the values they inherit, and the storage."""
    return (tuple(map(_OF_MANIFEST, batch)), spec, with_stats, storage.identity)


def batches_of(manifests: pa.Table) -> list[list[ManifestFile]]:
    """Group the rows of a manifest list into batches to decode together: one spec and up to a few megabytes each."""
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
