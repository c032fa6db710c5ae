"""Tables: opened by path, format detected."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from lakescan.catalogs.identifiers import Identifier, location_of, parts_of
from lakescan.catalogs.lookup import InCatalog, find, identifier_of
from lakescan.changes import Changes
from lakescan.common.schema import dotted_path
from lakescan.common.timestamps import as_moment
from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.delta.path import DeltaPath, resolve_path
from lakescan.delta.table import DeltaTable
from lakescan.encryption import KeyManager, named_key_manager
from lakescan.errors import CommitConflict, InvalidOption, NotATable, TableExists, UnsupportedFeature, nearest
from lakescan.executors import PlanningExecutor
from lakescan.expressions.predicate import TRUE, Comparison, IsNull, Predicate, conjunction
from lakescan.formats.metadata_table import as_table
from lakescan.formats.table_format import AppendRange, ChangeRange, SnapshotSelector, TableFormat
from lakescan.iceberg.metadata.locate import is_metadata_file
from lakescan.iceberg.table import IcebergTable
from lakescan.maintenance import compact, remove_orphans
from lakescan.options.read import Options
from lakescan.options.write import WriteOptions
from lakescan.scan import Scan
from lakescan.storage.storage import Storage, join
from lakescan.streaming.stream import Follower, TableStream
from lakescan.time_travel import check_one_state
from lakescan.transaction.base import Saved
from lakescan.transaction.delta import DeltaTarget
from lakescan.transaction.iceberg import IcebergTarget
from lakescan.transaction.into import append_rows, overwrite_rows
from lakescan.transaction.open import exists, open_target
from lakescan.transaction.rows import rows_of

FORMATS = ("iceberg", "delta")
_LOG = logging.getLogger("lakescan")
_SKEW = timedelta(minutes=5)  # that clocks may disagree by
_SAVE_MODES = ("error", "append", "overwrite", "ignore")
_METADATA_NAME = re.compile(r"(.+)#([a-z_]+)", re.DOTALL)


@dataclass(frozen=True, repr=False)
class Table:
    """A table in the state it had when it was opened; open it again to see later commits."""

    _format: TableFormat
    _storage: Storage
    location: str
    _options: Options = field(default_factory=Options)
    _predicate: Predicate = TRUE
    _selector: SnapshotSelector | None = None
    name: Identifier | None = None

    def __repr__(self) -> str:
        return f"Table({self.format} {str(self.name or self.location)!r})"

    @property
    def format(self) -> str:
        """'iceberg' or 'delta'."""
        return self._format.name

    @property
    def schema(self) -> pa.Schema:
        """The current columns as an Arrow schema; field ids are in the fields' metadata (`PARQUET:field_id`)."""
        return self._format.snapshot(SnapshotSelector()).schema.arrow()

    @property
    def properties(self) -> Mapping[str, str]:
        """Table properties (Iceberg) or configuration (Delta)."""
        return self._format.snapshot(SnapshotSelector()).properties

    @property
    def partitioning(self) -> str:
        """How new files are partitioned, such as 'day(ts), bucket(16, id)'; or 'unpartitioned'."""
        return self._format.partitioning

    @property
    def sort_order(self) -> str:
        """How new files are sorted, such as 'id asc nulls first' (Iceberg); or 'unsorted'."""
        return self._format.sort_order

    def history(self) -> pa.Table:
        """The table's commits, oldest first: snapshots for Iceberg, versions for Delta."""
        return self._format.history()

    @property
    def metadata_tables(self) -> tuple[str, ...]:
        """The names that `inspect` takes."""
        return self._format.metadata_tables

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
        scan = self.scan()
        if any(v is not None for v in (version, timestamp, branch, tag)):
            scan = scan.as_of(version=version, timestamp=timestamp, branch=branch, tag=tag)
        return as_table(scan.metadata_table(name))

    def scan(self) -> Scan:
        """A scan of all rows and columns, with the options the table was opened with."""
        return Scan(
            self._format, self._storage, self.location, self._options, self._predicate, _selector=self._selector
        )

    def append(self, rows: Any, **options: Any) -> Saved:
        """Add rows in one commit, whatever other writers commit meanwhile.

        `rows` are Arrow (a table, a batch, a reader), pandas, Polars, DuckDB or a Spark data frame, whose workers then
        write. Columns go by name; types are widened where nothing is lost. `options` are those of writes: see the
        README. Raises `SchemaMismatch` before anything is committed, `CommitConflict`, and `UnsupportedFeature` for
        what the table would ask of its writers. The table that this is called on stays as it was opened.
        """
        said = WriteOptions.of(options, self.format)
        return append_rows(self._target(said), rows_of(rows), said)

    def overwrite(self, rows: Any, *, where: str | Predicate | None = None, **options: Any) -> Saved:
        """Put rows in the place of all others, or of those of a filter, in one commit; see `append`.

        With `where`, all new rows have to be of it, and files that it cuts are written anew without its rows, by
        threads, or for a Spark data frame by its workers. With `overwrite_mode="dynamic"`, the partitions that the rows
        are of are replaced. Raises `CommitConflict` where another writer changed what is replaced.
        """
        said = WriteOptions.of(options, self.format)
        return overwrite_rows(self._target(said), rows_of(rows), said, where)

    def compact(self, *, where: str | None = None, executor: PlanningExecutor | None = None, **options: Any) -> Saved:
        """Write small files of each partition anew as larger ones, and all files with deletes without them.

        `where` says which files, by rows that they may have. Each partition is written by itself, by threads, or where
        an executor runs it: `compact(executor=lakescan.spark.SparkExecutor(spark))`. Streams pass the commit over.
        Files of Delta tables that have deletion vectors stay as they are. `target_file_size_bytes` and
        `compression_codec` are options. Raises `CommitConflict`.
        """
        return compact(self._target(WriteOptions.of(options, self.format)), where, executor)

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
        return target.expire(moment, retain_last, dry_run=dry_run)

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

    def _target(self, options: WriteOptions, *, same: bool = True) -> IcebergTarget | DeltaTarget:
        """The table as it is now, to write to; it has to be the `same` one that this is."""
        if isinstance(self._format, DeltaTable):
            delta = DeltaTarget.open(self.location, options, self._storage)
            return delta.following(self._format) if same else delta
        if self.name is None:
            raise UnsupportedFeature(
                "writing to an Iceberg table by its location",
                "Commits go through a catalog: give the table a name there, with Catalog.register_table.",
            )
        iceberg = IcebergTarget.open(self.name, options, self._storage)
        if same and self._format.identity not in (None, iceberg.identity):
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
        scan = self.scan().options(**options)
        scan = scan if where is None else scan.where(where)
        ends = [as_moment(end) if isinstance(end, datetime) else end for end in (start, end)]
        if self.format == "iceberg":
            appends = AppendRange(ends[0], ends[1], changes=True)
            return Changes(scan.selecting(SnapshotSelector(appends=appends)), identity)
        if identity:
            raise UnsupportedFeature("identity columns for Delta's changes", "Its feed records updates as such.")
        return Changes(scan.selecting(SnapshotSelector(changes=_recorded(*ends))))

    def follow(
        self, *, start: Mapping[str, Any] | None = None, wait: bool = True, where: str | None = None, **options: Any
    ) -> Follower:
        """The rows that the table has and then gains, as record batches; waits for new commits until it is closed.

        It begins where the options of streams say (`startingVersion`, `starting-strategy`, ...), or at the offset of
        an earlier one (`Follower.offset`). Without `wait` it ends with what is there now. `where` is a filter. Raises
        `RowsChanged` and `SchemaChanged` where a commit cannot be read so, once all before it is read.
        """
        scan = self.scan().options(**options)
        return Follower(TableStream(scan if where is None else scan.where(where)), start, wait=wait)


