"""Lookup of named tables and views in catalogs, and translation of catalog errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lakescan.catalogs.delta_names import DeltaNames
from lakescan.catalogs.registry import allowed_locations, backend_message, connection, is_known, key_manager_name
from lakescan.catalogs.responses import drop_pydantic_causes, parse_failure, unknown_type
from lakescan.catalogs.rest_credentials import credentials_for
from lakescan.catalogs.rest_scan_planning import SERVER, ServerPlanning
from lakescan.catalogs.unity.catalog import UnityCatalog
from lakescan.catalogs.views import StoredView, view_store
from lakescan.common.identifiers import Identifier, check_name, dotted_name, split_name
from lakescan.common.references import backquote
from lakescan.common.secrets import hide_error_secrets
from lakescan.errors import (
    CorruptMetadata,
    CreatedConcurrently,
    IsAView,
    LakescanError,
    MissingFile,
    NoSuchNamespace,
    NoSuchTable,
    StorageError,
    TableExists,
    UnsupportedFeature,
    nearest,
)
from lakescan.iceberg.scan.server_side_planning import PlanningServer
from lakescan.storage.errors import error_text
from lakescan.storage.locations import absolute
from lakescan.storage.settings.catalog_properties import storage_properties
from lakescan.tables.base import CatalogTable

_JOINED = ("SqlCatalog", "DynamoDbCatalog")  # pyiceberg's catalogs that store the parts of a namespace as one text


@dataclass(frozen=True)
class CatalogEntry:
    """A table's entry in a catalog. Each call queries the catalog.

    `planning` decides which side plans scans; None for a catalog that is not of type rest.
    """

    identifier: Identifier
    planning: ServerPlanning | None = field(default=None, compare=False)

    def current(self) -> str:
        """Return the location of the table's current metadata file; raises the errors of `find_table`."""
        return find_table(self.identifier).location

    def planner(self, mode: str | None) -> PlanningServer | None:
        """Return the catalog's server if it plans the scan, None if this process does; see `PlanningSource`.

        `mode` is the reader's choice: 'client', 'server' or None. Raises `InvalidOption` if the catalog demands the
        other mode, and `UnsupportedFeature` if the server cannot plan.
        """
        if self.planning is not None:
            return self.planning.planner(self.identifier.catalog, self.identifier.within, mode)
        if mode == SERVER:
            raise UnsupportedFeature(
                f"scans of {self.identifier} that its catalog plans", "Only catalogs of type rest plan scans."
            )
        return None


def identifier_of(text: str) -> Identifier | None:
    """Parse `catalog.namespace.table`; None if it has fewer than three parts, or the catalog is not configured."""
    parts = split_name(text)
    if parts is None or len(parts) < 3 or not is_known(parts[0]):
        return None
    return Identifier(parts[0], parts[1:-1], parts[-1])


def location_or_name(text: str) -> str:
    """Make the path of a local table absolute. Names of tables in known catalogs and URIs are returned unchanged.

    The result means the same table in other processes and after the working directory changes.
    """
    return text if identifier_of(text) is not None else absolute(text)


def find_table(identifier: Identifier) -> CatalogTable:
    """Look up a table: its format, location, storage properties and credentials.

    Raises `NoSuchTable` (`IsAView` for a view), `NoSuchCatalog`, `StorageError` if the catalog does not respond, and
    `CorruptMetadata` for an unreadable entry, or a name of both an Iceberg and a Delta table.
    """
    from pyiceberg.exceptions import NoSuchPropertyException, NoSuchTableError

    catalog: Any = connection(identifier.catalog)
    allowed = allowed_locations(identifier.catalog)
    with translate_catalog_errors(identifier):
        if isinstance(catalog, UnityCatalog):
            found = catalog.find(identifier)
            properties = storage_properties(catalog.properties)
            return CatalogTable("delta", found.location, properties, vended=found, allowed_locations=allowed)
        try:
            table: Any = catalog.load_table(identifier.within)
        except (NoSuchTableError, NoSuchPropertyException) as error:  # the latter if Spark set no table type
            location = DeltaNames(catalog).location(identifier.within)
            if location is None:
                raise _no_location_error(catalog, identifier, error) from error
            return CatalogTable("delta", location, storage_properties(catalog.properties), allowed_locations=allowed)
        except Exception as error:
            location = stored_location(catalog, identifier) if unknown_type(error) else None
            if location is None:
                raise
            properties, manager = storage_properties(catalog.properties), key_manager_name(identifier.catalog)
            entry = CatalogEntry(identifier)
            return CatalogTable("iceberg", location, properties, manager, entry, allowed_locations=allowed)
        if not table.metadata_location:
            raise _no_metadata(identifier)
        if _has_sql_names(catalog) and (location := DeltaNames(catalog).location(identifier.within)) is not None:
            raise _two_formats_error(identifier, location, table.metadata_location)
    return CatalogTable(
        "iceberg",
        table.metadata_location,
        storage_properties(table.io.properties),
        key_manager_name(identifier.catalog),
        CatalogEntry(identifier, ServerPlanning.find(catalog, table)),
        credentials_for(getattr(catalog, "collects_for", catalog), table),
        allowed_locations=allowed,
    )


