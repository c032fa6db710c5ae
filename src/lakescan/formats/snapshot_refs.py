"""Branches and tags: names for the states of a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from lakescan.common.html import facts_table, grid, section
from lakescan.errors import InvalidOption


@dataclass(frozen=True)
class SnapshotRef:
    """A branch or a tag of a table: the snapshot that it names, and how long what it names is kept.

    Attributes:
        snapshot_id: The id of its newest snapshot (branch), or of its snapshot (tag).
        max_ref_age: The age of its snapshot from which on expiry removes the branch or tag itself; None for the
            property `history.expire.max-ref-age-ms`. `main` is never removed.
        max_snapshot_age: The age from which on expiry removes snapshots of the branch; None for the table's properties.
        min_snapshots_to_keep: How many snapshots of the branch expiry keeps, however old; None for the table's
            properties.

    Example:
        >>> orders.tags["eoy-2025"].snapshot_id
        4711
    """

    snapshot_id: int
    max_ref_age: timedelta | None = None
    max_snapshot_age: timedelta | None = None
    min_snapshots_to_keep: int | None = None

    def _repr_html_(self) -> str:
        """The branch or tag as notebooks show it."""
        return section("Branch or tag", facts_table(dict(zip(_COLUMNS, self._texts(), strict=True))))

    def _texts(self) -> tuple[str, ...]:
        values = (self.snapshot_id, self.max_ref_age, self.max_snapshot_age, self.min_snapshots_to_keep)
        return tuple("" if value is None else str(value) for value in values)


_COLUMNS = ("snapshot", "kept for", "its snapshots kept for", "snapshots kept at least")


class SnapshotRefs(dict[str, SnapshotRef]):
    """The branches or the tags of a table, by name."""

    def _repr_html_(self) -> str:
        """The names as notebooks show them: a row each."""
        rows = [(name, *each._texts()) for name, each in self.items()]
        return grid(("name", *_COLUMNS), rows)


class RefKind(StrEnum):
    """The two kinds of names for snapshots."""

    BRANCH = "branch"
    TAG = "tag"


class IfRefExists(StrEnum):
    """What becomes of a branch or tag of the same name: an error, nothing, or it is set to another snapshot."""

    REFUSE = "refuse"
    KEEP = "keep"
    REPLACE = "replace"
    ONLY_REPLACE = "only replace"  # and it has to be there


@dataclass(frozen=True)
class RefRetention:
    """How long a branch or tag, and the snapshots of a branch, are kept; None for what it says already, or nothing."""

    max_ref_age: timedelta | None = None
    max_snapshot_age: timedelta | None = None
    min_snapshots_to_keep: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_ref_age", "max_snapshot_age"):
            age = getattr(self, name)
            if age is not None and (not isinstance(age, timedelta) or age <= timedelta()):
                raise InvalidOption(f"{name}={age!r}: expected a positive timedelta, such as timedelta(days=7)")
        least = self.min_snapshots_to_keep
        if least is not None and (not isinstance(least, int) or isinstance(least, bool) or least < 1):
            raise InvalidOption(f"min_snapshots_to_keep={least!r}: expected a whole number of at least 1")
