"""CREATE, DROP and ALTER of namespaces; COMMENT ON."""

from __future__ import annotations

from lakescan.api.catalog import catalog
from lakescan.catalogs.registry import is_known
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.statements.syntax.namespaces import (
    AlterNamespace,
    CommentOn,
    CreateCatalog,
    CreateNamespace,
    DropNamespace,
)
from lakescan.statements.tables.context import StatementContext
from lakescan.statements.tables.names import find_table, namespace
from lakescan.tables.results import AlterResult


def create_catalog(wanted: CreateCatalog, context: StatementContext) -> None:
    """Run CREATE CATALOG: the catalog is known by its name in this process; properties are pyiceberg's, or Flink's."""
    if is_known(wanted.name):
        if wanted.if_not_exists:
            return
        raise InvalidOption(f"a catalog {wanted.name!r} is known already: CREATE CATALOG IF NOT EXISTS keeps it")
    properties = dict(wanted.properties)
    if properties.keys() & {"catalog-type", "catalog-impl"}:  # Flink's words, with `iceberg` as the type
        properties.pop("type", None)
        properties.pop("property-version", None)
        kind = properties.pop("catalog-type", None)
        if kind is None or kind == "hadoop":
            raise UnsupportedFeature(
                f"a catalog with catalog-type {kind!r}",
                "Use 'catalog-type' = 'rest' or 'hive', or a warehouse.",
            )
        properties["type"] = kind
    catalog({"name": wanted.name, **properties})


def create_namespace(wanted: CreateNamespace, context: StatementContext) -> None:
    """Run CREATE NAMESPACE; raises `TableExists`."""
    of, name = namespace(wanted.name, context)
    of.create_namespace(name, exist_ok=wanted.if_not_exists, properties=wanted.properties)


def drop_namespace(wanted: DropNamespace, context: StatementContext) -> None:
    """Run DROP NAMESPACE; with CASCADE its views and tables are dropped first, and their files stay."""
    of, name = namespace(wanted.name, context)
    if wanted.cascade and of.namespace_exists(name):
        for each in of.list_views(name):
            of.drop_view(each, missing_ok=True)
        for each in of.list_tables(name):
            of.drop_table(each, missing_ok=True)
    of.drop_namespace(name, missing_ok=wanted.if_exists)


def alter_namespace(wanted: AlterNamespace, context: StatementContext) -> None:
    """Run ALTER NAMESPACE; raises `NoSuchNamespace`."""
    of, name = namespace(wanted.name, context)
    of.update_namespace(name, wanted.properties, removed=wanted.removed)


def comment_on(wanted: CommentOn, context: StatementContext) -> AlterResult | None:
    """Run COMMENT ON."""
    if wanted.is_table:
        return find_table(wanted.name, context).alter().set_comment(wanted.comment).commit()
    of, name = namespace(wanted.name.parts, context)
    if wanted.comment is None:
        of.update_namespace(name, {}, removed=("comment",))
    else:
        of.update_namespace(name, {"comment": wanted.comment})
    return None
