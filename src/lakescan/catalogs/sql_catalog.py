"""SQL catalogs: their database connections, and lakescan's database table that registers Delta tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any
from weakref import WeakSet

from lakescan.errors import MissingDependency, TableExists

_TABLE = "lakescan_delta_tables"
_WITH_TABLE: WeakSet[Any] = WeakSet()  # engines of databases that have the table


@dataclass(frozen=True)
class SqlDeltaNames:
    """The Delta tables of pyiceberg's SQL catalog, registered in lakescan's own database table."""

    catalog: Any

    def location(self, name: tuple[str, ...]) -> str | None:
        """Return the location of a Delta table, or None if the catalog has no Delta table of that name."""
        rows = self._run(lambda table: table.select().where(*self._name_conditions(table, name)))
        return rows[0].location if rows else None

    def names(self, namespace: tuple[str, ...]) -> list[str]:
        """Return the names of the Delta tables of a namespace, sorted; empty if it does not exist."""
        rows = self._run(lambda table: table.select().where(*self._namespace_conditions(table, namespace)))
        return sorted(row.name for row in rows)

    def namespaces(self) -> set[tuple[str, ...]]:
        """Return the namespaces that have Delta tables."""
        from sqlalchemy import select

        rows = self._run(lambda table: select(table.c.namespace).where(table.c.catalog == self.catalog.name).distinct())
        return {tuple(row.namespace.split(".")) for row in rows}

    def other(self, name: tuple[str, ...]) -> str | None:
        """Always None: all tables of an SQL catalog are Iceberg or Delta tables."""
        return None

    def add(self, name: tuple[str, ...], location: str) -> None:
        """Register the Delta table at `location`; raises `TableExists` if a Delta table has the name."""
        from sqlalchemy.exc import IntegrityError

        self._create_table()
        row = {"catalog": self.catalog.name, "namespace": ".".join(name[:-1]), "name": name[-1], "location": location}
        try:
            self._run(lambda table: table.insert().values(**row), needs_table=True)
        except IntegrityError as error:
            raise TableExists(f"{'.'.join(name)} already exists in catalog {self.catalog.name!r}") from error

    def remove(self, name: tuple[str, ...]) -> None:
        """Unregister a Delta table, and keep its files; does nothing if it is not registered."""
        self._run(lambda table: table.delete().where(*self._name_conditions(table, name)))

    def rename(self, name: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Rename a table by one statement; does nothing if it is not registered. Raises `TableExists`."""
        from sqlalchemy.exc import IntegrityError

        values = {"namespace": ".".join(new[:-1]), "name": new[-1]}
        try:
            self._run(lambda table: table.update().where(*self._name_conditions(table, name)).values(**values))
        except IntegrityError as error:
            raise TableExists(f"{'.'.join(new)} already exists in catalog {self.catalog.name!r}") from error

    def _create_table(self) -> None:
        """Create the database table of names if it does not exist; a concurrent creation is not an error."""
        from sqlalchemy import inspect
        from sqlalchemy.exc import SQLAlchemyError

        try:
            _names_table().metadata.create_all(self.catalog.engine)
        except SQLAlchemyError:
            if not inspect(self.catalog.engine).has_table(_TABLE):
                raise

    def _namespace_conditions(self, table: Any, namespace: tuple[str, ...]) -> list[Any]:
        return [table.c.catalog == self.catalog.name, table.c.namespace == ".".join(namespace)]

    def _name_conditions(self, table: Any, name: tuple[str, ...]) -> list[Any]:
        return [*self._namespace_conditions(table, name[:-1]), table.c.name == name[-1]]

    def _run(self, statement: Callable[[Any], Any], *, needs_table: bool = False) -> list[Any]:
        """Run the statement that `statement` builds for the database table of names; return its rows, if any.

        If the database table does not exist, returns no rows, or raises the database's error if `needs_table`.
        """
        from sqlalchemy import inspect
        from sqlalchemy.exc import OperationalError, ProgrammingError

        engine = self.catalog.engine
        if engine not in _WITH_TABLE and not needs_table:  # checked until the table exists
            if not inspect(engine).has_table(_TABLE):
                return []
            _WITH_TABLE.add(engine)
        try:
            with engine.begin() as connection:
                result = connection.execute(statement(_names_table()))
                return list(result) if result.returns_rows else []
        except (OperationalError, ProgrammingError):
            if needs_table or inspect(engine).has_table(_TABLE):
                raise
            _WITH_TABLE.discard(engine)  # the table is gone: an older backup of the database was restored
            return []


