"""Candidate files, the input of planning: the files that remain after pruning by partition and statistics.

Formats yield them in parts (some manifests, or a part of a log), so that planning overlaps with reading the next part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import metadata_columns as m
from lakescan.common import types as t
from lakescan.common.arrays import empty_structs
from lakescan.common.schema import Schema
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import column_getter, matching_rows
from lakescan.expressions.predicate import Predicate, leaves
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.file_table import FileTable, concat_file_tables
from lakescan.planning.prune import Stats, might_match
from lakescan.planning.residual import needed_conjuncts


@dataclass(frozen=True)
class Candidates:
    """Data files that may have matching rows, as a file table.

    - `needed`: for each file, a bit mask of the filter's conjuncts that must be applied to its rows.
    - `skipped_by_partition`, `skipped_by_stats`: the numbers of files that are already skipped.
    """

    table: FileTable
    needed: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    skipped_by_partition: int = 0
    skipped_by_stats: int = 0

    @staticmethod
    def prune_table(table: FileTable, predicate: Predicate, exact: Stats, skipped_by_partition: int = 0) -> Candidates:
        """Prune a file table by its statistics: keep the files that may have rows that match the bound `predicate`.

        `exact` are statistics of partition values by field id, which may prove conjuncts that bounds cannot.
        `skipped_by_partition` is the number of files that are already skipped.
        """
        mask = might_match(predicate, table.stats, len(table))
        kept = table if pc.all(mask).as_py() else table.filter(mask)
        exact = {i: stats.filter(mask) for i, stats in exact.items()}
        needed = needed_conjuncts(predicate, kept.stats, exact, len(kept))
        return Candidates(kept, needed, skipped_by_partition, len(table) - len(kept))


def concat_candidates(parts: Sequence[Candidates]) -> Candidates:
    """Concatenate parts of candidates and add up their counts; no parts make candidates without files."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Candidates(FileTable.empty())
    return Candidates(
        concat_file_tables([part.table for part in parts]),
        np.concatenate([part.needed for part in parts]),
        sum(part.skipped_by_partition for part in parts),
        sum(part.skipped_by_stats for part in parts),
    )


# A filter of rows by the metadata columns `_file`, `_pos`, `_spec_id` and `_partition` prunes files (`prune_by_facts`),
# since these columns depend on the file. A `FileFilter` selects files, like `filterFiles` and `filterPartitions` of
# Iceberg's `ManifestGroup`.

_ID = 2_145_000_000  # field ids below those of metadata columns, and above those of tables
_FACTS = {  # named as in Iceberg's `DataFile` and metadata tables, with the column of the file table
    "file_path": (t.STRING, "path"),
    "file_format": (t.STRING, "file_format"),
    "file_size_in_bytes": (t.LONG, "size"),
    "record_count": (t.LONG, "record_count"),
    "spec_id": (t.INT, "spec_id"),
    "sequence_number": (t.LONG, "sequence_number"),
    "first_row_id": (t.LONG, "first_row_id"),
}


@dataclass(frozen=True)
class FileFilter:
    """A condition on data files, not on rows.

    Its columns are file metadata such as `file_path`, and the struct `partition`. With `of_partitions`, they are the
    table's partition fields.
    """

    condition: Predicate
    of_partitions: bool = False

    def select(self, candidates: Candidates, partition: Sequence[t.Field], *, case_sensitive: bool) -> Candidates:
        """Return the candidates that match the condition, the others counted as skipped; raises the errors of `bind`.

        `partition` are the fields of the table's partition specs.
        """
        table = candidates.table
        schema = Schema(tuple(partition)) if self.of_partitions else _schema(partition)
        bound = bind(self.condition, schema, case_sensitive=case_sensitive)
        columns = _columns(table, partition, of_partitions=self.of_partitions)
        files = pa.RecordBatch.from_arrays(columns, schema=schema.arrow())
        mask = matching_rows(bound, column_getter(files, schema), len(table))
        kept, skipped = table.filter(mask), pc.sum(pc.invert(mask)).as_py() or 0
        return Candidates(
            kept,
            candidates.needed[mask.to_numpy(zero_copy_only=False)],
            candidates.skipped_by_partition + (skipped if self.of_partitions else 0),
            candidates.skipped_by_stats + (0 if self.of_partitions else skipped),
        )


