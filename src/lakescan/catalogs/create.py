"""Create and replace tables in catalogs."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from lakescan.catalogs.delta_names import DeltaNames
from lakescan.catalogs.hive_metastore import is_hive
from lakescan.catalogs.lookup import check_free, translate_catalog_errors
from lakescan.catalogs.lost_answers import commit_change
from lakescan.catalogs.registry import key_manager_name, key_manager_of, location_limits
from lakescan.catalogs.rest_credentials import credentials_for
from lakescan.catalogs.rest_session import is_rest
from lakescan.catalogs.unity.catalog import UnityCatalog
from lakescan.catalogs.unity.creation import definition_at
from lakescan.catalogs.unity.creation import place as unity_place
from lakescan.catalogs.unity.creation import registration as unity_named
from lakescan.common import types as t
from lakescan.common.identifiers import Identifier, folder_of
from lakescan.definition.table_definition import TableDefinition
from lakescan.delta.commit.creation import (
    InitialRows,
    NewDelta,
    check_no_table,
    commit_new_table,
    create_table,
    is_table,
    new_table,
)
from lakescan.errors import (
    CommitConflict,
    CommitStateUnknown,
    CreatedConcurrently,
    InvalidOption,
    NoSuchNamespace,
    TableExists,
    UnsupportedFeature,
)
from lakescan.iceberg.commit.create_table import iceberg_arguments, redefine_table
from lakescan.iceberg.commit.staged_table import (
    MakesTables,
    TableReplacement,
    commit_staged_table,
    create_tolerating_drop,
    stage_table,
)
from lakescan.iceberg.data_files.encryption import check_catalog
from lakescan.iceberg.metadata.format_versions import PROPERTY, chosen_version
from lakescan.iceberg.metadata.pyiceberg_metadata import metadata_writes
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage
from lakescan.storage.issued import storage_properties
from lakescan.storage.put_if_absent import NotCreated
from lakescan.writing.table_writes import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import StagedTable


_LOG = logging.getLogger("lakescan")
_Made = TypeVar("_Made")
_KEY = IcebergProperties.encryption_key.name


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
    with translate_catalog_errors(identifier):
        is_there = catalog.namespace_exists(identifier.namespace)
    if not is_there:
        raise NoSuchNamespace(f"catalog {identifier.catalog!r} has no namespace {'.'.join(identifier.namespace)!r}")
    if location is not None:
        return DeltaPlace(catalog, identifier, location)
    place = DeltaPlace(catalog, identifier, _default_location(catalog, identifier))
    if is_table(place.location, place.storage):
        place = replace(place, location=f"{place.location}-{uuid.uuid4().hex}")
        _LOG.info("%s: its usual folder has another table; the new table is at %s", identifier, place.location)
    return place


def plan_delta_table(
    catalog: Any, identifier: Identifier, definition: TableDefinition
) -> tuple[Storage, str, NewDelta]:
    """A Delta table to be created, its location, and access to that: as its catalog requires.

    Raises what `place_of_delta` raises, `StorageError`, and see `lakescan.delta.commit.creation.new_table`.
    """
    if isinstance(catalog, UnityCatalog):
        place = unity_place(catalog, identifier, definition.location)
        allowed = location_limits(identifier.catalog, place.location)
        storage = Storage(io_properties=storage_properties(catalog.properties), vended=place, allowed=allowed)
        return storage, place.location, definition_at(place, definition)
    found = place_of_delta(catalog, identifier, definition.location)
    return found.storage, found.location, new_table(definition)


def delta_registration(
    catalog: Any, identifier: Identifier, location: str, storage: Storage
) -> AbstractContextManager[None]:
    """What gives a Delta table that `plan_delta_table` has planned its name, while it is created."""
    if isinstance(catalog, UnityCatalog):
        return unity_named(catalog, identifier, storage)
    return place_of_delta(catalog, identifier, location).registration()


def create_named_delta(catalog: Catalog, identifier: Identifier, definition: TableDefinition) -> None:
    """Create a Delta table with a name in a catalog; raises `NoSuchNamespace` and `CreatedConcurrently`."""
    if isinstance(catalog, UnityCatalog):
        storage, location, new = plan_delta_table(catalog, identifier, definition)
        with delta_registration(catalog, identifier, location, storage):
            commit_new_table(location, new, storage, InitialRows(of_query=False))
        return
    make_named_delta(
        catalog,
        identifier,
        definition.location,
        lambda location, storage: create_table(location, definition, storage),
    )


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


def create_iceberg(catalog: Catalog, identifier: Identifier, definition: TableDefinition) -> None:
    """Create a table; raises `CreatedConcurrently` if it exists by now.

    A lost answer is looked up. What a server has created cannot be told from what another writer has, as it gives the
    table its id: then `CommitStateUnknown` is raised.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.exceptions import CommitFailedException, NoSuchPropertyException, TableAlreadyExistsError

    arguments = _arguments(catalog, identifier, definition)
    has_defaults = any(each.write_default is not None for each in t.walk(definition.columns))
    is_newer = chosen_version(arguments["properties"]).row_lineage
    _check_place(catalog, identifier, arguments)
    with translate_catalog_errors(identifier), metadata_writes(arguments["properties"], str(identifier)) as named:
        try:
            if isinstance(catalog, MakesTables) or (
                is_newer and (has_defaults or isinstance(catalog, MetastoreCatalog))
            ):
                # pyiceberg leaves the next row id and defaults out; a server adds the next row id itself.
                commit_staged_table(stage_table(catalog, identifier.within, arguments))
            else:
                commit_change(
                    f"creating {identifier}",
                    lambda: create_tolerating_drop(
                        lambda: catalog.create_table(identifier.within, **arguments), catalog
                    ),
                    lambda: _is_made(catalog, identifier, named),
                    repeated=(TableAlreadyExistsError,) if named else (),
                )
        except (TableAlreadyExistsError, CommitFailedException, NoSuchPropertyException) as error:
            # The last: Hive and Glue have a table by now that is none of Iceberg's.
            raise CreatedConcurrently(f"another writer created {identifier} at the same time") from error


