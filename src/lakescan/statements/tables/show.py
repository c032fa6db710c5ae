"""SHOW and DESCRIBE: what there is, as rows with the columns that Spark's own statements have."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.api.catalog import Catalog
from lakescan.api.table import Table
from lakescan.api.view import View
from lakescan.catalogs.registry import catalog_names
from lakescan.common.arrays import struct_member
from lakescan.common.identifiers import split_name
from lakescan.common.references import dotted_path
from lakescan.errors import InvalidStatement, IsAView, NoSuchColumn, UnsupportedFeature, nearest
from lakescan.statements.syntax.namespaces import Show, ShowKind
from lakescan.statements.tables.context import StatementContext
from lakescan.statements.tables.describe import create_statement, describe_column, describe_table
from lakescan.statements.tables.names import find_table, namespace
from lakescan.statements.tables.views import create_view_statement, describe_view, find_view


def show(wanted: Show, context: StatementContext) -> pa.Table:
    """Run SHOW or DESCRIBE."""
    if wanted.table is not None:
        try:
            table = find_table(wanted.table, context)
        except IsAView:
            return _show_view(find_view(wanted.table, context), wanted)
        return _OF_TABLES[wanted.what](table, wanted)
    match wanted.what:
        case ShowKind.CATALOGS:
            return _column("catalog", _matching(catalog_names(), wanted.pattern))
        case ShowKind.CURRENT_NAMESPACE:
            here = context.within[0] if context.within else None
            return _rows(("catalog", "namespace"), [(here, ".".join(context.within[1:]))])
        case ShowKind.NAMESPACE:
            catalog, name = namespace(wanted.namespace, context)
            return _describe_namespace(catalog, name, extended=wanted.extended)
        case ShowKind.NAMESPACES:
            catalog, parent = namespace(wanted.namespace, context, least=0)
            return _column("namespace", _matching(catalog.list_namespaces(parent or None), wanted.pattern))
        case ShowKind.VIEWS:
            catalog, name = namespace(wanted.namespace, context)
            return _names("viewName", name, catalog.list_views(name), wanted.pattern)
    catalog, name = namespace(wanted.namespace, context)
    return _names("tableName", name, catalog.list_tables(name), wanted.pattern)


def _names(column: str, namespace: str, listed: Iterable[str], pattern: str | None) -> pa.Table:
    """The rows of SHOW TABLES and SHOW VIEWS; `listed` are names within the catalog."""
    names = [(split_name(each) or (each,))[-1] for each in listed]
    rows = [(namespace, each, False) for each in _matching(names, pattern)]
    return _rows(("namespace", column, "isTemporary"), rows, {"isTemporary": pa.bool_()})


def _columns(table: Table, wanted: Show) -> pa.Table:
    return _column("col_name", table.schema.names)


def _properties(table: Table, wanted: Show) -> pa.Table:
    return _property_rows(table.properties, f"Table {table.name or table.location}", wanted)


def _property_rows(properties: Mapping[str, str], what: str, wanted: Show) -> pa.Table:
    if wanted.column is not None:
        [key] = wanted.column
        return _rows(("key", "value"), [(key, properties.get(key, f"{what} does not have property: {key}"))])
    return _rows(("key", "value"), sorted(properties.items()))


def _partitions(table: Table, wanted: Show) -> pa.Table:
    found, columns = table.inspect("partitions"), table.scan().spec.table.partition_names
    for name, value in (wanted.partition or {}).items():
        found = found.filter(_is_partition(found, name, value, columns))
    return found


def _is_partition(
    rows: pa.Table, name: str, value: str | None, columns: Mapping[str, Collection[str]]
) -> pa.ChunkedArray:
    """Which rows have a value, given as text, of a partition field, or of a column that is one of `columns`.

    Raises `NoSuchColumn`.
    """
    partitions = rows["partition"].combine_chunks() if "partition" in rows.column_names else None
    names = [] if partitions is None else [field.name for field in partitions.type]
    fields = [name] if name in names else [each for each in columns.get(name, ()) if each in names]
    if not fields:
        raise NoSuchColumn(f"the table is not partitioned by {name!r}.{nearest(name, [*names, *columns])}")
    found = [struct_member(partitions, each) for each in fields]
    if value is None:
        return reduce(pc.and_, (pc.is_null(values) for values in found))
    return reduce(pc.or_, (pc.fill_null(pc.equal(values.cast(pa.string()), value), False) for values in found))


def _branches(table: Table, wanted: Show) -> pa.Table:
    return _refs(table, "BRANCH")


def _tags(table: Table, wanted: Show) -> pa.Table:
    return _refs(table, "TAG")


def _refs(table: Table, kind: str) -> pa.Table:
    if "refs" not in table.metadata_tables:
        raise UnsupportedFeature("branches and tags of Delta tables", "Use VERSION AS OF, and RESTORE.")
    refs = table.inspect("refs")
    return refs.filter(pc.equal(refs["type"], kind))


def _history(table: Table, wanted: Show) -> pa.Table:
    rows = table.history()
    newest_first = rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))
    return newest_first if wanted.limit is None else newest_first.slice(0, wanted.limit)


def _detail(table: Table, wanted: Show) -> pa.Table:
    return table.detail()


def _create_table(table: Table, wanted: Show) -> pa.Table:
    return _column("createtab_stmt", [create_statement(table)])


def _describe_table(table: Table, wanted: Show) -> pa.Table:
    if wanted.column is not None:
        rows = describe_column(table, dotted_path(wanted.column))
        return _rows(("info_name", "info_value"), rows)
    return _rows(("col_name", "data_type", "comment"), describe_table(table, extended=wanted.extended))


_OF_TABLES: dict[ShowKind, Callable[[Table, Show], pa.Table]] = {
    ShowKind.COLUMNS: _columns,
    ShowKind.PROPERTIES: _properties,
    ShowKind.PARTITIONS: _partitions,
    ShowKind.BRANCHES: _branches,
    ShowKind.TAGS: _tags,
    ShowKind.HISTORY: _history,
    ShowKind.DETAIL: _detail,
    ShowKind.CREATE_TABLE: _create_table,
    ShowKind.TABLE: _describe_table,
}


def _show_view(view: View, wanted: Show) -> pa.Table:
    """SHOW and DESCRIBE of a view."""
    match wanted.what:
        case ShowKind.COLUMNS:
            return _column("col_name", view.schema.names)
        case ShowKind.PROPERTIES:
            return _property_rows(view.properties, f"View {view.name}", wanted)
        case ShowKind.CREATE_TABLE:
            return _column("createtab_stmt", [create_view_statement(view)])
        case ShowKind.TABLE if wanted.column is None:
            return _rows(("col_name", "data_type", "comment"), describe_view(view, extended=wanted.extended))
    raise InvalidStatement(f"{view.name} is a view: the statement takes a table")


def _describe_namespace(catalog: Catalog, name: str, *, extended: bool) -> pa.Table:
    properties = catalog.namespace_properties(name)
    shown = {"comment": "Comment", "location": "Location", "owner": "Owner"}
    rows = [("Catalog Name", catalog.name), ("Namespace Name", name)]
    rows += [(label, properties[key]) for key, label in shown.items() if key in properties]
    if extended:
        others = {key: value for key, value in properties.items() if key not in shown}
        rows.append(("Properties", "(" + ", ".join(f"({k},{v})" for k, v in sorted(others.items())) + ")"))
    return _rows(("info_name", "info_value"), rows)


def _matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """The names that one of the patterns matches, ignoring case: `*` stands for any letters, `|` separates patterns."""
    if pattern is None:
        return list(names)
    wanted = [re.compile(re.escape(each.strip()).replace(r"\*", ".*"), re.IGNORECASE) for each in pattern.split("|")]
    return [name for name in names if any(each.fullmatch(name) for each in wanted)]


def _column(name: str, values: Sequence[str]) -> pa.Table:
    return pa.table({name: pa.array(values, pa.string())})


def _rows(
    names: Sequence[str], rows: Sequence[Sequence[object]], types: dict[str, pa.DataType] | None = None
) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    kinds = [(types or {}).get(name, pa.string()) for name in names]
    return pa.table([pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)], names=list(names))
