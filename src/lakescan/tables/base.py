"""What each table format implements: `Format` for its tables, and `Target` for one that is opened for a write."""

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
    """A table opened for a write, at the snapshot or version that was current then (its base).

    It can be read and appended to. What else it can do is in `lakescan.tables.capabilities`.
    """

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

    def has_committed(self) -> bool:
        """Whether the transaction that the options name was already committed."""

    def append(self, files: Sequence[WrittenFile]) -> None:
        """Commit an append.

        Raises `CommitConflict` if the commit definitely failed, `CommitStateUnknown` if its outcome is unknown.
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

    def refusal(self, capability: Any, what: str) -> UnsupportedFeature | None:
        """Return the error for a capability that the format does not have; None for one that it does not know.

        `what` is the part of the statement that asks for it, such as the mode of GENERATE.
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
