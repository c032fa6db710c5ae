"""DESCRIBE TABLE and SHOW CREATE TABLE: a table in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

import pyarrow as pa

from lakescan.api.table import Table
from lakescan.catalogs.formats import format_named
from lakescan.common import types as t
from lakescan.common.references import parse_reference, split_list
from lakescan.common.schema import Schema
from lakescan.definition.column_rules import NewColumnRule, TableDeclarations
from lakescan.definition.literals import default_of
from lakescan.definition.table_definition import SortTerm, Term
from lakescan.statements.syntax.type_text import name_text, spark_text, text_literal, type_text

Row = tuple[str, str, str | None]
# Properties that say how the table is stored: CREATE TABLE would refuse them, or they are its own.
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
    """The rows of DESCRIBE TABLE, as Spark has them: columns, partitioning, and details if `extended`."""
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
    """The rows of DESCRIBE TABLE table column; raises `NoSuchColumn`."""
    field = _schema(table).field(name, case_sensitive=False)
    kind = _spark_type_text(field, table_declarations(table).rules)
    return [("col_name", field.name), ("data_type", kind), ("comment", field.doc)]


def describe_query(columns: Sequence[tuple[str, t.Type]]) -> pa.Table:
    """The rows of DESCRIBE QUERY: the names of a query's columns, and their types as Spark writes them."""
    found = [(name, spark_text(kind, repeat("string")), None) for name, kind in columns]
    names = ("col_name", "data_type", "comment")
    return pa.table({name: pa.array([row[n] for row in found], pa.string()) for n, name in enumerate(names)})


def _spark_type_text(field: t.Field, rules: Mapping[str, NewColumnRule]) -> str:
    """The type as Spark writes it: `struct<a:int,b:array<string>>`; with the length of its texts, if there is one."""
    return rules.get(field.name, NewColumnRule()).lengths or spark_text(field.type, repeat("string"))


def create_statement(table: Table) -> str:
    """A CREATE TABLE statement that makes a table like this one, without its rows."""
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
    if parts := [_term(each) for each in terms if each.name != "void"]:  # void: a field that was dropped
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
    """What a table declares beside columns and properties."""
    return format_named(table.format).declarations(table.scan().spec)


def own_properties(table: Table) -> dict[str, str]:
    """The properties that make a table like another: those that say where it is, or count for it, are left out."""
    kept = {k: v for k, v in sorted(table.properties.items()) if not k.startswith(_OWN)}
    has_one_version = table.format_version.isdecimal()  # Delta's are those of readers and writers
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
    """The partition fields as text."""
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
