"""Bin packing: splits into balanced groups, one a Spark partition, as Iceberg's planner does.

A split weighs its bytes and those of its deletes, and at least what opening its files costs. Bins are filled in order
with a lookback: a split goes to the first open bin that has room, and past `lookback` open bins the fullest is closed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.planning.file_table import FileTable

LOOKBACK = 10
OPEN_COST = 4 * 2**20


def weights(splits: pa.Table, table: FileTable, open_cost: int) -> np.ndarray:
    """The weight of each split: max(bytes + delete bytes, open cost x files opened)."""
    lists = table.files["deletes"].combine_chunks()
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    sizes = pc.fill_null(table.deletes["size"], 0).to_numpy()
    owner = np.repeat(np.arange(len(counts)), counts)
    referenced = lists.flatten().to_numpy(zero_copy_only=False)
    delete_bytes = np.bincount(owner, weights=sizes[referenced], minlength=len(counts)).astype(np.int64)
    file = splits["file"].to_numpy()
    result: np.ndarray = np.maximum(splits["length"].to_numpy() + delete_bytes[file], (1 + counts[file]) * open_cost)
    return result


def pack(weight: np.ndarray, target: int, lookback: int) -> np.ndarray:
    """The group number of each split; groups are numbered in the order in which they were closed.

    One pass, at most `lookback` comparisons a split; bins that no split fits into any more are not compared.
    """
    group: list[int] = []
    room: list[int] = []  # by bin
    open_bins: list[int] = []
    usable: list[int] = []  # the open bins that the lightest split would fit into
    closed: list[int] = []
    lightest = int(weight.min(initial=0))
    for each in weight.tolist():
        for found in usable:
            if room[found] >= each:
                room[found] -= each
                break
        else:
            found = len(room)
            room.append(target - each)
            open_bins.append(found)
            usable.append(found)
            if len(open_bins) > lookback:
                fullest = min(open_bins, key=room.__getitem__)
                open_bins.remove(fullest)
                closed.append(fullest)
                if fullest in usable:
                    usable.remove(fullest)
        if room[found] < lightest and found in usable:
            usable.remove(found)
        group.append(found)
    order = np.empty(len(room), dtype=np.int64)
    order[np.array(closed + open_bins, dtype=np.int64)] = np.arange(len(room))
    result: np.ndarray = order[np.array(group, dtype=np.int64)]
    return result
