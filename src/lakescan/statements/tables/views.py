"""Run CREATE, ALTER and DROP VIEW, and describe views."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakescan.api.catalog import Catalog
from lakescan.api.rows import as_rows
from lakescan.api.view import View
from lakescan.common import types as t
from lakescan.common.identifiers import Identifier, parse_identifier
from lakescan.common.types import Field
from lakescan.definition.arrow_schema import columns_of, optional_columns_of
from lakescan.definition.table_definition import assign_ids
from lakescan.definition.view_definition import ViewDefinition
from lakescan.errors import InvalidStatement, UnsupportedFeature
from lakescan.iceberg.view.metadata import COMMENT, QUERY_COLUMNS
from lakescan.statements.select.query import Query, query
from lakescan.statements.select.session import QuerySettings
from lakescan.statements.select.table_references import occurrences
from lakescan.statements.select.table_resolution import TableResolver
from lakescan.statements.select.view_expansion import expand_catalog_views, qualify_names
from lakescan.statements.syntax.parse import StatementKind, parse_tree, statement_of
from lakescan.statements.syntax.spark_syntax import rewrite_syntax
from lakescan.statements.syntax.tables_and_views import AlterView, CreateView, DropView
from lakescan.statements.syntax.text import TableName
from lakescan.statements.syntax.types import name_text, text_literal, type_text
from lakescan.statements.tables.context import StatementContext, new_name, new_name_within

Row = tuple[str, str, str | None]
_OF_SPARK = ("engine_version", "create_engine_version")


def create_view(wanted: CreateView, context: StatementContext) -> View:
    """Run CREATE VIEW, and return the view. With IF NOT EXISTS, an existing view is returned unchanged.

    Raises `TableExists`, `NoSuchTable`, `InvalidStatement` and `UnsupportedFeature`.
    """
    catalog, name = _view_name(wanted.view, context)
    if wanted.if_not_exists and wanted.replaces:
        raise InvalidStatement(
            f"CREATE OR REPLACE VIEW {catalog.name}.{name} replaces an existing view, but IF NOT EXISTS keeps it: use "
            "one of them"
        )
    if wanted.if_not_exists and catalog.view_exists(name):
        return catalog.load_view(name)
    definition = _definition(catalog, name, wanted, context)
    return catalog.make_view(name, definition, replace=wanted.replaces, if_not_exists=wanted.if_not_exists)


def _definition(catalog: Catalog, name: str, wanted: CreateView, context: StatementContext) -> ViewDefinition:
    frames = {each.lower() for each in context.frames}

    def schema_of(text: str) -> pa.Schema:
        rows = context.rows(text)
        return rows.schema if isinstance(rows, Query) else as_rows(rows).schema

    return view_definition(
        wanted.query.text,
        parse_identifier(catalog.name, name),
        wanted.columns,
        wanted.comment,
        wanted.properties,
        within=context.within,
        schema_of=schema_of,
        temporary=lambda each: each.lower() in frames or context.temporary(each),
    )


def alter_view(wanted: AlterView, context: StatementContext) -> View:
    """Run ALTER VIEW, and return the view; raises `NoSuchTable`.

    A new name with one part stays in the view's namespace.
    """
    catalog, name = _view_name(wanted.view, context)
    view = catalog.load_view(name)
    if wanted.query is not None:
        definition = _definition(catalog, name, CreateView(wanted.view, wanted.query), context)
        return catalog.make_view(name, definition, replace=True)
    if wanted.new is None:
        return catalog.update_view(name, wanted.properties, removed=wanted.removed)
    parts = wanted.new.parts
    if len(parts) == 1:
        parts = (catalog.name, *view.name.namespace, parts[0])
    return catalog.rename_view(name, new_name_within(catalog, dataclasses.replace(wanted.new, parts=parts), context))


def drop_view(wanted: DropView, context: StatementContext) -> None:
    """Run DROP VIEW; raises `NoSuchTable` if the view does not exist, unless IF EXISTS is set."""
    catalog, name = _view_name(wanted.view, context)
    catalog.drop_view(name, missing_ok=wanted.if_exists)


def find_view(name: TableName, context: StatementContext) -> View:
    """Open the view that a statement names; raises `NoSuchTable`, and `InvalidStatement` for a path."""
    catalog, view = _view_name(name, context)
    return catalog.load_view(view)


def _view_name(name: TableName, context: StatementContext) -> tuple[Catalog, str]:
    found = new_name(name, context)
    if found.catalog is None:
        raise InvalidStatement(f"{'.'.join(name.parts)} is a path, but a view must be in a catalog: name it there")
    return found.catalog, found.name


def describe_view(view: View, *, extended: bool = False) -> list[Row]:
    """Return the rows of DESCRIBE TABLE of a view: the name, type and comment of each column.

    They are as Iceberg returns them in Spark. With `extended`, rows with the view's details follow.
    """
    rows: list[Row] = [(each.name, type_text(each.type).lower(), each.doc or "") for each in _columns(view)]
    if extended:
        shown = ", ".join(f"{text_literal(k)} = {text_literal(v)}" for k, v in _shown_properties(view).items())
        rows += [
            ("", "", ""),
            ("# Detailed View Information", "", ""),
            ("Comment", view.comment or "", ""),
            ("View Catalog and Namespace", ".".join((view.name.catalog, *view.name.namespace)), ""),
            ("View Query Output Columns", f"[{', '.join(view.query_columns)}]", ""),
            ("View Properties", f"[{shown}]", ""),
            ("Created By", view.properties.get("create_engine_version", ""), ""),
        ]
    return rows


def create_view_statement(view: View) -> str:
    """Return the text of a CREATE VIEW statement that creates a view like this one.

    Short names in its query are not qualified, so it must run with the same current namespace.
    """
    names = ",\n".join(
        f"  {name_text(each.name)}{'' if each.doc is None else f' COMMENT {text_literal(each.doc)}'}"
        for each in _columns(view)
    )
    clauses = [f"CREATE VIEW {_full_name(view.name)} (\n{names})"]
    if view.comment is not None:
        clauses.append(f"COMMENT {text_literal(view.comment)}")
    if kept := _shown_properties(view):
        shown = ",\n".join(f"  {text_literal(name)} = {text_literal(value)}" for name, value in kept.items())
        clauses.append(f"TBLPROPERTIES (\n{shown})")
    return "\n".join([*clauses, "AS", view.query])


def _full_name(name: Identifier) -> str:
    return ".".join(map(name_text, (name.catalog, *name.within)))


def _columns(view: View) -> tuple[Field, ...]:
    return columns_of(view.schema)


def _shown_properties(view: View) -> Mapping[str, str]:
    own = (COMMENT, QUERY_COLUMNS, *_OF_SPARK)
    return {name: value for name, value in sorted(view.properties.items()) if name not in own}


def _query_schema(text: str) -> pa.Schema:
    return query(text, None, {}, ()).schema


def view_definition(
    text: str,
    view: Identifier,
    columns: Sequence[tuple[str, str | None]] = (),
    comment: str | None = None,
    properties: Mapping[str, str] | None = None,
    *,
    within: tuple[str, ...] = (),
    schema_of: Callable[[str], pa.Schema] = _query_schema,
    temporary: Callable[[str], bool] = lambda name: False,
) -> ViewDefinition:
    """Check the query of a view, and determine its columns.

    Args:
        text: The query.
        view: The view's name.
        columns: New names and comments of the query's columns.
        comment: The view's comment.
        properties: The view's properties.
        within: The catalog and namespace of short names. If empty, those of the view.
        schema_of: Returns the schema of a query. By default, the query is planned in this process.
        temporary: Returns whether a short name is a frame, or exists only in the session.

    Raises:
        InvalidStatement: The text is not a query, or the columns do not fit.
        NoSuchTable: The query reads a table that does not exist.
        UnsupportedFeature: The query reads a frame or temporary view, or a column has no type that views can store.

    Example:
        >>> view_definition("SELECT * FROM orders WHERE open", Identifier("lake", ("shop",), "open_orders"))
    """
    statement = statement_of(text)
    if statement.kind is not StatementKind.QUERY:
        raise InvalidStatement(f"the view {view} needs a query, and {text!r} is not a query")
    text = statement.text.strip()
    place = within if len(within) > 1 else (view.catalog, *view.namespace)
    _check_short_names(text, view, temporary)
    whole = qualify_names(text, place, f"the view {view}")
    expand_catalog_views(
        whole, parse_tree(whole), TableResolver(whole, (), {}, QuerySettings()), {}, (view,)
    )  # raises an error if the view reads itself
    found = schema_of(whole)
    fields = _fields(found, columns, view)
    return ViewDefinition(text, assign_ids(fields), tuple(found.names), place, comment, dict(properties or {}))


def _check_short_names(text: str, view: Identifier, temporary: Callable[[str], bool]) -> None:
    spelled = rewrite_syntax(text)
    for each in occurrences(parse_tree(spelled), spelled):
        if len(each.names) == 1 and temporary(each.names[0]):
            raise UnsupportedFeature(
                f"the view {view} of {each.names[0]!r}, which exists only in this session",
                "A catalog's view can only read tables and views of catalogs. Name them with their catalog.",
            )


def _fields(found: pa.Schema, columns: Sequence[tuple[str, str | None]], view: Identifier) -> list[t.Field]:
    fields = list(optional_columns_of(found))
    if columns and len(columns) != len(fields):
        raise InvalidStatement(
            f"the view {view} names {len(columns)} columns ({', '.join(name for name, _ in columns)}), and its query "
            f"has {len(fields)} ({', '.join(found.names)})"
        )
    if columns:
        fields = [
            replace(each, name=name, physical_name=name, doc=doc)
            for each, (name, doc) in zip(fields, columns, strict=True)
        ]
    names = [each.name.lower() for each in fields]
    if both := [name for name in names if names.count(name) > 1]:
        raise InvalidStatement(f"two columns of the view {view} have the name {both[0]!r}: rename one with AS")
    for each in fields:
        if each.type == t.UNKNOWN:
            raise UnsupportedFeature(f"the column {each.name!r} of the view {view}, which has no type", "Use CAST.")
    return fields
