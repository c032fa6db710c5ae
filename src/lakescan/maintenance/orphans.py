"""Orphan files: those in a table's folders that nothing names, and that are too old to be of a commit under way."""

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
from lakescan.storage.locations import normal
from lakescan.storage.removal import remove_unnamed, unnamed
from lakescan.storage.storage import FileEntry, join
from lakescan.transaction.delta import DeltaTarget
from lakescan.transaction.iceberg import IcebergTarget

_LEAST = timedelta(hours=24)  # writers may be at work on files that are younger
_DAYS = timedelta(days=3)  # that orphans of Iceberg tables stay by default
_PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_SHOWN = ("_change_data", "_delta_index")  # folders of Delta tables that are the table's own


def remove_orphans(
    target: IcebergTarget | DeltaTarget, older_than: datetime | None, *, dry_run: bool, location: str | None = None
) -> list[str]:
    """Remove files of the table's folders, or of `location`, that nothing names; those that were removed.

    The folders are listed first, and the table is looked at after that. Ages are told by the store's clock.
    """
    if isinstance(target, DeltaTarget):
        return _of_delta(target, older_than, dry_run=dry_run, location=location)
    return _of_iceberg(target, older_than, dry_run=dry_run, location=location)


def _of_iceberg(
    target: IcebergTarget, older_than: datetime | None, *, dry_run: bool, location: str | None
) -> list[str]:
    target.check_owned("removing orphan files of")
    metadata = target.opened.metadata
    now = _now(target, metadata.source.rpartition("/")[0], dry_run=dry_run)
    moment = now - _DAYS if older_than is None else older_than
    _check_age(moment, now, _LEAST, "24 hours", dry_run=dry_run)
    folders = _folders(metadata.location, metadata.properties) if location is None else [location]
    names = {field.name for spec in metadata.specs.values() for field in spec.fields}
    listing = Listing.of(target.storage, metadata.location, folders, names)

    def look() -> Iterator[pa.Array]:
        now = target.reopened().opened
        yield from named_by_metadata(now)
        yield from named_by_neighbours(now, listing.metadata_files())

    return _removed(target, _older(listing.candidates(), moment), look, dry_run=dry_run)


def _folders(location: str, properties: Mapping[str, str]) -> list[str]:
    """The folders of data and metadata, and those that properties name, but none that is elsewhere."""
    named = [properties[name] for name in _PATHS if name in properties]
    inside = [each for each in named if is_in(normal(each), normal(location))]
    return [join(location, "data"), join(location, "metadata"), *inside]


def _of_delta(target: DeltaTarget, older_than: datetime | None, *, dry_run: bool, location: str | None) -> list[str]:
    state = target.scan.snapshot.state
    check_vacuum(state.protocol, target.name)
    retention = retention_of(state.metadata.configuration)
    now = _now(target, target.location, dry_run=dry_run)
    moment = now - max(retention, _LEAST) if older_than is None else older_than
    _check_age(moment, now, _LEAST, "24 hours", dry_run=dry_run)
    _check_age(moment, now, retention, f"delta.deletedFileRetentionDuration ({retention})", dry_run=dry_run)
    fields = state.partition_fields(target.scan.snapshot.schema)
    names = {name for field in fields for name in (field.name, field.physical_name)}
    listing = Listing.of(target.storage, target.location, [location or target.location], names, _SHOWN)
    metadata = join(normal(target.storage.relocated(target.location)), "metadata")
    candidates: Iterable[FileEntry] = listing.candidates()
    if has_uniform(state.metadata) or listing.metadata_files():  # Iceberg's, of the same files
        candidates = (each for each in candidates if not is_in(normal(each.location), metadata))

    def look() -> Iterator[pa.Array]:
        return named_by_log(target.reopened().location, target.storage, to_millis(moment))

    return _removed(target, _older(candidates, moment), look, dry_run=dry_run)


def _now(target: IcebergTarget | DeltaTarget, folder: str, *, dry_run: bool) -> datetime:
    """The time by the store's clock; by this one where nothing is to be written."""
    return datetime.now(UTC) if dry_run else time_of(target.storage, folder)


def _check_age(moment: datetime, now: datetime, least: timedelta, what: str, *, dry_run: bool) -> None:
    if now - moment < least and not dry_run:
        raise InvalidOption(
            f"{moment.isoformat()} is less than {what} ago, by the clock of the store ({now.isoformat()}): files that "
            "writers and readers are at work on would go. A dry run lists them."
        )


def _older(entries: Iterable[FileEntry], moment: datetime) -> list[str]:
    return [each.location for each in entries if each.modified is not None and each.modified < moment]


def _removed(
    target: IcebergTarget | DeltaTarget, orphans: list[str], look: Callable[[], Iterator[pa.Array]], *, dry_run: bool
) -> list[str]:
    if not orphans:
        return []
    return unnamed(target.storage, orphans, look()) if dry_run else remove_unnamed(target.storage, orphans, look)
