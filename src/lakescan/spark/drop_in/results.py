"""The results of statements as Spark returns them: data frames with the columns of the JVM's results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.api.catalog import Catalog
from lakescan.api.table import Table
from lakescan.catalogs.registry import is_known
from lakescan.common.identifiers import split_name
from lakescan.common.references import backquote
from lakescan.definition.table_changes import UnsetProperties
from lakescan.errors import (
    InvalidOption,
    InvalidStatement,
    IsAView,
    LakescanError,
    NoSuchNamespace,
    NoSuchTable,
    NotATable,
    TableExists,
)
from lakescan.spark.delta_results import detail_frame, hadoop_uri, history_frame, optimize_frame, restore_frame
from lakescan.spark.drop_in.errors import optimize_errors, restore_errors, with_class
from lakescan.spark.drop_in.session_catalog import SPARK, describe_delta
from lakescan.spark.drop_in.sessions import find_session
from lakescan.spark.drop_in.settings import delta_defaults
from lakescan.spark.statements.dml import RowChange, count_frame
from lakescan.spark.statements.names import current_namespace, has_catalog
from lakescan.spark.statements.statement_routing import frame_of_rows
from lakescan.spark.types import schema_of
from lakescan.statements.syntax.alter_table import AlterTable
from lakescan.statements.syntax.commands import Call, Optimize, Reorg, Restore, Vacuum
from lakescan.statements.syntax.dml import Insert
from lakescan.statements.syntax.grammar import TableStatement
from lakescan.statements.syntax.namespaces import DropNamespace, Show, ShowKind
from lakescan.statements.syntax.tables_and_views import CreateTable
from lakescan.statements.syntax.text import TableName
from lakescan.statements.syntax.token_reader import TokenReader
from lakescan.statements.syntax.types import text_literal
from lakescan.statements.tables.commands import restored_state
from lakescan.statements.tables.context import StatementContext, find_table, namespace
from lakescan.statements.tables.describe import matching_names
from lakescan.tables.results import ChangeResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART = re.compile(r"\b(year|month|day|hour)\(")
_DECIMAL = re.compile(r"\bDECIMAL\((\d+), (\d+)\)")
_CLONED = (
    *("source_table_size", "source_num_of_files", "num_removed_files"),
    *("num_copied_files", "removed_files_size", "copied_files_size"),
)
_FILE_FORMATS = ("parquet", "orc", "avro")
_METADATA_COLUMNS = (("_file", "string"), ("_pos", "bigint"), ("_deleted", "boolean"))


def empty_frame(spark: SparkSession) -> DataFrame:
    """Return the result of a command: a frame without columns and rows."""
    from pyspark.sql.types import StructType

    return spark.createDataFrame([], StructType([]))


def text_frame(spark: SparkSession, column: str, text: str) -> DataFrame:
    """Return a frame of one row with a text."""
    return spark.createDataFrame(pa.table({column: [text]}))


def frame_of_change(spark: SparkSession, done: RowChange, *, truncates: bool = False) -> DataFrame:
    """Return the result of a statement that changed rows: Delta's counts, and nothing for Iceberg and INSERT.

    `truncates` is set for TRUNCATE TABLE, which returns nothing either.
    """
    is_insert = isinstance(done.statement, Insert) or not isinstance(done.result, ChangeResult)
    if done.format != "delta" or is_insert or truncates:
        return empty_frame(spark)
    assert isinstance(done.result, ChangeResult)
    return count_frame(spark, done.statement, done.result)


def frame_of_statement(
    spark: SparkSession, statement: TableStatement, context: StatementContext, run: Callable[[], Any]
) -> DataFrame:
    """Run a statement about tables, namespaces or views, and return its result as the JVM does."""
    if isinstance(statement, Show) and statement.table is not None:
        rows = _show_table(statement, context)
        if rows is not None:
            return frame_of_rows(spark, rows)
    if (frame := _delta_frame(spark, statement, context, run)) is not None:
        return frame
    if isinstance(statement, Restore):
        with restore_errors():
            return restore_frame(spark, find_table(statement.table, context), *restored_state(statement))
    found = run()
    if isinstance(statement, Vacuum):
        paths = [hadoop_uri(each) for each in found["path"].to_pylist()]
        return frame_of_rows(spark, pa.table({"path": pa.array(paths, pa.string())}))
    if isinstance(statement, Show) and statement.what is ShowKind.VIEWS:
        return frame_of_rows(spark, _with_temporary_views(spark, found, statement.pattern))
    if isinstance(found, pa.Table):
        if isinstance(statement, Show) and statement.what is ShowKind.CREATE_TABLE and statement.table is not None:
            found = _shown_statement(_find_table_or_view(statement.table, context), found)
        return frame_of_rows(spark, _as_jvm(statement, found))
    return empty_frame(spark)


def _with_temporary_views(spark: SparkSession, rows: pa.Table, pattern: str | None) -> pa.Table:
    """Return the rows of SHOW VIEWS with the session's temporary views, as Iceberg's JAR does."""
    text = "SHOW VIEWS" if pattern is None else f"SHOW VIEWS LIKE {text_literal(pattern)}"
    names = [row["viewName"] for row in spark.sql(text).collect() if row["isTemporary"]]
    more = [(["" for _ in names], pa.string()), (names, pa.string()), ([True for _ in names], pa.bool_())]
    temporary = pa.table([pa.array(values, kind) for values, kind in more], names=rows.column_names)
    return pa.concat_tables([rows, temporary])


def _delta_frame(
    spark: SparkSession, statement: TableStatement, context: StatementContext, run: Callable[[], Any]
) -> DataFrame | None:
    """Run a statement about a Delta table whose result has columns of Delta's own; None for other statements."""
    if isinstance(statement, CreateTable) and statement.clone is not None:
        return _clone_frame(spark, statement, context, run)
    is_show = isinstance(statement, Show) and statement.what in (
        ShowKind.HISTORY,
        ShowKind.DETAIL,
        ShowKind.PARTITIONS,
    )
    if not is_show and not isinstance(statement, Optimize | Reorg):
        return None
    named = statement.table  # type: ignore[union-attr]
    assert isinstance(named, TableName)
    table = find_table(named, context)
    if table.format != "delta":
        return None
    if isinstance(statement, Show):
        if statement.what is ShowKind.HISTORY:
            return history_frame(spark, table, statement.limit)
        if statement.what is ShowKind.DETAIL:
            is_path = len(named.parts) == 2 and named.parts[0].lower() in ("delta", "iceberg")
            return detail_frame(spark, table, None if is_path else str(table.name))
        return _partition_rows(spark, table, run())
    assert isinstance(statement, Optimize | Reorg)
    zorders = isinstance(statement, Optimize) and bool(statement.zorder_by)
    where = None if statement.where is None else statement.where.text
    with optimize_errors():
        return optimize_frame(spark, table, run, where=where, zorders=zorders)


