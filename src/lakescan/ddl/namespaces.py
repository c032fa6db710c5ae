"""CREATE, DROP and ALTER of namespaces; COMMENT ON."""

from __future__ import annotations

from lakescan.ddl.context import Context
from lakescan.ddl.names import namespace, opened
from lakescan.grammar.namespaces import AlterNamespace, CommentOn, CreateNamespace, DropNamespace
from lakescan.transaction.results import AlterResult


def create_namespace(wanted: CreateNamespace, context: Context) -> None:
    """Run CREATE NAMESPACE; raises `TableExists`."""
    catalog, name = namespace(wanted.name, context)
    catalog.create_namespace(name, exist_ok=wanted.if_not_exists, properties=wanted.properties)


def drop_namespace(wanted: DropNamespace, context: Context) -> None:
    """Run DROP NAMESPACE; with CASCADE its tables are dropped first, and their files stay."""
    catalog, name = namespace(wanted.name, context)
    if wanted.cascade and catalog.namespace_exists(name):
        for each in catalog.list_tables(name):
            catalog.drop_table(each, missing_ok=True)
    catalog.drop_namespace(name, missing_ok=wanted.if_exists)


def alter_namespace(wanted: AlterNamespace, context: Context) -> None:
    """Run ALTER NAMESPACE; raises `NoSuchNamespace`."""
    catalog, name = namespace(wanted.name, context)
    catalog.update_namespace(name, wanted.properties, removed=wanted.removed)


def comment_on(wanted: CommentOn, context: Context) -> AlterResult | None:
    """Run COMMENT ON."""
    if wanted.is_table:
        return opened(wanted.name, context).alter().set_comment(wanted.comment).commit()
    catalog, name = namespace(wanted.name.parts, context)
    if wanted.comment is None:
        catalog.update_namespace(name, {}, removed=("comment",))
    else:
        catalog.update_namespace(name, {"comment": wanted.comment})
    return None
