"""What a snapshot of an Iceberg table selects: the live files of one state, or the files of some commits."""

from __future__ import annotations

from dataclasses import dataclass

from lakescan.formats.increments import Increment
from lakescan.formats.table_format import SnapshotState
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot


@dataclass(frozen=True)
class LiveState(SnapshotState):
    """The live files of a snapshot; None for a table that has no snapshot yet."""

    snapshot: IcebergSnapshot | None


@dataclass(frozen=True)
class IncrementState(SnapshotState):
    """The files that some commits added or, for a changelog, also removed."""

    increment: Increment

    @property
    def computed_changes(self) -> Increment | None:
        """The increment, if it is one of a changelog."""
        return self.increment if self.increment.changes else None

    @property
    def is_ordered(self) -> bool:
        """True: the rows of the oldest commit come first."""
        return True


IcebergState = LiveState | IncrementState
