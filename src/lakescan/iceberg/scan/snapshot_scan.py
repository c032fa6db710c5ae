"""Plan a snapshot: manifest list, manifests and delete index -> file table (specification, "Scan Planning").

Manifests are pruned by partition summaries before any is opened. Data files are pruned by partition values before their
column statistics are decoded.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.executors import PlanningExecutor, executor_for
from lakescan.common.schema import Schema
from lakescan.expressions.predicate import TRUE, Predicate
from lakescan.formats.increments import Increment
from lakescan.formats.table_format import FileRequest, SnapshotState
from lakescan.iceberg.manifests.manifest_file import DATA, DELETES
from lakescan.iceberg.manifests.manifest_list import check_specs, own_manifests, snapshot_manifests
from lakescan.iceberg.manifests.manifest_reader import batches_of
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.scan.delete_index import DeleteIndex
from lakescan.iceberg.scan.file_names import FileNames
from lakescan.iceberg.scan.manifest_scan import ManifestScan, ScannedFiles
from lakescan.planning.candidates import Candidates
from lakescan.planning.delete_files import DeleteReferences
from lakescan.planning.file_table import FileTable
from lakescan.storage import Storage

_NAMED_TOGETHER = 10_000  # data files per batch in which the data file names of deletes are looked up


class SnapshotScan:
    """Plans the files of snapshots for one request."""

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
        """Yield the candidates of the snapshot, in batches of manifests.

        Without filter and deletes, every row counts towards the limit, so planning stops when enough rows are found.
        """
        data, deletes = self.manifests(snapshot)
        index = self.build_index(deletes, tested=self._request.tested)
        missing = self._request.limit if self._request.predicate == TRUE and not index.table.num_rows else None
        for candidates in attach_deletes(self.scan_manifests(data, index), index):
            yield candidates
            if missing is not None:
                missing -= pc.sum(candidates.table.files["record_count"]).as_py() or 0
                if missing <= 0:
                    return
        self._request.metrics.respelled_delete_files += int(index.respelled.sum())
        if self._request.predicate == TRUE:  # with a filter, a delete may name a data file that was pruned
            self._request.metrics.dangling_delete_files += index.dangling

    def plan_added_files(self, snapshots: Sequence[IcebergSnapshot]) -> Iterator[Candidates]:
        """Yield the files that snapshots added, oldest first, with the deletes committed in the same snapshot."""
        lists = map(_split_content, self._read_own_manifests(snapshots))
        for has_deletes, run in groupby(zip(snapshots, lists, strict=True), key=lambda each: each[1][1].num_rows > 0):
            batch = list(run)
            # A delete must not apply to files of an earlier snapshot, so snapshots with deletes are planned one by one.
            for part in [[each] for each in batch] if has_deletes else [batch]:
                data, deletes = (_drop_duplicates(pa.concat_tables([each[1][i] for each in part])) for i in (0, 1))
                index = self.build_index(deletes)
                ids = tuple(snapshot.id for snapshot, _ in part)
                yield from attach_deletes(self.scan_manifests(data, index, changed_by=ids), index)

    def manifests(self, snapshot: IcebergSnapshot, *, only_its_own: bool = False) -> tuple[pa.Table, pa.Table]:
        """Return the snapshot's data and delete manifests, or only those that it added itself (or may have added)."""
        if only_its_own:
            return _split_content(self._read_own_manifests([snapshot])[0])
        return _split_content(snapshot_manifests(snapshot, self._metadata, self._storage))

    def _read_own_manifests(self, snapshots: Sequence[IcebergSnapshot]) -> list[pa.Table]:
        lists = own_manifests(snapshots, self._storage)
        for each in lists:
            check_specs(each, self._metadata.specs)
        return lists

    def scan_manifests(
        self,
        manifests: pa.Table,
        *indexes: DeleteIndex,
        changed_by: tuple[int, ...] | None = None,
        removed: bool = False,
    ) -> Iterator[ScannedFiles]:
        """Yield the data files of manifests, with the columns that the delete indexes match on.

        Only live files are included or, with `changed_by`, files that these snapshots added (or `removed`).
        """
        metrics = self._request.metrics
        kept = manifests if removed else self._prune_manifests(manifests)
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
        files = self._files(scan, kept)
        yield from self._assign_names(files) if any(index.names_data_files for index in indexes) else files

    def _files(self, scan: ManifestScan, manifests: pa.Table) -> Iterator[ScannedFiles]:
        """Yield the data files of manifests; the executor reads those that are not cached."""
        batches = batches_of(manifests)
        known = [scan.known_files(each) for each in batches]
        unknown = [batch for batch, files in zip(batches, known, strict=True) if files is None]
        read = self._executor(self._request.data_mode, manifests).map(scan.data_files, unknown)
        for files in known:
            yield next(read) if files is None else files

    def _assign_names(self, scanned: Iterable[ScannedFiles]) -> Iterator[ScannedFiles]:
        """Yield the files with the names that deletes find them by, shared by all files of one group.

        Raises `UnsupportedFeature` if files of two groups have different names for one location.
        """
        earlier: list[FileNames] = []
        for group in _group_files(scanned):
            paths = pa.chunked_array([c for each in group for c in _paths(each).chunks], pa.string())
            names = FileNames(pc.unique(paths), self._places)
            for other in earlier:
                names.check_apart(other)
            earlier.append(names)
            yield from (replace(each, names=names) for each in group)

    def build_index(self, manifests: pa.Table, tested: Predicate = TRUE) -> DeleteIndex:
        """Build the delete index of delete manifests, without equality deletes of rows that `tested` excludes."""
        metrics = self._request.metrics
        kept = self._prune_manifests(manifests)
        metrics.total_delete_manifests += manifests.num_rows
        metrics.scanned_delete_manifests += kept.num_rows
        metrics.skipped_delete_manifests += manifests.num_rows - kept.num_rows
        executor = self._executor(self._request.delete_mode, kept)
        batches = list(executor.map(replace(self._scan, tested=tested).delete_files, batches_of(kept)))
        metrics.skipped_delete_files += sum(each.skipped for each in batches)
        unpartitioned = frozenset(s.id for s in self._metadata.specs.values() if s.is_unpartitioned)
        entries = _stack_tables([each.entries for each in batches])
        index = DeleteIndex.build(entries, unpartitioned, self._metadata.all_fields, self._places)
        metrics.count_indexed(index.table["kind"])
        return index

    def _executor(self, mode: str, manifests: pa.Table) -> PlanningExecutor:
        size = pc.sum(manifests["manifest_length"]).as_py() or 0
        return executor_for(self._request.executor, mode, size)

    def _prune_manifests(self, manifests: pa.Table) -> pa.Table:
        """Return the manifests that may have live files and whose partition summaries the filter does not rule out."""
        keep = may_have_live_files(manifests).to_numpy()
        specs = manifests["partition_spec_id"].to_numpy()
        for spec_id in np.unique(specs).tolist():
            rows = np.flatnonzero(specs == spec_id)
            mask = self._scan.may_have(manifests.take(pa.array(rows)), spec_id)
            keep[rows] &= mask.to_numpy(zero_copy_only=False)
        return manifests.filter(pa.array(keep))


