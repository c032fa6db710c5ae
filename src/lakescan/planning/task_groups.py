"""Task groups: the splits that one reader reads, as Arrow tables, which are compact to pickle and to pass on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import dictionary_codes
from lakescan.planning.delete_files import DeleteFile, DeleteFiles, DeleteReferences
from lakescan.planning.file_table import FileTable, key_texts
from lakescan.planning.split import TARGET_SIZE, adaptive_size

_FILE_COLUMNS = (
    "path",
    "same_place",
    "file_format",
    "record_count",
    "spec_id",
    "sequence_number",
    "first_row_id",
    "key_metadata",
)
_SPLIT_COLUMNS = ("start", "stop", "residual")
_REFERENCES = ("deletes", "equality_deletes")
_AT_ONCE = 1 << 14  # splits whose rows are built at once


class EqualityScope(NamedTuple):
    """The rows that some equality deletes apply to, and the fields that they compare.

    - `scope`: the partition; empty for the whole table.
    - `ids`: the ids of the compared fields.
    - `kept`: whether only matching rows are returned, instead of deleted.
    """

    scope: str
    ids: tuple[int, ...]
    kept: bool = False


@dataclass(frozen=True, eq=False)
class FileScanTask:
    """A split of one data file to read, with the file's metadata, its deletes and the number of its residual.

    Attributes:
        path: The file's location, as in the metadata.
        same_place: Other paths of live data files at the same location; None without any.
        file_format: 'parquet', 'orc' or 'avro'.
        record_count: The number of rows of the whole file before deletes; None if not recorded.
        start: The first byte of the split.
        stop: The end of the split in the file (exclusive); larger than any file for the last split.
        spec_id: The id of the file's partition spec (Iceberg); 0 for Delta.
        sequence_number: The file's data sequence number (Iceberg).
        first_row_id: The row id of the file's first row, if the table tracks row lineage.
        key_metadata: The key metadata of an encrypted file.
        residual: The number of the filter that remains for the rows, in `ScanPlan.residuals`.
        partition: The partition values as a struct.
        constants: By field id, the value that a column has in all rows of the file.
        group_deletes: The deletes of the task group.
        delete_rows: The numbers of the file's position deletes and deletion vectors in `group_deletes`.
        equality_rows: The ranges of the file's equality deletes in `group_deletes`.
        equality_places: The scopes of these equality deletes.
    """

    path: str
    same_place: list[str] | None
    file_format: str
    record_count: int | None
    start: int
    stop: int
    spec_id: int
    sequence_number: int | None
    first_row_id: int | None
    key_metadata: bytes | None = field(repr=False)
    residual: int
    partition: pa.Scalar
    constants: dict[int, pa.Scalar]
    group_deletes: DeleteFiles
    delete_rows: list[int]
    equality_rows: tuple[range, ...]
    equality_places: frozenset[EqualityScope]

    @cached_property
    def deletes(self) -> tuple[DeleteFile, ...]:
        """All deletes that apply to the file."""
        return self.group_deletes.at([*self.delete_rows, *(row for rows in self.equality_rows for row in rows)])

    @cached_property
    def positional_deletes(self) -> tuple[DeleteFile, ...]:
        """The position deletes and deletion vectors that apply to the file."""
        return self.group_deletes.at(self.delete_rows)


@dataclass(frozen=True, repr=False)
class TaskGroup:
    """Splits that one reader reads, in order, as Arrow tables, which are compact to pickle.

    Attributes:
        index: The number of the group in the plan.
        splits: One row per split: the file's columns, the byte range, and the number of the residual. The columns
            `deletes` and `equality_deletes` refer to rows of the table `deletes`.
        deletes: One row per delete file or deletion vector of the group (see `planning.file_table.DELETES`).
        constant_fields: By partition spec, the ids of the fields that the column `constants` has values of.
    """

    index: int
    splits: pa.Table
    deletes: pa.Table
    constant_fields: dict[int, tuple[int, ...]]

    def __repr__(self) -> str:
        return f"TaskGroup({self.index}: {len(self)} splits, {self.deletes.num_rows} deletes)"

    def __getstate__(self) -> tuple[int, bytes, bytes, dict[int, tuple[int, ...]]]:
        # Arrow pickles whole buffers, even of a slice. A stream only has the slice.
        return self.index, _write_stream(self.splits), _write_stream(self.deletes), self.constant_fields

    def __setstate__(self, state: tuple[int, bytes, bytes, dict[int, tuple[int, ...]]]) -> None:
        index, splits, deletes, fields = state
        values = {"index": index, "splits": _read_stream(splits), "deletes": _read_stream(deletes)}
        self.__dict__.update(values, constant_fields=fields)

    def tasks(self) -> Iterator[FileScanTask]:
        """Yield the group's tasks."""
        rows = [self.splits[name].to_pylist() for name in (*_FILE_COLUMNS, *_SPLIT_COLUMNS)]
        constants, partitions = (self.splits[name].combine_chunks() for name in ("constants", "partition"))
        lists = self.splits["deletes"].to_pylist()
        references = DeleteReferences.read_columns(self.splits)
        ranges = list(map(range, references.first.tolist(), references.stop.tolist()))
        bounds = np.searchsorted(references.range_file, np.arange(len(self) + 1)).tolist()
        places = self._places(references.first)
        deletes = DeleteFiles(self.deletes)
        for row, values in enumerate(zip(*rows, strict=True)):
            named = dict(zip((*_FILE_COLUMNS, *_SPLIT_COLUMNS), values, strict=True))
            own = slice(bounds[row], bounds[row + 1])
            yield FileScanTask(
                **named,
                partition=partitions[row],
                constants={i: constants.field(str(i))[row] for i in self.constant_fields[named["spec_id"]]},
                group_deletes=deletes,
                delete_rows=lists[row] or [],
                equality_rows=tuple(ranges[own]),
                equality_places=frozenset(places[own]),
            )

    def _places(self, rows: np.ndarray) -> list[EqualityScope]:
        """Return the scope of each of the equality deletes in these rows of the group's delete table."""
        wanted, index = np.unique(rows, return_inverse=True)
        some = self.deletes.take(pa.array(wanted))
        keys = [tuple(map(int, text.split(","))) for text in key_texts(some).to_pylist()]
        known = list(map(EqualityScope, some["scope"].to_pylist(), keys, pc.fill_null(some["kept"], False).to_pylist()))
        return [known[i] for i in index.reshape(-1).tolist()]

    def __len__(self) -> int:
        return int(self.splits.num_rows)


