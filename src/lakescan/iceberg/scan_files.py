"""From a snapshot to its file table: manifest list, manifests, delete index (specification, "Scan Planning").

Manifests are pruned by their partition summaries before one is opened, files by their partition values before
statistics are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import types as t
from lakescan.errors import UnsupportedFeature
from lakescan.expressions.predicate import TRUE, Predicate, conjuncts, leaves
from lakescan.iceberg.bounds import column_stats
from lakescan.iceberg.bucket import wanted_buckets
from lakescan.iceberg.delete_index import DeleteIndex
from lakescan.iceberg.manifest_batches import ManifestReader
from lakescan.iceberg.manifest_list import DATA, DELETES, read_manifest_list
from lakescan.iceberg.metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.partition_bounds import bounds_of_summaries, stats_of_partitions, stats_of_summaries, tightened
from lakescan.iceberg.partition_key import with_partition_key
from lakescan.iceberg.partition_spec import PartitionSpec
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.file_table import FILES, FileTable, struct_of
from lakescan.planning.plan import Candidates
from lakescan.planning.prune import might_match, must_match
from lakescan.planning.report import ScanMetrics
from lakescan.schema import Schema
from lakescan.storage import Storage


class ScanFiles:
    """One planning of one snapshot."""

    def __init__(
        self,
        metadata: TableMetadata,
        schema: Schema,
        predicate: Predicate,
        storage: Storage,
        metrics: ScanMetrics,
    ) -> None:
        self._metadata, self._schema, self._predicate = metadata, schema, predicate
        self._storage, self._metrics = storage, metrics
        self._reader = ManifestReader(metadata.specs, storage)
        ids = {leaf.bound_id for leaf in leaves(predicate)}
        self._filtered = {i: schema.by_id[i] for i in ids if i in schema.by_id}

    def plan(self, snapshot: IcebergSnapshot, limit: int | None = None) -> Candidates:
        """The candidates of the snapshot: files left by partitions, with statistics of the filter's columns.

        Where every row counts, because there is neither filter nor delete, files for `limit` rows are enough.
        """
        manifests = read_manifest_list(snapshot, self._storage)
        data, deletes = (manifests.filter(pc.equal(manifests["content"], c)) for c in (DATA, DELETES))
        index = self._delete_index(deletes)
        self._metrics.total_data_manifests = data.num_rows
        kept = self._prune_manifests(data)
        self._metrics.scanned_data_manifests = kept.num_rows
        self._metrics.skipped_data_manifests = data.num_rows - kept.num_rows
        with_stats = bool(self._filtered) or index.compares_keys
        every_row_counts = self._predicate == TRUE and not index.table.num_rows
        missing = limit if every_row_counts else None
        parts = []
        for spec, files in self._reader.entries(kept, with_stats=with_stats):
            parts.append(self._candidates(spec, files, index))
            if missing is not None:
                missing -= pc.sum(files["record_count"]).as_py() or 0
                if missing <= 0:
                    break
        return _concatenated(parts, index)

    def _delete_index(self, manifests: pa.Table) -> DeleteIndex:
        self._metrics.total_delete_manifests = manifests.num_rows
        kept = self._prune_manifests(manifests)
        self._metrics.scanned_delete_manifests = kept.num_rows
        self._metrics.skipped_delete_manifests = manifests.num_rows - kept.num_rows
        tables = [
            with_partition_key(self._in_partitions(spec, files)).drop_columns(["partition"])
            for spec, files in self._reader.entries(kept, with_stats=True)
        ]
        unpartitioned = frozenset(s.id for s in self._metadata.specs.values() if s.is_unpartitioned)
        for files in tables:
            self._check_keys(files)
        index = DeleteIndex.build(_stacked(tables), unpartitioned, self._metadata.all_fields)
        self._metrics.count_indexed(index.table["kind"])
        return index

    def _in_partitions(self, spec: PartitionSpec, deletes: pa.Table) -> pa.Table:
        """The delete files whose partitions the filter does not rule out: the others apply to no file of the scan."""
        stats = stats_of_partitions(deletes["partition"].combine_chunks(), spec, self._filtered)
        kept = deletes.filter(might_match(self._predicate, stats, deletes.num_rows))
        self._metrics.skipped_delete_files += deletes.num_rows - kept.num_rows
        return kept

    def _prune_manifests(self, manifests: pa.Table) -> pa.Table:
        """The manifests that have live files and whose partitions the filter cannot rule out."""
        live = pc.add(
            pc.fill_null(manifests["added_files_count"], 1),
            pc.fill_null(manifests["existing_files_count"], 1),
        )
        keep = pc.greater(live, 0).to_numpy()
        specs = manifests["partition_spec_id"].to_numpy()
        for spec_id in np.unique(specs).tolist():
            rows = np.flatnonzero(specs == spec_id)
            summaries = manifests["partitions"].take(pa.array(rows)).combine_chunks()
            stats = stats_of_summaries(summaries, self._spec(spec_id), self._filtered)
            mask = might_match(self._predicate, stats, len(rows))
            for wanted in wanted_buckets(conjuncts(self._predicate), self._spec(spec_id), self._filtered):
                mask = pc.and_(mask, wanted.between(*bounds_of_summaries(summaries, self._spec(spec_id), wanted.place)))
            keep[rows] &= mask.to_numpy(zero_copy_only=False)
        return manifests.filter(pa.array(keep))

    def _check_keys(self, files: pa.Table) -> None:
        if files.num_rows > files["key_metadata"].null_count and self._storage.key_manager is None:
            raise UnsupportedFeature(
                "encrypted files without a key manager",
                "The table's manifests carry key metadata: open it with key_manager=, which turns that into keys.",
            )

    def _spec(self, spec_id: int) -> PartitionSpec:
        return self._metadata.specs[spec_id]

    def _candidates(self, spec: PartitionSpec, files: pa.Table, index: DeleteIndex) -> Candidates:
        """The files of one spec: pruned by partition values, matched with their deletes."""
        partitions = files["partition"].combine_chunks()
        by_partition = stats_of_partitions(partitions, spec, self._filtered)
        mask = might_match(self._predicate, by_partition, files.num_rows)
        for wanted in wanted_buckets(conjuncts(self._predicate), spec, self._filtered):
            mask = pc.and_(mask, wanted.among(partitions.field(wanted.place)))
        kept = files.filter(mask)
        by_partition = {i: s.filter(mask) for i, s in by_partition.items()}
        proven = [must_match(part, by_partition, kept.num_rows) for part in conjuncts(self._predicate)]
        self._check_keys(kept)
        deletes = index.match(with_partition_key(kept))
        constants = self._constants(kept["partition"].combine_chunks(), spec)
        listed = self._file_table(kept, spec, deletes).append_column("constants", constants)
        fields = {spec.id: tuple(int(f.name) for f in constants.type)}
        table = FileTable(listed, index.table, self._stats(kept, by_partition), fields)
        return Candidates(table, proven, files.num_rows - kept.num_rows)

    def _stats(self, files: pa.Table, by_partition: Mapping[int, ColumnStats]) -> dict[int, ColumnStats]:
        if not self._filtered:
            return {}
        counts = files["record_count"].combine_chunks()
        found = {i: column_stats(files["stats"].combine_chunks(), f, counts) for i, f in self._filtered.items()}
        return {i: tightened(s, by_partition[i]) if i in by_partition else s for i, s in found.items()}

    def _file_table(self, files: pa.Table, spec: PartitionSpec, deletes: pa.Array) -> pa.Table:
        columns = {
            "path": files["file_path"],
            "file_format": files["file_format"],
            "size": files["file_size_in_bytes"],
            "record_count": files["record_count"],
            "spec_id": files["spec_id"],
            "sequence_number": files["sequence_number"],
            "first_row_id": files["first_row_id"],
            "split_offsets": files["split_offsets"],
            "key_metadata": files["key_metadata"],
            "deletes": deletes,
        }
        partition = self._shown(files["partition"].combine_chunks(), spec)
        return pa.table(columns, schema=FILES).append_column("partition", partition)

    def _shown(self, partition: pa.StructArray, spec: PartitionSpec) -> pa.StructArray:
        """Partition values under the names that their fields have in the table's newest spec."""
        names = {f.id: f.name for f in self._metadata.partition_type.fields}
        members = {names.get(f.id, f.name): partition.field(i) for i, f in enumerate(spec.fields)}
        return struct_of(members, len(partition))

    def _constants(self, partition: pa.StructArray, spec: PartitionSpec) -> pa.StructArray:
        """Identity partition values by source field id (specification, "Column Projection", the first rule)."""
        members: dict[str, pa.Array] = {}
        for position, each in enumerate(spec.fields):
            source = self._schema.by_id.get(each.source_id)
            if each.transform.name == "identity" and source is not None:
                members[str(source.id)] = _as_column(partition.field(position), source.type)
        return struct_of(members, len(partition))


