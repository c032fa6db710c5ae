"""Commit a produced snapshot through the table's catalog, with pyiceberg's public interface."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.iceberg.commit.outcomes import FailedCommit, commit, reload_table
from lakescan.iceberg.commit.reachable_files import files_since
from lakescan.iceberg.commit.snapshot_producer import NewSnapshot, SnapshotProducer
from lakescan.iceberg.data_files.encryption import check_catalog
from lakescan.iceberg.metadata.application_transactions import TransactionRecord
from lakescan.iceberg.metadata.commit_times import next_time
from lakescan.iceberg.metadata.encryption_keys import AddEncryptionKeys, snapshot_key_member
from lakescan.iceberg.metadata.pyiceberg_metadata import MetadataNotWritten
from lakescan.iceberg.metadata.table_metadata import MAIN
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage
from lakescan.storage.removal import discard

if TYPE_CHECKING:
    from pyiceberg.table import StagedTable, Table, Transaction

_RETENTION = ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")


def commit_snapshot(
    table: Table,
    producer: SnapshotProducer,
    known: Collection[int],
    storage: Storage,
    then: Sequence[Any] = (),
    requirements: Sequence[Any] = (),
    *,
    first: Sequence[Any] = (),
    is_staged: bool = False,
    committed: list[NewSnapshot] | None = None,
) -> FailedCommit | None:
    """Produce a snapshot and commit it, with the updates `first` before it and `then` after it (pyiceberg's).

    Returns None on success, or the definite failure. A committed snapshot is appended to `committed`.

    With `is_staged`, the snapshot is added but the branch does not move, so that no branch or tag names the snapshot.
    `known` are the ids of the snapshots that the table had before anything was written. The manifests of a failed
    commit are removed. Raises `CommitConflict` if a file to remove is missing or a concurrent commit conflicts, and the
    errors of `commit`.
    """
    if producer.keys is not None:
        check_catalog(table.catalog, ".".join(table.name()))
    try:
        new = producer.produce()
    except BaseException:  # nothing was sent to the catalog
        discard(
            storage,
            producer.stored_locations,
            lambda: files_since(reload_table(table, storage)[1], known),
            producer.lists,
        )
        raise
    branch = producer.base.branch
    *added, moved = snapshot_updates(table.metadata, new, branch)
    updates = (*first, *added, *then) if is_staged else (*first, *added, moved, *then)
    same = [*_same_branches(table, branch, new.parent_id), *_same_layout(table)]
    same += [each for each in requirements if each not in same]
    if is_staged:
        same += _no_other_snapshot(table)
    try:
        failed = commit(table, updates, tuple(same), storage, lambda now: new.snapshot_id in now.metadata.snapshots)
    except (MetadataNotWritten, UnsupportedFeature):
        discard(
            storage,
            producer.stored_locations,
            lambda: files_since(reload_table(table, storage)[1], known),
            producer.lists,
        )
        raise
    if failed is not None:
        discard(storage, producer.stored_locations, lambda: files_since(failed.now, known), producer.lists)
    elif committed is not None:
        committed.append(new)
    return failed


def commit_emptied(
    table: Table, changes: MetadataChanges, opened: IcebergTable, storage: Storage
) -> FailedCommit | None:
    """Commit metadata changes together with a snapshot that removes all files of `main`; see `commit_snapshot`.

    `opened` is the table as read by lakescan. Without a current snapshot, only the metadata changes are committed.
    """
    from pyiceberg.table.update import AssertRefSnapshotId

    base = CommitBase(opened.metadata, table.metadata)
    producer = SnapshotProducer(base, storage, "delete", SnapshotChanges(removes_all=True))
    then, requirements = changes.updates, changes.requirements
    if producer.base.head is not None:
        return commit_snapshot(table, producer, set(opened.metadata.snapshots), storage, then, requirements)
    empty = AssertRefSnapshotId(ref=MAIN, snapshot_id=None)
    return commit(table, then, (*requirements, empty), storage, lambda now: False)


def _same_branches(table: Table, branch: str, head: int | None) -> list[Any]:
    """Return the requirement that no branch has moved; in version 1, only that this branch has not moved.

    `head` is the id of the branch's newest snapshot, or None for a new branch, which also requires that `main` has not
    moved. Branches share sequence numbers and row ids, which not all catalogs check. A sequence number that is used
    twice, or that is less than the last one, makes deletes miss their rows, and other readers refuse the table. No
    requirement can cover a branch that was created concurrently. There the server must check the number itself, as
    Iceberg's own does.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.table.update import AssertRefSnapshotId

    if branch != MAIN and not table.metadata.snapshots and isinstance(table.catalog, MetastoreCatalog):
        # In a table without snapshots, pyiceberg's own catalogs check only the branch main.
        return [AssertRefSnapshotId(ref=MAIN, snapshot_id=None), *_no_other_snapshot(table)]
    refs = table.metadata.refs if table.metadata.format_version > 1 else {}
    heads = {name: each.snapshot_id for name, each in refs.items() if each.snapshot_ref_type == "branch"}
    if head is None:  # a new branch starts with the rows of main, so main must not have moved
        heads = {MAIN: table.metadata.current_snapshot_id, **heads}
    return [AssertRefSnapshotId(ref=name, snapshot_id=each) for name, each in {**heads, branch: head}.items()]


def _same_layout(table: Table) -> list[Any]:
    """Return the requirements that schema and default partition spec are unchanged, so that written files fit them."""
    from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSpecId

    given = table.metadata
    return [
        AssertCurrentSchemaId(current_schema_id=given.current_schema_id),
        AssertDefaultSpecId(default_spec_id=given.default_spec_id),
    ]


def still_there(table: Table, snapshot_id: int) -> list[Any]:
    """Return the requirement that a snapshot has not expired; empty for catalogs other than pyiceberg's own.

    When a snapshot expires, its data files are deleted. REST has no such requirement.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import AssertTableUUID

    if not isinstance(table.catalog, MetastoreCatalog):
        return []

    class AssertSnapshot(AssertTableUUID):
        """Requires that the snapshot exists."""

        def validate(self, base_metadata: Any) -> None:
            super().validate(base_metadata)
            if base_metadata.snapshot_by_id(snapshot_id) is None:
                raise CommitFailedException(f"Requirement failed: snapshot {snapshot_id} has expired")

    return [AssertSnapshot(uuid=table.metadata.table_uuid)]


def _no_other_snapshot(table: Table) -> list[Any]:
    """Return the requirement that no snapshot was added; empty for catalogs other than pyiceberg's own.

    A staged snapshot moves no branch, so other writers could use the same sequence number. REST servers check numbers.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import AssertTableUUID

    if not isinstance(table.catalog, MetastoreCatalog):
        return []
    known = {each.snapshot_id for each in table.metadata.snapshots}

    class AssertSnapshots(AssertTableUUID):
        """Requires that no snapshot was added."""

        def validate(self, base_metadata: Any) -> None:
            super().validate(base_metadata)
            if any(each.snapshot_id not in known for each in base_metadata.snapshots):
                raise CommitFailedException("Requirement failed: another snapshot was added")

    return [AssertSnapshots(uuid=table.metadata.table_uuid)]


def record_updates(producer: SnapshotProducer, transaction: tuple[str, int] | None) -> tuple[Any, ...]:
    """Return the pyiceberg update that records a snapshot's transaction in a table property.

    `transaction` is the application and its version. Without one, the result is empty.
    """
    from pyiceberg.table.update import SetPropertiesUpdate

    if transaction is None:
        return ()
    base = producer.base
    (application, version), uuid = transaction, base.metadata.uuid
    record = TransactionRecord(application, base.branch, version, producer.snapshot_id, base.sequence_number, uuid)
    return (SetPropertiesUpdate(updates=record.properties),)


def snapshot_updates(metadata: Any, new: NewSnapshot, branch: str) -> tuple[Any, ...]:
    """Return the updates that add encryption keys, if needed, and the snapshot, and move the branch to it.

    The branch keeps its retention settings. The metadata is pyiceberg's.
    """
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary
    from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

    lineage = {} if new.first_row_id is None else {"first_row_id": new.first_row_id, "added_rows": new.added_rows}
    snapshot = Snapshot(
        snapshot_id=new.snapshot_id,
        parent_snapshot_id=new.parent_id,
        sequence_number=new.sequence_number,
        timestamp_ms=next_time(metadata),
        manifest_list=new.manifest_list,
        summary=Summary(operation=Operation(new.operation), **new.summary),
        schema_id=new.schema_id,
        **lineage,
        **snapshot_key_member(new.key_id),
    )
    before = metadata.refs.get(branch)
    kept = {} if before is None else {name: getattr(before, name) for name in _RETENTION}
    moved = SetSnapshotRefUpdate(ref_name=branch, type="branch", snapshot_id=new.snapshot_id, **kept)
    keys = (AddEncryptionKeys(new.new_keys),) if new.new_keys else ()
    return *keys, AddSnapshotUpdate(snapshot=snapshot), moved


@dataclass(frozen=True)
class MetadataChanges:
    """Updates of a table's metadata and their requirements (both pyiceberg's)."""

    updates: tuple[Any, ...]
    requirements: tuple[Any, ...]

    @staticmethod
    def record(table: Table, change: Callable[[Transaction], None]) -> MetadataChanges:
        """Return the updates that `change` makes in a transaction of the table, without committing; raises its errors.

        Example:
            >>> MetadataChanges.record(table, lambda transaction: transaction.set_properties({"owner": "me"}))
        """
        from pyiceberg.table import Table

        recorded: list[MetadataChanges] = []
        of = Table(table.name(), table.metadata, table.metadata_location, table.io, _recorder(recorded))
        with of.transaction() as transaction:
            change(transaction)
        return recorded[0] if recorded else MetadataChanges((), ())

    @staticmethod
    def record_creation(staged: StagedTable) -> MetadataChanges:
        """Return the updates that create a staged table, and the requirement that it is new; nothing is committed.

        Example:
            >>> MetadataChanges.record_creation(stage_table(catalog, ("shop", "orders"), arguments)).updates
        """
        from pyiceberg.table import CreateTableTransaction, StagedTable

        recorded: list[MetadataChanges] = []
        given = staged.name(), staged.metadata, staged.metadata_location, staged.io
        CreateTableTransaction(StagedTable(*given, _recorder(recorded))).commit_transaction()
        return recorded[0]


def _recorder(recorded: list[MetadataChanges]) -> Any:
    """Return a pyiceberg catalog that appends the commits of a transaction to `recorded` instead of making them."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.table import CommitTableResponse

    class Recorder(NoopCatalog):
        """Records commits instead of making them."""

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> CommitTableResponse:
            recorded.append(MetadataChanges(tuple(updates), tuple(requirements)))
            return CommitTableResponse(metadata=table.metadata, metadata_location=table.metadata_location)

    return Recorder("recorder")
