"""Commit to an Iceberg table through its catalog: appends, and replacements of data files.

If a commit returns an error, or its response is lost, the table is checked for the snapshot id: the commit succeeded,
has definitely failed, or its state is unknown. Files written for a failed commit are removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakescan.common.retries import APPENDS, COMMITS, Attempts, RetryPolicy
from lakescan.errors import CommitConflict, CorruptMetadata
from lakescan.iceberg.commit.base import CommitBase
from lakescan.iceberg.commit.file_changes import FileChanges
from lakescan.iceberg.commit.producer import SnapshotProducer
from lakescan.iceberg.commit.publish import commit_snapshot
from lakescan.iceberg.commit.rewrite_manifests import ManifestRewrite
from lakescan.iceberg.commit.written_files import added_files
from lakescan.iceberg.metadata.table_metadata import MAIN, ancestors
from lakescan.iceberg.table import IcebergTable
from lakescan.iceberg.write.data_files import IcebergWrites
from lakescan.iceberg.write.outcomes import Failed
from lakescan.write.table_writes import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import Table

# The summary keys of Iceberg's own sink for Spark, so that each sink can continue the other's stream.
QUERY, EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"


def has_epoch(table: IcebergTable, branch: str, query: str, epoch: int) -> bool:
    """Whether a streaming query has committed this epoch, or a later one, to the branch."""
    head = table.metadata.refs.get(branch)
    for each in ancestors(table.metadata.snapshots, None if head is None else head.snapshot_id):
        if each.summary.get(QUERY) == query and EPOCH in each.summary:
            text = each.summary[EPOCH]
            if not (text.isascii() and text.isdecimal()):
                raise CorruptMetadata(
                    f"{table.location}: snapshot {each.id} says {EPOCH}={text!r}, which is not a number: whether batch "
                    f"{epoch} of the query {query} was committed is unknown. Start the query with a new checkpoint."
                )
            return int(text) >= epoch
    return False


@dataclass(frozen=True)
class IcebergCommit:
    """One commit, based on the state of the table when it was opened.

    `table` is pyiceberg's, `opened` the same state as lakescan read it. `properties` go into the new snapshot's
    summary. `epoch` is the streaming query id and the number of its micro-batch, which is committed only once.
    """

    table: Table
    writes: IcebergWrites
    opened: IcebergTable
    branch: str = MAIN
    properties: Mapping[str, str] = field(default_factory=dict)
    epoch: tuple[str, int] | None = None

    def append(self, files: Iterable[WrittenFile]) -> None:
        """Append files; concurrent commits are retried.

        Raises `CommitConflict` if retries run out or another writer has committed the epoch; `CommitStateUnknown`.
        """
        written = list(files)
        attempts, table, now = Attempts(self._retries(APPENDS)), copy(self.table), self.opened
        while True:
            failed = self._commit(table, now, "append", written, ())
            if failed is None:
                return
            if self.epoch is not None and has_epoch(failed.now, self.branch, *self.epoch):
                raise CommitConflict(f"{self._where}: another writer has committed batch {self.epoch[1]}")
            attempts.again(self._where, failed.error)
            table, now = failed.table, failed.now

    def replace(self, removed: Collection[str], files: Iterable[WrittenFile], *, same_rows: bool = False) -> None:
        """Replace data files. With `same_rows`, the snapshot's operation is `replace`, and streams skip it.

        Raises `CommitConflict` if another writer has committed anything to the branch since; `CommitStateUnknown`.
        """
        failed = self._commit(
            copy(self.table), self.opened, "replace" if same_rows else "overwrite", list(files), removed
        )
        if failed is not None:
            raise CommitConflict(f"{self._where}: {failed.error}") from failed.error

    def rewrite_manifests(self) -> Mapping[str, str] | None:
        """Rewrite manifests; concurrent commits are retried.

        Returns the new snapshot's summary, or None if there is nothing to rewrite. Raises `CommitConflict` if retries
        run out; `CommitStateUnknown`.
        """
        attempts, table, now = Attempts(self._retries(COMMITS)), copy(self.table), self.opened
        while True:
            base = CommitBase(now.metadata, table.metadata, self.branch)
            producer = ManifestRewrite(base, self.writes.storage, "replace", FileChanges(), self._summary)
            if not producer.is_needed:
                return None
            failed = commit_snapshot(table, producer, set(self.opened.metadata.snapshots), self.writes.storage)
            if failed is None:
                return producer.summary
            attempts.again(self._where, failed.error)
            table, now = failed.table, failed.now

    def _retries(self, default: RetryPolicy) -> RetryPolicy:
        return self.opened.metadata.table_properties.retry_policy(default)

    @property
    def _summary(self) -> dict[str, str]:
        epoch = {} if self.epoch is None else {QUERY: self.epoch[0], EPOCH: str(self.epoch[1])}
        return {**self.properties, **epoch}

    def _commit(
        self, table: Table, now: IcebergTable, operation: str, files: list[WrittenFile], removed: Collection[str]
    ) -> Failed | None:
        """Produce a snapshot and commit it. Returns None on success, else the definite failure."""
        base = CommitBase(now.metadata, table.metadata, self.branch)
        if operation == "overwrite" and base.head is None:
            operation = "append"  # the first snapshot of a branch replaces nothing
        changes = FileChanges(added_files(files, base), pa.array(list(removed), pa.string()))
        producer = SnapshotProducer(base, self.writes.storage, operation, changes, self._summary)
        return commit_snapshot(table, producer, set(self.opened.metadata.snapshots), self.writes.storage)

    @property
    def _where(self) -> str:
        return ".".join(self.table.name())
