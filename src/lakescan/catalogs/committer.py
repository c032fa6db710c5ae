"""Committers: commit to tables by their names in catalogs, or without a catalog by version files in the table's folder.

They implement the protocols `Committer` and `TableCreator` of `lakescan.tables.committer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from lakescan.catalogs.lookup import check_free, check_namespace_exists, translate_catalog_errors
from lakescan.catalogs.registry import connection, key_manager_name, key_manager_of, location_limits
from lakescan.catalogs.rest_credentials import credentials_for
from lakescan.catalogs.rest_session import is_rest
from lakescan.common.identifiers import Identifier, folder_of
from lakescan.errors import TableExists, UnsupportedFeature
from lakescan.planning.scan_report import CommitReport
from lakescan.storage import Storage
from lakescan.storage.allowed_locations import AllowedLocations
from lakescan.storage.settings.catalog_properties import storage_properties
from lakescan.tables.committer import Committer, TablePlace

T = TypeVar("T")


@dataclass(frozen=True)
class _TableCommitter:
    """Base of the committers: translates errors, reports commits, and lists the files of the catalog's other tables."""

    identifier: Identifier

    @property
    def catalog(self) -> Any:
        """The pyiceberg catalog that loads and commits the table. Subclasses override it."""
        raise NotImplementedError

    def translate_errors(self) -> AbstractContextManager[None]:
        """Context manager: re-raise the catalog's errors as lakescan errors; see `lookup.translate_catalog_errors`."""
        return translate_catalog_errors(self.identifier)

    def reporter(self) -> Callable[[CommitReport], None] | None:
        """Return the function that sends commit reports to the reporters of the process and the catalog, or None."""
        from lakescan.catalogs.metrics import report_commit, wants_commits

        return partial(report_commit, self.identifier) if wants_commits(self.identifier) else None

    def other_references(self, folder: str, storage: Storage, doing: str) -> Iterator[pa.Array]:
        """Yield the locations of all files that the catalog's other tables reference, if they may share `folder`.

        A table may share the folder if a folder of its own overlaps it, or if it does not own its files. `doing` starts
        the error message, such as "dropping". Raises `UnsupportedFeature` if another table cannot be opened.
        """
        from lakescan.catalogs.shared_files import referenced_files, tables_that_may_share

        with self.translate_errors():
            others = tables_that_may_share(self.catalog, self.identifier, [folder], doing)
        yield from referenced_files(others, storage)


@dataclass(frozen=True)
class FolderCommitter(_TableCommitter):
    """Commits to a table without a catalog, by creating the next metadata version file in its folder.

    `_storage` is the storage that the folder was opened with.
    """

    _storage: Storage = field(repr=False)

    @property
    def catalog(self) -> Any:
        """A `HadoopTables`, the pyiceberg catalog that opens tables by their folders."""
        from lakescan.catalogs.hadoop import tables_in

        return tables_in(self._storage)

    @property
    def key_manager(self) -> str | None:
        """Always None: the storage has the key manager."""
        return None

    def storage(self, table: Any) -> Storage:
        """Return the storage that the folder was opened with; `table` is ignored."""
        return self._storage


