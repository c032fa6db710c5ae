"""Versions by time (protocol, "In-Commit Timestamps"; and Delta's rules for file times).

A commit's time is its in-commit timestamp where the table records those, else its file's modification time, moved
forward where needed so that times ascend with versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from lakescan.delta.actions import single_actions
from lakescan.delta.log_segment import LogFile, LogListing
from lakescan.errors import CorruptMetadata, NoSuchSnapshot
from lakescan.storage import Storage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENABLED = "delta.enableInCommitTimestamps"
_SINCE = "delta.inCommitTimestampEnablementVersion"


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
    in_commit = configuration.get(_ENABLED, "false").lower() == "true"
    since = int(configuration.get(_SINCE, 0))
    for commit in commits:  # one a commit in the log
        if in_commit and commit.version >= since:
            yield commit.version, _in_commit_timestamp(commit, storage)
        else:
            yield commit.version, _modified(commit)


def _in_commit_timestamp(commit: LogFile, storage: Storage) -> int:
    info = commit_info(storage.read(commit.entry.location))
    if info.get("inCommitTimestamp") is None:
        raise CorruptMetadata(f"{commit.entry.location} has no inCommitTimestamp, which the table's metadata promises")
    return int(info["inCommitTimestamp"])


def commit_info(content: bytes) -> dict[str, Any]:
    """The commitInfo action of a commit, or nothing."""
    return dict(next((node for _, node in single_actions(content, ("commitInfo",))), {}))


def _modified(commit: LogFile) -> int:
    moment = commit.entry.modified
    return 0 if moment is None else (moment - _EPOCH) // timedelta(milliseconds=1)


def version_at(listing: LogListing, times: Mapping[int, int], moment: datetime) -> int:
    """The newest version that is not later than `moment`; `NoSuchSnapshot` before the first, and after the last."""
    wanted = (moment - _EPOCH) // timedelta(milliseconds=1)
    if not times:
        raise NoSuchSnapshot(f"{listing.location}: no commit is left in the log to look up a time in")
    first, last = min(times), max(times)
    if wanted < times[first]:
        raise NoSuchSnapshot(
            f"{listing.location}: {moment} is before its first available version {first}, of {_shown(times[first])}"
        )
    if wanted > times[last]:
        raise NoSuchSnapshot(
            f"{listing.location}: {moment} is after its newest version {last}, of {_shown(times[last])}: "
            "read the table without a time for its current state"
        )
    return max(v for v, at in times.items() if at <= wanted)


def _shown(milliseconds: int) -> str:
    return str(_EPOCH + timedelta(milliseconds=milliseconds))