def _clone_frame(
    spark: SparkSession, statement: CreateTable, context: StatementContext, run: Callable[[], Any]
) -> DataFrame:
    """Run CREATE TABLE ... SHALLOW CLONE, and return the row of Delta's CLONE; none if the table is kept."""
    is_kept = statement.if_not_exists and _has_table(statement.table, context)
    try:
        made = run()
    except TableExists as error:
        raise with_class(error, "AnalysisException", "DELTA_TABLE_ALREADY_EXISTS") from error.__cause__
    columns = pa.schema([(name, pa.int64()) for name in _CLONED])
    if is_kept:
        return frame_of_rows(spark, columns.empty_table())
    files = made.inspect("files") if isinstance(made, Table) else pa.table({"size_in_bytes": pa.array([], pa.int64())})
    sizes = files["size_in_bytes"]
    values = {"source_table_size": pc.sum(sizes).as_py() or 0, "source_num_of_files": files.num_rows}
    return frame_of_rows(spark, pa.Table.from_pylist([{name: values.get(name, 0) for name in _CLONED}], columns))


def _partition_rows(spark: SparkSession, table: Table, rows: pa.Table) -> DataFrame:
    """Return the partitions of a Delta table, a column for each one; raises `InvalidOption` if it has none."""
    if "partition" not in rows.column_names:
        raise InvalidOption(f"SHOW PARTITIONS of {table.name or table.location}, which is not partitioned")
    found = pa.Table.from_struct_array(rows["partition"].combine_chunks())
    return frame_of_rows(spark, found.group_by(found.column_names).aggregate([]))


def _shown_statement(table: Table | None, rows: pa.Table) -> pa.Table:
    """Return the row of SHOW CREATE TABLE with the JVM's text; `table` is None for a view."""
    if table is None or table.format != "iceberg":
        return rows
    return pa.table({"createtab_stmt": [_create_statement(table, rows.column(0)[0].as_py())]})


