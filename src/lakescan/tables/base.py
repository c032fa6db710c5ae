"""What each table format implements: `Format` for its tables, `Target` to write files and to commit them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from lakescan.common.identifiers import Identifier
from lakescan.common.retries import RetryPolicy
from lakescan.common.types import Field
from lakescan.definition.table_changes import TableChange
from lakescan.definition.table_definition import TableDeclarations, TableDefinition
from lakescan.expressions.predicate import Predicate
from lakescan.formats.table_format import TableFormat, TablePath
from lakescan.options.read import ReadOptions
from lakescan.options.session_settings import SessionSettings
from lakescan.options.write import WriteOptions
from lakescan.planning.file_table import FileTable
from lakescan.storage import FileEntry, Storage
from lakescan.storage.allowed_locations import AllowedLocations
from lakescan.storage.encryption import named_key_manager
from lakescan.storage.vended_credentials import VendedCredentials
from lakescan.tables.committer import Committer, TableCreator
from lakescan.tables.metadata_actions import MetadataFiles, SnapshotManager
from lakescan.tables.results import (
    CheckpointResult,
    ExpireResult,
    GenerateResult,
    ManifestsResult,
    PositionDeletesResult,
    RestoreResult,
)
from lakescan.tables.row_changes import DeleteWriter, RemovedFile, RowChanges, RowLevelCommand, RowLevelOperationMode
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.imported_files import FolderFiles
from lakescan.writing.table_writes import DeleteLimits, TableWrites, WrittenDeletes, WrittenFile


@dataclass(frozen=True)
class OverwriteScope:
    """What an overwrite replaces: the rows that match `where`, or the partitions of its files (`dynamic`), or all."""

    where: Predicate | None = None
    dynamic: bool = False


@dataclass(frozen=True)
class RewriteSettings:
    """How files are rewritten with the same rows.

    - `deletes`: delete files, and the offsets of vectors in them, that apply to no other data files than the rewritten.
    - `keeps_sequence_number`: whether new files have the sequence number of the base, so that equality deletes of
      others since apply to them; None if only where there are such deletes, False if these are conflicts.
    - `zorder_by`: the columns along which rows are ordered, for the table's history.
    """

    deletes: Sequence[tuple[str, int | None]] = ()
    keeps_sequence_number: bool | None = None
    zorder_by: Sequence[str] = ()


AS_NEEDED = RewriteSettings()


@dataclass(frozen=True)
class FileRules:
    """Where the files of a table are, and how long those that it does not reference any more are needed.

    - `location`: the table's folder; `folders`: those with its data and metadata files.
    - `clock_folder`: where a file can be made to learn the time by the store's clock.
    - `partition_names`: folders named after them are never hidden; `shown`: nor are names that begin with one of these.
    - `default_age`: the age from which on unreferenced files are removed by default.
    - `retention`: the age that they must have, and `retention_name` the property that sets it, if the format has one.
    - `shared_metadata`: a folder of another format's metadata of the same files. It is kept if it has metadata files,
      or if `is_shared`.
    - `metadata_folder`: where the metadata files of other Iceberg tables in the same folder are, whose files are kept.
    - `owned`: the folders whose files are the table's own; those elsewhere were added from other folders.
    - `named_by_others`: the files that other tables reference, as far as they may be in a given folder elsewhere.
    """

    location: str
    folders: Sequence[str]
    clock_folder: str
    metadata_folder: str
    partition_names: Collection[str]
    default_age: timedelta
    shown: tuple[str, ...] = ()
    retention: timedelta = timedelta()
    retention_name: str = ""
    shared_metadata: str | None = None
    is_shared: bool = False
    owned: Sequence[str] = ()
    named_by_others: Callable[[str], Iterator[pa.Array]] = lambda folder: iter(())


class ReferencedFiles(Protocol):
    """Some of the files that a table needs. Pickled for workers."""

    def locations(self) -> Iterator[pa.Array]:
        """Their locations, in chunks."""


@runtime_checkable
class ReferenceClaims(ReferencedFiles, Protocol):
    """`ReferencedFiles` of a log: its later parts may withdraw entries of earlier ones, so workers compare entries.

    Its `locations` are those that hold unless another part withdraws them.
    """

    def claims(self) -> Iterator[pa.Table]:
        """What it says, in chunks.

        Columns: `location`; `entry`, the key of what is said, the same for all that is said of it (null: it holds
        anyway); `rank` (the highest counts); and `holds`, whether the file is needed by that.
        """


class SnapshotFiles(Protocol):
    """Some of the files of snapshots. Pickled for workers."""

    def files(self) -> Iterator[pa.Table]:
        """Their `path` and `kind` (data, position deletes, equality deletes, manifest, manifest list or statistics)."""


@dataclass(frozen=True)
class KnownLocations:
    """A `ReferencedFiles` whose locations are known."""

    chunk: pa.Array

    def locations(self) -> Iterator[pa.Array]:
        """All of them."""
        yield self.chunk


class ChangeFiles(Protocol):
    """Files that record the changes of rows, for commits that readers cannot infer them from."""

    @property
    def writes(self) -> TableWrites:
        """How to write them: the table's columns, then `_change_type` (of a row, as the format's readers call it)."""

    def as_table(self, files: Sequence[WrittenFile]) -> FileTable:
        """The rows of data files that are written, but not committed yet: what a scan of the table plans."""


class Target(Protocol):
    """A table opened for a write, at the snapshot or version that was current then (its base)."""

    @property
    def name(self) -> str:
        """The table's name in messages."""

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""

    @property
    def writes(self) -> TableWrites:
        """How to write data files for the table."""

    @property
    def scan(self) -> ScanSpec:
        """A scan of the base."""

    @property
    def identity(self) -> str | None:
        """The table's id, which differs from that of another table with the same name or location."""

    @property
    def base_state(self) -> Any:
        """The base, for `files_added_since`: a version, or a set of snapshot ids. Small: it is sent to workers."""

    def files_added_since(self, base: Any) -> Iterator[pa.Array]:
        """Reopen the table; return the locations of all files added since `base`, an earlier `base_state`."""

    @property
    def retries(self) -> RetryPolicy:
        """How often a commit is repeated after concurrent ones."""

    @property
    def retries_overwrites(self) -> bool:
        """Whether to plan again what to replace, after a commit that failed because of concurrent ones.

        Otherwise, commits go onto concurrent ones themselves, and a `CommitConflict` is final.
        """

    @property
    def has_dynamic_overwrites(self) -> bool:
        """Whether a dynamic overwrite replaces the partitions of its rows; otherwise it replaces the whole table."""

    def append_keys(self) -> Sequence[str] | None:
        """The columns by which appended rows replace those with their keys; None if they are only added.

        Raises `UnsupportedFeature` if the table's properties ask for that and it has no such columns.
        """

    def check_removable(self) -> None:
        """Raise `UnsupportedFeature` if files of the table cannot be replaced."""

    @property
    def change_files(self) -> ChangeFiles | None:
        """How to record the changes of a commit that replaces files in part; None if the table does not."""

    def has_committed(self) -> bool:
        """Whether the transaction that the options name was already committed."""

    def append(self, files: Sequence[WrittenFile]) -> None:
        """Commit an append.

        Raises `CommitConflict` if the commit definitely failed, `CommitStateUnknown` if its outcome is unknown.
        """

    def replace_all(self, removed: Sequence[RemovedFile], files: Sequence[WrittenFile]) -> None:
        """Commit files that replace the whole table; raises `CommitConflict` if the base changed; see `append`."""

    def replace(
        self,
        removed: Sequence[RemovedFile],
        files: Sequence[WrittenFile],
        what: OverwriteScope,
        changes: Sequence[WrittenFile] | None = None,
    ) -> None:
        """Commit files that replace others, which are all that have rows of `what`; see `append`.

        `changes` are change files of all rows that differ, which may be none; None if the files themselves tell.
        Raises `CommitConflict` if another commit changed what this one read.
        """

    def check_rewritable(self) -> None:
        """Raise `UnsupportedFeature` if rows may not be moved to other files without being changed."""

    def rewrite(
        self, removed: Sequence[RemovedFile], files: Sequence[WrittenFile], how: RewriteSettings = AS_NEEDED
    ) -> None:
        """Commit files that hold the same rows as those they replace; see `replace`."""

    def mode_of(self, statement: RowLevelCommand) -> RowLevelOperationMode:
        """How a statement's changes are recorded: by the write options, the table's properties and what it supports."""

    def delete_writer(self, write_id: str) -> DeleteWriter:
        """The writer of deletes by position, for one write: `write_id` tells its files from those of others.

        Raises `UnsupportedFeature` for a table that has none.
        """

    def change(self, changes: RowChanges) -> None:
        """Commit changes of rows; it is retried after concurrent commits that do not conflict with it.

        Raises `CommitConflict` if another commit changed what the statement read, or retries run out; see `append`.
        """

    def key_writes(self, keys: Sequence[str]) -> TableWrites:
        """How to write the keys of rows to delete, whatever files they are in; raises `UnsupportedFeature`."""

    def upsert(self, files: Sequence[WrittenFile], deletes: Sequence[WrittenFile]) -> None:
        """Commit new rows, and deletes of all older rows by files of keys; it is retried after concurrent commits.

        Raises `CommitConflict` if retries run out, or the table is partitioned in another way now; see `append`.
        """

    def equality_deletes(self) -> Sequence[str]:
        """The files of equality deletes of the base; raises `UnsupportedFeature` if the format has none."""

    def replace_equality(self, deletes: Sequence[WrittenDeletes], gone: Sequence[str]) -> None:
        """Commit deletes by position in the place of files of equality deletes (`gone`): the rows stay the same.

        Raises `CommitConflict` if another commit changed the files with these rows, or has added older ones; see
        `append`.
        """

    @property
    def upserts_by_default(self) -> bool:
        """Whether the table's properties say that streams upsert, by such files of keys."""

    def with_columns(self, changes: Sequence[TableChange]) -> Target:
        """The target whose commits change columns with their rows, all or nothing; older rows have nulls in new ones.

        The changes add columns and members of structs, and widen types.

        Commits raise `CommitConflict` if another writer changed the columns meanwhile.
        """

    @property
    def added(self) -> Any:
        """The columns of `with_columns` that a commit is to add, for `adding`; None for none. It is pickled."""

    def add_same_columns(self, added: Any) -> Target:
        """The target that adds the columns that another of the same table adds, with the same ids and names."""

    def commit_columns(self) -> None:
        """Commit the columns of `with_columns` alone, if there are any: for a write that has no rows."""

    def with_schema(self, new: TableDefinition, *, repartitions: bool = False) -> Target:
        """The target of an overwrite that also replaces the columns, and with `repartitions` the partitions.

        Raises `UnsupportedFeature`.
        """

    def reopen(self) -> Target:
        """Reopen the table at its current state; raises `CommitConflict` if another table has replaced it."""

    @property
    def rules(self) -> Any:
        """What written files depend on beside the columns, for `check_rules`; it belongs to the format."""

    def check_rules(self, before: Any) -> None:
        """Raise `CommitConflict` if files written under the rules `before` no longer fit the table."""

    def require_same_table(self, before: TableFormat) -> Target:
        """Return this target if it is the table `before`; raise `CommitConflict` if another has replaced that."""

    def alter(self, changes: Sequence[TableChange]) -> None:
        """Commit changes of columns, layout and properties, in order, as one commit; retried after concurrent ones.

        Each attempt applies them to the table as it is then. Raises `NoSuchColumn`, `InvalidOption` and
        `UnsupportedFeature` for changes that the table cannot have, `CommitConflict` if retries run out,
        `CommitStateUnknown`; nothing is changed then.
        """

    @property
    def snapshots(self) -> SnapshotManager:
        """Its branches, tags and snapshots; raises `UnsupportedFeature` if the format has none."""

    def restore(self, version: int | str | None, timestamp: datetime | None) -> RestoreResult:
        """Make an earlier state the current one, as a new commit: that of a version, or of a time.

        Raises `NoSuchSnapshot` for a state that is not there, `InvalidOption` for the current one, `MissingFile` if
        files of it are gone, `CommitConflict` if another writer changed rows meanwhile; see `append`.
        """

    def expire(
        self,
        older_than: datetime | None,
        retain_last: int | None = None,
        *,
        dry_run: bool = False,
        snapshots: Sequence[int] = (),
    ) -> ExpireResult:
        """Expire snapshots from before a time, except the newest `retain_last` of each branch; and the given snapshots.

        None stands for the table's own properties. Raises `UnsupportedFeature` if the format has nothing to expire,
        `InvalidOption` if nothing would be retained, or a branch or tag names a given snapshot, `NoSuchSnapshot`,
        `CommitConflict`.
        """

    def add_files(
        self,
        folder: str,
        partitions: Mapping[str, str],
        *,
        check_duplicates: bool,
        files: Sequence[str] | None = None,
    ) -> Mapping[str, str]:
        """Add the Parquet files under a folder where they are; return what the new snapshot says of them.

        The partition of a file is that of its folders, of which `partitions` choose some. `files` are the locations of
        those to take, if not all. Raises `InvalidOption` for files that are the table's already, unless
        `check_duplicates` is false; `SchemaMismatch`, `UnsupportedFeature`, `CommitConflict`.
        """

    def files_of_snapshots(self, snapshots: Sequence[int]) -> Sequence[SnapshotFiles]:
        """The files of these snapshots of the base that no others of it have in their lists, in parts.

        Data files may be in the manifests of other snapshots as well. Workers read the parts.
        """

    @property
    def metadata_files(self) -> MetadataFiles:
        """Statistics, and copies of its metadata; raises `UnsupportedFeature` if the format has none."""

    def rewrite_manifests(self) -> ManifestsResult:
        """Rewrite the manifests of the branch; raises `UnsupportedFeature` if the format has none."""

    def rewrite_position_deletes(self, where: str | None, limits: DeleteLimits) -> PositionDeletesResult:
        """Rewrite files of position deletes; raises `UnsupportedFeature` if the format has none, `CommitConflict`."""

    def generate(self, mode: str) -> GenerateResult:
        """Write files by which other engines read the table; raises `InvalidOption` and `UnsupportedFeature`."""

    def checkpoint(self, log_retention: timedelta | None = None) -> CheckpointResult:
        """Write a checkpoint of the newest version; raises `UnsupportedFeature` if the format has none.

        With a `log_retention`, remove older commits before it.
        """

    def file_rules(self) -> FileRules:
        """Where files are, and for how long; raises `UnsupportedFeature` if they may not be removed."""

    def files_removed(self) -> Iterator[pa.Array]:
        """Reopen the table; return the locations of all files that its log says were removed, in any version.

        Raises `UnsupportedFeature` if the format does not keep them.
        """

    def parts_in_use(self, since: datetime, other_metadata: Sequence[FileEntry]) -> Iterator[ReferencedFiles]:
        """Return the locations of all files that this state of the table needs, or needed after `since`, in parts.

        Workers read them. The first part has the files that the table's metadata file names itself; it is empty without
        such a file. `other_metadata` are Iceberg metadata files in its folder: the files of tables that they belong to
        count, too.
        """


