"""Keeping tables in order: small files and deletes folded, old snapshots and files that nothing names removed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import CommitConflict, InvalidOption, UnsupportedFeature
from lakescan.executors import PlanningExecutor
from lakescan.locations import split_location
from lakescan.planning.by_partition import partition_numbers
from lakescan.planning.file_table import FileTable, delete_counts
from lakescan.saving.delta_target import DeltaTarget
from lakescan.saving.iceberg_target import IcebergTarget
from lakescan.saving.replacing import as_removed
from lakescan.saving.rewriting import rewritten
from lakescan.saving.save import WAITS, saved, undone
from lakescan.saving.target import Saved
from lakescan.scan import Scan
from lakescan.storage import join
from lakescan.writing.table_writes import WrittenFile

_SMALL = 0.75  # of the target size: files below it are worth to be put together
_LEAST = timedelta(hours=24)  # writers may be at work on files that are younger


def compact(
    target: IcebergTarget | DeltaTarget, where: str | None = None, executor: PlanningExecutor | None = None
) -> Saved:
    """Write the small files of each partition, and all files that have deletes, anew; in one commit."""
    if isinstance(target, DeltaTarget):
        if executor is not None:
            raise UnsupportedFeature("compacting a Delta table by an executor", "deltalake does it, in this process.")
        return target.compacted()
    writes = target.writes.of_moved_rows
    scan = _all_rows(target, where)
    if scan.snapshot.id is None:
        return Saved(0, 0, 0)
    plan = scan.plan()
    some = scan.plan_of(plan, pa.array(_worth_it(plan.files, target.writes.target_size)))
    if not some.files.num_rows:
        return Saved(0, 0, 0)
    files = rewritten(writes, some, scan.read_context(some), executor)
    with undone(target, files):
        _commit_as_planned(target, where, some.table, files)
    return saved(files, len(some.table))


def _all_rows(target: IcebergTarget, where: str | None) -> Scan:
    """A scan of all rows of files that may have some of a filter, with what is kept when they move."""
    scan = target.scan.select(*target.writes.of_moved_rows.schema.names).ignore_residuals()
    return scan if where is None else scan.where(where)


def _commit_as_planned(
    target: IcebergTarget, where: str | None, table: FileTable, files: Sequence[WrittenFile]
) -> None:
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


def _worth_it(files: pa.Table, target_size: int) -> np.ndarray:
    """Which files have deletes, or are small and not the only small one of their partition."""
    has_deletes = pc.greater(delete_counts(files), 0).to_numpy()
    small = pc.less(files["size"], int(_SMALL * target_size)).to_numpy()
    place = partition_numbers(files)
    counts = np.bincount(place, weights=small | has_deletes, minlength=len(files))
    worth: np.ndarray = has_deletes | (small & (counts[place] > 1))
    return worth


def remove_orphans(target: IcebergTarget | DeltaTarget, older_than: datetime, *, dry_run: bool) -> list[str]:
    """Remove files of the table's folders that no snapshot, and no version that is kept, names; they are returned."""
    if datetime.now(UTC) - older_than < _LEAST and not dry_run:
        raise InvalidOption(
            "older_than is less than 24 hours ago: files that are being written now would go. Look with dry_run=True."
        )
    if isinstance(target, DeltaTarget):
        return target.vacuumed(older_than, dry_run=dry_run)
    folders = [target.writes.data_folder, join(target.scan.table_format.location, "metadata")]
    known = {_path(each) for each in _named_by(target)}
    storage = target.writes.storage
    orphans = [
        each.location
        for folder in folders
        for each in storage.walk(folder)
        if _path(each.location) not in known and each.modified is not None and each.modified < older_than
    ]
    if not dry_run:
        left = storage.remove(orphans)
        return [each for each in orphans if each not in left]
    return orphans


def _path(location: str) -> str:
    """A location without scheme and host: one file may be named with and without them."""
    return split_location(location)[2]


def _named_by(target: IcebergTarget) -> Iterator[str]:
    """All files that the table's metadata names, itself and its predecessors among them."""
    scan = target.scan
    for name, column in (("all_files", "file_path"), ("all_manifests", "path"), ("metadata_log_entries", "file")):
        table = scan.metadata_table(name)
        for part in table.parts():
            for batch in table.read(part):
                yield from batch.column(batch.schema.get_field_index(column)).to_pylist()
    yield from target.other_files()
