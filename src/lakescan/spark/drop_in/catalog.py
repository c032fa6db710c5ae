"""`spark.catalog` with lakescan's catalogs and tables.

Calls about Spark's own catalogs, tables, views and functions run PySpark's own methods.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakKeyDictionary

from lakescan.api.catalog import Catalog
from lakescan.api.open import open_table
from lakescan.api.table import Table
from lakescan.common.identifiers import Identifier, dotted_name, split_name
from lakescan.common.references import backquote
from lakescan.errors import IsAView, NoSuchNamespace, NoSuchTable, NotATable, UnsupportedFeature
from lakescan.options.read import ReadOptions
from lakescan.spark.drop_in.interception import NOT_OURS, intercept
from lakescan.spark.drop_in.names import FORMATS, new_table_parts, table_parts
from lakescan.spark.drop_in.session_catalog import SPARK, entries_of, find_full_name
from lakescan.spark.drop_in.sessions import EnabledSession
from lakescan.spark.session import conf
from lakescan.spark.statements.names import NAMESPACE, current_namespace, with_default_namespace
from lakescan.spark.statements.queries import frame_of_name
from lakescan.spark.statements.sql import run_sql
from lakescan.spark.types import schema_of

Name = tuple[str, ...]
_CACHED: WeakKeyDictionary[Any, set[Name]] = WeakKeyDictionary()


def intercept_catalog(owner: type) -> None:
    """Intercept the methods of PySpark's class `Catalog`, classic or Connect."""
    for name, handler in _HANDLERS.items():
        intercept(owner, name, session_of_catalog, handler)


def session_of_catalog(catalog: Any) -> Any:
    """Return the session of `spark.catalog`, classic or Connect."""
    return catalog._sparkSession


def current_catalog(session: EnabledSession, catalog: Any) -> Any:
    """Run `currentCatalog`."""
    within = _within(session)
    return within[0] if within else NOT_OURS


def set_current_catalog(session: EnabledSession, catalog: Any, catalogName: str) -> Any:
    """Run `setCurrentCatalog`."""
    if catalogName in session.catalogs and catalogName != SPARK:
        session.spark.conf.set(NAMESPACE, "\0".join(with_default_namespace(session.spark, [catalogName])))
        return None
    if _within(session):
        catalog.setCurrentCatalog(catalogName)  # raises Spark's error for an unknown catalog
        session.spark.conf.unset(NAMESPACE)
        return None
    return NOT_OURS


def list_catalogs(session: EnabledSession, catalog: Any, pattern: str | None = None) -> Any:
    """Run `listCatalogs`: Spark's own catalogs and the session's."""
    from pyspark.sql.catalog import CatalogMetadata

    found = {each.name: each for each in catalog.listCatalogs(*([] if pattern is None else [pattern]))}
    for name in _matching(session.catalogs, pattern):
        found.setdefault(name, CatalogMetadata(name=name, description=None))
    return [found[name] for name in sorted(found)]


def current_database(session: EnabledSession, catalog: Any) -> Any:
    """Run `currentDatabase`; the current namespace of a catalog is empty until it is set."""
    within = _within(session)
    return dotted_name(within[1:]) if within else NOT_OURS


def set_current_database(session: EnabledSession, catalog: Any, dbName: str) -> Any:
    """Run `setCurrentDatabase`."""
    parts = _namespace_parts(session, dbName)
    if parts is None:
        within = _within(session)
        if not within:
            return NOT_OURS
        catalog.setCurrentDatabase(dbName)
        session.spark.conf.unset(NAMESPACE)
        return None
    _check_namespace(parts)
    session.spark.conf.set(NAMESPACE, "\0".join(parts))
    return None


def list_databases(session: EnabledSession, catalog: Any, pattern: str | None = None) -> Any:
    """Run `listDatabases` in the current catalog."""
    within = _within(session)
    if not within:
        return NOT_OURS
    names = Catalog(within[0]).list_namespaces()
    return [_database((within[0], *(split_name(each) or (each,)))) for each in _matching(names, pattern)]


