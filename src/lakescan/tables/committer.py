"""Interfaces to catalogs: `Committer` for a table that is written, `TableCreator` for a table that is created.

Formats commit through these interfaces, and do not depend on particular catalogs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from lakescan.common.identifiers import Identifier
from lakescan.planning.scan_report import CommitReport
from lakescan.storage import Storage
from lakescan.storage.allowed_locations import AllowedLocations

T = TypeVar("T")


class Committer(Protocol):
    """What a write needs of its table's catalog: connection, keys, file access, errors, reports, and other tables.

    A table in a folder without a catalog has a committer, too. The committer of a catalog can be pickled: another
    process commits through the catalog of the same name.
    """

    @property
    def identifier(self) -> Identifier:
        """The table's name, or its location if it is not in a catalog."""

    @property
    def catalog(self) -> Any:
        """The pyiceberg connection to the catalog; raises `NoSuchCatalog` and `MissingDependency`."""

    @property
    def key_manager(self) -> str | None:
        """The name of the catalog's key manager; None without one."""

    def storage(self, table: Any) -> Storage:
        """Return access to the files of a pyiceberg table, as the catalog grants it."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """Return a context manager that re-raises errors of the catalog as lakescan errors."""

    def reporter(self) -> Callable[[CommitReport], None] | None:
        """Return a function that takes commit reports; None without reporters."""

    def other_references(self, folder: str, storage: Storage, doing: str) -> Iterator[pa.Array]:
        """Yield the locations of files in a folder that other tables of the catalog may reference.

        Raises `UnsupportedFeature` if another table cannot be opened; its message begins with `doing`.
        """


@dataclass(frozen=True)
class TablePlace:
    """The folder for a new table that is identified by its folder, and the requirements of its catalog.

    - `properties`: table properties with their required values; None for a property that must have some value.
    - `features`: table features that the table must have.
    """

    location: str
    storage: Storage
    properties: Mapping[str, str | None] = field(default_factory=dict)
    features: Collection[str] = ()


class TableCreator(Committer, Protocol):
    """The operations of a catalog to create, replace or register a table."""

    @property
    def allowed_locations(self) -> AllowedLocations:
        """The locations that metadata of the catalog's tables may lead to."""

    def check_free(self) -> None:
        """Raise `TableExists` if a view, or a table of another format, already has the name."""

    def check_namespace(self) -> None:
        """Raise `NoSuchNamespace` if the namespace of the table does not exist."""

    def check_location(self, location: str | None) -> None:
        """Raise `InvalidOption` or `UnsupportedFeature` if the catalog cannot create a table there, or under its name.

        `location` is None for the folder that the catalog chooses.
        """

    def commit_change(
        self,
        doing: str,
        change: Callable[[], T],
        is_made: Callable[[], bool | None],
        *,
        repeated: tuple[type[Exception], ...] = (),
    ) -> T | None:
        """Make a change in the catalog; return its result, None if the response was lost but the change was made.

        - `doing`: describes the change for messages.
        - `is_made`: looks up whether the change was made; None if it may still be.
        - `repeated`: errors that the catalog returns for a request that it received twice.

        Raises the errors of `change`, and `CommitStateUnknown` if the outcome cannot be determined.
        """

    def register_metadata(self, location: str, content: bytes) -> None:
        """Add the Iceberg table with this metadata file, and its content, to the catalog under the name.

        Raises `TableExists`, `CommitStateUnknown`, and `CorruptMetadata` for a file that the catalog could not read.
        """

    def register_folder(self, location: str) -> None:
        """Add the table in a folder to the catalog under the name.

        Raises `TableExists`, `CommitStateUnknown`, `UnsupportedFeature`.
        """

    def place_table(self, location: str | None) -> TablePlace:
        """Return the folder of a new table: the given location, or one under the catalog's warehouse.

        Raises `NoSuchNamespace`, `TableExists`, `StorageError`, and `UnsupportedFeature` for a catalog that does not
        support tables that are identified by their folder.
        """

    def name_table(self, location: str, storage: Storage) -> AbstractContextManager[None]:
        """Return a context manager within which a table is created in a folder; it then adds the table to the catalog.

        If no table was created, the name is free again. Raises `CreatedConcurrently`, `CommitStateUnknown`,
        `StorageError`.
        """
