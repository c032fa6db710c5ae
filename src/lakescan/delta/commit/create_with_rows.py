"""Create or replace Delta tables together with their rows (`lakescan.tables.write_rows`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from lakescan.delta.commit.actions import SetTransaction, add_actions, identity_metadata
from lakescan.delta.commit.commit import check_commit_properties, write_operation, written_metrics
from lakescan.delta.commit.creation import (
    InitialRows,
    NewDelta,
    as_replacement,
    check_no_table,
    commit_new_table,
    commit_table_replacement,
    is_table,
)
from lakescan.delta.data_files.delta_writes import DeltaWrites
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.maintenance.referenced_files import new_files_since
from lakescan.errors import UnsupportedFeature
from lakescan.options.session_settings import SessionSettings
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from lakescan.tables.base import NewTable
from lakescan.tables.committer import TableCreator
from lakescan.writing.imported_files import FolderFiles
from lakescan.writing.table_writes import WrittenFile

_BEFORE_ALL = -1  # the version before the first one


@dataclass(frozen=True)
class NewDeltaTable:
    """A new table whose folder has no log until the commit.

    `committer` registers its name in a catalog; None for a table without a name. The object can be pickled, so that
    other processes can write the table's files and commit it.
    """

    location: str
    new: NewDelta
    options: WriteOptions
    storage: Storage
    committer: TableCreator | None = None

    is_new = True

    def __post_init__(self) -> None:
        check_commit_properties(self.options.commit_properties)
        check_no_table(self.location, self.storage)

    @cached_property
    def writes(self) -> DeltaWrites:
        """The settings for writing data files, with the metadata that the table will have."""
        return _writes(self.location, self.new, self.storage, self.options)

    def commit(self, files: Sequence[WrittenFile]) -> None:
        """Create the table as version 0 with these files."""
        with self._registration():
            commit_new_table(self.location, self.new, self.storage, _rows(files, self.writes))

    def _registration(self) -> AbstractContextManager[None]:
        """Return the context manager that registers the table's name around the commit."""
        if self.committer is None:
            return nullcontext()
        return self.committer.name_table(self.location, self.storage)

    def set_transaction(self, application: str, number: int) -> NewDeltaTable:
        """Return the table with an application id and transaction number for its commit."""
        return replace(self, options=replace(self.options, txn_app_id=application, txn_version=number))

    def apply_session(self, session: SessionSettings) -> NewDeltaTable:
        """Return the table unchanged: the session settings are about staged rows, which Delta does not have."""
        return self

    def referenced_locations(self) -> Iterator[pa.Array]:
        """Yield the file locations of a table that another writer created in the folder, if any."""
        if is_table(self.location, self.storage):
            yield from new_files_since(self.location, self.storage, _BEFORE_ALL)

    def adopt_files(self, folder: str, found: FolderFiles | None) -> tuple[NewTable, Sequence[WrittenFile]]:
        """Raise `UnsupportedFeature`: only a whole folder can become a Delta table."""
        raise no_adoption(folder)


@dataclass(frozen=True)
class ReplacedDeltaTable:
    """A table whose columns, layout, properties and rows are replaced; `base` is the version that was opened."""

    base: DeltaVersion
    new: NewDelta
    options: WriteOptions
    storage: Storage

    is_new = False

    def __post_init__(self) -> None:
        check_commit_properties(self.options.commit_properties)

    @property
    def _location(self) -> str:
        return self.base.segment.location

    @cached_property
    def writes(self) -> DeltaWrites:
        """The settings for writing data files, with the metadata that the table will have."""
        return _writes(self._location, as_replacement(self.base, self.new), self.storage, self.options)

    def set_transaction(self, application: str, number: int) -> ReplacedDeltaTable:
        """Return the table with an application id and transaction number for its commit."""
        return replace(self, options=replace(self.options, txn_app_id=application, txn_version=number))

    def apply_session(self, session: SessionSettings) -> ReplacedDeltaTable:
        """Return the table unchanged: the session settings are about staged rows, which Delta does not have."""
        return self

    def commit(self, files: Sequence[WrittenFile]) -> None:
        """Replace the version that was opened by these files; any concurrent commit is a conflict."""
        commit_table_replacement(self.base, self.new, self.storage, _rows(files, self.writes))

    def referenced_locations(self) -> Iterator[pa.Array]:
        """Yield the locations of the files that were added to the table since it was opened."""
        return new_files_since(self._location, self.storage, self.base.segment.version)

    def adopt_files(self, folder: str, found: FolderFiles | None) -> tuple[NewTable, Sequence[WrittenFile]]:
        """Raise `UnsupportedFeature`: only a whole folder can become a Delta table."""
        raise no_adoption(folder)


def no_adoption(folder: str) -> UnsupportedFeature:
    """Return the error for a request to add files of another folder to a Delta table."""
    return UnsupportedFeature(f"a Delta table of the files of {folder}", "CONVERT TO DELTA makes the folder a table.")


def _writes(location: str, new: NewDelta, storage: Storage, options: WriteOptions) -> DeltaWrites:
    return DeltaWrites(location, new.protocol, new.metadata, storage, options, new.clustering)


def _rows(files: Sequence[WrittenFile], writes: DeltaWrites) -> InitialRows:
    options = writes.options
    transaction = None if options.transaction is None else SetTransaction(*options.transaction)
    return InitialRows(
        add_actions(files, writes),
        written_metrics(files),
        identity_metadata(writes.metadata, files),
        transaction,
        options.commit_properties,
        operation=None
        if options.save_mode is None and options.output_mode is None
        else write_operation(options, options.save_mode or "Append", files),
    )