def check_one_format(catalog: Any, identifier: Identifier, location: str) -> None:
    """Raise `CorruptMetadata` if an SQL catalog has both an Iceberg and a Delta table of this name.

    `location` is that of the Delta table. Other types of catalogs have one entry for a name, and are not checked.
    """
    if _has_sql_names(catalog) and (file := stored_location(catalog, identifier)) is not None:
        raise _two_formats_error(identifier, location, file)


def _has_sql_names(catalog: Any) -> bool:
    """Return whether a pyiceberg catalog is an SQL catalog, which has a database table of Delta tables."""
    return hasattr(catalog, "engine")


def _two_formats_error(identifier: Identifier, delta: str, iceberg: str) -> CorruptMetadata:
    return CorruptMetadata(
        f"{identifier} is the name of two tables: of a Delta table at {delta}, and of an Iceberg table, made by a "
        f"client that does not see names of Delta tables, at {iceberg}. Open each by its path, with format='delta' or "
        "'iceberg'. Then rename or drop the Iceberg table with that client, such as pyiceberg: the name is the Delta "
        "table's again"
    )


def _no_location_error(catalog: Any, identifier: Identifier, error: Exception) -> Exception:
    """Return the error for a name without a Delta table, after pyiceberg's `error` for the Iceberg table.

    It is `NoSuchTableError`, or `CorruptMetadata` if the entry lacks the location of its metadata file.
    """
    from pyiceberg.exceptions import NoSuchTableError

    is_missing = isinstance(error, NoSuchTableError) or "metadata_location" not in str(error)
    return NoSuchTableError(str(error)) if is_missing else _no_metadata(identifier)


def _no_metadata(identifier: Identifier) -> CorruptMetadata:
    return CorruptMetadata(f"catalog {identifier.catalog!r} returned no 'metadata-location' for {identifier}")


def stored_location(catalog: Any, identifier: Identifier) -> str | None:
    """Return the location of the metadata file that an SQL or Hadoop catalog records for a table.

    None if the table is missing, and for other types of catalogs. Used for tables that pyiceberg cannot open because it
    does not support a column's type.
    """
    kinds = {each.__name__ for each in type(catalog).__mro__}
    if "HadoopTables" in kinds:
        return catalog.current(identifier.within)
    if "SqlCatalog" not in kinds:
        return None
    from pyiceberg.catalog.sql import IcebergTables
    from sqlalchemy import select
    from sqlalchemy.orm import Session

    with Session(catalog.engine) as session:
        namespace = ".".join(identifier.namespace)
        found = select(IcebergTables.metadata_location).where(
            IcebergTables.catalog_name == catalog.name,
            IcebergTables.table_namespace == namespace,
            IcebergTables.table_name == identifier.name,
        )
        return session.scalar(found)


def find_view(identifier: Identifier) -> StoredView | None:
    """Look up a view; None if it does not exist, or the catalog does not support views.

    Raises `StorageError` if the catalog does not respond, and `CorruptMetadata` for an unreadable entry.
    """
    with translate_catalog_errors(identifier):
        return view_store(connection(identifier.catalog)).load(identifier.within)


def view_instead(identifier: Identifier) -> StoredView | None:
    """Return the view whose name was looked up as a table; None if it does not exist or the server refuses the request.

    Raises `CorruptMetadata` for an unreadable entry.
    """
    from pyiceberg.exceptions import RESTError

    try:
        return view_store(connection(identifier.catalog)).load(identifier.within)
    except RESTError:
        return None
    except ValueError as error:
        if (why := parse_failure(error)) is None:
            raise
        raise CorruptMetadata(
            f"the entry of the view {identifier} in catalog {identifier.catalog!r} cannot be read: {why}"
        ) from error


