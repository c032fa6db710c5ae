"""Targets by identifier or path, made where they are not there."""

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
from lakescan.storage.storage import Storage, join
from lakescan.transaction.base import Target
from lakescan.transaction.delta import DeltaTarget
from lakescan.transaction.iceberg import IcebergTarget


def exists(path: str, storage_options: Mapping[str, Any]) -> bool:
    """Whether there is a table."""
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
    """The table at a path, or with an identifier; made with the columns of `rows` where it is not there.

    Raises `UnsupportedFeature` for an Iceberg table by its path: commits go through a catalog.
    """
    identifier = identifier_of(path)
    if identifier is not None:
        return _by_name(identifier, format, options, rows)
    storage = Storage(storage_options)
    is_delta = storage.exists(join(path, LOG_FOLDER))
    if not is_delta and (format == "iceberg" or storage.exists(join(path, "metadata"))):
        raise UnsupportedFeature(
            f"writing to an Iceberg table by its location ({path})",
            "Commits go through a catalog: name it catalog.namespace.table, see lakescan.catalog.",
        )
    said = WriteOptions.of(options, "delta")
    if not is_delta:
        if format is None:
            raise InvalidOption(f"{path} is no table yet: say which it is to be with format='delta', or a name")
        _made(lambda: create_delta(path, _definition(rows, said, "delta"), storage_options))
    return DeltaTarget.open(path, said, storage), said


def _by_name(
    identifier: Identifier, format: str | None, options: Mapping[str, Any], rows: pa.Schema
) -> tuple[Target, WriteOptions]:
    try:
        found = find(identifier)
    except NotATable:
        name = format or "iceberg"
        definition = _definition(rows, WriteOptions.of(options, name), name)
        _made(lambda: create_named(connection(identifier.catalog), identifier, definition, name))
        found = find(identifier)
    if format not in (None, found.format):
        raise InvalidOption(f"{identifier} is of format {found.format}, not {format}")
    said = WriteOptions.of(options, found.format)
    storage = Storage(io_properties=found.io_properties)
    if found.format == "delta":
        return DeltaTarget.open(found.location, said, storage), said
    return IcebergTarget.open(identifier, said, storage), said


def _made(make: Any) -> None:
    """Another writer may have made the table meanwhile: then it is there."""
    try:
        make()
    except TableExists:
        return


def _definition(rows: pa.Schema, options: WriteOptions, format: str) -> TableDefinition:
    said = options.table_properties
    columns = delta_columns(rows) if format == "delta" else iceberg_columns(rows, format_version(said))
    terms = tuple(map(Term.parse, options.partition_by))
    return TableDefinition(numbered(columns), partition_by=terms, properties=said)
