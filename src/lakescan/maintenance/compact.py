"""Compaction: rewrite the small files of each partition, and files that have deletes, in one commit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.retries import Attempts
from lakescan.errors import CommitConflict
from lakescan.executors import PlanningExecutor
from lakescan.planning.file_table import FileTable, delete_counts
from lakescan.planning.partition_groups import partition_numbers
from lakescan.scan_spec import ScanSpec
from lakescan.transaction.base import Target
from lakescan.transaction.overwritten_files import as_removed
from lakescan.transaction.results import CompactResult
from lakescan.transaction.rewrite import rewrite_rows
from lakescan.transaction.save import removed_on_failure, saved
from lakescan.write.table_writes import WrittenFile

_LOG = logging.getLogger("lakescan")
_SMALL = 0.75  # of the target file size: smaller files are merged


def compact(target: Target, where: str | None = None, executor: PlanningExecutor | None = None) -> CompactResult:
    """Rewrite the small files of each partition, and all files that have deletes, in one commit.

    `where` limits the compaction to files that may have matching rows. Rows keep their ids where the table tracks them.
    Raises `CommitConflict` if another writer changed the files.
    """
    writes = target.writes.of_moved_rows
    scan = _all_rows(target, where)
    if scan.snapshot.id is None:
        return CompactResult(0, 0, 0)
    plan = scan.plan()
    selected = _files_to_compact(plan.files, target.writes.target_size)
    some = scan.plan_of(plan, pa.array(selected))
    if not some.files.num_rows:
        return CompactResult(0, 0, 0)
    files = rewrite_rows(writes, some, scan.read_context(some), executor)
    with removed_on_failure(target, files):
        _commit_as_planned(target, where, some.table, files)
    new = saved(files)
    removed_bytes = pc.sum(some.files["size"]).as_py()
    return CompactResult(new.files, new.rows, new.bytes, len(some.table), removed_bytes)


def _all_rows(target: Target, where: str | None) -> ScanSpec:
    """A scan of all rows of the files that may match a filter, with the metadata columns that a rewrite keeps."""
    scan = replace(target.scan.select_columns(target.writes.of_moved_rows.schema), ignores_residuals=True)
    return scan if where is None else scan.where(where)


def _commit_as_planned(target: Target, where: str | None, table: FileTable, files: Sequence[WrittenFile]) -> None:
    """Commit the rewrite of `table`, and retry after concurrent commits, unless the target does so itself.

    Raises `CommitConflict` if one of them changed the rewritten files or their deletes.
    """
    before, attempts = table.state(), Attempts(target.retries)
    while True:
        try:
            return target.rewrite(as_removed(table), files)
        except CommitConflict as error:
            if not target.retries_overwrites:
                raise
            attempts.again(target.name, error)
            target = target.reopened()
            now = _all_rows(target, where).plan().table.state()
            if {path: now.get(path) for path in before} != before:
                raise CommitConflict(f"{target.name}: another writer changed files that were compacted") from error


def _files_to_compact(files: pa.Table, target_size: int) -> np.ndarray:
    """A mask of the files to compact: small files, unless a partition has only one, and all files with deletes."""
    has_deletes = pc.greater(delete_counts(files), 0).to_numpy()
    small = pc.less(files["size"], int(_SMALL * target_size)).to_numpy()
    partition = partition_numbers(files)
    counts = np.bincount(partition, weights=small | has_deletes, minlength=len(files))
    selected: np.ndarray = has_deletes | (small & (counts[partition] > 1))
    return selected
