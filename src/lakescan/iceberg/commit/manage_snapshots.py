"""Manage branches, tags and snapshots of an Iceberg table: implements `SnapshotManager` by commits to its catalog."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.common.timestamps import to_millis
from lakescan.errors import InvalidOption, NoSuchSnapshot
from lakescan.formats.snapshot_refs import IfRefExists, RefKind, RefRetention
from lakescan.formats.table_format import SnapshotSelector
from lakescan.iceberg.commit.cherry_pick import cherry_pick
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.commit_snapshot import commit_snapshot
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.iceberg.commit.not_null_checks import check_no_nulls
from lakescan.iceberg.commit.outcomes import wait_before_retry
from lakescan.iceberg.commit.snapshot_producer import SnapshotProducer
from lakescan.iceberg.commit.snapshot_refs import (
    RefMove,
    check_new,
    create_move,
    drop_move,
    fast_forward_move,
    find_staged_snapshot,
    move_ref,
    ref_update,
    rollback_before_move,
    rollback_move,
    set_current_move,
)
from lakescan.iceberg.metadata.table_metadata import MAIN
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage
from lakescan.tables.committer import Committer
from lakescan.tables.results import RefResult, RestoreResult
from lakescan.tables.scan_spec import ScanSpec


@dataclass(frozen=True)
class IcebergSnapshots:
    """The branches, tags and snapshots of a table; `table` is pyiceberg's, `opened` the same as read by lakescan."""

    committer: Committer
    table: Any
    opened: IcebergTable
    storage: Storage
    retries: RetryPolicy

    def create(
        self, kind: RefKind, name: str, at: SnapshotSelector, retention: RefRetention, if_there: IfRefExists
    ) -> RefResult:
        """Create a branch or tag; in a table without snapshots, a branch gets an empty snapshot, as in Java.

        Raises `InvalidOption` for an invalid or existing name, `NoSuchSnapshot` if the snapshot does not exist.
        """
        check_new(self.opened.metadata, kind, name, retention)

        def rule(now: IcebergTable) -> RefMove:
            known = now.metadata.refs.get(name)
            if known is not None and if_there in (IfRefExists.KEEP, IfRefExists.REFUSE):
                return create_move(now.metadata, kind, name, known.snapshot_id, retention, if_there)
            return create_move(now.metadata, kind, name, self._id(now, at), retention, if_there)

        is_empty = self.opened.metadata.current_snapshot_id is None and at == SnapshotSelector()
        is_new = name not in self.opened.metadata.refs and if_there is not IfRefExists.ONLY_REPLACE
        if kind is RefKind.BRANCH and is_empty and is_new:
            return self._create_empty_branch(name, retention)
        return self._commit_move(rule)

    def _id(self, now: IcebergTable, at: SnapshotSelector) -> int:
        found = now.snapshot(at).id
        if found is None:
            raise NoSuchSnapshot(
                f"{self.committer.identifier} has no snapshot yet that a branch or tag could name: write rows first"
            )
        return found

    def _create_empty_branch(self, name: str, retention: RefRetention) -> RefResult:
        attempts, at, now = Attempts(self.retries), copy(self.table), self.opened
        with self.committer.translate_errors():
            while True:
                producer = SnapshotProducer(
                    CommitBase(now.metadata, at.metadata, name), self.storage, "append", SnapshotChanges()
                )
                move = create_move(
                    now.metadata, RefKind.BRANCH, name, producer.snapshot_id, retention, IfRefExists.REFUSE
                )
                known = set(self.opened.metadata.snapshots)
                failed = commit_snapshot(at, producer, known, self.storage, then=(ref_update(move),))
                if failed is None:
                    return RefResult(name, None, producer.snapshot_id)
                wait_before_retry(attempts, str(self.committer.identifier), failed)
                at, now = failed.table, failed.now

    def drop(self, kind: RefKind, name: str, *, if_exists: bool) -> RefResult:
        """Drop a branch or tag; snapshots that only it named stay until they expire. See `drop_move` for the errors."""
        return self._commit_move(lambda now: drop_move(now.metadata, kind, name, if_exists=if_exists))

    def fast_forward(self, branch: str, to: str) -> RefResult:
        """Move a branch to `to`, a descendant of its newest snapshot; see `fast_forward_move` for the errors."""
        return self._commit_move(lambda now: fast_forward_move(now.metadata, branch, to))

    def rollback(self, version: int | None, before: datetime | None) -> RefResult:
        """Move the branch main to an ancestor of the current snapshot: `version`, or the newest one before a time.

        Raises `NoSuchSnapshot`, and `UnsupportedFeature` for a version that is not an ancestor.
        """
        if before is not None:
            return self._commit_move(lambda now: rollback_before_move(now.metadata, to_millis(before)))
        assert version is not None
        return self._commit_move(lambda now: rollback_move(now.metadata, version))

    def set_current(self, at: SnapshotSelector) -> RefResult:
        """Make any snapshot of the table the current one; raises `NoSuchSnapshot`."""
        return self._commit_move(lambda now: set_current_move(now.metadata, self._id(now, at)))

    def cherry_pick(self, version: int) -> RefResult:
        """Apply the changes of a snapshot to the current snapshot; see `cherry_pick` for the errors."""
        with self.committer.translate_errors():
            before, after = cherry_pick(
                self.table, self.opened, version, self.storage, self.retries, self._check_picked
            )
        return RefResult(MAIN, before, after)

    def publish(self, wap_id: str) -> RefResult:
        """Cherry-pick the snapshot that was staged with a wap-id.

        Raises `InvalidOption` for an empty wap-id, and the errors of `find_staged_snapshot` and `cherry_pick`.
        """
        if not isinstance(wap_id, str) or not wap_id:
            raise InvalidOption(f"wap_id={wap_id!r}: expected the id that the changes were staged with, a string")
        return self.cherry_pick(find_staged_snapshot(self.opened.metadata, wap_id).id)

    def _check_picked(self, now: IcebergTable, picked: int) -> None:
        check_no_nulls(now, picked, self.storage, added=True)

    def _commit_move(self, rule: Callable[[IcebergTable], RefMove]) -> RefResult:
        def check_rows(now: IcebergTable) -> RefMove:
            move = rule(now)
            if move.new_rows is not None:
                check_no_nulls(now, move.new_rows, self.storage)
            return move

        with self.committer.translate_errors():
            move = move_ref(self.table, self.opened, self.storage, self.retries, check_rows)
        before, after = move.before, move.after
        changed = before is not None and after is not None and before.retention != after.retention
        ids = [None if each is None else each.snapshot_id for each in (before, after)]
        return RefResult(move.name, ids[0], ids[1], changed)


