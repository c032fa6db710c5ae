"""Run CREATE, DROP, RENAME and ALTER of tables, branches, tags, catalogs and namespaces."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from datetime import timedelta
from typing import Any

from lakescan.api.catalog import catalog
from lakescan.api.open import open_table
from lakescan.api.rows import as_rows
from lakescan.api.table import Table
from lakescan.catalogs.formats import DEFAULT, format_at, format_named
from lakescan.catalogs.registry import is_known
from lakescan.common.references import split_list
from lakescan.common.retries import retry_read
from lakescan.definition.table_definition import SortTerm, TableDefinition, Term, assign_ids
from lakescan.errors import (
    InvalidOption,
    InvalidStatement,
    NoSuchTable,
    SchemaMismatch,
    TableExists,
    UnsupportedFeature,
)
from lakescan.options.read import ReadOptions
from lakescan.options.write import WriteOptions
from lakescan.statements.syntax.alter_table import AlterTable, CreateRef, DropRef, RenameTable
from lakescan.statements.syntax.namespaces import (
    AlterNamespace,
    CommentOn,
    CreateCatalog,
    CreateNamespace,
    DropNamespace,
)
from lakescan.statements.syntax.tables_and_views import CloneOf, CreateTable, DropTable
from lakescan.statements.syntax.types import type_text
from lakescan.statements.tables.context import (
    NewName,
    StatementContext,
    find_table,
    namespace,
    new_name,
    new_name_within,
)
from lakescan.statements.tables.describe import own_properties, partition_parts, table_declarations
from lakescan.storage import Storage
from lakescan.storage.locations import absolute
from lakescan.tables.results import AlterResult, RefResult
from lakescan.tables.write_rows import create_in_folder, create_with_rows, fill_columns


def create_table(wanted: CreateTable, context: StatementContext) -> Table:
    """Run CREATE TABLE or REPLACE TABLE, and open the table.

    Raises `TableExists`, `NoSuchTable` (REPLACE TABLE of a missing table), and `UnsupportedFeature`.
    """
    name = new_name(wanted.table, context)
    if wanted.clone is not None:
        return clone_table(wanted, wanted.clone, name, context)
    definition, chosen = _definition(wanted, context), wanted.format or name.format or DEFAULT
    if wanted.like is not None:
        source = find_table(wanted.like, context)
        chosen = wanted.format or name.format or source.format
        definition = definition_like(source, definition, chosen)
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
        raise NoSuchTable(f"{name.catalog.name}.{name.name} does not exist: CREATE OR REPLACE TABLE creates it")
    if not there and wanted.location is not None and name.catalog.registers_existing:
        existing = _existing_table(wanted, definition, chosen)
        if existing is not None:
            return name.catalog.register_table(name.name, existing)
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
    return retry_read(
        lambda: catalog.load_table(name.name), f"{catalog.name}.{name.name} is created, but cannot be opened"
    )


def _existing_table(wanted: CreateTable, definition: TableDefinition, format: str) -> str | None:
    """Return the folder of the table that exists at the location of a new one; None without one.

    Raises `TableExists` for CREATE TABLE AS SELECT, and `SchemaMismatch` if the statement has other columns.
    """
    assert wanted.location is not None
    location = absolute(wanted.location)
    if format_at(location, Storage({})) is not format_named(format):
        return None
    if wanted.query is not None:
        raise TableExists(f"there is a table at {location}: leave out the query to give it a name")
    found = open_table(location, ReadOptions.parse({"format": format})).scan().spec.snapshot.schema
    given = [(each.name.lower(), type_text(each.type)) for each in definition.columns]
    own = [(each.name.lower(), type_text(each.type)) for each in found.fields]
    if given and given != own:
        raise SchemaMismatch(
            f"the table at {location} has the columns {', '.join(f'{name} {kind}' for name, kind in own)}, and the "
            "statement has others: leave them out, or write the same ones"
        )
    return location


def _definition(wanted: CreateTable, context: StatementContext) -> TableDefinition:
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
        wanted.command,
    )


def _create_in_folder(
    wanted: CreateTable, name: NewName, definition: TableDefinition, chosen: str, context: StatementContext
) -> Table:
    """Create a table that is named by its folder (``delta.`/lake/t` ``) and is in no catalog, and open it.

    `chosen` is its format. Raises `UnsupportedFeature` for OR REPLACE of an Iceberg table, `InvalidStatement` if USING
    names another format than the name, `TableExists`, and `NoSuchTable` (REPLACE TABLE of a missing table).
    """
    if wanted.replaces and not format_named(chosen).is_replaced_by_location:
        raise UnsupportedFeature(
            f"OR REPLACE of a table by its folder ({name.name})", "Give it a name in a catalog, or INSERT OVERWRITE."
        )
    if name.format != chosen:
        raise InvalidStatement(
            f"{name.name} is named as a {name.format} table, but USING names {chosen}: use one format"
        )
    try:
        if wanted.replaces:
            _replace_in_folder(wanted, name, definition, chosen, context)
        elif wanted.query is None:
            format_named(chosen).create_at(name.name, definition, {})
        else:
            create_in_folder(name.name, definition, as_rows(context.rows(wanted.query.text)), format_named(chosen))
    except TableExists:
        if not wanted.if_not_exists:
            raise
    options = ReadOptions.parse({"format": chosen})
    return retry_read(lambda: open_table(name.name, options), f"{name.name} is created, but cannot be opened")


def _replace_in_folder(
    wanted: CreateTable, name: NewName, definition: TableDefinition, chosen: str, context: StatementContext
) -> None:
    """Create or replace a table that is named by its folder; earlier versions stay in the history."""
    format: Any = format_named(chosen)
    is_there = _target_exists(name)
    if not is_there and not wanted.creates:
        raise NoSuchTable(f"{name.name} does not exist: CREATE OR REPLACE TABLE creates it")
    if wanted.query is None:
        (format.replace_at if is_there else format.create_at)(name.name, definition, {})
        return
    rows = as_rows(context.rows(wanted.query.text))
    if not is_there:
        create_in_folder(name.name, definition, rows, format)
        return
    whole = fill_columns(definition, rows, format)
    create_with_rows(format.replacement_at(name.name, whole, WriteOptions(), {}), rows)


def drop_table(wanted: DropTable, context: StatementContext) -> None:
    """Run DROP TABLE; raises `NoSuchTable`, and `UnsupportedFeature` for a table that is named by its folder."""
    name = new_name(wanted.table, context)
    if name.catalog is None:
        raise UnsupportedFeature(f"DROP TABLE of a folder ({name.name})", "Delete the folder.")
    name.catalog.drop_table(name.name, missing_ok=wanted.if_exists, purge=wanted.purge)


def rename_table(wanted: RenameTable, context: StatementContext) -> Table:
    """Run ALTER TABLE ... RENAME TO, and open the table. A new name with one part stays in the table's namespace.

    Raises `UnsupportedFeature` for a table that is named by its folder, and `InvalidStatement` for another catalog.
    """
    old = new_name(wanted.table, context)
    if old.catalog is None:
        raise UnsupportedFeature(f"RENAME TO of a folder ({old.name})", "Move the folder.")
    parts = wanted.new.parts
    if len(parts) == 1:
        within = find_table(wanted.table, context).name
        assert within is not None
        parts = (within.catalog, *within.namespace, parts[0])
    wanted_name = dataclasses.replace(wanted.new, parts=parts)
    return old.catalog.rename_table(old.name, new_name_within(old.catalog, wanted_name, context))


def alter_table(wanted: AlterTable, context: StatementContext) -> AlterResult:
    """Run the changes of ALTER TABLE in one commit."""
    builder = find_table(wanted.table, context).alter()
    for change in wanted.changes:
        builder = builder.with_change(change)
    return builder.commit()


def clone_table(wanted: CreateTable, clone: CloneOf, name: NewName, context: StatementContext) -> Table:
    """Run CREATE or REPLACE TABLE ... SHALLOW CLONE, and open the clone.

    Raises `InvalidStatement` for other clauses than TBLPROPERTIES and LOCATION, `TableExists`, `NoSuchTable`, and the
    errors of `Table.clone`.
    """
    unused = (wanted.format, wanted.partition_by, wanted.order, wanted.cluster_by, wanted.comment, wanted.query)
    if any(unused):
        raise InvalidStatement(
            "a clone has the columns and layout of its source: only TBLPROPERTIES and LOCATION may follow"
        )
    source = find_table(clone.table, context)
    state: dict[str, Any] = {} if clone.state is None else {"timestamp": clone.state.timestamp}
    if clone.state is not None and clone.state.version is not None:
        if not str(clone.state.version).isdecimal():
            raise InvalidStatement(
                f"a clone is of a version by its number, or of a time: {clone.state.version!r} is neither. "
                "Branches and tags cannot be cloned"
            )
        state["version"] = int(clone.state.version)
    if not wanted.creates and not _target_exists(name):
        raise NoSuchTable(f"{name.name} does not exist: CREATE OR REPLACE TABLE creates it")
    if name.catalog is not None:
        return name.catalog.clone_table(
            name.name,
            source,
            properties=wanted.properties,
            location=wanted.location,
            exist_ok=wanted.if_not_exists,
            replace=wanted.replaces,
            **state,
        )
    if wanted.location is not None and wanted.location != name.name:
        raise InvalidStatement(f"the clone is named by its folder, {name.name}: leave LOCATION out")
    is_there = _target_exists(name)
    if is_there and not (wanted.if_not_exists or wanted.replaces):
        raise TableExists(
            f"there is a table at {name.name}: CREATE OR REPLACE TABLE replaces it, CREATE TABLE IF NOT EXISTS keeps it"
        )
    if not is_there or wanted.replaces:
        source.clone(name.name, properties=wanted.properties, replace=wanted.replaces, **state)
    return open_table(name.name, ReadOptions.parse({"format": "delta"}))


def _target_exists(name: NewName) -> bool:
    if name.catalog is not None:
        return name.catalog.table_exists(name.name)
    return format_at(name.name, Storage({})) is not None


# Properties with the locations of a table's files. Two tables with the same folders would delete each other's files.
_PLACES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
    "location",
)


def definition_like(source: Table, given: TableDefinition, format: str) -> TableDefinition:
    """Return the definition of a table like `source`. Clauses of the statement, in `given`, take precedence.

    Columns (with comments, defaults and rules), key, partitioning, sort order, clustering columns, constraints and
    comment come from `source`. Its properties are copied only to a table of the same format.
    """
    schema, declared = source.scan().spec.snapshot.schema, table_declarations(source)
    columns = assign_ids(replace(each, default=each.write_default) for each in schema.fields)
    is_same = source.format == format
    properties = own_properties(source) if is_same else {}
    kept = {name: value for name, value in properties.items() if name not in _PLACES}
    terms = tuple(map(Term.parse, partition_parts(source)))
    order: tuple[SortTerm, ...] = ()
    if source.sort_order != "unsorted":
        order = tuple(map(SortTerm.parse, split_list(source.sort_order, keep_calls=True)))
    return TableDefinition(
        columns,
        schema.identifier_names,
        given.partition_by or tuple(each for each in terms if each.name != "void"),
        given.sort_by or order,
        {**kept, **given.properties},
        given.location,
        source.comment if given.comment is None else given.comment,
        declared.rules,
        given.cluster_by or declared.cluster_by,
        declared.constraints,
    )


def create_ref(wanted: CreateRef, context: StatementContext) -> RefResult:
    """Run CREATE or REPLACE of a branch or tag. Its version may be a snapshot id, or the name of a branch or tag."""
    table = find_table(wanted.table, context)
    at: dict[str, Any] = {"version": wanted.version}
    if isinstance(wanted.version, str):
        at = {"version": int(wanted.version)} if wanted.version.isdecimal() else _ref(table.branches, wanted.version)
    keeps: dict[str, Any] = {"max_ref_age": _age(wanted.max_ref_age_ms)}
    if wanted.kind == "branch":
        keeps["max_snapshot_age"] = _age(wanted.max_snapshot_age_ms)
        keeps["min_snapshots_to_keep"] = wanted.min_snapshots_to_keep
    if not wanted.creates:
        replace = table.replace_branch if wanted.kind == "branch" else table.replace_tag
        return replace(wanted.name, **at, **keeps)
    create = table.create_branch if wanted.kind == "branch" else table.create_tag
    return create(wanted.name, replace=wanted.replaces, if_not_exists=wanted.if_not_exists, **at, **keeps)


def _ref(branches: Any, name: str) -> dict[str, Any]:
    return {"branch": name} if name in branches else {"tag": name}


def _age(milliseconds: int | None) -> timedelta | None:
    return None if milliseconds is None else timedelta(milliseconds=milliseconds)


def drop_ref(wanted: DropRef, context: StatementContext) -> RefResult:
    """Run DROP BRANCH or DROP TAG."""
    table = find_table(wanted.table, context)
    drop = table.drop_branch if wanted.kind == "branch" else table.drop_tag
    return drop(wanted.name, if_exists=wanted.if_exists)


def create_catalog(wanted: CreateCatalog, context: StatementContext) -> None:
    """Run CREATE CATALOG, which registers a catalog in this process. Its properties are pyiceberg's or Flink's.

    Raises `InvalidOption` for a registered name, unless IF NOT EXISTS is set, and `UnsupportedFeature` for Flink's
    `hadoop` catalogs.
    """
    if is_known(wanted.name):
        if wanted.if_not_exists:
            return
        raise InvalidOption(f"the catalog {wanted.name!r} exists already: CREATE CATALOG IF NOT EXISTS keeps it")
    properties = dict(wanted.properties)
    if properties.keys() & {"catalog-type", "catalog-impl"}:  # Flink's properties, whose `type` is `iceberg`
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
    """Run CREATE NAMESPACE; raises `TableExists` if it exists, unless IF NOT EXISTS is set."""
    of, name = namespace(wanted.name, context)
    of.create_namespace(name, exist_ok=wanted.if_not_exists, properties=wanted.properties)


def drop_namespace(wanted: DropNamespace, context: StatementContext) -> None:
    """Run DROP NAMESPACE. CASCADE drops its views and tables first, and does not delete their files."""
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
    """Run COMMENT ON. Returns the result of changing a table, and None for a namespace."""
    if wanted.is_table:
        return find_table(wanted.name, context).alter().set_comment(wanted.comment).commit()
    of, name = namespace(wanted.name.parts, context)
    if wanted.comment is None:
        of.update_namespace(name, {}, removed=("comment",))
    else:
        of.update_namespace(name, {"comment": wanted.comment})
    return None
