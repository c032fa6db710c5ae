"""The interface of tables for writers: how to write data files and position deletes."""

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

Key = tuple[Any, ...]  # partition values, one per partition field; times as numbers (`partition_key.physical_values`)


@dataclass(frozen=True)
class WrittenFile:
    """A written data file.

    - `key`: its partition values; empty for an unpartitioned table.
    - `rows`, `size`: its number of rows, and its size in bytes.
    - `details`: further metadata for the commit, in the table format's own form (`TableWrites.describe`).
    """

    location: str
    key: Key
    rows: int
    size: int
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)


class CommonWriteOptions:
    """Mixin for `TableWrites`: the write options that have the same meaning in every format, and defaults."""

    options: WriteOptions

    @property
    def note(self) -> str:
        """A remark about the written files that the result of a write shows; empty unless a format overrides it."""
        return ""

    def new_key(self) -> NewKey | None:
        """Return None: files are not encrypted. Overridden by formats with encryption."""
        return None

    @property
    def max_rows(self) -> int | None:
        """The option `maxRecordsPerFile`: the maximum number of rows per file; None for no limit."""
        return self.options.max_records_per_file

    @property
    def row_group_limits(self) -> tuple[int, int | None]:
        """The maximum number of rows of a row group (2^20), and its target size in bytes of memory (no target)."""
        return 1 << 20, None

    @property
    def is_fanned_out(self) -> bool:
        """The option `fanout-enabled`, true by default."""
        return self.options.fanout_enabled


class TableWrites(Protocol):
    """A table to write to, with the options of one write.

    Each format implements this interface. Pickled for workers.
    """

    @property
    def options(self) -> WriteOptions:
        """The options of the write."""

    @property
    def schema(self) -> Schema:
        """The schema of the rows to write: the table schema, and extra columns such as row ids in `lineage_writes`."""

    @property
    def storage(self) -> Storage:
        """The storage to write files to."""

    @property
    def note(self) -> str:
        """A remark about the written files that the result of a write shows; empty text for no remark."""

    @property
    def target_size(self) -> int:
        """The target size of a file in bytes. A file is finished after the row group that reaches it."""

    @property
    def rules(self) -> ColumnRules:
        """The rules for new rows: constraints, and values for missing columns."""

    @property
    def max_rows(self) -> int | None:
        """The maximum number of rows per file; None for no limit."""

    @property
    def is_fanned_out(self) -> bool:
        """Whether files of many partitions are open at the same time.

        If not, the file of a partition is finished at the first row of another one, so rows should arrive sorted by
        partition.
        """

    @property
    def is_clustered(self) -> bool:
        """Whether Spark shuffles a data frame by partition before it is written, so that there are fewer files."""

    @property
    def partition_sources(self) -> Sequence[str]:
        """The names of the source columns of the partition fields."""

    @property
    def row_group_limits(self) -> tuple[int, int | None]:
        """The maximum number of rows of a row group, and its target size in bytes of memory (None for no target)."""

    @property
    def parquet_options(self) -> Mapping[str, Any]:
        """Arguments for `pyarrow.parquet.ParquetWriter`."""

    def columns_for(self, rows: pa.Schema) -> Sequence[t.Field]:
        """Return table columns for rows with this Arrow schema, with the nearest types that the format supports.

        They are used to create a table, or to add columns to it.
        """

    @property
    def fills_members(self) -> bool:
        """Whether, in statements with schema evolution, rows may lack members of the table's structs.

        Such members keep their values or become null.
        """

    def widens(self, old: t.Type, new: t.Type) -> bool:
        """Return whether a write with schema evolution may change a column's type from `old` to the wider `new`."""

    def file_columns(self) -> Sequence[tuple[int, pa.Field]]:
        """Return the columns that data files store: the position in `schema`, and the Arrow field in files.

        The field has the column's physical name. Other columns, such as Delta's partition columns, are left out.
        """

    @property
    def own_order(self) -> tuple[SortTerm, ...]:
        """The table's sort order as sort terms; empty if it has none."""

    def sort_keys(self, terms: Sequence[SortTerm]) -> tuple[SortKey, ...]:
        """Return the sort keys of sort terms, for rows with the table's columns.

        Raises `NoSuchColumn` for an unknown column, and `InvalidOption` or `UnsupportedFeature` for a term without an
        order.
        """

    def keep_row_order(self, terms: Sequence[SortTerm]) -> TableWrites:
        """Return these writes for rows that are already ordered over all files and must keep their order.

        `terms` are the order of the rows; empty for an order that terms cannot express, such as a space-filling curve.
        Files record the sort order where the format supports that.
        """

    def sort_rows(self, rows: pa.Table) -> pa.Table:
        """Return rows sorted by the table's sort order.

        They are returned unchanged if the table has no sort order, or after `keep_row_order`.
        """

    def partition_keys(self, rows: pa.RecordBatch) -> Sequence[pa.Array]:
        """Return the partition values of conformed rows (rows with the columns and types of `schema`).

        There is one array per partition field.
        """

    @property
    def spec_id(self) -> int:
        """The id of the partition spec that new files have (Iceberg); 0 for Delta."""

    @property
    def partition_names(self) -> Sequence[str]:
        """The names of the partition fields, in the order of `Key`."""

    def new_key(self) -> NewKey | None:
        """Create the encryption key for a new file, in the process that writes it; None if files are not encrypted."""

    def new_location(self, key: Key, name: str) -> str:
        """Return the location of a new file with the name `name` in the partition with the values `key`."""

    @property
    def data_folder(self) -> str:
        """The folder whose subfolders and files include all new files."""

    @property
    def lineage_writes(self) -> TableWrites:
        """These writes, for rows that are rewritten from other files.

        If the table tracks rows (Iceberg's row lineage, Delta's row tracking), the rows have their ids in extra columns
        of `schema`, and files store them. Otherwise the same object.
        """

    def describe(self, statistics: FileStatistics) -> Mapping[str, Any]:
        """Return the `WrittenFile.details` of a file, such as column statistics, in the table format's own form."""