def get_database(session: EnabledSession, catalog: Any, dbName: str) -> Any:
    """Run `getDatabase`."""
    parts = _namespace_parts(session, dbName)
    if parts is None:
        return NOT_OURS
    _check_namespace(parts)
    return _database(parts)


def database_exists(session: EnabledSession, catalog: Any, dbName: str) -> Any:
    """Run `databaseExists`."""
    parts = _namespace_parts(session, dbName)
    return NOT_OURS if parts is None else _namespace_exists(parts)


def create_database(
    session: EnabledSession,
    catalog: Any,
    dbName: str,
    ifNotExists: bool = False,
    properties: dict[str, str] | None = None,
) -> Any:
    """Run `createDatabase`."""
    parts = _namespace_parts(session, dbName)
    if parts is None or len(parts) < 2:
        return NOT_OURS
    Catalog(parts[0]).create_namespace(dotted_name(parts[1:]), exist_ok=ifNotExists, properties=properties)
    return None


def drop_database(
    session: EnabledSession, catalog: Any, dbName: str, ifExists: bool = False, cascade: bool = False
) -> Any:
    """Run `dropDatabase`."""
    parts = _namespace_parts(session, dbName)
    if parts is None or len(parts) < 2:
        return NOT_OURS
    text = f"DROP NAMESPACE {'IF EXISTS ' if ifExists else ''}{_text(parts)}{' CASCADE' if cascade else ''}"
    run_sql(session.spark, text)
    return None


def list_tables(session: EnabledSession, catalog: Any, dbName: str | None = None, pattern: str | None = None) -> Any:
    """Run `listTables`: the tables and views of a namespace."""
    parts = _within(session) if dbName is None else _namespace_parts(session, dbName)
    if parts:
        if len(parts) < 2:
            return []
        own, within = Catalog(parts[0]), dotted_name(parts[1:])
        tables = {(split_name(each) or (each,))[-1]: False for each in own.list_tables(within)}
        tables |= {(split_name(each) or (each,))[-1]: True for each in own.list_views(within)}
        return [_table((*parts, each), "VIEW" if tables[each] else None) for each in _matching(sorted(tables), pattern)]
    return _list_spark_tables(session, catalog, dbName, pattern)


def _list_spark_tables(session: EnabledSession, catalog: Any, database: str | None, pattern: str | None) -> Any:
    """List the tables of a database of Spark's own catalog.

    Spark itself would load each Delta table in a Python worker, only to find that it has no path.
    """
    if session.session_catalog != "delta":
        return NOT_OURS
    entries = entries_of(session.spark)
    parts = (entries.current_database(),) if database is None else split_name(database)
    if parts is not None and len(parts) == 2 and parts[0] == SPARK:
        parts = parts[1:]
    if parts is None or len(parts) != 1 or entries.database_location(parts[0]) is None:
        return NOT_OURS
    names = entries.names(parts[0])
    of_delta = {each for each in names if (entry := entries.find((parts[0], each))) is not None and entry.is_delta}
    if not of_delta:
        return NOT_OURS
    text = f"SHOW TABLES IN {backquote(SPARK)}.{backquote(parts[0])}"
    rows = session.spark.sql(text).collect()
    shown = [(row["tableName"], row["isTemporary"]) for row in rows]
    wanted = set(_matching([name for name, _ in shown], pattern))
    return [
        _table((SPARK, parts[0], name))
        if name in of_delta and not temporary
        else catalog.getTable(backquote(name) if temporary else _text((SPARK, parts[0], name)))
        for name, temporary in sorted(shown)
        if name in wanted
    ]


def get_table(session: EnabledSession, catalog: Any, tableName: str) -> Any:
    """Run `getTable`."""
    parts = _table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    try:
        _check_table(session, parts)
        _open(parts)
    except IsAView:
        return _table(parts, "VIEW")
    except NoSuchTable:
        if len(parts) < 4:  # a metadata table has the name of its table as its namespace
            raise
    return _table(parts)


