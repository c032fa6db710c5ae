"""Interfaces that each table format implements: `Format` for its tables, `Target` for a table opened for a write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from lakescan.common.identifiers import Identifier
from lakescan.common.retries import RetryPolicy
from lakescan.common.types import Field
from lakescan.definition.table_definition import TableDeclarations, TableDefinition
from lakescan.errors import UnsupportedFeature
from lakescan.expressions.predicate import Predicate
from lakescan.formats.table_format import TableFormat, TablePath
from lakescan.options.read import ReadOptions
from lakescan.options.session_settings import SessionSettings
from lakescan.options.write import WriteOptions
from lakescan.planning.file_table import FileTable
from lakescan.storage import Storage
from lakescan.storage.allowed_locations import AllowedLocations
from lakescan.storage.encryption import named_key_manager
from lakescan.storage.vended_credentials import VendedCredentials
from lakescan.tables.committer import Committer, TableCreator
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.imported_files import FolderFiles
from lakescan.writing.table_writes import TableWrites, WrittenFile


@dataclass(frozen=True)
class OverwriteScope:
    """The rows that an overwrite replaces.

    These are the rows that match `where`, those in the partitions of the new files (`dynamic`), or all rows.
    """

    where: Predicate | None = None
    dynamic: bool = False


@dataclass(frozen=True)
class RewriteSettings:
    """Settings of a commit that replaces files without changing rows.

    - `deletes`: locations of delete files (and offsets of vectors in them) that apply only to the rewritten data files,
      and are removed with them.
    - `keeps_sequence_number`: whether new files get the sequence number of the base, so that concurrent equality
      deletes apply to them. None: only if there are such deletes. False: such deletes are conflicts.
    - `zorder_by`, `where`, `purges`, `is_full`: the columns of the Z-order, the condition, whether only deleted rows
      are removed, and whether all files are rewritten, for the table's history.
    """

    deletes: Sequence[tuple[str, int | None]] = ()
    keeps_sequence_number: bool | None = None
    zorder_by: Sequence[str] = ()
    where: str | None = None
    purges: bool = False
    is_full: bool = False


AS_NEEDED = RewriteSettings()


@dataclass(frozen=True)
class VacuumEvent:
    """The start or the end of a removal of unreferenced files.

    - `name`: "START" or "END".
    - `parameters`, `metrics`: for the table's history, by name.
    """

    name: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, int]


@dataclass(frozen=True)
class FileRules:
    """The folders of a table's files, and the rules for removing unreferenced files from them.

    - `location`: the table's folder.
    - `folders`: the folders of its data and metadata files, which are searched.
    - `clock_folder`: a folder for a temporary file, whose modification time is the time of the store's clock.
    - `metadata_folder`: a folder that may have metadata files of other Iceberg tables, whose files are kept.
    - `partition_names`: folders named after these partition fields are never hidden.
    - `default_age`: unreferenced files older than this are removed by default.
    - `shown`: prefixes of names that are never hidden.
    - `retention`: the least age of files to remove, and `retention_name`, the property that sets it; if the format has
      one.
    - `shared_metadata`: a folder with metadata of another format for the same files. It is kept if it has metadata
      files, or if `is_shared`.
    - `owned`: the folders whose files belong to the table. Files elsewhere were added from other folders.
    - `named_by_others`: returns the files in a folder that other tables reference.
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
    """A part of the files that a table references. It is pickled for workers."""

    def locations(self) -> Iterator[pa.Array]:
        """Yield the locations of the files, in chunks."""


@runtime_checkable
class ReferenceClaims(ReferencedFiles, Protocol):
    """A part of a log that references files. A later part may remove files that an earlier part added.

    So workers compare the claims of all parts. `locations` assumes that no other part removes its files.
    """

    def claims(self) -> Iterator[pa.Table]:
        """Yield tables with a claim for each reference or removal of a file in this part of the log.

        - `location`: the location of the file.
        - `entry`: a key that claims about the same file share; null if the file is needed in any case.
        - `rank`: of the claims with the same key, the one with the highest rank applies.
        - `holds`: whether the file is needed according to this claim.
        """


class SnapshotFiles(Protocol):
    """A part of the files of some snapshots. Pickled for workers."""

    def files(self) -> Iterator[pa.Table]:
        """Yield tables with the `path` and `kind` of the files.

        Kinds are data, position deletes, equality deletes, manifest, manifest list and statistics.
        """


@dataclass(frozen=True)
class KnownLocations:
    """A `ReferencedFiles` with its locations in memory."""

    chunk: pa.Array

    def locations(self) -> Iterator[pa.Array]:
        """Yield all locations in one chunk."""
        yield self.chunk


