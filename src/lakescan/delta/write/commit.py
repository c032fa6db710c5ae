"""Commit to a Delta table with deltalake: append files, or replace files.

Every commit has a unique id (`txnId` in commitInfo). After an error, the commit is looked up by it in the log: it
succeeded, definitely failed, or its state is unknown.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lakescan.common.retries import outcome_of
from lakescan.delta.log.pieces import read_commits
from lakescan.delta.log.segment import list_log
from lakescan.delta.log.text import single_actions
from lakescan.delta.write.data_files import DeltaWrites
from lakescan.errors import (
    CommitConflict,
    StorageError,
    UnsupportedFeature,
    missing_dependency,
)
from lakescan.write.table_writes import WrittenFile

_RETRIES = 60
_ID = "txnId"  # member of commitInfo, as in Delta on Spark


@dataclass(frozen=True)
class Transaction:
    """An application's id and its own version number of a commit (protocol, "Transaction Identifiers")."""

    app_id: str
    version: int


@dataclass(frozen=True)
class DeltaCommit:
    """One commit to a table that was read at `version`; `options` are storage options under delta-rs's names."""

    writes: DeltaWrites
    version: int
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    properties: Mapping[str, Any] = field(default_factory=dict)
    transaction: Transaction | None = None

    def append(self, files: Iterable[WrittenFile]) -> None:
        """Add files, retrying after concurrent commits; raises `CommitConflict` and `CommitStateUnknown`."""
        self._commit([self._add(file) for file in files], retries=_RETRIES)

    def replace(self, removed: Iterable[Any], files: Iterable[WrittenFile], *, same_rows: bool = False) -> None:
        """Replace files, `removed` being actions made by `removal`; with `same_rows`, the commit changes no data.

        Raises `CommitConflict` if another writer has committed since `version`, and `CommitStateUnknown`.
        """
        added = [self._add(file, changes_data=not same_rows) for file in files]
        self._commit([*removed, *added], retries=0)

    def overwrite(self, files: Iterable[WrittenFile]) -> None:
        """Replace all files of the table, and its schema by that of `writes`.

        Raises `CommitConflict` if another writer has committed since `version`, and `CommitStateUnknown`.
        """
        self._commit([self._add(file) for file in files], retries=0, mode="overwrite")

    def last_version_of(self, app_id: str) -> int | None:
        """The version number of an application's last commit, or None."""
        with refusals(self.writes.location):
            version: int | None = self._table().transaction_version(app_id)
        return version

    def _table(self) -> Any:
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise missing_dependency("deltalake", "delta", "writing Delta tables") from error
        table = DeltaTable(self.writes.location, version=self.version, storage_options=dict(self.options))
        if str(table.metadata().id) != self.writes.metadata.id:
            raise CommitConflict(f"{self.writes.location} was replaced by another table: open it again")
        return table

    def _commit(self, actions: list[Any], retries: int, mode: str = "append") -> None:
        from deltalake import CommitProperties, Schema
        from deltalake.transaction import Transaction as AppTransaction

        transaction, own_id = self.transaction, uuid.uuid4().hex
        properties = CommitProperties(
            custom_metadata={**self.properties, _ID: own_id},
            max_commit_retries=retries,
            app_transactions=None
            if transaction is None
            else [AppTransaction(transaction.app_id, transaction.version, int(time.time() * 1000))],
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
        """Look up a commit that ended with an error: return if it succeeded.

        Raises `CommitConflict` if it definitely failed, `CommitStateUnknown` if its outcome is unknown, and
        `UnsupportedFeature` if deltalake does not support a table feature.
        """
        from deltalake.exceptions import CommitFailedError

        where = f"{self.writes.location} at version {self.version}"
        if "Unsupported table features required" in str(error):
            raise UnsupportedFeature(f"committing to {where} with deltalake", str(error)) from error
        # After a conflict no attempt is still running, but the last one may have succeeded with its response lost.
        is_conflict = isinstance(error, CommitFailedError) and not _is_storage_error(error)

        def look() -> bool | None:
            return True if self._is_in_log(own_id) else False if is_conflict else None

        if not outcome_of(where, error, look):
            raise CommitConflict(f"{where}: {error}") from error

    def _is_in_log(self, own_id: str) -> bool:
        """Whether a commit after `version` has the id; raises `StorageError` if the log lacks one of them."""
        storage, location = self.writes.storage, self.writes.location
        listing = list_log(location, storage)
        commits = [each for each in listing.commits if each.version > self.version]
        if [each.version for each in commits] != list(range(self.version + 1, listing.latest + 1)):
            raise StorageError(f"{location}: some commits after version {self.version} were removed from the log")
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
    """A remove action for a file without deletion vector; `path` as in the log, `now` in milliseconds."""
    from deltalake.transaction import RemoveAction

    return RemoveAction(path, changes_data, now, size, dict(partition_values))


@contextmanager
def refusals(location: str) -> Iterator[None]:
    """Translate deltalake's errors before a commit into lakescan's."""
    from deltalake.exceptions import CommitFailedError, DeltaError, DeltaProtocolError

    try:
        yield
    except CommitFailedError:
        raise
    except DeltaProtocolError as error:
        raise UnsupportedFeature(f"writing to {location} with deltalake", str(error)) from error
    except (DeltaError, OSError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{location}: deltalake failed: {error}") from error


def _is_storage_error(error: Exception) -> bool:
    """Whether a commit failed in storage, and so may have succeeded; delta-rs has the same error type for conflicts."""
    text = str(error).lower()
    return "log store" in text or "object store" in text or "timeout" in text or "timed out" in text
