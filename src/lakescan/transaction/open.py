"""Open the target of a write by identifier or path; create the table if it does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lakescan.catalogs.create import create_delta, create_named
from lakescan.catalogs.identifiers import Identifier
from lakescan.catalogs.lookup import find, identifier_of
from lakescan.catalogs.registry import connection
from lakescan.definition.from_rows import delta_columns, iceberg_columns
from lakescan.definition.table_definition import TableDefinition, Term, numbered
from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.errors import InvalidOption, NotATable, TableExists, UnsupportedFeature
from lakescan.iceberg.write.create import format_version
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage, join
from lakescan.transaction.base import Target
from lakescan.transaction.delta import DeltaTarget
from lakescan.transaction.iceberg import IcebergTarget


def exists(path: str, storage_options: Mapping[str, Any]) -> bool:
    """Whether the table exists."""
    identifier = identifier_of(path)
    if identifier is None:
        return Storage(storage_options).exists(join(path, LOG_FOLDER))
    try:
        find(identifier)
    except NotATable:
        return False
    return True


def open_target(
    path: str, format: str | None, options: Mapping[str, Any], storage_options: Mapping[str, Any], rows: pa.Schema
) -> tuple[Target, WriteOptions]:
    """Open the table at a path or with an identifier; create it with the columns of `rows` if it does not exist.

    Raises `UnsupportedFeature` for an Iceberg table given by path, since commits go through a catalog, and
    `InvalidOption` if `format` is needed or contradicts the table.
    """
    identifier = identifier_of(path)
    if identifier is not None:
        return _by_name(identifier, format, options, rows)
    storage = Storage(storage_options)
    is_delta = storage.exists(join(path, LOG_FOLDER))
    if not is_delta and (format == "iceberg" or storage.exists(join(path, "metadata"))):
        raise UnsupportedFeature(
            f"writing to an Iceberg table by its location ({path})",
            "Commits go through a catalog: use the name catalog.namespace.table, see lakescan.catalog.",
        )
    write_options = WriteOptions.of(options, "delta")
    if not is_delta:
        if format is None:
            raise InvalidOption(f"there is no table at {path}: pass format='delta' to create one, or a catalog name")
        _create(lambda: create_delta(path, _definition(rows, write_options, "delta"), storage_options))
    return DeltaTarget.open(path, write_options, storage), write_options


def _by_name(
    identifier: Identifier, format: str | None, options: Mapping[str, Any], rows: pa.Schema
) -> tuple[Target, WriteOptions]:
    try:
        entry = find(identifier)
    except NotATable:
        name = format or "iceberg"
        definition = _definition(rows, WriteOptions.of(options, name), name)
        _create(lambda: create_named(connection(identifier.catalog), identifier, definition, name))
        entry = find(identifier)
    if format not in (None, entry.format):
        raise InvalidOption(f"{identifier} is a table of format {entry.format}, not {format}")
    write_options = WriteOptions.of(options, entry.format)
    storage = Storage(io_properties=entry.io_properties)
    if entry.format == "delta":
        return DeltaTarget.open(entry.location, write_options, storage), write_options
    return IcebergTarget.open(identifier, write_options, storage), write_options


def _create(create: Any) -> None:
    """Create a table, unless another writer created it at the same time."""
    try:
        create()
    except TableExists:
        return


def _definition(rows: pa.Schema, options: WriteOptions, format: str) -> TableDefinition:
    properties = options.table_properties
    columns = delta_columns(rows) if format == "delta" else iceberg_columns(rows, format_version(properties))
    terms = tuple(map(Term.parse, options.partition_by))
    return TableDefinition(numbered(columns), partition_by=terms, properties=properties)
