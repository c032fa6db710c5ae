"""How long branches, tags and their snapshots are kept: as metadata has it, and as callers see it."""

from __future__ import annotations

from datetime import timedelta

from lakescan.formats.snapshot_refs import RefRetention, SnapshotRef
from lakescan.iceberg.metadata.table_metadata import SnapshotReference

# The retention of a branch or tag, by its JSON names.
MAX_REF_AGE, MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS = "max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep"
_MILLISECOND = timedelta(milliseconds=1)


def snapshot_ref(reference: SnapshotReference) -> SnapshotRef:
    """A branch or tag, as callers see it."""
    kept = reference.retention
    ages = [timedelta(milliseconds=kept[name]) if name in kept else None for name in (MAX_REF_AGE, MAX_SNAPSHOT_AGE)]
    return SnapshotRef(reference.snapshot_id, ages[0], ages[1], kept.get(MIN_SNAPSHOTS))


def retention_by_name(retention: RefRetention) -> dict[str, int]:
    """What is given of a retention, by its JSON names."""
    ages = {MAX_REF_AGE: retention.max_ref_age, MAX_SNAPSHOT_AGE: retention.max_snapshot_age}
    kept = {key: max(age // _MILLISECOND, 1) for key, age in ages.items() if age is not None}
    least = retention.min_snapshots_to_keep
    return kept if least is None else {**kept, MIN_SNAPSHOTS: least}
