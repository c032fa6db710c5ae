"""Storage of views in REST and SQL catalogs."""

from __future__ import annotations

import json
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakescan.catalogs.delta_names import DeltaNames
from lakescan.catalogs.lost_answers import commit_change
from lakescan.catalogs.registry import location_limits
from lakescan.catalogs.rest_session import RestSession, message_of, namespace_path
from lakescan.common.identifiers import Identifier, folder_of
from lakescan.common.retries import outcome_of
from lakescan.common.schema import Schema
from lakescan.common.types import STRING, Field
from lakescan.errors import InvalidOption, NoSuchNamespace, StorageError, TableExists, UnsupportedFeature
from lakescan.iceberg.metadata.json_document import Node
from lakescan.iceberg.metadata.schema_json import schema_node
from lakescan.iceberg.view.metadata import (
    QUERY_COLUMNS,
    ViewMetadata,
    ViewText,
    new_view,
    parse_view,
    updates,
    view_of,
)
from lakescan.storage import Storage, join
from lakescan.storage.settings.catalog_properties import storage_properties

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

Name = tuple[str, ...]


@dataclass(frozen=True)
class StoredView:
    """A view in a catalog. `location` is that of its metadata file; None if the catalog does not return it."""

    identifier: Identifier
    metadata: ViewMetadata
    location: str | None = None


def view_of_query(
    identifier: Identifier,
    query: str,
    namespace: Name,
    columns: Sequence[str],
    query_columns: Sequence[str],
) -> StoredView:
    """Return a view that is stored elsewhere than in view metadata, such as in Spark's own catalog.

    Args:
        identifier: The view's name.
        query: Its query in Spark's dialect.
        namespace: The namespace, in the view's catalog, of short names in the query.
        columns: The names of the view's columns.
        query_columns: The names of the query's columns when the view was made.
    """
    fields = tuple(Field(n, name, STRING) for n, name in enumerate(columns, 1))
    text = ViewText(query, Schema(fields), identifier.catalog, namespace, 0, {})
    return StoredView(identifier, new_view(text, "", {QUERY_COLUMNS: ",".join(query_columns)}))


class ViewStore(ABC):
    """The views of a catalog. Names are relative to the catalog: namespace and view."""

    @abstractmethod
    def load(self, name: Name) -> StoredView | None:
        """Return a view; None if it does not exist or the catalog does not support views.

        Raises `CorruptMetadata` for unreadable metadata.
        """

    @abstractmethod
    def names(self, namespace: Name) -> list[str]:
        """Return the names of a namespace's views; an empty list if the catalog does not support views.

        Raises `NoSuchNamespace`, or pyiceberg's `NoSuchNamespaceError`.
        """

    @abstractmethod
    def create(self, name: Name, make: Callable[[str | None], ViewMetadata]) -> None:
        """Create a view; raises `TableExists`, `NoSuchNamespace`, and `UnsupportedFeature`.

        `make` takes the default location of the view, or None if the catalog chooses it, and returns the view's
        metadata.
        """

    @abstractmethod
    def commit(self, base: StoredView, new: ViewMetadata) -> bool:
        """Replace the metadata of the loaded view `base` by `new`; return False if another writer committed first."""

    @abstractmethod
    def drop(self, name: Name) -> bool:
        """Drop a view; return False if it does not exist. Raises `CommitStateUnknown`."""

    @abstractmethod
    def rename(self, old: Name, new: Name) -> bool:
        """Rename a view; return False if it does not exist. Raises `TableExists` if the new name is taken.

        Raises `NoSuchNamespace` if the new namespace does not exist.
        """


