"""Delta tables in Spark's own catalog, `spark_catalog`, as a catalog of lakescan.

Spark's catalog, in memory or in a Hive metastore, has an entry for each table: its name, the provider `delta`, the
location, and whether Spark owns the files (managed). The columns are only in the table's log, as with Delta's JAR.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from lakescan.api.convert import convert_to_delta
from lakescan.api.open import open_table
from lakescan.catalogs.formats import format_named
from lakescan.catalogs.registry import connection
from lakescan.catalogs.views import NoViews, StoredView, view_of_query
from lakescan.common.identifiers import Identifier, dotted_name, folder_of, split_name
from lakescan.common.references import backquote
from lakescan.definition.table_changes import SetLocation
from lakescan.errors import (
    InvalidStatement,
    NoSuchNamespace,
    NoSuchTable,
    SchemaMismatch,
    StorageError,
    TableExists,
    UnsupportedFeature,
)
from lakescan.options.read import ReadOptions
from lakescan.spark.drop_in.errors import with_class
from lakescan.spark.drop_in.sessions import EnabledSession, find_session, session_in_use, use_session_catalog
from lakescan.spark.session import conf, is_connect
from lakescan.spark.statements.names import current_namespace
from lakescan.spark.statements.queries import query_schema
from lakescan.spark.statements.session_tables import SAME, set_finders
from lakescan.statements.syntax.alter_table import AlterTable
from lakescan.statements.syntax.commands import Convert
from lakescan.statements.syntax.grammar import TableStatement, parse_statement
from lakescan.statements.syntax.namespaces import Show, ShowKind
from lakescan.statements.syntax.tables_and_views import CreateView
from lakescan.statements.syntax.types import name_text, type_text
from lakescan.statements.tables.describe import describe_table, partition_parts
from lakescan.storage import Storage
from lakescan.storage.locations import absolute, normal, split_location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from lakescan.api.table import Table

_LOG = logging.getLogger("lakescan")
SPARK = "spark_catalog"
_DELTA, _ICEBERG = "delta", "iceberg"
_FORMATS = (_DELTA, _ICEBERG)
Name = tuple[str, ...]


@dataclass(frozen=True)
class SparkView:
    """A persistent view of Spark's catalog.

    - `text`: its query.
    - `database`: the database of short names in the query.
    - `columns`: the names of its columns, and `query_columns` those of the query when the view was made.
    """

    text: str
    database: str
    columns: tuple[str, ...]
    query_columns: tuple[str, ...]


@dataclass(frozen=True)
class SparkEntry:
    """An entry of Spark's catalog: its provider in lower case, its kind, and its location.

    `kind` is MANAGED, EXTERNAL or VIEW. `provider` and `location` are None for a view, and `view` is None for a table.
    """

    provider: str | None
    kind: str
    location: str | None
    view: SparkView | None = None

    @property
    def is_delta(self) -> bool:
        """Whether the entry is that of a Delta table."""
        return self.provider == _DELTA and self.location is not None


class SparkEntries(Protocol):
    """The entries of Spark's catalog. Names are (database, table)."""

    def find(self, name: Name) -> SparkEntry | None:
        """Return an entry; None if it does not exist."""

    def add(self, name: Name, location: str, *, is_managed: bool) -> None:
        """Add an entry of a Delta table."""

    def add_view(
        self,
        name: Name,
        text: str,
        schema: StructType,
        query_columns: Sequence[str],
        comment: str | None,
        *,
        replaces: bool,
    ) -> None:
        """Add or replace an entry of a view; raises `UnsupportedFeature` for a Connect session."""

    def drop(self, name: Name, *, purge: bool = False) -> None:
        """Drop a table: Spark deletes the files of a managed one."""

    def forget(self, name: Name) -> None:
        """Remove the entry of a table, and keep its files; raises `UnsupportedFeature` for a Connect session."""

    def rename(self, name: Name, new: Name) -> None:
        """Rename a table: Spark moves the files of a managed one."""

    def names(self, database: str) -> list[str]:
        """Return the names of a database's tables and views, without temporary views."""

    def database_location(self, database: str) -> str | None:
        """Return the folder of a database; None if it does not exist."""

    def current_database(self) -> str:
        """Return the current database."""

    def is_temporary(self, name: str) -> bool:
        """Return whether a short name is that of a temporary view."""