@dataclass(frozen=True)
class WrittenDeletes:
    """Written but uncommitted deletes of one data file. Pickled by workers.

    - `path`: the data file's path, as in `FileTable`.
    - `rows`: the number of its rows that these deletes remove in addition to earlier deletes.
    - `location`: the file with the deletes, which several data files may share.
    - `details`: further metadata for the commit, in the table format's own form.
    """

    path: str
    rows: int
    location: str
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class DeleteLimits:
    """Selects the position delete files to rewrite: all, or those in partitions with enough files of unsuitable size.

    - `everything`: rewrite all delete files.
    - `files`: otherwise, the minimum number of unsuitable files in a partition.
    - `smallest`, `largest`: the range of suitable sizes in bytes. None stands for 75% and 180% of the target size.
    """

    everything: bool = False
    files: int = 5
    smallest: int | None = None
    largest: int | None = None


class DeleteWriter(Protocol):
    """Writes position deletes. Pickled for workers."""

    def write(self, files: FileTable, positions: Sequence[BitMap64]) -> Sequence[WrittenDeletes]:
        """Write the position deletes of data files.

        If the format allows only one delete file per data file, the new deletes are merged with the existing position
        deletes.

        Args:
            files: The data files in the snapshot or version that is changed, each once, with their existing deletes.
            positions: For each data file, the rows to delete, counted from 0. Already deleted rows may be included.

        Returns:
            The deletes of each data file that loses rows. A file whose rows were all deleted before has none.

        Raises:
            CorruptData: A row does not exist, or an existing delete does not fit its file. Nothing is written.
            StorageError: Storage failed. Written files are removed if possible.
        """

    def remove_written(self) -> Sequence[str]:
        """Delete all files of this write, whichever worker wrote them, and return those that could not be deleted.

        Do not call it after a commit that may have succeeded. It lists the table's folder.
        """