def _find_table_or_view(name: TableName, context: StatementContext) -> Table | None:
    """Return the table of a name; None for a view."""
    try:
        return find_table(name, context)
    except IsAView:
        return None


def _has_table(name: TableName, context: StatementContext) -> bool:
    try:
        return _find_table_or_view(name, context) is not None
    except (NoSuchTable, NoSuchNamespace, NotATable):
        return False


def _as_jvm(statement: TableStatement, rows: pa.Table) -> pa.Table:
    """Return rows with the JVM's texts."""
    if isinstance(statement, Show) and rows.column_names == ["info_name", "info_value"]:
        values = ["NULL" if each is None else each for each in rows["info_value"].to_pylist()]
        return pa.table({"info_name": rows["info_name"], "info_value": pa.array(values, pa.string())})
    if isinstance(statement, Show) and statement.what in (ShowKind.TABLE, ShowKind.CREATE_TABLE):
        columns = [
            pa.array([None if each is None else _PART.sub(r"\1s(", each) for each in column.to_pylist()], column.type)
            for column in rows.columns
        ]
        return pa.table(columns, names=rows.column_names)
    if isinstance(statement, Call) and rows.column_names == ["changelog_view"]:
        is_named = len(statement.positional) > 1 or "changelog_view" in statement.named
        return rows if is_named else pa.table({"changelog_view": [backquote(rows["changelog_view"][0].as_py())]})
    return rows


def as_in_spark(spark: SparkSession, statement: TableStatement) -> TableStatement:
    """Return a statement with the meaning that Spark gives it.

    CREATE TABLE ... USING with a format of files sets a table property, a new Delta table has the properties that the
    session sets, and a property to unset may be missing.
    """
    if isinstance(statement, CreateTable) and statement.clone is None and _is_delta(statement):
        return replace(statement, properties={**delta_defaults(spark), **statement.properties})
    if isinstance(statement, DropNamespace) and statement.cascade and _is_of_iceberg(spark, statement.name):
        return replace(statement, cascade=False)  # catalogs of Iceberg's JAR drop no tables
    if isinstance(statement, AlterTable):
        changes = tuple(
            replace(each, if_exists=True) if isinstance(each, UnsetProperties) else each for each in statement.changes
        )
        return replace(statement, changes=changes)
    if not isinstance(statement, CreateTable) or statement.format not in _FILE_FORMATS:
        return statement
    properties = {"write.format.default": statement.format, **statement.properties}
    return replace(statement, format="iceberg", properties=properties)


def _is_of_iceberg(spark: SparkSession, namespace: Sequence[str]) -> bool:
    """Return whether a namespace is of a catalog of lakescan, rather than of Spark's own catalog."""
    is_full = len(namespace) > 1 and is_known(namespace[0])
    catalog = namespace[0] if is_full else next(iter(current_namespace(spark)), SPARK)
    return catalog != SPARK


def _is_delta(statement: CreateTable) -> bool:
    """Return whether CREATE TABLE makes a Delta table."""
    return statement.format == "delta" or (statement.format is None and statement.table.parts[0].lower() == "delta")


def _show_table(statement: Show, context: StatementContext) -> pa.Table | None:
    """Return the rows of DESCRIBE EXTENDED and SHOW TBLPROPERTIES of an Iceberg table; None for other statements."""
    assert statement.table is not None
    if statement.what in (ShowKind.TABLE, ShowKind.PROPERTIES) and statement.table.parts[0] == SPARK:
        try:
            rows_of_delta = describe_delta(find_table(statement.table, context), statement)
        except IsAView:
            return None
        if rows_of_delta is not None:
            names = ("col_name", "data_type", "comment") if statement.what is ShowKind.TABLE else ("key", "value")
            return _rows(names, rows_of_delta)
    is_details = statement.what is ShowKind.TABLE and statement.extended and statement.column is None
    if not is_details and statement.what is not ShowKind.PROPERTIES:
        return None
    assert statement.table is not None
    try:
        table = find_table(statement.table, context)
    except IsAView:
        return None
    if table.format != "iceberg":
        return None
    properties = iceberg_properties(table)
    if statement.what is ShowKind.PROPERTIES:
        if statement.column is not None:
            [key] = statement.column
            value = properties.get(key, f"Table {table.name or table.location} does not have property: {key}")
            return _rows(("key", "value"), [(key, value)])
        return _rows(("key", "value"), _shown_properties(properties))
    from lakescan.statements.tables.describe import describe_table

    rows: list[tuple[str | None, ...]] = [
        (name, _PART.sub(r"\1s(", kind), doc) for name, kind, doc in describe_table(table)
    ]
    rows += [("", "", ""), ("# Metadata Columns", "", ""), ("_spec_id", "int", "")]
    rows.append(("_partition", _partition_type(table), ""))
    rows += [(name, kind, "") for name, kind in _METADATA_COLUMNS]
    rows += [("", "", ""), ("# Detailed Table Information", "", "")]
    rows += [(name, value, "") for name, value in _details(table, properties)]
    rows.append(("Statistics", _statistics(table), None))
    return _rows(("col_name", "data_type", "comment"), rows)


