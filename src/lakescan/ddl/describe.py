"""DESCRIBE TABLE and SHOW CREATE TABLE: a table in words."""

from __future__ import annotations

from collections.abc import Iterator

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.definition.literals import default_of
from lakescan.grammar.type_text import name_text, text_literal, type_text
from lakescan.table import Table

Row = tuple[str, str, str | None]
# Properties that say how the table is stored: CREATE TABLE would refuse them, or they are its own.
_OWN = ("format-version", "comment", "delta.columnMapping.maxColumnId", "delta.rowTracking.materialized")


def described(table: Table, *, extended: bool = False) -> list[Row]:
    """The rows of DESCRIBE TABLE, as Spark has them: columns, partitioning, and details if `extended`."""
    rows: list[Row] = [(each.name, type_text(each.type).lower(), each.doc) for each in _schema(table).fields]
    parts = _partition_parts(table)
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
    if table.format == "iceberg":
        yield "Sort Order", table.sort_order
    shown = ",".join(f"{name}={value}" for name, value in sorted(properties.items()))
    yield "Table Properties", f"[{shown}]"


def described_column(table: Table, name: str) -> list[tuple[str, str | None]]:
    """The rows of DESCRIBE TABLE table column; raises `NoSuchColumn`."""
    field = _schema(table).field(name, case_sensitive=False)
    return [("col_name", field.name), ("data_type", type_text(field.type).lower()), ("comment", field.doc)]


def create_statement(table: Table) -> str:
    """A CREATE TABLE statement that makes a table like this one, without its rows."""
    schema = _schema(table)
    lines = [f"  {_column(each)}" for each in schema.fields]
    key = [name_text(schema.by_id[each].name) for each in schema.identifier_ids]
    if key:
        lines.append(f"  PRIMARY KEY ({', '.join(key)}) NOT ENFORCED")
    name = ".".join(map(name_text, (table.name.catalog, *table.name.within))) if table.name else _path(table)
    clauses = [f"CREATE TABLE {name} (", ",\n".join(lines) + ")", f"USING {table.format}"]
    if parts := _partition_parts(table):
        clauses.append(f"PARTITIONED BY ({', '.join(parts)})")
    if table.format == "iceberg" and table.sort_order != "unsorted":
        clauses.append(f"WRITE LOCALLY ORDERED BY {table.sort_order}")
    if comment := table.comment:
        clauses.append(f"COMMENT {text_literal(comment)}")
    clauses.append(f"LOCATION {text_literal(table.folder)}")
    kept = {k: v for k, v in sorted(table.properties.items()) if not k.startswith(_OWN)}
    if table.format == "iceberg":
        kept = {"format-version": str(table.format_version), **kept}
    if kept:
        shown = ",\n".join(f"  {text_literal(name)} = {text_literal(value)}" for name, value in kept.items())
        clauses.append(f"TBLPROPERTIES (\n{shown})")
    return "\n".join(clauses)


def _path(table: Table) -> str:
    return f"{table.format}.{name_text(table.location)}"


def _column(field: t.Field) -> str:
    required = " NOT NULL" if field.required else ""
    default = "" if field.write_default is None else f" DEFAULT {default_of(field.write_default).text}"
    doc = "" if field.doc is None else f" COMMENT {text_literal(field.doc)}"
    return f"{name_text(field.name)} {type_text(field.type)}{required}{default}{doc}"


def _partition_parts(table: Table) -> list[str]:
    from lakescan.common.references import split_list

    text = table.partitioning
    return [] if text == "unpartitioned" else list(split_list(text, keep_calls=True))


def _schema(table: Table) -> Schema:
    return table.scan().spec.snapshot.schema
