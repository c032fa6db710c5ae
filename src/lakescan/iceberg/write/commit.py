"""Commit to an Iceberg table through its catalog: appends, and replacements of data files.

If a commit returns an error, or its response is lost, the table is checked for the snapshot id: the commit succeeded,
has definitely failed, or its state is unknown. Files written for a failed commit are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakescan.common.retries import APPENDS, Attempts
from lakescan.errors import CommitConflict, CorruptMetadata
from lakescan.iceberg.metadata.table_metadata import ancestors
from lakescan.iceberg.table import IcebergTable
from lakescan.iceberg.write.data_files import IcebergWrites
from lakescan.iceberg.write.outcomes import Failed, commit_snapshot
from lakescan.write.table_writes import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction

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

    `known` are the ids of the snapshots it had then; `properties` go into the new snapshot's summary. `epoch` is the
    streaming query id and the number of its micro-batch, which is committed only once.
    """

    table: Table
    writes: IcebergWrites
    known: Collection[int]
    branch: str = "main"
    properties: Mapping[str, str] = field(default_factory=dict)
    epoch: tuple[str, int] | None = None

    def append(self, files: Iterable[WrittenFile]) -> None:
        """Append files; concurrent commits are retried.

        Raises `CommitConflict` if retries run out or another writer has committed the epoch; `CommitStateUnknown`.
        """
        from lakescan.iceberg.write.producers import appending

        written = list(files)
        attempts, table = Attempts(APPENDS), copy(self.table)
        while True:

            def add(transaction: Transaction, table: Table = table) -> Any:
                producer = appending(transaction, self.branch, self._summary)
                for each in written:
                    producer.append_data_file(self._data_file(each, table))
                return producer

            failed = self._commit(table, add)
            if failed is None:
                return
            if self.epoch is not None and has_epoch(failed.now, self.branch, *self.epoch):
                raise CommitConflict(f"{self._where}: another writer has committed batch {self.epoch[1]}")
            attempts.again(self._where, failed.error)
            table = failed.table

    def replace(self, removed: Collection[str], files: Iterable[WrittenFile], *, same_rows: bool = False) -> None:
        """Replace data files. With `same_rows`, the snapshot's operation is `replace`, and streams skip it.

        Raises `CommitConflict` if another writer has committed anything to the branch since; `CommitStateUnknown`.
        """
        from pyiceberg.expressions import AlwaysTrue

        from lakescan.iceberg.write.producers import overwriting, rewriting

        kind = rewriting if same_rows else overwriting
        written, table = list(files), copy(self.table)

        def put(transaction: Transaction) -> Any:
            producer = kind(transaction, self.branch, self._summary)
            producer.delete_by_predicate(AlwaysTrue())  # makes pyiceberg search all manifests for the removed files
            for each in self._files_at(removed):
                producer.delete_data_file(each)
            for file in written:
                producer.append_data_file(self._data_file(file, table))
            return producer

        failed = self._commit(table, put)
        if failed is not None:
            raise CommitConflict(f"{self._where}: {failed.error}") from failed.error

    @property
    def _summary(self) -> dict[str, str]:
        epoch = {} if self.epoch is None else {QUERY: self.epoch[0], EPOCH: str(self.epoch[1])}
        return {**self.properties, **epoch}

    def _commit(self, table: Table, build: Callable[[Transaction], Any]) -> Failed | None:
        """Create a snapshot and commit it. Returns None on success, else the definite failure."""
        return commit_snapshot(table, build, self.known, self.writes.storage)

    @property
    def _where(self) -> str:
        return ".".join(self.table.name())

    def _data_file(self, file: WrittenFile, table: Table) -> DataFile:
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

        details = dict(file.details)
        spec_id = details.pop("spec_id")
        if spec_id != table.metadata.default_spec_id:
            raise CommitConflict(f"{self._where}: another writer changed the partition spec: write the rows again")
        data_file = DataFile.from_args(
            _table_format_version=max(2, table.metadata.format_version),
            content=DataFileContent.DATA,
            file_path=file.location,
            file_format=FileFormat.PARQUET,
            partition=self.writes.partition_record(file.key),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            spec_id=spec_id,
            **details,
        )
        data_file.spec_id = spec_id
        return data_file

    def _files_at(self, locations: Collection[str]) -> list[DataFile]:
        """The live data files of the branch at these locations."""
        snapshot = self.table.metadata.snapshot_by_name(self.branch)
        if snapshot is None or not locations:
            return []
        wanted, files = set(locations), []
        for manifest in snapshot.manifests(self.table.io):
            for entry in manifest.fetch_manifest_entry(self.table.io, discard_deleted=True):
                if entry.data_file.content == 0 and entry.data_file.file_path in wanted:
                    files.append(entry.data_file)
        return files