@dataclass(frozen=True)
class _Rows:
    """The tables of adjacent groups, beginning with group number `start`.

    - `bounds`: where the splits of each group begin in `splits`, and where the last group's end.
    - `deletes`: the deletes of these groups.
    """

    start: int
    bounds: np.ndarray
    splits: pa.Table
    deletes: GroupDeletes

    def group(self, index: int) -> tuple[pa.Table, pa.Table]:
        """Return the tables of the splits and of the deletes of a group, by its number in the plan."""
        number = index - self.start
        low, high = int(self.bounds[number]), int(self.bounds[number + 1])
        return self.splits.slice(low, high - low), self.deletes.group_table(number)


class TaskGroups(Sequence[TaskGroup]):
    """The task groups of a plan, as a sequence.

    A group's tables are built when it is accessed, together with those of many following groups. `group` has the number
    of each split's group.
    """

    def __init__(self, table: FileTable, splits: pa.Table, group: np.ndarray) -> None:
        self._table = table
        if (np.diff(group) < 0).any():
            order = np.argsort(group, kind="stable")
            splits, group = splits.take(pa.array(order)), group[order]
        self._splits = splits
        self._bounds = np.searchsorted(group, np.arange(int(group.max(initial=-1)) + 2))
        self._latest: _Rows | None = None

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, index: int) -> TaskGroup: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[TaskGroup]: ...
    def __getitem__(self, index: int | slice) -> TaskGroup | Sequence[TaskGroup]:
        """Return a group, or a list of groups for a slice; raises `IndexError` also for negative numbers."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        latest = self._latest
        if latest is None or not latest.start <= index < latest.start + len(latest.bounds) - 1:
            self._latest = latest = self._rows(index)
        splits, deletes = latest.group(index)
        return TaskGroup(index, splits, deletes, self.constant_fields)

    @property
    def constant_fields(self) -> dict[int, tuple[int, ...]]:
        """By partition spec, the ids of the fields that the column `constants` has values of."""
        return self._table.constant_fields

    def columns(self) -> Iterator[tuple[int, pa.Table, np.ndarray, pa.Table, np.ndarray]]:
        """Yield tables of adjacent groups: the first group's index, splits, their bounds, deletes, and their bounds.

        Group `index + n` has the splits, and the deletes, from the nth bound up to the next.
        """
        start = 0
        while start < len(self):
            rows = self._rows(start)
            yield start, rows.splits, rows.bounds, *rows.deletes.tables()
            start += len(rows.bounds) - 1

    def tasks(self) -> Iterator[FileScanTask]:
        """Yield the tasks of all groups."""
        return (task for group in self for task in group.tasks())

    def merge_groups(self, parallelism: int) -> TaskGroups:
        """Return the groups, with adjacent groups that share equality deletes merged, up to the (adaptive) split size.

        Each group decodes its own deletes. After N commits of upserts, the oldest files have N equality deletes each.
        Packing weighs each split with all of its deletes, so every such file would have its own group.
        """
        references = self._table.references
        if not len(references.first):
            return self
        numbers = renumber_groups(self._references, self._bounds, self._table.deletes, self.sizes["bytes"], parallelism)
        return TaskGroups(self._table, self._splits, np.repeat(numbers, np.diff(self._bounds)))

    def join_splits(self) -> TaskGroups:
        """Return the groups, with adjacent splits of a file in the same group joined to one split.

        A reader then opens the file, and reads its footer, only once.
        """
        file, residual, start, stop = (self._splits[name].to_numpy() for name in ("file", "residual", "start", "stop"))
        group = np.repeat(np.arange(len(self)), np.diff(self._bounds))
        follows = np.zeros(len(file), dtype=bool)
        follows[1:] = (start[1:] == stop[:-1]) & np.all(
            [each[1:] == each[:-1] for each in (file, residual, group)], axis=0
        )
        if not follows.any():
            return self
        firsts = np.flatnonzero(~follows)
        lasts = np.append(firsts[1:], len(file)) - 1
        joined = {
            "file": file[firsts],
            "start": start[firsts],
            "stop": stop[lasts],
            "length": np.add.reduceat(self._splits["length"].to_numpy(), firsts),
            "residual": residual[firsts],
        }
        schema = self._splits.schema
        return TaskGroups(
            self._table, pa.table({name: joined[name] for name in schema.names}, schema=schema), group[firsts]
        )

    @cached_property
    def sizes(self) -> pa.Table:
        """A table with one row per group: `splits` (their number), `bytes` of data, and `delete_bytes`.

        A delete file that splits of a group share is read and counted once. (Packing instead weighs each split with all
        of its deletes, to form the same groups as Iceberg.)
        """
        totals = np.concatenate([[0], np.cumsum(self._splits["length"].to_numpy())])
        data = totals[self._bounds[1:]] - totals[self._bounds[:-1]]
        deletes = GroupDeletes.build(self._references, self._bounds, self._table.deletes).bytes()
        return pa.table({"splits": np.diff(self._bounds), "bytes": data, "delete_bytes": deletes})

    @property
    def _references(self) -> DeleteReferences:
        """The references of each split to its deletes."""
        columns = self._table.files.select(_REFERENCES).take(self._splits["file"])
        return DeleteReferences.read_columns(columns)

    def _rows(self, start: int) -> _Rows:
        """Build the tables of groups from number `start` on, with about `_AT_ONCE` splits, but at least one group."""
        low = int(self._bounds[start])
        stop = max(start + 1, int(np.searchsorted(self._bounds, low + _AT_ONCE, side="right")) - 1)
        splits = self._splits.slice(low, int(self._bounds[stop]) - low)
        bounds = self._bounds[start : stop + 1] - low
        files = self._table.files.select([*_FILE_COLUMNS, "partition", "constants", *_REFERENCES]).take(splits["file"])
        deletes = GroupDeletes.build(DeleteReferences.read_columns(files), bounds, self._table.deletes)
        rows = files.drop_columns(_REFERENCES)
        for name, column in deletes.columns().items():
            rows = rows.append_column(name, column)
        for name in (*_SPLIT_COLUMNS, "length"):
            rows = rows.append_column(name, splits[name])
        return _Rows(start, bounds, rows.combine_chunks(), deletes)


def _write_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _read_stream(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


@dataclass(frozen=True)
class Intervals:
    """Disjoint ranges of rows, from `first` to `stop` (exclusive), in ascending order.

    `owner` has the number of the group that each range belongs to.
    """

    owner: np.ndarray
    first: np.ndarray
    stop: np.ndarray

    @staticmethod
    def unite(owner: np.ndarray, first: np.ndarray, stop: np.ndarray) -> tuple[Intervals, np.ndarray]:
        """Return the union of ranges by owner, and for each range of the input the index of the one that has it."""
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
    """The deletes of groups: position deletes by number, and equality deletes as intervals of a delete table (`table`).

    `numbers` are the rows of position deletes; those of group n begin at `bounds[n]`. The intervals of group n begin at
    `interval_bounds[n]`. A group's delete table has its position deletes first, then the equality deletes of its
    intervals. `local` are the references of all splits to the tables of their groups.
    """

    table: pa.Table
    numbers: np.ndarray
    bounds: np.ndarray
    intervals: Intervals
    interval_bounds: np.ndarray
    local: DeleteReferences

    @staticmethod
    def build(references: DeleteReferences, bounds: np.ndarray, deletes: pa.Table) -> GroupDeletes:
        """Build the deletes of groups from the `references` of splits; the splits of group n begin at `bounds[n]`."""
        groups, count = np.arange(len(bounds)), max(1, deletes.num_rows)
        by_pair, by_range = (
            np.searchsorted(bounds, owner, side="right") - 1 for owner in (references.file, references.range_file)
        )
        pairs, place = np.unique(by_pair * count + references.number, return_inverse=True)
        starts = np.searchsorted(pairs // count, groups)
        intervals, inside = Intervals.unite(by_range, references.first, references.stop)
        lengths = intervals.stop - intervals.first
        before = np.cumsum(lengths) - lengths
        owned = np.searchsorted(intervals.owner, groups)
        # Rows of earlier groups' intervals, and the group's own position deletes, come before.
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
        """Return the columns `deletes` and `equality_deletes` of the splits, as rows of their groups' delete tables."""
        return self.local.columns()

    def group_table(self, number: int) -> pa.Table:
        """Return the delete table of a group, by its number among these groups."""
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
        """Return the delete tables of all groups as one table, and where each group's begins in it."""
        lengths = self.intervals.stop - self.intervals.first
        before = np.cumsum(lengths) - lengths
        inside = np.repeat(self.intervals.first - before, lengths) + np.arange(lengths.sum())
        by_position = np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))
        owner = np.concatenate([by_position, np.repeat(self.intervals.owner, lengths)])
        order = np.argsort(owner, kind="stable")
        rows = np.concatenate([self.numbers, inside])[order]
        return self.table.take(pa.array(rows)), np.searchsorted(owner[order], np.arange(len(self.bounds)))

    def bytes(self) -> np.ndarray:
        """Return the recorded bytes of each group's deletes."""
        sizes = pc.fill_null(self.table["size"], 0).to_numpy()
        totals = np.concatenate([[0], np.cumsum(sizes, dtype=np.float64)])  # sizes can be wrong: no overflow
        count = len(self.bounds) - 1
        owner = np.repeat(np.arange(count), np.diff(self.bounds))
        of_intervals = totals[self.intervals.stop] - totals[self.intervals.first]
        by_position = np.bincount(owner, sizes[self.numbers], count)
        return (by_position + np.bincount(self.intervals.owner, of_intervals, count)).astype(np.int64)


