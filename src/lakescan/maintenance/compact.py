"""Compaction: rewrite the files of each partition that are small or have deletes, optionally sorted."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.executors import ExchangingExecutor, PlanningExecutor
from lakescan.common.retries import Attempts
from lakescan.errors import CommitConflict, InvalidOption
from lakescan.maintenance.external_sort import sort_by_exchange, sorted_rows
from lakescan.maintenance.zorder import CompactionOrder
from lakescan.options.compact import CompactOptions
from lakescan.options.write import WriteOptions
from lakescan.planning.bin_packing import pack_in_order
from lakescan.planning.delete_files import DeleteKind
from lakescan.planning.file_table import FileTable
from lakescan.planning.plan import ScanPlan, partition_numbers
from lakescan.planning.task_groups import TaskGroup, TaskGroups
from lakescan.reading.context import ReadContext
from lakescan.reading.reader import read_group
from lakescan.tables.base import RewriteSettings, Target
from lakescan.tables.capabilities import Rewrites, require
from lakescan.tables.commit_files import remove_on_failure, write_result
from lakescan.tables.copy_on_write import as_removed_files, rewrite_rows
from lakescan.tables.results import CompactResult
from lakescan.tables.scan_spec import ScanSpec
from lakescan.writing.parquet_writer import new_write_id, remove_written, write_rows
from lakescan.writing.table_writes import TableWrites, WrittenFile

_LOG = logging.getLogger("lakescan")


def compact(
    target: Target,
    where: str | None = None,
    executor: PlanningExecutor | None = None,
    options: CompactOptions | None = None,
) -> CompactResult:
    """Rewrite the files that the options select, in one commit, or in several with partial progress.

    `where` limits the compaction to files that may have matching rows. Rows keep their row ids if the table tracks
    them. Raises `CommitConflict` if a concurrent commit changed the files; with partial progress, only if all commits
    failed.
    """
    options = options or CompactOptions()
    require(target, Rewrites).check_rewritable()
    thresholds = Thresholds.resolve(options, target.writes.target_size)
    scan = _all_rows(target, where)
    if scan.snapshot.id is None:
        return CompactResult(0, 0, 0)
    arrangement = CompactionOrder.resolve(options, target.writes, target.name)
    plan = scan.plan()
    groups = thresholds.groups(plan.table)
    work = _Compaction(target, where, scan, plan, groups, arrangement, executor, options)
    done, conflicts = CompactResult(0, 0, 0), []
    for chosen in _split_commits(groups, options):
        try:
            done = _add_results(done, work.rewrite(chosen))
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


def _split_commits(groups: np.ndarray, options: CompactOptions) -> Iterator[np.ndarray]:
    """Yield a mask of the files to rewrite in each commit.

    `groups` has the group number of each file, -1 for a file that is not rewritten.
    """
    numbers = np.unique(groups[groups >= 0])
    most = options.partial_progress_max_commits if options.partial_progress_enabled else 1
    for some in np.array_split(numbers, min(most, max(len(numbers), 1))):
        if len(some):
            yield np.isin(groups, some)


@dataclass
class _Compaction:
    """One compaction, whose commits all rewrite files of one plan, made for the state that was opened.

    - `groups`: the group number of each file of the plan.
    - `arrangement`: the row order of new files; None to keep that of the old ones.
    """

    target: Target
    where: str | None
    scan: ScanSpec
    plan: ScanPlan
    groups: np.ndarray  # the group number of each file
    arrangement: CompactionOrder | None
    executor: PlanningExecutor | None
    options: CompactOptions
    _gone: list[str] = field(default_factory=list)  # paths of files that earlier commits have rewritten

    def rewrite(self, chosen: np.ndarray) -> CompactResult:
        """Rewrite the files that the mask `chosen` selects in one commit; raises `CommitConflict`."""
        some = self.scan.plan_of(self.plan, pa.array(chosen))
        zorder_by = () if self.arrangement is None else self.arrangement.zorder_by
        how = RewriteSettings(
            self._find_unused_deletes(some.table),
            self.options.use_starting_sequence_number,
            zorder_by=zorder_by,
            where=self.where,
            purges=self.options.purge,
            is_full=bool(self.options.rewrite_all),
        )
        files = self._write(some, self.groups[chosen])
        with remove_on_failure(self.target, files):
            _commit_as_planned(self.target, self.where, some.table, files, how)
        self._gone += some.table.files["path"].to_pylist()
        new = write_result(files)
        removed_bytes = pc.sum(some.files["size"]).as_py()
        note = self.target.writes.note if files else ""
        return CompactResult(new.files, new.rows, new.bytes, len(some.table), removed_bytes, note=note)

    def remove_dangling(self) -> None:
        """Remove delete files that apply to no data file, in a separate commit."""
        if unused := self._find_unused_deletes(FileTable.empty()):
            require(self.target, Rewrites).rewrite((), (), RewriteSettings(unused))

    def _write(self, plan: ScanPlan, groups: np.ndarray) -> list[WrittenFile]:
        writes = self.target.writes.lineage_writes
        if self.arrangement is None:
            return rewrite_rows(writes, plan, self.scan.read_context(plan), self.executor)
        return rewrite_sorted(writes, self.scan, plan, groups, self.arrangement, self.executor)

    def _find_unused_deletes(self, table: FileTable) -> list[tuple[str, int | None]]:
        """Return path and offset of the delete files that no file needs once the files of `table` are rewritten."""
        everything = self.options.remove_dangling_deletes
        if not everything and not table.drop_unused_deletes().deletes.num_rows:
            return []
        whole = self.target.scan.file_table() if everything or self.where is not None else self.plan.table
        gone = pa.array([*self._gone, *table.files["path"].to_pylist()], pa.string())
        return unused_deletes(whole, pc.is_in(whole.files["path"], value_set=gone).to_numpy(), everything=everything)


def _add_results(one: CompactResult, other: CompactResult) -> CompactResult:
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
    """Return a scan of all rows of files that may match a filter, with the metadata columns that a rewrite keeps."""
    scan = replace(target.scan.select_columns(target.writes.lineage_writes.schema), ignores_residuals=True)
    return scan if where is None else scan.where(where)


def _commit_as_planned(
    target: Target, where: str | None, table: FileTable, files: Sequence[WrittenFile], how: RewriteSettings
) -> None:
    """Commit `files` as the rewrite of the files in `table`; retry after concurrent commits unless the target does so.

    Raises `CommitConflict` if a concurrent commit changed the rewritten files or their deletes.
    """
    before, attempts = table.state(), Attempts(target.retries)
    while True:
        try:
            return require(target, Rewrites).rewrite(as_removed_files(table), files, how)
        except CommitConflict as error:
            if not target.retries_overwrites:
                raise
            attempts.wait_or_raise(target.name, error)
            target = target.reopen()
            now = _all_rows(target, where).plan().table.state()
            if {path: now.get(path) for path in before} != before:
                raise CommitConflict(f"{target.name}: another writer changed files that were compacted") from error


def unused_deletes(table: FileTable, gone: np.ndarray, *, everything: bool = False) -> list[tuple[str, int | None]]:
    """Return path and offset of delete files that only apply to files in `gone`.

    `table` has all data files of a state with their deletes. Data files that are added later cannot need the deletes:
    position deletes name existing files, and rewritten files keep a sequence number that is not older than the equality
    deletes. Deletion vectors are left out, since they are removed with their data file. With `everything`, deletes that
    already apply to no file are included.
    """
    count, uses = table.deletes.num_rows, table.references
    needed, used = uses.where(~gone).reference_mask(count), uses.reference_mask(count)
    is_vector = pc.equal(table.deletes["kind"], DeleteKind.VECTOR).to_numpy(zero_copy_only=False)
    unused = used & ~needed & ~is_vector
    if everything:
        unused |= ~used
    found = table.deletes.filter(pa.array(unused))
    named = dict.fromkeys(zip(found["path"].to_pylist(), found["offset"].to_pylist(), strict=True))
    return [(path, offset) for path, offset in named if path is not None]


@dataclass(frozen=True)
class _SortGroup:
    """A worker task: writes the rows of a file group, sorted. `of_keys` reads only the columns that are sorted by."""

    writes: TableWrites
    arrangement: CompactionOrder
    context: ReadContext
    of_keys: ReadContext
    write_id: str

    def __call__(self, group: TaskGroup) -> list[WrittenFile]:
        writes, arrangement = self.writes, self.arrangement

        def read(columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
            return read_group(group, self.context if columns is None else self.of_keys)

        rows = sorted_rows(read, arrangement.columns(writes), lambda sample: arrangement.ranking(writes, sample))
        return write_rows(writes.keep_row_order(arrangement.terms), rows, self.write_id)


def rewrite_sorted(
    writes: TableWrites,
    scan: ScanSpec,
    plan: ScanPlan,
    groups: np.ndarray,
    arrangement: CompactionOrder,
    executor: PlanningExecutor | None,
) -> list[WrittenFile]:
    """Write the rows of a plan to new files, sorted within each group; return the files.

    `groups` has the group number of each file of the plan. Groups are sorted one after the other in this process, with
    bounded memory and temporary files. An executor runs one task per group; if it can exchange rows, as Spark can,
    several workers sort one group. All new files are deleted on failure.
    """
    if not len(plan.table):
        return []
    numbers = np.unique(groups, return_inverse=True)[1].reshape(-1)
    context, of_keys = scan.read_context(plan), scan.narrow_columns(arrangement.columns(writes)).read_context(plan)
    write_id = new_write_id()
    try:
        if isinstance(executor, ExchangingExecutor):
            return sort_by_exchange(writes, plan, numbers, (context, of_keys), arrangement, executor, write_id)
        tasks = TaskGroups(plan.table, plan.splits, numbers[plan.splits["file"].to_numpy()])
        work = _SortGroup(writes, arrangement, context, of_keys, write_id)
        done = map(work, tasks) if executor is None else executor.map(work, tasks)
        return [file for files in done for file in files]
    except BaseException:
        remove_written(writes, write_id)
        raise


_SMALL = 0.75  # share of the target file size below which files are merged
_RATIO = 0.3
_FILES = 2


@dataclass(frozen=True)
class Thresholds:
    """Thresholds that decide which files are rewritten; sizes in bytes.

    - `smallest`, `largest`: files outside this range are rewritten; None for no largest size.
    - `deletes`: a data file with so many delete files is rewritten; None for no limit.
    - `ratio`: a data file with deletes and at least this share of deleted rows is rewritten.
    - `files`: minimum number of files of a group, unless one of them is too large or has too many deletes.
    - `group_size`: maximum size of a group of files that are rewritten together.
    - `by_size`: whether sizes count; `everything`: whether all files are rewritten.
    """

    smallest: int
    largest: int | None
    deletes: int | None
    ratio: float
    files: int
    group_size: int
    by_size: bool = True
    everything: bool = False

    @staticmethod
    def resolve(options: WriteOptions, target_size: int) -> Thresholds:
        """Return the thresholds that options set; raises `InvalidOption` if they contradict the target file size."""
        given = options if isinstance(options, CompactOptions) else CompactOptions()
        smallest, largest = given.min_file_size_bytes, given.max_file_size_bytes
        if smallest is not None and smallest > target_size:
            raise InvalidOption(f"min-file-size-bytes={smallest} is above the target file size of {target_size} bytes")
        if largest is not None and largest <= target_size:
            raise InvalidOption(f"max-file-size-bytes={largest} is not above the target file size, {target_size} bytes")
        deletes = given.delete_file_threshold
        if given.purge or (deletes is None and given.delete_ratio_threshold is None):
            deletes = 1
        is_sorted = given.strategy != "binpack" and not given.purge
        return Thresholds(
            int(_SMALL * target_size) if smallest is None else smallest,
            largest,
            deletes,
            given.delete_ratio_threshold or _RATIO,
            given.min_input_files or _FILES,
            given.max_file_group_size_bytes,
            by_size=not given.purge,
            everything=is_sorted if given.rewrite_all is None else given.rewrite_all,
        )

    def groups(self, table: FileTable) -> np.ndarray:
        """Return the group number of each file, -1 for a file that is not rewritten.

        All files of a group are in one partition.
        """
        sizes = pc.fill_null(table.files["size"], 0).to_numpy()
        deleted, large = self.have_deletes(table), self._is_large(sizes)
        chosen = deleted | large | (self.by_size & (sizes < self.smallest))
        if self.everything:
            chosen = np.ones(len(table), dtype=bool)
        group = np.full(len(table), -1, dtype=np.int64)
        group[chosen] = _pack_groups(
            partition_numbers(table.files.filter(pa.array(chosen))), sizes[chosen], self.group_size
        )
        if self.everything or not chosen.any():
            return group
        of_chosen = group[chosen]
        counts = np.bincount(of_chosen)
        enough = (counts >= self.files) & (counts > 1)
        enough |= np.bincount(of_chosen, weights=(deleted | large)[chosen]) > 0
        group[chosen] = np.where(enough[of_chosen], of_chosen, -1)
        return group

    def _is_large(self, sizes: np.ndarray) -> np.ndarray:
        if self.largest is None or not self.by_size:
            return np.zeros(len(sizes), dtype=bool)
        result: np.ndarray = sizes > self.largest
        return result

    def have_deletes(self, table: FileTable) -> np.ndarray:
        """Return a mask of the files whose number of deletes or share of deleted rows reaches the threshold."""
        counts = table.references.counts
        many: np.ndarray = np.zeros(len(table), dtype=bool) if self.deletes is None else counts >= self.deletes
        rows = pc.fill_null(table.files["record_count"], 0).to_numpy()
        return many | ((counts > 0) & (deleted_rows(table) >= self.ratio * np.maximum(rows, 1)))


def deleted_rows(table: FileTable) -> np.ndarray:
    """Return the number of rows of each file that are deleted by position.

    Delete files that apply to several data files are not counted.
    """
    uses = table.references
    rows = pc.fill_null(table.deletes["record_count"], 0).to_numpy()
    is_own = np.bincount(uses.number, minlength=len(rows)) == 1
    return uses.sums(np.where(is_own, rows, 0))


def _pack_groups(partition: np.ndarray, sizes: np.ndarray, most: int) -> np.ndarray:
    """Return the group number of each file: one group per partition, several for a partition larger than `most` bytes.

    `partition` and `sizes` are the partition number and the bytes of each file. Groups are numbered by partition, in
    order of first occurrence.
    """
    _, first, code = np.unique(partition, return_index=True, return_inverse=True)
    part = np.zeros(len(code), dtype=np.int64)
    for large in np.flatnonzero(np.bincount(code, weights=sizes) > most).tolist():
        inside = code == large
        part[inside] = pack_in_order(sizes[inside], most)
    order = np.argsort(np.argsort(first))
    pairs = np.stack([order[code], part], axis=1)
    result: np.ndarray = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    return result
