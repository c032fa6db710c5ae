"""The catalogs that this process has configurations for, and its connections to them.

A catalog is configured by properties registered in this process (`lakescan.catalog`) and by pyiceberg's configuration:
`.pyiceberg.yaml`, and environment variables such as `PYICEBERG_CATALOG__PROD__URI`. Properties hold secrets: they are
sent to workers, and never appear in messages.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakescan.catalogs.glue_catalog import is_glue, keep_fields
from lakescan.catalogs.hive_metastore import is_hive, set_socket_timeout
from lakescan.catalogs.properties import (
    check_headers,
    check_limits,
    hide_secret,
    ignore_table_properties,
    property_named,
    warn_of_unread,
)
from lakescan.catalogs.responses import config_error, config_failure, drop_pydantic_causes, parse_failure
from lakescan.catalogs.rest_catalog import rest_catalog_class
from lakescan.catalogs.rest_session import RestSession, has_session, http_session, is_rest, keep_credentials, mount
from lakescan.catalogs.sql_catalog import include_delta_namespaces, with_connections
from lakescan.common.secrets import hide_error_secrets
from lakescan.errors import (
    InvalidOption,
    LakescanError,
    NoSuchCatalog,
    StorageError,
    missing_dependency,
    nearest,
)
from lakescan.iceberg.metadata.pyiceberg_metadata import extend_catalog
from lakescan.planning.metrics_reporters import IMPLEMENTATION, MetricsReporter, as_reporter
from lakescan.storage.allowed_locations import ALLOWED, AllowedLocations, split_prefixes
from lakescan.storage.encryption import KeyManager, named_key_manager
from lakescan.storage.errors import error_text, storage_boundary
from lakescan.storage.locations import absolute, split_location
from lakescan.storage.settings.azure_endpoints import assign_account

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True)
class CatalogConfiguration:
    """The properties that the user sets for a catalog. The configuration with the latest `given_at` is used.

    `given_at` is the time of the `lakescan.catalog` call, in nanoseconds since 1970, or 0 without such a call.
    """

    properties: Mapping[str, Any] = field(repr=False)
    given_at: int = 0


_GIVEN: dict[str, CatalogConfiguration] = {}
_CONFIGURED: dict[str, dict[str, Any]] = {}  # pyiceberg's configuration of a catalog when it was first used
# By process, since connections do not survive a fork; by thread if threads cannot share the connection, else 0.
_OPEN: dict[tuple[int, int, str], tuple[dict[str, Any], Catalog]] = {}
_REPORTERS: dict[str, MetricsReporter] = {}  # by catalog: given as objects, or imported
KEY_MANAGER = "key-manager"
_LENT: dict[str, Catalog] = {}  # the connections of transactions, which are not made from properties
_LENT_OF: dict[str, str] = {}  # the catalogs of transactions, including ended ones
_NUMBERS = count(1)  # numbers of transactions
_WITHDRAWN: set[str] = set()  # names of transactions that have ended
_WATCHERS: list[Callable[[], None]] = []
_CONNECTING: dict[tuple[int, str], Lock] = {}  # by process and catalog
_THEIRS = "pyiceberg.catalog.rest.RestCatalog"  # treated as type rest, so that responses are checked
_LOCK = Lock()
_FILE, _WAIT = "catalog.db", 60  # the embedded catalog's file name, and seconds to wait for another writer's lock


def register_catalog(name: str, properties: Mapping[str, Any]) -> None:
    """Register a catalog with its properties, unless the same ones are registered already.

    Creates the folder of an embedded catalog. Raises `InvalidOption` for an invalid name or property, and
    `StorageError` if the folder cannot be created.
    """
    if "." in name or not name:
        raise InvalidOption(f"{name!r} is not a catalog name: it must not be empty or contain dots")
    if not isinstance(properties.get(KEY_MANAGER, ""), str | None):
        raise InvalidOption(
            f"the {KEY_MANAGER} of catalog {name!r} must be a name that workers can import: 'package.module:attribute'"
        )
    check_limits(name, properties)
    _REPORTERS.pop(name, None)
    _CONFIGURED.pop(name, None)
    if (reporter := properties.get(IMPLEMENTATION)) is not None and not isinstance(reporter, str):
        _REPORTERS[name] = as_reporter(reporter)
        properties = {key: value for key, value in properties.items() if key != IMPLEMENTATION}
    parsed = {key: _parse_property(name, key, value) for key, value in properties.items() if value is not None}
    completed, before = _complete_properties(name, _absolute_limits(parsed)), _GIVEN.get(name)
    if before is not None and before.properties == completed:
        return
    given_at = time.time_ns() if before is None else max(time.time_ns(), before.given_at + 1)  # clocks may go back
    _GIVEN[name] = CatalogConfiguration(completed, given_at)
    for each in _WATCHERS:
        each()


def _parse_property(catalog: str, name: str, value: Any) -> Any:
    if (known := property_named(name)) is None:
        return hide_secret(name, str(value))
    with suppress(TypeError, ValueError):  # not chained, since their messages quote the value
        return hide_secret(name, known.kind(value))
    raise InvalidOption(f"property {name!r} of catalog {catalog!r} takes {known.kind.expects}")


def configuration(name: str) -> dict[str, Any]:
    """Return the properties that the user sets for a catalog, in Python and in pyiceberg's configuration.

    The result is empty for an unknown catalog. Properties set in Python take precedence. pyiceberg's configuration (a
    file and the environment) is read when the catalog is first used. Later changes of the file, the environment or the
    working directory have no effect in this process.
    """
    given = _GIVEN.get(name)
    own: Mapping[str, Any] = {} if given is None else given.properties
    return {**_pyiceberg_configuration(name), **own}


def registered_at(name: str) -> int:
    """Return when a catalog got its properties by `register_catalog`, in nanoseconds since 1970; 0 without a call."""
    given = _GIVEN.get(name)
    return 0 if given is None else given.given_at


def configuration_of(name: str) -> CatalogConfiguration:
    """Return the configuration of a catalog (empty if unknown), to send it to other processes.

    `name` may be that of a transaction: then, its catalog's configuration is returned.
    """
    name = _LENT_OF.get(name, name)
    given = _GIVEN.get(name)
    return CatalogConfiguration(configuration(name), 0 if given is None else given.given_at)


def _pyiceberg_configuration(name: str) -> dict[str, Any]:
    if name not in _CONFIGURED:
        try:
            from pyiceberg import catalog
            from pyiceberg.utils.config import Config
        except ImportError:
            return {}
        known = (getattr(catalog, "_ENV_CONFIG", None), Config())  # pyiceberg's connections use the former
        found: dict[str, Any] = {}
        for each in known:
            found |= {} if each is None else dict(each.get_catalog_config(name) or {})
        found = {key: hide_secret(key, value) for key, value in found.items()}
        _CONFIGURED[name] = _absolute_limits(found)
    return _CONFIGURED[name]


def watch(changed: Callable[[], None]) -> None:
    """Register a function to call, without arguments, whenever a catalog is registered with changed properties."""
    if changed not in _WATCHERS:
        _WATCHERS.append(changed)


def all_configurations() -> dict[str, CatalogConfiguration]:
    """Return the configurations of all known catalogs, to send them to other processes."""
    return {name: configuration_of(name) for name in catalog_names()}


def key_manager_name(name: str) -> str | None:
    """Return the name of a catalog's key manager, its property `key-manager`; None if it has none.

    The key manager is code to import, so only the user's own setting counts, not one that the server returns.
    """
    return user_property(name, KEY_MANAGER)


def reporter_of(name: str) -> MetricsReporter | None:
    """Return a catalog's metrics reporter, its property `metrics-reporter-impl`; None if it has none.

    The reporter is an object, a function, or the name `package.module:attribute`, which other processes can import. As
    for `key-manager`, only the user's own setting counts. Raises `InvalidOption` if the import fails.
    """
    name = _LENT_OF.get(name, name)
    if name in _REPORTERS:
        return _REPORTERS[name]
    found = user_property(name, IMPLEMENTATION)
    if found is None:
        return None
    return _REPORTERS.setdefault(name, as_reporter(found))


def allowed_locations(name: str) -> tuple[str, ...] | None:
    """Return the location prefixes in a catalog's property `allowed-locations`; None if it is not set.

    The property limits the locations that the server may return, so only the user's own setting counts. A transaction
    has the prefixes of its catalog.
    """
    found = user_property(_LENT_OF.get(name, name), ALLOWED)
    return None if found is None else split_prefixes(found)


def _absolute_limits(properties: dict[str, Any]) -> dict[str, Any]:
    """Make the folders in `allowed-locations` absolute, so that they do not depend on the working directory."""
    if (limits := properties.get(ALLOWED)) is None:
        return properties
    prefixes = limits if isinstance(limits, list | tuple) else split_prefixes(str(limits))  # the file may have a list
    return {**properties, ALLOWED: ",".join(absolute(str(each)) for each in prefixes)}


def location_limits(name: str, home: str | None = None) -> AllowedLocations:
    """Return the locations that a table of the catalog `name` may reference.

    `home` is the table's location; None if it is not known yet.
    """
    return AllowedLocations(home, allowed_locations(name))


def user_property(name: str, wanted: str) -> str | None:
    """Return the property `wanted` that the user sets for the catalog `name`, as text; None if it is not set.

    Properties from the server are not considered, since a server must not decide whom to trust.
    """
    found = configuration(name).get(wanted)
    return None if found is None else str(found)


def key_manager_of(name: str) -> KeyManager | None:
    """Import a catalog's key manager; None if it has none. Raises `InvalidOption` if it cannot be imported."""
    found = key_manager_name(name)
    return None if found is None else named_key_manager(found)


