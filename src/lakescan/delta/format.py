"""Delta as a table format: find, open, create and write to its tables.

Methods import the modules that open, create or write, so reading a table does not import the writer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from lakescan.common.identifiers import Identifier
from lakescan.common.types import Field
from lakescan.definition.table_definition import TableDeclarations, TableDefinition
from lakescan.delta.log.segment import LOG_FOLDER
from lakescan.delta.scan.partition_values import NULL_PARTITION
from lakescan.errors import InvalidOption
from lakescan.formats.table_format import SnapshotSelector, TableFormat, TablePath
from lakescan.options.read import ReadOptions
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage, join
from lakescan.storage.errors import storage_boundary
from lakescan.storage.locations import absolute
from lakescan.tables.base import CatalogTable
from lakescan.tables.committer import Committer, TableCreator
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    from lakescan.delta.commit.create_with_rows import NewDeltaTable, ReplacedDeltaTable
    from lakescan.delta.target import DeltaTarget


class DeltaFormat:
    """The Delta format; a table is identified by its folder, which a SQL catalog may register under a name."""

    name = "delta"
    marker: str = f"{LOG_FOLDER}/ (Delta)"
    is_written_by_location = True
    is_replaced_by_location = True
    takes_catalog_defaults = False

    def is_metadata_file(self, location: str) -> bool:
        """Always False: a Delta table is opened by its folder, not by a log file."""
        return False

    def is_at(self, location: str, storage: Storage) -> bool:
        """Return whether the folder has a Delta log.

        On local disks and HDFS, the log folder must have a visible file: an interrupted table creation may leave it
        empty or with a hidden draft file.
        """
        folder = join(location, LOG_FOLDER)
        if storage.resolve(folder)[0].type_name not in ("local", "hdfs"):
            return storage.exists(folder)
        if (path := storage.local_path(folder)) is None:
            files, folders = storage.entries(folder)
            names = [*(each.name for each in files), *(each.rstrip("/").rpartition("/")[2] for each in folders)]
            return any(not name.startswith(".") for name in names)
        with (
            storage_boundary("looked up", folder),
            suppress(FileNotFoundError, NotADirectoryError),
            os.scandir(path) as found,
        ):
            return any(not each.name.startswith(".") for each in found)
        return False

    def find(self, path: str, storage: Storage, options: ReadOptions) -> TablePath | None:
        """Return the table that a path names, with any version, time or partition that it selects.

        None if no folder in the path has a log. Raises `InvalidOption` for a malformed timestamp.
        """
        return resolve_path(path, storage, options.time_zone)

    def at(self, path: str, storage: Storage, options: ReadOptions) -> TablePath:
        """Return the result of `find`, or the path itself as the table's folder."""
        return self.find(path, storage, options) or TablePath(path.rstrip("/") or path)

    def open(self, path: TablePath, storage: Storage, options: ReadOptions) -> ScanSpec:
        """Return a scan of the table, version and partitions that the path selects; raises `NotATable`."""
        from lakescan.delta.table import DeltaTable

        table = DeltaTable.open(path.location, storage)
        predicate = table.partition_filter(path.partitions)
        return ScanSpec(table, storage, path.location, options, predicate, selector=path.selector)

    def open_named(self, name: Identifier, found: CatalogTable, storage: Storage, options: ReadOptions) -> ScanSpec:
        """Return a scan of the table in the folder that the catalog records."""
        from lakescan.delta.table import DeltaTable

        return ScanSpec(DeltaTable.open(found.location, storage), storage, found.location, options)

    def open_target(
        self,
        location: str,
        committer: Committer,
        options: WriteOptions,
        storage: Storage,
        known: TableFormat | None = None,
    ) -> DeltaTarget:
        """Open the table in the folder for writing; raises `NotATable`.

        `committer` only provides the table's name, and `known` is ignored.
        """
        from lakescan.delta.target import DeltaTarget

        name = committer.identifier
        return DeltaTarget.open(location, options, storage.request_write_access(), None if name.is_path else name)

    def columns(self, rows: pa.Schema, properties: Mapping[str, str]) -> tuple[Field, ...]:
        """Return columns of Delta types for rows with this Arrow schema; `properties` are ignored."""
        from lakescan.definition.arrow_schema import delta_columns

        return delta_columns(rows)

    def create(self, committer: TableCreator, definition: TableDefinition) -> None:
        """Create an empty table at its location or under the catalog's warehouse, and register its name."""
        from lakescan.delta.commit.creation import create_named_table

        create_named_table(committer, definition)

    def create_at(self, location: str, definition: TableDefinition, storage_options: Mapping[str, Any]) -> None:
        """Create an empty table in a folder; raises `CreatedConcurrently` if it has a table."""
        from lakescan.delta.commit.creation import create_table

        create_table(absolute(location), definition, Storage(storage_options))

    def replace_at(self, location: str, definition: TableDefinition, storage_options: Mapping[str, Any]) -> None:
        """Replace the table in a folder by an empty one, or create it; earlier versions stay in the history."""
        from lakescan.delta.commit.creation import replace_table

        replace_table(absolute(location), definition, Storage(storage_options))

    def replace(self, committer: TableCreator, found: CatalogTable, definition: TableDefinition) -> None:
        """Replace the table in its folder by an empty one."""
        from lakescan.delta.commit.creation import replace_table

        replace_table(found.location, definition, found.storage().request_write_access())

    def new_table(self, committer: TableCreator, definition: TableDefinition, options: WriteOptions) -> NewDeltaTable:
        """Return a table to be created with rows; its commit registers the name in the catalog."""
        from lakescan.delta.commit.create_with_rows import NewDeltaTable
        from lakescan.delta.commit.creation import new_table_at

        place = committer.place_table(definition.location)
        new = new_table_at(place, definition, str(committer.identifier))
        return NewDeltaTable(place.location, new, options, place.storage, committer)

    def new_table_at(
        self, location: str, definition: TableDefinition, options: WriteOptions, storage_options: Mapping[str, Any]
    ) -> NewDeltaTable:
        """Return a table to be created with rows in a folder."""
        from lakescan.delta.commit.create_with_rows import NewDeltaTable
        from lakescan.delta.commit.creation import new_table

        return NewDeltaTable(absolute(location), new_table(definition), options, Storage(storage_options))

    def replacement_at(
        self, location: str, definition: TableDefinition, options: WriteOptions, storage_options: Mapping[str, Any]
    ) -> ReplacedDeltaTable:
        """Return a table to be committed with rows; it replaces the table in a folder."""
        from lakescan.delta.commit.create_with_rows import ReplacedDeltaTable
        from lakescan.delta.commit.creation import new_table, replaceable_version

        storage = Storage(storage_options)
        base = replaceable_version(absolute(location), storage)
        return ReplacedDeltaTable(base, new_table(definition), options, storage)

    def replacement(
        self, committer: TableCreator, found: CatalogTable, definition: TableDefinition, options: WriteOptions
    ) -> ReplacedDeltaTable:
        """Return a table to be committed with rows; it replaces the table in the folder that the catalog records."""
        from lakescan.delta.commit.create_with_rows import ReplacedDeltaTable
        from lakescan.delta.commit.creation import new_table, replaceable_version

        storage = found.storage().request_write_access()
        return ReplacedDeltaTable(replaceable_version(found.location, storage), new_table(definition), options, storage)

    def declarations(self, scan: ScanSpec) -> TableDeclarations:
        """Return the column rules, clustering columns and constraints that the table declares."""
        from lakescan.delta.commit.creation import declarations_of
        from lakescan.delta.table import DeltaTable

        return declarations_of(DeltaTable.version_of(scan.snapshot), scan.storage)

    def register(self, committer: TableCreator, scan: ScanSpec) -> None:
        """Register the table's folder under a name in the catalog."""
        committer.register_folder(scan.location)


