"""A client of the Hive metastore on pyiceberg's Thrift client: reads and changes entries, and translates errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from lakescan.common.identifiers import dotted_name
from lakescan.errors import NoSuchNamespace, NoSuchTable, TableExists

_MILLISECONDS = 600_000  # the time limit for a metastore's response
_KEEP_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}  # otherwise, the metastore lists the table's folder


def is_hive(catalog: Any) -> bool:
    """Return whether a pyiceberg catalog is its `HiveCatalog`, a Hive metastore, or a subclass."""
    return "HiveCatalog" in {each.__name__ for each in type(catalog).__mro__}


def set_socket_timeout(catalog: Any) -> None:
    """Set a timeout of ten minutes on the connections of a pyiceberg Hive catalog.

    This is the limit of Hive's own clients. pyiceberg sets no limit.
    """
    from thrift.transport import TSocket, TTransport

    client = catalog._client
    address = urlsplit(client._uri)

    def init_thrift_transport() -> Any:
        socket = TSocket.TSocket(address.hostname, address.port)
        socket.setTimeout(_MILLISECONDS)
        if not client._kerberos_auth:
            return TTransport.TBufferedTransport(socket)
        return TTransport.TSaslClientTransport(socket, host=address.hostname, service=client._kerberos_service_name)

    client._init_thrift_transport = init_thrift_transport
    client._transport = init_thrift_transport()


@dataclass(frozen=True)
class HiveClient:
    """The tables and views of a metastore, as Thrift objects, by names (database, table).

    Each call opens and closes a connection. The metastore's other errors are raised as Thrift raises them
    (`TException`).
    """

    catalog: Any

    def table(self, name: tuple[str, ...]) -> Any | None:
        """Return a table or view; None if it or its database does not exist."""
        from hive_metastore.ttypes import NoSuchObjectException

        with self._client as client:
            try:
                return client.get_table(dbname=name[0], tbl_name=name[1])
            except NoSuchObjectException:
                return None

    def tables(self, database: str) -> list[Any]:
        """Return all tables and views of a database; an empty list if the database does not exist."""
        from hive_metastore.ttypes import NoSuchObjectException, UnknownDBException

        with self._client as client:
            try:
                names = client.get_all_tables(db_name=database)
                return list(client.get_table_objects_by_name(dbname=database, tbl_names=names)) if names else []
            except (NoSuchObjectException, UnknownDBException):
                return []

    def create(self, table: Any) -> None:
        """Add a table, given as a Thrift object; raises `TableExists`, and `NoSuchNamespace` without its database."""
        from hive_metastore.ttypes import AlreadyExistsException, EnvironmentContext, NoSuchObjectException

        with self._client as client:
            try:
                client.create_table_with_environment_context(table, EnvironmentContext(_KEEP_STATISTICS))
            except AlreadyExistsException as error:
                raise self._exists_error((table.dbName, table.tableName)) from error
            except NoSuchObjectException as error:
                raise NoSuchNamespace(f"catalog {self.catalog.name!r} has no namespace {table.dbName!r}") from error

    def drop(self, name: tuple[str, ...]) -> None:
        """Remove the entry of a table or view if it exists. Its files are kept."""
        from hive_metastore.ttypes import NoSuchObjectException

        with self._client as client:
            try:
                client.drop_table(dbname=name[0], name=name[1], deleteData=False)
            except NoSuchObjectException:
                return

    def alter(self, name: tuple[str, ...], new: Any) -> None:
        """Replace the entry of a name by a new one (a Thrift object), which may have another name.

        Raises `TableExists` if the new name is taken, and `NoSuchTable` if the entry does not exist.
        """
        from hive_metastore.ttypes import EnvironmentContext, InvalidOperationException, NoSuchObjectException

        try:
            with self._client as client:
                client.alter_table_with_environment_context(name[0], name[1], new, EnvironmentContext(_KEEP_STATISTICS))
        except (InvalidOperationException, NoSuchObjectException) as error:  # neither type identifies the cause
            renamed = (new.dbName, new.tableName)
            if renamed != name and self.table(renamed) is not None:
                raise self._exists_error(renamed) from error
            if self.table(name) is None:
                raise NoSuchTable(f"catalog {self.catalog.name!r} has no table {dotted_name(name)!r}") from error
            raise

    def _exists_error(self, name: tuple[str, ...]) -> TableExists:
        return TableExists(f"{dotted_name(name)} already exists in catalog {self.catalog.name!r}")

    @property
    def _client(self) -> Any:
        """A reusable context manager that opens a connection. pyiceberg has one socket per catalog: do not nest blocks.

        It is not wrapped by `contextlib`, since Thrift's errors are immutable and cannot pass through a generator.
        """
        return self.catalog._client


PROVIDER = "spark.sql.sources.provider"
_TYPE, _HANDLER = "table_type", "storage_handler"
_NO_LOCATION = "__PLACEHOLDER__"  # Spark's, for tables whose location is only in the parameters of the SerDe


@dataclass(frozen=True)
class MetastoreEntry:
    """The entry of a table or view in a Hive metastore or in Glue.

    `parameters` are the table's parameters. `kind` is its table type, such as EXTERNAL_TABLE. `stored` is the location
    in the storage descriptor, and `path` the location in the SerDe's parameters, which engines prefer. Both may be
    None.
    """

    parameters: Mapping[str, str]
    kind: str
    stored: str | None
    path: str | None

    @property
    def is_delta(self) -> bool:
        """Whether the entry is a Delta table with a location, by its parameters.

        Recognizes the parameters that Spark, Trino, Athena, Databricks and Hive's Delta connector set.
        """
        said = (
            self._parameter(PROVIDER) == "delta"
            or self._parameter(_TYPE) == "delta"
            or self._parameter(_HANDLER).startswith("io.delta")
        )
        return said and self.location is not None

    @property
    def location(self) -> str | None:
        """The table's location: `path`, else `stored`; None if neither is recorded or it is Spark's placeholder."""
        found = self.path or self.stored
        return None if not found or found.endswith(_NO_LOCATION) else found

    @property
    def is_managed(self) -> bool:
        """Whether it is a managed table: the metastore moves its files on a rename, and deletes them on a drop."""
        return self.kind.upper() == "MANAGED_TABLE" and self._parameter("EXTERNAL") != "true"

    def other(self, owner: str) -> str | None:
        """Describe an entry that is neither a Delta nor an Iceberg table, such as "a Hive view"; else None.

        `owner` is the type of the metastore in the description: "Hive" or "Glue".
        """
        if self.is_delta or self._parameter(_TYPE) == "iceberg":
            return None
        if self._parameter(_TYPE) == "iceberg-view":
            return f"an Iceberg view in {owner}"
        if self.kind.upper().endswith("VIEW"):
            return f"a {owner} view"
        format = self._parameter(PROVIDER) or self._parameter(_TYPE)
        return f"a {owner} table ({format})" if format else f"a {owner} table"

    def _parameter(self, name: str) -> str:
        return str(self.parameters.get(name) or "").lower()
