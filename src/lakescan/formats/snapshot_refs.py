"""Branches and tags: names for snapshots of a table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from lakescan.common.html import facts_table, grid, section
from lakescan.errors import InvalidOption


@dataclass(frozen=True)
class SnapshotRef:
    """A branch or tag of a table: its snapshot, and its retention.

    Attributes:
        snapshot_id: The id of the newest snapshot of a branch, or of the snapshot of a tag.
        max_ref_age: Expiry drops the branch or tag itself when this snapshot is older than this; None for the property
            `history.expire.max-ref-age-ms`. `main` is never dropped.
        max_snapshot_age: Snapshots of the branch expire when they are older than this; None for the table's properties.
        min_snapshots_to_keep: The number of newest snapshots of the branch that never expire; None for the table's
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
        """Return HTML for notebooks: the snapshot and the retention."""
        return section("Branch or tag", facts_table(dict(zip(_COLUMNS, self._texts(), strict=True))))

    def _texts(self) -> tuple[str, ...]:
        values = (self.snapshot_id, self.max_ref_age, self.max_snapshot_age, self.min_snapshots_to_keep)
        return tuple("" if value is None else str(value) for value in values)


_COLUMNS = ("snapshot", "kept for", "its snapshots kept for", "snapshots kept at least")


class SnapshotRefs(dict[str, SnapshotRef]):
    """The branches or the tags of a table, by name."""

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: one row per branch or tag."""
        rows = [(name, *each._texts()) for name, each in self.items()]
        return grid(("name", *_COLUMNS), rows)


class RefKind(StrEnum):
    """The kinds of named references to snapshots: branches and tags."""

    BRANCH = "branch"
    TAG = "tag"


class IfRefExists(StrEnum):
    """The handling of an existing branch or tag: raise an error, keep it, or move it to another snapshot."""

    REFUSE = "refuse"
    KEEP = "keep"
    REPLACE = "replace"
    ONLY_REPLACE = "only replace"  # raises an error if there is nothing to replace


@dataclass(frozen=True)
class RefRetention:
    """The retention of a branch or tag, and of the snapshots of a branch; see `SnapshotRef` for the fields.

    None leaves a setting unchanged or unset.
    """

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