def check_free(identifier: Identifier) -> None:
    """Raise `TableExists` if a new table's name is taken by a view or by a table of an unsupported format.

    Raises `CreatedConcurrently` for a Delta table, since callers have already looked up tables of that name, and
    `InvalidOption` for an invalid name. An Iceberg table is not detected here.
    """
    check_name(identifier.name)
    names = DeltaNames(connection(identifier.catalog))
    with translate_catalog_errors(identifier):
        if view_instead(identifier) is not None:
            raise TableExists(f"{identifier} is a view: give the table another name, or drop or rename the view")
        if (other := names.other(identifier.within)) is not None:
            raise TableExists(
                f"{identifier} is {other}: give the table another name, or drop the other one with its engine"
            )
        if names.location(identifier.within) is not None:
            raise CreatedConcurrently(f"another writer created {identifier} at the same time")


def check_namespace_exists(identifier: Identifier) -> None:
    """Raise `NoSuchNamespace` if the catalog has no such namespace for a new table.

    A catalog of type hadoop makes the folder of a missing namespace together with the table's, as Iceberg's does.
    """
    with translate_catalog_errors(identifier):
        catalog: Any = connection(identifier.catalog)
        accepts: Callable[[Any], bool] = getattr(catalog, "accepts_tables", catalog.namespace_exists)
        is_there = accepts(identifier.namespace)
    if not is_there:
        raise NoSuchNamespace(f"catalog {identifier.catalog!r} has no namespace {'.'.join(identifier.namespace)!r}")


def check_not_other(identifier: Identifier) -> None:
    """Raise `NoSuchTable` if the name's entry is neither an Iceberg nor a Delta table, such as a Hive view."""
    with translate_catalog_errors(identifier):
        other = DeltaNames(connection(identifier.catalog)).other(identifier.within)
    if other is not None:
        raise _is_other(identifier, other)


def _is_other(identifier: Identifier, other: str) -> NoSuchTable:
    files = "" if other.endswith("view") else ". Convert Parquet files by create_from_files or convert_to_delta"
    return NoSuchTable(
        f"{identifier} is {other}, neither an Iceberg nor a Delta table: use the engine that made it{files}"
    )


def _names_in_namespace(identifier: Identifier) -> list[str] | None:
    """Return the names of all Iceberg and Delta tables in the table's namespace; None if it does not exist."""
    from pyiceberg.exceptions import NoSuchNamespaceError

    catalog = connection(identifier.catalog)
    try:
        tables = [name[-1] for name in catalog.list_tables(identifier.namespace)]
    except NoSuchNamespaceError:
        return None
    return tables + DeltaNames(catalog).names(identifier.namespace)


def _check_namespace(identifier: Identifier) -> None:
    """Raise `UnsupportedFeature` for a namespace that an SQL or DynamoDB catalog would store as a different one.

    These catalogs strip white space around the namespace's levels, and join the levels with dots.
    """
    dotted = [part for part in identifier.namespace if "." in part]
    padded = [part for part in identifier.namespace if part != part.strip()]
    if not (dotted or padded) or not is_known(identifier.catalog) or not _joins_names(identifier.catalog):
        return
    if padded:
        raise UnsupportedFeature(
            f"the white space around {backquote(padded[0])}, a part of a namespace of the catalog "
            f"{identifier.catalog!r}",
            "SQL and DynamoDB catalogs strip it. Use the name without white space.",
        )
    raise UnsupportedFeature(
        f"the dot in {backquote(dotted[0])}, a part of a namespace of the catalog {identifier.catalog!r}",
        f"SQL and DynamoDB catalogs store it as {'.'.join(identifier.namespace)}, a namespace of several levels. "
        "Use a name without a dot.",
    )


def stores_namespace(identifier: Identifier) -> bool:
    """Return False if the catalog would change the namespace's name, so that it cannot exist there.

    SQL and DynamoDB catalogs strip white space around the namespace's levels.
    """
    is_padded = any(part != part.strip() for part in identifier.namespace)
    return not (is_padded and _joins_names(identifier.catalog))


def _joins_names(catalog: str) -> bool:
    """Return whether a catalog stores the levels of a namespace as one string: those of type sql and dynamodb."""
    kinds = {each.__name__ for each in type(connection(catalog)).__mro__}
    return not kinds.isdisjoint(_JOINED)


