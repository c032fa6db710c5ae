"""From a snapshot to its file table: manifest list, manifests, delete index (specification, "Scan Planning").

Manifests are pruned by their partition summaries before one is opened, files by their partition values before
statistics are looked at.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.schema import Schema
from lakescan.executors import PlanningExecutor, executor_for
from lakescan.expressions.predicate import TRUE
from lakescan.formats.table_format import FileRequest
from lakescan.iceberg.manifests.batches import batches_of
from lakescan.iceberg.manifests.list_checks import check_specs
from lakescan.iceberg.manifests.manifest_list import DATA, DELETES, own_manifests
from lakescan.iceberg.manifests.snapshot_manifests import snapshot_manifests
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.scan.delete_index import DeleteIndex
from lakescan.iceberg.scan.file_names import FileNames
from lakescan.iceberg.scan.manifest_scan import ManifestScan, ScannedFiles
from lakescan.planning.candidates import Candidates
from lakescan.planning.file_table import FileTable
from lakescan.storage.storage import Storage

_TOGETHER = 10_000  # data files among which the one is sought that a delete names


class ScanFiles:
    """One planning of one snapshot."""

    def __init__(self, metadata: TableMetadata, schema: Schema, request: FileRequest, storage: Storage) -> None:
        self._metadata, self._request, self._storage = metadata, request, storage
        self._places = storage.places(metadata.location)
        self._scan = ManifestScan(
            specs=metadata.specs,
            schema=schema,
            partition_names={f.id: f.name for f in metadata.partition_type.fields},
            predicate=request.predicate,
            columns=request.columns(schema),
            storage=storage,
            is_encrypted="encryption.key-id" in metadata.properties,
        )

    def plan(self, snapshot: IcebergSnapshot) -> Iterator[Candidates]:
        """The candidates of the snapshot, some manifests at a time.

        Where every row counts, because there is neither filter nor delete, files for the limit are enough.
        """
        data, deletes = self.manifests(snapshot)
        index = self.index_of(deletes)
        missing = self._request.limit if self._request.predicate == TRUE and not index.table.num_rows else None
        for found in self.scanned(data, index):
            yield with_deletes(found, index)
            if missing is not None:
                missing -= pc.sum(found.candidates.table.files["record_count"]).as_py() or 0
                if missing <= 0:
                    return
        self._request.metrics.respelled_delete_files += int(index.respelled.sum())
        if self._request.predicate == TRUE:  # else files that were left out may be those that deletes name
            self._request.metrics.dangling_delete_files += index.dangling

    def added(self, snapshots: Sequence[IcebergSnapshot]) -> Iterator[Candidates]:
        """The files that snapshots added, oldest first; deletes apply that were committed with them."""
        lists = map(_by_content, self._own(snapshots))
        for has_deletes, run in groupby(zip(snapshots, lists, strict=True), key=lambda each: each[1][1].num_rows > 0):
            some = list(run)
            # A delete of a later snapshot is none of an earlier one's: where there are deletes, each goes by itself.
            for part in [[each] for each in some] if has_deletes else [some]:
                data, deletes = (_once(pa.concat_tables([each[1][i] for each in part])) for i in (0, 1))
                index = self.index_of(deletes)
                ids = tuple(snapshot.id for snapshot, _ in part)
                for found in self.scanned(data, index, changed_by=ids):
                    yield with_deletes(found, index)

    def manifests(self, snapshot: IcebergSnapshot, *, only_its_own: bool = False) -> tuple[pa.Table, pa.Table]:
        """The snapshot's manifests of data and of deletes; or those that it added itself, where they say so."""
        if only_its_own:
            return _by_content(self._own([snapshot])[0])
        return _by_content(snapshot_manifests(snapshot, self._metadata, self._storage))

    def _own(self, snapshots: Sequence[IcebergSnapshot]) -> list[pa.Table]:
        found = own_manifests(snapshots, self._storage)
        for each in found:
            check_specs(each, self._metadata.specs)
        return found

    def scanned(
        self,
        manifests: pa.Table,
        *indexes: DeleteIndex,
        changed_by: tuple[int, ...] | None = None,
        removed: bool = False,
    ) -> Iterator[ScannedFiles]:
        """The files of manifests, with what the indexes need to find their deletes.

        They are live, or those that snapshots `changed_by` added, or `removed`.
        """
        metrics = self._request.metrics
        kept = manifests if removed else self._pruned(manifests)
        metrics.total_data_manifests += manifests.num_rows
        metrics.scanned_data_manifests += kept.num_rows
        metrics.skipped_data_manifests += manifests.num_rows - kept.num_rows
        scan = replace(
            self._scan,
            with_deletes=any(index.table.num_rows for index in indexes),
            with_keys=any(index.compares_keys for index in indexes),
            changed_by=changed_by,
            removed=removed,
        )
        found = self._executor(self._request.data_mode, kept).map(scan.data_files, batches_of(kept))
        yield from self._named(found) if any(index.by_position for index in indexes) else found

    def _named(self, found: Iterable[ScannedFiles]) -> Iterator[ScannedFiles]:
        """The files with the names by which deletes find them: those of as many files as one part of a plan has."""
        earlier: list[FileNames] = []
        for some in _by_files(found):
            paths = pa.chunked_array([c for each in some for c in _paths(each).chunks], pa.string())
            names = FileNames(pc.unique(paths), self._places)
            for other in earlier:
                names.check_apart(other)
            earlier.append(names)
            yield from (replace(each, names=names) for each in some)

    def index_of(self, manifests: pa.Table) -> DeleteIndex:
        """The delete index of some manifests of deletes."""
        metrics = self._request.metrics
        kept = self._pruned(manifests)
        metrics.total_delete_manifests += manifests.num_rows
        metrics.scanned_delete_manifests += kept.num_rows
        metrics.skipped_delete_manifests += manifests.num_rows - kept.num_rows
        executor = self._executor(self._request.delete_mode, kept)
        found = list(executor.map(self._scan.delete_files, batches_of(kept)))
        metrics.skipped_delete_files += sum(each.skipped for each in found)
        unpartitioned = frozenset(s.id for s in self._metadata.specs.values() if s.is_unpartitioned)
        entries = _stacked([each.entries for each in found])
        index = DeleteIndex.build(entries, unpartitioned, self._metadata.all_fields, self._places)
        metrics.count_indexed(index.table["kind"])
        return index

    def _executor(self, mode: str, manifests: pa.Table) -> PlanningExecutor:
        size = pc.sum(manifests["manifest_length"]).as_py() or 0
        return executor_for(self._request.executor, mode, size)

    def _pruned(self, manifests: pa.Table) -> pa.Table:
        """The manifests that have live files and whose partitions the filter cannot rule out."""
        keep = may_have_live_files(manifests).to_numpy()
        specs = manifests["partition_spec_id"].to_numpy()
        for spec_id in np.unique(specs).tolist():
            rows = np.flatnonzero(specs == spec_id)
            mask = self._scan.may_have(manifests.take(pa.array(rows)), spec_id)
            keep[rows] &= mask.to_numpy(zero_copy_only=False)
        return manifests.filter(pa.array(keep))