def renumber_groups(
    references: DeleteReferences, bounds: np.ndarray, deletes: pa.Table, data: pa.ChunkedArray, parallelism: int
) -> np.ndarray:
    """Return a new number for each group, the same for adjacent groups that share equality deletes, to merge these.

    A merged group has at most the (adaptive) split size. The deletes of its first member do not count: they must be
    read in any case. `references` are those of the splits; the splits of group n begin at `bounds[n]`. `data` are the
    bytes of data of each group. For each scope, the equality deletes of a group are one range of the delete table.
    """
    sizes = pc.fill_null(deletes["size"], 0).to_numpy()
    totals = np.concatenate([[0], np.cumsum(sizes, dtype=np.float64)])  # sizes can be wrong: no overflow
    weights = data.to_numpy()
    is_used = references.reference_mask(deletes.num_rows)
    is_used[references.number] = False
    limit = adaptive_size(int(weights.sum() + sizes[is_used].sum()), parallelism, TARGET_SIZE)
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
    """Return the range of equality deletes of each group and scope, as four arrays.

    These are the group's number, the scope's number, the first row of the delete table, and the last (exclusive).
    """
    parts = (deletes["scope"], key_texts(deletes), deletes["kept"])
    place_of = np.cumsum(np.any([np.diff(dictionary_codes(each), prepend=-2) != 0 for each in parts], axis=0))
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
