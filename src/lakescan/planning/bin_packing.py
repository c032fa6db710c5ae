"""Bin packing of splits into balanced task groups, one per Spark partition, with Iceberg's algorithm.

The weight of a split is its bytes plus those of its deletes, but at least the cost of opening its files. A split goes
to the first open bin with enough room. If more than `lookback` bins are open, the fullest is closed. Splits whose order
matters are packed without looking back.
"""

from __future__ import annotations

from heapq import heappop, heappush, heappushpop

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import limits
from lakescan.planning.file_table import FileTable

LOOKBACK = 10
OPEN_COST = 4 * 2**20


def weights(splits: pa.Table, table: FileTable, open_cost: int) -> np.ndarray:
    """Return the weight of each split in bytes: max(bytes + delete bytes, `open_cost` x files opened).

    The files opened are the data file and its delete files.
    """
    references = table.references
    counts = references.counts
    delete_bytes = references.sums(pc.fill_null(table.deletes["size"], 0).to_numpy())
    file = splits["file"].to_numpy()
    result: np.ndarray = np.maximum(
        splits["length"].to_numpy() + delete_bytes[file], (1 + counts[file]) * min(open_cost, limits.FILE_SIZE)
    )
    return result


def pack(weight: np.ndarray, target: int, lookback: int) -> np.ndarray:
    """Return the group number of each split. Groups are numbered in closing order.

    `target` is the size of a group, in the unit of `weight`. A heavier split has a group of its own. At most `lookback`
    groups are open.

    This is a single pass. Most splits are compared with only one or two numbers: the room in the newest bin, and the
    most room in an older one. Bins without room for even the lightest split are not compared, only closed. Splits of
    equal weight, such as those of small files, fill one bin after another.
    """
    lightest = int(weight.min(initial=limits.FILE_SIZE))
    if lightest > 0 and lookback > 0 and (weight == lightest).all():
        return np.arange(len(weight)) // max(1, target // lightest)
    begins: list[int] = []  # the split that opened each bin; later splits are in it, too, except moved ones
    moved: list[int] = []  # splits that went to an older bin
    moved_to: list[int] = []  # the older bin of each
    newest, left = -1, -1  # the newest bin, and its room; -1 if it is already closed
    older: list[int] = []  # older open bins with room for the lightest split, in order
    older_left: list[int] = []  # the room of each
    most = -1  # no older bin has more room
    full: list[tuple[int, int]] = []  # the other open bins, a heap of (room, bin): the fullest first
    closed: list[int] = []
    unopened = lookback
    for split, each in enumerate(weight.tolist()):
        if each <= most:
            for room in older_left:
                if room >= each:
                    break
            else:
                room = -1
                most = max(older_left) if older_left else -1
            if room >= each:
                place = older_left.index(room)  # the bin that the loop found
                moved.append(split)
                moved_to.append(older[place])
                if room - each >= lightest:
                    older_left[place] = room - each
                else:
                    del older_left[place]
                    heappush(full, (room - each, older.pop(place)))
                continue
        if each <= left:
            left -= each
            continue
        if left >= lightest:
            older.append(newest)
            older_left.append(left)
            if left > most:
                most = left
        elif newest >= 0:
            heappush(full, (left, newest))
        newest, left = len(begins), target - each
        begins.append(split)
        if unopened:
            unopened -= 1
        elif left < lightest:
            closed.append(heappushpop(full, (left, newest))[1])
            newest = left = -1
        elif full:
            closed.append(heappop(full)[1])
        elif older and (least := min(older_left)) <= left:
            place = older_left.index(least)
            del older_left[place]
            closed.append(older.pop(place))
        else:
            closed.append(newest)
            newest = left = -1
    still_open = sorted([*older, *(number for _, number in full), *([newest] if newest >= 0 else [])])
    order = np.empty(len(begins), dtype=np.int64)
    order[np.array(closed + still_open, dtype=np.int64)] = np.arange(len(begins))
    bins = _bin_numbers(begins, len(weight))
    bins[np.array(moved, dtype=np.int64)] = moved_to
    result: np.ndarray = order[bins]
    return result


def pack_in_order(weight: np.ndarray, target: int) -> np.ndarray:
    """Return the group number of each split: consecutive splits fill a group up to the weight `target`."""
    begins: list[int] = []
    left = -1
    for split, each in enumerate(weight.tolist()):
        if each > left:
            begins.append(split)
            left = target
        left -= each
    return _bin_numbers(begins, len(weight))


def _bin_numbers(begins: list[int], splits: int) -> np.ndarray:
    """Return the bin of each of `splits` splits: bin n has the splits from number `begins[n]` up to the next bin's."""
    return np.repeat(np.arange(len(begins)), np.diff([*begins, splits]))
