"""Iceberg tables that are created, or replaced, with their rows (`lakescan.transaction.new_tables`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakescan.catalogs.create import commit_replacement
from lakescan.catalogs.identifiers import Identifier
from lakescan.catalogs.lookup import translated
from lakescan.catalogs.storage_properties import of_storage
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.commit.creation import Replacement, commit_created
from lakescan.iceberg.scan.named_files import added_since
from lakescan.iceberg.write.commit import EPOCH, QUERY
from lakescan.iceberg.write.data_files import IcebergWrites
from lakescan.iceberg.write.foreign_tables import check_apart, staged_with_files
from lakescan.iceberg.write.new_table import named_now
from lakescan.iceberg.write.outcomes import loaded
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from lakescan.transaction.base import NewTable
from lakescan.write.foreign_files import FolderFiles
from lakescan.write.table_writes import WrittenFile


def summary_of(options: WriteOptions) -> dict[str, str]:
    """What the options add to the summary of a snapshot."""
    epoch = {} if options.transaction is None else {QUERY: options.transaction[0], EPOCH: str(options.transaction[1])}
    return {**options.commit_properties, **epoch}


@dataclass(frozen=True)
class NewIcebergTable:
    """A table of which its catalog has nothing until it is committed; `_staged` is pyiceberg's."""

    identifier: Identifier
    options: WriteOptions
    storage: Storage
    _staged: Any = field(repr=False)

    is_new = True

    @staticmethod
    def of(identifier: Identifier, staged: Any, options: WriteOptions) -> NewIcebergTable:
        """The table, with access to the storage that its catalog gives it."""
        storage = Storage(io_properties=of_storage({**staged.catalog.properties, **staged.io.properties}))
        return NewIcebergTable(identifier, options, storage, staged)

    @cached_property
    def writes(self) -> IcebergWrites:
        """How to write data files: by the metadata that the table will have."""
        return IcebergWrites(self._staged.metadata, self.storage, self.options)

    def commit(self, files: Sequence[WrittenFile]) -> None:
        """Make the table with a snapshot of these files; without any, it has no snapshot."""
        with translated(self.identifier):
            commit_created(self._staged, files, self.storage, summary_of(self.options))

    def named(self) -> Iterator[pa.Array]:
        """The files of the table that has the name now."""
        return named_now(self._staged, self.storage)

    def adopted(self, folder: str, found: FolderFiles | None) -> tuple[NewIcebergTable, Sequence[WrittenFile]]:
        """The table with a mapping of names to field ids, and the files with the statistics of their footers."""
        check_apart(folder, self._staged.metadata.location)
        staged, files = staged_with_files(self._staged, found, self.storage)
        return replace(self, _staged=staged), files


@dataclass(frozen=True)
class ReplacedIcebergTable:
    """A table whose definition and rows are replaced."""

    identifier: Identifier
    _replacement: Replacement
    options: WriteOptions

    is_new = False

    @cached_property
    def writes(self) -> IcebergWrites:
        """How to write data files: by the metadata that the table will have."""
        return IcebergWrites(self._replacement.metadata, self._replacement.storage, self.options)

    def commit(self, files: Sequence[WrittenFile]) -> None:
        """Commit the definition and the rows; without files, the table is empty."""
        commit_replacement(self.identifier, self._replacement, files)

    def named(self) -> Iterator[pa.Array]:
        """The files that the table has got since it was opened."""
        known = self._replacement.before.metadata.snapshots
        with translated(self.identifier):
            yield from added_since(loaded(self._replacement.table, self._replacement.storage)[1], known)

    def adopted(self, folder: str, found: FolderFiles | None) -> tuple[NewTable, Sequence[WrittenFile]]:
        """Raise `UnsupportedFeature`: the files are those of a new table."""
        raise UnsupportedFeature(f"replacing {self.identifier} by the files of {folder}", "Drop the table first.")
