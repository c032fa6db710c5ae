"""Commit a produced snapshot through the table's catalog, by pyiceberg's public interface."""

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
    """Produce a snapshot and commit it, the updates `first` before it, and `then` after it.

    Returns None, or the definite failure. A snapshot that was committed is appended to `committed`.

    With `is_staged`, the branch stays where it is: the snapshot is there, but no branch or tag names it.
    `known` are the ids of the snapshots that the table had before anything was written. The manifests of a failed
    commit are removed. Raises `CommitConflict` if the snapshot does not fit the table, and what `commit` raises.
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
    """Commit changes of a table's metadata, with a snapshot that removes all files; see `commit_snapshot`.

    `opened` is the table as lakescan read it before.
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
    """That no branch has another snapshot by now; in version 1, not this branch.

    Branches share sequence numbers and row ids, which not all catalogs check: a number that is used twice, or less than
    the last one, makes deletes miss their rows, and other readers refuse the table. Of a branch that was made since,
    nothing can be required: there a server must look at the number itself, as Iceberg's own does.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.table.update import AssertRefSnapshotId

    if branch != MAIN and not table.metadata.snapshots and isinstance(table.catalog, MetastoreCatalog):
        # In a table without snapshots, pyiceberg's own catalogs look for no branch but main.
        return [AssertRefSnapshotId(ref=MAIN, snapshot_id=None), *_no_other_snapshot(table)]
    refs = table.metadata.refs if table.metadata.format_version > 1 else {}
    heads = {name: each.snapshot_id for name, each in refs.items() if each.snapshot_ref_type == "branch"}
    if head is None:  # the first snapshot of a branch: in a table with rows, it would begin with these
        heads = {MAIN: table.metadata.current_snapshot_id, **heads}
    return [AssertRefSnapshotId(ref=name, snapshot_id=each) for name, each in {**heads, branch: head}.items()]


def _same_layout(table: Table) -> list[Any]:
    """That the schema, and the default partition spec, are the same: files that were written fit them."""
    from pyiceberg.table.update import AssertCurrentSchemaId, AssertDefaultSpecId

    given = table.metadata
    return [
        AssertCurrentSchemaId(current_schema_id=given.current_schema_id),
        AssertDefaultSpecId(default_spec_id=given.default_spec_id),
    ]


def still_there(table: Table, snapshot_id: int) -> list[Any]:
    """That a snapshot has not expired, for pyiceberg's own catalogs, which evaluate it in process.

    Its data files go once it has. REST has no such requirement.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import AssertTableUUID

    if not isinstance(table.catalog, MetastoreCatalog):
        return []

    class AssertSnapshot(AssertTableUUID):
        """Requires the snapshot."""

        def validate(self, base_metadata: Any) -> None:
            super().validate(base_metadata)
            if base_metadata.snapshot_by_id(snapshot_id) is None:
                raise CommitFailedException(f"Requirement failed: snapshot {snapshot_id} has expired")

    return [AssertSnapshot(uuid=table.metadata.table_uuid)]


def _no_other_snapshot(table: Table) -> list[Any]:
    """That no snapshot was added, for pyiceberg's own catalogs, which evaluate it in process.

    Staged snapshots move no branch, by which others would see that their number is taken. REST servers check numbers.
    """
    from pyiceberg.catalog import MetastoreCatalog
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.update import AssertTableUUID

    if not isinstance(table.catalog, MetastoreCatalog):
        return []
    known = {each.snapshot_id for each in table.metadata.snapshots}

    class AssertSnapshots(AssertTableUUID):
        """Requires that all snapshots were known."""

        def validate(self, base_metadata: Any) -> None:
            super().validate(base_metadata)
            if any(each.snapshot_id not in known for each in base_metadata.snapshots):
                raise CommitFailedException("Requirement failed: another snapshot was added")

    return [AssertSnapshots(uuid=table.metadata.table_uuid)]


def record_updates(producer: SnapshotProducer, transaction: tuple[str, int] | None) -> tuple[Any, ...]:
    """The update that sets the table property with the record of a transaction, if the snapshot commits one."""
    from pyiceberg.table.update import SetPropertiesUpdate

    if transaction is None:
        return ()
    base = producer.base
    (application, version), uuid = transaction, base.metadata.uuid
    record = TransactionRecord(application, base.branch, version, producer.snapshot_id, base.sequence_number, uuid)
    return (SetPropertiesUpdate(updates=record.properties),)


def snapshot_updates(metadata: Any, new: NewSnapshot, branch: str) -> tuple[Any, ...]:
    """The new snapshot, after the keys that it needs; last, the branch set to it with its retention in the metadata.

    The metadata is pyiceberg's.
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
    """Updates of a table's metadata, and what they require of the table (both pyiceberg's)."""

    updates: tuple[Any, ...]
    requirements: tuple[Any, ...]

    @staticmethod
    def record(table: Table, change: Callable[[Transaction], None]) -> MetadataChanges:
        """Return what `change` does to a transaction of the table; nothing is committed. Raises what `change` raises.

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
        """Return the updates that make a staged table, and that none has its name; nothing is committed.

        Example:
            >>> MetadataChanges.record_creation(stage_table(catalog, ("shop", "orders"), arguments)).updates
        """
        from pyiceberg.table import CreateTableTransaction, StagedTable

        recorded: list[MetadataChanges] = []
        given = staged.name(), staged.metadata, staged.metadata_location, staged.io
        CreateTableTransaction(StagedTable(*given, _recorder(recorded))).commit_transaction()
        return recorded[0]


def _recorder(recorded: list[MetadataChanges]) -> Any:
    """A catalog that records the one commit of a transaction."""
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.table import CommitTableResponse

    class Recorder(NoopCatalog):
        """Records commits, and makes none."""

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> CommitTableResponse:
            recorded.append(MetadataChanges(tuple(updates), tuple(requirements)))
            return CommitTableResponse(metadata=table.metadata, metadata_location=table.metadata_location)

    return Recorder("recorder")
