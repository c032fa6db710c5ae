"""Merge small manifests, as Java's `ManifestMergeManager` does: by partition spec, in order, up to a target size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakescan.iceberg.metadata.table_properties import IcebergProperties


@dataclass(frozen=True)
class MergePolicy:
    """The table properties `commit.manifest-merge.enabled`, `commit.manifest.target-size-bytes` and
    `commit.manifest.min-count-to-merge`.
    """

    enabled: bool
    target_size: int
    min_count: int

    @staticmethod
    def of(properties: IcebergProperties) -> MergePolicy:
        """The policy of a table."""
        return MergePolicy(properties.merges_manifests, properties.manifest_size, properties.min_manifests_to_merge)

    def bins(self, specs: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
        """Group manifests (by place) to merge; a group of one is kept as it is.

        New manifests come first. They are merged only in groups of at least `min_count`, so that each commit does not
        rewrite the newest group. Groups are filled from the end: the first one, which the next commit may merge, is
        the smallest.
        """
        if not self.enabled or not specs:
            return [[place] for place in range(len(specs))]
        grouped: list[list[int]] = []
        for spec in sorted(set(specs), reverse=True):
            packed = self._packed([place for place, each in enumerate(specs) if each == spec], sizes)
            for group in packed:
                if 0 in group and len(group) < self.min_count:
                    grouped += [[place] for place in group]
                else:
                    grouped.append(group)
        return grouped

    def _packed(self, places: list[int], sizes: Sequence[int]) -> list[list[int]]:
        packed: list[list[int]] = []
        left = 0
        for place in reversed(places):
            if not packed or sizes[place] > left:
                packed.append([])
                left = self.target_size
            packed[-1].append(place)
            left -= sizes[place]
        return [group[::-1] for group in reversed(packed)]
