"""Rewrite manifests so that each has about the target size, and files of only a few partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.iceberg.commit.base_manifests import listed_manifests
from lakescan.iceberg.commit.manifest_drafts import ManifestDraft
from lakescan.iceberg.commit.manifest_filter import carry_over_entries
from lakescan.iceberg.commit.snapshot_producer import NewSnapshot, SnapshotProducer
from lakescan.iceberg.manifests.manifest_entries import entries_of
from lakescan.iceberg.manifests.manifest_file import DATA, DELETES, manifest_files
from lakescan.writing.partition_key import physical_values

_ENTRIES = 200_000  # entries sorted at once, which bounds memory to some hundreds of megabytes


@dataclass
class ManifestRewrite(SnapshotProducer):
    """Produces a snapshot with the same files in new manifests.

    All manifests of the default partition spec are rewritten, with their entries sorted by partition. A content (data
    or deletes) with only one manifest of at most the target size is left as it is.
    """

    def produce(self) -> NewSnapshot:
        """Store the new manifests and the manifest list."""
        parts = [self._rewrite_content(self._before, content) for content in (DATA, DELETES)]
        return self._snapshot(pa.concat_tables(parts))

    @property
    def is_needed(self) -> bool:
        """Whether there are manifests to rewrite."""
        return any(self._choose_manifests(self._before, content).num_rows for content in (DATA, DELETES))

    @cached_property
    def _before(self) -> pa.Table:
        return listed_manifests(self.base, self.storage)

    def _choose_manifests(self, manifests: pa.Table, content: int) -> pa.Table:
        spec_id = self.base.metadata.default_spec_id
        chosen = manifests.filter(
            pc.and_(pc.equal(manifests["content"], content), pc.equal(manifests["partition_spec_id"], spec_id))
        )
        is_small = chosen.num_rows == 1 and chosen["manifest_length"][0].as_py() <= self._policy.target_size
        return chosen.slice(0, 0) if is_small else chosen

    def _rewrite_content(self, manifests: pa.Table, content: int) -> pa.Table:
        chosen = self._choose_manifests(manifests, content)
        others = pc.invert(pc.is_in(manifests["manifest_path"], value_set=chosen["manifest_path"]))
        kept = manifests.filter(pc.and_(pc.equal(manifests["content"], content), others))
        self._replaced += chosen.num_rows
        drafts = [draft for entries in self._sort_entries(chosen) for draft in self._draft_manifests(entries, content)]
        return pa.concat_tables([self._drafts.store(drafts), kept])

    def _draft_manifests(self, entries: pa.Table, content: int) -> Iterator[ManifestDraft]:
        return self._drafts.drafts(entries, self.base.metadata.default_spec_id, content)

    def _sort_entries(self, manifests: pa.Table) -> Iterator[pa.Table]:
        """Yield the live entries of manifests in tables of limited size, each sorted by partition."""
        run: list[pa.Table] = []
        rows = 0
        for entries in entries_of(manifest_files(manifests), self.base.metadata.specs, self.storage):
            run.append(carry_over_entries(entries, self.snapshot_id))
            rows += run[-1].num_rows
            if rows >= _ENTRIES:
                yield _sort_run(run)
                run, rows = [], 0
        if rows:
            yield _sort_run(run)


def _sort_run(run: list[pa.Table]) -> pa.Table:
    entries = pa.concat_tables(run, promote_options="permissive").combine_chunks()
    partition = entries["data_file"].chunk(0).field("partition")
    if not partition.type.num_fields:
        return entries
    names = [str(number) for number in range(partition.type.num_fields)]
    values = pa.table([physical_values(each) for each in partition.flatten()], names=names)
    return entries.take(pc.sort_indices(values, [(name, "ascending") for name in names]))
