"""DESCRIBE and SHOW: rows about columns, tables, namespaces and views, and the CREATE statement of a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import repeat

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.api.catalog import Catalog
from lakescan.api.table import Table
from lakescan.api.view import View
from lakescan.catalogs.formats import format_named
from lakescan.catalogs.registry import catalog_names
from lakescan.common import types as t
from lakescan.common.arrays import struct_member
from lakescan.common.identifiers import split_name
from lakescan.common.references import dotted_path, parse_reference, split_list
from lakescan.common.schema import Schema
from lakescan.definition.table_changes import default_of
from lakescan.definition.table_definition import NewColumnRule, SortTerm, TableDeclarations, Term
from lakescan.errors import InvalidStatement, IsAView, NoSuchColumn, UnsupportedFeature, nearest
from lakescan.statements.syntax.namespaces import Show, ShowKind
from lakescan.statements.syntax.types import name_text, spark_text, text_literal, type_text
from lakescan.statements.tables.context import StatementContext, find_table, namespace
from lakescan.statements.tables.views import create_view_statement, describe_view, find_view

Row = tuple[str, str, str | None]
# Properties that SHOW CREATE TABLE leaves out, because CREATE TABLE rejects them or sets them itself.
_OWN = (
    "format-version",
    "comment",
    "delta.columnMapping.maxColumnId",
    "delta.constraints.",
    "delta.inCommitTimestampEnablement",
    "delta.rowTracking.materialized",
    "schema.name-mapping.",
)


def describe_table(table: Table, *, extended: bool = False) -> list[Row]:
    """Return the rows of DESCRIBE TABLE as in Spark: columns, partition fields, and details if `extended`.

    Each row has a column's name, type and comment.
    """
    rules = table_declarations(table).rules
    rows: list[Row] = [(each.name, _spark_type_text(each, rules), each.doc) for each in _schema(table).fields]
    parts = partition_parts(table)
    if parts:
        rows += [("", "", ""), ("# Partitioning", "", "")]
        rows += [(f"Part {n}", part, "") for n, part in enumerate(parts)]
    if extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [(label, value, "") for label, value in _details(table)]
    return rows


def _details(table: Table) -> Iterator[tuple[str, str]]:
    properties = dict(table.properties)
    yield "Name", str(table.name or table.location)
    yield "Type", "MANAGED" if table.name is not None else "EXTERNAL"
    if comment := table.comment:
        yield "Comment", comment
    yield "Location", table.folder
    yield "Provider", table.format
    if table.sort_order != "unsorted":
        yield "Sort Order", table.sort_order
    if key := table.primary_key:
        yield "Primary Key", ", ".join(key)
        properties["identifier-fields"] = f"[{','.join(key)}]"  # as in Iceberg's own DESCRIBE
    shown = ",".join(f"{name}={value}" for name, value in sorted(properties.items()))
    yield "Table Properties", f"[{shown}]"


def describe_column(table: Table, name: str) -> list[tuple[str, str | None]]:
    """Return the rows of DESCRIBE of one column: its name, type and comment, each with a label.

    Raises `NoSuchColumn`.
    """
    field = _schema(table).field(name, case_sensitive=False)
    kind = _spark_type_text(field, table_declarations(table).rules)
    return [("col_name", field.name), ("data_type", kind), ("comment", field.doc)]


def describe_query(columns: Sequence[tuple[str, t.Type]]) -> pa.Table:
    """Return the rows of DESCRIBE QUERY: the names of a query's columns, and their types as Spark writes them."""
    found = [(name, spark_text(kind, repeat("string")), None) for name, kind in columns]
    names = ("col_name", "data_type", "comment")
    return pa.table({name: pa.array([row[n] for row in found], pa.string()) for n, name in enumerate(names)})


def _spark_type_text(field: t.Field, rules: Mapping[str, NewColumnRule]) -> str:
    """Return a column's type as Spark writes it, with string lengths: `struct<a:int,b:array<varchar(3)>>`.

    `rules` has the string lengths in the table's columns, by column name.
    """
    return rules.get(field.name, NewColumnRule()).lengths or spark_text(field.type, repeat("string"))


