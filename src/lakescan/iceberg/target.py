"""An Iceberg table as a write target. Commits go through its committer, which uses a pyiceberg catalog."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from numbers import Integral
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.identifiers import Identifier
from lakescan.common.retries import COMMITS, Attempts, RetryPolicy
from lakescan.common.timestamps import to_millis
from lakescan.common.version import own_version
from lakescan.definition.table_changes import TableChange
from lakescan.definition.table_definition import TableDefinition
from lakescan.errors import CommitConflict, InvalidOption, UnsupportedFeature
from lakescan.expressions.bind import bind_columns_only
from lakescan.expressions.predicate import TRUE
from lakescan.formats.table_format import SnapshotSelector, TableFormat
from lakescan.iceberg.alter.alter_table import alter, check_proofs
from lakescan.iceberg.alter.schema_evolution import SchemaEvolution, TableWithColumns
from lakescan.iceberg.commit.add_files import add_files
from lakescan.iceberg.commit.base_manifests import equality_delete_files
from lakescan.iceberg.commit.commit import IcebergCommit
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.commit_collector import check_not_collected
from lakescan.iceberg.commit.conflicts import Validation
from lakescan.iceberg.commit.create_table import commit_replacement, replace_columns
from lakescan.iceberg.commit.file_changes import written_partitions
from lakescan.iceberg.commit.manage_snapshots import IcebergSnapshots, restore
from lakescan.iceberg.commit.outcomes import check_same_table, wait_before_retry
from lakescan.iceberg.commit.reachable_files import files_since, manifest_parts, metadata_locations
from lakescan.iceberg.commit.row_level_operations import (
    row_change_mode,
    row_change_validation,
    staged_options,
    summary_properties,
)
from lakescan.iceberg.commit.snapshot_producer import NewSnapshot
from lakescan.iceberg.commit.snapshot_refs import ensure_branch
from lakescan.iceberg.commit.staged_table import TableReplacement
from lakescan.iceberg.data_files.encryption import check_catalog
from lakescan.iceberg.data_files.equality_deletes import EqualityDeleteWrites
from lakescan.iceberg.data_files.position_deletes import IcebergDeletes
from lakescan.iceberg.data_files.table_writes import IcebergWrites
from lakescan.iceberg.maintenance.expire_snapshots import commit_expiry, split_expired_files
from lakescan.iceberg.maintenance.metadata_files import IcebergMetadataFiles
from lakescan.iceberg.maintenance.rewrite_position_deletes import plan_compaction, plan_vectors
from lakescan.iceberg.maintenance.tables_in_folder import neighbour_files, warn_of_copy
from lakescan.iceberg.metadata.application_transactions import has_transaction
from lakescan.iceberg.metadata.metadata_location import FolderSource
from lakescan.iceberg.metadata.snapshot_retention import Retention
from lakescan.iceberg.metadata.table_metadata import MAIN, TableMetadata
from lakescan.iceberg.metadata.table_properties import SERIALIZABLE, IcebergProperties
from lakescan.iceberg.table import IcebergTable
from lakescan.options.read import ReadOptions
from lakescan.options.write import WriteOptions
from lakescan.planning.scan_report import CommitReport
from lakescan.storage import FileEntry, Storage, join
from lakescan.storage.locations import is_in, normal
from lakescan.tables.base import (
    AS_NEEDED,
    FileRules,
    KnownLocations,
    OverwriteScope,
    ReferencedFiles,
    RewriteSettings,
    SnapshotFiles,
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
from lakescan.tables.commit_files import remove_on_failure
from lakescan.tables.committer import Committer
from lakescan.tables.results import (
    ExpireResult,
    ManifestsResult,
    PositionDeletesResult,
    RestoreResult,
)
from lakescan.tables.row_changes import DeleteWriter, RemovedFile, RowChanges, RowLevelCommand, RowLevelOperationMode
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.parquet_writer import new_write_id
from lakescan.writing.table_writes import DeleteLimits, WrittenDeletes, WrittenFile

_LOG = logging.getLogger("lakescan")
_SKEW = timedelta(minutes=5)  # tolerated difference between clocks


@dataclass(frozen=True)
class IcebergTarget(
    Overwrites,
    Rewrites,
    RowLevelChanges,
    KeyUpserts,
    EqualityDeleteConversion,
    ColumnChanges,
    Alterations,
    BranchesAndTags,
    Restoration,
    SnapshotExpiry,
    FileImports,
    OrphanRemoval,
    MetadataFileActions,
    ManifestRewrites,
    PositionDeleteRewrites,
):
    """An Iceberg table that is open for writing, with the operations that commit to it.

    - `_table`: pyiceberg's table, with the same metadata as `scan`.
    - `_known`: metadata parsed earlier, which is reused if the table is still at the same metadata file.
    - `added`: columns that the commit adds or changes (`with_columns`).
    - `_replacement`: the new definition that an overwrite commits too (`with_schema`).
    """

    committer: Committer
    options: WriteOptions
    storage: Storage
    _table: Any = field(repr=False)
    _known: TableMetadata | None = field(default=None, repr=False)
    added: SchemaEvolution | None = None
    _replacement: TableReplacement | None = field(default=None, repr=False)

    @staticmethod
    def open(
        committer: Committer,
        options: WriteOptions,
        storage: Storage | None = None,
        known: TableMetadata | None = None,
    ) -> IcebergTarget:
        """Load the table; create the branch of `options` at the current snapshot if it is missing, as Java does.

        `known` is metadata of the table that was parsed earlier, if any. Raises `NoSuchTable`, `InvalidOption` for
        options that do not fit the table, and `UnsupportedFeature` for a table or catalog that cannot be written to.
        """
        catalog, identifier = committer.catalog, committer.identifier
        with committer.translate_errors():
            table = catalog.load_table(identifier.within)
            if (check_writable := getattr(catalog, "check_writable", None)) is not None:
                check_writable(table)
            if IcebergProperties(table.metadata.properties, str(identifier)).is_encrypted:
                check_catalog(catalog, str(identifier), keeps_snapshots=True)
            options = staged_options(options, table.metadata.properties, str(identifier))
            table = ensure_branch(table, options.branch)
        if storage is None:
            storage = committer.storage(table)
        target = IcebergTarget(committer, options, storage, table, known)
        if not table.metadata_location.startswith(f"{table.metadata.location}/"):
            warn_of_copy(target.opened, f"writing {identifier} from")
        return target

    @property
    def identifier(self) -> Identifier:
        """The table's name in its catalog, or its location."""
        return self.committer.identifier

    @property
    def name(self) -> str:
        """The identifier as text."""
        return str(self.identifier)

    @cached_property
    def writes(self) -> IcebergWrites:
        """The settings for writing data files: default partition spec and current schema, or those of `with_schema`."""
        given = self._table.metadata if self._with_columns is None else self._with_columns.given
        if self._replacement is not None:
            given = self._replacement.metadata
        writes = IcebergWrites(given, self.storage, self.options)
        if writes.properties.is_encrypted:
            check_catalog(self._table.catalog, self.name)
        return writes

    @cached_property
    def _with_columns(self) -> TableWithColumns | None:
        """The table with the columns of `added`, or None if the commit adds none; see `SchemaEvolution.apply`."""
        return None if self.added is None else self.added.apply(self._table, self.opened)

    @property
    def identity(self) -> str:
        """The table's UUID."""
        return str(self._table.metadata.table_uuid)

    @cached_property
    def opened(self) -> IcebergTable:
        """The table read from its metadata file, which lists all snapshots even if the catalog returns only some.

        Metadata that was parsed earlier is reused if it is of the same file and table.
        """
        location, known = self._table.metadata_location, self._known
        if known is not None and (known.source, known.uuid) == (location, self.identity):
            return IcebergTable(known, self.storage, FolderSource(location, self.storage))
        return IcebergTable.open(location, self.storage)

    @property
    def base_state(self) -> frozenset[int]:
        """The ids of all snapshots in the opened metadata, for `files_added_since`."""
        return frozenset(self.opened.metadata.snapshots)

    def files_added_since(self, base: frozenset[int]) -> Iterator[pa.Array]:
        """Reload the table and yield the files of snapshots that are not in `base`, by location; see `files_since`."""
        return files_since(self.reopen().opened, base)

    @cached_property
    def scan(self) -> ScanSpec:
        """A scan of the branch at the opened metadata, ignoring the session's read options."""
        branch = self.options.branch
        selector = SnapshotSelector(branch=branch if branch in self._table.metadata.refs else MAIN)
        table, made = self.opened, self._with_columns
        if made is not None:
            table = IcebergTable(made.metadata, self.storage, FolderSource(self._table.metadata_location, self.storage))
        manager = self.committer.key_manager  # passed as an option, because workers import it
        options = ReadOptions() if manager is None else ReadOptions.parse({"key-manager": manager})
        return ScanSpec(table, self.storage, self.name, options, selector=selector)

    @property
    def retries(self) -> RetryPolicy:
        """The retry policy of commits, by the properties `commit.retry.*`, else the default of lakescan."""
        return self.opened.metadata.table_properties.retry_policy(COMMITS)

    @property
    def retries_overwrites(self) -> bool:
        """Always False: each commit validates itself against concurrent commits, so a `CommitConflict` is final."""
        return False

    @property
    def has_dynamic_overwrites(self) -> bool:
        """Always True. An unpartitioned table counts as one partition, which even an empty write replaces."""
        return True

    def check_removable(self) -> None:
        """Do nothing: rows of every Iceberg table can be removed."""

    @property
    def change_files(self) -> None:
        """Always None: Iceberg has no change files, so changes are computed from data files and deletes."""

    def has_committed(self) -> bool:
        """Return whether the branch has the transaction of the options, or a later one of its application.

        It is False without a transaction. Raises `InvalidOption` for a wap-id, and the errors of `has_transaction`.
        """
        if self.options.transaction is None:
            return False
        if self.options.wap_id is not None:
            raise InvalidOption("wap-id is not for streams: use wap-branch")
        return has_transaction(self.opened.metadata, self.options.branch, *self.options.transaction)

    def refusal(self, capability: Any, what: str) -> UnsupportedFeature | None:
        """Return the error for an operation that Iceberg does not need, or None for other operations.

        `capability` is the class of the operation: generating manifests, checkpoints, or a log of removed files. `what`
        is for the message.
        """
        missing: dict[Any, UnsupportedFeature] = {
            ManifestGeneration: UnsupportedFeature(
                f"GENERATE {what} for the Iceberg table {self.name}", "Engines read Iceberg tables by their metadata."
            ),
            Checkpoints: UnsupportedFeature(
                "checkpoints of Iceberg tables", "Each Iceberg commit writes complete metadata, so none are needed."
            ),
            VacuumHistory: UnsupportedFeature(
                f"recording removed orphans in the history of {self.name}", "Iceberg's history has snapshots only."
            ),
            RemovedFilesLog: UnsupportedFeature(
                f"removing orphans of {self.name} by its log only",
                "Iceberg has no log of removed files: list the table's folders, without lite.",
            ),
        }
        return missing.get(capability)

    def append(self, files: Sequence[WrittenFile]) -> None:
        """Commit an append; it is retried after concurrent commits. See `IcebergCommit.append` for the errors."""
        with self.committer.translate_errors():
            self._commit().append(files)

    def replace(
        self,
        removed: Sequence[RemovedFile],
        files: Sequence[WrittenFile],
        what: OverwriteScope,
        changes: Sequence[WrittenFile] | None = None,
    ) -> None:
        """Commit an overwrite of the files `removed`; `what` has its filter, or lets it replace whole partitions.

        It is retried after concurrent commits that do not conflict with the files and rows that it read. Raises
        `CommitConflict` otherwise. Change files (`changes`) do not exist in Iceberg, and are ignored.
        """
        with self.committer.translate_errors():
            commit = self._commit()
            read = self._read(files, what, commit.base)
            commit.replace([each.location for each in removed], files, read, is_dynamic=what.dynamic)

    def replace_all(self, removed: Sequence[RemovedFile], files: Sequence[WrittenFile]) -> None:
        """Commit the replacement of all files; with new columns (`with_schema`), every concurrent commit conflicts."""
        if self._replacement is not None:
            return commit_replacement(self.committer, self._replacement, files)
        return self.replace(removed, files, OverwriteScope())

    def _read(self, files: Sequence[WrittenFile], what: OverwriteScope, base: CommitBase) -> Validation:
        """Return the conflict validation of an overwrite of `what`, with the new files `files`.

        It follows the options `isolation-level` and `validate-from-snapshot-id`.
        """
        options, schema = self.options, base.metadata.schema
        read = Validation.create(base, isolation=options.isolation_level or SERIALIZABLE, checks_removed=True)
        if options.validate_from_snapshot_id is not None:
            read = replace(read, start=options.validate_from_snapshot_id)
        if what.dynamic and not base.metadata.specs[base.metadata.default_spec_id].is_unpartitioned:
            return replace(read, partitions=written_partitions(files, base))
        return replace(read, where=TRUE if what.where is None else bind_columns_only(what.where, schema))

    def check_rewritable(self) -> None:
        """Do nothing: the files of every Iceberg table can be rewritten."""

    def rewrite(
        self, removed: Sequence[RemovedFile], files: Sequence[WrittenFile], how: RewriteSettings = AS_NEEDED
    ) -> None:
        """Commit files that hold the same rows as the files they replace (a `replace` snapshot).

        It is retried after concurrent commits that keep the replaced files and add no position deletes to them.
        """
        with self.committer.translate_errors():
            commit = self._commit()
            read = Validation.create(commit.base, same_rows=how.keeps_sequence_number is not False)
            commit.rewrite(
                [each.location for each in removed],
                files,
                read,
                how.deletes,
                keeps_sequence_number=bool(how.keeps_sequence_number),
            )

    def alter(self, changes: Sequence[TableChange]) -> None:
        """Change columns, layout and properties in one commit; see `alter_table.alter` for the errors."""
        with self.committer.translate_errors():
            alter(self._table, self.opened, self.storage, changes, self.retries)

    @property
    def snapshots(self) -> IcebergSnapshots:
        """The operations on branches, tags and snapshots of the table."""
        check_not_collected(self._table, "changing branches, tags or snapshots of")
        return IcebergSnapshots(self.committer, self._table, self.opened, self.storage, self.retries)

    @property
    def metadata_files(self) -> IcebergMetadataFiles:
        """The operations that write statistics files and rewrite the table's paths."""
        check_not_collected(self._table, "writing statistics or metadata of")
        return IcebergMetadataFiles(self.committer, self._table, self.opened, self.scan, self.retries)

    def check_owned(self, doing: str) -> None:
        """Raise `UnsupportedFeature` if `gc.enabled` is false: the files may belong to another table.

        `doing` describes the refused operation in the message.
        """
        check_not_collected(self._table, doing)
        if not self.opened.metadata.table_properties.owns_files:
            raise UnsupportedFeature(
                f"{doing} {self.name}, whose gc.enabled is not true",
                "Its files may also belong to another table that it is a snapshot of. If no other table uses them, set "
                "'gc.enabled'='true' first.",
            )

    def restore(self, version: int | str | None, timestamp: datetime | None) -> RestoreResult:
        """Make the snapshot at a version or timestamp the current one; columns and properties stay as they are.

        Raises the errors of `manage_snapshots.restore`.
        """
        return restore(self.scan, self.snapshots, version, timestamp)

    def add_files(
        self,
        folder: str,
        partitions: Mapping[str, str],
        *,
        check_duplicates: bool,
        files: Sequence[str] | None = None,
    ) -> Mapping[str, str]:
        """Append Parquet files of other writers to the branch main, and return the summary of the new snapshot."""
        check_not_collected(self._table, "adding files of others to")
        with self.committer.translate_errors():
            return add_files(
                *(self._table, self.opened, folder, partitions, self.storage, self.retries),
                check_duplicates=check_duplicates,
                only=files,
            )

    def files_of_snapshots(self, snapshots: Sequence[int]) -> Sequence[SnapshotFiles]:
        """Return the files of snapshots (ids), split into parts for workers; see `split_expired_files`."""
        return split_expired_files(self.opened, snapshots)

    def expire(
        self,
        older_than: datetime | None,
        retain_last: int | None = None,
        *,
        dry_run: bool = False,
        snapshots: Sequence[int] = (),
    ) -> ExpireResult:
        """Expire the given snapshots, and those older than a timestamp that no branch or tag retains.

        After a concurrent commit, the snapshots to expire are computed again from the reloaded table. Raises
        `CommitConflict` after the last attempt.
        """
        if retain_last is not None and (not isinstance(retain_last, Integral) or retain_last < 1):
            raise InvalidOption(f"retain_last={retain_last!r}: it must be a whole number of at least 1")
        target, now, attempts = self, datetime.now(UTC), Attempts(self.retries)
        if older_than is not None and older_than > now + _SKEW:
            _LOG.warning(
                "expire_snapshots: %s is in the future: every snapshot expires that no branch or tag retains",
                older_than,
            )
        self.check_owned("expiring snapshots of")
        before = None if older_than is None else to_millis(older_than)
        while True:
            metadata = target.opened.metadata
            retention = Retention.create(metadata.table_properties, to_millis(now), before, retain_last)
            expired = retention.find_expiration(metadata).add_snapshots(snapshots, metadata)
            result = ExpireResult(tuple(sorted(expired.snapshots)), tuple(sorted(expired.refs)), dry_run)
            if dry_run or not result:
                return result
            with self.committer.translate_errors():
                failure = commit_expiry(copy(target._table), target.opened, expired, self.storage)
            if failure is None:
                return result
            wait_before_retry(attempts, self.name, failure)
            target = target.reopen()

    def _commit(self) -> IcebergCommit:
        options, reporter = self.options, self.committer.reporter()
        return IcebergCommit(
            self._table,
            self.writes,
            self.opened,
            options.branch,
            options.commit_properties,
            options.transaction,
            options.wap_id,
            self.added,
            None if reporter is None else partial(self._report, reporter),
        )

    def _report(
        self, reporter: Callable[[CommitReport], None], new: NewSnapshot, attempts: int, seconds: float
    ) -> None:
        engine = {"engine-name": "lakescan", "engine-version": own_version(), "lakescan-version": own_version()}
        report = CommitReport(
            *(self.name, new.snapshot_id, new.sequence_number, new.operation, attempts, seconds),
            summary=dict(new.summary),
            metadata=engine,
        )
        reporter(report)

    def mode_of(self, statement: RowLevelCommand) -> RowLevelOperationMode:
        """Return copy-on-write or merge-on-read, by the option `row-change-mode`, else by the table's properties.

        Raises `UnsupportedFeature` for merge-on-read in format version 1.
        """
        return row_change_mode(statement, self.opened.metadata, self.options)

    @property
    def records_source_rows(self) -> bool:
        """Return False: summaries of snapshots have no such number."""
        return False

    def joins_files(self, mode: RowLevelOperationMode) -> bool:
        """Return True: Iceberg on Spark writes all new rows of a partition to one file."""
        return True

    @property
    def follows_jar(self) -> bool:
        """Whether the session of the statement is enabled for jobs of the JAR."""
        return self.options.session.is_enabled

    def delete_writer(self, write_id: str) -> DeleteWriter:
        """Return the writer of deletion vectors, or of position delete files in format version 2.

        Raises `UnsupportedFeature` in version 1, which has neither. The name of each written file includes `write_id`.
        """
        return IcebergDeletes.create(self.writes, self.opened.metadata, write_id)

    def change(self, changes: RowChanges) -> None:
        """Commit row-level changes; they are retried after concurrent commits that do not conflict with them."""
        with self.committer.translate_errors():
            commit = self._commit()
            read = row_change_validation(changes, commit.base, self.options)
            removed = [each.location for each in changes.removed]
            empty_operation = "overwrite" if changes.reads_rows else "delete"  # as Iceberg on Spark calls it
            commit.change(removed, changes.deletes, changes.files, read, empty_operation)

    def key_writes(self, keys: Sequence[str]) -> EqualityDeleteWrites:
        """Return the settings for writing equality deletes by these key columns.

        Raises `UnsupportedFeature` if such deletes could miss rows; see `EqualityDeleteWrites.create`.
        """
        return EqualityDeleteWrites.create(self.writes, keys, self.name)

    def upsert(self, files: Sequence[WrittenFile], deletes: Sequence[WrittenFile]) -> None:
        """Commit new rows and equality deletes; concurrent changes of rows do not conflict, because no rows were read.

        Raises `CommitConflict` if a concurrent commit changed the partitioning.
        """
        with self.committer.translate_errors():
            self._commit().upsert(files, deletes)

    def equality_deletes(self) -> Sequence[str]:
        """Return the locations of the branch's equality delete files, including those that apply to no data file."""
        return equality_delete_files(self._commit().base, self.storage)

    def replace_equality(self, deletes: Sequence[WrittenDeletes], gone: Sequence[str]) -> None:
        """Commit position deletes instead of the equality delete files `gone`, in a `replace` snapshot.

        Streams skip `replace` snapshots. The commit is retried after concurrent commits that do not conflict with it.
        """
        with self.committer.translate_errors():
            self._commit().replace_equality(deletes, gone)

    @property
    def upserts_by_default(self) -> bool:
        """Whether `write.upsert.enabled` is set, the property of Flink's writer."""
        return self.opened.metadata.table_properties.upserts

    def append_keys(self) -> Sequence[str] | None:
        """Return the identifier fields if the table has `write.upsert.enabled`, so that appends upsert as in Flink.

        Returns None without the property. Raises `UnsupportedFeature` if such a table has no identifier fields, or one
        inside a struct.
        """
        if not self.upserts_by_default:
            return None
        schema = self.scan.snapshot.schema
        names = [schema.path_of[each] for each in schema.identifier_ids]
        if not names or (nested := [name for name in names if name not in schema.names]):
            why = "has no identifier fields (primary key)" if not names else f"has the key {nested[0]!r} in a struct"
            raise UnsupportedFeature(
                f"appending to {self.name}, whose property write.upsert.enabled is true, and which {why}",
                "Set identifier fields by ALTER TABLE, use Table.upsert with keys, or set "
                "'write.upsert.enabled'='false' to append rows without replacing those with the same keys.",
            )
        self.key_writes(names)
        return names

    def with_columns(self, changes: Sequence[TableChange]) -> IcebergTarget:
        """Return a target whose commit also changes the columns.

        Columns that a concurrent commit adds must have the same ids. Raises `InvalidOption` or `UnsupportedFeature` if
        existing rows contradict a change, such as nulls in a column that becomes required.
        """
        before = () if self.added is None else self.added.changes
        made = self.add_same_columns(SchemaEvolution.plan(self._table, self.opened, (*before, *changes)))
        assert made._with_columns is not None
        check_proofs(made._with_columns.draft, self.opened, self.storage)
        return made

    def add_same_columns(self, added: SchemaEvolution) -> IcebergTarget:
        """Return a target of this table whose commit adds columns that another target of it has planned."""
        return replace(self, added=added, _known=self.opened.metadata)

    def commit_columns(self) -> None:
        """Commit the planned column changes, if any, without rows."""
        if self.added is not None:
            self.alter(self.added.changes)

    def with_schema(self, new: TableDefinition, *, repartitions: bool = False) -> IcebergTarget:
        """Return a target whose overwrite also replaces the columns; sort order and properties stay as they are.

        As in `CREATE OR REPLACE TABLE`, columns of the same name and type keep their ids. With `repartitions`, the
        partition spec is replaced too. Raises `UnsupportedFeature` for staged rows, branches and
        `validate-from-snapshot-id`.
        """
        options, doing = self.options, f"overwriteSchema of {self.name}"
        if options.is_staged or options.branch != MAIN:
            raise UnsupportedFeature(
                f"{doing} by rows that are staged, or for the branch {options.branch!r}",
                "All branches share the table's columns: overwrite the branch main.",
            )
        if options.validate_from_snapshot_id is not None:
            raise UnsupportedFeature(
                f"{doing} with validate-from-snapshot-id", "Every concurrent commit conflicts with it: omit the option."
            )
        changes = replace_columns(self._table, new, doing, repartitions=repartitions)
        made = TableReplacement(
            self._table, self.opened, changes, self.storage, summary_properties(options), options.transaction
        )
        return replace(self, _replacement=made)

    @property
    def rules(self) -> Any:
        """The schema and partition spec of `with_schema`, which files must match; None without `with_schema`.

        Without `with_schema`, columns are matched by id, and files keep the partition spec they were written for.
        """
        made = self._replacement
        return None if made is None else (self.writes.schema, made.metadata.spec())

    def check_rules(self, before: Any) -> None:
        """Raise `CommitConflict` if `rules` differ from `before`, the rules that the files were written by."""
        if self.rules != before:
            raise CommitConflict(
                f"{self.name}: another writer changed its columns or partitions during the write. Write the rows again."
            )

    def require_same_table(self, before: TableFormat) -> IcebergTarget:
        """Return this target if its UUID is that of `before`, or `before` has none (format version 1).

        Raises `CommitConflict` if the table was dropped and created again.
        """
        if before.identity not in (None, self.identity):
            raise CommitConflict(f"{self.name} was dropped and recreated since it was opened: open it again")
        return self

    def rewrite_manifests(self) -> ManifestsResult:
        """Rewrite manifests in a `replace` snapshot; commit nothing if there is nothing to rewrite."""
        with self.committer.translate_errors():
            summary = self._commit().rewrite_manifests()
        if summary is None:
            return ManifestsResult(0, 0)
        return ManifestsResult(int(summary["manifests-replaced"]), int(summary["manifests-created"]))

    def rewrite_position_deletes(self, where: str | None, limits: DeleteLimits) -> PositionDeletesResult:
        """Merge small position delete files; from format version 3 on, convert them to deletion vectors.

        `where` limits the rewrite to the data files that match a predicate. Raises `InvalidOption` for staged writes.
        """
        if self.options.is_staged:
            raise InvalidOption(f"{self.name}: wap-id and wap-branch are for new rows only, not for rewritten deletes")
        table = self.scan.file_table()
        chosen = table if where is None else self.scan.where(where).plan().table
        paths = chosen.files["path"].combine_chunks()
        metadata = self.opened.metadata
        writer = IcebergDeletes.create(self.writes, metadata, new_write_id())
        if metadata.format_version > 2:
            found = plan_vectors(table, paths)
        else:
            properties = self.writes.properties
            by_file = properties.delete_granularity == "file"
            found = plan_compaction(table, paths, limits, properties.target_delete_file_size, by_file=by_file)
        if not found.removed:
            return PositionDeletesResult(0, 0, 0, 0)
        written = writer.write_again(found.files)
        files = {each.location: each.details["file"] for each in written}
        with remove_on_failure(self, list(files.values())), self.committer.translate_errors():
            self._commit().rewrite_deletes(found.removed, written, found.sequence_number)
        added = pa.array([each.size for each in files.values()], pa.int64())
        return PositionDeletesResult(len(found.removed), len(files), found.size, pc.sum(added).as_py() or 0)

    def file_rules(self) -> FileRules:
        """Return the folders to search for orphan files: data, metadata, and those of properties inside the location.

        Raises `UnsupportedFeature` if `gc.enabled` is false.
        """
        self.check_owned("removing orphan files of")
        metadata = self.opened.metadata
        named = metadata.table_properties.folders
        inside = [each for each in named if is_in(normal(each), normal(metadata.location))]
        return FileRules(
            location=metadata.location,
            folders=(join(metadata.location, "data"), join(metadata.location, "metadata"), *inside),
            clock_folder=metadata.source.rpartition("/")[0],
            metadata_folder=join(metadata.location, "metadata"),
            partition_names={field.name for spec in metadata.specs.values() for field in spec.fields},
            default_age=timedelta(days=3),
            owned=metadata.own_folders,
            named_by_others=partial(
                self.committer.other_references, storage=self.storage, doing="removing orphan files of"
            ),
        )

    def parts_in_use(self, since: datetime, other_metadata: Sequence[FileEntry]) -> Iterator[ReferencedFiles]:
        """Yield the files in use: those of the metadata file, of groups of manifests, and of tables in the same folder.

        `other_metadata` are the metadata files in the table's folder. `since` is not used.
        """
        yield KnownLocations(pa.array(metadata_locations(self.opened), pa.string()))
        yield from manifest_parts(self.opened)
        yield from map(KnownLocations, neighbour_files(self.opened, other_metadata))

    def reopen(self) -> IcebergTarget:
        """Reload the table; raises `CommitConflict` if another table now has its name."""
        with self.committer.translate_errors():
            now = self._table.catalog.load_table(self.identifier.within)
        check_same_table(self._table, now)
        return replace(self, _table=now, _known=self.opened.metadata if "opened" in self.__dict__ else self._known)