def _is_made(catalog: Catalog, identifier: Identifier, named: Sequence[str]) -> bool | None:
    """Whether the table began with one of the metadata files that this process has named; None if it is not known."""
    from pyiceberg.exceptions import NoSuchTableError

    try:
        now = catalog.load_table(identifier.within)
    except NoSuchTableError:
        return None
    files = {now.metadata_location, *(each.metadata_file for each in now.metadata.metadata_log)}
    return not files.isdisjoint(named) if named else None


def stage_iceberg(catalog: Catalog, identifier: Identifier, definition: TableDefinition) -> StagedTable:
    """A table that can be made in one step with its rows; see `lakescan.iceberg.commit.staged_table`."""
    arguments = _arguments(catalog, identifier, definition)
    with translate_catalog_errors(identifier):
        if not catalog.namespace_exists(identifier.namespace):
            raise NoSuchNamespace(f"catalog {identifier.catalog!r} has no namespace {'.'.join(identifier.namespace)!r}")
    _check_place(catalog, identifier, arguments)
    with translate_catalog_errors(identifier):
        return stage_table(catalog, identifier.within, arguments)


def _check_place(catalog: Catalog, identifier: Identifier, arguments: Mapping[str, Any]) -> None:
    """Raise `LocationRefused` if pyiceberg would write a new table's metadata where its catalog's tables must not lead.

    A server writes it itself, where it likes; the table cannot be opened then.
    """
    from pyiceberg.catalog import MetastoreCatalog

    allowed = location_limits(identifier.catalog)
    if allowed.prefixes is not None and isinstance(catalog, MetastoreCatalog):
        with translate_catalog_errors(identifier):
            place = stage_table(catalog, identifier.within, arguments).metadata_location
        allowed.check(place)


def _arguments(catalog: Catalog, identifier: Identifier, definition: TableDefinition) -> dict[str, Any]:
    check_free(identifier)
    arguments = iceberg_arguments(definition)
    _check_encryption(catalog, identifier, arguments["properties"])
    if definition.location is None and not is_rest(catalog):
        folder_of("", *identifier.within)  # pyiceberg makes one of the name
    where = "/".join((str(catalog.properties.get("warehouse", "")), *identifier.within))
    if any(letter in (definition.location or where) for letter in "?#"):
        raise UnsupportedFeature(
            f"the Iceberg table {identifier} at {definition.location or where}",
            "pyiceberg, which creates it, cuts locations at ? or # and would write elsewhere. Give the table another "
            "name, or a location without these characters.",
        )
    return arguments


def _check_encryption(catalog: Catalog, identifier: Identifier, properties: Mapping[str, str]) -> None:
    """Raise `UnsupportedFeature` for an encrypted table that its catalog cannot keep, or has no key manager for."""
    if _KEY not in properties:
        return
    check_catalog(catalog, str(identifier))
    if key_manager_name(identifier.catalog) is None:
        raise UnsupportedFeature(
            f"the encrypted Iceberg table {identifier} in a catalog without a key manager",
            "Set key-manager in the catalog's properties.",
        )


def replacement_of(
    catalog: Catalog, identifier: Identifier, definition: TableDefinition, properties: Mapping[str, str]
) -> TableReplacement:
    """What replaces a table's schema, partition spec, sort order and properties, and its rows; earlier snapshots stay.

    `properties` go into the summary of the snapshot with its new rows. Raises `UnsupportedFeature` if the table cannot
    get that definition.
    """
    with translate_catalog_errors(identifier):
        opened = catalog.load_table(identifier.within)
    version = opened.metadata.format_version
    if definition.properties.get(PROPERTY, str(version)) != str(version):
        raise UnsupportedFeature(
            f"replacing {identifier}, of format version {version}, by a table of another format version",
            "Drop it and create it again, or upgrade it first by ALTER TABLE.",
        )
    arguments = iceberg_arguments(definition, version)
    _check_encryption(catalog, identifier, {**opened.properties, **arguments["properties"]})
    if (key := opened.properties.get(_KEY)) != arguments["properties"].get(_KEY, key):
        raise InvalidOption(
            f"replacing {identifier} by a table with another '{_KEY}': a table is encrypted from its creation on, by "
            "one key. Drop it and create it again."
        )
    io_properties = storage_properties(opened.io.properties)
    storage = Storage(
        io_properties=io_properties,
        key_manager=key_manager_of(identifier.catalog),
        vended=credentials_for(catalog, opened),
        allowed=location_limits(identifier.catalog, opened.metadata_location),
    )
    before = IcebergTable.open(opened.metadata_location, storage)
    try:
        changes = redefine_table(opened, arguments)
    except ValueError as error:
        raise UnsupportedFeature(
            f"replacing {identifier} with this definition", f"{error}. Drop it and create it again."
        ) from error
    return TableReplacement(opened, before, changes, storage, properties)


def commit_replacement(
    identifier: Identifier, replacement: TableReplacement, files: Iterable[WrittenFile] = ()
) -> None:
    """Replace a table, in one commit with the files of its new rows; raises `CommitConflict`, `CommitStateUnknown`."""
    with translate_catalog_errors(identifier):
        failed = replacement.commit(files)
    if failed is not None:
        raise CommitConflict(
            f"{identifier} was changed concurrently while it was being replaced: {failed.error}"
        ) from failed.error
