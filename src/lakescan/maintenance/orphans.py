"""Orphan files: files in a table's folders that no metadata references, and too old to belong to a running commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakescan.common.timestamps import to_millis
from lakescan.delta.log.retention import check_vacuum, has_uniform, retention_of
from lakescan.delta.scan.named_files import named_files as named_by_log
from lakescan.errors import InvalidOption
from lakescan.iceberg.scan.named_files import named_files as named_by_metadata
from lakescan.maintenance.clocks import time_of
from lakescan.maintenance.listing import Listing, is_in
from lakescan.maintenance.neighbours import named_by_neighbours
from lakescan.storage import FileEntry, join
from lakescan.storage.locations import normal
from lakescan.storage.removal import remove_unnamed, unnamed
from lakescan.transaction.delta import DeltaTarget
from lakescan.transaction.iceberg import IcebergTarget
from lakescan.transaction.results import OrphanResult

_LEAST = timedelta(hours=24)  # younger files may belong to running writes
_DEFAULT_AGE = timedelta(days=3)  # of orphan files of Iceberg tables
_PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_SHOWN = ("_change_data", "_delta_index")  # folders of Delta tables that belong to the table in spite of their names


def remove_orphans(
    target: IcebergTarget | DeltaTarget, older_than: datetime | None, *, dry_run: bool, location: str | None = None
) -> OrphanResult:
    """Remove orphan files from the table's folders, or from `location`.

    Only files last modified before `older_than` are removed. The default is 3 days ago (Iceberg), or the retention of
    deleted files, at least 24 hours (Delta). Ages are measured by the store's clock. The folders are listed before the
    table's metadata is read, so that a file committed in between is not taken for an orphan. With `dry_run`, nothing is
    removed. Otherwise raises `InvalidOption` if `older_than` is less than 24 hours, or that retention, ago.
    """
    if isinstance(target, DeltaTarget):
        return _delta_orphans(target, older_than, dry_run=dry_run, location=location)
    return _iceberg_orphans(target, older_than, dry_run=dry_run, location=location)


def _iceberg_orphans(
    target: IcebergTarget, older_than: datetime | None, *, dry_run: bool, location: str | None
) -> OrphanResult:
    target.check_owned("removing orphan files of")
    metadata = target.opened.metadata
    now = _now(target, metadata.source.rpartition("/")[0], dry_run=dry_run)
    cutoff = now - _DEFAULT_AGE if older_than is None else older_than
    _check_age(cutoff, now, _LEAST, "24 hours", dry_run=dry_run)
    folders = _folders(metadata.location, metadata.properties) if location is None else [location]
    names = {field.name for spec in metadata.specs.values() for field in spec.fields}
    listing = Listing.of(target.storage, metadata.location, folders, names)

    def referenced() -> Iterator[pa.Array]:
        table = target.reopened().opened
        yield from named_by_metadata(table)
        yield from named_by_neighbours(table, listing.metadata_files())

    return _remove(target, _older(listing.candidates(), cutoff), referenced, dry_run=dry_run)


def _folders(location: str, properties: Mapping[str, str]) -> list[str]:
    """The data and metadata folders, and folders from table properties if they are inside the table's location."""
    named = [properties[name] for name in _PATHS if name in properties]
    inside = [each for each in named if is_in(normal(each), normal(location))]
    return [join(location, "data"), join(location, "metadata"), *inside]


def _delta_orphans(
    target: DeltaTarget, older_than: datetime | None, *, dry_run: bool, location: str | None
) -> OrphanResult:
    version = target.version
    check_vacuum(version.protocol, target.name)
    retention = retention_of(version.metadata.configuration)
    now = _now(target, target.location, dry_run=dry_run)
    cutoff = now - max(retention, _LEAST) if older_than is None else older_than
    _check_age(cutoff, now, _LEAST, "24 hours", dry_run=dry_run)
    _check_age(cutoff, now, retention, f"delta.deletedFileRetentionDuration ({retention})", dry_run=dry_run)
    fields = version.partition_fields(target.scan.snapshot.schema)
    names = {name for field in fields for name in (field.name, field.physical_name)}
    listing = Listing.of(target.storage, target.location, [location or target.location], names, _SHOWN)
    metadata = join(normal(target.storage.relocated(target.location)), "metadata")
    candidates: Iterable[FileEntry] = listing.candidates()
    if has_uniform(version.metadata) or listing.metadata_files():  # an Iceberg table shares the data files
        candidates = (each for each in candidates if not is_in(normal(each.location), metadata))

    def referenced() -> Iterator[pa.Array]:
        return named_by_log(target.reopened().location, target.storage, to_millis(cutoff))

    return _remove(target, _older(candidates, cutoff), referenced, dry_run=dry_run)


def _now(target: IcebergTarget | DeltaTarget, folder: str, *, dry_run: bool) -> datetime:
    """The time by the store's clock; in a dry run, which writes nothing, by the local clock."""
    return datetime.now(UTC) if dry_run else time_of(target.storage, folder)


def _check_age(cutoff: datetime, now: datetime, least: timedelta, what: str, *, dry_run: bool) -> None:
    if now - cutoff < least and not dry_run:
        raise InvalidOption(
            f"{cutoff.isoformat()} is less than {what} ago, by the clock of the store ({now.isoformat()}): files that "
            "running reads and writes need would be removed. Use an earlier time, or list the files with a dry run."
        )


def _older(entries: Iterable[FileEntry], cutoff: datetime) -> dict[str, int]:
    """The locations and sizes of the files last modified before `cutoff`."""
    return {each.location: each.size for each in entries if each.modified is not None and each.modified < cutoff}


def _remove(
    target: IcebergTarget | DeltaTarget,
    sizes: dict[str, int],
    referenced: Callable[[], Iterator[pa.Array]],
    *,
    dry_run: bool,
) -> OrphanResult:
    """Remove those of some files, given with their sizes, that the table does not reference."""
    if not sizes:
        return OrphanResult(dry_run=dry_run)
    old = list(sizes)
    files = unnamed(target.storage, old, referenced()) if dry_run else remove_unnamed(target.storage, old, referenced)
    return OrphanResult(tuple(files), sum(sizes[each] for each in files), dry_run)
