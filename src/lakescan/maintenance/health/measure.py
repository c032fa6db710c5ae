"""Measure a table's health: columns of its file table and facts of its metadata become figures and findings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.formats.metadata_facts import MetadataFacts
from lakescan.maintenance.file_groups import Thresholds, deleted_rows
from lakescan.maintenance.health.findings import findings_of
from lakescan.maintenance.health.table_health import PARTITIONS, SIZES, TableHealth
from lakescan.options.compact import CompactOptions
from lakescan.planning.delete_file import DeleteKind
from lakescan.planning.file_table import FileTable
from lakescan.planning.partition_groups import partition_numbers
from lakescan.storage.locations import split_location
from lakescan.tables.results import OrphanResult
from lakescan.tables.scan_spec import ScanSpec

_SHOWN = 20  # partitions
_MOST_LOCAL = 10_000  # local files, which are looked up unasked


def measure_health(
    name: str, spec: ScanSpec, orphans: OrphanResult | None = None, *, missing: bool | None = None
) -> TableHealth:
    """The health of the state that a scan of all rows selects.

    Args:
        name: The table's name, or its location.
        spec: The scan.
        orphans: A dry run of the removal of orphans.
        missing: Whether to look up all files in storage; None for those that are looked up without cost.
    """
    files = spec.file_table()
    facts = spec.table.metadata_facts(spec.snapshot, files, datetime.now(UTC))
    return _Measurement(name, spec, files, facts, orphans, _find_missing_files(spec, files, missing)).health()


def _find_missing_files(spec: ScanSpec, files: FileTable, wanted: bool | None) -> tuple[str, ...] | None:
    """The data and delete files that are not in storage; None if they were not looked up."""
    storage = spec.storage
    paths = [*files.files["path"].to_pylist(), *files.deletes["path"].unique().drop_null().to_pylist()]
    if wanted is None:
        wanted = len(paths) <= _MOST_LOCAL and not any(map(storage.is_remote, paths))
    if not wanted:
        return None
    by_filesystem: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        by_filesystem.setdefault(split_location(path)[:2], []).append(path)  # `look_up` takes files of one filesystem
    return tuple(
        path
        for some in by_filesystem.values()
        for path, found in zip(some, storage.look_up(some), strict=True)
        if found is None
    )


@dataclass(frozen=True)
class _Measurement:
    name: str
    spec: ScanSpec
    files: FileTable
    facts: MetadataFacts
    orphans: OrphanResult | None
    missing: tuple[str, ...] | None

    def health(self) -> TableHealth:
        sizes = pc.fill_null(self.files.files["size"], 0).to_numpy()
        small = sizes < Thresholds.resolve(CompactOptions(), self.facts.target_file_size).smallest
        numbers = partition_numbers(self.files.files) if len(sizes) else np.empty(0, dtype=np.int64)
        of_partition = np.bincount(numbers, weights=sizes)
        total = int(sizes.sum())
        counts = self.files.references.counts
        facts, snapshot, kept = self.facts, self.spec.snapshot, self.facts.kept
        figures = {
            "table": self.name,
            "format": self.spec.table.name,
            "version": snapshot.id,
            "committed_at": snapshot.timestamp,
            "files": len(sizes),
            "bytes": total,
            "rows": int(pc.sum(self.files.files["record_count"]).as_py() or 0),
            "target_file_size": facts.target_file_size,
            "small_files": int(small.sum()),
            "small_bytes": int(sizes[small].sum()),
            "sizes": _histogram(sizes),
            "partition_count": int((np.bincount(numbers) > 0).sum()),
            "largest_partition": float(of_partition.max() / total) if total else 0.0,
            "partitions": _partition_figures(self.files.files, numbers, sizes, small),
            **self._deletes(),
            "files_with_deletes": int((counts > 0).sum()),
            "most_deletes": int(counts.max(initial=0)),
            "deleted_rows": int(deleted_rows(self.files).sum()) if self.files.deletes.num_rows else 0,
            "metadata_bytes": facts.bytes,
            "manifests": None if facts.manifests is None else facts.manifests.count,
            "manifest_bytes": None if facts.manifests is None else facts.manifests.bytes,
            "log_commits": None if facts.log is None else facts.log.commits,
            "checkpoint": None if facts.log is None else facts.log.checkpoint,
            "checkpoint_at": None if facts.log is None else facts.log.checkpoint_at,
            "snapshots": kept.count,
            "oldest": kept.oldest,
            "expirable": kept.expirable,
            "retained_files": kept.files,
            "retained_bytes": kept.bytes,
            "clustering": facts.clustering,
            "primary_key": snapshot.schema.identifier_names,
            "replaces_by_key": snapshot.properties.get("write.upsert.enabled", "").lower() == "true",
            "owns_files": facts.owns_files,
            "orphans": None if self.orphans is None else len(self.orphans),
            "orphan_bytes": None if self.orphans is None else self.orphans.bytes,
            "missing": self.missing,
        }
        times = {each.name for each in snapshot.schema.fields if pa.types.is_temporal(each.type.arrow())}
        bare = TableHealth(**figures, findings=())
        return TableHealth(**figures, findings=findings_of(bare, self.files, facts, self._fields(), times))

    def _fields(self) -> list[str]:
        """The partition fields as text; commas in parentheses do not divide them."""
        return [each.strip() for each in re.split(r",(?![^(]*\))", self.spec.table.partitioning)]

    def _deletes(self) -> dict[str, int]:
        deletes = self.files.deletes
        kinds = {
            each["values"]: each["counts"] for each in pc.value_counts(deletes["kind"].combine_chunks()).to_pylist()
        }
        used = int(self.files.references.reference_mask(deletes.num_rows).sum())
        return {
            "position_delete_files": kinds.get(DeleteKind.POSITION, 0),
            "equality_delete_files": kinds.get(DeleteKind.EQUALITY, 0),
            "deletion_vectors": kinds.get(DeleteKind.VECTOR, 0),
            "delete_bytes": int(pc.sum(deletes["size"]).as_py() or 0),
            "unused_deletes": deletes.num_rows - used,
        }


def _histogram(sizes: np.ndarray) -> pa.Table:
    """How many files there are from each power of two on, from the first to the last that has some."""
    if not len(sizes):
        return SIZES.empty_table()
    powers = np.floor(np.log2(np.maximum(sizes, 1))).astype(int)
    low = int(powers.min())
    counts = np.bincount(powers - low)
    return pa.table([2 ** (low + np.arange(len(counts))), counts], schema=SIZES)


def _partition_figures(files: pa.Table, numbers: np.ndarray, sizes: np.ndarray, small: np.ndarray) -> pa.Table:
    """The partitions with the most small files, then those with the most bytes."""
    if not len(numbers):
        return PARTITIONS.empty_table()
    count = np.bincount(numbers)
    total = np.bincount(numbers, weights=sizes).astype(np.int64)
    many = np.bincount(numbers, weights=small).astype(np.int64)
    first = np.zeros(len(count), dtype=np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    order = np.lexsort((-total, -many))
    chosen = order[count[order] > 0][:_SHOWN]
    rows = files.select(["partition"]).take(pa.array(first[chosen])).to_pylist()  # at most _SHOWN
    names = [_partition_text(row["partition"]) for row in rows]
    return pa.table([names, count[chosen], total[chosen], many[chosen]], schema=PARTITIONS)


def _partition_text(partition: dict[str, object] | None) -> str:
    """A partition as folders name it; fields that only other partition specs have are null."""
    found = [f"{name}={'null' if value is None else value}" for name, value in (partition or {}).items()]
    return "/".join(found) or "all files"
