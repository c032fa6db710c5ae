"""Names of Delta tables in a SQL catalog: a table of its own beside those that pyiceberg keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakescan.errors import TableExists, UnsupportedFeature

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_TABLE = "lakescan_delta_tables"


@dataclass(frozen=True)
class DeltaNames:
    """The Delta tables of one catalog; those of other kinds than SQL have none."""

    catalog: Any

    @staticmethod
    def of(catalog: Catalog) -> DeltaNames:
        """The names in a catalog."""
        return DeltaNames(catalog)

    def location(self, name: tuple[str, ...]) -> str | None:
        """Where a table is; None where it has no such name."""
        rows = self._run("SELECT location FROM {table} WHERE {this}", name)
        return rows[0][0] if rows else None

    def names(self, namespace: tuple[str, ...]) -> list[str]:
        """The tables of a namespace."""
        rows = self._run(
            "SELECT name FROM {table} WHERE catalog = :catalog AND namespace = :namespace", (*namespace, "")
        )
        return sorted(row[0] for row in rows)

    def add(self, name: tuple[str, ...], location: str) -> None:
        """Give a table a name; raises `TableExists`, and `UnsupportedFeature` in a catalog that is not of SQL."""
        from sqlalchemy.exc import IntegrityError

        self._writable()
        try:
            self._run("INSERT INTO {table} VALUES (:catalog, :namespace, :name, :location)", name, location)
        except IntegrityError as error:
            raise TableExists(f"{'.'.join(name)} exists already in catalog {self.catalog.name!r}") from error

    def remove(self, name: tuple[str, ...]) -> bool:
        """Take a name away; whether it was there."""
        if self.location(name) is None:
            return False
        self._run("DELETE FROM {table} WHERE {this}", name)
        return True

    def _writable(self) -> None:
        from sqlalchemy import text

        if not self._has_engine:
            raise UnsupportedFeature(
                f"Delta tables in catalog {self.catalog.name!r}", "Catalogs of type sql have them; use its location."
            )
        with self.catalog.engine.begin() as connection:
            connection.execute(
                text(
                    f"CREATE TABLE IF NOT EXISTS {_TABLE} (catalog VARCHAR(255), namespace VARCHAR(255), "
                    "name VARCHAR(255), location VARCHAR(1000), PRIMARY KEY (catalog, namespace, name))"
                )
            )

    @property
    def _has_engine(self) -> bool:
        return hasattr(self.catalog, "engine")

    def _run(self, statement: str, name: tuple[str, ...], location: str | None = None) -> list[Any]:
        if not self._has_engine:
            return []
        from sqlalchemy import inspect, text

        this = "catalog = :catalog AND namespace = :namespace AND name = :name"
        values = {
            "catalog": self.catalog.name,
            "namespace": ".".join(name[:-1]),
            "name": name[-1],
            "location": location,
        }
        if not inspect(self.catalog.engine).has_table(_TABLE):
            return []
        query = text(statement.format(table=_TABLE, this=this))
        with self.catalog.engine.begin() as connection:
            done = connection.execute(query, {k: v for k, v in values.items() if f":{k}" in query.text})
            return list(done) if done.returns_rows else []
