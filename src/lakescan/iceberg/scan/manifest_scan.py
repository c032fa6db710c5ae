"""Scan a batch of manifests: live entries, pruned by partition, then by column statistics.

A `ManifestScan` runs on a planning executor. It is self-contained, so it can run in any process, and returns only the
files that survive pruning.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.cache import CacheKind, table_size
from lakescan.common.schema import Schema
from lakescan.errors import UnsupportedFeature
from lakescan.expressions.predicate import TRUE, Predicate, conjuncts, leaves, replace_sql
from lakescan.iceberg.manifests.bounds import recorded_stats
from lakescan.iceberg.manifests.manifest_checks import known_ages
from lakescan.iceberg.manifests.manifest_file import EQUALITY_DELETES, ManifestFile
from lakescan.iceberg.manifests.manifest_reader import batch_key, read_batch
from lakescan.iceberg.metadata.partition_spec import PartitionSpec, add_partition_key
from lakescan.iceberg.scan.file_names import FileNames
from lakescan.iceberg.scan.partition_pruning import (
    bounds_of_summaries,
    stats_of_fields,
    stats_of_partitions,
    stats_of_summaries,
    tighten_stats,
    wanted_buckets,
)
from lakescan.planning.candidates import Candidates
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.delete_files import no_references
from lakescan.planning.file_table import FILES, FileTable, struct_of
from lakescan.planning.prune import might_match
from lakescan.planning.residual import needed_conjuncts
from lakescan.storage import Storage

_MATCHED_BY = ("file_path", "sequence_number", "spec_id", "partition_key")


@dataclass(frozen=True)
class ScannedFiles:
    """The data files from a batch of manifests, and the columns that the delete index matches on.

    `matching` is None without deletes. `names` are the names of all files that are planned together, if deletes name
    files.
    """

    candidates: Candidates
    matching: pa.Table | None
    names: FileNames | None = None


def _size_of(scanned: ScannedFiles) -> int:
    matching = 0 if scanned.matching is None else table_size(scanned.matching)
    return table_size(scanned.candidates.table.files) + matching


_SCANNED: CacheKind[ScannedFiles] = CacheKind("files of manifests", _size_of)


@dataclass(frozen=True)
class ScannedDeletes:
    """Delete files from a batch of manifests, and the number `skipped` of others that their partitions ruled out."""

    entries: pa.Table
    skipped: int


@dataclass(frozen=True)
class ManifestScan:
    """A scan of manifests; `columns` are the columns whose statistics it needs, by field id.

    - `predicate`: the filter that files are pruned by, bound to `schema`.
    - `partition_names`: the names of partition fields in the table's newest spec, by id.
    - `with_deletes`: whether the snapshot has deletes that may apply. `with_keys`: whether these include equality
      deletes.
    - `changed_by`: yield only files that these snapshots added or, with `removed`, removed.
    - `is_encrypted`: whether the table has an encryption key.
    - `tested`: the filter that readers test all rows by; equality deletes of rows that it excludes are left out.
    """

    specs: Mapping[int, PartitionSpec]
    schema: Schema
    partition_names: Mapping[int, str]
    predicate: Predicate
    columns: Mapping[int, t.Field]
    storage: Storage
    with_deletes: bool = False
    with_keys: bool = False
    changed_by: tuple[int, ...] | None = None
    removed: bool = False
    is_encrypted: bool = False
    tested: Predicate = TRUE

    def data_files(self, manifests: Sequence[ManifestFile]) -> ScannedFiles:
        """Return the data files of manifests that share one partition spec, from the cache if possible."""
        if not self._takes_all:
            return self._data_files(manifests)
        return _SCANNED.get(self._key(manifests), lambda: self._data_files(manifests))

    def known_files(self, manifests: Sequence[ManifestFile]) -> ScannedFiles | None:
        """Return the cached result of `data_files`, or None; only scans without filter and statistics are cached."""
        return _SCANNED.find(self._key(manifests)) if self._takes_all else None

    @property
    def _takes_all(self) -> bool:
        """Whether all live files are wanted, without statistics; such results are the same each time, and small."""
        is_plain = self.changed_by is None and not self.removed and not self.with_keys
        return is_plain and self.predicate == TRUE and not self.columns

    def _key(self, manifests: Sequence[ManifestFile]) -> Hashable:
        """Return the cache key of the result of `data_files`: everything that it depends on."""
        spec = self.specs[manifests[0].partition_spec_id]
        columns = [self.schema.by_id.get(each.source_id) for each in spec.fields]
        sources = tuple(None if each is None else (each.id, each.type) for each in columns)
        names = tuple(self.partition_names.get(each.id) for each in spec.fields)
        has_keys = self.is_encrypted or any(each.key_metadata is not None for each in manifests)
        guarded = has_keys and self.storage.key_manager is None  # must not share entries decrypted with a key manager
        return (batch_key(manifests, spec, self.storage, False), sources, names, guarded, self.with_deletes)

    def _data_files(self, manifests: Sequence[ManifestFile]) -> ScannedFiles:
        spec = self.specs[manifests[0].partition_spec_id]
        with_stats = bool(self.columns) or self.with_keys
        files = read_batch(manifests, spec, self.storage, with_stats=with_stats, removed=self.removed)
        if self.changed_by is not None:
            files = files.filter(pc.is_in(files["changed_by"], value_set=pa.array(self.changed_by, pa.int64())))
        candidates, left = self.prune(_add_ages(files, manifests, needed=self.with_deletes), spec)
        return ScannedFiles(candidates, self._matching(left))

    def prune(self, files: pa.Table, spec: PartitionSpec) -> tuple[Candidates, pa.Table]:
        """Return the data files that partitions and statistics do not rule out, and their rows of `files`."""
        kept, by_partition, skipped = self._prune_partitions(spec, files)
        self._check_keys(kept)
        stats = self._stats(kept, by_partition)
        mask = might_match(self.predicate, stats, kept.num_rows)
        left = kept.filter(mask)
        stats = {i: s.filter(mask) for i, s in stats.items()}
        by_partition = {i: s.filter(mask) for i, s in by_partition.items()}
        needed = needed_conjuncts(self.predicate, stats, by_partition, left.num_rows)
        table = self._file_table(left, spec, stats)
        return Candidates(table, needed, skipped, kept.num_rows - left.num_rows), left

    def delete_files(self, manifests: Sequence[ManifestFile]) -> ScannedDeletes:
        """Return the delete files of manifests that share one spec, without those in partitions that are ruled out."""
        spec = self.specs[manifests[0].partition_spec_id]
        files = read_batch(manifests, spec, self.storage, with_stats=True)
        files = _add_ages(files, manifests, needed=True)
        stats = stats_of_partitions(files["partition"].combine_chunks(), spec, self.columns)
        mask = might_match(self.predicate, stats, files.num_rows)
        if self.tested != TRUE:
            mask = pc.and_(mask, self._may_delete(files))
        kept = files.filter(mask)
        self._check_keys(kept)
        return ScannedDeletes(add_partition_key(kept).drop_columns(["partition"]), files.num_rows - kept.num_rows)

    def _may_delete(self, files: pa.Table) -> pa.Array:
        """Return a mask of the delete files that may delete rows that the filter `tested` keeps.

        Equality deletes are ruled out by the statistics of their keys, because the compared columns of a row that they
        delete have the values of a key. Position deletes are never ruled out.
        """
        compared = files["equality_ids"].combine_chunks()
        owner, ids = pc.list_parent_indices(compared).to_numpy(), compared.flatten().to_numpy()
        stats = {}
        for field_id, field in self.columns.items():
            mask = np.zeros(files.num_rows, dtype=bool)
            mask[owner[ids == field_id]] = True
            stats[field_id] = self._manifest_stats(files, field).keep_where(pa.array(mask))
        is_other = pc.not_equal(files["content"], EQUALITY_DELETES)
        return pc.or_(is_other, might_match(self.tested, stats, files.num_rows))

    def changed_files(self, manifests: Sequence[ManifestFile]) -> pa.Table:
        """Return the entries of data files that `changed_by` added (or `removed`), without those the filter rules out.

        The manifests share one spec.
        """
        kept, by_partition = self._read_changes(manifests)
        mask = might_match(self.predicate, self._stats(kept, by_partition), kept.num_rows)
        return add_partition_key(kept.filter(mask)).drop_columns(["partition"])

    def changed_deletes(self, manifests: Sequence[ManifestFile]) -> pa.Table:
        """Return the entries of delete files that `changed_by` added, without those whose partitions are ruled out.

        The manifests share one spec.
        """
        return add_partition_key(self._read_changes(manifests)[0]).drop_columns(["partition"])

    def _read_changes(self, manifests: Sequence[ManifestFile]) -> tuple[pa.Table, dict[int, ColumnStats]]:
        spec = self.specs[manifests[0].partition_spec_id]
        files = read_batch(manifests, spec, self.storage, with_stats=True, removed=self.removed)
        files = files.filter(pc.is_in(files["changed_by"], value_set=pa.array(self.changed_by or (), pa.int64())))
        kept, by_partition, _ = self._prune_partitions(spec, _add_ages(files, manifests, needed=not self.removed))
        return kept, by_partition

    def may_have(self, manifests: pa.Table, spec_id: int) -> pa.Array:
        """Return a mask of the manifests, rows of a manifest list with the same spec, that may have matching rows.

        It follows from their partition summaries.
        """
        spec, summaries = self.specs[spec_id], manifests["partitions"].combine_chunks()
        ids = {leaf.bound_id for leaf in leaves(self.predicate)}
        stats = stats_of_summaries(summaries, spec, self.columns) | stats_of_fields(summaries, spec, ids)
        mask = might_match(self.predicate, stats, manifests.num_rows)
        for wanted in wanted_buckets(conjuncts(replace_sql(self.predicate)), spec, self.columns):
            mask = pc.and_(mask, wanted.between(*bounds_of_summaries(summaries, spec, wanted.place)))
        return mask

    def _prune_partitions(self, spec: PartitionSpec, files: pa.Table) -> tuple[pa.Table, dict[int, ColumnStats], int]:
        """Return the files whose partitions may match, statistics from these partitions, and how many files do not.

        The statistics are those of source columns, by field id.
        """
        partitions = files["partition"].combine_chunks()
        by_partition = stats_of_partitions(partitions, spec, self.columns)
        mask = might_match(self.predicate, by_partition, files.num_rows)
        for wanted in wanted_buckets(conjuncts(replace_sql(self.predicate)), spec, self.columns):
            mask = pc.and_(mask, wanted.among(partitions.field(wanted.place)))
        if pc.all(mask).as_py():
            return files, by_partition, 0
        kept = files.filter(mask)
        return kept, {i: s.filter(mask) for i, s in by_partition.items()}, files.num_rows - kept.num_rows

    def _stats(self, files: pa.Table, by_partition: Mapping[int, ColumnStats]) -> dict[int, ColumnStats]:
        if not self.columns:
            return {}
        recorded = {i: self._manifest_stats(files, f) for i, f in self.columns.items()}
        return {i: tighten_stats(s, by_partition[i]) if i in by_partition else s for i, s in recorded.items()}

    def _manifest_stats(self, files: pa.Table, field: t.Field) -> ColumnStats:
        """Return a column's statistics from manifests, without those that some writers are known to get wrong."""
        return recorded_stats(files, field, is_member=self.schema.top_level_of[field.id] is not field)

    def _matching(self, files: pa.Table) -> pa.Table | None:
        if not self.with_deletes:
            return None
        wanted = (*_MATCHED_BY, "file_format", "record_count", "stats") if self.with_keys else _MATCHED_BY
        return add_partition_key(files).select(wanted)

    def _file_table(self, files: pa.Table, spec: PartitionSpec, stats: dict[int, ColumnStats]) -> FileTable:
        """Return the file table of entries of one spec, with these statistics and without any deletes."""
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
            "same_place": pa.nulls(files.num_rows, pa.list_(pa.string())),
            **no_references(files.num_rows),
        }
        partition = files["partition"].combine_chunks()
        constants = self._constants(partition, spec)
        listed = pa.table(columns, schema=FILES).append_column("partition", self._partition_column(partition, spec))
        fields = {spec.id: tuple(int(f.name) for f in constants.type)}
        return FileTable(listed.append_column("constants", constants), stats=stats, constant_fields=fields)

    def _partition_column(self, partition: pa.StructArray, spec: PartitionSpec) -> pa.StructArray:
        """Return partition values under the field names of the table's newest spec; void values are untyped nulls."""
        names, nothing = self.partition_names, pa.nulls(len(partition))
        members = {
            names.get(f.id, f.name): nothing if f.transform.name == "void" else partition.field(i)
            for i, f in enumerate(spec.fields)
        }
        return struct_of(members, len(partition))

    def _constants(self, partition: pa.StructArray, spec: PartitionSpec) -> pa.StructArray:
        """Return the values of identity partition fields as a struct whose members are named by source field id.

        Readers use them for columns that a file lacks (specification, "Column Projection", first rule).
        """
        members: dict[str, pa.Array] = {}
        for position, each in enumerate(spec.fields):
            source = self.schema.by_id.get(each.source_id)
            if each.transform.name == "identity" and source is not None:
                members[str(source.id)] = _as_column(partition.field(position), source.type)
        return struct_of(members, len(partition))

    def _check_keys(self, files: pa.Table) -> None:
        """Raise `UnsupportedFeature` for encrypted files without a key manager.

        Key metadata in a table without an encryption key is ignored, because some writers record it for plain files.
        """
        if not self.is_encrypted or self.storage.key_manager is not None:
            return
        if files.num_rows > files["key_metadata"].null_count:
            raise UnsupportedFeature(
                "encrypted files without a key manager",
                "The table's files are encrypted: open the table with key_manager=, which unwraps their keys.",
            )


def _add_ages(files: pa.Table, manifests: Sequence[ManifestFile], *, needed: bool) -> pa.Table:
    numbers = known_ages(files["sequence_number"], manifests[0].manifest_path, needed=needed)
    return files.set_column(files.schema.get_field_index("sequence_number"), "sequence_number", numbers)


def _as_column(values: pa.Array, kind: t.Type) -> pa.Array:
    arrow = kind.arrow()
    if isinstance(arrow, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(arrow, values)
    return values.cast(arrow)
