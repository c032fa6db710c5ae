"""Views in REST catalogs. pyiceberg reads, lists and drops them; changes go through its connection as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from lakescan.catalogs.outcomes import commit_change
from lakescan.catalogs.rest_session import RestSession, message_of, namespace_path
from lakescan.catalogs.view_store import Name, StoredView, ViewStore
from lakescan.common.identifiers import Identifier
from lakescan.common.retries import outcome_of
from lakescan.errors import InvalidOption, NoSuchNamespace, StorageError, TableExists, UnsupportedFeature
from lakescan.iceberg.metadata.json_node import Node
from lakescan.iceberg.metadata.schema_writer import schema_node
from lakescan.iceberg.view.changes import updates
from lakescan.iceberg.view.metadata import ViewMetadata, view_of

_UNKNOWN_FROM = 500  # statuses that do not say whether a change was made


class RestViews(ViewStore):
    """The views of a REST catalog."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog

    def load(self, name: Name) -> StoredView | None:
        """The view of a name."""
        from pyiceberg.exceptions import NoSuchViewError

        try:
            found = self._catalog.load_view(name)
        except (NoSuchViewError, NotImplementedError):  # the latter: the server has no views
            return None
        identifier = Identifier(self._catalog.name, name[:-1], name[-1])
        node = Node.wrap(json.loads(found.metadata.model_dump_json()), str(identifier))
        return StoredView(identifier, view_of(node))

    def names(self, namespace: Name) -> list[str]:
        """The names of a namespace's views; none if the server has no views."""
        return [name[-1] for name in self._catalog.list_views(namespace)]

    def create(self, name: Name, make: Callable[[str | None], ViewMetadata]) -> None:
        """Add a view."""
        self._check_has_views(name)
        self._check_namespace(name[:-1])  # the reference's server does not
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
        """Send the changes, for the view that the base is."""
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
        """Remove a view."""
        from pyiceberg.exceptions import NoSuchViewError

        doing = f"dropping {Identifier(self._catalog.name, name[:-1], name[-1])}"
        try:
            commit_change(doing, lambda: self._catalog.drop_view(name), lambda: None if self.load(name) else True)
        except (NoSuchViewError, NotImplementedError):
            return False
        return True

    def rename(self, old: Name, new: Name) -> bool:
        """Give a view another name."""
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
        """Raise `UnsupportedFeature` if the server does not say that it has views."""
        from pyiceberg.exceptions import NoSuchViewError

        with suppress(NoSuchViewError):
            try:
                self._catalog.load_view(name)
            except NotImplementedError as error:
                raise self._no_views_error() from error

    def _no_views_error(self) -> UnsupportedFeature:
        return UnsupportedFeature(
            f"views in catalog {self._catalog.name!r}",
            "Its server does not say that it has views. If it has, set the catalog's property "
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
        """Post a change, and return the status; a lost answer is looked up: 200 if `name` is as `new` has it.

        Raises `StorageError` for other refusals than 404 and 409, `CommitStateUnknown` if the outcome stays unknown.
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