def create_statement(table: Table) -> str:
    """Return the text of a CREATE TABLE statement that creates a table like this one, without its rows."""
    schema = _schema(table)
    declared = table_declarations(table)
    lines = [f"  {_column_definition(each, declared.rules.get(each.name, NewColumnRule()))}" for each in schema.fields]
    if key := [".".join(map(name_text, parse_reference(each))) for each in schema.identifier_names]:
        lines.append(f"  PRIMARY KEY ({', '.join(key)}) NOT ENFORCED")
    lines += [f"  CONSTRAINT {name_text(name)} CHECK ({text})" for name, text in declared.constraints.items()]
    name = ".".join(map(name_text, (table.name.catalog, *table.name.within))) if table.name else _path(table)
    columns = [" (", ",\n".join(lines) + ")"] if lines else [""]
    clauses = [f"CREATE TABLE {name}{columns[0]}", *columns[1:], f"USING {table.format}"]
    terms = [Term.parse(part) for part in partition_parts(table)]
    if parts := [_term(each) for each in terms if each.name != "void"]:  # void is the transform of a dropped field
        clauses.append(f"PARTITIONED BY ({', '.join(parts)})")
    if declared.cluster_by:
        clauses.append(f"CLUSTER BY ({', '.join('.'.join(map(name_text, path)) for path in declared.cluster_by)})")
    if table.sort_order != "unsorted":
        order = map(SortTerm.parse, split_list(table.sort_order, keep_calls=True))
        clauses.append(f"WRITE LOCALLY ORDERED BY {', '.join(map(_sort_term, order))}")
    if comment := table.comment:
        clauses.append(f"COMMENT {text_literal(comment)}")
    clauses.append(f"LOCATION {text_literal(table.folder)}")
    if kept := own_properties(table):
        shown = ",\n".join(f"  {text_literal(name)} = {text_literal(value)}" for name, value in kept.items())
        clauses.append(f"TBLPROPERTIES (\n{shown})")
    return "\n".join(clauses)


def table_declarations(table: Table) -> TableDeclarations:
    """Return a table's column rules, constraints and clustering columns."""
    return format_named(table.format).declarations(table.scan().spec)


def own_properties(table: Table) -> dict[str, str]:
    """Return the properties to copy to a table like this one, with the format version of an Iceberg table.

    Properties that CREATE TABLE rejects or sets itself, such as the comment and constraints, are left out.
    """
    kept = {k: v for k, v in sorted(table.properties.items()) if not k.startswith(_OWN)}
    has_one_version = table.format_version.isdecimal()  # Delta has a reader version and a writer version
    return {"format-version": table.format_version, **kept} if has_one_version else kept


def _path(table: Table) -> str:
    return f"{table.format}.{name_text(table.location)}"


def _column_definition(field: t.Field, rule: NewColumnRule) -> str:
    required = " NOT NULL" if field.required else ""
    default = "" if field.write_default is None else f" DEFAULT {default_of(field.write_default).text}"
    if rule.default is not None:
        default = f" DEFAULT {rule.default}"
    if rule.generated is not None:
        default = f" GENERATED ALWAYS AS ({rule.generated})"
    if (of := rule.identity) is not None:
        how = "BY DEFAULT" if of.allows_values else "ALWAYS"
        default = f" GENERATED {how} AS IDENTITY (START WITH {of.start} INCREMENT BY {of.step})"
    kind = type_text(field.type) if rule.lengths is None else _with_lengths(rule.lengths)
    doc = "" if field.doc is None else f" COMMENT {text_literal(field.doc)}"
    return f"{name_text(field.name)} {kind}{required}{default}{doc}"


def _with_lengths(text: str) -> str:
    return text if "<" in text else text.upper()


def partition_parts(table: Table) -> list[str]:
    """Return the partition fields as text, such as `days(ts)`; an empty list for an unpartitioned table."""
    text = table.partitioning
    return [] if text == "unpartitioned" else list(split_list(text, keep_calls=True))


