"""CREATE, ALTER and DROP of views; a view in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow as pa

from lakescan.api.catalog import Catalog
from lakescan.api.view import View
from lakescan.common.identifiers import Identifier, parse_identifier
from lakescan.common.types import Field
from lakescan.definition.from_arrow import columns_of
from lakescan.definition.view_definition import ViewDefinition
from lakescan.errors import InvalidStatement
from lakescan.iceberg.view.changes import COMMENT, QUERY_COLUMNS
from lakescan.statements.select.query import Query
from lakescan.statements.select.view_definitions import view_definition
from lakescan.statements.syntax.names import TableName
from lakescan.statements.syntax.type_text import name_text, text_literal, type_text
from lakescan.statements.syntax.views import AlterView, CreateView, DropView
from lakescan.statements.tables.context import StatementContext
from lakescan.statements.tables.names import new_name, new_name_within
from lakescan.tables.rows import as_rows

Row = tuple[str, str, str | None]
_OF_SPARK = ("engine_version", "create_engine_version")


def create_view(wanted: CreateView, context: StatementContext) -> View:
    """Run CREATE VIEW; raises `TableExists`, `NoSuchTable`, `InvalidStatement` and `UnsupportedFeature`."""
    catalog, name = _view_name(wanted.view, context)
    if wanted.if_not_exists and wanted.replaces:
        raise InvalidStatement("CREATE OR REPLACE VIEW replaces a view that exists, IF NOT EXISTS keeps it: say one")
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
    """Run ALTER VIEW; raises `NoSuchTable`. A new name of one part stays in the view's namespace."""
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
    """Run DROP VIEW; raises `NoSuchTable`."""
    catalog, name = _view_name(wanted.view, context)
    catalog.drop_view(name, missing_ok=wanted.if_exists)


def find_view(name: TableName, context: StatementContext) -> View:
    """The view of a name; raises `NoSuchTable`."""
    catalog, view = _view_name(name, context)
    return catalog.load_view(view)


def _view_name(name: TableName, context: StatementContext) -> tuple[Catalog, str]:
    found = new_name(name, context)
    if found.catalog is None:
        raise InvalidStatement(f"a view has a name in a catalog, and {'.'.join(name.parts)} is a path")
    return found.catalog, found.name


def describe_view(view: View, *, extended: bool = False) -> list[Row]:
    """The rows of DESCRIBE TABLE of a view, as Iceberg's Spark has them."""
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
    """A CREATE VIEW statement that makes a view like this one, where its short names mean the same."""
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
