"""The plan of a scan: the pruned file table with its residuals, splits, task groups and report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.schema import Schema
from lakescan.expressions.predicate import TRUE, Predicate, conjunction, conjuncts
from lakescan.planning.candidates import Candidates
from lakescan.planning.delete_file import DeleteFile, DeleteFiles, DeleteKind
from lakescan.planning.file_table import FileTable, key_texts
from lakescan.planning.pack import LOOKBACK, OPEN_COST, pack, pack_in_order, weights
from lakescan.planning.report import ScanMetrics, ScanReport
from lakescan.planning.residual import MOST_CONJUNCTS, Residuals, residuals
from lakescan.planning.split import TARGET_SIZE, adapted_size, split_files

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


@dataclass(frozen=True)
class PackingOptions:
    """Settings for splitting and packing, sizes in bytes; `split_size` is None if not set, and then adapts.

    With `in_order`, task groups keep the order of the files.
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
        """Return the group number of each split, for groups of this size."""
        return pack_in_order(weight, size) if self.in_order else pack(weight, size, self.lookback)

    def size_for(self, total: int, files: int) -> int:
        """Return the split size in bytes for a scan of `total` bytes in `files` files.

        It adapts to the total, as Iceberg's does. For many small files that would give a task for every four files;
        with `weighs_opening`, the cost of opening files does not raise the number of tasks above the parallelism.
        """
        if self.split_size is not None or not self.adaptive:
            return self.split_size or self.target_size
        if self.weighs_opening:
            weight = total + files * self.open_cost
            if total < self.parallelism * self.target_size < weight:
                return weight // self.parallelism + self.open_cost
            total = weight
        return adapted_size(total, self.parallelism, self.target_size)


class Place(NamedTuple):
    """The scope of equality deletes (a partition; empty for the whole table) and the ids of the fields they compare.

    Matching rows are deleted; with `kept` it is inverted, and only matching rows are returned.
    """

    scope: str
    ids: tuple[int, ...]
    kept: bool = False


_NO_ROWS = pa.nulls(0, pa.int32())


@dataclass(frozen=True, eq=False)
class FileScanTask:
    """A split of one data file to read, with the file's metadata, its deletes and the number of its residual.

    `record_count` is that of the whole file before deletes, as recorded in the metadata; None if not recorded.
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
    key_metadata: bytes | None
    residual: int
    partition: pa.Scalar
    constants: dict[int, pa.Scalar]
    group_deletes: DeleteFiles
    delete_rows: pa.Array
    equality_places: frozenset[Place]

    @cached_property
    def deletes(self) -> tuple[DeleteFile, ...]:
        """The deletes that apply to the file."""
        return self.group_deletes.at(self.delete_rows)

    @cached_property
    def by_position(self) -> tuple[DeleteFile, ...]:
        """The deletes by row position: position deletes and deletion vectors."""
        return self.group_deletes.by_position_at(self.delete_rows)


@dataclass(frozen=True, repr=False)
class TaskGroup:
    """Splits that one reader reads, in order; kept as Arrow tables, which are compact to pickle.

    `splits` has one row per split: the file's columns, the byte range, and the number of the residual. The column
    `deletes` holds row numbers of the table `deletes`.
    """

    index: int
    splits: pa.Table
    deletes: pa.Table
    constant_fields: dict[int, tuple[int, ...]]

    def __repr__(self) -> str:
        return f"TaskGroup({self.index}: {len(self)} splits, {self.deletes.num_rows} deletes)"

    def tasks(self) -> Iterator[FileScanTask]:
        """Yield the group's tasks."""
        constants = self.splits["constants"].combine_chunks()
        lists = self.splits["deletes"].combine_chunks()
        places, place_of = self._places
        deletes = DeleteFiles(self.deletes)
        for row in range(self.splits.num_rows):
            values = {name: self.splits[name][row].as_py() for name in (*_FILE_COLUMNS, *_SPLIT_COLUMNS)}
            referenced = lists[row].values
            delete_rows = _NO_ROWS if referenced is None else referenced
            yield FileScanTask(
                **values,
                partition=self.splits["partition"][row],
                constants={i: constants.field(str(i))[row] for i in self.constant_fields[values["spec_id"]]},
                group_deletes=deletes,
                delete_rows=delete_rows,
                equality_places=frozenset(places[i] for i in np.unique(place_of[delete_rows.to_numpy()]) if i >= 0),
            )

    @cached_property
    def _places(self) -> tuple[list[Place], np.ndarray]:
        """Possible places of the group's equality deletes, and each delete's index among them (-1 for other kinds)."""
        scopes = self.deletes["scope"].combine_chunks().dictionary_encode()
        keys = key_texts(self.deletes).dictionary_encode()
        kept = pc.fill_null(self.deletes["kept"], False).combine_chunks().cast(pa.int32())
        ids = [tuple(map(int, key.split(","))) for key in keys.dictionary.to_pylist()]
        places = [
            Place(scope, each, is_kept)
            for scope in scopes.dictionary.to_pylist()
            for each in ids
            for is_kept in (False, True)
        ]
        place = pc.add(pc.multiply(pc.add(pc.multiply(scopes.indices, len(ids)), keys.indices), 2), kept)
        return places, pc.fill_null(place, -1).to_numpy(zero_copy_only=False)

    def __len__(self) -> int:
        return int(self.splits.num_rows)


