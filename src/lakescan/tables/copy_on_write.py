"""The files that an overwrite replaces. In partly matching files, the other rows are rewritten (copy-on-write)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.common.arrays import struct_member
from lakescan.common.executors import LOCAL, PlanningExecutor
from lakescan.common.metadata_columns import CHANGE_TYPE
from lakescan.errors import CorruptData
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import column_getter, matching_rows
from lakescan.expressions.predicate import TRUE, Predicate
from lakescan.planning.file_table import FileTable
from lakescan.planning.plan import ScanPlan, groups_by_partition
from lakescan.planning.task_groups import TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.reading.deletes.equality_deletes import EqualityDeletes
from lakescan.reading.reader import read_group
from lakescan.tables.base import ChangeFiles, Target
from lakescan.tables.capabilities import Overwrites, require
from lakescan.tables.row_changes import RemovedFile
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.parquet_writer import GROUP_ROWS, PartitionedWriter, new_write_id, remove_written, write_rows
from lakescan.writing.partition_key import exact_key, physical_values
from lakescan.writing.table_writes import Key, TableWrites, WrittenFile


@dataclass(frozen=True)
class ReplacedFiles:
    """The files that an overwrite replaces (`table`).

    `cut` is a plan of those that match `where` only partly, or None. Their other rows are written again, and read with
    `scan`.
    """

    table: FileTable
    where: Predicate | None = None
    cut: ScanPlan | None = None
    scan: ScanSpec | None = None

    @property
    def files_to_remove(self) -> list[RemovedFile]:
        """The replaced files as `RemovedFile`s, in the order of `table`."""
        return as_removed_files(self.table)

    def has_same_files(self, other: ReplacedFiles) -> bool:
        """Return whether both replace the same files, with the same deletes."""
        return self.table.state() == other.table.state()

    def rewrite_kept_rows(self, target: Target, executor: PlanningExecutor | None) -> list[WrittenFile]:
        """Write the rows of partly matching files that do not match `where` to new files; return these files."""
        if self.cut is None or self.scan is None or self.where is None:
            return []
        context = self.scan.read_context(self.cut)
        without = bind(self.where, self.scan.snapshot.schema)
        return rewrite_rows(target.writes.lineage_writes, self.cut, context, executor, without=without)

    def write_changes(
        self, target: Target, changes: ChangeFiles, new: Sequence[WrittenFile], executor: PlanningExecutor | None
    ) -> Iterator[list[WrittenFile]]:
        """Write the change files of the removed rows, then those of the rows in the `new` files; yield each as a list.

        Requires `cut`. `changes` are the settings of the table's change files.
        """
        assert self.where is not None
        rows = target.scan.select_columns(target.writes.schema)
        parts = (rows.where(self.where), self.table, "delete"), (rows, changes.as_table(new), "insert")
        for scan, table, kind in parts:
            plan = scan.plan_table(table)
            yield rewrite_rows(changes.writes, plan, scan.read_context(plan), executor, change=kind)


def files_to_replace(
    target: Target, files: Sequence[WrittenFile], where: Predicate | None, *, dynamic: bool
) -> ReplacedFiles:
    """Return the files of the target that `files` replace.

    With `where`, these are files that may have matching rows; with `dynamic`, files in the partitions of `files`; else
    all.
    """
    if target.scan.snapshot.id is None:
        return ReplacedFiles(FileTable.empty())
    if where is not None:
        return _find_matching_files(target, where)
    table = target.scan.plan().table
    if dynamic:
        table = table.filter(_partition_mask(table, target.writes, {exact_key(file.key) for file in files}))
        require(target, Overwrites).check_removable()
    return ReplacedFiles(table)


def _find_matching_files(target: Target, where: Predicate) -> ReplacedFiles:
    """Return the files that may have rows that match `where`, with `cut` for those that may have other rows, too."""
    scan = target.scan.where(where)
    plan = scan.plan()
    is_cut = pa.array([residual != TRUE for residual in plan.residuals], pa.bool_()).take(plan.splits["residual"])
    cut = pc.is_in(pa.array(np.arange(len(plan.table))), value_set=plan.splits["file"].filter(is_cut).combine_chunks())
    require(target, Overwrites).check_removable()
    if not pc.any(cut).as_py():
        return ReplacedFiles(plan.table)
    whole = replace(scan.select_columns(target.writes.lineage_writes.schema), ignores_residuals=True)
    return ReplacedFiles(plan.table, where, whole.plan_of(plan, cut), whole)


def as_removed_files(table: FileTable) -> list[RemovedFile]:
    """Return the files of a file table as `RemovedFile`s."""
    names = table.files["partition"].type.names
    rows = zip(
        table.files["path"].to_pylist(), _partition_keys(table, names), table.files["size"].to_pylist(), strict=True
    )
    return [RemovedFile(path, dict(zip(names, key, strict=True)), size) for path, key, size in rows]


def _partition_keys(table: FileTable, names: Sequence[str]) -> list[Key]:
    """Return for each file a tuple of the values of the partition fields `names`, in the form of `WrittenFile.key`."""
    if not names or not len(table):  # an empty file table has no partition fields
        return [()] * len(table)
    partition = table.files["partition"].combine_chunks()
    return list(zip(*(physical_values(struct_member(partition, name)).to_pylist() for name in names), strict=True))


def _partition_mask(table: FileTable, writes: TableWrites, wanted: set[Key]) -> pa.Array:
    """Return a mask of the files whose partition (in the spec of new files) is in `wanted`, a set of `exact_key`s.

    Loops over all files of the table in Python.
    """
    rows = zip(table.files["spec_id"].to_pylist(), _partition_keys(table, writes.partition_names), strict=True)
    return pa.array([spec == writes.spec_id and exact_key(key) in wanted for spec, key in rows], pa.bool_())


_SHARED_ROWS = 1 << 18  # rows of a row group if threads share the work


@dataclass(frozen=True)
class _Rewrite:
    """A worker task of `rewrite_rows`: writes the rows of a task group to data files.

    `without` is a bound filter of rows to leave out, `change` the change type of all rows in change files, and
    `equality` the equality deletes of the whole plan, if they are shared.
    """

    writes: TableWrites
    context: ReadContext
    write_id: str
    without: Predicate | None
    change: str | None
    equality: EqualityDeletes | None = None
    group_rows: int = GROUP_ROWS

    def __call__(self, group: TaskGroup) -> list[WrittenFile]:
        return write_rows(self.writes, self._rows(group), self.write_id, self.group_rows)

    def _rows(self, group: TaskGroup) -> Iterator[pa.RecordBatch]:
        schema = self.context.table_schema
        for batch in read_group(group, self.context, self.equality):
            if self.without is not None:
                hit = matching_rows(self.without, column_getter(batch, schema), batch.num_rows)
                batch = batch.filter(pc.invert(hit))
            if self.change is not None:
                batch = batch.append_column(CHANGE_TYPE.name, pa.repeat(self.change, batch.num_rows))
            yield batch


def rewrite_rows(
    writes: TableWrites,
    plan: ScanPlan,
    context: ReadContext,
    executor: PlanningExecutor | None,
    *,
    without: Predicate | None = None,
    change: str | None = None,
    least_size: int | None = None,
) -> list[WrittenFile]:
    """Write the rows of a plan to new files, except rows that match the bound filter `without`.

    The first columns of the plan must be all columns of the table. With `change`, the files are change files, and all
    rows have this change type. Without an executor, threads write; an executor may run in other processes. With
    `least_size` (bytes), files may be smaller than the target size, down to this size, to keep all threads busy. On
    failure, all new files are removed.
    """
    if not len(plan.table):
        return []
    size = writes.target_size
    if least_size is not None:
        share = (pc.sum(plan.splits["length"]).as_py() or 0) // (os.cpu_count() or 1)
        size = min(size, max(least_size, share))
    groups, write_id = groups_by_partition(plan, size), new_write_id()
    local_deletes = EqualityDeletes(context, plan.deletes, groups.tasks) if executor is None else None
    # Each thread of this process holds a row group in memory: smaller ones need less.
    group_rows = _SHARED_ROWS if executor is None and least_size is not None else GROUP_ROWS
    work = _Rewrite(writes, context, write_id, without, change, local_deletes, group_rows)
    try:
        return [file for files in (executor or LOCAL).map(work, groups) for file in files]
    except BaseException:
        remove_written(writes, write_id)
        raise


_SMALL, _FEW = 16 << 20, 1 << 20  # the most bytes and rows of the files that a statement joins


def join_small_files(writes: TableWrites, files: Sequence[WrittenFile]) -> list[WrittenFile]:
    """Write small uncommitted files of the same partition again, as one file for each partition, and remove them.

    A statement writes new rows and the kept rows of a file in different steps, so that each change of a small table
    would double its files. One process joins them, so all files stay if they have more than 16 MB or a million rows
    together. Files of tables with encryption or identity columns stay, as their details cannot be joined, and so do
    files that do not have exactly the columns of the table. On failure, all files are as before.
    """
    groups: dict[Key, list[WrittenFile]] = {}
    for each in files:
        groups.setdefault(exact_key(each.key), []).append(each)
    joined = [each for each in groups.values() if len(each) > 1 and sum(one.size for one in each) <= writes.target_size]
    old = [each for group in joined for each in group]
    is_large = sum(each.size for each in old) > _SMALL or sum(each.rows for each in old) > _FEW
    if not old or is_large or writes.rules.identities or writes.new_key() is not None:
        return list(files)
    required, known = (
        {field.name for _, field in each.file_columns()} for each in (writes, writes.lineage_writes)
    )  # only ids of rows may be missing: null stands for a new one
    writer = PartitionedWriter(writes.lineage_writes, new_write_id())
    try:
        for each in old:
            with writes.storage.open(each.location) as source:
                file = pq.ParquetFile(source)
                if not required <= set(file.schema_arrow.names) <= known:
                    writer.undo()
                    return list(files)
                for batch in file.iter_batches():
                    writer.write_stored(each.key, batch)
        new = writer.close()
        if sum(each.rows for each in new) != sum(each.rows for each in old):
            raise CorruptData(f"the files that a statement wrote to {writes.data_folder} have lost rows since")
    except BaseException:
        writer.undo()
        raise
    gone = {each.location for each in old}
    writes.storage.remove(sorted(gone))
    return [*(each for each in files if each.location not in gone), *new]
