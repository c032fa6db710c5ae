"""`lakescan.sql`: queries in this process, statements that change rows, and those that make, rename and drop tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from lakescan import engines
from lakescan.catalog import Catalog
from lakescan.catalogs.identifiers import Identifier
from lakescan.catalogs.registry import is_known, known
from lakescan.definition.statements import (
    CreateNamespace,
    CreateTable,
    DropNamespace,
    DropTable,
    RenameTable,
    parse_statement,
)
from lakescan.definition.table_definition import TableDefinition, numbered
from lakescan.dml.explain import explain_statement
from lakescan.dml.run import run_statement
from lakescan.errors import CommitStateUnknown, InvalidOption, NoSuchCatalog, nearest
from lakescan.options.write import WriteOptions
from lakescan.query.lazy import query
from lakescan.query.namespace import current_namespace, use
from lakescan.query.statement import Arguments, Kind, statement_of
from lakescan.table import Table
from lakescan.transaction.formats import format_named
from lakescan.transaction.results import WriteResult
from lakescan.transaction.rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@overload
def sql(text: str, /, args: Arguments = None, **frames: Any) -> Any: ...


@overload
def sql(session: SparkSession | None, text: str, /, args: Arguments = None, **frames: Any) -> Any: ...


def sql(*positional: Any, args: Arguments = None, **frames: Any) -> Any:
    """Run one SQL statement in this process: a query over tables, or one that changes, makes, renames or drops them.

    Queries are in Spark's dialect, and are run by DuckDB over scans that read only the columns and files that the query
    needs. Tables are `catalog.namespace.table`, ``iceberg.`path` `` or ``delta.`path` ``, a metadata table of these
    (`local.shop.orders.snapshots`), a short name after `USE local.shop`, or a name in `frames`. `VERSION AS OF`,
    `TIMESTAMP AS OF`, `orders.branch_audit`, `orders.tag_eoy` and `orders@v3` read other states. All places where a
    statement names a table read the same state.

    INSERT, DELETE, UPDATE, MERGE and TRUNCATE TABLE are as Spark's grammar has them; each is one commit. Columns of an
    INSERT are matched by their places, by a list, or BY NAME, and values that a column cannot hold fail it. EXPLAIN of
    them shows what they would read, and changes nothing.

    Args:
        positional: The text; before it, as in earlier versions, may be a Spark session (the statement then runs as
            `lakescan.spark.sql` runs it) or None.
        args: Values of the text's parameters: a dictionary for `:name`, a list for `?`.
        frames: Tables, scans, or Arrow, pandas and Polars data by the names that the text has for them.

    Returns:
        A lazy `Query` for SELECT; a table that was created or renamed; a `WriteResult` for INSERT, a `ChangeResult` for
        other changes of rows; None for other statements.

    Raises:
        InvalidStatement: The text is not valid SQL (the message underlines the place), or DuckDB refuses it.
        NoSuchTable: A table is not there; the message names the nearest.
        SchemaMismatch: New values do not fit the table's columns; nothing is committed.
        CommitConflict: Another writer changed what the statement read or replaced.
        UnsupportedFeature: A statement of another kind.

    Example:
        >>> lakescan.sql("SELECT country, sum(price) FROM local.shop.orders GROUP BY country").show()
        >>> lakescan.sql("SELECT * FROM delta.`/lake/customers` VERSION AS OF 3 WHERE id = :id", args={"id": 7})
        >>> lakescan.sql("CREATE TABLE local.shop.sales (id BIGINT, at TIMESTAMP) PARTITIONED BY (days(at))")
        >>> lakescan.sql("INSERT INTO local.shop.sales BY NAME SELECT id, sold_at AS at FROM frame", frame=frame)
    """
    session, text, args = _arguments(positional, args)
    if session is not None:
        return engines.load("spark").run_sql(session, text, args, **frames)
    statement = statement_of(text)
    match statement.kind:
        case Kind.QUERY:
            return query(statement.text, args, frames, current_namespace())
        case Kind.EXPLAIN:
            if statement_of(statement.text).kind.changes_rows:
                plan = explain_statement(statement.text, args, frames, current_namespace())
            else:
                plan = query(statement.text, args, frames, current_namespace()).explain()
            return query("SELECT * FROM plan", None, {"plan": pa.table({"plan": [plan]})}, ())
        case Kind.USE:
            use(statement.text)
            return None
    if statement.kind.changes_rows:
        return run_statement(statement.text, args, frames, current_namespace())
    return define(None, statement.text)


def _arguments(positional: tuple[Any, ...], args: Arguments) -> tuple[Any, str, Arguments]:
    """The session (None: in this process), the text and the values of parameters."""
    if positional and not isinstance(positional[0], str):
        session, *rest = positional
    else:
        session, rest = None, list(positional)
    is_session = session is None or hasattr(session, "sql")
    if not 1 <= len(rest) <= 2 or not isinstance(rest[0], str) or not is_session:
        raise InvalidOption(
            "sql takes one statement as text: lakescan.sql(text, args=None, **frames); before it may be a Spark session"
        )
    return session, rest[0], rest[1] if len(rest) > 1 else args


def define(spark: SparkSession | None, text: str) -> Table | None:
    """Run a statement that creates, drops or renames a table or a namespace; `sql` is its public form."""
    match parse_statement(text):
        case CreateTable() as wanted:
            return _create(spark, wanted)
        case DropTable(name, if_exists, purge):
            catalog, rest = _within(name, 3)
            catalog.drop_table(rest, missing_ok=if_exists, purge=purge)
        case RenameTable(name, new):
            catalog, rest = _within(name, 3)
            return catalog.rename_table(rest, _within(new, 3)[1] if is_known(new[0]) else _dotted(new))
        case CreateNamespace(name, if_not_exists):
            catalog, rest = _within(name, 2)
            catalog.create_namespace(rest, exist_ok=if_not_exists)
        case DropNamespace(name, if_exists):
            catalog, rest = _within(name, 2)
            catalog.drop_namespace(rest, missing_ok=if_exists)
    return None


def _create(spark: SparkSession | None, wanted: CreateTable) -> Table:
    catalog, name = _within(wanted.name, 3)
    definition = wanted.definition
    if wanted.query is None:
        return catalog.create(
            name, definition, format=wanted.format, exist_ok=wanted.if_not_exists, replace=wanted.replace
        )
    if spark is None:
        raise InvalidOption("CREATE TABLE ... AS SELECT takes a session")
    if wanted.if_not_exists and catalog.table_exists(name):
        return catalog.load_table(name)
    rows = spark.sql(wanted.query)
    return create_filled(catalog, name, definition, rows, format=wanted.format, replace=wanted.replace)[0]


def create_filled(
    catalog: Catalog,
    name: str,
    definition: TableDefinition,
    rows: Any,
    *,
    format: str,
    replace: bool,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Table, WriteResult]:
    """Create or replace a table, and append rows to it; its columns are theirs if the definition has none.

    A new table that cannot be filled is dropped. `options` are those of the append.
    """
    if not definition.columns:
        columns = format_named(format).columns(rows_of(rows).schema, definition.properties)
        definition = dataclasses.replace(definition, columns=numbered(columns))
    WriteOptions.of(options, format_named(format).name).check_appends()
    was_there = catalog.table_exists(name)
    table = catalog.create(name, definition, format=format, exist_ok=False, replace=replace)
    try:
        result = table.append(rows, **options)
    except BaseException as error:
        if not was_there and not isinstance(error, CommitStateUnknown):
            _drop_if_as_made(catalog, name, table)
        raise
    return catalog.load_table(name), result


def _drop_if_as_made(catalog: Catalog, name: str, made: Table) -> None:
    """Drop a table that could not be filled; one to which others have written by now stays."""
    if catalog.load_table(name).history().equals(made.history()):
        catalog.drop_table(name)


def _within(name: tuple[str, ...], least: int) -> tuple[Catalog, str]:
    """The catalog of a name, and the rest of it."""
    if not is_known(name[0]):
        names = known()
        raise NoSuchCatalog(
            f"{_dotted(name)!r} begins with no catalog that is known.{nearest(name[0], names)} "
            f"Known: {', '.join(names) or 'none'}; see lakescan.catalog."
        )
    if len(name) < least:
        raise InvalidOption(f"{_dotted(name)!r} is too short: it takes catalog.namespace{'.table' * (least - 2)}")
    return Catalog(name[0]), _dotted(name[1:])


def _dotted(name: tuple[str, ...]) -> str:
    return str(Identifier(name[0], name[1:-1], name[-1])) if len(name) > 1 else name[0]