class NoViews(ViewStore):
    """The view store of a catalog that does not support views. `instead` is advice for the user."""

    def __init__(self, catalog: Catalog, instead: str = "") -> None:
        self._name, self._kind, self._instead = catalog.name, type(catalog).__name__, instead

    def load(self, name: Name) -> StoredView | None:
        """Return None: the catalog does not support views."""
        return None

    def names(self, namespace: Name) -> list[str]:
        """Return an empty list: the catalog does not support views."""
        return []

    def create(self, name: Name, make: Callable[[str | None], ViewMetadata]) -> None:
        """Raise `UnsupportedFeature`: the catalog does not support views."""
        raise UnsupportedFeature(
            f"views in catalog {self._name!r} ({self._kind})",
            self._instead
            or "Catalogs of type rest and sql have views. Use lakescan.spark.create_view for a view of one session, or "
            "a query with WITH.",
        )

    def commit(self, base: StoredView, new: ViewMetadata) -> bool:
        """Raise `AssertionError`: no view can have been loaded from this catalog."""
        raise AssertionError("a catalog without views has none to change")

    def drop(self, name: Name) -> bool:
        """Return False: the catalog does not support views."""
        return False

    def rename(self, old: Name, new: Name) -> bool:
        """Return False: the catalog does not support views."""
        return False


def view_store(catalog: Any) -> ViewStore:
    """Return the view store of a pyiceberg catalog: `RestViews`, `SqlViews`, or for others `NoViews`."""

    if (own := getattr(catalog, "views", None)) is not None:  # Spark's own catalog
        found: ViewStore = own
        return found
    kinds = {each.__name__ for each in type(catalog).__mro__}
    if "RestCatalog" in kinds:
        return RestViews(catalog) if hasattr(catalog, "load_view") else NoViews(catalog, "Install pyiceberg>=0.12.")
    if "SqlCatalog" in kinds:
        return SqlViews(catalog) if SqlViews.can_store(catalog) else NoViews(catalog, SqlViews.INSTEAD)
    return NoViews(catalog)


_UNKNOWN_FROM = 500  # from this status on, a change may have been made


