"""Compaction: the small files of each partition, and files that have deletes, written anew in one commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import CommitConflict
from lakescan.executors import PlanningExecutor
from lakescan.planning.file_table import FileTable, delete_counts
from lakescan.planning.partition_groups import partition_numbers
from lakescan.scan_spec import ScanSpec
from lakescan.transaction.base import WAITS, Saved, Target
from lakescan.transaction.overwritten_files import as_removed
from lakescan.transaction.rewrite import rewritten
from lakescan.transaction.save import saved, undone
from lakescan.write.table_writes import WrittenFile

_LOG = logging.getLogger("lakescan")
_SMALL = 0.75  # of the target size: files below it are worth to be put together


def compact(target: Target, where: str | None = None, executor: PlanningExecutor | None = None) -> Saved:
    """Write the small files of each partition, and all files that have deletes, anew; in one commit.

    `where` says which files, by rows that they may have. Deletion vectors of Delta tables stay, with their files; a
    warning says how many there are.
    """
    writes = target.writes.of_moved_rows
    scan = _all_rows(target, where)
    if scan.snapshot.id is None:
        return Saved(0, 0, 0)
    plan = scan.plan()
    worth_it = _worth_it(plan.files, target.writes.target_size, folds=target.folds_deletes)
    some = scan.plan_of(plan, pa.array(worth_it))
    if not some.files.num_rows:
        return Saved(0, 0, 0)
    target.check_removals(as_removed(some.table))
    files = rewritten(writes, some, scan.read_context(some), executor)
    with undone(target, files):
        _commit_as_planned(target, where, some.table, files)
    return saved(files, len(some.table))


def _all_rows(target: Target, where: str | None) -> ScanSpec:
    """A scan of all rows of files that may have some of a filter, with what is kept when they move."""
    scan = replace(target.scan.select(*target.writes.of_moved_rows.schema.names), ignores_residuals=True)
    return scan if where is None else scan.where(where)


def _commit_as_planned(target: Target, where: str | None, table: FileTable, files: Sequence[WrittenFile]) -> None:
    """Commit files in the place of others, while others commit; raises `CommitConflict` where they changed these."""
    before, conflict = table.state(), None
    for wait in WAITS:
        try:
            return target.rewrite(as_removed(table), files)
        except CommitConflict as error:
            conflict = error
            time.sleep(wait)
            target = target.reopened()
            now = _all_rows(target, where).plan().table.state()
            if {path: now.get(path) for path in before} != before:
                raise CommitConflict(f"{target.name}: another writer changed what was rewritten") from error
    raise conflict or AssertionError


def _worth_it(files: pa.Table, target_size: int, *, folds: bool) -> np.ndarray:
    """Which files are small and not the only small one of their partition, or have deletes, if these are folded."""
    has_deletes = pc.greater(delete_counts(files), 0).to_numpy()
    small = pc.less(files["size"], int(_SMALL * target_size)).to_numpy()
    if not folds and (left := int(has_deletes.sum())):
        _LOG.warning("compaction leaves %d files as they are, which have deletion vectors: deltalake keeps those", left)
    asked = small | has_deletes if folds else small & ~has_deletes
    place = partition_numbers(files)
    counts = np.bincount(place, weights=asked, minlength=len(files))
    worth: np.ndarray = (has_deletes & folds) | (asked & small & (counts[place] > 1))
    return worth
