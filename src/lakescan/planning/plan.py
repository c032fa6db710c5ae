"""The plan of a scan: the pruned file table with its residuals, splits, task groups and report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import float_bits, row_numbers
from lakescan.common.schema import Schema
from lakescan.expressions.predicate import TRUE, Predicate, conjunction, conjuncts
from lakescan.planning.bin_packing import LOOKBACK, OPEN_COST, pack, pack_in_order, weights
from lakescan.planning.candidates import Candidates
from lakescan.planning.file_table import FileTable
from lakescan.planning.residual import MOST_CONJUNCTS, Residuals, residuals
from lakescan.planning.scan_report import ScanMetrics, ScanReport
from lakescan.planning.split import TARGET_SIZE, adaptive_size, split_files
from lakescan.planning.task_groups import TaskGroups


@dataclass(frozen=True)
class PackingOptions:
    """Settings for splitting files and packing splits into task groups; sizes in bytes.

    - `split_size`: a fixed split size; None for the target size, which is adapted if `adaptive`.
    - `target_size`: the target size of a task group.
    - `lookback`: how many groups are open at the same time. `open_cost`: bytes that opening a file counts as.
    - `parallelism`: the number of readers. `weighs_opening`: see `size_for`.
    - `in_order`: whether task groups preserve the order of the files.
    """

    split_size: int | None = None
    target_size: int = TARGET_SIZE
    lookback: int = LOOKBACK
    open_cost: int = OPEN_COST
    adaptive: bool = True
    parallelism: int = 1
    weighs_opening: bool = False
    in_order: bool = False

    def groups_of(self, weight: np.ndarray, size: int) -> np.ndarray:
        """Return the group number of each split, given its weight, for groups of `size` bytes."""
        return pack_in_order(weight, size) if self.in_order else pack(weight, size, self.lookback)

    def size_for(self, total: int, files: int) -> int:
        """Return the split size in bytes for a scan of `total` bytes in `files` files (including delete files).

        A fixed size is returned as it is. Otherwise the size adapts to the total like Iceberg's. For many small files,
        that would make one task for every four files. With `weighs_opening`, the cost of opening files does not raise
        the number of tasks above the parallelism.
        """
        if self.split_size is not None or not self.adaptive:
            return self.split_size or self.target_size
        if self.weighs_opening:
            weight = total + files * self.open_cost
            if total < self.parallelism * self.target_size < weight:
                return weight // self.parallelism + self.open_cost
            total = weight
        return adaptive_size(total, self.parallelism, self.target_size)


@dataclass(frozen=True, repr=False)
class ScanPlan:
    """The files, deletes, splits and task groups that a scan reads. Immutable.

    Attributes:
        schema: The scan's output schema.
        table_schema: The table's schema.
        filter: The bound predicate that is applied to rows.
        table: The data files to read, with their deletes and statistics.
        splits: An Arrow table with one row per split: a byte range of a file.
        groups: The task groups: splits that one reader reads.
        residuals: The filters that remain for rows; each split has the number of one.
        report: The report of planning: files read and skipped, times and sizes.
        limit: The row limit of the scan; None without one.
    """

    schema: Schema
    table_schema: Schema
    filter: Predicate
    table: FileTable
    splits: pa.Table
    groups: TaskGroups
    residuals: tuple[Predicate, ...]
    report: ScanReport
    limit: int | None = None

    def __repr__(self) -> str:
        size, splits = self.report.metrics.total_file_size_in_bytes, self.splits.num_rows
        return f"ScanPlan({len(self.table):,} files, {size:,} bytes, {splits:,} splits, {len(self.groups):,} groups)"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the report of the plan."""
        return self.report._repr_html_()

    @property
    def files(self) -> pa.Table:
        """The data files to read, one row per file (see `planning.file_table.FILES`)."""
        return self.table.files

    @property
    def parallelism(self) -> int:
        """The number of readers that the plan can keep busy: one per group, and at most the row limit."""
        return min(len(self.groups), len(self.groups) if self.limit is None else self.limit)

    @property
    def column_stats(self) -> pa.Table:
        """Column statistics, one row per file: of the filter's columns, and of those of `Scan.include_column_stats`.

        Each column is a struct of `lower`, `upper`, `null_count`, `nan_count` and `value_count`; null means unknown.
        """
        names = {field.id: field.name for field in self.table_schema.fields}
        known = {names[i]: stats.as_struct(len(self.table)) for i, stats in self.table.stats.items() if i in names}
        return pa.table({name: known[name] for name in names.values() if name in known})

    @property
    def deletes(self) -> pa.Table:
        """The delete files and deletion vectors to apply (see `planning.file_table.DELETES`)."""
        return self.table.deletes


