"""Compaction: rewrite the files of each partition that are small, or have deletes, and sort their rows if asked to."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.executors import PlanningExecutor
from lakescan.common.retries import Attempts
from lakescan.errors import CommitConflict
from lakescan.maintenance.arrangement import Arrangement
from lakescan.maintenance.file_groups import Thresholds
from lakescan.maintenance.sorted_files import rewrite_sorted
from lakescan.maintenance.unused_deletes import unused_deletes
from lakescan.options.compact import CompactOptions
from lakescan.planning.file_table import FileTable
from lakescan.planning.plan import ScanPlan
from lakescan.tables.base import Rewriting, Target
from lakescan.tables.overwritten_files import as_removed
from lakescan.tables.results import CompactResult
from lakescan.tables.rewrite import rewrite_rows
from lakescan.tables.save import removed_on_failure, saved
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.table_writes import WrittenFile

_LOG = logging.getLogger("lakescan")


def compact(
    target: Target,
    where: str | None = None,
    executor: PlanningExecutor | None = None,
    options: CompactOptions | None = None,
) -> CompactResult:
    """Rewrite files that are beyond the limits of the options: in one commit, or in several with partial progress.

    `where` limits the compaction to files that may have matching rows. Rows keep their ids where the table tracks them.
    Raises `CommitConflict` if another writer changed the files; with partial progress, if this happened to all commits.
    """
    options = options or CompactOptions()
    target.check_rewritable()
    thresholds = Thresholds.of(options, target.writes.target_size)
    scan = _all_rows(target, where)
    if scan.snapshot.id is None:
        return CompactResult(0, 0, 0)
    arrangement = Arrangement.of(options, target.writes, target.name)
    plan = scan.plan()
    groups = thresholds.groups(plan.table)
    work = _Compaction(target, where, scan, plan, groups, arrangement, executor, options)
    done, conflicts = CompactResult(0, 0, 0), []
    for chosen in _commits(groups, options):
        try:
            done = _added(done, work.rewrite(chosen))
        except CommitConflict as error:
            if not options.partial_progress_enabled:
                raise
            conflicts.append(error)
            _LOG.warning("compact: %s", error)
            done = replace(done, failed_files=done.failed_files + int(chosen.sum()))
    if conflicts and not done.removed_files:
        raise conflicts[0]
    if options.remove_dangling_deletes and not done.removed_files:
        work.remove_dangling()
    return done


def _commits(groups: np.ndarray, options: CompactOptions) -> Iterator[np.ndarray]:
    """Masks of the files that are rewritten in each commit."""
    numbers = np.unique(groups[groups >= 0])
    most = options.partial_progress_max_commits if options.partial_progress_enabled else 1
    for some in np.array_split(numbers, min(most, max(len(numbers), 1))):
        if len(some):
            yield np.isin(groups, some)


@dataclass
class _Compaction:
    """One compaction: all of its commits rewrite files of one plan, of the state in which the target was opened."""

    target: Target
    where: str | None
    scan: ScanSpec
    plan: ScanPlan
    groups: np.ndarray  # the group number of each file
    arrangement: Arrangement | None
    executor: PlanningExecutor | None
    options: CompactOptions
    _gone: list[str] = field(default_factory=list)  # files that earlier commits have rewritten

    def rewrite(self, chosen: np.ndarray) -> CompactResult:
        """Rewrite files in one commit."""
        some = self.scan.plan_of(self.plan, pa.array(chosen))
        zorder_by = () if self.arrangement is None else self.arrangement.zorder_by
        how = Rewriting(self._unused(some.table), self.options.use_starting_sequence_number, zorder_by)
        files = self._write(some, self.groups[chosen])
        with removed_on_failure(self.target, files):
            _commit_as_planned(self.target, self.where, some.table, files, how)
        self._gone += some.table.files["path"].to_pylist()
        new = saved(files)
        removed_bytes = pc.sum(some.files["size"]).as_py()
        note = self.target.writes.note if files else ""
        return CompactResult(new.files, new.rows, new.bytes, len(some.table), removed_bytes, note=note)

    def remove_dangling(self) -> None:
        """Remove deletes that apply to no file, in a commit of their own."""
        if unused := self._unused(FileTable.empty()):
            self.target.rewrite((), (), Rewriting(unused))

    def _write(self, plan: ScanPlan, groups: np.ndarray) -> list[WrittenFile]:
        writes = self.target.writes.of_moved_rows
        if self.arrangement is None:
            return rewrite_rows(writes, plan, self.scan.read_context(plan), self.executor)
        return rewrite_sorted(writes, self.scan, plan, groups, self.arrangement, self.executor)

    def _unused(self, table: FileTable) -> list[tuple[str, int | None]]:
        """The delete files that no file needs once those of the table are rewritten."""
        everything = self.options.remove_dangling_deletes
        if not everything and not table.used_deletes().deletes.num_rows:
            return []
        whole = self.target.scan.file_table() if everything or self.where is not None else self.plan.table
        gone = pa.array([*self._gone, *table.files["path"].to_pylist()], pa.string())
        return unused_deletes(whole, pc.is_in(whole.files["path"], value_set=gone).to_numpy(), everything=everything)


def _added(one: CompactResult, other: CompactResult) -> CompactResult:
    return CompactResult(
        one.files + other.files,
        one.rows + other.rows,
        one.bytes + other.bytes,
        one.removed_files + other.removed_files,
        one.removed_bytes + other.removed_bytes,
        one.failed_files + other.failed_files,
        note=one.note or other.note,
    )


def _all_rows(target: Target, where: str | None) -> ScanSpec:
    """A scan of all rows of the files that may match a filter, with the metadata columns that a rewrite keeps."""
    scan = replace(target.scan.select_columns(target.writes.of_moved_rows.schema), ignores_residuals=True)
    return scan if where is None else scan.where(where)


def _commit_as_planned(
    target: Target, where: str | None, table: FileTable, files: Sequence[WrittenFile], how: Rewriting
) -> None:
    """Commit the rewrite of `table`, and retry after concurrent commits, unless the target does so itself.

    Raises `CommitConflict` if one of them changed the rewritten files or their deletes.
    """
    before, attempts = table.state(), Attempts(target.retries)
    while True:
        try:
            return target.rewrite(as_removed(table), files, how)
        except CommitConflict as error:
            if not target.retries_overwrites:
                raise
            attempts.again(target.name, error)
            target = target.reopened()
            now = _all_rows(target, where).plan().table.state()
            if {path: now.get(path) for path in before} != before:
                raise CommitConflict(f"{target.name}: another writer changed files that were compacted") from error
