"""A Delta table as the target of writes, row-level changes, alterations and maintenance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.identifiers import Identifier
from lakescan.common.references import dotted_path
from lakescan.common.retries import COMMITS, Attempts, RetryPolicy
from lakescan.common.timestamps import to_millis
from lakescan.definition.table_changes import AddColumn, DropFeature, TableChange
from lakescan.definition.table_definition import TableDefinition
from lakescan.delta.alter.changes import DeltaAlteration, apply_changes
from lakescan.delta.alter.drop_feature import drop_feature
from lakescan.delta.alter.droppable_features import takes_several_commits
from lakescan.delta.alter.table_state import TableState
from lakescan.delta.commit.actions import (
    ADD,
    CDC,
    REMOVE,
    DeltaFileChanges,
    SetTransaction,
    add_actions,
    change_actions,
    identity_metadata,
    json_text,
    remove_actions,
)
from lakescan.delta.commit.checkpoint import checkpoint_version
from lakescan.delta.commit.commit import (
    DeltaCommit,
    Operation,
    check_commit_properties,
    rewrite_operation,
    write_operation,
)
from lakescan.delta.commit.conflicts import Reads, overwrite_reads, planner_of, statement_reads
from lakescan.delta.commit.creation import partition_column
from lakescan.delta.commit.file_actions import live_adds, live_adds_at, written_actions
from lakescan.delta.commit.restore import restore
from lakescan.delta.commit.row_changes import changed_files, check_vectors, file_changes, mode_of, statement_operation
from lakescan.delta.commit.staged_commits import check_not_managed
from lakescan.delta.data_files.deletion_vector_writer import VectorWriter
from lakescan.delta.data_files.delta_writes import DeltaWrites
from lakescan.delta.log.reader import DeltaVersion, LogReader
from lakescan.delta.maintenance.log_cleanup import check_vacuum, clean_up
from lakescan.delta.maintenance.referenced_files import new_files_since, parts_in_use, removed_files
from lakescan.delta.maintenance.symlink_manifests import write_symlink_manifests
from lakescan.delta.metadata.features import type_feature
from lakescan.delta.metadata.new_schema import (
    append_columns,
    assign_column_ids,
    check_partitioning,
    keep_mapping,
    schema_string,
)
from lakescan.delta.metadata.protocol import CLUSTERING, Metadata, Protocol, check_columns, clustering_paths
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.delta.scan.scan_files import DeltaScanFiles
from lakescan.delta.table import DeltaTable, no_refs
from lakescan.errors import CommitConflict, ConflictCause, InvalidOption, UnsupportedFeature, nearest
from lakescan.formats.table_format import TableFormat
from lakescan.options.write import WriteOptions
from lakescan.planning.file_table import FileTable
from lakescan.storage import FileEntry, Storage, join
from lakescan.storage.locations import split_location
from lakescan.tables.base import (
    AS_NEEDED,
    FileRules,
    KnownLocations,
    OverwriteScope,
    ReferencedFiles,
    RewriteSettings,
    VacuumEvent,
)
from lakescan.tables.capabilities import (
    Alterations,
    BranchesAndTags,
    Checkpoints,
    ColumnChanges,
    EqualityDeleteConversion,
    FileImports,
    KeyUpserts,
    ManifestGeneration,
    ManifestRewrites,
    MetadataFileActions,
    OrphanRemoval,
    Overwrites,
    PositionDeleteRewrites,
    RemovedFilesLog,
    Restoration,
    Rewrites,
    RowLevelChanges,
    SnapshotExpiry,
    VacuumHistory,
)
from lakescan.tables.error_names import errors_name_table
from lakescan.tables.results import (
    CheckpointResult,
    GenerateResult,
    RestoreResult,
)
from lakescan.tables.row_changes import RemovedFile, RowChanges, RowLevelCommand, RowLevelOperationMode
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.table_writes import WrittenFile

# On S3, Delta on Spark needs a single driver to commit, so it does not commit where it need not.
_RECORDS_VACUUM = ("file", "hdfs", "gs", "abfs", "abfss", "wasb", "wasbs", "adl")
_GENERATED = "symlink_format_manifest"
_SHOWN = ("_change_data", "_delta_index")  # folders of table files, although their names start with an underscore


@dataclass(frozen=True)
class DeltaChangeFiles:
    """The change data files of a table (`lakescan.tables.base.ChangeFiles`)."""

    _table: DeltaWrites
    _planner: DeltaScanFiles

    @property
    def writes(self) -> DeltaWrites:
        """The settings for writing change data files, which have the table's columns, then `_change_type`."""
        return self._table.change_file_writes

    def as_table(self, files: Sequence[WrittenFile]) -> FileTable:
        """Return written change data files as a file table with their partition values, so that they can be read."""
        return self._planner.candidates(written_actions(files, self._table)).table


