"""CREATE, DROP, RENAME and ALTER of tables, and their branches and tags."""

from __future__ import annotations

import dataclasses

from lakescan.api.open import open_table
from lakescan.api.table import Table
from lakescan.catalogs.formats import DEFAULT, format_named
from lakescan.common.retries import read_again
from lakescan.definition.table_definition import TableDefinition
from lakescan.errors import InvalidStatement, NoSuchTable, TableExists, UnsupportedFeature
from lakescan.options.read import ReadOptions
from lakescan.statements.syntax.alter_table import AlterTable, RenameTable
from lakescan.statements.syntax.create_table import CreateTable, DropTable
from lakescan.statements.tables.clone import clone_table
from lakescan.statements.tables.context import Context
from lakescan.statements.tables.like import like
from lakescan.statements.tables.names import NewName, new_name, new_name_within, opened
from lakescan.tables.new_tables import create_in_folder
from lakescan.tables.results import AlterResult


def create_table(wanted: CreateTable, context: Context) -> Table:
    """Run CREATE TABLE and REPLACE TABLE; raises `TableExists`, `NoSuchTable` and `UnsupportedFeature`."""
    name = new_name(wanted.table, context)
    if wanted.clone is not None:
        return clone_table(wanted, wanted.clone, name, context)
    definition, chosen = _definition(wanted, context), wanted.format or name.format or DEFAULT
    if wanted.like is not None:
        source = opened(wanted.like, context)
        chosen = wanted.format or name.format or source.format
        definition = like(source, definition, chosen)
    if name.catalog is None:
        return _create_in_folder(wanted, name, definition, chosen, context)
    there = name.catalog.table_exists(name.name)
    if there and wanted.if_not_exists:
        return name.catalog.load_table(name.name)
    if there and not wanted.replaces:
        raise TableExists(
            f"{name.catalog.name}.{name.name} already exists: CREATE OR REPLACE TABLE replaces it, CREATE TABLE IF NOT "
            "EXISTS keeps it"
        )
    if not there and not wanted.creates:
        raise NoSuchTable(f"{name.catalog.name}.{name.name} does not exist: CREATE OR REPLACE TABLE makes it")
    if wanted.query is None:
        return name.catalog.create(
            name.name, definition, format=chosen, exist_ok=wanted.if_not_exists, replace=wanted.replaces
        )
    rows = context.rows(wanted.query.text)
    try:
        name.catalog.create_with(name.name, definition, rows, format=chosen, replace=wanted.replaces)
    except TableExists:
        if not wanted.if_not_exists:
            raise
    catalog = name.catalog
    return read_again(
        lambda: catalog.load_table(name.name), f"{catalog.name}.{name.name} is created, but cannot be opened"
    )


def _definition(wanted: CreateTable, context: Context) -> TableDefinition:
    properties = dict(wanted.properties)
    if wanted.order is not None and wanted.order.distribution is not None:
        properties.setdefault("write.distribution-mode", wanted.order.distribution)
    return TableDefinition(
        wanted.columns.columns,
        wanted.columns.key,
        wanted.partition_by,
        (wanted.order.terms or ()) if wanted.order is not None else (),
        properties,
        wanted.location,
        wanted.comment,
        wanted.columns.rules,
        wanted.cluster_by,
        wanted.columns.constraints,
    )


def _create_in_folder(
    wanted: CreateTable, name: NewName, definition: TableDefinition, chosen: str, context: Context
) -> Table:
    """A table by its folder, ``delta.`/lake/t` ``: no catalog knows it."""
    if wanted.replaces:
        raise UnsupportedFeature(
            f"OR REPLACE of a table by its folder ({name.name})", "Give it a name in a catalog, or INSERT OVERWRITE."
        )
    if name.format != chosen:
        raise InvalidStatement(f"{name.name} is named as a {name.format} table, and USING says {chosen}")
    try:
        if wanted.query is None:
            format_named(chosen).create_at(name.name, definition, {})
        else:
            create_in_folder(name.name, definition, context.rows(wanted.query.text), format_named(chosen))
    except TableExists:
        if not wanted.if_not_exists:
            raise
    options = ReadOptions.of({"format": chosen})
    return read_again(lambda: open_table(name.name, options), f"{name.name} is there, but cannot be opened")


def drop_table(wanted: DropTable, context: Context) -> None:
    """Run DROP TABLE; raises `NoSuchTable`."""
    name = new_name(wanted.table, context)
    if name.catalog is None:
        raise UnsupportedFeature(f"DROP TABLE of a folder ({name.name})", "Delete the folder.")
    name.catalog.drop_table(name.name, missing_ok=wanted.if_exists, purge=wanted.purge)


def rename_table(wanted: RenameTable, context: Context) -> Table:
    """Run ALTER TABLE ... RENAME TO; a new name of one part stays in the table's namespace."""
    old = new_name(wanted.table, context)
    if old.catalog is None:
        raise UnsupportedFeature(f"RENAME TO of a folder ({old.name})", "Move the folder.")
    parts = wanted.new.parts
    if len(parts) == 1:
        within = opened(wanted.table, context).name
        assert within is not None
        parts = (within.catalog, *within.namespace, parts[0])
    wanted_name = dataclasses.replace(wanted.new, parts=parts)
    return old.catalog.rename_table(old.name, new_name_within(old.catalog, wanted_name, context))


def alter_table(wanted: AlterTable, context: Context) -> AlterResult:
    """Run the changes of ALTER TABLE in one commit."""
    builder = opened(wanted.table, context).alter()
    for change in wanted.changes:
        builder = builder.with_change(change)
    return builder.commit()