@runtime_checkable
class NewTable(Protocol):
    """A table that its commit creates, or puts in the place of another. Nobody sees it before.

    One that its commit creates can be pickled: on Spark, tasks write its files, and another process commits them.
    """

    @property
    def writes(self) -> TableWrites:
        """How to write its data files."""

    @property
    def is_new(self) -> bool:
        """Whether there is no table yet that it replaces."""

    def set_transaction(self, application: str, number: int) -> NewTable:
        """Return the table with rows of a transaction, which its commit records; it is of a table that is new."""

    def apply_session(self, session: SessionSettings) -> NewTable:
        """Return the table with rows that are staged as a session says; raises `InvalidOption`."""

    def commit(self, files: Sequence[WrittenFile]) -> None:
        """Make the table with these files.

        Raises `CommitStateUnknown` if it may be there; after any other error it is not, and will not be, such as
        `CreatedConcurrently` and `CommitConflict`.
        """

    def referenced_locations(self) -> Iterator[pa.Array]:
        """The files of the table that is in its place now, if there is any."""

    def adopt_files(self, folder: str, found: FolderFiles | None) -> tuple[NewTable, Sequence[WrittenFile]]:
        """The table as it has files of others in that folder, none of which it owns; and these, to commit.

        Columns of files without field ids are found by their names. Raises `SchemaMismatch` for files whose columns do
        not fit, `InvalidOption` for a table in the same folder, `UnsupportedFeature`.
        """


