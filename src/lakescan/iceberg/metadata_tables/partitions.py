"""The `partitions` table: file and row counts of each partition of a snapshot, and its last change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.arrays import dictionary_codes
from lakescan.common.schema import Schema
from lakescan.iceberg.manifests.manifest_file import (
    DATA_FILE,
    DELETED,
    EQUALITY_DELETES,
    POSITION_DELETES,
    manifest_files,
)
from lakescan.iceberg.manifests.manifest_list import snapshot_manifests
from lakescan.iceberg.metadata.partition_spec import add_partition_key
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.metadata_tables.entries import PARTITION_ID, table_entries
from lakescan.storage import Storage

_COUNTS = (
    t.Field(2, "record_count", t.LONG, required=True, doc="Records in data files"),
    t.Field(3, "file_count", t.INT, required=True, doc="Data files"),
    t.Field(11, "total_data_file_size_in_bytes", t.LONG, required=True, doc="Bytes of data files"),
    t.Field(5, "position_delete_record_count", t.LONG, required=True, doc="Records in position delete files"),
    t.Field(6, "position_delete_file_count", t.INT, required=True, doc="Position delete files"),
    t.Field(7, "equality_delete_record_count", t.LONG, required=True, doc="Records in equality delete files"),
    t.Field(8, "equality_delete_file_count", t.INT, required=True, doc="Equality delete files"),
)
_UPDATED = (
    t.Field(9, "last_updated_at", t.Timestamp(), doc="When the partition last changed"),
    t.Field(10, "last_updated_snapshot_id", t.LONG, doc="The snapshot that last changed it"),
)


@dataclass(frozen=True)
class IcebergPartitionsTable:
    """One row per partition, whatever the specs of its files; a single row for an unpartitioned table.

    As in Java, the `spec_id` of a partition is that of the file that the newest unexpired snapshot changed. If all of
    these snapshots have expired, it is that of the partition's first file (Java returns 0).
    """

    metadata: TableMetadata
    storage: Storage
    snapshot: IcebergSnapshot | None

    @cached_property
    def schema(self) -> Schema:
        """The partition and spec id (for partitioned tables), followed by file counts and the last change."""
        partition = self.metadata.partition_type
        shown = (
            t.Field(PARTITION_ID, "partition", partition, required=True),
            t.Field(4, "spec_id", t.INT, required=True),
        )
        return Schema(((*shown,) if partition.fields else ()) + _COUNTS + _UPDATED)

    def parts(self) -> Sequence[Any]:
        """Return the snapshot as the only part, because partitions span manifests; nothing for an empty table."""
        return () if self.snapshot is None else (self.snapshot,)

    def read(self, part: IcebergSnapshot) -> Iterator[pa.RecordBatch]:
        """Yield the partitions of the snapshot, in order of their first appearance in its manifests."""
        manifests = manifest_files(snapshot_manifests(part, self.metadata, self.storage))
        if not manifests:
            return
        entries = pa.concat_tables([table_entries(m, self.metadata, self.storage) for m in manifests])
        live = entries.filter(pc.not_equal(entries["status"], DELETED)).combine_chunks()
        if live.num_rows:
            yield self._group_entries(live)

    def _group_entries(self, entries: pa.Table) -> pa.RecordBatch:
        files = pa.Table.from_struct_array(entries["data_file"].chunk(0))
        numbers, first = self._numbers(files)
        groups = len(first)
        content = files["content"].to_numpy()

        def total(values: np.ndarray, kind: int) -> np.ndarray:
            return np.bincount(numbers, weights=np.where(content == kind, values, 0), minlength=groups)

        records, sizes = (files[n].to_numpy() for n in ("record_count", "file_size_in_bytes"))
        ones = np.ones(len(content), dtype=np.int64)
        counted = [
            *(total(v, DATA_FILE) for v in (records, ones, sizes)),
            *(total(v, POSITION_DELETES) for v in (records, ones)),
            *(total(v, EQUALITY_DELETES) for v in (records, ones)),
        ]
        columns = [pa.array(c.astype(np.int64)).cast(f.type.arrow()) for c, f in zip(counted, _COUNTS, strict=True)]
        newest, updated = self._last_updates(entries["snapshot_id"], numbers, groups)
        places = {"partition": first, "spec_id": newest} if self._is_shown else {}
        shown = [files[name].take(pa.array(place)).combine_chunks() for name, place in places.items()]
        return pa.RecordBatch.from_arrays([*shown, *columns, *updated], schema=self.schema.arrow())

    @property
    def _is_shown(self) -> bool:
        return bool(self.metadata.partition_type.fields)

    def _numbers(self, files: pa.Table) -> tuple[np.ndarray, np.ndarray]:
        """Return each file's partition as a number, from 0 in order of appearance, and each partition's first file.

        All files of an unpartitioned table are in partition 0. Equal values of different specs are one partition.
        """
        if not self._is_shown:
            return np.zeros(files.num_rows, dtype=np.int64), np.zeros(1, dtype=np.int64)
        numbers = dictionary_codes(add_partition_key(files)["partition_key"])
        return numbers, np.unique(numbers, return_index=True)[1]

    def _last_updates(
        self, snapshot_ids: pa.ChunkedArray, numbers: np.ndarray, groups: int
    ) -> tuple[np.ndarray, list[pa.Array]]:
        """Return the row of each partition's newest file, and the time and id of the snapshot that added that file.

        `snapshot_ids` and `numbers` are the snapshot and the partition of each file, `groups` is the number of
        partitions. Time and id are null if all snapshots that added files to the partition have expired.
        """
        known = self.metadata.snapshots
        times = pa.array([s.timestamp_ms for s in known.values()], pa.int64())
        place = pc.index_in(snapshot_ids, value_set=pa.array(list(known), pa.int64()))
        timestamps = pc.fill_null(times.take(place.combine_chunks()), -1).to_numpy()
        order = np.lexsort((-np.arange(len(numbers)), timestamps, numbers))
        newest = order[np.searchsorted(numbers[order], np.arange(groups), side="right") - 1]
        unknown = timestamps[newest] < 0
        at = pa.array(timestamps[newest], mask=unknown).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
        return newest, [at, pa.array(snapshot_ids.to_numpy()[newest], mask=unknown)]
