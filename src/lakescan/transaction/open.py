"""Open the target of a write by identifier or path; create the table if it does not exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from lakescan.catalogs.identifiers import Identifier
from lakescan.catalogs.lookup import find, identifier_of
from lakescan.catalogs.registry import connection
from lakescan.definition.table_definition import TableDefinition, Term, numbered
from lakescan.errors import InvalidOption, NotATable, TableExists
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from lakescan.transaction.base import Format, Target
from lakescan.transaction.formats import DEFAULT, format_at, format_named


def exists(path: str, storage_options: Mapping[str, Any]) -> bool:
    """Whether a table that can be written to has the name, or is in the folder."""
    identifier = identifier_of(path)
    if identifier is None:
        found = format_at(path, Storage(storage_options))
        return found is not None and found.is_written_by_location
    try:
        find(identifier)
    except NotATable:
        return False
    return True


def open_target(
    path: str, format: str | None, options: WriteOptions, storage_options: Mapping[str, Any], rows: pa.Schema
) -> Target:
    """Open the table at a path or with an identifier; create it with the columns of `rows` if it does not exist.

    Raises `UnsupportedFeature` for an Iceberg table given by path, since commits go through a catalog, and
    `InvalidOption` if `format` is needed or contradicts the table.
    """
    wanted = None if format is None else format_named(format)
    identifier = identifier_of(path)
    if identifier is not None:
        return _by_name(identifier, wanted, options, rows)
    storage = Storage(storage_options)
    found = format_at(path, storage)
    if found is None:
        if wanted is None:
            raise InvalidOption(f"there is no table at {path}: pass format='delta' to create one, or a catalog name")
        options.check_format(wanted.name)
        new = _definition(rows, options, wanted)
        _create(lambda: wanted.create_at(path, new, storage_options))
    chosen = found or wanted
    assert chosen is not None
    options.check_format(chosen.name)
    target = chosen.open_target(path, None, options, storage)
    _check_format(path, chosen, wanted)
    return target


def _by_name(identifier: Identifier, wanted: Format | None, options: WriteOptions, rows: pa.Schema) -> Target:
    try:
        entry = find(identifier)
    except NotATable:
        new = wanted or format_named(DEFAULT)
        options.check_format(new.name)
        definition = _definition(rows, options, new)
        _create(lambda: new.create(connection(identifier.catalog), identifier, definition))
        entry = find(identifier)
    found = format_named(entry.format)
    _check_format(str(identifier), found, wanted)
    options.check_format(found.name)
    storage = Storage(io_properties=entry.io_properties)
    return found.open_target(entry.location, identifier, options, storage)


def _check_format(table: str, found: Format, wanted: Format | None) -> None:
    if wanted is not None and wanted is not found:
        raise InvalidOption(f"{table} is a table of format {found.name}, not {wanted.name}")


def _create(create: Callable[[], None]) -> None:
    """Create a table, unless another writer created it at the same time."""
    try:
        create()
    except TableExists:
        return


def _definition(rows: pa.Schema, options: WriteOptions, format: Format) -> TableDefinition:
    properties = options.table_properties
    terms = tuple(map(Term.parse, options.partition_by))
    return TableDefinition(numbered(format.columns(rows, properties)), partition_by=terms, properties=properties)