@dataclass(frozen=True)
class DeltaAddedColumns:
    """Columns that a commit adds with its rows.

    - `names`: the added columns; with `replaces`, all columns of the table after the commit.
    - `before`: the metadata before the commit.
    - `protocol`, `metadata`: those that the commit sets.
    - `replaces`: whether the commit also replaces all rows.
    """

    names: tuple[str, ...]
    before: Metadata
    protocol: Protocol
    metadata: Metadata
    replaces: bool = False


@dataclass(frozen=True)
class DeltaTarget(
    Overwrites,
    Rewrites,
    RowLevelChanges,
    ColumnChanges,
    Alterations,
    Restoration,
    OrphanRemoval,
    RemovedFilesLog,
    VacuumHistory,
    ManifestGeneration,
    Checkpoints,
):
    """A Delta table at the version that was opened; messages name it by its catalog identifier if there is one.

    `added` are the columns that the next commit adds or replaces, or None.
    """

    location: str
    options: WriteOptions
    storage: Storage
    _opened: DeltaTable
    added: DeltaAddedColumns | None = None
    identifier: Identifier | None = None

    @staticmethod
    def open(
        location: str, options: WriteOptions, storage: Storage, identifier: Identifier | None = None
    ) -> DeltaTarget:
        """Open the newest version; raises `NotATable`, and `InvalidOption` for invalid commit properties."""
        check_commit_properties(options.commit_properties)
        return DeltaTarget(location, options, storage, DeltaTable.open(location, storage), identifier=identifier)

    @property
    def name(self) -> str:
        """The table's identifier, or its location if it was not opened by a name."""
        return self.location if self.identifier is None else str(self.identifier)

    @cached_property
    def writes(self) -> DeltaWrites:
        """The settings for data files, with the version's metadata or, if the commit adds columns, the new metadata."""
        base = self.version
        protocol, metadata = self._rules_of_rows
        is_clustered = "clustering" in base.protocol.features
        clustering = clustering_paths(self._log.domain(base.segment, CLUSTERING)) if is_clustered else ()
        return DeltaWrites(self.location, protocol, metadata, self.storage, self.options, tuple(clustering))

    @property
    def _rules_of_rows(self) -> tuple[Protocol, Metadata]:
        """The protocol and metadata that written rows must comply with."""
        given = self.version if self.added is None else self.added
        return given.protocol, given.metadata

    @cached_property
    def scan(self) -> ScanSpec:
        """A scan of the version that was opened; columns that the commit adds are null."""
        if self.added is None or self.added.replaces:
            return self._base
        return ScanSpec(self._opened.with_metadata(*self._rules_of_rows), self.storage, self.location)

    @cached_property
    def _base(self) -> ScanSpec:
        return ScanSpec(self._opened, self.storage, self.location)

    @property
    def version(self) -> DeltaVersion:
        """The version that was opened: its log segment, protocol and metadata."""
        return self._opened.version_of(self._base.snapshot)

    @property
    def opened(self) -> DeltaTable:
        """The table, with its log as listed on opening."""
        return self._opened

    @property
    def identity(self) -> str | None:
        """The table's id (`metaData.id`)."""
        return self._opened.identity

    @property
    def base_state(self) -> int:
        """The number of the version that was opened."""
        version = self.scan.snapshot.id
        assert version is not None
        return version

    def files_added_since(self, base: int) -> Iterator[pa.Array]:
        """Return the locations of files that versions after `base` add; lists the log again."""
        return new_files_since(self.reopen().location, self.storage, base)

    @property
    def retries(self) -> RetryPolicy:
        """The retry policy of commits, the same for all tables."""
        return COMMITS

    @property
    def retries_overwrites(self) -> bool:
        """Always True: an overwrite plans the files to replace again if rows have changed since."""
        return True

    @property
    def has_dynamic_overwrites(self) -> bool:
        """True for tables with partition columns; Delta on Spark ignores the mode for other tables."""
        return bool(self.writes.metadata.partition_columns)

    @errors_name_table
    def check_removable(self) -> None:
        """Raise `UnsupportedFeature` for append-only tables."""
        if self.writes.metadata.properties.append_only:
            raise UnsupportedFeature(f"replacing files of {self.name}, whose delta.appendOnly is true", "Append to it.")

    @property
    def change_files(self) -> DeltaChangeFiles | None:
        """The change data files of a table with `delta.enableChangeDataFeed`; None for other tables.

        Also None for a write with the option `dataChange` false, which only moves rows.
        """
        return (
            DeltaChangeFiles(self.writes, planner_of(self.scan, self.version))
            if self.writes.metadata.properties.change_feed and self.options.data_change
            else None
        )

    def has_committed(self) -> bool:
        """Return whether the log has a `txn` action of the write's application with its version or a later one.

        False for a write without an application id.
        """
        if self.options.transaction is None:
            return False
        last = self._log.transaction(self.version.segment, self.options.transaction[0])
        return last is not None and last >= self.options.transaction[1]

    def refusal(self, capability: Any, what: str) -> UnsupportedFeature | None:
        """Return the error for a capability (a protocol class) that Delta does not have, with advice; None for others.

        `what` is ignored.
        """
        if capability is BranchesAndTags:
            return no_refs(self.name)
        equality = UnsupportedFeature(
            f"equality deletes in the Delta table {self.name}", "Delta only deletes by position."
        )
        missing: dict[Any, UnsupportedFeature] = {
            KeyUpserts: equality,
            EqualityDeleteConversion: equality,
            SnapshotExpiry: UnsupportedFeature(
                "snapshots of a Delta table to expire", "Later writes clean up its log."
            ),
            FileImports: UnsupportedFeature(
                f"adding files to the Delta table {self.name}",
                "CONVERT TO DELTA makes a table of a folder of Parquet files.",
            ),
            MetadataFileActions: UnsupportedFeature(
                f"statistics files and rewritten paths of the Delta table {self.name}",
                "Its log has statistics of files. Its paths are relative: copy the folder.",
            ),
            ManifestRewrites: UnsupportedFeature("manifests of Delta tables", "Use checkpoint() to compact their log."),
            PositionDeleteRewrites: UnsupportedFeature(
                "position deletes of Delta tables", "compact(purge=True) applies deletion vectors."
            ),
        }
        return missing.get(capability)

    @property
    def _log(self) -> LogReader:
        return LogReader(self.location, self.storage)

    @errors_name_table
    def append(self, files: Sequence[WrittenFile]) -> None:
        """Commit an append of written files; it does not conflict with concurrent appends."""
        operation = write_operation(self.writes.options, "Append", files, is_blind_append=True)
        added = add_actions(files, self.writes, changes_data=self.options.data_change)
        metadata = identity_metadata(self.writes.metadata, files)
        self._commit(operation, added, metadata=metadata, transaction=self.options.transaction)

    @errors_name_table
    def replace_all(self, removed: Sequence[RemovedFile], files: Sequence[WrittenFile]) -> None:
        """Commit an overwrite of the whole table by `files`; raises `CommitConflict` if rows changed concurrently.

        `removed` is ignored: all live files are removed.
        """
        live = live_adds(self.version, self.storage)
        if live.num_rows:
            self.check_removable()
        self._commit(
            _overwrite(self.writes, files, live),
            add_actions(files, self.writes, changes_data=self.options.data_change),
            remove_actions(live, changes_data=self.options.data_change),
            Reads.whole_table(),
            identity_metadata(self.writes.metadata, files),
            transaction=self.options.transaction,
        )

    @errors_name_table
    def replace(
        self,
        removed: Sequence[RemovedFile],
        files: Sequence[WrittenFile],
        what: OverwriteScope,
        changes: Sequence[WrittenFile] | None = None,
    ) -> None:
        """Commit the replacement of the files `removed` by `files`.

        `what` is the scope of the overwrite, and `changes` are its change data files, or None if it records none.
        Raises `CommitConflict` if a concurrent commit changed rows that it replaces.
        """
        live = self._live(removed)
        # otherwise readers would take moved rows as changes
        changed = self.options.data_change and (changes is None or bool(changes))
        self._commit(
            _overwrite(self.writes, files, live, what, changes or ()),
            add_actions(files, self.writes, changes_data=changed),
            remove_actions(live, changes_data=changed),
            overwrite_reads(self.scan, self.version, what.where),
            identity_metadata(self.writes.metadata, files),
            transaction=self.options.transaction,
            changes=change_actions(changes or (), self.writes),
        )

    @errors_name_table
    def check_rewritable(self) -> None:
        """Raise `UnsupportedFeature` for catalog-managed tables, which the catalog compacts."""
        check_not_managed(self.version.protocol, "compacting", self.location)

    @errors_name_table
    def rewrite(
        self, removed: Sequence[RemovedFile], files: Sequence[WrittenFile], how: RewriteSettings = AS_NEEDED
    ) -> None:
        """Commit a rewrite that moves rows to other files, with `dataChange` false.

        Raises `CommitConflict` if a removed file changed concurrently.
        """
        live = self._live(removed)
        operation = rewrite_operation(how, self.writes, live, files)
        added = add_actions(files, self.writes, changes_data=False)
        self._commit(operation, added, remove_actions(live, changes_data=False))

    def _live(self, removed: Sequence[RemovedFile]) -> pa.Table:
        return live_adds_at(self.version, self.storage, [each.location for each in removed])

    @errors_name_table
    def generate(self, mode: str) -> GenerateResult:
        """Write symlink manifests of the version that was opened; raises `InvalidOption` for other modes."""
        if mode.lower() != _GENERATED:
            raise InvalidOption(f"GENERATE {mode}: it takes {_GENERATED}.{nearest(mode, [_GENERATED])}")
        return GenerateResult(*write_symlink_manifests(self.version, self.storage))

    @errors_name_table
    def checkpoint(self, log_retention: timedelta | None = None) -> CheckpointResult:
        """Write a checkpoint of the version that was opened; with a `log_retention`, remove older commits before it."""
        version = checkpoint_version(self.location, self.base_state, self.storage).version
        if log_retention is not None:
            clean_up(self.location, self.storage, retention=log_retention, by_minute=False)
        return CheckpointResult(version)

    def _commit(
        self,
        operation: Operation,
        added: pa.Table | None = None,
        removed: pa.Table | None = None,
        reads: Reads | None = None,
        metadata: Metadata | None = None,
        protocol: Protocol | None = None,
        transaction: tuple[str, int] | None = None,
        changes: pa.Table | None = None,
    ) -> None:
        if (new := self.added) is not None:
            if self.version.metadata != new.before:
                what = (
                    "which this write replaces" if new.replaces else f"to which this write adds {', '.join(new.names)}"
                )
                raise CommitConflict(
                    f"{self.name}: a concurrent commit changed its columns or properties, {what}: retry the write"
                ).because(ConflictCause.METADATA)
            metadata = metadata or new.metadata
            protocol = protocol or self.version.protocol.with_features(new.protocol.features)
        DeltaCommit(
            self.version,
            self.storage,
            operation,
            DeltaFileChanges(
                ADD.empty_table() if added is None else added,
                REMOVE.empty_table() if removed is None else removed,
                CDC.empty_table() if changes is None else changes,
            ),
            reads or Reads(),
            metadata,
            None if protocol == self.version.protocol else protocol,
            None if transaction is None else SetTransaction(*transaction),
            properties=self.options.commit_properties,
        ).commit()

    @errors_name_table
    def mode_of(self, statement: RowLevelCommand) -> RowLevelOperationMode:
        """Return the row-level operation mode: the write option `row-change-mode`, else the table's default.

        That is merge-on-read if the table allows deletion vectors, else copy-on-write. Raises `UnsupportedFeature` if
        the option is merge-on-read and the table does not allow it.
        """
        return mode_of(self.options.row_change_mode, self.version.protocol, self.writes.metadata, self.name)

    @property
    def records_source_rows(self) -> bool:
        """Return True: `numSourceRows` is a metric of MERGE."""
        return True

    def joins_files(self, mode: RowLevelOperationMode) -> bool:
        """Return True for copy-on-write. With vectors, Delta on Spark keeps inserted and updated rows apart."""
        return mode is RowLevelOperationMode.COPY_ON_WRITE

    @property
    def follows_jar(self) -> bool:
        """Return False: the library of Delta commits nothing either, and casts texts."""
        return False

    @errors_name_table
    def delete_writer(self, write_id: str) -> VectorWriter:
        """Return a writer of deletion vectors, whose file names derive from `write_id`.

        Raises `UnsupportedFeature` for a table that does not allow them.
        """
        check_vectors(self.version.protocol, self.writes.metadata, self.name)
        properties = self.writes.metadata.properties
        prefix_length = properties.prefix_length if properties.random_prefixes else 0
        return VectorWriter(self.location, self.storage, write_id, prefix_length)

    @errors_name_table
    def change(self, changes: RowChanges) -> None:
        """Commit row-level changes.

        Raises `CommitConflict` if a concurrent commit changed rows that the statement read.
        """
        if changes.removed or changes.deletes:
            self.check_removable()
        if changes.deletes:
            check_vectors(self.version.protocol, self.writes.metadata, self.name)
        removed = [each.location for each in changes.removed]
        files = changed_files(self.version, self.storage, removed, changes.deletes)
        actions = file_changes(changes, files, self.writes)
        self._commit(
            statement_operation(changes, files),
            actions.added,
            actions.removed,
            statement_reads(self.scan, self.version, changes.read),
            identity_metadata(self.writes.metadata, changes.files),
            transaction=self.options.transaction,
            changes=actions.changes,
        )

    @errors_name_table
    def with_columns(self, changes: Sequence[TableChange]) -> DeltaTarget:
        """Return the target whose commit also makes these changes of columns."""
        new = [each.column for each in changes if isinstance(each, AddColumn) and not each.parent]
        inside = [each for each in changes if not isinstance(each, AddColumn) or each.parent]
        metadata = self.writes.metadata
        schema, configuration = append_columns(metadata.schema_string, new), dict(metadata.configuration)
        if metadata.column_mapping_mode != "none":
            schema, last = assign_column_ids(schema, metadata.properties.max_column_id)
            configuration[DeltaProperties.max_column_id.name] = str(last)
        brought = {type_feature(column.type) for column in t.walk(tuple(new))} - {None}
        protocol = self._rules_of_rows[0].with_features([name for name in brought if name is not None])
        made = replace(metadata, schema_string=schema, configuration=configuration)
        if inside:
            before = TableState(self.location, protocol, made)
            after = apply_changes(before, inside, self.scan.snapshot.schema, frozenset())
            protocol, made = after.protocol, after.metadata
        check_columns(made)
        names = [each.name for each in new]
        for each in inside:
            path = (*each.parent, each.column.name) if isinstance(each, AddColumn) else getattr(each, "path", ())
            names.append(dotted_path(path))
        earlier = () if self.added is None else self.added.names
        return self.add_same_columns(DeltaAddedColumns((*earlier, *names), self.version.metadata, protocol, made))

    def add_same_columns(self, added: DeltaAddedColumns) -> DeltaTarget:
        """Return the target whose commit adds the columns, unless the table already has exactly these."""
        has_them = self.version.metadata == added.metadata
        return replace(self, added=None if has_them else added)

    def commit_columns(self) -> None:
        """Commit the added columns without rows."""
        if self.added is not None:
            self._commit(Operation("ADD COLUMNS", {"columns": json_text(list(self.added.names))}))

    @errors_name_table
    def with_schema(self, new: TableDefinition, *, repartitions: bool = False) -> DeltaTarget:
        """Return the target whose overwrite also replaces the columns, in the same commit.

        Without `repartitions`, the table stays partitioned by those of its partition columns that remain. Under column
        mapping, columns of the same name and type keep their ids and physical names, as in Delta on Spark.
        """
        if self.writes.clustering:
            raise UnsupportedFeature(
                f"overwriteSchema of {self.name}, which has clustering columns", "Use CREATE OR REPLACE TABLE."
            )
        known = {column.type for column in t.walk(self.writes.schema.fields)}
        newer = {str(c.type) for c in t.walk(new.columns) if type_feature(c.type) and c.type not in known}
        if newer:
            raise UnsupportedFeature(
                f"overwriteSchema with columns of type {min(newer)}", "Use CREATE OR REPLACE TABLE."
            )
        metadata, names = self.version.metadata, new.schema.names
        partitions = [each for each in metadata.partition_columns if each in names]
        if repartitions:
            partitions = [partition_column(new, term) for term in new.partition_by]
        check_partitioning(new.columns, partitions)
        schema, configuration = schema_string(new.columns), dict(metadata.configuration)
        if metadata.column_mapping_mode != "none":
            schema, last = assign_column_ids(
                keep_mapping(schema, metadata.schema_string), metadata.properties.max_column_id
            )
            configuration[DeltaProperties.max_column_id.name] = str(last)
        made = replace(metadata, schema_string=schema, partition_columns=tuple(partitions), configuration=configuration)
        check_columns(made)
        return self.add_same_columns(
            DeltaAddedColumns(tuple(names), metadata, self.version.protocol, made, replaces=True)
        )

    def reopen(self) -> DeltaTarget:
        """Reopen the table at its newest version; raises `CommitConflict` if another table has replaced it."""
        now = DeltaTarget.open(self.location, self.options, self.storage, self.identifier).require_same_table(
            self._opened
        )
        return replace(now, added=self.added)

    @property
    def rules(self) -> tuple[int, Protocol, Metadata]:
        """The version number, and the protocol and metadata that written rows must comply with."""
        return self.base_state, *self._rules_of_rows

    def check_rules(self, before: tuple[int, Protocol, Metadata]) -> None:
        """Raise `CommitConflict` if the metadata or the protocol changed since `before`, an earlier value of `rules`.

        Delta treats any such change as a conflict with files that were written before it.
        """
        if self.rules[1:] != before[1:]:
            raise CommitConflict(
                f"{self.name}: another writer changed its columns, properties or protocol since version "
                f"{before[0]}: retry the write"
            ).because(ConflictCause.METADATA)

    @errors_name_table
    def require_same_table(self, before: TableFormat) -> DeltaTarget:
        """Return this target if it continues `before`; raise `CommitConflict` if another table has replaced it."""
        if not isinstance(before, DeltaTable) or not self._opened.continues(before):
            raise CommitConflict(
                f"{self.name} was dropped and recreated, or replaced, since it was opened: open it again"
            )
        return self

    @errors_name_table
    def alter(self, changes: Sequence[TableChange]) -> None:
        """Apply the changes to the version that was opened and commit them; after a conflict, to the newest version.

        As in Delta, a concurrent change of the metadata is a conflict. Applying the changes to the newest version has
        the same result as running the statement again. Dropping a reader feature takes several commits.
        """
        if len(changes) == 1 and isinstance(only := changes[0], DropFeature) and takes_several_commits(only):
            check_not_managed(self.version.protocol, f"dropping the feature {only.name!r} of", self.location)
            return drop_feature(self, only)
        attempts, target = Attempts(COMMITS), self
        while True:
            try:
                return DeltaAlteration(
                    target.version, target.scan, target.storage, self.options.commit_properties
                ).commit(changes)
            except CommitConflict as error:
                attempts.wait_or_raise(self.name, error)
            target = target.reopen()

    @errors_name_table
    def restore(self, version: int | str | None, timestamp: datetime | None) -> RestoreResult:
        """Commit the files and metadata of an earlier version; a concurrent change of rows is a conflict.

        Delta on Spark also refuses to remove concurrently added rows.
        """
        return restore(self.scan, self.version, self.storage, version, timestamp, self.check_removable)

    @errors_name_table
    def file_rules(self) -> FileRules:
        """Return the rules for orphan files: the table's folder and the retention of removed files, at least a day.

        Raises `UnsupportedFeature` for a table whose files lakescan may not find completely.
        """
        version, schema = self.version, self.scan.snapshot.schema
        check_vacuum(version.protocol, self.name)
        retention = version.metadata.properties.removed_file_retention
        names = {name for field in version.partition_fields(schema) for name in (field.name, field.physical_name)}
        return FileRules(
            location=self.location,
            folders=(self.location,),
            clock_folder=self.location,
            metadata_folder=join(self.location, "metadata"),
            partition_names=names,
            default_age=max(retention, timedelta(hours=24)),
            shown=_SHOWN,
            retention=retention,
            retention_name=DeltaProperties.removed_file_retention.name,
            shared_metadata=join(self.location, "metadata"),
            is_shared=version.metadata.properties.has_iceberg_metadata,
        )

    def record_vacuum(self, event: VacuumEvent) -> None:
        """Commit the entry VACUUM START or VACUUM END where Delta on Spark does so by default; elsewhere do nothing."""
        if split_location(self.location)[0] in _RECORDS_VACUUM:
            self.reopen()._commit(Operation(f"VACUUM {event.name}", event.parameters, event.metrics))

    def files_removed(self) -> Iterator[pa.Array]:
        """Yield the locations of the files of all `remove` actions in the log, and of change data files."""
        return removed_files(self.reopen().location, self.storage)

    def parts_in_use(self, since: datetime, other_metadata: Sequence[FileEntry]) -> Iterator[ReferencedFiles]:
        """Yield the parts of the log that decide which files are in use: referenced, or removed after `since`.

        The first part is empty, since `other_metadata` does not apply. Change data files are in use for at least the
        retention.
        """
        yield KnownLocations(pa.array([], pa.string()))
        retained = datetime.now(UTC) - self.version.metadata.properties.removed_file_retention
        location = self.reopen().location
        yield from parts_in_use(location, self.storage, to_millis(since), to_millis(min(since, retained)))


def _overwrite(
    writes: DeltaWrites,
    files: Sequence[WrittenFile],
    live: pa.Table,
    what: OverwriteScope | None = None,
    changes: Sequence[WrittenFile] = (),
) -> Operation:
    """Return the operation of an overwrite, as Delta on Spark records it.

    `live` are the add actions of the files that it removes, `what` is its scope, None for the whole table, and
    `changes` are its change data files.
    """
    where = None if what is None or what.where is None else writes.options.replace_where or str(what.where)
    operation = write_operation(
        writes.options,
        "Overwrite",
        files,
        removed=live.num_rows,
        removed_bytes=pc.sum(live["size"]).as_py() or 0,
        predicate=where,
        dynamic=what is not None and what.dynamic,
    )
    if not changes:
        return operation
    return replace(operation, metrics={**operation.metrics, "numAddedChangeFiles": len(changes)})
