"""A path to a table, as a format reads it."""

from __future__ import annotations

from dataclasses import dataclass

from lakescan.formats.table_format import SnapshotSelector


@dataclass(frozen=True)
class TablePath:
    """A table's location, and what else its path selects: a state, and values of partition columns (None for null)."""

    location: str
    selector: SnapshotSelector | None = None
    partitions: tuple[tuple[str, str | None], ...] = ()
