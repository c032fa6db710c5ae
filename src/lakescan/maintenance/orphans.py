"""Orphan files: files in a table's folders that no metadata references, and too old to belong to a running commit."""

from __future__ import annotations

import logging
import uuid
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import as_array
from lakescan.common.executors import ExchangingExecutor, PlanningExecutor
from lakescan.errors import InvalidOption, LakescanError, StorageError, nearest
from lakescan.maintenance.unreferenced_files import find_listed_orphans, find_orphans, remove_files, run_with_exchange
from lakescan.storage import Storage, join
from lakescan.storage.listing import LISTED
from lakescan.storage.locations import is_below_any, is_in, may_overlap, path_of
from lakescan.tables.base import FileRules, Target, VacuumEvent
from lakescan.tables.capabilities import OrphanRemoval, RemovedFilesLog, VacuumHistory, find_capability, require
from lakescan.tables.results import OrphanResult

_LOG = logging.getLogger("lakescan")
_LEAST = timedelta(hours=24)  # younger files may belong to running writes


def remove_orphans(
    target: Target,
    older_than: datetime | None,
    *,
    dry_run: bool,
    location: str | None = None,
    lite: bool = False,
    inventory: Any = None,
    ignore_retention: str | None = None,
    executor: PlanningExecutor | None = None,
    in_history: bool = False,
) -> OrphanResult:
    """Delete orphan files from the table's folders, or from `location`.

    The folders are listed before the table's metadata is read, so that a file committed in between does not count as an
    orphan. In a `location` outside the table's folder, files that other tables of the catalog reference are kept.

    Args:
        target: The table.
        older_than: Only files last modified before this time, by the store's clock; by default the format's minimum
            age.
        dry_run: Only return the files.
        location: The folder to search instead of the table's folders.
        lite: The candidates are the files that the table's log records as removed; no folder is listed.
        inventory: The candidates are the files of this table, see `inventory_files`; no folder is listed.
        ignore_retention: A reason to allow younger files, which is logged.
        executor: Lists, compares and deletes on its workers if it exchanges rows, as Spark's does. By default threads
            of this process do, with file names in temporary files.
        in_history: Record the start and the end in the history of a table that has entries for them.

    Raises `InvalidOption`, except in a dry run, if `older_than` is less than 24 hours or the table's retention ago, or
    if `location` is above the table's folder.
    """
    rules, storage = require(target, OrphanRemoval).file_rules(), target.storage
    now = datetime.now(UTC) if dry_run else store_time(storage, rules.clock_folder)  # a dry run writes nothing
    cutoff = now - rules.default_age if older_than is None else older_than
    if ignore_retention is not None and not str(ignore_retention).strip():
        raise InvalidOption("ignore_retention is the reason for removing young files: it must not be empty")
    if ignore_retention is not None and cutoff > now - max(_LEAST, rules.retention):
        _LOG.warning(
            "%s: files from before %s are removed despite the retention, because: %s",
            rules.location,
            cutoff.isoformat(),
            ignore_retention,
        )
    elif ignore_retention is None and not dry_run:
        _check_age(cutoff, now, _LEAST, "24 hours")
        _check_age(cutoff, now, rules.retention, f"{rules.retention_name} ({rules.retention})")
    folders = rules.folders if location is None else [location]
    if location is not None and not dry_run:
        _check_not_above(location, rules.location)
    if lite or inventory is not None:
        if location is not None or (lite and inventory is not None):
            raise InvalidOption("remove_orphans takes one of location, lite and inventory")
        listed = removed_files(target, rules) if lite else inventory_files(inventory, rules.location)

    def find(exchange: ExchangingExecutor) -> pa.Table:
        if lite or inventory is not None:
            found = find_listed_orphans(target, rules, listed, cutoff, exchange)
        else:
            found = find_orphans(target, rules, folders, cutoff, exchange)
        if dry_run:
            return found
        if history is None:
            return remove_files(storage, found, exchange)
        history.record_vacuum(_start_event(found, rules, given_age, is_checked=ignore_retention is None))
        try:
            removed = remove_files(storage, found, exchange)
        except BaseException:
            with suppress(LakescanError):  # the failure itself is raised
                history.record_vacuum(VacuumEvent("END", {"status": "FAILED"}, {}))
            raise
        history.record_vacuum(VacuumEvent("END", {"status": "COMPLETED"}, {"numDeletedFiles": len(removed)}))
        return removed

    history = find_capability(target, VacuumHistory) if in_history else None
    given_age = None if older_than is None else now - older_than
    found = run_with_exchange(executor, find)
    return OrphanResult(tuple(found["location"].to_pylist()), pc.sum(found["size"]).as_py() or 0, dry_run)


