"""The catalogs known by name in this process, and their connections.

A catalog is configured by properties registered in this process (`lakescan.catalog`), else by pyiceberg's
configuration: `.pyiceberg.yaml`, and environment variables such as `PYICEBERG_CATALOG__PROD__URI`. Properties hold
secrets: they are sent to workers, and never appear in messages.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakescan.catalogs.answers import unreadable, unreadable_config
from lakescan.catalogs.rest_adapter import mount
from lakescan.catalogs.rest_session import RestSession, has_session, http_session, is_rest, keep_credentials
from lakescan.encryption import KeyManager, named_key_manager
from lakescan.errors import (
    CorruptMetadata,
    InvalidOption,
    LakescanError,
    NoSuchCatalog,
    StorageError,
    missing_dependency,
    nearest,
)
from lakescan.iceberg.metadata.write import with_all_metadata
from lakescan.reporting import IMPLEMENTATION, MetricsReporter, as_reporter
from lakescan.storage.allowed import AllowedLocations
from lakescan.storage.faults import storage_boundary, told
from lakescan.storage.locations import absolute, split_location

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_GIVEN: dict[str, dict[str, str]] = {}
# By process, as connections do not survive a fork; by thread if threads cannot share the connection, else 0.
_OPEN: dict[tuple[int, int, str], tuple[dict[str, str], Catalog]] = {}
_REPORTERS: dict[str, MetricsReporter] = {}  # those that the user gives as objects, and those that were imported
KEY_MANAGER = "key-manager"
ALLOWED = "allowed-locations"
_LENT: dict[str, Catalog] = {}  # connections that are not made by properties: those of transactions
_LENT_OF: dict[str, str] = {}  # the catalogs of these transactions, also of those that have ended
_NUMBERS = count(1)  # of transactions
_WITHDRAWN: set[str] = set()  # names of transactions that have ended
_LOCK = Lock()
_FILE, _WAIT = "catalog.db", 60  # of the embedded catalog: file name, seconds to wait for another writer's lock


def give(name: str, properties: Mapping[str, Any]) -> None:
    """Register a catalog by its properties."""
    if "." in name or not name:
        raise InvalidOption(f"{name!r} is not a catalog name: it must not be empty or contain dots")
    if not isinstance(properties.get(KEY_MANAGER, ""), str | None):
        raise InvalidOption(
            f"the {KEY_MANAGER} of catalog {name!r} is given by name, so that workers can import it: "
            "'package.module:attribute'"
        )
    _REPORTERS.pop(name, None)
    if (reporter := properties.get(IMPLEMENTATION)) is not None and not isinstance(reporter, str):
        _REPORTERS[name] = as_reporter(reporter)
        properties = {key: value for key, value in properties.items() if key != IMPLEMENTATION}
    _GIVEN[name] = _completed({key: str(value) for key, value in properties.items() if value is not None})


def given() -> dict[str, dict[str, str]]:
    """The properties of the catalogs registered here, to send them to other processes."""
    return {name: dict(properties) for name, properties in _GIVEN.items()}


def key_manager_name(name: str) -> str | None:
    """The name of a catalog's key manager, its property `key-manager`; None if it has none.

    It is code to run, so it counts only where this user says it, here or in pyiceberg's configuration: a server may
    answer with any properties.
    """
    return user_property(name, KEY_MANAGER)


def reporter_of(name: str) -> MetricsReporter | None:
    """A catalog's metrics reporter, its property `metrics-reporter-impl`; None if it has none.

    It is code to run, so it counts only where this user gives it, as `key-manager` does: an object, a function, or the
    text `package.module:attribute`, which other processes import, too. Raises `InvalidOption` if that fails.
    """
    name = _LENT_OF.get(name, name)
    if name in _REPORTERS:
        return _REPORTERS[name]
    found = user_property(name, IMPLEMENTATION)
    if found is None:
        return None
    return _REPORTERS.setdefault(name, as_reporter(found))


def allowed_locations(name: str) -> tuple[str, ...] | None:
    """The prefixes that tables of a catalog may lead to, its property `allowed-locations`; None if it has none.

    A limit on what the server says: it counts only where this user says it, as `key-manager` does. A transaction has
    those of its catalog.
    """
    found = user_property(_LENT_OF.get(name, name), ALLOWED)
    return None if found is None else tuple(each.strip() for each in found.split(",") if each.strip())


def allowed_in(name: str, home: str | None = None) -> AllowedLocations:
    """What a table of a catalog may lead to, and a new one be made of; `home` is where it is, if that is known."""
    return AllowedLocations(home, allowed_locations(name))


def user_property(name: str, wanted: str) -> str | None:
    """A property of a catalog that this user gives, here or in pyiceberg's configuration; None if it has none.

    A server may answer with any properties: what says whom to trust counts only where the user says it.
    """
    if name in _GIVEN:
        return _GIVEN[name].get(wanted)
    try:
        from pyiceberg.utils.config import Config
    except ImportError:
        return None
    found = (Config().get_catalog_config(name) or {}).get(wanted)
    return None if found is None else str(found)


def key_manager_of(name: str) -> KeyManager | None:
    """A catalog's key manager, if it has one; raises `InvalidOption` if it cannot be imported."""
    found = key_manager_name(name)
    return None if found is None else named_key_manager(found)


