"""Iceberg's `TableFormat` entry points: find, open, create and write Iceberg tables.

The modules that open, create or write are imported inside the methods, so that reading a table imports no write code.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.common.identifiers import Identifier
from lakescan.common.types import Field
from lakescan.definition.table_definition import TableDeclarations, TableDefinition
from lakescan.errors import LakescanError, UnsupportedFeature
from lakescan.formats.table_format import TableFormat, TablePath
from lakescan.iceberg.metadata.metadata_location import is_metadata_file
from lakescan.options.read import ReadOptions
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage, join
from lakescan.tables.base import CatalogTable
from lakescan.tables.committer import Committer, TableCreator
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    from lakescan.iceberg.commit.create_table_as_select import NewIcebergTable, ReplacedIcebergTable
    from lakescan.iceberg.target import IcebergTarget

_FOLDER = "metadata"


class IcebergFormat:
    """Iceberg tables: named in a catalog, stored in a folder without a catalog, or opened by a metadata file.

    `marker` describes the folder that identifies an Iceberg table, for messages.
    """

    name = "iceberg"
    marker: str = f"{_FOLDER}/ (Iceberg)"
    is_written_by_location = True
    is_replaced_by_location = False
    takes_catalog_defaults = True

    def is_metadata_file(self, location: str) -> bool:
        """Return whether a location names a metadata JSON file."""
        return is_metadata_file(location)

    def is_at(self, location: str, storage: Storage) -> bool:
        """Return whether the folder `location` contains a `metadata` folder."""
        return storage.exists(join(location, _FOLDER))

    def find(self, path: str, storage: Storage, options: ReadOptions) -> TablePath | None:
        """Return the path of the Iceberg table in a folder, or None if the folder has no `metadata` folder."""
        return self.at(path, storage, options) if self.is_at(path, storage) else None

    def at(self, path: str, storage: Storage, options: ReadOptions) -> TablePath:
        """Return the path unchanged: in Iceberg, no part of it selects a partition or version."""
        return TablePath(path)

    def open(self, path: TablePath, storage: Storage, options: ReadOptions) -> ScanSpec:
        """Open a table folder at its newest metadata, or one metadata file, and return a scan of it."""
        from lakescan.iceberg.table import IcebergTable

        return ScanSpec(IcebergTable.open(path.location, storage), storage, path.location, options)

    def open_named(self, name: Identifier, found: CatalogTable, storage: Storage, options: ReadOptions) -> ScanSpec:
        """Return a scan of a table that a catalog found; refreshing the scan asks the catalog again."""
        from lakescan.iceberg.table import IcebergTable

        table = IcebergTable.load(found.source, storage, found.location)
        return ScanSpec(table, storage, str(name), options)

    def open_target(
        self,
        location: str,
        committer: Committer,
        options: WriteOptions,
        storage: Storage,
        known: TableFormat | None = None,
    ) -> IcebergTarget:
        """Return the committer's table as a write target.

        `known` is the table if it has been read already; its parsed metadata is reused. Raises `UnsupportedFeature` for
        a table that is addressed by its folder although a catalog owns it.
        """
        from lakescan.iceberg.table import IcebergTable
        from lakescan.iceberg.target import IcebergTarget

        if committer.identifier.is_path:
            from lakescan.iceberg.commit.hadoop_table_operations import VersionFiles

            VersionFiles(location, storage).check_owner()
        metadata = known.metadata if isinstance(known, IcebergTable) else None
        return IcebergTarget.open(committer, options, storage, metadata)

    def columns(self, rows: pa.Schema, properties: Mapping[str, str]) -> tuple[Field, ...]:
        """Convert an Arrow schema to table columns, using the types of the format version that `properties` select."""
        from lakescan.definition.arrow_schema import iceberg_columns
        from lakescan.iceberg.metadata.format_versions import chosen_version

        return iceberg_columns(rows, nanoseconds=chosen_version(properties).nanoseconds)

    def create(self, committer: TableCreator, definition: TableDefinition) -> None:
        """Create a table without rows in the catalog; see `create_table` for the errors."""
        from lakescan.iceberg.commit.create_table import create_table

        create_table(committer, definition)

    def create_at(self, location: str, definition: TableDefinition, storage_options: Mapping[str, Any]) -> None:
        """Raise `UnsupportedFeature`: Iceberg tables are created in a catalog, not by location."""
        raise _needs_a_name(location)

    def replace(self, committer: TableCreator, found: CatalogTable, definition: TableDefinition) -> None:
        """Replace the table with an empty one of this definition, in one commit; earlier snapshots stay."""
        from lakescan.iceberg.commit.create_table import commit_replacement, replacement_of

        commit_replacement(committer, replacement_of(committer, definition, {}))

    def new_table(self, committer: TableCreator, definition: TableDefinition, options: WriteOptions) -> NewIcebergTable:
        """Return a new table to write rows to, which appears in the catalog only when it is committed."""
        from lakescan.iceberg.commit.create_table import stage_new_table
        from lakescan.iceberg.commit.create_table_as_select import NewIcebergTable

        return NewIcebergTable.create(committer, stage_new_table(committer, definition), options)

    def new_table_at(
        self, location: str, definition: TableDefinition, options: WriteOptions, storage_options: Mapping[str, Any]
    ) -> NewIcebergTable:
        """Raise `UnsupportedFeature`: Iceberg tables are created in a catalog, not by location."""
        raise _needs_a_name(location)

    def replacement(
        self, committer: TableCreator, found: CatalogTable, definition: TableDefinition, options: WriteOptions
    ) -> ReplacedIcebergTable:
        """Return a target that replaces columns, partition spec, sort order, properties and rows in one commit.

        Raises `UnsupportedFeature` if the write is staged (write-audit-publish) or goes to a branch other than `main`.
        """
        from lakescan.iceberg.commit.create_table import replacement_of
        from lakescan.iceberg.commit.create_table_as_select import ReplacedIcebergTable
        from lakescan.iceberg.commit.row_level_operations import staged_options, summary_properties
        from lakescan.iceberg.metadata.table_metadata import MAIN

        name = committer.identifier
        replacement = replacement_of(committer, definition, summary_properties(options))
        staged = staged_options(options, replacement.metadata.properties, str(name))
        if staged.is_staged or staged.branch != MAIN:
            raise UnsupportedFeature(
                f"replacing {name} by rows that are staged (wap-id, wap-branch, or the session settings for them)",
                "A replacement changes the columns of all branches at once. Overwrite the rows instead "
                "(Table.overwrite), which can be staged, or replace the table without write.wap.enabled.",
            )
        return ReplacedIcebergTable(committer, replacement, options)

    def declarations(self, scan: ScanSpec) -> TableDeclarations:
        """Return empty declarations: Iceberg columns carry all of their attributes themselves."""
        return TableDeclarations()

    def register(self, committer: TableCreator, scan: ScanSpec) -> None:
        """Register in the catalog the metadata file that the scan reads; warn if the table looks like a copy."""
        from lakescan.iceberg.maintenance.tables_in_folder import warn_of_copy
        from lakescan.iceberg.table import IcebergTable

        location = scan.to_options()["path"]
        committer.register_metadata(location, scan.storage.read(location))
        with suppress(LakescanError):  # the table is registered even if the storage fails here
            warn_of_copy(IcebergTable.open(location, scan.storage), f"{committer.identifier} was registered from")


def _needs_a_name(location: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"creating an Iceberg table by its location ({location})",
        "Commits go through a catalog: use the name catalog.namespace.table (see lakescan.catalog). Existing tables in "
        "the warehouse folder of a hadoop catalog can also be written by their folders.",
    )
