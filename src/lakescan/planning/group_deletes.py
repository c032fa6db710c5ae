"""The deletes of each task group, numbered within the group: a group carries the deletes of its own files alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.planning.delete_references import DeleteReferences


@dataclass(frozen=True)
class Intervals:
    """Disjoint intervals of rows, from `first` to `stop` (exclusive), ascending, each with the number of its owner."""

    owner: np.ndarray
    first: np.ndarray
    stop: np.ndarray

    @staticmethod
    def united(owner: np.ndarray, first: np.ndarray, stop: np.ndarray) -> tuple[Intervals, np.ndarray]:
        """The union of intervals by owner, and for each given one the number of that which contains it."""
        order = np.lexsort((first, owner))
        owner, first, stop = owner[order], first[order], stop[order]
        apart = owner * (int(stop.max(initial=0)) + 1)
        reached = np.maximum.accumulate(stop + apart) if len(stop) else stop
        begins = np.ones(len(first), dtype=bool)
        begins[1:] = (first + apart)[1:] > reached[:-1]
        number = np.cumsum(begins) - 1
        ends = np.append(begins[1:], True) if len(begins) else begins
        places = np.empty(len(order), dtype=np.int64)
        places[order] = number
        return Intervals(owner[begins], first[begins], (reached - apart)[ends]), places


@dataclass(frozen=True)
class GroupDeletes:
    """The deletes of groups: `numbers` (by position, those of group n from `bounds[n]` on), and intervals by group.

    A group's delete table has the deletes by position first, then those of its intervals. `local` are the references
    of all splits to the tables of their groups.
    """

    table: pa.Table
    numbers: np.ndarray
    bounds: np.ndarray
    intervals: Intervals
    interval_bounds: np.ndarray
    local: DeleteReferences

    @staticmethod
    def of(references: DeleteReferences, bounds: np.ndarray, deletes: pa.Table) -> GroupDeletes:
        """The deletes of groups; `references` are those of their splits, of which group n has those from bounds[n]."""
        groups, count = np.arange(len(bounds)), max(1, deletes.num_rows)
        by_pair, by_range = (
            np.searchsorted(bounds, owner, side="right") - 1 for owner in (references.file, references.range_file)
        )
        pairs, place = np.unique(by_pair * count + references.number, return_inverse=True)
        starts = np.searchsorted(pairs // count, groups)
        intervals, inside = Intervals.united(by_range, references.first, references.stop)
        lengths = intervals.stop - intervals.first
        before = np.cumsum(lengths) - lengths
        owned = np.searchsorted(intervals.owner, groups)
        # Rows of intervals that earlier groups have, and deletes by position of the own group, come before.
        earlier = np.concatenate([before, [lengths.sum()]])[owned]
        offset = before - earlier[intervals.owner] + np.diff(starts, append=len(pairs))[intervals.owner]
        moved = (offset - intervals.first)[inside]
        local = replace(
            references,
            number=place.reshape(-1) - starts[by_pair],
            first=references.first + moved,
            stop=references.stop + moved,
        )
        return GroupDeletes(deletes, pairs % count, starts, intervals, owned, local)

    def columns(self) -> dict[str, pa.Array]:
        """The columns `deletes` and `equality_deletes` of the splits, which refer to the tables of their groups."""
        return self.local.columns()

    def of_group(self, number: int) -> pa.Table:
        """The delete table of a group."""
        low, high = self.bounds[number : number + 2].tolist()
        first, last = self.interval_bounds[number : number + 2].tolist()
        parts = [self.table.slice(0, 0)]
        if high > low:
            parts.append(self.table.take(pa.array(self.numbers[low:high])))
        for n in range(first, last):
            start = int(self.intervals.first[n])
            parts.append(self.table.slice(start, int(self.intervals.stop[n]) - start))
        return pa.concat_tables(parts) if len(parts) > 1 else parts[0]

    def tables(self) -> tuple[pa.Table, np.ndarray]:
        """The delete tables of all groups in one, and where that of each group begins in it."""
        lengths = self.intervals.stop - self.intervals.first
        before = np.cumsum(lengths) - lengths
        inside = np.repeat(self.intervals.first - before, lengths) + np.arange(lengths.sum())
        by_position = np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))
        owner = np.concatenate([by_position, np.repeat(self.intervals.owner, lengths)])
        order = np.argsort(owner, kind="stable")
        rows = np.concatenate([self.numbers, inside])[order]
        return self.table.take(pa.array(rows)), np.searchsorted(owner[order], np.arange(len(self.bounds)))

    def bytes(self) -> np.ndarray:
        """The bytes of each group's deletes."""
        sizes = pc.fill_null(self.table["size"], 0).to_numpy()
        totals = np.concatenate([[0], np.cumsum(sizes, dtype=np.float64)])  # sizes can be wrong: no overflow
        count = len(self.bounds) - 1
        owner = np.repeat(np.arange(count), np.diff(self.bounds))
        of_intervals = totals[self.intervals.stop] - totals[self.intervals.first]
        by_position = np.bincount(owner, sizes[self.numbers], count)
        return (by_position + np.bincount(self.intervals.owner, of_intervals, count)).astype(np.int64)