class TaskGroups(Sequence[TaskGroup]):
    """The task groups of a plan, each built from the split table when it is accessed."""

    def __init__(self, table: FileTable, splits: pa.Table, group: np.ndarray) -> None:
        self._table = table
        order = np.argsort(group, kind="stable")
        self._splits = splits.take(pa.array(order))
        self._bounds = np.searchsorted(group[order], np.arange(int(group.max(initial=-1)) + 2))

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @overload
    def __getitem__(self, index: int) -> TaskGroup: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[TaskGroup]: ...
    def __getitem__(self, index: int | slice) -> TaskGroup | Sequence[TaskGroup]:
        """Return a group, or a list of groups for a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not 0 <= index < len(self):
            raise IndexError(index)
        low, high = int(self._bounds[index]), int(self._bounds[index + 1])
        splits = self._splits.slice(low, high - low)
        files = self._table.files.take(splits["file"])
        own = FileTable(files, self._table.deletes).used_deletes()
        wanted = own.files.select([*_FILE_COLUMNS, "partition", "constants", "deletes"])
        for name in (*_SPLIT_COLUMNS, "length"):
            wanted = wanted.append_column(name, splits[name])
        return TaskGroup(index, wanted.combine_chunks(), own.deletes.combine_chunks(), self._table.constant_fields)

    def tasks(self) -> Iterator[FileScanTask]:
        """Yield the tasks of all groups."""
        return (task for group in self for task in group.tasks())

    def sharing_deletes(self, parallelism: int) -> TaskGroups:
        """Merge neighbouring groups that share equality deletes, up to the (adaptive) split size.

        Each group decodes its own deletes. After N commits of upserts, the oldest files have N equality deletes each,
        and packing, which weighs each split with all of its deletes, gives every such file its own group.
        """
        owner, deletes = self._owned_deletes
        equality = pc.equal(self._table.deletes["kind"], DeleteKind.EQUALITY).to_numpy()
        if not equality.any():
            return self
        owner, deletes = owner[equality[deletes]], deletes[equality[deletes]]
        weights, data = pc.fill_null(self._table.deletes["size"], 0).to_numpy(), self.sizes["bytes"].to_numpy()
        known = np.zeros(len(weights), dtype=bool)
        known[deletes] = True
        limit = adapted_size(int(data.sum() + weights[known].sum()), parallelism, TARGET_SIZE)
        bounds = np.searchsorted(owner, np.arange(len(self) + 1))
        weight, number, numbers = 0, -1, []
        for group in range(len(self)):
            own = deletes[bounds[group] : bounds[group + 1]]
            new = own[~known[own]]
            weight += int(data[group] + weights[new].sum())
            if number < 0 or len(new) == len(own) or weight > limit:
                known[:] = False
                weight, number = int(data[group] + weights[own].sum()), number + 1
            known[own] = True
            numbers.append(number)
        return TaskGroups(self._table, self._splits, np.repeat(numbers, np.diff(self._bounds)))

    @cached_property
    def sizes(self) -> pa.Table:
        """One row per group: number of splits, bytes of data, bytes of deletes.

        A delete file shared by splits of a group is read once and counted once. (Packing instead weighs each split
        with all of its deletes, to form the same groups as Iceberg.)
        """
        counts = np.diff(self._bounds)
        totals = np.concatenate([[0], np.cumsum(self._splits["length"].to_numpy())])
        data = totals[self._bounds[1:]] - totals[self._bounds[:-1]]
        return pa.table({"splits": counts, "bytes": data, "delete_bytes": self._delete_bytes()})

    def _delete_bytes(self) -> np.ndarray:
        sizes = pc.fill_null(self._table.deletes["size"], 0).to_numpy()
        owner, deletes = self._owned_deletes
        totals = np.bincount(owner, weights=sizes[deletes], minlength=len(self))
        return totals.astype(np.int64)

    @cached_property
    def _owned_deletes(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct pairs of group number and delete row number, as two arrays, ordered by group."""
        group = np.repeat(np.arange(len(self)), np.diff(self._bounds))
        lists = self._table.files["deletes"].take(self._splits["file"]).combine_chunks()
        count = max(1, self._table.deletes.num_rows)
        pairs = np.sort(
            group[pc.list_parent_indices(lists).to_numpy()] * count + lists.flatten().to_numpy(), kind="stable"
        )
        distinct = pairs[np.diff(pairs, prepend=-1) != 0]
        return distinct // count, distinct % count


