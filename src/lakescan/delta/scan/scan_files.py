"""Build the file table from file actions: prune by partition values, add statistics, deletes and constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.delta.log.replay import keep_rows, log_position
from lakescan.delta.scan.deletion_vectors import delete_table
from lakescan.delta.scan.partition_values import typed_values
from lakescan.delta.scan.statistics import FileStats, parsed_stats
from lakescan.expressions.predicate import TRUE, Predicate
from lakescan.formats.increments import order_by_lower_bound
from lakescan.planning.candidates import Candidates
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.delete_files import RANGES
from lakescan.planning.file_table import FILES, FileTable, struct_of
from lakescan.planning.prune import might_match


@dataclass(frozen=True)
class DeltaScanFiles:
    """Plans the files of a version, or of the changes of a version range.

    - `location`: the table's folder.
    - `predicate`: the filter that prunes files.
    - `columns`: the columns whose statistics are needed, by field id.
    - `always`: maps field ids to columns of the file actions that hold a constant for all rows of the file.
    - `sometimes`: like `always`, for columns that hold a constant only where they are not null.
    """

    location: str
    schema: Schema
    partition_fields: tuple[t.Field, ...]
    predicate: Predicate
    columns: Mapping[int, t.Field]
    always: Mapping[int, str]
    sometimes: Mapping[int, str]

    def candidates(self, actions: pa.Table) -> Candidates:
        """Return the files that may have rows matching the predicate.

        `actions` may have a `kept_vector` (the only rows to read) in addition to `vector`. Raises `CorruptMetadata`.
        """
        if not actions.num_rows:
            return Candidates(FileTable.empty())
        texts = actions["partition"].combine_chunks()
        where = partial(log_position, actions)
        values = {f.id: typed_values(texts.field(i), f, where) for i, f in enumerate(self.partition_fields)}
        values |= {i: actions[name].combine_chunks() for i, name in self.always.items()}
        exact = {i: ColumnStats.constant_column(v) for i, v in values.items()}
        mask = might_match(self.predicate, exact, actions.num_rows)
        kept = keep_rows(actions, mask.to_numpy(zero_copy_only=False))
        values = {i: v.filter(mask) for i, v in values.items()}
        exact = {i: s.filter(mask) for i, s in exact.items()}

        stats = self._stats(kept, set(values))
        deletes, references = self._deletes(kept)
        columns, constant_fields = self._constants(kept, values)
        files = _file_table(kept, stats.record_counts(), references, columns.pop("spec_id"))
        partition = {f.name: values[f.id] for f in self.partition_fields}
        files = files.append_column("partition", struct_of(partition, kept.num_rows))
        files = files.append_column("constants", struct_of(columns, kept.num_rows))
        table = FileTable(files, deletes, {**stats.columns(), **exact}, constant_fields)
        return Candidates.prune_table(table, self.predicate, exact, actions.num_rows - kept.num_rows)

    def sort_actions(self, actions: pa.Table, field_id: int) -> pa.Table:
        """Return file actions sorted by the lower bounds of a column, one of `columns` or a partition column."""
        stats = replace(self, predicate=TRUE).candidates(actions).table.stats
        return actions.take(order_by_lower_bound(stats.get(field_id, ColumnStats()).lower, actions.num_rows))

    def _stats(self, actions: pa.Table, exact: set[int]) -> FileStats:
        counts = actions["record_count"].combine_chunks() if "record_count" in actions.column_names else None
        known = [f for i, f in self.columns.items() if i not in exact and i not in self.sometimes]
        return FileStats(actions["stats"], parsed_stats(actions), self.schema, known, counts)

    def _deletes(self, actions: pa.Table) -> tuple[pa.Table, pa.ListArray]:
        """Return the delete table of deletion vectors, and for each file the list of its row numbers in that table."""
        tables, owners = [], []
        for column, kept in (("vector", False), ("kept_vector", True)):
            if column in actions.column_names:
                vectors = actions[column].combine_chunks()
                present = pc.is_valid(vectors.field("storageType"))
                tables.append(delete_table(vectors.filter(present), self.location, kept=kept))
                owners.append(np.flatnonzero(present.to_numpy(zero_copy_only=False)))
        owner = np.concatenate(owners)
        order = np.argsort(owner, kind="stable")
        offsets = np.searchsorted(owner[order], np.arange(actions.num_rows + 1))
        return pa.concat_tables(tables), pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.array(order, pa.int32())
        )

    def _constants(
        self, actions: pa.Table, values: Mapping[int, pa.Array]
    ) -> tuple[dict[str, pa.Array], dict[int, tuple[int, ...]]]:
        """Return the constants of files by field id, with each file's spec id, and the constant fields of each spec.

        Files of spec 0 have all constants; files of spec 1 store the `sometimes` columns themselves.
        """
        columns = {str(i): v for i, v in values.items()}
        spec_id = pa.repeat(pa.scalar(0, pa.int32()), actions.num_rows)
        for field_id, name in self.sometimes.items():
            columns[str(field_id)] = actions[name].combine_chunks()
            spec_id = pc.if_else(pc.is_null(columns[str(field_id)]), pa.scalar(1, pa.int32()), spec_id)
        return {**columns, "spec_id": spec_id}, {0: (*values, *self.sometimes), 1: tuple(values)}


def _file_table(actions: pa.Table, record_counts: pa.Array, references: pa.ListArray, spec_id: pa.Array) -> pa.Table:
    rows = actions.num_rows
    columns = {
        "path": actions["path"],
        "file_format": pa.repeat(pa.scalar("parquet"), rows),
        "size": actions["size"],
        "record_count": record_counts,
        "spec_id": spec_id,
        "sequence_number": actions["row_commit_version"],
        "first_row_id": actions["base_row_id"],
        "split_offsets": pa.nulls(rows, pa.list_(pa.int64())),
        "key_metadata": pa.nulls(rows, pa.binary()),
        "same_place": pa.nulls(rows, pa.list_(pa.string())),
        "deletes": references,
        "equality_deletes": pa.nulls(rows, RANGES),
    }
    return pa.table(columns, schema=FILES)
