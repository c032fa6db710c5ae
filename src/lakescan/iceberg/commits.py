"""Committing to an Iceberg table through its catalog, by pyiceberg: appends, and files that replace others."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakescan.errors import CommitConflict
from lakescan.iceberg.writes import IcebergWrites
from lakescan.writing.table_writes import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

_WRITE = "lakescan.write-id"  # in the summaries of appends
_SECONDS, _FIRST_WAIT = 120.0, 0.05  # that appends are tried again for


@dataclass(frozen=True)
class IcebergCommit:
    """One commit to a table as it was when it was opened; `properties` go into the snapshot's summary."""

    table: Table
    writes: IcebergWrites
    branch: str = "main"
    properties: Mapping[str, str] = field(default_factory=dict)

    def append(self, files: Iterable[WrittenFile]) -> None:
        """Add files, whatever other writers commit meanwhile; raises `CommitConflict` where that never ends."""
        from pyiceberg.exceptions import CommitFailedException

        from lakescan.iceberg.producers import appending

        written = list(files)
        started, wait, table = time.monotonic(), _FIRST_WAIT, self.table
        mine = {_WRITE: uuid.uuid4().hex}
        while True:
            try:
                with (
                    table.transaction() as transaction,
                    appending(transaction, self.branch, {**self.properties, **mine}) as producer,
                ):
                    for each in written:
                        producer.append_data_file(self._data_file(each))
                return
            except CommitFailedException as error:
                if time.monotonic() - started > _SECONDS:
                    raise CommitConflict(f"{self._where}: other writers were always faster: {error}") from error
                time.sleep(wait)
                wait = min(2 * wait, 1.0)
                table = table.refresh()
                if _has(table, mine[_WRITE]):  # the commit that failed was made: its answer was lost
                    return

    def replace(self, removed: Collection[str], files: Iterable[WrittenFile], *, same_rows: bool = False) -> None:
        """Put files in the place of others; where they have the `same_rows`, streams pass the commit over.

        Raises `CommitConflict` where another writer has committed to the branch since, whatever it was.
        """
        from pyiceberg.exceptions import CommitFailedException, ValidationException
        from pyiceberg.expressions import AlwaysTrue

        from lakescan.iceberg.producers import overwriting, rewriting

        kind = rewriting if same_rows else overwriting
        try:
            with (
                self.table.transaction() as transaction,
                kind(transaction, self.branch, dict(self.properties)) as producer,
            ):
                producer.delete_by_predicate(AlwaysTrue())  # files to remove are looked for in all manifests
                for each in self._files_at(removed):
                    producer.delete_data_file(each)
                for file in files:
                    producer.append_data_file(self._data_file(file))
        except (CommitFailedException, ValidationException) as error:
            raise CommitConflict(f"{self._where}: {error}") from error

    @property
    def _where(self) -> str:
        return ".".join(self.table.name())

    def _data_file(self, file: WrittenFile) -> DataFile:
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

        details = dict(file.details)
        spec_id = details.pop("spec_id")
        if spec_id != self.table.metadata.default_spec_id:
            raise CommitConflict(f"{self._where}: another writer changed the partition spec: write the rows anew")
        found = DataFile.from_args(
            _table_format_version=max(2, self.table.metadata.format_version),
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
        found.spec_id = spec_id
        return found

    def _files_at(self, locations: Collection[str]) -> list[DataFile]:
        """Data files of the branch by location."""
        snapshot = self.table.metadata.snapshot_by_name(self.branch)
        if snapshot is None or not locations:
            return []
        wanted, found = set(locations), []
        for manifest in snapshot.manifests(self.table.io):
            for entry in manifest.fetch_manifest_entry(self.table.io, discard_deleted=True):
                if entry.data_file.content == 0 and entry.data_file.file_path in wanted:
                    found.append(entry.data_file)
        return found


def _has(table: Table, write: str) -> bool:
    """Whether one of a table's snapshots is that of a write."""
    summaries = (snapshot.summary for snapshot in table.metadata.snapshots)
    return any(each is not None and each.additional_properties.get(_WRITE) == write for each in summaries)