def register_catalogs(catalogs: Mapping[str, CatalogConfiguration]) -> None:
    """Register the catalogs of another process, by name, unless this process has later configurations of them."""
    for name, configuration in catalogs.items():
        if (known := _GIVEN.get(name)) is None or known.given_at <= configuration.given_at:
            _GIVEN[name] = configuration


def register_transaction(base: str, make: Callable[[str], Catalog]) -> str:
    """Register a transaction's connection under a new name, and return the name, which starts with `base`.

    `make(name)` returns the connection. `base` is the name of the transaction's catalog.
    """
    name = next(each for n in _NUMBERS if not is_known(each := f"{base}_tx{n}"))
    _LENT_OF[name] = base
    _LENT[name] = make(name)
    return name


def lend(name: str, catalog: Any) -> None:
    """Use `catalog` as the connection to the catalog `name` in this process; None withdraws it."""
    if catalog is None:
        _LENT.pop(name, None)
    else:
        _LENT.setdefault(name, catalog)


def is_transaction(name: str) -> bool:
    """Return whether a name is that of a transaction's connection (`register_transaction`), which may have ended."""
    return name in _LENT_OF


def forget_transaction(name: str) -> None:
    """Forget a connection of `register_transaction`: from now on, its name raises `NoSuchCatalog`."""
    if _LENT.pop(name, None) is not None:
        _WITHDRAWN.add(name)