def _split_content(manifests: pa.Table) -> tuple[pa.Table, pa.Table]:
    data, deletes = (manifests.filter(pc.equal(manifests["content"], c)) for c in (DATA, DELETES))
    return data, deletes


def may_have_live_files(manifests: pa.Table) -> pa.ChunkedArray:
    """Return a mask of the manifests that may have live files, by the counts of their manifest list.

    Missing file counts mean that a manifest may have them. File counts of 0 are trusted only if some files are deleted
    and no rows are live, because some writers fill in zeros.
    """
    names = ("added_files_count", "existing_files_count", "added_rows_count", "existing_rows_count")
    live = [pc.greater(pc.fill_null(manifests[name], 0 if "rows" in name else 1), 0) for name in names]
    nothing = pc.equal(pc.fill_null(manifests["deleted_files_count"], 0), 0)
    return functools.reduce(pc.or_, [*live, nothing])


def _drop_duplicates(manifests: pa.Table) -> pa.Table:
    """Remove duplicate manifests, keeping the first of each."""
    first = pc.index_in(manifests["manifest_path"], value_set=pc.unique(manifests["manifest_path"].combine_chunks()))
    _, rows = np.unique(first.to_numpy(), return_index=True)
    return manifests.take(pa.array(np.sort(rows)))


def attach_deletes(scanned: Iterable[ScannedFiles], index: DeleteIndex) -> Iterator[Candidates]:
    """Yield the candidates with their deletes from the index."""
    for each, (references,) in match_deletes(scanned, index):
        table = replace(each.candidates.table, deletes=index.table)
        if references is not None:
            table = add_other_names(each).with_deletes(references, index.table)
        yield replace(each.candidates, table=table)


def match_deletes(
    scanned: Iterable[ScannedFiles], *indexes: DeleteIndex
) -> Iterator[tuple[ScannedFiles, list[DeleteReferences | None]]]:
    """Yield the files with their deletes from each index; all None if no index has any deletes.

    Many files are matched together, because the cost of each match grows with the number of deletes.
    """
    if not any(index.table.num_rows for index in indexes):
        for each in scanned:
            yield each, [None for _ in indexes]
        return
    for _, same in groupby(scanned, key=lambda each: id(each.names)):
        for group in _group_files(same):
            files = pa.concat_tables([_matching(each) for each in group])
            found = [index.match(files, group[0].names) for index in indexes]
            ends = np.cumsum([len(each.candidates.table) for each in group]).tolist()
            for each, end in zip(group, ends, strict=True):
                rows = len(each.candidates.table)
                yield each, [references.slice(end - rows, rows) for references in found]


def _matching(scanned: ScannedFiles) -> pa.Table:
    assert scanned.matching is not None
    return scanned.matching


def add_other_names(scanned: ScannedFiles) -> FileTable:
    """Return the files, each with the other names that manifests have for its location, if any."""
    table = scanned.candidates.table
    if scanned.names is None or not scanned.names.shared_places:
        return table
    return table.with_same_place(scanned.names.others(table.files["path"]))


def _paths(scanned: ScannedFiles) -> pa.ChunkedArray:
    return scanned.candidates.table.files["path"]


def _group_files(scanned: Iterable[ScannedFiles]) -> Iterator[list[ScannedFiles]]:
    """Group scanned batches until each group has at least `_NAMED_TOGETHER` files."""
    group: list[ScannedFiles] = []
    count = 0
    for each in scanned:
        group.append(each)
        count += len(each.candidates.table)
        if count >= _NAMED_TOGETHER:
            yield group
            group, count = [], 0
    if group:
        yield group


def _stack_tables(tables: list[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks() if tables else None


@dataclass(frozen=True)
class LiveState(SnapshotState):
    """The live files of a snapshot; `snapshot` is None for a table without snapshots."""

    snapshot: IcebergSnapshot | None


@dataclass(frozen=True)
class IncrementState(SnapshotState):
    """The files that some commits added or, for a changelog, also removed."""

    increment: Increment

    @property
    def computed_changes(self) -> Increment | None:
        """The increment if it is a changelog, else None."""
        return self.increment if self.increment.changes else None

    @property
    def is_ordered(self) -> bool:
        """Always True: the rows of the oldest commit come first."""
        return True


IcebergState = LiveState | IncrementState
