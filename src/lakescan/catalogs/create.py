"""Chooses the folders of new Delta tables in catalogs, and registers their names."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from lakescan.catalogs.delta_names import DeltaNames
from lakescan.catalogs.hive_metastore import is_hive
from lakescan.catalogs.lookup import check_free, check_namespace_exists, translate_catalog_errors
from lakescan.catalogs.registry import location_limits
from lakescan.catalogs.unity.catalog import UnityCatalog
from lakescan.catalogs.unity.creation import place as unity_place
from lakescan.catalogs.unity.creation import registration as unity_named
from lakescan.common.identifiers import Identifier, folder_of
from lakescan.delta.commit.creation import check_no_table, is_table
from lakescan.errors import (
    CommitStateUnknown,
    CreatedConcurrently,
    InvalidOption,
    TableExists,
    UnsupportedFeature,
)
from lakescan.storage import Storage
from lakescan.storage.put_if_absent import NotCreated
from lakescan.storage.settings.catalog_properties import storage_properties
from lakescan.tables.committer import TablePlace

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


_LOG = logging.getLogger("lakescan")
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class DeltaPlace:
    """The location of a new Delta table, and the name `identifier` that it gets in the pyiceberg `catalog`."""

    catalog: Catalog
    identifier: Identifier
    location: str

    @property
    def storage(self) -> Storage:
        """A storage with the catalog's storage properties and allowed locations, for a table at `location`."""
        allowed = location_limits(self.identifier.catalog, self.location)
        return Storage(io_properties=storage_properties(self.catalog.properties), allowed=allowed)

    @contextmanager
    def registration(self) -> Iterator[None]:
        """Context manager: register the table's name, then run the body, which creates the table.

        If the body fails, the name is removed again, unless the table exists or its state is unknown. When two writers
        create the same name, one may have registered the name and the other created the table (after a lost response).
        Raises `CreatedConcurrently`, `CommitStateUnknown`, and `StorageError`.
        """
        check_no_table(self.location, self.storage)
        try:
            with translate_catalog_errors(self.identifier):
                is_own = DeltaNames(self.catalog).add(self.identifier.within, self.location)
        except TableExists as error:
            raise CreatedConcurrently(f"another writer created {self.identifier} at the same time") from error
        try:
            yield
        except (CommitStateUnknown, CreatedConcurrently):
            raise
        except (InvalidOption, UnsupportedFeature, NotCreated):
            self._withdraw(is_own)
            raise
        except BaseException:  # if the table was created and only the response was lost, keep its name
            if not is_table(self.location, self.storage):
                self._withdraw(is_own)
            raise

    def _withdraw(self, is_own: bool) -> None:
        """Unregister the name if this process registered it (`is_own`). A failure is only logged."""
        try:
            if is_own:
                DeltaNames(self.catalog).remove(self.identifier.within)
        except Exception as error:
            _LOG.warning("%s: the name of a table that was not created may be left over: %s", self.identifier, error)


def place_of_delta(catalog: Catalog, identifier: Identifier, location: str | None) -> DeltaPlace:
    """Return the `DeltaPlace` of a new table at `location`, or by default in a folder under the catalog's warehouse.

    If the default folder already has a Delta table (DROP TABLE kept its files, or the table was renamed), a new folder
    next to it is chosen. Raises `NoSuchNamespace`, `TableExists` for a name that is taken, `InvalidOption` for a
    catalog without a warehouse, and `UnsupportedFeature` for a catalog that cannot register Delta tables.
    """
    check_free(identifier)
    DeltaNames(catalog).check()
    check_namespace_exists(identifier)
    if location is not None:
        return DeltaPlace(catalog, identifier, location)
    place = DeltaPlace(catalog, identifier, _default_location(catalog, identifier))
    if is_table(place.location, place.storage):
        place = replace(place, location=f"{place.location}-{uuid.uuid4().hex}")
        _LOG.info("%s: its usual folder has another table; the new table is at %s", identifier, place.location)
    return place


def place_table(catalog: Any, identifier: Identifier, location: str | None) -> TablePlace:
    """Return the location, the storage, and the required properties and features of a new Delta table.

    A Unity Catalog stages the table on its server, which sets the requirements. Other catalogs set no requirements.
    Raises the errors of `place_of_delta`, and `StorageError`.
    """
    if not isinstance(catalog, UnityCatalog):
        found = place_of_delta(catalog, identifier, location)
        return TablePlace(found.location, found.storage)
    place = unity_place(catalog, identifier, location)
    allowed = location_limits(identifier.catalog, place.location)
    storage = Storage(io_properties=storage_properties(catalog.properties), vended=place, allowed=allowed)
    protocol = place.required.get("protocol") or {}
    features = {*(protocol.get("reader-features") or ()), *(protocol.get("writer-features") or ())}
    return TablePlace(place.location, storage, place.required.get("properties") or {}, features)


def name_table(catalog: Any, identifier: Identifier, location: str, storage: Storage) -> AbstractContextManager[None]:
    """Return a context manager whose body creates the Delta table in the folder `location`; it registers the name.

    The folder and `storage` are those of `place_table`. A Unity Catalog registers the table after the body, other
    catalogs before it. Raises `CreatedConcurrently`, `CommitStateUnknown`, `StorageError`.
    """
    if isinstance(catalog, UnityCatalog):
        return unity_named(catalog, identifier, storage)
    return place_of_delta(catalog, identifier, location).registration()


def make_named_delta(
    catalog: Catalog, identifier: Identifier, location: str | None, make: Callable[[str, Storage], _Made]
) -> _Made:
    """Create a Delta table with `make(location, storage)`, and register its name. Returns the result of `make`.

    The default location is a folder under the catalog's warehouse. Raises the errors of `place_of_delta` and of `make`,
    `CreatedConcurrently`, and `UnsupportedFeature` for a Unity Catalog.
    """
    if isinstance(catalog, UnityCatalog):
        raise UnsupportedFeature(f"cloning to {identifier}, in a catalog of type unity", "Create it, and append rows.")
    place = place_of_delta(catalog, identifier, location)
    with place.registration():
        return make(place.location, place.storage)


def _default_location(catalog: Catalog, identifier: Identifier) -> str:
    """Return the table's folder in the catalog's warehouse or, in a Hive metastore, in the location of its database.

    Raises `InvalidOption` if the catalog has no warehouse.
    """
    if (reserve := getattr(catalog, "reserve_location", None)) is not None:  # Spark's own catalog
        return str(reserve(identifier))
    if is_hive(catalog):
        with translate_catalog_errors(identifier):
            database = catalog.load_namespace_properties(identifier.namespace).get("location")
        if database:
            return folder_of(database, identifier.name)
    warehouse = catalog.properties.get("warehouse")
    if warehouse is None:
        raise InvalidOption(f"catalog {identifier.catalog!r} has no warehouse: give the table a location")
    return folder_of(warehouse, *identifier.within)
