"""Reading many manifests: some at a time, by a few threads, what was decoded before from the cache.

Batches are formed from the end of the manifest list: writers put new manifests first, so what older snapshots had
falls into the same batches again, and is found in the cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import groupby
from typing import Any, TypeVar

import pyarrow as pa

from lakescan.caching import METADATA
from lakescan.iceberg.manifest import read_manifests
from lakescan.iceberg.partition_spec import PartitionSpec
from lakescan.storage import Storage

_READERS = 3
_BATCH_BYTES, _BATCH_MANIFESTS = 1 << 22, 16
T = TypeVar("T")
R = TypeVar("R")
Manifest = Mapping[str, Any]  # a row of a manifest list


class ManifestReader:
    """Reads the entries of a table's manifests."""

    def __init__(self, specs: Mapping[int, PartitionSpec], storage: Storage) -> None:
        self._specs, self._storage = specs, storage

    def entries(self, manifests: pa.Table, *, with_stats: bool) -> Iterator[tuple[PartitionSpec, pa.Table]]:
        """The live entries, some manifests of one spec at a time, in the order of the manifest list.

        A few batches are decoded ahead of the one that is looked at: memory is bounded by them.
        """
        rows = manifests.drop_columns(["partitions"]).to_pylist()  # one a manifest

        def read(batch: Sequence[Manifest]) -> tuple[PartitionSpec, pa.Table]:
            spec = self._specs[batch[0]["partition_spec_id"]]
            return spec, METADATA.get(
                self._key(batch, spec, with_stats),
                lambda: read_manifests(batch, spec, self._storage, with_stats=with_stats),
            )

        with ThreadPoolExecutor(_READERS) as pool:
            yield from _ahead(pool, read, _batches(rows), _READERS)

    def _key(self, batch: Sequence[Manifest], spec: PartitionSpec, with_stats: bool) -> Hashable:
        """What a decoded batch depends on: the files, what they inherit, and where they are read from."""
        names = ("manifest_path", "manifest_length", "sequence_number", "first_row_id", "added_snapshot_id")
        return (tuple(tuple(m.get(n) for n in names) for m in batch), spec, with_stats, self._storage.identity)


def _batches(manifests: list[Manifest]) -> list[list[Manifest]]:
    """Manifests of one spec that are decoded together, some megabytes at a time."""
    found: list[list[Manifest]] = []
    for _, same in groupby(reversed(manifests), key=lambda m: m["partition_spec_id"]):
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


def _ahead(pool: Executor, work: Callable[[T], R], items: Iterable[T], count: int) -> Iterator[R]:
    """Results in order, at most `count` of them under way at once."""
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > count:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
