"""Versions by time (protocol, "In-Commit Timestamps"; and Delta's rules for file times).

A commit's time is its in-commit timestamp where the table records those, else its file's modification time, moved
forward where needed so that times ascend with versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from lakescan.common.timestamps import from_millis, to_millis
from lakescan.delta.log.segment import LogFile, LogListing
from lakescan.delta.log.text import ADVICE, LogText, as_long, shown, single_actions
from lakescan.errors import CorruptMetadata, NoSuchSnapshot
from lakescan.storage.storage import Storage

_ENABLED = "delta.enableInCommitTimestamps"
_SINCE = "delta.inCommitTimestampEnablementVersion"
_VERSION = re.compile(r"\d{1,19}")


def commit_times(listing: LogListing, configuration: Mapping[str, str], storage: Storage) -> dict[int, int]:
    """The time of each commit that is left in the log, in milliseconds since 1970, by version."""
    times: dict[int, int] = {}
    previous = -1
    for version, found in _raw_times(listing.commits, configuration, storage):
        previous = max(found, previous + 1)
        times[version] = previous
    return times


def _raw_times(
    commits: tuple[LogFile, ...], configuration: Mapping[str, str], storage: Storage
) -> Iterator[tuple[int, int]]:
    for commit in commits:  # one a commit in the log
        if has_in_commit_timestamp(commit, configuration):
            yield commit.version, in_commit_timestamp(commit, storage)
        else:
            yield commit.version, _modified(commit)


def has_in_commit_timestamp(commit: LogFile, configuration: Mapping[str, str]) -> bool:
    """Whether a commit carries its own time."""
    enabled = configuration.get(_ENABLED, "false").lower() == "true"
    since = configuration.get(_SINCE, "0")
    if enabled and _VERSION.fullmatch(since) is None:
        raise CorruptMetadata(f"{commit.entry.location}: the table's property {_SINCE} is {shown(since)}. {ADVICE}")
    return enabled and commit.version >= int(since)


def in_commit_timestamp(commit: LogFile, storage: Storage) -> int:
    """The time that a commit carries, in milliseconds since 1970; raises `CorruptMetadata` where it lacks it."""
    location = commit.entry.location
    text = LogText(location, storage.read(location, size=commit.entry.size or None), commit.version)
    moment = as_long(commit_info(text).get("inCommitTimestamp"))
    if moment_or_none(moment) is None:
        raise CorruptMetadata(f"{location} has no inCommitTimestamp, which the table's metadata promises. {ADVICE}")
    return moment or 0


def commit_info(commit: LogText) -> Mapping[str, Any]:
    """The commitInfo action of a commit, or nothing."""
    return next((action.members for action in single_actions(commit, ("commitInfo",))), {})


def moment_or_none(milliseconds: Any) -> datetime | None:
    """A moment that a commit says it is of, in milliseconds since 1970; None where it says none that there can be."""
    known = as_long(milliseconds)
    try:
        return None if known is None else from_millis(known)
    except OverflowError:
        return None


def _modified(commit: LogFile) -> int:
    moment = commit.entry.modified
    return 0 if moment is None else to_millis(moment)


def version_at(listing: LogListing, times: Mapping[int, int], moment: datetime) -> int:
    """The newest version that is not later than `moment`; `NoSuchSnapshot` before the first, and after the last."""
    wanted = to_millis(moment)
    if not times:
        raise NoSuchSnapshot(f"{listing.location}: no commit is left in the log to look up a time in")
    first, last = min(times), max(times)
    if wanted < times[first]:
        raise NoSuchSnapshot(
            f"{listing.location}: {moment} is before its first available version {first}, "
            f"of {from_millis(times[first])}"
        )
    if wanted > times[last]:
        raise NoSuchSnapshot(
            f"{listing.location}: {moment} is after its newest version {last}, of {from_millis(times[last])}: "
            "read the table without a time for its current state"
        )
    return max(v for v, at in times.items() if at <= wanted)
