"""An Iceberg table of a catalog as a target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa

from lakescan.catalogs.configured import connection
from lakescan.catalogs.found import of_storage, translated
from lakescan.catalogs.identifiers import Identifier
from lakescan.definition.table_definition import TableDefinition
from lakescan.errors import CommitConflict, UnsupportedFeature
from lakescan.iceberg.commits import IcebergCommit
from lakescan.iceberg.create import as_schema
from lakescan.iceberg.metadata_text import metadata_text
from lakescan.iceberg.table import IcebergTable
from lakescan.iceberg.writes import IcebergWrites
from lakescan.planning.table_format import SnapshotSelector
from lakescan.saving.target import Removed
from lakescan.saving.write_options import WriteOptions
from lakescan.scan import Scan
from lakescan.storage import Storage
from lakescan.writing.table_writes import WrittenFile

# As Iceberg's own sink for Spark has them, so that either goes on where the other was.
QUERY, EPOCH = "spark.sql.streaming.queryId", "spark.sql.streaming.epochId"


@dataclass(frozen=True)
class IcebergTarget:
    """A table by its identifier; pyiceberg's table is of the metadata that the scan is of."""

    identifier: Identifier
    options: WriteOptions
    storage: Storage
    _table: Any = field(repr=False)

    @staticmethod
    def open(identifier: Identifier, options: WriteOptions, storage: Storage | None = None) -> IcebergTarget:
        """Raises `NoSuchTable`. A branch that is not there begins with what the table has, as Java's do."""
        catalog = connection(identifier.catalog)
        with translated(identifier):
            table = _with_branch(catalog.load_table(identifier.within), options.branch)
        if storage is None:
            storage = Storage(io_properties=of_storage({**catalog.properties, **table.io.properties}))
        return IcebergTarget(identifier, options, storage, table)

    @property
    def name(self) -> str:
        """The identifier."""
        return str(self.identifier)

    @cached_property
    def writes(self) -> IcebergWrites:
        """Files by the default partition spec and the current schema."""
        return IcebergWrites(metadata_text(self._table.metadata), self.storage, self.options.overrides)

    @cached_property
    def scan(self) -> Scan:
        """The branch as it was."""
        opened = IcebergTable.open(self._table.metadata_location, self.storage)
        branch = self.options.branch
        selector = SnapshotSelector(branch=branch) if branch in self._table.metadata.refs else None
        return Scan(opened, self.storage, self.name, _selector=selector)

    @property
    def begins_again(self) -> bool:
        """No: who replaces rows has seen them."""
        return False

    def check_removable(self, deletes: pa.ChunkedArray, *, partly: bool) -> None:
        """All files can be."""

    def has_committed(self) -> bool:
        """Whether a snapshot of the branch has the query's number, or a later one."""
        if self.options.transaction is None:
            return False
        app, version = self.options.transaction
        for snapshot in self._line():
            said = {} if snapshot.summary is None else snapshot.summary.additional_properties
            if said.get(QUERY) == app and EPOCH in said:
                return int(said[EPOCH]) >= version
        return False

    def _line(self) -> Iterator[Any]:
        """The snapshots of the branch, the newest first."""
        metadata = self._table.metadata
        at = metadata.snapshot_by_name(self.options.branch)
        while at is not None:
            yield at
            at = None if at.parent_snapshot_id is None else metadata.snapshot_by_id(at.parent_snapshot_id)

    def append(self, files: Sequence[WrittenFile]) -> None:
        """By pyiceberg; tried again while others commit."""
        self._commit().append(files)

    def replace(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """By pyiceberg, on just this snapshot."""
        self._commit().replace([each.location for each in removed], files)

    def replace_all(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """By pyiceberg."""
        self.replace(removed, files)

    def rewrite(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """Commit files that have the rows of others."""
        self._commit().replace([each.location for each in removed], files, same_rows=True)

    def other_files(self) -> list[str]:
        """What the metadata names beside data, deletes and manifests."""
        metadata = self._table.metadata
        lists = [each.manifest_list for each in metadata.snapshots]
        statistics = [each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)]
        hint = f"{metadata.location.rstrip('/')}/metadata/version-hint.text"
        return [*lists, *statistics, hint, self._table.metadata_location]

    def expire(self, older_than: datetime, retain_last: int) -> int:
        """Forget snapshots, but the newest of the branch and what branches and tags name; how many there were."""
        kept = {each.snapshot_id for each in islice(self._line(), retain_last)}
        kept |= {ref.snapshot_id for ref in self._table.metadata.refs.values()}
        limit = older_than.timestamp() * 1000
        old = [each.snapshot_id for each in self._table.metadata.snapshots if each.timestamp_ms < limit]
        gone = [each for each in old if each not in kept]
        if gone:
            self._table.maintenance.expire_snapshots().by_ids(gone).commit()
        return len(gone)

    def _commit(self) -> IcebergCommit:
        said = dict(self.options.properties)
        if self.options.transaction is not None:
            said |= {QUERY: self.options.transaction[0], EPOCH: str(self.options.transaction[1])}
        return IcebergCommit(copy(self._table), self.writes, self.options.branch, said)

    def with_columns(self, new: TableDefinition) -> IcebergTarget:
        """By pyiceberg, in a commit of its own."""
        from pyiceberg.exceptions import CommitFailedException

        try:
            with self._table.update_schema() as update:
                update.union_by_name(as_schema(new))
        except CommitFailedException as error:
            raise CommitConflict(f"{self.name}: another writer changed its columns, too: {error}") from error
        return self.reopened()

    def with_schema(self, new: TableDefinition) -> IcebergTarget:
        """Not in one commit."""
        raise UnsupportedFeature(
            f"overwriteSchema of the Iceberg table {self.name}", "CREATE OR REPLACE TABLE gives it other columns."
        )

    def reopened(self) -> IcebergTarget:
        """The table as it is now."""
        return replace(self, _table=self._table.catalog.load_table(self.identifier.within))


def _with_branch(table: Any, branch: str) -> Any:
    """The table with a branch, if it has any snapshot to begin one with."""
    from pyiceberg.exceptions import CommitFailedException

    at = table.current_snapshot()
    if at is None or branch in table.metadata.refs:
        return table
    try:
        table.manage_snapshots().create_branch(at.snapshot_id, branch).commit()
    except CommitFailedException:  # another writer made it, or committed to the table: it is looked at anew
        return _with_branch(table.refresh(), branch)
    return table.refresh()
