"""Increments: the files that commits add to a table, read commit by commit in portions of limited size.

A reader's position is an `Offset`: a commit, and the number of its files that were read. So one commit can be split
over several reads. The order of files is deterministic, so a restarted reader continues exactly at its offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import groupby
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.html import facts_table, section
from lakescan.planning.file_table import FileTable

F = TypeVar("F", FileTable, pa.Table)
ALL = -1  # as a number of files: all files of the commit
_NONE = np.empty(0, dtype=np.int64)


RESTART = "Restart the stream to continue with the new schema"


class CommitChange(StrEnum):
    """The effect of a commit on the table's rows.

    APPEND adds rows, NOTHING only moves rows to other files, DELETE removes rows, and OVERWRITE may replace rows.
    """

    APPEND = "append"
    NOTHING = "nothing"
    DELETE = "delete"
    OVERWRITE = "overwrite"


@dataclass(frozen=True)
class Offset:
    """The position of a reader: `files` files of `commit` (a snapshot id or version) were read.

    With `initial`, these are files of the whole table as of the commit, not only the files that the commit added. Once
    all files are read, `files` is ALL and `initial` is False, so that each position has exactly one offset.
    """

    commit: int
    files: int = ALL
    initial: bool = False

    def advance(self, read: int, count: int) -> Offset:
        """Return the offset after a total of `read` of the `count` files of the commit were read."""
        return Offset(self.commit) if read >= count else Offset(self.commit, read, self.initial)

    @property
    def is_whole(self) -> bool:
        """Whether all files of the commit were read."""
        return self.files == ALL


BEFORE = Offset(-1)  # before the first commit


@dataclass(frozen=True)
class OffsetNames:
    """The JSON keys of the fields of an `Offset`, named as in the format's own streaming source."""

    commit: str
    files: str
    initial: str


@dataclass(frozen=True)
class Commit:
    """A commit as its own metadata describes it, without its list of files.

    - `id`: the snapshot id or version. `change`: its effect on rows.
    - `files`, `rows`, `size` (bytes): totals of the added files; None if not recorded.
    - `obstacle`: why a stream cannot read past this commit (such as a changed schema), and what to do; None if it can.
    """

    id: int
    timestamp: datetime | None
    operation: str
    change: CommitChange
    files: int | None = None
    rows: int | None = None
    size: int | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    obstacle: str | None = None

    def describe(self) -> str:
        """Return the commit as text for messages: id, operation, time and summary."""
        summary = ", ".join(f"{k}={v}" for k, v in sorted(self.summary.items()))
        time = f" at {self.timestamp}" if self.timestamp else ""
        return f"{self.id} ({self.operation}{time}{f'; {summary}' if summary else ''})"


@dataclass(frozen=True)
class Backlog:
    """Totals of the commits that a stream has not begun to read. The rest of a partly read commit is not counted.

    Attributes:
        commits: The number of commits.
        files: The number of data files that they added.
        rows: The number of rows in these files.
        bytes: The size of these files.
    """

    commits: int
    files: int
    rows: int
    bytes: int

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the totals."""
        return section("Backlog", facts_table({name: f"{value:,}" for name, value in vars(self).items()}))


@dataclass(frozen=True)
class CommitPart:
    """A range of the files of one commit to read, from number `first` (inclusive) to `stop` (exclusive, or ALL).

    If `initial`, the range is of the files of the whole table as of the commit, else of the files that the commit adds.
    `ordinal` is the position of the commit among the commits to read.
    """

    commit: int
    first: int = 0
    stop: int = ALL
    initial: bool = False
    ordinal: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the range covers all files of the commit."""
        return self.first == 0 and self.stop == ALL


@dataclass(frozen=True)
class IncrementLimits:
    """The limits of one read: files, rows, bytes (`size`) and commits; None for no limit.

    At least one file is always read, so that the reader makes progress.
    """

    files: int | None = None
    rows: int | None = None
    size: int | None = None
    commits: int | None = None


