"""Views in SQL catalogs: rows of `iceberg_tables` whose `iceberg_type` is VIEW, as Iceberg's JdbcCatalog has them.

A view has metadata files, like a table. Each change writes a new one, and swaps the row's pointer if it is still that
of the file that the change began from.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from lakescan.catalogs.delta_names import DeltaNames
from lakescan.catalogs.outcomes import commit_change
from lakescan.catalogs.registry import location_limits
from lakescan.catalogs.view_store import Name, StoredView, ViewStore
from lakescan.common.identifiers import Identifier, folder_of
from lakescan.errors import InvalidOption, NoSuchNamespace, TableExists
from lakescan.iceberg.view.metadata import ViewMetadata, parse_view
from lakescan.storage import Storage, join
from lakescan.storage.issued import storage_properties

_VIEW = "VIEW"
_NUMBER = re.compile(r"(\d+)-")
_METADATA_FOLDER = "write.metadata.path"


class SqlViews(ViewStore):
    """The views of a SQL catalog."""

    INSTEAD = (
        "Its database has no column iceberg_type, by which views are told from tables, or pyiceberg is below 0.12. "
        "Open it once with the property schema_version='v1', which adds the column; older programs then take views for "
        "tables."
    )

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog
        self._storage = Storage(
            io_properties=storage_properties(catalog.properties), allowed=location_limits(catalog.name)
        )

    @staticmethod
    def can_store(catalog: Any) -> bool:
        """Whether the catalog's database tells views from tables, and pyiceberg does, too."""
        from pyiceberg.catalog.sql import IcebergTables

        return hasattr(IcebergTables, "iceberg_type") and _has_types(catalog.engine)

    def load(self, name: Name) -> StoredView | None:
        """The view of a name."""
        found = self._row(name)
        if found is None:
            return None
        location = str(found.metadata_location)
        identifier = Identifier(self._catalog.name, name[:-1], name[-1])
        return StoredView(identifier, parse_view(self._storage.read(location), location), location)

    def names(self, namespace: Name) -> list[str]:
        """The names of a namespace's views."""
        self._check_namespace(namespace)
        table = _rows()
        found = self._run(table.select().where(*self._namespace_conditions(namespace)), list)
        return [row.table_name for row in found]

    def create(self, name: Name, make: Callable[[str | None], ViewMetadata]) -> None:
        """Add a view: its metadata file, then its row."""
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
        """Write a metadata file, and point to it if the row still points to that of the base."""
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
        if changed != 0:  # None: it was looked up
            return True
        self._storage.remove([location])
        return False

    def drop(self, name: Name) -> bool:
        """Remove the view's row; its files stay, as those of a dropped table."""
        removed = commit_change(
            self._doing("dropping", name),
            lambda: self._run(
                _rows().delete().where(*self._name_conditions(name)), lambda result: int(result.rowcount)
            ),
            lambda: True if self._row(name) is None else None,
        )
        return bool(removed != 0)

    def rename(self, old: Name, new: Name) -> bool:
        """Change the name in the view's row."""
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
        """Whether a view has this metadata file, or had it before its last change; None if there is no view."""
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
        """A folder that no table will have: a table of the view's name, when it is gone, finds no metadata of it."""
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
        """The location of a new metadata file."""
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
