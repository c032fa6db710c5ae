"""A Unity Catalog server as a catalog of lakescan: its schemas are the namespaces, its Delta tables the tables.

The class has those methods of pyiceberg's catalogs that lakescan calls, and raises their errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from lakescan.catalogs.unity.client import UnityClient, UnityRefusal, UnityResponse, quoted_path
from lakescan.catalogs.unity.table import ManagedUnityTable, UnityTable
from lakescan.common.identifiers import Identifier, dotted_name
from lakescan.delta.log.catalog_managed import FEATURES
from lakescan.errors import CorruptMetadata, InvalidOption, NoSuchTable, StorageError, TableExists, UnsupportedFeature

Name = tuple[str, ...]
_T = TypeVar("_T")
_COMMENT = "comment"


class UnityCatalog:
    """A catalog on a Unity Catalog server: the one named by the property `warehouse`, by default by `name`.

    Names are tuples: (schema,) for a namespace, (schema, table) for a table.
    """

    def __init__(self, name: str, properties: Mapping[str, str]) -> None:
        self.name = name
        self.properties: dict[str, str] = dict(properties)
        self.client: UnityClient = UnityClient.configure(name, properties)
        self.remote_name: str = properties.get("warehouse", name)

    def __repr__(self) -> str:
        return f"UnityCatalog({self.name!r}, {self.client.uri!r})"

    def find(self, identifier: Identifier) -> UnityTable:
        """Look up a Delta table; raises pyiceberg's `NoSuchTableError`, or `UnsupportedFeature` for another format.

        Also raises the errors of `table_names`, `StorageError`, and `CorruptMetadata`.
        """
        names = self.table_names(identifier.within)
        path = f"/delta/v1{quoted_path('catalogs', names[0], 'schemas', names[1], 'tables', names[2])}"
        try:
            answer = self.client.get(path)
        except UnityRefusal as error:
            if error.status == 404 and error.kind.startswith("NoSuch"):
                raise self._no_table(identifier) from error
            if error.kind == "UnsupportedTableFormatException" or error.status in (404, 405, 501):
                return self._find_legacy(identifier, names)
            raise self._failure(identifier, error) from error
        return self.table_of(identifier, answer)

    def table_of(self, identifier: Identifier, answer: UnityResponse) -> UnityTable:
        """Create a table from the server's description of it; raises `CorruptMetadata` without an id or location."""
        known = answer.node("metadata")
        uuid, location, properties = known.text("table-uuid"), known.text("location"), known.node("properties")
        if not uuid or not location:
            raise self._incomplete(identifier, answer)
        is_managed = any(properties.get(f"delta.feature.{each}") for each in FEATURES)
        names = self.table_names(identifier.within)
        at = (self.client, identifier, names, uuid, _plain(location))
        return ManagedUnityTable(*at).keep_answer(answer) if is_managed else UnityTable(*at)

    def _find_legacy(self, identifier: Identifier, names: tuple[str, str, str]) -> UnityTable:
        """Look up a table by the older API, if the server or the table does not support the API of Delta tables.

        Raises the errors of `find`, and `UnsupportedFeature` for a table with catalog-managed commits.
        """
        found = self._run_request(
            identifier, lambda: self.client.get(_full_name_path("tables", *names)), self._no_table(identifier)
        )
        properties, kind = found.node("properties"), found.text("data_source_format")
        if (kind or "").upper() != "DELTA":
            raise UnsupportedFeature(
                f"the table {identifier} of format {kind}",
                "A catalog of type unity opens Delta tables. For Iceberg tables, use its Iceberg REST API: type rest.",
            )
        if any(properties.get(f"delta.feature.{each}") for each in FEATURES):
            raise UnsupportedFeature(
                f"the catalog-managed Delta table {identifier} of a server without the API delta/v1",
                "Update the server.",
            )
        uuid, location = found.text("table_id"), found.text("storage_location")
        if not uuid or not location:
            raise self._incomplete(identifier, found)
        return UnityTable(self.client, identifier, names, uuid, _plain(location), is_old=True)

    def _incomplete(self, identifier: Identifier, answer: UnityResponse) -> CorruptMetadata:
        return CorruptMetadata(
            f"catalog {self.name!r} returned no location or no id for {identifier}, in the answer to "
            f"{answer.request}. Ask its operator."
        )

    def load_table(self, name: Name) -> NoReturn:
        """Raise `UnsupportedFeature`: lakescan opens only Delta tables of a Unity Catalog; see `find`."""
        raise self._no_iceberg(f"the table {dotted_name(name)} as an Iceberg table")

    def create_table(self, name: Name, **arguments: Any) -> NoReturn:
        """Raise `UnsupportedFeature`, like `load_table`."""
        raise self._no_iceberg(f"an Iceberg table {dotted_name(name)}")

    def create_table_transaction(self, name: Name, **arguments: Any) -> NoReturn:
        """Raise `UnsupportedFeature`, like `load_table`."""
        self.create_table(name)

    def register_table(self, name: Name, **arguments: Any) -> NoReturn:
        """Raise `UnsupportedFeature`, like `load_table`."""
        self.create_table(name)

    def list_namespaces(self, under: Name = ()) -> list[Name]:
        """Return the names of all schemas, or an empty list below a schema (`under`)."""
        if under:
            return []
        query = {"catalog_name": self.remote_name}
        where = Identifier(self.name, (), "")
        found = self._run_request(where, lambda: list(self.client.pages("/schemas", "schemas", query)))
        return [(each.required_text("name"),) for each in found]

    def namespace_exists(self, namespace: Name) -> bool:
        """Return whether the schema exists. False for a name of several levels."""
        if len(namespace) != 1:
            return False
        try:
            self.client.get(self._schema_path(namespace))
        except UnityRefusal as error:
            if error.is_missing:
                return False
            raise self._failure(Identifier(self.name, namespace, ""), error) from error
        return True

    def load_namespace_properties(self, namespace: Name) -> dict[str, str]:
        """Return the properties of a schema, including its comment; raises pyiceberg's `NoSuchNamespaceError`."""
        found = self._run_schema_request(namespace, lambda: self.client.get(self._schema_path(namespace)))
        comment = found.text(_COMMENT)
        return {**found.texts("properties"), **({} if comment is None else {_COMMENT: comment})}

    def create_namespace(self, namespace: Name, properties: Mapping[str, str] | None = None) -> None:
        """Create a schema; raises pyiceberg's `NamespaceAlreadyExistsError`.

        The properties `comment` and `location` become the schema's comment and storage root.
        """
        from pyiceberg.exceptions import NamespaceAlreadyExistsError

        given = dict(properties or {})
        body = {
            "name": self._schema(namespace),
            "catalog_name": self.remote_name,
            _COMMENT: given.pop(_COMMENT, None),
            "storage_root": given.pop("location", None),
            "properties": given,
        }
        sent = {name: value for name, value in body.items() if value is not None}
        try:
            self.client.send("POST", "/schemas", sent)
        except UnityRefusal as error:
            if "ALREADY_EXISTS" in error.kind or error.status == 409:
                raise NamespaceAlreadyExistsError(error.message) from error
            raise self._failure(Identifier(self.name, namespace, ""), error) from error

    def update_namespace_properties(self, namespace: Name, removals: set[str], updates: Mapping[str, str]) -> None:
        """Set and remove properties of a schema, including its comment; raises pyiceberg's `NoSuchNamespaceError`."""
        there = {**self.load_namespace_properties(namespace), **updates}
        kept = {name: value for name, value in there.items() if name not in removals}
        body = {_COMMENT: kept.pop(_COMMENT, ""), "properties": kept}
        self._run_schema_request(namespace, lambda: self.client.send("PATCH", self._schema_path(namespace), body))

    def drop_namespace(self, namespace: Name) -> None:
        """Drop a schema; raises pyiceberg's `NamespaceNotEmptyError` and `NoSuchNamespaceError`."""
        from pyiceberg.exceptions import NamespaceNotEmptyError

        if self.list_tables(namespace):
            raise NamespaceNotEmptyError(dotted_name(namespace))
        self._run_schema_request(namespace, lambda: self.client.send("DELETE", self._schema_path(namespace)))

    def list_tables(self, namespace: Name) -> list[Name]:
        """Return the names of a schema's tables of any format; raises pyiceberg's `NoSuchNamespaceError`."""
        query = {"catalog_name": self.remote_name, "schema_name": self._schema(namespace)}
        found = self._run_schema_request(namespace, lambda: list(self.client.pages("/tables", "tables", query)))
        if not found and not self.namespace_exists(namespace):
            raise self._no_namespace(namespace)
        return [(*namespace, each.required_text("name")) for each in found]

    def drop_table(self, name: Name) -> None:
        """Drop a table; raises pyiceberg's `NoSuchTableError`. The server deletes the files of managed tables."""
        identifier = Identifier(self.name, name[:-1], name[-1])
        path = _full_name_path("tables", *self.table_names(name))
        self._run_request(identifier, lambda: self.client.send("DELETE", path), self._no_table(identifier))

    def rename_table(self, name: Name, new: Name) -> None:
        """Rename a table within its schema; raises pyiceberg's `NoSuchTableError`, and `TableExists`.

        Raises `UnsupportedFeature` for a new name in another schema.
        """
        if name[:-1] != new[:-1]:
            raise UnsupportedFeature(
                f"renaming {dotted_name(name)} to another schema", "The catalog does not support it."
            )
        identifier = Identifier(self.name, name[:-1], name[-1])
        catalog, schema, table = self.table_names(name)
        path = f"/delta/v1{quoted_path('catalogs', catalog, 'schemas', schema, 'tables', table, 'rename')}"
        body = {"new-name": new[-1]}
        self._run_request(identifier, lambda: self.client.send("POST", path, body), self._no_table(identifier))

    def table_names(self, name: Name) -> tuple[str, str, str]:
        """Return the names of the catalog, schema and table on the server.

        Raises `NoSuchTable` unless the name is (schema, table), and `InvalidOption` for names with `.` or `/`.
        """
        if len(name) != 2:
            raise NoSuchTable(f"{dotted_name((self.name, *name))}: write catalog.schema.table")
        if any("." in part or "/" in part for part in name):
            raise InvalidOption(f"{dotted_name(name)}: names in a Unity Catalog have neither . nor /")
        return self.remote_name, name[0], name[1]

    def _schema(self, namespace: Name) -> str:
        if len(namespace) != 1 or "." in namespace[0] or "/" in namespace[0]:
            raise self._no_namespace(namespace)
        return namespace[0]

    def _schema_path(self, namespace: Name) -> str:
        return _full_name_path("schemas", self.remote_name, self._schema(namespace))

    def _run_schema_request(self, namespace: Name, ask: Callable[[], _T]) -> _T:
        return self._run_request(Identifier(self.name, namespace, ""), ask, self._no_namespace(namespace))

    def _run_request(self, where: Identifier, ask: Callable[[], _T], missing: Exception | None = None) -> _T:
        """Return the result of `ask`; raise `missing` if the requested object does not exist.

        Raises `TableExists` if the object exists already, and `StorageError` for other refusals; `where` names it in
        messages.
        """
        try:
            return ask()
        except UnityRefusal as error:
            if error.is_missing and missing is not None:
                raise missing from error
            raise self._failure(where, error) from error

    def _failure(self, where: Identifier, error: UnityRefusal) -> Exception:
        if error.status == 409 or "ALREADY_EXISTS" in error.kind:
            return TableExists(f"{where}: {error.message}")
        return StorageError(f"catalog {self.name!r} failed to respond for {where}: {error}")

    def _no_table(self, identifier: Identifier) -> Exception:
        from pyiceberg.exceptions import NoSuchTableError

        return NoSuchTableError(str(identifier))

    def _no_namespace(self, namespace: Iterable[str]) -> Exception:
        from pyiceberg.exceptions import NoSuchNamespaceError

        return NoSuchNamespaceError(dotted_name(namespace))

    def _no_iceberg(self, what: str) -> UnsupportedFeature:
        return UnsupportedFeature(
            f"{what} in catalog {self.name!r} of type unity",
            "It has Delta tables: pass format='delta'. For Iceberg, use the server's Iceberg REST API: type rest.",
        )


def _full_name_path(kind: str, *names: str) -> str:
    """Return the URL path of an object, `/kind/a.b.c`, with special characters such as `?` and `#` quoted."""
    return quoted_path(kind, ".".join(names))


def _plain(location: str) -> str:
    """Return a location without its trailing slash."""
    return str(location).rstrip("/") or str(location)
