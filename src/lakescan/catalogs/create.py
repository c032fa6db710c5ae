"""Where new Delta tables are, and how catalogs name them as they are created."""

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
    """Where a Delta table is created that gets a name in a catalog."""

    catalog: Catalog
    identifier: Identifier
    location: str

    @property
    def storage(self) -> Storage:
        """Its storage, by the settings of the catalog."""
        allowed = location_limits(self.identifier.catalog, self.location)
        return Storage(io_properties=storage_properties(self.catalog.properties), allowed=allowed)

    @contextmanager
    def registration(self) -> Iterator[None]:
        """Give the table its name while it is created, which is the body of the `with` block.

        The name goes if the table was not created, and stays if that is unknown, and if a table is there: of two
        writers of the same name, one may have given the name, and the other created the table, if the answer to the
        first was lost. Raises `CreatedConcurrently`, `CommitStateUnknown`, and `StorageError`.
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
        except BaseException:  # the table may have been created and only the response lost: then keep its name
            if not is_table(self.location, self.storage):
                self._withdraw(is_own)
            raise

    def _withdraw(self, is_own: bool) -> None:
        """Take the name away, if nobody else can have given it."""
        try:
            if is_own:
                DeltaNames(self.catalog).remove(self.identifier.within)
        except Exception as error:
            _LOG.warning("%s: the name of a table that was not created may be left over: %s", self.identifier, error)


def place_of_delta(catalog: Catalog, identifier: Identifier, location: str | None) -> DeltaPlace:
    """Return the place of a new table: the location, by default a folder under the catalog's warehouse.

    If a table is in the default folder already, because DROP TABLE kept its files or it got another name, the place is
    a folder of its own next to it.

    Raises `NoSuchNamespace`, `TableExists` for a name that is taken, and `UnsupportedFeature` for a catalog that cannot
    name Delta tables.
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
    """Return where a new table is to be that is known by its folder, as its catalog requires it.

    Raises what `place_of_delta` raises, and `StorageError`.
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
    """Return what gives a table that `place_table` has placed its name, while it is created."""
    if isinstance(catalog, UnityCatalog):
        return unity_named(catalog, identifier, storage)
    return place_of_delta(catalog, identifier, location).registration()


def make_named_delta(
    catalog: Catalog, identifier: Identifier, location: str | None, make: Callable[[str, Storage], _Made]
) -> _Made:
    """Make a Delta table in a folder, by default one under the catalog's warehouse, and give it a name.

    Raises `NoSuchNamespace`, `CreatedConcurrently`, `UnsupportedFeature`, and what `make` raises.
    """
    if isinstance(catalog, UnityCatalog):
        raise UnsupportedFeature(f"cloning to {identifier}, in a catalog of type unity", "Create it, and append rows.")
    place = place_of_delta(catalog, identifier, location)
    with place.registration():
        return make(place.location, place.storage)


def _default_location(catalog: Catalog, identifier: Identifier) -> str:
    """A folder in the catalog's warehouse or, in a Hive metastore, in that of the database, as Iceberg tables have."""
    if is_hive(catalog):
        with translate_catalog_errors(identifier):
            database = catalog.load_namespace_properties(identifier.namespace).get("location")
        if database:
            return folder_of(database, identifier.name)
    warehouse = catalog.properties.get("warehouse")
    if warehouse is None:
        raise InvalidOption(f"catalog {identifier.catalog!r} has no warehouse: give the table a location")
    return folder_of(warehouse, *identifier.within)