def give_all(catalogs: Mapping[str, Mapping[str, str]]) -> None:
    """Register the catalogs of another process."""
    _GIVEN.update({name: dict(properties) for name, properties in catalogs.items()})


def lend(base: str, make: Callable[[str], Catalog]) -> str:
    """Give a connection that `make` makes a name of its own, which begins with `base`; returns the name."""
    name = next(each for n in _NUMBERS if not is_known(each := f"{base}_tx{n}"))
    _LENT_OF[name] = base
    _LENT[name] = make(name)
    return name


def is_transaction(name: str) -> bool:
    """Whether a name is that of a transaction's connection."""
    return name in _LENT_OF


def withdraw(name: str) -> None:
    """Forget a connection that `lend` named."""
    if _LENT.pop(name, None) is not None:
        _WITHDRAWN.add(name)


def known() -> list[str]:
    """The names of all configured catalogs, sorted."""
    try:
        from pyiceberg.catalog import list_catalogs
    except ImportError:
        return sorted(_GIVEN)
    return sorted({*_GIVEN, *list_catalogs()})


def is_known(name: str) -> bool:
    """Whether a catalog of that name is configured."""
    return name in _GIVEN or name in _LENT or name in known()


def connection(name: str) -> Catalog:
    """Connect to a catalog, once per process; raises `NoSuchCatalog` and `MissingDependency`."""
    if (lent := _LENT.get(name)) is not None:
        return lent
    properties = _GIVEN.get(name, {})
    with _LOCK:
        for thread in (0, get_ident()):
            cached = _OPEN.get((os.getpid(), thread, name))
            if cached is not None and cached[0] == properties:
                return cached[1]
        opened = _connect(name, properties)
        is_shared = type(opened).__name__ != "HiveCatalog"  # a Hive connection has a single socket
        _OPEN[os.getpid(), 0 if is_shared else get_ident(), name] = properties, opened
        return opened


def connection_with(name: str, properties: Mapping[str, Any]) -> Catalog:
    """Connect to a catalog, by these properties where its name is not known: in a worker."""
    if not is_known(name):
        _GIVEN[name] = dict(properties)
    return connection(name)


def _connect(name: str, properties: dict[str, str]) -> Catalog:
    try:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NotInstalledError, RESTError
    except ImportError as error:
        raise missing_dependency("pyiceberg", "iceberg", "catalogs") from error
    if name in _WITHDRAWN:
        raise NoSuchCatalog(
            f"the transaction {name!r} has ended: open the table by its own name, or begin another transaction"
        )
    if not is_known(name):
        names = known()
        raise NoSuchCatalog(
            f"no catalog {name!r} is known.{nearest(name, names)} Known: {', '.join(names) or 'none'}. Register it "
            f"with lakescan.catalog({name!r}, warehouse='./lake') for an embedded catalog, or with its properties "
            "(type, uri, ...), or add it to pyiceberg's configuration; on Spark, before lakescan.spark.register."
        )
    if (unity := _of_unity(name, properties)) is not None:
        return unity
    try:
        if (hadoop := _of_hadoop(name, properties)) is not None:
            return hadoop
        opened = with_all_metadata(load_catalog(name, **_files_of(name), **properties))
        if is_rest(opened) and has_session(opened):
            keep_credentials(opened)
            mount(http_session(opened), opened.url("", prefixed=False), lambda: _takes_keys(opened))
            _check_texts(opened)
        if (engine := getattr(opened, "engine", None)) is not None:
            _close_after_failed_commits(engine)
        return opened
    except RESTError as error:
        raise StorageError(f"catalog {name!r} cannot be opened: its server refuses GET v1/config: {error}") from error
    except (ValueError, NotInstalledError) as error:
        if (why := unreadable(error)) is not None:
            raise _unread(name, why) from error
        types = f". The types are {', '.join(_types())}" if "CatalogType" in str(error) else ""
        raise InvalidOption(f"catalog {name!r} cannot be opened with its configuration: {error}{types}") from error
    except LakescanError:
        raise
    except Exception as error:
        if (why := unreadable_config(error)) is not None:
            raise _unread(name, why) from error
        if (why := refusal(error)) is None:
            raise
        advice = ". Check its uri, and the network" if str(properties.get("uri", "")).startswith("http") else ""
        raise StorageError(f"catalog {name!r} cannot be opened: {why}{advice}") from error


