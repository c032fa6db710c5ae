"""Remove expired files of a Delta log (protocol, "Metadata Cleanup").

Commits older than `delta.logRetentionDuration` are removed, whole days at a time, up to a checkpoint that makes all
later versions readable. That checkpoint, its commit and all later files stay.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from urllib.parse import unquote

import pyarrow as pa

from lakescan.common.timestamps import to_millis
from lakescan.delta.commit.checkpoint import SIDECARS
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.checkpoint_files import CheckpointFile, checkpoint_actions
from lakescan.delta.log.log_pieces import pieces_of
from lakescan.delta.log.reader import DeltaVersion, LogReader
from lakescan.delta.log.segment import LOG_FOLDER, Checkpoint, LogFile, LogListing, LogSegment, list_log
from lakescan.delta.log.time_travel import in_commit_timestamp
from lakescan.delta.metadata.features import Support
from lakescan.delta.metadata.protocol import Protocol, check_known
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import LakescanError
from lakescan.storage import FileEntry, Storage, join
from lakescan.storage.removal import Named, remove_unreferenced_files

_LOG = logging.getLogger("lakescan")
_OF_VERSION = re.compile(r"(\d{20})\.(?:json|crc|checkpoint\..+)")
_HADOOP_CHECKSUM = re.compile(r"\.(\d{20}\..+)\.crc")  # next to local files that Hadoop has written
_COMPACTED = re.compile(r"(\d{20})\.\d{20}\.compacted\.json")
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\..+")
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class CleanupResult:
    """The result of a log clean-up.

    `removed` are the locations of removed log files. `first` is the version of the checkpoint that the log now starts
    with, or None if nothing has expired.
    """

    first: int | None = None
    removed: tuple[str, ...] = ()


def clean_up(
    location: str,
    storage: Storage,
    *,
    now: datetime | None = None,
    retention: timedelta | None = None,
    by_minute: bool = True,
) -> CleanupResult:
    """Remove the expired files of a table's log if `delta.enableExpiredLogCleanup` allows it.

    Files that a readable version still needs are never removed; in doubt, nothing is.

    Args:
        location: The table's folder.
        storage: The table's storage.
        now: The current time, by default that of the clock.
        retention: Remove files as soon as they are this old, whatever the table properties are.
        by_minute: With `retention`, round the expiry time down to the minute, as Delta does.

    Raises:
        UnsupportedFeature: The table has unknown features, whose log may have other files.
        CorruptMetadata: The log is damaged.
        StorageError: Storage failed.

    >>> clean_up("/lake/orders", Storage()).first  # doctest: +SKIP
    120
    """
    now = now or datetime.now(UTC)
    listing = list_log(location, storage)
    version = LogReader(location, storage).version(listing.segment())
    check_known(version.protocol, "removing commits of", location)
    properties = version.metadata.properties
    if retention is None and not properties.cleans_log:
        return CleanupResult()
    cutoff = _midnight(now - properties.log_retention) if retention is None else _cutoff(now - retention, by_minute)
    first = _first_kept(listing, version, cutoff, storage)
    if first is None:
        return CleanupResult()
    entries = list(storage.list(join(location, LOG_FOLDER)))
    removed = _remove_in_order(storage, [each for each in entries if _is_before(each.name, first)])
    sidecars = _remove_sidecars(location, min(cutoff, _midnight(now) - _DAY), storage)
    return CleanupResult(first, (*removed, *sidecars))


def _cutoff(time: datetime, by_minute: bool) -> datetime:
    return time.astimezone(UTC).replace(second=0, microsecond=0) if by_minute else time.astimezone(UTC)


def _midnight(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _first_kept(listing: LogListing, version: DeltaVersion, cutoff: datetime, storage: Storage) -> int | None:
    """Return the version of the checkpoint that the log will start with, or None if nothing can be removed.

    Commits at or before `cutoff` have expired.
    """
    properties = version.metadata.properties
    last = _last_expired(listing.commits, properties, to_millis(cutoff), storage)
    checkpoints = [each for each in reversed(listing.checkpoints) if last is not None and each.version <= last]
    base = next((each for each in checkpoints if _is_usable(each, listing.location, storage)), None)
    if base is None or listing.first >= base.version:
        return None
    if "checkpointProtection" in version.protocol.features and base.version < properties.protected_before:
        _LOG.info(
            "%s: no commits are removed: the table requires that all before version %d are removed together, and only "
            "those before version %d have expired",
            listing.location,
            properties.protected_before,
            base.version,
        )
        return None
    return base.version


def _last_expired(commits: Sequence[LogFile], properties: DeltaProperties, cutoff: int, storage: Storage) -> int | None:
    """Return the version of the newest commit made at or before `cutoff`, in milliseconds since 1970.

    None without one. In-commit timestamps increase, so a binary search reads few commits. File times are moved forward
    where they do not increase.
    """
    since = properties.in_commit_since if properties.in_commit_timestamps else 1 << 63
    timed = [each for each in commits if each.version >= since]
    count = bisect_right(timed, cutoff, key=lambda commit: in_commit_timestamp(commit, storage))
    if count:
        return timed[count - 1].version
    others = [each for each in commits if each.version < since]
    raw = [_DISTANT if each.entry.modified is None else to_millis(each.entry.modified) for each in others]
    times = list(accumulate(raw, lambda before, own: max(own, before + 1)))
    count = bisect_right(times, cutoff)
    return others[count - 1].version if count else None


_DISTANT = 1 << 62  # time of a commit without a modification time, which never expires


def _is_usable(checkpoint: Checkpoint, location: str, storage: Storage) -> bool:
    """Return whether a checkpoint can be read: its files open, its sidecars exist, it has a protocol and metadata."""
    segment = LogSegment(location, checkpoint.version, checkpoint, ())
    try:
        files = [piece.checkpoint for piece in pieces_of(segment, ActionReader(storage, ())) if piece.checkpoint]
        for file in files:
            if not file.location.endswith(".json"):
                CheckpointFile(file.location, storage).members()
        names = ("protocol", "metaData")
        found = {each.name for part in checkpoint.parts for each in checkpoint_actions(part.location, storage, names)}
    except LakescanError as error:
        _LOG.warning("%s: the checkpoint of version %d cannot be read: %s", location, checkpoint.version, error)
        return False
    return found == set(names)


def _is_before(name: str, first: int) -> bool:
    """Return whether a log file is not needed by versions from `first` on, which has a checkpoint."""
    if match := _HADOOP_CHECKSUM.fullmatch(name):
        return _is_before(match[1], first)
    if match := _COMPACTED.fullmatch(name):
        return int(match[1]) <= first
    match = _OF_VERSION.fullmatch(name)
    return match is not None and int(match[1]) < first


def _remove_in_order(storage: Storage, entries: Sequence[FileEntry]) -> list[str]:
    """Remove commits, then checkpoints if all commits are removed; return the removed locations.

    A reader that does not support a feature of an old version may start reading at a later checkpoint. It must never
    find commits older than its oldest checkpoint (feature `checkpointProtection`).
    """
    checkpoints = [each.location for each in entries if _CHECKPOINT.fullmatch(each.name)]
    others = [each.location for each in entries if not _CHECKPOINT.fullmatch(each.name)]
    removed = _remove_files(storage, others)
    return [*removed, *(_remove_files(storage, checkpoints) if len(removed) == len(others) else [])]


def _remove_files(storage: Storage, locations: Sequence[str]) -> list[str]:
    left = set(storage.remove(locations))
    if left:
        _LOG.warning("%d expired files of a log could not be removed, %s among them", len(left), min(left))
    return [each for each in locations if each not in left]


def _remove_sidecars(location: str, before: datetime, storage: Storage) -> list[str]:
    """Remove the sidecars that no checkpoint lists and that were modified before `before`; return their locations.

    Newer ones may belong to a checkpoint being written. Removes nothing if a checkpoint cannot be read.
    """
    folder = join(location, LOG_FOLDER, SIDECARS)
    old = [
        each.location
        for each in storage.list(folder)
        if each.name.endswith(".parquet") and each.modified is not None and each.modified < before
    ]
    if not old:
        return []

    def referenced_sidecars() -> Named:
        for file in _checkpoint_files(location, storage):
            names = [unquote(path).rsplit("/", 1)[-1] for path in _sidecars(file, storage)]
            yield pa.array([join(folder, name) for name in names], pa.string())

    try:
        return remove_unreferenced_files(storage, old, referenced_sidecars)
    except LakescanError as error:
        _LOG.warning("%s: no sidecars are removed, as a checkpoint cannot be read: %s", location, error)
        return []


def _checkpoint_files(location: str, storage: Storage) -> Iterator[FileEntry]:
    """Yield all checkpoint files, including incomplete ones and several of one version."""
    return (each for each in storage.list(join(location, LOG_FOLDER)) if _CHECKPOINT.fullmatch(each.name))


def _sidecars(file: FileEntry, storage: Storage) -> list[str]:
    return ActionReader(storage, ()).sidecars(file.location) if file.size else []


def check_vacuum(protocol: Protocol, location: str) -> None:
    """Raise `UnsupportedFeature` for a table that lakescan cannot read, or whose files it may not find completely.

    That depends on the reader version and on READ and VACUUM support for its features.
    """
    protocol.check_readable(location)
    protocol.check_supports(Support.VACUUM, "removing files of", location)
