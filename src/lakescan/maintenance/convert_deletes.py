"""Convert equality deletes to position deletes, which readers apply without comparing keys.

Workers read the keys of the files that equality deletes apply to, and find the deleted rows. One commit adds position
deletes for these rows and removes the equality deletes, so the table has the same rows as before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakescan.common.executors import LOCAL, PlanningExecutor
from lakescan.expressions.evaluate import column_getter
from lakescan.planning.plan import ScanPlan
from lakescan.planning.task_groups import FileScanTask, TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import row_batches
from lakescan.reading.deletes.deletion_vectors import bitmap_of
from lakescan.reading.deletes.equality_deletes import EqualityDeletes, compared_columns
from lakescan.tables.base import Target
from lakescan.tables.capabilities import EqualityDeleteConversion, RowLevelChanges, require
from lakescan.tables.commit_files import remove_on_failure
from lakescan.tables.results import ConvertResult
from lakescan.writing.parquet_writer import new_write_id
from lakescan.writing.table_writes import WrittenFile


@dataclass(frozen=True)
class _DeletedRowFinder:
    """A worker task: finds the rows of a task group that equality deletes delete.

    Returns the row positions by data file, as serialized bitmaps. `equality` are the deletes of the whole plan; None to
    read those of the group.
    """

    context: ReadContext
    equality: EqualityDeletes | None = None

    def __call__(self, group: TaskGroup) -> dict[str, bytes]:
        found: dict[str, BitMap64] = {}
        equality = self.equality or EqualityDeletes(self.context, group.deletes, group.tasks)
        for task in group.tasks():
            ids = tuple(sorted(EqualityDeletes.columns_of(task)))
            if not ids:
                continue
            schema = compared_columns(self.context, ids)
            for first, batch in row_batches(task, self.context, schema):
                hits = equality.hits(task, first, column_getter(batch, schema), batch.num_rows)
                if hits is not None and hits.any():
                    found.setdefault(task.path, BitMap64()).update(bitmap_of(np.flatnonzero(hits) + first))
        return {path: rows.serialize() for path, rows in found.items()}


def convert_equality_deletes(target: Target, executor: PlanningExecutor | None = None) -> ConvertResult:
    """Replace the equality deletes of a table by position deletes; see `Table.convert_equality_deletes`."""
    converted = require(target, EqualityDeleteConversion)
    gone = converted.equality_deletes()
    if not gone:
        return ConvertResult()
    writer, scan = require(target, RowLevelChanges).delete_writer(new_write_id()), target.scan
    plan = scan.plan()
    some = scan.plan_of(plan, pa.array(plan.table.references.has_equality))
    found = _find_deleted_rows(some, scan.read_context(some), executor)
    paths = pa.array(list(found), pa.string())
    files = some.table.take(
        pc.index_in(paths, value_set=some.table.files["path"].combine_chunks())
    ).drop_unused_deletes()
    deletes = writer.write(files, list(found.values())) if len(files) else ()
    written = {each.location: WrittenFile(each.location, (), each.rows, 0) for each in deletes}
    with remove_on_failure(target, list(written.values())):
        converted.replace_equality(deletes, gone)
    return ConvertResult(len(gone), len(deletes), sum(each.rows for each in deletes))


def _find_deleted_rows(plan: ScanPlan, context: ReadContext, executor: PlanningExecutor | None) -> dict[str, BitMap64]:
    """Return the positions of the rows that equality deletes delete, by data file."""
    shared = EqualityDeletes(context, plan.deletes, lambda: _scan_tasks(plan)) if executor is None else None
    found: dict[str, BitMap64] = {}
    for some in (executor or LOCAL).map(_DeletedRowFinder(context, shared), plan.groups):
        for path, rows in some.items():
            found.setdefault(path, BitMap64()).update(BitMap64.deserialize(rows))
    return found


def _scan_tasks(plan: ScanPlan) -> Iterator[FileScanTask]:
    for group in plan.groups:
        yield from group.tasks()
