"""Counts of partitions from manifests: rows and files by partition and spec, which add up (specification, "Partition
Statistics").

Counts are tables (`counts_schema`). Those of several manifests are added by `summed`; those of a change are added to
what was counted before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.iceberg.manifests.codes import (
    ADDED,
    DATA_FILE,
    DELETED,
    EQUALITY_DELETES,
    EXISTING,
    POSITION_DELETES,
)
from lakescan.iceberg.manifests.manifest_file import ManifestFile
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.metadata_tables.entries import table_entries
from lakescan.iceberg.scan.partition_key import partition_numbers
from lakescan.storage import Storage

_VECTOR = "PUFFIN"  # the format of files of deletion vectors
COUNTS = (
    "data_record_count",
    "data_file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
    "dv_count",
)
UPDATED = ("last_updated_at", "last_updated_snapshot_id")
_Numbers = npt.NDArray[np.int64]


def counts_schema(partition: t.Struct) -> pa.Schema:
    """The columns of counts: the partition in the type of all specs, its spec, the counts and the last change."""
    numbers = [pa.field(name, pa.int64()) for name in (*COUNTS, *UPDATED)]
    return pa.schema([pa.field("partition", partition.arrow()), pa.field("spec_id", pa.int32()), *numbers])


@dataclass(frozen=True)
class PartitionCounts:
    """Counts the partitions of manifests; pickled for workers.

    With `changes`, added files count, removed ones count negatively, and existing ones not at all. Otherwise live files
    count. Partitions without any are there with zeros.
    """

    metadata: TableMetadata
    storage: Storage
    changes: bool = False

    def __call__(self, manifest: ManifestFile) -> pa.Table:
        """The counts of one manifest."""
        entries = table_entries(manifest, self.metadata, self.storage)
        files = pa.Table.from_struct_array(entries["data_file"].combine_chunks())
        status = entries["status"].to_numpy()
        if self.changes:
            sign = np.select([status == ADDED, status == DELETED], [1, -1], 0)
        else:
            sign = (status != DELETED).astype(np.int64)
        content = files["content"].to_numpy()
        is_vector = pc.equal(pc.utf8_upper(files["file_format"]), _VECTOR).to_numpy()
        rows, size, one = files["record_count"].to_numpy(), files["file_size_in_bytes"].to_numpy(), np.ones(len(status))
        is_data, by_position, by_key = (content == each for each in (DATA_FILE, POSITION_DELETES, EQUALITY_DELETES))
        counted = (
            (rows, is_data),
            (one, is_data),
            (size, is_data),
            (rows, by_position),
            (one, by_position & ~is_vector),
            (rows, by_key),
            (one, by_key),
            (one, by_position & is_vector),
        )
        numbers = [pa.array(np.where(which, values, 0).astype(np.int64) * sign) for values, which in counted]
        updated = self._last_updates(entries["snapshot_id"].combine_chunks(), status)
        found = [files["partition"].combine_chunks(), files["spec_id"].combine_chunks(), *numbers, *updated]
        return sum_counts(pa.table(found, schema=counts_schema(self.metadata.partition_type)))

    def _last_updates(self, snapshots: pa.Array, status: _Numbers) -> list[pa.Array]:
        """The time and the id of the snapshot that each entry is of; null for those that have expired."""
        known = self.metadata.snapshots
        times = pa.array([each.timestamp_ms for each in known.values()], pa.int64())
        place = pc.index_in(snapshots, value_set=pa.array(list(known), pa.int64()))
        if self.changes:
            place = pc.if_else(pa.array(status != EXISTING), place, pa.scalar(None, pa.int32()))
        return [times.take(place), pc.if_else(place.is_valid(), snapshots, pa.scalar(None, pa.int64()))]


def sum_counts(counts: pa.Table) -> pa.Table:
    """Add up the rows of each partition and spec. The last change is that of the latest snapshot.

    Args:
        counts: As in `counts_schema`, with any number of rows for a partition.

    Example:
        >>> summed(pa.concat_tables([before, change]))
    """
    if not counts.num_rows:
        return counts
    numbers = partition_numbers(counts)
    times = pc.fill_null(counts["last_updated_at"], np.iinfo(np.int64).min).to_numpy()
    order = np.lexsort((times, numbers))
    starts = np.searchsorted(numbers[order], np.arange(numbers.max() + 1))
    last = pa.array(order[np.append(starts[1:], len(order)) - 1])
    columns: Mapping[str, pa.Array] = {
        name: pa.array(np.add.reduceat(counts[name].to_numpy()[order], starts))
        if name in COUNTS
        else counts[name].take(last).combine_chunks()
        for name in counts.column_names
    }
    return pa.table(columns, schema=counts.schema)