def include_delta_namespaces(catalog: Any) -> Any:
    """Make an SQL catalog include namespaces that only have Delta tables, as pyiceberg does for Iceberg tables.

    Returns the catalog. Other clients do not see the Delta tables, and may drop a namespace that has no other tables.
    """
    names, theirs = SqlDeltaNames(catalog), type(catalog)

    def namespace_exists(namespace: str | tuple[str, ...]) -> bool:
        name = catalog.identifier_to_tuple(namespace)
        if theirs.namespace_exists(catalog, name):
            return True
        return any(each[: len(name)] == name for each in names.namespaces())

    def list_namespaces(namespace: str | tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        name = catalog.identifier_to_tuple(namespace) if namespace else ()
        found = set(theirs.list_namespaces(catalog, name))
        below = (each for each in names.namespaces() if len(each) > len(name) and each[: len(name)] == name)
        return [*found.union(each[: len(name) + 1] for each in below)]

    catalog.namespace_exists, catalog.list_namespaces = namespace_exists, list_namespaces
    return catalog


@cache
def _names_table() -> Any:
    from sqlalchemy import Column, MetaData, String, Table

    keys = (Column(name, String(255), primary_key=True) for name in ("catalog", "namespace", "name"))
    return Table(_TABLE, MetaData(), *keys, Column("location", String(1000)))


_SECONDS = 60  # the time limit for a database's response
# The drivers of each database, SQLAlchemy's default first, and the modules that they need.
_DRIVERS = {
    "postgresql": {"psycopg": "psycopg", "psycopg2": "psycopg2", "pg8000": "pg8000"},
    "mysql": {"mysqldb": "MySQLdb", "pymysql": "pymysql", "mysqlconnector": "mysql.connector"},
}
_PACKAGES = {"postgresql": ("psycopg2-binary", "'psycopg[binary]'"), "mysql": ("pymysql",)}
_TIMES = {
    "postgresql": {"connect_timeout": str(_SECONDS), "tcp_user_timeout": str(1000 * _SECONDS)},
    "mysql": {"connect_timeout": str(_SECONDS)},
}
_WITH_TIMES = ("psycopg", "psycopg2", "mysqldb", "pymysql")


def with_connections(catalog: str, properties: dict[str, Any]) -> dict[str, Any]:
    """Add an installed driver, timeouts, and a test of connections before use to an SQL catalog's properties.

    Values that the user sets are kept. The properties of SQLite catalogs are returned unchanged. Raises
    `MissingDependency` if no driver for the database is installed.
    """
    address = _address(properties.get("uri"))
    if address is None:
        return properties
    kind, _, driver = address.drivername.partition("+")
    drivers = _DRIVERS.get(kind, {})
    if not driver and drivers:
        driver = next((each for each, module in drivers.items() if _is_installed(module)), "")
        if not driver:
            raise MissingDependency(
                f"catalog {catalog!r} needs a driver for its database ({kind}), and none is installed: pip install "
                f"{' or '.join(_PACKAGES[kind])}"
            )
        address = address.set(drivername=f"{kind}+{driver}")
    elif driver in drivers and not _is_installed(drivers[driver]):
        raise MissingDependency(
            f"catalog {catalog!r}: the driver {driver!r} of its uri is not installed: pip install {driver}"
        )
    if driver in _WITH_TIMES:
        address = address.update_query_dict(
            {name: value for name, value in _TIMES[kind].items() if name not in address.query}
        )
    return {"pool_pre_ping": "true", **properties, "uri": address.render_as_string(hide_password=False)}


def _address(uri: Any) -> Any:
    """Parse the URL of a database; None for SQLite, and for an invalid URL, which pyiceberg rejects."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        found = make_url(str(uri))
    except (ArgumentError, ValueError):
        return None
    return None if found.drivername.startswith("sqlite") else found


def _is_installed(module: str) -> bool:
    return find_spec(module.partition(".")[0]) is not None
