"""DROP FEATURE for Delta tables in several commits; after each commit the table is valid and has the same rows.

1. Remove all uses of the feature from the newest version. The property that enables it is removed first, so that
   concurrent commits that use it conflict. Then files are rewritten.
2. Older versions still use the feature. Either write three checkpoints, which hide those versions from readers that do
   not support it, and add the feature `checkpointProtection`, which keeps the checkpoints as long as the versions
   exist. Or, with TRUNCATE HISTORY, remove older versions once they are past their retention.
3. Remove the feature from the protocol, unless a concurrent commit uses it again.

Steps that succeeded stay if a later one fails. Repeating the statement continues from there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.retries import COMMITS, Attempts
from lakescan.common.timestamps import from_millis
from lakescan.definition.table_changes import DropFeature, SetProperties, UnsetProperties
from lakescan.delta.alter.changes import DeltaAlteration
from lakescan.delta.alter.droppable_features import (
    PROTECTION,
    SWITCHES,
    changed_columns,
    checked_feature,
    has_type_changes,
    is_used,
    needs_feature,
    remove_mapping,
    remove_type_changes,
)
from lakescan.delta.alter.table_state import TableState
from lakescan.delta.commit.actions import DeltaFileChanges
from lakescan.delta.commit.checkpoint import checkpoint_version
from lakescan.delta.commit.commit import DeltaCommit, Operation
from lakescan.delta.commit.conflicts import Reads
from lakescan.delta.commit.file_actions import live_adds
from lakescan.delta.commit.row_changes import vector_tombstones
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.checkpoint_files import checkpoint_actions
from lakescan.delta.log.log_pieces import batches, pieces_of, read_commits
from lakescan.delta.log.log_text import LogText, single_actions
from lakescan.delta.log.replay import has_vectors
from lakescan.delta.log.segment import Checkpoint, LogListing, LogSegment, list_log
from lakescan.delta.log.time_travel import commit_times
from lakescan.delta.maintenance.log_cleanup import clean_up
from lakescan.delta.maintenance.rewrites import files_with_old_types, rewrite_files
from lakescan.delta.metadata.protocol import Metadata
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import CommitConflict, FeatureInUse, StorageError
from lakescan.storage import Storage

if TYPE_CHECKING:
    from lakescan.delta.target import DeltaTarget

_PROTECTED = DeltaProperties.protected_before.name
_BARRIERS = 3  # checkpoints that Delta on Spark tries to read before it gives up
_WRITES = 3  # attempts to write a checkpoint
_REORG = {"predicate": json.dumps([]), "applyPurge": True}
T = TypeVar("T")


def drop_feature(table: DeltaTarget, change: DropFeature) -> None:
    """Drop a feature whose removal takes several commits.

    Raises the errors of `checked_feature`; `FeatureInUse` if the history or a concurrent commit still uses the feature;
    `CommitConflict` if every attempt at a step conflicts with another commit; and `StorageError`.
    """
    _FeatureDrop(table, change, checked_feature(_state(table), change)).run()


def _state(table: DeltaTarget) -> TableState:
    return DeltaAlteration(table.version, table.scan, table.storage, table.options.commit_properties).state


@dataclass
class _FeatureDrop:
    """One DROP FEATURE statement.

    `table` is the table after the last step, and `feature` the canonical name of the feature.
    """

    table: DeltaTarget
    change: DropFeature
    feature: str

    def run(self) -> None:
        if self.feature == PROTECTION:
            self._truncate_protected()
            self._step(lambda: self._downgrade(lambda table: None))
            return
        self._remove_traces()
        if self.change.truncate_history:
            self._commit_checkpoint()
            clean_up(self.table.location, self.table.storage, retention=self._retention)
            self._step(lambda: self._downgrade(self._check_history))
            return
        for _ in range(_BARRIERS):
            self._commit_checkpoint()
        self._step(lambda: self._downgrade(lambda table: None))
        self._checkpoint(self.table.base_state)

    @property
    def _doing(self) -> str:
        return f"dropping the feature {self.feature!r} of {self.table.location}"

    @property
    def _retention(self) -> timedelta:
        return self.table.version.metadata.properties.truncated_retention

    def _step(self, act: Callable[[], T]) -> T:
        """Run `act`, which commits, on the newest version until it does not conflict, then reopen the table.

        Returns the result of `act`; raises `CommitConflict` after the last attempt.
        """
        attempts = Attempts(COMMITS)
        while True:
            try:
                result = act()
            except CommitConflict as error:
                attempts.wait_or_raise(self.table.name, error)
                self.table = self.table.reopen()
            else:
                self.table = self.table.reopen()
                return result

    # Uses of the feature

    def _remove_traces(self) -> None:
        """Remove all uses of the feature from the newest version."""
        used = self._is_used()
        if used:
            self._switch_off()
        match self.feature:
            case "columnMapping" if used:
                self._step(self._unmap)
            case "deletionVectors":
                if used:
                    self._step(self._purge)
                self._step(self._keep_vector_files)  # always: also for vectors that were purged long before
            case "typeWidening" | "typeWidening-preview" if used:
                self._step(self._rewrite_types)
                self._step(self._forget_types)

    def _is_used(self) -> bool:
        """Return whether the newest version uses the feature or allows writers to use it."""
        if is_used(self.feature, self.table.version.metadata):
            return True
        if self.feature == "deletionVectors":
            return self._files_with_vectors().num_rows > 0
        checkpoint = self.table.version.segment.checkpoint
        return self.feature == "v2Checkpoint" and checkpoint is not None and is_v2(checkpoint, self.table.storage)

    def _switch_off(self) -> None:
        """Change or remove the property that enables the feature, if any, and reopen the table.

        Commits of writers that use the feature then conflict.
        """
        name, value = SWITCHES.get(self.feature, ("", None))
        configuration = self.table.version.metadata.configuration
        if value is not None and configuration.get(name) != value:
            self.table.alter([SetProperties({name: value})])
        elif value is None and name in configuration:
            self.table.alter([UnsetProperties((name,), if_exists=True)])
        self.table = self.table.reopen()

    def _files_with_vectors(self) -> pa.Table:
        live = live_adds(self.table.version, self.table.storage)
        return live.filter(has_vectors(live))

    def _purge(self) -> None:
        """Rewrite files that have deletion vectors, without the deleted rows."""
        if (old := self._files_with_vectors()).num_rows:
            rewrite_files(self.table, old, Operation("REORG", _REORG))

    def _keep_vector_files(self) -> None:
        """Commit tombstones for the deletion vector files of removed data files, which protect them from VACUUM."""
        table = self.table
        tombstones = vector_tombstones(table.version, table.storage)
        if tombstones.num_rows:
            self._commit(Operation("Deletion Vector Tombstones"), files=DeltaFileChanges(removed=tombstones))

    def _unmap(self) -> None:
        """Rewrite all files without column mapping, so that they store columns under their logical names."""
        table, after = self.table, remove_mapping(_state(self.table))
        writes = replace(table.writes, metadata=after.metadata, clustering=after.clustering or ())
        live = live_adds(table.version, table.storage)
        operation, reads = Operation("REMOVE COLUMN MAPPING"), Reads.whole_table()
        rewrite_files(
            table, live, operation, writes=writes, metadata=after.metadata, domains=after.domains, reads=reads
        )

    def _rewrite_types(self) -> None:
        """Rewrite files that store columns in earlier types."""
        table, metadata = self.table, self.table.version.metadata
        if not has_type_changes(metadata):
            return
        live = live_adds(table.version, table.storage)
        if (old := files_with_old_types(table, live, changed_columns(metadata))).num_rows:
            rewrite_files(table, old, Operation("REORG", {**_REORG, "applyPurge": False}))

    def _forget_types(self) -> None:
        """Remove the recorded type changes from the schema."""
        if has_type_changes(self.table.version.metadata):
            after = remove_type_changes(_state(self.table))
            [step] = after.steps
            self._commit(Operation(step.name, step.parameters), metadata=after.metadata)

    # The history

    def _commit_checkpoint(self) -> None:
        """Make an empty commit and checkpoint it, so that reading that version needs no earlier log file.

        Raises `StorageError` if the checkpoint cannot be written.
        """
        self._step(lambda: self._commit(Operation("Empty Commit")))
        error = self._checkpoint(self.table.base_state)
        if error is not None:
            raise StorageError(
                f"{self._doing}: the checkpoint of version {self.table.base_state} could not be written, so the "
                f"feature stays in the protocol: {error}. Repeat the statement"
            ) from error
        self.table = self.table.reopen()

    def _checkpoint(self, version: int) -> Exception | None:
        """Write a checkpoint of a version unless it exists; return the last error if all attempts fail, else None."""
        table, failure = self.table, None
        for _ in range(_WRITES):
            listing = list_log(table.location, table.storage)
            if any(each.version == version for each in listing.checkpoints):
                return None
            try:
                checkpoint_version(table.location, version, table.storage)
            except Exception as error:
                failure = error
        return failure

    def _history(self) -> FeatureHistory:
        table = self.table
        listing = list_log(table.location, table.storage)
        return FeatureHistory(self.feature, listing, table.version.metadata.properties, table.storage)

    def _check_history(self, table: DeltaTarget) -> None:
        """Raise `FeatureInUse` if a version in the log uses the feature; `table` is ignored."""
        history = self._history()
        if (newest := history.newest_use()) is None:
            return
        raise FeatureInUse(
            f"{self._doing}: the table no longer uses it, but versions up to {newest} in its history do. They "
            f"are kept for {_hours(self._retention)} ({DeltaProperties.truncated_retention.name}). "
            f"{_when(history.expires(newest, self._retention))}Without TRUNCATE HISTORY, the feature is dropped at "
            f"once, and the feature {PROTECTION!r} added"
        )

    def _truncate_protected(self) -> None:
        """Remove all protected versions; raise `FeatureInUse` if they are within their retention."""
        before = self.table.version.metadata.properties.protected_before
        if self._begins_before(before):
            self._commit_checkpoint()
            clean_up(self.table.location, self.table.storage, retention=self._retention)
        if self._begins_before(before):
            expires = self._history().expires(before - 1, self._retention)
            text = (
                f"{self._doing}: versions before {before}, in the table's history, use features that it no longer has. "
                f"They are kept for {_hours(self._retention)} ({DeltaProperties.truncated_retention.name}). "
                f"{_when(expires)}"
            )
            raise FeatureInUse(text.rstrip())

    def _begins_before(self, version: int) -> bool:
        """Return whether the log has a version before this one."""
        return list_log(self.table.location, self.table.storage).first < version

    # The protocol

    def _downgrade(self, check: Callable[[DeltaTarget], None]) -> None:
        """Commit a protocol without the feature, unless another writer has dropped it.

        Raises `FeatureInUse` if a concurrent commit uses the feature again. `check` is called with the table before the
        commit and may raise it, too.
        """
        table, state = self.table, _state(self.table)
        if self.feature not in state.protocol.features:
            return  # another writer has dropped it
        if self._is_used():
            raise FeatureInUse(
                f"{self._doing}: a concurrent commit uses it again, up to version {table.base_state}. "
                "Repeat the statement when that writer is done"
            )
        check(table)
        protects = not self.change.truncate_history
        protocol, configuration = state.protocol, dict(state.metadata.configuration)
        if protects:
            protocol = protocol.with_features((PROTECTION,))
            configuration[_PROTECTED] = str(table.base_state + 1)
        elif self.feature == PROTECTION:
            configuration.pop(_PROTECTED, None)
        metadata = replace(state.metadata, configuration=configuration)
        parameters = {"featureName": self.feature, "truncateHistory": self.change.truncate_history}
        DeltaCommit(
            table.version,
            table.storage,
            Operation("DROP FEATURE", parameters),
            reads=Reads(never=has_vectors) if self.feature == "deletionVectors" else Reads(),
            metadata=None if metadata == state.metadata else metadata,
            protocol=protocol.remove_features((self.feature,)),
            properties=table.options.commit_properties,
            stamped=_PROTECTED if protects else None,
        ).commit()

    def _commit(
        self, operation: Operation, files: DeltaFileChanges | None = None, metadata: Metadata | None = None
    ) -> None:
        table, own = self.table, self.table.options.commit_properties
        files = files or DeltaFileChanges()
        DeltaCommit(table.version, table.storage, operation, files, metadata=metadata, properties=own).commit()


def _when(expires: datetime | None) -> str:
    return "" if expires is None else f"Repeat the statement at {expires:%Y-%m-%d %H:%M} UTC or later. "


def _hours(time: timedelta) -> str:
    return f"{time / timedelta(hours=1):g} hours"


# As in Delta on Spark, a search covers the oldest checkpoint, without its tombstones, and all commits.

_VECTORS, _V2 = "deletionVectors", "v2Checkpoint"


@dataclass(frozen=True)
class FeatureHistory:
    """The versions in a log, searched for uses of one feature.

    - `listing`: a fresh listing of the log.
    - `properties`: the properties of the newest version, which decide where commit times are read.
    """

    feature: str
    listing: LogListing
    properties: DeltaProperties
    storage: Storage

    def newest_use(self) -> int | None:
        """Return the newest version that uses the feature, or None if none in the log does.

        May raise `CorruptMetadata`.
        """
        found = [-1, *self._commit_uses()]
        if self.listing.checkpoints:
            found += self._checkpoint_uses(self.listing.checkpoints[0])
        if self.feature == _V2:
            found += [each.version for each in self.listing.checkpoints if is_v2(each, self.storage)]
        newest = max(found)
        return None if newest < 0 else newest

    def expires(self, after: int, retention: timedelta) -> datetime | None:
        """Return when versions up to `after` can be removed from the log, or None without a later checkpoint.

        They can be removed once the first checkpoint after them is older than the retention, rounded up to the minute.
        """
        later = next((each.version for each in self.listing.checkpoints if each.version > after), None)
        made = None if later is None else commit_times(self.listing, self.properties, self.storage).get(later)
        if made is None:
            return None
        whole = (from_millis(made) + retention).replace(second=0, microsecond=0)
        return whole + timedelta(minutes=1)

    def _checkpoint_uses(self, oldest: Checkpoint) -> list[int]:
        """Return `[version]` for the checkpoint `oldest` if its state uses the feature, else an empty list."""
        parts = [part.location for part in oldest.parts]
        actions = (each for part in parts for each in checkpoint_actions(part, self.storage, ("metaData",)))
        if any(needs_feature(self.feature, Metadata.parse(each)) for each in actions):
            return [oldest.version]
        if self.feature != _VECTORS:
            return []
        reader = ActionReader(self.storage, ())
        segment = LogSegment(self.listing.location, oldest.version, oldest, ())
        for piece in pieces_of(segment, reader):
            assert piece.checkpoint is not None
            files = reader.checkpoint_part(piece.checkpoint.location)
            if pc.any(pc.and_(files["is_add"], has_vectors(files))).as_py():
                return [oldest.version]
        return []

    def _commit_uses(self) -> list[int]:
        """Return the versions whose commits use the feature."""
        found: list[int] = []
        for batch in batches(self.listing.commits):
            texts = read_commits(batch, self.storage)
            found += [each.version for each in texts if self._changes_metadata(each)]
            if self.feature == _VECTORS:
                found += self._vector_versions(texts)
        return found

    def _changes_metadata(self, text: LogText) -> bool:
        return any(needs_feature(self.feature, Metadata.parse(each)) for each in single_actions(text, ("metaData",)))

    def _vector_versions(self, texts: Sequence[LogText]) -> list[int]:
        files = ActionReader(self.storage, ()).changes(texts)
        return list(pc.unique(files["version"].filter(has_vectors(files))).to_pylist())


def is_v2(checkpoint: Checkpoint, storage: Storage) -> bool:
    """Return whether a checkpoint has the V2 format of the feature `v2Checkpoint`, whatever its file name."""
    names = ("checkpointMetadata",)
    return any(True for part in checkpoint.parts for _ in checkpoint_actions(part.location, storage, names))
