"""The file table, which every format produces and all later stages read: one row per live data file.

The delete table has one row per delete file or deletion vector. Data files reference its rows by number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import empty_structs
from lakescan.planning.column_stats import ColumnStats, concat_stats
from lakescan.planning.delete_files import NUMBERS, RANGES, DeleteReferences

FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),  # as in the metadata, before relocation
        pa.field("file_format", pa.string(), nullable=False),  # parquet, orc or avro
        pa.field("size", pa.int64()),  # bytes, as recorded; can be wrong
        pa.field("record_count", pa.int64()),  # rows before deletes; null if not recorded
        pa.field("spec_id", pa.int32()),  # the partition spec (Iceberg); 0 for Delta
        pa.field("sequence_number", pa.int64()),  # data sequence number (Iceberg)
        pa.field("first_row_id", pa.int64()),  # row lineage: the id of the file's first row
        pa.field("split_offsets", pa.list_(pa.int64())),  # byte offsets of row groups, ascending
        pa.field("key_metadata", pa.binary()),  # key metadata of an encrypted file
        pa.field("same_place", pa.list_(pa.string())),  # paths of other live files at the same location
        pa.field("deletes", NUMBERS),  # position deletes and vectors: row numbers in the delete table
        pa.field(
            "equality_deletes", RANGES
        ),  # ranges of rows of the delete table, each of one scope and the same columns
    ]
)

DELETES = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),  # a `DeleteKind`
        pa.field("path", pa.string()),  # null for an inline vector
        pa.field("file_format", pa.string()),  # parquet, orc, avro or puffin; null for a Delta vector
        pa.field("offset", pa.int64()),  # byte offset of a vector in its file
        pa.field("length", pa.int64()),  # bytes of a vector
        pa.field("inline", pa.binary()),  # an inline vector
        pa.field("record_count", pa.int64()),  # number of deleted rows, or of equality keys
        pa.field("size", pa.int64()),  # bytes to read
        pa.field("sequence_number", pa.int64()),  # data sequence number (Iceberg)
        pa.field("equality_ids", pa.list_(pa.int32())),  # ids of the fields that an equality delete compares
        pa.field("key_metadata", pa.binary()),  # key metadata of an encrypted file
        pa.field("scope", pa.string()),  # partition of an equality delete; empty for the whole table
        pa.field("kept", pa.bool_()),  # inverted: keep only the rows that it selects (to read removed rows)
    ]
)


@dataclass(frozen=True)
class FileTable:
    """Data files, their deletes, and statistics of the columns that the filter uses.

    `files` has the columns of `FILES`, then `partition` (a struct, for display), then `constants`: a struct whose
    members, named by field id, hold the value that a column has in every row of the file. Which members are valid for
    a file depends on its partition spec: `constant_fields` maps spec id to field ids. `stats` maps field id to
    `ColumnStats` with one element per file.
    """

    files: pa.Table
    deletes: pa.Table = field(default_factory=DELETES.empty_table)
    stats: dict[int, ColumnStats] = field(default_factory=dict)
    constant_fields: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @staticmethod
    def empty(deletes: pa.Table | None = None) -> FileTable:
        """Return a table without files. It keeps `deletes`, by default an empty delete table."""
        nothing = pa.array([], pa.struct([]))
        files = FILES.empty_table().append_column("partition", nothing).append_column("constants", nothing)
        return FileTable(files, DELETES.empty_table() if deletes is None else deletes)

    def state(self) -> dict[str, frozenset[tuple[object, ...]]]:
        """Return each file's set of deletes, by path. Tables with equal states have the same rows.

        Loops over all files in Python.
        """
        names = ("path", "offset", "inline", "sequence_number", "kept")
        deletes = list(zip(*(self.deletes[name].to_pylist() for name in names), strict=True))
        found: list[set[tuple[object, ...]]] = [set() for _ in range(len(self))]
        for file, number in zip(*(each.tolist() for each in self.references.expand()), strict=True):
            found[file].add(deletes[number])
        return dict(zip(self.files["path"].to_pylist(), map(frozenset, found), strict=True))

    def filter(self, mask: pa.Array) -> FileTable:
        """Return the files that `mask` selects, with their statistics. The delete table is not filtered."""
        stats = {field_id: s.filter(mask) for field_id, s in self.stats.items()}
        return replace(self, files=self.files.filter(mask), stats=stats)

    def take(self, rows: pa.Array) -> FileTable:
        """Return the files with these indices, in this order. The delete table is not filtered."""
        stats = {field_id: s.take(rows) for field_id, s in self.stats.items()}
        return replace(self, files=self.files.take(rows), stats=stats)

    def head(self, count: int) -> FileTable:
        """Return the first `count` files."""
        return self if count >= len(self) else self.filter(pa.array(np.arange(len(self)) < count))

    @cached_property
    def references(self) -> DeleteReferences:
        """The rows of the delete table that apply to each file, read from the columns of `files`."""
        return DeleteReferences.read_columns(self.files)

    def with_deletes(self, references: DeleteReferences, deletes: pa.Table) -> FileTable:
        """Return the same files with other deletes. `references` refer to rows of `deletes`."""
        files = self.files
        for name, column in references.columns().items():
            files = files.set_column(files.schema.get_field_index(name), FILES.field(name), column)
        return replace(self, files=files, deletes=deletes)

    def with_same_place(self, names: pa.Array) -> FileTable:
        """Return the files with another column `same_place`: paths of other live files at the same location."""
        index = self.files.schema.get_field_index("same_place")
        return replace(self, files=self.files.set_column(index, FILES.field("same_place"), names))

    def drop_unused_deletes(self) -> FileTable:
        """Return the same files, with a delete table that only has rows that the files reference."""
        used = self.references.reference_mask(self.deletes.num_rows)
        if used.all():
            return self
        return self.with_deletes(self.references.drop_rows(~used), self.deletes.filter(pa.array(used)))

    def __len__(self) -> int:
        return int(self.files.num_rows)


def concat_file_tables(tables: Sequence[FileTable]) -> FileTable:
    """Concatenate at least one file table.

    If all share one delete table, the result has it, too. Otherwise the delete tables are concatenated.
    """
    first = tables[0]
    if all(each.deletes is first.deletes for each in tables):
        files, deletes = [each.files for each in tables], first.deletes
    else:
        starts = np.cumsum([0, *(each.deletes.num_rows for each in tables)]).tolist()
        files = [_shift_references(each, start) for each, start in zip(tables, starts[:-1], strict=True)]
        deletes = pa.concat_tables([each.deletes for each in tables])
    lengths = [len(each) for each in tables]
    stats = {i: concat_stats([each.stats.get(i, ColumnStats()) for each in tables], lengths) for i in first.stats}
    fields = {spec_id: ids for each in tables for spec_id, ids in each.constant_fields.items()}
    return FileTable(pa.concat_tables(files, promote_options="permissive").combine_chunks(), deletes, stats, fields)


def _shift_references(table: FileTable, start: int) -> pa.Table:
    """Return the table's files, with references to a delete table that begins with `start` additional rows."""
    return table.with_deletes(table.references.shift(start), table.deletes).files


def struct_of(members: Mapping[str, pa.Array], rows: int) -> pa.StructArray:
    """Build a struct array of `rows` rows from arrays by member name; without members, an array of empty structs."""
    if not members:
        return empty_structs(rows)
    return pa.StructArray.from_arrays(list(members.values()), names=list(members))


def key_texts(deletes: pa.Table) -> pa.Array:
    """Return the field ids that each equality delete compares, as text ('1,2'); null for other deletes."""
    lists = deletes["equality_ids"].combine_chunks()
    mask = lists.is_null() if lists.null_count else None
    return pc.binary_join(pa.ListArray.from_arrays(lists.offsets, lists.values.cast(pa.string()), mask=mask), ",")
