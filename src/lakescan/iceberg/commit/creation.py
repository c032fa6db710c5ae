"""Create Iceberg tables with their rows, and replace tables by others: one commit, or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lakescan.errors import CommitStateUnknown
from lakescan.iceberg.commit.base import CommitBase
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.iceberg.commit.new_table import commit_staged_table, current_table_files
from lakescan.iceberg.commit.outcomes import FailedCommit
from lakescan.iceberg.commit.publish import commit_emptied, commit_snapshot, record_updates, snapshot_updates
from lakescan.iceberg.commit.recorded import MetadataChanges
from lakescan.iceberg.commit.snapshot_producer import SnapshotProducer
from lakescan.iceberg.commit.written_files import added_files
from lakescan.iceberg.metadata.parse import parse_metadata
from lakescan.iceberg.metadata.pyiceberg_metadata import metadata_text
from lakescan.iceberg.metadata.table_metadata import MAIN
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage
from lakescan.storage.removal import discard
from lakescan.writing.table_writes import WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import StagedTable, Table


def commit_new_table(
    staged: StagedTable,
    files: Iterable[WrittenFile],
    storage: Storage,
    properties: Mapping[str, str],
    branch: str = MAIN,
    *,
    is_staged: bool = False,
    transaction: tuple[str, int] | None = None,
) -> None:
    """Make a staged table with files, in one commit; without files it has no snapshot.

    `properties` go into the snapshot's summary. `transaction` is what the commit records of an application. With
    `is_staged`, no branch names the snapshot. Raises what `make` raises; the metadata files of a table that was not
    made are removed.
    """
    base, written = _base(staged.metadata, staged.metadata_location, branch), list(files)
    producer = SnapshotProducer(base, storage, "append", SnapshotChanges(added_files(written, base)), properties)
    try:
        updates = snapshot_updates(base.given, producer.produce(), branch) if written else ()
        records = record_updates(producer, transaction) if written else ()
        commit_staged_table(staged, (*records, *(updates[:-1] if is_staged else updates)))
    except CommitStateUnknown:
        raise
    except Exception:
        stored = [staged.metadata_location, *producer.stored_locations]
        leading = [staged.metadata_location, *producer.lists]
        discard(storage, stored, lambda: current_table_files(staged, storage), leading)
        raise


@dataclass(frozen=True)
class TableReplacement:
    """A table that is replaced by another: its metadata `changes`, and in the same commit its rows.

    `table` is pyiceberg's, `before` the same state as lakescan read it. Earlier snapshots stay.
    """

    table: Table
    before: IcebergTable
    changes: MetadataChanges
    storage: Storage
    properties: Mapping[str, str] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None

    @cached_property
    def metadata(self) -> Any:
        """The metadata after the changes (pyiceberg's), by which files are written."""
        from pyiceberg.table.update import update_table_metadata

        return update_table_metadata(self.table.metadata, self.changes.updates)

    def commit(self, files: Iterable[WrittenFile] = ()) -> FailedCommit | None:
        """Commit the replacement by these files; returns None, or the definite failure; see `commit_snapshot`."""
        written = list(files)
        if not written:
            return commit_emptied(self.table, self.changes, self.before, self.storage)
        base = _base(self.metadata, self.table.metadata_location)
        operation = "append" if base.head is None else "overwrite"
        changes = SnapshotChanges(added_files(written, base), removes_all=base.head is not None)
        producer = SnapshotProducer(base, self.storage, operation, changes, self.properties)
        updates, known = self.changes.updates, set(self.before.metadata.snapshots)
        return commit_snapshot(
            *(self.table, producer, known, self.storage, record_updates(producer, self.transaction)),
            first=updates,
            requirements=self.changes.requirements,
        )


def _base(metadata: Any, source: str, branch: str = MAIN) -> CommitBase:
    return CommitBase(parse_metadata(metadata_text(metadata).encode(), source), metadata, branch)
