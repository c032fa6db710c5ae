"""The methods of `Table` for branches, tags and snapshots."""

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
    """The methods of `Table` for branches, tags and snapshots."""

    @abstractmethod
    def scan(self) -> Scan:
        """Return a scan of all rows."""

    @abstractmethod
    def written_by(self, options: Mapping[str, Any], write: Callable[[Target, WriteOptions], Any]) -> Any:
        """Call a function that writes to the current table; see `Table.written_by`."""

    @property
    def branches(self) -> Mapping[str, SnapshotRef]:
        """The branches of an Iceberg table by name, `main` first.

        Raises:
            UnsupportedFeature: The table is a Delta table.

        Example:
            >>> orders.branches["audit"].snapshot_id
            4712
        """
        return self.scan().spec.table.refs(RefKind.BRANCH)

    @property
    def tags(self) -> Mapping[str, SnapshotRef]:
        """The tags of an Iceberg table by name.

        Raises:
            UnsupportedFeature: The table is a Delta table.

        Example:
            >>> sorted(orders.tags)
            ['eoy-2024', 'eoy-2025']
        """
        return self.scan().spec.table.refs(RefKind.TAG)

    def ancestors(self, version: int | str | None = None) -> pa.Table:
        """Return a snapshot of an Iceberg table and its ancestors that have not expired.

        Args:
            version: A snapshot id, or the name of a branch or tag. By default the current snapshot.

        Returns:
            A table with the columns `snapshot_id` and `committed_at`, newest first.

        Raises:
            NoSuchSnapshot: The snapshot, branch or tag does not exist.
            UnsupportedFeature: The table is a Delta table; see `Table.history`.

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
        """Create a branch of an Iceberg table. The option `branch` of writes and reads selects it.

        Args:
            name: The branch's name.
            version: The id of the snapshot that the branch starts at. By default the current one. In a table without
                snapshots, an empty one is created.
            timestamp: Start at the snapshot that was current at this time (UTC unless it has an offset).
            branch: Start at the newest snapshot of another branch.
            tag: Start at the snapshot of a tag.
            replace: If the branch exists, move it to that snapshot. Retention settings that are not given stay.
            if_not_exists: If a branch or tag has the name, leave it as it is.
            max_ref_age: `expire_snapshots` drops the branch when its newest snapshot is older than this.
            max_snapshot_age: `expire_snapshots` expires snapshots of the branch that are older than this.
            min_snapshots_to_keep: The number of newest snapshots of the branch that never expire.

        Returns:
            The ids of the snapshots that it pointed to before and that it points to now.

        Raises:
            InvalidOption: A branch or tag has the name, or arguments contradict each other.
            NoSuchSnapshot: The snapshot, branch or tag to start at does not exist.
            CommitConflict: Another writer moved the branch at the same time.
            CommitStateUnknown: The answer to the commit was lost, and lakescan could not find out whether it succeeded.
            UnsupportedFeature: The table is a Delta table.

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
        """Create a tag for a snapshot of an Iceberg table. Tagged snapshots do not expire.

        Args:
            name: The tag's name.
            version: The id of the snapshot to tag. By default the current one.
            timestamp: Tag the snapshot that was current at this time (UTC unless it has an offset).
            branch: Tag the newest snapshot of a branch.
            tag: Tag the snapshot of another tag.
            replace: If the tag exists, move it to that snapshot. Its `max_ref_age` stays unless given.
            if_not_exists: If a branch or tag has the name, leave it as it is.
            max_ref_age: `expire_snapshots` drops the tag when its snapshot is older than this.

        Returns:
            The ids of the snapshots that it pointed to before and that it points to now.

        Raises:
            NoSuchSnapshot: The snapshot, branch or tag does not exist, or the table has no snapshot yet.
            InvalidOption, CommitConflict, CommitStateUnknown, UnsupportedFeature: As for `create_branch`.

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
        """Move an existing branch of an Iceberg table to another snapshot.

        Args:
            name: The branch's name.
            version: The id of the snapshot. By default the current one.
            timestamp: Move it to the snapshot that was current at this time (UTC unless it has an offset).
            branch: Move it to the newest snapshot of another branch.
            tag: Move it to the snapshot of a tag.
            max_ref_age: See `create_branch`. Retention settings that are not given stay.
            max_snapshot_age: See `create_branch`.
            min_snapshots_to_keep: See `create_branch`.

        Returns:
            The ids of the snapshots that it pointed to before and that it points to now.

        Raises:
            NoSuchSnapshot: The branch, or the snapshot to move it to, does not exist.
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
        """Move an existing tag of an Iceberg table to another snapshot.

        Args:
            name: The tag's name.
            version: The id of the snapshot. By default the current one.
            timestamp: Move it to the snapshot that was current at this time (UTC unless it has an offset).
            branch: Move it to the newest snapshot of a branch.
            tag: Move it to the snapshot of another tag.
            max_ref_age: See `create_tag`. Unchanged by default.

        Returns:
            The ids of the snapshots that it pointed to before and that it points to now.

        Raises:
            NoSuchSnapshot: The tag, or the snapshot to move it to, does not exist.
            CommitConflict, CommitStateUnknown, UnsupportedFeature: As for `create_branch`.

        Example:
            >>> orders.replace_tag("latest-audited", branch="audit")
        """
        at = _state(version, timestamp, branch, tag)
        return self._create(RefKind.TAG, name, at, RefRetention(max_ref_age), IfRefExists.ONLY_REPLACE)

    def drop_branch(self, name: str, *, if_exists: bool = False) -> RefResult:
        """Drop a branch of an Iceberg table. Snapshots that only this branch has stay until they expire.

        Args:
            name: The branch's name; not `main`.
            if_exists: Do nothing if the branch does not exist.

        Returns:
            The id of the snapshot that it pointed to.

        Raises:
            NoSuchSnapshot: The branch does not exist, and `if_exists` is not given.
            InvalidOption: The name is that of a tag, or `main`.
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
            name: The tag's name.
            if_exists: Do nothing if the tag does not exist.

        Returns:
            The id of the snapshot that it pointed to.

        Raises:
            NoSuchSnapshot: The tag does not exist, and `if_exists` is not given.
            InvalidOption: The name is that of a branch.
            CommitConflict, CommitStateUnknown, UnsupportedFeature: As for `create_branch`.

        Example:
            >>> orders.drop_tag("eoy-2024", if_exists=True)
        """
        return self._change_refs(
            lambda target: require(target, BranchesAndTags).snapshots.drop(RefKind.TAG, name, if_exists=if_exists)
        )

    def fast_forward(self, branch: str, to: str) -> RefResult:
        """Move a branch of an Iceberg table forward to the snapshot of another branch or a tag.

        Args:
            branch: The branch to move, such as `main`. It is created if it does not exist.
            to: The branch or tag with the snapshot to move to. It must have all commits of `branch`.

        Returns:
            The ids of the snapshots that the branch pointed to before and that it points to now.

        Raises:
            NoSuchSnapshot: The branch or tag `to` does not exist.
            UnsupportedFeature: `to` lacks commits of the branch, which would be lost, or the table is a Delta table.
            CommitConflict, CommitStateUnknown: As for `create_branch`.

        Example:
            >>> orders.fast_forward("main", "audit")
        """
        return self._change_refs(lambda target: require(target, BranchesAndTags).snapshots.fast_forward(branch, to))

    def rollback(self, *, version: int | None = None, timestamp: Moment | None = None) -> RefResult:
        """Make an ancestor of an Iceberg table's current snapshot the current one.

        Later snapshots stay until they expire. Give either `version` or `timestamp`.

        Args:
            version: The ancestor's id.
            timestamp: Choose the newest ancestor committed before this time (UTC unless it has an offset).

        Returns:
            The ids of the current snapshot before and after.

        Raises:
            NoSuchSnapshot: The snapshot does not exist.
            InvalidOption: Neither or both arguments are given.
            UnsupportedFeature: The snapshot is not an ancestor (use `set_current_snapshot`), or the table is a Delta
                table (use `restore`).
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
        """Make any snapshot of an Iceberg table the current one. Give either `version` or `ref`.

        Args:
            version: The snapshot's id.
            ref: A branch or tag that points to the snapshot.

        Returns:
            The ids of the current snapshot before and after.

        Raises:
            NoSuchSnapshot: The snapshot, branch or tag does not exist.
            InvalidOption: Neither or both arguments are given.
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
        """Apply the changes of one snapshot of an Iceberg table to its current snapshot.

        If the snapshot is a child of the current one, it becomes the current one. Otherwise a new snapshot with the
        same changes is committed, with `source-snapshot-id` in its summary. That is possible for an append, and for a
        dynamic overwrite of partitions that no other commit has changed since.

        Args:
            version: The id of the snapshot to apply, such as one that was staged with the write option `wap-id`.

        Returns:
            The ids of the current snapshot before and after.

        Raises:
            NoSuchSnapshot: The snapshot does not exist.
            InvalidOption: The current snapshot already has these changes, or those of another snapshot with the same
                wap-id.
            UnsupportedFeature: The snapshot is neither an append nor a dynamic overwrite, or the table is a Delta
                table.
            CommitConflict: Partitions that the snapshot replaces have changed.
            CommitStateUnknown: As for `create_branch`.

        Example:
            >>> orders.cherry_pick(4712)
        """
        wanted = _snapshot_id(version)
        if wanted is None:
            raise InvalidOption("cherry_pick takes the id of a snapshot")
        return self._change_refs(lambda target: require(target, BranchesAndTags).snapshots.cherry_pick(wanted))

    def publish(self, wap_id: str) -> RefResult:
        """Publish a snapshot of an Iceberg table that was staged with the write option `wap-id`.

        Args:
            wap_id: The `wap-id` of the staged write.

        Returns:
            The ids of the current snapshot before and after.

        Raises:
            NoSuchSnapshot: No snapshot was staged with this id.
            InvalidOption: Several snapshots were staged with this id, or it is already published.
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
    """Return the selector of the snapshot that a branch or tag of this name points to.

    An unknown name is taken as a branch, so that its use raises `NoSuchSnapshot`.
    """
    table = target.scan.table
    kinds = {name: kind for kind in RefKind for name in table.refs(kind)}
    is_tag = kinds.get(ref) is RefKind.TAG
    return SnapshotSelector(tag=ref) if is_tag else SnapshotSelector(branch=ref)


def _if_there(replace: bool, if_not_exists: bool) -> IfRefExists:
    if replace and if_not_exists:
        raise InvalidOption("replace and if_not_exists contradict each other: give only one")
    return IfRefExists.REPLACE if replace else IfRefExists.KEEP if if_not_exists else IfRefExists.REFUSE
