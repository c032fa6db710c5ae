"""Task groups of one partition each, for those who write what they read: a group becomes a file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.planning.plan import ScanPlan, TaskGroups


def groups_by_partition(plan: ScanPlan, size: int) -> TaskGroups:
    """The splits of a plan in groups of one partition, of about `size` bytes each."""
    partition = partition_numbers(plan.files)[plan.splits["file"].to_numpy()]
    return TaskGroups(plan.table, plan.splits, shared_out(partition, plan.splits["length"].to_numpy(), size))


def partition_numbers(files: pa.Table) -> np.ndarray:
    """A number for each file of a file table, alike where partition spec and partition are."""
    found: np.ndarray = files["spec_id"].to_numpy().astype(np.int64)
    for member in files["partition"].combine_chunks().flatten():
        values = member.storage if isinstance(member, pa.ExtensionArray) else member  # UUIDs
        encoded = pc.dictionary_encode(values, null_encoding="encode")
        number = encoded.indices.to_numpy(zero_copy_only=False)
        found = np.unique(found * (len(encoded.dictionary) + 1) + number, return_inverse=True)[1]
    return found


def shared_out(partition: np.ndarray, lengths: np.ndarray, size: int) -> np.ndarray:
    """The group of each of some pieces, by the number of its partition and its bytes.

    The pieces of a partition, in their order, are cut into as many equal shares as make them about `size` bytes.
    """
    order = np.argsort(partition, kind="stable")
    starts = np.flatnonzero(np.diff(partition[order], prepend=-1))
    place = np.repeat(np.arange(len(starts)), np.diff([*starts, len(order)]))
    ends = np.cumsum(lengths[order])
    before = ends - lengths[order]
    before -= before[starts][place]
    totals = np.bincount(place, weights=lengths[order], minlength=len(starts))
    shares = np.maximum(1, np.round(totals / size))
    share = np.minimum(before * shares[place] // np.maximum(totals[place], 1), shares[place] - 1)
    group = np.empty(len(order), dtype=np.int64)
    group[order] = np.unique(np.stack([place, share]), axis=1, return_inverse=True)[1].reshape(-1)
    return group
