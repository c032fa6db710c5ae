"""Which statements about tables, namespaces and views are lakescan's, and which are Spark's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.catalogs.registry import is_known
from lakescan.common.references import quoted
from lakescan.dml.target import names_table
from lakescan.errors import InvalidStatement, UnsupportedFeature
from lakescan.grammar.commands import Call
from lakescan.grammar.names import TableName
from lakescan.grammar.namespaces import AlterNamespace, CreateCatalog, CreateNamespace, DropNamespace, Show, Shown
from lakescan.grammar.statements import TableStatement, parse_statement
from lakescan.grammar.type_text import text_literal
from lakescan.grammar.views import AlterView, DropView
from lakescan.query.statement import Arguments, with_named_parameters
from lakescan.spark.refused import catalog_in, has_catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def own_statement(
    spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any], within: tuple[str, ...]
) -> TableStatement | None:
    """The statement if it is about a table, namespace or view of lakescan's; None if Spark is to run it.

    Raises `InvalidStatement` and `UnsupportedFeature` for statements about lakescan's tables alone.
    """
    try:
        plain, values = with_named_parameters(text, args)
        found = parse_statement(plain, values)
    except (InvalidStatement, UnsupportedFeature):
        if catalog_in(spark, text) is None and not _names_folder(text):
            return None
        raise
    if found is None or not _is_own(spark, found, frames, within):
        return None
    return found


def _names_folder(text: str) -> bool:
    lower = text.lower()
    return "delta.`" in lower or "iceberg.`" in lower


def _is_own(spark: SparkSession, found: TableStatement, frames: Mapping[str, Any], within: tuple[str, ...]) -> bool:
    match found:
        case Call(name=name) | CreateNamespace(name=name) | DropNamespace(name=name) | AlterNamespace(name=name):
            return _is_own_name(spark, name, within)
        case Show(what=Shown.CATALOGS) | CreateCatalog():
            return True
        case Show(table=None, namespace=None):
            return bool(within)
        case Show(table=None, namespace=tuple() as name):
            return _is_own_name(spark, name, within)
    table = getattr(found, "table", None) or getattr(found, "view", None) or getattr(found, "name", None)
    assert isinstance(table, TableName)
    parts = table.parts
    if isinstance(found, AlterView | DropView) and len(parts) == 1 and spark.catalog.tableExists(quoted(parts[0])):
        return False  # a temporary view
    if len(parts) > 1 and is_known(parts[0]) and has_catalog(spark, parts[0]):
        return False
    return names_table(table, within, frames) and not (bool(within) and len(parts) > 1 and has_catalog(spark, parts[0]))


def _is_own_name(spark: SparkSession, name: tuple[str, ...], within: tuple[str, ...]) -> bool:
    if has_catalog(spark, name[0]):
        return False
    return is_known(name[0]) or bool(within)


def with_spark_catalogs(spark: SparkSession, rows: pa.Table, pattern: str | None) -> pa.Table:
    """The rows of SHOW CATALOGS with those that the session itself has."""
    text = "SHOW CATALOGS" if pattern is None else f"SHOW CATALOGS LIKE {text_literal(pattern)}"
    own = {row[0] for row in spark.sql(text).collect()}
    return pa.table({"catalog": sorted(own.union(rows["catalog"].to_pylist()))})


def frame_of_rows(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Rows of a statement as a frame of Spark's."""
    return spark.createDataFrame(rows)
