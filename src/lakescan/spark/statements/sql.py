"""`lakescan.spark.sql`: one statement, run by lakescan if it is about lakescan's tables, and by Spark if not."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.api.changes import Changes
from lakescan.api.table import Table
from lakescan.common.references import backquote
from lakescan.errors import UnsupportedFeature
from lakescan.spark.executor import SparkExecutor
from lakescan.spark.session import reason_for_young_files
from lakescan.spark.statements.dml import changes_own_table, run_row_statement
from lakescan.spark.statements.names import current_namespace, is_of_session, run_use
from lakescan.spark.statements.queries import (
    analyze_query,
    describe_query,
    explain_query,
    frame_of_analysis,
    renew_view,
    replace_braces,
)
from lakescan.spark.statements.session_catalog import source_table
from lakescan.spark.statements.statement_routing import (
    add_spark_catalogs,
    check_frames,
    find_catalog,
    frame_of_rows,
    parse_own_statement,
    refuse,
    view_to_refresh,
)
from lakescan.spark.statements.views import (
    find_view_text,
)
from lakescan.statements.syntax.grammar import TableStatement
from lakescan.statements.syntax.namespaces import Show, ShowKind
from lakescan.statements.syntax.parse import Arguments, StatementKind, statement_of
from lakescan.statements.tables.context import StatementContext
from lakescan.statements.tables.run import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_sql(spark: SparkSession, text: str, args: Arguments = None, **frames: Any) -> DataFrame | Table | None:
    """Run one statement; see `lakescan.spark.sql`."""
    statement = statement_of(text)
    check_frames(frames)
    match statement.kind:
        case StatementKind.QUERY:
            text, given = replace_braces(statement.text, frames)
            return frame_of_analysis(spark, analyze_query(spark, text, args, given), given)
        case StatementKind.EXPLAIN if (inner := statement_of(statement.text).kind).changes_rows:
            if not changes_own_table(spark, statement.text, args, frames):
                return spark.sql(text, args, **frames) if frames or args else spark.sql(text)
            raise UnsupportedFeature(f"EXPLAIN of {inner.name}", "Explain the query of its rows, or of its condition.")
        case StatementKind.EXPLAIN:
            return explain_query(spark, statement.text, statement.mode, args, frames)
        case StatementKind.DESCRIBE:
            return describe_query(spark, statement.text, args, frames)
        case StatementKind.USE:
            return run_use(spark, statement.text, args)
    is_change = statement.kind.changes_rows
    if is_change and (done := run_row_statement(spark, statement.text, args, frames)) is not None:
        return done
    if (view := view_to_refresh(statement.text)) is not None and find_view_text(spark, view) is not None:
        renew_view(spark, view)
        return None
    if (ours := parse_own_statement(spark, statement.text, args, frames, current_namespace(spark))) is not None:
        return _run_table_statement(spark, ours, statement.text, args, frames)
    if (catalog := find_catalog(spark, statement.text)) is not None:
        raise refuse(statement.text, catalog)
    return spark.sql(statement.text, args, **frames) if frames or args else spark.sql(statement.text)


def _run_table_statement(
    spark: SparkSession, ours: TableStatement, text: str, args: Arguments, frames: Mapping[str, Any]
) -> Any:
    """Run a statement about tables, namespaces or views.

    Returns a frame of its rows, a table if one was created or renamed, else None.
    """
    found = run_table_statement(spark, ours, statement_context(spark, text, args, frames))
    return frame_of_rows(spark, found) if isinstance(found, pa.Table) else found


def run_table_statement(spark: SparkSession, ours: TableStatement, context: StatementContext) -> Any:
    """Run a statement about tables, namespaces or views; Spark runs its queries and rewrites files.

    Returns an Arrow table of its rows, a table if one was created or renamed, else None.
    """
    found = run(ours, context)
    if isinstance(ours, Show) and ours.what is ShowKind.CATALOGS:
        found = add_spark_catalogs(spark, found, ours.pattern)
    return found


def statement_context(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> StatementContext:
    """Return the context of a statement about tables, namespaces or views: Spark runs its queries."""

    def rows(query: str) -> DataFrame:
        return frame_of_analysis(spark, analyze_query(spark, query, args, frames), frames)

    def make_view(name: str, changes: Changes) -> None:
        changes.to_spark(spark).createOrReplaceTempView(backquote(name))

    def temporary(name: str) -> bool:
        return is_of_session(spark, name)

    return StatementContext(
        text,
        current_namespace(spark),
        rows,
        frames,
        SparkExecutor(spark),
        make_view,
        partial(source_table, spark),
        temporary=temporary,
        ignore_retention=partial(reason_for_young_files, spark),
    )
