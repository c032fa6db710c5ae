"""Committers of tables in catalogs and of tables without a catalog, which are committed by version files.

They implement `lakescan.tables.committer`.
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
        """The connection to the catalog."""
        raise NotImplementedError

    def translate_errors(self) -> AbstractContextManager[None]:
        """Context manager: re-raise the catalog's errors as lakescan errors."""
        return translate_catalog_errors(self.identifier)

    def reporter(self) -> Callable[[CommitReport], None] | None:
        """Return the function that sends commit reports to the reporters of the process and of the catalog, if any."""
        from lakescan.catalogs.metrics import report_commit, wants_commits

        return partial(report_commit, self.identifier) if wants_commits(self.identifier) else None

    def other_references(self, folder: str, storage: Storage, doing: str) -> Iterator[pa.Array]:
        """Yield the locations of the files of the catalog's other tables that may share `folder`.

        `doing` names the operation for error messages.
        """
        from lakescan.catalogs.shared_files import referenced_files, tables_that_may_share

        with self.translate_errors():
            others = tables_that_may_share(self.catalog, self.identifier, [folder], doing)
        yield from referenced_files(others, storage)


@dataclass(frozen=True)
class FolderCommitter(_TableCommitter):
    """Commits to a table without a catalog, by creating the next metadata version file in its folder."""

    _storage: Storage = field(repr=False)

    @property
    def catalog(self) -> Any:
        """The `HadoopTables` that open tables by their folders."""
        from lakescan.catalogs.hadoop import tables_in

        return tables_in(self._storage)

    @property
    def key_manager(self) -> str | None:
        """Always None: the key manager is that of the storage."""
        return None

    def storage(self, table: Any) -> Storage:
        """Return the storage that the folder was opened with."""
        return self._storage


@dataclass(frozen=True)
class CatalogCommitter(_TableCommitter):
    """Commits to a table by its name in a catalog; also creates and registers tables. Pickled as the name only."""

    @property
    def catalog(self) -> Any:
        """This process's connection to the catalog."""
        return connection(self.identifier.catalog)

    @property
    def key_manager(self) -> str | None:
        """The catalog's property `key-manager`."""
        return key_manager_name(self.identifier.catalog)

    def storage(self, table: Any) -> Storage:
        """Return a storage with the table's properties and the credentials that the catalog vends for the table."""
        return Storage(
            io_properties=storage_properties(table.io.properties),
            key_manager=key_manager_of(self.identifier.catalog),
            vended=credentials_for(self.catalog, table),
            allowed=location_limits(self.identifier.catalog, table.metadata_location),
        )

    @property
    def allowed_locations(self) -> AllowedLocations:
        """The catalog's property `allowed-locations`."""
        return location_limits(self.identifier.catalog)

    def check_free(self) -> None:
        """Raise `TableExists` or `CreatedConcurrently` if a view or a table of any format has the name."""
        check_free(self.identifier)

    def check_namespace(self) -> None:
        """Raise `NoSuchNamespace` if the catalog lacks the table's namespace."""
        check_namespace_exists(self.identifier)

    def check_location(self, location: str | None) -> None:
        """Check that pyiceberg can create the table's folder from its name or from the given location.

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
        """Make a change in the catalog; see `lakescan.catalogs.lost_answers.commit_change`."""
        from lakescan.catalogs.lost_answers import commit_change

        return commit_change(doing, change, is_made, repeated=repeated)

    def register_metadata(self, location: str, content: bytes) -> None:
        """Register a metadata file with the given content as the table's; raises `TableExists`.

        Catalogs may not read the file before the table is registered, so its content is checked here.
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
        """Register the name of a Delta table for the folder `location`."""
        from lakescan.catalogs.delta_names import DeltaNames

        with self.translate_errors():
            DeltaNames(self.catalog).add(self.identifier.within, location)

    def place_table(self, location: str | None) -> TablePlace:
        """Choose the folder of a new table: one under the warehouse, or the one that a Unity Catalog assigns."""
        from lakescan.catalogs.create import place_table

        return place_table(self.catalog, self.identifier, location)

    def name_table(self, location: str, storage: Storage) -> AbstractContextManager[None]:
        """Context manager: register a table while its body creates it.

        A Unity Catalog registers the table after the body, other catalogs before it.
        """
        from lakescan.catalogs.create import name_table

        return name_table(self.catalog, self.identifier, location, storage)


def committer_of(name: Identifier | None, location: str, storage: Storage) -> Committer:
    """Return the committer of a named table or, if `name` is None, of the table in the folder `location`."""
    return FolderCommitter(Identifier.of_path(location), storage) if name is None else CatalogCommitter(name)