@contextmanager
def translate_catalog_errors(identifier: Identifier) -> Iterator[None]:
    """Context manager: re-raise a catalog's errors as lakescan errors.

    Raises `NoSuchTable` (`IsAView` for a view), `NoSuchNamespace`, `StorageError` for a catalog that fails,
    `CorruptMetadata` for an unreadable entry, `MissingFile`, and `UnsupportedFeature`, also for a namespace that the
    catalog would store as a different one. Unexpected errors pass through.
    """
    from pyiceberg.exceptions import NoSuchPropertyException, NoSuchTableError

    try:
        with _translate_errors(identifier):
            try:
                yield
            except (NoSuchTableError, NoSuchPropertyException) as error:
                raise _no_table(identifier) from error
    except Exception as error:
        drop_pydantic_causes(error)
        hide_error_secrets(error)
        raise


def _no_table(identifier: Identifier) -> NoSuchTable:
    """Return the error for a name without a table: `IsAView` for a view, else `NoSuchTable`.

    Its message names an entry of another kind, or suggests a similar table or namespace.
    """
    if identifier.is_path:
        return NoSuchTable(f"there is no Iceberg table at {identifier} any more")
    if (view := view_instead(identifier)) is not None:
        failure = IsAView(
            f"{identifier} is a view, not a table: query it by lakescan.sql, change the rows of its tables, or "
            "drop it by DROP VIEW"
        )
        failure.found = view
        return failure
    if (other := DeltaNames(connection(identifier.catalog)).other(identifier.within)) is not None:
        return _is_other(identifier, other)
    known = _names_in_namespace(identifier)
    where = f"catalog {identifier.catalog!r} has no table {'.'.join(identifier.within)!r}."
    if known is None:
        namespace = ".".join(identifier.namespace)
        return NoSuchTable(f"{where} It has no namespace {namespace!r}.{_namespace_hint(identifier)}")
    return NoSuchTable(f"{where}{nearest(identifier.name, known)}")


def _namespace_hint(identifier: Identifier) -> str:
    """Return a message part that suggests a similar namespace of the same parent; empty without a suggestion."""
    try:
        names = [".".join(each) for each in connection(identifier.catalog).list_namespaces(identifier.namespace[:-1])]
    except Exception:  # an error of the catalog's client: the hint is optional
        return ""
    return nearest(".".join(identifier.namespace), names)


@contextmanager
def _translate_errors(identifier: Identifier) -> Iterator[None]:
    """Context manager: translate all errors except those for a missing table; see `translate_catalog_errors`."""
    from pyiceberg.exceptions import NoSuchNamespaceError, RESTError

    _check_namespace(identifier)
    try:
        yield
    except NoSuchNamespaceError as error:
        raise NoSuchNamespace(
            f"catalog {identifier.catalog!r} has no namespace {'.'.join(identifier.namespace)!r}"
        ) from error
    except RESTError as error:
        raise StorageError(f"catalog {identifier.catalog!r} failed to respond for {identifier}: {error}") from error
    except LakescanError:
        raise
    except NotImplementedError as error:
        raise UnsupportedFeature(
            f"this operation of catalog {identifier.catalog!r} on {identifier}", str(error)
        ) from error
    except FileNotFoundError as error:
        raise MissingFile(
            f"{_catalog_of(identifier)} refers to a file of {identifier} that does not exist: {error_text(error)}"
        ) from error
    except Exception as error:
        if "hierarchical namespaces are not supported" in str(error):
            raise UnsupportedFeature(
                f"several levels of namespaces ({dotted_name(identifier.namespace)}) in catalog {identifier.catalog!r}",
                "Its namespaces are databases, which have one level.",
            ) from error
        if (unknown := unknown_type(error)) is not None:
            raise UnsupportedFeature(
                f"the type {unknown}, which a column of {identifier} has",
                "pyiceberg, lakescan's catalog client, does not support it. Read the table by its location or, in an "
                "SQL catalog, by its name. Change it with another engine.",
            ) from error
        if (why := parse_failure(error)) is not None:
            raise CorruptMetadata(
                f"the entry of {identifier} in {_catalog_of(identifier)} cannot be read: {why}"
            ) from error
        if (why := backend_message(error)) is None:
            raise
        raise StorageError(f"{_catalog_of(identifier)} failed for {identifier}: {why}") from error


def _catalog_of(identifier: Identifier) -> str:
    """Return "catalog 'NAME'" for messages, or "the folder" for a table that is addressed by its folder."""
    return "the folder" if identifier.is_path else f"catalog {identifier.catalog!r}"
