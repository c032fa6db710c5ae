"""DROP FEATURE of Delta tables, in steps: each is a commit after which the table is whole, and means the same.

1. Nothing of the table uses the feature any more, and no writer may begin to: a property is removed, then files are
   written anew. What a step begins by, such as the property, makes writers that use the feature conflict.
2. The history still uses it. Either three checkpoints are made, which hide older versions from readers that do not know
   the feature, and `checkpointProtection` keeps them as long as these versions are there. Or, with TRUNCATE HISTORY,
   older versions are removed first, as soon as they are old enough.
3. The protocol loses the feature, if nothing uses it still: not even what others committed meanwhile.

A step that was made stays if a later one fails: the statement goes on from there when it is repeated.
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
_BARRIERS = 3  # checkpoints, as many as readers of Delta on Spark try before they give up
_WRITES = 3  # attempts to write a checkpoint
_REORG = {"predicate": json.dumps([]), "applyPurge": True}
T = TypeVar("T")


def drop_feature(table: DeltaTarget, change: DropFeature) -> None:
    """Drop a feature that takes several commits.

    Raises what `checked_feature` raises; `FeatureInUse` if the history, or another writer, still uses the feature,
    with what was done; `CommitConflict` if other writers' commits get ahead of a step each time; and `StorageError`.
    """
    _FeatureDrop(table, change, checked_feature(_state(table), change)).run()


def _state(table: DeltaTarget) -> TableState:
    return DeltaAlteration(table.version, table.scan, table.storage, table.options.commit_properties).state


@dataclass
class _FeatureDrop:
    """One statement; `table` is the table after the last step."""

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
        """Make a commit, again on the newest version after a conflict; then open what it made."""
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

    # What uses the feature

    def _remove_traces(self) -> None:
        """Let nothing of the newest version use the feature."""
        used = self._is_used()
        if used:
            self._switch_off()
        match self.feature:
            case "columnMapping" if used:
                self._step(self._unmap)
            case "deletionVectors":
                if used:
                    self._step(self._purge)
                self._step(self._keep_vector_files)  # always: those of rows that were purged long before, too
            case "typeWidening" | "typeWidening-preview" if used:
                self._step(self._rewrite_types)
                self._step(self._forget_types)

    def _is_used(self) -> bool:
        """Whether the newest version uses the feature, or lets writers use it."""
        if is_used(self.feature, self.table.version.metadata):
            return True
        if self.feature == "deletionVectors":
            return self._files_with_vectors().num_rows > 0
        checkpoint = self.table.version.segment.checkpoint
        return self.feature == "v2Checkpoint" and checkpoint is not None and is_v2(checkpoint, self.table.storage)

    def _switch_off(self) -> None:
        """Let no writer begin to use it: a commit of one that has begun conflicts with this one."""
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
        """Write files with deletion vectors anew, without the deleted rows."""
        if (old := self._files_with_vectors()).num_rows:
            rewrite_files(self.table, old, Operation("REORG", _REORG))

    def _keep_vector_files(self) -> None:
        """Name the vectors of removed files by tombstones."""
        table = self.table
        tombstones = vector_tombstones(table.version, table.storage)
        if tombstones.num_rows:
            self._commit(Operation("Deletion Vector Tombstones"), files=DeltaFileChanges(removed=tombstones))

    def _unmap(self) -> None:
        """Write all files anew, with columns under their own names."""
        table, after = self.table, remove_mapping(_state(self.table))
        writes = replace(table.writes, metadata=after.metadata, clustering=after.clustering or ())
        live = live_adds(table.version, table.storage)
        operation, reads = Operation("REMOVE COLUMN MAPPING"), Reads.whole_table()
        rewrite_files(
            table, live, operation, writes=writes, metadata=after.metadata, domains=after.domains, reads=reads
        )

    def _rewrite_types(self) -> None:
        """Write files anew that have columns in earlier types."""
        table, metadata = self.table, self.table.version.metadata
        if not has_type_changes(metadata):
            return
        live = live_adds(table.version, table.storage)
        if (old := files_with_old_types(table, live, changed_columns(metadata))).num_rows:
            rewrite_files(table, old, Operation("REORG", {**_REORG, "applyPurge": False}))

    def _forget_types(self) -> None:
        """Say no more that files may have columns in earlier types."""
        if has_type_changes(self.table.version.metadata):
            after = remove_type_changes(_state(self.table))
            [step] = after.steps
            self._commit(Operation(step.name, step.parameters), metadata=after.metadata)

    # The history

    def _commit_checkpoint(self) -> None:
        """Make a commit without changes, and a checkpoint of it, which nothing before it is needed to read."""
        self._step(lambda: self._commit(Operation("Empty Commit")))
        error = self._checkpoint(self.table.base_state)
        if error is not None:
            raise StorageError(
                f"{self._doing}: the checkpoint of version {self.table.base_state} could not be written, so the "
                f"feature stays in the protocol: {error}. Repeat the statement"
            ) from error
        self.table = self.table.reopen()

    def _checkpoint(self, version: int) -> Exception | None:
        """Write a checkpoint, unless there is one; return why it could not be written."""
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
        """Raise `FeatureInUse` if a version in the log uses the feature."""
        history = self._history()
        if (newest := history.newest_use()) is None:
            return
        raise FeatureInUse(
            f"{self._doing}: the table does not use it any more, but versions up to {newest} in its history do. They "
            f"are kept for {_hours(self._retention)} ({DeltaProperties.truncated_retention.name}). "
            f"{_when(history.expires(newest, self._retention))}Without TRUNCATE HISTORY, the feature is dropped at "
            f"once, and the feature {PROTECTION!r} added"
        )

    def _truncate_protected(self) -> None:
        """Remove all versions that are protected; raises `FeatureInUse` if they are not old enough."""
        before = self.table.version.metadata.properties.protected_before
        if self._begins_before(before):
            self._commit_checkpoint()
            clean_up(self.table.location, self.table.storage, retention=self._retention)
        if self._begins_before(before):
            expires = self._history().expires(before - 1, self._retention)
            text = (
                f"{self._doing}: versions before {before}, in the table's history, use features that it has no more. "
                f"They are kept for {_hours(self._retention)} ({DeltaProperties.truncated_retention.name}). "
                f"{_when(expires)}"
            )
            raise FeatureInUse(text.rstrip())

    def _begins_before(self, version: int) -> bool:
        """Whether the log has versions before one."""
        return list_log(self.table.location, self.table.storage).first < version

    # The protocol

    def _downgrade(self, check: Callable[[DeltaTarget], None]) -> None:
        """Commit a protocol without the feature, if nothing uses it."""
        table, state = self.table, _state(self.table)
        if self.feature not in state.protocol.features:
            return  # another writer has dropped it
        if self._is_used():
            raise FeatureInUse(
                f"{self._doing}: another writer began to use it again meanwhile, up to version {table.base_state}. "
                "Repeat the statement when that is done"
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


# As for Delta on Spark: the state at the oldest checkpoint, without its tombstones, and all commits are looked at.

_VECTORS, _V2 = "deletionVectors", "v2Checkpoint"


@dataclass(frozen=True)
class FeatureHistory:
    """The versions in a log, as far as one feature is concerned.

    - `listing`: the log, newly listed.
    - `properties`: those of the newest version, for the times of commits.
    """

    feature: str
    listing: LogListing
    properties: DeltaProperties
    storage: Storage

    def newest_use(self) -> int | None:
        """The newest version that uses the feature; None if no version in the log does. Raises `CorruptMetadata`."""
        found = [-1, *self._commit_uses()]
        if self.listing.checkpoints:
            found += self._checkpoint_uses(self.listing.checkpoints[0])
        if self.feature == _V2:
            found += [each.version for each in self.listing.checkpoints if is_v2(each, self.storage)]
        newest = max(found)
        return None if newest < 0 else newest

    def expires(self, after: int, retention: timedelta) -> datetime | None:
        """When versions up to `after` can be removed from the log; None if no checkpoint of later ones is there.

        They go once the first checkpoint after them is older than the retention, by the minute.
        """
        later = next((each.version for each in self.listing.checkpoints if each.version > after), None)
        made = None if later is None else commit_times(self.listing, self.properties, self.storage).get(later)
        if made is None:
            return None
        whole = (from_millis(made) + retention).replace(second=0, microsecond=0)
        return whole + timedelta(minutes=1)

    def _checkpoint_uses(self, oldest: Checkpoint) -> list[int]:
        """The version of a checkpoint, if its state uses the feature."""
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
        """Versions whose commits use the feature."""
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
    """Whether a checkpoint has the form of the feature `v2Checkpoint`, whatever its name is."""
    names = ("checkpointMetadata",)
    return any(True for part in checkpoint.parts for _ in checkpoint_actions(part.location, storage, names))


def has_vectors(files: pa.Table) -> pa.Array:
    """Which file actions (`ActionReader`) have a deletion vector: a mask."""
    return pc.is_valid(files["vector"].combine_chunks().field("storageType"))
