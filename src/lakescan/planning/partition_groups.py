"""Task groups of a single partition each, for compaction: each group is rewritten to a file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from lakescan.common.arrays import float_bits
from lakescan.common.row_numbers import row_numbers
from lakescan.planning.plan import ScanPlan
from lakescan.planning.task_groups import TaskGroups


def groups_by_partition(plan: ScanPlan, size: int) -> TaskGroups:
    """Group the splits of a plan by partition, into groups of about `size` bytes."""
    partition = partition_numbers(plan.files)[plan.splits["file"].to_numpy()]
    return TaskGroups(plan.table, plan.splits, assign_groups(partition, plan.splits["length"].to_numpy(), size))


def partition_numbers(files: pa.Table) -> np.ndarray:
    """Return a number for each file of a file table; files of the same spec and partition have the same number."""
    members = files["partition"].combine_chunks().flatten()
    return row_numbers([files["spec_id"], *map(float_bits, members)])


def assign_groups(partition: np.ndarray, lengths: np.ndarray, size: int) -> np.ndarray:
    """Return the group number of each split, given its partition number and length in bytes.

    The splits of a partition, in order, are divided into equal shares of about `size` bytes.
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
