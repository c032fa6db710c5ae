"""The interface through which writers see a table: how to write its data files, and its deletes by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa
from pyroaring import BitMap64

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.definition.table_definition import SortTerm
from lakescan.options.write import WriteOptions
from lakescan.planning.file_table import FileTable
from lakescan.storage import Storage
from lakescan.storage.encryption.table_keys import NewKey
from lakescan.writing.column_rules import ColumnRules
from lakescan.writing.file_statistics import FileStatistics
from lakescan.writing.sort_keys import SortKey

Key = tuple[Any, ...]  # partition values, one per partition field; times as numbers (`partition_key.physical`)


@dataclass(frozen=True)
class WrittenFile:
    """A written data file: location, partition key, rows, size in bytes, and `details` that the format commits."""

    location: str
    key: Key
    rows: int
    size: int
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)


class CommonWriteOptions:
    """The write options that mean the same in every format."""

    options: WriteOptions

    @property
    def note(self) -> str:
        """What the result of a write says of its files; empty if there is nothing to say."""
        return ""

    def new_key(self) -> NewKey | None:
        """The key of a new file; None if files are not encrypted."""
        return None

    @property
    def max_rows(self) -> int | None:
        """The option `maxRecordsPerFile`: maximum rows per file, or None."""
        return self.options.max_records_per_file

    @property
    def row_group_limits(self) -> tuple[int, int | None]:
        """The most rows of a row group, and the bytes of rows in memory that make one; None if only rows decide."""
        return 1 << 20, None

    @property
    def is_fanned_out(self) -> bool:
        """The option `fanout-enabled`, true by default."""
        return self.options.fanout_enabled


class TableWrites(Protocol):
    """A table to write to. Each format implements it; instances are sent to workers."""

    @property
    def options(self) -> WriteOptions:
        """The options of the write."""

    @property
    def schema(self) -> Schema:
        """The table schema."""

    @property
    def storage(self) -> Storage:
        """The storage that files are written to."""

    @property
    def note(self) -> str:
        """What the result of a write says of its files; empty if there is nothing to say."""

    @property
    def target_size(self) -> int:
        """Target file size in bytes: past it, the next file is started."""

    @property
    def rules(self) -> ColumnRules:
        """What new rows must satisfy, and how columns that they lack are filled."""

    @property
    def max_rows(self) -> int | None:
        """Maximum rows per file, or None."""

    @property
    def is_fanned_out(self) -> bool:
        """Whether many partitions have open files at once; otherwise one, for rows that arrive sorted by partition."""

    @property
    def is_clustered(self) -> bool:
        """Whether a data frame is shuffled by partition before it is written."""

    @property
    def partition_sources(self) -> Sequence[str]:
        """The source columns of the partition fields."""

    @property
    def row_group_limits(self) -> tuple[int, int | None]:
        """The most rows of a row group, and the bytes of rows in memory that make one; None if only rows decide."""

    @property
    def parquet_options(self) -> Mapping[str, Any]:
        """Arguments for `pyarrow.parquet.ParquetWriter`."""

    def columns_for(self, rows: pa.Schema) -> Sequence[t.Field]:
        """Convert the rows' Arrow schema to table columns, of types that the format supports."""

    @property
    def fills_members(self) -> bool:
        """Whether statements with schema evolution may leave out members of structs."""

    def widens(self, old: t.Type, new: t.Type) -> bool:
        """Whether rows of a type may give a column a wider one, in a write that changes the table's columns."""

    def file_columns(self) -> Sequence[tuple[int, pa.Field]]:
        """The columns stored in files: position in the table schema, and the field under its physical name."""

    @property
    def own_order(self) -> tuple[SortTerm, ...]:
        """The table's sort order; empty if it has none."""

    def sort_keys(self, terms: Sequence[SortTerm]) -> tuple[SortKey, ...]:
        """The keys of an order, for rows with the table's columns.

        Raises `NoSuchColumn`, and `InvalidOption` or `UnsupportedFeature` for what rows cannot be sorted by.
        """

    def keep_row_order(self, terms: Sequence[SortTerm]) -> TableWrites:
        """These writes for rows that arrive in this order over all files, or in another one that is none of columns.

        They stay in their order, and files claim it where the format has a place for that.
        """

    def sort_rows(self, rows: pa.Table) -> pa.Table:
        """Sort rows by the table's sort order, if it has one, unless they arrive sorted."""

    def partition_keys(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """The partition values of conformed rows, one array per partition field."""

    @property
    def spec_id(self) -> int:
        """The partition spec id of new files."""

    @property
    def partition_names(self) -> Sequence[str]:
        """The names of the partition fields, as in file tables."""

    def new_key(self) -> NewKey | None:
        """The key of a new file, made where it is written; None if files are not encrypted."""

    def new_location(self, key: Key, name: str) -> str:
        """The location of a new file in a partition."""

    @property
    def data_folder(self) -> str:
        """The folder that contains all new files."""

    @property
    def lineage_writes(self) -> TableWrites:
        """These writes for rows rewritten from other files: row lineage is preserved where the table tracks it."""

    def describe(self, statistics: FileStatistics) -> Mapping[str, Any]:
        """What to commit for a file besides its location, partition and size."""


@dataclass(frozen=True)
class WrittenDeletes:
    """The deletes of one data file that were written, and that no commit names yet. Pickled by workers.

    - `path`: the data file, as file tables have it.
    - `rows`: how many of its rows are deleted now that were not before.
    - `location`: the file with the deletes; several data files may share it.
    - `details`: what the format commits.
    """

    path: str
    rows: int
    location: str
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class DeleteLimits:
    """Which files of position deletes are rewritten: all, or those of partitions that have enough too small or large.

    Sizes are in bytes; None stands for 75% and 180% of the target size.
    """

    everything: bool = False
    files: int = 5
    smallest: int | None = None
    largest: int | None = None


class DeleteWriter(Protocol):
    """Writes deletes of rows by position. Pickled for workers."""

    def write(self, files: FileTable, positions: Sequence[BitMap64]) -> Sequence[WrittenDeletes]:
        """Write the deletes of data files: those to make, united with those that the files have, where these are by
        position and the format has one delete for each file.

        Args:
            files: The data files, each once, with the deletes that they have; of the base.
            positions: The rows to delete of each, counted from 0; rows that are deleted already, too.

        Returns:
            The deletes of each data file that loses rows; a file whose rows are deleted already has none.

        Raises:
            CorruptData: A row does not exist, or an existing delete does not fit its file; nothing is written.
            StorageError: Storage failed; what was written is removed if that is possible.
        """

    def remove_written(self) -> Sequence[str]:
        """Remove all files of this write, whichever worker wrote them; return those that could not be removed.

        Not for files that a commit may name. It lists the table's folder.
        """
