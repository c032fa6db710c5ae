"""Names of Delta tables in catalogs that pyiceberg knows, which themselves name Iceberg tables only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from lakescan.catalogs.glue_delta_names import GlueDeltaNames
from lakescan.catalogs.hive_client import is_hive
from lakescan.catalogs.hive_delta_names import HiveDeltaNames, absolute_location
from lakescan.catalogs.outcomes import commit_change
from lakescan.catalogs.sql_delta_names import SqlDeltaNames
from lakescan.errors import UnsupportedFeature
from lakescan.storage.locations import normal


class _Names(Protocol):
    def location(self, name: tuple[str, ...]) -> str | None: ...
    def names(self, namespace: tuple[str, ...]) -> list[str]: ...
    def other(self, name: tuple[str, ...]) -> str | None: ...
    def add(self, name: tuple[str, ...], location: str) -> None: ...
    def remove(self, name: tuple[str, ...]) -> None: ...
    def rename(self, name: tuple[str, ...], new: tuple[str, ...]) -> None: ...


@dataclass(frozen=True)
class DeltaNames:
    """The Delta tables of a pyiceberg catalog; only SQL catalogs, Glue and Hive metastores can have any."""

    catalog: Any

    def location(self, name: tuple[str, ...]) -> str | None:
        """The table's location, or None if the catalog has no Delta table of that name."""
        return None if (kept := self._store) is None else kept.location(name)

    def names(self, namespace: tuple[str, ...]) -> list[str]:
        """The names of a namespace's Delta tables, sorted."""
        return [] if (kept := self._store) is None else kept.names(namespace)

    def other(self, name: tuple[str, ...]) -> str | None:
        """What has the name, such as "a Hive view", if it is neither an Iceberg nor a Delta table; else None."""
        return None if (kept := self._store) is None else kept.other(name)

    def check(self) -> None:
        """Raise `UnsupportedFeature` for a catalog that cannot have any."""
        if self._store is None:
            raise UnsupportedFeature(
                f"Delta tables in catalog {self.catalog.name!r}",
                "Only catalogs of the types sql, glue, hive and unity can name them; use the table's location.",
            )

    def add(self, name: tuple[str, ...], location: str) -> bool:
        """Register a table; False if the answer was lost, and the name has this location, maybe by another writer.

        Raises `TableExists`, `CommitStateUnknown`, and `UnsupportedFeature` for a catalog that cannot have any.
        """
        self.check()
        kept = self._store
        assert kept is not None

        def is_made() -> bool | None:
            found = kept.location(name)
            return None if found is None else normal(absolute_location(found)) == normal(absolute_location(location))

        def add() -> bool:
            kept.add(name, location)
            return True

        return commit_change(self._doing("registering", name), add, is_made) or False

    def remove(self, name: tuple[str, ...]) -> None:
        """Unregister a table, if it is registered; raises `CommitStateUnknown`."""
        if (kept := self._store) is not None:
            is_made = lambda: True if kept.location(name) is None else None  # noqa: E731
            commit_change(self._doing("dropping", name), lambda: kept.remove(name), is_made)

    def rename(self, name: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Give a registered table another name; raises `TableExists`, `CommitStateUnknown`."""
        kept = self._store
        assert kept is not None
        location = kept.location(name)

        def is_made() -> bool | None:
            return True if kept.location(new) == location and kept.location(name) is None else None

        commit_change(self._doing("renaming", name), lambda: kept.rename(name, new), is_made)

    def _doing(self, what: str, name: tuple[str, ...]) -> str:
        return f"{what} {'.'.join((self.catalog.name, *name))}"

    @property
    def _store(self) -> _Names | None:
        if hasattr(self.catalog, "engine"):
            return SqlDeltaNames(self.catalog)
        if is_hive(self.catalog):
            return HiveDeltaNames(self.catalog)
        return GlueDeltaNames(self.catalog) if hasattr(self.catalog, "glue") else None
