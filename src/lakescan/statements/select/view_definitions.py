"""What a view is to be: its query checked, and the columns that it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.identifiers import Identifier
from lakescan.definition.from_arrow import optional_columns_of
from lakescan.definition.table_definition import assign_ids
from lakescan.definition.view_definition import ViewDefinition
from lakescan.errors import InvalidStatement, UnsupportedFeature
from lakescan.statements.select.catalog_views import expand_catalog_views, qualify_names
from lakescan.statements.select.query import query
from lakescan.statements.select.session_settings import QuerySettings
from lakescan.statements.select.table_references import occurrences
from lakescan.statements.select.tables import TableResolver
from lakescan.statements.syntax.parse import StatementKind, parse_tree, statement_of
from lakescan.statements.syntax.spark_syntax import rewrite_syntax


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
    """Check the query of a view, and work out its columns.

    Args:
        text: The query.
        view: The view's name.
        columns: New names of the query's columns, and their comments.
        comment: What the view is about.
        properties: The view's own.
        within: The catalog and namespace of short names; those of the view if it is empty.
        schema_of: The columns of a query; runs it in this process, over no rows, by default.
        temporary: Whether a short name is that of a frame, or of what a session alone has.

    Raises:
        InvalidStatement: It is no query, or the columns do not fit.
        NoSuchTable: It reads what is not there.
        UnsupportedFeature: It reads what a session alone has; a column has no type that views keep.

    Example:
        >>> view_definition("SELECT * FROM orders WHERE open", Identifier("lake", ("shop",), "open_orders"))
    """
    statement = statement_of(text)
    if statement.kind is not StatementKind.QUERY:
        raise InvalidStatement(f"a view is of a query: {text!r} is none")
    text = statement.text.strip()
    place = within if len(within) > 1 else (view.catalog, *view.namespace)
    _check_short_names(text, view, temporary)
    whole = qualify_names(text, place, f"the view {view}")
    expand_catalog_views(
        whole, parse_tree(whole), TableResolver(whole, (), {}, QuerySettings()), {}, (view,)
    )  # raises if it reads itself
    found = schema_of(whole)
    fields = _fields(found, columns, view)
    return ViewDefinition(text, assign_ids(fields), tuple(found.names), place, comment, dict(properties or {}))


def _check_short_names(text: str, view: Identifier, temporary: Callable[[str], bool]) -> None:
    spelled = rewrite_syntax(text)
    for each in occurrences(parse_tree(spelled), spelled):
        if len(each.names) == 1 and temporary(each.names[0]):
            raise UnsupportedFeature(
                f"the view {view} of {each.names[0]!r}, which this session alone has",
                "A view of a catalog reads tables and views of catalogs: name them from the catalog on.",
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
        raise InvalidStatement(f"two columns of the view {view} have the name {both[0]!r}: give them names by AS")
    for each in fields:
        if each.type == t.UNKNOWN:
            raise UnsupportedFeature(f"the column {each.name!r} of the view {view}, which has no type", "Use CAST.")
    return fields