def catalog_names() -> list[str]:
    """Return the names of all configured catalogs, sorted."""
    try:
        from pyiceberg.catalog import list_catalogs
    except ImportError:
        return sorted(_GIVEN)
    return sorted({*_GIVEN, *list_catalogs()})


def is_known(name: str) -> bool:
    """Return whether a catalog of that name is configured or is an open transaction's."""
    return name in _GIVEN or name in _LENT or name in catalog_names()


def connection(name: str) -> Catalog:
    """Connect to a catalog, once per process (Hive: once per thread), and again if its properties change.

    Raises `NoSuchCatalog`, `MissingDependency`, `InvalidOption` for its properties, `StorageError` if it does not
    respond, and `CorruptMetadata` for an unreadable response.
    """
    if (lent := _LENT.get(name)) is not None:
        return lent
    properties = configuration(name)
    if (known := _find_connection(name, properties)) is not None:
        return known
    with _LOCK:
        connecting = _CONNECTING.setdefault((os.getpid(), name), Lock())
    with connecting:  # an unresponsive server blocks only users of its catalog
        if (known := _find_connection(name, properties)) is not None:
            return known
        opened = _connect_quietly(name, properties)
        is_shared = type(opened).__name__ != "HiveCatalog"  # a Hive connection has a single socket
        _OPEN[os.getpid(), 0 if is_shared else get_ident(), name] = properties, opened
        return opened


