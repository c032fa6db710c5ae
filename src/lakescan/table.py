"""Tables: what users read, write and maintain."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lakescan.catalogs.identifiers import Identifier, location_of
from lakescan.changes import Changes
from lakescan.common.timestamps import as_moment
from lakescan.delta.table import DeltaTable
from lakescan.errors import CommitConflict, InvalidOption, UnsupportedFeature
from lakescan.executors import PlanningExecutor
from lakescan.expressions.predicate import Predicate
from lakescan.formats.metadata_table import as_table
from lakescan.formats.table_format import AppendRange, ChangeRange, Snapshot, SnapshotSelector
from lakescan.maintenance import compact, remove_orphans
from lakescan.options.write import WriteOptions
from lakescan.scan import Scan
from lakescan.scan_spec import ScanSpec
from lakescan.streaming.stream import Follower, TableStream
from lakescan.transaction.base import Saved
from lakescan.transaction.delta import DeltaTarget
from lakescan.transaction.iceberg import IcebergTarget
from lakescan.transaction.into import append_rows, overwrite_rows
from lakescan.transaction.rows import rows_of

if TYPE_CHECKING:
    import pandas
    import polars

_LOG = logging.getLogger("lakescan")
_SKEW = timedelta(minutes=5)  # that clocks may disagree by
_Result = TypeVar("_Result")


class Table:
    """An open Iceberg or Delta table, in the state that it had when it was opened or last refreshed.

    Tables are opened by `lakescan.table`, and made by `Catalog.create_table` and `lakescan.save`. Scans keep the state
    that the table had when they were made. A table that writes sees what it wrote.

    Example:
        >>> orders = lakescan.table("/lake/orders")
        >>> orders.to_pandas()
    """

    def __init__(self, spec: ScanSpec, name: Identifier | None = None) -> None:
        self._spec, self._name = spec, name

    def __repr__(self) -> str:
        return f"Table({self.format} {str(self.name or self.location)!r})"

    @property
    def name(self) -> Identifier | None:
        """The table's name in a catalog; None for a table that was opened by its location."""
        return self._name

    @property
    def location(self) -> str:
        """The folder or metadata file that the table was opened by, or its name in a catalog (Iceberg)."""
        return self._spec.location

    @property
    def format(self) -> str:
        """'iceberg' or 'delta'."""
        return self._spec.table.name

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
        self._spec = replace(self._spec, table=self._spec.table.reopened())
        return self

    @property
    def partitioning(self) -> str:
        """How new files are partitioned, such as 'day(ts), bucket(16, id)'; or 'unpartitioned'."""
        return self._spec.table.partitioning

    @property
    def sort_order(self) -> str:
        """How new files are sorted, such as 'id asc nulls first' (Iceberg); or 'unsorted'."""
        return self._spec.table.sort_order

    def history(self) -> pa.Table:
        """The table's commits, oldest first: snapshots for Iceberg, versions for Delta."""
        return self._spec.table.history()

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
        """A metadata table, such as 'snapshots' or 'files', with the columns that the format's own reader gives it.

        The state is the current one, or what `version`, `timestamp`, `branch` or `tag` selects (see `Scan.as_of`).
        Raises `InvalidOption` for an unknown name, and `NoSuchSnapshot`.
        """
        spec = self._spec
        if any(v is not None for v in (version, timestamp, branch, tag)):
            spec = spec.as_of(version=version, timestamp=timestamp, branch=branch, tag=tag)
        return as_table(spec.metadata_table(name))

    def scan(self) -> Scan:
        """A scan of all rows and columns, with the options the table was opened with."""
        return Scan(self._spec)

    def count(self) -> int:
        """The number of rows; see `Scan.count`."""
        return self.scan().count()

    def head(self, rows: int = 10) -> pa.Table:
        """Some rows as an Arrow table.

        Args:
            rows: How many.

        Example:
            >>> orders.head(5).to_pandas()
        """
        return self.scan().limit(rows).to_arrow()

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table; see `Scan.to_arrow`."""
        return self.scan().to_arrow()

    def to_pandas(self, **arguments: Any) -> pandas.DataFrame:
        """All rows as a pandas data frame; see `Scan.to_pandas`."""
        return self.scan().to_pandas(**arguments)

    def to_polars(self) -> polars.DataFrame:
        """All rows as a Polars data frame; see `Scan.to_polars`."""
        return self.scan().to_polars()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """All rows as an Arrow stream, by the PyCapsule protocol: `pl.DataFrame(table)`, `pa.table(table)`."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def append(self, rows: Any, **options: Any) -> Saved:
        """Add rows in one commit, whatever other writers commit meanwhile.

        `rows` are Arrow (a table, a batch, a reader), pandas, Polars, DuckDB or a Spark data frame, whose workers then
        write. Columns go by name; types are widened where nothing is lost. `options` are those of writes: see the
        README. Raises `SchemaMismatch` before anything is committed, `CommitConflict`, and `UnsupportedFeature` for
        what the table would ask of its writers.
        """
        said = WriteOptions.of(options, self.format)
        return self._written(append_rows(self._target(said), rows_of(rows), said))

    def overwrite(self, rows: Any, *, where: str | Predicate | None = None, **options: Any) -> Saved:
        """Put rows in the place of all others, or of those of a filter, in one commit; see `append`.

        With `where`, all new rows have to be of it, and files that it cuts are written anew without its rows, by
        threads, or for a Spark data frame by its workers. With `overwrite_mode="dynamic"`, the partitions that the rows
        are of are replaced. Raises `CommitConflict` where another writer changed what is replaced.
        """
        said = WriteOptions.of(options, self.format)
        return self._written(overwrite_rows(self._target(said), rows_of(rows), said, where))

    def compact(self, *, where: str | None = None, executor: PlanningExecutor | None = None, **options: Any) -> Saved:
        """Write small files of each partition anew as larger ones, and all files with deletes without them.

        `where` says which files, by rows that they may have. Each partition is written by itself, by threads, or where
        an executor runs it: `compact(executor=lakescan.spark.SparkExecutor(spark))`. Streams pass the commit over.
        Files of Delta tables that have deletion vectors stay as they are. `target_file_size_bytes` and
        `compression_codec` are options. Raises `CommitConflict`.
        """
        return self._written(compact(self._target(WriteOptions.of(options, self.format)), where, executor))

    def expire_snapshots(
        self,
        older_than: datetime | date | str | None = None,
        *,
        retain_last: int | None = None,
        dry_run: bool = False,
    ) -> int:
        """Forget Iceberg snapshots from before a time, but those that branches and tags keep; how many there were.

        A branch keeps its newest `retain_last` snapshots, and those that are not older; its own retention comes first.
        Without arguments, the table's says both (`history.expire.max-snapshot-age-ms`, five days by default, and
        `history.expire.min-snapshots-to-keep`, one). Branches and tags beside `main` go where they are older than their
        `max-ref-age-ms`, or `history.expire.max-ref-age-ms`. Times without an offset are UTC. With `dry_run`, nothing
        is done. `remove_orphans` removes the files that only these snapshots had.

        Raises `UnsupportedFeature` for a table whose `gc.enabled` is false, and for Delta, which forgets by itself, as
        `delta.logRetentionDuration` has it; `CommitConflict` where other writers are always faster.

        Example:
            >>> table.expire_snapshots("2026-01-31", retain_last=10)
            12
        """
        target = self._target(WriteOptions())
        if not isinstance(target, IcebergTarget):
            raise UnsupportedFeature(
                "snapshots of a Delta table to expire", "Its log is cleaned up as it is written to."
            )
        if retain_last is not None and retain_last < 1:
            raise InvalidOption(f"retain_last={retain_last}: at least one snapshot stays")
        moment = None if older_than is None else as_moment(older_than)
        if moment is not None and moment > datetime.now(UTC) + _SKEW:
            _LOG.warning("expire_snapshots: %s is in the future: all but what branches and tags keep expires", moment)
        return self._written(target.expire(moment, retain_last, dry_run=dry_run))

    def remove_orphans(
        self,
        older_than: datetime | date | str | None = None,
        *,
        dry_run: bool = False,
        location: str | os.PathLike[str] | None = None,
    ) -> list[str]:
        """Remove files of the table's folders that nothing names, from before a time; their locations.

        That is three days ago by default, for Delta `delta.deletedFileRetentionDuration` (a week), by the store's
        clock; times without an offset are UTC. For Iceberg these are files that no snapshot that is kept names,
        whatever it is of, under any spelling of their locations; for Delta those that the newest version does not name,
        nor any that was current since then. With `dry_run` they stay.

        Looked through are the table's folders, but none that its properties put elsewhere (`write.data.path`), as other
        tables may be there; `location` says another folder. Hidden files, and tables within these folders, stay.

        Raises `InvalidOption` for a time that is less than 24 hours ago, or within Delta's retention: files that are
        being written or read now would go. Raises `UnsupportedFeature` for a table whose `gc.enabled` is false, and
        where files are named under another scheme or host only: then nothing is removed.

        Example:
            >>> table.remove_orphans(dry_run=True)
            ['file:///lake/db/events/data/00000-left-behind.parquet']
        """
        moment = None if older_than is None else as_moment(older_than)
        folder = None if location is None else location_of(location)
        return remove_orphans(self._target(WriteOptions(), same=False), moment, dry_run=dry_run, location=folder)

    def checkpoint(self) -> None:
        """Write a checkpoint of a Delta table's newest version; Iceberg has none: `UnsupportedFeature`."""
        target = self._target(WriteOptions())
        if not isinstance(target, DeltaTarget):
            raise UnsupportedFeature("checkpoints of Iceberg tables", "Their metadata is whole at each commit.")
        target.checkpoint()

    def _written(self, result: _Result) -> _Result:
        """The result of a commit, which this table now sees."""
        self.refresh()
        return result

    def _target(self, options: WriteOptions, *, same: bool = True) -> IcebergTarget | DeltaTarget:
        """The table as it is now, to write to; it has to be the `same` one that this is."""
        if isinstance(self._spec.table, DeltaTable):
            delta = DeltaTarget.open(self.location, options, self._spec.storage)
            return delta.following(self._spec.table) if same else delta
        if self.name is None:
            raise UnsupportedFeature(
                "writing to an Iceberg table by its location",
                "Commits go through a catalog: give the table a name there, with Catalog.register_table.",
            )
        iceberg = IcebergTarget.open(self.name, options, self._spec.storage)
        if same and self._spec.table.identity not in (None, iceberg.identity):
            raise CommitConflict(f"{self.name} was dropped, and made again, since it was opened: open it again")
        return iceberg

    def changes(
        self,
        start: int | str | datetime | None = None,
        end: int | str | datetime | None = None,
        *,
        identity: Sequence[str] = (),
        where: str | None = None,
        **options: Any,
    ) -> Changes:
        """What became of rows from one state of the table to another: inserted, deleted, updated ones.

        States are snapshot ids or versions, times, or names of tags (Iceberg); without a start, the beginning, without
        an end, now. Iceberg's changes are worked out over files and deletes of every kind, without rows that a commit
        only moved; with `identity` (columns), a deleted and an inserted row of one identity are an update. Delta's are
        those that the table recorded (`delta.enableChangeDataFeed`). Raises `NoSuchSnapshot`.
        """
        spec = self._refined(where, options)
        ends = [as_moment(end) if isinstance(end, datetime) else end for end in (start, end)]
        if self.format == "iceberg":
            appends = AppendRange(ends[0], ends[1], changes=True)
            return Changes(spec.at(SnapshotSelector(appends=appends)), identity)
        if identity:
            raise UnsupportedFeature("identity columns for Delta's changes", "Its feed records updates as such.")
        return Changes(spec.at(SnapshotSelector(changes=_recorded(*ends))))

    def follow(
        self, *, start: Mapping[str, Any] | None = None, wait: bool = True, where: str | None = None, **options: Any
    ) -> Follower:
        """The rows that the table has and then gains, as record batches; waits for new commits until it is closed.

        It begins where the options of streams say (`startingVersion`, `starting-strategy`, ...), or at the offset of
        an earlier one (`Follower.offset`). Without `wait` it ends with what is there now. `where` is a filter. Raises
        `RowsChanged` and `SchemaChanged` where a commit cannot be read so, once all before it is read.
        """
        return Follower(TableStream(self._refined(where, options)), start, wait=wait)

    def _refined(self, where: str | None, options: dict[str, Any]) -> ScanSpec:
        spec = self._spec.with_options(options)
        return spec if where is None else spec.where(where)


def _recorded(start: int | str | datetime | None, end: int | str | datetime | None) -> ChangeRange:
    """The versions after a state of a Delta table, up to another."""
    for name in (start, end):
        if isinstance(name, str):
            raise InvalidOption(f"{name!r} is no state of a Delta table: give a version or a time")
    after = start + timedelta(milliseconds=1) if isinstance(start, datetime) else None
    return ChangeRange(
        start_version=start + 1 if isinstance(start, int) else None if after else 0,
        start_timestamp=after,
        end_version=end if isinstance(end, int) else None,
        end_timestamp=end if isinstance(end, datetime) else None,
    )
