"""What a table with branches and tags offers: to make, move and drop them, and to move the table to other snapshots."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from lakescan.formats.snapshot_refs import IfRefExists, RefKind, RefRetention
from lakescan.formats.table_format import SnapshotSelector
from lakescan.tables.results import RefResult


class SnapshotManager(Protocol):
    """The branches, tags and snapshots of a table, as they are when it is opened.

    Each method makes one commit, or none if there is nothing to do. It is made again after commits of others, unless
    these moved the same branch or tag. All raise `CommitConflict` then, and `CommitStateUnknown`.
    """

    def create(
        self, kind: RefKind, name: str, at: SnapshotSelector, retention: RefRetention, if_there: IfRefExists
    ) -> RefResult:
        """Make a branch or tag of a state.

        Raises `InvalidOption` if the name is taken, or tags are to keep snapshots; `NoSuchSnapshot`.
        """

    def drop(self, kind: RefKind, name: str, *, if_exists: bool) -> RefResult:
        """Drop a branch or tag; raises `NoSuchSnapshot` if it is not there, `InvalidOption` for `main`."""

    def fast_forward(self, branch: str, to: str) -> RefResult:
        """Move a branch to a descendant of its newest snapshot, which another branch or a tag names."""

    def rollback(self, version: int | None, before: datetime | None) -> RefResult:
        """Move the current state to an ancestor: by id, or the newest one from before a time."""

    def set_current(self, at: SnapshotSelector) -> RefResult:
        """Make any state of the table the current one."""

    def cherry_pick(self, version: int) -> RefResult:
        """Apply the changes of a snapshot to the current state."""

    def publish(self, wap_id: str) -> RefResult:
        """Apply the changes of the snapshot that was staged with an id."""
