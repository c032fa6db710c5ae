"""Versions as commits of a stream, and the snapshot states of a scan: rows of a version, changes, or increments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.schema import Schema
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.log_pieces import batches, read_commits
from lakescan.delta.log.log_text import LogText, single_actions
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.log.replay import check_partitions, resolve_paths
from lakescan.delta.log.segment import LogFile
from lakescan.delta.log.time_travel import commit_info, timestamp_or_none
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.delta.scan.change_feed import ENABLED, difference
from lakescan.formats.increments import RESTART, Commit, CommitChange, Increment, files_of_part
from lakescan.formats.table_format import SnapshotState

# The kind of change that a commit makes, by whether it adds files and whether it removes files.
_CHANGES = {
    (True, False): CommitChange.APPEND,
    (True, True): CommitChange.OVERWRITE,
    (False, True): CommitChange.DELETE,
    (False, False): CommitChange.NOTHING,
}
_ROWS = r'"numRecords"\s*:\s*(?P<rows>\d+)'


@dataclass(frozen=True)
class DeltaCommitReader:
    """Reads the commits of a log for a stream.

    - `schema`: the stream's columns; a commit that makes them unreadable gets an `obstacle`, the reason to stop there.
    - `exclude`: a regular expression; files whose path matches it are ignored.
    - `feed`: whether it is a stream of changes. Then commits that stop recording changes are obstacles, too.
    """

    location: str
    reader: ActionReader
    schema: Schema
    exclude: str | None = None
    feed: bool = False

    def commits(self, files: tuple[LogFile, ...]) -> Iterator[Commit]:
        """Read the commits of these versions, oldest first, in batches."""
        for batch in batches(files):
            texts = read_commits(batch, self.reader.storage)
            actions = self.reader.changes(texts)
            added, removed = (self._data(actions, name) for name in ("add", "remove"))
            totals = [_totals(added, batch), _totals(removed, batch)]
            for number, text in enumerate(texts):
                yield self._commit(text, *(each[:, number].tolist() for each in totals))

    def read_adds(self, files: tuple[LogFile, ...]) -> Iterator[pa.Table]:
        """Yield the adds of these versions that change data, in log order; `path` is a location."""
        for batch in batches(files):
            added = self._data(self.reader.changes(read_commits(batch, self.reader.storage)), "add")
            check_partitions(added)
            yield resolve_paths(added, self.location)

    def sort_live_files(self, files: pa.Table) -> pa.Table:
        """Return live files without excluded ones, sorted by modification time and path."""
        if self.exclude is not None:
            names = pc.replace_substring_regex(files["path"], f"^{re.escape(self.location.rstrip('/'))}/", "")
            files = files.filter(pc.invert(pc.match_substring_regex(names, self.exclude)))
        return files.sort_by([("modification_time", "ascending"), ("path", "ascending")])

    def _data(self, actions: pa.Table, name: str) -> pa.Table:
        """Return the actions of this name that change data, without excluded files, in log order."""
        mask = pc.and_(pc.equal(actions["action"], name), actions["data_change"])
        if self.exclude is not None:
            mask = pc.and_not(mask, pc.match_substring_regex(actions["path"], self.exclude))
        return actions.filter(mask)

    def _commit(self, text: LogText, added: list[int], removed: list[int]) -> Commit:
        info = commit_info(text)
        files, rows, size = added
        change = _CHANGES[files > 0, removed[0] > 0]
        metrics = info.get("operationMetrics")
        summary = {k: str(v) for k, v in metrics.items()} if isinstance(metrics, dict) else {}
        milliseconds = info.get("inCommitTimestamp") or info.get("timestamp")
        return Commit(
            id=text.version,
            timestamp=timestamp_or_none(milliseconds),
            operation=str(info.get("operation") or "unknown"),
            change=change,
            files=files,
            rows=rows,
            size=size,
            summary=summary,
            obstacle=self._obstacle(text),
        )

    def _obstacle(self, text: LogText) -> str | None:
        """Return why the stream cannot read past this commit with its schema, or None if it can.

        Raises `UnsupportedFeature` if the commit upgrades the table to an unsupported protocol.
        """
        for action in single_actions(text, ("protocol", "metaData")):
            if action.name == "protocol":
                Protocol.parse(action).check_readable(self.location)
                continue
            metadata = Metadata.parse(action)
            if problem := difference(metadata.schema(), self.schema):
                return f"its schema has {problem}. {RESTART}"
            if self.feed and not metadata.properties.change_feed:
                return (
                    f"it stops recording changes: {ENABLED} is no longer true. Set it to true, and start another "
                    "stream, with another checkpoint, at the version that does so"
                )
        return None


class SeenCommits:
    """Cache of commits, for a stream that examines all commits ahead of it for every batch and backlog.

    Each commit is read once. Commits before the first one requested are dropped, so memory is bounded by the commits
    ahead.
    """

    def __init__(self, reader: DeltaCommitReader) -> None:
        self.reader = reader
        self._seen: dict[int, Commit] = {}
        self._start: tuple[int, str | None] | None = None

    def start_obstacle(self, version: int, look: Callable[[], str | None]) -> str | None:
        """Return the obstacle of a stream's first version, which `look` finds, or None.

        `look` is called again only for an earlier version or after an obstacle. For later versions, returns None: their
        obstacles are found in the commits.
        """
        if self._start is None or version < self._start[0] or self._start[1] is not None:
            self._start = version, look()
        return self._start[1] if version == self._start[0] else None

    def commits(self, files: tuple[LogFile, ...]) -> Iterator[Commit]:
        """Yield the commits of consecutive versions, oldest first."""
        self._seen = {version: commit for version, commit in self._seen.items() if version >= files[0].version}
        known = next((place for place, file in enumerate(files) if file.version not in self._seen), len(files))
        yield from [self._seen[file.version] for file in files[:known]]
        for commit in self.reader.commits(files[known:]):
            self._seen[commit.id] = commit
            yield commit


def _totals(actions: pa.Table, files: Sequence[LogFile]) -> np.ndarray:
    """Return the number of files, rows and bytes of each version's actions, as an array of 3 x versions.

    `files` are the commits of the versions.
    """
    version = actions["version"].to_numpy() - files[0].version
    place = np.searchsorted([file.version - files[0].version for file in files], version)
    counted = pc.struct_field(pc.extract_regex(pc.fill_null(actions["stats"], ""), _ROWS), "rows")
    rows = pc.fill_null(counted.cast(pa.int64()), 0).to_numpy()
    size = pc.fill_null(actions["size"], 0).to_numpy()
    totals = np.zeros((3, len(files)), dtype=np.int64)
    for row, values in enumerate((np.ones(len(place), dtype=np.int64), rows, size)):
        np.add.at(totals[row], place, values)
    return totals


def as_inserts(files: pa.Table, version: int, milliseconds: int) -> pa.Table:
    """Return live files as changes: all rows are inserts of `version`, committed at `milliseconds` since 1970."""
    committed = pa.scalar(milliseconds, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    place = files.schema.get_field_index("version")
    files = files.set_column(place, "version", pa.repeat(pa.scalar(version, pa.int64()), files.num_rows))
    files = files.append_column("commit_timestamp", pa.repeat(committed, files.num_rows))
    return files.append_column("change_type", pa.repeat(pa.scalar("insert"), files.num_rows))


def actions_of(
    increment: Increment,
    changes: Callable[[list[int]], Iterator[pa.Table]],
    live: Callable[[int], pa.Table],
    in_order: Callable[[pa.Table], pa.Table],
) -> Iterator[pa.Table]:
    """Yield the file actions of an increment, in a deterministic order.

    `changes` returns the file actions of versions in log order, `live` the live files of one version by modification
    time and path, and `in_order` sorts a version's files by the increment's `ordered_by`.
    """
    for is_whole, parts in increment.runs():
        if is_whole:
            yield from changes([part.commit for part in parts])
            continue
        part = parts[0]
        tables = [live(part.commit)] if part.initial else changes([part.commit])
        yield from files_of_part(part, tables if increment.ordered_by is None else map(in_order, tables))


@dataclass(frozen=True)
class VersionRows(SnapshotState):
    """Snapshot state: the live files of a version."""

    version: DeltaVersion


@dataclass(frozen=True)
class RangeChanges(SnapshotState):
    """Snapshot state: the change feed of versions `start` to `end`, both inclusive; empty if `end` is before `start`.

    Rows have the schema of `version`.
    """

    version: DeltaVersion
    start: int
    end: int

    @property
    def is_ordered(self) -> bool:
        """Always True: the changes of the oldest commit come first."""
        return True


@dataclass(frozen=True)
class IncrementState(SnapshotState):
    """Snapshot state: the files of an increment, a batch of a stream.

    `of` is the state that the stream reads: if it is `VersionRows`, the increment has added rows, else recorded
    changes.
    """

    of: VersionRows | RangeChanges
    increment: Increment

    @property
    def version(self) -> DeltaVersion:
        """The version whose schema the rows have."""
        return self.of.version

    @property
    def is_ordered(self) -> bool:
        """Always True: the rows of the oldest commit come first."""
        return True


DeltaState = VersionRows | RangeChanges | IncrementState


def whole_state(state: DeltaState) -> VersionRows | RangeChanges:
    """Return the state without the restriction to an increment."""
    return state.of if isinstance(state, IncrementState) else state


def is_feed(state: DeltaState) -> bool:
    """Return whether the rows of a state are recorded changes."""
    return isinstance(whole_state(state), RangeChanges)