class RestViews(ViewStore):
    """The views of a REST catalog, by requests to its server."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog

    def load(self, name: Name) -> StoredView | None:
        """Return a view; None if it does not exist or the server has no views."""
        from pyiceberg.exceptions import NoSuchViewError

        try:
            found = self._catalog.load_view(name)
        except (NoSuchViewError, NotImplementedError):  # the latter if the server has no views
            return None
        identifier = Identifier(self._catalog.name, name[:-1], name[-1])
        node = Node.wrap(json.loads(found.metadata.model_dump_json()), str(identifier))
        return StoredView(identifier, view_of(node))

    def names(self, namespace: Name) -> list[str]:
        """Return the names of a namespace's views; an empty list if the server has no views."""
        return [name[-1] for name in self._catalog.list_views(namespace)]

    def create(self, name: Name, make: Callable[[str | None], ViewMetadata]) -> None:
        """Create a view; see `ViewStore.create`."""
        self._check_has_views(name)
        self._check_namespace(name[:-1])  # the server of the reference implementation does not check it
        new = make(None)
        body: dict[str, Any] = {
            "name": name[-1],
            "schema": schema_node(new.schema),
            "view-version": new.current.node(),
            "properties": dict(new.properties),
        }
        if new.location:
            body["location"] = new.location
        status = self._send_change(f"{self._path(name[:-1])}/views", body, name, new)
        if status == 409:
            raise TableExists(f"{Identifier(self._catalog.name, name[:-1], name[-1])} already exists")
        if status == 404:
            raise self._no_views_error()

    def commit(self, base: StoredView, new: ViewMetadata) -> bool:
        """Send the changes if the view is still the same one (by UUID); return whether the server accepted them.

        Raises the errors of `_send_change`.
        """
        name = base.identifier.within
        changes = list(updates(base.metadata, new))
        if not changes:
            return True
        same = {"type": "assert-view-uuid", "uuid": base.metadata.uuid}
        body = {
            "identifier": {"namespace": list(name[:-1]), "name": name[-1]},
            "requirements": [same],
            "updates": changes,
        }
        return self._send_change(self._view_path(name), body, name, new) < 400

    def drop(self, name: Name) -> bool:
        """Drop a view; return False if it does not exist."""
        from pyiceberg.exceptions import NoSuchViewError

        doing = f"dropping {Identifier(self._catalog.name, name[:-1], name[-1])}"
        try:
            commit_change(doing, lambda: self._catalog.drop_view(name), lambda: None if self.load(name) else True)
        except (NoSuchViewError, NotImplementedError):
            return False
        return True

    def rename(self, old: Name, new: Name) -> bool:
        """Rename a view; see `ViewStore.rename`. Raises the errors of `_send_change`."""
        one, other = ({"namespace": list(each[:-1]), "name": each[-1]} for each in (old, new))
        self._check_namespace(new[:-1])
        before = self.load(old)
        if before is None:
            return False
        status = self._send_change("views/rename", {"source": one, "destination": other}, new, before.metadata)
        if status == 409:
            raise TableExists(f"{Identifier(self._catalog.name, new[:-1], new[-1])} already exists")
        return status < 400

    def _check_has_views(self, name: Name) -> None:
        """Raise `UnsupportedFeature` if the server does not declare support for views. Requests the view `name`."""
        from pyiceberg.exceptions import NoSuchViewError

        with suppress(NoSuchViewError):
            try:
                self._catalog.load_view(name)
            except NotImplementedError as error:
                raise self._no_views_error() from error

    def _no_views_error(self) -> UnsupportedFeature:
        return UnsupportedFeature(
            f"views in catalog {self._catalog.name!r}",
            "Its server does not declare support for views. If it has them, set the catalog's property "
            "'view-endpoints-supported' to 'true'.",
        )

    def _check_namespace(self, namespace: Name) -> None:
        if not self._catalog.namespace_exists(namespace):
            raise NoSuchNamespace(f"catalog {self._catalog.name!r} has no namespace {'.'.join(namespace)!r}")

    def _path(self, namespace: Name) -> str:
        return namespace_path(self._catalog, namespace)

    def _view_path(self, name: Name) -> str:
        return f"{self._path(name[:-1])}/views/{quote(name[-1], safe='')}"

    def _send_change(self, path: str, body: dict[str, Any], name: Name, new: ViewMetadata) -> int:
        """Post the JSON `body` of a change to `path`, and return the response's status.

        If the response is lost, the view `name` is looked up: the status is 200 if it matches `new`. Raises
        `StorageError` for refusals other than 404 and 409, `InvalidOption`, `UnsupportedFeature`, and
        `CommitStateUnknown`.
        """
        from requests import RequestException

        target = Identifier(self._catalog.name, name[:-1], name[-1])
        try:
            response = RestSession(self._catalog).post(path, body)
        except RequestException as error:
            return outcome_of(str(target), error, lambda: self._look_up_view(name, new))
        status = int(response.status_code)
        if status >= _UNKNOWN_FROM:
            failure = StorageError(f"status {status}: {message_of(response)}")
            return outcome_of(str(target), failure, lambda: self._look_up_view(name, new))
        if status in (400, 422):
            raise InvalidOption(f"the catalog refuses the view {target}: {message_of(response)}")
        if status in (405, 406, 501):
            raise UnsupportedFeature(f"this change of views in catalog {target.catalog!r}", message_of(response))
        if status >= 400 and status not in (404, 409):
            raise StorageError(f"catalog {target.catalog!r} does not change the view {target}: {message_of(response)}")
        return status

    def _look_up_view(self, name: Name, new: ViewMetadata) -> int | None:
        found = self.load(name)
        if found is None:
            return None
        one, other = found.metadata, new
        same = one.current.queries == other.current.queries and one.current.namespace == other.current.namespace
        return 200 if same and {**one.properties, **other.properties} == dict(one.properties) else None


# A view has metadata files, like a table. Each change writes a new file, and updates the row's pointer if it still
# points to the previous file.

_VIEW = "VIEW"
_NUMBER = re.compile(r"(\d+)-")
_METADATA_FOLDER = "write.metadata.path"


