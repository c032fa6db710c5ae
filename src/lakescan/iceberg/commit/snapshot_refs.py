"""Branches and tags: the rules for moving them, as in Java's `ManageSnapshots`, and the commit of a move.

The rules do no I/O. Each takes the metadata of a table, and returns the old and new snapshot of a branch or tag.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakescan.common.retries import COMMITS, Attempts, RetryPolicy
from lakescan.common.timestamps import from_millis
from lakescan.errors import CommitConflict, InvalidOption, NoSuchSnapshot, UnsupportedFeature, nearest
from lakescan.formats.snapshot_refs import IfRefExists, RefKind, RefRetention
from lakescan.iceberg.commit.commit import STAGED_ID
from lakescan.iceberg.commit.outcomes import FailedCommit, commit, wait_before_retry
from lakescan.iceberg.metadata.snapshot_retention import retention_by_name
from lakescan.iceberg.metadata.table_metadata import MAIN, IcebergSnapshot, SnapshotReference, TableMetadata, ancestors
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass(frozen=True)
class RefMove:
    """A branch or tag before and after a move; None if it does not exist. If both are equal, no commit is needed."""

    name: str
    before: SnapshotReference | None
    after: SnapshotReference | None

    @property
    def new_rows(self) -> int | None:
        """The id of the snapshot whose rows a branch gets by the move; None for tags and branches that stay."""
        if self.after is None or self.after.kind != RefKind.BRANCH:
            return None
        stays = self.before is not None and self.before.snapshot_id == self.after.snapshot_id
        return None if stays else self.after.snapshot_id


def create_move(
    metadata: TableMetadata, kind: RefKind, name: str, snapshot_id: int, retention: RefRetention, if_there: IfRefExists
) -> RefMove:
    """Return the move that creates a branch or tag, or sets an existing one to another snapshot.

    An existing one keeps its retention settings that `retention` does not set. With `IfRefExists.KEEP`, it is not
    moved. Raises `InvalidOption` if the name is taken and must not be, or is taken by the other kind, and
    `NoSuchSnapshot` if it must exist but does not.
    """
    before = metadata.refs.get(name)
    given = _retention_settings(kind, name, retention)
    if before is None:
        if if_there is IfRefExists.ONLY_REPLACE:
            raise _no_ref(metadata, kind, name)
        return RefMove(name, None, SnapshotReference(snapshot_id, kind.value, given))
    if if_there is IfRefExists.KEEP:
        return RefMove(name, before, before)
    if if_there is IfRefExists.REFUSE:
        raise InvalidOption(
            f"{metadata.location} already has a {before.kind} {name!r}, at snapshot {before.snapshot_id}: "
            "if_not_exists=True leaves it, replace=True sets it to another snapshot"
        )
    _check_kind(metadata, kind, name, before)
    return RefMove(name, before, SnapshotReference(snapshot_id, kind.value, {**before.retention, **given}))


def check_new(metadata: TableMetadata, kind: RefKind, name: str, retention: RefRetention) -> None:
    """Raise `InvalidOption` for an invalid name of a new branch or tag, or for retention settings that tags lack."""
    if not isinstance(name, str) or not name:
        raise InvalidOption(f"{name!r} is not the name of a {kind}: expected a string")
    if kind is RefKind.TAG and name == MAIN:
        raise InvalidOption(f"{MAIN!r} is the branch that {metadata.location} is read from: a tag needs another name")
    _retention_settings(kind, name, retention)


def drop_move(metadata: TableMetadata, kind: RefKind, name: str, *, if_exists: bool) -> RefMove:
    """Return the move that drops a branch or tag; raises `NoSuchSnapshot` if missing, `InvalidOption` for `main`."""
    before = metadata.refs.get(name)
    if name == MAIN:
        raise InvalidOption(f"the branch {MAIN!r} cannot be dropped: {metadata.location} is read from it")
    if before is None:
        if if_exists:
            return RefMove(name, None, None)
        raise _no_ref(metadata, kind, name)
    _check_kind(metadata, kind, name, before)
    return RefMove(name, before, None)


def fast_forward_move(metadata: TableMetadata, branch: str, to: str) -> RefMove:
    """Return the move of a branch to the snapshot of another branch or tag, which must be a descendant.

    A missing branch is created, as in Java. Raises `NoSuchSnapshot` if `to` does not exist, `UnsupportedFeature` if its
    snapshot is not a descendant of the branch's.
    """
    target, before = metadata.refs.get(to), metadata.refs.get(branch)
    if target is None:
        raise NoSuchSnapshot(
            f"{metadata.location} has no branch or tag {to!r} to fast-forward to.{nearest(to, metadata.refs)}"
        )
    if before is None:
        return RefMove(branch, None, SnapshotReference(target.snapshot_id, RefKind.BRANCH.value))
    _check_kind(metadata, RefKind.BRANCH, branch, before)
    line = {each.id for each in ancestors(metadata.snapshots, target.snapshot_id)}
    if before.snapshot_id not in line:
        raise UnsupportedFeature(
            f"fast-forwarding {branch!r} of {metadata.location} to {to!r}, which lacks its snapshot "
            f"{before.snapshot_id}",
            f"Commits that {to!r} does not have would be lost. Cherry-pick its snapshots (Table.cherry_pick), or first "
            "drop those of the branch, with Table.rollback (main) or Table.create_branch(..., replace=True).",
        )
    return RefMove(branch, before, SnapshotReference(target.snapshot_id, before.kind, before.retention))


def set_current_move(metadata: TableMetadata, snapshot_id: int) -> RefMove:
    """Return the move of `main` to any snapshot of the table; raises `NoSuchSnapshot`."""
    if snapshot_id not in metadata.snapshots:
        raise NoSuchSnapshot(f"{metadata.location} has no snapshot {snapshot_id}: see Table.history()")
    before = metadata.refs.get(MAIN)
    kept: Mapping[str, int] = {} if before is None else before.retention
    return RefMove(MAIN, before, SnapshotReference(snapshot_id, RefKind.BRANCH.value, kept))


def rollback_move(metadata: TableMetadata, snapshot_id: int) -> RefMove:
    """Return the move of `main` to an ancestor of the current snapshot.

    Raises `NoSuchSnapshot` for an unknown snapshot, `UnsupportedFeature` for one that is not an ancestor.
    """
    move = set_current_move(metadata, snapshot_id)
    if snapshot_id not in metadata.current_ancestors:
        raise UnsupportedFeature(
            f"rolling {metadata.location} back to snapshot {snapshot_id}, which is not an ancestor of the current one",
            "Table.set_current_snapshot makes any snapshot the current one.",
        )
    return move


def rollback_before_move(metadata: TableMetadata, milliseconds: int) -> RefMove:
    """Return the move of `main` to its newest ancestor from before a time; raises `NoSuchSnapshot`."""
    line = ancestors(metadata.snapshots, metadata.current_snapshot_id)
    earlier = [each for each in line if each.timestamp_ms < milliseconds]
    if not earlier:
        raise NoSuchSnapshot(
            f"{metadata.location}: no ancestor of the current snapshot is from before {from_millis(milliseconds)}: "
            "see Table.ancestors()"
        )
    return set_current_move(metadata, max(earlier, key=lambda each: each.timestamp_ms).id)


def move_ref(
    table: Table, opened: IcebergTable, storage: Storage, retries: RetryPolicy, rule: Callable[[IcebergTable], RefMove]
) -> RefMove:
    """Commit the move that a rule returns; retry after concurrent commits that did not move the branch or tag.

    Raises the errors of the rule, and `CommitConflict` if the branch or tag was moved, or the attempts run out.
    """
    where, attempts, first = ".".join(table.name()), Attempts(retries), rule(opened)
    move, at, now = first, copy(table), opened
    while move.before != move.after:
        failed = commit_move(at, move, storage)
        if failed is None:
            return move
        check_unmoved(where, first.name, first.before, failed.now.metadata)
        wait_before_retry(attempts, where, failed)
        at, now = failed.table, failed.now
        move = rule(now)
    return move


def commit_move(table: Table, move: RefMove, storage: Storage) -> FailedCommit | None:
    """Commit a move if the branch or tag has not moved since. Returns None on success, else the failed commit.

    If a branch gets new rows, the columns must be unchanged too, because the rows were checked for nulls.
    """
    from pyiceberg.table.update import AssertCurrentSchemaId, AssertRefSnapshotId

    where = None if move.before is None else move.before.snapshot_id
    same: list[Any] = [AssertRefSnapshotId(ref=move.name, snapshot_id=where)]
    if move.new_rows is not None:
        same.append(AssertCurrentSchemaId(current_schema_id=table.metadata.current_schema_id))
    return commit(
        table, (ref_update(move),), tuple(same), storage, lambda now: now.metadata.refs.get(move.name) == move.after
    )


def ref_update(move: RefMove) -> Any:
    """Return the move as pyiceberg's metadata update."""
    from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

    if move.after is None:
        return RemoveSnapshotRefUpdate(ref_name=move.name)
    kept = {name.replace("-", "_"): number for name, number in move.after.retention.items()}
    kind: Any = move.after.kind
    return SetSnapshotRefUpdate(ref_name=move.name, type=kind, snapshot_id=move.after.snapshot_id, **kept)