def _shown_properties(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return properties in the order of their names, without those that Spark reserves."""
    return [(name, value) for name, value in sorted(properties.items()) if name not in ("comment", "owner")]


def _create_statement(table: Table, text: str) -> str:
    """Return the text of SHOW CREATE TABLE of an Iceberg table as Spark has it, from lakescan's."""
    lines = [
        line
        for line in text.partition("\nTBLPROPERTIES (")[0].split("\n")
        if not line.startswith(("  PRIMARY KEY (", "WRITE LOCALLY ORDERED BY"))
    ]
    shown = [
        f"  {text_literal(name)} = {text_literal(value)}"
        for name, value in _shown_properties(iceberg_properties(table))
    ]
    whole = "\n".join([*lines, "TBLPROPERTIES (", ",\n".join(shown) + ")", ""])
    return _DECIMAL.sub(r"DECIMAL(\1,\2)", whole)


def iceberg_properties(table: Table) -> dict[str, str]:
    """Return the properties that Iceberg's JAR shows of a table: those of the table, and some of its state."""
    own = dict(table.properties)
    own["current-snapshot-id"] = "none" if table.snapshot_id is None else str(table.snapshot_id)
    own["format"] = f"iceberg/{own.get('write.format.default', 'parquet')}"
    own["format-version"] = str(table.format_version)
    if table.sort_order != "unsorted":
        own["sort-order"] = table.sort_order
    if key := table.primary_key:
        own["identifier-fields"] = f"[{','.join(key)}]"
    own.setdefault("write.parquet.compression-codec", "zstd")
    return own


def _details(table: Table, properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "Name", str(table.name or table.location)
    yield "Type", "MANAGED"
    if comment := properties.get("comment"):
        yield "Comment", comment
    yield "Location", table.folder
    yield "Provider", table.format
    yield "Owner", properties.get("owner", "")
    yield "Table_type", "EXTERNAL"
    yield "Table Properties", f"[{','.join(f'{name}={value}' for name, value in sorted(properties.items()))}]"


def _partition_type(table: Table) -> str:
    rows = table.inspect("partitions")
    if "partition" not in rows.column_names:
        return "struct<>"
    from pyspark.sql.pandas.types import from_arrow_type

    return str(from_arrow_type(rows.schema.field("partition").type).simpleString())


def _statistics(table: Table) -> str:
    found = table.inspect("partitions")
    sizes = (
        found["total_data_file_size_in_bytes"].to_pylist()
        if "total_data_file_size_in_bytes" in found.column_names
        else []
    )
    return f"{sum(sizes)} bytes, {sum(found['record_count'].to_pylist())} rows"


def _rows(names: tuple[str, ...], rows: list[Any]) -> pa.Table:
    return pa.table({name: pa.array([row[n] for row in rows], pa.string()) for n, name in enumerate(names)})


def show(spark: SparkSession, text: str, within: tuple[str, ...]) -> DataFrame | None:
    """Run SHOW TABLES and SHOW TABLE EXTENDED of a namespace, and SHOW NAMESPACES after USE; None if they are Spark's.

    SHOW TABLES of lakescan's own catalogs is not run here, and gives None.
    """
    try:
        words = TokenReader(text)
    except InvalidStatement:
        return None
    words.needs("SHOW")
    if (is_extended := words.takes("TABLE", "EXTENDED")) or (_lists_session_tables(spark) and words.takes("TABLES")):
        name = words.names("the name of a namespace") if words.takes("FROM") or words.takes("IN") else None
        pattern = "*"
        if is_extended:
            words.needs("LIKE")
        if is_extended or words.takes("LIKE") or not words.is_at_end:
            pattern = words.text_literal("a pattern, in quotes")
        if (frame := _show_session_tables(spark, text, name, pattern, is_extended=is_extended)) is not None:
            return frame
        return _show_extended(spark, name, pattern, within) if is_extended else None
    kinds = ("NAMESPACES", "DATABASES", "SCHEMAS")
    if within and any(words.takes(each) for each in kinds) and not (words.sees("FROM") or words.sees("IN")):
        wanted = words.text_literal("a pattern") if words.takes("LIKE") or not words.is_at_end else None
        names = matching_names(Catalog(within[0]).list_namespaces(None), wanted)
        return frame_of_rows(spark, pa.table({"namespace": pa.array(names, pa.string())}))
    return None


def _lists_session_tables(spark: SparkSession) -> bool:
    """Return whether Spark's own catalog has Iceberg tables, and is the current one."""
    session = find_session(spark)
    return session is not None and session.session_catalog == "iceberg" and not current_namespace(spark)


def _show_session_tables(
    spark: SparkSession, text: str, name: tuple[str, ...] | None, pattern: str, *, is_extended: bool
) -> DataFrame | None:
    """Return Spark's tables of a namespace of its own catalog, and Iceberg's that Spark's catalog has no entries for.

    None unless Spark's own catalog has Iceberg tables, and for other catalogs.
    """
    if not _lists_session_tables(spark):
        return None
    parts = (spark.catalog.currentDatabase(),) if name is None else name
    if len(parts) == 2 and parts[0].lower() == SPARK:
        parts = parts[1:]
    if len(parts) != 1:
        return None
    [of] = parts
    catalog = Catalog(SPARK)
    try:
        own = _table_names(catalog, of, pattern)
    except NoSuchNamespace:
        return None
    shown = spark.sql(text)
    listed = {row["tableName"].lower() for row in shown.collect()}
    missing = {each: full for each, full in own.items() if each.lower() not in listed}
    if not missing:
        return shown
    rows = _extended_rows(catalog, of, missing) if is_extended else [(of, each, False) for each in missing]
    return shown.union(spark.createDataFrame(rows, shown.schema))


def _show_extended(
    spark: SparkSession, name: tuple[str, ...] | None, pattern: str, within: tuple[str, ...]
) -> DataFrame | None:
    if name is None and not within:
        return None
    if name is not None and (has_catalog(spark, name[0]) or not (within or is_known(name[0]))):
        return None
    catalog, of = namespace(name, StatementContext("", within, lambda query: None))
    rows = _extended_rows(catalog, of, _table_names(catalog, of, pattern))
    columns = ("namespace", "tableName", "isTemporary", "information")
    kinds = (pa.string(), pa.string(), pa.bool_(), pa.string())
    return frame_of_rows(
        spark, pa.table([pa.array([row[n] for row in rows], kind) for n, kind in enumerate(kinds)], columns)
    )


def _table_names(catalog: Catalog, of: str, pattern: str) -> dict[str, str]:
    """Return the names within the catalog of a namespace's tables that match a pattern, by their last parts."""
    found = {(split_name(each) or (each,))[-1]: each for each in catalog.list_tables(of)}
    return {each: found[each] for each in matching_names(list(found), pattern)}


def _extended_rows(catalog: Catalog, of: str, names: Mapping[str, str]) -> list[tuple[str, str, bool, str]]:
    """Return the rows of SHOW TABLE EXTENDED for tables of a namespace, as `_table_names` returns them."""
    rows = []
    for each, full in names.items():
        try:
            table = catalog.load_table(full)
        except LakescanError:  # dropped meanwhile, or of a format that is not read
            continue
        rows.append((of, each, False, _information(catalog.name, of, each, table)))
    return rows


def _information(catalog: str, of: str, name: str, table: Table) -> str:
    properties = iceberg_properties(table) if table.format == "iceberg" else dict(table.properties)
    lines = [f"Catalog: {catalog}", f"Namespace: {of}", f"Table: {name}"]
    lines += [f"{label}: {value}" for label, value in _details(table, properties) if label != "Name"]
    tree = schema_of(table.scan().spec).treeString()
    return "\n".join([*lines, f"Schema: {tree}"]) + "\n"
