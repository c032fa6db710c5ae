"""`CatalogViews`: the methods of `Catalog` that create, open, change and drop views."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakescan.api.view import View
from lakescan.catalogs.lookup import find_table, find_view, translate_catalog_errors
from lakescan.catalogs.views import StoredView, ViewStore, view_store
from lakescan.common.identifiers import Identifier, dotted_name
from lakescan.common.retries import COMMITS, Attempts, retry_read
from lakescan.common.schema import Schema
from lakescan.common.version import own_version
from lakescan.definition.view_definition import ViewDefinition
from lakescan.errors import CommitConflict, InvalidOption, NoSuchNamespace, NoSuchTable, TableExists, nearest
from lakescan.iceberg.view.metadata import (
    COMMENT,
    QUERY_COLUMNS,
    ViewMetadata,
    ViewText,
    new_view,
    replace_view,
    with_properties,
)

_LOCATION = "location"  # property with the folder of a new view's metadata


class CatalogViews(ABC):
    """The methods of `Catalog` for views."""

    name: str

    @property
    @abstractmethod
    def _catalog(self) -> Any: ...

    @abstractmethod
    def _identifier(self, name: str) -> Identifier: ...

    @abstractmethod
    def _parts(self, namespace: str) -> tuple[str, ...]: ...

    def list_views(self, namespace: str) -> list[str]:
        """List the views of a namespace.

        Args:
            namespace: The namespace's dotted name.

        Returns:
            Sorted names `namespace.view`. The list is empty if the catalog does not support views.

        Raises:
            NoSuchNamespace: The namespace does not exist.

        Example:
            >>> lake.list_views("shop")
            ['shop.open_orders']
        """
        parts = self._parts(namespace)
        with translate_catalog_errors(Identifier(self.name, parts, "")):
            return sorted(dotted_name((*parts, name)) for name in self._views.names(parts))

    def load_view(self, name: str) -> View:
        """Open a view, to look at its query, columns and properties.

        Args:
            name: `namespace.view`, or `catalog.namespace.view`.

        Raises:
            NoSuchTable: The view does not exist; the message suggests the nearest name.

        Example:
            >>> lake.load_view("shop.open_orders").query
            'SELECT * FROM orders WHERE open'
        """
        return View(self._load_view(self._identifier(name)))

    def view_exists(self, name: str) -> bool:
        """Return whether the catalog has a view.

        Args:
            name: The view's name, `namespace.view`.

        Example:
            >>> lake.view_exists("shop.open_orders")
            True
        """
        return find_view(self._identifier(name)) is not None

    def create_view(
        self,
        name: str,
        query: str,
        *,
        replace: bool = False,
        if_not_exists: bool = False,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        columns: Sequence[str] = (),
    ) -> View:
        """Create a view of a query, and open it.

        The query's tables and columns must exist. The catalog stores the query's text and its current columns: columns
        that are added to the tables later do not appear in the view. Other Iceberg engines can read the view.

        Args:
            name: The view's name, `namespace.view`.
            query: A SELECT in Spark's dialect. Table names without a namespace are resolved in the view's namespace.
            replace: If the view exists, replace it; its properties stay.
            if_not_exists: If the view exists, open it as it is.
            comment: A description of the view.
            properties: Properties of the view. `location` sets the folder of its metadata.
            columns: The names of the view's columns. By default those of the query.

        Returns:
            The open view.

        Raises:
            TableExists: A table has the name, or a view has it and neither `replace` nor `if_not_exists` is given.
            NoSuchTable: The query reads a table that does not exist.
            InvalidStatement: The text is not a query, it has parameters, or `columns` does not match its columns.
            UnsupportedFeature: The catalog does not support views, or the view to replace also has a query in another
                dialect.

        Example:
            >>> lake.create_view("shop.open_orders", "SELECT * FROM orders WHERE open", comment="not yet shipped")
        """
        if replace and if_not_exists:
            raise InvalidOption("replace replaces a view that exists, if_not_exists keeps it: give one of them")
        identifier = self._identifier(name)
        if if_not_exists and (found := find_view(identifier)) is not None:
            return View(found)
        from lakescan.statements.tables.views import view_definition

        definition = view_definition(
            query, identifier, tuple((each, None) for each in columns), comment, property_texts(properties)
        )
        return self.make_view(name, definition, replace=replace, if_not_exists=if_not_exists)

    def make_view(
        self, name: str, definition: ViewDefinition, *, replace: bool = False, if_not_exists: bool = False
    ) -> View:
        """Create a view from a `ViewDefinition`, without checking its query; see `create_view`.

        Args:
            name: The view's name, `namespace.view`.
            definition: The view's query and columns.
            replace: If the view exists, replace it.
            if_not_exists: If the view exists, open it as it is.

        Returns:
            The open view.

        Raises:
            TableExists: A table has the name, or a view has it and neither `replace` nor `if_not_exists` is given.

        Example:
            >>> lake.make_view("shop.open_orders", definition, replace=True)
        """
        identifier = self._identifier(name)
        self._check_no_table(identifier)
        text, properties = self._text(definition), _properties_of(definition)
        attempts = Attempts(COMMITS)
        while True:
            found = find_view(identifier)
            if found is not None and not replace and not if_not_exists:
                raise TableExists(
                    f"the view {identifier} already exists: replace=True (OR REPLACE) replaces it, if_not_exists=True "
                    "(IF NOT EXISTS) keeps it"
                )
            if found is not None and not replace:
                return View(found)
            try:
                if found is None:
                    self._create(identifier, text, properties, definition.properties.get(_LOCATION))
                else:
                    self._commit(found, replace_view(found.metadata, text, properties, str(identifier)))
                return self._reopen_view(name)
            except (CommitConflict, TableExists) as error:  # a concurrent change
                if not replace and not if_not_exists:
                    raise
                self._check_no_table(identifier)
                attempts.wait_or_raise(str(identifier), error)

    def drop_view(self, name: str, *, missing_ok: bool = False) -> None:
        """Drop a view. The tables that it reads stay, and so does its metadata file.

        Args:
            name: The view's name, `namespace.view`.
            missing_ok: Do nothing if the view does not exist.

        Raises:
            NoSuchTable: The view does not exist and `missing_ok` is not given, or the name is that of a table.

        Example:
            >>> lake.drop_view("shop.open_orders", missing_ok=True)
        """
        identifier = self._identifier(name)
        with translate_catalog_errors(identifier):
            dropped = self._views.drop(identifier.within)
        if not dropped and not missing_ok:
            raise self._missing(identifier)

    def rename_view(self, name: str, new: str) -> View:
        """Rename a view, and open it. Other views that read it by its old name are not changed.

        Args:
            name: The current name, `namespace.view`.
            new: The new name, `namespace.view`; the namespace may differ.

        Raises:
            NoSuchTable: The view does not exist.
            TableExists: A view or table already has the new name.

        Example:
            >>> lake.rename_view("shop.open_orders", "shop.orders_to_ship")
        """
        old, renamed = self._identifier(name), self._identifier(new)
        self._load_view(old)
        self._check_no_table(renamed)
        with translate_catalog_errors(renamed):
            if not self._views.rename(old.within, renamed.within):
                raise self._missing(old)
        return self._reopen_view(new)

    def update_view(self, name: str, properties: Mapping[str, str], *, removed: Iterable[str] = ()) -> View:
        """Set and remove properties of a view, and open it.

        Args:
            name: The view's name, `namespace.view`.
            properties: The properties to set; `comment` is the view's description.
            removed: The names of properties to remove; names that are not set are ignored.

        Raises:
            NoSuchTable: The view does not exist.

        Example:
            >>> lake.update_view("shop.open_orders", {"owner": "sales"})
        """
        identifier, changed, gone = self._identifier(name), property_texts(properties), frozenset(removed)
        attempts = Attempts(COMMITS)
        while True:
            found = self._load_view(identifier)
            try:
                self._commit(found, with_properties(found.metadata, changed, gone))
            except CommitConflict as error:
                attempts.wait_or_raise(str(identifier), error)
            else:
                return self._reopen_view(name)

    def _reopen_view(self, name: str) -> View:
        """Open a view that was just changed, and retry reads that fail."""
        return retry_read(lambda: self.load_view(name), f"{self._identifier(name)} is changed, but cannot be opened")

    @property
    def _views(self) -> ViewStore:
        return view_store(self._catalog)

    def _load_view(self, identifier: Identifier) -> StoredView:
        found = find_view(identifier)
        if found is None:
            raise self._missing(identifier)
        return found

    def _missing(self, identifier: Identifier) -> NoSuchTable:
        name = ".".join(identifier.within)
        if self._is_table(identifier):
            return NoSuchTable(f"{identifier} is a table, not a view: use a statement or method for tables")
        try:
            known = self._views.names(identifier.namespace)
        except Exception:
            known = []
        return NoSuchTable(f"catalog {self.name!r} has no view {name!r}.{nearest(identifier.name, known)}")

    def _is_table(self, identifier: Identifier) -> bool:
        try:
            find_table(identifier)
        except (NoSuchTable, NoSuchNamespace):
            return False
        return True

    def _check_no_table(self, identifier: Identifier) -> None:
        if self._is_table(identifier):
            raise TableExists(f"{identifier} is a table: give the view another name, or drop or rename the table")

    def _create(
        self, identifier: Identifier, text: ViewText, properties: Mapping[str, str], location: str | None
    ) -> None:
        def make(default: str | None) -> ViewMetadata:
            return new_view(text, location or default or "", properties)

        with translate_catalog_errors(identifier):
            self._views.create(identifier.within, make)

    def _commit(self, base: StoredView, new: ViewMetadata) -> None:
        if new == base.metadata:
            return
        with translate_catalog_errors(base.identifier):
            if not self._views.commit(base, new):
                raise CommitConflict(f"{base.identifier}: another writer changed the view at the same time")

    def _text(self, definition: ViewDefinition) -> ViewText:
        catalog, *namespace = definition.within
        return ViewText(
            definition.query,
            Schema(definition.columns),
            None if catalog == self.name else catalog,
            tuple(namespace),
            int(time.time() * 1000),
            {"engine-name": "lakescan", "engine-version": own_version()},
        )


def _properties_of(definition: ViewDefinition) -> dict[str, str]:
    own = {name: value for name, value in definition.properties.items() if name != _LOCATION}
    commented = {} if definition.comment is None else {COMMENT: definition.comment}
    return {**own, **commented, QUERY_COLUMNS: ",".join(definition.query_columns)}


def property_texts(properties: Mapping[str, Any] | None) -> dict[str, str]:
    """Return properties of a namespace or view as text; booleans become `true` and `false`.

    Raises `InvalidOption` for a value that is not a mapping, or for a property with the value None.
    """
    if not isinstance(properties, Mapping | None) or None in (properties or {}).values():
        raise InvalidOption(f"properties are a mapping of names to values, not {properties!r}")
    return {str(n): str(v).lower() if isinstance(v, bool) else str(v) for n, v in (properties or {}).items()}