@dataclass(frozen=True)
class Increment:
    """The commits, or ranges of their files, to read in order (`parts`).

    - `exclude`: a regular expression; files with a matching path are ignored.
    - `changes`: whether removed rows are read, too; then every row has a change type.
    - `ordered_by`: the id of the column whose lower bounds order the files of a commit; None for the commit's own
      order.
    """

    parts: tuple[CommitPart, ...]
    exclude: str | None = None
    changes: bool = False
    ordered_by: int | None = None

    def runs(self) -> Iterator[tuple[bool, list[CommitPart]]]:
        """Group the parts into runs that are read together, in order.

        Yields (True, consecutive whole commits), or (False, one part that is a range of files, initial, or ordered by
        bounds).
        """
        for is_whole, parts in groupby(self.parts, key=lambda each: each.is_whole and not each.initial):
            if is_whole and self.ordered_by is None:
                yield True, list(parts)
            else:
                yield from ((False, [part]) for part in parts)


class Budget:
    """Counts how much of its limits one read has used, and how much fits into the rest."""

    def __init__(self, limits: IncrementLimits) -> None:
        self._limits = (limits.files, limits.rows, limits.size)
        self._max_commits = limits.commits
        self._used: tuple[int, ...] = (0, 0, 0)  # files, rows, bytes
        self._commits = 0

    def take_commit(self, commit: Commit, *, at_least: bool = False) -> bool:
        """Take a whole commit if its recorded totals fit the limits; return whether it was taken.

        With `at_least`, it is taken whatever its size. A commit that lacks a total that a limit needs is not taken.
        """
        totals = (commit.files, commit.rows, commit.size)
        limits = (None, None, None) if at_least else self._limits
        if any(limit is not None and value is None for value, limit in zip(totals, limits, strict=True)):
            return False
        used = tuple(have + (value or 0) for have, value in zip(self._used, totals, strict=True))
        if any(limit is not None and value > limit for value, limit in zip(used, limits, strict=True)):
            return False
        if self._commits == self._max_commits:
            return False
        self._used, self._commits = used, self._commits + 1
        return True

    def take_files(self, files: Iterable[tuple[pa.ChunkedArray, pa.ChunkedArray]], start: int) -> tuple[int, int]:
        """Take as many files of a commit as fit, from number `start`.

        Returns the number of files taken, and the number of all files. `files` has the columns (bytes, rows) of all
        files of the commit, in order. The first file of a read is taken whatever its size.
        """
        listed = [[pc.fill_null(values, 0).to_numpy() for values in each] for each in files]
        size, rows = (np.concatenate([_NONE, *(each[i] for each in listed)]) for i in (0, 1))
        count = len(size)
        if self._commits == self._max_commits:
            return 0, count
        values = (np.ones(count - start, dtype=np.int64), rows[start:], size[start:])
        taken = count - start
        for used, value, limit in zip(self._used, values, self._limits, strict=True):
            if limit is not None:
                taken = min(taken, int(np.searchsorted(used + np.cumsum(value), limit, side="right")))
        if not any(self._used):
            taken = max(taken, min(1, count - start))
        self._used = tuple(used + int(v[:taken].sum()) for used, v in zip(self._used, values, strict=True))
        self._commits += 1
        return taken, count


def order_by_lower_bound(lower: pa.Array | None, count: int) -> pa.Array:
    """Return the numbers of `count` files, ordered by a column's lower bounds; files without bounds come first.

    A file without a bound may have any value. If `lower` is None, the order is unchanged.
    """
    if lower is None:
        return pa.array(np.arange(count))
    return pc.array_sort_indices(lower, null_placement="at_start")  # stable: equal bounds keep their order


def files_of_part(part: CommitPart, tables: Iterable[F]) -> Iterator[F]:
    """Yield the files of a part as file tables, given the tables of all files of its commit, in order."""
    start = 0
    for table in tables:
        index = np.arange(start, start + len(table))
        start += len(table)
        mask = index >= part.first
        if part.stop != ALL:
            mask &= index < part.stop
        if mask.any():
            yield table if mask.all() else table.filter(pa.array(mask))
