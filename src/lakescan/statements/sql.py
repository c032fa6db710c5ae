"""`lakescan.sql`: run queries, row changes, and statements about tables, views and namespaces in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from lakescan.errors import DOCUMENTS, InvalidOption, InvalidStatement, UnsupportedFeature
from lakescan.statements.rows.execute import run_statement
from lakescan.statements.rows.explain import explain_statement
from lakescan.statements.select.namespace import current_namespace, use
from lakescan.statements.select.query import Explanation, columns_of, query
from lakescan.statements.syntax.parse import Arguments, StatementKind, name_parameters, statement_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@overload
def sql(text: str, /, args: Arguments = None, **frames: Any) -> Any: ...


@overload
def sql(session: SparkSession | None, text: str, /, args: Arguments = None, **frames: Any) -> Any: ...


def sql(*positional: Any, args: Arguments = None, **frames: Any) -> Any:
    """Run one SQL statement in this process: a query, a row change, or a statement about tables, views or namespaces.

    Queries are written in Spark's dialect. DuckDB runs them over scans that read only the columns and files that the
    query needs. A table is named `catalog.namespace.table`, ``iceberg.`path` `` or ``delta.`path` ``, by a short name
    after `USE local.shop`, or by a name in `frames`. Metadata tables (`local.shop.orders.snapshots`) are tables too.
    `VERSION AS OF`, `TIMESTAMP AS OF`, `orders.branch_audit`, `orders.tag_eoy` and `orders@v3` read another snapshot or
    version. All references to a table in one statement read the same snapshot.

    INSERT, DELETE, UPDATE, MERGE and TRUNCATE TABLE follow Spark's grammar, and each is one commit. INSERT matches
    columns by position, by a column list, or BY NAME, and fails for values that a column cannot store. EXPLAIN of these
    statements shows the data that they would read, and changes nothing.

    Args:
        positional: The text of the statement. A Spark session or None may come first, as in earlier versions. With a
            session, the statement runs as in `lakescan.spark.sql`.
        args: Values of the text's parameters: a dictionary for `:name`, a list for `?`.
        frames: Tables, scans, or Arrow, pandas and Polars data, by the names that the text uses for them.

    Returns:
        A lazy `Query` for SELECT and for statements that return rows (SHOW, DESCRIBE, CALL). The table or view that was
        created or renamed. An `AlterResult` for other ALTER TABLE, a `WriteResult` for INSERT, and a `ChangeResult` for
        other changes of rows. None for all other statements. The documentation page SQL lists them all.

    Raises:
        InvalidStatement: The text is not valid SQL (the message underlines the place), or DuckDB rejects it.
        NoSuchTable: A table does not exist. The message names the nearest.
        SchemaMismatch: New values do not fit the table's columns. Nothing is committed.
        CommitConflict: A concurrent commit changed data that the statement read or replaced.
        UnsupportedFeature: lakescan does not run this kind of statement.

    Example:
        >>> lakescan.sql("SELECT country, sum(price) FROM local.shop.orders GROUP BY country").show()
        >>> lakescan.sql("SELECT * FROM delta.`/lake/customers` VERSION AS OF 3 WHERE id = :id", args={"id": 7})
        >>> lakescan.sql("CREATE TABLE local.shop.sales (id BIGINT, at TIMESTAMP) PARTITIONED BY (days(at))")
        >>> lakescan.sql("INSERT INTO local.shop.sales BY NAME SELECT id, sold_at AS at FROM frame", frame=frame)
    """
    session, text, args = _arguments(positional, args)
    if session is not None:
        from lakescan.spark.statements.sql import run_sql

        return run_sql(session, text, args, **frames)
    statement = statement_of(text)
    match statement.kind:
        case StatementKind.QUERY:
            return query(statement.text, args, frames, current_namespace())
        case StatementKind.EXPLAIN if statement_of(statement.text).kind in (
            StatementKind.OTHER,
            StatementKind.USE,
            StatementKind.DESCRIBE,
        ):
            raise UnsupportedFeature(
                f"EXPLAIN of the statement {' '.join(statement.text.split())[:60]!r}",
                "EXPLAIN takes a query or a statement that changes rows.",
            )
        case StatementKind.EXPLAIN:
            if statement_of(statement.text).kind.changes_rows:
                plan = explain_statement(statement.text, args, frames, current_namespace())
            else:
                plan = query(statement.text, args, frames, current_namespace()).explain()
            return Explanation(plan)
        case StatementKind.DESCRIBE:
            from lakescan.statements.tables.describe import describe_query

            found = describe_query(columns_of(query(statement.text, args, frames, current_namespace())))
            return query("SELECT * FROM found", None, {"found": found}, ())
        case StatementKind.USE:
            use(*name_parameters(statement.text, args))
            return None
    if statement.kind.changes_rows:
        return run_statement(statement.text, args, frames, current_namespace())
    return _define(statement.text, args, frames)


def _arguments(positional: tuple[Any, ...], args: Arguments) -> tuple[Any, str, Arguments]:
    """Split the arguments of `sql` into session (None to run in this process), text and parameter values.

    Raises `InvalidOption` for other arguments than these.
    """
    if positional and not isinstance(positional[0], str):
        session, *rest = positional
    else:
        session, rest = None, list(positional)
    is_session = session is None or hasattr(session, "sql")
    if not 1 <= len(rest) <= 2 or not isinstance(rest[0], str) or not is_session:
        raise InvalidOption(
            "sql takes one statement as text, perhaps after a Spark session: lakescan.sql(text, args=None, **frames)"
        )
    return session, rest[0], rest[1] if len(rest) > 1 else args


def _define(text: str, args: Arguments, frames: Mapping[str, Any]) -> Any:
    """Run a statement about tables, namespaces or views in this process. Rows that it returns become a `Query`.

    Raises `InvalidStatement` for an empty text, and `UnsupportedFeature` for a statement that no grammar form matches.
    """
    # Imported here because queries and `import lakescan` do not need these modules.
    from lakescan.statements.syntax.grammar import nearest_statement, parse_statement
    from lakescan.statements.syntax.token_reader import TokenReader
    from lakescan.statements.tables.context import StatementContext
    from lakescan.statements.tables.run import run

    text, values = name_parameters(text, args)
    statement = parse_statement(text, values)
    if statement is None:
        if not TokenReader(text).words:
            raise InvalidStatement("sql was given a text without a statement: it is empty or has only comments")
        raise UnsupportedFeature(
            f"the statement {' '.join(text.split())[:60]!r}",
            f"{DOCUMENTS}/sql.md lists the statements that run.{nearest_statement(text)}",
        )
    within = current_namespace()
    found = run(
        statement, StatementContext(text, within, lambda query_text: query(query_text, args, frames, within), frames)
    )
    return query("SELECT * FROM found", None, {"found": found}, ()) if isinstance(found, pa.Table) else found
