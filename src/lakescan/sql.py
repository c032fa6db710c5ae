"""Spark's statements that make, rename and drop tables and namespaces of catalogs: `lakescan.sql`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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
from lakescan.definition.table_definition import numbered
from lakescan.errors import CommitStateUnknown, InvalidOption, NoSuchCatalog, nearest
from lakescan.table import Table
from lakescan.transaction.formats import format_named
from lakescan.transaction.rows import rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def sql(spark: SparkSession | None, text: str) -> Table | None:
    """Run a statement that creates, drops or renames a table or a namespace.

    Names begin with the catalog's. Other statements are Spark's: `spark.sql`.

    Args:
        spark: The session that runs the query of `CREATE TABLE ... AS SELECT`; None does for all other statements.
        text: One statement in Spark's SQL.

    Returns:
        The table that was created or renamed; None for other statements.

    Raises:
        InvalidOption: The text is not valid SQL, or needs a session.
        UnsupportedFeature: A statement of another kind.
        NoSuchCatalog, NoSuchNamespace, NoSuchTable, TableExists: See `Catalog`.

    Example:
        >>> lakescan.sql(
        ...     None,
        ...     "CREATE TABLE local.shop.sales (id BIGINT NOT NULL, at TIMESTAMP, PRIMARY KEY (id) NOT ENFORCED) "
        ...     "USING iceberg PARTITIONED BY (days(at), bucket(16, id))",
        ... )
    """
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
    if not definition.columns:
        columns = format_named(wanted.format).columns(rows_of(rows).schema, definition.properties)
        definition = replace(definition, columns=numbered(columns))
    was_there = catalog.table_exists(name)
    table = catalog.create(name, definition, format=wanted.format, exist_ok=False, replace=wanted.replace)
    try:
        table.append(rows)
    except BaseException as error:
        if not was_there and not isinstance(error, CommitStateUnknown):
            _drop_if_as_made(catalog, name, table)
        raise
    return catalog.load_table(name)


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