class ClassicEntries:
    """The entries of a classic session's catalog, by calls of the JVM, each of which takes about a millisecond."""

    def __init__(self, spark: SparkSession) -> None:
        own: Any = spark
        self._jvm = own._jvm
        self._catalog = own._jsparkSession.sessionState().catalog()

    def find(self, name: Name) -> SparkEntry | None:
        """Return an entry; None if it does not exist."""
        with _missing_is_none() as found:
            table = self._catalog.getTableMetadata(self._identifier(name))
            found.append(_entry_of(table))
        return found[0] if found else None

    def add(self, name: Name, location: str, *, is_managed: bool) -> None:
        """Add an entry of a Delta table without columns, as Delta's JAR does."""
        jvm = self._jvm
        classes = jvm.org.apache.spark.sql.catalyst.catalog
        kind, types = ("MANAGED" if is_managed else "EXTERNAL"), getattr(classes, "CatalogTableType$")
        uri = jvm.org.apache.spark.sql.catalyst.catalog.CatalogUtils.stringToURI(location)
        empty = classes.CatalogStorageFormat.empty()
        storage = _with_values(empty, "CatalogStorageFormat", {"locationUri": jvm.scala.Option.apply(uri)}, jvm)
        given = {
            "identifier": self._identifier(name),
            "tableType": getattr(getattr(types, "MODULE$"), kind)(),
            "storage": storage,
            "schema": jvm.org.apache.spark.sql.types.StructType(),
            "provider": jvm.scala.Option.apply(_DELTA),
        }
        table = _with_values(None, "CatalogTable", given, jvm)
        with _translate_spark_errors():
            self._catalog.createTable(table, False, True)

    def add_view(
        self,
        name: Name,
        text: str,
        schema: StructType,
        query_columns: Sequence[str],
        comment: str | None,
        *,
        replaces: bool,
    ) -> None:
        """Add or replace an entry of a view, with the properties by which Spark finds its names."""
        jvm = self._jvm
        classes, option = jvm.org.apache.spark.sql.catalyst.catalog, jvm.scala.Option.apply
        numbered = {f"view.query.out.col.{n}": each for n, each in enumerate(query_columns)}
        properties = {
            "view.catalogAndNamespace.numParts": "2",
            "view.catalogAndNamespace.part.0": SPARK,
            "view.catalogAndNamespace.part.1": self.current_database(),
            "view.query.out.numCols": str(len(query_columns)),
            "view.schemaMode": "COMPENSATION",
            **numbered,
        }
        given = {
            "identifier": self._identifier(name),
            "tableType": getattr(getattr(classes, "CatalogTableType$"), "MODULE$").VIEW(),
            "storage": classes.CatalogStorageFormat.empty(),
            "schema": jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json()),
            "viewText": option(text),
            "viewOriginalText": option(text),
            "properties": jvm.PythonUtils.toScalaMap(properties),
            "comment": option(comment),
        }
        table = _with_values(None, "CatalogTable", given, jvm)
        with _translate_spark_errors():
            if replaces and self.find(name) is not None:
                self._catalog.alterTable(table)
            else:
                self._catalog.createTable(table, False, True)

    def drop(self, name: Name, *, purge: bool = False) -> None:
        """Drop a table."""
        with _translate_spark_errors():
            self._catalog.dropTable(self._identifier(name), True, purge)

    def forget(self, name: Name) -> None:
        """Remove the entry of a table, and keep its files: Spark deletes those of managed tables only."""
        types = getattr(self._jvm.org.apache.spark.sql.catalyst.catalog, "CatalogTableType$")
        found = self._catalog.getTableMetadata(self._identifier(name))
        given = {"tableType": getattr(types, "MODULE$").EXTERNAL()}
        with _translate_spark_errors():
            self._catalog.alterTable(_with_values(found, "CatalogTable", given, self._jvm))
        self.drop(name)

    def rename(self, name: Name, new: Name) -> None:
        """Rename a table."""
        with _translate_spark_errors():
            self._catalog.renameTable(self._identifier(name), self._identifier(new))

    def names(self, database: str) -> list[str]:
        """Return the names of a database's tables and views."""
        with _translate_spark_errors():
            found = self._catalog.listTables(database, "*", False)
        return [found.apply(n).table() for n in range(found.size())]

    def partitioning(self, name: Name) -> str:
        """Return the partition columns of a table with their types, as SQL text."""
        schema = self._catalog.getTableMetadata(self._identifier(name)).partitionSchema()
        return str(schema.toDDL())

    def set_delta(self, name: Name) -> None:
        """Make the entry of a table that of a Delta table, without columns."""
        jvm = self._jvm
        found = self._catalog.getTableMetadata(self._identifier(name))
        given = {
            "provider": jvm.scala.Option.apply(_DELTA),
            "schema": jvm.org.apache.spark.sql.types.StructType(),
            "partitionColumnNames": jvm.PythonUtils.toSeq([]),
            "tracksPartitionsInCatalog": False,
        }
        with _translate_spark_errors():
            self._catalog.alterTable(_with_values(found, "CatalogTable", given, jvm))

    def database_location(self, database: str) -> str | None:
        """Return the folder of a database."""
        with _missing_is_none() as found:
            found.append(self._catalog.getDatabaseMetadata(database).locationUri().toString())
        return found[0] if found else None

    def current_database(self) -> str:
        """Return the current database."""
        return str(self._catalog.getCurrentDatabase())

    def is_temporary(self, name: str) -> bool:
        """Return whether a short name is that of a temporary view."""
        return bool(self._catalog.isTempView(self._jvm.org.apache.spark.sql.catalyst.TableIdentifier(name)))

    def _identifier(self, name: Name) -> Any:
        option = self._jvm.scala.Option.apply
        return self._jvm.org.apache.spark.sql.catalyst.TableIdentifier(name[1], option(name[0]), option(SPARK))


