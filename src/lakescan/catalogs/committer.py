"""What catalogs do for their tables (`lakescan.tables.committer`), and version files for tables without a catalog."""

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
    """What is the same for all tables: errors, reports, and the files of other tables."""

    identifier: Identifier

    @property
    def catalog(self) -> Any:
        """The connection to the catalog."""
        raise NotImplementedError

    def translate_errors(self) -> AbstractContextManager[None]:
        """Raise errors of the catalog as those of lakescan."""
        return translate_catalog_errors(self.identifier)

    def reporter(self) -> Callable[[CommitReport], None] | None:
        """The reporters of the process and of the catalog."""
        from lakescan.catalogs.metrics import report_commit, wants_commits

        return partial(report_commit, self.identifier) if wants_commits(self.identifier) else None

    def other_references(self, folder: str, storage: Storage, doing: str) -> Iterator[pa.Array]:
        """Open all other tables of the catalog; return the files of those that may share the folder."""
        from lakescan.catalogs.shared_files import referenced_files, tables_that_may_share

        with self.translate_errors():
            others = tables_that_may_share(self.catalog, self.identifier, [folder], doing)
        yield from referenced_files(others, storage)


@dataclass(frozen=True)
class FolderCommitter(_TableCommitter):
    """Commits to a table that no catalog has, by creating its next version file in its folder."""

    _storage: Storage = field(repr=False)

    @property
    def catalog(self) -> Any:
        """Tables by their folders."""
        from lakescan.catalogs.hadoop import tables_in

        return tables_in(self._storage)

    @property
    def key_manager(self) -> str | None:
        """None: the key manager is that of the storage."""
        return None

    def storage(self, table: Any) -> Storage:
        """The storage that the folder was opened with."""
        return self._storage


@dataclass(frozen=True)
class CatalogCommitter(_TableCommitter):
    """Commits to a table by its name in a catalog; also creates and registers it. Pickled as the name."""

    @property
    def catalog(self) -> Any:
        """The connection that this process has to the catalog."""
        return connection(self.identifier.catalog)

    @property
    def key_manager(self) -> str | None:
        """The catalog's property `key-manager`."""
        return key_manager_name(self.identifier.catalog)

    def storage(self, table: Any) -> Storage:
        """Access by the table's properties, and by the credentials that the catalog has issued."""
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
        """Ask for views, Delta tables, and tables of other formats of the name."""
        check_free(self.identifier)

    def check_namespace(self) -> None:
        """Ask the catalog for the namespace."""
        check_namespace_exists(self.identifier)

    def check_location(self, location: str | None) -> None:
        """Check that pyiceberg makes a folder of the name, and writes to the location as it is."""
        name, catalog = self.identifier, self.catalog
        if location is None and not is_rest(catalog):
            folder_of("", *name.within)  # pyiceberg makes one of the name
        where = location or "/".join((str(catalog.properties.get("warehouse", "")), *name.within))
        if any(letter in where for letter in "?#"):
            raise UnsupportedFeature(
                f"the Iceberg table {name} at {where}",
                "pyiceberg, which creates it, cuts locations at ? or # and would write elsewhere. Give the table "
                "another name, or a location without these characters.",
            )

    def commit_change(
        self,
        doing: str,
        change: Callable[[], T],
        is_made: Callable[[], bool | None],
        *,
        repeated: tuple[type[Exception], ...] = (),
    ) -> T | None:
        """Make a change; see `lakescan.catalogs.lost_answers.commit_change`."""
        from lakescan.catalogs.lost_answers import commit_change

        return commit_change(doing, change, is_made, repeated=repeated)

    def register_metadata(self, location: str, content: bytes) -> None:
        """Register a metadata file; catalogs may look at it only once it has the name."""
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
        """Keep the name next to the catalog's own."""
        from lakescan.catalogs.delta_names import DeltaNames

        with self.translate_errors():
            DeltaNames(self.catalog).add(self.identifier.within, location)

    def place_table(self, location: str | None) -> TablePlace:
        """Choose a folder under the warehouse, or let the server of a Unity Catalog choose it."""
        from lakescan.catalogs.create import place_table

        return place_table(self.catalog, self.identifier, location)

    def name_table(self, location: str, storage: Storage) -> AbstractContextManager[None]:
        """Name the table: in a Unity Catalog once it is written, in others before."""
        from lakescan.catalogs.create import name_table

        return name_table(self.catalog, self.identifier, location, storage)


def committer_of(name: Identifier | None, location: str, storage: Storage) -> Committer:
    """Return what commits to the table of a name or, without a name, to the table in a folder."""
    return FolderCommitter(Identifier.of_path(location), storage) if name is None else CatalogCommitter(name)