def table_exists(session: EnabledSession, catalog: Any, tableName: str, dbName: str | None = None) -> Any:
    """Run `tableExists`; a view exists, too."""
    parts = _table_parts(session, tableName, dbName)
    if parts is None:
        return NOT_OURS
    if len(parts) < 3 and parts[0].lower() not in FORMATS:
        return False
    try:
        frame_of_name(session.spark, parts, {}) if len(parts) > 3 else _open(parts)
    except IsAView:
        return True
    except (NoSuchTable, NoSuchNamespace, NotATable, UnsupportedFeature):
        return False
    return True


def list_columns(session: EnabledSession, catalog: Any, tableName: str, dbName: str | None = None) -> Any:
    """Run `listColumns`; Spark's own method fails for tables that are partitioned by a transform."""
    from pyspark.sql.catalog import Column

    parts = _table_parts(session, tableName, dbName)
    if parts is None:
        return NOT_OURS
    try:
        table = _open(parts)
    except (IsAView, NoSuchTable) as error:
        if isinstance(error, NoSuchTable) and not isinstance(error, IsAView) and len(parts) < 4:
            raise
        schema = frame_of_name(session.spark, parts, {}).schema
        partitioned: set[str] = set()
    else:
        spec = table.scan().spec
        schema = schema_of(spec)
        terms = [] if table.partitioning == "unpartitioned" else table.partitioning.split(", ")
        partitioned = {each.strip("`") for each in terms}
    return [
        Column(
            name=each.name,
            description=each.metadata.get("comment"),
            dataType=each.dataType.simpleString(),
            nullable=each.nullable,
            isPartition=each.name in partitioned,
            isBucket=False,
            isCluster=False,
        )
        for each in schema.fields
    ]


def refresh_table(session: EnabledSession, catalog: Any, tableName: str) -> Any:
    """Run `refreshTable`: each read of lakescan's tables sees the latest commit, so this only checks the name."""
    parts = _table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    _check_table(session, parts)
    return None


def is_cached(session: EnabledSession, catalog: Any, tableName: str) -> Any:
    """Run `isCached`."""
    parts = _table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    _check_table(session, parts)
    return _key(parts) in _CACHED.get(session.spark, ())


def cache_table(session: EnabledSession, catalog: Any, tableName: str, storageLevel: Any = None) -> Any:
    """Run `cacheTable`.

    The name is recorded, and rows are not kept: each read sees the latest commit. `DataFrame.cache` keeps rows.
    """
    parts = _table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    _check_table(session, parts)
    _CACHED.setdefault(session.spark, set()).add(_key(parts))
    return None


def uncache_table(session: EnabledSession, catalog: Any, tableName: str) -> Any:
    """Run `uncacheTable`."""
    parts = _table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    _check_table(session, parts)
    _CACHED.get(session.spark, set()).discard(_key(parts))
    return None


def clear_cache(session: EnabledSession, catalog: Any) -> Any:
    """Run `clearCache`."""
    _CACHED.pop(session.spark, None)
    return NOT_OURS


def create_table(
    session: EnabledSession,
    catalog: Any,
    tableName: str,
    path: str | None = None,
    source: str | None = None,
    schema: Any = None,
    description: str | None = None,
    **options: str,
) -> Any:
    """Run `createTable`, which returns the frame of the new table."""
    format = (source or conf(session.spark, "spark.sql.sources.default") or "").lower()
    parts = new_table_parts(session, tableName, format)
    if parts is None or parts[0].lower() in FORMATS:
        return NOT_OURS
    if schema is None and path is None:
        raise UnsupportedFeature(f"the table {tableName} without columns", "Pass its schema.")
    location = path if path is not None else options.get("path")
    own = Catalog(parts[0])
    name = dotted_name(parts[1:])
    if schema is None or (location is not None and own.registers_existing and _is_table(location, format)):
        own.register_table(name, str(location))
    else:
        kind = format if format in FORMATS else "iceberg"
        own.create_table(name, schema, format=kind, location=location, comment=description)
    return frame_of_name(session.spark, parts, {})


