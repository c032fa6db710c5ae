"""The newest states of logs that this process has read: a table that is opened again reads only newer commits.

A state is known by the segment that it was read from. Commits never change, so a later segment of the same log has the
known state and the commits after it. It is of the same log if the files that both have are of one size and time, the
known segment's last commit among them: another table in the folder has written other files. A commit that a catalog
has ratified is the same before and after it is published.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakescan.common.cache import Kind, table_size
from lakescan.delta.log.segment import LogFile, LogSegment, commits_between
from lakescan.storage import Storage

_MOST_LOOKED_UP = 128  # commits before a newer checkpoint


@dataclass(frozen=True)
class KnownFiles:
    """The live files of a version."""

    segment: LogSegment
    files: pa.Table


LIVE_FILES: Kind[KnownFiles] = Kind("live files of Delta tables", lambda known: table_size(known.files))


def commits_after(known: LogSegment, segment: LogSegment, storage: Storage) -> tuple[LogFile, ...] | None:
    """The commits of a segment that a known one lacks; None if it may be another log, or goes back further.

    Commits that a newer checkpoint has replaced are looked up by name.
    """
    if known.version > segment.version or known.location != segment.location:
        return None
    if known.checkpoint == segment.checkpoint and not known.commits:
        return segment.commits
    if not known.commits:
        return None
    last, start = known.commits[-1], segment.checkpoint.version if segment.checkpoint is not None else -1
    commits = segment.commits
    if last.version <= start:
        if start - last.version > _MOST_LOOKED_UP:
            return None
        commits = (*commits_between(segment.location, last.version, start, storage), *commits)
    first = segment.version + 1 - len(commits)
    place = last.version - first
    if not 0 <= place < len(commits) or last.entry.modified is None:
        return None
    shared = min(place + 1, len(known.commits))
    pairs = zip(commits[place + 1 - shared : place + 1], known.commits[-shared:], strict=True)
    is_same = all(one.is_same(other) for one, other in pairs)
    return commits[place + 1 :] if is_same else None


def is_older(segment: LogSegment, known: LogSegment) -> bool:
    """Whether a segment is an earlier one of the same log, which is not worth to be known instead."""
    return segment.version < known.version and bool(segment.commits) and segment.commits[-1] in known.commits