def table(
    path: str | os.PathLike[str] | Identifier,
    *,
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    relocate: Mapping[str, str] | None = None,
    key_manager: KeyManager | str | None = None,
    **options: Any,
) -> Table:
    """Open an Iceberg or Delta table by its folder, or an Iceberg table by one metadata JSON.

    A Delta table's path may ask for a state (`/t@v3`, `/t@20260131120000000`) and for a partition
    (`/t/date=2026-01-31`), as Delta on Spark has it.

    `path` is a local path or a URI (`s3://`, `gs://`, `abfs://`, `hdfs://`). The format is detected unless `format`
    says 'iceberg' or 'delta'. `storage_options` are settings of the filesystem. `relocate` maps old location prefixes
    to new ones, for a table whose files were moved or copied: the absolute paths inside it do not change.
    `key_manager` has the keys of encrypted files: an object, or its name as `package.module:attribute`. `options`
    are the ecosystem's read options (`versionAsOf`, `snapshot-id`, `split-size`, ...), for every scan of the table.

    `path` may be an identifier, too: the name of a catalog (see `lakescan.catalog`), namespace and table, as in
    `local.db.events`.

    Raises `NotATable`, `CorruptMetadata`, `UnsupportedFeature`, and `InvalidOption` for unknown options.
    """
    location = location_of(path)
    identifier = identifier_of(location)
    found = None if identifier is None else find(identifier)
    if isinstance(key_manager, str):
        options["key-manager"], key_manager = key_manager, None
    checked = Options(options)
    named = checked.get("key-manager")
    manager = named_key_manager(named) if named else key_manager
    io_properties = {} if found is None else found.io_properties
    storage = Storage(storage_options or {}, relocate or {}, manager, checked.get("cache-folder"), io_properties)
    if format is not None and format.lower() not in FORMATS:
        raise InvalidOption(f"format {format!r} is not known: it is 'iceberg' or 'delta'")
    if identifier is not None and found is not None:
        if format is not None and format.lower() != found.format:
            raise InvalidOption(f"{identifier} is of format {found.format}, not {format.lower()}")
        checked.check_format(found.format)
        if found.format == "iceberg":
            opened = IcebergTable.of(InCatalog(identifier), storage, found.location)
            return Table(opened, storage, location, checked, name=identifier)
        return Table(DeltaTable.open(found.location, storage), storage, found.location, checked, name=identifier)
    return _by_path(location, format, storage, checked)