def restore(
    scan: ScanSpec, snapshots: IcebergSnapshots, version: int | str | None, timestamp: datetime | None
) -> RestoreResult:
    """Set the branch main to a snapshot, and count the restored and removed files; `scan` is of the current one.

    Commits nothing if it already is the current snapshot. Raises `NoSuchSnapshot`, also for a table without snapshots,
    and `CommitConflict` if another writer commits.
    """
    earlier = scan.as_of(version=version, timestamp=timestamp)
    wanted = earlier.snapshot.id
    if wanted is None:
        raise NoSuchSnapshot(f"{snapshots.committer.identifier} has no snapshot to restore")
    after, before = _files(earlier), _files(scan)
    back = after.filter(pc.invert(pc.is_in(after["path"], value_set=before["path"].combine_chunks())))
    gone = before.filter(pc.invert(pc.is_in(before["path"], value_set=after["path"].combine_chunks())))
    if wanted != scan.snapshot.id:
        snapshots.set_current(SnapshotSelector(version=wanted))
    return RestoreResult(
        wanted,
        _bytes(after),
        len(after),
        len(gone),
        len(back),
        removed_files_size=_bytes(gone),
        restored_files_size=_bytes(back),
    )


def _files(scan: ScanSpec) -> pa.Table:
    return scan.file_table().files.select(["path", "size"])


def _bytes(files: pa.Table) -> int:
    return pc.sum(files["size"]).as_py() or 0
