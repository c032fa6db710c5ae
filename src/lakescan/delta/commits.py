"""Committing to a Delta table by deltalake: appends, and files that replace others."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakescan.delta.writes import DeltaWrites
from lakescan.errors import CommitConflict, StorageError, missing_dependency
from lakescan.writing.table_writes import WrittenFile

_RETRIES = 60


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
        """Add files, whatever other writers add meanwhile; raises `CommitConflict`."""
        self._commit([self._add(file) for file in files], retries=_RETRIES)

    def replace(self, removed: Iterable[Any], files: Iterable[WrittenFile]) -> None:
        """Put files in the place of others, `removed` by `removal`.

        Raises `CommitConflict` where another writer has committed anything since.
        """
        self._commit([*removed, *(self._add(file) for file in files)], retries=0)

    def overwrite(self, files: Iterable[WrittenFile]) -> None:
        """Put files in the place of all there are, and the columns of the writes in the place of the table's.

        Raises `CommitConflict` where another writer has committed anything since.
        """
        self._commit([self._add(file) for file in files], retries=0, mode="overwrite")

    def last_version_of(self, app_id: str) -> int | None:
        """The number of the last commit of an application."""
        found: int | None = self._table().transaction_version(app_id)
        return found

    def _table(self) -> Any:
        try:
            from deltalake import DeltaTable
        except ImportError as error:
            raise missing_dependency("deltalake", "delta", "writing Delta tables") from error
        return DeltaTable(self.writes.location, version=self.version, storage_options=dict(self.options))

    def _commit(self, actions: list[Any], retries: int, mode: str = "append") -> None:
        from deltalake import CommitProperties, Schema
        from deltalake.exceptions import CommitFailedError, DeltaError
        from deltalake.transaction import Transaction as AppTransaction

        table = self._table()
        mine = self.transaction
        now = int(time.time() * 1000)
        properties = CommitProperties(
            custom_metadata=dict(self.properties) or None,
            max_commit_retries=retries,
            app_transactions=None if mine is None else [AppTransaction(mine.app_id, mine.version, now)],
        )
        try:
            table.create_write_transaction(
                actions,
                mode,
                Schema.from_json(self.writes.metadata.schema_string),
                list(self.writes.metadata.partition_columns),
                commit_properties=properties,
            )
        except CommitFailedError as error:
            raise CommitConflict(f"{self.writes.location} at version {self.version}: {error}") from error
        except DeltaError as error:
            raise StorageError(
                f"a commit to {self.writes.location} failed, and may have been made all the same: {error}"
            ) from error

    def _add(self, file: WrittenFile) -> Any:
        from deltalake.transaction import AddAction

        return AddAction(
            path=self.writes.relative_path(file.location),
            size=file.size,
            partition_values=self.writes.partition_values(file.key),
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=file.details["stats"],
        )


def removal(path: str, size: int, partition_values: Mapping[str, str | None], now: int) -> Any:
    """The action that removes a file without deletion vector, by its path in the log; `now` in milliseconds."""
    from deltalake.transaction import RemoveAction

    return RemoveAction(path, True, now, size, dict(partition_values))