def _start_event(found: pa.Table, rules: FileRules, given: timedelta | None, *, is_checked: bool) -> VacuumEvent:
    """Return the event of the removal of these files; `given` is the least age that the user gave."""
    parameters: dict[str, Any] = {
        "retentionCheckEnabled": is_checked,
        "defaultRetentionMillis": rules.default_age // timedelta(milliseconds=1),
    }
    if given is not None:
        parameters["specifiedRetentionMillis"] = round(given / timedelta(minutes=1)) * 60_000
    sizes = pc.sum(found["size"]).as_py() or 0
    return VacuumEvent("START", parameters, {"numFilesToDelete": len(found), "sizeOfDataToDelete": sizes})


def _check_not_above(location: str, folder: str) -> None:
    """Raise `InvalidOption` for a location above the table's folder, since files of others there look like orphans."""
    if may_overlap(location, folder) and is_in(path_of(folder), path_of(location)):
        raise InvalidOption(
            f"remove_orphans from {location} would remove files of others next to the table's folder {folder}: give "
            "that folder, or one in it. A dry run lists the files that it would remove."
        )


def _check_age(cutoff: datetime, now: datetime, least: timedelta, what: str) -> None:
    if now - cutoff < least:
        raise InvalidOption(
            f"{cutoff.isoformat()} is less than {what} ago, by the clock of the store ({now.isoformat()}): files that "
            "running reads and writes need would be removed. Use an earlier time, or list the files with a dry run. If "
            "they must go, and nobody else uses the table, give the reason as ignore_retention."
        )


def store_time(storage: Storage, folder: str) -> datetime:
    """Return the current time of a store: the modification time of a temporary file in `folder`.

    Raises `StorageError` for a store that does not return modification times.
    """
    location = join(folder, f".lakescan-clock-{uuid.uuid4().hex}")
    with storage.writing(location) as file:
        file.write(b"the time")
    try:
        entry = storage.look_up([location])[0]
    finally:
        storage.remove([location])
    if entry is None or entry.modified is None:
        raise StorageError(
            f"{folder}: the store does not return modification times, so the age of its files is unknown"
        )
    return entry.modified


_COLUMNS = ("path", "length", "isDir", "modificationTime")  # Delta's, of VACUUM ... USING INVENTORY
_ABSOLUTE = r"^(?:/|[a-zA-Z][a-zA-Z0-9+.-]*:/)"
_STEPS_BACK = r"(?:^|/)\.\.(?:/|$)"
_AT_ONCE = 10_000  # number of files to look up in one call


def inventory_files(inventory: Any, location: str) -> pa.Table:
    """Return the files of an inventory that are in the table's folder `location` (`listing.LISTED`).

    The inventory is a table (Arrow, or anything with an Arrow stream) with the columns `path` (absolute, or relative to
    the table's folder), `length` in bytes, `isDir` and `modificationTime` in milliseconds since 1970. Raises
    `InvalidOption` for anything else, and for files with a missing value.
    """
    try:
        table = inventory if isinstance(inventory, pa.Table) else pa.table(inventory)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InvalidOption(f"the inventory is {type(inventory).__name__}, not a table") from error
    if missing := [name for name in _COLUMNS if name not in table.column_names]:
        raise InvalidOption(
            f"the inventory has no column {missing[0]!r}: it takes {', '.join(_COLUMNS)}."
            f"{nearest(missing[0], table.column_names)}"
        )
    files = table.select(_COLUMNS).filter(pc.invert(pc.fill_null(table["isDir"], False)))
    if any(column.null_count for column in files.columns):
        raise InvalidOption("the inventory has files without a path, a length or a modificationTime")
    times = files["modificationTime"]
    if not pa.types.is_timestamp(times.type):
        times = times.cast(pa.int64()).cast(pa.timestamp("ms"))
    paths = as_array(files["path"].cast(pa.string()))
    inside = pc.binary_join_element_wise(location.rstrip("/"), paths, "/")
    places = pc.if_else(pc.match_substring_regex(paths, _ABSOLUTE), paths, inside)
    found = pa.table(
        [places, files["length"].cast(pa.int64()), times.cast(pa.timestamp("us", "UTC"), safe=False)], schema=LISTED
    )
    return found.filter(pc.and_not(is_below_any(places, [location]), pc.match_substring_regex(places, _STEPS_BACK)))


def removed_files(target: Target, rules: FileRules) -> pa.Table:
    """Return the files (`LISTED`) that the table's log records as removed and that are still in the table's folder."""
    parts = [each.cast(pa.string()) for each in require(target, RemovedFilesLog).files_removed()]
    inside = pc.unique(pa.concat_arrays([pa.array([], pa.string()), *parts]))
    inside = inside.filter(is_below_any(inside, [rules.location]))
    found = [LISTED.empty_table()]
    for start in range(0, len(inside), _AT_ONCE):
        some = target.storage.look_up(inside.slice(start, _AT_ONCE).to_pylist())
        there = [each for each in some if each is not None]
        columns = [[each.location for each in there], [each.size for each in there], [each.modified for each in there]]
        found.append(pa.table(columns, schema=LISTED))
    return pa.concat_tables(found)
