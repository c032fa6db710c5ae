"""Which versions in a table's log still use a feature, beside listing it in the protocol.

As for Delta on Spark: the state at the oldest checkpoint, without its tombstones, and all commits are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.timestamps import from_millis
from lakescan.delta.alter.feature_use import needs_feature
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.checkpoint_actions import checkpoint_actions
from lakescan.delta.log.segment import Checkpoint, LogListing, LogSegment
from lakescan.delta.log.segment_parts import batches, pieces_of, read_commits
from lakescan.delta.log.text import LogText, single_actions
from lakescan.delta.log.time_travel import commit_times
from lakescan.delta.metadata.protocol import Metadata
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.storage import Storage

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