def _by_content(manifests: pa.Table) -> tuple[pa.Table, pa.Table]:
    data, deletes = (manifests.filter(pc.equal(manifests["content"], c)) for c in (DATA, DELETES))
    return data, deletes


def may_have_live_files(manifests: pa.Table) -> pa.ChunkedArray:
    """Whether a list leaves it open that a manifest has live files: all its entries are deleted, if that many are told.

    A count of 0 where nothing was deleted either, or where rows are counted, is one that a writer did not make.
    """
    names = ("added_files_count", "existing_files_count", "added_rows_count", "existing_rows_count")
    live = [pc.greater(pc.fill_null(manifests[name], 0 if "rows" in name else 1), 0) for name in names]
    nothing = pc.equal(pc.fill_null(manifests["deleted_files_count"], 0), 0)
    return functools.reduce(pc.or_, [*live, nothing])


def _once(manifests: pa.Table) -> pa.Table:
    """The manifests, each where it comes first."""
    first = pc.index_in(manifests["manifest_path"], value_set=pc.unique(manifests["manifest_path"].combine_chunks()))
    _, rows = np.unique(first.to_numpy(), return_index=True)
    return manifests.take(pa.array(np.sort(rows)))


def with_deletes(found: ScannedFiles, index: DeleteIndex) -> Candidates:
    """The candidates, their deletes looked up."""
    table = found.candidates.table
    if found.matching is None:
        return replace(found.candidates, table=replace(table, deletes=index.table))
    table = named_apart(found).with_deletes(index.match(found.matching, found.names), index.table)
    return replace(found.candidates, table=table)


def named_apart(found: ScannedFiles) -> FileTable:
    """The files, each with the names of others at its place, if it has any."""
    table = found.candidates.table
    if found.names is None or not found.names.shared:
        return table
    return table.with_same_place(found.names.others(table.files["path"]))


def _paths(found: ScannedFiles) -> pa.ChunkedArray:
    return found.candidates.table.files["path"]


def _by_files(found: Iterable[ScannedFiles]) -> Iterator[list[ScannedFiles]]:
    """Some batches at a time, of `_TOGETHER` files or a few more."""
    some: list[ScannedFiles] = []
    count = 0
    for each in found:
        some.append(each)
        count += len(each.candidates.table)
        if count >= _TOGETHER:
            yield some
            some, count = [], 0
    if some:
        yield some


def _stacked(tables: list[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks() if tables else None