def _find_connection(name: str, properties: Mapping[str, Any]) -> Catalog | None:
    for thread in (0, get_ident()):
        cached = _OPEN.get((os.getpid(), thread, name))
        if cached is not None and cached[0] == properties:
            return cached[1]
    return None


def connection_with(name: str, sent: CatalogConfiguration) -> Catalog:
    """Connect to a catalog with the later of this process's configuration and `sent`, that of another process.

    Raises the errors of `connection`.
    """
    if name not in _LENT and not (sent.given_at == 0 and is_known(name)):
        register_catalogs({name: sent})
    return connection(name)


def _connect_quietly(name: str, properties: dict[str, Any]) -> Catalog:
    """Connect to a catalog, and hide secrets in the errors of other libraries."""
    try:
        return _connect(name, properties)
    except Exception as error:
        drop_pydantic_causes(error)
        hide_error_secrets(error)
        raise


def _connect(name: str, properties: dict[str, Any]) -> Catalog:
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
        names = catalog_names()
        raise NoSuchCatalog(
            f"no catalog {name!r} is known.{nearest(name, names)} Known: {', '.join(names) or 'none'}. Register it "
            f"with lakescan.catalog({name!r}, warehouse='./lake') for an embedded catalog, or with its properties "
            "(type, uri, ...), or add it to pyiceberg's configuration; on Spark, before lakescan.spark.register."
        )
    check_limits(name, properties)
    check_headers(name, properties)
    for key, value in properties.items():  # properties of a file or the environment are not parsed yet
        _parse_property(name, key, value)
    properties = assign_account(properties, properties.get("warehouse"))
    if (unity := _unity_catalog(name, properties)) is not None:
        return unity
    try:
        if (hadoop := _hadoop_catalog(name, properties)) is not None:
            return hadoop
        properties = {**_files_of(name), **properties}
        if "py-catalog-impl" not in properties:
            warn_of_unread(name, properties)
        opened: Any
        match _type_of(name, properties):
            case "rest":
                if "uri" not in properties:
                    raise ValueError("a catalog of type rest needs a uri")
                opened = rest_catalog_class()(name, **properties)
            case "sql":
                opened = ignore_table_properties(load_catalog(name, **with_connections(name, properties)))
                opened = include_delta_namespaces(opened)
            case _:
                opened = ignore_table_properties(load_catalog(name, **properties))
        opened = extend_catalog(opened)
        if is_rest(opened) and has_session(opened):
            keep_credentials(opened)
            mount(http_session(opened), opened.url("", prefixed=False), lambda: _takes_keys(opened))
        if (engine := getattr(opened, "engine", None)) is not None:
            _close_after_failed_commits(engine)
        if is_hive(opened):
            set_socket_timeout(opened)
        if is_glue(opened):
            keep_fields(opened)
        return opened
    except RESTError as error:
        raise StorageError(f"catalog {name!r} cannot be opened: its server refuses GET v1/config: {error}") from error
    except (ValueError, NotInstalledError) as error:
        if (why := parse_failure(error)) is not None:
            raise config_error(name, why) from error
        types = f". The types are {', '.join(_types())}" if "CatalogType" in str(error) else ""
        raise InvalidOption(f"catalog {name!r} cannot be opened with its configuration: {error}{types}") from error
    except LakescanError:
        raise
    except Exception as error:
        if (why := config_failure(error)) is not None:
            raise config_error(name, why) from error
        if (why := backend_message(error)) is None:
            raise
        advice = ". Check its uri, and the network" if str(properties.get("uri", "")).startswith("http") else ""
        raise StorageError(f"catalog {name!r} cannot be opened: {why}{advice}") from error


def _files_of(name: str) -> dict[str, str]:
    """Return the property that selects lakescan's `FileIO`; empty if the user selects another one."""
    from lakescan.catalogs.file_io import FILES

    return {} if any(user_property(name, each) for each in FILES) else FILES


def _close_after_failed_commits(engine: Any) -> None:
    """Make a SQLAlchemy engine close each connection whose commit fails: its transaction may still be open.

    If the database is busy at a commit, SQLite keeps the transaction open, and SQLAlchemy keeps the connection. The
    next reader on this connection would see the uncommitted change and assume that it was committed.
    """
    from sqlalchemy import event

    def invalidate(context: Any) -> None:
        if context.statement is None:
            context.is_disconnect, context.invalidate_pool_on_disconnect = True, False

    event.listen(engine, "handle_error", invalidate)