def check_unmoved(where: str, name: str, before: SnapshotReference | None, now: TableMetadata) -> None:
    """Raise `CommitConflict` if the branch or tag `name` is at another snapshot in `now` than in `before`.

    `where` is the table's name for the message. None means that it does not exist.
    """
    after = now.refs.get(name)
    was, is_now = (None if each is None else each.snapshot_id for each in (before, after))
    if was != is_now:
        raise CommitConflict(
            f"{where}: another writer moved {name!r} from {_describe_snapshot(was)} to {_describe_snapshot(is_now)} "
            "at the same time. Look at the table again, and repeat the call if you still want the change."
        )


def find_staged_snapshot(metadata: TableMetadata, wap_id: str) -> IcebergSnapshot:
    """Return the snapshot that was staged with a wap-id.

    Raises `NoSuchSnapshot` for an unknown wap-id, `InvalidOption` for a wap-id of several snapshots.
    """
    found = [each for each in metadata.snapshots.values() if each.summary.get(STAGED_ID) == wap_id]
    if not found:
        known = {each.summary[STAGED_ID] for each in metadata.snapshots.values() if STAGED_ID in each.summary}
        raise NoSuchSnapshot(
            f"{metadata.location} has no snapshot that was staged with wap-id {wap_id!r}.{nearest(wap_id, known)}"
        )
    if len(found) > 1:
        ids = ", ".join(str(each.id) for each in found)
        raise InvalidOption(
            f"{metadata.location} has several snapshots that were staged with wap-id {wap_id!r}: {ids}. Publish them "
            "one by one, with Table.cherry_pick."
        )
    return found[0]


