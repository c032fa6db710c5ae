"""Determine which snapshots, branches and tags have expired (specification, "Snapshot Retention Policy"). No I/O.

The retention settings of a branch or tag override the table properties (`history.expire.*`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta

from lakescan.errors import InvalidOption, NoSuchSnapshot
from lakescan.formats.snapshot_refs import RefRetention, SnapshotRef
from lakescan.iceberg.metadata.table_metadata import MAIN, SnapshotReference, TableMetadata, ancestors
from lakescan.iceberg.metadata.table_properties import IcebergProperties


@dataclass(frozen=True)
class Expiration:
    """The expired snapshots, by id, and the expired branches and tags, by name."""

    snapshots: frozenset[int]
    refs: frozenset[str]

    def add_snapshots(self, ids: Collection[int], metadata: TableMetadata) -> Expiration:
        """Return this expiration plus the snapshots with these ids.

        Raises `NoSuchSnapshot` for an unknown snapshot, `InvalidOption` for one that a remaining branch or tag names.
        """
        unknown = sorted(set(ids) - metadata.snapshots.keys())
        if unknown:
            raise NoSuchSnapshot(f"{metadata.location} has no snapshot {unknown[0]} to expire: see Table.history()")
        named = {ref.snapshot_id: name for name, ref in metadata.refs.items() if name not in self.refs}
        if held := [each for each in ids if each in named]:
            raise InvalidOption(
                f"snapshot {held[0]} of {metadata.location} cannot expire, because the branch or tag "
                f"{named[held[0]]!r} names it: drop the branch or tag first"
            )
        return Expiration(self.snapshots.union(ids), self.refs)


@dataclass(frozen=True)
class Retention:
    """The default retention, for branches and tags without their own settings.

    `now` and `older_than` are milliseconds since 1970, and `ref_age` is a duration in milliseconds. `at_least` is the
    number of snapshots to keep on each branch.
    """

    now: int
    older_than: int
    at_least: int
    ref_age: int

    @staticmethod
    def create(properties: IcebergProperties, now: int, older_than: int | None, at_least: int | None) -> Retention:
        """Return the retention from the arguments, else from the table properties, else from Iceberg's defaults."""
        return Retention(
            now,
            now - properties.max_snapshot_age_ms if older_than is None else older_than,
            properties.min_snapshots if at_least is None else at_least,
            properties.max_ref_age_ms,
        )

    def find_expiration(self, metadata: TableMetadata) -> Expiration:
        """Return the expired snapshots and refs, by the rules of Iceberg's `RemoveSnapshots`.

        A branch or tag other than `main` expires when its snapshot exceeds the maximum ref age. A branch keeps its
        newest snapshots and those younger than the limit. Snapshots that no branch or tag reaches (staged ones) expire
        when they are older than the limit.
        """
        refs = {name: ref for name, ref in metadata.refs.items() if name == MAIN or self._is_young(ref, metadata)}
        kept = {ref.snapshot_id for ref in refs.values()}
        reached = set(kept)
        for branch in (ref for ref in refs.values() if ref.kind == "branch"):
            line = [each.id for each in ancestors(metadata.snapshots, branch.snapshot_id)]
            reached.update(line)
            kept.update(self._newest_snapshots(branch, line, metadata))
        staged = metadata.snapshots.keys() - reached
        kept |= {each for each in staged if metadata.snapshots[each].timestamp_ms >= self.older_than}
        return Expiration(frozenset(metadata.snapshots.keys() - kept), frozenset(metadata.refs.keys() - refs.keys()))

    def _is_young(self, ref: SnapshotReference, metadata: TableMetadata) -> bool:
        age = self.now - metadata.snapshots[ref.snapshot_id].timestamp_ms
        return age <= ref.retention.get(MAX_REF_AGE, self.ref_age)

    def _newest_snapshots(self, branch: SnapshotReference, line: list[int], metadata: TableMetadata) -> Iterator[int]:
        """Yield the snapshots of a branch to keep, up to the first beyond both the minimum number and the age limit."""
        own = branch.retention
        older_than = self.now - own[MAX_SNAPSHOT_AGE] if MAX_SNAPSHOT_AGE in own else self.older_than
        at_least = own.get(MIN_SNAPSHOTS, self.at_least)
        for number, each in enumerate(line):
            if number >= at_least and metadata.snapshots[each].timestamp_ms < older_than:
                return
            yield each


# The JSON names of the retention settings of a branch or tag.
MAX_REF_AGE, MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS = "max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep"
_MILLISECOND = timedelta(milliseconds=1)


def snapshot_ref(reference: SnapshotReference) -> SnapshotRef:
    """Convert a branch or tag to the public `SnapshotRef`."""
    kept = reference.retention
    ages = [timedelta(milliseconds=kept[name]) if name in kept else None for name in (MAX_REF_AGE, MAX_SNAPSHOT_AGE)]
    return SnapshotRef(reference.snapshot_id, ages[0], ages[1], kept.get(MIN_SNAPSHOTS))


def retention_by_name(retention: RefRetention) -> dict[str, int]:
    """Return the retention settings that are set, by their JSON names; ages are in milliseconds, and at least 1."""
    ages = {MAX_REF_AGE: retention.max_ref_age, MAX_SNAPSHOT_AGE: retention.max_snapshot_age}
    kept = {key: max(age // _MILLISECOND, 1) for key, age in ages.items() if age is not None}
    least = retention.min_snapshots_to_keep
    return kept if least is None else {**kept, MIN_SNAPSHOTS: least}