class ChangeFiles(Protocol):
    """How a table writes change data files, for commits whose changes readers cannot infer from data files."""

    @property
    def writes(self) -> TableWrites:
        """The settings for change files: the table's columns, then `_change_type` with the format's change types."""

    def as_table(self, files: Sequence[WrittenFile]) -> FileTable:
        """Return written, uncommitted data files as a file table that a scan of the table can plan."""


class Target(Protocol):
    """A table opened for a write, at the snapshot or version that was current then (its base).

    Every target can be read and appended to. Further operations are the protocols of `lakescan.tables.capabilities`.
    """

    @property
    def name(self) -> str:
        """The table's name in messages."""

    @property
    def storage(self) -> Storage:
        """The storage of the table's files."""

    @property
    def writes(self) -> TableWrites:
        """The settings for writing data files of the table: columns, locations and file format."""

    @property
    def scan(self) -> ScanSpec:
        """A scan of the base, the snapshot or version that was opened."""

    @property
    def identity(self) -> str | None:
        """The table's UUID, which differs from that of another table with the same name or location."""

    @property
    def base_state(self) -> Any:
        """The base, as an argument of `files_added_since`: a version, or a set of snapshot ids. It is pickled."""

    def files_added_since(self, base: Any) -> Iterator[pa.Array]:
        """Reopen the table, and yield the locations of all files added since `base`, an earlier `base_state`."""

    @property
    def retries(self) -> RetryPolicy:
        """How often, and after which pauses, a commit is retried after concurrent commits."""

    @property
    def retries_overwrites(self) -> bool:
        """Whether the caller plans an overwrite again after a concurrent commit.

        Otherwise, the target itself retries commits on top of concurrent ones, and a `CommitConflict` is final.
        """

    def has_committed(self) -> bool:
        """Return whether the transaction that the options name was already committed."""

    def append(self, files: Sequence[WrittenFile]) -> None:
        """Commit an append of files.

        Raises `CommitConflict` if the commit definitely failed, `CommitStateUnknown` if its outcome is unknown.
        """

    def reopen(self) -> Target:
        """Reopen the table at its current snapshot or version; raises `CommitConflict` if another table replaced it."""

    @property
    def rules(self) -> Any:
        """The rules that written files depend on besides the columns, as an argument of `check_rules`."""

    def check_rules(self, before: Any) -> None:
        """Raise `CommitConflict` if files that were written under the rules `before` no longer fit the table."""

    def require_same_table(self, before: TableFormat) -> Target:
        """Return this target if it is the table `before`; raise `CommitConflict` if another table replaced it."""

    def refusal(self, capability: Any, what: str) -> UnsupportedFeature | None:
        """Return the error for a capability that the format lacks; None if the format has no specific error for it.

        `capability` is a protocol of `lakescan.tables.capabilities`. `what` is the part of the statement that asks for
        it, such as the mode of GENERATE.
        """


@runtime_checkable
class NewTable(Protocol):
    """A table that its commit creates, or that replaces another one. Nobody sees it before the commit.

    A table to be created can be pickled: on Spark, tasks write its files, and another process commits them.
    """

    @property
    def writes(self) -> TableWrites:
        """The settings for writing data files of the table: columns, locations and file format."""

    @property
    def is_new(self) -> bool:
        """Whether the commit creates the table, instead of replacing an existing one."""

    def set_transaction(self, application: str, number: int) -> NewTable:
        """Return the table with the id of a transaction, which its commit records. Only for a table to be created."""

    def apply_session(self, session: SessionSettings) -> NewTable:
        """Return the table with the settings of a session (write-audit-publish); raises `InvalidOption`."""

    def commit(self, files: Sequence[WrittenFile]) -> None:
        """Create or replace the table, with these files.

        Raises `CommitStateUnknown` if the commit may have succeeded. After any other error, such as
        `CreatedConcurrently` or `CommitConflict`, it has not, and will not later.
        """

    def referenced_locations(self) -> Iterator[pa.Array]:
        """Yield the locations of the files of the table that currently has the name or location, if there is one."""

    def adopt_files(self, folder: str, found: FolderFiles | None) -> tuple[NewTable, Sequence[WrittenFile]]:
        """Return the table with existing files of a folder, and these files to commit. The table does not own them.

        `found` are the folder's files if they were listed already. Columns of files without field ids are matched by
        name. Raises `SchemaMismatch` for files whose columns do not fit, `InvalidOption` if the table would be in the
        same folder, and `UnsupportedFeature`.
        """


