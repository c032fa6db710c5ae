"""What an overwrite is in the place of: files that go, and the rows of them that stay, written anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.executors import PlanningExecutor
from lakescan.expressions.bind import bind
from lakescan.expressions.predicate import TRUE, Predicate
from lakescan.planning.file_table import FileTable, delete_counts
from lakescan.planning.plan import ScanPlan
from lakescan.scan_spec import ScanSpec
from lakescan.transaction.base import Removed, Target
from lakescan.transaction.rewrite import rewritten
from lakescan.write.partition_key import identity, physical
from lakescan.write.table_writes import Key, TableWrites, WrittenFile


@dataclass(frozen=True)
class Replaced:
    """The files that go; some of them have rows that stay, beside those of a filter: `cut` is their plan, by `scan`."""

    table: FileTable
    where: Predicate | None = None
    cut: ScanPlan | None = None
    scan: ScanSpec | None = None

    @property
    def removed(self) -> list[Removed]:
        """The files that go."""
        return as_removed(self.table)

    def is_as(self, other: Replaced) -> bool:
        """Whether the same files go, with the same deletes."""
        return self.table.state() == other.table.state()

    def written_anew(self, target: Target, executor: PlanningExecutor | None) -> list[WrittenFile]:
        """The rows that stay."""
        if self.cut is None or self.scan is None or self.where is None:
            return []
        context = self.scan.read_context(self.cut)
        without = bind(self.where, self.scan.snapshot.schema)
        return rewritten(target.writes.of_moved_rows, self.cut, context, executor, without)


def replaced_by(target: Target, files: Sequence[WrittenFile], where: Predicate | None, *, dynamic: bool) -> Replaced:
    """What new files are in the place of, as the target has it: all, rows of a filter, the partitions of the files."""
    if target.scan.snapshot.id is None:
        return Replaced(FileTable.empty())
    if where is not None:
        return _of_filter(target, where)
    table = target.scan.plan().table
    if dynamic:
        table = table.filter(_of_partitions(table, target.writes, {identity(file.key) for file in files}))
        target.check_removable(delete_counts(table.files), partly=False)
    return Replaced(table)


def _of_filter(target: Target, where: Predicate) -> Replaced:
    """The files that may have rows of a filter; cut are those that have others, too."""
    scan = target.scan.select(*target.writes.of_moved_rows.schema.names).where(where)
    plan = scan.plan()
    is_cut = pa.array([residual != TRUE for residual in plan.residuals], pa.bool_()).take(plan.splits["residual"])
    cut = pc.is_in(pa.array(np.arange(len(plan.table))), value_set=plan.splits["file"].filter(is_cut).combine_chunks())
    some_are_cut = bool(pc.any(cut).as_py())
    target.check_removable(delete_counts(plan.files), partly=some_are_cut)
    if not some_are_cut:
        return Replaced(plan.table)
    whole = replace(scan, ignores_residuals=True)
    return Replaced(plan.table, where, whole.plan_of(plan, cut), whole)


def as_removed(table: FileTable) -> list[Removed]:
    """Files of a file table, to go."""
    names = table.files["partition"].type.names
    shown = zip(table.files["path"].to_pylist(), _keys(table, names), table.files["size"].to_pylist(), strict=True)
    return [Removed(path, dict(zip(names, key, strict=True)), size) for path, key, size in shown]


def _keys(table: FileTable, names: Sequence[str]) -> list[Key]:
    """The values of some partition fields for each file, as keys of written files have them."""
    if not names or not len(table):  # a file table without files has no partition fields either
        return [()] * len(table)
    partition = table.files["partition"].combine_chunks()
    return list(zip(*(physical(pc.struct_field(partition, name)).to_pylist() for name in names), strict=True))


def _of_partitions(table: FileTable, writes: TableWrites, wanted: set[Key]) -> pa.Array:
    """Which files are of some partitions, by `identity`, of the spec of new files; a step a file that may go."""
    rows = zip(table.files["spec_id"].to_pylist(), _keys(table, writes.partition_names), strict=True)
    return pa.array([spec == writes.spec_id and identity(key) in wanted for spec, key in rows], pa.bool_())
