"""What a catalog does for its tables: `Committer` for one that is written to, `TableCreator` for one that is created.

Formats commit through these, and do not know which catalogs there are.
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
    """What a catalog does for one of its tables while the table is written to. A folder without a catalog has one, too.

    That of a catalog can be pickled: another process commits by the catalog that it knows by the name.
    """

    @property
    def identifier(self) -> Identifier:
        """The table's name, or its location if no catalog has it."""

    @property
    def catalog(self) -> Any:
        """The connection to the catalog, an object of pyiceberg's; raises `NoSuchCatalog` and `MissingDependency`."""

    @property
    def key_manager(self) -> str | None:
        """The name of the catalog's key manager; None if it has none."""

    def storage(self, table: Any) -> Storage:
        """Return access to the files of a table (pyiceberg's), as the catalog grants it."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """Return a context manager that raises errors of the catalog as those of lakescan."""

    def reporter(self) -> Callable[[CommitReport], None] | None:
        """Return a function that takes reports of commits; None if nobody receives them."""

    def other_references(self, folder: str, storage: Storage, doing: str) -> Iterator[pa.Array]:
        """Return the locations of files that other tables of the catalog reference, if they may be in a folder.

        Raises `UnsupportedFeature` if another table cannot be opened; `doing` begins its message.
        """


@dataclass(frozen=True)
class TablePlace:
    """Where a new table is to be that is known by its folder, and what its catalog requires of it.

    - `properties`: values that table properties must have; None for a property that must have some value.
    - `features`: the table features that the table must have.
    """

    location: str
    storage: Storage
    properties: Mapping[str, str | None] = field(default_factory=dict)
    features: Collection[str] = ()


class TableCreator(Committer, Protocol):
    """What a catalog does for a table that is created in it, replaced, or registered."""

    @property
    def allowed_locations(self) -> AllowedLocations:
        """The locations that tables of the catalog may lead to."""

    def check_free(self) -> None:
        """Raise `TableExists` if a view or a table of another format has the name; see `CreatedConcurrently`."""

    def check_namespace(self) -> None:
        """Raise `NoSuchNamespace` if the catalog does not have the namespace of the table."""

    def check_location(self, location: str | None) -> None:
        """Raise `InvalidOption` or `UnsupportedFeature` if the catalog cannot create a table there, or under its name.

        `location` is None for the place that the catalog chooses.
        """

    def commit_change(
        self,
        doing: str,
        change: Callable[[], T],
        is_made: Callable[[], bool | None],
        *,
        repeated: tuple[type[Exception], ...] = (),
    ) -> T | None:
        """Make a change in the catalog, and look its outcome up if the answer is lost.

        `is_made` tells whether the change was made; None if it may still be. `repeated` are errors that the catalog
        answers to a request that came twice. Raises `CommitStateUnknown`.
        """

    def register_metadata(self, location: str, content: bytes) -> None:
        """Give the table of a metadata file the name.

        Raises `TableExists`, `CommitStateUnknown`, and `CorruptMetadata` for a file that the catalog could not read.
        """

    def register_folder(self, location: str) -> None:
        """Give the table in a folder the name; raises `TableExists`, `CommitStateUnknown`, `UnsupportedFeature`."""

    def place_table(self, location: str | None) -> TablePlace:
        """Choose the folder of a new table: the location, by default one under the catalog's warehouse.

        Raises `NoSuchNamespace`, `TableExists`, `StorageError`, and `UnsupportedFeature` for a catalog that cannot have
        tables that are known by their folders.
        """

    def name_table(self, location: str, storage: Storage) -> AbstractContextManager[None]:
        """Return a context manager that gives the table that is created within it, in a placed folder, its name.

        Without a table, the name is free again. Raises `CreatedConcurrently`, `CommitStateUnknown`, `StorageError`.
        """
