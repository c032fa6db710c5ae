"""Committing to a Delta table by deltalake: appends, and files that replace others.

A commit carries an id of its own (`txnId`). One that ends with an error is looked up by it in the log: it was made, or
has provably failed, or its state is unknown.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lakescan.delta.log.pieces import read_commits
from lakescan.delta.log.segment import list_log
from lakescan.delta.log.text import single_actions
from lakescan.delta.write.data_files import DeltaWrites
from lakescan.errors import (
    CommitConflict,
    CommitStateUnknown,
    StorageError,
    UnsupportedFeature,
    missing_dependency,
)
from lakescan.write.table_writes import WrittenFile

_RETRIES = 60
_ID = "txnId"  # of commitInfo, as Delta on Spark has it
_LOOKS = (0.0, 0.1, 0.5, 1.0)  # seconds before each look at the log


@dataclass(frozen=True)
class Transaction:
    """An application's own number of a commit (protocol, "Transaction Identifiers")."""

    app_id: str
    version: int


@dataclass(frozen=True)
class DeltaCommit:
    """One commit to a table that was read at a version; `options` are the storage's, in delta-rs's words."""

    writes: DeltaWrites
    version: int
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    properties: Mapping[str, Any] = field(default_factory=dict)
    transaction: Transaction | None = None

    def append(self, files: Iterable[WrittenFile]) -> None:
        """Add files, whatever other writers add meanwhile; raises `CommitConflict` and `CommitStateUnknown`."""
        self._commit([self._add(file) for file in files], retries=_RETRIES)

    def replace(self, removed: Iterable[Any], files: Iterable[WrittenFile], *, same_rows: bool = False) -> None:
        """Put files in the place of others, `removed` by `removal`; where they have the `same_rows`, no data changes.

        Raises `CommitConflict` where another writer has committed anything since, and `CommitStateUnknown`.
        """
        added = [self._add(file, changes_data=not same_rows) for file in files]
        self._commit([*removed, *added], retries=0)

    def overwrite(self, files: Iterable[WrittenFile]) -> None:
        """Put files in the place of all there are, and the columns of the writes in the place of the table's.

        Raises `CommitConflict` where another writer has committed anything since, and `CommitStateUnknown`.
        """
        self._commit([self._add(file) for file in files], retries=0, mode="overwrite")

    def last_version_of(self, app_id: str) -> int | None:
        """The number of the last commit of an application."""
        with refusals(self.writes.location):
            found: int | None = self._table().transaction_version(app_id)
        return found

    def _table(self) -> Any:
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise missing_dependency("deltalake", "delta", "writing Delta tables") from error
        table = DeltaTable(self.writes.location, version=self.version, storage_options=dict(self.options))
        if str(table.metadata().id) != self.writes.metadata.id:
            raise CommitConflict(f"{self.writes.location} is another table than it was: open it again")
        return table

    def _commit(self, actions: list[Any], retries: int, mode: str = "append") -> None:
        from deltalake import CommitProperties, Schema
        from deltalake.transaction import Transaction as AppTransaction

        mine, own_id = self.transaction, uuid.uuid4().hex
        properties = CommitProperties(
            custom_metadata={**self.properties, _ID: own_id},
            max_commit_retries=retries,
            app_transactions=None
            if mine is None
            else [AppTransaction(mine.app_id, mine.version, int(time.time() * 1000))],
        )
        with refusals(self.writes.location):
            table = self._table()
            schema = Schema.from_json(self.writes.metadata.schema_string)
        partitions = list(self.writes.metadata.partition_columns)
        try:
            table.create_write_transaction(actions, mode, schema, partitions, commit_properties=properties)
        except Exception as error:
            self._look_up(own_id, error)

    def _look_up(self, own_id: str, error: Exception) -> None:
        """Return where a commit that ended with an error was made; `CommitConflict` where it provably was not."""
        from deltalake.exceptions import CommitFailedError

        where = f"{self.writes.location} at version {self.version}"
        if "Unsupported table features required" in str(error):
            raise UnsupportedFeature(f"committing to {where} by deltalake", str(error)) from error
        # Where it lost to other writers, no attempt is under way any more; its last may have won unheard.
        refused = isinstance(error, CommitFailedError) and not _is_of_storage(error)
        why: Exception = error
        for wait in _LOOKS:
            time.sleep(wait)
            try:
                if self._is_in_log(own_id):
                    return
            except Exception as unseen:
                why = unseen
                continue
            if refused:
                raise CommitConflict(f"{where}: {error}") from error
        raise CommitStateUnknown(
            f"a commit to {where} ended with {type(error).__name__}: {error}. Whether it was made is not known"
            f"{'' if why is error else f' ({why})'}: its files stay. Look at the table before it is repeated."
        ) from error

    def _is_in_log(self, own_id: str) -> bool:
        """Whether a version since has the id; raises `StorageError` where the log lacks one of them."""
        storage, location = self.writes.storage, self.writes.location
        listing = list_log(location, storage)
        commits = [each for each in listing.commits if each.version > self.version]
        if [each.version for each in commits] != list(range(self.version + 1, listing.latest + 1)):
            raise StorageError(f"{location}: not all commits after version {self.version} are in its log any more")
        infos = (info for text in read_commits(commits, storage) for info in single_actions(text, ("commitInfo",)))
        return any(node.get(_ID) == own_id for node in infos)

    def _add(self, file: WrittenFile, *, changes_data: bool = True) -> Any:
        from deltalake.transaction import AddAction

        return AddAction(
            path=self.writes.relative_path(file.location),
            size=file.size,
            partition_values=self.writes.partition_values(file.key),
            modification_time=int(time.time() * 1000),
            data_change=changes_data,
            stats=file.details["stats"],
        )


def removal(
    path: str, size: int, partition_values: Mapping[str, str | None], now: int, *, changes_data: bool = True
) -> Any:
    """The action that removes a file without deletion vector, by its path in the log; `now` in milliseconds."""
    from deltalake.transaction import RemoveAction

    return RemoveAction(path, changes_data, now, size, dict(partition_values))


@contextmanager
def refusals(location: str) -> Iterator[None]:
    """What deltalake refuses, or cannot do, before anything is committed, as errors of this library."""
    from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError

    try:
        yield
    except CommitFailedError:
        raise
    except DeltaProtocolError as error:
        raise UnsupportedFeature(f"writing to {location} by deltalake", str(error)) from error
    except (DeltaError, OSError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{location}: deltalake cannot do that: {error}") from error


def _is_of_storage(error: Exception) -> bool:
    """Whether a failed commit is one of the log's store, which may have taken it; delta-rs has one error for all."""
    text = str(error).lower()
    return "log store" in text or "object store" in text or "timeout" in text or "timed out" in text
