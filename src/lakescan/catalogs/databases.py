"""Databases of SQL catalogs: the driver of an address, and connections that end in time and are tried before use."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from lakescan.errors import MissingDependency

_SECONDS = 60  # that a server may take to answer
# Drivers of a database, those that SQLAlchemy takes by itself first, and the modules that they need.
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
    """Add to an SQL catalog's properties an installed driver, time limits, and a test of connections before use.

    Values that the user sets are kept. Raises `MissingDependency` if no driver for the database is installed.
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
                f"catalog {catalog!r} is in a database ({kind}) of which no driver is installed: pip install "
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
    """Return the parsed address of a database; None for SQLite, and for text that pyiceberg will refuse."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        found = make_url(str(uri))
    except (ArgumentError, ValueError):
        return None
    return None if found.drivername.startswith("sqlite") else found


def _is_installed(module: str) -> bool:
    return find_spec(module.partition(".")[0]) is not None
