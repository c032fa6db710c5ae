"""Versions by timestamp (protocol, "In-Commit Timestamps", and Delta's rules for file modification times).

A commit's time is its in-commit timestamp if the table records those, else its file's modification time, moved forward
where needed so that times increase with versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from lakescan.common.timestamps import from_millis, to_millis
from lakescan.delta.log.log_text import ADVICE, LogText, as_long, single_actions
from lakescan.delta.log.segment import LogFile, LogListing
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import CorruptMetadata, NoSuchSnapshot
from lakescan.storage import Storage

_ENABLED = DeltaProperties.in_commit_timestamps.name


def commit_times(listing: LogListing, properties: DeltaProperties, storage: Storage) -> dict[int, int]:
    """Return the time of each commit in the log, in milliseconds since 1970, by version; they increase with versions.

    Raises `CorruptMetadata` if an in-commit timestamp is missing.
    """
    times: dict[int, int] = {}
    previous = -1
    for version, time in _raw_times(listing.commits, properties, storage):
        previous = max(time, previous + 1)
        times[version] = previous
    return times


def _raw_times(
    commits: tuple[LogFile, ...], properties: DeltaProperties, storage: Storage
) -> Iterator[tuple[int, int]]:
    for commit in commits:
        if has_in_commit_timestamp(commit, properties):
            yield commit.version, in_commit_timestamp(commit, storage)
        else:
            yield commit.version, modification_time(commit)


def has_in_commit_timestamp(commit: LogFile, properties: DeltaProperties) -> bool:
    """Return whether a commit must have an in-commit timestamp by the table properties.

    Raises `CorruptMetadata` if the property with the first such version is malformed.
    """
    return properties.in_commit_timestamps and commit.version >= properties.in_commit_since


def in_commit_timestamp(commit: LogFile, storage: Storage) -> int:
    """Return a commit's in-commit timestamp, in milliseconds since 1970; raises `CorruptMetadata` if missing."""
    location = commit.entry.location
    text = LogText(location, storage.read(location, size=commit.entry.size or None), commit.version)
    milliseconds = as_long(commit_info(text).get("inCommitTimestamp"))
    if timestamp_or_none(milliseconds) is None:
        raise CorruptMetadata(
            f"{location} has no valid inCommitTimestamp, which the table property {_ENABLED} requires. {ADVICE}"
        )
    return milliseconds or 0


def commit_info(commit: LogText) -> Mapping[str, Any]:
    """Return the fields of a commit's commitInfo action; empty without one."""
    return next((action.members for action in single_actions(commit, ("commitInfo",))), {})


def timestamp_or_none(milliseconds: Any) -> datetime | None:
    """Convert milliseconds since 1970 to a timestamp; None if missing, malformed or out of range."""
    number = as_long(milliseconds)
    try:
        return None if number is None else from_millis(number)
    except OverflowError:
        return None


def modification_time(commit: LogFile) -> int:
    """Return when a commit's file was modified, in milliseconds since 1970; 0 if unknown."""
    time = commit.entry.modified
    return 0 if time is None else to_millis(time)


def version_at(listing: LogListing, times: Mapping[int, int], timestamp: datetime) -> int:
    """Return the newest version committed at or before `timestamp`.

    `times` are commit times in milliseconds since 1970, by version. Raises `NoSuchSnapshot` if `timestamp` is before
    the first or after the last of these.
    """
    wanted = to_millis(timestamp)
    if not times:
        raise NoSuchSnapshot(f"{listing.location}: the log has no commits left to look up a timestamp in")
    first, last = min(times), max(times)
    if wanted < times[first]:
        raise NoSuchSnapshot(
            f"{listing.location}: {timestamp} is before the oldest version in the log, {first}, committed at "
            f"{from_millis(times[first])}"
        )
    if wanted > times[last]:
        raise NoSuchSnapshot(
            f"{listing.location}: {timestamp} is after the newest version, {last}, committed at "
            f"{from_millis(times[last])}: to read the newest version, leave the timestamp out"
        )
    return max(v for v, at in times.items() if at <= wanted)
