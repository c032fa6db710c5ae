"""`Table`: read, write and maintain an open table.

Modules that write, change or maintain tables are imported inside methods, so that reading does not import them.
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

_LOG = logging.getLogger("lakescan.commits")
_Result = TypeVar("_Result")


class Table(TableRefs, TableMaintenance, TableMetadataFiles):
    """An open Iceberg or Delta table.

    `lakescan.table` opens tables; `Catalog.create_table` and `lakescan.save` create them. A table object keeps the
    snapshot or version that was current when it was opened or last refreshed, and a scan keeps that of its table. After
    a write through the object, it reads the newest snapshot or version.

    Example:
        >>> orders = lakescan.table("/lake/orders")
        >>> orders.to_pandas()
    """

    def __init__(self, spec: ScanSpec, name: Identifier | None = None) -> None:
        self._opened, self._name = spec, name
        self._has_written = False  # since the table was opened or reopened
        self._written_to: str | None = None  # the identity (UUID) of the table that was written to

    def __repr__(self) -> str:
        return f"Table({self.format} {str(self.name or self.location)!r})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the format, location, version and columns of the table."""
        return table_as_html(str(self.name or self.location), self.format, self._spec)

    @property
    def _spec(self) -> ScanSpec:
        """A scan of all rows. The table is reopened first if this object has written to it.

        Then, raises `CommitConflict` if another table has replaced it in the meantime.
        """
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
        """The folder or metadata file that was given to open the table, or its name in a catalog (Iceberg)."""
        return self._opened.location

    @property
    def folder(self) -> str:
        """The folder of the table's files."""
        return self._spec.table.location

    @property
    def comment(self) -> str | None:
        """The table's description; None without one."""
        return self._spec.table.comment

    @property
    def format_version(self) -> str:
        """The format version of an Iceberg table ('2'), or the reader and writer version of a Delta table ('3,7')."""
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
        """The table properties (Iceberg) or table configuration (Delta)."""
        return self._current.properties

    @property
    def version(self) -> int | None:
        """The version (Delta), or the id of the current snapshot (Iceberg; None without snapshots)."""
        return self._current.id

    @property
    def snapshot_id(self) -> int | None:
        """The same as `version`, under the name that Iceberg uses."""
        return self.version

    def refresh(self) -> Table:
        """Load the newest snapshot or version of the table, and return this table object.

        Existing scans keep their snapshot. A table that was opened by a metadata file is not refreshed.

        Raises:
            NoSuchTable, NotATable: The table no longer exists.

        Example:
            >>> orders.refresh().version
            12
        """
        self._opened = replace(self._opened, table=self._opened.table.reopen())
        self._has_written = False
        return self

    @property
    def partitioning(self) -> str:
        """The partitioning of new files, such as 'day(ts), bucket(16, id)'; 'unpartitioned' without one."""
        return self._spec.table.partitioning

    @property
    def sort_order(self) -> str:
        """The sort order of new files (Iceberg), such as 'id asc nulls first'; 'unsorted' without one."""
        return self._spec.table.sort_order

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns that identify a row, Iceberg's identifier fields; empty if the table has none.

        They are not enforced: append, INSERT and overwrite can write a second row with the same key, unless the table
        property `write.upsert.enabled` is true. `upsert` and MERGE replace rows by key.

        Example:
            >>> orders.primary_key
            ('order_id',)
        """
        return self._spec.snapshot.schema.identifier_names

    def history(self) -> pa.Table:
        """Return the table's commits, oldest first.

        Returns:
            For Iceberg, the snapshot log: the columns of the metadata table `history`, and each snapshot's operation
            and summary. For Delta, the columns of `DESCRIBE HISTORY`, for the commits that are still in the log.

        Example:
            >>> orders.history().to_pandas().tail()
        """
        return register_display(self._spec.table.history())

    @property
    def metadata_tables(self) -> tuple[str, ...]:
        """The names of the metadata tables that `inspect` accepts."""
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
        """Return a metadata table, with the columns that Iceberg's or Delta's own reader returns.

        Args:
            name: One of `metadata_tables`, such as 'snapshots' or 'files'.
            version: A version (Delta) or snapshot id (Iceberg). By default the current one.
            timestamp: Inspect the snapshot or version that was current at this time (UTC unless it has an offset).
            branch: Inspect the newest snapshot of a branch (Iceberg).
            tag: Inspect the snapshot of a tag (Iceberg).

        Returns:
            The rows of the metadata table.

        Raises:
            InvalidOption: The metadata table is unknown, or several snapshots are selected.
            NoSuchSnapshot: The snapshot or version does not exist.

        Example:
            >>> orders.inspect("files", timestamp="2026-01-31").to_pandas()
        """
        spec = self._spec
        if any(v is not None for v in (version, timestamp, branch, tag)):
            spec = spec.as_of(version=version, timestamp=timestamp, branch=branch, tag=tag)
        return register_display(as_table(spec.metadata_table(name)))

    def scan(self) -> Scan:
        """Return a scan of all rows and columns, with the options that the table was opened with.

        Example:
            >>> orders.scan().where("price > 5").select("id").to_arrow()
        """
        return Scan(self._spec)

    def count(self) -> int:
        """Return the number of rows; see `Scan.count`.

        Example:
            >>> orders.count()
            1200
        """
        return self.scan().count()

    def head(self, rows: int = 10) -> pa.Table:
        """Return some rows as an Arrow table, in no defined order.

        Args:
            rows: The maximum number of rows.

        Example:
            >>> orders.head(5).to_pandas()
        """
        return self.scan().limit(rows).to_arrow()

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table; see `Scan.to_arrow`."""
        return self.scan().to_arrow()

    def to_pandas(
        self, dtype_backend: Literal["pyarrow", "numpy_nullable"] | None = None, **arguments: Any
    ) -> pandas.DataFrame:
        """Return all rows as a pandas data frame; see `Scan.to_pandas`."""
        return self.scan().to_pandas(dtype_backend, **arguments)

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> polars.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> polars.LazyFrame: ...

    def to_polars(self, *, lazy: bool = False) -> polars.DataFrame | polars.LazyFrame:
        """Return all rows as a Polars data frame or lazy frame; see `Scan.to_polars`."""
        return self.scan().to_polars(lazy=True) if lazy else self.scan().to_polars()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Stream all rows by the Arrow PyCapsule protocol: `pl.DataFrame(table)`, `pa.table(table)`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def append(self, rows: Any, **options: Unpack[WriteKeywords]) -> WriteResult:
        """Add rows in one commit.

        Data files are written by this process, or by Spark's workers for a Spark data frame. The commit is retried
        after concurrent commits.

        Args:
            rows: Arrow data (a table, a batch, a reader), pandas, Polars or DuckDB data, or a Spark data frame. Columns
                are matched by name. Values are converted to the table's types if no value changes.
            options: Write options, such as `merge_schema` or `target_file_size_bytes`. The page Options of the
                documentation lists them.

        Returns:
            The number of files, rows and bytes written.

        Raises:
            SchemaMismatch: Rows do not fit the table's columns. Nothing is committed.
            CommitConflict: A concurrent commit changed the table in a way that prevents this commit.
            CommitStateUnknown: The answer to the commit was lost, and the rows may or may not be in the table.
            UnsupportedFeature: The table requires a writer feature that lakescan does not support.

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
        """Replace rows in one commit: all rows, the rows that match a filter, or the partitions of the new rows.

        Args:
            rows: The new rows; see `append`.
            where: Replace only the rows that match this filter; by default all rows. Every new row must match it, too.
                Files with matching and other rows are rewritten without the matching rows, by threads, or by Spark's
                workers for a Spark data frame.
            options: Write options; see `append`. With `overwrite_mode="dynamic"`, the partitions of the new rows are
                replaced.

        Returns:
            The number of files, rows and bytes written, and of files removed.

        Raises:
            SchemaMismatch: Rows do not fit the table's columns, or do not match `where`. Nothing is committed.
            CommitConflict: Another writer changed rows that were to be replaced.
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

        Files whose rows all match are removed without being read. In other files, matching rows are marked by delete
        files or deletion vectors (merge-on-read), or the files are rewritten without them (copy-on-write). The option
        `row_change_mode`, else the table's properties, choose the mode.

        Args:
            where: An SQL condition, which may have subqueries, or a filter (`lakescan.col("price") > 5`). By default
                all rows.
            executor: The executor that rewrites files in copy-on-write, such as `lakescan.spark.SparkExecutor(spark)`.
                By default threads of this process.
            options: Write options; see `append`.

        Returns:
            The number of rows deleted, and of files written, removed and marked with deletes.

        Raises:
            InvalidStatement: The condition cannot be parsed, or is nondeterministic (`rand()`).
            CommitConflict: Another writer changed rows that the delete read.
            UnsupportedFeature: The table does not allow changes of rows (`delta.appendOnly`).
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
            set: Maps columns (or struct members, `address.city`) to SQL expressions of the new values, computed from
                the row's old values. `DEFAULT` is the column's default.
            where: An SQL condition, which may have subqueries, or a filter (`lakescan.col("price") > 5`). By default
                all rows.
            options: Write options, such as `row_change_mode`.

        Returns:
            The number of rows updated, and of files written, removed and marked with deletes.

        Raises:
            NoSuchColumn: The table has no such column.
            SchemaMismatch: A new value does not fit its column, or violates a constraint. Nothing is committed.
            QueryFailed: A value cannot be computed, such as after an overflow. Nothing is committed.
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
        """Merge rows into the table: update or delete rows that match, and insert the others.

        Args:
            source: Arrow, pandas, Polars or DuckDB data, another table or scan, or a Spark data frame, which Spark's
                workers merge.
            on: The SQL condition that matches rows of the source with rows of the table.
            source_alias: The name of the source in conditions and expressions.
            target_alias: The name of the table in conditions and expressions.
            options: Write options, such as `row_change_mode`.

        Returns:
            A builder with a method for each kind of clause. Its method `execute` commits the merge.

        Example:
            >>> (
            ...     orders.merge(changes, on="t.id = s.id")
            ...     .when_matched_update_all()
            ...     .when_not_matched_insert_all()
            ...     .execute()
            ... )
        """
        from lakescan.api.rows import session_settings_of
        from lakescan.statements.rows.table_methods import merge

        self._write_options(options)
        run = partial(self.changed_by, options, session=session_settings_of(source))
        return merge(run, source, on, source_alias, target_alias)

    def upsert(
        self, rows: Any, keys: str | Sequence[str] | None = None, **options: Unpack[WriteKeywords]
    ) -> ChangeResult:
        """Update the rows with the same keys as new rows, and insert the other new rows, in one commit.

        Args:
            rows: The new rows, with all columns of the table; see `merge`.
            keys: The columns that identify a row. By default the table's primary key (Iceberg's identifier fields).
            options: Write options, such as `row_change_mode`. With `upsert_mode="equality"` (Iceberg), the table is not
                read. Instead, equality deletes are written for the keys, and all rows count as inserted.

        Returns:
            The number of rows inserted and updated.

        Raises:
            InvalidOption: `keys` is not given, and the table has no primary key.
            AmbiguousMerge: Two of the new rows have the same keys. Nothing is committed.
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
        """Change rows by calling a function that gets a write target, such as one that runs an SQL statement.

        Args:
            options: Write options by name.
            change: A function that changes rows of the target in one commit, and returns the result.
            upserts: Whether the function upserts. Only then are options for upserts accepted.
            session: Settings of the session, by which rows are staged (write-audit-publish) unless the options set
                this.

        Returns:
            The result of the function.

        Raises:
            InvalidOption: An option does not apply to statements that change rows.
            CommitConflict: The table was replaced by another one of the same name.

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
        """Write to the table by calling a function that gets a write target.

        The target is the table as it is in storage now. This object is refreshed the next time that it is used.

        Args:
            options: Write options by name.
            write: A function that writes to the target in one commit, given the target and the parsed options.
            session: Settings of the session, by which rows are staged (write-audit-publish) unless the options set
                this.

        Returns:
            The result of the function.

        Raises:
            InvalidOption: An option is unknown, or has an invalid value.
            CommitConflict: The table was replaced by another one of the same name.

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

        Streams and change feeds skip the commit, because it changes no rows. Row ids are kept if the table tracks them.
        Deletes that apply only to rewritten files are removed in the same commit.

        Args:
            where: An SQL condition. Compact only files that may have matching rows.
            executor: The executor that rewrites files, such as `lakescan.spark.SparkExecutor(spark)`. By default
                threads of this process.
            options: Options of Iceberg's `rewrite_data_files` that select files and how to rewrite them
                (`delete_ratio_threshold`, `min_input_files`, `strategy`, `sort_order`, `zorder_by`, `purge`,
                `partial_progress_enabled`, ...), and write options such as `target_file_size_bytes` and
                `compression_codec`.

        Returns:
            The number of files and bytes before and after.

        Raises:
            InvalidOption: Options contradict each other, or the strategy `sort` has no order to sort by.
            CommitConflict: Another writer changed the files that were compacted. With partial progress, this is raised
                only if no commit succeeded; otherwise files that stayed are counted as `failed_files`.

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
        """Rewrite small position delete files of an Iceberg table as fewer ones, in one commit. No row changes.

        Deletes of data files that are no longer in the table are dropped. In format version 3, position delete files
        from before the upgrade become deletion vectors. The table property `write.delete.granularity` decides whether a
        new file has the deletes of about one data file (`file`, the default) or of a partition (`partition`). With
        `file`, rewriting only helps data files that have several position delete files.

        Args:
            where: An SQL condition. Rewrite only deletes of data files that may have matching rows.
            rewrite_all: Rewrite all position delete files, whatever their sizes.
            min_input_files: The least number of files of the wrong size in a partition that are worth rewriting.
            min_file_size_bytes: Rewrite files smaller than this. By default 75% of
                `write.delete.target-file-size-bytes`.
            max_file_size_bytes: Rewrite files larger than this. By default 180% of
                `write.delete.target-file-size-bytes`.
            options: Write options, such as `compression_codec`.

        Returns:
            The number of delete files and bytes before and after.

        Raises:
            UnsupportedFeature: The table is a Delta table, or of format version 1.
            CommitConflict: Another writer removed one of the files, or changed rows of a data file that gets a vector.

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
        """Collect changes of the table's columns, layout and properties, and commit them together.

        Returns:
            A builder with a method for each kind of change. Its method `commit` makes them.

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
        """Make an earlier snapshot (Iceberg) or version (Delta) the current one. Later ones stay in the history.

        Delta: a new commit has the rows, columns and properties of the version, as after `RESTORE TABLE`. The protocol
        is never downgraded, and change feeds and streams see the rows that return and disappear. Iceberg: the snapshot
        becomes the current one, as by `set_current_snapshot`, and columns and properties stay. Restoring the current
        snapshot or version commits nothing. Give either `version` or `timestamp`.

        Args:
            version: A version (Delta), or a snapshot id, branch or tag (Iceberg).
            timestamp: Restore the snapshot or version that was current at this time (UTC unless it has an offset).

        Returns:
            The number of files added back and removed (Delta).

        Raises:
            NoSuchSnapshot: The snapshot or version does not exist.
            InvalidOption: Neither or both arguments are given.
            MissingFile: Data files of the version no longer exist; the message names some. Nothing is changed.
            CommitConflict: Another writer changed rows, columns or properties at the same time. Nothing is changed.
            UnsupportedFeature: The table does not allow the removal of rows (`delta.appendOnly`).

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
        """Create a Delta table that references the files of this one, without copying them (Delta's SHALLOW CLONE).

        Afterwards, both tables change independently. The clone depends on files of this table: as long as it is used,
        do not delete them from storage (with `remove_orphans` on this table, after the retention).
        `Catalog.clone_table` also gives the clone a name.

        Args:
            location: The new table's folder, as a path or URI.
            version: The version to clone. By default the newest.
            timestamp: Clone the version that was current at this time (UTC unless it has an offset).
            properties: Table properties of the clone, added to those of this table or overriding them.
            replace: If the folder has a table without rows, replace it. Its history is kept.

        Returns:
            The number and size of the clone's files.

        Raises:
            CreatedConcurrently: The folder has a table, and `replace` is not given.
            CommitConflict: Another writer changed the table that was to be replaced.
            NoSuchSnapshot: The version does not exist.
            UnsupportedFeature: This is an Iceberg table (use branches and tags), or the table to replace has rows or
                another column mapping mode.

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
        """Expire old snapshots of an Iceberg table, except those that branches and tags keep.

        Files that only expired snapshots had are removed, as by Iceberg's own `expire_snapshots`. Branches and tags
        other than `main` are dropped according to their `max-ref-age-ms`, or the property
        `history.expire.max-ref-age-ms`.

        Args:
            older_than: Expire snapshots older than this time (UTC unless it has an offset). By default the age in the
                property `history.expire.max-snapshot-age-ms`, five days. A branch's own retention takes precedence.
            retain_last: Keep at least this many snapshots of each branch. By default the property
                `history.expire.min-snapshots-to-keep`, one. A branch's own retention takes precedence.
            dry_run: Change nothing; only report what would expire.
            clean_expired_files: Delete the data files, delete files, manifests, manifest lists and statistics that only
                expired snapshots had. The table is reopened first, so that files in use by then stay. Files outside the
                table's own folders (from `add_files`) stay, too. If this is interrupted, `remove_orphans` finds the
                remaining files. With False, no file is deleted.
            executor: The executor that reads manifests, and compares and deletes files, such as
                `lakescan.spark.SparkExecutor(spark)`. By default this process does so.

        Returns:
            The snapshots, branches and tags that expired or would expire, and the number of files deleted.
            `int(result)` is the number of snapshots.

        Raises:
            InvalidOption: `retain_last` is not a positive whole number.
            UnsupportedFeature: `gc.enabled` is not true, or the table is a Delta table, which cleans up its log by
                `delta.logRetentionDuration`.
            CommitConflict: Every attempt conflicted with a concurrent commit.

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
        in_history: bool = False,
    ) -> OrphanResult:
        """Delete files in the table's folders that the table does not reference.

        In Iceberg, these are files that no snapshot references, however their locations are written. In Delta, these
        are files that neither the newest version nor a version within the retention references. Hidden files, and other
        tables within these folders, are kept.

        Args:
            older_than: Delete only files older than this time, by the store's clock (UTC unless it has an offset). By
                default three days ago; for Delta the age in `delta.deletedFileRetentionDuration`, one week.
            dry_run: Delete nothing; only list the files.
            location: Search this folder. By default the table's own folder is searched, but no folder elsewhere that
                properties such as `write.data.path` name, because other tables may use it. In a folder elsewhere, files
                that another Iceberg table of the catalog references are kept, if its location or properties lead to
                this folder. Files of tables outside the catalog cannot be recognized. A parent of the table's folder
                can only be searched with `dry_run`.
            lite: Use the removed files in the Delta log instead of listing the folder (VACUUM LITE). This misses files
                of failed writes, and files whose commits are no longer in the log.
            inventory: Use this table of files (Arrow, pandas, ...), such as a store's inventory, instead of listing the
                folder. Its columns are those of Delta's VACUUM USING INVENTORY: `path`, `length` (bytes), `isDir`, and
                `modificationTime` (milliseconds since 1970). Other files are kept.
            ignore_retention: A reason to delete files within the retention, such as the number of a request to erase
                personal data. The reason is logged. No other writer or reader may use the table meanwhile: files of
                running writes would be deleted, and reads of earlier versions would fail.
            executor: The executor that lists folders, compares files with the metadata and deletes them, such as
                `lakescan.spark.SparkExecutor(spark)`. With one, no process holds the names of all files. By default
                this process does so.
            in_history: Record the start and the end in the history of a Delta table, as the statement VACUUM does.
                Delta does so in all stores but S3.

        Returns:
            A sequence of the locations of the deleted files (or those that would be), with their total size in bytes.

        Raises:
            InvalidOption: `older_than` is less than 24 hours ago, or within Delta's retention. Files that are being
                written or read could be deleted. `ignore_retention` allows this.
            UnsupportedFeature: `gc.enabled` is not true, or the table references files only under another scheme or
                host. Nothing is deleted.

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
            in_history=in_history,
        )

    def convert_equality_deletes(self, *, executor: PlanningExecutor | None = None) -> ConvertResult:
        """Replace the equality deletes of an Iceberg table by deletion vectors (format version 3) or position deletes.

        Flink, and upserts with `upsert_mode="equality"`, write equality deletes. Until they are converted, each reader
        must compare the keys of all older rows with them. Streams and change feeds skip the commit, because it changes
        no rows.

        Args:
            executor: The executor that reads keys, such as `lakescan.spark.SparkExecutor(spark)`. By default threads of
                this process.

        Returns:
            The number of equality delete files replaced, and of the rows that they delete.

        Raises:
            UnsupportedFeature: The table is a Delta table, or of format version 1; these have no equality deletes.
            CommitConflict: Another writer rewrote the data files, or deleted rows in them (format version 3).

        Example:
            >>> print(orders.convert_equality_deletes())
            12 files of equality deletes replaced: 340 rows of 5 files are deleted by position
        """
        from lakescan.maintenance import convert_equality_deletes

        target = self._target(WriteOptions())
        return self._finish_write(target, convert_equality_deletes(target, executor))

    def rewrite_manifests(self) -> ManifestsResult:
        """Rewrite the manifests of an Iceberg table as fewer, larger ones, clustered by partition.

        Plans of queries that filter by partition then read fewer manifests. Appends also merge manifests
        (`commit.manifest-merge.enabled`), but in commit order. Streams skip the commit, because it changes no rows.

        Returns:
            The number of manifests before and after.

        Raises:
            UnsupportedFeature: The table is a Delta table.
            CommitConflict: Every attempt conflicted with a concurrent commit.

        Example:
            >>> print(orders.rewrite_manifests())
            120 manifests rewritten as 3
        """
        target = self._target(WriteOptions())
        return self._finish_write(target, require(target, ManifestRewrites).rewrite_manifests())

    def checkpoint(self, *, log_retention: timedelta | None = None) -> CheckpointResult:
        """Write a checkpoint of the newest version of a Delta table.

        Args:
            log_retention: Also delete log files of commits before the checkpoint that are older than this, whatever
                `delta.logRetentionDuration` is. `timedelta(0)` deletes all of them. Earlier versions cannot be read
                afterwards. By default, no log file is deleted here; ordinary commits clean up the log by the table's
                properties.

        Returns:
            The version of the checkpoint.

        Raises:
            UnsupportedFeature: The table is an Iceberg table, which has no checkpoints.

        Example:
            >>> print(customers.checkpoint())
            wrote a checkpoint of version 12
        """
        return require(self._target(WriteOptions()), Checkpoints).checkpoint(log_retention)

    def generate(self, mode: str = "symlink_format_manifest") -> GenerateResult:
        """Write symlink manifests of a Delta table's newest version, by which Presto, Athena and Hive read the table.

        They are written to the folder `_symlink_format_manifest`, one for each partition. Later commits do not update
        them: call this method again after each commit. Manifests of partitions that no longer exist are deleted.

        Args:
            mode: Only 'symlink_format_manifest' is supported, as in Delta's GENERATE.

        Returns:
            The number of manifests, and of the data files that they list.

        Raises:
            InvalidOption: `mode` is unknown.
            UnsupportedFeature: The table is an Iceberg table, or has renamed columns or deletion vectors, which these
                readers do not support. `compact(purge=True)` removes deletion vectors.

        Example:
            >>> print(events.generate())
            12 manifests of 40 files
        """
        return require(self._target(WriteOptions()), ManifestGeneration, mode).generate(mode)

    def detail(self) -> pa.Table:
        """Return the table's format, location, size and other details as one row.

        Returns:
            For Delta, the columns of `DESCRIBE DETAIL`. For Iceberg, those of them that apply. `numFiles` and
            `sizeInBytes` (bytes) are then taken from the current snapshot's summary, and null if not recorded there.

        Example:
            >>> orders.detail().to_pylist()[0]["numFiles"]
            40
        """
        from lakescan.maintenance.describe_detail import iceberg_detail

        if "detail" in self.metadata_tables:
            found = self.inspect("detail")
            if self.name is None:
                return found
            names = pa.array([str(self.name)] * found.num_rows, pa.string())
            return found.set_column(found.schema.get_field_index("name"), "name", names)
        return iceberg_detail(self._spec, None if self.name is None else str(self.name))

    def _finish_write(self, target: Target, result: _Result) -> _Result:
        """Return the result of a commit, and mark this object to be reopened when it is next used.

        It is not reopened here, so that a failure to read the table does not look like a failed write.
        """
        self._has_written, self._written_to = True, target.identity
        _LOG.debug("%s: %s", self.name or redact(self.location), result)
        return result

    def _target(self, options: WriteOptions, *, same: bool = True) -> Target:
        """Open the current table for a write, with these write options.

        With `same`, raises `CommitConflict` if another table has replaced the one that this object opened.
        """
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
        net: bool = False,
        where: str | None = None,
        **options: Unpack[ReadKeywords],
    ) -> Changes:
        """Return the rows that were inserted, deleted and updated between two snapshots or versions.

        For Iceberg, changes are computed from added and removed files and all kinds of deletes; rows that a commit only
        moved are left out. For Delta, the table must have recorded a change data feed (`delta.enableChangeDataFeed`).

        Args:
            start: Return changes after this one: a snapshot id or version, a time (UTC unless it has an offset), or a
                tag (Iceberg). By default changes from the beginning.
            end: Return changes up to and including this one, given like `start`. By default the current one.
            identity: Columns that identify a row (Iceberg). A deleted and an inserted row with the same values in these
                columns are returned as an update.
            net: Return net changes over all commits (Iceberg): a row that one commit inserted and a later one deleted
                is left out. In process, all changed rows are in memory at once.
            where: An SQL condition. Return only changes of rows that match it.
            options: Read options, except those that select a snapshot, version or range.

        Returns:
            The changes; nothing is read yet.

        Raises:
            InvalidOption: An option such as `startingVersion` is given instead of `start` and `end`, or both `identity`
                and `net`.
            NoSuchSnapshot: A snapshot or version does not exist, or has expired.
            UnsupportedFeature: `identity` or `net` is given for a Delta table.

        Example:
            >>> orders.changes(start=3, identity=["id"]).to_pandas()
        """
        from lakescan.api.changes import Changes

        check_no_range("Table.changes reads the changes after start=, up to end=", options)
        spec = self._filter_scan(where, options)
        after, upto = as_end_of_changes(start), as_end_of_changes(end)
        return Changes(spec.at(spec.table.changes_between(after, upto, identity)), identity, net)

    def stream(
        self,
        *,
        start: Mapping[str, Any] | None = None,
        wait: bool = True,
        where: str | None = None,
        **options: Unpack[ReadKeywords],
    ) -> BatchStream:
        """Stream the table's existing rows, and then those of each new commit, as record batches.

        Args:
            start: Resume at this position: `BatchStream.offset` of an earlier stream. By default the stream options
                decide (`startingVersion`, `starting-strategy`, ...), else the stream begins with the existing rows.
            wait: Wait for new commits until the stream is closed. With False, the stream ends at the current snapshot
                or version.
            where: An SQL condition. Return only rows that match it.
            options: Stream options. The page Options of the documentation lists them.

        Returns:
            An iterator of record batches.

        Raises:
            RowsChanged: A commit removed or rewrote rows, and the option `on-change` does not handle that. It is raised
                by the iterator, after the rows of all earlier commits.
            SchemaChanged: A commit changed the schema. It is raised like `RowsChanged`.

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