@dataclass(frozen=True)
class CatalogTable:
    """A table in a catalog: its format and location (for Iceberg, the current metadata file).

    - `io_properties`: properties for access to its files, with secrets.
    - `key_manager`: the name of the catalog's key manager.
    - `source`: asks the catalog for the location again; None for a table whose location never changes.
    - `vended`: credentials that the catalog issued.
    - `allowed_locations`: the catalog's property `allowed-locations`.
    """

    format: str
    location: str
    io_properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    key_manager: str | None = None
    source: Any = None
    vended: VendedCredentials | None = None
    allowed_locations: tuple[str, ...] | None = None

    def location_allowlist(self, more: Sequence[str] | None = None) -> AllowedLocations:
        """Return the locations that the table's metadata may lead to.

        These are the table's own location, the catalog's property `allowed-locations`, and those of `more`.
        """
        given = [each for each in (self.allowed_locations, more) if each is not None]
        prefixes = [prefix for each in given for prefix in each] if given else None
        return AllowedLocations().at(self.location, prefixes, is_named=False)

    def storage(self) -> Storage:
        """Return access to the table's files."""
        return Storage(
            io_properties=self.io_properties,
            key_manager=None if self.key_manager is None else named_key_manager(self.key_manager),
            vended=self.vended,
            allowed=self.location_allowlist(),
        )


class Format(Protocol):
    """A table format: how its tables are found, opened, created and written. There is one instance per format."""

    @property
    def name(self) -> str:
        """The format's name, as users and catalogs write it: 'iceberg' or 'delta'."""

    @property
    def marker(self) -> str:
        """The file or folder that identifies a folder as a table of this format, for messages."""

    @property
    def is_written_by_location(self) -> bool:
        """Whether tables can be created and written by their folder, not only by a name in a catalog."""

    @property
    def is_replaced_by_location(self) -> bool:
        """Whether a table in a folder without a catalog can be replaced, and keeps its history."""

    @property
    def takes_catalog_defaults(self) -> bool:
        """Whether new tables take the properties `table-default.*` and `table-override.*` of their catalog."""

    def is_metadata_file(self, location: str) -> bool:
        """Return whether a location is, by its name, a metadata file that can be opened."""

    def is_at(self, location: str, storage: Storage) -> bool:
        """Return whether a folder has metadata of the format."""

    def find(self, path: str, storage: Storage, options: ReadOptions) -> TablePath | None:
        """Return the table at a path, and the version, time or partitions that the path selects.

        None if the format has no table there.
        """

    def at(self, path: str, storage: Storage, options: ReadOptions) -> TablePath:
        """Parse a path as this format does, whether or not it leads to a table; never returns None."""

    def open(self, path: TablePath, storage: Storage, options: ReadOptions) -> ScanSpec:
        """Open the table at a path; raises `NotATable`."""

    def open_named(self, name: Identifier, found: CatalogTable, storage: Storage, options: ReadOptions) -> ScanSpec:
        """Open a table that the catalog entry `found` describes."""

    def open_target(
        self,
        location: str,
        committer: Committer,
        options: WriteOptions,
        storage: Storage,
        known: TableFormat | None = None,
    ) -> Target:
        """Open a table for a write, by its location and its committer.

        `known` is the table as it was opened before, whose metadata is reused if it is still current. Raises
        `NotATable`, and `UnsupportedFeature` if the format needs a catalog.
        """

    def columns(self, rows: pa.Schema, properties: Mapping[str, str]) -> tuple[Field, ...]:
        """Return the columns of a new table for rows with this schema; raises `UnsupportedFeature`."""

    def create(self, committer: TableCreator, definition: TableDefinition) -> None:
        """Create an empty table in a catalog; raises `CreatedConcurrently`."""

    def create_at(self, location: str, definition: TableDefinition, storage_options: Mapping[str, Any]) -> None:
        """Create an empty table in a folder; raises `CreatedConcurrently` and `UnsupportedFeature`."""

    def replace(self, committer: TableCreator, found: CatalogTable, definition: TableDefinition) -> None:
        """Replace a table of this format by an empty one with the same name; raises `CommitConflict`."""

    def new_table(self, committer: TableCreator, definition: TableDefinition, options: WriteOptions) -> NewTable:
        """Return a table to be created together with its rows; raises `NoSuchNamespace`; see `create`."""

    def new_table_at(
        self, location: str, definition: TableDefinition, options: WriteOptions, storage_options: Mapping[str, Any]
    ) -> NewTable:
        """Return a table to be created in a folder together with its rows; see `create_at`."""

    def replacement(
        self, committer: TableCreator, found: CatalogTable, definition: TableDefinition, options: WriteOptions
    ) -> NewTable:
        """Return a table, with rows, that is to replace a table of this format; see `replace`."""

    def declarations(self, scan: ScanSpec) -> TableDeclarations:
        """Return the column rules, clustering columns and constraints of the table of a scan."""

    def register(self, committer: TableCreator, scan: ScanSpec) -> None:
        """Add the table of a scan to a catalog under a name; raises `TableExists`."""