# The syntax is Delta's own: `/t@v3`, `/t@20260131120000000` and `/t/date=2026-01-31`.

_VERSION = re.compile(r"(.+)@[vV](\d{1,19})")
_TIME = re.compile(r"(.+)@(\d{17})")  # yyyyMMddHHmmssSSS
_PARTITION = re.compile(r"(.+)/([^/=]+)=([^/]*)")


def resolve_path(path: str, storage: Storage, zone: tzinfo) -> TablePath | None:
    """Parse a path that may select a version, a time or partitions; timestamps are in `zone`.

    A path that is itself a table's folder is not parsed further. Returns None if no folder in the path has a log; each
    folder is checked once. Raises `InvalidOption` for a malformed timestamp.
    """
    path = path.rstrip("/") or path
    if _is_table(path, storage):
        return TablePath(path)
    location, selector = _parse_selector(path, zone)
    partitions: list[tuple[str, str | None]] = []
    while True:
        if location != path and _is_table(location, storage):
            return TablePath(location, selector, tuple(partitions))
        if (part := _PARTITION.fullmatch(location)) is None:
            return None
        location, value = part[1], unquote(part[3])
        partitions.insert(0, (unquote(part[2]), None if value in (NULL_PARTITION, "") else value))


def _is_table(path: str, storage: Storage) -> bool:
    return storage.exists(join(path, LOG_FOLDER))


def _parse_selector(path: str, zone: tzinfo) -> tuple[str, SnapshotSelector | None]:
    if match := _VERSION.fullmatch(path):
        return match[1], SnapshotSelector(version=int(match[2]))
    if match := _TIME.fullmatch(path):
        try:
            timestamp = datetime.strptime(match[2][:14], "%Y%m%d%H%M%S").replace(tzinfo=zone)
        except ValueError as error:
            raise InvalidOption(f"{path}: {match[2]} is not a timestamp; write it as yyyyMMddHHmmssSSS") from error
        return match[1], SnapshotSelector(timestamp=timestamp.replace(microsecond=int(match[2][14:]) * 1000))
    return path, None