def make_plan(
    candidates: Candidates,
    *,
    schema: Schema,
    table_schema: Schema,
    predicate: Predicate,
    packing: PackingOptions,
    limit: int | None,
    ignore_residuals: bool = False,
    conditions: int | None = None,
    metrics: ScanMetrics,
    describe: dict[str, Any],
) -> ScanPlan:
    """Build a plan from candidates: compute residuals, apply the limit, split files, and pack splits into task groups.

    - `predicate`: the bound filter. With `ignore_residuals`, it only prunes files and is not applied to rows.
    - `conditions`: only the first `conditions` conjuncts are applied to rows; None for all.
    - `metrics`: the counters of the report, to which those of the result are added.
    - `describe`: the report's table, snapshot and schema, as arguments of `ScanReport`.
    """
    kept = candidates.table
    tested, needed = _first_conjuncts(predicate, conditions, candidates.needed)
    remaining = residuals(TRUE, 0 * needed) if ignore_residuals else residuals(tested, needed)
    final = kept.head(_files_for_limit(kept, remaining, limit)).drop_unused_deletes()
    metrics.count_result(final)
    skipped = candidates.skipped_by_partition + candidates.skipped_by_stats
    metrics.skipped_data_files = skipped + len(kept) - len(final)

    opened = len(final) + metrics.result_delete_files
    size = packing.size_for(metrics.total_file_size_in_bytes + metrics.total_delete_file_size_in_bytes, opened)
    splits = split_files(final, size)
    splits = splits.append_column("residual", remaining.index.take(splits["file"]))
    groups = TaskGroups(final, splits, packing.groups_of(weights(splits, final, packing.open_cost), size))
    report = ScanReport(
        **describe,
        metrics=metrics,
        filter=str(predicate),
        projected_fields=tuple(schema.names),
        projected_field_ids=tuple(f.id for f in schema.fields),
        predicate=predicate,
        skipped_by_partition=candidates.skipped_by_partition,
        skipped_by_stats=candidates.skipped_by_stats,
        skipped_by_limit=len(kept) - len(final),
        splits=splits.num_rows,
        groups=len(groups),
        records=_records(final),
    )
    return ScanPlan(schema, table_schema, tested, final, splits, groups, remaining.predicates, report, limit)


def _first_conjuncts(predicate: Predicate, conditions: int | None, needed: np.ndarray) -> tuple[Predicate, np.ndarray]:
    """Return the first `conditions` conjuncts of a predicate (None: all), and their bits in the masks `needed`."""
    parts = conjuncts(predicate)
    if conditions is None or conditions == len(parts):
        return predicate, needed
    return conjunction(parts[:conditions]), needed & ((1 << min(conditions, MOST_CONJUNCTS)) - 1)


def _files_for_limit(table: FileTable, remaining: Residuals, limit: int | None) -> int:
    """Return how many of the first files have `limit` rows together: all files if any has deletes or a residual.

    A `limit` of None means all files.
    """
    if limit is None or table.references.counts.any() or remaining.predicates not in ((TRUE,), ()):
        return len(table)
    counts = pc.cumulative_sum(pc.fill_null(table.files["record_count"], 0)).to_numpy()
    return min(len(table), int(np.searchsorted(counts, limit)) + 1) if limit else 0


def _records(table: FileTable) -> int | None:
    counts = table.files["record_count"]
    return None if counts.null_count else int(pc.sum(counts).as_py() or 0)


def groups_by_partition(plan: ScanPlan, size: int) -> TaskGroups:
    """Group the splits of a plan by partition, into groups of about `size` bytes, each of one partition."""
    partition = partition_numbers(plan.files)[plan.splits["file"].to_numpy()]
    return TaskGroups(plan.table, plan.splits, assign_groups(partition, plan.splits["length"].to_numpy(), size))


def partition_numbers(files: pa.Table) -> np.ndarray:
    """Return a number for each file of a file table. Files of the same spec and partition have the same number."""
    members = files["partition"].combine_chunks().flatten()
    return row_numbers([files["spec_id"], *map(float_bits, members)])


def assign_groups(partition: np.ndarray, lengths: np.ndarray, size: int) -> np.ndarray:
    """Return the group number of each split, given its partition number and its length in bytes.

    The splits of a partition, in order, are divided into groups of equal size, as near to `size` bytes as possible.
    """
    order = np.argsort(partition, kind="stable")
    starts = np.flatnonzero(np.diff(partition[order], prepend=-1))
    ordinal = np.repeat(np.arange(len(starts)), np.diff([*starts, len(order)]))
    ends = np.cumsum(lengths[order])
    before = ends - lengths[order]
    before -= before[starts][ordinal]
    totals = np.bincount(ordinal, weights=lengths[order], minlength=len(starts))
    shares = np.maximum(1, np.round(totals / size))
    share = np.minimum(before * shares[ordinal] // np.maximum(totals[ordinal], 1), shares[ordinal] - 1)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.unique(np.stack([ordinal, share]), axis=1, return_inverse=True)[1].reshape(-1)
    return group