@dataclass(frozen=True, repr=False)
class ScanPlan:
    """The files, deletes, splits and task groups that a scan will read. Immutable.

    `files`, `deletes` and `splits` are Arrow tables. `schema` is the scan's output schema, `table_schema` the table's,
    `filter` the bound predicate.
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
        """The plan as notebooks show it: its report."""
        return self.report._repr_html_()

    @property
    def files(self) -> pa.Table:
        """The file table: one row per data file to read (see `planning.file_table.FILES`)."""
        return self.table.files

    @property
    def parallelism(self) -> int:
        """Number of readers that the plan can keep busy: one per group, and at most the row limit."""
        return min(len(self.groups), len(self.groups) if self.limit is None else self.limit)

    @property
    def column_stats(self) -> pa.Table:
        """Column statistics, one row per file: of the filter's columns, and of those that the scan was told to keep.

        Each column is a struct of `lower`, `upper`, `null_count`, `nan_count` and `value_count`; null is unknown.
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
    """Compute residuals, apply the limit, split and pack. `describe` has the report's table, snapshot and schema.

    With `ignore_residuals`, the filter only prunes files and is not applied to rows; with `conditions`, that is so for
    all but the first so many of its conjuncts.
    """
    kept = candidates.table
    tested, needed = _first(predicate, conditions, candidates.needed)
    remaining = residuals(TRUE, 0 * needed) if ignore_residuals else residuals(tested, needed)
    final = kept.head(_within_limit(kept, remaining, limit)).used_deletes()
    metrics.count_result(final)
    skipped = candidates.skipped_by_partition + candidates.skipped_by_stats
    metrics.skipped_data_files = skipped + len(kept) - len(final)

    size = packing.size_for(metrics.total_file_size_in_bytes + metrics.total_delete_file_size_in_bytes, len(final))
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


def _first(predicate: Predicate, conditions: int | None, needed: np.ndarray) -> tuple[Predicate, np.ndarray]:
    """The first so many conjuncts of a predicate (all for None), and the bits of those that each file needs."""
    parts = conjuncts(predicate)
    if conditions is None or conditions == len(parts):
        return predicate, needed
    return conjunction(parts[:conditions]), needed & ((1 << min(conditions, MOST_CONJUNCTS)) - 1)


def _within_limit(table: FileTable, remaining: Residuals, limit: int | None) -> int:
    """Return how many files suffice for `limit` rows: all of them, if any file has deletes or a residual."""
    exact = pc.all(pc.equal(pc.fill_null(pc.list_value_length(table.files["deletes"]), 0), 0)).as_py()
    if limit is None or not exact or remaining.predicates not in ((TRUE,), ()):
        return len(table)
    counts = pc.cumulative_sum(pc.fill_null(table.files["record_count"], 0)).to_numpy()
    return min(len(table), int(np.searchsorted(counts, limit)) + 1) if limit else 0


def _records(table: FileTable) -> int | None:
    counts = table.files["record_count"]
    return None if counts.null_count else int(pc.sum(counts).as_py() or 0)