def _files_of(name: str) -> dict[str, str]:
    """How a catalog's files are opened, where this user does not say it."""
    from lakescan.catalogs.file_io import FILES

    return {} if any(user_property(name, each) for each in FILES) else FILES


def _close_after_failed_commits(engine: Any) -> None:
    """Close a connection to a database whose commit failed: its transaction may be open.

    SQLite keeps the transaction of a commit for which the database was busy, and SQLAlchemy the connection. The next
    reader of that connection would see what was never committed, and take the commit for made.
    """
    from sqlalchemy import event

    def failed(context: Any) -> None:
        if context.statement is None:
            context.is_disconnect, context.invalidate_pool_on_disconnect = True, False

    event.listen(engine, "handle_error", failed)


def _check_texts(catalog: Catalog) -> None:
    """Raise `CorruptMetadata` if the server says a part of its paths that is no text: pyiceberg fails at its use."""
    for member in ("prefix", "namespace-separator"):
        if not isinstance(found := catalog.properties.get(member, ""), str):
            raise _unread(catalog.name, f"{member} is no text: {str(found)[:60]}")


def _unread(name: str, why: str) -> CorruptMetadata:
    return CorruptMetadata(
        f"catalog {name!r} cannot be opened: the answer of its server to GET v1/config cannot be read: {why}"
    )


def _takes_keys(catalog: Catalog) -> bool:
    """Whether the server of a REST catalog knows idempotency keys; not if it does not say."""
    try:
        return RestSession(catalog).server.takes_keys
    except Exception:  # the request that asks will tell what is wrong
        return False


def _types() -> list[str]:
    """What `type` of a catalog may be."""
    from pyiceberg.catalog import CatalogType

    return sorted([*(each.value for each in CatalogType), "hadoop", "unity"])


def _of_unity(name: str, properties: Mapping[str, str]) -> Any:
    """The catalog, if it is of type unity, here or in pyiceberg's configuration; else None."""
    from lakescan.catalogs.unity.catalog import UnityCatalog  # others do not need it

    said = _configured(name, properties)
    return UnityCatalog(name, said) if said.get("type", "").lower() == "unity" else None


def _of_hadoop(name: str, properties: Mapping[str, str]) -> Any:
    """The catalog, if it is of type hadoop; else None."""
    said = _configured(name, properties)
    if said.get("type", "").lower() != "hadoop":
        return None
    from lakescan.catalogs.hadoop import hadoop_catalog  # others do not need it

    return hadoop_catalog(name, with_absolute_warehouse(said))


def _configured(name: str, properties: Mapping[str, str]) -> dict[str, str]:
    """The properties of a catalog, here and in pyiceberg's configuration."""
    from pyiceberg.utils.config import Config

    configured = {**(Config().get_catalog_config(name) or {}), **properties}
    return {key: str(value) for key, value in configured.items()}


def refusal(error: Exception) -> str | None:
    """The message of an error of a catalog's backend: storage, database (SQLAlchemy), Hive metastore (thrift), Glue.

    None for other errors.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, OSError):
        return told(error)
    if "SQLAlchemyError" in kinds:
        return str(getattr(error, "orig", None) or error)  # without the statement, and its values
    if not kinds.isdisjoint(("ClientError", "BotoCoreError")):
        return str(error)
    return str(getattr(error, "message", None) or error) if "TException" in kinds else None


def with_absolute_warehouse(properties: dict[str, str]) -> dict[str, str]:
    """The properties of a catalog, with the absolute path of a warehouse that is a local folder.

    A warehouse is a folder for catalogs of these types; for others it may be a name that their server knows.
    """
    if properties.get("type", "").lower() not in ("sql", "hadoop", "in-memory") or "warehouse" not in properties:
        return properties
    return {**properties, "warehouse": absolute(properties["warehouse"])}


def _completed(properties: dict[str, str]) -> dict[str, str]:
    """Complete the properties of an embedded catalog, for which a local warehouse folder is enough."""
    warehouse = properties.get("warehouse")
    if warehouse is None or not {"type", "uri", "py-catalog-impl"}.isdisjoint(properties):
        return with_absolute_warehouse(properties)
    scheme, _, path = split_location(warehouse)
    if scheme != "file":
        raise InvalidOption(
            f"an embedded catalog needs a local folder, not {warehouse}: for another catalog, also give type and uri"
        )
    folder = Path(path).absolute()
    if any(mark in str(folder) for mark in "?#") or unquote(str(folder)) != str(folder):
        raise InvalidOption(
            f"an embedded catalog cannot be in {folder}: pyiceberg decodes percent-encoding and cuts the "
            "path at ? or #, so it would write to another folder"
        )
    with storage_boundary("created", str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{folder / _FILE}?timeout={_WAIT}"
    return {**properties, "type": "sql", "uri": uri, "warehouse": f"file://{folder}"}