class SqlViews(ViewStore):
    """The views of an SQL catalog, as rows of its database that point to metadata files."""

    INSTEAD = (
        "Its database has no column iceberg_type, which distinguishes views from tables, or pyiceberg is below 0.12. "
        "Open it once with the property schema_version='v1', which adds the column. Older programs then treat views as "
        "tables."
    )

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self._storage = Storage(
            io_properties=storage_properties(catalog.properties), allowed=location_limits(catalog.name)
        )

    @staticmethod
    def can_store(catalog: Any) -> bool:
        """Return whether both the catalog's database and the installed pyiceberg distinguish views from tables."""
        from pyiceberg.catalog.sql import IcebergTables

        return hasattr(IcebergTables, "iceberg_type") and _has_types(catalog.engine)

    def load(self, name: Name) -> StoredView | None:
        """Return a view; None if it does not exist."""
        found = self._row(name)
        if found is None:
            return None
        location = str(found.metadata_location)
        identifier = Identifier(self._catalog.name, name[:-1], name[-1])
        return StoredView(identifier, parse_view(self._storage.read(location), location), location)

    def names(self, namespace: Name) -> list[str]:
        """Return the names of a namespace's views; raises `NoSuchNamespace`."""
        self._check_namespace(namespace)
        table = _rows()
        found = self._run(table.select().where(*self._namespace_conditions(namespace)), list)
        return [row.table_name for row in found]

    def create(self, name: Name, make: Callable[[str | None], ViewMetadata]) -> None:
        """Create a view: write its metadata file, then insert its row; see `ViewStore.create`.

        Also raises `CommitStateUnknown`, and `InvalidOption` for a catalog without a warehouse.
        """
        from sqlalchemy.exc import IntegrityError

        self._check_namespace(name[:-1])
        if DeltaNames(self._catalog).location(name) is not None:
            raise self._exists_error(name)
        new = make(self._default_location(name))
        location = self._write_metadata(new, 0)
        row = {
            "catalog_name": self._catalog.name,
            "table_namespace": ".".join(name[:-1]),
            "table_name": name[-1],
            "metadata_location": location,
            "iceberg_type": _VIEW,
        }
        try:
            commit_change(
                self._doing("creating", name),
                lambda: self._run(_rows().insert().values(**row)),
                lambda: self._has(name, location),
            )
        except IntegrityError as error:
            self._storage.remove([location])
            raise self._exists_error(name) from error

    def commit(self, base: StoredView, new: ViewMetadata) -> bool:
        """Write a metadata file, and point the view's row to it, unless the row no longer points to that of `base`.

        Returns whether the row was changed; if not, the new file is deleted. Raises `CommitStateUnknown`.
        """
        assert base.location is not None
        table, name = _rows(), base.identifier.within
        number = _NUMBER.match(base.location.rpartition("/")[2])
        location = self._write_metadata(new, 1 + int(number[1] if number else 0))
        change = table.update().where(*self._name_conditions(name), table.c.metadata_location == base.location)
        change = change.values(metadata_location=location, previous_metadata_location=base.location)
        changed = commit_change(
            self._doing("changing", name),
            lambda: self._run(change, lambda result: int(result.rowcount)),
            lambda: self._has(name, location) or None,
        )
        if changed != 0:  # None if the lookup found the change
            return True
        self._storage.remove([location])
        return False

    def drop(self, name: Name) -> bool:
        """Delete the view's row; return False if it does not exist. The files stay, like those of a dropped table."""
        removed = commit_change(
            self._doing("dropping", name),
            lambda: self._run(
                _rows().delete().where(*self._name_conditions(name)), lambda result: int(result.rowcount)
            ),
            lambda: True if self._row(name) is None else None,
        )
        return bool(removed != 0)

    def rename(self, old: Name, new: Name) -> bool:
        """Change the name in the view's row; return False if it does not exist.

        Raises `TableExists`, also for a Delta table, `NoSuchNamespace`, and `CommitStateUnknown`.
        """
        from sqlalchemy.exc import IntegrityError

        self._check_namespace(new[:-1])
        if DeltaNames(self._catalog).location(new) is not None:
            raise self._exists_error(new)
        change = _rows().update().where(*self._name_conditions(old))
        change = change.values(table_namespace=".".join(new[:-1]), table_name=new[-1])
        before = self._row(old)

        def is_made() -> bool | None:
            return True if before and self._has(new, before.metadata_location) and not self._row(old) else None

        try:
            renamed = commit_change(
                self._doing("renaming", old), lambda: self._run(change, lambda result: int(result.rowcount)), is_made
            )
            return bool(renamed != 0)
        except IntegrityError as error:
            raise self._exists_error(new) from error

    def _row(self, name: Name) -> Any:
        return self._run(_rows().select().where(*self._name_conditions(name)), lambda result: result.first())

    def _has(self, name: Name, location: str) -> bool | None:
        """Return whether `location` is the view's current or previous metadata file; None for a missing view."""
        row = self._row(name)
        return None if row is None else location in (row.metadata_location, row.previous_metadata_location)

    def _doing(self, what: str, name: Name) -> str:
        return f"{what} {Identifier(self._catalog.name, name[:-1], name[-1])}"

    def _exists_error(self, name: Name) -> TableExists:
        return TableExists(f"{Identifier(self._catalog.name, name[:-1], name[-1])} already exists")

    def _namespace_conditions(self, namespace: Name) -> list[Any]:
        columns = _rows().c
        return [
            columns.catalog_name == self._catalog.name,
            columns.table_namespace == ".".join(namespace),
            columns.iceberg_type == _VIEW,
        ]

    def _name_conditions(self, name: Name) -> list[Any]:
        return [*self._namespace_conditions(name[:-1]), _rows().c.table_name == name[-1]]

    def _run(self, statement: Any, take: Callable[[Any], Any] = lambda result: None) -> Any:
        with self._catalog.engine.begin() as connection:
            return take(connection.execute(statement))

    def _check_namespace(self, namespace: Name) -> None:
        if not self._catalog.namespace_exists(namespace):
            raise NoSuchNamespace(f"catalog {self._catalog.name!r} has no namespace {'.'.join(namespace)!r}")

    def _default_location(self, name: Name) -> str:
        """Return a unique folder, so that a later table of the same name does not find the view's metadata.

        It is in the namespace's location or in the warehouse. Raises `InvalidOption` if there is neither.
        """
        folder = f"{name[-1]}-{uuid.uuid4().hex}"
        own = self._catalog.load_namespace_properties(name[:-1]).get("location")
        if own is not None:
            return folder_of(own, folder)
        warehouse = self._catalog.properties.get("warehouse")
        if warehouse is None:
            raise InvalidOption(
                f"catalog {self._catalog.name!r} has no warehouse: give the view the property 'location'"
            )
        return folder_of(warehouse, *name[:-1], folder)

    def _write_metadata(self, view: ViewMetadata, number: int) -> str:
        """Write a new metadata file, whose name starts with the version `number`, and return its location."""
        folder = view.properties.get(_METADATA_FOLDER) or join(view.location, "metadata")
        location = join(folder, f"{number:05d}-{uuid.uuid4()}.metadata.json")
        with self._storage.create(location) as file:
            file.write(json.dumps(view.node()).encode())
        return location


@lru_cache(maxsize=64)
def _has_types(engine: Any) -> bool:
    from sqlalchemy import inspect

    return any(each["name"] == "iceberg_type" for each in inspect(engine).get_columns("iceberg_tables"))


@lru_cache(maxsize=1)
def _rows() -> Any:
    from sqlalchemy import Column, MetaData, String, Table

    keys = (Column(name, String(255), primary_key=True) for name in ("catalog_name", "table_namespace", "table_name"))
    locations = (Column(name, String(1000)) for name in ("metadata_location", "previous_metadata_location"))
    return Table("iceberg_tables", MetaData(), *keys, *locations, Column("iceberg_type", String(5)))