def _entry_of(table: Any) -> SparkEntry:
    provider, kind = table.provider(), str(table.tableType().name())
    location = table.storage().locationUri()
    if kind == "VIEW":
        text = table.viewText()
        return SparkEntry(
            None,
            kind,
            None,
            SparkView(
                str(text.get()) if text.isDefined() else "",
                _last(table.viewCatalogAndNamespace()),
                tuple(table.schema().fieldNames()),
                tuple(_texts(table.viewQueryColumnNames())),
            ),
        )
    return SparkEntry(
        str(provider.get()).lower() if provider.isDefined() else None,
        kind,
        _plain_uri(str(location.get().toString())) if location.isDefined() else None,
    )


def _texts(values: Any) -> list[str]:
    return [str(values.apply(n)) for n in range(values.size())]


def _last(names: Any) -> str:
    found = _texts(names)
    return found[-1] if found else "default"


def _with_values(base: Any, name: str, values: Mapping[str, Any], jvm: Any) -> Any:
    """Make an object of a case class of Spark's catalog, whose parameters differ between versions of Spark.

    Args:
        base: An object with the values of the other parameters; None for the class's defaults.
        name: The class.
        values: The values of parameters, by name.
        jvm: The session's view of the JVM.
    """
    full = f"org.apache.spark.sql.catalyst.catalog.{name}"
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    [maker] = [
        each
        for each in jvm.java.lang.Class.forName(full, True, loader).getConstructors()
        if each.getParameterCount() >= len(values)
    ]
    made = getattr(jvm.org.apache.spark.sql.catalyst.catalog, name)
    arguments = []
    for n, each in enumerate(maker.getParameters(), 1):
        parameter = str(each.getName())
        if parameter in values:
            arguments.append(values[parameter])
        elif base is not None:
            arguments.append(getattr(base, parameter)())
        else:
            arguments.append(getattr(made, f"apply$default${n}")())
    return made(*arguments)


class ConnectEntries:
    """The entries of a Connect session's catalog, by statements."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def find(self, name: Name) -> SparkEntry | None:
        """Return an entry; None if it does not exist."""
        pattern = "'" + name[1].replace("\\", "\\\\").replace("'", "\\'") + "'"
        with _missing_is_none() as found:
            rows = self._spark.sql(f"SHOW TABLE EXTENDED IN {_text(name[:1])} LIKE {pattern}").collect()
            own = [each for each in rows if each["tableName"].lower() == name[1].lower() and not each["isTemporary"]]
            found.extend(_entry_of_text(each["information"]) for each in own)
        return found[0] if found else None

    def add(self, name: Name, location: str, *, is_managed: bool) -> None:
        """Add an entry of a Delta table; Spark requires a column, which nothing reads."""
        where = "" if is_managed else f" LOCATION '{_escape(location)}'"
        with _translate_spark_errors():
            self._spark.sql(f"CREATE TABLE {_text(name)} (col STRING) USING delta{where}")

    def add_view(
        self,
        name: Name,
        text: str,
        schema: StructType,
        query_columns: Sequence[str],
        comment: str | None,
        *,
        replaces: bool,
    ) -> None:
        """Raise `UnsupportedFeature`: Spark would look for the columns of the tables in its own catalog."""
        raise UnsupportedFeature(
            f"the view {dotted_name(name)} over Delta tables of {SPARK} in a Connect session",
            "Make a temporary view, or make the view in a classic session.",
        )

    def drop(self, name: Name, *, purge: bool = False) -> None:
        """Drop a table."""
        with _translate_spark_errors():
            self._spark.sql(f"DROP TABLE IF EXISTS {_text(name)}{' PURGE' if purge else ''}")

    def forget(self, name: Name) -> None:
        """Raise `UnsupportedFeature`: DROP TABLE deletes the files of a managed table."""
        raise UnsupportedFeature("removing the entry of a table in a Connect session", "CREATE TABLE takes it over.")

    def rename(self, name: Name, new: Name) -> None:
        """Rename a table."""
        with _translate_spark_errors():
            self._spark.sql(f"ALTER TABLE {_text(name)} RENAME TO {_text(new)}")

    def names(self, database: str) -> list[str]:
        """Return the names of a database's tables and views."""
        with _translate_spark_errors():
            rows = self._spark.sql(f"SHOW TABLES IN {_text((database,))}").collect()
        return [each["tableName"] for each in rows if not each["isTemporary"]]

    def database_location(self, database: str) -> str | None:
        """Return the folder of a database."""
        with _missing_is_none() as found:
            found.append(self._spark.catalog.getDatabase(f"{SPARK}.{backquote(database)}").locationUri)
        return found[0] if found else None

    def current_database(self) -> str:
        """Return the current database."""
        return self._spark.catalog.currentDatabase()

    def is_temporary(self, name: str) -> bool:
        """Return whether a short name is that of a temporary view."""
        rows = self._spark.sql(f"SHOW TABLES LIKE '{_escape(name)}'").collect()
        return any(each["isTemporary"] and each["tableName"].lower() == name.lower() for each in rows)


_FIELD = re.compile(r"^(Type|Provider|Location): (.*)$", re.MULTILINE)


def _entry_of_text(text: str) -> SparkEntry:
    found = {key: value.strip() for key, value in reversed(_FIELD.findall(text.partition("\nSchema: ")[0]))}
    provider = found.get("Provider")
    if found.get("Type") == "VIEW":
        return SparkEntry(None, "VIEW", None, _view_of_text(text))
    return SparkEntry(
        None if provider is None else provider.lower(),
        found.get("Type", "EXTERNAL"),
        None if (location := found.get("Location")) is None else _plain_uri(location),
    )