def create_external_table(
    session: EnabledSession,
    catalog: Any,
    tableName: str,
    path: str | None = None,
    source: str | None = None,
    schema: Any = None,
    **options: str,
) -> Any:
    """Run `createExternalTable`."""
    return create_table(session, catalog, tableName, path, source, schema, **options)


def drop_table(
    session: EnabledSession, catalog: Any, tableName: str, ifExists: bool = False, purge: bool = False
) -> Any:
    """Run `dropTable`."""
    parts = _table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    Catalog(parts[0]).drop_table(dotted_name(parts[1:]), missing_ok=ifExists, purge=purge)
    return None


def recover_partitions(session: EnabledSession, catalog: Any, tableName: str) -> Any:
    """Run `recoverPartitions`, which is for tables whose partitions the catalog lists; as on the JVM, it is refused."""
    parts = _table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    from pyspark.errors import AnalysisException

    from lakescan.spark.drop_in.errors import error_of_class

    _check_table(session, parts)
    refused = UnsupportedFeature(
        f"recovering the partitions of {dotted_name(parts)}", "Its metadata lists its files: there is nothing to do."
    )
    raise error_of_class(refused, AnalysisException, "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE")


def get_table_properties(session: EnabledSession, catalog: Any, tableName: str) -> Any:
    """Run `getTableProperties`."""
    parts = _table_parts(session, tableName)
    return NOT_OURS if parts is None else dict(_open(parts).properties)


def get_create_table_string(session: EnabledSession, catalog: Any, tableName: str, asSerde: bool = False) -> Any:
    """Run `getCreateTableString`."""
    parts = _table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    rows: Any = run_sql(session.spark, f"SHOW CREATE TABLE {_text(parts)}")
    return rows.collect()[0][0]


def truncate_table(session: EnabledSession, catalog: Any, tableName: str) -> Any:
    """Run `truncateTable`."""
    parts = _table_parts(session, tableName)
    if parts is None:
        return NOT_OURS
    _open(parts).delete("true")
    return None


_HANDLERS: dict[str, Callable[..., Any]] = {
    "currentCatalog": current_catalog,
    "setCurrentCatalog": set_current_catalog,
    "listCatalogs": list_catalogs,
    "currentDatabase": current_database,
    "setCurrentDatabase": set_current_database,
    "listDatabases": list_databases,
    "getDatabase": get_database,
    "databaseExists": database_exists,
    "createDatabase": create_database,
    "dropDatabase": drop_database,
    "listTables": list_tables,
    "getTable": get_table,
    "tableExists": table_exists,
    "listColumns": list_columns,
    "refreshTable": refresh_table,
    "isCached": is_cached,
    "cacheTable": cache_table,
    "uncacheTable": uncache_table,
    "clearCache": clear_cache,
    "createTable": create_table,
    "createExternalTable": create_external_table,
    "dropTable": drop_table,
    "recoverPartitions": recover_partitions,
    "getTableProperties": get_table_properties,
    "getCreateTableString": get_create_table_string,
    "truncateTable": truncate_table,
}


def _within(session: EnabledSession) -> Name:
    """Return the current catalog and namespace if the catalog is lakescan's, else an empty tuple."""
    within = current_namespace(session.spark)
    return within if within and within[0] in session.catalogs and within[0] != SPARK else ()


def _namespace_parts(session: EnabledSession, name: str) -> Name | None:
    """Return the catalog and the parts of a namespace of lakescan's catalogs; None for Spark's databases."""
    parts = split_name(name) if isinstance(name, str) else None
    if not parts:
        return None
    if parts[0] in session.catalogs and parts[0] != SPARK:
        return parts
    within = _within(session)
    return (within[0], *parts) if within and parts[0] not in (SPARK, "global_temp") else None


def _table_parts(session: EnabledSession, name: str, database: str | None = None) -> Name | None:
    """Return the full name of a table of lakescan that two arguments name, or of a format and path; else None."""
    if database is None:
        found = table_parts(session, name)
        return None if found is None else _short(session, found)
    parts = split_name(name)
    namespace = _namespace_parts(session, database)
    if parts is None or len(parts) != 1:
        return None
    if namespace is not None:
        return (*namespace, *parts)
    return find_full_name(session.spark, (*(split_name(database) or ()), *parts))


