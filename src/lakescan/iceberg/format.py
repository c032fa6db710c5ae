"""Iceberg as a format: how its tables are found, opened, created and written to.

What opens, creates or writes is imported by the method that needs it: reading a table imports nothing that writes.
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
    """Iceberg tables are names in a catalog, or folders that no catalog owns; metadata files can be read."""

    name = "iceberg"
    marker: str = f"{_FOLDER}/ (Iceberg)"
    is_written_by_location = True

    def is_metadata_file(self, location: str) -> bool:
        """Whether the location names a metadata JSON."""
        return is_metadata_file(location)

    def is_at(self, location: str, storage: Storage) -> bool:
        """Whether the folder has a metadata folder."""
        return storage.exists(join(location, _FOLDER))

    def find(self, path: str, storage: Storage, options: ReadOptions) -> TablePath | None:
        """The table in a folder."""
        return self.at(path, storage, options) if self.is_at(path, storage) else None

    def at(self, path: str, storage: Storage, options: ReadOptions) -> TablePath:
        """The path as it is given."""
        return TablePath(path)

    def open(self, path: TablePath, storage: Storage, options: ReadOptions) -> ScanSpec:
        """A scan of the table's newest metadata, or of one metadata file."""
        from lakescan.iceberg.table import IcebergTable

        return ScanSpec(IcebergTable.open(path.location, storage), storage, path.location, options)

    def open_named(self, name: Identifier, found: CatalogTable, storage: Storage, options: ReadOptions) -> ScanSpec:
        """A scan of the table that the catalog names; refreshed by asking the catalog."""
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
        """The committer's table; raises `UnsupportedFeature` for one in a folder that a catalog owns."""
        from lakescan.iceberg.table import IcebergTable
        from lakescan.iceberg.target import IcebergTarget

        if committer.identifier.is_path:
            from lakescan.iceberg.commit.hadoop_table_operations import VersionFiles

            VersionFiles(location, storage).check_owner()
        metadata = known.metadata if isinstance(known, IcebergTable) else None
        return IcebergTarget.open(committer, options, storage, metadata)

    def columns(self, rows: pa.Schema, properties: Mapping[str, str]) -> tuple[Field, ...]:
        """Columns of the types of the format version in `properties`."""
        from lakescan.definition.arrow_schema import iceberg_columns
        from lakescan.iceberg.metadata.format_versions import chosen_version

        return iceberg_columns(rows, nanoseconds=chosen_version(properties).nanoseconds)

    def create(self, committer: TableCreator, definition: TableDefinition) -> None:
        """Create a table in the catalog."""
        from lakescan.iceberg.commit.create_table import create_table

        create_table(committer, definition)

    def create_at(self, location: str, definition: TableDefinition, storage_options: Mapping[str, Any]) -> None:
        """Raise `UnsupportedFeature`: a table is created in a catalog."""
        raise _needs_a_name(location)

    def replace(self, committer: TableCreator, found: CatalogTable, definition: TableDefinition) -> None:
        """Replace columns, partition spec, properties and rows in one commit; earlier snapshots stay."""
        from lakescan.iceberg.commit.create_table import commit_replacement, replacement_of

        commit_replacement(committer, replacement_of(committer, definition, {}))

    def new_table(self, committer: TableCreator, definition: TableDefinition, options: WriteOptions) -> NewIcebergTable:
        """A table that the catalog has only once it is committed."""
        from lakescan.iceberg.commit.create_table import stage_new_table
        from lakescan.iceberg.commit.create_table_as_select import NewIcebergTable

        return NewIcebergTable.create(committer, stage_new_table(committer, definition), options)

    def new_table_at(
        self, location: str, definition: TableDefinition, options: WriteOptions, storage_options: Mapping[str, Any]
    ) -> NewIcebergTable:
        """Raise `UnsupportedFeature`: a table is created in a catalog."""
        raise _needs_a_name(location)

    def replacement(
        self, committer: TableCreator, found: CatalogTable, definition: TableDefinition, options: WriteOptions
    ) -> ReplacedIcebergTable:
        """What replaces columns, partition spec, sort order, properties and rows in one commit."""
        from lakescan.iceberg.commit.create_table import replacement_of
        from lakescan.iceberg.commit.create_table_as_select import ReplacedIcebergTable
        from lakescan.iceberg.commit.row_level_operations import staged_options, summary_properties
        from lakescan.iceberg.metadata.table_metadata import MAIN

        name = committer.identifier
        replacement = replacement_of(committer, definition, summary_properties(options))
        staged = staged_options(options, replacement.metadata.properties, str(name))
        if staged.is_staged or staged.branch != MAIN:
            raise UnsupportedFeature(
                f"replacing {name} by rows that are staged (wap-id, wap-branch, and the session's settings for them)",
                "The columns of all branches are replaced at once: overwrite its rows (Table.overwrite), which are "
                "staged, or replace it without write.wap.enabled.",
            )
        return ReplacedIcebergTable(committer, replacement, options)

    def declarations(self, scan: ScanSpec) -> TableDeclarations:
        """Nothing: columns have all of it."""
        return TableDeclarations()

    def register(self, committer: TableCreator, scan: ScanSpec) -> None:
        """Register the metadata file that the scan reads."""
        from lakescan.iceberg.maintenance.tables_in_folder import warn_of_copy
        from lakescan.iceberg.table import IcebergTable

        location = scan.to_options()["path"]
        committer.register_metadata(location, scan.storage.read(location))
        with suppress(LakescanError):  # the table is registered, whether or not the store answers here
            warn_of_copy(IcebergTable.open(location, scan.storage), f"{committer.identifier} was registered from")


def _needs_a_name(location: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"creating an Iceberg table by its location ({location})",
        "Commits go through a catalog: use the name catalog.namespace.table (see lakescan.catalog). A catalog of type "
        "hadoop is a folder, its warehouse, and tables that it has are also written by their folders.",
    )