def _view_of_text(text: str) -> SparkView | None:
    query = re.search(r"^View Text: (.*?)\n(?=View [A-Z]\w+)", text, re.MULTILINE | re.DOTALL)
    names = re.search(r"^View Catalog and Namespace: (.*)$", text, re.MULTILINE)
    columns = re.search(r"^View Query Output Columns: \[(.*)\]$", text, re.MULTILINE)
    if query is None or columns is None:
        return None
    parts = None if names is None else split_name(names[1].strip())
    own = tuple(re.findall(r"^ \|-- (.*?): ", text.partition("\nSchema: ")[2], re.MULTILINE))
    named = tuple(each.strip("`") for each in columns[1].split(", "))
    return SparkView(query[1], parts[-1] if parts else "default", own, named)


def _text(name: Name) -> str:
    return ".".join(map(backquote, (SPARK, *name)))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _plain_uri(uri: str) -> str:
    """Return a location of Spark's, such as `file:/lake/my%20table`, as lakescan writes it."""
    from urllib.parse import unquote

    if uri.startswith("file:"):
        return unquote(split_location(uri)[2])
    return unquote(uri)


def _condition(error: Any) -> str:
    get = getattr(error, "getCondition", None)
    return str(get() or "") if get is not None else ""


@contextmanager
def _missing_is_none() -> Iterator[list[Any]]:
    """Context manager: the body adds what it found to a list, which stays empty if Spark has no such table."""
    from pyspark.errors import PySparkException

    found: list[Any] = []
    try:
        yield found
    except PySparkException as error:
        if not _condition(error).startswith(("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "REQUIRES_SINGLE_PART")):
            raise


@contextmanager
def _translate_spark_errors() -> Iterator[None]:
    """Context manager: re-raise the errors of Spark's catalog as lakescan's."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        condition, message = _condition(error), str(error).partition("\n")[0]
        if condition.startswith(("TABLE_OR_VIEW_ALREADY_EXISTS", "LOCATION_ALREADY_EXISTS")):
            raise TableExists(message) from error
        if condition.startswith("SCHEMA_NOT_FOUND"):
            raise NoSuchNamespace(message) from error
        if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
            raise NoSuchTable(message) from error
        raise StorageError(f"Spark's catalog {SPARK} failed: {message}") from error


def entries_of(spark: SparkSession) -> SparkEntries:
    """Return the entries of a session's catalog, classic or Connect."""
    return ConnectEntries(spark) if is_connect(spark) else ClassicEntries(spark)


class SparkDeltaNames:
    """The Delta tables in Spark's catalog by name; see `lakescan.catalogs.delta_names`."""

    def __init__(self, entries: SparkEntries) -> None:
        self._entries = entries

    def location(self, name: Name) -> str | None:
        """Return the location of a Delta table; None for other entries, and for an entry without a log.

        An interrupted job may leave an entry without a log, which `add` then takes over.
        """
        found = self._find(name)
        if found is None or not found.is_delta or not _has_table(str(found.location)):
            return None
        return found.location

    def names(self, namespace: Name) -> list[str]:
        """Return the names of the Delta tables of a database, sorted."""
        if len(namespace) != 1:
            return []
        found = self._entries.names(namespace[0])
        return sorted(each for each in found if self.location((*namespace, each)) is not None)

    def other(self, name: Name) -> str | None:
        """Describe an entry that is not a Delta table."""
        found = self._find(name)
        if found is None or found.is_delta:
            return None
        return f"a {'view' if found.kind == 'VIEW' else found.provider or 'Hive'} of {SPARK}"

    def add(self, name: Name, location: str) -> None:
        """Add the entry of the Delta table at `location`, which is managed if that is the table's default folder.

        Raises `TableExists`.
        """
        found = self._find(name)
        if found is None:
            is_managed = normal(location) == normal(default_location(self._entries, name))
            self._entries.add(name, location, is_managed=is_managed)
        elif not found.is_delta or normal(str(found.location)) != normal(location):
            raise TableExists(f"{dotted_name((SPARK, *name))} already exists")

    def remove(self, name: Name, *, purge: bool = False) -> None:
        """Drop a Delta table; Spark deletes the files of a managed one."""
        found = self._find(name)
        if found is not None and found.is_delta:
            self._entries.drop(name, purge=purge)

    def rename(self, name: Name, new: Name) -> None:
        """Rename a Delta table; Spark moves the files of a managed one."""
        self._entries.rename(name, new)

    def _find(self, name: Name) -> SparkEntry | None:
        return self._entries.find(name) if len(name) == 2 else None


def _has_table(folder: str) -> bool:
    return format_named(_DELTA).is_at(folder, Storage())


def _is_empty(folder: str) -> bool:
    try:
        return next(iter(Storage().walk(folder)), None) is None
    except FileNotFoundError:
        return True


def default_location(entries: SparkEntries, name: Name) -> str:
    """Return the folder of a new managed table; raises `NoSuchNamespace` if its database does not exist."""
    folder = entries.database_location(name[0])
    if folder is None:
        raise NoSuchNamespace(f"catalog {SPARK!r} has no namespace {name[0]!r}")
    return folder_of(_plain_uri(folder), name[1])


class SparkCatalog:
    """Spark's catalog of the enabled session that this thread runs a handler of.

    It has the methods of pyiceberg's catalogs that lakescan calls for Delta tables.
    """

    name = SPARK
    registers_existing = True  # CREATE TABLE with the LOCATION of a Delta table registers it
    owns_files = True  # DROP TABLE deletes the files of a managed table

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}

    @property
    def entries(self) -> SparkEntries:
        """The entries of the session's catalog."""
        session = session_in_use()
        if session is None:
            raise UnsupportedFeature(f"the catalog {SPARK!r} without an enabled Spark session")
        return entries_of(session.spark)

    @property
    def delta_names(self) -> SparkDeltaNames:
        """The Delta tables of the catalog by name."""
        return SparkDeltaNames(self.entries)

    def reserve_location(self, identifier: Identifier) -> str:
        """Add the entry of a new managed table, and return its folder.

        Spark adds the entry of a managed table only while its folder is empty, so before rows are written. An entry
        without a log is not a table: `SparkDeltaNames.add` takes it over, and `withdraw_name` removes it. Raises
        `TableExists` if the folder is not empty.
        """
        location = default_location(self.entries, identifier.within)
        if _has_table(location):
            raise TableExists(
                f"the folder of the new table {identifier}, {location}, already has a Delta table: give another "
                "LOCATION, or name this one to register it"
            )
        self.delta_names.add(identifier.within, location)
        return location

    def withdraw_name(self, identifier: Identifier) -> None:
        """Remove the entry of a table that was not created. A failure is only logged.

        The entry stays if its folder has files: another writer may have taken the entry over. No file is deleted, since
        that writer may also be about to write its first one.
        """
        try:
            found = self.entries.find(identifier.within) if len(identifier.within) == 2 else None
            if found is not None and found.is_delta and _is_empty(str(found.location)):
                self.entries.forget(identifier.within)
        except Exception as error:
            _LOG.warning("%s: the name of a table that was not created may be left over: %s", identifier, error)

    @property
    def views(self) -> SparkViews:
        """The views of the catalog that read tables of lakescan."""
        return SparkViews(self)

    def load_table(self, name: Name) -> NoReturn:
        """Raise pyiceberg's `NoSuchTableError`: the catalog has no Iceberg tables."""
        from pyiceberg.exceptions import NoSuchTableError

        raise NoSuchTableError(dotted_name(name))

    def create_table(self, name: Name, **arguments: Any) -> NoReturn:
        """Raise `UnsupportedFeature`, like `create_table_transaction` and `register_table`."""
        raise UnsupportedFeature(
            f"the Iceberg table {dotted_name(name)} in {SPARK}",
            "Set spark.sql.catalog.spark_catalog to Iceberg's SparkSessionCatalog, or use a catalog of Iceberg.",
        )

    create_table_transaction = register_table = create_table

    def list_namespaces(self, under: Name = ()) -> list[Name]:
        """Return the names of all databases."""
        session = session_in_use()
        if under or session is None:
            return []
        return [(each[0],) for each in session.spark.sql(f"SHOW NAMESPACES IN {SPARK}").collect()]

    def namespace_exists(self, namespace: Name) -> bool:
        """Return whether a database exists."""
        return len(namespace) == 1 and self.entries.database_location(namespace[0]) is not None

    def load_namespace_properties(self, namespace: Name) -> dict[str, str]:
        """Return the location of a database."""
        from pyiceberg.exceptions import NoSuchNamespaceError

        found = self.entries.database_location(namespace[0]) if len(namespace) == 1 else None
        if found is None:
            raise NoSuchNamespaceError(dotted_name(namespace))
        return {"location": found}

    def list_tables(self, namespace: Name) -> list[Name]:
        """Return an empty list: the catalog has no Iceberg tables."""
        if not self.namespace_exists(namespace):
            from pyiceberg.exceptions import NoSuchNamespaceError

            raise NoSuchNamespaceError(dotted_name(namespace))
        return []


class SparkViews(NoViews):
    """The persistent views of Spark's catalog that read tables of lakescan. Spark itself makes and drops views."""

    def load(self, name: Name) -> StoredView | None:
        """Return a view; None if it does not exist, or reads no table of lakescan."""
        return _load_view(session_in_use(), name)


def _load_view(session: EnabledSession | None, name: Name) -> StoredView | None:
    found = None if session is None or len(name) != 2 else entries_of(session.spark).find(name)
    if session is None or found is None or found.view is None or not _reads_own(session, found.view):
        return None
    view = found.view
    identifier = Identifier(SPARK, name[:-1], name[-1])
    return view_of_query(identifier, view.text, (view.database,), view.columns, view.query_columns)


def create_view(spark: Any, text: str) -> bool:
    """Run CREATE VIEW in Spark's own catalog if the view's query reads a table of lakescan; else return False.

    Spark cannot analyze such a query, so the view's entry is made here.
    """
    session = find_session(spark)
    if session is None or session.session_catalog is None or not _VIEW.match(text):
        return False
    wanted = parse_statement(text)
    if not isinstance(wanted, CreateView):
        return False
    entries = entries_of(spark)
    full = _candidate(session, wanted.view.parts)
    if full is None or len(full) != 3 or not may_name_table(session, wanted.query.text):
        return False
    there = entries.find(full[1:])
    if there is not None and wanted.if_not_exists:
        return True
    if there is not None and not (wanted.replaces and there.kind == "VIEW"):
        raise TableExists(f"{dotted_name(full)} already exists")
    schema = query_schema(spark, wanted.query.text, None, {})
    columns = schema.names
    if wanted.columns:
        if len(wanted.columns) != len(columns):
            raise InvalidStatement(
                f"the view {dotted_name(full)} has {len(wanted.columns)} columns in its list, and its query "
                f"{len(columns)}"
            )
        fields = []
        for field, (name, comment) in zip(schema.fields, wanted.columns, strict=True):
            metadata = field.metadata if comment is None else {**field.metadata, "comment": comment}
            fields.append(type(field)(name, field.dataType, field.nullable, metadata))
        schema = type(schema)(fields)
    entries.add_view(full[1:], wanted.query.text, schema, columns, wanted.comment, replaces=wanted.replaces)
    return True


def convert_table(spark: Any, text: str) -> bool:
    """Run CONVERT TO DELTA of a Parquet table of Spark's own catalog by its name; return False for other statements.

    The table's entry then is that of a Delta table. Raises `UnsupportedFeature` for other formats, and on Connect.
    """
    session = find_session(spark)
    wanted = parse_statement(text) if session is not None and session.session_catalog == _DELTA else None
    if session is None or not isinstance(wanted, Convert):
        return False
    parts = wanted.table.parts
    full = None if len(parts) == 2 and parts[0].lower() in ("parquet", *_FORMATS) else _candidate(session, parts)
    entries = entries_of(spark)
    found = entries.find(full[1:]) if full is not None and len(full) == 3 else None
    if full is None or found is None:
        return False
    if found.is_delta:
        return True
    if found.provider != "parquet" or found.location is None or not isinstance(entries, ClassicEntries):
        raise UnsupportedFeature(
            f"CONVERT TO DELTA of the {found.provider or 'Hive'} table {dotted_name(full)}",
            "Convert Parquet tables, in a classic session; or name the folder of Parquet files: parquet.`folder`.",
        )
    columns = ", ".join(f"{name_text(each.name)} {type_text(each.type)}" for each in wanted.partition_columns)
    columns = columns or entries.partitioning(full[1:])
    convert_to_delta(found.location, partition_by=columns, statistics=wanted.statistics)
    entries.set_delta(full[1:])
    return True


def set_location(spark: SparkSession, statement: TableStatement) -> bool:
    """Run SET LOCATION of a Delta table in Spark's own catalog; return False for other statements.

    No files are moved: the name then refers to the Delta table in the other folder. Raises `NotATable` if the folder
    has no Delta table, and `SchemaMismatch` if that table has other columns or partitions.
    """
    if not isinstance(statement, AlterTable) or statement.table.parts[0] != SPARK:
        return False
    changes = [each for each in statement.changes if isinstance(each, SetLocation)]
    if not changes or len(statement.changes) > 1:
        return False
    name, location = statement.table.parts[1:], absolute(changes[0].location)
    found = entries_of(spark).find(name)
    if found is None or not found.is_delta:
        return False
    now, new = (open_table(str(each), ReadOptions.parse({"format": _DELTA})) for each in (found.location, location))
    if now.schema != new.schema or now.partitioning != new.partitioning:
        error = SchemaMismatch(
            f"ALTER TABLE {dotted_name(statement.table.parts)} SET LOCATION {location}: the Delta table there has "
            "other columns or partitions"
        )
        raise with_class(error, "AnalysisException", "DELTA_SET_LOCATION_SCHEMA_MISMATCH")
    with _translate_spark_errors():
        spark.sql(f"ALTER TABLE {_text(name)} SET LOCATION '{_escape(location)}'")
    return True


_VIEW = re.compile(r"\s*create\s+(?:or\s+replace\s+)?view\b", re.IGNORECASE)


def _reads_own(session: EnabledSession, view: SparkView) -> bool:
    return may_name_table(session, view.text, view.database)


def find_full_name(spark: Any, parts: Sequence[str], with_views: bool = False) -> Name | None:
    """Return the full name of a Delta or Iceberg table in a session's own catalog; None for any other name.

    The name may be short, and may end with the name of a metadata table, a branch or a tag of an Iceberg table.
    """
    session = find_session(spark)
    if session is None or session.session_catalog is None:
        return None
    return _find_full_name(session, tuple(parts), with_views=with_views)


def _find_full_name(
    session: EnabledSession, parts: Name, database: str | None = None, *, with_views: bool
) -> Name | None:
    full = _candidate(session, parts, database)
    if full is None:
        return None
    if session.session_catalog == _DELTA:
        if len(full) != 3:
            return None
        found = entries_of(session.spark).find(full[1:])
        if found is not None and found.view is not None and with_views:
            return full if _reads_own(session, found.view) else None
        return full if found is not None and found.is_delta else None
    from lakescan.api.catalog import Catalog

    own = Catalog(SPARK)
    for each in (full, full[:-1]):
        if len(each) >= 3 and own.table_exists(dotted_name(each[1:])):
            return full
    return full if with_views and _load_view(session, full[1:]) is not None else None


def find_stored_view(spark: Any, parts: Sequence[str]) -> StoredView | None:
    """Return a view of Spark's own catalog that reads its Iceberg tables; None for any other name."""
    session = find_session(spark)
    if session is None or session.session_catalog != _ICEBERG:
        return None
    full = _candidate(session, tuple(parts))
    return None if full is None else _load_view(session, full[1:])


def _candidate(session: EnabledSession, parts: Name, database: str | None = None) -> Name | None:
    """Return the name with `spark_catalog` and the database, if it can be one of that catalog; else None.

    `database` is that of short names in the query of a view.
    """
    if database is not None and len(parts) == 1:
        return (SPARK, database, parts[0])
    if len(parts) > 1 and parts[0].lower() == SPARK:
        if len(parts) == 2:
            return (SPARK, entries_of(session.spark).current_database(), parts[1])
        return (SPARK, *parts[1:])
    within = current_namespace(session.spark)
    if within and within[0] != SPARK and database is None:
        return None
    if len(parts) == 1:
        if entries_of(session.spark).is_temporary(parts[0]):
            return None
        return (SPARK, entries_of(session.spark).current_database(), parts[0])
    if parts[0] in session.catalogs or parts[0].lower() in ("global_temp", "system", "session", *_FORMATS):
        return None
    return (SPARK, *parts)


def new_full_name(spark: Any, parts: Sequence[str], format: str | None) -> Name | None:
    """Return the full name of a new table in a session's own catalog; None if Spark has to create the table.

    Args:
        spark: The session.
        parts: The table's name, which may be short.
        format: The format of the table; None for one that is not lakescan's. Empty for a statement without USING: such
            a table is in Iceberg's format if the catalog is Iceberg's, else in Spark's default format.
    """
    session = find_session(spark)
    if session is None or session.session_catalog is None or format is None:
        return None
    chosen = session.session_catalog if format == SAME else format.lower()
    if not chosen:
        is_iceberg = session.session_catalog == _ICEBERG
        chosen = _ICEBERG if is_iceberg else (conf(spark, "spark.sql.sources.default") or "").lower()
    if chosen != session.session_catalog:
        return None
    full = _candidate(session, tuple(parts))
    return full if full is not None and len(full) == 3 else None


# Names of tables follow these words. A name that only looks like one costs a lookup and changes nothing.
_PART = r"(?:`(?:[^`]|``)+`|\w+)"
_NAME = rf"{_PART}(?:\s*\.\s*{_PART})*"
_ALIAS = r"(?:\s+(?:as\s+)?\w+)?"
_NAMED = re.compile(
    r"\b(?:from|join|into|update|table|using|describe|desc|history|detail|extended|formatted|optimize|vacuum|clone|like"
    r"|columns\s+(?:from|in)|partitions|tblproperties|overwrite|exists|delta|as\s+serde)\s+"
    rf"(?=({_NAME}(?:{_ALIAS}\s*,\s*{_NAME})*))",
    re.IGNORECASE,
)
_CREATES = re.compile(r"\s*(?:create|replace)\b(?:\s+or\s+replace)?(?:\s+external)?\s+table\b", re.IGNORECASE)
_USING = re.compile(r"\busing\s+`?(?:delta|iceberg)\b|\bclone\b", re.IGNORECASE)
_ONE_NAME = re.compile(_NAME)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def may_name_table(session: EnabledSession, text: str, database: str | None = None) -> bool:
    """Return whether a statement may name or create a table of lakescan in Spark's own catalog.

    The words of the statement are looked at, and the names in it are looked up. `database` is that of short names, by
    default the current one.
    """
    if session.session_catalog is None:
        return False
    plain = _COMMENT.sub(" ", text)
    if _CREATES.match(plain) and (_USING.search(plain) or session.session_catalog == _ICEBERG):
        return True
    if _CREATES.match(plain) and (conf(session.spark, "spark.sql.sources.default") or "").lower() == _DELTA:
        return True
    if session.session_catalog == _ICEBERG and _LISTS.match(plain):
        return True
    seen: set[Name] = set()
    for match in _NAMED.finditer(plain):
        for each in _ONE_NAME.finditer(match[1]):
            parts = split_name(re.sub(r"\s*\.\s*", ".", each[0]))
            if parts is None or parts in seen or (len(parts) == 1 and parts[0].lower() in _KEYWORDS):
                continue
            seen.add(parts)
            if _find_full_name(session, parts, database, with_views=True) is not None:
                return True
    return False


_LISTS = re.compile(r"\s*show\s+(?:tables|table\s+extended)\b", re.IGNORECASE)
_KEYWORDS = frozenset(
    [
        "as",
        "select",
        "values",
        "table",
        "if",
        "not",
        "exists",
        "where",
        "on",
        "using",
        "extended",
        "formatted",
        "history",
        "detail",
        "set",
        "inner",
        "left",
        "right",
        "full",
        "cross",
        "join",
        "lateral",
        "view",
        "into",
        "overwrite",
        "create",
        "like",
    ]
)


def check_saved_format(session: EnabledSession, parts: Name, format: str | None) -> None:
    """Raise PySpark's `AnalysisException` if `saveAsTable` names another format than that of an existing Delta table.

    Without a format, Spark means its default one, which is Parquet.
    """
    if parts[0] != SPARK or session.session_catalog != _DELTA:
        return
    chosen = (format or conf(session.spark, "spark.sql.sources.default") or "parquet").lower()
    if chosen == _DELTA:
        return
    from pyspark.errors import AnalysisException

    raise AnalysisException(
        f"The format of the existing table {dotted_name(parts)} is `DeltaTable`. It doesn't match the specified format "
        f"`{chosen}`."
    )


def describe_delta(table: Table, statement: Show) -> list[tuple[str | None, ...]] | None:
    """Return the rows of DESCRIBE TABLE or SHOW TBLPROPERTIES of a Delta table in Spark's catalog, as on the JVM.

    None for other statements, and for tables of other catalogs.
    """
    if table.name is None or table.name.catalog != SPARK or table.format != _DELTA or statement.column is not None:
        return None
    properties = _shown_properties(table)
    if statement.what is ShowKind.PROPERTIES:
        return list(properties.items())
    if statement.what is not ShowKind.TABLE:
        return None
    columns: list[tuple[str | None, ...]] = []
    for name, kind, doc in describe_table(table):
        if not name:
            break  # the partitioning follows
        columns.append((name, kind, doc or None))
    found = list(columns)
    if parts := partition_parts(table):
        by_name = {row[0]: row for row in columns}
        found += [("# Partition Information", "", ""), ("# col_name", "data_type", "comment")]
        found += [by_name[each.strip("`")] for each in parts]
    if not statement.extended:
        return found
    catalog: Any = connection(SPARK)
    entry = catalog.entries.find(table.name.within)
    kind = "EXTERNAL" if entry is None else entry.kind
    found += [("", "", ""), ("# Detailed Table Information", "", ""), ("Name", str(table.name), ""), ("Type", kind, "")]
    if comment := table.comment:
        found.append(("Comment", comment, ""))
    folder = table.folder
    found += [("Location", f"file:{folder}" if folder.startswith("/") else folder, ""), ("Provider", _DELTA, "")]
    if kind == "MANAGED":
        found.append(("Is_managed_location", "true", ""))
    found.append(("Table Properties", f"[{','.join(f'{key}={value}' for key, value in properties.items())}]", ""))
    return found


def _shown_properties(table: Table) -> dict[str, str]:
    """Return a Delta table's properties with its protocol, as Delta's JAR shows them."""
    detail = table.detail().to_pylist()[0]
    own = dict(table.properties)
    for name, key in (("delta.minReaderVersion", "minReaderVersion"), ("delta.minWriterVersion", "minWriterVersion")):
        own[name] = str(detail[key])
    if detail["minWriterVersion"] >= 7:
        own |= {f"delta.feature.{each}": "supported" for each in detail["tableFeatures"] or ()}
    return dict(sorted(own.items()))


class SparkTableWriter:
    """`df.writeTo` of a table that does not exist in Spark's own catalog: `using` decides whether it is lakescan's.

    The calls before the action go to Spark's writer and to lakescan's.
    """

    def __init__(self, session: EnabledSession, frame: Any, table: str, full: Name, make: Any) -> None:
        self._session, self._full = session, full
        self._theirs = frame.writeTo(table)
        self._ours = make(frame, ".".join(map(backquote, full)), ())
        self._format = session.session_catalog if session.session_catalog == _ICEBERG else None

    def using(self, provider: str) -> SparkTableWriter:
        """Set the format of the new table."""
        self._format = provider.lower()
        self._theirs = self._theirs.using(provider)
        return self

    @property
    def _is_ours(self) -> bool:
        chosen = self._format or (conf(self._session.spark, "spark.sql.sources.default") or "").lower()
        return chosen == self._session.session_catalog

    def _run(self, name: str, *args: Any) -> None:
        if self._is_ours:
            self._ours.using(str(self._session.session_catalog))
            getattr(self._ours, name)(*args)
        else:
            getattr(self._theirs, name)(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        theirs = getattr(self._theirs, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if name in _ACTIONS:
                return self._run(name, *args)
            self._theirs = theirs(*args, **kwargs)
            getattr(self._ours, name)(*args, **kwargs)
            return self

        return call


_ACTIONS = ("create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions")


def writer_of_new_table(session: EnabledSession, frame: Any, table: str, make: Any) -> SparkTableWriter | None:
    """Return the writer of a table that may be created in Spark's own catalog as one of lakescan; None for other names.

    Args:
        session: The enabled session.
        frame: The rows.
        table: The table's name.
        make: Makes lakescan's writer from the frame, the full name and an empty namespace.
    """
    parts = split_name(table.strip()) if isinstance(table, str) and session.session_catalog is not None else None
    full = None if parts is None else new_full_name(session.spark, parts, session.session_catalog)
    if full is None or entries_of(session.spark).find(full[1:]) is not None:
        return None
    return SparkTableWriter(session, frame, table, full, make)


set_finders(find_full_name, new_full_name, find_stored_view)
use_session_catalog(SPARK, SparkCatalog)
