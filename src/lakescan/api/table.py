"""Tables: what users read, write and maintain.

What writes, changes or maintains is imported by the method that needs it: reading a table imports nothing of it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

import pyarrow as pa

from lakescan.api.maintenance import TableMaintenance, TableMetadataFiles
from lakescan.api.scan import Scan
from lakescan.api.snapshots import TableRefs
from lakescan.catalogs.committer import committer_of
from lakescan.catalogs.formats import format_named
from lakescan.common.executors import PlanningExecutor
from lakescan.common.html import register_display
from lakescan.common.identifiers import Identifier, location_of
from lakescan.common.timestamps import as_moment
from lakescan.definition.table_changes import TableChange
from lakescan.errors import CommitConflict, InvalidOption
from lakescan.expressions.predicate import Predicate
from lakescan.formats.metadata_table import as_table
from lakescan.formats.table_format import Snapshot, SnapshotSelector
from lakescan.options.keywords import CompactKeywords, ReadKeywords, WriteKeywords
from lakescan.options.session_settings import NO_SESSION, SessionSettings
from lakescan.options.write import WriteOptions
from lakescan.storage.errors import redact
from lakescan.storage.locations import absolute
from lakescan.tables.capabilities import (
    Alterations,
    Checkpoints,
    ManifestGeneration,
    ManifestRewrites,
    PositionDeleteRewrites,
    Restoration,
    SnapshotExpiry,
    require,
)
from lakescan.tables.notebook import table_as_html
from lakescan.tables.results import (
    AlterResult,
    ChangeResult,
    CheckpointResult,
    CloneResult,
    CompactResult,
    ConvertResult,
    ExpireResult,
    GenerateResult,
    ManifestsResult,
    OrphanResult,
    PositionDeletesResult,
    RestoreResult,
    WriteResult,
)
from lakescan.tables.scan_spec import ScanSpec
from lakescan.tables.time_travel import as_end_of_changes, check_no_range

if TYPE_CHECKING:
    import pandas
    import polars

    from lakescan.api.alter import AlterBuilder
    from lakescan.api.changes import Changes
    from lakescan.api.stream import BatchStream
    from lakescan.definition.table_changes import TableChange
    from lakescan.statements.rows.merge import MergeBuilder
    from lakescan.tables.base import Target

_LOG = logging.getLogger("lakescan")
_Result = TypeVar("_Result")


class Table(TableRefs, TableMaintenance, TableMetadataFiles):
    """An open Iceberg or Delta table, in the state that it had when it was opened or last refreshed.

    Tables are opened by `lakescan.table`, and made by `Catalog.create_table` and `lakescan.save`. Scans keep the state
    that the table had when they were made. A table that writes sees what it wrote.

    Example:
        >>> orders = lakescan.table("/lake/orders")
        >>> orders.to_pandas()
    """

    def __init__(self, spec: ScanSpec, name: Identifier | None = None) -> None:
        self._opened, self._name = spec, name
        self._has_written = False  # since it was opened or read again
        self._written_to: str | None = None  # the identity of the table that was written to

    def __repr__(self) -> str:
        return f"Table({self.format} {str(self.name or self.location)!r})"

    def _repr_html_(self) -> str:
        """The table as notebooks show it: what and where it is, its version and its columns."""
        return table_as_html(str(self.name or self.location), self.format, self._spec)

    @property
    def _spec(self) -> ScanSpec:
        """A scan of all rows, of the newest state if this table has written since it was opened."""
        if self._has_written:
            now = self._opened.table.reopen()
            if self._written_to not in (None, now.identity):
                raise CommitConflict(f"{self} was dropped and recreated since it was written to: open it again")
            self._opened, self._has_written = replace(self._opened, table=now), False
        return self._opened

    @property
    def name(self) -> Identifier | None:
        """The table's name in a catalog; None for a table that was opened by its location."""
        return self._name

    @property
    def location(self) -> str:
        """The folder or metadata file that the table was opened by, or its name in a catalog (Iceberg)."""
        return self._opened.location

    @property
    def folder(self) -> str:
        """The folder of the table's files."""
        return self._spec.table.location

    @property
    def comment(self) -> str | None:
        """What the table is about; None without a comment."""
        return self._spec.table.comment

    @property
    def format_version(self) -> str:
        """The format version ('2', Iceberg), or the versions of readers and writers ('3,7', Delta)."""
        return self._spec.table.format_version

    @property
    def format(self) -> str:
        """'iceberg' or 'delta'."""
        return self._opened.table.name

    @property
    def _current(self) -> Snapshot:
        return self._spec.table.snapshot(SnapshotSelector())

    @property
    def schema(self) -> pa.Schema:
        """The current columns as an Arrow schema; field ids are in the fields' metadata (`PARQUET:field_id`)."""
        return self._current.schema.arrow()

    @property
    def properties(self) -> Mapping[str, str]:
        """Table properties (Iceberg) or configuration (Delta)."""
        return self._current.properties

    @property
    def version(self) -> int | None:
        """The version (Delta), or the id of the current snapshot (Iceberg; None before the first)."""
        return self._current.id

    @property
    def snapshot_id(self) -> int | None:
        """The same as `version`, by the name that Iceberg has for it."""
        return self.version

    def refresh(self) -> Table:
        """See the newest state of the table; returns the same table.

        Scans that were made before keep theirs. A table that was opened by one metadata file stays as that has it.

        Raises:
            NoSuchTable, NotATable: The table is not there any more.

        Example:
            >>> orders.refresh().version
            12
        """
        self._opened = replace(self._opened, table=self._opened.table.reopen())
        self._has_written = False
        return self

    @property
    def partitioning(self) -> str:
        """How new files are partitioned, such as 'day(ts), bucket(16, id)'; or 'unpartitioned'."""
        return self._spec.table.partitioning

    @property
    def sort_order(self) -> str:
        """How new files are sorted, such as 'id asc nulls first' (Iceberg); or 'unsorted'."""
        return self._spec.table.sort_order

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns that identify a row: an Iceberg table's identifier fields, else none.

        Nothing checks that rows differ in them: append, INSERT and overwrite write a second row with the same key,
        unless `write.upsert.enabled` is true. `upsert` and MERGE replace rows by their key.

        Example:
            >>> orders.primary_key
            ('order_id',)
        """
        return self._spec.snapshot.schema.identifier_names

    def history(self) -> pa.Table:
        """The table's commits, oldest first.

        Returns:
            For Iceberg, the snapshot log: the columns of Iceberg's metadata table `history`, and each snapshot's
            operation and summary. For Delta, the columns of `DESCRIBE HISTORY` for the commits that the log still has.

        Example:
            >>> orders.history().to_pandas().tail()
        """
        return register_display(self._spec.table.history())

    @property
    def metadata_tables(self) -> tuple[str, ...]:
        """The names that `inspect` takes."""
        return self._spec.table.metadata_tables

    def inspect(
        self,
        name: str,
        *,
        version: int | str | None = None,
        timestamp: datetime | date | str | None = None,
        branch: str | None = None,
        tag: str | None = None,
    ) -> pa.Table:
        """A metadata table, with the columns of the format's own reader.

        Args:
            name: One of `metadata_tables`, such as 'snapshots' or 'files'.
            version: A version (Delta) or snapshot id (Iceberg); the current state by default.
            timestamp: The state at that time; UTC without an offset.
            branch: The newest state of a branch (Iceberg).
            tag: The state that a tag names (Iceberg).

        Returns:
            Its rows.

        Raises:
            InvalidOption: The format has no metadata table of that name.
            NoSuchSnapshot: The table does not have the state.

        Example:
            >>> orders.inspect("files", timestamp="2026-01-31").to_pandas()
        """
        spec = self._spec
        if any(v is not None for v in (version, timestamp, branch, tag)):
            spec = spec.as_of(version=version, timestamp=timestamp, branch=branch, tag=tag)
        return register_display(as_table(spec.metadata_table(name)))

    def scan(self) -> Scan:
        """A scan of all rows and columns, with the options that the table was opened with.

        Example:
            >>> orders.scan().where("price > 5").select("id").to_arrow()
        """
        return Scan(self._spec)

    def count(self) -> int:
        """The number of rows; see `Scan.count`.

        Example:
            >>> orders.count()
            1200
        """
        return self.scan().count()

    def head(self, rows: int = 10) -> pa.Table:
        """Some rows as an Arrow table; which ones is not defined.

        Args:
            rows: The maximum number of rows.

        Example:
            >>> orders.head(5).to_pandas()
        """
        return self.scan().limit(rows).to_arrow()

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table; see `Scan.to_arrow`."""
        return self.scan().to_arrow()

    def to_pandas(
        self, dtype_backend: Literal["pyarrow", "numpy_nullable"] | None = None, **arguments: Any
    ) -> pandas.DataFrame:
        """All rows as a pandas data frame; see `Scan.to_pandas`."""
        return self.scan().to_pandas(dtype_backend, **arguments)

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> polars.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> polars.LazyFrame: ...

    def to_polars(self, *, lazy: bool = False) -> polars.DataFrame | polars.LazyFrame:
        """All rows as a Polars data frame, or lazy frame; see `Scan.to_polars`."""
        return self.scan().to_polars(lazy=True) if lazy else self.scan().to_polars()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows as an Arrow stream, by the PyCapsule protocol: `pl.DataFrame(table)`, `pa.table(table)`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def append(self, rows: Any, **options: Unpack[WriteKeywords]) -> WriteResult:
        """Add rows in one commit.

        Files are written by this process, or by Spark's workers for a Spark data frame. The commit is retried while
        other writers commit.

        Args:
            rows: Arrow (a table, a batch, a reader), pandas, Polars, DuckDB, or a Spark data frame. Columns are matched
                by name. Types are widened where no value changes.
            options: Write options, such as `merge_schema` or `target_file_size_bytes`; the page Options of the
                documents lists them.

        Returns:
            How many files, rows and bytes were written.

        Raises:
            SchemaMismatch: Rows do not fit the table's columns; nothing is committed.
            CommitConflict: Other writers changed the table so that the commit cannot be made.
            CommitStateUnknown: The answer to the commit was lost, and looking it up failed. The rows may be there.
            UnsupportedFeature: The table requires something of its writers that is not implemented.

        Example:
            >>> orders.append(pa.table({"id": [1], "price": [9.5]}))
        """
        from lakescan.api.rows import as_rows
        from lakescan.tables.write_rows import append_rows

        given = as_rows(rows)
        checked = replace(self._write_options(options), session=given.session)
        target = self._target(checked)
        return self._finish_write(target, append_rows(target, given, checked))

    def overwrite(
        self, rows: Any, *, where: str | Predicate | None = None, **options: Unpack[WriteKeywords]
    ) -> WriteResult:
        """Replace rows in one commit: all rows, those of a filter, or those of the partitions of the new rows.

        Args:
            rows: The new rows; see `append`.
            where: Replace only the rows that match. Every new row must match, too. Files that match only partly are
                rewritten without the matching rows, by threads, or by Spark's workers for a Spark data frame.
            options: Write options. With `overwrite_mode="dynamic"`, the partitions of the new rows are replaced.

        Returns:
            How many files, rows and bytes were written, and how many files were removed.

        Raises:
            SchemaMismatch: Rows do not fit the table's columns, or do not match `where`; nothing is committed.
            CommitConflict: Another writer changed what is replaced.
            CommitStateUnknown, UnsupportedFeature: As for `append`.

        Example:
            >>> orders.overwrite(corrected, where="day = '2026-01-31'")
        """
        from lakescan.api.rows import as_rows
        from lakescan.tables.write_rows import overwrite_rows

        given = as_rows(rows)
        checked = replace(self._write_options(options), session=given.session)
        target = self._target(checked)
        return self._finish_write(target, overwrite_rows(target, given, checked, where))

    def delete(
        self,
        where: str | Predicate | None = None,
        *,
        executor: PlanningExecutor | None = None,
        **options: Unpack[WriteKeywords],
    ) -> ChangeResult:
        """Delete the rows that match a condition, in one commit.

        Files all of whose rows match are removed without being read. Of the others, rows are marked as deleted by
        delete files or deletion vectors (merge-on-read), or the other rows are written again (copy-on-write): by the
        option `row_change_mode`, else the table's properties.

        Args:
            where: An SQL condition, which may have subqueries, or a filter (`lakescan.col("price") > 5`); every row by
                default.
            executor: Where files are written again in copy-on-write, such as `lakescan.spark.SparkExecutor(spark)`;
                threads by default.
            options: Write options.

        Returns:
            How many rows were deleted, and what became of their files.

        Raises:
            InvalidStatement: The condition does not parse, or is not the same each time (`rand()`).
            CommitConflict: Another writer changed what the statement read.
            UnsupportedFeature: Rows of the table cannot be changed (`delta.appendOnly`).
            CommitStateUnknown: As for `append`.

        Example:
            >>> print(orders.delete("status = 'cancelled'"))
            12 rows deleted (deletes of 3 files)
        """
        from lakescan.statements.rows.table_methods import delete

        return self.changed_by(options, lambda target: delete(target, where, executor))

    def update(
        self, set: Mapping[str, str], where: str | Predicate | None = None, **options: Unpack[WriteKeywords]
    ) -> ChangeResult:
        """Update columns of the rows that match a condition, in one commit.

        Args:
            set: By column (or member of a struct, `address.city`), the SQL expression of its new value, over the
                row's old values; `DEFAULT` for the column's default.
            where: An SQL condition, which may have subqueries, or a filter (`lakescan.col("price") > 5`); every row by
                default.
            options: Write options, such as `row_change_mode`.

        Returns:
            How many rows were updated, and what became of their files.

        Raises:
            NoSuchColumn: The table has no such column.
            SchemaMismatch: A new value does not fit its column, or violates a constraint; nothing is committed.
            QueryFailed: A value cannot be computed, such as by an overflow; nothing is committed.
            InvalidStatement, CommitConflict, UnsupportedFeature, CommitStateUnknown: As for `delete`.

        Example:
            >>> print(orders.update({"price": "price * 1.1"}, where="country = 'NO'"))
            40 rows updated (1 file written, 2.1 KB; deletes of 2 files)
        """
        from lakescan.statements.rows.table_methods import update

        return self.changed_by(options, lambda target: update(target, set, where))

    def merge(
        self,
        source: Any,
        on: str,
        *,
        source_alias: str = "s",
        target_alias: str = "t",
        **options: Unpack[WriteKeywords],
    ) -> MergeBuilder:
        """Merge rows into the table: update or delete the rows that match, insert the others.

        Args:
            source: Arrow, pandas, Polars, DuckDB, another table or scan; or a Spark data frame, which is merged by
                Spark's workers.
            on: The SQL condition by which rows match.
            source_alias: The name of the source in conditions and values.
            target_alias: The name of the table there.
            options: Write options, such as `row_change_mode`.

        Returns:
            A builder, to which clauses are added; its method `execute` commits the merge.

        Example:
            >>> orders.merge(changes, on="t.id = s.id") \
            ...     .when_matched_update_all() \
            ...     .when_not_matched_insert_all() \
            ...     .execute()
        """
        from lakescan.api.rows import session_settings_of
        from lakescan.statements.rows.table_methods import merge

        self._write_options(options)
        run = partial(self.changed_by, options, session=session_settings_of(source))
        return merge(run, source, on, source_alias, target_alias)

    def upsert(
        self, rows: Any, keys: str | Sequence[str] | None = None, **options: Unpack[WriteKeywords]
    ) -> ChangeResult:
        """Update the rows that have the same keys as new ones, and insert the other new rows, in one commit.

        Args:
            rows: The new rows; see `merge`. They have all columns of the table.
            keys: The columns that identify a row; by default the table's identifier fields (its primary key).
            options: Write options, such as `row_change_mode`. With `upsert_mode="equality"` (Iceberg), the table is not
                read: equality deletes are written for the keys, and all rows count as inserted.

        Returns:
            How many rows were inserted and updated.

        Raises:
            InvalidOption: No keys are given, and the table has none.
            AmbiguousMerge: Two of the rows have the same keys; nothing is committed.
            SchemaMismatch, CommitConflict, UnsupportedFeature, CommitStateUnknown: As for `update`.

        Example:
            >>> customers.upsert(pa.table({"id": [1, 2], "name": ["Ada", "Lin"]}), keys="id")
        """
        from lakescan.api.rows import session_settings_of
        from lakescan.statements.rows.table_methods import upsert

        names = [keys] if isinstance(keys, str) else keys
        mode = self._write_options(options).upsert_mode
        return self.changed_by(
            options,
            lambda target: upsert(target, rows, names, mode),
            upserts=True,
            session=session_settings_of(rows),
        )

    def changed_by(
        self,
        options: Mapping[str, Any],
        change: Callable[[Target], ChangeResult],
        *,
        upserts: bool = False,
        session: SessionSettings = NO_SESSION,
    ) -> ChangeResult:
        """Change rows of the table as it is now by a function, such as one that runs a statement of SQL.

        Args:
            options: Write options by name.
            change: What changes rows of the target that it gets, in one commit.
            upserts: Whether it upserts: only then are options of upserts taken.
            session: How the session that runs it stages rows, where the options do not say.

        Returns:
            What the function returns.

        Raises:
            InvalidOption: An option is not one of statements that change rows.
            CommitConflict: Another table has the name now.

        Example:
            >>> orders.changed_by({}, lambda target: change(target, statement, {}))
        """
        self._write_options(options).check_changes(upserts=upserts)
        return self.written_by(options, lambda target, _: change(target), session)

    def written_by(
        self,
        options: Mapping[str, Any],
        write: Callable[[Target, WriteOptions], _Result],
        session: SessionSettings = NO_SESSION,
    ) -> _Result:
        """Write to the table as it is now by a function. The table is read again when it is next used.

        Args:
            options: Write options by name.
            write: What writes to the target that it gets, in one commit, as the parsed options say.
            session: How the session that runs it stages rows, where the options do not say.

        Returns:
            What the function returns.

        Raises:
            InvalidOption: An option is unknown, or has an invalid value.
            CommitConflict: Another table has the name now.

        Example:
            >>> orders.written_by({}, lambda target, options: append_rows(target, rows_of(rows), options))
        """
        checked = replace(self._write_options(options), session=session)
        target = self._target(checked)
        return self._finish_write(target, write(target, checked))

    def compact(
        self, *, where: str | None = None, executor: PlanningExecutor | None = None, **options: Unpack[CompactKeywords]
    ) -> CompactResult:
        """Rewrite small files of each partition as larger ones, and files with deletes without the deleted rows.

        Streams and changes skip the commit, because it changes no rows. Rows keep their ids where the table tracks
        them. Deletes that apply to the rewritten files alone are removed in the same commit.

        Args:
            where: Compact only files that may have rows that match.
            executor: Where partitions are rewritten, such as `lakescan.spark.SparkExecutor(spark)`; threads by default.
            options: Which files are rewritten, and how: `delete_ratio_threshold`, `min_input_files`, `strategy`,
                `sort_order`, `zorder_by`, `purge`, `partial_progress_enabled` and others of Iceberg's
                `rewrite_data_files`; and write options, such as `target_file_size_bytes` and `compression_codec`.

        Returns:
            How many files and bytes were replaced, and by how many.

        Raises:
            InvalidOption: Options do not fit together, or the strategy `sort` has no order to sort by.
            CommitConflict: Another writer changed the files that were compacted. With partial progress, only if no
                commit succeeded: other files that stayed are counted as `failed_files`.

        Example:
            >>> orders.compact(where="day >= '2026-01-01'", target_file_size_bytes="256m")
            >>> orders.compact(strategy="sort", sort_order="country, ts DESC")
        """
        from lakescan.maintenance import compact
        from lakescan.options.compact import CompactOptions

        checked = CompactOptions.parse(options, self.format)
        checked.check_opened()
        target = self._target(checked)
        return self._finish_write(target, compact(target, where, executor, checked))

    def rewrite_position_deletes(
        self,
        *,
        where: str | None = None,
        rewrite_all: bool = False,
        min_input_files: int = 5,
        min_file_size_bytes: int | None = None,
        max_file_size_bytes: int | None = None,
        **options: Unpack[WriteKeywords],
    ) -> PositionDeletesResult:
        """Rewrite small files of position deletes of an Iceberg table as fewer ones, in one commit; no row changes.

        Deletes of data files that are gone are dropped. In format version 3, all position deletes that were written
        before the table was upgraded become deletion vectors. By the table property `write.delete.granularity`, new
        files are about one data file each (`file`, the default), or about those of a partition: with `file`, there is
        something to gain only where a data file has several.

        Args:
            where: Only deletes of data files that may have rows that match.
            rewrite_all: Rewrite all files of position deletes, whatever their sizes are.
            min_input_files: Rewrite files of a partition for their sizes only if they are at least as many.
            min_file_size_bytes: Rewrite smaller files; by default, 75% of `write.delete.target-file-size-bytes`.
            max_file_size_bytes: Rewrite larger files; by default, 180% of it.
            options: Write options, such as `compression_codec`.

        Returns:
            How many files and bytes were replaced, and by how many.

        Raises:
            UnsupportedFeature: The table is a Delta table, or of format version 1.
            CommitConflict: Another writer removed one of the files meanwhile, or changed rows for which a vector was
                written.

        Example:
            >>> print(orders.rewrite_position_deletes())
            120 files of position deletes rewritten as 3 (1.2 MB into 210.4 KB)
        """
        from lakescan.writing.table_writes import DeleteLimits

        target = self._target(self._write_options(options))
        limits = DeleteLimits(rewrite_all, min_input_files, min_file_size_bytes, max_file_size_bytes)
        return self._finish_write(
            target, require(target, PositionDeleteRewrites).rewrite_position_deletes(where, limits)
        )

    def alter(self) -> AlterBuilder:
        """Change the table's columns, layout and properties: several changes, in one commit.

        Returns:
            A builder; nothing is changed before its `commit`.

        Example:
            >>> orders.alter().add_column("note", "STRING").set_properties({"owner": "sales"}).commit()
            2 changes: added column note string; set owner=sales
        """

        from lakescan.api.alter import AlterBuilder

        def run(changes: Sequence[TableChange]) -> AlterResult:
            target = self._target(WriteOptions())
            require(target, Alterations).alter(changes)
            return self._finish_write(target, AlterResult(tuple(map(str, changes))))

        return AlterBuilder(run)

    def restore(
        self, version: int | str | None = None, *, timestamp: datetime | date | str | None = None
    ) -> RestoreResult:
        """Make an earlier state the current one again; the states in between stay in the history.

        Delta: rows, columns and properties of the version are a new commit, as by `RESTORE TABLE`. The protocol is
        never downgraded; readers of changes and streams see the rows that come back and go. Iceberg: the snapshot
        becomes the current one, as by `set_current_snapshot`; columns and properties stay. To restore the
        current state commits nothing.

        Args:
            version: The version (Delta), or the snapshot id, or the name of a branch or tag (Iceberg).
            timestamp: The state at that time (UTC without an offset); give one of both.

        Returns:
            How many files came back, and how many are not current any more.

        Raises:
            NoSuchSnapshot: The table does not have the state.
            InvalidOption: Neither or both are given.
            MissingFile: Files of the state were removed; the message names some. Nothing is changed.
            CommitConflict: Another writer changed rows, columns or properties meanwhile. Nothing is changed.
            UnsupportedFeature: Rows of the table cannot be removed (`delta.appendOnly`).

        Example:
            >>> print(orders.restore(version=3))
            restored version 3: 1 file came back, 2 files removed
        """
        if (version is None) == (timestamp is None):
            raise InvalidOption("restore() takes a version or a timestamp: give one of them")
        target = self._target(WriteOptions())
        moment = None if timestamp is None else as_moment(timestamp)
        return self._finish_write(target, require(target, Restoration).restore(version, moment))

    def clone(
        self,
        location: str | os.PathLike[str],
        *,
        version: int | None = None,
        timestamp: datetime | date | str | None = None,
        properties: Mapping[str, Any] | None = None,
        replace: bool = False,
    ) -> CloneResult:
        """Make a new Delta table of this one's files, without copying them: Delta's SHALLOW CLONE.

        Both tables then change on their own. The clone refers to files of this table: do not remove them from storage
        (`remove_orphans` of this table, after the retention) as long as the clone is read. `Catalog.clone_table` gives
        the clone a name.

        Args:
            location: The new table's folder.
            version: The version to clone; the newest by default.
            timestamp: The state at that time (UTC without an offset).
            properties: Properties that the clone has beside, or instead of, those of this table.
            replace: Take the place of a table without rows in the folder, whose history is kept.

        Returns:
            How many files the clone has.

        Raises:
            CreatedConcurrently: There is a table in the folder, and `replace` is not given.
            CommitConflict: Another writer changed the table that is replaced.
            NoSuchSnapshot: The table does not have the state.
            UnsupportedFeature: An Iceberg table: its snapshots are read by branches and tags. Or the table that is
                replaced has rows, or another mode of column mapping.

        Example:
            >>> print(events.clone("/lake/events_test", version=12))
            cloned version 12: 40 files (1.2 GB), none copied
        """
        from lakescan.api.alter import property_texts
        from lakescan.delta.commit.clone import clone

        selector = SnapshotSelector(version, None if timestamp is None else as_moment(timestamp))
        source, storage = self._spec.at(selector), self._spec.storage
        return clone(source, absolute(location_of(location)), storage, property_texts(properties), replace=replace)

    def expire_snapshots(
        self,
        older_than: datetime | date | str | None = None,
        *,
        retain_last: int | None = None,
        dry_run: bool = False,
        clean_expired_files: bool = True,
        executor: PlanningExecutor | None = None,
    ) -> ExpireResult:
        """Expire old Iceberg snapshots, except those that branches and tags keep.

        The files that only expired snapshots had are removed, as Iceberg's own `expire_snapshots` does. Branches and
        tags other than `main` expire by their `max-ref-age-ms`, or the property `history.expire.max-ref-age-ms`.

        Args:
            older_than: Expire snapshots from before this time (UTC without an offset). By default the property
                `history.expire.max-snapshot-age-ms`, five days. A branch's own retention takes precedence.
            retain_last: Keep at least this many snapshots of each branch. By default the property
                `history.expire.min-snapshots-to-keep`, one. A branch's own retention takes precedence.
            dry_run: Only say what would expire.
            clean_expired_files: Remove the data files, delete files, manifests, manifest lists and statistics that only
                expired snapshots had. The table is read again after the expiry: files that any snapshot, branch or tag
                has then stay, and so do files in other folders than the table's own (`add_files`). If this is
                interrupted, `remove_orphans` finds the files that are left. With False, no file is removed.
            executor: Where manifests are read, and files compared and removed, such as
                `lakescan.spark.SparkExecutor(spark)`; this process by default.

        Returns:
            The snapshots, branches and tags that expired, or would expire, and the number of files that were removed.
            `int(result)` is the number of snapshots.

        Raises:
            UnsupportedFeature: `gc.enabled` is not true; or a Delta table, which cleans up its log by
                `delta.logRetentionDuration`.
            CommitConflict: Other writers committed during every attempt.

        Example:
            >>> print(orders.expire_snapshots("2026-01-31", retain_last=10))
            12 snapshots expired
        """
        from lakescan.maintenance import expire_with_files

        target = self._target(WriteOptions())
        moment = None if older_than is None else as_moment(older_than)
        if clean_expired_files and not dry_run:
            self._finish_write(target, None)  # even if files cannot be removed afterwards
            result, removed = expire_with_files(target, moment, retain_last, executor=executor)
            return replace(result, removed_files=sum(removed.values()))
        expiry = require(target, SnapshotExpiry)
        return self._finish_write(target, expiry.expire(moment, retain_last, dry_run=dry_run))

    def remove_orphans(
        self,
        older_than: datetime | date | str | None = None,
        *,
        dry_run: bool = False,
        location: str | os.PathLike[str] | None = None,
        lite: bool = False,
        inventory: Any = None,
        ignore_retention: str | None = None,
        executor: PlanningExecutor | None = None,
    ) -> OrphanResult:
        """Remove files in the table's folders that the table does not reference.

        For Iceberg these are files that no retained snapshot references, in any spelling of their locations; for Delta
        files that neither the newest version nor any version within the retention references. Hidden files, and other
        tables within these folders, are kept.

        Args:
            older_than: Remove only files from before this time, by the store's clock (UTC without an offset). Three
                days ago by default; for Delta `delta.deletedFileRetentionDuration`, a week.
            dry_run: Only list.
            location: Search this folder. By default the table's own folders, but not those that properties such as
                `write.data.path` put elsewhere, because other tables may be there. In a folder elsewhere, files stay
                that another Iceberg table of the catalog references, which has this folder by its location or its
                properties. Those of tables that the catalog does not know are not seen. A folder above the table's
                own is searched by dry runs alone.
            lite: Take the files that the log says were removed, instead of listing the folder (Delta's VACUUM LITE):
                files of writes that failed are not among them, nor those whose commits the log does not have any more.
            inventory: Take the files of this table (Arrow, pandas, ...) instead of listing the folder, such as the
                inventory of a store: `path`, `length`, `isDir` and `modificationTime` in milliseconds since 1970, as of
                Delta's VACUUM USING INVENTORY. Files that are not in it stay.
            ignore_retention: The reason for which younger files may be removed, too, such as the number of a request
                to erase a person's data. It is logged. No other writer or reader may use the table: files of running
                writes would be removed, and reads of earlier versions would fail.
            executor: Where folders are listed, files compared with the metadata and removed, such as
                `lakescan.spark.SparkExecutor(spark)`: no process then holds the names of all files. By default this
                process does all of it.

        Returns:
            A sequence of the locations of the removed files, which also has their size.

        Raises:
            InvalidOption: The time is less than 24 hours ago, or within Delta's retention: files that are being written
                or read now would be removed. `ignore_retention` allows it.
            UnsupportedFeature: `gc.enabled` is not true, or files are referenced under another scheme or host only.
                Nothing is removed.

        Example:
            >>> print(orders.remove_orphans(dry_run=True))
            1.2 MB in 3 files would be removed
        """
        from lakescan.maintenance import remove_orphans

        moment = None if older_than is None else as_moment(older_than)
        folder = None if location is None else absolute(location_of(location))
        target = self._target(WriteOptions(), same=False)
        return remove_orphans(
            target,
            moment,
            dry_run=dry_run,
            location=folder,
            lite=lite,
            inventory=inventory,
            ignore_retention=ignore_retention,
            executor=executor,
        )

    def convert_equality_deletes(self, *, executor: PlanningExecutor | None = None) -> ConvertResult:
        """Replace the equality deletes of an Iceberg table by deletion vectors (version 3) or position deletes.

        Upserts without reading the table, of `upsert_mode="equality"` and of Flink, leave equality deletes: each reader
        compares keys of all older rows with them. Here this is done once. Streams and changes skip the commit, because
        it changes no rows.

        Args:
            executor: Where keys are read, such as `lakescan.spark.SparkExecutor(spark)`; threads by default.

        Returns:
            How many files of equality deletes were replaced, and how many rows they had deleted.

        Raises:
            UnsupportedFeature: A Delta table, or one of format version 1, which have none.
            CommitConflict: Another writer rewrote the data files, or deleted rows of them (version 3).

        Example:
            >>> print(orders.convert_equality_deletes())
            12 files of equality deletes replaced: 340 rows of 5 files are deleted by position
        """
        from lakescan.maintenance import convert_equality_deletes

        target = self._target(WriteOptions())
        return self._finish_write(target, convert_equality_deletes(target, executor))

    def rewrite_manifests(self) -> ManifestsResult:
        """Rewrite the manifests of an Iceberg table: fewer and larger, each with the files of few partitions.

        Plans of queries that filter by partition then read fewer manifests. Appends merge manifests by themselves
        (`commit.manifest-merge.enabled`), but in the order of commits. Streams skip the commit: it changes no rows.

        Returns:
            How many manifests were rewritten, and as how many.

        Raises:
            UnsupportedFeature: A Delta table.
            CommitConflict: Other writers committed during every attempt.

        Example:
            >>> print(orders.rewrite_manifests())
            120 manifests rewritten as 3
        """
        target = self._target(WriteOptions())
        return self._finish_write(target, require(target, ManifestRewrites).rewrite_manifests())

    def checkpoint(self, *, log_retention: timedelta | None = None) -> CheckpointResult:
        """Write a checkpoint of the newest version of a Delta table.

        Args:
            log_retention: Also remove the commits before the checkpoint that are older than this, whatever
                `delta.logRetentionDuration` is: `timedelta(0)` removes all of them. Earlier versions cannot be read
                afterwards. By default, commits remove what has expired by the table's properties.

        Returns:
            The version that the checkpoint holds.

        Raises:
            UnsupportedFeature: An Iceberg table, which has no checkpoints.

        Example:
            >>> print(customers.checkpoint())
            wrote a checkpoint of version 12
        """
        return require(self._target(WriteOptions()), Checkpoints).checkpoint(log_retention)

    def generate(self, mode: str = "symlink_format_manifest") -> GenerateResult:
        """Write symlink manifests of a Delta table's newest version, by which Presto, Athena and Hive read it.

        They are in the folder `_symlink_format_manifest`, one for each partition. Later commits do not update them:
        call this again after each. Manifests of partitions that are gone are removed.

        Args:
            mode: Only 'symlink_format_manifest', as of Delta's GENERATE.

        Returns:
            How many manifests there are, and how many files they name.

        Raises:
            InvalidOption: Another mode.
            UnsupportedFeature: An Iceberg table; a table with deletion vectors, which such readers do not know
                (`compact(purge=True)` applies them), or with renamed columns.

        Example:
            >>> print(events.generate())
            12 manifests of 40 files
        """
        return require(self._target(WriteOptions()), ManifestGeneration, mode).generate(mode)

    def detail(self) -> pa.Table:
        """What the table is and how large it is, as one row.

        Returns:
            For Delta, the columns of `DESCRIBE DETAIL`. For Iceberg those of them that it has, where `numFiles` and
            `sizeInBytes` are those that the current snapshot's summary counts, null if it does not.

        Example:
            >>> orders.detail().to_pylist()[0]["numFiles"]
            40
        """
        from lakescan.maintenance.describe_detail import iceberg_detail

        if "detail" in self.metadata_tables:
            return self.inspect("detail")
        return iceberg_detail(self._spec, None if self.name is None else str(self.name))

    def _finish_write(self, target: Target, result: _Result) -> _Result:
        """The result of a commit. The table is read again when it is next used: a failure there is not the write's."""
        self._has_written, self._written_to = True, target.identity
        _LOG.debug("%s: %s", self.name or redact(self.location), result)
        return result

    def _target(self, options: WriteOptions, *, same: bool = True) -> Target:
        """The table as it is now, to write to; it must be the `same` table, not one made again in its place."""
        opened = self._opened
        committer = committer_of(self.name, self.location, opened.storage)
        target = format_named(self.format).open_target(self.location, committer, options, opened.storage, opened.table)
        return target.require_same_table(opened.table) if same else target

    def changes(
        self,
        start: int | str | datetime | None = None,
        end: int | str | datetime | None = None,
        *,
        identity: str | Sequence[str] = (),
        where: str | None = None,
        **options: Unpack[ReadKeywords],
    ) -> Changes:
        """The rows that were inserted, deleted and updated between two states.

        Iceberg's changes are computed from added and removed files and deletes of every kind; rows that a commit only
        moved are left out. Delta's are those that the table recorded (`delta.enableChangeDataFeed`).

        Args:
            start: Changes after this state: a snapshot id or version, a time, or the name of a tag (Iceberg). From the
                beginning by default.
            end: Changes up to this state; the current one by default.
            identity: Columns that identify a row (Iceberg). A deleted and an inserted row with the same values are then
                an update.
            where: Only changes of rows that match.
            options: Read options, other than those that select a state or a range.

        Returns:
            The changes, to read or to hand to Spark.

        Raises:
            InvalidOption: An option such as `startingVersion`, beside `start` and `end`.
            NoSuchSnapshot: A state does not exist, or has expired.
            UnsupportedFeature: `identity` for a Delta table.

        Example:
            >>> orders.changes(start=3, identity=["id"]).to_pandas()
        """
        from lakescan.api.changes import Changes

        check_no_range("Table.changes reads the changes after start=, up to end=", options)
        spec = self._filter_scan(where, options)
        after, upto = as_end_of_changes(start), as_end_of_changes(end)
        return Changes(spec.at(spec.table.changes_between(after, upto, identity)), identity)

    def stream(
        self,
        *,
        start: Mapping[str, Any] | None = None,
        wait: bool = True,
        where: str | None = None,
        **options: Unpack[ReadKeywords],
    ) -> BatchStream:
        """Stream the table's rows, and then those of each new commit, as record batches.

        Args:
            start: Where to resume: `BatchStream.offset` of an earlier stream. By default where the stream options say
                (`startingVersion`, `starting-strategy`, ...), else the beginning.
            wait: Wait for new commits until the stream is closed. Without, it ends with the current state.
            where: Only rows that match.
            options: Stream options; the page Options of the documents lists them.

        Returns:
            An iterator of record batches.

        Raises:
            RowsChanged: A commit removed or rewrote rows, and `on-change` does not say what to do.
            SchemaChanged: A commit has another schema. Both are raised once all commits before it are read.

        Example:
            >>> for batch in orders.stream(wait=False):
            ...     print(batch.num_rows)
        """
        from lakescan.api.stream import BatchStream, TableStream

        return BatchStream(TableStream(self._filter_scan(where, options)), start, wait=wait)

    def _write_options(self, options: Mapping[str, object]) -> WriteOptions:
        """Parse the options of a write to this table; raises `InvalidOption`."""
        checked = WriteOptions.parse(options, self.format)
        checked.check_opened()
        return checked

    def _filter_scan(self, where: str | None, options: Mapping[str, object]) -> ScanSpec:
        spec = self._spec.with_options(options)
        return spec if where is None else spec.where(where)
