"""Versions as commits: what each did to rows, and the files that parts of them have, in the order of the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.schema import Schema
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.pieces import batches, read_commits
from lakescan.delta.log.replay import check_partitions, located
from lakescan.delta.log.segment import LogFile
from lakescan.delta.log.text import LogText, single_actions
from lakescan.delta.log.time_travel import commit_info, moment_or_none
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.delta.scan.change_feed import ENABLED, difference
from lakescan.formats.increments import APPEND, DELETE, NOTHING, OVERWRITE, Commit, Increment, rows_of

_ROWS = r'"numRecords"\s*:\s*(?P<rows>\d+)'


@dataclass(frozen=True)
class CommitReader:
    """Reads commits of a log. Files whose path matches `exclude` are as if they were not there.

    With `feed`, for readers of changes: the table has to record them.
    """

    location: str
    reader: ActionReader
    schema: Schema
    exclude: str | None = None
    feed: bool = False

    def commits(self, files: tuple[LogFile, ...]) -> Iterator[Commit]:
        """What versions did, oldest first; some are read at a time."""
        for some in batches(files):
            texts = read_commits(some, self.reader.storage)
            actions = self.reader.changes(texts)
            added, removed = (self._data(actions, name) for name in ("add", "remove"))
            totals = [_totals(added, some), _totals(removed, some)]
            for number, text in enumerate(texts):
                yield self._commit(text, *(each[:, number].tolist() for each in totals))

    def added(self, files: tuple[LogFile, ...]) -> Iterator[pa.Table]:
        """The file actions that versions add, in their order; `path` is a location."""
        for some in batches(files):
            added = self._data(self.reader.changes(read_commits(some, self.reader.storage)), "add")
            check_partitions(added)
            yield located(added, self.location)

    def in_order(self, files: pa.Table) -> pa.Table:
        """The live files of a version, by time and path."""
        if self.exclude is not None:
            names = pc.replace_substring_regex(files["path"], f"^{re.escape(self.location.rstrip('/'))}/", "")
            files = files.filter(pc.invert(pc.match_substring_regex(names, self.exclude)))
        return files.sort_by([("modification_time", "ascending"), ("path", "ascending")])

    def _data(self, actions: pa.Table, name: str) -> pa.Table:
        """The actions of a name that change data, in the order of the log."""
        mask = pc.and_(pc.equal(actions["action"], name), actions["data_change"])
        if self.exclude is not None:
            mask = pc.and_not(mask, pc.match_substring_regex(actions["path"], self.exclude))
        return actions.filter(mask)

    def _commit(self, text: LogText, added: list[int], removed: list[int]) -> Commit:
        info = commit_info(text)
        files, rows, size = added
        change = {(True, False): APPEND, (True, True): OVERWRITE, (False, True): DELETE}.get(
            (files > 0, removed[0] > 0), NOTHING
        )
        metrics = info.get("operationMetrics")
        said = {k: str(v) for k, v in metrics.items()} if isinstance(metrics, dict) else {}
        moment = info.get("inCommitTimestamp") or info.get("timestamp")
        return Commit(
            id=text.version,
            timestamp=moment_or_none(moment),
            operation=str(info.get("operation") or "unknown"),
            change=change,
            files=files,
            rows=rows,
            size=size,
            summary=said,
            obstacle=self._obstacle(text),
        )

    def _obstacle(self, text: LogText) -> str | None:
        """How a commit changes the table so that rows are no longer those of the reader's schema."""
        for action in single_actions(text, ("protocol", "metaData")):
            if action.name == "protocol":
                Protocol.parse(action).check_readable(self.location)
                continue
            metadata = Metadata.parse(action)
            if problem := difference(metadata.schema(), self.schema):
                return f"its schema has {problem}"
            if self.feed and metadata.configuration.get(ENABLED, "false").lower() != "true":
                return f"it stops recording changes: {ENABLED} is not true any more"
        return None


class SeenCommits:
    """What commits did, each read once: what is ahead of a stream is looked at again for every batch and backlog.

    Commits before those that are asked for are forgotten, so that memory is bounded by what is ahead.
    """

    def __init__(self, reader: CommitReader) -> None:
        self.reader = reader
        self._seen: dict[int, Commit] = {}

    def commits(self, files: tuple[LogFile, ...]) -> Iterator[Commit]:
        """What versions that follow one another did, oldest first."""
        self._seen = {version: commit for version, commit in self._seen.items() if version >= files[0].version}
        known = next((place for place, file in enumerate(files) if file.version not in self._seen), len(files))
        yield from [self._seen[file.version] for file in files[:known]]
        for commit in self.reader.commits(files[known:]):
            self._seen[commit.id] = commit
            yield commit


def _totals(actions: pa.Table, files: Sequence[LogFile]) -> np.ndarray:
    """The number of files, rows and bytes of each version's actions, a row each."""
    version = actions["version"].to_numpy() - files[0].version
    place = np.searchsorted([file.version - files[0].version for file in files], version)
    counted = pc.struct_field(pc.extract_regex(pc.fill_null(actions["stats"], ""), _ROWS), "rows")
    rows = pc.fill_null(counted.cast(pa.int64()), 0).to_numpy()
    size = pc.fill_null(actions["size"], 0).to_numpy()
    found = np.zeros((3, len(files)), dtype=np.int64)
    for row, values in enumerate((np.ones(len(place), dtype=np.int64), rows, size)):
        np.add.at(found[row], place, values)
    return found


def as_inserts(files: pa.Table, version: int, milliseconds: int) -> pa.Table:
    """Live files of a version as changes: all of their rows are inserts of that version."""
    moment = pa.scalar(milliseconds, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    place = files.schema.get_field_index("version")
    files = files.set_column(place, "version", pa.repeat(pa.scalar(version, pa.int64()), files.num_rows))
    files = files.append_column("commit_timestamp", pa.repeat(moment, files.num_rows))
    return files.append_column("change_type", pa.repeat(pa.scalar("insert"), files.num_rows))


def actions_of(
    increment: Increment,
    changes: Callable[[list[int]], Iterator[pa.Table]],
    live: Callable[[int], pa.Table],
    in_order: Callable[[pa.Table], pa.Table],
) -> Iterator[pa.Table]:
    """The file actions of an increment, in an order that stays.

    `changes` gives what versions have, in the order of the log, `live` the live files of one, by time and path, and
    `in_order` puts the files of a version in the increment's own order.
    """
    for is_whole, parts in increment.runs():
        if is_whole:
            yield from changes([part.commit for part in parts])
            continue
        part = parts[0]
        found = [live(part.commit)] if part.initial else changes([part.commit])
        yield from rows_of(part, found if increment.ordered_by is None else map(in_order, found))
