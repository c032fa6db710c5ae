"""The catalogs that this process knows by name, and their connections.

A catalog is known by properties that it was given here (`lakescan.catalog`), else by pyiceberg's configuration:
`.pyiceberg.yaml`, and variables such as `PYICEBERG_CATALOG__PROD__URI`. Properties hold secrets: they are handed to
workers, and are in no message.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakescan.errors import InvalidOption, NoSuchCatalog, StorageError, missing_dependency, nearest
from lakescan.iceberg.metadata.write import write_metadata
from lakescan.storage.faults import storage_boundary, told
from lakescan.storage.locations import split_location

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_GIVEN: dict[str, dict[str, str]] = {}
# By process, as connections do not survive a fork; by thread where threads cannot share one, else 0.
_OPEN: dict[tuple[int, int, str], tuple[dict[str, str], Catalog]] = {}
_LOCK = Lock()
_FILE, _WAIT = "catalog.db", 60  # of the embedded catalog: its file, seconds to wait for another writer


def give(name: str, properties: Mapping[str, Any]) -> None:
    """Make a catalog known by its properties."""
    if "." in name or not name:
        raise InvalidOption(f"{name!r} is no name of a catalog: identifiers begin with it, it has no dots")
    _GIVEN[name] = _completed({key: str(value) for key, value in properties.items() if value is not None})


def given() -> dict[str, dict[str, str]]:
    """The catalogs that were made known here, to hand them to other processes."""
    return {name: dict(properties) for name, properties in _GIVEN.items()}


def give_all(catalogs: Mapping[str, Mapping[str, str]]) -> None:
    """Make known what another process has."""
    _GIVEN.update({name: dict(properties) for name, properties in catalogs.items()})


def known() -> list[str]:
    """The names of all catalogs that are known."""
    try:
        from pyiceberg.catalog import list_catalogs
    except ImportError:
        return sorted(_GIVEN)
    return sorted({*_GIVEN, *list_catalogs()})


def is_known(name: str) -> bool:
    """Whether a catalog is known by that name."""
    return name in _GIVEN or name in known()


def connection(name: str) -> Catalog:
    """A catalog by its name, connected once a process; raises `NoSuchCatalog` and `MissingDependency`."""
    properties = _GIVEN.get(name, {})
    with _LOCK:
        for thread in (0, get_ident()):
            before = _OPEN.get((os.getpid(), thread, name))
            if before is not None and before[0] == properties:
                return before[1]
        found = _connected(name, properties)
        is_shared = type(found).__name__ != "HiveCatalog"  # which has one socket
        _OPEN[os.getpid(), 0 if is_shared else get_ident(), name] = properties, found
        return found


def _connected(name: str, properties: dict[str, str]) -> Catalog:
    try:
        from pyiceberg.catalog import MetastoreCatalog, load_catalog
        from pyiceberg.exceptions import NotInstalledError
    except ImportError as error:
        raise missing_dependency("pyiceberg", "iceberg", "catalogs") from error
    if not is_known(name):
        names = known()
        raise NoSuchCatalog(
            f"no catalog {name!r} is known.{nearest(name, names)} Known: {', '.join(names) or 'none'}. Make it known "
            f"by lakescan.catalog({name!r}, warehouse='./lake') (an embedded one), by its properties (type, uri, ...), "
            "or in pyiceberg's configuration; on Spark, before lakescan.spark.register."
        )
    try:
        found = load_catalog(name, **properties)
    except (ValueError, NotInstalledError) as error:
        raise InvalidOption(f"catalog {name!r} cannot be opened as it is configured: {error}") from error
    except Exception as error:
        if (why := refusal(error)) is None:
            raise
        raise StorageError(f"catalog {name!r} cannot be opened: {why}") from error
    if isinstance(found, MetastoreCatalog):  # others have it written by a server
        vars(found)["_write_metadata"] = write_metadata
    return found


def refusal(error: Exception) -> str | None:
    """What a catalog's store says that failed: storage, a database (SQLAlchemy), a Hive metastore (thrift)."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, OSError):
        return told(error)
    if "SQLAlchemyError" in kinds:
        return str(getattr(error, "orig", None) or error)  # without the statement, and its values
    return str(getattr(error, "message", None) or error) if "TException" in kinds else None


def _completed(properties: dict[str, str]) -> dict[str, str]:
    """Properties with what an embedded catalog leaves out: a folder is enough for one."""
    warehouse = properties.get("warehouse")
    if warehouse is None or not {"type", "uri", "py-catalog-impl"}.isdisjoint(properties):
        return properties
    scheme, _, path = split_location(warehouse)
    if scheme != "file":
        raise InvalidOption(f"an embedded catalog is in a local folder, not at {warehouse}: give type and uri, too")
    folder = Path(path).absolute()
    if any(mark in str(folder) for mark in "?#") or unquote(str(folder)) != str(folder):
        raise InvalidOption(
            f"an embedded catalog cannot be in {folder}: what makes its tables takes the folder for another one, by "
            "its percent-encoding, ? or #"
        )
    with storage_boundary("made", str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{folder / _FILE}?timeout={_WAIT}"
    return {**properties, "type": "sql", "uri": uri, "warehouse": f"file://{folder}"}