def _term(of: Term) -> str:
    column = ".".join(map(name_text, parse_reference(of.column)))
    if of.name == "identity":
        return column
    return f"{of.name}({column})" if of.number is None else f"{of.name}({of.number}, {column})"


def _sort_term(of: SortTerm) -> str:
    return f"{_term(of.term)} {'desc' if of.descending else 'asc'} nulls {'first' if of.nulls_first else 'last'}"


def _schema(table: Table) -> Schema:
    return table.scan().spec.snapshot.schema


def show(wanted: Show, context: StatementContext) -> pa.Table:
    """Run SHOW or DESCRIBE, and return its rows.

    Raises `NoSuchTable`, `NoSuchCatalog`, and `InvalidStatement` for a view where a table is required.
    """
    if wanted.table is not None:
        try:
            table = find_table(wanted.table, context)
        except IsAView:
            return _show_view(find_view(wanted.table, context), wanted)
        return _OF_TABLES[wanted.what](table, wanted)
    match wanted.what:
        case ShowKind.CATALOGS:
            return _column("catalog", matching_names(catalog_names(), wanted.pattern))
        case ShowKind.CURRENT_NAMESPACE:
            here = context.within[0] if context.within else None
            return _rows(("catalog", "namespace"), [(here, ".".join(context.within[1:]))])
        case ShowKind.NAMESPACE:
            catalog, name = namespace(wanted.namespace, context)
            return _describe_namespace(catalog, name, extended=wanted.extended)
        case ShowKind.NAMESPACES:
            catalog, parent = namespace(wanted.namespace, context, least=0)
            return _column("namespace", matching_names(catalog.list_namespaces(parent or None), wanted.pattern))
        case ShowKind.VIEWS:
            catalog, name = namespace(wanted.namespace, context)
            return _names("viewName", name, catalog.list_views(name), wanted.pattern)
        case ShowKind.PROCEDURES:
            catalog, name = namespace(wanted.namespace, context, least=0)
            return _procedures(catalog.name, name, wanted.pattern)
    catalog, name = namespace(wanted.namespace, context)
    return _names("tableName", name, catalog.list_tables(name), wanted.pattern)


def _names(column: str, namespace: str, listed: Iterable[str], pattern: str | None) -> pa.Table:
    """Return the rows of SHOW TABLES and SHOW VIEWS. `listed` are names within the catalog.

    `column` is the name of the result column with the names, and `namespace` the value of the column before it.
    """
    names = [(split_name(each) or (each,))[-1] for each in listed]
    rows = [(namespace, each, False) for each in matching_names(names, pattern)]
    return _rows(("namespace", column, "isTemporary"), rows, {"isTemporary": pa.bool_()})


def _procedures(catalog: str, namespace: str, pattern: str | None) -> pa.Table:
    """Return the rows of SHOW PROCEDURES: the supported ones, which are all in the namespace `system`."""
    from lakescan.statements.procedures.registry import PROCEDURES

    of_system = PROCEDURES if namespace in ("", "system") else {}
    names = sorted(matching_names([name for name, each in of_system.items() if each.run is not None], pattern))
    return pa.table(
        {
            "catalog": pa.array([catalog] * len(names), pa.string()),
            "namespace": pa.array([["system"]] * len(names), pa.list_(pa.string())),
            "schema": pa.array(["system"] * len(names), pa.string()),
            "procedure_name": pa.array(names, pa.string()),
        }
    )


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
    """Return a mask of the rows whose partition has a value, which is text; None means null.

    `name` is a partition field, or a source column of partition fields, which `columns` lists by source column. If
    there are several fields, one must have the value, or all must be null. Raises `NoSuchColumn`.
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
    """Run SHOW or DESCRIBE of a view; raises `InvalidStatement` for statements that take a table."""
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


def matching_names(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that match a pattern, ignoring case; all names if it is None.

    `*` matches any text, and `|` separates alternatives.
    """
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