def _describe_snapshot(snapshot_id: int | None) -> str:
    return "none" if snapshot_id is None else f"snapshot {snapshot_id}"


def _check_kind(metadata: TableMetadata, kind: RefKind, name: str, found: SnapshotReference) -> None:
    if found.kind != kind:
        raise InvalidOption(f"{name!r} is a {found.kind} of {metadata.location}, not a {kind}")


def _no_ref(metadata: TableMetadata, kind: RefKind, name: str) -> NoSuchSnapshot:
    known = [each for each, ref in metadata.refs.items() if ref.kind == kind]
    return NoSuchSnapshot(f"{metadata.location} has no {kind} {name!r}.{nearest(name, known)}")


def _retention_settings(kind: RefKind, name: str, retention: RefRetention) -> dict[str, int]:
    """Return retention settings by their JSON names; raises `InvalidOption` for settings that tags lack."""
    if kind is RefKind.TAG and (retention.max_snapshot_age or retention.min_snapshots_to_keep):
        raise InvalidOption(
            f"the tag {name!r} names one snapshot: max_snapshot_age and min_snapshots_to_keep are for branches. A tag "
            "is kept for max_ref_age."
        )
    return retention_by_name(retention)


def ensure_branch(table: Any, branch: str) -> Any:
    """Return pyiceberg's table, with the branch created at the current snapshot if it is missing.

    In a table without snapshots, the first commit to the branch creates it. Raises `InvalidOption` if the name is that
    of a tag.
    """
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.refs import SnapshotRefType

    attempts = Attempts(COMMITS)
    while branch != MAIN and branch not in table.metadata.refs:
        at = table.current_snapshot()
        if at is None:
            return table
        try:
            table.manage_snapshots().create_branch(at.snapshot_id, branch).commit()
        except CommitFailedException as error:  # another writer created it, or committed to the table
            attempts.wait_or_raise(".".join(table.name()), error)
        table = table.refresh()
    if branch != MAIN and table.metadata.refs[branch].snapshot_ref_type != SnapshotRefType.BRANCH:
        raise InvalidOption(f"branch={branch!r} is a tag of {'.'.join(table.name())}: tags stay where they are")
    return table
