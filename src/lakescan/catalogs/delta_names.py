"""Names of Delta tables in a SQL catalog: a table of its own beside those that pyiceberg keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from lakescan.errors import TableExists, UnsupportedFeature

_TABLE = "lakescan_delta_tables"


@dataclass(frozen=True)
class DeltaNames:
    """The Delta tables of one of pyiceberg's catalogs; those of other kinds than SQL have none."""

    catalog: Any

    def location(self, name: tuple[str, ...]) -> str | None:
        """Where a table is; None where it has no such name."""
        rows = self._run(lambda table: table.select().where(*self._named(table, name)))
        return rows[0].location if rows else None

    def names(self, namespace: tuple[str, ...]) -> list[str]:
        """The tables of a namespace."""
        rows = self._run(lambda table: table.select().where(*self._within(table, namespace)))
        return sorted(row.name for row in rows)

    def add(self, name: tuple[str, ...], location: str) -> None:
        """Give a table a name; raises `TableExists`, and `UnsupportedFeature` in a catalog that is not of SQL."""
        from sqlalchemy.exc import IntegrityError

        if not self._has_engine:
            raise UnsupportedFeature(
                f"Delta tables in catalog {self.catalog.name!r}", "Catalogs of type sql have them; use its location."
            )
        _names_table().metadata.create_all(self.catalog.engine)
        row = {"catalog": self.catalog.name, "namespace": ".".join(name[:-1]), "name": name[-1], "location": location}
        try:
            self._run(lambda table: table.insert().values(**row))
        except IntegrityError as error:
            raise TableExists(f"{'.'.join(name)} exists already in catalog {self.catalog.name!r}") from error

    def remove(self, name: tuple[str, ...]) -> None:
        """Take a name away, if it is there."""
        self._run(lambda table: table.delete().where(*self._named(table, name)))

    @property
    def _has_engine(self) -> bool:
        return hasattr(self.catalog, "engine")

    def _within(self, table: Any, namespace: tuple[str, ...]) -> list[Any]:
        return [table.c.catalog == self.catalog.name, table.c.namespace == ".".join(namespace)]

    def _named(self, table: Any, name: tuple[str, ...]) -> list[Any]:
        return [*self._within(table, name[:-1]), table.c.name == name[-1]]

    def _run(self, statement: Callable[[Any], Any]) -> list[Any]:
        """The rows of a statement; none where no table was given a name yet."""
        if not self._has_engine:
            return []
        from sqlalchemy import inspect

        if not inspect(self.catalog.engine).has_table(_TABLE):
            return []
        with self.catalog.engine.begin() as connection:
            done = connection.execute(statement(_names_table()))
            return list(done) if done.returns_rows else []


@cache
def _names_table() -> Any:
    from sqlalchemy import Column, MetaData, String, Table

    keys = (Column(name, String(255), primary_key=True) for name in ("catalog", "namespace", "name"))
    return Table(_TABLE, MetaData(), *keys, Column("location", String(1000)))
