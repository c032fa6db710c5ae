"""Create or replace Iceberg tables together with their rows (see `lakescan.tables.write_rows`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.common.schema import FieldMatching
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.iceberg.commit.add_files import ForeignFiles, as_data_files, spec_for
from lakescan.iceberg.commit.create_table import commit_replacement
from lakescan.iceberg.commit.outcomes import reload_table
from lakescan.iceberg.commit.reachable_files import files_since
from lakescan.iceberg.commit.row_level_operations import staged_options, summary_properties
from lakescan.iceberg.commit.staged_table import TableReplacement, commit_new_table, current_table_files
from lakescan.iceberg.data_files.table_writes import IcebergWrites
from lakescan.iceberg.metadata.name_mapping import PROPERTY, field_paths, name_mapping_text
from lakescan.iceberg.metadata.pyiceberg_metadata import metadata_text
from lakescan.iceberg.metadata.table_metadata_parser import parse_metadata
from lakescan.options.session_settings import SessionSettings
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from lakescan.storage.locations import may_overlap
from lakescan.tables.base import NewTable
from lakescan.tables.committer import Committer
from lakescan.writing.imported_files import FolderFiles
from lakescan.writing.table_writes import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import StagedTable


@dataclass(frozen=True)
class NewIcebergTable:
    """A new table, which its catalog does not have until it is committed; `_metadata` and `_config` are pyiceberg's.

    It can be pickled, so that other processes can write its files and commit it through their catalog of the same name.
    """

    committer: Committer
    options: WriteOptions
    storage: Storage
    _metadata: Any = field(repr=False)
    _metadata_location: str = field(repr=False)
    _io: Any = field(repr=False)
    _config: Any = field(repr=False)

    is_new = True

    @staticmethod
    def create(committer: Committer, staged: Any, options: WriteOptions) -> NewIcebergTable:
        """Return the new table for pyiceberg's staged table, with the storage access that the catalog grants.

        Raises `InvalidOption` if `options` stage rows (write-audit-publish) but the table's properties do not allow it.
        """
        options = staged_options(options, staged.metadata.properties, str(committer.identifier))
        found = (staged.metadata, staged.metadata_location, staged.io, staged.config)
        return NewIcebergTable(committer, options, committer.storage(staged), *found)

    @property
    def _staged_table(self) -> Any:
        from pyiceberg.table import StagedTable

        found = (self._metadata, self._metadata_location, self._io)
        return StagedTable(self.committer.identifier.within, *found, self.committer.catalog, self._config)

    @property
    def writes(self) -> IcebergWrites:
        """The settings for writing data files, by the metadata that the table will have."""
        return IcebergWrites(self._metadata, self.storage, self.options)

    def set_transaction(self, application: str, number: int) -> NewIcebergTable:
        """Return the table with an application transaction, which its commit records."""
        options = replace(self.options, txn_app_id=application, txn_version=number)
        options.check_staging()
        return replace(self, options=options)

    def apply_session(self, session: SessionSettings) -> NewIcebergTable:
        """Return the table with the staging options of a session."""
        options = self.options.apply_session(session)
        return replace(self, options=staged_options(options, self._metadata.properties, str(self.committer.identifier)))

    def commit(self, files: Sequence[WrittenFile]) -> None:
        """Create the table with a snapshot of these files; without files, it has no snapshot."""
        options = self.options
        with self.committer.translate_errors():
            commit_new_table(
                self._staged_table,
                files,
                self.storage,
                summary_properties(options),
                options.branch,
                is_staged=options.wap_id is not None,
                transaction=options.transaction,
                operation="overwrite" if options.save_mode == "Overwrite" else "append",
            )

    def referenced_locations(self) -> Iterator[pa.Array]:
        """Yield the locations of all files of the table that currently has the name; nothing without one."""
        return current_table_files(self._staged_table, self.storage)

    def adopt_files(self, folder: str, found: FolderFiles | None) -> tuple[NewIcebergTable, Sequence[WrittenFile]]:
        """Return the table with a name mapping, and the files with statistics from their footers.

        `folder` is where the files are, `found` the files in it, or None for none. Raises `InvalidOption` if the folder
        overlaps with the table's location, and the errors of `stage_files`.
        """
        check_apart(folder, self._staged_table.metadata.location)
        staged, files = stage_files(self._staged_table, found, self.storage)
        return replace(self, _metadata=staged.metadata, _metadata_location=staged.metadata_location), files


@dataclass(frozen=True)
class ReplacedIcebergTable:
    """A table whose definition and rows are replaced."""

    committer: Committer
    _replacement: TableReplacement
    options: WriteOptions

    is_new = False

    @cached_property
    def writes(self) -> IcebergWrites:
        """The settings for writing data files, by the metadata that the table will have."""
        return IcebergWrites(self._replacement.metadata, self._replacement.storage, self.options)

    def set_transaction(self, application: str, number: int) -> ReplacedIcebergTable:
        """Return the table with an application transaction, which its commit records."""
        return replace(self, options=replace(self.options, txn_app_id=application, txn_version=number))

    def apply_session(self, session: SessionSettings) -> ReplacedIcebergTable:
        """Return the table unchanged, because a replacement cannot be staged."""
        return self

    def commit(self, files: Sequence[WrittenFile]) -> None:
        """Commit the definition and the rows; without files, the table is empty."""
        made = replace(self._replacement, transaction=self.options.transaction)
        commit_replacement(self.committer, made, files)

    def referenced_locations(self) -> Iterator[pa.Array]:
        """Yield the locations of the files of snapshots added since the table was opened; see `files_since`."""
        known = self._replacement.before.metadata.snapshots
        with self.committer.translate_errors():
            yield from files_since(reload_table(self._replacement.table, self._replacement.storage)[1], known)

    def adopt_files(self, folder: str, found: FolderFiles | None) -> tuple[NewTable, Sequence[WrittenFile]]:
        """Raise `UnsupportedFeature`: only a new table can adopt files."""
        raise UnsupportedFeature(
            f"replacing {self.committer.identifier} by the files of {folder}", "Drop the table first."
        )


def check_apart(folder: str, location: str) -> None:
    """Raise `InvalidOption` if a new table's location and the folder of adopted files contain each other."""
    if may_overlap(folder, location):
        raise InvalidOption(
            f"the new table would be at {location}, and its files are at {folder}: their files would be mixed. Give it "
            "another location"
        )


def stage_files(
    staged: StagedTable, found: FolderFiles | None, storage: Storage
) -> tuple[StagedTable, Sequence[WrittenFile]]:
    """Return the staged table with a name mapping, unless its properties have one, and the files for its commit.

    Without files (`found` is None), the second result is empty. Raises the errors of `as_data_files`, and
    `UnsupportedFeature` if the files' folders do not match the partition spec.
    """
    from pyiceberg.table import StagedTable

    metadata = parse_metadata(metadata_text(staged.metadata).encode(), staged.metadata_location)
    names = {PROPERTY: name_mapping_text(metadata.schema.fields)}
    properties = {**names, **staged.metadata.properties}
    named = staged.metadata.model_copy(update={"properties": properties})
    table = StagedTable(staged.name(), named, staged.metadata_location, staged.io, staged.catalog, dict(staged.config))
    if found is None:
        return table, ()
    foreign = ForeignFiles(found.folder, found.entries, found.folders)
    spec = spec_for(foreign, metadata.specs, metadata.default_spec_id, metadata.schema)
    matching = FieldMatching(by_id=True, name_mapping=dict(field_paths(metadata.schema.fields)))
    files, _ = as_data_files(foreign, spec, metadata.schema, matching, metadata.table_properties, storage, {})
    return table, files
