"""Run a statement about tables, namespaces or views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakescan.errors import UnsupportedFeature
from lakescan.statements.syntax.alter_table import AlterTable, CreateRef, DropRef, RenameTable
from lakescan.statements.syntax.commands import Call, Convert, Generate, Optimize, Refresh, Reorg, Restore, Vacuum
from lakescan.statements.syntax.grammar import TableStatement
from lakescan.statements.syntax.namespaces import (
    AlterNamespace,
    CommentOn,
    CreateCatalog,
    CreateNamespace,
    DropNamespace,
    Show,
)
from lakescan.statements.syntax.tables_and_views import AlterView, CreateTable, CreateView, DropTable, DropView
from lakescan.statements.tables.commands import call, convert, generate, optimize, refresh, reorg, restore, vacuum
from lakescan.statements.tables.context import StatementContext
from lakescan.statements.tables.ddl import (
    alter_namespace,
    alter_table,
    comment_on,
    create_catalog,
    create_namespace,
    create_ref,
    create_table,
    drop_namespace,
    drop_ref,
    drop_table,
    rename_table,
)
from lakescan.statements.tables.describe import show
from lakescan.statements.tables.views import alter_view, create_view, drop_view

_RUN: dict[type, Callable[[Any, StatementContext], Any]] = {
    Call: call,
    Convert: convert,
    Generate: generate,
    Optimize: optimize,
    Refresh: refresh,
    Reorg: reorg,
    Restore: restore,
    Vacuum: vacuum,
    CreateTable: create_table,
    DropTable: drop_table,
    RenameTable: rename_table,
    AlterTable: alter_table,
    CreateCatalog: create_catalog,
    CreateNamespace: create_namespace,
    DropNamespace: drop_namespace,
    AlterNamespace: alter_namespace,
    CommentOn: comment_on,
    CreateRef: create_ref,
    DropRef: drop_ref,
    CreateView: create_view,
    AlterView: alter_view,
    DropView: drop_view,
    Show: show,
}


def can_run(statement: TableStatement) -> bool:
    """Return whether a statement can run, rather than being rejected as unsupported.

    Args:
        statement: The result of `parse_statement`.

    Example:
        >>> can_run(parse_statement("SHOW CATALOGS"))
        True
    """
    return type(statement) in _RUN


def run(statement: TableStatement, context: StatementContext) -> Any:
    """Run a statement. Raises `UnsupportedFeature` if it cannot run (see `can_run`), and the errors of the statement.

    Args:
        statement: The result of `parse_statement`.
        context: The meaning of its names, and the engine that it runs on.

    Returns:
        An Arrow table for statements that return rows (SHOW, CALL). The table or view that was created or renamed. The
        changes of ALTER TABLE. Otherwise None.

    Example:
        >>> run(parse_statement("SHOW CATALOGS"), context)
    """
    work = _RUN.get(type(statement))
    if work is None:
        raise UnsupportedFeature(f"the statement {' '.join(context.text.split())[:60]!r}")
    return work(statement, context)
