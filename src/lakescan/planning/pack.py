"""Bin packing of splits into balanced task groups, one per Spark partition, with Iceberg's algorithm.

The weight of a split is its bytes plus those of its deletes, but at least the cost of opening its files. A split goes
to the first open bin that has room; if more than `lookback` bins are open, the fullest is closed. Splits whose order
matters are packed without looking back.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import limits
from lakescan.planning.file_table import FileTable

LOOKBACK = 10
OPEN_COST = 4 * 2**20


def weights(splits: pa.Table, table: FileTable, open_cost: int) -> np.ndarray:
    """Return the weight of each split: max(bytes + delete bytes, open cost x files opened)."""
    references = table.references
    counts = references.counts
    delete_bytes = references.sums(pc.fill_null(table.deletes["size"], 0).to_numpy())
    file = splits["file"].to_numpy()
    result: np.ndarray = np.maximum(
        splits["length"].to_numpy() + delete_bytes[file], (1 + counts[file]) * min(open_cost, limits.FILE_SIZE)
    )
    return result


def pack(weight: np.ndarray, target: int, lookback: int) -> np.ndarray:
    """Return the group number of each split; groups are numbered in the order in which they are closed.

    One pass with at most `lookback` comparisons per split; bins too full for even the lightest split are not compared.
    Splits of one weight, as those of small files, fill one bin after the other.
    """
    lightest = int(weight.min(initial=limits.FILE_SIZE))
    if lightest > 0 and lookback > 0 and (weight == lightest).all():
        return np.arange(len(weight)) // max(1, target // lightest)
    group: list[int] = []
    room: list[int] = []  # remaining weight of each bin
    open_bins: list[int] = []
    usable: list[int] = []  # open bins with room for the lightest split
    closed: list[int] = []
    for each in weight.tolist():
        for number in usable:
            if room[number] >= each:
                room[number] -= each
                break
        else:
            number = len(room)
            room.append(target - each)
            open_bins.append(number)
            usable.append(number)
            if len(open_bins) > lookback:
                fullest = min(open_bins, key=room.__getitem__)
                open_bins.remove(fullest)
                closed.append(fullest)
                if fullest in usable:
                    usable.remove(fullest)
        if room[number] < lightest and number in usable:
            usable.remove(number)
        group.append(number)
    order = np.empty(len(room), dtype=np.int64)
    order[np.array(closed + open_bins, dtype=np.int64)] = np.arange(len(room))
    result: np.ndarray = order[np.array(group, dtype=np.int64)]
    return result


def pack_in_order(weight: np.ndarray, target: int) -> np.ndarray:
    """Return the group number of each split: groups of consecutive splits, each filled before the next begins."""
    group: list[int] = []
    number, room = -1, -1
    for each in weight.tolist():
        if each > room:
            number, room = number + 1, target
        room -= each
        group.append(number)
    return np.array(group, dtype=np.int64)