def _by_path(location: str, format: str | None, storage: Storage, options: Options) -> Table:
    may_be_delta = (format or "delta").lower() == "delta" and not is_metadata_file(location)
    zone = options.get("time-zone", UTC)
    found = resolve_path(location, storage, zone) if may_be_delta else DeltaPath(location, is_table=False)
    name = (format or _detect(found, storage)).lower()
    options.check_format(name)
    if name == "iceberg":
        return Table(IcebergTable.open(location, storage), storage, location, options)
    if found.selector is not None:
        check_one_state(location, options)
    delta = DeltaTable.open(found.location, storage)
    return Table(delta, storage, found.location, options, _partition_filter(found, delta), found.selector)


def save(
    rows: Any,
    path: str | os.PathLike[str] | Identifier,
    *,
    mode: str = "error",
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Saved:
    """Save rows in a table by its identifier or, for Delta, its folder; it is made where it is not there.

    `mode` is 'error' (`TableExists` where it is there), 'append', 'overwrite' or 'ignore' (nothing is done where it is
    there). `rows` and options are those of `Table.append`; `partition_by` says how a new table is partitioned.
    """
    location, storage = location_of(path), dict(storage_options or {})
    if mode not in _SAVE_MODES:
        raise InvalidOption(f"mode {mode!r} is not known.{nearest(mode, _SAVE_MODES)} Valid: {', '.join(_SAVE_MODES)}")
    if mode in ("error", "ignore") and exists(location, storage):
        if mode == "ignore":
            return Saved(0, 0, 0)
        raise TableExists(f"{location} exists already: mode='append' adds to it, mode='overwrite' replaces its rows")
    given = rows_of(rows)
    target, said = open_target(location, format, options, storage, given.schema)
    return overwrite_rows(target, given, said, None) if mode == "overwrite" else append_rows(target, given, said)


def _partition_filter(path: DeltaPath, opened: DeltaTable) -> Predicate:
    """The rows of the partitions that a path names; raises `InvalidOption` for other columns."""
    if wrong := [name for name, _ in path.partitions if name not in opened.partition_columns]:
        known = ", ".join(opened.partition_columns) or "none"
        raise InvalidOption(
            f"the path names {wrong[0]!r}, which is not a partition column of {path.location}: these are: {known}"
        )
    return conjunction(
        [
            IsNull(name) if value is None else Comparison(name, op="=", value=value)
            for name, value in ((dotted_path([name]), value) for name, value in path.partitions)
        ]
    )


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


def split_metadata_name(path: str) -> tuple[str, str | None]:
    """A path such as `/lake/events#snapshots` as the table's path and the metadata table's name, if there is one."""
    found = _METADATA_NAME.fullmatch(path)
    return (path, None) if found is None else (found[1], found[2])


def _detect(path: DeltaPath, storage: Storage) -> str:
    location = path.location
    if is_metadata_file(location):
        return "iceberg"
    is_iceberg = storage.exists(join(location, "metadata"))
    if path.is_table and is_iceberg:
        raise InvalidOption(f"{location} has both a Delta log and Iceberg metadata: say which with format=")
    if path.is_table or is_iceberg:
        return "delta" if path.is_table else "iceberg"
    if not storage.exists(location):
        storage.check_bucket(location)
        base, name = split_metadata_name(location)
        hint = f": for a metadata table, open {base} and inspect({name!r})" if name else _catalog_hint(location)
        raise NotATable(f"{location} does not exist{hint}")
    raise NotATable(f"{location} is not a table: it has neither {LOG_FOLDER}/ (Delta) nor metadata/ (Iceberg)")


def _catalog_hint(location: str) -> str:
    """What to say where a path looks like the name of a table in a catalog that is not known."""
    parts = parts_of(location) or ()
    return f"; as a table's name, no catalog {parts[0]!r} is known: see lakescan.catalog" if len(parts) > 2 else ""
