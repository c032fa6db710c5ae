"""An Iceberg table of a catalog as a target."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakescan.catalogs.identifiers import Identifier
from lakescan.catalogs.lookup import of_storage, translated
from lakescan.catalogs.registry import connection
from lakescan.common.timestamps import to_millis
from lakescan.definition.table_definition import TableDefinition
from lakescan.errors import CommitConflict, UnsupportedFeature
from lakescan.formats.table_format import SnapshotSelector
from lakescan.iceberg.metadata.write import metadata_text
from lakescan.iceberg.scan.named_files import added_since
from lakescan.iceberg.table import IcebergTable
from lakescan.iceberg.write.commit import IcebergCommit, has_epoch
from lakescan.iceberg.write.create import as_schema
from lakescan.iceberg.write.data_files import IcebergWrites
from lakescan.iceberg.write.expire import MAIN, Retention, commit_expiry
from lakescan.iceberg.write.outcomes import check_same
from lakescan.options.write import WriteOptions
from lakescan.scan_spec import ScanSpec
from lakescan.storage.storage import Storage
from lakescan.transaction.base import WAITS, Removed, Target
from lakescan.write.table_writes import WrittenFile

GC_ENABLED = "gc.enabled"


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

    @property
    def identity(self) -> str:
        """The table's UUID."""
        return str(self._table.metadata.table_uuid)

    @cached_property
    def opened(self) -> IcebergTable:
        """The table by its metadata file, which has all snapshots, whatever the catalog shows."""
        return IcebergTable.open(self._table.metadata_location, self.storage)

    @property
    def known(self) -> frozenset[int]:
        """The snapshots that it had."""
        return frozenset(self.opened.metadata.snapshots)

    def named_since(self, known: frozenset[int]) -> Iterator[pa.Array]:
        """What snapshots beside known ones name, by the table as it is now."""
        return added_since(self.reopened().opened, known)

    @cached_property
    def scan(self) -> ScanSpec:
        """The branch as it was."""
        branch = self.options.branch
        selector = SnapshotSelector(branch=branch) if branch in self._table.metadata.refs else None
        return ScanSpec(self.opened, self.storage, self.name, selector=selector)

    @property
    def begins_again(self) -> bool:
        """No: who replaces rows has seen them."""
        return False

    @property
    def folds_deletes(self) -> bool:
        """Yes."""
        return True

    def check_removable(self, deletes: pa.ChunkedArray, *, partly: bool) -> None:
        """All files can be."""

    def check_removals(self, removed: Sequence[Removed]) -> None:
        """Manifests name files as they were added."""

    def has_committed(self) -> bool:
        """Whether a snapshot of the branch has the query's number, or a later one."""
        if self.options.transaction is None:
            return False
        return has_epoch(self.opened, self.options.branch, *self.options.transaction)

    def append(self, files: Sequence[WrittenFile]) -> None:
        """Tried again while others commit."""
        with translated(self.identifier):
            self._commit().append(files)

    def replace(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """On just this snapshot."""
        with translated(self.identifier):
            self._commit().replace([each.location for each in removed], files)

    def replace_all(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """As other replacements."""
        self.replace(removed, files)

    def rewrite(self, removed: Sequence[Removed], files: Sequence[WrittenFile]) -> None:
        """Commit files that have the rows of others."""
        with translated(self.identifier):
            self._commit().replace([each.location for each in removed], files, same_rows=True)

    def check_owned(self, doing: str) -> None:
        """Raise `UnsupportedFeature` for a table that says that its files may be another table's, as Iceberg does."""
        if self.opened.metadata.properties.get(GC_ENABLED, "true").lower() != "true":
            raise UnsupportedFeature(
                f"{doing} {self.name}, whose gc.enabled is not true",
                "Its files may be another table's, too (it may be a snapshot of that one). Where they are its own, "
                "set 'gc.enabled'='true' first.",
            )

    def expire(self, older_than: datetime | None, retain_last: int | None = None, *, dry_run: bool = False) -> int:
        """Forget snapshots from before a time, but those that branches and tags keep; how many there were.

        What others commit meanwhile (a rollback, a tag, a branch) counts: it begins again from the table as it is then.
        """
        self.check_owned("expiring snapshots of")
        target, now = self, datetime.now(UTC)
        before = None if older_than is None else to_millis(older_than)
        for wait in WAITS:
            metadata = target.opened.metadata
            expired = Retention.of(metadata.properties, to_millis(now), before, retain_last).expired(metadata)
            if dry_run or not (expired.snapshots or expired.refs):
                return len(expired.snapshots)
            with translated(self.identifier):
                failed = commit_expiry(copy(target._table), target.opened, expired, self.storage)
            if failed is None:
                return len(expired.snapshots)
            time.sleep(wait)
            target = target.reopened()
        raise CommitConflict(f"{self.name}: other writers were always faster")

    def _commit(self) -> IcebergCommit:
        said = self.options
        return IcebergCommit(self._table, self.writes, self.known, said.branch, said.properties, said.transaction)

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

    def check_rules(self, before: Target) -> None:
        """Columns go by id, and a commit refuses files of another partition spec."""

    def reopened(self) -> IcebergTarget:
        """The table as it is now; raises `CommitConflict` where another one has its name."""
        with translated(self.identifier):
            now = self._table.catalog.load_table(self.identifier.within)
        check_same(self._table, now)
        return replace(self, _table=now)


def _with_branch(table: Any, branch: str) -> Any:
    """The table with a branch; raises `UnsupportedFeature` where it has no snapshot to begin one with."""
    from pyiceberg.exceptions import CommitFailedException

    at = table.current_snapshot()
    if branch in table.metadata.refs or branch == MAIN:
        return table
    if at is None:
        raise UnsupportedFeature(f"the branch {branch!r} of a table without rows", "Write to its main branch first.")
    try:
        table.manage_snapshots().create_branch(at.snapshot_id, branch).commit()
    except CommitFailedException:  # another writer made it, or committed to the table: it is looked at anew
        return _with_branch(table.refresh(), branch)
    return table.refresh()