def _schema(partition: Sequence[t.Field]) -> Schema:
    fields = [t.Field(number, name, kind) for number, (name, (kind, _)) in enumerate(_FACTS.items(), _ID)]
    return Schema((*fields, t.Field(len(fields) + _ID, "partition", t.Struct(tuple(partition)))))


def _columns(table: FileTable, partition: Sequence[t.Field], *, of_partitions: bool) -> list[pa.Array]:
    values = [_values(table, field) for field in partition]
    if of_partitions:
        return values
    columns = [table.files[column].combine_chunks() for _, column in _FACTS.values()]
    members = pa.StructArray.from_arrays(values, fields=[f.arrow() for f in partition]) if values else None
    return [*columns, empty_structs(len(table)) if members is None else members]


def _values(table: FileTable, field: t.Field) -> pa.Array:
    """Return the value of a partition field for each file; null if the file's spec lacks the field."""
    partition, kind = table.files["partition"].combine_chunks(), field.type.arrow()
    index = partition.type.get_field_index(field.name)
    if index < 0:
        return pa.nulls(len(table), kind)
    values = partition.field(index)
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, values.cast(kind.storage_type))
    return values.cast(kind)


def prune_by_facts(candidates: Candidates, predicate: Predicate, metadata_columns: Sequence[t.Field]) -> Candidates:
    """Prune candidates by the filter's tests of metadata columns, such as `_file`, whose values files have.

    `predicate` is the bound filter. Its conjuncts that these values prove need not be applied to rows.
    """
    wanted = frozenset(leaf.bound_id for leaf in leaves(predicate))
    facts = dict(_stats(candidates.table, metadata_columns, wanted))
    if not facts:
        return candidates
    table = candidates.table
    by_facts = might_match(predicate, facts, len(table))
    mask = pc.and_(by_facts, might_match(predicate, {**table.stats, **facts}, len(table)))
    kept = table.filter(mask)
    facts = {i: stats.filter(mask) for i, stats in facts.items()}
    needed = needed_conjuncts(predicate, {**kept.stats, **facts}, facts, len(kept))
    by_partition = int(np.count_nonzero(~by_facts.to_numpy(zero_copy_only=False)))
    return Candidates(
        kept,
        candidates.needed[mask.to_numpy(zero_copy_only=False)] & needed,
        candidates.skipped_by_partition + by_partition,
        candidates.skipped_by_stats + len(table) - len(kept) - by_partition,
    )


def _stats(table: FileTable, columns: Sequence[t.Field], wanted: frozenset[int]) -> Iterator[tuple[int, ColumnStats]]:
    """Yield the statistics of the metadata columns in `wanted` (field ids), each with its field id.

    These are partition values, path, spec id and row position; other metadata columns have no statistics.
    """
    for column in columns:
        if column.id == m.PARTITION_ID:
            assert isinstance(column.type, t.Struct)
            names = [each.name for each in column.type.fields]
            for member in column.type.fields:
                if member.id in wanted and names.count(member.name) == 1 and member.type != t.UUID:
                    yield member.id, _constant_stats(_values(table, member))
        elif column.id not in wanted:
            continue
        elif column.id == m.FILE.id:
            yield column.id, _constant_stats(table.files["path"].combine_chunks())
        elif column.id == m.SPEC_ID.id:
            yield column.id, _constant_stats(table.files["spec_id"].combine_chunks())
        elif column.id == m.POS.id:
            yield column.id, _positions(table.files["record_count"].combine_chunks())


def _constant_stats(values: pa.Array) -> ColumnStats:
    return ColumnStats.constant_column(
        values.cast(pa.binary()) if pa.types.is_fixed_size_binary(values.type) else values
    )


def _positions(rows: pa.Array) -> ColumnStats:
    """Return the statistics of the row positions in files, given their row counts (including deleted rows)."""
    zeros = pc.if_else(pc.is_valid(rows), pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64()))
    last = pc.subtract(rows, 1)
    return ColumnStats(zeros, pc.max_element_wise(last, zeros), zeros, None, rows)
