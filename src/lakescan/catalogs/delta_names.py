"""Names of Delta tables in catalogs that pyiceberg knows, which themselves name Iceberg tables only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from lakescan.catalogs.glue_delta_names import GlueDeltaNames
from lakescan.catalogs.sql_delta_names import SqlDeltaNames
from lakescan.errors import UnsupportedFeature


class _Names(Protocol):
    def location(self, name: tuple[str, ...]) -> str | None: ...
    def names(self, namespace: tuple[str, ...]) -> list[str]: ...
    def add(self, name: tuple[str, ...], location: str) -> None: ...
    def remove(self, name: tuple[str, ...]) -> None: ...


@dataclass(frozen=True)
class DeltaNames:
    """The Delta tables of a pyiceberg catalog; only SQL catalogs and Glue can have any."""

    catalog: Any

    def location(self, name: tuple[str, ...]) -> str | None:
        """The table's location, or None if the catalog has no Delta table of that name."""
        return None if (kept := self._kept) is None else kept.location(name)

    def names(self, namespace: tuple[str, ...]) -> list[str]:
        """The names of a namespace's Delta tables, sorted."""
        return [] if (kept := self._kept) is None else kept.names(namespace)

    def check(self) -> None:
        """Raise `UnsupportedFeature` for a catalog that cannot have any."""
        if self._kept is None:
            raise UnsupportedFeature(
                f"Delta tables in catalog {self.catalog.name!r}",
                "Only catalogs of the types sql, glue and unity can name them; use the table's location.",
            )

    def add(self, name: tuple[str, ...], location: str) -> None:
        """Register a table; raises `TableExists`, and `UnsupportedFeature` for a catalog that cannot have any."""
        self.check()
        if (kept := self._kept) is not None:
            kept.add(name, location)

    def remove(self, name: tuple[str, ...]) -> None:
        """Unregister a table, if it is registered."""
        if (kept := self._kept) is not None:
            kept.remove(name)

    @property
    def _kept(self) -> _Names | None:
        if hasattr(self.catalog, "engine"):
            return SqlDeltaNames(self.catalog)
        return GlueDeltaNames(self.catalog) if hasattr(self.catalog, "glue") else None