def _short(session: EnabledSession, parts: Name) -> Name:
    """Return the name with the current namespace if it names only a catalog and a table."""
    within = _within(session)
    return (*within, parts[-1]) if len(parts) == 2 and within[:1] == parts[:1] else parts


def _open(parts: Name) -> Table:
    """Open a table by its full name, or by a format and a path; raises `NoSuchTable`."""
    if len(parts) == 2 and parts[0].lower() in FORMATS:
        return open_table(parts[1], ReadOptions.parse({"format": parts[0].lower()}))
    if len(parts) < 3:
        raise NoSuchTable(f"there is no table {dotted_name(parts)!r}: tables are named catalog.namespace.table")
    return open_table(Identifier(parts[0], parts[1:-1], parts[-1]), ReadOptions.parse({}))


def _check_table(session: EnabledSession, parts: Name) -> None:
    """Raise `NoSuchTable` unless there is such a table, view, metadata table, branch or tag."""
    try:
        _open(parts)
    except IsAView:
        return
    except NoSuchTable:
        if len(parts) < 4:
            raise
        frame_of_name(session.spark, parts, {})


def _is_table(location: str, format: str) -> bool:
    try:
        open_table(location, ReadOptions.parse({"format": format}))
    except NotATable:
        return False
    return True


def _table(parts: Name, kind: str | None = None) -> Any:
    from pyspark.sql.catalog import Table as SparkTable

    if len(parts) == 2 and parts[0].lower() in FORMATS:
        return SparkTable(parts[1], SPARK, [parts[0].lower()], None, "EXTERNAL", False)
    comment = None if kind == "VIEW" else _comment(parts)
    return SparkTable(
        name=parts[-1],
        catalog=parts[0],
        namespace=list(parts[1:-1]),
        description=comment,
        tableType=kind or _kind(parts),
        isTemporary=False,
    )


def _comment(parts: Name) -> str | None:
    try:
        return _open(parts).comment
    except (NoSuchTable, NotATable):  # dropped by another session, or without its log
        return None


def _kind(parts: Name) -> str:
    """Return MANAGED or EXTERNAL: for Spark's own catalog from the table's entry."""
    if parts[0] == SPARK:
        from lakescan.catalogs.registry import connection
        from lakescan.spark.drop_in.session_catalog import SparkCatalog

        own: Any = connection(SPARK)
        if isinstance(own, SparkCatalog) and (found := own.entries.find(parts[1:])) is not None:
            return found.kind
    return "MANAGED"


def _database(parts: Name) -> Any:
    from pyspark.sql.catalog import Database

    properties = Catalog(parts[0]).namespace_properties(dotted_name(parts[1:])) if len(parts) > 1 else {}
    return Database(
        name=dotted_name(parts[1:]),
        catalog=parts[0],
        description=properties.get("comment"),
        locationUri=properties.get("location", ""),
    )


def _namespace_exists(parts: Name) -> bool:
    return len(parts) < 2 or Catalog(parts[0]).namespace_exists(dotted_name(parts[1:]))


def _check_namespace(parts: Name) -> None:
    if not _namespace_exists(parts):
        raise NoSuchNamespace(f"the catalog {parts[0]} has no namespace {dotted_name(parts[1:])!r}")


def _key(parts: Name) -> Name:
    return tuple(each.lower() for each in parts)


def _text(parts: Name) -> str:
    return ".".join(map(backquote, parts))


def _matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that match a pattern of Spark's, ignoring case: `*` is any text, `|` separates alternatives."""
    if pattern is None:
        return list(names)
    wanted = [re.compile(re.escape(each.strip()).replace(r"\*", ".*"), re.IGNORECASE) for each in pattern.split("|")]
    return [name for name in names if any(each.fullmatch(name) for each in wanted)]
