"""Orphan files: files in a table's folders that no metadata references, and too old to belong to a running commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import InvalidOption
from lakescan.executors import ExchangingExecutor, PlanningExecutor
from lakescan.maintenance.clocks import time_of
from lakescan.maintenance.compared_by_workers import find_orphans, remove_by_workers
from lakescan.maintenance.inventory import inventory_entries, removed_entries
from lakescan.maintenance.listing import Listing
from lakescan.storage import FileEntry, Storage
from lakescan.storage.locations import is_in, normal
from lakescan.storage.removal import remove_unnamed, unnamed
from lakescan.transaction.base import FileRules, Target
from lakescan.transaction.results import OrphanResult

_LEAST = timedelta(hours=24)  # younger files may belong to running writes


def remove_orphans(
    target: Target,
    older_than: datetime | None,
    *,
    dry_run: bool,
    location: str | None = None,
    lite: bool = False,
    inventory: Any = None,
    executor: PlanningExecutor | None = None,
) -> OrphanResult:
    """Remove orphan files from the table's folders, or from `location`.

    Only files last modified before `older_than` are removed; by default, those of the format's default age. Ages are
    measured by the store's clock. The folders are listed before the table's metadata is read, so that a file committed
    in between is not taken for an orphan. Files in a `location` elsewhere that other tables of the catalog reference
    stay. With `lite`, the candidates are the files that the table's log says were removed; with an `inventory`, those
    that it lists. An executor that exchanges rows, as Spark's does, lists, compares and removes on its workers. With
    `dry_run`, nothing is removed. Otherwise raises `InvalidOption` if
    `older_than` is less than 24 hours, or the table's retention, ago.
    """
    rules, storage = target.file_rules(), target.storage
    now = datetime.now(UTC) if dry_run else time_of(storage, rules.clock_folder)  # a dry run writes nothing
    cutoff = now - rules.default_age if older_than is None else older_than
    if not dry_run:
        _check_age(cutoff, now, _LEAST, "24 hours")
        _check_age(cutoff, now, rules.retention, f"{rules.retention_name} ({rules.retention})")
    folders = rules.folders if location is None else [location]
    if lite or inventory is not None:
        if location is not None or (lite and inventory is not None):
            raise InvalidOption("remove_orphans takes one of location, lite and inventory")
        found = removed_entries(target, rules) if lite else inventory_entries(inventory, rules.location)
        listing = Listing(normal(storage.relocated(rules.location)), found, rules.partition_names, rules.shown)
    elif isinstance(executor, ExchangingExecutor):
        return _by_workers(target, rules, folders, cutoff, executor, dry_run=dry_run)
    else:
        listing = Listing.of(storage, rules.location, folders, rules.partition_names, rules.shown)
    other_metadata = listing.metadata_files()
    candidates = _unshared(listing.candidates(), rules, other_metadata, storage)
    sizes = {each.location: each.size for each in candidates if each.modified is not None and each.modified < cutoff}
    if not sizes:
        return OrphanResult(dry_run=dry_run)

    def in_use() -> Iterator[pa.Array]:
        yield from target.files_in_use(cutoff, other_metadata)
        if location is not None and not is_in(normal(location), normal(rules.location)):
            yield from rules.named_by_others(location)

    old = list(sizes)
    files = unnamed(storage, old, in_use()) if dry_run else remove_unnamed(storage, old, in_use)
    return OrphanResult(tuple(files), sum(sizes[each] for each in files), dry_run)


def _by_workers(
    target: Target,
    rules: FileRules,
    folders: Sequence[str],
    cutoff: datetime,
    executor: ExchangingExecutor,
    *,
    dry_run: bool,
) -> OrphanResult:
    found = find_orphans(target, rules, folders, cutoff, executor)
    if not dry_run:
        found = remove_by_workers(target.storage, found, executor)
    return OrphanResult(tuple(found["location"].to_pylist()), pc.sum(found["size"]).as_py() or 0, dry_run)


def _unshared(
    files: Iterable[FileEntry], rules: FileRules, other_metadata: list[FileEntry], storage: Storage
) -> Iterable[FileEntry]:
    """The files without those of another format's metadata, if that shares the table's data files."""
    if rules.shared_metadata is None or not (rules.is_shared or other_metadata):
        return files
    folder = normal(storage.relocated(rules.shared_metadata))
    return (each for each in files if not is_in(normal(each.location), folder))


def _check_age(cutoff: datetime, now: datetime, least: timedelta, what: str) -> None:
    if now - cutoff < least:
        raise InvalidOption(
            f"{cutoff.isoformat()} is less than {what} ago, by the clock of the store ({now.isoformat()}): files that "
            "running reads and writes need would be removed. Use an earlier time, or list the files with a dry run."
        )
