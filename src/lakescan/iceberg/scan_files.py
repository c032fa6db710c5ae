"""From a snapshot to its file table: manifest list, manifests, delete index (specification, "Scan Planning").

Manifests are pruned by their partition summaries before one is opened, files by their partition values before
statistics are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.executors import PlanningExecutor, executor_for
from lakescan.expressions.predicate import TRUE
from lakescan.iceberg.delete_index import DeleteIndex
from lakescan.iceberg.manifest_batches import batches_of
from lakescan.iceberg.manifest_list import DATA, DELETES, read_manifest_list
from lakescan.iceberg.manifest_scan import ManifestScan, ScannedFiles
from lakescan.iceberg.metadata import IcebergSnapshot, TableMetadata
from lakescan.planning.candidates import Candidates
from lakescan.planning.table_format import FileRequest
from lakescan.schema import Schema
from lakescan.storage import Storage


class ScanFiles:
    """One planning of one snapshot."""

    def __init__(self, metadata: TableMetadata, schema: Schema, request: FileRequest, storage: Storage) -> None:
        self._metadata, self._request, self._storage = metadata, request, storage
        self._scan = ManifestScan(
            specs=metadata.specs,
            schema=schema,
            partition_names={f.id: f.name for f in metadata.partition_type.fields},
            predicate=request.predicate,
            columns=request.columns(schema),
            storage=storage,
        )

    def plan(self, snapshot: IcebergSnapshot) -> Iterator[Candidates]:
        """The candidates of the snapshot, some manifests at a time.

        Where every row counts, because there is neither filter nor delete, files for the limit are enough.
        """
        metrics = self._request.metrics
        manifests = read_manifest_list(snapshot, self._storage)
        data, deletes = (manifests.filter(pc.equal(manifests["content"], c)) for c in (DATA, DELETES))
        index = self._delete_index(deletes)
        kept = self._pruned(data)
        metrics.total_data_manifests = data.num_rows
        metrics.scanned_data_manifests = kept.num_rows
        metrics.skipped_data_manifests = data.num_rows - kept.num_rows
        scan = replace(self._scan, with_deletes=index.table.num_rows > 0, with_keys=index.compares_keys)
        missing = self._request.limit if self._request.predicate == TRUE and not index.table.num_rows else None
        executor = self._executor(self._request.data_mode, kept)
        for found in executor.map(scan.data_files, batches_of(kept)):
            yield _with_deletes(found, index)
            if missing is not None:
                missing -= pc.sum(found.candidates.table.files["record_count"]).as_py() or 0
                if missing <= 0:
                    return

    def added(self, snapshots: Sequence[IcebergSnapshot]) -> Iterator[Candidates]:
        """The files that snapshots added, oldest first, with the deletes that were committed with them."""
        lists = [_of_snapshot(read_manifest_list(each, self._storage), each.id) for each in snapshots]
        manifests = _once(pa.concat_tables(lists))
        data, deletes = (manifests.filter(pc.equal(manifests["content"], c)) for c in (DATA, DELETES))
        index = self._delete_index(deletes)
        kept = self._pruned(data)
        scan = replace(
            self._scan,
            with_deletes=index.table.num_rows > 0,
            with_keys=index.compares_keys,
            added_by=tuple(each.id for each in snapshots),
        )
        for found in self._executor(self._request.data_mode, kept).map(scan.data_files, batches_of(kept)):
            yield _with_deletes(found, index)

    def _delete_index(self, manifests: pa.Table) -> DeleteIndex:
        metrics = self._request.metrics
        kept = self._pruned(manifests)
        metrics.total_delete_manifests = manifests.num_rows
        metrics.scanned_delete_manifests = kept.num_rows
        metrics.skipped_delete_manifests = manifests.num_rows - kept.num_rows
        executor = self._executor(self._request.delete_mode, kept)
        found = list(executor.map(self._scan.delete_files, batches_of(kept)))
        metrics.skipped_delete_files += sum(each.skipped for each in found)
        unpartitioned = frozenset(s.id for s in self._metadata.specs.values() if s.is_unpartitioned)
        entries = _stacked([each.entries for each in found])
        index = DeleteIndex.build(entries, unpartitioned, self._metadata.all_fields)
        metrics.count_indexed(index.table["kind"])
        return index

    def _executor(self, mode: str, manifests: pa.Table) -> PlanningExecutor:
        size = pc.sum(manifests["manifest_length"]).as_py() or 0
        return executor_for(self._request.executor, mode, size)

    def _pruned(self, manifests: pa.Table) -> pa.Table:
        """The manifests that have live files and whose partitions the filter cannot rule out."""
        live = pc.add(
            pc.fill_null(manifests["added_files_count"], 1),
            pc.fill_null(manifests["existing_files_count"], 1),
        )
        keep = pc.greater(live, 0).to_numpy()
        specs = manifests["partition_spec_id"].to_numpy()
        for spec_id in np.unique(specs).tolist():
            rows = np.flatnonzero(specs == spec_id)
            mask = self._scan.may_have(manifests.take(pa.array(rows)), spec_id)
            keep[rows] &= mask.to_numpy(zero_copy_only=False)
        return manifests.filter(pa.array(keep))


def _of_snapshot(manifests: pa.Table, snapshot: int) -> pa.Table:
    """The manifests that a snapshot added; version 1 may not say which these are."""
    return manifests.filter(pc.fill_null(pc.equal(manifests["added_snapshot_id"], snapshot), True))


def _once(manifests: pa.Table) -> pa.Table:
    """The manifests, each where it comes first."""
    first = pc.index_in(manifests["manifest_path"], value_set=pc.unique(manifests["manifest_path"].combine_chunks()))
    _, rows = np.unique(first.to_numpy(), return_index=True)
    return manifests.take(pa.array(np.sort(rows)))


def _with_deletes(found: ScannedFiles, index: DeleteIndex) -> Candidates:
    """The candidates, their deletes looked up."""
    table = found.candidates.table
    if found.matching is None:
        return replace(found.candidates, table=replace(table, deletes=index.table))
    return replace(found.candidates, table=table.with_deletes(index.match(found.matching), index.table))


def _stacked(tables: list[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks() if tables else None
