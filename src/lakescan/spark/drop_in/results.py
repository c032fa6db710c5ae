"""The results of statements as Spark returns them: data frames with the columns of the JVM's results."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.api.catalog import Catalog
from lakescan.api.table import Table
from lakescan.errors import InvalidStatement, IsAView, LakescanError
from lakescan.spark.statements.dml import RowChange, count_frame
from lakescan.spark.statements.names import has_catalog
from lakescan.spark.statements.statement_routing import frame_of_rows
from lakescan.spark.types import schema_of
from lakescan.statements.syntax.dml import Insert
from lakescan.statements.syntax.grammar import TableStatement
from lakescan.statements.syntax.namespaces import Show, ShowKind
from lakescan.statements.syntax.token_reader import TokenReader
from lakescan.statements.tables.context import StatementContext, find_table, namespace
from lakescan.tables.results import ChangeResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PART = re.compile(r"\b(year|month|day|hour)\(")
_METADATA_COLUMNS = (("_file", "string"), ("_pos", "bigint"), ("_deleted", "boolean"))


def empty_frame(spark: SparkSession) -> DataFrame:
    """Return the result of a command: a frame without columns and rows."""
    from pyspark.sql.types import StructType

    return spark.createDataFrame([], StructType([]))


def text_frame(spark: SparkSession, column: str, text: str) -> DataFrame:
    """Return a frame of one row with a text."""
    return spark.createDataFrame(pa.table({column: [text]}))


def frame_of_change(spark: SparkSession, done: RowChange) -> DataFrame:
    """Return the result of a statement that changed rows: Delta's counts, and nothing for Iceberg and INSERT."""
    if done.format != "delta" or isinstance(done.statement, Insert) or not isinstance(done.result, ChangeResult):
        return empty_frame(spark)
    return count_frame(spark, done.statement, done.result)


def frame_of_statement(
    spark: SparkSession, statement: TableStatement, context: StatementContext, run: Callable[[], Any]
) -> DataFrame:
    """Run a statement about tables, namespaces or views, and return its result as the JVM does."""
    if isinstance(statement, Show) and statement.table is not None:
        rows = _show_table(statement, context)
        if rows is not None:
            return frame_of_rows(spark, rows)
    found = run()
    if isinstance(found, pa.Table):
        return frame_of_rows(spark, _as_jvm(statement, found))
    return empty_frame(spark)


def _as_jvm(statement: TableStatement, rows: pa.Table) -> pa.Table:
    """Return rows with the JVM's texts."""
    if isinstance(statement, Show) and statement.what in (ShowKind.TABLE, ShowKind.CREATE_TABLE):
        columns = [
            pa.array([None if each is None else _PART.sub(r"\1s(", each) for each in column.to_pylist()], column.type)
            for column in rows.columns
        ]
        return pa.table(columns, names=rows.column_names)
    return rows


def _show_table(statement: Show, context: StatementContext) -> pa.Table | None:
    """Return the rows of DESCRIBE EXTENDED and SHOW TBLPROPERTIES of an Iceberg table; None for other statements."""
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
        return _rows(("key", "value"), sorted(properties.items()))
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


def iceberg_properties(table: Table) -> dict[str, str]:
    """Return the properties that Iceberg's JAR shows of a table: those of the table, and some of its state."""
    own = dict(table.properties)
    snapshot = table.scan().spec.snapshot
    current = getattr(snapshot, "snapshot_id", None)
    own["current-snapshot-id"] = "none" if current is None else str(current)
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
    """Run SHOW TABLE EXTENDED of a namespace of lakescan, and SHOW NAMESPACES after USE; None for other statements."""
    try:
        words = TokenReader(text)
    except InvalidStatement:
        return None
    words.needs("SHOW")
    if words.takes("TABLE", "EXTENDED"):
        name = words.names("the name of a namespace") if words.takes("FROM") or words.takes("IN") else None
        words.needs("LIKE")
        return _show_extended(spark, name, words.text_literal("a pattern, in quotes"), within)
    kinds = ("NAMESPACES", "DATABASES", "SCHEMAS")
    if within and any(words.takes(each) for each in kinds) and not (words.sees("FROM") or words.sees("IN")):
        from lakescan.statements.tables.describe import matching_names

        pattern = words.text_literal("a pattern") if words.takes("LIKE") or not words.is_at_end else None
        names = matching_names(Catalog(within[0]).list_namespaces(None), pattern)
        return frame_of_rows(spark, pa.table({"namespace": pa.array(names, pa.string())}))
    return None


def _show_extended(
    spark: SparkSession, name: tuple[str, ...] | None, pattern: str, within: tuple[str, ...]
) -> DataFrame | None:
    from lakescan.catalogs.registry import is_known
    from lakescan.common.identifiers import split_name
    from lakescan.statements.tables.describe import matching_names

    if name is None and not within:
        return None
    if name is not None and (has_catalog(spark, name[0]) or not (within or is_known(name[0]))):
        return None
    catalog, of = namespace(name, StatementContext("", within, lambda query: None))
    found = {(split_name(each) or (each,))[-1]: each for each in catalog.list_tables(of)}
    rows = []
    for each in matching_names(list(found), pattern):
        try:
            table = catalog.load_table(found[each])
        except LakescanError:  # dropped meanwhile, or of a format that is not read
            continue
        rows.append((of, each, _information(catalog.name, of, each, table)))
    return frame_of_rows(
        spark,
        pa.table(
            {
                "namespace": pa.array([row[0] for row in rows], pa.string()),
                "tableName": pa.array([row[1] for row in rows], pa.string()),
                "isTemporary": pa.array([False for _ in rows], pa.bool_()),
                "information": pa.array([row[2] for row in rows], pa.string()),
            }
        ),
    )


def _information(catalog: str, of: str, name: str, table: Table) -> str:
    properties = iceberg_properties(table) if table.format == "iceberg" else dict(table.properties)
    lines = [f"Catalog: {catalog}", f"Namespace: {of}", f"Table: {name}"]
    lines += [f"{label}: {value}" for label, value in _details(table, properties) if label != "Name"]
    tree = schema_of(table.scan().spec).treeString()
    return "\n".join([*lines, f"Schema: {tree}"]) + "\n"