@dataclass(frozen=True)
class CatalogTable:
    """A table in a catalog: its format and location (for Iceberg, its current metadata file).

    `io_properties` configure access to its files; they hold secrets, as what the catalog issues does (`vended`).
    `allowed_locations` are those that the reader gives the catalog.
    `key_manager` is the name of the catalog's. `source` asks the catalog for the location again; None for a table whose
    location never changes.
    """

    format: str
    location: str
    io_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    key_manager: str | None = None
    source: Any = None
    vended: VendedCredentials | None = None
    allowed_locations: tuple[str, ...] | None = None

    def location_allowlist(self, more: Sequence[str] | None = None) -> AllowedLocations:
        """What the table may lead to: the catalog's property `allowed-locations`, and what `more` names."""
        given = [each for each in (self.allowed_locations, more) if each is not None]
        prefixes = [prefix for each in given for prefix in each] if given else None
        return AllowedLocations().at(self.location, prefixes, is_named=False)

    def storage(self) -> Storage:
        """Access to its files."""
        return Storage(
            io_properties=self.io_properties,
            key_manager=None if self.key_manager is None else named_key_manager(self.key_manager),
            vended=self.vended,
            allowed=self.location_allowlist(),
        )


class Format(Protocol):
    """A table format: how its tables are found, opened, created and written to. There is one object of each."""

    @property
    def name(self) -> str:
        """The format's name, as users and catalogs write it: 'iceberg' or 'delta'."""

    @property
    def marker(self) -> str:
        """What a table's folder has, for messages."""

    @property
    def is_written_by_location(self) -> bool:
        """Whether tables are created and written to by their folder; else by their name in a catalog alone."""

    def is_metadata_file(self, location: str) -> bool:
        """Whether the location, by its name alone, is a metadata file that can be opened."""

    def is_at(self, location: str, storage: Storage) -> bool:
        """Whether a folder has metadata of the format."""

    def find(self, path: str, storage: Storage, options: ReadOptions) -> TablePath | None:
        """Return the table that a path leads to, and what else the path selects; None if there is none."""

    def at(self, path: str, storage: Storage, options: ReadOptions) -> TablePath:
        """Return what the path means in this format, whether or not there is a table."""

    def open(self, path: TablePath, storage: Storage, options: ReadOptions) -> ScanSpec:
        """Open a table; raises `NotATable`."""

    def open_named(self, name: Identifier, found: CatalogTable, storage: Storage, options: ReadOptions) -> ScanSpec:
        """Open a table that a catalog has."""

    def open_target(
        self,
        location: str,
        committer: Committer,
        options: WriteOptions,
        storage: Storage,
        known: TableFormat | None = None,
    ) -> Target:
        """Open a table to write to, by its location and its committer.

        `known` is the table as it was opened before; its metadata serves again if the table still has it. Raises
        `NotATable`, and `UnsupportedFeature` if the format needs a catalog.
        """

    def columns(self, rows: pa.Schema, properties: Mapping[str, str]) -> tuple[Field, ...]:
        """Return the columns of a new table with these properties for rows; raises `UnsupportedFeature`."""

    def create(self, committer: TableCreator, definition: TableDefinition) -> None:
        """Create a table with a name in a catalog; raises `CreatedConcurrently`."""

    def create_at(self, location: str, definition: TableDefinition, storage_options: Mapping[str, Any]) -> None:
        """Create a table in a folder; raises `CreatedConcurrently`, and `UnsupportedFeature` if it needs a name."""

    def replace(self, committer: TableCreator, found: CatalogTable, definition: TableDefinition) -> None:
        """Replace a table of this format by an empty one of the same name."""

    def new_table(self, committer: TableCreator, definition: TableDefinition, options: WriteOptions) -> NewTable:
        """Return a table to be created with its rows; raises `NoSuchNamespace`, and see `create`."""

    def new_table_at(
        self, location: str, definition: TableDefinition, options: WriteOptions, storage_options: Mapping[str, Any]
    ) -> NewTable:
        """Return a table to be created in a folder with its rows; see `create_at`."""

    def replacement(
        self, committer: TableCreator, found: CatalogTable, definition: TableDefinition, options: WriteOptions
    ) -> NewTable:
        """Return what replaces a table of this format by another with its rows; see `replace`."""

    def declarations(self, scan: ScanSpec) -> TableDeclarations:
        """Return what the table of a scan declares beside columns and properties."""

    def register(self, committer: TableCreator, scan: ScanSpec) -> None:
        """Give the table of a scan a name in a catalog; raises `TableExists`."""