@dataclass(frozen=True)
class CatalogCommitter(_TableCommitter):
    """Commits to a table by its name in a catalog; also creates and registers tables.

    Pickling keeps only the name, so each process commits through its own connection.
    """

    @property
    def catalog(self) -> Any:
        """This process's connection to the catalog; raises `NoSuchCatalog` and `MissingDependency`."""
        return connection(self.identifier.catalog)

    @property
    def key_manager(self) -> str | None:
        """The import name of the key manager, the catalog's property `key-manager`; None if it is not set."""
        return key_manager_name(self.identifier.catalog)

    def storage(self, table: Any) -> Storage:
        """Return a storage with a pyiceberg table's FileIO properties, and its credentials from the catalog."""
        return Storage(
            io_properties=storage_properties(table.io.properties),
            key_manager=key_manager_of(self.identifier.catalog),
            vended=credentials_for(self.catalog, table),
            allowed=location_limits(self.identifier.catalog, table.metadata_location),
        )

    @property
    def allowed_locations(self) -> AllowedLocations:
        """The limits in the catalog's property `allowed-locations`; nothing is refused if it is not set."""
        return location_limits(self.identifier.catalog)

    def check_free(self) -> None:
        """Raise an error if the name of a new table is taken; see `lakescan.catalogs.lookup.check_free`.

        Raises `TableExists` for a view or a table of an unsupported format, and `CreatedConcurrently` for a Delta
        table. An Iceberg table is not detected here.
        """
        check_free(self.identifier)

    def check_namespace(self) -> None:
        """Raise `NoSuchNamespace` if the catalog lacks the table's namespace, `StorageError` if it does not respond."""
        check_namespace_exists(self.identifier)

    def check_location(self, location: str | None) -> None:
        """Check that pyiceberg can create the table's folder, from its name or at `location`.

        Raises `InvalidOption` for a name that cannot be a folder, and `UnsupportedFeature` for a location with `?` or
        `#`, which pyiceberg would truncate.
        """
        name, catalog = self.identifier, self.catalog
        if location is None and not is_rest(catalog):
            folder_of("", *name.within)  # pyiceberg creates a folder with the table's name
        where = location or "/".join((str(catalog.properties.get("warehouse", "")), *name.within))
        if any(letter in where for letter in "?#"):
            raise UnsupportedFeature(
                f"the Iceberg table {name} at {where}",
                "pyiceberg, which creates the table, truncates locations at ? or # and would write elsewhere. Give the "
                "table another name, or a location without these characters.",
            )

    def commit_change(
        self,
        doing: str,
        change: Callable[[], T],
        is_made: Callable[[], bool | None],
        *,
        repeated: tuple[type[Exception], ...] = (),
    ) -> T | None:
        """Make a change in the catalog, and look up its outcome if the response is lost.

        See `lakescan.catalogs.lost_answers.commit_change` for the parameters and errors.
        """
        from lakescan.catalogs.lost_answers import commit_change

        return commit_change(doing, change, is_made, repeated=repeated)

    def register_metadata(self, location: str, content: bytes) -> None:
        """Register the metadata file at `location`, whose bytes are `content`, as the Iceberg table of this name.

        Raises `TableExists`, `CommitStateUnknown`, and `CorruptMetadata` if pyiceberg cannot read `content`. Catalogs
        may not read the file before they register the table.
        """
        from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

        from lakescan.catalogs.responses import check_readable

        name, catalog = self.identifier, self.catalog
        check_readable(content, location)

        def is_made() -> bool | None:
            try:
                now = catalog.load_table(name.within)
            except NoSuchTableError:
                return None
            return location in (now.metadata_location, *(each.metadata_file for each in now.metadata.metadata_log))

        with self.translate_errors():
            try:
                self.commit_change(
                    f"registering {name}", lambda: catalog.register_table(name.within, location), is_made
                )
            except TableAlreadyExistsError as error:
                raise TableExists(f"{name} already exists") from error

    def register_folder(self, location: str) -> None:
        """Register the folder `location` as the Delta table of this name.

        Raises `TableExists`, `CommitStateUnknown`, and `UnsupportedFeature` if the catalog cannot register Delta
        tables.
        """
        from lakescan.catalogs.delta_names import DeltaNames

        with self.translate_errors():
            DeltaNames(self.catalog).add(self.identifier.within, location)

    def place_table(self, location: str | None) -> TablePlace:
        """Choose the folder of a new Delta table: `location`, or one of the catalog; see `create.place_table`.

        Raises `NoSuchNamespace`, `TableExists`, `StorageError`, and `UnsupportedFeature` if the catalog cannot register
        Delta tables.
        """
        from lakescan.catalogs.create import place_table

        return place_table(self.catalog, self.identifier, location)

    def name_table(self, location: str, storage: Storage) -> AbstractContextManager[None]:
        """Context manager: register the Delta table that its body creates in the folder `location`.

        A Unity Catalog registers the table after the body, other catalogs before it. `storage` is that of
        `place_table`. Raises `CreatedConcurrently`, `CommitStateUnknown`, `StorageError`.
        """
        from lakescan.catalogs.create import name_table

        return name_table(self.catalog, self.identifier, location, storage)


def committer_of(name: Identifier | None, location: str, storage: Storage) -> Committer:
    """Return a `CatalogCommitter` for `name` or, if it is None, a `FolderCommitter` for the folder `location`."""
    return FolderCommitter(Identifier.of_path(location), storage) if name is None else CatalogCommitter(name)
