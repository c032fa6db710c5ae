"""Branches, tags and snapshots of tables: what `Table` offers to look at them and to move them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from lakescan.api.scan import Scan
from lakescan.common.html import register_display
from lakescan.common.timestamps import as_moment
from lakescan.errors import InvalidOption
from lakescan.formats.snapshot_refs import IfRefExists, RefKind, RefRetention, SnapshotRef
from lakescan.formats.table_format import SnapshotSelector
from lakescan.options.write import WriteOptions
from lakescan.tables.base import Target
from lakescan.tables.capabilities import BranchesAndTags, require
from lakescan.tables.results import RefResult

Moment = datetime | date | str


class TableRefs(ABC):
    """The methods of `Table` that are about branches, tags and snapshots."""

    @abstractmethod
    def scan(self) -> Scan:
        """A scan of the table."""

    @abstractmethod
    def written_by(self, options: Mapping[str, Any], write: Callable[[Target, WriteOptions], Any]) -> Any:
        """Write to the table as it is now by a function."""

    @property
    def branches(self) -> Mapping[str, SnapshotRef]:
        """The branches of an Iceberg table by name, `main` first.

        Raises:
            UnsupportedFeature: A Delta table.

        Example:
            >>> orders.branches["audit"].snapshot_id
            4712
        """
        return self.scan().spec.table.refs(RefKind.BRANCH)

    @property
    def tags(self) -> Mapping[str, SnapshotRef]:
        """The tags of an Iceberg table by name.

        Raises:
            UnsupportedFeature: A Delta table.

        Example:
            >>> sorted(orders.tags)
            ['eoy-2024', 'eoy-2025']
        """
        return self.scan().spec.table.refs(RefKind.TAG)

    def ancestors(self, version: int | str | None = None) -> pa.Table:
        """A snapshot of an Iceberg table and those that it was made from, as far as they have not expired.

        Args:
            version: A snapshot id, or the name of a branch or tag; the current snapshot by default.

        Returns:
            The columns `snapshot_id` and `committed_at`, newest first.

        Raises:
            NoSuchSnapshot: The table does not have it.
            UnsupportedFeature: A Delta table, whose versions are in one line: see `Table.history`.

        Example:
            >>> orders.ancestors()["snapshot_id"].to_pylist()
            [4712, 4711]
        """
        table = self.scan().spec.table
        return register_display(table.ancestors(table.snapshot(SnapshotSelector(version=version))))

    def create_branch(
        self,
        name: str,
        *,
        version: int | None = None,
        timestamp: Moment | None = None,
        branch: str | None = None,
        tag: str | None = None,
        replace: bool = False,
        if_not_exists: bool = False,
        max_ref_age: timedelta | None = None,
        max_snapshot_age: timedelta | None = None,
        min_snapshots_to_keep: int | None = None,
    ) -> RefResult:
        """Make a branch of an Iceberg table, to write to by the option `branch`.

        Args:
            name: Its name.
            version: The id of the snapshot that it begins at; the current one by default. In a table without
                snapshots, it begins with an empty one.
            timestamp: Begin at the state at that time; UTC without an offset.
            branch: Begin at the newest snapshot of another branch.
            tag: Begin at the snapshot of a tag.
            replace: If the branch is there, set it to that snapshot; it keeps what it says of retention.
            if_not_exists: If there is a branch or tag of that name, leave it as it is.
            max_ref_age: The age of its newest snapshot from which on `expire_snapshots` removes the branch.
            max_snapshot_age: The age from which on `expire_snapshots` removes snapshots of the branch.
            min_snapshots_to_keep: How many of its snapshots stay, however old they are.

        Returns:
            The snapshots that it named before, and that it names now.

        Raises:
            InvalidOption: There is a branch or tag of that name; or arguments contradict each other.
            NoSuchSnapshot: The table does not have the state.
            CommitConflict: Another writer moved the branch at the same time.
            CommitStateUnknown: The answer to the commit was lost, and looking it up failed.
            UnsupportedFeature: A Delta table.

        Example:
            >>> orders.create_branch("audit", min_snapshots_to_keep=2)
            >>> orders.append(rows, branch="audit")
        """
        at = _state(version, timestamp, branch, tag)
        retention = RefRetention(max_ref_age, max_snapshot_age, min_snapshots_to_keep)
        return self._create(RefKind.BRANCH, name, at, retention, _if_there(replace, if_not_exists))

    def create_tag(
        self,
        name: str,
        *,
        version: int | None = None,
        timestamp: Moment | None = None,
        branch: str | None = None,
        tag: str | None = None,
        replace: bool = False,
        if_not_exists: bool = False,
        max_ref_age: timedelta | None = None,
    ) -> RefResult:
        """Name a state of an Iceberg table by a tag; expiry keeps what tags name.

        Args:
            name: Its name.
            version: The id of the snapshot that it names; the current one by default.
            timestamp: Name the state at that time; UTC without an offset.
            branch: Name the newest snapshot of a branch.
            tag: Name the snapshot of another tag.
            replace: If the tag is there, set it to that snapshot; it keeps what it says of retention.
            if_not_exists: If there is a branch or tag of that name, leave it as it is.
            max_ref_age: The age of its snapshot from which on `expire_snapshots` removes the tag.

        Returns:
            The snapshots that it named before, and that it names now.

        Raises:
            InvalidOption, NoSuchSnapshot, CommitConflict, CommitStateUnknown, UnsupportedFeature: As for
                `create_branch`; there is no snapshot to name yet.

        Example:
            >>> orders.create_tag("eoy-2025", timestamp="2026-01-01")
        """
        at = _state(version, timestamp, branch, tag)
        retention = RefRetention(max_ref_age)
        return self._create(RefKind.TAG, name, at, retention, _if_there(replace, if_not_exists))

    def replace_branch(
        self,
        name: str,
        *,
        version: int | None = None,
        timestamp: Moment | None = None,
        branch: str | None = None,
        tag: str | None = None,
        max_ref_age: timedelta | None = None,
        max_snapshot_age: timedelta | None = None,
        min_snapshots_to_keep: int | None = None,
    ) -> RefResult:
        """Set a branch that is there to another snapshot; arguments are those of `create_branch`.

        Args:
            name: Its name.
            version: The id of the snapshot; the current one by default.
            timestamp: Set it to the state at that time; UTC without an offset.
            branch: Set it to the newest snapshot of another branch.
            tag: Set it to the snapshot of a tag.
            max_ref_age: See `create_branch`; what it says already by default, as of the other two.
            max_snapshot_age: See `create_branch`.
            min_snapshots_to_keep: See `create_branch`.

        Returns:
            The snapshots that it named before, and that it names now.

        Raises:
            NoSuchSnapshot: There is no such branch, or no such state.
            CommitConflict, CommitStateUnknown, UnsupportedFeature: As for `create_branch`.

        Example:
            >>> orders.replace_branch("audit", tag="eoy-2025")
        """
        at = _state(version, timestamp, branch, tag)
        retention = RefRetention(max_ref_age, max_snapshot_age, min_snapshots_to_keep)
        return self._create(RefKind.BRANCH, name, at, retention, IfRefExists.ONLY_REPLACE)

    def replace_tag(
        self,
        name: str,
        *,
        version: int | None = None,
        timestamp: Moment | None = None,
        branch: str | None = None,
        tag: str | None = None,
        max_ref_age: timedelta | None = None,
    ) -> RefResult:
        """Set a tag that is there to another snapshot; arguments are those of `create_tag`.

        Args:
            name: Its name.
            version: The id of the snapshot; the current one by default.
            timestamp: Set it to the state at that time; UTC without an offset.
            branch: Set it to the newest snapshot of a branch.
            tag: Set it to the snapshot of another tag.
            max_ref_age: See `create_tag`; what it says already by default.

        Returns:
            The snapshots that it named before, and that it names now.

        Raises:
            NoSuchSnapshot: There is no such tag, or no such state.
            CommitConflict, CommitStateUnknown, UnsupportedFeature: As for `create_branch`.

        Example:
            >>> orders.replace_tag("latest-audited", branch="audit")
        """
        at = _state(version, timestamp, branch, tag)
        return self._create(RefKind.TAG, name, at, RefRetention(max_ref_age), IfRefExists.ONLY_REPLACE)

    def drop_branch(self, name: str, *, if_exists: bool = False) -> RefResult:
        """Drop a branch of an Iceberg table. Snapshots that only it has stay until they expire.

        Args:
            name: Its name; not `main`.
            if_exists: Do nothing if it is not there.

        Returns:
            The snapshot that it named.

        Raises:
            NoSuchSnapshot: It is not there.
            InvalidOption: It is a tag, or `main`.
            CommitConflict, CommitStateUnknown, UnsupportedFeature: As for `create_branch`.

        Example:
            >>> orders.drop_branch("audit")
        """
        return self._change_refs(
            lambda target: require(target, BranchesAndTags).snapshots.drop(RefKind.BRANCH, name, if_exists=if_exists)
        )

    def drop_tag(self, name: str, *, if_exists: bool = False) -> RefResult:
        """Drop a tag of an Iceberg table. Its snapshot stays until it expires.

        Args:
            name: Its name.
            if_exists: Do nothing if it is not there.

        Returns:
            The snapshot that it named.

        Raises:
            NoSuchSnapshot: It is not there.
            InvalidOption: It is a branch.
            CommitConflict, CommitStateUnknown, UnsupportedFeature: As for `create_branch`.

        Example:
            >>> orders.drop_tag("eoy-2024", if_exists=True)
        """
        return self._change_refs(
            lambda target: require(target, BranchesAndTags).snapshots.drop(RefKind.TAG, name, if_exists=if_exists)
        )

    def fast_forward(self, branch: str, to: str) -> RefResult:
        """Move a branch of an Iceberg table to the newest snapshot of another, which has all of its commits.

        Args:
            branch: The branch that moves, such as `main`. It is made if it is not there.
            to: The branch or tag with the snapshot to move to.

        Returns:
            The snapshots that the branch named before, and that it names now.

        Raises:
            NoSuchSnapshot: There is no branch or tag `to`.
            UnsupportedFeature: `to` lacks commits of the branch, which would be lost; or a Delta table.
            CommitConflict, CommitStateUnknown: As for `create_branch`.

        Example:
            >>> orders.fast_forward("main", "audit")
        """
        return self._change_refs(lambda target: require(target, BranchesAndTags).snapshots.fast_forward(branch, to))

    def rollback(self, *, version: int | None = None, timestamp: Moment | None = None) -> RefResult:
        """Make an ancestor of an Iceberg table's current snapshot the current one; later ones stay until they expire.

        Args:
            version: Its id.
            timestamp: Go back to the newest ancestor from before this time; UTC without an offset.

        Returns:
            The current snapshots before and after.

        Raises:
            NoSuchSnapshot: There is no such snapshot.
            UnsupportedFeature: It is not an ancestor: see `set_current_snapshot`; or a Delta table: see `restore`.
            CommitConflict: Another writer committed at the same time.
            CommitStateUnknown: As for `create_branch`.

        Example:
            >>> orders.rollback(timestamp="2026-01-31T12:00")
        """
        if (version is None) == (timestamp is None):
            raise InvalidOption("rollback takes either version= or timestamp=")
        before = None if timestamp is None else as_moment(timestamp)
        return self._change_refs(
            lambda target: require(target, BranchesAndTags).snapshots.rollback(_snapshot_id(version), before)
        )

    def set_current_snapshot(self, *, version: int | None = None, ref: str | None = None) -> RefResult:
        """Make any snapshot of an Iceberg table the current one.

        Args:
            version: Its id.
            ref: The branch or tag that names it.

        Returns:
            The current snapshots before and after.

        Raises:
            NoSuchSnapshot: There is no such snapshot, branch or tag.
            CommitConflict: Another writer committed at the same time.
            CommitStateUnknown, UnsupportedFeature: As for `create_branch`.

        Example:
            >>> orders.set_current_snapshot(ref="audit")
        """
        if (version is None) == (ref is None):
            raise InvalidOption("set_current_snapshot takes either version= or ref=")
        named = SnapshotSelector(version=_snapshot_id(version)) if ref is None else None
        return self._change_refs(
            lambda target: require(target, BranchesAndTags).snapshots.set_current(
                named or _ref_selector(target, str(ref))
            )
        )

    def cherry_pick(self, version: int) -> RefResult:
        """Apply the changes of one snapshot of an Iceberg table to its current state.

        If the snapshot was made from the current one, it becomes the current one. Otherwise a new snapshot is made,
        with `source-snapshot-id` in its summary: of an append, or of a dynamic overwrite whose partitions nobody has
        changed since.

        Args:
            version: The id of the snapshot, such as one that was staged with the write option `wap-id`.

        Returns:
            The current snapshots before and after.

        Raises:
            NoSuchSnapshot: There is no such snapshot.
            InvalidOption: The current state has it already, or another one with the same wap-id.
            UnsupportedFeature: It is neither an append nor a dynamic overwrite; or a Delta table.
            CommitConflict: Partitions that it replaces have changed.
            CommitStateUnknown: As for `create_branch`.

        Example:
            >>> orders.cherry_pick(4712)
        """
        wanted = _snapshot_id(version)
        if wanted is None:
            raise InvalidOption("cherry_pick takes the id of a snapshot")
        return self._change_refs(lambda target: require(target, BranchesAndTags).snapshots.cherry_pick(wanted))

    def publish(self, wap_id: str) -> RefResult:
        """Apply the changes that were staged with the write option `wap-id`, once they are audited.

        Args:
            wap_id: The id that they were staged with.

        Returns:
            The current snapshots before and after.

        Raises:
            NoSuchSnapshot: No snapshot was staged with this id.
            InvalidOption: Several were, or it is published already.
            UnsupportedFeature, CommitConflict, CommitStateUnknown: As for `cherry_pick`.

        Example:
            >>> orders.append(rows, wap_id="load-17")
            >>> orders.publish("load-17")
        """
        return self._change_refs(lambda target: require(target, BranchesAndTags).snapshots.publish(wap_id))

    def _create(
        self, kind: RefKind, name: str, at: SnapshotSelector, retention: RefRetention, if_there: IfRefExists
    ) -> RefResult:
        return self._change_refs(
            lambda target: require(target, BranchesAndTags).snapshots.create(kind, name, at, retention, if_there)
        )

    def _change_refs(self, manage: Callable[[Target], RefResult]) -> RefResult:
        found: RefResult = self.written_by({}, lambda target, _: manage(target))
        return found


def _state(version: int | None, timestamp: Moment | None, branch: str | None, tag: str | None) -> SnapshotSelector:
    given = [name for name, value in (("version", version), ("timestamp", timestamp)) if value is not None]
    given += [name for name, value in (("branch", branch), ("tag", tag)) if value is not None]
    if len(given) > 1:
        raise InvalidOption(f"{' and '.join(given)} each select a state: give only one")
    moment = None if timestamp is None else as_moment(timestamp)
    return SnapshotSelector(version=_snapshot_id(version), timestamp=moment, branch=branch, tag=tag)


def _snapshot_id(version: int | None) -> int | None:
    if version is not None and (not isinstance(version, int) or isinstance(version, bool)):
        raise InvalidOption(f"version={version!r}: expected the id of a snapshot, a number")
    return version


def _ref_selector(target: Target, ref: str) -> SnapshotSelector:
    """The state that a branch or tag names, whichever it is."""
    table = target.scan.table
    kinds = {name: kind for kind in RefKind for name in table.refs(kind)}
    is_tag = kinds.get(ref) is RefKind.TAG
    return SnapshotSelector(tag=ref) if is_tag else SnapshotSelector(branch=ref)


def _if_there(replace: bool, if_not_exists: bool) -> IfRefExists:
    if replace and if_not_exists:
        raise InvalidOption("replace and if_not_exists contradict each other: give only one")
    return IfRefExists.REPLACE if replace else IfRefExists.KEEP if if_not_exists else IfRefExists.REFUSE