def _as_column(values: pa.Array, kind: t.Type) -> pa.Array:
    arrow = kind.arrow()
    if isinstance(arrow, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(arrow, values)
    return values.cast(arrow)


def _stacked(tables: list[pa.Table]) -> pa.Table | None:
    return pa.concat_tables(tables, promote_options="permissive").combine_chunks() if tables else None


def _concatenated(parts: list[Candidates], index: DeleteIndex) -> Candidates:
    if not parts:
        return Candidates(FileTable.empty(index.table))
    if len(parts) == 1:
        return parts[0]
    files = pa.concat_tables([p.table.files for p in parts], promote_options="permissive").combine_chunks()
    ids = parts[0].table.stats.keys()
    stats = {i: _joined([p.table.stats[i] for p in parts], [len(p.table) for p in parts]) for i in ids}
    proven = [pa.concat_arrays(each) for each in zip(*(p.proven or [] for p in parts), strict=True)]
    skipped = sum(p.skipped_by_partition for p in parts)
    fields = {spec_id: ids for p in parts for spec_id, ids in p.table.constant_fields.items()}
    return Candidates(FileTable(files, index.table, stats, fields), proven, skipped)


def _joined(parts: list[ColumnStats], lengths: list[int]) -> ColumnStats:
    def join(name: str) -> pa.Array | None:
        arrays = [getattr(p, name) for p in parts]
        kind = next((a.type for a in arrays if a is not None), None)
        if kind is None:
            return None
        filled = [pa.nulls(n, kind) if a is None else a.cast(kind) for a, n in zip(arrays, lengths, strict=True)]
        return pa.concat_arrays(filled)

    return ColumnStats(*(join(n) for n in ("lower", "upper", "null_count", "nan_count", "value_count")))
