"""Where catalogs keep views: what each kind of catalog offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakescan.common.identifiers import Identifier
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.view.metadata import ViewMetadata

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

Name = tuple[str, ...]


@dataclass(frozen=True)
class StoredView:
    """A view as a catalog has it. `location` is that of its metadata file; None if the catalog does not tell."""

    identifier: Identifier
    metadata: ViewMetadata
    location: str | None = None


class ViewStore(ABC):
    """The views of a catalog. Names are those within it: namespace and view."""

    @abstractmethod
    def load(self, name: Name) -> StoredView | None:
        """The view of a name; None if there is none, or the catalog has no views."""

    @abstractmethod
    def names(self, namespace: Name) -> list[str]:
        """The names of a namespace's views; none in a catalog that has no views."""

    @abstractmethod
    def create(self, name: Name, make: Callable[[str | None], ViewMetadata]) -> None:
        """Add a view; raises `TableExists`, `NoSuchNamespace`, and `UnsupportedFeature`.

        `make` takes the location that the store gives to views by default, or None if the catalog finds it itself.
        """

    @abstractmethod
    def commit(self, base: StoredView, new: ViewMetadata) -> bool:
        """Put new metadata in the place of the base; False if another writer was first."""

    @abstractmethod
    def drop(self, name: Name) -> bool:
        """Remove a view; False if there is none."""

    @abstractmethod
    def rename(self, old: Name, new: Name) -> bool:
        """Give a view another name; False if there is none. Raises `TableExists` if the new name is taken."""


class NoViews(ViewStore):
    """A catalog without views."""

    def __init__(self, catalog: Catalog, instead: str = "") -> None:
        self._name, self._kind, self._instead = catalog.name, type(catalog).__name__, instead

    def load(self, name: Name) -> StoredView | None:
        """No view."""
        return None

    def names(self, namespace: Name) -> list[str]:
        """No names."""
        return []

    def create(self, name: Name, make: Callable[[str | None], ViewMetadata]) -> None:
        """Raise `UnsupportedFeature`."""
        raise UnsupportedFeature(
            f"views in catalog {self._name!r} ({self._kind})",
            self._instead
            or "Catalogs of type rest and sql have views. Use lakescan.spark.create_view for a view of one session, or "
            "a query of WITH.",
        )

    def commit(self, base: StoredView, new: ViewMetadata) -> bool:
        """Raise `UnsupportedFeature`."""
        raise AssertionError("a catalog without views has none to change")

    def drop(self, name: Name) -> bool:
        """No view is there."""
        return False

    def rename(self, old: Name, new: Name) -> bool:
        """No view is there."""
        return False


def view_store(catalog: Any) -> ViewStore:
    """The views of a pyiceberg catalog."""
    from lakescan.catalogs.rest_views import RestViews
    from lakescan.catalogs.sql_views import SqlViews

    kinds = {each.__name__ for each in type(catalog).__mro__}
    if "RestCatalog" in kinds:
        return RestViews(catalog) if hasattr(catalog, "load_view") else NoViews(catalog, "Install pyiceberg>=0.12.")
    if "SqlCatalog" in kinds:
        return SqlViews(catalog) if SqlViews.can_store(catalog) else NoViews(catalog, SqlViews.INSTEAD)
    return NoViews(catalog)
