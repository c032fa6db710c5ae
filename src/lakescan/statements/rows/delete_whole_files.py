"""DELETE by a filter: remove files without reading them if all their rows match."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.executors import PlanningExecutor
from lakescan.common.schema import Schema
from lakescan.errors import LakescanError
from lakescan.expressions.predicate import TRUE, Comparison, In, IsNull, Predicate, has_sql, leaves
from lakescan.local.reader import read_batches
from lakescan.planning.delete_files import DeleteKind
from lakescan.planning.file_table import FileTable
from lakescan.planning.plan import ScanPlan
from lakescan.statements.rows.change_writer import ChangeOutcome, SinkResult, find_changed_files
from lakescan.statements.rows.matched_rows import RowPositions
from lakescan.statements.syntax.dml import Delete
from lakescan.statements.syntax.text import tokens
from lakescan.tables.copy_on_write import as_removed_files
from lakescan.tables.results import ChangeResult
from lakescan.tables.scan_spec import ScanSpec, as_predicate

_BATCH_ROWS = 1 << 17  # few columns are read, and SQL conditions are evaluated batch by batch
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

if TYPE_CHECKING:
    from lakescan.statements.rows.execute import Change


@dataclass(frozen=True)
class FilterDelete:
    """A DELETE by a filter on the table's columns.

    - `where`: the filter.
    - `whole`: the files whose rows all match. `rows`: the number of their remaining rows.
    - `scan`, `others`: the scan and the plan of the files that must be read to find matching rows.
    """

    where: Predicate
    whole: FileTable
    rows: int
    scan: ScanSpec
    others: ScanPlan

    def commit(
        self, change: Change, rows: RowPositions, done: ChangeOutcome, found: float | None = None
    ) -> ChangeResult:
        """Commit the DELETE of the whole files, and of the matched `rows` of other files.

        `done` has the changes to the other files. `found` is the time when all rows were found, on the clock
        `time.perf_counter`.
        """
        done.removed += as_removed_files(self.whole)
        done.changed += self.rows
        reads_rows = len(self.others.table) > 0
        return change.commit_finished(SinkResult(rows, []), done, self.where, found, reads_rows=reads_rows)


def plan_filter_delete(change: Change, *, of_sql: bool) -> FilterDelete | None:
    """Plan a DELETE whose condition is a filter on the table's columns; None if a query must find the rows.

    With `of_sql`, the condition must also have the same meaning in SQL, because filters convert constants to the type
    of their column. Returns None too if files must be read and the table records changes (change data feed).
    """
    assert isinstance(change.statement, Delete)
    target, found = change.target, _filter_of(change.statement) if change.given is None else change.given
    if found is None or (of_sql and not _has_sql_meaning(found, target.writes.schema)):
        return None
    try:
        scan = target.scan.where(found)
        plan = scan.plan()
    except LakescanError:
        if change.given is not None:
            raise
        return None  # the query reports the error in terms of the statement
    is_read = pa.array([residual != TRUE for residual in plan.residuals], pa.bool_()).take(plan.splits["residual"])
    read = np.zeros(len(plan.table), dtype=bool)
    read[plan.splits["file"].filter(is_read).to_numpy()] = True
    if change.records_changes and read.any():
        return None
    scan = scan.select_columns(scan.selectable.select(change.places))
    others = scan.plan_table(plan.table.filter(pa.array(read)))
    whole = plan.table.filter(pa.array(~read))
    return FilterDelete(found, whole, _count_live_rows(whole, target.scan, change.places[1]), scan, others)


def delete_by_filter(change: Change, executor: PlanningExecutor | None, *, of_sql: bool) -> ChangeResult | None:
    """Run a DELETE by a filter in this process; None if a query must find the rows. See `plan_filter_delete`."""
    quick = plan_filter_delete(change, of_sql=of_sql)
    if quick is None:
        return None
    found, done = RowPositions(is_unique=False), ChangeOutcome()
    for batch in read_batches([(quick.others, quick.scan.read_context(quick.others, batch_size=_BATCH_ROWS))]):
        found.add(batch.column(0), batch.column(1), np.ones(batch.num_rows, dtype=bool))
    end = time.perf_counter()
    if found.changed:
        pa.default_memory_pool().release_unused()  # free the memory of the search before files are rewritten
        done = change.finishing.finish(*find_changed_files(quick.others.table, found.changed), executor)
    return quick.commit(change, found, done, end)


def _filter_of(statement: Delete) -> Predicate | None:
    """Return the condition of a DELETE as a filter on the table's columns; None if it cannot be one.

    TRUE without a condition.
    """
    if statement.where is None:
        return TRUE
    text, edits = statement.where.text, []
    words = tokens(text)
    if any(each.text.upper() in ("SELECT", "WITH", "VALUES") for each in words):
        return None
    qualifier = statement.target.qualifier.lower()
    for first, dot, name in zip(words, words[1:], words[2:], strict=False):
        if dot.text == "." and first.text.lower() == qualifier and name.token_type.name in ("VAR", "IDENTIFIER"):
            edits.append((first.start, dot.end + 1))
    for start, end in reversed(edits):
        text = text[:start] + text[end:]
    try:
        return as_predicate(text)
    except LakescanError:
        return None


def _has_sql_meaning(found: Predicate, schema: Schema) -> bool:
    """Return whether a filter matches the same rows as SQL in any time zone.

    This is true if it only compares columns with constants of the same type, and tests for null.
    """
    if has_sql(found):
        return False
    for each in leaves(found):
        if isinstance(each, IsNull):
            continue
        try:
            column = schema.field(each.column, case_sensitive=False)
        except LakescanError:  # no such column, or several: the query reports it
            return False
        if column.pad or not isinstance(each, Comparison | In):
            return False
        values = (each.value,) if isinstance(each, Comparison) else each.values
        if not all(_is_plain(value, column.type) for value in values):
            return False
    return True


def _is_plain(value: object, kind: t.Type) -> bool:
    match value:
        case bool():
            return kind == t.BOOLEAN
        case int():
            return kind in t.INTEGRAL
        case str():
            return kind == t.STRING or (kind == t.DATE and _DATE.fullmatch(value) is not None)
        case date():
            return kind == t.DATE and not isinstance(value, datetime)
    return False


def _count_live_rows(files: FileTable, scan: ScanSpec, position: str) -> int:
    """Return the number of remaining rows in files, from metadata, or else by reading the files with their deletes.

    `position` is the name of the metadata column with row positions, which is read.
    """
    rows = _live_rows(files)
    unknown = files.filter(pa.array(rows < 0))
    counted = 0
    if len(unknown):
        positions = scan.select_columns(scan.selectable.select([position]))
        plan = positions.plan_table(unknown)
        counted = sum(batch.num_rows for batch in read_batches([(plan, positions.read_context(plan))]))
    return int(rows[rows >= 0].sum()) + counted


def _live_rows(files: FileTable) -> np.ndarray:
    """Return an array with the number of remaining rows of each file; -1 if metadata is not enough."""
    counts = pc.fill_null(files.files["record_count"], -1).to_numpy().astype(np.int64)
    known = pc.and_(
        pc.equal(files.deletes["kind"], DeleteKind.VECTOR.value), pc.is_valid(files.deletes["record_count"])
    )
    number = pc.if_else(known, files.deletes["record_count"], -1).to_numpy().astype(np.int64)
    unknown = files.references.has_equality | files.references.has(number < 0)
    return np.where(unknown | (counts < 0), -1, counts - files.references.sums(number))