def _takes_keys(catalog: Catalog) -> bool:
    """Return whether a REST catalog's server supports idempotency keys; False if its configuration is unreadable."""
    try:
        return RestSession(catalog).server.takes_keys
    except Exception:  # the pending request will fail with the same error
        return False


def _types() -> list[str]:
    """Return the allowed values of a catalog's property `type`."""
    from pyiceberg.catalog import CatalogType

    return sorted([*(each.value for each in CatalogType), "hadoop", "unity"])


def _type_of(name: str, properties: Mapping[str, Any]) -> str:
    """Return the type of a catalog in lower case, such as "rest"; empty for a custom class (`py-catalog-impl`).

    Without a type, pyiceberg infers it from the uri. Raises `ValueError` if it cannot.
    """
    from pyiceberg.catalog import infer_catalog_type

    if (named := properties.get("py-catalog-impl")) is not None:
        return "rest" if named == _THEIRS else ""
    kind = properties.get("type") or infer_catalog_type(name, dict(properties))
    return str(getattr(kind, "value", kind)).lower()


def _unity_catalog(name: str, properties: Mapping[str, Any]) -> Any:
    """Open the catalog if its type is unity, else return None. Raises `InvalidOption`."""
    if str(properties.get("type", "")).lower() != "unity":
        return None
    from lakescan.catalogs.unity.catalog import UnityCatalog  # only imported if needed

    return UnityCatalog(name, {key: str(value) for key, value in properties.items()})


def _hadoop_catalog(name: str, properties: Mapping[str, Any]) -> Any:
    """Open the catalog if its type is hadoop, else return None. Raises `ValueError` without a warehouse."""
    if str(properties.get("type", "")).lower() != "hadoop":
        return None
    from lakescan.catalogs.hadoop import hadoop_catalog  # only imported if needed

    return hadoop_catalog(name, resolve_warehouse({key: str(value) for key, value in properties.items()}))


def backend_message(error: Exception) -> str | None:
    """Return the message of an error of a catalog's backend; None for other errors.

    Backends are storage, databases (SQLAlchemy), Hive metastores (Thrift) and Glue.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, OSError):
        return error_text(error)
    if "SQLAlchemyError" in kinds:
        return str(getattr(error, "orig", None) or error)  # without the statement and its values
    if not kinds.isdisjoint(("ClientError", "BotoCoreError")):
        return str(error)
    return str(getattr(error, "message", None) or error) if "TException" in kinds else None


def resolve_warehouse(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the properties with an absolute path of a local warehouse folder; others unchanged.

    Only sql, hadoop and in-memory catalogs have a folder as warehouse. For others, it may be a name on their server.
    """
    if properties.get("type", "").lower() not in ("sql", "hadoop", "in-memory") or "warehouse" not in properties:
        return properties
    return {**properties, "warehouse": absolute(properties["warehouse"])}


def _complete_properties(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    """Complete the properties of an embedded catalog: a SQLite database in the local folder `warehouse`.

    A catalog is embedded if it has a `warehouse`, but neither type, uri nor class. Creates the folder. For others, only
    makes a local warehouse absolute. Raises `InvalidOption` for a folder that cannot be used, and `StorageError`.
    """
    warehouse = properties.get("warehouse")
    if warehouse is None or not {"type", "uri", "py-catalog-impl"}.isdisjoint(
        [*_pyiceberg_configuration(name), *properties]
    ):
        return resolve_warehouse(properties)
    scheme, _, path = split_location(warehouse)
    if scheme != "file":
        raise InvalidOption(
            f"an embedded catalog needs a local folder, not {warehouse}: for another catalog, also give type and uri"
        )
    folder = Path(path).absolute()
    if any(mark in str(folder) for mark in "?#") or unquote(str(folder)) != str(folder):
        raise InvalidOption(
            f"an embedded catalog cannot be in {folder}: pyiceberg decodes percent-encoding and truncates the "
            "path at ? or #, so it would write to another folder"
        )
    with storage_boundary("created", str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{folder / _FILE}?timeout={_WAIT}"
    return {**properties, "type": "sql", "uri": uri, "warehouse": f"file://{folder}"}
