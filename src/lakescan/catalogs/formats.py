"""The table formats by name (`delta`, `iceberg`), and opening of tables for writes.

Users and catalogs name the format of a table. A folder's format follows from its metadata. Only this module lists the
formats and compares their names: everything else uses `Format` objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakescan.catalogs.committer import CatalogCommitter, committer_of
from lakescan.catalogs.lookup import find_table, identifier_of
from lakescan.common.identifiers import Identifier
from lakescan.definition.table_definition import TableDefinition, Term, assign_ids
from lakescan.delta.format import DeltaFormat
from lakescan.errors import InvalidOption, IsAView, NotATable
from lakescan.iceberg.format import IcebergFormat
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from lakescan.storage.locations import absolute
from lakescan.tables.base import Format, NewTable, Target

# The order in which a folder's format is detected.
FORMATS: Mapping[str, Format] = {each.name: each for each in (DeltaFormat(), IcebergFormat())}
DEFAULT = "iceberg"  # the format of new tables in a catalog


def format_named(name: str) -> Format:
    """Return the format called "delta" or "iceberg" (case-insensitive); raises `InvalidOption` for other names."""
    if (known := FORMATS.get(name.lower() if isinstance(name, str) else "")) is None:
        raise InvalidOption(f"format {name!r} is unknown: use {' or '.join(map(repr, sorted(FORMATS, reverse=True)))}")
    return known


def format_at(location: str, storage: Storage) -> Format | None:
    """Return the format of the table in a folder, by its metadata; None if the folder has no table."""
    return next((each for each in FORMATS.values() if each.is_at(location, storage)), None)


def exists(path: str, storage_options: Mapping[str, Any]) -> bool:
    """Return whether the identifier or folder `path` has a Delta or Iceberg table. False for a view."""
    identifier = identifier_of(path)
    if identifier is None:
        found = format_at(absolute(path), Storage(storage_options))
        return found is not None and found.is_written_by_location
    try:
        find_table(identifier)
    except NotATable:
        return False
    return True


def open_target(path: str, format: str | None, options: WriteOptions, storage_options: Mapping[str, Any]) -> Target:
    """Open the table in a folder or with an identifier for a write; raises `NotATable` if it is missing.

    See `existing_target` for the other parameters and errors.
    """
    target = existing_target(path, format, options, storage_options)
    if target is None:
        raise NotATable(f"there is no table {path}")
    return target


def existing_target(
    path: str, format: str | None, options: WriteOptions, storage_options: Mapping[str, Any]
) -> Target | None:
    """Open the table in a folder or with an identifier for a write, or return None if it does not exist.

    Raises `UnsupportedFeature` for an Iceberg table that is addressed by its folder although a catalog owns it,
    `IsAView`, and `InvalidOption` if `format` or an option contradicts the table's format.
    """
    wanted = None if format is None else format_named(format)
    identifier = identifier_of(path)
    if identifier is not None:
        return _find_target(identifier, wanted, options)
    path, storage = absolute(path), Storage(storage_options)
    found = format_at(path, storage)
    if found is None:
        return None
    options.check_format(found.name)
    storage.allowed = storage.allowed.at(path, None)
    target = found.open_target(path, committer_of(None, path, storage), options, storage)
    _check_format(path, found, wanted)
    return target


def new_table(
    path: str, format: str | None, options: WriteOptions, storage_options: Mapping[str, Any], rows: pa.Schema
) -> NewTable:
    """Define the table that a write creates in a folder or with an identifier, with the columns of `rows`.

    Without `format`, a table with an identifier is an Iceberg table, and a folder raises `InvalidOption`. Raises
    `CreatedConcurrently` if the table exists already, and the errors of `WriteOptions.check_new_table`.
    """
    identifier = identifier_of(path)
    if format is None and identifier is None:
        raise InvalidOption(f"there is no table at {path}: pass format='delta' to create one, or a catalog name")
    chosen = format_named(format or DEFAULT)
    options.check_format(chosen.name)
    definition = _definition(rows, options, chosen)
    options.check_new_table()
    if identifier is None:
        return chosen.new_table_at(absolute(path), definition, options, storage_options)
    return chosen.new_table(CatalogCommitter(identifier), definition, options)


def _find_target(identifier: Identifier, wanted: Format | None, options: WriteOptions) -> Target | None:
    try:
        entry = find_table(identifier)
    except IsAView:
        raise
    except NotATable:
        return None
    found = format_named(entry.format)
    _check_format(str(identifier), found, wanted)
    options.check_format(found.name)
    storage = entry.storage()
    return found.open_target(entry.location, CatalogCommitter(identifier), options, storage)


def _check_format(table: str, found: Format, wanted: Format | None) -> None:
    if wanted is not None and wanted is not found:
        raise InvalidOption(f"{table} is a table of format {found.name}, not {wanted.name}")


def _definition(rows: pa.Schema, options: WriteOptions, format: Format) -> TableDefinition:
    properties = options.table_properties
    terms = tuple(map(Term.parse, options.partition_by))
    return TableDefinition(assign_ids(format.columns(rows, properties)), partition_by=terms, properties=properties)
