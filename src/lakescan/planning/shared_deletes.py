"""Which neighbouring task groups are read together because they share equality deletes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import codes
from lakescan.planning.delete_references import DeleteReferences
from lakescan.planning.file_table import key_texts
from lakescan.planning.split import TARGET_SIZE, adapted_size


def sharing(
    references: DeleteReferences, bounds: np.ndarray, deletes: pa.Table, data: pa.ChunkedArray, parallelism: int
) -> np.ndarray:
    """Return a new number for each group: neighbours that share equality deletes get one, up to the split size.

    What a group reads beyond the deletes of its first member counts: those must be read in any case, however many.
    `references` are those of the splits, of which group n has those from `bounds[n]` on; `data` are the bytes of each
    group's data. Each group has, of each place that it has deletes of, one interval of the delete table.
    """
    sizes = pc.fill_null(deletes["size"], 0).to_numpy()
    totals = np.concatenate([[0], np.cumsum(sizes, dtype=np.float64)])  # sizes can be wrong: no overflow
    weights = data.to_numpy()
    is_used = references.used(deletes.num_rows)
    is_used[references.number] = False
    limit = adapted_size(int(weights.sum() + sizes[is_used].sum()), parallelism, TARGET_SIZE)
    group, place, first, stop = _intervals(references, bounds, deletes)
    starts = np.searchsorted(group, np.arange(len(bounds))).tolist()
    own = list(zip(place.tolist(), first.tolist(), stop.tolist(), strict=True))
    size_to = totals.tolist()
    known: dict[int, tuple[int, int]] = {}
    weight, number, numbers = 0.0, -1, []
    for n, bytes_of_data in enumerate(weights.tolist()):
        mine = own[starts[n] : starts[n + 1]]
        new, shares = 0.0, False
        for at, low, high in mine:
            new += size_to[high] - size_to[low]
            begin, end = known.get(at, (0, 0))
            begin, end = max(begin, low), min(end, high)
            if begin < end:
                new -= size_to[end] - size_to[begin]
                shares = True
        weight += bytes_of_data + new
        if number < 0 or not shares or weight > limit:
            known = {at: (low, high) for at, low, high in mine}
            weight = bytes_of_data
            number += 1
        else:
            for at, low, high in mine:
                begin, end = known.get(at, (low, high))
                known[at] = (min(begin, low), max(end, high))
        numbers.append(number)
    return np.array(numbers, dtype=np.int64)


def _intervals(
    references: DeleteReferences, bounds: np.ndarray, deletes: pa.Table
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """For each group and place: the first and last (exclusive) of the place's deletes that the group has."""
    parts = (deletes["scope"], key_texts(deletes), deletes["kept"])
    place_of = np.cumsum(np.any([np.diff(codes(each), prepend=-2) != 0 for each in parts], axis=0))
    group = np.searchsorted(bounds, references.range_file, side="right") - 1
    place = place_of[references.first]
    order = np.lexsort((place, group))
    group, place = group[order], place[order]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (np.diff(group) != 0) | (np.diff(place) != 0)
    at = np.flatnonzero(begins)
    first = np.minimum.reduceat(references.first[order], at)
    stop = np.maximum.reduceat(references.stop[order], at)
    return group[begins], place[begins], first, stop
