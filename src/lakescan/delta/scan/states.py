"""What a snapshot of a Delta table selects: rows of a version, changes of a range, or files of some commits."""

from __future__ import annotations

from dataclasses import dataclass

from lakescan.delta.log.reader import DeltaVersion
from lakescan.formats.increments import Increment
from lakescan.formats.table_format import SnapshotState


@dataclass(frozen=True)
class VersionRows(SnapshotState):
    """The live files of a version."""

    version: DeltaVersion


@dataclass(frozen=True)
class RangeChanges(SnapshotState):
    """The change feed of the versions from `start` to `end`, both inclusive; empty if `end` is before `start`.

    `version` is the one whose schema the rows have.
    """

    version: DeltaVersion
    start: int
    end: int

    @property
    def is_ordered(self) -> bool:
        """True: the changes of the oldest commit come first."""
        return True


@dataclass(frozen=True)
class IncrementState(SnapshotState):
    """The files of an increment: rows that commits added, or changes that they recorded, by what it is `of`."""

    of: VersionRows | RangeChanges
    increment: Increment

    @property
    def version(self) -> DeltaVersion:
        """The version whose schema the rows have."""
        return self.of.version

    @property
    def is_ordered(self) -> bool:
        """True: the rows of the oldest commit come first."""
        return True


DeltaState = VersionRows | RangeChanges | IncrementState


def whole_state(state: DeltaState) -> VersionRows | RangeChanges:
    """What the state selects when it is not restricted to an increment."""
    return state.of if isinstance(state, IncrementState) else state


def is_feed(state: DeltaState) -> bool:
    """Whether rows are recorded changes."""
    return isinstance(whole_state(state), RangeChanges)
